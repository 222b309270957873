//! Every kind of access by every way of naming its target, where it is allowed, denied, denied inside an allow and
//! allowed inside a deny. No cell passes in silence: what passes is allowed by the policy, or stands among what the
//! plan says is not governed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::confined::Scene;
use crate::needs::{Need, are_met};

const NEEDS: &[Need] = &[Need::Root, Need::CgroupV2, Need::LandlockAbi(3), Need::Program("python3")];
const SCRIPT: &str = include_str!("matrix.py");
const CONTENT: &str = "content";

/// What the ways and kinds are called, by the script itself.
fn names(list: &str) -> Vec<String> {
    let start = SCRIPT.find(&format!("{list} = [")).unwrap() + list.len() + 4;
    let end = start + SCRIPT[start..].find(']').unwrap();
    SCRIPT[start..end].split(',').map(|name| name.trim().to_owned()).collect()
}

/// The result of each cell, 0 or an errno, with the target directory at `target` beneath the scene.
fn run(scene: &Scene, policy: &str, target: &str) -> BTreeMap<(String, String), i32> {
    fs::create_dir_all(scene.path("w/mine")).unwrap();
    for way in names("WAYS") {
        for kind in names("KINDS") {
            scene.file(&format!("{target}/{kind}-{way}"), CONTENT);
        }
    }
    scene.file("w/mine/matrix.py", SCRIPT);
    let policy = scene.policy(policy);
    let (target, mine) = (scene.path(target), scene.path("w/mine"));
    let words = ["python3", "mine/matrix.py", target.to_str().unwrap(), mine.to_str().unwrap()];
    let (output, _) = scene.run_program(&policy, &words);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let cells: BTreeMap<_, _> = text
        .lines()
        .map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            ((words[0].to_owned(), words[1].to_owned()), words[2].parse().unwrap())
        })
        .collect();
    assert_eq!(cells.len(), names("WAYS").len() * names("KINDS").len(), "{output:?}");
    cells
}

/// Files of the target that are not as they were.
fn changed(directory: &Path) -> Vec<String> {
    let mut changed = Vec::new();
    for way in names("WAYS") {
        for kind in names("KINDS") {
            let name = format!("{kind}-{way}");
            if fs::read_to_string(directory.join(&name)).ok().as_deref() != Some(CONTENT) {
                changed.push(name);
            }
        }
    }
    let count = fs::read_dir(directory).unwrap().count();
    if count != names("WAYS").len() * names("KINDS").len() {
        changed.push(format!("{count} names"));
    }
    changed
}

fn is_attribute(kind: &str) -> bool {
    matches!(kind, "change_mode" | "set_attribute")
}

/// What acts on the name it is given, and so on the link where the target is named by one.
fn is_about_the_name(kind: &str) -> bool {
    let kinds =
        ["create", "make_directory", "make_fifo", "make_link", "remove", "move_out", "move_onto", "exchange"];
    kinds.contains(&kind)
}

fn passed(cells: &BTreeMap<(String, String), i32>) -> Vec<String> {
    let is_ours = |kind: &str, way: &str| way == "link" && is_about_the_name(kind);
    cells
        .iter()
        .filter(|((kind, way), code)| **code == 0 && !is_ours(kind, way))
        .map(|((kind, way), _)| format!("{kind} {way}"))
        .collect()
}

#[test]
fn what_is_allowed_works_by_every_name() {
    if !are_met("what_is_allowed_works_by_every_name", NEEDS) {
        return;
    }
    let scene = Scene::new();
    let cells =
        run(&scene, "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}]}", "w/target");
    let failed: Vec<_> = cells
        .iter()
        // Mounts are never granted, and a handle needs a capability that a run does not keep.
        .filter(|((kind, way), code)| **code != 0 && way != "bind_mount" && kind != "by_handle")
        .map(|((kind, way), code)| format!("{kind} {way} {code}"))
        .collect();
    assert_eq!(failed, [""; 0]);
}

#[test]
fn what_is_denied_fails_by_every_name() {
    if !are_met("what_is_denied_fails_by_every_name", NEEDS) {
        return;
    }
    let cases = [
        ("outside", "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}]}", "outside"),
        (
            "deny inside allow",
            "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}], deny: [target]}",
            "w/target",
        ),
        (
            "allow inside deny",
            "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}, {path: deep/er/target, access: [read, write]}], deny: [deep]}",
            "w/deep/er/target",
        ),
    ];
    for (case, policy, target) in cases {
        let scene = Scene::new();
        let cells = run(&scene, policy, target);
        let silent: Vec<_> = passed(&cells)
            .into_iter()
            .filter(|cell| {
                let (kind, _) = cell.split_once(' ').unwrap();
                // Landlock alone does not govern attributes; `not_governed` says so.
                !(case == "outside" && is_attribute(kind))
            })
            .collect();
        assert_eq!(silent, [""; 0], "{case}");
        assert_eq!(changed(&scene.path(target)), [""; 0], "{case}");
    }
}

#[test]
fn what_may_be_read_is_not_written_by_any_name() {
    if !are_met("what_may_be_read_is_not_written_by_any_name", NEEDS) {
        return;
    }
    let cases = [
        (
            "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}, {path: ../outside, access: [read]}]}",
            "outside",
            true,
        ),
        (
            "fs: {allow: [{path: '${WORKDIR}', access: [read, write, execute]}], deny: [{path: deep/target, access: [write]}]}",
            "w/deep/target",
            false,
        ),
    ];
    for (policy, target, is_landlock_alone) in cases {
        let scene = Scene::new();
        let cells = run(&scene, policy, target);
        let silent: Vec<_> = passed(&cells)
            .into_iter()
            .filter(|cell| {
                let (kind, _) = cell.split_once(' ').unwrap();
                kind != "read" && !(is_landlock_alone && is_attribute(kind))
            })
            .collect();
        assert_eq!(silent, [""; 0], "{policy}");
        assert_eq!(changed(&scene.path(target)), [""; 0], "{policy}");
        let unread: Vec<_> = cells
            .iter()
            .filter(|((kind, way), code)| {
                kind == "read" && **code != 0 && way != "bind_mount" && way != "moved_parent"
            })
            .collect();
        assert!(unread.is_empty(), "{policy}: {unread:?}");
    }
}
