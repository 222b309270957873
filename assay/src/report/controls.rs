//! Evidence → the three controls a person asks for: network egress, file writes, configuration protection. Each with whether
//! it was in force, and what happened under it. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::basis::Basis;
use super::first_screen::{is_reading, outside_name, protected_name};
use crate::evidence::lint::places;
use crate::evidence::retold::Part;
use crate::evidence::{Component, Degradation, Evidence, events};
use crate::observe::loss::{Completeness, Kind};
use crate::profile::effect::{Effect, EffectResult, FsEffect, NetEffect, NetEffectOp};

/// Whether a control was in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// All that the policy asks of it was held.
    Held,
    /// Something of it was not: a degradation says what.
    NotWhollyHeld,
    /// The policy was asked and blocked nothing: a dry run.
    OnlyObserved,
    /// A bundle does not say it.
    NotTold,
}

impl State {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "Held",
            Self::NotWhollyHeld => "Not wholly held",
            Self::OnlyObserved => "Observed, not blocked",
            Self::NotTold => "Not told",
        }
    }
}

/// Something that happened under a control, or was stopped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Act {
    /// False when it was done.
    pub was_denied: bool,
    /// The operation.
    pub op: &'static str,
    /// What it was about; may be hostile.
    pub name: String,
}

/// One control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// Its name.
    pub title: &'static str,
    /// Whether it was in force.
    pub state: State,
    /// What of it was not held, for a person; the names in it may be hostile.
    pub unheld: Vec<String>,
    /// How often what happened, by what it was. Nothing when nothing was observed.
    pub counts: Vec<(u64, &'static str)>,
    /// What is worth naming, each once, what was denied first.
    pub acts: Vec<Act>,
    /// Why the counts may be too low.
    pub gap: Option<&'static str>,
}

/// The three.
pub fn controls(evidence: &Evidence, basis: Basis<'_>) -> [Control; 3] {
    [egress(evidence, basis), writes(evidence, basis), protection(evidence, basis)]
}

fn egress(evidence: &Evidence, basis: Basis<'_>) -> Control {
    let (mut outside, mut local, mut denied) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for effect in &evidence.identity.effects {
        let Effect::Net(net) = effect else { continue };
        if net.proto == "unix" || !matches!(net.op, NetEffectOp::Connect | NetEffectOp::Send) {
            continue;
        }
        let name = events::endpoint(net);
        match net.result {
            EffectResult::Denied => denied.insert((net.op.as_str(), name)),
            EffectResult::Ok if is_local(net) => local.insert((net.op.as_str(), name)),
            EffectResult::Ok => outside.insert((net.op.as_str(), name)),
        };
    }
    let places = |acts: &BTreeSet<(&str, String)>| {
        acts.iter().map(|(_, name)| name).collect::<BTreeSet<_>>().len() as u64
    };
    let counts = vec![
        (places(&outside), "reached beyond this host"),
        (places(&local), "on this host"),
        (places(&denied), "refused"),
    ];
    let acts = [(true, denied), (false, outside)]
        .into_iter()
        .flat_map(|(was_denied, acts)| acts.into_iter().map(move |(op, name)| Act { was_denied, op, name }));
    let is_about = |one: &Degradation| one.component == Component::Net;
    control("Network egress", evidence, basis, Kind::Net, is_about, counts, acts.collect())
}

fn is_local(net: &NetEffect) -> bool {
    let address = net.address.as_ref().and_then(|address| address.as_str().parse::<IpAddr>().ok());
    address.is_some_and(|address| address.is_loopback())
}

fn writes(evidence: &Evidence, basis: Basis<'_>) -> Control {
    let (mut inside, mut outside, mut denied) = (0, 0, 0);
    let mut acts = BTreeSet::new();
    for fs in changes(evidence) {
        let op = fs.op.as_str();
        match (fs.result, outside_name(fs)) {
            (EffectResult::Denied, _) => {
                denied += 1;
                acts.insert(Act { was_denied: true, op, name: fs.path.to_string() });
            }
            (EffectResult::Ok, Some(name)) => {
                outside += 1;
                acts.insert(Act { was_denied: false, op, name: name.to_owned() });
            }
            (EffectResult::Ok, None) => inside += 1,
        }
    }
    let counts = vec![(inside, "in the work directory"), (outside, "outside it"), (denied, "refused")];
    let is_about = |one: &Degradation| one.component == Component::Fs;
    control("File writes", evidence, basis, Kind::Fs, is_about, counts, denied_first(acts))
}

fn protection(evidence: &Evidence, basis: Basis<'_>) -> Control {
    let (mut done, mut denied) = (0, 0);
    let mut acts = BTreeSet::new();
    for fs in changes(evidence) {
        let Some(name) = protected_name(fs) else { continue };
        let was_denied = fs.result == EffectResult::Denied;
        *(if was_denied { &mut denied } else { &mut done }) += 1;
        acts.insert(Act { was_denied, op: fs.op.as_str(), name: name.to_owned() });
    }
    let counts = vec![(done, "changes to protected names"), (denied, "refused")];
    // Of what is told by name, only what is about a protected one.
    let is_about = |one: &Degradation| {
        let is_protected = |name: &String| places::PROTECTED.has(name.trim_end_matches('/'));
        one.component == Component::Fs && one.detail.as_ref().is_none_or(is_protected)
    };
    control("Configuration protection", evidence, basis, Kind::Fs, is_about, counts, denied_first(acts))
}

fn changes(evidence: &Evidence) -> impl Iterator<Item = &FsEffect> {
    evidence.identity.effects.iter().filter_map(|effect| match effect {
        Effect::Fs(fs) if !is_reading(fs) => Some(fs),
        Effect::Fs(_) | Effect::Exec(_) | Effect::Net(_) => None,
    })
}

fn denied_first(acts: BTreeSet<Act>) -> Vec<Act> {
    let (denied, done): (Vec<Act>, Vec<Act>) = acts.into_iter().partition(|act| act.was_denied);
    denied.into_iter().chain(done).collect()
}

fn control(
    title: &'static str,
    evidence: &Evidence,
    basis: Basis<'_>,
    kind: Kind,
    is_about: impl Fn(&Degradation) -> bool,
    counts: Vec<(u64, &'static str)>,
    acts: Vec<Act>,
) -> Control {
    // Who keeps a capability, or cannot be contained at all, may get around any control.
    let is_of_all = |one: &Degradation| {
        matches!(one.component, Component::Capabilities | Component::Launch | Component::Observer)
    };
    let degradations = evidence.identity.degradations.iter();
    let concerned = degradations.filter(|one| is_about(one) || is_of_all(one));
    let mut unheld: BTreeSet<String> = concerned.map(Degradation::explain).collect();
    let state = if !basis.has(Part::Mode) {
        State::NotTold
    } else if evidence.observed.mode == "dry-run" {
        unheld.clear();
        State::OnlyObserved
    } else if unheld.is_empty() {
        State::Held
    } else {
        State::NotWhollyHeld
    };
    let completeness = evidence.coverage.ledger.completeness(kind);
    let gap = match completeness {
        Completeness::Complete => None,
        Completeness::Partial => Some("The record of this is partial: there may have been more."),
        Completeness::None => Some("This was not observed."),
    };
    let counts = if completeness == Completeness::None { Vec::new() } else { counts };
    Control { title, state, unheld: unheld.into_iter().collect(), counts, acts, gap }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::samples;
    use crate::observe::loss::LossLedger;
    use crate::profile::effect::FsOp;

    fn states(evidence: &Evidence) -> [State; 3] {
        controls(evidence, Basis::Run).map(|control| control.state)
    }

    #[test]
    fn a_control_is_called_held_only_where_nothing_of_it_was_not() {
        use State::{Held, NotWhollyHeld, OnlyObserved};
        let of = |degradations| samples::evidence(samples::harmless(), degradations);
        let about = |component, detail: Option<&str>| {
            vec![Degradation { component, reason: "some-reason".into(), detail: detail.map(str::to_owned) }]
        };
        let check = |degradations, want| assert_eq!(states(&of(degradations)), want);
        check(Vec::new(), [Held; 3]);
        check(about(Component::Net, None), [NotWhollyHeld, Held, Held]);
        check(about(Component::Fs, None), [Held, NotWhollyHeld, NotWhollyHeld]);
        check(about(Component::Fs, Some("/srv/x")), [Held, NotWhollyHeld, Held]);
        check(about(Component::Fs, Some("${HOME}/.bashrc")), [Held, NotWhollyHeld, NotWhollyHeld]);
        for component in [Component::Capabilities, Component::Launch, Component::Observer] {
            check(about(component, None), [NotWhollyHeld; 3]);
        }
        for component in [Component::Env, Component::Exec] {
            check(about(component, None), [Held; 3]);
        }
        let mut dry = of(about(Component::Net, None));
        dry.observed.mode = "dry-run".into();
        assert_eq!(states(&dry), [OnlyObserved; 3]);
    }

    #[test]
    fn what_happened_under_each_is_counted_and_named() {
        let effects = vec![
            samples::connect("tcp", "127.0.0.1", Some(80)),
            samples::connect("tcp", "192.0.2.1", Some(443)),
            samples::connect("unix", "/run/x.sock", None),
            samples::fs(FsOp::Write, "${WORKDIR}/a", None, EffectResult::Ok),
            samples::fs(FsOp::Create, "/srv/b", None, EffectResult::Ok),
            samples::fs(FsOp::Write, "${HOME}/.bashrc", None, EffectResult::Denied),
            samples::fs(FsOp::Read, "${HOME}/.bashrc", None, EffectResult::Ok),
        ];
        let mut evidence = samples::evidence(effects, Vec::new());
        let told = controls(&evidence, Basis::Run);
        let counts: Vec<Vec<u64>> =
            told.iter().map(|control| control.counts.iter().map(|(count, _)| *count).collect()).collect();
        assert_eq!(counts, [vec![1, 1, 0], vec![1, 1, 1], vec![0, 1]]);
        let acts = |at: usize| -> Vec<(bool, &str)> {
            told[at].acts.iter().map(|act| (act.was_denied, act.name.as_str())).collect()
        };
        assert_eq!(acts(0), [(false, "192.0.2.1:443")]);
        assert_eq!(acts(1), [(true, "${HOME}/.bashrc"), (false, "/srv/b")]);
        assert_eq!(acts(2), [(true, "${HOME}/.bashrc")]);
        assert!(told.iter().all(|control| control.gap.is_none()));
        // What nobody saw is not counted as nothing.
        evidence.coverage.ledger = LossLedger::unobserved("no rights");
        let told = controls(&evidence, Basis::Run);
        assert!(told.iter().all(|control| control.counts.is_empty() && control.gap.is_some()));
    }
}
