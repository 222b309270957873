//! One behaviour, one run id: real programs, run again under other circumstances; their folds undone; and the policy
//! that each suggests held to the next run.
//!
//! `ASSAY_STABILITY_RUNS=10 ASSAY_STABILITY_TABLE=FILE cargo xtask kernel stability` writes the table of
//! docs/stability.md. `ASSAY_STABILITY_KEEP=DIRECTORY` keeps what each run left, to compare two that differ.

mod agents;
mod circumstances;
mod difference;
mod undo;
mod workloads;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::harness::page;
use crate::needs::{Need, are_met};
use crate::one_more;
use circumstances::{Circumstances, Record};
use undo::{Seen, seen};

/// A program, and what it needs.
pub struct Workload {
    /// What it is called in the table.
    pub name: &'static str,
    /// Programs that have to be there.
    pub programs: &'static [&'static str],
    /// What is there before the run.
    pub before: String,
    /// What runs.
    pub script: &'static str,
    /// Effects that one run has and another has not, because the program itself does one or the other. Each is an
    /// operation and a name of the identity; `docs/stability.md` has the reason.
    pub may_vary: &'static [(&'static str, &'static str)],
}

/// How often each workload runs.
fn runs() -> usize {
    std::env::var("ASSAY_STABILITY_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(3)
}

/// The parts of an identity.
fn parts(evidence: &Value) -> BTreeSet<String> {
    let rest = ["command", "outcome", "degradations"].map(|key| evidence["identity"][key].to_string());
    effects(evidence).into_iter().chain(rest).collect()
}

/// The effects of a run, each a text.
fn effects(evidence: &Value) -> BTreeSet<String> {
    let lists = evidence["identity"]["effects"].as_object().expect("effects");
    lists.values().flat_map(|list| list.as_array().into_iter().flatten()).map(Value::to_string).collect()
}

/// Whether this part of an identity is one of those that may be there or not.
fn may_vary(part: &str, allowed: &[(&str, &str)]) -> bool {
    let Ok(part) = serde_json::from_str::<Value>(part) else { return false };
    allowed.iter().any(|(op, path)| part["op"] == *op && part["path"] == *path)
}

/// A report without what is true of one run only: how long it took, how often each thing happened, and what it says
/// below of the run's own processes, places and counts.
fn lasting(report: &str) -> String {
    let (told, _) = report.split_once("\n## Processes\n").expect("a report has processes");
    let mut out = String::new();
    for line in told.lines().filter(|line| !line.is_empty()) {
        let cells = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |"));
        let whole = match (line.split_once(", after "), cells) {
            (Some((before, _)), _) => before,
            // Whether a process in the background was quicker is not what the run did.
            _ if line.starts_with("Run `") || line.starts_with("Processes outlived") => continue,
            // The last cell says how often; of programs, the one before their digest.
            (None, Some(cells)) => {
                let drop = if cells.contains("| `sha256:") { 2 } else { 1 };
                cells.rsplitn(drop + 1, " | ").last().unwrap_or_default()
            }
            (None, None) => line,
        };
        // Who did it has its number in brackets, alone or behind its name.
        let number = ["(pid ", ", pid "].iter().find_map(|mark| whole.split_once(mark));
        let line = number.and_then(|(before, rest)| Some((before, rest.split_once(')')?.1)));
        let line = line.map_or_else(|| whole.to_owned(), |(before, after)| format!("{before}){after}"));
        let line = without_the_other_end(&line);
        writeln!(out, "{line}").expect("a String takes all");
    }
    out
}

/// Who answered at a socket is a process of the run or of the host: which number it and its user have differs.
fn without_the_other_end(line: &str) -> String {
    let mut parts = line.split("uid ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let after = part.trim_start_matches(|byte: char| byte.is_ascii_digit());
        out.push_str("uid ");
        out.push_str(after);
    }
    match out
        .split_once("process ")
        .and_then(|(before, rest)| Some((before, rest.split_once(", which had ended")?.1)))
    {
        Some((before, after)) => format!("{before}process, which had ended{after}"),
        None => out,
    }
}

/// The evidence without one of its folds, for each; and with one that is made up. The way back has to notice.
fn every_fold_is_needed(seen: &Seen, evidence: &Value) {
    assert_eq!(seen.complaints(evidence), [""; 0]);
    let folded = evidence["observed"]["folded"].as_array().expect("folds");
    let from: BTreeSet<&str> = folded.iter().filter_map(|fold| fold["from"].as_str()).collect();
    for name in from.into_iter().filter(|name| seen.names.contains(*name)).take(12) {
        let mut damaged = evidence.clone();
        let folds = damaged["observed"]["folded"].as_array_mut().expect("folds");
        folds.retain(|fold| fold["from"] != name);
        assert_ne!(seen.complaints(&damaged), [""; 0], "without the fold of {name}");
    }
    let mut damaged = evidence.clone();
    let folds = damaged["observed"]["folded"].as_array_mut().expect("folds");
    folds.push(serde_json::json!({"rule": "random", "from": "/not/of/this/run", "to": "/not/of/${RANDOM}"}));
    assert_ne!(seen.complaints(&damaged), [""; 0], "with a fold that is made up");
    let mut damaged = evidence.clone();
    let effects = damaged["identity"]["effects"]["fs"].as_array_mut().expect("effects");
    effects.retain(|effect| effect["path"] != "/etc/ld.so.cache");
    assert_ne!(seen.complaints(&damaged), [""; 0], "without the effect of the loader's cache");
}

/// Leaves what two runs have to be compared by.
fn keep(name: &str, turn: usize, record: &Record) {
    let Some(folder) = std::env::var_os("ASSAY_STABILITY_KEEP") else { return };
    let folder = Path::new(&folder).join(name);
    fs::create_dir_all(&folder).expect("a folder to keep things in");
    let evidence = serde_json::to_vec_pretty(&record.evidence).expect("JSON");
    fs::write(folder.join(format!("{turn}.evidence.json")), evidence).expect("kept");
    fs::write(folder.join(format!("{turn}.report.md")), &record.report).expect("kept");
    fs::copy(&record.trace, folder.join(format!("{turn}.trace"))).expect("kept");
}

/// Holds a workload to its promise. Returns the evidence of its first run; `None` where it cannot run.
fn check(workload: &Workload) -> Option<Value> {
    let name = workload.name;
    let mut needs = vec![
        Need::Root,
        Need::Btf,
        Need::CgroupV2,
        Need::LandlockAbi(4),
        Need::Program("setpriv"),
        Need::Program("gcc"),
        Need::Program("python3"),
    ];
    needs.extend(workload.programs.iter().map(|program| Need::Program(program)));
    if !are_met(&format!("stability::{name}"), &needs) {
        return None;
    }
    let mut first: Option<Record> = None;
    let (mut ids, mut names, mut rules) = (BTreeSet::new(), 0, BTreeSet::new());
    let mut wrong: Vec<String> = Vec::new();
    let mut profile = Vec::new();
    for turn in 0..runs() {
        let place = Circumstances::new(turn);
        place.prepare(&workload.before);
        let record = place.record(&["--dry-run"], workload.script);
        keep(name, turn, &record);
        assert_eq!(record.status["child"]["exit_code"], 0, "{:#}{}", record.status, record.told);
        let evidence = &record.evidence;
        // A mount that was detached is a place that no path leads to, which is admitted; nothing else may be.
        let reasons = evidence["coverage"]["reasons"].as_array().expect("reasons");
        let is_known = reasons.iter().all(|reason| reason["reason"] == "detached-mount");
        assert!(is_known, "{:#}", evidence["coverage"]);
        let seen = seen(&record.trace);
        assert_eq!(seen.complaints(evidence), [""; 0], "run {turn}");
        if turn == 1 {
            let (who, command) = (place.who(), ["sh", "-ec", workload.script]);
            let told = page::differences_of((&who.0, &who.1), &record.written, &record.trace, None, &command);
            assert_eq!(told, "", "run {turn}: not what the page says");
        }
        ids.insert(evidence["run_id"].as_str().expect("a run id").to_owned());
        names = seen.names.len();
        let folds = evidence["observed"]["folded"].as_array().expect("folds");
        rules.extend(
            folds
                .iter()
                .filter_map(|fold| fold["rule"].as_str())
                .flat_map(|rule| rule.split('+'))
                .map(str::to_owned),
        );
        profile.clone_from(&record.profile);
        let Some(first) = &first else {
            every_fold_is_needed(&seen, evidence);
            first = Some(record);
            continue;
        };
        let (of_first, of_this) = (parts(&first.evidence), parts(evidence));
        let differing = of_first.symmetric_difference(&of_this);
        let unexplained: Vec<&String> = differing.filter(|part| !may_vary(part, workload.may_vary)).collect();
        wrong.extend(unexplained.into_iter().map(|part| format!("run {turn}: {part}")));
        if first.evidence["run_id"] != evidence["run_id"] {
            difference::is_named(&first.evidence, evidence);
            continue;
        }
        same_artifacts(first, &record, turn);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    if workload.may_vary.is_empty() {
        assert_eq!(ids.len(), 1, "{ids:?}");
    }
    // The policy that the last run suggests, held to one more. Mounts are never granted.
    let place = Circumstances::new(1);
    place.prepare(&workload.before);
    let policy = place.base.path().join("policy.json");
    fs::write(&policy, profile).expect("a policy is written");
    let held = place.record(&["--enforce", "--policy", &policy.to_string_lossy()], workload.script);
    let first = first.expect("at least one run");
    let of_files = first.evidence["identity"]["effects"]["fs"].as_array().expect("effects");
    if of_files.iter().any(|effect| effect["op"] == "mount") {
        assert_ne!(held.status["child"]["exit_code"], 0, "{:#}{}", held.status, held.told);
        write_row(workload, ids.len(), &first, names, &rules, "mounts are never granted");
    } else {
        // What the system refused while it was learnt is not granted, and is refused again: then that, and nothing else.
        if first.evidence["observed"]["counters"]["denied"].as_u64().unwrap_or(0) > 0 {
            let (of_first, of_held) = (effects(&first.evidence), effects(&held.evidence));
            let differing = of_first.symmetric_difference(&of_held);
            let unexplained: Vec<&String> =
                differing.filter(|effect| !may_vary(effect, workload.may_vary)).collect();
            assert!(unexplained.is_empty(), "{unexplained:#?}{}", held.told);
        } else {
            assert_eq!(held.status["verdict"], "ok", "{:#}{}", held.status, held.told);
        }
        assert_eq!(held.status["exit_code"], 0, "{:#}{}", held.status, held.told);
        let again = Circumstances::new(1);
        again.prepare(&workload.before);
        let options = ["--enforce", "--policy", &policy.to_string_lossy()];
        one_more::is_stopped(&again.home, workload.script, &|script| {
            let record = again.record(&options, script);
            (record.evidence, record.status)
        });
        write_row(workload, ids.len(), &first, names, &rules, "ok");
    }
    Some(first.evidence)
}

/// Two runs with one id: the same digest and profile; and where they ran the same programs, the same run root and
/// report. A program that the run itself built may hold the place it was built in.
fn same_artifacts(first: &Record, other: &Record, turn: usize) {
    assert_eq!(first.evidence["digest"], other.evidence["digest"]);
    assert!(first.profile == other.profile, "run {turn}: one run id, one profile");
    let digests = |record: &Record| -> BTreeSet<(String, String)> {
        let programs = record.evidence["observed"]["programs"].as_object().expect("programs");
        programs.iter().map(|(path, digest)| (path.clone(), digest.to_string())).collect()
    };
    let (ours, theirs) = (digests(first), digests(other));
    let built: Vec<_> = ours.symmetric_difference(&theirs).collect();
    if built.is_empty() {
        assert_eq!(first.run_root, other.run_root, "run {turn}: one run id, one run root");
        assert_eq!(lasting(&first.report), lasting(&other.report), "run {turn}: one run id, one report");
    } else {
        assert!(built.iter().all(|(path, _)| path.starts_with("${WORKDIR}/")), "{built:?}");
        assert_ne!(first.run_root, other.run_root, "run {turn}: other programs, another run root");
    }
}

/// A row of the table.
fn write_row(
    workload: &Workload,
    ids: usize,
    first: &Record,
    names: usize,
    rules: &BTreeSet<String>,
    enforced: &str,
) {
    let Some(table) = std::env::var_os("ASSAY_STABILITY_TABLE") else { return };
    assert!(runs() >= 10, "a row of the table is made of ten runs or more: ASSAY_STABILITY_RUNS=10");
    let lists = first.evidence["identity"]["effects"].as_object().expect("effects");
    let effects: usize = lists.values().filter_map(|list| list.as_array().map(Vec::len)).sum();
    let rules = rules.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let name = workload.name;
    let row = format!("| {name} | {} | {ids} | {effects} | {names} | {rules} | {enforced} |\n", runs());
    let mut file = fs::OpenOptions::new().append(true).create(true).open(table).expect("the table");
    file.write_all(row.as_bytes()).expect("a row");
}
