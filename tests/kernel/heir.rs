//! A run whose observer is killed has a record all the same, that says it is not whole.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assay::canon::digest::Digest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::sandbox::{
    ASSAY, Running, children_of, every_file, groups_of, is_running, json, sandbox, wait_until,
};
use crate::needs::{Need, are_met, memory_limits};

const NEEDS: [Need; 3] = [Need::Root, Need::Btf, Need::CgroupV2];

fn send(pid: u32, signal: Signal) {
    // One that is gone already is what we wanted.
    kill_process(Pid::from_raw(pid as i32).expect("an id"), signal).ok();
}

fn has_name(pid: u32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
}

fn helper(maker: u32, name: &str) -> u32 {
    wait_until("the helper stands", || children_of(maker).into_iter().any(|pid| has_name(pid, name)));
    children_of(maker).into_iter().find(|pid| has_name(*pid, name)).expect("a helper")
}

/// Waits for the status and for the end of everything the run had made on the host.
fn settled(base: &Path, maker: u32, helpers: &[u32]) -> Value {
    wait_until("the status", || base.join("status").exists());
    wait_until("our own processes end", || helpers.iter().all(|pid| !is_running(*pid)));
    wait_until("the group goes", || groups_of(maker).is_empty());
    assert_eq!(fs::read_dir(base.join("tmp")).expect("a folder").count(), 0, "the private directory");
    let names = fs::read_dir(base).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().ends_with(".tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
    json(&base.join("status"))
}

/// A run that writes everything, in a folder of its own.
fn start(base: &Path, options: &[&str], command: &[&str]) -> Running {
    start_by(&[], base, options, command)
}

/// The same, by another program that becomes it.
fn start_by(by: &[&str], base: &Path, options: &[&str], command: &[&str]) -> Running {
    fs::create_dir(base.join("tmp")).expect("a folder");
    let files = ["--profile", "p.yaml", "--bundle", "b.tgz", "--status-file", "status"];
    let options: Vec<&str> = files.into_iter().chain(options.iter().copied()).collect();
    let plain = sandbox(&options, command);
    let mut words = by.iter().map(OsStr::new).chain([plain.get_program()]).chain(plain.get_args());
    let mut whole = Command::new(words.next().expect("a program"));
    whole.args(words).env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
    Running::start(whole.current_dir(base).env("TMPDIR", base.join("tmp")))
}

/// The code of `assay evidence` with these arguments.
fn evidence(words: &[&str]) -> Option<i32> {
    let output = Command::new(ASSAY).arg("evidence").args(words).output().expect("assay");
    output.status.code()
}

/// Everything that a reader is told of a run that was not seen to its end. Its evidence, as text.
fn check_record(base: &Path, status: &Value) -> String {
    assert_eq!((&status["verdict"], &status["exit_code"]), (&"failed".into(), &125.into()), "{status}");
    assert_eq!(status["reasons"][0], "the observer was killed before the run was over", "{status}");
    let artifacts = status["artifacts"].as_object().expect("artifacts");
    let of = |name: &str| {
        let path = artifacts.get(name).and_then(|artifact| artifact["path"].as_str());
        base.join(path.unwrap_or_else(|| panic!("no {name}: {status}")))
    };
    for (name, artifact) in artifacts {
        let meta = fs::symlink_metadata(of(name)).expect("it is there");
        assert!(meta.is_file() && meta.mode() & 0o7777 == 0o600, "{name}");
        let sha256 = Digest::of(&fs::read(of(name)).expect("it is there")).hex();
        assert_eq!(artifact["sha256"].as_str(), Some(&*sha256), "{name}");
    }
    let read = |name: &str| fs::read_to_string(of(name)).expect("text");
    assert!(read("profile").contains("NOT WHOLE") || read("profile").starts_with('{'), "{}", read("profile"));
    for name in ["evidence", "report"] {
        for part in ["observer-died", "partial", "failed"] {
            assert!(read(name).contains(part), "{name} without {part}: {}", read(name));
        }
        assert!(!read(name).contains("complete"), "{}", read(name));
    }
    let bundle = of("bundle").to_string_lossy().into_owned();
    assert_eq!(evidence(&["verify", &bundle]), Some(0));
    let policy = every_file().to_string_lossy().into_owned();
    assert_eq!(evidence(&["gate", &bundle, "--policy", &policy]), Some(1));
    read("evidence")
}

/// What was seen is all there, the act that ended the observer too, and so is what came after it.
#[test]
fn what_was_seen_of_a_run_whose_observer_was_killed_is_told() {
    if !are_met("heir::what_was_seen_of_a_run_whose_observer_was_killed_is_told", &NEEDS) {
        return;
    }
    let many = "i=0; while [ $i -lt 400 ]; do echo > f/$i; i=$((i+1)); done;";
    // Before anything can have been read, after much was, and after a pause in which all was.
    for (what, before, count) in [("early", "", 0), ("late", many, 400), ("read", "sleep 0.3;", 0)] {
        for more in [&[][..], &["--trace", "t", "--keep-records", "r"], &["--profile-format", "json"]] {
            let base = tempfile::tempdir().expect("a folder");
            fs::create_dir(base.path().join("f")).expect("a folder");
            let script =
                format!("cat /etc/passwd > /dev/null; {before} kill -9 $PPID; echo > f/last; sleep 60");
            let options = [&["--dry-run"], more].concat();
            let mut child = start(base.path(), &options, &["sh", "-c", &script]);
            let maker = child.id();
            child.wait();
            let status = settled(base.path(), maker, &[]);
            assert_eq!(status["child"], Value::Null, "{what}: {status}");
            let told = check_record(base.path(), &status);
            assert!(!told.contains("records-unaccounted"), "{what}: {told}");
            assert!(told.contains("/etc/passwd"), "{what}: {told}");
            assert!(told.matches("${WORKDIR}/f/").count() >= count, "{what}: {told}");
            if more.contains(&"--trace") {
                let trace = fs::read_to_string(base.path().join("t")).expect("a trace");
                let lines: Vec<Value> =
                    trace.lines().map(|line| serde_json::from_str(line).expect("whole lines")).collect();
                let numbers: Vec<_> = lines.iter().filter_map(|line| line["seq"].as_u64()).collect();
                assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{what}: each once");
                assert_eq!(numbers.len() + 1, lines.len());
                assert_eq!(lines.last().map(|end| &end["reason"]), Some(&"observer killed".into()));
            }
        }
    }
}

/// Killed in the middle of its work, again and again: what the run did is told, each act once, for a record is the ring's
/// until the heir could have it. The files themselves say what the run did.
#[test]
fn killed_at_any_moment_nothing_that_was_done_is_missing_or_told_twice() {
    if !are_met("heir::killed_at_any_moment_nothing_that_was_done_is_missing_or_told_twice", &NEEDS) {
        return;
    }
    let script = "i=0; while :; do echo > f/$i; i=$((i+1)); done";
    for micros in [0, 200, 700, 1500, 3000, 5000, 8000, 12_000, 17_000, 25_000] {
        let base = tempfile::tempdir().expect("a folder");
        fs::create_dir(base.path().join("f")).expect("a folder");
        let mut child = start(base.path(), &["--dry-run", "--trace", "t"], &["sh", "-c", script]);
        let maker = child.id();
        let many = |count: usize| {
            wait_until("so many are made", || base.path().join(format!("f/{count}")).exists());
        };
        many(100);
        // It finds so much to do when it goes on that it has a record in its hands whenever it is killed.
        send(maker, Signal::STOP);
        many(fs::read_dir(base.path().join("f")).expect("a folder").count() + 2000);
        send(maker, Signal::CONT);
        std::thread::sleep(std::time::Duration::from_micros(micros));
        send(maker, Signal::KILL);
        child.wait();
        let told = check_record(base.path(), &settled(base.path(), maker, &[]));
        for part in ["records-unaccounted", "records-lost", "record-not-taken-over"] {
            assert!(!told.contains(part), "{micros}: {part}: {told}");
        }
        check_files(base.path(), 2000);
    }
}

/// An observer that gets no more memory ends as one that is killed does, and its heir tells all the same.
#[test]
fn an_observer_that_runs_out_of_memory_leaves_a_record() {
    let test = "heir::an_observer_that_runs_out_of_memory_leaves_a_record";
    if !are_met(test, &[NEEDS[0], NEEDS[1], NEEDS[2], Need::MemoryLimits]) {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    fs::create_dir(base.path().join("f")).expect("a folder");
    let script = "touch ready; until [ -e go ]; do sleep 0.01; done; \
                  i=0; while :; do echo > f/$i; i=$((i+1)); done";
    let mut child = start(base.path(), &["--dry-run", "--trace", "t"], &["sh", "-c", script]);
    let maker = child.id();
    wait_until("the command runs", || base.path().join("ready").exists());
    // It keeps what it has; what it keeps of the run from here on soon finds no room. Nobody else is in there.
    let (root, limit) = memory_limits().expect("it was asked for");
    let group = Group(root.join(format!("assay-test-memory-{}", std::process::id())));
    fs::create_dir(&group.0).expect("a group");
    fs::write(group.0.join(limit), (1 << 20).to_string()).expect("its limit");
    fs::write(group.0.join("cgroup.procs"), maker.to_string()).expect("to move the observer");
    fs::write(base.path().join("go"), "").expect("a file");
    assert_eq!(child.wait().signal(), Some(9));
    let told = check_record(base.path(), &settled(base.path(), maker, &[]));
    assert!(!told.contains("records-unaccounted"), "{told}");
    check_files(base.path(), 100);
}

/// What an observer keeps for its heir finds no more room: the heir tells what was kept, and that there was more.
#[test]
fn what_could_not_be_kept_for_an_heir_is_told_to_be_missing() {
    let test = "heir::what_could_not_be_kept_for_an_heir_is_told_to_be_missing";
    if !are_met(test, &[NEEDS[0], NEEDS[1], NEEDS[2], Need::Program("strace")]) {
        return;
    }
    for kept in [0, 1, 12] {
        let base = tempfile::tempdir().expect("a folder");
        let inject = format!("inject=write:error=EDQUOT:when={}+", kept + 1);
        let mut strace = vec!["strace", "-D", "-f", "-qq", "-o", "log", "-e", "trace=write", "-e", &inject];
        // The spool has no name but this.
        strace.extend(["-P", "/memfd:assay-spool (deleted)", "-P", "/memfd:assay-spool"]);
        let script = "until grep -q INJECTED log; do sleep 0.01; done; kill -9 $PPID; sleep 60";
        let options = ["--dry-run", "--profile-format", "json"];
        let mut child = start_by(&strace, base.path(), &options, &["sh", "-c", script]);
        let maker = child.id();
        child.wait();
        check_record(base.path(), &settled(base.path(), maker, &[]));
        let reasons = json(&base.path().join("p.evidence.json"))["coverage"]["reasons"].take();
        let reasons = reasons.as_array().expect("a list");
        let is_it = |one: &&Value| one["reason"] == "records-unaccounted";
        let kinds: Vec<_> = reasons.iter().filter(is_it).map(|one| one["kind"].clone()).collect();
        assert_eq!(kinds, ["fs", "exec", "net"], "{kept}: {reasons:?}");
    }
}

/// A control group that goes with the test.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        fs::remove_dir(&self.0).ok();
    }
}

/// The trace has every file that a run made in `f`, once; there are more than so many.
fn check_files(base: &Path, at_least: usize) {
    let folder = format!("{}/f/", base.display());
    let trace = fs::read_to_string(base.join("t")).expect("a trace");
    let mut told: Vec<String> = trace
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("whole lines"))
        .filter(|line| line["op"] == "open")
        .filter_map(|line| line["path"].as_str()?.strip_prefix(&folder).map(str::to_owned))
        .collect();
    let made = fs::read_dir(base.join("f")).expect("a folder");
    let mut made: Vec<String> =
        made.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    told.sort_unstable();
    made.sort_unstable();
    assert!(made.len() > at_least, "{}", made.len());
    assert!(told == made, "{} told, {} made", told.len(), made.len());
}

/// The same run told by its observer and by an heir: the same effects.
#[test]
fn an_heir_tells_what_the_observer_would_have_told() {
    if !are_met("heir::an_heir_tells_what_the_observer_would_have_told", &NEEDS) {
        return;
    }
    let run = |end: &str| {
        let base = tempfile::tempdir().expect("a folder");
        let script =
            format!("ls / >/dev/null; echo a > a; mv a b; rm b; cat /etc/hostname; {end}; sleep 0.2");
        let mut child =
            start(base.path(), &["--dry-run", "--profile-format", "json"], &["sh", "-c", &script]);
        let maker = child.id();
        child.wait();
        settled(base.path(), maker, &[]);
        let mut evidence = json(&base.path().join("p.evidence.json"));
        assert!(!evidence.to_string().contains("records-unaccounted"), "{end}: {evidence}");
        let mut effects = evidence["identity"]["effects"].take();
        // Whether the last program had started is chance.
        effects["exec"]
            .as_array_mut()
            .expect("a list")
            .retain(|effect| !effect.to_string().contains("sleep"));
        effects
    };
    assert_eq!(run("kill -9 $PPID"), run("kill -0 $PPID"));
}

/// An artifact's place is what it was when the command started, and links are not followed.
#[test]
fn an_heir_writes_through_no_link_and_as_the_others_are_owned() {
    if !are_met("heir::an_heir_writes_through_no_link_and_as_the_others_are_owned", &NEEDS) {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    let victim = base.path().join("victim");
    fs::write(&victim, "precious").expect("a file");
    let script = "for name in p.yaml p.evidence.yaml p.yaml.report.md b.tgz t; do ln -sf victim $name; done; kill -9 $PPID; sleep 60";
    fs::create_dir(base.path().join("tmp")).expect("a folder");
    let files = ["--profile", "p.yaml", "--bundle", "b.tgz", "--trace", "t", "--status-file", "status"];
    let options = [&["--dry-run", "--user", "0:0"], &files[..]].concat();
    let mut command = sandbox(&options, &["sh", "-c", script]);
    command.current_dir(base.path()).env("TMPDIR", base.path().join("tmp"));
    // As under `sudo`, whose user owns the artifacts; the command is root's, or it could not kill us.
    command.env("SUDO_UID", "1234").env("SUDO_GID", "1235");
    let mut child = Running::start(&mut command);
    let maker = child.id();
    assert_eq!(child.wait().signal(), Some(9));
    let status = settled(base.path(), maker, &[]);
    check_record(base.path(), &status);
    for artifact in status["artifacts"].as_object().expect("artifacts").values() {
        let meta = fs::metadata(base.path().join(artifact["path"].as_str().expect("a path"))).expect("it");
        assert_eq!((meta.uid(), meta.gid()), (1234, 1235), "{artifact}");
    }
    assert_eq!(fs::read(&victim).expect("it is there"), b"precious");
}

/// Whoever ends us meanwhile: each artifact is whole, and all of them are there.
#[test]
fn killed_while_it_writes_the_artifacts_are_whole_and_there() {
    if !are_met("heir::killed_while_it_writes_the_artifacts_are_whole_and_there", &NEEDS) {
        return;
    }
    let script = "until [ -e go ]; do sleep 0.01; done; \
                  i=0; while [ $i -lt 1500 ]; do echo > f/$i; i=$((i+1)); done; touch f/end; exit 7";
    let mut inherited = 0;
    for millis in [0, 5, 20, 50, 100] {
        let base = tempfile::tempdir().expect("a folder");
        fs::create_dir(base.path().join("f")).expect("a folder");
        let mut child = start(base.path(), &["--dry-run", "--trace", "t"], &["sh", "-c", script]);
        let maker = child.id();
        let heir = helper(maker, "assay-heir");
        fs::write(base.path().join("go"), "").expect("a file");
        wait_until("the command is done", || base.path().join("f/end").exists());
        std::thread::sleep(std::time::Duration::from_millis(millis));
        send(maker, Signal::KILL);
        child.wait();
        let status = settled(base.path(), maker, &[heir]);
        if status["verdict"] == "failed" {
            inherited += 1;
            let told = check_record(base.path(), &status);
            assert!(told.matches("${WORKDIR}/f/").count() >= 1500, "after {millis} ms");
            assert!(status["child"].is_null() || status["child"]["exit_code"] == 7, "{status}");
        }
        assert_eq!(status["artifacts"].as_object().expect("artifacts").len(), 5, "{status}");
    }
    assert!(inherited > 0, "none was killed before it was done");
}

/// Stopped or killed helpers neither keep a run from its end nor from being told.
#[test]
fn helpers_that_are_stopped_or_killed_keep_nobody_waiting() {
    if !are_met("heir::helpers_that_are_stopped_or_killed_keep_nobody_waiting", &NEEDS) {
        return;
    }
    for name in ["assay-heir", "assay-watchdog"] {
        for signal in [Signal::STOP, Signal::KILL] {
            let base = tempfile::tempdir().expect("a folder");
            let script = "touch ran; until [ -e go ]; do sleep 0.01; done";
            let mut child = start(base.path(), &["--dry-run"], &["sh", "-c", script]);
            let maker = child.id();
            // Nobody can stop them sooner: the command is the first to have a reason.
            wait_until("the command runs", || base.path().join("ran").exists());
            let pid = helper(maker, name);
            send(pid, signal);
            fs::write(base.path().join("go"), "").expect("a file");
            assert_eq!(child.wait().code(), Some(0), "{name}");
            let status = settled(base.path(), maker, &[pid]);
            assert_eq!(status["verdict"], "ok", "{name}: {status}");
        }
    }
}

/// With one of the two gone, the other does what there is to do.
#[test]
fn of_watchdog_and_heir_either_is_enough_to_end_the_run() {
    if !are_met("heir::of_watchdog_and_heir_either_is_enough_to_end_the_run", &NEEDS) {
        return;
    }
    for name in ["assay-heir", "assay-watchdog"] {
        let base = tempfile::tempdir().expect("a folder");
        let script = "trap '' TERM; touch ran; while :; do sleep 0.01; done";
        let mut child = start(base.path(), &["--dry-run"], &["sh", "-c", script]);
        let maker = child.id();
        wait_until("the command runs", || base.path().join("ran").exists());
        let helpers = ["assay-heir", "assay-watchdog"].map(|name| helper(maker, name));
        send(helper(maker, name), Signal::KILL);
        send(maker, Signal::KILL);
        child.wait();
        let status = settled(base.path(), maker, &helpers);
        let wrote = status["artifacts"].as_object().expect("artifacts").len();
        if name == "assay-heir" {
            assert_eq!(wrote, 0, "{status}");
            assert_eq!(status["reasons"][2], "no artifact was written but the trace as far as it went");
        } else {
            assert_eq!(wrote, 4, "{status}");
            check_record(base.path(), &status);
        }
    }
}

/// What was not read, because the observer had been stopped, is in the ring or counted.
#[test]
fn an_observer_that_was_stopped_first_loses_nothing_uncounted() {
    if !are_met("heir::an_observer_that_was_stopped_first_loses_nothing_uncounted", &NEEDS) {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    fs::create_dir(base.path().join("f")).expect("a folder");
    let script = "kill -STOP $PPID; i=0; while [ $i -lt 2000 ]; do echo > f/$i; i=$((i+1)); done; kill -9 $PPID; sleep 60";
    let mut child = start(base.path(), &["--dry-run"], &["sh", "-c", script]);
    let maker = child.id();
    child.wait();
    let status = settled(base.path(), maker, &[]);
    let told = check_record(base.path(), &status);
    let seen = told.matches("{op: create, path: \"${WORKDIR}/f/").count();
    assert!(seen >= 2000 || told.contains("records-lost"), "{seen}");
}

/// Killed in the middle of a transfer: what the other end had, before and after, is counted.
#[test]
fn an_heir_counts_the_bytes_of_a_transfer_that_was_cut_short() {
    let test = "heir::an_heir_counts_the_bytes_of_a_transfer_that_was_cut_short";
    if !are_met(test, &[NEEDS[0], NEEDS[1], NEEDS[2], Need::Program("bash")]) {
        return;
    }
    const THERE: usize = 300_000;
    const BACK: u64 = 12_345;
    let server = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = server.local_addr().expect("its address").port();
    let base = tempfile::tempdir().expect("a folder");
    let script =
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}; head -c {BACK} <&3 >/dev/null; cat /dev/zero >&3");
    let options = ["--dry-run", "--profile-format", "json"];
    let mut child = start(base.path(), &options, &["bash", "-c", &script]);
    let maker = child.id();
    let (mut peer, _) = server.accept().expect("a connection");
    peer.write_all(&vec![b'x'; BACK as usize]).expect("what it waits for");
    peer.read_exact(&mut vec![0; THERE]).expect("the first of what it sends");
    send(maker, Signal::KILL);
    // It goes on until its run is ended.
    let received = THERE as u64 + io::copy(&mut peer, &mut io::sink()).expect("all the rest");
    child.wait();
    let status = settled(base.path(), maker, &[]);
    check_record(base.path(), &status);
    let told = json(&base.path().join("p.evidence.json"));
    let is_it = |end: &&Value| end["port"] == port && end["proto"] == "tcp";
    let ends = told["observed"]["endpoints"].as_array().expect("a list");
    let [end] = ends.iter().filter(is_it).collect::<Vec<_>>()[..] else { panic!("{ends:?}") };
    let (out, into) = (end["bytes_out"].as_u64(), end["bytes_in"].as_u64());
    let (out, into) = (out.expect("they are counted"), into.expect("they are counted"));
    // What is sent again is counted again.
    assert!((received..=2 * received).contains(&out), "{received} arrived: {end}");
    assert!((BACK..=2 * BACK).contains(&into), "{end}");
    assert_eq!(end["connections"], 1, "{end}");
    assert!(!told["coverage"].to_string().contains("bytes-not-counted"), "{}", told["coverage"]);
}
