//! What goes wrong around us: full disks, places that cannot be written, groups that vanish, too many processes, signals.
//! What survives is whole and says what it is, and nothing is left.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::actor::{Act, act, call};
use crate::harness::sandbox::{
    ASSAY, Running, cgroup_roots, children_of, groups_of, is_running, json, sandbox, text, wait_until,
};
use crate::needs::{Need, are_met};
use crate::stage::Stage;

const NEEDS: [Need; 3] = [Need::Root, Need::Btf, Need::CgroupV2];
const NAMES: [&str; 5] =
    ["run.profile.json", "run.profile.evidence.json", "run.report.md", "bundle.tar.gz", "trace"];

/// `assay sandbox` that is asked for every artifact, in this folder; the status lies beside it.
fn run_into(folder: &Path, status: &Path, command: &[&str]) -> Command {
    let at = |name: &str| folder.join(name).to_str().expect("a plain name").to_owned();
    let [profile, _, report, bundle, trace] = NAMES.map(at);
    let status = status.to_str().expect("a plain name");
    let options = [
        "--dry-run",
        "--profile-format",
        "json",
        "--profile",
        &profile,
        "--profile-report",
        &report,
        "--bundle",
        &bundle,
        "--trace",
        &trace,
        "--status-file",
        status,
    ];
    sandbox(&options, command)
}

/// Each artifact is whole or not there, and there is nothing else. Which are there.
fn whole(folder: &Path) -> Vec<String> {
    let mut found: Vec<String> = fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .filter(|name| name != "fill")
        .collect();
    found.sort();
    for name in &found {
        assert!(NAMES.contains(&name.as_str()), "{name} is left");
        let path = folder.join(name);
        match name.as_str() {
            "run.profile.json" | "run.profile.evidence.json" => drop(json(&path)),
            "run.report.md" => {
                let report = fs::read_to_string(&path).expect("the report");
                assert!(report.contains("## ") && report.ends_with('\n'), "{report}");
            }
            "bundle.tar.gz" => {
                let verified = Command::new(ASSAY).args(["evidence", "verify"]).arg(&path).output();
                let verified = verified.expect("assay");
                assert!(verified.status.success(), "{}", text(&verified.stderr));
            }
            // A trace is streamed: as far as it goes, its lines are whole, or the last one is told to be cut.
            _ => {}
        }
    }
    found
}

/// A run that ended with 7: each artifact is whole or not there, and what is not there, or not whole, is told. Which are
/// there.
fn check_told(what: &str, folder: &Path, status: &Path, output: &Output) -> Vec<String> {
    let found = whole(folder);
    let told = json(status);
    assert_eq!(told["child"]["exit_code"], 7, "{what}: {told}");
    let is_all = found.len() == NAMES.len() && told["reasons"].as_array().is_none_or(Vec::is_empty);
    assert_eq!(output.status.code(), Some(if is_all { 7 } else { 3 }), "{what}: {found:?} {told}");
    for name in &found {
        // What is there and is not said to be missing is in the status with its digest.
        let key = ["profile", "evidence", "report", "bundle", "trace"]
            [NAMES.iter().position(|known| known == name).expect("one of them")];
        assert!(
            is_all || key == "trace" || told["artifacts"][key]["sha256"].is_string(),
            "{what} {key}: {told}"
        );
    }
    found
}

/// A filesystem of its own of so many KiB.
struct Small(PathBuf);

impl Small {
    fn new(at: PathBuf, kib: u64) -> Self {
        fs::create_dir(&at).expect("a folder");
        let size = format!("size={kib}k");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&at).status();
        assert!(mounted.expect("mount").success());
        Self(at)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // A mount that stays is found by whoever looks for it; the folder's removal would fail.
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

/// A folder where filesystems are mounted, where that can be.
fn beside_a_mount(test: &str) -> Option<tempfile::TempDir> {
    let needs = [Need::Root, Need::Btf, Need::CgroupV2, Need::Program("mount")];
    are_met(test, &needs).then(|| tempfile::tempdir().expect("a folder"))
}

/// However little room there is, from none to enough for all.
#[test]
fn on_a_full_disk_each_artifact_is_whole_or_not_there() {
    let Some(base) = beside_a_mount("faults::on_a_full_disk_each_artifact_is_whole_or_not_there") else {
        return;
    };
    let mut counts = Vec::new();
    for kib in [4, 8, 12, 16, 24, 32, 48, 64, 4096] {
        let small = Small::new(base.path().join(format!("small-{kib}")), kib);
        let status = base.path().join(format!("status-{kib}"));
        let output = run_into(&small.0, &status, &["sh", "-c", "ls / >/dev/null; exit 7"]).output();
        let found = check_told(&format!("{kib} KiB"), &small.0, &status, &output.expect("assay"));
        counts.push(found.len());
    }
    assert!(counts[0] < NAMES.len(), "the smallest had room for all: {counts:?}");
    assert_eq!(counts.last(), Some(&NAMES.len()), "the largest had no room: {counts:?}");
}

/// A program whose calls of one name fail as beyond a quota, where they are about files of these names: `LOG CALL WHEN
/// FOLDER` and the program. It has our own process id, so that the names of files in the making are known.
const BEYOND_QUOTA: &str = r#"
log=$1 call=$2 when=$3 at=$4; shift 4
case $call in
  trace) call=write; set -- -P "$at/trace" "$@";;
  *) set -- -P "$at/.assay-$$-0.tmp" -P "$at/.assay-$$-1.tmp" -P ".assay-$$-0.tmp" -P ".assay-$$-1.tmp" "$@";;
esac
exec strace -D -f -qq -o "$log" -e "trace=$call" -e "inject=$call:error=EDQUOT:when=$when" "$@""#;

/// The quota ends at each call that makes, fills or names an artifact, and from the first on.
#[test]
fn beyond_a_quota_each_artifact_is_whole_or_not_there() {
    let test = "faults::beyond_a_quota_each_artifact_is_whole_or_not_there";
    if !are_met(test, &[Need::Root, Need::Btf, Need::CgroupV2, Need::Program("strace")]) {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    let base = base.path().canonicalize().expect("its name");
    for call in ["write", "openat", "renameat", "trace"] {
        let missing = beyond_quota(&base, call, "1+").expect("there is a first call");
        // What is written as it goes is there as far as it went; the status lies in another folder.
        let all = match call {
            "trace" => &[][..],
            "write" => &NAMES[..4],
            _ => &NAMES,
        };
        assert_eq!(missing, all, "{call}");
        // How many there are depends on how the threads meet.
        let refused = (1..).take_while(|number| beyond_quota(&base, call, &number.to_string()).is_some());
        assert!(refused.count() > 0, "{call}");
    }
}

/// What is missing of a run that is refused such calls at this moment; none where it made no such call.
fn beyond_quota(base: &Path, call: &str, when: &str) -> Option<Vec<&'static str>> {
    let (folder, status, log) = (base.join("out"), base.join("status"), base.join("log"));
    fs::create_dir(&folder).expect("a folder");
    let plain = run_into(&folder, &status, &["sh", "-c", "exit 7"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", BEYOND_QUOTA, "sh"]).arg(&log).args([call, when]).arg(&folder);
    shell.arg(plain.get_program()).args(plain.get_args());
    shell.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
    let output = shell.output().expect("a shell");
    let (stderr, what) = (text(&output.stderr), format!("{call} {when}"));
    let is_told =
        |path: &Path| stderr.contains(&format!("error: write {}: Disk quota exceeded", path.display()));
    let was_refused = fs::read_to_string(&log).expect("what strace did").contains("(INJECTED)");
    assert_eq!(output.status.code(), Some(if was_refused { 3 } else { 7 }), "{what}: {stderr}");
    if status.exists() {
        check_told(&what, &folder, &status, &output);
        fs::remove_file(&status).expect("it is ours");
    } else {
        whole(&folder);
        assert!(is_told(&status), "{what}: {stderr}");
    }
    let trace = folder.join("trace");
    check_trace(&trace, is_told(&trace));
    let missing: Vec<&str> = NAMES.into_iter().filter(|name| !folder.join(name).exists()).collect();
    assert!(missing.iter().all(|name| is_told(&folder.join(name))), "{what}: {missing:?} {stderr}");
    fs::remove_dir_all(&folder).expect("it is ours");
    was_refused.then_some(missing)
}

/// The lines of a trace follow each other from the first on. One that was refused something has no last line.
fn check_trace(path: &Path, is_cut: bool) {
    let Ok(trace) = fs::read_to_string(path) else { return };
    let lines: Vec<Value> = trace
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let numbers = lines.iter().filter_map(|line| line["seq"].as_u64());
    assert!(numbers.enumerate().all(|(at, seq)| seq == at as u64), "{trace}");
    let has_end = lines.last().is_some_and(|line| line["end"] == true);
    assert_eq!(has_end, !is_cut, "{trace}");
}

#[test]
fn a_place_that_cannot_be_written_is_told_and_the_rest_is_there() {
    let Some(base) = beside_a_mount("faults::a_place_that_cannot_be_written_is_told_and_the_rest_is_there")
    else {
        return;
    };
    let small = Small::new(base.path().join("closed"), 64);
    let read_only = Command::new("mount").args(["-o", "remount,ro"]).arg(&small.0).status().expect("mount");
    assert!(read_only.success());
    let at = |name: &str| base.path().join(name).to_str().expect("a plain name").to_owned();
    let closed = small.0.join("trace").to_str().expect("a plain name").to_owned();
    let (profile, status) = (at("p.json"), at("status"));
    let options = [
        "--dry-run",
        "--profile-format",
        "json",
        "--profile",
        &profile,
        "--trace",
        &closed,
        "--status-file",
        &status,
    ];
    let mut quiet = sandbox(&options, &["sh", "-c", "echo it ran >&2"]);
    let mut loud = Command::new(quiet.get_program());
    loud.args(quiet.get_args().filter(|arg| *arg != "--quiet")).env_remove("SUDO_UID").env_remove("SUDO_GID");
    for (assay, is_loud) in [(&mut quiet, false), (&mut loud, true)] {
        let output = assay.output().expect("assay");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        let lines: Vec<&str> = stderr.lines().collect();
        let naming = lines.iter().filter(|line| line.contains(&closed)).count();
        assert_eq!(naming, 1, "it is told once: {stderr}");
        let is_before = lines.iter().take_while(|line| **line != "it ran").any(|line| line.contains(&closed));
        assert_eq!(is_before, is_loud, "{stderr}");
        let told = json(Path::new(&status));
        assert!(told["reasons"].to_string().contains("trace"), "{told}");
    }
    assert_eq!(json(&base.path().join("p.evidence.json"))["identity"]["outcome"]["exit_code"], 0);
}

/// Somebody moves the run's processes elsewhere and removes its group.
#[test]
fn a_group_that_is_removed_under_us_is_told_and_the_run_ends() {
    let Some(stage) = Stage::new("faults::a_group_that_is_removed_under_us_is_told_and_the_run_ends") else {
        return;
    };
    let script = "touch ready; until [ -e go ]; do sleep 0.01; done; touch late";
    let child = stage.command(&["sh", "-c", script]).spawn().expect("assay");
    wait_until("the command runs", || stage.path("ready").exists());
    let groups = groups_of(child.id());
    assert_eq!(groups.len(), 1);
    let root = &cgroup_roots()[0];
    wait_until("the group is empty and gone", || {
        let members = fs::read_to_string(groups[0].join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines() {
            // One that has just ended cannot be moved.
            drop(fs::write(root.join("cgroup.procs"), pid));
        }
        fs::remove_dir(&groups[0]).is_ok() || !groups[0].exists()
    });
    stage.file("go", "");
    let played = stage.read(&child.wait_with_output().expect("assay"));
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}{}", played.outcome, played.stderr);
    let reasons = played.evidence["coverage"]["reasons"].to_string();
    assert!(reasons.contains("left-cgroup"), "{reasons}");
    let late = stage.at("late");
    assert!(played.trace.iter().any(|line| line["path"] == late.as_str()), "what it did outside is told");
}

/// A command that makes processes until it may not, against its own limit.
#[test]
fn a_fork_bomb_against_its_limit_ends_with_the_run() {
    let test = "faults::a_fork_bomb_against_its_limit_ends_with_the_run";
    if !are_met(test, &[Need::Root, Need::Btf, Need::CgroupV2, Need::Program("prlimit")]) {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    let status = base.path().join("status");
    let bomb = "bomb() { bomb | bomb & bomb; }; bomb";
    let folder = base.path().join("out");
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let mut command = run_into(&folder, &status, &["prlimit", "--nproc=120", "sh", "-c", bomb]);
    let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let position = words.iter().position(|word| word == "--").expect("where the command begins");
    let mut assay = Command::new(command.get_program());
    assay.args(&words[..position]).args(["--user", "64123", "--timeout", "3s", "--descendants", "kill"]);
    assay.args(&words[position..]).env_remove("SUDO_UID").current_dir("/");
    command = assay;
    let child = command.stderr(std::process::Stdio::piped()).spawn().expect("assay");
    let maker = child.id();
    let output = child.wait_with_output().expect("assay");
    let told = json(&status);
    // The first of them gives up as soon as it may make no more; what it made goes on until it is ended.
    let is_told =
        !told["child"].is_null() && told["exit_code"].as_i64() == output.status.code().map(i64::from);
    assert!(is_told, "{told}");
    assert!(text(&output.stderr).contains("fork"), "the limit was not reached");
    assert!(groups_of(maker).is_empty(), "its group is left");
    let is_left = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains("\nUid:\t64123\t") && is_running(*pid)
    };
    let pids = fs::read_dir("/proc").expect("proc").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    assert_eq!(pids.filter(is_left).count(), 0, "processes of the bomb are left");
    assert_eq!(whole(&folder).len(), NAMES.len());
}

#[test]
fn two_thousand_processes_are_told() {
    let Some(stage) = Stage::new("faults::two_thousand_processes_are_told") else { return };
    stage.file("f", "");
    let open = call(libc::SYS_openat, [libc::AT_FDCWD.into(), "f".into(), libc::O_RDONLY.into(), 0.into()]);
    let wait = act(Act::Await(stage.path("go").into_os_string().into_encoded_bytes()));
    // Half of them wait for the last, so that many are there at once.
    let mut lists = vec![vec![open.clone()]; 1_900];
    lists.extend(vec![vec![wait, open.clone()]; 99]);
    lists.push(vec![call(
        libc::SYS_openat,
        [libc::AT_FDCWD.into(), "go".into(), (libc::O_WRONLY | libc::O_CREAT).into(), 0o644.into()],
    )]);
    let played = stage.play(&[act(Act::Patience(300)), act(Act::Together(lists))]);
    let path = stage.at("f");
    let by: std::collections::BTreeSet<u64> = played
        .trace
        .iter()
        .filter(|line| line["op"] == "open" && line["path"] == path.as_str())
        .filter_map(|line| line["pid"].as_u64())
        .collect();
    assert_eq!((by.len(), played.lost), (1_999, 0));
    assert_eq!(played.evidence["observed"]["counters"]["processes"], 2_001);
    stage.check_coverage(&played);
}

/// Twenty runs at once, the observer of one is killed: that one says so, and the others do not notice.
#[test]
fn of_twenty_runs_one_observer_is_killed_and_the_others_are_whole() {
    let test = "faults::of_twenty_runs_one_observer_is_killed_and_the_others_are_whole";
    let Some(first) = Stage::new(test) else { return };
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let mut stages = vec![first];
    stages.extend((1..20).filter_map(|_| Stage::new(test)));
    let script = "touch ready; until [ -e go ]; do sleep 0.02; done; touch made";
    let mut children: Vec<Running> =
        stages.iter().map(|stage| Running::start(&mut stage.command(&["sh", "-c", script]))).collect();
    wait_until("all have begun", || stages.iter().all(|stage| stage.path("ready").exists()));
    let pids: Vec<u32> = children.iter().map(Running::id).collect();
    let helpers = children_of(pids[7]);
    kill_process(Pid::from_raw(pids[7] as i32).expect("an id"), Signal::KILL).expect("to kill it");
    children.remove(7).wait();
    let victim = stages.remove(7);
    wait_until("its last words", || victim.artifact("status").exists());
    let told = json(&victim.artifact("status"));
    assert_eq!((&told["verdict"], &told["child"]), (&"failed".into(), &Value::Null), "{told}");
    assert!(victim.artifact("run.profile.json").exists());
    wait_until("all of it goes", || {
        groups_of(pids[7]).is_empty() && helpers.iter().all(|pid| !is_running(*pid))
    });
    for stage in &stages {
        stage.file("go", "");
    }
    for (stage, child) in stages.iter().zip(children) {
        let played = stage.read(&child.output());
        assert_eq!((played.outcome["verdict"].as_str(), played.lost), (Some("ok"), 0), "{}", played.outcome);
        let made = stage.at("made");
        assert!(played.trace.iter().any(|line| line["path"] == made.as_str()));
        stage.check_coverage(&played);
    }
    assert!(pids.iter().all(|pid| groups_of(*pid).is_empty()));
    assert_eq!(fs::read_to_string("/proc/self/mountinfo").expect("mountinfo"), mounts);
}

/// Ended by a signal at any moment: the artifacts are there if the command had started, and nothing is left.
#[test]
fn a_signal_at_any_moment_leaves_whole_artifacts_or_none() {
    if !are_met("faults::a_signal_at_any_moment_leaves_whole_artifacts_or_none", &NEEDS) {
        return;
    }
    let mut had_started = 0;
    for (turn, micros) in
        [0, 2_000, 10_000, 40_000, 100_000, 250_000, 600_000, 1_500_000].into_iter().enumerate()
    {
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            let base = tempfile::tempdir().expect("a folder");
            let (folder, status) = (base.path().join("out"), base.path().join("status"));
            fs::create_dir(&folder).expect("a folder");
            let started = Instant::now();
            let mut command = run_into(&folder, &status, &["sleep", "60"]);
            let child = command.stderr(std::process::Stdio::piped()).spawn().expect("assay");
            let maker = child.id();
            std::thread::sleep(Duration::from_micros(micros).saturating_sub(started.elapsed()));
            // It may have been too early for it to be more than a copy of ourselves.
            kill_process(Pid::from_raw(maker as i32).expect("an id"), signal).ok();
            let output: Output = child.wait_with_output().expect("assay");
            let found = whole(&folder);
            if status.exists() {
                let told = json(&status);
                let is_started = !told["child"].is_null();
                had_started += u32::from(is_started);
                assert!(!is_started || found.len() == NAMES.len(), "{turn} {signal:?}: {found:?} {told}");
                assert_eq!(told["exit_code"].as_i64(), output.status.code().map(i64::from), "{told}");
            }
            wait_until("its group goes", || groups_of(maker).is_empty());
        }
    }
    assert!(had_started > 0, "no signal came in the middle of a run");
}
