//! What a run comes to: the verdict, our exit code and the reasons. Pure.
//!
//! The child's own end is kept beside it, so that its own 4 is never mistaken for ours.

use crate::evidence;
use crate::exit::Exit;

use super::signals;

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChildEnd {
    /// It exited with this code.
    Exited(u8),
    /// This signal ended it.
    Signalled(i32),
    /// `--timeout` passed, and we ended it.
    TimedOut,
}

impl ChildEnd {
    /// As the evidence has it.
    pub fn to_outcome(self) -> evidence::Outcome {
        match self {
            Self::Exited(code) => evidence::Outcome::ExitCode(code),
            Self::Signalled(number) => evidence::Outcome::Signal(signals::name_of(number)),
            Self::TimedOut => evidence::Outcome::Timeout,
        }
    }

    fn to_exit(self) -> Exit {
        match self {
            Self::Exited(code) => Exit::Child(code),
            Self::Signalled(number) => Exit::ChildSignal(number as u8),
            Self::TimedOut => Exit::TimedOut,
        }
    }
}

/// Why the command did not start; each with a sentence that says more.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotStarted {
    /// It was found but could not be executed.
    NotExecutable(String),
    /// The policy forbids to run it.
    Forbidden(String),
    /// It was not found.
    NotFound(String),
    /// We failed before it started.
    Failed(String),
    /// We refused to start it.
    Refused(String),
    /// `--fail-closed`, and these cannot be held: a sentence each, and there is at least one.
    Unenforceable(Vec<String>),
}

impl NotStarted {
    /// The sentences, one fact each.
    pub fn texts(&self) -> &[String] {
        match self {
            Self::NotExecutable(text)
            | Self::Forbidden(text)
            | Self::NotFound(text)
            | Self::Failed(text)
            | Self::Refused(text) => std::slice::from_ref(text),
            Self::Unenforceable(texts) => texts,
        }
    }

    fn to_decision(&self) -> (Verdict, Exit) {
        match self {
            Self::NotExecutable(_) => (Verdict::Failed, Exit::NotExecutable),
            Self::Forbidden(_) => (Verdict::Denied, Exit::NotExecutable),
            Self::NotFound(_) => (Verdict::Failed, Exit::NotFound),
            Self::Failed(_) => (Verdict::Failed, Exit::Failed),
            Self::Refused(_) | Self::Unenforceable(_) => (Verdict::Refused, Exit::Refused),
        }
    }
}

/// Everything that decides what a run comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// How the command ended; `None` when it did not start.
    pub child: Option<ChildEnd>,
    /// Why the command did not start.
    pub not_started: Option<NotStarted>,
    /// Our own failures after the start.
    pub failures: Vec<String>,
    /// Artifacts that were asked for and could not be written.
    pub unwritten: Vec<String>,
    /// Why the record is not whole: events lost, or none seen where a record was asked for.
    pub losses: Vec<String>,
    /// `--fail-closed` was given.
    pub is_fail_closed: bool,
    /// `--dry-run` was given.
    pub is_dry_run: bool,
    /// How many effects the policy does not authorise and nothing stopped.
    pub unauthorised: u64,
    /// How many effects were denied by the policy.
    pub denied: u64,
}

/// One word for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing to say.
    Ok,
    /// The policy stopped something.
    Denied,
    /// Something happened that the policy does not authorise.
    Unauthorised,
    /// The record is not whole.
    Incomplete,
    /// The command was not started, on purpose.
    Refused,
    /// The command could not be started, or we failed.
    Failed,
}

impl Verdict {
    /// Every verdict, in order.
    pub const ALL: [Self; 6] =
        [Self::Ok, Self::Denied, Self::Unauthorised, Self::Incomplete, Self::Refused, Self::Failed];

    /// The word in every format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Unauthorised => "unauthorised",
            Self::Incomplete => "incomplete",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// What a run comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// One word.
    pub verdict: Verdict,
    /// Our exit code.
    pub exit: Exit,
    /// One sentence each; empty when the verdict is `ok`.
    pub reasons: Vec<String>,
}

impl Default for Decision {
    /// Nothing was decided yet: whoever stops here has failed.
    fn default() -> Self {
        Self { verdict: Verdict::Failed, exit: Exit::Failed, reasons: Vec::new() }
    }
}

/// Decides. Where several codes apply it is the first of 2, 126 or 127, 125, 3, 124, 4, the child's.
pub fn decide(ending: &Ending) -> Decision {
    let reasons = reasons(ending);
    let decided = |verdict, exit| Decision { verdict, exit, reasons };
    if let Some(not_started) = &ending.not_started {
        let (verdict, exit) = not_started.to_decision();
        return decided(verdict, exit);
    }
    let Some(child) = ending.child else { return decided(Verdict::Failed, Exit::Failed) };
    if !ending.failures.is_empty() {
        return decided(Verdict::Failed, Exit::Failed);
    }
    let is_whole = ending.losses.is_empty();
    if !ending.unwritten.is_empty() || ending.is_fail_closed && !is_whole {
        return decided(Verdict::Incomplete, Exit::Incomplete);
    }
    let verdict = match () {
        () if ending.unauthorised > 0 => Verdict::Unauthorised,
        () if ending.denied > 0 => Verdict::Denied,
        () if !is_whole => Verdict::Incomplete,
        () => Verdict::Ok,
    };
    let is_exit_ours = child != ChildEnd::TimedOut && ending.is_dry_run && ending.unauthorised > 0;
    decided(verdict, if is_exit_ours { Exit::Unauthorised } else { child.to_exit() })
}

fn reasons(ending: &Ending) -> Vec<String> {
    let mut reasons: Vec<String> = ending.not_started.iter().flat_map(|why| why.texts().to_vec()).collect();
    reasons.extend(ending.failures.iter().cloned());
    reasons.extend(ending.unwritten.iter().cloned());
    reasons.extend(ending.losses.iter().cloned());
    if ending.child == Some(ChildEnd::TimedOut) {
        reasons.push("the command was ended because its time was over".into());
    }
    let counted = |count: u64, what: &str| match count {
        0 => None,
        1 => Some(format!("1 effect {what}")),
        many => Some(format!("{many} effects {what}")),
    };
    reasons.extend(counted(ending.unauthorised, "that the policy does not authorise"));
    reasons.extend(counted(ending.denied, "denied by the policy"));
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "each case is made where it is checked")]
    fn check(ending: Ending, verdict: Verdict, code: u8) {
        let decision = decide(&ending);
        assert_eq!((decision.verdict, decision.exit.code()), (verdict, code), "{ending:?}");
        assert_eq!(decision.verdict == Verdict::Ok && code == 0, decision.reasons.is_empty(), "{decision:?}");
    }

    fn ran() -> Ending {
        Ending { child: Some(ChildEnd::Exited(0)), ..Ending::default() }
    }

    fn one(text: &str) -> Vec<String> {
        vec![text.to_owned()]
    }

    #[test]
    fn each_code_has_its_case() {
        check(ran(), Verdict::Ok, 0);
        check(Ending { child: Some(ChildEnd::Signalled(15)), denied: 1, ..ran() }, Verdict::Denied, 143);
        check(Ending { child: Some(ChildEnd::Exited(9)), denied: 2, ..ran() }, Verdict::Denied, 9);
        check(Ending { child: Some(ChildEnd::TimedOut), denied: 1, ..ran() }, Verdict::Denied, 124);
        check(Ending { unauthorised: 1, is_dry_run: true, ..ran() }, Verdict::Unauthorised, 4);
        check(Ending { unauthorised: 1, ..ran() }, Verdict::Unauthorised, 0);
        check(Ending { unwritten: one("x"), ..ran() }, Verdict::Incomplete, 3);
        check(Ending { losses: one("x"), is_fail_closed: true, ..ran() }, Verdict::Incomplete, 3);
        check(Ending { losses: one("x"), ..ran() }, Verdict::Incomplete, 0);
        check(Ending { failures: one("x"), ..ran() }, Verdict::Failed, 125);
        let not_started = |why| Ending { not_started: Some(why), ..Ending::default() };
        check(not_started(NotStarted::NotFound("x".into())), Verdict::Failed, 127);
        check(not_started(NotStarted::NotExecutable("x".into())), Verdict::Failed, 126);
        check(not_started(NotStarted::Forbidden("x".into())), Verdict::Denied, 126);
        check(not_started(NotStarted::Failed("x".into())), Verdict::Failed, 125);
        check(not_started(NotStarted::Refused("x".into())), Verdict::Refused, 2);
        let unheld = vec!["a".to_owned(), "b".to_owned()];
        check(not_started(NotStarted::Unenforceable(unheld.clone())), Verdict::Refused, 2);
        assert_eq!(decide(&not_started(NotStarted::Unenforceable(unheld.clone()))).reasons, unheld);
    }

    /// Every pair of conditions: the one that stands first in the contract's list wins.
    #[test]
    fn the_first_that_applies_wins() {
        type Apply = fn(&mut Ending);
        let conditions: [(u8, Apply); 8] = [
            (2, |e| e.not_started = Some(NotStarted::Refused("x".into()))),
            (127, |e| e.not_started = Some(NotStarted::NotFound("x".into()))),
            (125, |e| e.failures = vec!["x".into()]),
            (3, |e| e.unwritten = vec!["x".into()]),
            (3, |e| {
                e.losses = vec!["x".into()];
                e.is_fail_closed = true;
            }),
            (124, |e| e.child = Some(ChildEnd::TimedOut)),
            (4, |e| {
                e.is_dry_run = true;
                e.unauthorised = 1;
            }),
            (77, |e| {
                if e.child == Some(ChildEnd::Exited(0)) {
                    e.child = Some(ChildEnd::Exited(77));
                }
            }),
        ];
        for (first, (code, apply_first)) in conditions.iter().enumerate() {
            for (_, apply_second) in &conditions[first..] {
                let mut ending = ran();
                apply_second(&mut ending);
                apply_first(&mut ending);
                assert_eq!(decide(&ending).exit.code(), *code, "{ending:?}");
            }
        }
    }
}
