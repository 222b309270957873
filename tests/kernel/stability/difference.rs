//! What one run has and another has not is named by `assay profile diff`, that and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::effects;
use super::workloads::{LOOSE_OBJECTS, PROCESSORS, UNKNOWN_USERS};
use crate::harness::sandbox::{ASSAY, text};
use crate::needs::{Need, are_met};
use crate::stage::{NEEDS, Stage};

/// Holds what is told of two runs against their effects, and returns in which these differ.
pub fn is_named(first: &Value, other: &Value) -> Vec<Value> {
    let (of_first, of_other) = (effects(first), effects(other));
    let folder = tempfile::tempdir().expect("a folder");
    let [first, other] = [("first.json", first), ("other.json", other)].map(|(name, evidence)| {
        let path = folder.path().join(name);
        fs::write(&path, evidence.to_string()).expect("a file");
        path
    });
    let effect = |text: &String| -> Value { serde_json::from_str(text).expect("JSON") };
    let differing: Vec<Value> = of_first.symmetric_difference(&of_other).map(effect).collect();
    let diff = |format: &str| {
        let output = Command::new(ASSAY)
            .args(["profile", "diff", "--format", format])
            .args([&first, &other])
            .output()
            .expect("assay");
        let code = i32::from(!differing.is_empty());
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let side = |effects: &BTreeSet<String>, key: &str, effect: &Value| {
        let is_there = effects.contains(&effect.to_string());
        is_there.then(|| (key.to_owned(), effect["result"].clone()))
    };
    let wanted = differing.iter().map(|effect| {
        let (section, what) = words(effect);
        let both = [side(&of_first, "before", effect), side(&of_other, "after", effect)];
        let mut change = json!({"section": section, "what": what});
        change.as_object_mut().expect("an object").extend(both.into_iter().flatten());
        change.to_string()
    });
    let told: Vec<Value> = serde_json::from_str(&diff("json")).expect("JSON");
    let told: BTreeSet<String> = told.iter().map(Value::to_string).collect();
    assert_eq!(told, wanted.collect());
    let lines = diff("text");
    let told: BTreeSet<&str> = lines.lines().collect();
    let wanted: BTreeSet<String> = differing
        .iter()
        .map(|effect| {
            let (section, what) = words(effect);
            let sign = if of_first.contains(&effect.to_string()) { '-' } else { '+' };
            format!("{sign} {section} {what} ({})", effect["result"].as_str().expect("a result"))
        })
        .collect();
    assert_eq!(told, wanted.iter().map(String::as_str).collect());
    differing
}

/// The kind of an effect on files or programs, and how it reads.
fn words(effect: &Value) -> (&str, String) {
    let text = |key: &str| effect[key].as_str().unwrap_or_default();
    match (effect.get("op"), effect.get("to")) {
        (None, _) => ("exec", text("path").to_owned()),
        (Some(_), None) => ("fs", format!("{} {}", text("op"), text("path"))),
        (Some(_), Some(_)) => ("fs", format!("{} {} -> {}", text("op"), text("path"), text("to"))),
    }
}

/// Runs the command twice, the second time after `but`, and returns the effects that differ, if it can run here.
fn differing(
    test: &str,
    program: &'static str,
    before: &str,
    but: &str,
    script: &str,
) -> Option<BTreeSet<(String, String)>> {
    let mut needs = NEEDS.to_vec();
    needs.push(Need::Program(program));
    if !are_met(test, &needs) {
        return None;
    }
    let evidence = ["true", but].map(|but| {
        let stage = Stage::new(test).expect("what it needs is there");
        let prepared = Command::new("sh")
            .args(["-ec", &format!("{before}\n{but}")])
            .current_dir(stage.path(""))
            .env("HOME", stage.path(""))
            .output()
            .expect("sh");
        assert!(prepared.status.success(), "{}", text(&prepared.stderr));
        let played = stage.run(&["sh", "-ec", script]);
        assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
        played.evidence
    });
    let [first, other] = evidence;
    let named: BTreeSet<(String, String)> = is_named(&first, &other)
        .iter()
        .map(|effect| ["op", "path"].map(|key| effect[key].as_str().unwrap_or_default().to_owned()).into())
        .collect();
    // And the other way round, and of a run and itself.
    is_named(&other, &first);
    assert!(is_named(&first, &first).is_empty());
    Some(named)
}

fn these(effects: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    effects.iter().map(|(op, path)| ((*op).to_owned(), (*path).to_owned())).collect()
}

#[test]
fn a_read_that_one_run_has_and_another_has_not_is_named() {
    let named = differing(
        "stability::difference::a_read_that_one_run_has_and_another_has_not_is_named",
        "sh",
        "",
        // As where threads meet in malloc, which nothing from outside decides.
        "touch threads-met",
        "if [ -e threads-met ]; then read range < /sys/devices/system/cpu/online; fi",
    );
    assert!(named.is_none_or(|named| named == these(&[PROCESSORS])));
}

#[test]
fn a_listing_that_one_run_has_and_another_has_not_is_named() {
    let named = differing(
        "stability::difference::a_listing_that_one_run_has_and_another_has_not_is_named",
        "git",
        "git init -q src; cd src; echo a > a; git add a; git -c user.name=a -c user.email=a@example.org commit -qm one
rm -rf .git/objects/17; cd ..",
        "mkdir src/.git/objects/17",
        "cd src; git gc --auto --quiet",
    );
    assert!(named.is_none_or(|named| named == these(&[LOOSE_OBJECTS])));
}

#[test]
fn libraries_that_one_run_reads_and_another_does_not_are_named() {
    let named = differing(
        "stability::difference::libraries_that_one_run_reads_and_another_does_not_are_named",
        "stat",
        "touch file",
        "chown 4242421 file",
        "stat -c %U file > /dev/null",
    );
    // With what else these libraries need, where the host has them and asks them.
    let is_there = fs::exists(UNKNOWN_USERS[0].1).expect("a look");
    let is_asked = fs::read_to_string("/etc/nsswitch.conf").is_ok_and(|text| text.contains("systemd"));
    if let Some(named) = named {
        assert_eq!(these(&UNKNOWN_USERS).is_subset(&named), is_there && is_asked, "{named:?}");
    }
}
