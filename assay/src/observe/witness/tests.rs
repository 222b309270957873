use assay_common::calls::Op;

use super::*;
use crate::observe::event::{Bytes, Call, Chain, ChainEnd, Doubt, EventKind, ReadState, WalkEnd};
use crate::observe::observation::{
    Access, Act, CallResult, ExecAct, FileAct, FileKind, FileOp, PairAct, PairOp, PathRef, PathState,
};
use assay_common::record::FileFacts;

/// When the command starts.
const START: u64 = 1000;
const PID: u32 = 7;

fn event(t_ns: u64, kind: EventKind) -> Event {
    Event {
        t_ns,
        run: 1,
        pid: PID,
        tid: PID,
        comm: Vec::new(),
        is_outside: false,
        has_overflowed: false,
        doubt: Doubt::None,
        repeat: None,
        kind,
    }
}

fn chain(path: &str) -> Chain {
    Chain { path: path.as_bytes().to_vec(), end: ChainEnd::Root, walk: WalkEnd::Done }
}

fn facts(ino: u64) -> FileFacts {
    FileFacts { mode: 0o100_644, f_mode: 0, f_flags: 0, nlink: 1, dev: 1, is_unlinked: 0, magic: 0, ino }
}

fn hook(hook: Hook, path: &str) -> Witness {
    Witness { hook, a: Some(chain(path)), b: None, file: Some(facts(9)), family: 0, address: None }
}

fn loopback(port: u8) -> Bytes {
    Bytes { bytes: vec![2, 0, 0, port, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], state: ReadState::Whole }
}

/// Both sides, with the hook that the command's own start passes.
#[derive(Default)]
struct Both(Witnesses);

impl Both {
    fn new() -> Self {
        let mut both = Self::default();
        both.0.see(&event(START - 1, EventKind::Exit { status: 0 }), &hook(Hook::Exec, "/bin/start"));
        both
    }

    fn passed(self, witness: &Witness) -> Self {
        self.passed_at(START + 1, witness)
    }

    fn passed_at(mut self, t_ns: u64, witness: &Witness) -> Self {
        self.0.see(&event(t_ns, EventKind::Exit { status: 0 }), witness);
        self
    }

    fn told_as(mut self, call: Call, act: &Act) -> Self {
        let result = if call.ret < 0 { CallResult::Errno(-call.ret as i32) } else { CallResult::Ok };
        self.0.see_act(&event(START + 2, EventKind::Call(call)), act, result);
        self
    }

    fn told(self, op: FileOp, path: PathRef, ret: i64) -> Self {
        self.told_as(Call::bare(Op::Open, ret), &file(op, path))
    }

    fn check(self, second_only: &[&str], first_only: &[&str]) {
        let comparison = self.0.compare(START);
        let of = |acts: &[(Kind, String)]| acts.iter().map(|(_, act)| act.clone()).collect::<Vec<_>>();
        assert_eq!(
            (of(&comparison.second_only), of(&comparison.first_only)),
            (owned(second_only), owned(first_only))
        );
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn file(op: FileOp, path: PathRef) -> Act {
    Act::File(FileAct {
        op,
        path,
        requested: None,
        access: BTreeSet::from([Access::Read]),
        kind: FileKind::Regular,
        is_path_only: false,
        is_private: false,
    })
}

fn at(path: &str) -> PathRef {
    PathRef::resolved(path)
}

fn as_text(path: &str, state: PathState) -> PathRef {
    PathRef { bytes: path.as_bytes().to_vec(), state }
}

const EACCES: i64 = -13;
const ENOENT: i64 = -2;
const ENOTEMPTY: i64 = -39;

#[test]
fn an_act_that_both_tell_is_agreed_on() {
    let both = Both::new().passed(&hook(Hook::Open, "/a")).told(FileOp::Open, at("/a"), 3);
    assert_eq!(both.0.compare(START).agreed, 1);
    both.check(&[], &[]);
}

#[test]
fn a_hook_that_nothing_was_told_of_is_named() {
    Both::new().passed(&hook(Hook::Open, "/a")).check(&["open /a"], &[]);
    // Another kind of the same name, and another name of the same kind.
    Both::new()
        .passed(&hook(Hook::Unlink, "/a"))
        .passed(&hook(Hook::Open, "/a"))
        .told(FileOp::Open, at("/a"), 3)
        .check(&["unlink /a"], &[]);
    Both::new()
        .passed(&hook(Hook::Unlink, "/real/a"))
        .told(FileOp::Unlink, at("/wrong/a"), 0)
        .check(&["unlink /real/a"], &["unlink /wrong/a"]);
}

#[test]
fn an_act_that_was_done_without_its_hook_is_named() {
    Both::new().told(FileOp::Rmdir, at("/d"), 0).check(&[], &["rmdir /d"]);
    // What failed may have failed before, and looking at a place passes none.
    Both::new().told(FileOp::Rmdir, at("/d"), ENOTEMPTY).check(&[], &[]);
    let Act::File(looked) = file(FileOp::Open, at("/d")) else { unreachable!("made as one") };
    let looked = Act::File(FileAct { is_path_only: true, ..looked });
    Both::new().told_as(Call::bare(Op::Open, 3), &looked).check(&[], &[]);
}

#[test]
fn what_is_before_the_start_is_nobodys() {
    Both::new().passed_at(START - 1, &hook(Hook::Open, "/ours")).check(&[], &[]);
    Both::new()
        .passed_at(START - 1, &hook(Hook::Open, "/a"))
        .passed_at(START + 1, &hook(Hook::Open, "/a"))
        .check(&["open /a"], &[]);
}

#[test]
fn a_call_that_failed_after_its_hook_was_told_all_the_same() {
    let refused = |result| {
        Both::new().passed(&hook(Hook::Rmdir, "/real/d")).told(
            FileOp::Rmdir,
            as_text("/link/d", PathState::Lexical),
            result,
        )
    };
    refused(ENOTEMPTY).check(&[], &[]);
    // This one failed on its way, and excuses nothing.
    refused(ENOENT).check(&["rmdir /real/d"], &[]);
    Both::new()
        .passed(&hook(Hook::Rmdir, "/real/d"))
        .told(FileOp::Rmdir, as_text("/link/e", PathState::Lexical), ENOTEMPTY)
        .check(&["rmdir /real/d"], &[]);
    Both::new().passed(&hook(Hook::Open, "/a")).told(FileOp::Open, at("/a"), EACCES).check(&[], &[]);
}

#[test]
fn an_act_without_a_whole_name_leaves_its_kind_unchecked() {
    let both = Both::new().passed(&hook(Hook::Mkdir, "/real/d")).passed(&hook(Hook::Open, "/b")).told(
        FileOp::Mkdir,
        as_text("/part", PathState::Unverified),
        0,
    );
    assert_eq!(both.0.compare(START).unchecked, 1);
    both.check(&["open /b"], &[]);
}

#[test]
fn a_file_whose_name_changed_while_it_was_opened_is_the_same() {
    let opened = |ino| Call { file: Some(facts(ino)), ..Call::bare(Op::Open, 3) };
    Both::new()
        .passed(&hook(Hook::Open, "/f.tmp"))
        .told_as(opened(9), &file(FileOp::Open, at("/f")))
        .check(&[], &[]);
    Both::new()
        .passed(&hook(Hook::Open, "/f.tmp"))
        .told_as(opened(8), &file(FileOp::Open, at("/f")))
        .check(&["open /f.tmp"], &["open /f"]);
}

#[test]
fn making_and_cutting_are_part_of_opening() {
    let Act::File(made) = file(FileOp::Open, at("/a")) else { unreachable!("made as one") };
    let made = Act::File(FileAct { access: BTreeSet::from([Access::Write, Access::Create]), ..made });
    Both::new()
        .passed(&hook(Hook::Mknod, "/a"))
        .passed(&hook(Hook::Truncate, "/a"))
        .passed(&hook(Hook::Open, "/a"))
        .told_as(Call::bare(Op::Open, 3), &made)
        .check(&[], &[]);
    Both::new()
        .passed(&hook(Hook::Truncate, "/a"))
        .passed(&hook(Hook::Open, "/a"))
        .told(FileOp::Open, at("/a"), 3)
        .check(&["truncate /a"], &[]);
}

#[test]
fn two_names_are_compared_as_a_pair() {
    let pair = |from: &str, to: &str, is_exchange| {
        Act::Pair(PairAct {
            op: PairOp::Rename,
            path: at(from),
            to: at(to),
            requested: (None, None),
            is_exchange,
        })
    };
    let renamed = |from: &str, to: &str| Witness { b: Some(chain(to)), ..hook(Hook::Rename, from) };
    let told = |act: &Act| Both::new().passed(&renamed("/a", "/b")).told_as(Call::bare(Op::Rename, 0), act);
    told(&pair("/a", "/b", false)).check(&[], &[]);
    told(&pair("/a", "/c", false)).check(&["rename /a -> /b"], &["rename /a -> /c"]);
    told(&pair("/a", "/b", true)).passed(&renamed("/b", "/a")).check(&[], &[]);
}

#[test]
fn a_script_is_started_and_so_is_its_interpreter() {
    let started = Act::Exec(ExecAct {
        path: at("/s"),
        requested: None,
        interpreter: Some(at("/bin/sh")),
        argv: Vec::new(),
        is_argv_cut: false,
        is_privileged: false,
    });
    Both::new()
        .passed(&hook(Hook::Exec, "/s"))
        .passed(&hook(Hook::Exec, "/bin/sh"))
        .told_as(Call::bare(Op::Exec, 0), &started)
        .check(&[], &[]);
    Both::new()
        .passed(&hook(Hook::Exec, "/bin/sh"))
        .told_as(Call::bare(Op::Exec, 0), &started)
        .check(&[], &["exec /s"]);
}

#[test]
fn addresses_are_compared_as_they_were_passed() {
    let to = |port| Witness {
        a: None,
        file: None,
        family: 2,
        address: Some(loopback(port)),
        ..hook(Hook::Connect, "")
    };
    let connected = |port, ret| Call { address: Some(loopback(port)), ..Call::bare(Op::Connect, ret) };
    let told = |call: Call| {
        let mut both = Both::new().passed(&to(80));
        // It is compared whatever it resolves to.
        both.0.see_no_act(&event(START + 2, EventKind::Call(call)));
        both
    };
    told(connected(80, 0)).check(&[], &[]);
    told(connected(80, -115)).check(&[], &[]);
    told(connected(81, 0)).check(&["connect 127.0.0.1:80"], &["connect 127.0.0.1:81"]);
}

#[test]
fn an_act_that_is_presumed_is_not_asked_for() {
    let mut both = Both::new().told(FileOp::Mkdir, at("/d"), 0);
    both.0.presume(&event(START, EventKind::Call(Call::bare(Op::Mkdir, 0))));
    both.check(&[], &[]);
}

/// What is admitted, and whether each counter is what it is expected to be.
fn judged(comparison: &Comparison, counts: WitnessCounts, ledger: &mut LossLedger) -> (String, [u64; 2]) {
    let (word, counters) = judge(comparison, Ok(counts), ledger);
    let of = |name: &str| counters.get(&format!("witness.{name}")).copied().unwrap_or(u64::MAX);
    (word, [of("disagreed"), of("unchecked")])
}

fn disagreement() -> Comparison {
    Comparison {
        records: 5,
        is_awake: true,
        is_whole: true,
        agreed: 3,
        unchecked: 0,
        second_only: vec![(Kind::Fs, "open /a".into())],
        first_only: vec![(Kind::Net, "connect 127.0.0.1:80".into())],
    }
}

#[test]
fn a_disagreement_makes_its_kind_partial_and_names_it() {
    let mut ledger = LossLedger::default();
    let counts = WitnessCounts { seen: 5, lost: 0 };
    assert_eq!(judged(&disagreement(), counts, &mut ledger), ("present".into(), [2, 0]));
    let told: Vec<_> =
        ledger.gaps.iter().map(|gap| (gap.kind, gap.reason.as_str(), gap.detail.as_str())).collect();
    assert_eq!(
        told,
        [
            (Kind::Fs, DISAGREES, "seen by the second witness alone: open /a"),
            (Kind::Net, DISAGREES, "told by the first witness alone: connect 127.0.0.1:80"),
        ]
    );
}

#[test]
fn who_lost_records_is_not_held_to_what_it_did_not_tell() {
    let mut ledger = LossLedger::default();
    ledger.lost.insert("open".into(), 1);
    judged(&disagreement(), WitnessCounts { seen: 5, lost: 0 }, &mut ledger);
    assert_eq!(ledger.gaps.iter().map(|gap| gap.kind).collect::<Vec<_>>(), [Kind::Net]);

    for counts in [WitnessCounts { seen: 5, lost: 1 }, WitnessCounts { seen: 6, lost: 0 }] {
        let mut ledger = LossLedger::default();
        assert_eq!(judged(&disagreement(), counts, &mut ledger).1, [1, 1]);
        assert_eq!(ledger.gaps.iter().map(|gap| gap.kind).collect::<Vec<_>>(), [Kind::Fs]);
    }
}

#[test]
fn a_witness_whose_programs_are_not_called_says_nothing() {
    let mut ledger = LossLedger::default();
    let asleep = Comparison { is_awake: false, ..disagreement() };
    let (word, counters) = judge(&asleep, Ok(WitnessCounts::default()), &mut ledger);
    assert_eq!((word.as_str(), counters.len()), ("absent: the kernel does not call its programs", 0));
    assert!(ledger.gaps.is_empty());
}

#[test]
fn more_names_than_there_is_room_for_are_not_compared() {
    let mut both = Both::new();
    let long = "/n".repeat(ROOM / 1000);
    for number in 0..600 {
        both = both.passed(&hook(Hook::Open, &format!("{long}{number}")));
    }
    let comparison = both.0.compare(START);
    assert!(!comparison.is_whole && both.0.passed.len() < 600);
    let mut ledger = LossLedger::default();
    let counts = WitnessCounts { seen: comparison.records, lost: 0 };
    let (word, [disagreed, unchecked]) = judged(&comparison, counts, &mut ledger);
    assert_eq!(word, "not compared: more names than there is room for");
    assert!(disagreed == 0 && unchecked > 0 && ledger.gaps.is_empty());
}

#[test]
fn a_flood_of_disagreements_is_counted_where_it_is_not_named() {
    let mut ledger = LossLedger::default();
    let many: Vec<_> = (0..50).map(|number| (Kind::Fs, format!("open /{number}"))).collect();
    admit(&mut ledger, "seen by the second witness alone", &many);
    assert_eq!(ledger.gaps.len(), 21);
    assert!(ledger.gaps.iter().any(|gap| gap.detail == "seen by the second witness alone: 30 more"));
}
