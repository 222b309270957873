//! Artifacts are kept whatever the command does to them, and a run without a record says so in each.

use std::fs;
use std::process::Output;

use crate::harness::ordinary::Ordinary;
use crate::harness::sandbox::{every_file, run, text};
use crate::needs::{Need, are_met};

const NEEDS: [Need; 3] = [Need::Root, Need::Btf, Need::CgroupV2];

#[test]
fn a_trace_that_the_command_removed_is_put_back_and_one_it_cut_is_told() {
    if !are_met("kept::a_trace_that_the_command_removed_is_put_back_and_one_it_cut_is_told", &NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("t").to_string_lossy().into_owned();
    let output = run(&["--trace", &trace], &["rm", &trace]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = fs::read_to_string(&trace).expect("a trace");
    assert!(lines.contains(r#""op":"unlink""#) && lines.contains(r#"{"end":true,"#), "{lines}");

    // Once something of it is there to be cut.
    let script = format!("until [ -s {trace} ]; do :; done; : > {trace}");
    let output = run(&["--trace", &trace], &["sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("changed it while the run lasted"), "{}", text(&output.stderr));
}

/// What an ordinary user can be held to by Landlock alone.
const POLICY: &str = "api_version: assay/v1
fs:
  allow: [{path: '${WORKDIR}', access: [read, write, execute]}]
  deny: [inside]
";

/// A user in a directory of their own, with a policy, and something to read inside a deny; beside it a directory that is
/// the user's as well, and that no rule allows.
fn user() -> Ordinary {
    let user = Ordinary::new();
    for name in ["w", "out", "w/inside"] {
        user.directory(name);
    }
    user.file("w/inside/f", b"inside\n");
    user.file("policy.yaml", POLICY.as_bytes());
    user
}

/// `assay sandbox` as that user.
fn unprivileged(user: &Ordinary, options: &[&str], script: &str) -> Output {
    let policy = user.at("policy.yaml");
    let arguments = [&["sandbox"], options, &["--policy", &policy, "--", "sh", "-c", script]].concat();
    user.assay(&arguments).current_dir(user.path("w")).output().expect("setpriv")
}

#[test]
fn without_the_rights_a_record_is_refused_in_one_line_or_every_artifact_says_that_there_is_none() {
    let name =
        "kept::without_the_rights_a_record_is_refused_in_one_line_or_every_artifact_says_that_there_is_none";
    if !are_met(name, &[Need::Root, Need::CgroupV2, Need::Program("setpriv")]) {
        return;
    }
    let user = user();
    let (trace, profile, bundle) = (user.at("out/t"), user.at("out/p.yaml"), user.at("out/b.tar.gz"));
    let record = ["--profile", &profile];

    // What is not to be held needs no policy that can be.
    user.file("open.yaml", fs::read(every_file()).expect("a policy").as_slice());
    let open = user.at("open.yaml");
    for asked in [&["--fail-closed"][..], &["--dry-run"], &["--trace", &trace], &record] {
        let arguments = [&["sandbox", "--policy", &open], asked, &["--", "touch", "made"]].concat();
        let output = user.assay(&arguments).current_dir(user.path("w")).output().expect("setpriv");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{asked:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{asked:?}: {told}");
        assert!(told.contains("run as root"), "{asked:?}: {told}");
        assert!(!user.path("w/made").exists(), "{asked:?}: the command ran");
        assert_eq!(fs::read_dir(user.path("out")).expect("a folder").count(), 0, "{asked:?}");
    }

    let options = [&["--allow-unobserved", "--trace", &trace, "--bundle", &bundle], &record[..]].concat();
    let output = unprivileged(&user, &options, "true");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let line = fs::read_to_string(&trace).expect("a trace");
    assert_eq!(line, "{\"end\":false,\"reason\":\"not observed\"}\n");
    let says = |name: &str, words: &str| {
        let text = fs::read_to_string(user.path(name)).expect(name);
        assert!(text.contains(words), "{name}: {text}");
    };
    says("out/p.yaml", "nothing was observed");
    says("out/p.yaml.report.md", "not-observed");
    says("out/p.yaml.report.md", "deny-inside-allow");
    says("out/p.evidence.yaml", "not-observed");
    says("out/p.evidence.yaml", "detail: \"${WORKDIR}/inside\"");
    for kind in ["fs", "exec", "net"] {
        says("out/p.evidence.yaml", &format!("\n  {kind}: none\n"));
    }
    // JSON has no comments.
    let json = user.at("out/q.json");
    let options = ["--allow-unobserved", "--profile", &json, "--profile-format", "json"];
    let output = unprivileged(&user, &options, "true");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    says("out/q.json", "nothing was observed");
    assert!(user.assay(&["policy", "check", &json]).status().expect("setpriv").success());
    let shown = user.assay(&["evidence", "show", &bundle]).output().expect("setpriv");
    for reason in ["not-observed", "deny-inside-allow"] {
        assert!(text(&shown.stdout).contains(reason), "{}", text(&shown.stdout));
    }
}

#[test]
fn an_ordinary_user_is_contained_by_what_the_kernel_offers_and_told_once_that_nothing_is_recorded() {
    let name = "kept::an_ordinary_user_is_contained_by_what_the_kernel_offers_and_told_once_that_nothing_is_recorded";
    let needs = [Need::Root, Need::CgroupV2, Need::LandlockAbi(4), Need::Program("setpriv")];
    if !are_met(name, &needs) {
        return;
    }
    let user = user();
    // Nothing but the policy keeps the user from any of it.
    let script = "exec 2>/dev/null; id -u; grep CapBnd /proc/self/status
(echo x > made) && echo wrote; (echo x > ../out/made) && echo wrote outside
(cat ../policy.yaml) && echo read outside; cat inside/f; exit 9";
    let expect = "65534\nCapBnd:\t0000000000000000\nwrote\ninside\n";
    let run = |options: &[&str]| {
        drop(fs::remove_file(user.path("w/made")));
        let output = unprivileged(&user, options, script);
        let told = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(9), expect), "{told}");
        assert!(user.path("w/made").exists() && !user.path("out/made").exists(), "{options:?}");
        told
    };
    let told = run(&[]);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("nothing is recorded"), "{told}");
    // Who asks for all of it is told what of it is not held: the deny that was read.
    let told = run(&["--enforce"]);
    assert_eq!(told.matches("nothing is recorded").count(), 1, "{told}");
    assert!(
        told.lines().any(|line| line.contains("not held: ") && line.contains("${WORKDIR}/inside")),
        "{told}"
    );
}
