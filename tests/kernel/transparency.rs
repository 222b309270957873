//! The command sees what it would see without us: each test runs the same thing with and without, and compares.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use crate::harness::sandbox::{ASSAY, every_file, run, sandbox, text};
use crate::needs::{Need, are_met};

const NEEDS: [Need; 3] = [Need::Root, Need::CgroupV2, Need::Program("bash")];

/// Runs `probe` after `before` in a shell, without us and with us, and returns both.
fn both(before: &str, probe: &str) -> (Output, Output) {
    let shell = |assay: &str| {
        Command::new("bash")
            .args(["-c", &format!("{before}\nexec {assay} {probe}")])
            .env("PROBE_VARIABLE", "as it is")
            .stdin(Stdio::null())
            .output()
            .expect("a shell")
    };
    let options = "--quiet sandbox --env-passthrough --keep-caps SYS_ADMIN,SYS_PTRACE --policy";
    (shell(""), shell(&format!("{ASSAY} {options} {} --", every_file().display())))
}

fn check(before: &str, probe: &str) {
    if !are_met("transparency", &NEEDS) {
        return;
    }
    let (without, with) = both(before, probe);
    assert!(!without.stdout.is_empty() || !without.status.success(), "{probe} shows nothing");
    assert_eq!(text(&with.stdout), text(&without.stdout), "{before}; {probe}: {}", text(&with.stderr));
    assert_eq!(text(&with.stderr), text(&without.stderr), "{before}; {probe}");
    assert_eq!(with.status.code(), without.status.code(), "{before}; {probe}");
}

const SIGNALS: &str =
    "grep -E '^(SigPnd|SigBlk|SigIgn|Umask|Uid|Gid|Groups|CoreDumping|Threads)' /proc/self/status";

#[test]
fn ignored_signals_stay_ignored_and_others_do_not_become_so() {
    for before in [
        "",
        "trap '' PIPE INT",
        "trap '' HUP",
        "trap '' CHLD",
        "trap '' 1 2 3 13 15 17 20 21 22 34 64",
        "trap 'true' INT TERM",
    ] {
        check(before, SIGNALS);
    }
    check("", &format!("nohup {SIGNALS}"));
}

#[test]
fn blocked_signals_stay_blocked() {
    for options in
        ["--block-signal=USR1", "--block-signal=INT,PIPE,CHLD,TERM", "--block-signal --ignore-signal=HUP"]
    {
        let probe = "grep -E '^(SigBlk|SigIgn)' /proc/self/status";
        if !are_met("transparency::blocked_signals_stay_blocked", &NEEDS) {
            return;
        }
        let under = |assay: &[&str]| {
            let mut command = Command::new("env");
            command.arg("-S").arg(options).args(assay).args(["sh", "-c", probe]).stdin(Stdio::null());
            text(&command.output().expect("env").stdout)
        };
        let without = under(&[]);
        assert!(without.contains("SigBlk"), "{without}");
        assert_eq!(under(&[ASSAY, "--quiet", "sandbox", "--"]), without, "{options}");
    }
}

#[test]
fn the_umask_the_limits_and_the_priority_are_kept() {
    check("umask 0137", SIGNALS);
    check("ulimit -n 133 -s 4096 -u 5000 -c 0", "cat /proc/self/limits");
    check("renice -n 7 $$ >/dev/null", "nice");
    check("echo 321 > /proc/self/oom_score_adj", "cat /proc/self/oom_score_adj");
    check("", "cat /proc/self/timerslack_ns /proc/self/personality /proc/self/coredump_filter");
}

#[test]
fn the_arguments_are_passed_on_byte_for_byte() {
    check("", r"cat /proc/self/cmdline '' -- $'\xff\xfe' $'new\nline' '*' --dry-run 2>/dev/null");
}

#[test]
fn the_environment_is_passed_on_byte_for_byte() {
    check(r"export A=$'\xff\xfe\n\x01=;$(x)' EMPTY= ; export B='  '", "cat /proc/self/environ");
}

#[test]
fn the_directory_is_the_same_and_one_that_is_gone_stays_gone() {
    check("cd /usr/lib", "pwd -P");
    check("d=$(mktemp -d); cd $d; rmdir $d", "grep -c deleted /proc/self/mountinfo /proc/self/cwd/none");
    check("d=$(mktemp -d); cd $d; rmdir $d", "bash -c 'readlink /proc/self/cwd | grep -c deleted'");
}

/// The numbers and what they lead to; `ls` itself opens the directory it lists.
const DESCRIPTORS: &str = "ls -l --time-style=+ /proc/self/fd | sed -E 's/.* ([0-9]+ -> )/\\1/; s,/proc/[0-9]+,/proc/PID,; s,pipe:.*,pipe,; s/^total.*//'";

#[test]
fn descriptors_are_passed_on_and_ours_are_not() {
    let probe = format!("bash -c \"{}\"", DESCRIPTORS.replace('\\', "\\\\").replace('"', "\\\""));
    check("exec 7</etc/passwd 9>/dev/null 200<>/dev/zero", &probe);
    check("exec 3<&- 4<&-", &probe);
}

#[test]
fn standard_streams_that_are_closed_stay_closed() {
    for before in ["exec 0<&-", "exec 2>&-", "exec 0<&- 2>&-", "exec 0<&- 3</etc/passwd"] {
        check(before, "ls -l --time-style=+ /proc/self/fd/0 /proc/self/fd/2 /proc/self/fd/1 | wc -l");
    }
    check("exec 1>&-", "echo x");
}

#[test]
fn pipes_end_when_the_command_ends_them() {
    if !are_met("transparency::pipes_end_when_the_command_ends_them", &NEEDS) {
        return;
    }
    // The command closes its stdout and an inherited pipe, and lives on until the reader has seen the end of both.
    let script = r#"
        d=$(mktemp -d); mkfifo $d/one $d/two
        "$0" --quiet sandbox --policy "$1" -- sh -c 'exec >&- 5>&-; until [ -e "$0" ]; do sleep 0.01; done' $d/seen >$d/one 5>$d/two &
        exec 3<$d/one 4<$d/two
        cat <&3; cat <&4; touch $d/seen; wait; rm -r $d; echo done"#;
    let output = Command::new("timeout")
        .args(["10", "bash", "-c", script, ASSAY])
        .arg(every_file())
        .output()
        .expect("bash");
    assert_eq!(text(&output.stdout), "done\n", "{}", text(&output.stderr));
}

#[test]
fn every_exit_is_the_commands_own() {
    if !are_met("transparency::every_exit_is_the_commands_own", &NEEDS) {
        return;
    }
    for code in [0, 1, 2, 3, 4, 77, 124, 125, 126, 127, 128, 130, 255] {
        assert_eq!(run(&[], &["sh", "-c", &format!("exit {code}")]).status.code(), Some(code));
    }
    for signal in [1, 2, 3, 6, 9, 11, 13, 15, 34, 64] {
        let status = run(&[], &["sh", "-c", &format!("ulimit -c 0; kill -{signal} $$")]).status;
        assert_eq!(status.code(), Some(128 + signal), "signal {signal}");
    }
}

/// What `env` finds and says along a `PATH`, we find and say.
#[test]
fn programs_are_found_as_without_us() {
    if !are_met("transparency::programs_are_found_as_without_us", &NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let file = |name: &str, text: &str, mode: u32| {
        std::fs::create_dir_all(path(name).parent().expect("a parent")).expect("a folder");
        std::fs::write(path(name), text).expect("a file");
        std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    file("a/tool", "not executable", 0o644);
    file("b/tool", "#!/bin/sh\necho b $0 $@\n", 0o755);
    file("c/plain", "echo plain $0 $@\n", 0o755);
    file("c/lost", "#!/no/such/interpreter\n", 0o755);
    file("c/binary", "\u{7f}ELF nothing", 0o755);
    file("c/empty", "", 0o755);
    std::fs::create_dir(path("a/folder")).expect("a folder");
    std::fs::create_dir(path("closed")).expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let along = format!("/no/such:{0}/a/tool:{0}/a:{0}/b:{0}/c:/usr/bin:/bin", folder.path().display());
    let mut commands: Vec<String> = [
        "tool",
        "plain",
        "lost",
        "binary",
        "empty",
        "folder",
        "nothing",
        "sh",
        "./b/tool",
        "b/nothing",
        "a/tool/x",
        "a",
        "/",
        "./a/tool",
    ]
    .map(str::to_owned)
    .to_vec();
    commands.push("n".repeat(300));
    commands.push(format!("./{}", "n/".repeat(3000)));
    for command in &commands {
        let spread = |command: &mut Command| {
            let output = command.env("PATH", &along).current_dir(folder.path()).output().expect("it runs");
            (output.status.code(), text(&output.stdout))
        };
        let without = spread(Command::new("/usr/bin/env").args([command, "x y"]).stdin(Stdio::null()));
        let with = spread(&mut sandbox(&[], &[command, "x y"]));
        assert_eq!(with, without, "{command}");
    }
}

#[test]
fn a_command_without_path_in_its_environment_is_found() {
    if !are_met("transparency::a_command_without_path_in_its_environment_is_found", &NEEDS) {
        return;
    }
    let output = sandbox(&[], &["sh", "-c", "echo found"]).env_remove("PATH").output().expect("assay");
    assert_eq!(text(&output.stdout), "found\n");
}

#[test]
fn only_secrets_are_missing_from_the_environment() {
    if !are_met("transparency::only_secrets_are_missing_from_the_environment", &NEEDS) {
        return;
    }
    let listed = |options: &[&str]| {
        let mut command = sandbox(options, &["cat", "/proc/self/environ"]);
        command
            .env_clear()
            .env("B", "2")
            .env("MY_TOKEN", "secret")
            .env("A", "\u{1}")
            .env("LD_LIBRARY_PATH", "/x");
        let environment = text(&command.output().expect("assay").stdout);
        let names: Vec<&str> =
            environment.split_terminator('\0').filter(|entry| !entry.starts_with("TMPDIR=")).collect();
        names.join(" ")
    };
    assert_eq!(listed(&[]), "A=\u{1} B=2 LD_LIBRARY_PATH=/x");
    assert_eq!(listed(&["--env-allow", "MY_*"]), "A=\u{1} B=2 LD_LIBRARY_PATH=/x MY_TOKEN=secret");
    assert_eq!(listed(&["--env-strip-exec"]), "A=\u{1} B=2");
    assert_eq!(listed(&["--env-strict"]), "");
    let policy = tempfile::NamedTempFile::new().expect("a file");
    let text = "api_version: assay/v1\nfs: {allow: [/]}\nenv: {allow: ['MY_*']}\n";
    std::fs::write(policy.path(), text).expect("a policy");
    let options = ["--policy", policy.path().to_str().expect("a plain name"), "--env-strict"];
    assert_eq!(listed(&options), "MY_TOKEN=secret");
    assert_eq!(listed(&["--env-passthrough"]), "A=\u{1} B=2 LD_LIBRARY_PATH=/x MY_TOKEN=secret");
}
