//! The events of a verified bundle → [`Evidence`] again, as far as a bundle holds it, and what it does not hold. Pure.
//!
//! Nothing is made up: a part that no event tells is named as missing, and an event that cannot be read makes the coverage
//! of its kind partial. What is told counts only once the whole bundle was found good.

use std::collections::{BTreeMap, BTreeSet};

use crate::canon::digest::Digest;
use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::evidence::events::kind;
use crate::evidence::verify::{Event, Verified};
use crate::evidence::view::{self, Content, View};
use crate::evidence::{
    CANONICALIZER, Coverage, Degradation, EffectFacts, Evidence, Identity, Observed, Outcome, identity,
    shapes,
};
use crate::observe::loss::{Gap, Kind};
use crate::profile::effect::{Effect, EffectResult, NetEffectOp};

/// A part of a run's evidence that its bundle may not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// When the run began and how long it took.
    Duration,
    /// How the run was held.
    Mode,
    /// How often each effect was seen.
    Hits,
    /// The process tree, and when each process began and ended.
    Processes,
    /// Who did what was denied, and which rule denies it.
    Actors,
    /// Connections, failures and bytes by endpoint.
    Traffic,
    /// Who answered at UNIX sockets.
    Peers,
    /// What the observer counted, and what was refused for want of a capability.
    Counters,
    /// What the variables of names stood for, which names were folded, what was removed from the environment.
    Places,
}

impl Part {
    /// What is not there, for a person.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Duration => "when the run began and how long it took",
            Self::Mode => "how the run was held to its policy",
            Self::Hits => "how often each effect was seen",
            Self::Processes => "the process tree, and when each process began and ended",
            Self::Actors => "which process did what was denied, and by which rule it was",
            Self::Traffic => {
                "how many connections each end had, how many failed, and how many bytes went there"
            }
            Self::Peers => "who answered at UNIX sockets",
            Self::Counters => "what the observer counted, and what a dropped capability stopped",
            Self::Places => {
                "which directories the variables in names stand for, and what was removed from the environment"
            }
        }
    }

    /// What no bundle of this format holds.
    const NEVER: [Self; 5] = [Self::Processes, Self::Actors, Self::Traffic, Self::Counters, Self::Places];
}

/// What is known of the bundle itself, beside the evidence in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleFacts {
    /// The run id that the bundle has.
    pub run_id: String,
    /// The run id that its events give, where that is another one.
    pub other_run_id: Option<String>,
    /// The run root.
    pub run_root: Digest,
    /// Who wrote it, and in which version.
    pub producer: (String, String),
    /// How many events it has.
    pub event_count: u64,
    /// What of a run's evidence it does not hold.
    pub missing: BTreeSet<Part>,
    /// How many events are not told, and of the first of them the place and why.
    pub unread: (u64, Vec<(u64, String)>),
}

/// So many events that are not told are named.
const MOST_UNREAD: usize = 20;

/// Why a bundle, good as it is, holds no record of a run that could be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetoldError {
    /// No event says what was run.
    #[error("it does not say what was run: no {} with a command", kind::STARTED)]
    Command,
    /// No event says how the command ended.
    #[error("it does not say how the command ended: no {} with an outcome", kind::SUMMARY)]
    Outcome,
}

/// Gathers the evidence while the bundle is read.
#[derive(Debug, Default)]
pub struct Retelling {
    command: Option<Vec<String>>,
    outcome: Option<Outcome>,
    effects: BTreeMap<Effect, EffectFacts>,
    degradations: Vec<Degradation>,
    observed: Observed,
    coverage: Coverage,
    summary: Option<Object>,
    /// Parts that were found missing so far.
    missing: BTreeSet<Part>,
    /// Whether the canonicaliser of the bundle is the one of this program.
    is_ours: bool,
    counts: BTreeMap<&'static str, u64>,
    unread: (u64, Vec<(u64, String)>),
}

impl Retelling {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { missing: Part::NEVER.into(), ..Self::default() }
    }

    /// Takes one event in.
    pub fn add(&mut self, event: &Event) {
        let view = View::new(event);
        match view.content {
            Content::Started => self.add_start(event),
            Content::Fs { .. } => self.add_effect(&view, Kind::Fs),
            Content::Exec { .. } => self.add_effect(&view, Kind::Exec),
            Content::Net { .. } => self.add_effect(&view, Kind::Net),
            Content::Degraded { .. } => match view::strict_degradation(event) {
                Ok(degradation) => {
                    self.degradations.push(degradation);
                    *self.counts.entry("degradations").or_default() += 1;
                }
                Err(error) => self.pass_over(event, error.problem, &Kind::ALL),
            },
            Content::Summary => {
                self.outcome = self.outcome.take().or_else(|| view::outcome(event));
                if self.summary.is_none() {
                    self.summary = Some(event.object.clone());
                } else {
                    self.pass_over(event, "a second summary".into(), &Kind::ALL);
                }
            }
            Content::Finished => self.outcome = self.outcome.take().or_else(|| view::outcome(event)),
            // What it tells of may be of any kind.
            Content::Unknown => self.pass_over(event, format!("type {}", event.kind()), &Kind::ALL),
        }
    }

    fn add_start(&mut self, event: &Event) {
        let Some(words) = view::command(event).filter(|_| self.command.is_none()) else {
            return self.pass_over(event, "a start without a command, or a second one".into(), &Kind::ALL);
        };
        self.command = Some(words.into_iter().map(str::to_owned).collect());
        self.is_ours = event.data().and_then(|data| data.str("canonicalizer")) == Some(CANONICALIZER);
        let observed = &mut self.observed;
        let text = |key: &str| event.object.str(key).map(str::to_owned);
        match text("assaymode") {
            Some(mode) => observed.mode = mode,
            None => drop(self.missing.insert(Part::Mode)),
        }
        observed.policy_digest = text("assaypolicydigest").and_then(|digest| digest.parse().ok());
        for (extension, key) in [("assaykernel", "kernel"), ("assayarch", "arch")] {
            observed.host.extend(text(extension).map(|fact| (key.to_owned(), fact)));
        }
        let versions =
            [("assayproducerversion", "assay"), ("assaygit", "git"), ("assayobserver", "observer_object")];
        for (extension, key) in versions {
            observed.versions.extend(text(extension).map(|fact| (key.to_owned(), fact)));
        }
    }

    fn add_effect(&mut self, view: &View<'_>, of: Kind) {
        let event = view.event;
        let effect = match view.strict_effect() {
            Ok(Some(effect)) => effect.clone(),
            Ok(None) => return,
            Err(error) => {
                let problem = error.problem.clone();
                return self.pass_over(event, problem, &[of]);
            }
        };
        *self.counts.entry(of.as_str()).or_default() += 1;
        let denied_by =
            view.denied_by().and_then(|word| shapes::DENIERS.into_iter().find(|known| *known == word));
        let hits = event.object.get("assayhits").and_then(Value::as_count);
        self.missing.extend(hits.is_none().then_some(Part::Hits));
        if let (Effect::Exec(exec), Some(data)) = (&effect, event.data()) {
            let digest = data.str("sha256").and_then(|text| text.parse().ok()).map(Ok);
            let why = || event.object.str("assaydigesterror").map(|why| Err(why.to_owned()));
            if let Some(told) = digest.or_else(why) {
                self.observed.programs.insert(exec.path.as_str().to_owned(), told);
            }
        }
        let facts = EffectFacts {
            hits: hits.unwrap_or(0),
            denied_by,
            is_authorised: event.object.get("assayauthorised").and_then(Value::as_bool),
            addresses: view.addresses(),
            asked: view.asked().map(str::to_owned).collect(),
            peers: view.peers().into_iter().collect(),
            ..EffectFacts::default()
        };
        self.missing.extend((is_answered(&effect) && facts.peers.is_empty()).then_some(Part::Peers));
        if self.effects.insert(effect, facts).is_some() {
            self.pass_over(event, "it tells an effect a second time".into(), &[of]);
        }
    }

    /// Counts an event that is not told, and takes the claim back that all of these kinds is there.
    fn pass_over(&mut self, event: &Event, why: String, kinds: &[Kind]) {
        self.unread.0 += 1;
        if self.unread.1.len() < MOST_UNREAD {
            self.unread.1.push((event.sequence, why));
        }
        for kind in kinds {
            self.coverage.ledger.admit(*kind, "events-not-read", "");
        }
    }

    /// The evidence, once the bundle was found good.
    pub fn finish(mut self, verified: &Verified) -> Result<(Evidence, BundleFacts), RetoldError> {
        let command = self.command.take().ok_or(RetoldError::Command)?;
        let outcome = self.outcome.take().ok_or(RetoldError::Outcome)?;
        self.read_summary();
        self.degradations.sort();
        self.degradations.dedup();
        let identity = Identity {
            command,
            effects: self.effects.keys().cloned().collect(),
            outcome,
            degradations: self.degradations,
        };
        let observed = Observed { effects: self.effects, ..self.observed };
        let mut evidence = Evidence { identity, observed, coverage: self.coverage };
        evidence.count_ends();
        let manifest = &verified.manifest;
        let computed = identity::run_id(&identity::digest(&evidence.identity));
        let is_whole = self.is_ours && self.unread.0 == 0;
        let facts = BundleFacts {
            run_id: manifest.run_id.clone(),
            other_run_id: Some(computed).filter(|computed| is_whole && *computed != manifest.run_id),
            run_root: manifest.run_root,
            producer: (manifest.producer.clone(), manifest.producer_version.clone()),
            event_count: manifest.event_count,
            missing: self.missing,
            unread: self.unread,
        };
        Ok((evidence, facts))
    }

    /// Takes in what the summary says. What it does not say is admitted, or missing.
    fn read_summary(&mut self) {
        let summary = self.summary.take().unwrap_or_default();
        let ledger = &mut self.coverage.ledger;
        let listed = |key: &str| {
            let value = summary.str(key).and_then(|text| read::parse(text.as_bytes()).ok());
            value.and_then(|value| value.as_array().map(<[Value]>::to_vec)).unwrap_or_default()
        };
        for gap in listed("assaygaps") {
            let Some(gap) = gap.as_object() else { continue };
            let kind = Kind::ALL.into_iter().find(|kind| gap.str("kind") == Some(kind.as_str()));
            if let (Some(kind), Some(reason)) = (kind, gap.str("reason")) {
                let detail = gap.str("detail").unwrap_or_default().to_owned();
                ledger.gaps.insert(Gap { kind, reason: reason.to_owned(), detail });
            }
        }
        let lost = summary.get("assaylost").and_then(Value::as_count).filter(|lost| *lost > 0);
        ledger.lost.extend(lost.map(|lost| ("records".to_owned(), lost)));
        let words = Kind::ALL.map(|kind| summary.str(&format!("assaycoverage{}", kind.as_str())));
        ledger.is_unobserved = words == [Some("none"); 3];
        for (kind, word) in Kind::ALL.into_iter().zip(words) {
            let has_reason = lost.is_some() || ledger.gaps.iter().any(|gap| gap.kind == kind);
            match word {
                Some("complete") => {}
                Some("partial" | "none") if has_reason || ledger.is_unobserved => {}
                Some("partial") => ledger.admit(kind, "partial-without-reason", ""),
                Some("none") => ledger.admit(kind, "not-observed", ""),
                Some(_) | None => ledger.admit(kind, "coverage-not-stated", ""),
            }
        }
        let counts = summary.get("data").and_then(Value::as_object).and_then(|data| data.get("counts"));
        for kind in Kind::ALL {
            let there = self.counts.get(kind.as_str()).copied().unwrap_or(0);
            let said = counts.and_then(Value::as_object).and_then(|counts| counts.get(kind.as_str()));
            if let Some(said) = said.and_then(Value::as_count).filter(|said| *said != there) {
                let detail = format!("{said} were counted, {there} are there");
                ledger.admit(kind, "counts-differ", detail);
            }
        }
        let text = |key: &str| summary.str(key).unwrap_or_default().to_owned();
        let observed = &mut self.observed;
        let not_governed = listed("assaynotgoverned");
        observed.not_governed = not_governed.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        observed.descendants = text("assaydescendants");
        observed.verdict = text("assayverdict");
        observed.started_at = text("assaystartedat");
        let duration = summary.get("assaydurationms").and_then(Value::as_count);
        observed.duration_ms = duration.unwrap_or(0);
        self.missing.extend(duration.is_none().then_some(Part::Duration));
    }
}

/// Whether somebody at a UNIX socket answered.
fn is_answered(effect: &Effect) -> bool {
    matches!(effect, Effect::Net(net) if net.op == NetEffectOp::Connect
        && net.proto == "unix" && net.result == EffectResult::Ok)
}

#[cfg(test)]
mod tests;
