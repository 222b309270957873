//! Evidence → `run.report.md`: for a person, the first screen first. Pure.
//!
//! Names come from the run and may be hostile: each stands in a code span that it cannot leave, and none can end a
//! line, a table row or a block.

mod network;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::diff::code;
use crate::canon::digest::Digest;
use crate::evidence::lint::places;
use crate::evidence::{EffectFacts, Evidence, Outcome, ProcessFacts, events, identity};
use crate::observe::loss::{Completeness, Kind};
use crate::profile::effect::{Effect, EffectResult, FsEffect, FsOp};

/// The most entries of a list on the first screen.
const FIRST: usize = 10;
/// The most rows of a table; the evidence has them all.
const ROWS: usize = 200;
/// The most processes of the tree.
const PROCESSES: usize = 300;

/// Writes the report.
pub fn write(out: &mut dyn Write, evidence: &Evidence) -> io::Result<()> {
    first_screen(out, evidence)?;
    programs(out, evidence)?;
    files(out, evidence)?;
    network::network(out, evidence)?;
    processes(out, &evidence.observed.processes)?;
    network::traffic(out, evidence)?;
    about(out, evidence)
}

fn first_screen(out: &mut dyn Write, evidence: &Evidence) -> io::Result<()> {
    let (identity, observed) = (&evidence.identity, &evidence.observed);
    let run_id = identity::run_id(&identity::digest(identity));
    writeln!(out, "# Run report\n")?;
    writeln!(out, "{}\n", code(&shortened(&identity.command.join(" "), 400)))?;
    writeln!(
        out,
        "**{}** The command {}, after {}.",
        verdict(evidence),
        outcome(&identity.outcome),
        duration(observed.duration_ms)
    )?;
    writeln!(out, "Run {}, mode {}, policy {}.", code(&run_id), code(&observed.mode), policy(evidence))?;
    if observed.descendants != "none" && !observed.descendants.is_empty() {
        writeln!(out, "Processes outlived the command: {}.", code(&observed.descendants))?;
    }

    let effects = || identity.effects.iter();
    let outside: Vec<String> = effects().filter_map(written_outside).collect();
    list(out, "Written outside the work directory", &unique(outside), "nothing")?;
    let protected: Vec<String> = effects().filter_map(touched_protected).collect();
    list(out, "Protected configuration written", &unique(protected), "none")?;
    let connections: Vec<String> =
        effects().filter_map(|effect| network::connection(effect, observed.effects.get(effect))).collect();
    list(out, "Network", &connections, "no connection, no socket bound")?;
    let denied: Vec<String> = observed
        .effects
        .iter()
        .filter(|(effect, _)| effect.result() == EffectResult::Denied)
        .map(|(effect, facts)| {
            let by = facts.denied_by.map(|by| format!(", by {by}")).unwrap_or_default();
            format!("{}{by}{}", sentence(effect), actor(facts))
        })
        .collect();
    list(out, "Denied", &denied, "nothing")?;
    let withheld = counted(evidence, crate::evidence::WITHHELD_COUNTER, |name| {
        format!("{}, which {} would keep", code(name), code(&format!("--keep-caps {name}")))
    });
    if !withheld.is_empty() {
        list(out, "Denied for want of a capability that the launch drops", &withheld, "")?;
    }
    let gaining = counted(evidence, crate::evidence::GAINING_COUNTER, code);
    if !gaining.is_empty() {
        list(
            out,
            "Programs that are setuid or setgid, which `no_new_privs` keeps from gaining rights under enforcement",
            &gaining,
            "",
        )?;
    }
    let unauthorised: Vec<String> = observed
        .effects
        .iter()
        .filter(|(effect, facts)| effect.result() == EffectResult::Ok && facts.is_authorised == Some(false))
        .map(|(effect, facts)| format!("{}{}", sentence(effect), actor(facts)))
        .collect();
    if !unauthorised.is_empty() {
        list(out, "Not authorised by the policy", &unauthorised, "")?;
    }
    let degradations: Vec<String> = identity
        .degradations
        .iter()
        .map(|one| {
            let detail =
                one.detail.as_deref().map(|detail| format!(": {}", code(detail))).unwrap_or_default();
            format!("{} {}{detail}", one.component.as_str(), code(&one.reason))
        })
        .collect();
    list(out, "Asked of the sandbox and not kept", &degradations, "nothing")?;
    let ends = counted(evidence, crate::evidence::ENDED_COUNTER, |address| {
        let peers = evidence.peers_at(address).map(|peer| code(&peer.to_string())).collect::<Vec<_>>();
        if peers.is_empty() {
            code(address)
        } else {
            format!("{}, answered by {}", code(address), peers.join(", "))
        }
    });
    if !ends.is_empty() {
        list(
            out,
            "Observation ended here: what these sockets were asked for happened outside the run",
            &ends,
            "",
        )?;
    }
    list(
        out,
        "What this record cannot vouch for",
        &gaps(evidence),
        "nothing: files, programs and network are complete",
    )
}

/// What is counted under names that begin so.
fn counted(evidence: &Evidence, beginning: &str, tell: impl Fn(&str) -> String) -> Vec<String> {
    let counters = evidence.observed.counters.iter();
    counters
        .filter_map(|(name, count)| Some((name.strip_prefix(beginning)?, count)))
        .map(|(name, count)| format!("{} ({count})", tell(name)))
        .collect()
}

fn verdict(evidence: &Evidence) -> &'static str {
    match evidence.observed.verdict.as_str() {
        "ok" => "Nothing was denied and nothing was unauthorised.",
        "denied" => "The policy stopped something.",
        "unauthorised" => "Something happened that the policy does not authorise.",
        "incomplete" => "The record is not whole.",
        "refused" => "The run was refused.",
        "failed" => "The run failed for a reason of ours.",
        _ => "No verdict.",
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::ExitCode(number) => format!("exited with {number}"),
        Outcome::Signal(name) => format!("was ended by {}", code(name)),
        Outcome::Timeout => "was ended because its time was up".into(),
    }
}

fn duration(milliseconds: u64) -> String {
    if milliseconds < 10_000 { format!("{milliseconds} ms") } else { format!("{} s", milliseconds / 1000) }
}

fn policy(evidence: &Evidence) -> String {
    evidence.observed.policy_digest.as_ref().map_or("none".into(), |digest| code(&short_digest(digest)))
}

fn short_digest(digest: &Digest) -> String {
    format!("sha256:{}", &digest.hex()[..16])
}

/// Writes that left the work directory and the private temporary directory. Terminals and the null device are not
/// worth the first screen.
fn written_outside(effect: &Effect) -> Option<String> {
    let Effect::Fs(fs) = effect else { return None };
    if fs.result == EffectResult::Denied || matches!(fs.op, FsOp::Read | FsOp::List) {
        return None;
    }
    let changed = match (fs.op, &fs.to) {
        (FsOp::Rename | FsOp::Link, Some(to)) => vec![fs.path.as_str(), to.as_str()],
        _ => vec![fs.path.as_str()],
    };
    let is_outside = |path: &&str| {
        let is_inside = ["${WORKDIR}", "${TMPDIR}"]
            .iter()
            .any(|root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
        let is_harmless = matches!(*path, "/dev/null" | "/dev/tty" | "/dev/pts/${PTS}" | "/dev/ptmx")
            || !path.starts_with(['/', '$']);
        !is_inside && !is_harmless
    };
    changed.into_iter().find(is_outside).map(|path| format!("{} {}", fs.op.as_str(), code(path)))
}

fn touched_protected(effect: &Effect) -> Option<String> {
    let Effect::Fs(fs) = effect else { return None };
    if matches!(fs.op, FsOp::Read | FsOp::List) {
        return None;
    }
    let names = std::iter::once(&fs.path).chain(fs.to.as_ref().filter(|_| fs.op != FsOp::Symlink));
    let name = names.into_iter().find(|name| places::PROTECTED.has(name.as_str().trim_end_matches('/')))?;
    let denied = if fs.result == EffectResult::Denied { " (denied)" } else { "" };
    Some(format!("{} {}{denied}", fs.op.as_str(), code(name.as_str())))
}

fn unique(items: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    items.into_iter().filter(|item| seen.insert(item.clone())).collect()
}

fn list(out: &mut dyn Write, title: &str, items: &[String], none: &str) -> io::Result<()> {
    if items.is_empty() {
        return writeln!(out, "\n**{title}:** {none}.");
    }
    writeln!(out, "\n**{title}:**\n")?;
    for item in items.iter().take(FIRST) {
        writeln!(out, "- {item}")?;
    }
    if items.len() > FIRST {
        writeln!(out, "- and {} more", items.len() - FIRST)?;
    }
    Ok(())
}

fn sentence(effect: &Effect) -> String {
    match effect {
        Effect::Fs(fs) => {
            let to = fs.to.as_ref().map(|to| format!(" → {}", code(to.as_str()))).unwrap_or_default();
            format!("{} {}{to}", fs.op.as_str(), code(fs.path.as_str()))
        }
        Effect::Exec(exec) => format!("execute {}", code(exec.path.as_str())),
        Effect::Net(net) => {
            format!("{} {} {}", net.op.as_str(), code(&net.proto), code(&events::endpoint(net)))
        }
    }
}

/// Who did it, and what the policy says to it.
fn actor(facts: &EffectFacts) -> String {
    let by = facts.by.as_ref().map(|by| format!(": {}", code(&by.to_string()))).unwrap_or_default();
    let Some(refused) = &facts.refused else { return by };
    let why = match (&refused.rule, &refused.at) {
        (Some(rule), Some(at)) => format!("denied by {} at {}", code(rule), code(at)),
        _ => "no rule allows it".into(),
    };
    format!("{by}; {why}; {}", code(&refused.remedy))
}

fn gaps(evidence: &Evidence) -> Vec<String> {
    let ledger = &evidence.coverage.ledger;
    let mut items = Vec::new();
    for kind in Kind::ALL {
        let word = match ledger.completeness(kind) {
            Completeness::Complete => continue,
            Completeness::Partial => "is partial",
            Completeness::None => "was not observed",
        };
        let name = match kind {
            Kind::Fs => "files",
            Kind::Exec => "programs",
            Kind::Net => "network",
        };
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for gap in ledger.gaps.iter().filter(|gap| gap.kind == kind) {
            *reasons.entry(gap.reason.as_str()).or_default() += 1;
        }
        let reasons: Vec<String> = reasons
            .into_iter()
            .map(
                |(reason, count)| {
                    if count > 1 { format!("{} ({count})", code(reason)) } else { code(reason) }
                },
            )
            .collect();
        items.push(format!(
            "the record of {name} {word}: {}",
            if reasons.is_empty() { "records were lost".into() } else { reasons.join(", ") }
        ));
    }
    let lost = ledger.total_lost();
    if lost > 0 {
        items.push(format!("{lost} records were lost"));
    }
    items
}

/// A table; what does not fit is counted.
fn table(out: &mut dyn Write, head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    writeln!(out, "| {} |", head.join(" | "))?;
    writeln!(out, "|{}", " --- |".repeat(head.len()))?;
    for row in rows.iter().take(ROWS) {
        writeln!(out, "| {} |", row.join(" | "))?;
    }
    if rows.len() > ROWS {
        writeln!(out, "\n{} more are in the evidence.", rows.len() - ROWS)?;
    }
    Ok(())
}

/// A code span for a table: a bar in it would end the cell.
fn cell(text: &str) -> String {
    code(&shortened(text, 1000)).replace('|', "\\|")
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
                Some(vec![
                    cell(exec.path.as_str()),
                    exec.result.as_str().into(),
                    facts.hits.to_string(),
                    digest,
                ])
            }
            _ => None,
        })
        .collect();
    if rows.is_empty() {
        return writeln!(out, "None was seen to start.");
    }
    table(out, &["program", "result", "starts", "digest"], &rows)
}

fn files(out: &mut dyn Write, evidence: &Evidence) -> io::Result<()> {
    writeln!(out, "\n## Files\n")?;
    let facts = &evidence.observed.effects;
    let is_reading = |fs: &FsEffect| matches!(fs.op, FsOp::Read | FsOp::List);
    let mut changed = Vec::new();
    let mut read: BTreeMap<(String, &str), (usize, u64)> = BTreeMap::new();
    for (effect, facts) in facts {
        let Effect::Fs(fs) = effect else { continue };
        if is_reading(fs) {
            let place = read.entry((reading_place(fs.path.as_str()), fs.result.as_str())).or_default();
            place.0 += 1;
            place.1 += facts.hits;
        } else {
            let to = fs.to.as_ref().map(|to| cell(to.as_str())).unwrap_or_default();
            changed.push(vec![
                fs.op.as_str().to_owned(),
                cell(fs.path.as_str()),
                to,
                fs.result.as_str().to_owned(),
                facts.hits.to_string(),
            ]);
        }
    }
    writeln!(out, "### Changed\n")?;
    if changed.is_empty() {
        writeln!(out, "Nothing.")?;
    } else {
        table(out, &["what", "name", "to", "result", "times"], &changed)?;
    }
    writeln!(out, "\n### Read and listed\n")?;
    if read.is_empty() {
        return writeln!(out, "Nothing.");
    }
    let rows: Vec<Vec<String>> = read
        .into_iter()
        .map(|((place, result), (names, hits))| {
            vec![cell(&place), names.to_string(), result.to_owned(), hits.to_string()]
        })
        .collect();
    table(out, &["where", "names", "result", "times"], &rows)
}

/// Reads are told by system directory, or by the directory they are in.
fn reading_place(path: &str) -> String {
    for system in ["/usr/lib", "/usr/share", "/usr/include", "/usr", "/lib", "/opt", "/proc", "/sys"] {
        if path.strip_prefix(system).is_some_and(|rest| rest.starts_with('/')) {
            return system.to_owned();
        }
    }
    match path.rfind('/') {
        Some(0) | None => path.to_owned(),
        Some(slash) => path[..slash].to_owned(),
    }
}

fn processes(out: &mut dyn Write, processes: &[ProcessFacts]) -> io::Result<()> {
    writeln!(out, "\n## Processes\n")?;
    if processes.is_empty() {
        return writeln!(out, "None was seen.");
    }
    let mut children: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut latest: BTreeMap<u32, usize> = BTreeMap::new();
    let mut roots = Vec::new();
    for (at, process) in processes.iter().enumerate() {
        // Ids come back: the parent is the latest process of that id born before.
        match latest.get(&process.ppid) {
            Some(&parent) if process.ppid != 0 => children.entry(parent).or_default().push(at),
            _ => roots.push(at),
        }
        latest.insert(process.pid, at);
    }
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

/// The end of a process, where it was not an ordinary one.
fn ended(status: Option<i32>) -> String {
    match status {
        Some(0) | None => String::new(),
        Some(status) if status.trailing_zeros() >= 7 => format!(" — exit {}", (status >> 8) & 0xff),
        Some(status) => format!(" — signal {}", status & 0x7f),
    }
}

fn about(out: &mut dyn Write, evidence: &Evidence) -> io::Result<()> {
    let observed = &evidence.observed;
    writeln!(out, "\n## About this record\n")?;
    let mut facts: Vec<(String, String)> = vec![("started".into(), observed.started_at.clone())];
    facts.extend(observed.roots.iter().map(|(name, path)| (name.clone(), path.clone())));
    facts.extend(observed.host.iter().map(|(name, text)| (name.clone(), text.clone())));
    facts.extend(observed.versions.iter().map(|(name, text)| (name.clone(), text.clone())));
    facts.extend(observed.counters.iter().map(|(name, count)| (name.clone(), count.to_string())));
    let rows: Vec<Vec<String>> = facts.iter().map(|(name, text)| vec![cell(name), cell(text)]).collect();
    table(out, &["what", "value"], &rows)?;
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
