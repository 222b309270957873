//! The table of `docs/kernel-support.md`: what the machines told → rows; nothing else is in it.

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

/// The table.
pub fn table(all: &[(&Variant, Seen)]) -> String {
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

/// The page with this table in its place.
fn with(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

fn updated(table: &str) -> Result<(String, String)> {
    let page = fs::read_to_string(root().join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let new = with(&page, table).with_context(|| format!("find the place of the table in {PAGE}"))?;
    Ok((page, new))
}

/// Writes it.
pub fn write(table: &str) -> Result<()> {
    let (_, new) = updated(table)?;
    fs::write(root().join(PAGE), new).with_context(|| format!("write {PAGE}"))
}

/// Fails where the page says another thing than was seen.
pub fn compare(table: &str) -> Result<()> {
    let (page, new) = updated(table)?;
    if page != new {
        bail!("{PAGE} is not what was seen; `cargo xtask vm --table` writes it:\n{table}");
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
}
