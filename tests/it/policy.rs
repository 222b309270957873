//! `assay policy check` and the policy of a run, from outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn assay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_assay")).args(arguments).output().expect("start assay")
}

fn guides() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides/policies")
}

fn written(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("assay.yaml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

#[test]
fn every_policy_of_the_guides_is_valid() {
    let mut count = 0;
    for entry in fs::read_dir(guides()).unwrap() {
        let path = entry.unwrap().path();
        let output = assay(&["policy", "check", path.to_str().unwrap()]);
        assert!(output.status.success(), "{path:?}: {output:?}");
        count += 1;
    }
    assert_eq!(count, 4);
}

#[test]
fn the_built_in_policy_is_printed_and_is_a_policy() {
    let printed = assay(&["policy", "check", "--builtin"]);
    let (_directory, path) = written(std::str::from_utf8(&printed.stdout).unwrap());
    let output = assay(&["policy", "check", &path, "--format", "json"]);
    assert!(output.status.success(), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["valid"], true);
    assert!(answer["rules"].as_array().unwrap().len() > 100);
}

#[test]
fn a_broken_policy_is_exit_2_with_its_places_and_nothing_runs() {
    let (directory, path) = written("api_version: assay/v1\nfs:\n  alow: [/usr]\n  deny: [\"$HOME\"]\n");
    let want = [
        format!("{path}:3:3: unknown key `alow`; did you mean `allow`?"),
        format!("{path}:4:10: bad path `$HOME`; did you mean `${{HOME}}`?"),
    ];
    let checked = assay(&["policy", "check", &path]);
    assert_eq!(checked.status.code(), Some(2), "{checked:?}");
    let lines: Vec<_> = std::str::from_utf8(&checked.stderr).unwrap().lines().collect();
    assert_eq!(lines, want);
    let made = directory.path().join("made");
    let ran = assay(&["sandbox", "--policy", &path, "--", "touch", made.to_str().unwrap()]);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(!made.exists());
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(want.iter().all(|line| text.lines().any(|told| told == line)), "{text}");
}

#[test]
fn a_policy_extends_others_and_a_cycle_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("api_version: assay/v1\n{text}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    file("base/one.yaml", "extends: [../two.yaml]\nfs: {deny: [/etc/shadow]}\n");
    file("two.yaml", "base: none\nfs: {allow: [/etc]}\n");
    let top = file("top.yaml", "extends: [base/one.yaml, ./two.yaml]\nfs: {allow: [/etc/shadow]}\n");
    let output = assay(&[
        "policy",
        "check",
        &top,
        "--path",
        "/etc/shadow",
        "--path",
        "/etc/passwd",
        "--format",
        "json",
    ]);
    assert!(output.status.success(), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdict = |request: &str| {
        let answers = answer["answers"].as_array().unwrap();
        answers.iter().find(|answer| answer["request"] == request).unwrap()["verdict"].clone()
    };
    assert_eq!(verdict("read /etc/shadow"), "denied");
    assert_eq!(verdict("read /etc/passwd"), "allowed");
    assert_eq!(verdict("write /etc/passwd"), "denied");
    let a = file("a.yaml", "extends: [b.yaml]\n");
    file("b.yaml", "extends: [a.yaml]\n");
    let output = assay(&["policy", "check", &a]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("b.yaml:2:11: `a.yaml` extends itself"), "{text}");
}
