//! A host is what `assay doctor` says, and a run there is recorded whole or refused.
//!
//! The tests read the same facts from the kernel by another way and hold both commands to them. They run on every
//! machine, and in those that `cargo xtask vm` boots without one of the things that observing needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::harness::sandbox::{ASSAY, text};
use crate::needs::{Need, are_met, booted};

/// Why nothing can be observed on this host, by its facts.
pub fn obstacle() -> Option<(&'static str, &'static str)> {
    Facts::of_this_host().obstacle()
}

/// What this kernel and its mounts are.
#[derive(Debug)]
struct Facts {
    has_btf: bool,
    has_cgroup2: bool,
    has_tracefs: bool,
    /// `None` where securityfs does not tell.
    lockdown: Option<String>,
    /// The kernel was booted so that nobody reads its memory.
    is_confidential: bool,
    modules: Option<Vec<String>>,
}

impl Facts {
    fn of_this_host() -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        let has = |kind: &str| mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind));
        let security = |name: &str| fs::read_to_string(Path::new("/sys/kernel/security").join(name)).ok();
        let lockdown = security("lockdown").map(|text| {
            let mode = text.split_whitespace().find(|word| word.starts_with('[')).expect("a mode");
            mode.trim_matches(['[', ']']).to_owned()
        });
        Self {
            has_btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            has_cgroup2: has("cgroup2"),
            has_tracefs: has("tracefs"),
            is_confidential: lockdown.as_deref() == Some("confidentiality")
                || fs::read_to_string("/proc/cmdline").expect("options").contains("lockdown=confidentiality"),
            lockdown,
            modules: security("lsm").map(|text| text.trim().split(',').map(ToOwned::to_owned).collect()),
        }
    }

    /// Why nothing can be observed here: the check of `assay doctor`, and a word of the line of a run.
    fn obstacle(&self) -> Option<(&'static str, &'static str)> {
        if !self.has_cgroup2 {
            Some(("cgroup v2", "cgroup version 2"))
        } else if !self.has_btf {
            Some(("btf", "CONFIG_DEBUG_INFO_BTF"))
        } else if self.is_confidential {
            // Where nobody says so it is found out by trying.
            Some((if self.lockdown.is_some() { "lockdown" } else { "observer" }, "lockdown"))
        } else {
            None
        }
    }
}

fn is_possible(test: &str) -> bool {
    are_met(&format!("hosts::{test}"), &[Need::Root])
}

fn assay(folder: &Path, arguments: &[&str]) -> Output {
    let mut assay = Command::new(ASSAY);
    assay.args(arguments).env_remove("SUDO_UID").env_remove("SUDO_GID").current_dir(folder);
    assay.stdin(Stdio::null()).output().expect("assay runs")
}

/// What `assay doctor` says.
fn doctor() -> (Option<i32>, Value) {
    let output = assay(Path::new("/"), &["doctor", "--format", "json"]);
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn check<'a>(said: &'a Value, name: &str) -> &'a Value {
    let checks = said["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}: {said:#}"))
}

/// The work directory of a run, and the artifacts it may leave beside it.
struct Place {
    folder: tempfile::TempDir,
    artifacts: Vec<PathBuf>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
        fs::create_dir(folder.path().join("w")).expect("a folder");
        let names = ["p.json", "p.evidence.json", "p.json.report.md", "t", "b.tar.gz"];
        let artifacts = names.iter().map(|name| folder.path().join(name)).collect();
        Self { folder, artifacts }
    }

    /// `touch made`, with every artifact there is.
    fn run(&self, options: &[&str]) -> Output {
        let asked = "--profile ../p.json --profile-format json --trace ../t --bundle ../b.tar.gz";
        let asked: Vec<&str> = asked.split(' ').collect();
        let all = [&["sandbox"], options, &asked, &["--", "touch", "made"]].concat();
        assay(&self.folder.path().join("w"), &all)
    }

    fn has_run(&self) -> bool {
        self.folder.path().join("w/made").exists()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect(name)
    }

    fn evidence(&self) -> Value {
        serde_json::from_str(&self.read("p.evidence.json")).expect("JSON")
    }
}

fn coverage(evidence: &Value) -> [&str; 3] {
    ["fs", "exec", "net"].map(|kind| evidence["coverage"][kind].as_str().expect("coverage"))
}

/// A machine that failed to hide what its row says would pass every other test.
#[test]
fn a_booted_machine_is_what_its_row_says() {
    if !are_met("hosts::a_booted_machine_is_what_its_row_says", &[Need::Root, Need::Booted]) {
        return;
    }
    let (facts, without) = (Facts::of_this_host(), booted("without").expect("a word on the command line"));
    let is_with = |what: &str| without.split(',').all(|word| word != what);
    assert_eq!(facts.has_btf, is_with("btf"), "{facts:?}");
    assert_eq!(facts.has_cgroup2, is_with("cgroup2"), "{facts:?}");
    assert_eq!(facts.has_tracefs, is_with("tracefs"), "{facts:?}");
    assert_eq!(facts.modules.is_some(), is_with("securityfs"), "{facts:?}");
    let options = fs::read_to_string("/proc/cmdline").expect("options");
    let option = |name: &str| options.split_whitespace().find_map(|word| word.strip_prefix(name));
    if let Some(modules) = &facts.modules {
        let asked = option("lsm=").expect("a list of modules");
        for name in ["landlock", "bpf"] {
            let is_asked = asked.split(',').any(|word| word == name);
            assert_eq!(modules.iter().any(|module| module == name), is_asked, "{name}: {facts:?}");
        }
        assert_eq!(facts.lockdown.as_deref(), Some(option("lockdown=").unwrap_or("none")), "{facts:?}");
    }
}

#[test]
fn doctor_says_what_is_there() {
    if !is_possible("doctor_says_what_is_there") {
        return;
    }
    let facts = Facts::of_this_host();
    let (code, said) = doctor();
    let state = |is: bool| if is { "ok" } else { "missing" };
    assert_eq!(check(&said, "btf")["state"], state(facts.has_btf), "{facts:?} {said:#}");
    assert_eq!(check(&said, "cgroup v2")["state"], state(facts.has_cgroup2), "{facts:?} {said:#}");
    let tracefs = check(&said, "tracefs")["fact"].as_str().expect("a fact").to_owned();
    assert_eq!(tracefs.starts_with("mounted at "), facts.has_tracefs, "{facts:?} {tracefs}");
    assert_eq!(check(&said, "tracefs")["state"], "ok");
    let lockdown = check(&said, "lockdown");
    match facts.lockdown.as_deref() {
        None => assert_eq!(lockdown["state"], "unknown", "{lockdown}"),
        Some("confidentiality") => assert_eq!(lockdown["state"], "missing", "{lockdown}"),
        Some(mode) => assert_eq!((&lockdown["state"], &lockdown["fact"]), (&"ok".into(), &mode.into())),
    }
    if let Some(modules) = &facts.modules {
        assert_eq!(check(&said, "security modules")["fact"], modules.join(", "));
        let has = modules.iter().any(|name| name == "landlock");
        assert_eq!(said["landlock"]["abi"].is_u64(), has, "{modules:?} {said:#}");
        assert_eq!(check(&said, "landlock")["state"], if has { "ok" } else { "limited" });
    }

    let obstacle = facts.obstacle();
    assert_eq!(code, Some(if obstacle.is_none() { 0 } else { 2 }), "{facts:?} {said:#}");
    assert_eq!(said["can_observe"], obstacle.is_none());
    let checks = said["checks"].as_array().expect("checks");
    let missing: Vec<&Value> =
        checks.iter().filter(|one| one["state"] == "missing").map(|one| &one["name"]).collect();
    // What is missing is named, and nothing that is so only because of it.
    assert_eq!(missing, obstacle.map(|(name, _)| name).into_iter().collect::<Vec<_>>(), "{said:#}");
    if let Some((name, _)) = obstacle {
        assert!(check(&said, name)["remedy"].is_string(), "{said:#}");
    }
    let told = text(&assay(Path::new("/"), &["doctor"]).stdout);
    let last = if obstacle.is_none() { "this host can observe" } else { "this host cannot observe" };
    assert_eq!(told.lines().last(), Some(last));
}

#[test]
fn a_record_is_whole_or_refused_before_anything_ran() {
    if !is_possible("a_record_is_whole_or_refused_before_anything_ran") {
        return;
    }
    let facts = Facts::of_this_host();
    let place = Place::new();
    let output = place.run(&["--dry-run"]);
    let told = text(&output.stderr);
    match facts.obstacle() {
        None => {
            assert_eq!(output.status.code(), Some(0), "{told}");
            assert!(place.has_run());
            let evidence = place.evidence();
            assert_eq!(coverage(&evidence), ["complete"; 3], "{evidence:#}");
            let effects = evidence["identity"]["effects"].to_string();
            assert!(effects.contains("${WORKDIR}/made"), "{effects}");
            let verified = assay(place.folder.path(), &["evidence", "verify", "b.tar.gz"]);
            assert_eq!(verified.status.code(), Some(0), "{}", text(&verified.stderr));
        }
        Some((_, word)) => {
            assert_eq!(output.status.code(), Some(2), "{told}");
            assert!(!place.has_run(), "the command ran");
            assert_eq!(told.lines().count(), 1, "{told}");
            assert!(told.contains(word), "{told}");
            let left: Vec<&PathBuf> = place.artifacts.iter().filter(|path| path.exists()).collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

#[test]
fn what_must_be_held_is_refused_where_nothing_is_observed() {
    let test = "hosts::what_must_be_held_is_refused_where_nothing_is_observed";
    if !are_met(test, &[Need::Root, Need::CannotObserve]) {
        return;
    }
    let (_, word) = obstacle().expect("what was asked for");
    let place = Place::new();
    let work = place.folder.path().join("w");
    let output = assay(&work, &["sandbox", "--fail-closed", "--", "touch", "made"]);
    let told = text(&output.stderr);
    assert_eq!((output.status.code(), place.has_run()), (Some(2), false), "{told}");
    // Beside it may stand what this kernel cannot hold: all that is missing is named at once, a line each.
    let about_this = told.lines().filter(|line| line.contains(word)).count();
    let about_others = told.lines().filter(|line| line.contains("this cannot be held")).count();
    assert_eq!((about_this, about_others + 1), (1, told.lines().count()), "{told}");
}

#[test]
fn who_goes_on_unobserved_finds_that_in_every_artifact() {
    if !is_possible("who_goes_on_unobserved_finds_that_in_every_artifact") {
        return;
    }
    let is_observed = Facts::of_this_host().obstacle().is_none();
    let place = Place::new();
    let output = place.run(&["--dry-run", "--allow-unobserved"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(place.has_run());
    let evidence = place.evidence();
    assert_eq!(coverage(&evidence), [if is_observed { "complete" } else { "none" }; 3], "{evidence:#}");
    let says = |told: &str, words: &str, what: &str| {
        assert_eq!(told.contains(words), !is_observed, "{what}: {told}");
    };
    says(&evidence["identity"]["degradations"].to_string(), "not-observed", "the evidence");
    says(&place.read("p.json.report.md"), "not-observed", "the report");
    says(&place.read("t"), "not observed", "the trace");
    let shown = assay(place.folder.path(), &["evidence", "show", "b.tar.gz"]);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    says(&text(&shown.stdout), "not-observed", "the bundle");
}

#[test]
fn who_asks_for_no_record_is_contained_and_told_that_there_is_none() {
    if !is_possible("who_asks_for_no_record_is_contained_and_told_that_there_is_none") {
        return;
    }
    let is_observed = Facts::of_this_host().obstacle().is_none();
    let has_landlock = doctor().1["landlock"]["abi"].is_u64();
    let place = Place::new();
    let outside = place.folder.path().join("outside").to_string_lossy().into_owned();
    let command = format!("touch made; touch {outside}; exit 7");
    let work = place.folder.path().join("w");
    let output = assay(&work, &["sandbox", "--enforce", "--", "sh", "-c", &command]);
    let told = text(&output.stderr);
    assert!(place.has_run(), "{told}");
    assert_eq!(Path::new(&outside).exists(), !has_landlock, "{told}");
    assert_eq!(told.contains("nothing is recorded"), !is_observed, "{told}");
    if !is_observed {
        assert_eq!(output.status.code(), Some(7), "{told}");
    }
}
