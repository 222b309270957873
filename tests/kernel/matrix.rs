//! Every kind of access by every way of naming its target, for targets that are allowed, denied, denied inside an allow,
//! allowed inside a deny, and not there yet, whose rules name the file, the directory, or a pattern.
//!
//! No cell is blocked in silence: its effect is told as denied by the policy, and its errno is in the trace.
//!
//! No cell passes in silence: what passes though the policy denies it is named by a degradation, or stands among what the
//! run says is not governed, and in any case its effect is told as not authorised. And no cell that the policy allows is
//! blocked.
//!
//! A kernel whose Landlock is too old, or that has none, is held to the same: the degradation says what it cannot hold, and
//! where all must be held nothing runs.

mod kinds;
mod recorded;
pub mod ways;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::actor::{Act, Step, Told, act, count};
use crate::confined::Scene;
use crate::formats::Format;
use crate::harness::sandbox::{sandbox, text};
use crate::needs::{Need, are_met, booted, has_landlock};
use crate::stage::{command_of, tiny_program};
use kinds::{Content, GIVEN, KINDS, Kind, LOADER, Needs};
use recorded::{Record, is_unknown};
use ways::{Place, WAYS, Way};

const NEEDS: &[Need] = &[Need::Root, Need::Btf, Need::CgroupV2];
/// No user of any system's own.
const USER: u32 = 64_123;
const CONTENT: &str = "content";
const OPEN: &str = "{path: '${WORKDIR}', access: [read, write, execute]}";
/// So many ways are tried in one run.
const WAYS_A_RUN: usize = 6;
/// An emulated machine tries one cell in so many, each in another case: each kind by each way, where all of them take too long.
const PARTS: usize = 4;
/// Since this version Landlock, with our other means, leaves nothing of these policies unheld.
const LANDLOCK_OF_ALL: i32 = 6;

/// A situation.
struct Case {
    name: &'static str,
    options: &'static [&'static str],
    /// The directory of the targets, in the scene.
    target: &'static str,
    /// What each target's name ends in.
    suffix: &'static str,
    /// The rules of `fs`, where `NAMES` stands for one entry a target.
    rules: &'static str,
    entry: &'static str,
    /// What may be done.
    may: &'static [Needs],
    /// Names that are not there cannot be held, and this names them: `NAME` for the path itself.
    unheld: Option<&'static str>,
    /// Nothing but Landlock holds it.
    is_landlock_alone: bool,
    /// A rule denies it, so that other names are denied too.
    is_explicit: bool,
}

const ALL: &[Needs] = &[Needs::Read, Needs::Write, Needs::ReadWrite, Needs::Execute, Needs::Attribute];
const UNWRITTEN: &[Needs] = &[Needs::Read, Needs::Execute];

const DENIED: Case = Case {
    name: "",
    options: &[],
    target: "w/t",
    suffix: "",
    rules: "",
    entry: "",
    may: &[],
    unheld: None,
    is_landlock_alone: false,
    is_explicit: true,
};

const CASES: &[Case] = &[
    Case { name: "allowed", rules: "allow: [OPEN]", may: ALL, is_explicit: false, ..DENIED },
    Case {
        name: "not allowed",
        target: "outside/t",
        rules: "allow: [OPEN]",
        is_landlock_alone: true,
        is_explicit: false,
        ..DENIED
    },
    Case {
        name: "allowed to read",
        target: "outside/t",
        rules: "allow: [OPEN, {path: ../outside, access: [read]}]",
        may: &[Needs::Read],
        is_landlock_alone: true,
        is_explicit: false,
        ..DENIED
    },
    Case { name: "directory denied in an allow", rules: "allow: [OPEN], deny: [t]", ..DENIED },
    Case {
        name: "directory denied in an allow, all held",
        options: &["--enforce", "--fail-closed"],
        rules: "allow: [OPEN], deny: [t]",
        ..DENIED
    },
    Case {
        name: "file denied in an allow",
        rules: "allow: [OPEN], deny: [NAMES]",
        entry: "t/NAME",
        unheld: Some("NAME"),
        ..DENIED
    },
    Case {
        name: "file denied in an allow, all held",
        options: &["--fail-closed"],
        rules: "allow: [OPEN], deny: [NAMES]",
        entry: "t/NAME",
        ..DENIED
    },
    Case {
        name: "pattern denied in an allow",
        suffix: ".s",
        rules: "allow: [OPEN], deny: ['t/*.s']",
        unheld: Some("t/*.s"),
        ..DENIED
    },
    Case {
        name: "directory not written in an allow",
        rules: "allow: [OPEN], deny: [{path: t, access: [write]}]",
        may: UNWRITTEN,
        ..DENIED
    },
    Case {
        name: "file not written in an allow",
        options: &["--enforce"],
        rules: "allow: [OPEN], deny: [NAMES]",
        entry: "{path: t/NAME, access: [write]}",
        may: UNWRITTEN,
        unheld: Some("NAME"),
        ..DENIED
    },
    Case {
        name: "pattern not written in an allow",
        suffix: ".s",
        rules: "allow: [OPEN], deny: [{path: 't/*.s', access: [write]}]",
        may: UNWRITTEN,
        unheld: Some("t/*.s"),
        ..DENIED
    },
    Case {
        name: "allow in a deny",
        target: "w/deep/t",
        rules: "allow: [OPEN, {path: deep/t, access: [read, write, execute]}], deny: [deep]",
        ..DENIED
    },
];

/// A cell, and what came of it.
struct Cell {
    way: &'static Way,
    kind: &'static Kind,
    name: String,
    passed: bool,
    /// So many of its first steps are looks, which have no effect.
    looks: usize,
    returns: Vec<i64>,
}

impl Cell {
    /// Whether this is the target's name, or one that a step gave another file for its sake.
    fn is_named(&self, name: &str) -> bool {
        name.strip_suffix(self.name.as_str()).is_some_and(|front| front.is_empty() || front.ends_with('-'))
    }
}

fn is_cell(case: &Case, way: &Way, kind: &Kind) -> bool {
    // What is made has no other name yet, and what acts on a name acts on that other one.
    let is_elsewhere =
        way.is_of_existing && kind.content == Content::Missing || way.is_other_name && kind.is_of_name;
    // A directory has one name.
    let is_linked = way.name.ends_with("hard_link") && kind.content == Content::Directory;
    let is_free = way.name == "old_hard_link" && !case.is_explicit && case.name != "allowed";
    let is_loaded = kind.content == Content::Dynamic && !Path::new(LOADER).exists();
    !(is_elsewhere || is_linked || is_free || is_loaded)
}

fn make(path: &Path, content: Content) {
    let executable = |bytes: &[u8]| {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    match content {
        Content::Text => fs::write(path, CONTENT).unwrap(),
        Content::Program => executable(&tiny_program()),
        Content::Script => executable(b"#!/bin/true\n"),
        Content::Dynamic => executable(&fs::read("/bin/true").unwrap()),
        Content::Directory => fs::create_dir(path).unwrap(),
        Content::Missing => {}
    }
}

/// Gives it an attribute to remove, where the file system knows any.
fn give_attribute(path: &Path) {
    let set = rustix::fs::setxattr(path, GIVEN, b"y", rustix::fs::XattrFlags::empty());
    assert!(matches!(set, Ok(()) | Err(rustix::io::Errno::OPNOTSUPP)), "{set:?}");
}

/// Whether it is as it was made.
fn is_as_made(path: &Path, content: Content) -> bool {
    match content {
        Content::Text => fs::read(path).is_ok_and(|bytes| bytes == CONTENT.as_bytes()),
        Content::Missing => fs::symlink_metadata(path).is_err(),
        Content::Directory => path.is_dir(),
        Content::Program | Content::Script | Content::Dynamic => path.is_file(),
    }
}

/// Whether a machine that tries one cell in `parts` tries this one.
fn is_in_part(case: &Case, way: &Way, kind: &Kind, parts: usize) -> bool {
    let is_alike = |other: &&Case| other.may == case.may && is_all_held(other) == is_all_held(case);
    let case = CASES.iter().take_while(|other| other.name != case.name).filter(is_alike).count();
    let way = WAYS.iter().take_while(|other| other.name != way.name).count();
    let kind = KINDS.iter().take_while(|other| other.name != kind.name).count();
    (case + way + kind).is_multiple_of(parts)
}

fn is_all_held(case: &Case) -> bool {
    case.options.contains(&"--fail-closed")
}

/// Who tries it.
struct Who {
    actor: PathBuf,
    /// A user without rights, whose all files of the scene are.
    user: Option<u32>,
    /// Keeps a copy of the actor that the user may run.
    _folder: Option<tempfile::TempDir>,
}

impl Who {
    fn root() -> Self {
        Self { actor: std::env::current_exe().unwrap(), user: None, _folder: None }
    }

    fn user() -> Self {
        let folder = tempfile::Builder::new().prefix("assay-actor-").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let actor = folder.path().canonicalize().unwrap().join("actor");
        fs::copy(std::env::current_exe().unwrap(), &actor).unwrap();
        Self { actor, user: Some(USER), _folder: Some(folder) }
    }

    /// Gives them this and what is beneath.
    fn own(&self, path: &Path) {
        if self.user.is_none() {
            return;
        }
        lchown(path, self.user, self.user).unwrap();
        if path.symlink_metadata().unwrap().is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                self.own(&entry.unwrap().path());
            }
        }
    }
}

/// Tries all kinds by some of the ways; the cells, and the evidence. Nothing where it was refused for good reason.
fn play(case: &Case, ways: &'static [Way], parts: usize, who: &Who) -> Option<(Vec<Cell>, Record)> {
    let scene = Scene::new();
    let target = scene.path(case.target);
    fs::create_dir_all(&target).unwrap();
    fs::create_dir_all(scene.path("w/mine")).unwrap();
    let text_of = |path: std::path::PathBuf| path.into_os_string().into_string().unwrap();
    let place = Place {
        target: text_of(target.clone()),
        mine: text_of(scene.path("w/mine")),
        owner: who.user.unwrap_or(1),
    };
    let (mut steps, mut cells) = (Vec::<Step>::new(), Vec::new());
    for way in ways {
        let is_tried = |kind: &&Kind| is_cell(case, way, kind) && is_in_part(case, way, kind, parts);
        for kind in KINDS.iter().filter(is_tried) {
            let name = format!("{}.{}{}", kind.name, way.name, case.suffix);
            make(&target.join(&name), kind.content);
            if kind.name.starts_with("drop_attribute") {
                give_attribute(&target.join(&name));
            }
            if kind.name == "list" {
                fs::write(target.join(&name).join("inside"), "").unwrap();
            }
            if way.name == "old_hard_link" {
                fs::hard_link(target.join(&name), scene.path("w/mine").join(format!("old-{name}"))).unwrap();
            }
            let named = (way.steps)(&place, &name);
            let mut cell = named.before.clone();
            cell.extend((kind.steps)(&place, &named, &name));
            steps.push(act(Act::Fork(cell)));
            if way.name == "moved_parent" {
                steps.push(ways::back(&place));
            }
            let looks = named.before.len() + usize::from(kind.looks);
            let looks = if way.writes || way.mounts { 0 } else { looks };
            cells.push(Cell { way, kind, name, passed: false, looks, returns: Vec::new() });
        }
    }
    let names: Vec<String> = cells.iter().map(|cell| case.entry.replace("NAME", &cell.name)).collect();
    let rules = case.rules.replace("NAMES", &names.join(", ")).replace("OPEN", OPEN);
    who.own(&scene.path(""));
    let rules = rules.replacen(
        "allow: [",
        &format!("allow: [{{path: '{}', access: [read, execute]}}, ", who.actor.display()),
        1,
    );
    scene.file("policy.yaml", &format!("api_version: assay/v1\nfs: {{{rules}}}\n"));
    let (policy, profile) = (text_of(scene.path("policy.yaml")), text_of(scene.path("profile.json")));
    let mut options = case.options.to_vec();
    options.extend(["--policy", &policy, "--profile", &profile, "--profile-format", "json"]);
    let (trace, status) = (text_of(scene.path("trace")), text_of(scene.path("status")));
    options.extend(["--trace", &trace, "--status-file", &status]);
    let id = format!("{USER}:{USER}");
    if who.user.is_some() {
        options.extend(["--user", &id]);
    }
    let mut command = command_of(&steps);
    who.actor.to_str().unwrap().clone_into(&mut command[0]);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let assay = sandbox(&options, &command);
    let mut shell = Command::new("sh");
    // Only where it is used: by a directory from outside the host's mounts are reached, and of a look that finds nothing
    // it is not known any more whether it met ours.
    let gives = if ways.iter().any(|way| way.is_given) { "exec 8<\"$0\" 9</; " } else { "" };
    shell.args(["-c", &format!("{gives}exec \"$@\""), &place.target]);
    shell.arg(assay.get_program()).args(assay.get_args()).stdin(Stdio::null());
    let output = shell.current_dir(scene.path("w")).env("HOME", scene.path("home")).output().unwrap();
    if is_all_held(case) && !has_landlock(LANDLOCK_OF_ALL) {
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{}: {told}", case.name);
        assert!(told.lines().all(|line| line.contains("this cannot be held")) && !told.is_empty(), "{told}");
        assert!(output.stdout.is_empty(), "{}: the command ran", case.name);
        return None;
    }
    let told: Told = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{}: {error}: {}", case.name, text(&output.stderr)));
    let record = Record::read(&scene.path(""));
    Format::Evidence.check(&record.evidence);
    settle(&mut cells, &steps, &told);
    for cell in cells
        .iter()
        .filter(|cell| !cell.passed && cell.way.name != "moved_out" && cell.way.name != "moved_parent")
    {
        assert!(
            is_as_made(&target.join(&cell.name), cell.kind.content) || may(case, cell.kind),
            "{}: {} was refused, and yet it was done: {:?}",
            case.name,
            cell.name,
            cell.returns
        );
    }
    Some((cells, record))
}

/// What each cell came to.
fn settle(cells: &mut [Cell], steps: &[Step], told: &Told) {
    let mut at = 0;
    let mut cells = cells.iter_mut();
    for step in steps {
        let size = count(std::slice::from_ref(step));
        if let Act::Fork(_) = &step.act {
            let cell = cells.next().expect("a cell for each fork");
            cell.returns = told.returns[at..at + size].to_vec();
            let is_done = cell.returns[1..].iter().all(|returned| !(-4095..0).contains(returned));
            // Two entries are those of an empty directory: a mask.
            let is_empty = cell.kind.name == "list" && cell.returns.last().is_some_and(|bytes| *bytes <= 48);
            cell.passed = is_done && !is_empty && (!cell.kind.by_status || cell.returns[0] == 0);
        }
        at += size;
    }
}

fn may(case: &Case, kind: &Kind) -> bool {
    case.may.contains(&kind.needs)
}

/// Why a cell that the policy denies may pass all the same; the run says so.
fn is_admitted(case: &Case, cell: &Cell, evidence: &Value) -> bool {
    let not_governed = evidence["observed"]["not_governed"].to_string();
    if cell.way.is_given {
        return not_governed.contains("descriptors the command was given");
    }
    if cell.kind.needs == Needs::Attribute && case.is_landlock_alone {
        return not_governed.contains("changing attributes");
    }
    if case.is_landlock_alone && is_beyond_landlock(cell.kind, evidence) {
        return true;
    }
    let Some(unheld) = case.unheld.filter(|_| cell.kind.content == Content::Missing) else { return false };
    let named = unheld.replace("NAME", &format!("${{WORKDIR}}/t/{}", cell.name));
    let all = evidence["identity"]["degradations"].as_array().into_iter().flatten();
    let mut about_this = all.filter(|one| one["detail"] == named.as_str());
    about_this.any(|one| one["reason"].as_str().is_some_and(|reason| reason.starts_with("deny-")))
}

/// Whether the run says that this kernel's Landlock does not hold such an access at all.
fn is_beyond_landlock(kind: &Kind, evidence: &Value) -> bool {
    let component = if kind.needs == Needs::Execute { "exec" } else { "fs" };
    let mut all = evidence["identity"]["degradations"].as_array().into_iter().flatten();
    all.any(|one| {
        let is_absent = one["reason"] == "landlock-absent" && one["component"] == component;
        is_absent || one["reason"] == "landlock-truncate" && kind.name == "truncate"
    })
}

/// Names whose effect was done and is told as not authorised.
fn unauthorised(evidence: &Value) -> BTreeSet<String> {
    let effects = &evidence["observed"]["effects"];
    let all = ["fs", "exec"].into_iter().flat_map(|kind| effects[kind].as_array().into_iter().flatten());
    let done = all.filter(|effect| effect["result"] == "ok" && effect["authorised"] == false);
    let names = done.flat_map(|effect| [effect["path"].as_str(), effect["to"].as_str()]).flatten();
    names.filter_map(|name| name.trim_end_matches('/').rsplit('/').next()).map(str::to_owned).collect()
}

/// Whether a cell that is allowed cannot be: for reasons that are no matter of the policy, or because the way needs more.
fn is_excused(case: &Case, cell: &Cell) -> bool {
    let is_held_by_mount = !case.is_landlock_alone && case.may.len() < ALL.len();
    cell.way.mounts
        || cell.kind.is_withheld
        // The file system of an emulated machine knows no attributes of users.
        || cell.kind.is_optional && is_unknown(cell)
        // A descriptor from outside is of the host's mounts: between them and the command's there is no rename or link.
        || cell.way.is_given && cell.returns.contains(&-18)
        || cell.way.writes && !case.may.contains(&Needs::Write)
        // Who asks to cross no mount does not cross ours.
        || cell.way.name == "no_other_mount" && is_held_by_mount
}

fn check(case: &Case, parts: usize, who: &Who) -> (usize, Vec<String>) {
    let (mut cells_in_all, mut wrong) = (0, Vec::new());
    for ways in WAYS.chunks(WAYS_A_RUN * parts) {
        let gives = ways.iter().any(|way| way.is_given);
        let Some((cells, record)) = play(case, ways, parts, who) else { continue };
        let unauthorised = unauthorised(&record.evidence);
        assert_eq!(record.verdict, record.expected_verdict(case, &unauthorised), "{}", case.name);
        for cell in &cells {
            let complain = |what: &str| format!("{}: {} {what} {:?}", case.name, cell.name, cell.returns);
            let is_told = unauthorised.iter().any(|name| cell.is_named(name));
            if cell.passed && !may(case, cell.kind) {
                if !is_admitted(case, cell, &record.evidence) {
                    wrong.push(complain("passes and nothing names it"));
                } else if !is_told {
                    wrong.push(complain("passes and is not told as unauthorised"));
                }
            }
            if !cell.passed
                && !may(case, cell.kind)
                && let Some(missing) = record.misses(case, cell, who.user.is_some())
                && !(gives && is_told)
            {
                wrong.push(complain(&format!("is blocked, and not told so: {missing};")));
            }
            if !cell.passed && may(case, cell.kind) && !is_excused(case, cell) {
                wrong.push(complain("is allowed and blocked"));
            }
        }
        cells_in_all += cells.len();
    }
    (cells_in_all, wrong)
}

/// Checks these cases; together they have so many cells.
fn hold(test: &str, names: &[&str], cells: usize) {
    if !are_met(&format!("matrix::{test}"), NEEDS) {
        return;
    }
    let parts = if booted("vm").is_some() { PARTS } else { 1 };
    let count = checked(CASES.iter().filter(|case| names.contains(&case.name)), parts, &Who::root());
    if parts == 1 {
        assert_eq!(count, cells);
    } else {
        // Where all must be held and cannot be, there is none.
        assert!(count > cells / (2 * parts), "{count} of {cells}");
    }
}

/// Checks these cases; how many cells there were.
fn checked<'a>(cases: impl Iterator<Item = &'a Case>, parts: usize, who: &Who) -> usize {
    let (mut count, mut wrong) = (0, Vec::new());
    for case in cases {
        let (more, complaints) = check(case, parts, who);
        count += more;
        wrong.extend(complaints);
    }
    assert!(wrong.is_empty(), "{} of {count} cells:\n{}", wrong.len(), wrong.join("\n"));
    count
}

#[test]
fn in_an_emulated_machine_each_kind_is_tried_by_each_way_where_it_is_denied() {
    for way in WAYS {
        for kind in KINDS {
            let tried = |parts| {
                let cases = CASES.iter().filter(|case| !is_all_held(case) && !may(case, kind));
                cases.filter(|case| is_cell(case, way, kind) && is_in_part(case, way, kind, parts)).count()
            };
            assert!(tried(PARTS) > 0 || tried(1) == 0, "{} {}: {}", kind.name, way.name, tried(1));
        }
    }
}

#[test]
fn what_is_allowed_is_not_blocked() {
    hold("what_is_allowed_is_not_blocked", &["allowed", "allowed to read"], 2917);
}

#[test]
fn what_no_rule_allows_does_not_pass_in_silence() {
    hold("what_no_rule_allows_does_not_pass_in_silence", &["not allowed", "allow in a deny"], 2917);
}

#[test]
fn a_denied_directory_does_not_pass_in_silence() {
    let cases = [
        "directory denied in an allow",
        "directory denied in an allow, all held",
        "directory not written in an allow",
    ];
    hold("a_denied_directory_does_not_pass_in_silence", &cases, 4434);
}

#[test]
fn a_denied_file_does_not_pass_in_silence() {
    let cases =
        ["file denied in an allow", "file denied in an allow, all held", "file not written in an allow"];
    hold("a_denied_file_does_not_pass_in_silence", &cases, 4434);
}

#[test]
fn a_denied_pattern_does_not_pass_in_silence() {
    let cases = ["pattern denied in an allow", "pattern not written in an allow"];
    hold("a_denied_pattern_does_not_pass_in_silence", &cases, 2956);
}

/// A user without rights, whose own the files are, is held to the same, and nothing else is in their way.
#[test]
fn an_ordinary_user_is_held_as_root_is() {
    if !are_met("matrix::an_ordinary_user_is_held_as_root_is", NEEDS) {
        return;
    }
    let parts = if booted("vm").is_some() { PARTS } else { 2 * PARTS };
    let count = checked(CASES.iter(), parts, &Who::user());
    assert!(count > 1_000, "{count}");
}

/// Where a link leads to what is hidden, the name that is told is the hidden one, however the link is made and met.
#[test]
fn a_link_to_what_is_hidden_is_told_by_what_it_leads_to() {
    if !are_met("matrix::a_link_to_what_is_hidden_is_told_by_what_it_leads_to", NEEDS) {
        return;
    }
    let scene = Scene::new();
    scene.file("w/deep/t/x", CONTENT);
    let pad = "./".repeat(64);
    let work = scene.path("w").into_os_string().into_string().unwrap();
    let links = [
        ("absolute", format!("/{pad}{}/deep/t/x", &work[1..])),
        ("relative", format!("{pad}deep/t/x")),
        ("chain", format!("{pad}relative")),
        ("short-chain", "absolute".to_owned()),
        ("directory", format!("{pad}deep/t")),
        ("upwards", format!("/{pad}{}/deep/../deep/t/./x", &work[1..])),
        ("crowd/short", "../deep/t/x".to_owned()),
    ];
    fs::create_dir(scene.path("w/crowd")).unwrap();
    for (link, text) in &links {
        symlink(text, scene.path("w").join(link)).unwrap();
    }
    // More names than the kernel half looks through.
    let crowd = scene.path("w/crowd");
    for number in 0..9_000 {
        assert!(fs::symlink_metadata(crowd.join(format!("absent-{number}"))).is_err());
    }
    let rules = "allow: [{path: '${WORKDIR}', access: [read]}, {path: /proc, access: [read]}], deny: [deep]";
    scene.file("policy.yaml", &format!("api_version: assay/v1\nfs: {{{rules}}}\n"));
    let (policy, profile) = (scene.path("policy.yaml"), scene.path("profile.json"));
    let trace = scene.path("trace");
    let mut options = vec!["--policy", policy.to_str().unwrap(), "--trace", trace.to_str().unwrap()];
    options.extend(["--profile", profile.to_str().unwrap(), "--profile-format", "json"]);
    let ways: Vec<String> = links.iter().map(|(link, _)| (*link).to_owned()).collect();
    let mut ways: Vec<&str> = ways
        .iter()
        .map(String::as_str)
        .map(|way| if way == "directory" { "directory/x" } else { way })
        .collect();
    ways.extend(["directory/../t/x", "absent", "/proc/self/absent", "/proc/net/absent"]);
    let mut command = vec!["cat"];
    command.extend(&ways);
    let mut assay = sandbox(&options, &command);
    let output = assay.current_dir(scene.path("w")).env("HOME", scene.path("home")).output().unwrap();
    assert!(output.stdout.is_empty() && !output.status.success(), "{output:?}");
    let evidence = crate::harness::sandbox::json(&scene.path("profile.evidence.json"));
    let effects = evidence["observed"]["effects"]["fs"].as_array().unwrap();
    let denied: Vec<&Value> = effects.iter().filter(|effect| effect["result"] == "denied").collect();
    assert_eq!(denied.len(), 1, "{denied:?}");
    let effect = denied[0];
    assert_eq!((&effect["op"], &effect["path"]), (&"read".into(), &"${WORKDIR}/deep/t/x".into()));
    assert_eq!(effect["denied_by"], "policy");
    assert_eq!(effect["hits"], ways.len() - 3, "{effect}");
    assert_eq!(effect["refused"]["rule"], "deep", "{effect}");
    assert_eq!(evidence["coverage"]["reasons"], Value::Array(Vec::new()));
    assert!(effect["refused"]["at"].as_str().unwrap().contains("policy.yaml:2:"), "{effect}");
    // What is nowhere and no link leads to is told as it was asked for.
    let trace = fs::read_to_string(trace).unwrap();
    let lines: Vec<Value> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for absent in [format!("{work}/absent"), "/proc/self/absent".into(), "/proc/net/absent".into()] {
        let line = lines.iter().find(|line| line["path"] == absent.as_str());
        assert_eq!(line.expect(&absent)["result"], "ENOENT");
    }
}
