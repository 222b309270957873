//! However we end, the command ends with us and nothing is left.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::sandbox::{children_of, groups_of, is_running, run, sandbox, successful, wait_until};
use crate::needs::{Need, are_met};

const NEEDS: [Need; 2] = [Need::Root, Need::CgroupV2];

fn kill(pid: u32) {
    // One that is gone already is what we wanted.
    kill_process(Pid::from_raw(pid as i32).expect("an id"), Signal::KILL).ok();
}

/// A run with descendants that would outlive it, in a temporary directory of its own.
struct Victim {
    base: tempfile::TempDir,
    child: Child,
}

impl Victim {
    fn start() -> Self {
        let base = tempfile::tempdir().expect("a folder");
        let script = "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.01; done' & echo $$ > ran; while :; do sleep 0.01; done";
        let mut command =
            sandbox(&["--workdir", base.path().to_str().expect("a plain name")], &["sh", "-c", script]);
        fs::create_dir(base.path().join("tmp")).expect("a folder");
        command.env("TMPDIR", base.path().join("tmp")).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().expect("assay"), base }
    }

    fn private(&self) -> Vec<PathBuf> {
        fs::read_dir(self.base.path().join("tmp"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .collect()
    }

    fn ran(&self) -> bool {
        fs::read_to_string(self.base.path().join("ran")).is_ok_and(|text| text.ends_with('\n'))
    }

    /// The processes of the run: those whose working directory is ours.
    fn processes(&self) -> Vec<u32> {
        let is_ours = |pid: &u32| {
            fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == self.base.path())
                && is_running(*pid)
        };
        let pids = fs::read_dir("/proc").expect("proc").flatten();
        pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
    }
}

/// Kills us after each delay; then nothing may be left but what the next run removes.
#[test]
fn killed_at_any_moment_nothing_is_left() {
    if !are_met("shutdown::killed_at_any_moment_nothing_is_left", &NEEDS) {
        return;
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let moments = [0, 300, 600, 1000, 1600, 3000, 6000, 12_000, 25_000, 60_000, 150_000, 400_000];
    // However slow the machine, the last one is in the middle of the command.
    for moment in moments.map(Some).into_iter().chain([None]) {
        let mut victim = Victim::start();
        let maker = victim.child.id();
        match moment {
            Some(micros) => {
                let deadline = Instant::now() + Duration::from_micros(micros);
                while Instant::now() < deadline {
                    std::hint::spin_loop();
                }
            }
            None => wait_until("the command runs", || victim.ran()),
        }
        let helpers = children_of(maker);
        kill(maker);
        victim.child.wait().expect("it is ours");
        wait_until("every process of the run ends", || victim.processes().is_empty());
        wait_until("our own processes end", || helpers.iter().all(|pid| !is_running(*pid)));
        wait_until("the private directory goes", || victim.private().is_empty());
        // A group that was made before there was a watchdog is the next run's to remove.
        successful(run(&[], &["true"]));
        wait_until("the group goes", || groups_of(maker).is_empty());
    }
    assert_eq!(fs::read_to_string("/proc/self/mountinfo").expect("mountinfo"), mounts);
}

#[test]
fn killed_in_the_middle_of_a_run_the_watchdog_alone_clears_everything() {
    if !are_met("shutdown::killed_in_the_middle_of_a_run_the_watchdog_alone_clears_everything", &NEEDS) {
        return;
    }
    let mut victim = Victim::start();
    wait_until("the command runs", || victim.ran());
    let maker = victim.child.id();
    assert_eq!(groups_of(maker).len(), 1);
    assert!(victim.processes().len() >= 2);
    kill(maker);
    victim.child.wait().expect("it is ours");
    wait_until("all goes", || {
        victim.processes().is_empty() && groups_of(maker).is_empty() && victim.private().is_empty()
    });
}

#[test]
fn killed_while_everything_is_held_what_placeholders_need_goes_too() {
    let needs = [Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(1)];
    if !are_met("shutdown::killed_while_everything_is_held_what_placeholders_need_goes_too", &needs) {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    let (work, temporary) = (base.path().join("w"), base.path().join("tmp"));
    fs::create_dir(&work).expect("a folder");
    fs::create_dir(&temporary).expect("a folder");
    let policy = base.path().join("policy.yaml");
    let rules = "api_version: assay/v1\nfs:\n  allow: [{path: '${WORKDIR}', access: [read, write, execute]}]\n  deny: [{path: .vscode, access: [write]}]\n";
    fs::write(&policy, rules).expect("a policy");
    let plain = |path: &std::path::Path| path.to_str().expect("a plain name").to_owned();
    let options = ["--fail-closed", "--policy", &plain(&policy), "--workdir", &plain(&work)];
    let mut command = sandbox(&options, &["sh", "-c", "mkdir .vscode || touch ran; sleep 60"]);
    let mut child = command.env("TMPDIR", &temporary).spawn().expect("assay");
    wait_until("the command runs", || work.join("ran").exists());
    let count = || fs::read_dir(&temporary).expect("a folder").count();
    assert_eq!(count(), 2, "the private directory, and what placeholders need");
    kill(child.id());
    child.wait().expect("it is ours");
    wait_until("both go", || count() == 0);
    assert!(!work.join(".vscode").exists());
}

/// A root command can kill us; then it does not live to profit from it.
#[test]
fn a_command_that_kills_us_dies() {
    if !are_met("shutdown::a_command_that_kills_us_dies", &NEEDS) {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    let proof = base.path().join("proof");
    let script = format!("kill -9 $PPID; sleep 3; echo alive > {}", proof.display());
    let mut child =
        sandbox(&["--dry-run", "--allow-unobserved"], &["sh", "-c", &script]).spawn().expect("assay");
    let maker = child.id();
    child.wait().expect("it is ours");
    wait_until("the group goes", || groups_of(maker).is_empty());
    assert!(!proof.exists());
}

#[test]
fn a_run_whose_watchdog_was_killed_still_ends_clean() {
    if !are_met("shutdown::a_run_whose_watchdog_was_killed_still_ends_clean", &NEEDS) {
        return;
    }
    let mut victim = Victim::start();
    wait_until("the command runs", || victim.ran());
    let maker = victim.child.id();
    let is_watchdog = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "assay-watchdog")
    };
    let watchdog = children_of(maker).into_iter().find(is_watchdog).expect("a watchdog");
    kill(watchdog);
    let command = *victim.processes().iter().min().expect("the command");
    kill(command);
    let mut others = victim.processes();
    others.retain(|pid| *pid != command);
    others.into_iter().for_each(kill);
    assert_eq!(victim.child.wait().expect("assay").code(), Some(137));
    assert!(groups_of(maker).is_empty() && victim.private().is_empty());
}

#[test]
fn terminated_while_descendants_are_waited_for_we_end_at_once() {
    if !are_met("shutdown::terminated_while_descendants_are_waited_for_we_end_at_once", &NEEDS) {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    let script = "setsid sleep 60 & touch ran";
    let mut child =
        sandbox(&["--workdir", base.path().to_str().expect("a plain name")], &["sh", "-c", script])
            .spawn()
            .expect("assay");
    wait_until("the command runs", || base.path().join("ran").exists());
    let started = Instant::now();
    wait_until("it has ended", || children_of(child.id()).len() <= 1);
    kill_process(Pid::from_raw(child.id() as i32).expect("an id"), Signal::TERM).expect("a signal");
    assert_eq!(child.wait().expect("assay").code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

/// What was recorded until then is there, and says that it is not all.
#[test]
fn a_run_whose_observer_was_killed_says_so() {
    if !are_met("shutdown::a_run_whose_observer_was_killed_says_so", &[Need::Root, Need::Btf, Need::CgroupV2])
    {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    let at = |name: &str| base.path().join(name).to_string_lossy().into_owned();
    let (trace, profile, status) = (at("trace"), at("run.yaml"), at("status"));
    // Relative names are those of the caller, whom the watchdog has left.
    let options = ["--dry-run", "--trace", "trace", "--profile", "run.yaml", "--status-file", "status"];
    // The trace is written when there is nothing else to do.
    // As the trace has it, not as the arguments of this script are told in it.
    let seen = r#""path":"/etc/passwd""#;
    let script = format!(
        "cat /etc/passwd >/dev/null; until grep -qF '{seen}' {trace}; do :; done; kill -9 $PPID; sleep 30"
    );
    let mut child =
        sandbox(&options, &["sh", "-c", &script]).current_dir(base.path()).spawn().expect("assay");
    child.wait().expect("it is ours");
    wait_until("the last words", || fs::exists(&status).expect("a folder to look into"));
    let status: serde_json::Value =
        serde_json::from_slice(&fs::read(&status).expect("a status")).expect("JSON");
    assert_eq!(status["verdict"], "failed", "{status}");
    assert_eq!(status["child"], serde_json::Value::Null, "{status}");
    assert_eq!(status["reasons"][0], "the observer was killed before the run was over", "{status}");
    let trace = fs::read_to_string(&trace).expect("a trace");
    let lines: Vec<serde_json::Value> =
        trace.lines().map(|line| serde_json::from_str(line).expect("whole lines")).collect();
    let end = lines.last().expect("a line");
    assert_eq!((&end["end"], &end["reason"]), (&false.into(), &"observer killed".into()), "{end}");
    assert!(lines.iter().any(|line| line["path"] == "/etc/passwd"), "{trace}");
    assert!(fs::exists(&profile).expect("a folder to look into"));
}

/// A root command has our own ids; the limits of its observer are out of its reach all the same, and the record whole.
#[test]
fn a_root_command_cannot_lower_our_limits() {
    if !are_met("shutdown::a_root_command_cannot_lower_our_limits", &NEEDS) {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    let profile = base.path().join("p.yaml");
    let script = "prlimit --pid $PPID --fsize=0:0 2>&1; prlimit --pid $PPID --nofile=0:0 2>&1; true";
    let output =
        run(&["--dry-run", "--profile", profile.to_str().expect("a plain name")], &["sh", "-c", script]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.matches("Operation not permitted").count(), 2, "{said}");
    assert!(base.path().join("p.evidence.yaml").exists());
}

/// Those that stand by for the observer are left alone like itself, whenever they came into being.
#[test]
fn a_root_command_that_is_held_cannot_limit_those_that_watch_it() {
    let needs = [Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(1), Need::Program("prlimit")];
    if !are_met("shutdown::a_root_command_that_is_held_cannot_limit_those_that_watch_it", &needs) {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    let at = |name: &str| base.path().join(name).to_str().expect("a plain name").to_owned();
    let script = "echo $$ > own; until [ -e go ]; do sleep 0.01; done; for pid in $(cat go); do prlimit --pid $pid --fsize=0:0 2>/dev/null && echo limited $pid; renice -n 19 -p $pid >/dev/null 2>&1 && echo slowed $pid; done; true";
    let options = ["--enforce", "--profile", &at("p.yaml"), "--workdir", &at("")];
    let mut command = sandbox(&options, &["sh", "-c", script]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("assay");
    wait_until("the command runs", || fs::read_to_string(at("own")).is_ok_and(|text| text.ends_with('\n')));
    let own = fs::read_to_string(at("own")).expect("its id");
    let mut watchers = children_of(child.id());
    watchers.retain(|pid| own.trim() != pid.to_string());
    // The watchdog and the heir.
    assert!(watchers.len() >= 2, "{watchers:?}");
    watchers.push(child.id());
    let list: Vec<String> = watchers.iter().map(ToString::to_string).collect();
    fs::write(at("making"), list.join(" ")).expect("a list");
    fs::rename(at("making"), at("go")).expect("its place");
    let output = child.wait_with_output().expect("assay");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        (output.status.code(), said.as_str()),
        (Some(0), ""),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
