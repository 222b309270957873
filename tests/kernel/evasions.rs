//! The catalogue of evasions: every way around the observer that we know, as a table, played by an actor.
//!
//! Each case says what it does and what the record must show: the effect it is, or that it came to nothing, or that
//! coverage is partial because of these means. Cases of one setting are played in one run, one after the other between
//! marks: line by line against what each call returned, then the effects and the reasons of the whole run, of which none
//! may be missing and none be more. The table in `docs/limits.md` is made from this one.

mod blinding;
mod doors;
mod given;
mod leaving;
mod outside;
mod races;
mod scene;
mod sockets;
mod table;

use std::collections::BTreeSet;
use std::fs;

use rustix::net::{AddressFamily, SocketType};
use serde_json::Value;

use crate::actor::{self, Step, call};
use crate::stage::{Played, result_of};

use scene::Scene;

/// What kind of evasion it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Category {
    /// Another door to the same act.
    Door,
    /// Leaving the run.
    Leaving,
    /// Blinding the observer.
    Blinding,
}

/// What the record must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// The effects it has, in words for the table.
    Told(&'static str),
    /// It comes to nothing, and the record is whole.
    Nothing(&'static str),
    /// Coverage of these kinds is partial, for this reason.
    Admitted(&'static [&'static str], &'static str),
}

/// In what setting it is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// Nothing special.
    Plain,
    /// With files open that were opened before the run.
    Given,
    /// With these capabilities kept.
    Caps(&'static str),
}

/// Steps, each with the lines it is told by.
type Script = Vec<(Step, String)>;

/// One evasion.
struct Case {
    category: Category,
    /// What it does, for the table.
    act: &'static str,
    shows: Shows,
    setting: Setting,
    /// The first kernel that has it.
    since: (u32, u32),
    /// The family of sockets that a kernel may be without.
    family: Option<u32>,
    /// The effects it has, `@` for where it acts; a net effect is its operation, protocol and address.
    effects: &'static [&'static str],
    script: fn(&Scene) -> Script,
}

const FS: &[&str] = &["fs"];
const NET: &[&str] = &["net"];
const EXEC: &[&str] = &["exec"];
const ALL: &[&str] = &["fs", "exec", "net"];

/// A case that is told.
const fn told(
    act: &'static str,
    words: &'static str,
    effects: &'static [&'static str],
    script: fn(&Scene) -> Script,
) -> Case {
    Case {
        category: Category::Door,
        act,
        shows: Shows::Told(words),
        setting: Setting::Plain,
        since: (5, 19),
        family: None,
        effects,
        script,
    }
}

/// A case that comes to nothing.
const fn nothing(act: &'static str, why: &'static str, script: fn(&Scene) -> Script) -> Case {
    Case {
        category: Category::Door,
        act,
        shows: Shows::Nothing(why),
        setting: Setting::Plain,
        since: (5, 19),
        family: None,
        effects: &[],
        script,
    }
}

/// A case that is admitted.
const fn admitted(
    act: &'static str,
    kinds: &'static [&'static str],
    reason: &'static str,
    effects: &'static [&'static str],
    script: fn(&Scene) -> Script,
) -> Case {
    Case {
        category: Category::Door,
        act,
        shows: Shows::Admitted(kinds, reason),
        setting: Setting::Plain,
        since: (5, 19),
        family: None,
        effects,
        script,
    }
}

impl Case {
    const fn leaving(mut self) -> Self {
        self.category = Category::Leaving;
        self
    }

    const fn blinding(mut self) -> Self {
        self.category = Category::Blinding;
        self
    }

    const fn with(mut self, setting: Setting) -> Self {
        self.setting = setting;
        self
    }

    const fn since(mut self, major: u32, minor: u32) -> Self {
        self.since = (major, minor);
        self
    }

    const fn of_family(mut self, family: u32) -> Self {
        self.family = Some(family);
        self
    }

    /// Whether this kernel has it.
    fn is_here(&self) -> bool {
        if let Some(family) = self.family {
            let family = AddressFamily::from_raw(family as u16);
            if rustix::net::socket(family, SocketType::STREAM, None).is_err() {
                return false;
            }
        }
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= self.since
    }

    fn is_admitted(&self) -> bool {
        matches!(self.shows, Shows::Admitted(..))
    }
}

/// A step and its lines.
fn step(step: Step, lines: impl Into<String>) -> (Step, String) {
    (step, lines.into())
}

/// Every case that is played here.
fn cases() -> impl Iterator<Item = &'static Case> {
    [doors::CASES, given::CASES, sockets::CASES, leaving::CASES, blinding::CASES].into_iter().flatten()
}

/// Where one case begins in the trace.
fn mark(index: usize) -> String {
    format!("/assay-case-{index}")
}

/// Plays these cases in one run, and holds the record to what they say.
fn play(test: &str, is_wanted: fn(&Case) -> bool) {
    let list: Vec<&Case> = cases().filter(|case| is_wanted(case) && case.is_here()).collect();
    assert!(!list.is_empty(), "no such case");
    let setting = list[0].setting;
    assert!(list.iter().all(|case| case.setting == setting), "one run has one setting");
    let Some(scene) = Scene::new(&format!("evasions::{test}"), setting) else { return };
    let scripts: Vec<Script> = list.iter().map(|case| (case.script)(&scene)).collect();
    let mut steps = Vec::new();
    for (index, script) in scripts.iter().enumerate() {
        steps.push(call(libc::SYS_rmdir, [mark(index).as_str().into()]));
        steps.extend(script.iter().map(|(step, _)| step.clone()));
    }
    steps.push(call(libc::SYS_rmdir, [mark(list.len()).as_str().into()]));
    let played = scene.stage.play(&steps);
    let mut wrong = wrong_lines(&scene, &list, &scripts, &played);
    wrong.extend(wrong_effects(&scene, &list, &played));
    wrong.extend(wrong_coverage(&list, &played));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(played.lost, 0);
}

/// What the trace tells otherwise than the cases say.
fn wrong_lines(scene: &Scene, list: &[&Case], scripts: &[Script], played: &Played) -> Vec<String> {
    let act = played.act();
    let at = |index: usize| {
        let mark = mark(index);
        act.iter()
            .position(|line| line["path"] == mark.as_str() || line["requested"] == mark.as_str())
            .unwrap_or_else(|| panic!("no {mark} in the trace"))
    };
    let mut wrong = Vec::new();
    let mut returned = 0;
    for (index, (case, script)) in list.iter().zip(scripts).enumerate() {
        // Whether the kernel had a system's file in its cache of names is chance; where it had not, userspace looked.
        let warm = |line: &Value| scene.stage.shown(line).replace(" #looked-up-late", "");
        let told: Vec<String> = act[at(index) + 1..at(index + 1)].iter().map(warm).collect();
        // The mark's own.
        returned += 1;
        let mut expected = Vec::new();
        for (step, lines) in script {
            let result = result_of(played.told.returns[returned]);
            for line in lines.lines().filter(|line| !line.is_empty()) {
                let is_whole = line.contains(" = ");
                expected.push(if is_whole { line.to_owned() } else { format!("{line} = {result}") });
            }
            returned += actor::count(std::slice::from_ref(step));
        }
        // With a star, what is expected is among the lines.
        let is_open = expected.first().is_some_and(|line| line.starts_with('*'));
        let is_as_expected =
            if is_open { expected[1..].iter().all(|line| told.contains(line)) } else { told == expected };
        if !is_as_expected {
            wrong.push(format!("{}:\n  expected {expected:#?}\n  told {told:#?}", case.act));
        }
    }
    wrong
}

/// What the effects are otherwise than the cases say.
fn wrong_effects(scene: &Scene, list: &[&Case], played: &Played) -> Vec<String> {
    let told: BTreeSet<String> =
        effects(scene, played).into_iter().filter(|effect| scene.is_about(effect)).collect();
    let expected: BTreeSet<String> =
        list.iter().flat_map(|case| case.effects).map(|effect| (*effect).to_owned()).collect();
    let missing = expected.difference(&told).map(|effect| format!("not in the record: {effect}"));
    let more = told.difference(&expected).map(|effect| format!("in the record, by no case: {effect}"));
    missing.chain(more).collect()
}

/// What coverage says otherwise than the cases do.
fn wrong_coverage(list: &[&Case], played: &Played) -> Vec<String> {
    let coverage = &played.evidence["coverage"];
    let mut wrong = Vec::new();
    for kind in ALL {
        let wanted: BTreeSet<&str> = list
            .iter()
            .filter_map(|case| match case.shows {
                Shows::Admitted(kinds, reason) if kinds.contains(kind) => Some(reason),
                _ => None,
            })
            .collect();
        let reasons: BTreeSet<&str> = coverage["reasons"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|reason| reason["kind"] == *kind)
            .filter_map(|reason| reason["reason"].as_str())
            .collect();
        if wanted != reasons {
            wrong.push(format!("coverage of {kind}: expected {wanted:?}, told {reasons:?}: {coverage}"));
        }
        // Each case has an entry of its own: one does not stand for another.
        for reason in &wanted {
            let of = |case: &&&Case| matches!(case.shows, Shows::Admitted(kinds, of) if of == *reason && kinds.contains(kind));
            let entries = coverage["reasons"].as_array().into_iter().flatten();
            let told = entries.filter(|entry| entry["kind"] == *kind && entry["reason"] == *reason).count();
            if told < list.iter().filter(of).count() {
                wrong.push(format!("{reason} is not told once for each case: {coverage}"));
            }
        }
        let word = if wanted.is_empty() { "complete" } else { "partial" };
        if coverage[*kind] != word {
            wrong.push(format!("coverage of {kind} is not {word}: {coverage}"));
        }
    }
    wrong
}

/// The effects of a run, one a line, as the cases have them.
fn effects(scene: &Scene, played: &Played) -> BTreeSet<String> {
    let effects = &played.evidence["identity"]["effects"];
    let list = |kind: &str| effects[kind].as_array().cloned().unwrap_or_default();
    let place = |value: &Value| scene.placed(value.as_str().unwrap_or_default());
    let end = |effect: &Value| if effect["result"] == "ok" { "" } else { " denied" };
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut told = BTreeSet::new();
    for effect in list("fs") {
        let to = if effect["to"].is_null() { String::new() } else { format!(" -> {}", place(&effect["to"])) };
        told.insert(format!("{} {}{to}{}", word(&effect["op"]), place(&effect["path"]), end(&effect)));
    }
    for effect in list("exec") {
        told.insert(format!("exec {}{}", place(&effect["path"]), end(&effect)));
    }
    for effect in list("net") {
        let address = if effect["address"].is_null() { &effect["host"] } else { &effect["address"] };
        let address = if address.is_null() { String::new() } else { format!(" {}", place(address)) };
        told.insert(format!("{} {}{address}{}", word(&effect["op"]), word(&effect["proto"]), end(&effect)));
    }
    told
}

/// The runs: which cases each plays.
const RUNS: &[fn(&Case) -> bool] = &[
    |case| case.setting == Setting::Plain && !case.is_admitted(),
    |case| case.setting == Setting::Plain && case.is_admitted(),
    |case| case.setting == Setting::Given && !case.is_admitted(),
    |case| case.setting == Setting::Given && case.is_admitted(),
    |case| case.setting == Setting::Caps(leaving::MOUNTS) && !case.is_admitted(),
    |case| case.setting == Setting::Caps(leaving::MOUNTS) && case.is_admitted(),
    |case| case.setting == Setting::Caps(doors::HANDLES),
    |case| case.setting == Setting::Caps(sockets::PTRACE) && !case.is_admitted(),
    |case| case.setting == Setting::Caps(sockets::PTRACE) && case.is_admitted(),
];

#[test]
fn what_is_done_by_another_door_is_told() {
    play("what_is_done_by_another_door_is_told", RUNS[0]);
}

#[test]
fn what_cannot_be_followed_is_admitted() {
    play("what_cannot_be_followed_is_admitted", RUNS[1]);
}

#[test]
fn what_is_done_through_what_was_given_is_told() {
    play("what_is_done_through_what_was_given_is_told", RUNS[2]);
}

#[test]
fn what_was_given_and_cannot_be_followed_is_admitted() {
    play("what_was_given_and_cannot_be_followed_is_admitted", RUNS[3]);
}

#[test]
fn what_root_may_do_with_mounts_is_told() {
    play("what_root_may_do_with_mounts_is_told", RUNS[4]);
}

#[test]
fn what_root_may_do_to_others_is_admitted() {
    play("what_root_may_do_to_others_is_admitted", RUNS[5]);
}

#[test]
fn what_a_handle_leads_to_is_told() {
    play("what_a_handle_leads_to_is_told", RUNS[6]);
}

#[test]
fn what_others_hand_over_is_told() {
    play("what_others_hand_over_is_told", RUNS[7]);
}

#[test]
fn what_is_done_to_others_is_admitted() {
    play("what_is_done_to_others_is_admitted", RUNS[8]);
}

/// Whether some test plays this case.
fn is_played(case: &Case) -> bool {
    RUNS.iter().any(|is_wanted| is_wanted(case))
}

#[test]
fn every_case_is_played_and_none_stands_twice() {
    let mut acts = BTreeSet::new();
    for case in cases() {
        assert!(is_played(case), "{}: no test plays it", case.act);
        assert!(acts.insert(case.act), "{}: twice", case.act);
    }
}

/// Under enforcement, none of the doors leads to what the policy does not allow.
#[test]
fn no_other_door_leads_past_the_policy() {
    let test = "evasions::no_other_door_leads_past_the_policy";
    let Some(scene) = Scene::closed(test) else { return };
    let list: Vec<&Case> =
        doors::CASES.iter().filter(|case| case.setting == Setting::Plain && !case.is_admitted()).collect();
    let before = scene.tree();
    let steps: Vec<Step> = list.iter().flat_map(|case| (case.script)(&scene)).map(|(step, _)| step).collect();
    let command = crate::stage::command_of(&steps);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let mut assay = crate::harness::sandbox::sandbox(&scene.options(), &command);
    let output = assay.current_dir(scene.stage.path("")).output().expect("assay");
    let stderr = crate::harness::sandbox::text(&output.stderr);
    assert_eq!(scene.tree(), before, "something was changed: {stderr}");
    let played = scene.stage.read(&output);
    let told: BTreeSet<String> =
        effects(&scene, &played).into_iter().filter(|effect| scene.is_about(effect)).collect();
    // Attributes, an open for ioctl only, and what is run from memory are not governed; see the limits.
    let is_governed =
        |effect: &&str| effect.contains('@') && !effect.starts_with("attr ") && !effect.ends_with(" @/t");
    let done: Vec<&String> =
        told.iter().filter(|effect| is_governed(&effect.as_str()) && !effect.ends_with(" denied")).collect();
    assert!(done.is_empty(), "{done:#?}");
    let mut silent = Vec::new();
    for case in list {
        // Where one act needs another, the first of them was refused and the next never came.
        let mut governed = case.effects.iter().filter(|effect| is_governed(effect));
        // A file without a name is refused as a write of its directory.
        let of_directory = case.effects.iter().any(|effect| effect.starts_with("write unnamed:"));
        let is_denied = governed.clone().any(|effect| told.contains(&format!("{effect} denied")))
            || of_directory && told.contains("write @ denied");
        if !is_denied && governed.next().is_some() {
            silent.push(case.act);
        }
    }
    assert!(silent.is_empty(), "nothing of these is denied: {silent:#?}; {told:#?}");
    let coverage = &played.evidence["coverage"];
    assert!(ALL.iter().all(|kind| coverage[*kind] == "complete"), "{coverage}");
    fs::metadata(scene.at("f")).expect("it is still there");
}
