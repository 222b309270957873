//! A kernel that cannot hold a policy: what is not held is told, and refused where it was asked to be.

use std::fs;

use crate::harness::sandbox::{run, text};
use crate::needs::{Need, are_met};

const NEEDS: [Need; 4] = [Need::Root, Need::Btf, Need::CgroupV2, Need::NoLandlock];

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
fn what_is_not_held_is_a_degradation_in_the_evidence() {
    if !are_met("degraded::what_is_not_held_is_a_degradation_in_the_evidence", &NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("run.yaml").to_string_lossy().into_owned();
    let output = run(&["--enforce", "--profile", &profile], &["true"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let evidence = fs::read_to_string(folder.path().join("run.evidence.yaml")).expect("evidence");
    assert!(evidence.contains("component: fs"), "{evidence}");
}
