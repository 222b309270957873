//! The second witness, where the kernel loads programs at the hooks of its security modules: it tells what the first tells.
//! Where it does not, every run says that it had none, and why.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::process::Command;

use assay::observe::loss::LossLedger;
use assay::observe::pipeline::Pipeline;
use assay::observe::stream::RecordReader;
use assay::observe::witness::{Comparison, WitnessCounts, judge};
use assay_common::calls::Op;
use assay_common::hooks::Hook;
use assay_common::kind::RecordKind;
use assay_common::record::Header;
use libc::{
    AF_INET, AF_UNIX, AT_FDCWD, AT_REMOVEDIR, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, SOCK_DGRAM,
    SOCK_STREAM,
};
use zerocopy::FromBytes as _;

use crate::actor::{Act, Arg, Part, Step, act, call};
use crate::needs::{Need, are_met};
use crate::network::{bind, connect, inet, listen, sendto, socket, unix};
use crate::stage::{Played, Stage};
use crate::uring::{open as open_request, request, ring};

/// A stage on a kernel with a second witness.
fn stage(test: &str) -> Option<Stage> {
    let name = format!("witness::{test}");
    if !are_met(&name, &[Need::BpfLsm]) {
        return None;
    }
    let stage = Stage::new(&name)?;
    let stage = stage.option(&["--second-witness"]);
    stage
        .dir("real")
        .dir("other")
        .file("real/f", "content")
        .file("real/cut", "content")
        .link("link", "real")
        .program("real/tiny");
    Some(stage)
}

/// Both told the same, and at least so many acts.
fn check_agreement(stage: &Stage, played: &Played, least: u64) {
    let observed = &played.evidence["observed"];
    let counters = &observed["counters"];
    assert_eq!(observed["host"]["second_witness"], "present", "{}", played.evidence["coverage"]);
    stage.check_coverage(played);
    for none in ["lost", "disagreed", "unchecked"] {
        assert_eq!(counters[format!("witness.{none}")], 0, "{none}: {counters}");
    }
    let agreed = counters["witness.agreed"].as_u64().expect("a number");
    assert!(agreed >= least, "{agreed} acts: {counters}");
}

fn open(path: &str, flags: i32) -> Step {
    call(libc::SYS_openat, [AT_FDCWD.into(), path.into(), flags.into(), 0o644.into()])
}

/// An act for each hook, by names that lead through a link.
fn every_hook(tcp: Vec<u8>, udp: Vec<u8>) -> Vec<Step> {
    let name = |nr: i64, path: &str| call(nr, [path.into()]);
    let two = |nr: i64, from: &str, to: &str| call(nr, [from.into(), to.into()]);
    let at = |nr: i64, path: &str, flags: i32| call(nr, [AT_FDCWD.into(), path.into(), flags.into()]);
    vec![
        open("link/f", O_RDONLY),
        open("link/new", O_RDWR | O_CREAT).keep(1),
        call(libc::SYS_ftruncate, [Arg::Kept(1), 5.into()]),
        open("link/f", O_WRONLY | O_TRUNC),
        call(libc::SYS_truncate, ["link/cut".into(), 3.into()]),
        call(libc::SYS_mkdir, ["link/d".into(), 0o755.into()]),
        // Refused after the hook, and before it.
        two(libc::SYS_rename, "link/new", "link/d"),
        call(libc::SYS_mkdir, ["link/d".into(), 0o755.into()]),
        call(libc::SYS_mknod, ["link/d/fifo".into(), i64::from(libc::S_IFIFO | 0o644).into(), 0.into()]),
        at(libc::SYS_unlinkat, "real", AT_REMOVEDIR),
        name(libc::SYS_unlink, "link/d/fifo"),
        name(libc::SYS_rmdir, "link/d"),
        two(libc::SYS_rename, "link/new", "other/moved"),
        two(libc::SYS_link, "other/moved", "link/second"),
        two(libc::SYS_symlink, "no where", "link/s"),
        call(libc::SYS_chmod, ["link/second".into(), 0o600.into()]),
        call(libc::SYS_lchown, ["link/s".into(), 0.into(), 0.into()]),
        call(libc::SYS_fchown, [Arg::Kept(1), 0.into(), 0.into()]),
        call(
            libc::SYS_renameat2,
            [AT_FDCWD.into(), "real/second".into(), AT_FDCWD.into(), "other".into(), 2.into()],
        ),
        act(Act::Spawn(b"link/tiny".to_vec())),
        socket(AF_INET, SOCK_STREAM, 0).keep(2),
        connect(2, tcp),
        socket(AF_INET, SOCK_DGRAM, 0).keep(3),
        sendto(3, udp),
        socket(AF_INET, SOCK_STREAM, 0).keep(4),
        listen(4),
        socket(AF_UNIX, SOCK_STREAM, 0).keep(5),
        bind(5, unix(b"link/socket")),
        listen(5),
        socket(AF_UNIX, SOCK_STREAM, 0).keep(6),
        connect(6, unix(b"real/socket")),
        socket(AF_UNIX, SOCK_STREAM, 0).keep(7),
        bind(7, unix(b"\0abstract")),
    ]
}

fn servers() -> (TcpListener, UdpSocket, Vec<u8>, Vec<u8>) {
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
    let (tcp, udp) = (tcp.expect("a listener"), udp.expect("a receiver"));
    let (to, other) = (tcp.local_addr().expect("its address"), udp.local_addr().expect("its address"));
    (tcp, udp, inet(to), inet(other))
}

#[test]
fn both_witnesses_tell_the_same_of_every_hook() {
    let Some(stage) = stage("both_witnesses_tell_the_same_of_every_hook") else { return };
    let (_tcp, _udp, to, other) = servers();
    let played = stage.play(&every_hook(to, other));
    check_agreement(&stage, &played, 25);
}

#[test]
fn both_witnesses_tell_the_same_of_requests_to_a_ring() {
    let Some(stage) = stage("both_witnesses_tell_the_same_of_requests_to_a_ring") else { return };
    let polled = |mut one: crate::actor::Request| {
        one.is_polled = true;
        ring(one)
    };
    let played = stage.play(&[
        ring(open_request("link/f", O_RDONLY)),
        ring(open_request("link/made", O_WRONLY | O_CREAT)),
        polled(open_request("link/polled", O_WRONLY | O_CREAT)),
        // unlink
        ring(request(36, AT_FDCWD, "link/made")),
        polled(request(36, AT_FDCWD, "link/polled")),
    ]);
    assert!(played.told.returns.iter().all(|returned| *returned >= 0), "{:?}", played.told.returns);
    check_agreement(&stage, &played, 6);
}

/// Many processes, each with the usual acts of small programs; nothing of it is traced, so that repeats are counted.
#[test]
fn both_witnesses_tell_the_same_of_ordinary_commands() {
    let Some(stage) = stage("both_witnesses_tell_the_same_of_ordinary_commands") else { return };
    let script = r"
        mkdir -p d/e; for n in 1 2 3 4 5; do echo $n > d/$n; cp d/$n d/e/; done
        printf '#!/bin/sh\necho from a script\n' > d/script; chmod 755 d/script; d/script; sh d/script
        mv d/1 d/one; ln d/one d/hard; ln -s one d/soft; cat d/soft d/2 d/none; truncate -s 1 d/2; touch d/3
        find d -type f -exec chmod 600 {} +; chown 0:0 d/one; mkfifo d/fifo; rm -f d/fifo; rmdir d/none
        tar -cf all.tar d; mkdir out; tar -xf all.tar -C out; rm -rf d out; ls -R . > /dev/null; true
    ";
    let played = stage.run(&["sh", "-c", script]);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    check_agreement(&stage, &played, 60);
}

/// The records of a run, without those that `is_left_out`, through the part that compares.
fn compared(records: &[u8], is_left_out: impl Fn(&Header) -> bool) -> Comparison {
    let mut reader = RecordReader::new(records).expect("a stream");
    let mut pipeline = Pipeline::new(reader.subject());
    while let Some(record) = reader.next_record().expect("a whole record") {
        let (header, _) = Header::read_from_prefix(record).expect("a header");
        if !is_left_out(&header) {
            pipeline.push(record, |_| {});
        }
    }
    pipeline.finish(|_| {}).witness.expect("a second witness")
}

fn is_call(header: &Header, op: Op) -> bool {
    header.kind == RecordKind::Call as u16 && header.op == op as u16
}

fn is_hook(header: &Header, hook: Hook) -> bool {
    header.kind == RecordKind::Witness as u16 && header.op == hook as u16
}

/// For each hook: as if the first had a blind spot there, then the second. What is missing is named, and nothing else.
#[test]
fn what_one_witness_does_not_tell_the_other_does() {
    let Some(stage) = stage("what_one_witness_does_not_tell_the_other_does") else { return };
    let (_tcp, _udp, to, other) = servers();
    let played = stage.play(&every_hook(to, other));
    check_agreement(&stage, &played, 25);
    let records = fs::read(stage.artifact("records")).expect("records");
    let whole = compared(&records, |_| false);
    assert_eq!((whole.second_only, whole.first_only), (Vec::new(), Vec::new()));

    let calls: BTreeMap<&str, (Op, Hook)> = BTreeMap::from([
        ("open", (Op::Open, Hook::Open)),
        ("unlink", (Op::Unlink, Hook::Unlink)),
        ("rmdir", (Op::Rmdir, Hook::Rmdir)),
        ("mkdir", (Op::Mkdir, Hook::Mkdir)),
        ("mknod", (Op::Mknod, Hook::Mknod)),
        ("rename", (Op::Rename, Hook::Rename)),
        ("link", (Op::Link, Hook::Link)),
        ("symlink", (Op::Symlink, Hook::Symlink)),
        ("truncate", (Op::Truncate, Hook::Truncate)),
        ("chmod", (Op::Chmod, Hook::Chmod)),
        ("chown", (Op::Chown, Hook::Chown)),
        ("connect", (Op::Connect, Hook::Connect)),
        ("bind", (Op::Bind, Hook::Bind)),
        ("listen", (Op::Listen, Hook::Listen)),
        ("send", (Op::Send, Hook::Send)),
    ]);
    for (word, (op, hook)) in calls {
        let blind = compared(&records, |header| is_call(header, op));
        assert!(
            blind.second_only.iter().any(|(_, act)| act.starts_with(&format!("{word} "))),
            "{word}: {blind:?}"
        );
        assert!(blind.first_only.is_empty(), "{word}: {:?}", blind.first_only);
        let deaf = compared(&records, |header| is_hook(header, hook));
        assert!(!deaf.first_only.is_empty() && deaf.second_only.is_empty(), "{word}: {deaf:?}");
        assert!(
            deaf.first_only.iter().all(|(_, act)| act.starts_with(&format!("{word} "))),
            "{word}: {:?}",
            deaf.first_only
        );
    }
    let blind = compared(&records, |header| is_call(header, Op::Unlink));
    // Removing a directory may be a call of either kind.
    let expected = [format!("unlink {}", stage.at("real/d/fifo")), format!("rmdir {}", stage.at("real"))];
    assert_eq!(blind.second_only.iter().map(|(_, act)| act.clone()).collect::<Vec<_>>(), expected);
    let mut ledger = LossLedger::default();
    let counts = WitnessCounts { seen: blind.records, lost: 0 };
    judge(&blind, Ok(counts), &mut ledger);
    let told: Vec<_> = ledger.gaps.iter().map(|gap| (gap.reason.clone(), gap.detail.clone())).collect();
    let said =
        |act: &String| ("witness-disagrees".to_owned(), format!("seen by the second witness alone: {act}"));
    // In the order of their texts.
    assert_eq!(told, [said(&expected[1]), said(&expected[0])]);
}

/// What the second alone saw is admitted, each by its name, and nothing else is: no call of the table did it.
fn check_admitted(stage: &Stage, played: &Played, acts: &[String]) {
    let observed = &played.evidence["observed"];
    stage.check_coverage(played);
    let reasons = played.evidence["coverage"]["reasons"].as_array().expect("a list");
    let mut told: Vec<&str> = reasons
        .iter()
        .filter(|one| one["reason"] == "witness-disagrees")
        .map(|one| one["detail"].as_str().expect("a text"))
        .collect();
    told.sort_unstable();
    let said = |act: &String| format!("seen by the second witness alone: {act}");
    assert_eq!(told, acts.iter().map(said).collect::<Vec<_>>());
    let counters = &observed["counters"];
    assert_eq!(counters["witness.disagreed"], acts.len(), "{counters}");
    for none in ["lost", "unchecked"] {
        assert_eq!(counters[format!("witness.{none}")], 0, "{none}: {counters}");
    }
}

fn all_done(played: &Played) {
    assert!(played.told.returns.iter().all(|returned| *returned >= 0), "{:?}", played.told.returns);
}

#[test]
fn a_message_queue_is_admitted_by_the_second() {
    let Some(stage) = stage("a_message_queue_is_admitted_by_the_second") else { return };
    let stage = stage.partial("fs", "witness-disagrees");
    let name = format!("assay-witness-{}", std::process::id());
    let flags = libc::O_RDWR | O_CREAT | libc::O_EXCL;
    let played = stage.play(&[
        call(libc::SYS_mq_open, [(&name).into(), flags.into(), 0o600.into(), 0.into()]),
        call(libc::SYS_mq_unlink, [(&name).into()]),
    ]);
    all_done(&played);
    // It lies in a filesystem that is in no tree.
    check_admitted(&stage, &played, &[format!("open (detached)/{name}")]);
}

/// A filesystem of terminals of its own, for as long as the test lasts.
struct Terminals(String);

impl Terminals {
    fn mount(at: String) -> Self {
        let made = Command::new("mount")
            .args(["-t", "devpts", "-o", "newinstance,ptmxmode=0666", "none", &at])
            .status();
        assert!(made.expect("mount").success());
        Self(at)
    }
}

impl Drop for Terminals {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().ok();
    }
}

#[test]
fn the_other_end_of_a_terminal_is_admitted_by_the_second() {
    let Some(stage) = stage("the_other_end_of_a_terminal_is_admitted_by_the_second") else { return };
    let stage = stage.partial("fs", "witness-disagrees");
    stage.dir("pts");
    let _terminals = Terminals::mount(stage.at("pts"));
    const UNLOCK: i64 = 0x4004_5431;
    const OPEN_PEER: i64 = 0x5441;
    let flags = O_RDWR | libc::O_NOCTTY;
    let played = stage.play(&[
        open("pts/ptmx", flags).keep(1),
        act(Act::Put(0, vec![0; 4])),
        call(libc::SYS_ioctl, [Arg::Kept(1), UNLOCK.into(), Arg::Desk(0)]),
        call(libc::SYS_ioctl, [Arg::Kept(1), OPEN_PEER.into(), flags.into()]),
    ]);
    all_done(&played);
    check_admitted(&stage, &played, &[format!("open {}", stage.at("pts/0"))]);
}

/// The first admits that there was one, and the second knows the file.
#[test]
fn a_core_dump_is_admitted_by_both() {
    let Some(stage) = stage("a_core_dump_is_admitted_by_both") else { return };
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("a pattern");
    assert_eq!(pattern.trim(), "core", "what the kernel was built with");
    let stage = stage.partial("fs", "core-dump").partial("fs", "witness-disagrees");
    let limit = Arg::At(vec![Part::Bytes([u64::MAX; 2].map(u64::to_le_bytes).concat())]);
    let played = stage.play(&[act(Act::Fork(vec![
        call(libc::SYS_chdir, ["other".into()]),
        call(libc::SYS_prlimit64, [0.into(), 4.into(), limit, 0.into()]),
        call(libc::SYS_getpid, []).keep(1),
        call(libc::SYS_kill, [Arg::Kept(1), libc::SIGSEGV.into()]),
    ]))]);
    let dump = stage.at("other/core");
    assert!(fs::metadata(&dump).is_ok_and(|file| file.len() > 0), "{:?}", played.told.returns);
    check_admitted(&stage, &played, &[format!("mknod {dump}"), format!("open {dump}")]);
}

/// Every run says whether it had one; where it had none, nothing else is different.
#[test]
fn a_run_says_whether_it_had_a_second_witness() {
    let Some(stage) = Stage::new("witness::a_run_says_whether_it_had_a_second_witness") else { return };
    let played = stage.run(&["true"]);
    assert_eq!(played.evidence["observed"]["host"]["second_witness"], "absent: not asked for");
    stage.check_coverage(&played);
    let id = played.evidence["run_id"].clone();
    let stage = stage.option(&["--second-witness"]);
    let played = stage.run(&["true"]);
    assert_eq!(played.evidence["run_id"], id, "it is no part of the identity");
    let observed = &played.evidence["observed"];
    let word = observed["host"]["second_witness"].as_str().expect("a word");
    let has_counters = observed["counters"].get("witness.records").is_some();
    assert_eq!(word == "present", has_counters, "{observed}");
    assert!(word == "present" || word.starts_with("absent: "), "{word}");
    stage.check_coverage(&played);
    match assay::host::hook_programs::obstacle() {
        Some(why) => assert_eq!(word, format!("absent: {why}")),
        None => assert!(!word.contains("refuses"), "{word}"),
    }
}
