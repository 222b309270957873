//! What a run comes to, its secrets marked → [`Canonical`], its secrets numbered. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::observe::loss::{Gap, Kind};

use super::actors::{Seen, Told};
use super::canonical::{Canonical, Canonicalizer, RunEnd};
use super::effect::{Effect, EffectResult};
use super::identity::{Actor, Details, EffectFacts, Fold, Identity, Peer, ProcessFacts};
use super::name::Name;
use super::numbering::numbered;
use super::roots::RootTable;
use super::secrets::Secrets;

/// What a run comes to, its secrets marked.
pub(super) struct Settled {
    /// The command's words.
    pub(super) command: Vec<String>,
    /// The same effect can stand here several times.
    pub(super) effects: Vec<(Effect, Told)>,
    /// What the hosts of effects stand for.
    pub(super) addresses: BTreeMap<Effect, BTreeSet<IpAddr>>,
    /// What clients asked for there besides.
    pub(super) asked: BTreeMap<Effect, BTreeSet<String>>,
    /// Who was at the other end, with secrets marked.
    pub(super) peers: BTreeMap<Effect, BTreeSet<Peer>>,
    /// See [`Details::ports`].
    pub(super) ports: BTreeMap<Effect, BTreeSet<u16>>,
    /// What was folded.
    pub(super) folded: Vec<Fold>,
    pub(super) programs: BTreeMap<Name, Vec<u8>>,
    pub(super) processes: Vec<ProcessFacts>,
    /// Who did what, by number.
    pub(super) actors: Vec<Actor>,
    pub(super) roots: RootTable,
    pub(super) secrets: Secrets,
}

impl Settled {
    /// Gives the secrets their numbers and writes everything out, of a run with so many names.
    pub(super) fn write(self, run: &Canonicalizer, names: usize, end: RunEnd) -> Canonical {
        let mut secrets = self.secrets;
        let command: Vec<String> = self.command.iter().map(|text| secrets.write(text)).collect();
        // Each is written once: it did many things.
        let mut actors: Vec<Option<Arc<Actor>>> = vec![None; self.actors.len()];
        // A host stands in place of an address, so there is no secret to be hidden in these.
        let addresses = self.addresses;
        let asked = self.asked;
        let mut parts = BTreeSet::new();
        let effects = numbered(self.effects, &mut secrets);
        let mut peers = written_peers(self.peers, &mut secrets);
        let facts: BTreeMap<Effect, EffectFacts> = effects
            .into_iter()
            .map(|(effect, told)| {
                let number = told.seen.by as usize;
                let by = self.actors.get(number).map(|actor| {
                    let written = actors[number].get_or_insert_with(|| {
                        Arc::new(Actor {
                            pid: actor.pid,
                            program: actor.program.as_deref().map(|program| secrets.write(program)),
                            comm: secrets.write(&actor.comm),
                        })
                    });
                    Arc::clone(written)
                });
                let denied_by = told.is_held.then_some("policy");
                let addresses = addresses.get(&effect).cloned().unwrap_or_default();
                let asked = asked.get(&effect).cloned().unwrap_or_default();
                let Seen { hits, is_part, .. } = told.seen;
                if is_part && is_denied_file(&effect) {
                    parts.insert(effect.clone());
                }
                let peers = peers.remove(&effect).unwrap_or_default();
                let facts =
                    EffectFacts { hits, denied_by, by, addresses, asked, peers, ..EffectFacts::default() };
                (effect, facts)
            })
            .collect();
        let mut folded: Vec<Fold> = self.folded;
        for fold in &mut folded {
            if Secrets::has_mark(&fold.from) {
                fold.from = secrets.write(&fold.from);
            }
            if Secrets::has_mark(fold.to.as_str()) {
                fold.to = Name::from_canonical(secrets.write(fold.to.as_str()));
            }
        }
        folded.sort_unstable();
        folded.dedup();
        let processes = self
            .processes
            .into_iter()
            .map(|process| ProcessFacts {
                programs: process
                    .programs
                    .iter()
                    .map(|argv| argv.iter().map(|text| secrets.write(text)).collect())
                    .collect(),
                ..process
            })
            .collect();
        let programs =
            self.programs.into_iter().map(|(name, path)| (secrets.write(name.as_str()), path)).collect();
        let mut degradations = end.degradations;
        degradations.sort();
        degradations.dedup();
        Canonical {
            identity: Identity {
                command,
                effects: facts.keys().cloned().collect(),
                outcome: end.outcome,
                degradations,
            },
            counters: counters(run, names, &facts, &secrets),
            endpoints: run.endpoints.told(&run.hosts),
            facts,
            details: Details { parts, ports: self.ports },
            folded,
            processes,
            programs,
            roots: self
                .roots
                .primary()
                .map(|(var, path)| (var.name().to_owned(), Name::from_bytes(path).as_str().to_owned()))
                .collect(),
            gaps: gaps(run, &mut secrets),
        }
    }
}

impl Canonicalizer {
    /// What the observer admits belongs to what is written: names that the command chose, and its secrets with them.
    pub fn take_gaps(&mut self, gaps: &BTreeSet<Gap>) {
        self.gaps.extend(gaps.iter().cloned());
    }
}

/// The same with the secrets in them numbered. Those of effects have their numbers already.
fn written_peers(
    peers: BTreeMap<Effect, BTreeSet<Peer>>,
    secrets: &mut Secrets,
) -> BTreeMap<Effect, BTreeSet<Peer>> {
    let mut written: BTreeMap<Effect, BTreeSet<Peer>> = BTreeMap::new();
    for (effect, peers) in peers {
        let effect = effect.map_names(&mut |text| secrets.write(text));
        let mut text = |text: String| secrets.write(&text);
        let peers = peers.into_iter().map(|peer| Peer {
            program: peer.program.map(&mut text),
            comm: peer.comm.map(&mut text),
            ..peer
        });
        written.entry(effect).or_default().extend(peers);
    }
    written
}

fn is_denied_file(effect: &Effect) -> bool {
    matches!(effect, Effect::Fs(fs) if fs.result == EffectResult::Denied)
}

fn counters(
    run: &Canonicalizer,
    names: usize,
    facts: &BTreeMap<Effect, EffectFacts>,
    secrets: &Secrets,
) -> BTreeMap<String, u64> {
    let mut counters: BTreeMap<String, u64> = run.failures().collect();
    let mut set = |name: &str, count: u64| {
        counters.insert(name.into(), count);
    };
    set("observations", run.counts.observations);
    set("without_effect", run.counts.without_effect);
    set("denied", run.counts.denied);
    set("processes", run.processes.count());
    set("processes_untold", run.processes.untold);
    set("threads", run.processes.threads);
    set("programs_started", run.processes.execs);
    set("names", names as u64);
    for (kind, effect_count) in [
        ("effects.fs", facts.keys().filter(|effect| matches!(effect, Effect::Fs(_))).count()),
        ("effects.exec", facts.keys().filter(|effect| matches!(effect, Effect::Exec(_))).count()),
        ("effects.net", facts.keys().filter(|effect| matches!(effect, Effect::Net(_))).count()),
    ] {
        set(kind, effect_count as u64);
    }
    for (rule, count) in secrets.counts() {
        set(&format!("secrets_redacted.{rule}"), *count);
    }
    set("endpoints_untold", run.endpoints.untold);
    if let Some(traffic) = &run.endpoints.measured {
        set("traffic_beyond.bytes_out", traffic.beyond.bytes_out);
        set("traffic_beyond.bytes_in", traffic.beyond.bytes_in);
    }
    for (means, count) in &run.blind {
        set(&format!("blind.{means}"), *count);
    }
    counters.retain(|_, count| *count > 0);
    counters
}

fn gaps(run: &Canonicalizer, secrets: &mut Secrets) -> BTreeSet<Gap> {
    let told = run.gaps.iter().map(|gap| Gap { detail: secrets.hide(&gap.detail), ..gap.clone() });
    let mut gaps: BTreeSet<Gap> = told.collect();
    let mut admit = |kinds: &[Kind], reason: &str, detail: String| {
        for &kind in kinds {
            gaps.insert(Gap { kind, reason: reason.into(), detail: detail.clone() });
        }
    };
    if run.counts.untold > 0 {
        admit(&Kind::ALL, "too-many-names", format!("{} acts found the tables full", run.counts.untold));
    }
    gaps
}
