//! Evidence → the first screen of a report, as values that each form of it (Markdown, text, HTML) writes in its own way:
//! the verdict, and lists of what matters. Pure.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::basis::{Basis, short_digest};
use crate::evidence::lint::places;
use crate::evidence::retold::{BundleFacts, Part};
use crate::evidence::{EffectFacts, Evidence, Outcome, events};
use crate::observe::loss::{Completeness, Kind};
use crate::profile::effect::{Effect, EffectResult, FsEffect, FsOp, NetEffect};

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Piece {
    /// Words of ours.
    Words(Cow<'static, str>),
    /// A name that comes from the run or a bundle, and may be hostile.
    Name(String),
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Line(pub Vec<Piece>);

impl Line {
    /// One of these words.
    pub fn of(words: impl Into<Cow<'static, str>>) -> Self {
        Self::default().words(words)
    }

    /// With these words at its end.
    #[must_use]
    pub fn words(mut self, words: impl Into<Cow<'static, str>>) -> Self {
        self.0.push(Piece::Words(words.into()));
        self
    }

    /// With this name at its end.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.push(Piece::Name(name.into()));
        self
    }

    /// With another line at its end.
    #[must_use]
    pub fn line(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

/// What a list of the first screen is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Changes outside the work directory.
    Outside,
    /// Protected configuration.
    Protected,
    /// Where it connected.
    Network,
    /// What was denied, whoever denied it.
    Denied,
    /// Refusals for want of a capability.
    Withheld,
    /// Programs that gain rights.
    Gaining,
    /// What happened without authority.
    Unauthorised,
    /// What was asked and not kept.
    Degraded,
    /// Where the observation ended.
    Ended,
    /// What the record cannot vouch for.
    Gaps,
    /// What a bundle does not hold.
    Missing,
}

/// A list of the first screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// What it is about.
    pub topic: Topic,
    /// Its title.
    pub title: Line,
    /// What is in it.
    pub items: Vec<Line>,
    /// What stands there when nothing is in it; without, the section is left out then.
    pub none: Option<&'static str>,
}

/// The verdict in a sentence.
pub fn verdict(evidence: &Evidence) -> &'static str {
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

/// How the command ended, and after how long.
pub fn ended(evidence: &Evidence, basis: Basis<'_>) -> Line {
    let line = match &evidence.identity.outcome {
        Outcome::ExitCode(number) => Line::of(format!("The command exited with {number}")),
        Outcome::Signal(name) => Line::of("The command was ended by ").name(name.as_str()),
        Outcome::Timeout => Line::of("The command was ended because its time was up"),
    };
    if basis.has(Part::Duration) {
        line.words(format!(", after {}.", duration(evidence.observed.duration_ms)))
    } else {
        line.words(".")
    }
}

/// Which run it was, and how it was held.
pub fn held(evidence: &Evidence, basis: Basis<'_>) -> Line {
    let observed = &evidence.observed;
    let line = Line::of("Run ").name(basis.run_id(evidence));
    let line = if basis.has(Part::Mode) {
        line.words(", mode ").name(observed.mode.as_str())
    } else {
        line.words(", mode not told")
    };
    match (&observed.policy_digest, basis) {
        (Some(digest), _) => line.words(", policy ").name(short_digest(digest)).words("."),
        (None, Basis::Run | Basis::Known(_)) => line.words(", policy none."),
        (None, Basis::Bundle(_)) => line.words(", policy not told."),
    }
}

/// What became of processes that outlived the command, if some did.
pub fn outlived(evidence: &Evidence) -> Option<Line> {
    let word = evidence.observed.descendants.as_str();
    (word != "none" && !word.is_empty())
        .then(|| Line::of("Processes outlived the command: ").name(word).words("."))
}

/// Milliseconds, or seconds where that is enough.
pub fn duration(milliseconds: u64) -> String {
    if milliseconds < 10_000 { format!("{milliseconds} ms") } else { format!("{} s", milliseconds / 1000) }
}

/// The lists, in the order in which they matter.
pub fn sections(evidence: &Evidence, basis: Basis<'_>) -> Vec<Section> {
    let (identity, observed) = (&evidence.identity, &evidence.observed);
    let effects = || identity.effects.iter();
    let facts = || observed.effects.iter();
    let section =
        |topic, title: &'static str, items, none| Section { topic, title: Line::of(title), items, none };
    let denied = facts().filter(|(effect, _)| effect.result() == EffectResult::Denied);
    let denied = denied.map(|(effect, facts)| {
        let by = facts.denied_by.map(|by| format!(", by {by}")).unwrap_or_default();
        sentence(effect).words(by).line(actor(facts))
    });
    let unauthorised = facts()
        .filter(|(effect, facts)| effect.result() == EffectResult::Ok && facts.is_authorised == Some(false));
    let degradations = identity.degradations.iter().map(|one| {
        let line = Line::of(format!("{} ", one.component.as_str())).name(one.reason.as_str());
        match &one.detail {
            Some(detail) => line.words(": ").name(detail.as_str()),
            None => line,
        }
    });
    let connections = effects().filter_map(|effect| connection(effect, observed.effects.get(effect)));
    let gaining = Line::of("Programs that are setuid or setgid, which ")
        .name("no_new_privs")
        .words(" keeps from gaining rights under enforcement");
    vec![
        section(
            Topic::Outside,
            "Written outside the work directory",
            unique(effects().filter_map(written_outside)),
            Some("nothing"),
        ),
        section(
            Topic::Protected,
            "Protected configuration written",
            unique(effects().filter_map(touched_protected)),
            Some("none"),
        ),
        section(Topic::Network, "Network", connections.collect(), Some("no connection, no socket bound")),
        section(Topic::Denied, "Denied", denied.collect(), Some("nothing")),
        section(
            Topic::Withheld,
            "Denied for want of a capability that the launch drops",
            counted(evidence, crate::evidence::WITHHELD_COUNTER, |name| {
                Line::default()
                    .name(name)
                    .words(", which ")
                    .name(format!("--keep-caps {name}"))
                    .words(" would keep")
            }),
            None,
        ),
        Section {
            topic: Topic::Gaining,
            title: gaining,
            items: counted(evidence, crate::evidence::GAINING_COUNTER, |name| Line::default().name(name)),
            none: None,
        },
        section(
            Topic::Unauthorised,
            "Not authorised by the policy",
            unauthorised.map(|(effect, facts)| sentence(effect).line(actor(facts))).collect(),
            None,
        ),
        section(
            Topic::Degraded,
            "Asked of the sandbox and not kept",
            degradations.collect(),
            Some("nothing"),
        ),
        section(
            Topic::Ended,
            "Observation ended here: what these sockets were asked for happened outside the run",
            counted(evidence, crate::evidence::ENDED_COUNTER, |address| end(evidence, address)),
            None,
        ),
        section(
            Topic::Gaps,
            "What this record cannot vouch for",
            gaps(evidence),
            Some("nothing: files, programs and network are complete"),
        ),
        section(
            Topic::Missing,
            "What this bundle does not tell",
            basis.bundle().map(missing).unwrap_or_default(),
            None,
        ),
    ]
}

fn end(evidence: &Evidence, address: &str) -> Line {
    let mut line = Line::default().name(address);
    for (at, peer) in evidence.peers_at(address).enumerate() {
        line = line.words(if at == 0 { ", answered by " } else { ", " }).name(peer.to_string());
    }
    line
}

/// What is counted under names that begin so.
fn counted(evidence: &Evidence, beginning: &str, tell: impl Fn(&str) -> Line) -> Vec<Line> {
    let counters = evidence.observed.counters.iter();
    counters
        .filter_map(|(name, count)| Some((name.strip_prefix(beginning)?, *count)))
        // A bundle may not say how often.
        .map(|(name, count)| if count == 0 { tell(name) } else { tell(name).words(format!(" ({count})")) })
        .collect()
}

/// The end of a path that a change of the file tree has left, when it left the work directory and the private temporary
/// directory. Terminals and the null device are not worth the first screen.
pub fn outside_name(fs: &FsEffect) -> Option<&str> {
    if fs.result == EffectResult::Denied || is_reading(fs) {
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
    changed.into_iter().find(is_outside)
}

fn written_outside(effect: &Effect) -> Option<Line> {
    let Effect::Fs(fs) = effect else { return None };
    outside_name(fs).map(|path| Line::of(format!("{} ", fs.op.as_str())).name(path))
}

/// The protected name that a change of the file tree, done or denied, is about.
pub fn protected_name(fs: &FsEffect) -> Option<&str> {
    if is_reading(fs) {
        return None;
    }
    let names = std::iter::once(&fs.path).chain(fs.to.as_ref().filter(|_| fs.op != FsOp::Symlink));
    let mut names = names.map(crate::profile::name::Name::as_str);
    names.find(|name| places::PROTECTED.has(name.trim_end_matches('/')))
}

fn touched_protected(effect: &Effect) -> Option<Line> {
    let Effect::Fs(fs) = effect else { return None };
    let line = Line::of(format!("{} ", fs.op.as_str())).name(protected_name(fs)?);
    Some(if fs.result == EffectResult::Denied { line.words(" (denied)") } else { line })
}

/// Whether an effect only looked.
pub fn is_reading(fs: &FsEffect) -> bool {
    matches!(fs.op, FsOp::Read | FsOp::List)
}

fn unique(items: impl Iterator<Item = Line>) -> Vec<Line> {
    let mut seen = BTreeSet::new();
    items.filter(|item| seen.insert(item.clone())).collect()
}

/// An act that went through, with who was at the other end.
fn connection(effect: &Effect, facts: Option<&EffectFacts>) -> Option<Line> {
    let Effect::Net(net) = effect else { return None };
    if net.result != EffectResult::Ok {
        return None;
    }
    let mut line = network(net);
    for (at, peer) in facts.iter().flat_map(|facts| &facts.peers).enumerate() {
        line = line.words(if at == 0 { " (" } else { ", " }).name(peer.to_string());
    }
    Some(if facts.is_some_and(|facts| !facts.peers.is_empty()) { line.words(")") } else { line })
}

fn network(net: &NetEffect) -> Line {
    let line = Line::default().name(net.op.as_str()).words(" ").name(net.proto.as_str());
    line.words(" ").name(events::endpoint(net))
}

/// An effect in a few words.
pub fn sentence(effect: &Effect) -> Line {
    match effect {
        Effect::Fs(fs) => {
            let line = Line::of(format!("{} ", fs.op.as_str())).name(fs.path.as_str());
            match &fs.to {
                Some(to) => line.words(" → ").name(to.as_str()),
                None => line,
            }
        }
        Effect::Exec(exec) => Line::of("execute ").name(exec.path.as_str()),
        Effect::Net(net) => Line::of(format!("{} ", net.op.as_str()))
            .name(net.proto.as_str())
            .words(" ")
            .name(events::endpoint(net)),
    }
}

/// Who did it, and what the policy says to it.
fn actor(facts: &EffectFacts) -> Line {
    let line = match &facts.by {
        Some(by) => Line::of(": ").name(by.to_string()),
        None => Line::default(),
    };
    let Some(refused) = &facts.refused else { return line };
    let line = match (&refused.rule, &refused.at) {
        (Some(rule), Some(at)) => {
            line.words("; denied by ").name(rule.as_str()).words(" at ").name(at.as_str())
        }
        _ => line.words("; no rule allows it"),
    };
    line.words("; ").name(refused.remedy.as_str())
}

/// What a kind of the record is of.
pub fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Fs => "files",
        Kind::Exec => "programs",
        Kind::Net => "network",
    }
}

fn gaps(evidence: &Evidence) -> Vec<Line> {
    let ledger = &evidence.coverage.ledger;
    let mut items = Vec::new();
    for kind in Kind::ALL {
        let word = match ledger.completeness(kind) {
            Completeness::Complete => continue,
            Completeness::Partial => "is partial",
            Completeness::None => "was not observed",
        };
        let mut line = Line::of(format!("the record of {} {word}: ", kind_word(kind)));
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for gap in ledger.gaps.iter().filter(|gap| gap.kind == kind) {
            *reasons.entry(gap.reason.as_str()).or_default() += 1;
        }
        if reasons.is_empty() {
            line = line.words("records were lost");
        }
        for (at, (reason, count)) in reasons.into_iter().enumerate() {
            line = line.words(if at == 0 { "" } else { ", " }).name(reason);
            line = if count > 1 { line.words(format!(" ({count})")) } else { line };
        }
        items.push(line);
    }
    let lost = ledger.total_lost();
    if lost > 0 {
        items.push(Line::of(format!("{lost} records were lost")));
    }
    items
}

fn missing(facts: &BundleFacts) -> Vec<Line> {
    let mut items = Vec::new();
    if let Some(other) = &facts.other_run_id {
        items.push(Line::of("its events give another run id: ").name(other.as_str()));
    }
    let (count, first) = &facts.unread;
    for (sequence, why) in first {
        items.push(Line::of(format!("event {sequence} could not be told: ")).name(why.as_str()));
    }
    if *count > first.len() as u64 {
        items.push(Line::of(format!("{} more events could not be told", count - first.len() as u64)));
    }
    items.extend(facts.missing.iter().map(|part| Line::of(part.explain())));
    items
}

/// What is known of the bundle itself, by what it is called.
pub fn bundle_facts(basis: Basis<'_>) -> Vec<(String, String)> {
    let Some(facts) = basis.bundle() else { return Vec::new() };
    let (name, version) = &facts.producer;
    vec![
        ("run root".into(), facts.run_root.to_string()),
        ("producer".into(), format!("{name} {version}")),
        ("events".into(), facts.event_count.to_string()),
    ]
}
