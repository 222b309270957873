//! What a run comes to, by mode, policy and command: our code, the command's, and the verdict, line by line of the page
//! of exit codes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::harness::sandbox::{ASSAY, text};
use crate::needs::{Need, are_met};

const NEEDS: &[Need] = &[Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(4)];

const POLICY: &str = "api_version: assay/v1
fs:
  allow: [{path: '${WORKDIR}', access: [read, write, execute]}, {path: private, access: [read]}]
  deny: [closed]
exec: {deny: [bin, /usr/bin/perl]}
";

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(test: &str) -> Option<Self> {
        if !are_met(&format!("modes::{test}"), NEEDS) {
            return None;
        }
        let bench = Self { folder: tempfile::tempdir_in("/var/tmp").expect("a folder") };
        for name in ["w/closed", "w/bin", "w/private"] {
            fs::create_dir_all(bench.path(name)).expect("a folder");
        }
        for (name, content) in [
            ("w/closed/f", "x"),
            ("w/private/f", "x"),
            ("w/plain", "x"),
            ("policy.yaml", POLICY),
            ("w/script", "#!/usr/bin/perl\nprint 1;\n"),
        ] {
            fs::write(bench.path(name), content).expect("a file");
        }
        fs::copy("/bin/true", bench.path("w/bin/tool")).expect("a program");
        for (name, mode) in [("", 0o755), ("w", 0o777), ("w/private/f", 0o600), ("w/script", 0o755)] {
            fs::set_permissions(bench.path(name), fs::Permissions::from_mode(mode)).expect("a mode");
        }
        Some(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, options: &[&str], command: &[&str]) -> Output {
        let mut assay = Command::new(ASSAY);
        assay
            .arg("sandbox")
            .arg("--policy")
            .arg(self.path("policy.yaml"))
            .args(options)
            .arg("--")
            .args(command);
        assay.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
        assay.current_dir(self.path("w")).output().expect("assay runs")
    }

    /// The command's end, our code and the verdict, as the status file and the process itself say.
    fn check(&self, options: &str, command: &[&str], want: &str) -> Value {
        let status = self.path("status");
        drop(fs::remove_file(&status));
        let mut all: Vec<&str> = options.split_whitespace().collect();
        all.extend(["--status-file", status.to_str().expect("a plain name")]);
        let output = self.run(&all, command);
        let told = format!("{options} {command:?}: {}", text(&output.stderr));
        let status: Value =
            serde_json::from_slice(&fs::read(&status).unwrap_or_else(|error| panic!("{error}: {told}")))
                .expect("JSON");
        let child = &status["child"];
        let code = status["exit_code"].as_i64().expect("a code");
        let verdict = status["verdict"].as_str().expect("a verdict");
        assert_eq!(format!("{child} {code} {verdict}"), want, "{told}");
        assert_eq!(output.status.code().map(i64::from), Some(code), "{told}");
        status
    }
}

fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

#[test]
fn a_dry_run_ends_with_4_exactly_when_something_was_not_authorised() {
    let Some(bench) = Bench::new("a_dry_run_ends_with_4_exactly_when_something_was_not_authorised") else {
        return;
    };
    let check = |command: &[&str], want: &str| bench.check("--dry-run", command, want);
    check(&["true"], r#"{"exit_code":0} 0 ok"#);
    check(&sh("echo y > plain; cat plain"), r#"{"exit_code":0} 0 ok"#);
    // The command's own codes are its own.
    check(&sh("exit 4"), r#"{"exit_code":4} 4 ok"#);
    check(&sh("kill -9 $$"), r#"{"signal":"SIGKILL"} 137 ok"#);
    // A failure that is no refusal, a refusal by the system, a look that is not governed.
    check(&sh("cat closed/none; exit 0"), r#"{"exit_code":0} 0 ok"#);
    check(&sh("test -e closed/f && ls -d closed"), r#"{"exit_code":0} 0 ok"#);
    let refused = bench.check_any("--dry-run --user 65534", &sh("cat private/f"));
    assert!(refused.starts_with(r#"{"exit_code":1} 1 "#), "{refused}");
    // What the launch took away.
    check(&sh("mknod n c 1 3; exit 0"), r#"{"exit_code":0} 0 ok"#);
    for script in [
        "cat closed/f",
        "echo x > /var/tmp/assay-modes-elsewhere; rm /var/tmp/assay-modes-elsewhere",
        "bin/tool",
        "./script",
        "ls closed",
        "ln closed/f l && cat l; rm l",
    ] {
        check(&sh(&format!("{script} > /dev/null")), r#"{"exit_code":0} 4 unauthorised"#);
    }
    let status = check(&sh("cat closed/f; exit 7"), r#"{"exit_code":7} 4 unauthorised"#);
    assert!(
        status["reasons"][0].as_str().is_some_and(|why| why.contains("does not authorise")),
        "{status:#}"
    );
    check(&sh("cat closed/f; kill -9 $$"), r#"{"signal":"SIGKILL"} 4 unauthorised"#);
    // Nothing is blocked, the command itself included.
    check(&["bin/tool"], r#"{"exit_code":0} 4 unauthorised"#);
}

#[test]
fn of_several_codes_the_first_wins() {
    let Some(bench) = Bench::new("of_several_codes_the_first_wins") else { return };
    let act = sh("cat closed/f; exec sleep 60");
    bench.check("--dry-run --timeout 0.5", &act, r#"{"timeout":true} 124 unauthorised"#);
    bench.check("--dry-run --timeout 0.5", &["sleep", "60"], r#"{"timeout":true} 124 ok"#);
    bench.check("--enforce --timeout 0.5", &act, r#"{"timeout":true} 124 denied"#);
    let unwritable = "--trace /nonexistent/folder/trace";
    let incomplete = r#"{"exit_code":0} 3 incomplete"#;
    bench.check(&format!("--dry-run {unwritable}"), &sh("cat closed/f"), incomplete);
    bench.check(
        &format!("--dry-run --timeout 0.5 {unwritable}"),
        &["sleep", "60"],
        r#"{"timeout":true} 3 incomplete"#,
    );
    bench.check(unwritable, &sh("exit 9"), r#"{"exit_code":9} 3 incomplete"#);
    bench.check(unwritable, &["/no/such/program"], "null 127 failed");
    bench.check("--enforce", &["bin/tool"], "null 126 denied");
    bench.check("--workdir /nonexistent", &["true"], "null 125 failed");
    fs::write(bench.path("policy.yaml"), "api_version: assay/v2\n").expect("a policy");
    bench.check(&format!("--workdir /nonexistent {unwritable}"), &["true"], "null 2 refused");
}

#[test]
fn what_is_blocked_leaves_the_commands_own_code() {
    let Some(bench) = Bench::new("what_is_blocked_leaves_the_commands_own_code") else { return };
    for mode in ["", "--enforce", "--fail-closed", "--enforce --fail-closed"] {
        bench.check(mode, &["true"], r#"{"exit_code":0} 0 ok"#);
        bench.check(mode, &sh("cat closed/f"), r#"{"exit_code":1} 1 denied"#);
        bench.check(mode, &sh("cat closed/f; exit 0"), r#"{"exit_code":0} 0 denied"#);
        // The command itself, by path and by its name along PATH, and through a script.
        bench.check(mode, &["bin/tool"], "null 126 denied");
        bench.check(mode, &["perl", "-e", "1"], "null 126 denied");
        bench.check(mode, &["./script"], "null 126 denied");
        bench.check(mode, &["./plain"], "null 126 failed");
    }
}

#[test]
fn a_script_whose_interpreter_is_missing_names_it() {
    let Some(bench) = Bench::new("a_script_whose_interpreter_is_missing_names_it") else { return };
    let path = bench.path("w/orphan");
    fs::write(&path, "#!/usr/bin/no-such-interpreter -x\n").expect("a script");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    for mode in ["--dry-run", "--enforce"] {
        let output = bench.run(&[mode], &["./orphan"]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(127), "{mode}: {told}");
        assert!(told.contains("interpreter `/usr/bin/no-such-interpreter`"), "{mode}: {told}");
    }
}

impl Bench {
    /// As [`Bench::check`], for an outcome that is looked at afterwards.
    fn check_any(&self, options: &str, command: &[&str]) -> String {
        let status = self.path("status");
        drop(fs::remove_file(&status));
        let mut all: Vec<&str> = options.split_whitespace().collect();
        all.extend(["--status-file", status.to_str().expect("a plain name")]);
        drop(self.run(&all, command));
        let status: Value = serde_json::from_slice(&fs::read(&status).expect("a status file")).expect("JSON");
        let verdict = status["verdict"].as_str().expect("a verdict");
        format!("{} {} {verdict}", status["child"], status["exit_code"])
    }
}

#[test]
fn modes_that_contradict_each_other_are_usage_errors() {
    let Some(bench) = Bench::new("modes_that_contradict_each_other_are_usage_errors") else { return };
    for options in ["--dry-run --enforce", "--dry-run --fail-closed", "--enforce --dry-run --fail-closed"] {
        let all: Vec<&str> = options.split_whitespace().collect();
        let output = bench.run(&all, &["touch", "made"]);
        let told = text(&output.stderr);
        if options == "--dry-run --fail-closed" && output.status.success() {
            // Loss is then fatal, and there is nothing else to fail.
            drop(fs::remove_file(bench.path("w/made")));
            continue;
        }
        assert_eq!(output.status.code(), Some(2), "{options}: {told}");
        assert!(told.contains("cannot be used with"), "{options}: {told}");
        assert!(!bench.path("w/made").exists());
    }
}

#[test]
fn work_that_leaves_the_tree_is_told() {
    let Some(bench) = Bench::new("work_that_leaves_the_tree_is_told") else { return };
    let Some(()) =
        are_met("modes::work_that_leaves_the_tree_is_told", &[Need::Program("python3")]).then_some(())
    else {
        return;
    };
    let names = [
        "run/docker.sock",
        "run/podman/podman.sock",
        "run/dbus/system_bus_socket",
        "ssh-AbCdEf123456/agent.17",
        "gnupg/S.gpg-agent",
    ];
    for name in names.iter().chain(&["run/harmless"]) {
        let path = bench.path("w").join(name);
        fs::create_dir_all(path.parent().expect("a folder above")).expect("a folder");
        let _listener = UnixListener::bind(&path).expect("a socket");
        let connect = format!("import socket; socket.socket(socket.AF_UNIX).connect('{name}')");
        let (profile, status) = (bench.path("run.json"), bench.path("status"));
        let [profile, status] = [&profile, &status].map(|path| path.to_str().expect("a plain name"));
        let options =
            ["--dry-run", "--profile", profile, "--profile-format", "json", "--status-file", status];
        let output = bench.run(&options, &["/usr/bin/python3", "-SIc", &connect]);
        let told = text(&output.stderr);
        let report = fs::read_to_string(bench.path("run.json.report.md")).expect("a report");
        let evidence: Value =
            serde_json::from_slice(&fs::read(bench.path("run.evidence.json")).expect("evidence"))
                .expect("JSON");
        let counted = &evidence["observed"]["counters"][format!("ended_at.${{WORKDIR}}/{name}")];
        let is_end = *name != "run/harmless";
        assert_eq!(told.contains("observation ended here"), is_end, "{name}: {told}");
        assert_eq!(report.contains("Observation ended here"), is_end, "{name}: {report}");
        // With the program that answered there, which is this one.
        assert_eq!(told.contains(", uid 0) acts for whoever asks"), is_end, "{name}: {told}");
        assert_eq!(counted.as_u64(), is_end.then_some(1), "{name}: {evidence:#}");
    }
}

#[test]
fn what_is_done_to_the_environment_and_the_capabilities_is_in_the_record() {
    let Some(bench) = Bench::new("what_is_done_to_the_environment_and_the_capabilities_is_in_the_record")
    else {
        return;
    };
    let profile = bench.path("run.json");
    let profile = profile.to_str().expect("a plain name");
    let recorded = |options: &[&str], script: &str| -> (String, Value) {
        let all = [options, &["--profile", profile, "--profile-format", "json"]].concat();
        let mut assay = Command::new(ASSAY);
        assay
            .arg("sandbox")
            .arg("--policy")
            .arg(bench.path("policy.yaml"))
            .args(all)
            .arg("--")
            .args(sh(script));
        assay.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null()).current_dir(bench.path("w"));
        assay.env("MY_TOKEN", "s3cret-value").env("AWS_REGION", "r").env("ODD", "a\u{1}\nb");
        let output = assay.output().expect("assay runs");
        let evidence = fs::read_to_string(bench.path("run.evidence.json")).expect("evidence");
        assert!(!evidence.contains("s3cret-value"), "{evidence}");
        (text(&output.stdout), serde_json::from_str(&evidence).expect("JSON"))
    };
    let degradations = |evidence: &Value| evidence["identity"]["degradations"].to_string();
    let print = "echo \"${MY_TOKEN-none} ${ODD-none}\"";
    let (told, evidence) = recorded(&[], print);
    assert_eq!(told, "none a\u{1}\nb\n");
    let removed = evidence["observed"]["env_removed"].to_string();
    assert!(
        removed.contains("MY_TOKEN") && removed.contains("AWS_REGION") && !removed.contains("ODD"),
        "{removed}"
    );
    assert_eq!(degradations(&evidence), "[]");
    let (told, evidence) = recorded(&["--env-strict"], print);
    assert_eq!(told, "none none\n");
    assert!(evidence["observed"]["env_removed"].to_string().contains("ODD"));
    let (told, _) = recorded(&["--env-strict", "--env-allow", "MY_TOKEN,ODD"], print);
    assert_eq!(told, "s3cret-value a\u{1}\nb\n");
    let (told, evidence) = recorded(&["--env-passthrough"], print);
    assert_eq!(told, "s3cret-value a\u{1}\nb\n");
    assert!(degradations(&evidence).contains("passthrough"), "{evidence:#}");
    let (told, _) = recorded(&["--env-safe-path"], "echo $PATH");
    assert!(told.starts_with("/usr/"), "{told}");
    for name in ["NET_RAW", "CAP_NET_RAW", "net_raw"] {
        let (told, evidence) = recorded(&["--keep-caps", name], "grep CapEff /proc/self/status");
        let effective = told.split_whitespace().last().and_then(|word| u64::from_str_radix(word, 16).ok());
        assert_eq!(effective.map(|set| set >> 13 & 1), Some(1), "{name}: {told}");
        assert!(degradations(&evidence).contains("CAP_NET_RAW"), "{evidence:#}");
    }
    // As a user, its groups and its home.
    let (told, _) =
        recorded(&["--user", "daemon"], "id -un; id -G; echo $HOME; grep CapEff /proc/self/status");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!((lines[0], lines[2]), ("daemon", "/usr/sbin"), "{told}");
    assert!(lines[1].split(' ').all(|id| id == "1"), "{told}");
    assert!(lines[3].ends_with("0000000000000000"), "{told}");
}
