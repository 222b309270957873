//! What a run's artifacts say of the cells that were blocked: the effect, who refused it, and the errno in the trace.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Case, Cell, is_all_held};
use crate::harness::sandbox::{json, text};
use crate::stage::result_of;

const EOPNOTSUPP: i64 = -95;
const ENOTTY: i64 = -25;
const ENOSYS: i64 = -38;
const EXDEV: i64 = -18;

/// The artifacts of one run.
#[derive(Debug)]
pub struct Record {
    pub evidence: Value,
    /// Last parts of names of refused effects, and who refused.
    denied: BTreeSet<(String, String)>,
    /// Last parts of names in the trace, and the errno.
    failed: BTreeSet<(String, String)>,
    pub verdict: String,
}

impl Record {
    /// Reads `profile.evidence.json`, `trace` and `status` there.
    pub fn read(folder: &std::path::Path) -> Self {
        let evidence = json(&folder.join("profile.evidence.json"));
        let status = json(&folder.join("status"));
        let effects = &evidence["observed"]["effects"];
        let all =
            ["fs", "exec", "net"].into_iter().flat_map(|kind| effects[kind].as_array().into_iter().flatten());
        let mut denied = BTreeSet::new();
        for effect in all.filter(|effect| effect["result"] == "denied") {
            let by = effect["denied_by"].as_str().expect("who refused it");
            for name in last_parts(effect, &["path", "to", "address"]) {
                denied.insert((name, by.to_owned()));
            }
        }
        let trace = text(&std::fs::read(folder.join("trace")).expect("a trace"));
        let mut failed = BTreeSet::new();
        for line in trace.lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let Some(result) = line["result"].as_str().filter(|result| *result != "ok") else { continue };
            for name in last_parts(&line, &["path", "to", "requested", "address"]) {
                failed.insert((name, result.to_owned()));
            }
        }
        let verdict = status["verdict"].as_str().expect("a verdict").to_owned();
        Self { evidence, denied, failed, verdict }
    }

    /// What is missing of a cell that the policy denies and that was blocked.
    pub fn misses(&self, case: &Case, cell: &Cell, is_ordinary: bool) -> Option<String> {
        // The file system of an emulated machine knows no attributes of users, and perhaps no files without a name.
        if is_unknown(cell) {
            return None;
        }
        // Between what was given and what is named lies the edge of a mount, for the command has mounts of its own. That is
        // no word of the policy; with Landlock, which says the same, nobody can tell.
        if cell.returns.contains(&EXDEV) && self.has_no_landlock() {
            return None;
        }
        let directory = case.target.rsplit('/').next().expect("a name");
        let errno = |returned: &i64| Some(result_of(*returned)).filter(|result| result != "ok");
        let failed: BTreeSet<String> = cell.returns[1..].iter().filter_map(errno).collect();
        // A look has no effect: where one found nothing, or would not cross our mount, there was no act after it.
        let mut looks = cell.returns[1..].iter().take(cell.looks);
        if let Some(errno) = looks.find_map(errno) {
            let is_told = |name: &str| name == directory || cell.is_named(name);
            let mut told = self.failed.iter().filter(|(name, _)| is_told(name));
            return (!told.any(|(_, told)| *told == errno))
                .then(|| format!("no look that ended with {errno}"));
        }
        if cell.kind.name == "by_handle" {
            // No capability of an ordinary user's is withheld. Of root, without a name, it is told as what the launch withholds.
            if is_ordinary {
                return (!failed.contains("EPERM")).then(|| "no EPERM".to_owned());
            }
            let counters = &self.evidence["observed"]["counters"];
            let is_told = counters["withheld.DAC_READ_SEARCH"].as_u64().is_some_and(|hits| hits > 0);
            return (!is_told || !failed.contains("EPERM")).then(|| "nothing withheld".to_owned());
        }
        // Where the directory above could not be moved, that is what was refused, and the rest found nothing.
        let is_about =
            |name: &str| cell.is_named(name) || cell.way.name == "moved_parent" && name == directory;
        let of = |all: &BTreeSet<(String, String)>| -> BTreeSet<String> {
            all.iter().filter(|(name, _)| is_about(name)).map(|(_, what)| what.clone()).collect()
        };
        let (by, told) = (of(&self.denied), of(&self.failed));
        let is_hidden = cell.kind.name == "list" && failed.is_empty();
        if !by.contains("policy") || by.contains("system") {
            return Some(format!("refused by {by:?}"));
        }
        let is_traced = if cell.kind.by_status { !told.is_empty() } else { !told.is_disjoint(&failed) };
        (!is_traced && !is_hidden).then(|| format!("the trace has {told:?}"))
    }

    fn has_no_landlock(&self) -> bool {
        let all = self.evidence["identity"]["degradations"].as_array().expect("degradations");
        all.iter().any(|one| one["component"] == "fs" && one["reason"] == "landlock-absent")
    }

    /// What the run came to, by its effects.
    pub fn expected_verdict(&self, case: &Case, unauthorised: &BTreeSet<String>) -> &'static str {
        let is_whole = self.evidence["coverage"]["reasons"].as_array().is_some_and(Vec::is_empty);
        if !is_whole && is_all_held(case) {
            "incomplete"
        } else if !unauthorised.is_empty() {
            "unauthorised"
        } else if self.denied.iter().any(|(_, by)| by == "policy") {
            "denied"
        } else if !is_whole {
            "incomplete"
        } else {
            "ok"
        }
    }
}

/// Whether the file system, or the kernel, does not know what was tried.
pub fn is_unknown(cell: &Cell) -> bool {
    let has = |errno: i64| cell.returns.contains(&errno);
    has(EOPNOTSUPP) || cell.kind.is_optional && (has(ENOTTY) || has(ENOSYS))
}

fn last_parts(value: &Value, keys: &[&str]) -> Vec<String> {
    let names = keys.iter().filter_map(|key| value[*key].as_str());
    names.filter_map(|name| name.trim_end_matches('/').rsplit('/').next()).map(str::to_owned).collect()
}
