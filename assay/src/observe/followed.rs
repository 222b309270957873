//! Links that were followed after the call that met them: whether the run changed one of them meanwhile. Pure.

use super::event::{Event, EventKind, Followed};
use super::observation::{Act, CallResult, FileOp, PairOp};

/// An act is told when it returns: it may have done what it did so much earlier.
const SLACK_NS: u64 = 1_000_000;

/// The links that may have been changed before they were read.
#[derive(Debug, Clone, Default)]
pub struct FollowedLinks {
    latest: Vec<Followed>,
}

impl FollowedLinks {
    /// Takes those of one event, and forgets what was read long before it.
    pub fn take(&mut self, event: &Event) {
        if let EventKind::Call(call) = &event.kind {
            self.latest.extend([&call.a, &call.b].into_iter().filter_map(|path| path.followed.clone()));
        }
        self.latest.retain(|followed| followed.t_ns + SLACK_NS >= event.t_ns);
    }

    /// The link that an act, which ended after the event that met it, may have changed before it was read.
    pub fn changed_by(&mut self, act: &Act, result: CallResult) -> Option<Vec<u8>> {
        if self.latest.is_empty() || result != CallResult::Ok {
            return None;
        }
        let names = match act {
            Act::File(file) if matches!(file.op, FileOp::Unlink) => [Some(&file.path), None],
            Act::Pair(pair) if pair.op == PairOp::Rename => [Some(&pair.path), Some(&pair.to)],
            Act::Pair(pair) if pair.op == PairOp::Symlink => [Some(&pair.path), None],
            Act::Pair(pair) if pair.op == PairOp::Link => [Some(&pair.to), None],
            _ => return None,
        };
        let mut links = self.latest.iter().flat_map(|followed| &followed.links);
        links.find(|link| names.iter().flatten().any(|name| is_at_or_beneath(link, &name.bytes))).cloned()
    }
}

fn is_at_or_beneath(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::event::{Call, Doubt, PathArg};
    use crate::observe::observation::{PairAct, PathRef};
    use assay_common::calls::Op;

    const READ_AT: u64 = 50_000_000;

    fn event(t_ns: u64, links: &[&str]) -> Event {
        let links = links.iter().map(|link| link.as_bytes().to_vec()).collect();
        let a = PathArg { followed: Some(Followed { t_ns: READ_AT, links }), ..PathArg::default() };
        Event {
            t_ns,
            run: 1,
            pid: 7,
            tid: 7,
            comm: Vec::new(),
            is_outside: false,
            has_overflowed: false,
            doubt: Doubt::None,
            repeat: None,
            kind: EventKind::Call(Call { a, ..Call::bare(Op::Open, -2) }),
        }
    }

    fn pair(op: PairOp, path: &str, to: &str) -> Act {
        Act::Pair(PairAct {
            op,
            path: PathRef::resolved(path),
            to: PathRef::resolved(to),
            requested: (None, None),
            is_exchange: false,
        })
    }

    fn check(act: &Act, result: CallResult, at: u64, expect: Option<&str>) {
        let mut followed = FollowedLinks::default();
        followed.take(&event(READ_AT - 5, &["/w/l", "/w/d/m"]));
        let mut other = event(at, &[]);
        other.kind = EventKind::Exit { status: 0 };
        followed.take(&other);
        let changed = followed.changed_by(act, result);
        assert_eq!(changed.as_deref(), expect.map(str::as_bytes), "{act:?} {at}");
    }

    #[test]
    fn a_link_that_was_changed_before_it_was_read_is_known() {
        let (ok, soon) = (CallResult::Ok, READ_AT - 1);
        check(&pair(PairOp::Rename, "/w/new", "/w/l"), ok, soon, Some("/w/l"));
        check(&pair(PairOp::Rename, "/w/l", "/w/old"), ok, soon, Some("/w/l"));
        check(&pair(PairOp::Rename, "/w/d", "/w/e"), ok, soon, Some("/w/d/m"));
        check(&pair(PairOp::Symlink, "/w/l", "x"), ok, soon, Some("/w/l"));
        check(&pair(PairOp::Link, "/w/x", "/w/l"), ok, soon, Some("/w/l"));
        // An act is told when it returns, and was done before.
        check(&pair(PairOp::Rename, "/w/new", "/w/l"), ok, READ_AT + 10, Some("/w/l"));
    }

    #[test]
    fn other_names_other_times_and_what_failed_do_not_matter() {
        let (ok, soon) = (CallResult::Ok, READ_AT - 1);
        check(&pair(PairOp::Rename, "/w/x", "/w/ll"), ok, soon, None);
        check(&pair(PairOp::Symlink, "/w/y", "/w/l"), ok, soon, None);
        check(&pair(PairOp::Link, "/w/l", "/w/x"), ok, soon, None);
        check(&pair(PairOp::Symlink, "/w/l", "x"), CallResult::Errno(17), soon, None);
        check(&pair(PairOp::Rename, "/w/new", "/w/l"), ok, READ_AT + SLACK_NS + 1, None);
    }
}
