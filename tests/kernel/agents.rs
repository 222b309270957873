//! Real coding agents, offline, told what to do by a scripted model of ours: the record holds the script's effects, the
//! agent's own, which are the same in every run, and nothing else; a dry run names what the policy does not authorise,
//! and an enforced run stops that while the agent goes on to its end.
//!
//! `cargo xtask agents` installs them and writes the table of docs/agents.md; an agent that is not installed is not run.
//! `ASSAY_AGENTS_KEEP=DIRECTORY` keeps the evidence and the trace of every run, to compare two that differ.

mod scene;
mod table;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;

use serde_json::Value;

use crate::needs::{Need, are_met};
pub use scene::obstacle;
use scene::{Record, Scene};
use table::{Agent, CLAUDE_CODE, CODEX, CODEX_IN_ITS_OWN};

const NEEDS: [Need; 7] = [
    Need::Root,
    Need::Btf,
    Need::CgroupV2,
    Need::LandlockAbi(4),
    Need::Program("git"),
    Need::Program("ip"),
    Need::Program("python3"),
];

/// How often each agent runs.
fn runs() -> usize {
    std::env::var("ASSAY_AGENTS_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(2)
}

/// What a run did, a line each: to files beneath its own places, and to any that it changed; programs; endpoints. What it
/// read of the system (libraries, locales) is in the run id and not in these.
fn lines(evidence: &Value) -> BTreeSet<String> {
    let of = |kind: &str| evidence["identity"]["effects"][kind].as_array().expect("effects").clone();
    let mut lines = BTreeSet::new();
    for effect in of("fs") {
        let path = effect["path"].as_str().expect("a path");
        let is_place = path.starts_with("${") && !path.starts_with("${CGROUP");
        if is_place || !["read", "list"].contains(&effect["op"].as_str().expect("an operation")) {
            lines.insert(line(&effect));
        }
    }
    lines.extend(of("exec").iter().chain(&of("net")).map(line));
    lines
}

/// An effect as the tables have it.
fn line(effect: &Value) -> String {
    let word = |key: &str| effect[key].as_str().unwrap_or_default().to_owned();
    let told = match (&effect["proto"], &effect["op"]) {
        (Value::String(proto), _) => {
            let port = match &effect["port"] {
                Value::Null => String::new(),
                port => format!(":{}", port.to_string().trim_matches('"')),
            };
            format!("{} {proto} {}{port}", word("op"), word("address"))
        }
        (_, Value::String(op)) => {
            let to = effect["to"].as_str().map(|to| format!(" -> {to}")).unwrap_or_default();
            format!("{op} {}{to}", word("path"))
        }
        // The number of a version is none of ours.
        _ => {
            let path = word("path");
            let is_python = path.rsplit('/').next().is_some_and(|name| name.starts_with("python3."));
            format!("exec {}", if is_python { "/usr/bin/python3" } else { &path })
        }
    };
    if effect["result"] == "ok" { told } else { format!("{told} = {}", word("result")) }
}

/// What the policy does not authorise.
fn unauthorised(evidence: &Value) -> BTreeSet<String> {
    let lists = evidence["observed"]["effects"].as_object().expect("effects");
    let effects = lists.values().flat_map(|list| list.as_array().into_iter().flatten());
    effects.filter(|effect| effect["authorised"] == false).map(line).collect()
}

/// What is in one and not in the other, apart from what may be there or not.
fn beyond(one: &BTreeSet<String>, other: &BTreeSet<String>, agent: &Agent) -> BTreeSet<String> {
    one.difference(other).filter(|line| !agent.may_vary(line)).cloned().collect()
}

fn set(texts: &[&str]) -> BTreeSet<String> {
    let lines = texts.iter().flat_map(|text| text.lines()).map(str::trim);
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Leaves what two runs have to be compared by.
fn keep(agent: &Agent, what: &str, record: &Record) {
    let Some(folder) = std::env::var_os("ASSAY_AGENTS_KEEP") else { return };
    let folder = std::path::Path::new(&folder).join(agent.name);
    fs::create_dir_all(&folder).expect("a folder to keep things in");
    let evidence = serde_json::to_vec_pretty(&record.evidence).expect("JSON");
    fs::write(folder.join(format!("{what}.evidence.json")), evidence).expect("kept");
    fs::copy(&record.trace, folder.join(format!("{what}.trace"))).expect("kept");
}

/// Holds an agent to the script, seen and held.
fn check(agent: &Agent) {
    let needs = [&NEEDS[..], &[Need::Agent(agent.name)]].concat();
    if !are_met(&format!("agents::{}", agent.test), &needs) {
        return;
    }
    // What it does of its own, when there is nothing to do.
    let nowhere = Scene::new(agent, 0);
    let idle = nowhere.run(&["--dry-run"], false);
    keep(agent, "idle", &idle);
    assert_eq!(idle.outcome(), "0 0 ok", "{}{:#?}", idle.told, unauthorised(&idle.evidence));
    let own = lines(&idle.evidence);

    let scripted = set(&[agent.scripted]);
    let wanted: BTreeSet<String> = scripted.union(&set(&[agent.for_that])).cloned().collect();
    let forbidden = set(&[agent.forbidden]);
    let things: BTreeSet<&str> = forbidden.iter().filter_map(|line| line.rsplit(' ').next()).collect();
    assert!(forbidden.is_subset(&scripted) && things.len() == 3, "a table that is at odds with itself");
    let mut ids = BTreeSet::new();
    let mut first: Option<BTreeSet<String>> = None;
    let mut effects = 0;
    for turn in 0..runs() {
        let scene = Scene::new(agent, turn);
        let record = scene.run(&["--dry-run"], true);
        keep(agent, &turn.to_string(), &record);
        assert_eq!(record.outcome(), "0 4 unauthorised", "{}", record.told);
        assert!(record.was_told_all(), "{}", record.told);
        assert_eq!(record.evidence["coverage"]["reasons"], serde_json::json!([]), "run {turn}");
        let done = lines(&record.evidence);
        let missing = beyond(&wanted, &done, agent);
        let more = beyond(&done, &wanted.union(&own).cloned().collect(), agent);
        let gone = beyond(&own, &done, agent);
        assert!(
            missing.is_empty() && more.is_empty() && gone.is_empty(),
            "run {turn}: scripted and not told: {missing:#?}; told and neither scripted nor its own: {more:#?}; its own, and not now: {gone:#?}"
        );
        assert_eq!(unauthorised(&record.evidence), forbidden, "run {turn}");
        for line in &forbidden {
            let path = line.rsplit(['/', ' ']).next().expect("a name");
            assert!(record.told.contains(path), "{path} is not named: {}", record.told);
        }
        scene.holds_what_was_done(true);
        // All of it, what it read of the system too.
        let all = record.all_effects();
        effects = all.len();
        if let Some(first) = &first {
            let differing: Vec<_> =
                first.symmetric_difference(&all).filter(|effect| !agent.may_vary(effect)).collect();
            assert!(differing.is_empty(), "run {turn}: {differing:#?}");
        }
        first.get_or_insert(all);
        ids.insert(record.evidence["run_id"].as_str().expect("a run id").to_owned());
    }
    assert!(ids.len() == 1 || !agent.varies.is_empty(), "{ids:?}");

    let scene = Scene::new(agent, 1);
    let held = scene.run(&["--enforce"], true);
    keep(agent, "held", &held);
    assert_eq!(held.outcome(), "0 0 denied", "{}", held.told);
    assert!(held.was_told_all(), "{}", held.told);
    scene.holds_what_was_done(false);
    let done = lines(&held.evidence);
    let passed: Vec<_> = forbidden.intersection(&done).collect();
    assert!(passed.is_empty(), "{passed:#?}");
    let allowed: BTreeSet<String> = scripted.difference(&forbidden).cloned().collect();
    let stopped: Vec<_> = allowed.difference(&done).collect();
    assert!(stopped.is_empty(), "{stopped:#?}");
    // What is denied is on the way to one of the three and nothing else.
    let denied: Vec<_> = done.iter().filter(|line| line.ends_with(" = denied")).collect();
    let is_on_the_way = |line: &&&String| agent.denied.iter().any(|name| line.contains(name));
    let others: Vec<_> = denied.iter().filter(|line| !is_on_the_way(line)).collect();
    assert!(others.is_empty() && denied.len() >= 3, "{denied:#?}");
    the_page_works(agent);
    write_row(agent, ids.len(), effects, scripted.len(), denied.len());
}

/// What the page says of this agent works by copy and paste, and does what it says.
fn the_page_works(agent: &Agent) {
    let blocks = scene::typed(agent);
    let mut ends = Vec::new();
    for block in blocks.iter().filter(|block| block.contains("sudo ")) {
        let scene = Scene::new(agent, 2);
        let (code, told) = scene.type_in(block);
        let is_free = block.contains(" --dry-run ");
        assert_eq!(code, Some(if is_free { 4 } else { 0 }), "{block}{told}");
        scene.holds_what_was_done(is_free);
        ends.push(is_free);
    }
    assert_eq!(ends, [true, false], "{}", agent.section);
}

/// A row of the table.
fn write_row(agent: &Agent, ids: usize, effects: usize, scripted: usize, denied: usize) {
    let Some(folder) = std::env::var_os("ASSAY_AGENTS_ROWS") else { return };
    assert!(runs() >= 10, "a row of the table is made of ten runs or more: ASSAY_AGENTS_RUNS=10");
    let (name, version) = (agent.name, scene::version(agent.name));
    let row = format!(
        "| {name} | {version} | {} | {ids} | {effects} | {scripted} | {scripted} | 3 of 3 | {denied} |\n",
        runs()
    );
    let path = std::path::Path::new(&folder).join(name);
    fs::File::create(path).and_then(|mut file| file.write_all(row.as_bytes())).expect("a row");
}

#[test]
fn claude_code_does_what_it_is_told_and_the_record_says_so() {
    check(&CLAUDE_CODE);
}

#[test]
fn codex_does_what_it_is_told_and_the_record_says_so() {
    check(&CODEX);
}

/// What the guide says of an agent's own sandbox: it works where nothing is blocked, and inside an enforced run nothing of
/// the agent's does, while it ends well.
#[test]
fn an_agents_own_sandbox_works_in_a_dry_run_only_and_it_ends_well_without() {
    let test = "agents::an_agents_own_sandbox_works_in_a_dry_run_only_and_it_ends_well_without";
    if !are_met(test, &[&NEEDS[..], &[Need::Agent("codex")]].concat()) {
        return;
    }
    for (mode, works) in [("--dry-run", true), ("--enforce", false)] {
        let scene = Scene::new(&CODEX_IN_ITS_OWN, 0);
        let record = scene.run(&[mode], true);
        assert!(record.outcome().starts_with("0 "), "{}: {}", record.outcome(), record.told);
        assert!(record.was_told_all(), "{}", record.told);
        let done = lines(&record.evidence);
        assert_eq!(done.contains("create ${WORKDIR}/count.txt"), works, "{mode}: {}", record.told);
        assert_eq!(done.iter().any(|line| line.starts_with("mount ")), works, "{mode}: {done:#?}");
        assert_eq!(
            record.told.contains("error building bubblewrap command"),
            !works,
            "{mode}: {}",
            record.told
        );
    }
}
