//! Which runs are asked for. Pure.

use super::entry::{Body, Entry};
use crate::evidence::timestamp::Timestamp;

/// Whose runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// Of the user with this id.
    Id(u32),
    /// Of the user with this name, as the entries have it.
    Name(String),
}

/// What is asked for: all of it must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Whose.
    pub user: Option<Whose>,
    /// Written then or later.
    pub since: Option<Timestamp>,
    /// Written before then.
    pub until: Option<Timestamp>,
    /// This is in the words of the command, joined by spaces.
    pub command: Option<String>,
    /// What was decided; `lost` for runs whose writer died.
    pub verdict: Option<String>,
    /// The reason or the component of a degradation.
    pub degradation: Option<String>,
    /// The run id.
    pub run_id: Option<String>,
    /// An effect on this path, or on one beneath it; or a program of this path.
    pub path: Option<String>,
    /// A connection to this host, by the name or the address it is told by.
    pub host: Option<String>,
}

impl Query {
    /// Whether the names are asked about that stand in the bundles, not in the chain.
    pub fn asks_for_names(&self) -> bool {
        self.path.is_some() || self.host.is_some()
    }

    /// Whether an entry tells a run that this asks for, as far as the entry itself says it.
    pub fn takes(&self, entry: &Entry) -> bool {
        if entry.body.place().is_none() {
            return false;
        }
        let run = match &entry.body {
            Body::Run(run) => Some(&run.summary),
            Body::Lost(_) | Body::Begun | Body::BegunAnew { .. } | Body::Collected(_) | Body::Torn(_) => None,
        };
        let user = entry.body.user();
        let is_whose = |whose: &Whose| match whose {
            Whose::Id(uid) => user.is_some_and(|user| user.uid == *uid),
            Whose::Name(name) => user.is_some_and(|user| user.name.as_ref() == Some(name)),
        };
        let has_degradation = |word: &String| {
            let degradations = run.map(|run| run.degradations.as_slice()).unwrap_or_default();
            degradations.iter().any(|one| one.reason == *word || one.component.as_str() == word)
        };
        let is_of_id = |id: &String| run.is_some_and(|run| run.run_id.as_ref() == Some(id));
        let has_command =
            |text: &String| entry.body.command().is_some_and(|words| words.join(" ").contains(text.as_str()));
        self.user.as_ref().is_none_or(is_whose)
            && self.since.is_none_or(|since| entry.time >= since)
            && self.until.is_none_or(|until| entry.time < until)
            && self.command.as_ref().is_none_or(has_command)
            && self.verdict.as_deref().is_none_or(|verdict| entry.body.verdict() == Some(verdict))
            && self.degradation.as_ref().is_none_or(has_degradation)
            && self.run_id.as_ref().is_none_or(is_of_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canon::digest::Digest;
    use crate::evidence::{Component, Degradation};
    use crate::spool::entry::{Collected, Files, Lost, Run, Summary, User, Why};

    fn entry(body: Body) -> Entry {
        Entry { seq: 1, prev: Digest::of(b""), time: Timestamp::new(1000).unwrap(), body }
    }

    fn run() -> Entry {
        entry(Body::Run(Box::new(Run {
            user: User { uid: 7, name: Some("ann".into()) },
            begun_at: Timestamp::new(900).unwrap(),
            directory: "d".into(),
            files: Files::new(),
            summary: Summary {
                command: vec!["make".into(), "test".into()],
                verdict: "denied".into(),
                run_id: Some("sandbox_0123456789abcdef".into()),
                degradations: vec![Degradation::about(Component::Net, "tcp-not-held", "x")],
                ..Summary::default()
            },
        })))
    }

    #[test]
    fn all_that_is_asked_must_hold() {
        let check = |change: &dyn Fn(&mut Query), expect: bool| {
            let mut query = Query::default();
            change(&mut query);
            assert_eq!(query.takes(&run()), expect, "{query:?}");
            query.user = Some(Whose::Id(8));
            assert!(!query.takes(&run()), "{query:?}");
        };
        let moment = |seconds| Timestamp::new(seconds);
        check(&|_| {}, true);
        check(&|query| query.since = moment(1000), true);
        check(&|query| query.since = moment(1001), false);
        check(&|query| query.until = moment(1001), true);
        check(&|query| query.until = moment(1000), false);
        check(&|query| query.command = Some("ke te".into()), true);
        check(&|query| query.command = Some("make  test".into()), false);
        check(&|query| query.verdict = Some("denied".into()), true);
        check(&|query| query.verdict = Some("lost".into()), false);
        check(&|query| query.degradation = Some("tcp-not-held".into()), true);
        check(&|query| query.degradation = Some("net".into()), true);
        check(&|query| query.degradation = Some("fs".into()), false);
        check(&|query| query.run_id = Some("sandbox_0123456789abcdef".into()), true);
        check(&|query| query.run_id = Some("sandbox_0123456789abcde".into()), false);
        let of = |whose| Query { user: Some(whose), ..Query::default() };
        assert!(of(Whose::Name("ann".into())).takes(&run()) && of(Whose::Id(7)).takes(&run()));
        assert!(!of(Whose::Name("an".into())).takes(&run()));
    }

    #[test]
    fn only_runs_are_taken_and_those_that_were_lost_are() {
        let lost = Lost { begun: None, directory: "d".into(), files: Files::new(), not_whole: vec![] };
        let lost = entry(Body::Lost(Box::new(lost)));
        let query = |verdict: &str| Query { verdict: Some(verdict.into()), ..Query::default() };
        assert!(Query::default().takes(&lost) && query("lost").takes(&lost) && !query("ok").takes(&lost));
        let collected = Body::Collected(Collected { runs: vec![1], bytes: 0, why: Why::KeepDays(1) });
        for body in [Body::Begun, Body::BegunAnew { found: 1 }, collected] {
            assert!(!Query::default().takes(&entry(body)));
        }
    }
}
