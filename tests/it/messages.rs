//! What is said when something is not as it was meant, and the code it ends with.

use std::fs::{self, OpenOptions};
use std::process::Command;

use crate::sample::{harmless, of};

fn assay(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
    command.args(args);
    command
}

fn stderr_of(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("assay");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_gate_without_terms_names_both() {
    let (code, told) = stderr_of(&mut assay(&["evidence", "gate", "b.tar.gz"]));
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("--policy") && told.contains("--baseline"), "{told}");
}

#[test]
fn a_result_that_cannot_be_written_is_trouble() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("p.yaml");
    fs::write(&profile, "api_version: assay/v1\n").expect("a profile");
    let profile = profile.to_str().expect("a plain name");
    let bundle = folder.path().join("b");
    fs::write(&bundle, of(harmless())).expect("a bundle");
    let bundle = bundle.to_str().expect("a plain name");
    for args in [
        &["doctor"][..],
        &["doctor", "--format", "json"],
        &["policy", "check", "--builtin"],
        &["profile", "merge", profile, profile],
        &["completions", "bash"],
        &["report", bundle],
        &["report", "--format", "markdown", bundle],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let (code, told) = stderr_of(assay(args).stdout(full));
        assert_eq!(code, Some(2), "{args:?}: {told}");
        assert!(told.contains("No space left"), "{args:?}: {told}");
    }
}
