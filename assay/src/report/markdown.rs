//! Evidence → `run.report.md`: for a person, the first screen first. Pure.
//!
//! Names come from the run and may be hostile: each stands in a code span that it cannot leave, and none can end a
//! line, a table row or a block. Of a bundle, what it does not hold is said to be missing.

mod network;

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::basis::{Basis, short_digest};
use super::diff::code;
use super::first_screen::{self, Line, Piece, Section, is_reading};
use super::forest::{Forest, ended};
use crate::evidence::retold::Part;
use crate::evidence::{Evidence, ProcessFacts};
use crate::profile::effect::{Effect, FsEffect};

/// The most entries of a list on the first screen.
const FIRST: usize = 10;
/// The most rows of a table; the evidence has them all.
const ROWS: usize = 200;
/// The most processes of the tree.
const PROCESSES: usize = 300;

/// Writes the report.
pub fn write(out: &mut dyn Write, evidence: &Evidence, basis: Basis<'_>) -> io::Result<()> {
    first_screen(out, evidence, basis)?;
    programs(out, evidence)?;
    files(out, evidence)?;
    network::network(out, evidence)?;
    if basis.has(Part::Processes) {
        processes(out, &evidence.observed.processes)?;
    } else {
        writeln!(out, "\n## Processes\n\nA bundle does not tell them.")?;
    }
    network::traffic(out, evidence)?;
    about(out, evidence, basis)
}

fn first_screen(out: &mut dyn Write, evidence: &Evidence, basis: Basis<'_>) -> io::Result<()> {
    writeln!(out, "# Run report\n")?;
    writeln!(out, "{}\n", code(&shortened(&evidence.identity.command.join(" "), 400)))?;
    let ended = first_screen::ended(evidence, basis);
    writeln!(out, "**{}** {}", first_screen::verdict(evidence), text(&ended))?;
    writeln!(out, "{}", text(&first_screen::held(evidence, basis)))?;
    if let Some(outlived) = first_screen::outlived(evidence) {
        writeln!(out, "{}", text(&outlived))?;
    }
    for section in first_screen::sections(evidence, basis) {
        list(out, &section)?;
    }
    Ok(())
}

/// A line of the first screen: its names stand in code spans.
fn text(line: &Line) -> String {
    let pieces = line.0.iter().map(|piece| match piece {
        Piece::Words(words) => words.to_string(),
        Piece::Name(name) => code(name),
    });
    pieces.collect()
}

fn list(out: &mut dyn Write, section: &Section) -> io::Result<()> {
    let (title, items) = (text(&section.title), &section.items);
    if items.is_empty() {
        return match section.none {
            Some(none) => writeln!(out, "\n**{title}:** {none}."),
            None => Ok(()),
        };
    }
    writeln!(out, "\n**{title}:**\n")?;
    for item in items.iter().take(FIRST) {
        writeln!(out, "- {}", text(item))?;
    }
    if items.len() > FIRST {
        writeln!(out, "- and {} more", items.len() - FIRST)?;
    }
    Ok(())
}

/// A table; what does not fit is counted, and not made.
fn table(
    out: &mut dyn Write,
    head: &[&str],
    rows: impl ExactSizeIterator<Item = Vec<String>>,
) -> io::Result<()> {
    let count = rows.len();
    writeln!(out, "| {} |", head.join(" | "))?;
    writeln!(out, "|{}", " --- |".repeat(head.len()))?;
    for row in rows.take(ROWS) {
        writeln!(out, "| {} |", row.join(" | "))?;
    }
    if count > ROWS {
        writeln!(out, "\n{} more are in the evidence.", count - ROWS)?;
    }
    Ok(())
}

/// A code span for a table: a bar in it would end the cell.
fn cell(text: &str) -> String {
    code(&shortened(text, 1000)).replace('|', "\\|")
}

/// How often; a bundle may not say it.
fn times(hits: u64) -> String {
    if hits == 0 { String::new() } else { hits.to_string() }
}

/// Names of 4095 bytes would push everything else off the page; the evidence has them whole.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most).collect();
    format!("{kept}…")
}

fn programs(out: &mut dyn Write, evidence: &Evidence) -> io::Result<()> {
    writeln!(out, "\n## Programs\n")?;
    let rows: Vec<Vec<String>> = evidence
        .observed
        .effects
        .iter()
        .filter_map(|(effect, facts)| match effect {
            Effect::Exec(exec) => {
                let digest = match evidence.observed.programs.get(exec.path.as_str()) {
                    Some(Ok(digest)) => code(&short_digest(digest)),
                    Some(Err(reason)) => cell(reason),
                    None => String::new(),
                };
                Some(vec![cell(exec.path.as_str()), exec.result.as_str().into(), times(facts.hits), digest])
            }
            _ => None,
        })
        .collect();
    if rows.is_empty() {
        return writeln!(out, "None was seen to start.");
    }
    table(out, &["program", "result", "starts", "digest"], rows.into_iter())
}

/// A place that was read, and the result.
type Read<'a> = (&'a str, &'a str);

fn files(out: &mut dyn Write, evidence: &Evidence) -> io::Result<()> {
    writeln!(out, "\n## Files\n")?;
    let facts = &evidence.observed.effects;
    let mut changed = Vec::new();
    let mut read: BTreeMap<Read, (usize, u64)> = BTreeMap::new();
    // What lies together comes together, and is added up before its place is looked for.
    let mut near: Option<(Read, (usize, u64))> = None;
    for (effect, facts) in facts {
        let Effect::Fs(fs) = effect else { continue };
        if !is_reading(fs) {
            changed.push((fs, facts.hits));
            continue;
        }
        let place = (reading_place(fs.path.as_str()), fs.result.as_str());
        match &mut near {
            Some((known, sums)) if *known == place => add(sums, (1, facts.hits)),
            _ => {
                if let Some((place, sums)) = near.replace((place, (1, facts.hits))) {
                    add(read.entry(place).or_default(), sums);
                }
            }
        }
    }
    if let Some((place, sums)) = near {
        add(read.entry(place).or_default(), sums);
    }
    writeln!(out, "### Changed\n")?;
    if changed.is_empty() {
        writeln!(out, "Nothing.")?;
    } else {
        let row = |(fs, hits): &(&FsEffect, u64)| {
            let to = fs.to.as_ref().map(|to| cell(to.as_str())).unwrap_or_default();
            let what = fs.op.as_str().to_owned();
            vec![what, cell(fs.path.as_str()), to, fs.result.as_str().to_owned(), times(*hits)]
        };
        table(out, &["what", "name", "to", "result", "times"], changed.iter().map(row))?;
    }
    writeln!(out, "\n### Read and listed\n")?;
    if read.is_empty() {
        return writeln!(out, "Nothing.");
    }
    let rows = read.into_iter().map(|((place, result), (names, hits))| {
        vec![cell(place), names.to_string(), result.to_owned(), times(hits)]
    });
    table(out, &["where", "names", "result", "times"], rows)
}

fn add(sums: &mut (usize, u64), more: (usize, u64)) {
    sums.0 += more.0;
    sums.1 += more.1;
}

/// Reads are told by system directory, or by the directory they are in.
fn reading_place(path: &str) -> &str {
    for system in ["/usr/lib", "/usr/share", "/usr/include", "/usr", "/lib", "/opt", "/proc", "/sys"] {
        if path.strip_prefix(system).is_some_and(|rest| rest.starts_with('/')) {
            return system;
        }
    }
    match path.rfind('/') {
        Some(0) | None => path,
        Some(slash) => &path[..slash],
    }
}

fn processes(out: &mut dyn Write, processes: &[ProcessFacts]) -> io::Result<()> {
    writeln!(out, "\n## Processes\n")?;
    if processes.is_empty() {
        return writeln!(out, "None was seen.");
    }
    let Forest { roots, children } = Forest::of(processes);
    let mut stack: Vec<(usize, usize)> = roots.into_iter().rev().map(|at| (at, 0)).collect();
    let mut told = 0;
    while let Some((at, depth)) = stack.pop() {
        if told == PROCESSES {
            writeln!(out, "\n{} more are in the evidence.", processes.len() - told)?;
            break;
        }
        told += 1;
        let process = &processes[at];
        // Markdown takes four blanks more than the list allows for a block of code: depth is capped.
        write!(out, "{}- ", "  ".repeat(depth.min(12)))?;
        let programs: Vec<String> =
            process.programs.iter().map(|argv| code(&shortened(&argv.join(" "), 200))).collect();
        let programs =
            if programs.is_empty() { "(no program of its own)".to_owned() } else { programs.join(" then ") };
        writeln!(out, "{programs}{}", ended(process.status))?;
        for &child in children.get(&at).into_iter().flatten().rev() {
            stack.push((child, depth + 1));
        }
    }
    Ok(())
}

fn about(out: &mut dyn Write, evidence: &Evidence, basis: Basis<'_>) -> io::Result<()> {
    let observed = &evidence.observed;
    writeln!(out, "\n## About this record\n")?;
    let mut facts = first_screen::bundle_facts(basis);
    if basis.has(Part::Duration) {
        facts.push(("started".into(), observed.started_at.clone()));
    }
    facts.extend(observed.roots.iter().map(|(name, path)| (name.clone(), path.clone())));
    facts.extend(observed.host.iter().map(|(name, text)| (name.clone(), text.clone())));
    facts.extend(observed.versions.iter().map(|(name, text)| (name.clone(), text.clone())));
    facts.extend(observed.counters.iter().map(|(name, count)| (name.clone(), count.to_string())));
    table(out, &["what", "value"], facts.iter().map(|(name, text)| vec![cell(name), cell(text)]))?;
    let mut folds: BTreeMap<&str, usize> = BTreeMap::new();
    for fold in &observed.folded {
        *folds.entry(fold.rule.as_ref()).or_default() += 1;
    }
    if !folds.is_empty() {
        let folds: Vec<String> =
            folds.into_iter().map(|(rule, count)| format!("{} {count}", code(rule))).collect();
        writeln!(out, "\nNames folded, by rule: {}.", folds.join(", "))?;
    }
    if !observed.env_removed.is_empty() {
        let names: Vec<String> = observed.env_removed.iter().map(|name| code(name)).collect();
        writeln!(out, "\nRemoved from the environment: {}.", names.join(", "))?;
    }
    if !observed.not_governed.is_empty() {
        let names: Vec<String> = observed.not_governed.iter().map(|name| code(name)).collect();
        writeln!(out, "\nNot governed here: {}.", names.join(", "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
