//! What the command is launched with and without: capabilities, ids, control group, private directory, time.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::ordinary::Ordinary;
use crate::harness::sandbox::{
    cgroup_roots, every_file, groups_of, is_running, run, sandbox, stdout_of, successful, text, wait_until,
};
use crate::needs::{Need, are_met};

const NEEDS: [Need; 2] = [Need::Root, Need::CgroupV2];

/// Numbers from include/uapi/linux/capability.h of what is dropped in every mode.
const DROPPED: [(u32, &str); 20] = [
    (2, "DAC_READ_SEARCH"),
    (8, "SETPCAP"),
    (9, "LINUX_IMMUTABLE"),
    (12, "NET_ADMIN"),
    (13, "NET_RAW"),
    (16, "SYS_MODULE"),
    (17, "SYS_RAWIO"),
    (18, "SYS_CHROOT"),
    (19, "SYS_PTRACE"),
    (21, "SYS_ADMIN"),
    (22, "SYS_BOOT"),
    (27, "MKNOD"),
    (29, "AUDIT_WRITE"),
    (30, "AUDIT_CONTROL"),
    (32, "MAC_OVERRIDE"),
    (33, "MAC_ADMIN"),
    (34, "SYSLOG"),
    (38, "PERFMON"),
    (39, "BPF"),
    (40, "CHECKPOINT_RESTORE"),
];

fn capability_sets(options: &[&str]) -> Vec<u64> {
    let status = stdout_of(options, &["grep", "^Cap", "/proc/self/status"]);
    let sets: Vec<u64> = status
        .lines()
        .filter_map(|line| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok())
        .collect();
    assert_eq!(sets.len(), 5, "{status}");
    sets
}

#[test]
fn dangerous_capabilities_are_dropped_from_every_set_in_every_mode() {
    if !are_met("launch::dangerous_capabilities_are_dropped_from_every_set_in_every_mode", &NEEDS) {
        return;
    }
    for mode in [&["--allow-unobserved", "--dry-run"][..], &[]] {
        for set in capability_sets(mode) {
            for (number, name) in DROPPED {
                assert_eq!(set & (1 << number), 0, "{name} with {mode:?}");
            }
        }
    }
    // Others are ours to keep: a build as root runs as root.
    assert_ne!(capability_sets(&[])[2] & 1, 0, "CHOWN");
}

#[test]
fn capabilities_that_are_asked_for_are_kept() {
    if !are_met("launch::capabilities_that_are_asked_for_are_kept", &NEEDS) {
        return;
    }
    let sets = capability_sets(&["--keep-caps", "cap_net_raw,MKNOD"]);
    for set in &sets[1..4] {
        assert_eq!(set & (1 << 13 | 1 << 27), 1 << 13 | 1 << 27);
        assert_eq!(set & (1 << 21), 0);
    }
}

#[test]
fn no_new_privileges_is_set_except_in_a_dry_run() {
    if !are_met("launch::no_new_privileges_is_set_except_in_a_dry_run", &NEEDS) {
        return;
    }
    let probe = ["grep", "NoNewPrivs", "/proc/self/status"];
    assert_eq!(stdout_of(&[], &probe), "NoNewPrivs:\t1\n");
    assert_eq!(stdout_of(&["--dry-run", "--allow-unobserved"], &probe), "NoNewPrivs:\t0\n");
}

#[test]
fn control_groups_are_read_only_for_the_command_and_the_hosts_mounts_unchanged() {
    if !are_met("launch::control_groups_are_read_only_for_the_command_and_the_hosts_mounts_unchanged", &NEEDS)
    {
        return;
    }
    let before = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let roots: Vec<String> = before
        .lines()
        .filter(|line| line.contains(" - cgroup"))
        .filter_map(|line| line.split(' ').nth(4).map(str::to_owned))
        .collect();
    for root in &roots {
        let script = format!("echo 0 > {root}/cgroup.procs; mkdir {root}/assay-test-made");
        let output = run(&["--dry-run", "--allow-unobserved"], &["sh", "-c", &script]);
        assert_eq!(
            text(&output.stderr).matches("Read-only file system").count(),
            2,
            "{root}: {}",
            text(&output.stderr)
        );
    }
    let options = ["--dry-run", "--allow-unobserved"];
    let undo = format!("mount -o remount,rw,bind {0} {0}; umount {0}", roots[0]);
    assert!(!run(&options, &["sh", "-c", &undo]).status.success());
    let after = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    assert_eq!(before, after);
}

#[test]
fn the_command_runs_in_its_own_group_which_is_gone_afterwards() {
    if !are_met("launch::the_command_runs_in_its_own_group_which_is_gone_afterwards", &NEEDS) {
        return;
    }
    let shown = stdout_of(&[], &["grep", "^0::", "/proc/self/cgroup"]);
    let group = shown.trim().trim_start_matches("0::");
    let name = Path::new(group).file_name().expect("a group").to_string_lossy().into_owned();
    assert!(name.starts_with("assay-"), "{shown}");
    for root in cgroup_roots() {
        assert!(!root.join(group.trim_start_matches('/')).exists(), "{group} is left");
    }
}

#[test]
fn sudo_runs_the_command_as_the_user_who_called_it() {
    if !are_met("launch::sudo_runs_the_command_as_the_user_who_called_it", &NEEDS) {
        return;
    }
    let probe = "id -u; id -g; id -G; echo $HOME; echo x > $TMPDIR/f && cat $TMPDIR/f; stat -c %u:%g:%a $TMPDIR; grep CapEff /proc/self/status";
    let passwd = fs::read_to_string("/etc/passwd").expect("passwd");
    let nobody: Vec<&str> =
        passwd.lines().find(|line| line.starts_with("nobody:")).expect("nobody").split(':').collect();
    let (uid, gid, home) = (nobody[2], nobody[3], nobody[5]);
    let expect = format!("{uid}\n{gid}\n{gid}\n{home}\nx\n{uid}:{gid}:700\nCapEff:\t0000000000000000\n");
    let mut command = sandbox(&[], &["sh", "-c", probe]);
    command.env("SUDO_UID", uid).env("SUDO_GID", gid).env_remove("TMPDIR");
    assert_eq!(text(&successful(command.output().expect("assay")).stdout), expect);
    assert_eq!(stdout_of(&["--user", "nobody"], &["sh", "-c", probe]), expect);

    // An explicit user goes before the one who called.
    let mut command = sandbox(&["--user", "root"], &["id", "-u"]);
    assert_eq!(text(&command.env("SUDO_UID", uid).output().expect("assay").stdout), "0\n");
    let mut command = sandbox(&["--user", "12345:54321"], &["sh", "-c", "id -u; id -G; echo $HOME"]);
    assert_eq!(text(&command.output().expect("assay").stdout), "12345\n54321\n/\n");
    let mut command = sandbox(&[], &["true"]);
    assert_eq!(command.env("SUDO_UID", "-1").output().expect("assay").status.code(), Some(2));
}

#[test]
fn the_status_file_tells_the_outcome_and_belongs_to_the_caller() {
    if !are_met("launch::the_status_file_tells_the_outcome_and_belongs_to_the_caller", &NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("status");
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").expect("a file");
    symlink(&victim, &path).expect("a link");
    let option = path.to_str().expect("a plain name");
    let mut command = sandbox(&["--status-file", option], &["sh", "-c", "exit 4"]);
    command.env("SUDO_UID", "65534").env("SUDO_GID", "65533");
    assert_eq!(command.output().expect("assay").status.code(), Some(4));
    let meta = fs::symlink_metadata(&path).expect("a status file");
    assert!(meta.is_file());
    assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (65534, 65533, 0o600));
    assert_eq!(fs::read_to_string(&victim).expect("the victim"), "precious");

    let check = |options: &[&str], command: &[&str], code: i32, expect: &str| {
        drop(fs::remove_file(&path));
        let all = [&["--status-file", option], options].concat();
        assert_eq!(run(&all, command).status.code(), Some(code), "{options:?} {command:?}");
        let status = fs::read_to_string(&path).expect("a status file");
        let value: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        let told = format!("{} {} {}", value["child"], value["exit_code"], value["verdict"]);
        assert_eq!(told, expect, "{options:?} {command:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 2, "something lies beside it");
    };
    check(&[], &["true"], 0, r#"{"exit_code":0} 0 "ok""#);
    check(&[], &["sh", "-c", "kill -TERM $$"], 143, r#"{"signal":"SIGTERM"} 143 "ok""#);
    check(&["--timeout", "0.2"], &["sleep", "60"], 124, r#"{"timeout":true} 124 "ok""#);
    check(&[], &["/no/such/program"], 127, r#"null 127 "failed""#);
    check(&[], &["/etc/passwd"], 126, r#"null 126 "failed""#);
    check(&["--workdir", "/no/such"], &["true"], 125, r#"null 125 "failed""#);
}

#[test]
fn an_artifact_that_cannot_be_written_is_exit_3_after_the_command_ran() {
    if !are_met("launch::an_artifact_that_cannot_be_written_is_exit_3_after_the_command_ran", &NEEDS) {
        return;
    }
    let output = run(&["--status-file", "/no/such/folder/status"], &["echo", "ran"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(3), "ran\n"));
    assert!(text(&output.stderr).contains("/no/such/folder/status"), "{}", text(&output.stderr));
}

#[test]
fn time_runs_out() {
    if !are_met("launch::time_runs_out", &NEEDS) {
        return;
    }
    let started = Instant::now();
    assert_eq!(run(&["--timeout", "0.2s"], &["sleep", "60"]).status.code(), Some(124));
    assert!(started.elapsed() < Duration::from_secs(10));
    // One that will not hear, and its children, are killed after the grace of 2 s.
    let script = "trap '' TERM; (trap '' TERM; sleep 60; true) & sleep 60; true";
    let started = Instant::now();
    assert_eq!(run(&["--timeout", "0.2s"], &["sh", "-c", script]).status.code(), Some(124));
    let took = started.elapsed();
    assert!(took > Duration::from_secs(2) && took < Duration::from_secs(15), "{took:?}");
    // One that is stopped ends as well.
    let started = Instant::now();
    assert_eq!(
        run(&["--timeout", "0.5s"], &["setsid", "sh", "-c", "kill -STOP $$"]).status.code(),
        Some(124)
    );
    assert!(started.elapsed() < Duration::from_secs(10));
    // And an end of its own within the grace is still our doing.
    assert_eq!(
        run(&["--timeout", "0.2s"], &["sh", "-c", "trap 'exit 0' TERM; sleep 60 & wait"]).status.code(),
        Some(124)
    );
}

/// Runs a command that leaves `left` behind, and returns its process and how long we took.
fn leave_behind(descendants: &str, left: &str) -> (u32, Duration) {
    let script = format!("setsid sh -c '{left}' >/dev/null 2>&1 & echo $!");
    let started = Instant::now();
    let output = stdout_of(&["--descendants", descendants], &["sh", "-c", &script]);
    (output.trim().parse().expect("a process id"), started.elapsed())
}

#[test]
fn descendants_are_waited_for_terminated_killed_or_left() {
    if !are_met("launch::descendants_are_waited_for_terminated_killed_or_left", &NEEDS) {
        return;
    }
    let seconds = Duration::from_secs;
    let (_, took) = leave_behind("wait", "exec sleep 0.5");
    assert!(took > Duration::from_millis(450) && took < seconds(30), "waited for: {took:?}");
    let (pid, took) = leave_behind("wait", "exec sleep 60");
    assert!(!is_running(pid) && took > seconds(5) && took < seconds(30), "terminated: {took:?}");
    let (pid, took) = leave_behind("wait", "trap \"\" TERM; sleep 60; true");
    assert!(!is_running(pid) && took > seconds(7) && took < seconds(30), "killed: {took:?}");
    let (pid, took) = leave_behind("kill", "exec sleep 60");
    assert!(!is_running(pid) && took < seconds(30), "killed at once: {took:?}");

    let (pid, took) = leave_behind("leave", "exec sleep 60");
    assert!(is_running(pid) && took < seconds(30), "left: {took:?}");
    // The next run takes nobody's group for a stale one.
    successful(run(&[], &["true"]));
    assert!(is_running(pid));
    let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("its group");
    assert!(!group.contains("assay-"), "{group}");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid as i32).expect("an id"),
        rustix::process::Signal::KILL,
    )
    .expect("ours to kill");
}

/// Whoever leaves processes behind is told that nobody holds or sees them: before, in every artifact, and not at all where
/// all must be held.
#[test]
fn what_is_left_to_run_on_is_neither_vouched_for_nor_held() {
    let needs = [Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(4)];
    if !are_met("launch::what_is_left_to_run_on_is_neither_vouched_for_nor_held", &needs) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("p.json");
    let evidence = folder.path().join("p.evidence.json");
    let run = |options: &[&str], script: &str| {
        let profile = profile.to_str().expect("a plain name");
        let options = [options, &["--profile-format", "json", "--profile", profile]].concat();
        let output = sandbox(&options, &["sh", "-c", script]).output().expect("assay");
        let evidence: Option<serde_json::Value> =
            fs::read(&evidence).ok().map(|bytes| serde_json::from_slice(&bytes).expect("JSON"));
        (output.status.code(), text(&output.stderr), evidence)
    };
    // It ends by itself.
    let script = "sleep 2 > /dev/null 2>&1 & exit 0";
    let (code, told, evidence) = run(&["--descendants", "leave", "--fail-closed"], script);
    assert!(code == Some(2) && told.contains("left to run on") && evidence.is_none(), "{code:?} {told}");

    let unheld = serde_json::json!({"component": "net", "reason": "not-held-when-left"});
    for (mode, is_held) in [("--enforce", false), ("--dry-run", true)] {
        let (code, told, evidence) = run(&["--descendants", "leave", mode], script);
        let evidence = evidence.unwrap_or_else(|| panic!("no evidence: {told}"));
        assert!(matches!(code, Some(0 | 4)), "{code:?} {told}");
        let degradations = evidence["identity"]["degradations"].as_array().expect("degradations");
        assert_eq!(degradations.contains(&unheld), !is_held, "{degradations:?}");
        for kind in ["fs", "exec", "net"] {
            assert_eq!(evidence["coverage"][kind], "partial", "{mode} {kind}");
        }
        let reasons = evidence["coverage"]["reasons"].to_string();
        assert!(reasons.contains("left-running"), "{reasons}");
    }
    // What Landlock, mounts and the system call filter hold goes on.
    let policy = folder.path().join("policy.yaml");
    let rules = "fs:\n  allow: [{path: '${WORKDIR}', access: [read, write]}]\n  deny: [{path: kept, access: [write]}]\n";
    fs::write(&policy, format!("api_version: assay/v1\n{rules}")).expect("a policy");
    let work = folder.path().join("work");
    fs::create_dir(&work).expect("a folder");
    fs::write(work.join("kept"), "as it was").expect("a file");
    let script = "(until [ -e go ]; do sleep 0.05; done; echo x > kept; echo x > ../outside; echo > tried) \
                  > /dev/null 2>&1 & exit 0";
    let options = ["--descendants", "leave", "--enforce", "--policy", policy.to_str().expect("a plain name")];
    let output = sandbox(&options, &["sh", "-c", script]).current_dir(&work).output().expect("assay");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    fs::write(work.join("go"), "").expect("a file");
    wait_until("what was left has tried", || work.join("tried").exists());
    assert_eq!(fs::read_to_string(work.join("kept")).expect("a file"), "as it was");
    assert!(!folder.path().join("outside").exists());

    // Nobody was left, and nobody vouches for less.
    let (_, told, evidence) = run(&["--descendants", "leave", "--dry-run"], "exit 0");
    let evidence = evidence.unwrap_or_else(|| panic!("no evidence: {told}"));
    assert_eq!(evidence["coverage"]["net"], "complete", "{:#}", evidence["coverage"]);
}

#[test]
fn a_command_that_may_not_run_is_named_with_what_would_allow_it() {
    let needs = [Need::Root, Need::CgroupV2, Need::LandlockAbi(4)];
    if !are_met("launch::a_command_that_may_not_run_is_named_with_what_would_allow_it", &needs) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("p.yaml");
    fs::write(&policy, "api_version: assay/v1\nexec: {allow: []}\n").expect("a policy");
    let output = sandbox(&["--policy", policy.to_str().expect("a plain name")], &["true"]).output();
    let output = output.expect("assay");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(126), "{told}");
    assert!(told.contains("/true") && told.contains("exec"), "{told}");
}

#[test]
fn a_hostile_private_directory_is_removed() {
    if !are_met("launch::a_hostile_private_directory_is_removed", &NEEDS) {
        return;
    }
    let script = r#"
        cd "$TMPDIR" && pwd -P
        test -z "$(ls -A)" || echo not empty
        ln -s / root; ln -s /etc/passwd file; mkfifo pipe; mkdir closed; echo x > closed/f; chmod 0 closed
        i=0; while [ $i -lt 400 ]; do mkdir d; cd d || break; i=$((i+1)); done
        chattr +i . 2>/dev/null && echo immutable
        chmod 0 "$TMPDIR"; true"#;
    for options in [&[][..], &["--user", "nobody"], &["--dry-run", "--allow-unobserved"]] {
        let shown = stdout_of(options, &["sh", "-c", script]);
        let path = Path::new(shown.trim());
        assert!(shown.starts_with('/') && shown.lines().count() == 1, "{shown}");
        assert!(!path.exists(), "{} is left", path.display());
    }
    assert!(fs::metadata("/etc/passwd").is_ok());
}

#[test]
fn two_runs_do_not_share_a_directory_or_a_group() {
    if !are_met("launch::two_runs_do_not_share_a_directory_or_a_group", &NEEDS) {
        return;
    }
    let shown: Vec<String> = (0..8)
        .map(|_| sandbox(&[], &["sh", "-c", "echo $TMPDIR; grep ^0:: /proc/self/cgroup; sleep 0.3"]))
        .map(|mut command| command.stdout(std::process::Stdio::piped()).spawn().expect("assay"))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|child| {
            let maker = child.id();
            let output = text(&successful(child.wait_with_output().expect("assay")).stdout);
            assert!(groups_of(maker).is_empty());
            output
        })
        .collect();
    let mut lines: Vec<&str> = shown.iter().flat_map(|output| output.lines()).collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 16, "{lines:?}");
}

#[test]
fn signals_that_are_sent_to_us_reach_the_command() {
    if !are_met(
        "launch::signals_that_are_sent_to_us_reach_the_command",
        &[Need::Root, Need::CgroupV2, Need::Program("bash")],
    ) {
        return;
    }
    for signal in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH", "ALRM", "RTMIN+3", "TSTP"] {
        let script = format!("trap 'echo got; exit 9' {signal}; echo ready; while :; do sleep 0.02; done");
        let sandbox = sandbox(&[], &["bash", "-c", &script]);
        // A shell that starts us in the background ignores SIGINT and SIGQUIT, and then nobody can trap them.
        let mut child = std::process::Command::new("env");
        child.arg("--default-signal").arg(sandbox.get_program()).args(sandbox.get_args());
        child.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(std::process::Stdio::null());
        let mut child = child.stdout(std::process::Stdio::piped()).spawn().expect("assay");
        let mut out = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
        let killed = std::process::Command::new("bash")
            .args(["-c", &format!("kill -{signal} {}", child.id())])
            .status();
        assert!(killed.expect("kill").success());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut out, &mut rest).expect("the rest");
        assert_eq!((rest.as_str(), child.wait().expect("assay").code()), ("got\n", Some(9)), "{signal}");
    }
}

#[test]
fn a_command_that_signals_its_group_is_not_signalled_twice() {
    if !are_met(
        "launch::a_command_that_signals_its_group_is_not_signalled_twice",
        &[Need::Root, Need::CgroupV2, Need::Program("bash")],
    ) {
        return;
    }
    let script = "n=0; trap 'n=$((n+1))' USR1; kill -USR1 0; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.03; done; echo $n";
    let output = std::process::Command::new("setsid")
        .args(["--wait", crate::harness::sandbox::ASSAY, "--quiet", "sandbox", "--", "bash", "-c", script])
        .output()
        .expect("assay");
    assert_eq!(text(&output.stdout), "1\n", "{}", text(&output.stderr));
}

#[test]
fn we_stop_and_go_on_with_the_command() {
    if !are_met("launch::we_stop_and_go_on_with_the_command", &NEEDS) {
        return;
    }
    let mut child = sandbox(&[], &["sh", "-c", "kill -STOP $$; exit 5"]).spawn().expect("assay");
    let state = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").map(|(_, rest)| rest[..1].to_owned()).unwrap_or_default()
    };
    wait_until("we stop with it", || state(child.id()) == "T");
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("an id");
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("a signal");
    assert_eq!(child.wait().expect("assay").code(), Some(5));
}

/// An ordinary user may make no control group here; the processes of a run are then found by descent.
#[test]
fn an_ordinary_user_is_served_without_a_control_group() {
    let needs = [Need::Root, Need::CgroupV2, Need::Program("setpriv")];
    if !are_met("launch::an_ordinary_user_is_served_without_a_control_group", &needs) {
        return;
    }
    let user = Ordinary::new();
    let policy = user.file("policy.yaml", &fs::read(every_file()).expect("a policy"));
    let policy = policy.to_str().expect("a plain name");
    let ordinary = |options: &[&str], script: &str| {
        let arguments = [&["sandbox"], options, &["--policy", policy, "--", "sh", "-c", script]].concat();
        user.assay(&arguments).output().expect("setpriv")
    };
    let output = ordinary(&[], "id -u; echo x > $TMPDIR/f && cat $TMPDIR/f; exit 9");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(9), "65534\nx\n"));
    let said = text(&output.stderr);
    assert_eq!(said.matches("nothing is recorded").count(), 1, "{said}");
    assert!(!said.lines().any(|line| line.starts_with("error")), "{said}");

    // A record that was asked for and cannot be had refuses the run, which leaves nothing.
    let output = ordinary(&["--dry-run"], "echo ran");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert_eq!(text(&output.stderr).matches("observe the run").count(), 1, "{}", text(&output.stderr));

    for (descendants, runs_on) in [("kill", false), ("leave", true)] {
        let output = ordinary(&["--descendants", descendants], "setsid sleep 60 >/dev/null 2>&1 & echo $!");
        let pid: u32 = text(&output.stdout).trim().parse().expect("a process id");
        assert_eq!(is_running(pid), runs_on, "{descendants}");
        let pid = rustix::process::Pid::from_raw(pid as i32).expect("an id");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
    }
    let started = Instant::now();
    let output = ordinary(&["--timeout", "0.3"], "sleep 60; true");
    assert_eq!(output.status.code(), Some(124));
    assert!(started.elapsed() < Duration::from_secs(10));
}
