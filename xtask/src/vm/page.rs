//! The table of `docs/kernel-support.md`: what the machines told → rows; nothing else is in it.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result, bail};

use super::seen::Seen;
use super::variants::Variant;
use crate::step::root;

const PAGE: &str = "docs/kernel-support.md";
const BEGIN: &str = "<!-- what `cargo xtask vm --table` saw -->\n";
const END: &str = "<!-- end of what it saw -->\n";
const HEAD: &str = "\
| boot | Linux | security modules | Landlock | `assay doctor` misses | `--profile` | coverage | not held of the example | `--fail-closed` |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

const WORKLOADS_BEGIN: &str = "<!-- the workloads that `cargo xtask vm --table` saw -->\n";
const WORKLOADS_END: &str = "<!-- end of the workloads -->\n";
/// The page that names all workloads, one a row.
const ORACLE: &str = "docs/oracle.md";

/// Both tables.
#[derive(Debug)]
pub struct Tables {
    boots: String,
    workloads: String,
}

/// What the machines told, as tables; a workload that was not asked keeps its row.
pub fn tables(all: &[(&Variant, Seen)], asked: &BTreeSet<String>) -> Result<Tables> {
    let page = fs::read_to_string(root().join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let witnessed: Vec<&Seen> =
        all.iter().filter(|(one, _)| one.has_commands).map(|(_, seen)| seen).collect();
    let asked = if witnessed.is_empty() { &BTreeSet::new() } else { asked };
    Ok(Tables { boots: table(all), workloads: witnessed_table(&workloads()?, asked, &witnessed, &page) })
}

/// The oracle's workloads, from its page.
pub fn workloads() -> Result<Vec<String>> {
    let oracle = fs::read_to_string(root().join(ORACLE)).with_context(|| format!("read {ORACLE}"))?;
    Ok(names(&oracle))
}

fn names(oracle: &str) -> Vec<String> {
    let rows = oracle.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    rows.filter(|name| name.contains('_')).map(str::to_owned).collect()
}

/// A row for each workload: whether both witnesses told the same of it, or why it was not run.
fn witnessed_table(names: &[String], asked: &BTreeSet<String>, machines: &[&Seen], page: &str) -> String {
    let told = |name: &str| {
        if machines.iter().any(|seen| seen.ran.contains(name)) {
            return "the same".to_owned();
        }
        let begin = format!("oracle::{name}: ");
        let mut why =
            machines.iter().flat_map(|seen| &seen.not_run).filter_map(|line| line.strip_prefix(&begin));
        why.next().map_or("not the same".to_owned(), |why| {
            format!("not run: {}", why.split(": ").next().unwrap_or_default())
        })
    };
    let (_, old) = page.split_once(WORKLOADS_BEGIN).unwrap_or_default();
    let (old, _) = old.split_once(WORKLOADS_END).unwrap_or_default();
    let kept = |name: &str| {
        let begin = format!("| {name} | ");
        let row = old.lines().find_map(|line| line.strip_prefix(&begin)?.strip_suffix(" |"));
        row.unwrap_or("not asked").to_owned()
    };
    let mut table = "| workload | what both witnesses told |\n| --- | --- |\n".to_owned();
    for name in names {
        let cell = if asked.contains(name) { told(name) } else { kept(name) };
        table.extend(["| ", name, " | ", &cell, " |\n"]);
    }
    table
}

/// The table of ways to boot.
fn table(all: &[(&Variant, Seen)]) -> String {
    let rows: String = all.iter().map(|(variant, seen)| row(variant, seen)).collect();
    format!("{HEAD}{rows}")
}

fn row(variant: &Variant, seen: &Seen) -> String {
    let doctor: Vec<Line> = seen.all("doctor").filter_map(Line::read).collect();
    let fact = |name: &str| doctor.iter().find(|line| line.name == name).map_or("?", |line| line.fact);
    // `Linux 6.1.0-57-cloud-amd64 on x86_64`: the packager's number is not of the kernel's own.
    let series: Vec<&str> = fact("kernel").trim_start_matches("Linux ").splitn(3, '.').take(2).collect();
    let landlock = fact("landlock");
    let landlock = if landlock.starts_with("ABI") { landlock } else { "none" };
    let missing: Vec<String> =
        doctor
            .iter()
            .filter(|line| line.state == "missing" || line.state == "unknown" && line.name == "lockdown")
            .map(|line| {
                if line.state == "unknown" {
                    format!("{} (unknown)", line.name)
                } else {
                    line.name.to_owned()
                }
            })
            .collect();
    let coverage: Vec<&str> = seen.all("coverage").filter_map(|line| line.split(": ").nth(1)).collect();
    let is_one = coverage.windows(2).all(|pair| pair[0] == pair[1]);
    let coverage =
        if is_one { coverage.first().copied().unwrap_or("?").to_owned() } else { coverage.join(", ") };
    let not_held: Vec<String> = seen
        .all("not-held")
        .map(|line| format!("`{}`", line.trim_start_matches("reason: ")))
        .filter(|reason| reason != "`not-observed`")
        .collect();
    let cells = [
        format!("{}: {}", variant.name, variant.what),
        series.join("."),
        fact("security modules").to_owned(),
        landlock.to_owned(),
        or_nothing(&missing.join(", ")),
        ending(seen, "record", "recorded"),
        coverage,
        or_nothing(&not_held.join(" ")),
        ending(seen, "fail-closed", "runs"),
    ];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

/// One line of `assay doctor`.
struct Line<'a> {
    state: &'a str,
    name: &'a str,
    fact: &'a str,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (state, rest) = line.split_once(' ')?;
        let (name, fact) = rest.trim_start().split_once(": ")?;
        ["ok", "limited", "missing", "unknown"].contains(&state).then_some(Self { state, name, fact })
    }
}

/// How a run ended.
fn ending(seen: &Seen, what: &str, good: &str) -> String {
    let told = seen.all(what).next().unwrap_or("?");
    match told.split(' ').next() {
        Some("0") => good.to_owned(),
        Some("2") => "refused, 2".to_owned(),
        _ => told.to_owned(),
    }
}

fn or_nothing(text: &str) -> String {
    if text.is_empty() { "nothing".to_owned() } else { text.to_owned() }
}

/// The page with these tables in their places; that of the ways to boot where all were booted.
fn with(page: &str, tables: &Tables, has_boots: bool) -> Option<String> {
    let page = between(page, WORKLOADS_BEGIN, WORKLOADS_END, &tables.workloads)?;
    if has_boots { between(&page, BEGIN, END, &tables.boots) } else { Some(page) }
}

fn between(page: &str, begin: &str, end: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n{table}\n{end}{after}"))
}

fn updated(tables: &Tables, has_boots: bool) -> Result<(String, String)> {
    let page = fs::read_to_string(root().join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let new =
        with(&page, tables, has_boots).with_context(|| format!("find the places of the tables in {PAGE}"))?;
    Ok((page, new))
}

/// Writes those that were seen whole.
pub fn write(tables: &Tables, has_boots: bool) -> Result<()> {
    let (_, new) = updated(tables, has_boots)?;
    fs::write(root().join(PAGE), new).with_context(|| format!("write {PAGE}"))
}

/// Fails where the page says another thing than was seen.
pub fn compare(tables: &Tables) -> Result<()> {
    let (page, new) = updated(tables, true)?;
    if page != new {
        bail!(
            "{PAGE} is not what was seen; `cargo xtask vm --table` writes it:\n{}\n{}",
            tables.boots,
            tables.workloads
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::variants::VARIANTS;
    use super::*;

    #[test]
    fn the_page_has_a_row_for_each_way_to_boot_and_no_other() {
        let page = fs::read_to_string(root().join(PAGE)).expect("the page");
        let (_, rest) = page.split_once(BEGIN).expect("a place for the table");
        let (table, _) = rest.split_once(END).expect("an end of the table");
        let rows = table.trim().strip_prefix(HEAD).expect("the head").lines();
        let begins: Vec<&str> =
            rows.filter_map(|row| row.trim_start_matches("| ").split(" |").next()).collect();
        let ways: Vec<String> = VARIANTS.iter().map(|one| format!("{}: {}", one.name, one.what)).collect();
        assert_eq!(begins, ways);
    }

    #[test]
    fn a_row_is_what_the_machine_told() {
        let answer = |what: &str, text: &str| (what.to_owned(), text.to_owned());
        let seen = Seen {
            answers: vec![
                answer("doctor", "ok       kernel: Linux 6.1.0-57-cloud-amd64 on x86_64"),
                answer("doctor", "missing  btf: not there"),
                answer("doctor", "         to change it: another: kernel"),
                answer("doctor", "ok       landlock: ABI 2"),
                answer("record", "2 error: not observed"),
                answer("coverage", "fs: none"),
                answer("coverage", "net: none"),
                answer("not-held", "reason: landlock-truncate"),
                answer("not-held", "reason: not-observed"),
                answer("fail-closed", "0"),
            ],
            ..Seen::default()
        };
        let row = row(&VARIANTS[0], &seen);
        let end = " | 6.1 | ? | ABI 2 | btf | refused, 2 | none | `landlock-truncate` | runs |\n";
        assert!(row.ends_with(end), "{row}");
    }

    #[test]
    fn a_workload_is_told_alike_or_the_row_says_why_not() {
        let seen = Seen {
            ran: ["find_delete".to_owned()].into(),
            not_run: vec!["oracle::cargo_build: needs program-cargo: not on PATH".to_owned()],
            ..Seen::default()
        };
        let page = "| command | calls |\n| --- | ---: |\n| cargo_build | 1 |\n| find_delete | 2 |\n| tar_pack | 3 |\n";
        let names = names(page);
        let all = names.iter().cloned().collect();
        let table = witnessed_table(&names, &all, &[&seen], "");
        let rows = "| cargo_build | not run: needs program-cargo |\n| find_delete | the same |\n| tar_pack | not the same |\n";
        assert!(table.ends_with(rows), "{table}");
        // What was not asked keeps its row.
        let old = format!("{WORKLOADS_BEGIN}\n{table}\n{WORKLOADS_END}");
        let asked = ["find_delete".to_owned()].into();
        let later = witnessed_table(&names, &asked, &[&Seen::default()], &old);
        assert_eq!(later, table.replace("find_delete | the same", "find_delete | not the same"));
    }
}
