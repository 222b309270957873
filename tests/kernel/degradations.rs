//! What was asked of the sandbox and is not kept: each kind, in each mode, by name in each artifact; and where all must be
//! held, the command does not start.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use serde_json::Value;

use crate::confined::Scene;
use crate::harness::sandbox::{ASSAY, json, text};
use crate::needs::{Need, are_met};

const NEEDS: &[Need] = &[Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(6)];

/// A rule that this kernel cannot hold: its list, how it is written, and the reason.
const RULES: &[(&str, &str, &str)] = &[
    ("deny", "{path: .vscode, access: [write]}", "deny-not-yet-existing"),
    ("deny", "{path: '*.pem', access: [write]}", "deny-pattern-not-yet-existing"),
    ("deny", "{path: link, access: [write]}", "deny-symlink-name"),
    ("allow", "{path: ../none/f, access: [read, write]}", "allow-not-existing"),
    ("allow", "{path: '../other/*.txt', access: [read, write]}", "allow-pattern-frozen"),
    ("deny", "{path: hidden, access: [read]}", "allow-hidden"),
];

/// Options that are degradations by themselves: what is asked, the reason, and whether it is one where nothing is held.
const OPTIONS: &[(&[&str], &str, bool)] = &[
    (&["--keep-caps", "NET_RAW"], "kept-by-option", true),
    (&["--env-passthrough"], "passthrough", true),
    (&["--descendants", "leave"], "not-held-when-left", false),
];

fn scene(rules: &[(&str, &str, &str)]) -> Scene {
    let scene = Scene::new();
    for name in ["w/real", "w/hidden", "other"] {
        fs::create_dir(scene.path(name)).unwrap();
    }
    symlink("real", scene.path("w/link")).unwrap();
    scene.file("other/a.txt", "");
    let mut policy = String::from(
        "api_version: assay/v1\nfs:\n  allow:\n    - {path: '${WORKDIR}', access: [read, write, execute]}\n",
    );
    for wanted in ["allow", "deny"] {
        if wanted == "deny" {
            policy.push_str("  deny:\n    - /nonexistent-denied\n");
        }
        for (_, rule, _) in rules.iter().filter(|(list, ..)| *list == wanted) {
            policy.extend(["    - ", rule, "\n"]);
        }
    }
    scene.file("policy.yaml", &policy);
    scene
}

fn run(scene: &Scene, options: &[&str]) -> Output {
    let at = |name: &str| scene.path(name).to_str().unwrap().to_owned();
    let mut assay = Command::new(ASSAY);
    assay.arg("sandbox").args(options).args(["--policy", &at("policy.yaml"), "--profile", &at("run.yaml")]);
    assay.args(["--bundle", &at("run.tar.gz"), "--status-file", &at("status")]).args(["--", "touch", "ran"]);
    assay.env_remove("SUDO_UID").env_remove("SUDO_GID").env("HOME", scene.path("home"));
    assay.env("TMPDIR", scene.path("tmp")).current_dir(scene.path("w")).output().expect("assay runs")
}

/// The reasons in the status file.
fn reasons(status: &Value) -> BTreeSet<&str> {
    let list = status["degradations"].as_array().expect("degradations");
    list.iter().filter_map(|told| told["reason"].as_str()).collect()
}

#[test]
fn each_kind_is_named_in_every_mode_and_artifact() {
    if !are_met("degradations::each_kind_is_named_in_every_mode_and_artifact", NEEDS) {
        return;
    }
    let scene = scene(RULES);
    let asked: Vec<&str> = OPTIONS.iter().flat_map(|(options, ..)| *options).copied().collect();
    for mode in ["", "--enforce", "--dry-run"] {
        let is_held = mode != "--dry-run";
        let mut wanted: BTreeSet<&str> =
            RULES.iter().filter(|_| is_held).map(|(.., reason)| *reason).collect();
        wanted.extend(OPTIONS.iter().filter(|(.., always)| *always || is_held).map(|(_, reason, _)| *reason));
        let options: Vec<&str> =
            [mode].into_iter().filter(|mode| !mode.is_empty()).chain(asked.clone()).collect();
        let output = run(&scene, &options);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{mode}: {stderr}");
        assert!(fs::exists(scene.path("w/ran")).unwrap());
        fs::remove_file(scene.path("w/ran")).unwrap();
        let read = |name: &str| fs::read_to_string(scene.path(name)).expect(name);
        let profile = read("run.yaml");
        let head: String = profile.lines().take_while(|line| line.starts_with('#')).collect();
        let shown = Command::new(ASSAY).args(["evidence", "show"]).arg(scene.path("run.tar.gz")).output();
        let shown = text(&shown.expect("assay runs").stdout);
        assert!(shown.contains("capabilities kept-by-option CAP_NET_RAW"), "{shown}");
        let status = json(&scene.path("status"));
        assert_eq!(reasons(&status), wanted, "{mode}: {status}");
        for reason in &wanted {
            for (what, told) in [
                ("profile", &head),
                ("evidence", &read("run.evidence.yaml")),
                ("report", &read("run.yaml.report.md")),
                ("bundle", &shown),
            ] {
                assert!(told.contains(reason), "{mode} {what}: {reason}: {told}");
            }
        }
        // Whoever asked for containment is told on the spot what of it there is not.
        let warned = stderr.lines().filter(|line| line.contains("not held: ")).count();
        assert_eq!(warned > 0, mode == "--enforce", "{mode}: {stderr}");
    }
}

#[test]
fn where_all_must_be_held_the_command_does_not_start() {
    if !are_met("degradations::where_all_must_be_held_the_command_does_not_start", NEEDS) {
        return;
    }
    for (list, rule, reason) in RULES {
        let scene = scene(&[(list, rule, reason)]);
        let output = run(&scene, &["--fail-closed"]);
        let stderr = text(&output.stderr);
        let has_run = fs::exists(scene.path("w/ran")).unwrap();
        // A denied name is held by a placeholder then.
        if *reason == "deny-not-yet-existing" {
            assert_eq!((output.status.code(), has_run), (Some(0), true), "{reason}: {stderr}");
            assert_eq!(reasons(&json(&scene.path("status"))), BTreeSet::new());
            continue;
        }
        assert_eq!((output.status.code(), has_run), (Some(2), false), "{reason}: {stderr}");
        assert!(stderr.contains("cannot be held"), "{reason}: {stderr}");
        assert_eq!(json(&scene.path("status"))["verdict"], "refused");
    }
    let scene = scene(&[]);
    let output = run(&scene, &["--fail-closed", "--descendants", "leave"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    // What the user asked for by name is no thing that could not be held.
    let output = run(&scene, &["--fail-closed", "--keep-caps", "NET_RAW", "--env-passthrough"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(reasons(&json(&scene.path("status"))), BTreeSet::from(["kept-by-option", "passthrough"]));
}
