//! Artifacts are kept whatever the command does to them, and a run without a record says so in each.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::harness::sandbox::{ASSAY, every_file, run, text};
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

/// `assay sandbox -- true` as a user who may not observe, with a copy of it and of the policy in the user's own `folder`.
fn unprivileged(folder: &Path, options: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(folder.join("assay"));
    command.arg("sandbox").args(options).arg("--policy").arg(folder.join("policy.yaml")).args(["--", "true"]);
    command.env("TMPDIR", "/tmp").env_remove("SUDO_UID").stdin(Stdio::null()).current_dir(folder);
    command.output().expect("setpriv")
}

#[test]
fn without_the_rights_a_record_is_refused_in_one_line_or_every_artifact_says_that_there_is_none() {
    let name =
        "kept::without_the_rights_a_record_is_refused_in_one_line_or_every_artifact_says_that_there_is_none";
    if !are_met(name, &[Need::Root, Need::CgroupV2, Need::Program("setpriv")]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).expect("a folder given away");
    fs::copy(ASSAY, folder.path().join("assay")).expect("a copy that the user may run");
    fs::copy(every_file(), folder.path().join("policy.yaml")).expect("a copy that the user may read");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (trace, profile) = (at("t"), at("p.yaml"));

    for asked in [&["--fail-closed"][..], &["--trace", &trace]] {
        let output = unprivileged(folder.path(), asked);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{asked:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{asked:?}: {told}");
        assert!(told.contains("run as root"), "{asked:?}: {told}");
    }

    let options = ["--allow-unobserved", "--trace", &trace, "--profile", &profile];
    let output = unprivileged(folder.path(), &options);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let line = fs::read_to_string(&trace).expect("a trace");
    assert_eq!(line, "{\"end\":false,\"reason\":\"not observed\"}\n");
    let says = |name: &str, words: &str| {
        let text = fs::read_to_string(at(name)).expect(name);
        assert!(text.contains(words), "{name}: {text}");
    };
    says("p.yaml", "nothing was observed");
    says("p.evidence.yaml", "not-observed");
    says("p.yaml.report.md", "not-observed");
}
