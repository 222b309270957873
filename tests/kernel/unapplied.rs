//! A policy that the kernel offers to hold and then refuses to: nothing runs without it.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::confined::Scene;
use crate::harness::sandbox::{ASSAY, json, text};
use crate::needs::{Need, are_met};

const NEEDS: &[Need] =
    &[Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(6), Need::Program("python3")];

/// Restricts itself as often as the kernel lets one, about a right that no test needs, and becomes another program.
const LAYERS: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
rights = struct.pack("QQ", 0, 1)
for layer in range(16):
    ruleset = libc.syscall(444, rights, len(rights), 0)
    if ruleset < 0 or libc.syscall(446, ruleset, 0) < 0:
        sys.exit(f"layer {layer}: {ctypes.get_errno()}")
os.execv(sys.argv[1], sys.argv[1:])
"#;

/// What the kernel offers can be had sixteen times, and the command's would be the seventeenth.
#[test]
fn a_policy_that_cannot_be_applied_stops_the_command() {
    if !are_met("unapplied::a_policy_that_cannot_be_applied_stops_the_command", NEEDS) {
        return;
    }
    let scene = Scene::new();
    let status = scene.path("status");
    let status = status.to_str().expect("a plain name");
    for (mode, code, verdict) in [
        ("", 125, "failed"),
        ("--enforce", 125, "failed"),
        ("--fail-closed", 2, "refused"),
        ("--dry-run", 4, "unauthorised"),
    ] {
        let mut assay = Command::new("python3");
        assay.args(["-c", LAYERS, ASSAY, "sandbox", "--status-file", status]);
        assay.args(Some(mode).filter(|mode| !mode.is_empty())).args(["--", "touch", "ran", "../elsewhere"]);
        assay.current_dir(scene.path("w")).env("HOME", scene.path("home")).env("TMPDIR", scene.path("tmp"));
        assay.env_remove("SUDO_UID").env_remove("SUDO_GID");
        let output = assay.output().expect("python3");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{mode}: {stderr}");
        let told = json(scene.path("status").as_path());
        assert_eq!(told["verdict"], verdict, "{mode}: {told}");
        // In a dry run nothing is to be held.
        let is_held = mode != "--dry-run";
        assert_eq!(fs::exists(scene.path("w/ran")).unwrap(), !is_held, "{mode}: it ran: {stderr}");
        if is_held {
            assert_eq!(told["child"], Value::Null, "{mode}: {told}");
            assert!(stderr.contains("Landlock") || stderr.contains("restrict"), "{mode}: {stderr}");
        }
    }
}

/// Moving between two allowed trees takes a right that they must have been given for it.
#[test]
fn what_is_allowed_can_be_moved_from_one_place_to_the_other() {
    if !are_met("unapplied::what_is_allowed_can_be_moved_from_one_place_to_the_other", NEEDS) {
        return;
    }
    let scene = Scene::new();
    for name in ["w/one/deep", "w/two", "third"] {
        fs::create_dir_all(scene.path(name)).expect("a folder");
    }
    let policy = scene.policy(
        "fs:\n  allow:\n    - {path: one, access: [read, write]}\n    - {path: two, access: [read, write]}\n    - {path: ../third, access: [read, write]}\n",
    );
    let script = "echo 1 > one/deep/f && mv one/deep/f two/f && mkdir two/made && mv two/f two/made/f && mv two/made ../third/made && cat ../third/made/f";
    assert_eq!(scene.lines(&policy, script), ["1"]);
    assert!(scene.path("third/made/f").exists() && !scene.path("w/two/made").exists());
}
