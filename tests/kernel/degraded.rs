//! A kernel that cannot hold a policy: what is not held is told, and refused where it was asked to be.

use std::fs;

use crate::harness::sandbox::{ASSAY, run, text};
use crate::needs::{Need, are_met, has_landlock};

const NEEDS: [Need; 4] = [Need::Root, Need::Btf, Need::CgroupV2, Need::LimitedLandlock];

/// The degradations of this kernel's Landlock; which they are follows from what it has.
fn reasons() -> &'static [&'static str] {
    if has_landlock(1) { &["landlock-truncate", "abstract-unix-not-held"] } else { &["landlock-absent"] }
}

#[test]
fn what_must_hold_is_refused_before_anything_ran() {
    if !are_met("degraded::what_must_hold_is_refused_before_anything_ran", &NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("ran").to_string_lossy().into_owned();
    let output = run(&["--fail-closed"], &["touch", &mark]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(!fs::exists(&mark).expect("a folder to look into"), "the command ran");
    assert!(text(&output.stderr).contains("Landlock"), "{}", text(&output.stderr));
}

#[test]
fn what_is_not_held_is_a_degradation_in_every_artifact() {
    if !are_met("degraded::what_is_not_held_is_a_degradation_in_every_artifact", &NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (profile, bundle) = (at("run.yaml"), at("run.tar.gz"));
    let output = run(&["--enforce", "--profile", &profile, "--bundle", &bundle], &["true"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let read = |name: &str| fs::read_to_string(at(name)).expect(name);
    let shown =
        std::process::Command::new(ASSAY).args(["evidence", "show", &bundle]).output().expect("assay runs");
    for (what, told) in [
        ("evidence", read("run.evidence.yaml")),
        ("report", read("run.yaml.report.md")),
        ("bundle", text(&shown.stdout)),
    ] {
        for reason in reasons() {
            assert!(told.contains(reason), "{what}: {reason}: {told}");
        }
    }
    // A policy cannot hold them; its first lines say that there are some.
    let head = read("run.yaml");
    assert!(
        head.lines().take_while(|line| line.starts_with('#')).any(|line| line.contains("degradation")),
        "{head}"
    );
}
