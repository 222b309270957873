//! Observations → the identity of a run: the canonicaliser `assay-canon/1`.
//!
//! Observations stream in; each is folded at once into a few numbers, so that a million repetitions cost no memory.
//! [`Canonicalizer::finish`] then decides what is volatile from what became of it, and gives the identity and all
//! that a reader needs to undo it. Pure: no I/O, no clock, no environment; order, repetition and interleaving of the
//! observations do not matter. Specified in `docs/formats/canonicalisation.md`.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::ops::RangeInclusive;

use crate::enforce::status::Degradation;
use crate::observe::errno::errno_name;
use crate::observe::loss::{Gap, Kind};
use crate::observe::observation::{
    Access, Act, CallResult, Endpoint, ExecAct, FileAct, NetAct, NetOp, Observation, PairAct, PairOp,
    PathRef, PathState,
};
use crate::observe::traffic::Traffic;

use super::actors::{ActorTable, Seen};
use super::acts::{
    ActClass, Ending, Need, class_of_net, class_of_pair, classes_of_file, effect_result, ending, row,
};
use super::barriers::Barriers;
use super::effect::{Effect, EffectResult};
pub use super::endpoints::NetPlace;
use super::endpoints::{Endpoint as CountedEnd, Endpoints};
use super::hosts::Hosts;
use super::identity::{Details, EffectFacts, Fold, Identity, Outcome, ProcessFacts};
use super::name::Name;
use super::number_hash::NumberHasher;
use super::paths::{MadeAs, PathId, PathTable};
use super::processes::ProcessTable;
use super::roots::Roots;
use super::settle;
use super::template::Template;

/// What is known about a run before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanonContext {
    /// The places names are relative to.
    pub roots: Roots,
    /// The command and its arguments, as given.
    pub command: Vec<Vec<u8>>,
    /// The command's process id.
    pub root_pid: u32,
    /// When it started, in seconds since 1970; without it any date between 2020 and 2100 counts as one.
    pub started_at: Option<u64>,
    /// What the sandbox itself put in the way.
    pub barriers: Barriers,
    /// The files that the caller made the command's output and error output, if they are files. What the command
    /// writes there is told as `${STDIO}`: where it goes was the caller's decision, not the command's.
    pub stdio: Vec<Vec<u8>>,
    /// The ports the kernel chooses from (`ip_local_port_range`).
    pub ephemeral_ports: RangeInclusive<u16>,
}

impl CanonContext {
    /// A context with nothing in the way, for a run that is only observed.
    pub fn new(roots: Roots, command: Vec<Vec<u8>>, root_pid: u32) -> Self {
        Self {
            roots,
            command,
            root_pid,
            started_at: None,
            barriers: Barriers::default(),
            stdio: Vec::new(),
            ephemeral_ports: 32_768..=60_999,
        }
    }
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// How the command ended.
    pub outcome: Outcome,
    /// What was asked of the sandbox and not kept.
    pub degradations: Vec<Degradation>,
    /// When, in seconds since 1970.
    pub ended_at: Option<u64>,
}

/// What the canonicaliser makes of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canonical {
    /// What the run id is computed from.
    pub identity: Identity,
    /// Facts for each effect of the identity. `denied_by` is set where the canonicaliser knows it.
    pub facts: BTreeMap<Effect, EffectFacts>,
    /// What no reader of the evidence needs, and who judges it does.
    pub details: Details,
    /// What was folded, sorted.
    pub folded: Vec<Fold>,
    /// Counters by name; zeros are absent.
    pub counters: BTreeMap<String, u64>,
    /// Where it connected, with numbers.
    pub endpoints: Vec<CountedEnd>,
    /// The process tree, in order of birth.
    pub processes: Vec<ProcessFacts>,
    /// Every program, script and interpreter started: name in the identity → path as seen, to take its digest from.
    pub programs: BTreeMap<String, Vec<u8>>,
    /// `observed.roots`: variable name → path in `Name` form.
    pub roots: BTreeMap<String, String>,
    /// What could not be told, for the ledger.
    pub gaps: BTreeSet<Gap>,
}

/// Folds observations as they come.
#[derive(Debug)]
pub struct Canonicalizer {
    pub(super) context: CanonContext,
    pub(super) paths: PathTable,
    pub(super) processes: ProcessTable,
    pub(super) actors: ActorTable,
    pub(super) files: HashMap<FileFact, Seen, BuildHasherDefault<NumberHasher>>,
    pub(super) sockets: HashMap<NetFact, Seen>,
    /// Facts the sandbox's own means decided.
    pub(super) held: HashSet<FileFact>,
    pub(super) templates: BTreeSet<(Vec<u8>, usize, Vec<u8>)>,
    pub(super) failed: HashMap<i32, u64>,
    pub(super) counts: Counts,
    pub(super) gaps: BTreeSet<Gap>,
    pub(super) blind: BTreeMap<&'static str, u64>,
    pub(super) hosts: Hosts,
    pub(super) endpoints: Endpoints,
    /// How many acts the observation under way stands for.
    weight: u64,
}

/// Plain counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Observations in all.
    pub observations: u64,
    /// Acts that have no effect: `O_PATH`, chdir …
    pub without_effect: u64,
    /// Calls that ended with a refusal.
    pub denied: u64,
    /// Acts that found the tables full.
    pub untold: u64,
}

/// One kind of act on these names with this result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileFact {
    /// What kind.
    pub class: ActClass,
    /// The name.
    pub path: PathId,
    /// The second name.
    pub to: Option<PathId>,
    /// Whether it was denied.
    pub result: EffectResult,
}

/// One kind of act on a socket with this result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetFact {
    /// What kind.
    pub class: ActClass,
    /// The protocol.
    pub proto: &'static str,
    /// Where.
    pub place: NetPlace,
    /// A bind whose port is the kernel's choice.
    pub is_ephemeral: bool,
    /// Whether it was denied.
    pub result: EffectResult,
}

/// The most distinct facts kept; a run with more is told with a gap.
const MAX_FACTS: usize = 8_000_000;
/// The most templates kept.
const MAX_TEMPLATES: usize = 256;

impl Canonicalizer {
    /// A canonicaliser for one run.
    pub fn new(context: CanonContext) -> Self {
        let processes = ProcessTable::new(context.root_pid);
        let mut canonicalizer = Self {
            context,
            paths: PathTable::default(),
            processes,
            actors: ActorTable::default(),
            files: HashMap::default(),
            sockets: HashMap::new(),
            held: HashSet::new(),
            templates: BTreeSet::new(),
            failed: HashMap::new(),
            counts: Counts::default(),
            gaps: BTreeSet::new(),
            blind: BTreeMap::new(),
            hosts: Hosts::default(),
            endpoints: Endpoints::default(),
            weight: 1,
        };
        for argument in &canonicalizer.context.command.clone() {
            canonicalizer.learn_template(argument);
        }
        canonicalizer
    }

    /// Folds an observation that was made again, so many times. Everything but the numbers is known from the first time:
    /// that a name was used says nothing more when it is used again.
    pub fn observe_again(&mut self, observation: &Observation, times: u64) {
        self.weight = times;
        self.observe(observation);
        self.weight = 1;
    }

    /// Counts calls that failed with an error that makes no effect of them, and nothing but that.
    pub fn count_failures(&mut self, errno: i32, times: u64) {
        self.counts.observations += times;
        *self.failed.entry(errno).or_default() += times;
    }

    /// Folds one observation.
    pub fn observe(&mut self, observation: &Observation) {
        if let Act::Named(named) = &observation.act {
            self.hosts.learn(named);
            return;
        }
        self.counts.observations += self.weight;
        self.processes.see(observation);
        self.count_ending(observation);
        match &observation.act {
            Act::File(act) => self.observe_file(observation, act),
            Act::Pair(act) => self.observe_pair(observation, act),
            Act::Exec(act) => self.observe_exec(observation, act),
            Act::Net(act) => self.observe_net(observation, act),
            // A name is no act of its own, and was taken above.
            Act::Namespaces(_) | Act::Fork { .. } | Act::Exit { .. } | Act::Named(_) => {}
            Act::Blind { means, .. } => *self.blind.entry(means).or_default() += 1,
        }
    }

    /// Takes what the kernel half counted of packets.
    pub fn measure(&mut self, traffic: Traffic) {
        self.endpoints.measured = Some(traffic);
    }

    /// The identity, and everything that goes with it.
    pub fn finish(self, end: RunEnd) -> Canonical {
        settle::settle(self, end)
    }

    fn observe_file(&mut self, observation: &Observation, act: &FileAct) {
        let mut is_without_effect = true;
        for class in classes_of_file(act).iter() {
            is_without_effect = false;
            let Some(result) = self.judge(class, observation.result, &act.path, None) else { continue };
            let Some(path) = self.path(&act.path, Kind::Fs) else { continue };
            self.count_file(observation, FileFact { class, path, to: None, result: result.0 }, result.1);
            let by = (observation.pid, observation.tid);
            if result.0 == EffectResult::Denied {
                if row(class).path.contains(&Need::Write) {
                    self.paths.refused(path, by);
                }
                continue;
            }
            match class {
                ActClass::OpenCreate => {
                    self.paths.made(path, MadeAs::File, by);
                    let is_private = act.is_private && act.access.contains(&Access::Read);
                    if is_private && !self.processes.was_told(observation.pid, &act.path) {
                        let (program, _) = self.processes.program_of(observation.pid, 0);
                        self.paths.made_private(path, program);
                    }
                }
                // The read of an open that made the file says nothing about what was there before.
                ActClass::OpenRead if act.access.contains(&Access::Create) => {}
                ActClass::Mkdir => {
                    self.paths.made(path, MadeAs::Directory, by);
                    if act.is_private && !self.processes.was_told(observation.pid, &act.path) {
                        let (program, _) = self.processes.program_of(observation.pid, 0);
                        self.paths.made_private(path, program);
                    }
                }
                ActClass::Mknod => self.paths.made(path, MadeAs::File, by),
                ActClass::Delete => self.paths.deleted(path),
                _ => self.paths.used(path),
            }
        }
        self.counts.without_effect += u64::from(is_without_effect) * self.weight;
    }

    fn observe_pair(&mut self, observation: &Observation, act: &PairAct) {
        let class = class_of_pair(act.op);
        let Some(result) = self.judge(class, observation.result, &act.path, Some(&act.to)) else { return };
        let (Some(path), Some(to)) = (self.path(&act.path, Kind::Fs), self.path(&act.to, Kind::Fs)) else {
            return;
        };
        self.count_file(observation, FileFact { class, path, to: Some(to), result: result.0 }, result.1);
        if act.is_exchange {
            let back = FileFact { class, path: to, to: Some(path), result: result.0 };
            self.count_file(observation, back, result.1);
        }
        let by = (observation.pid, observation.tid);
        match (act.op, result.0) {
            (PairOp::Rename | PairOp::Link, EffectResult::Denied) => self.paths.refused(to, by),
            (PairOp::Symlink, EffectResult::Denied) => self.paths.refused(path, by),
            (PairOp::Rename, EffectResult::Ok) if act.is_exchange => {
                self.paths.used(path);
                self.paths.used(to);
            }
            (PairOp::Rename, EffectResult::Ok) => self.paths.renamed(path, &act.path.bytes, to, by),
            (PairOp::Link, EffectResult::Ok) => self.paths.linked(path, to, by),
            (PairOp::Symlink, EffectResult::Ok) => self.paths.made(path, MadeAs::OtherName, by),
        }
    }

    fn observe_exec(&mut self, observation: &Observation, act: &ExecAct) {
        for argument in &act.argv {
            self.learn_template(argument);
        }
        let files = std::iter::once(&act.path).chain(&act.interpreter);
        for (position, file) in files.enumerate() {
            let Some(result) = self.judge(ActClass::Exec, observation.result, file, None) else { continue };
            // Which of the two was refused is not told; the script is what was asked for.
            if position > 0 && result.0 == EffectResult::Denied {
                continue;
            }
            let Some(path) = self.path(file, Kind::Exec) else { continue };
            let fact = FileFact { class: ActClass::Exec, path, to: None, result: result.0 };
            self.count_file(observation, fact, result.1);
            if result.0 == EffectResult::Ok {
                self.paths.used(path);
            }
        }
    }

    fn observe_net(&mut self, observation: &Observation, act: &NetAct) {
        self.endpoints.see(act, observation.result);
        let class = class_of_net(act.op);
        let result = match &act.endpoint {
            Endpoint::UnixPath(path) => self.judge(class, observation.result, path, None),
            _ => effect_result(class, observation.result).map(|result| (result, false)),
        };
        let Some((result, is_held)) = result else { return };
        let place = match &act.endpoint {
            Endpoint::Inet(address) => NetPlace::Inet(address.ip().to_canonical(), address.port()),
            Endpoint::UnixPath(path) => match self.path(path, Kind::Net) {
                Some(id) => {
                    self.observe_socket_path(observation, act.op, id, result, is_held);
                    NetPlace::Path(id)
                }
                None => return,
            },
            Endpoint::UnixAbstract(name) => NetPlace::Abstract(name.clone()),
            Endpoint::None => NetPlace::None,
            Endpoint::Unreadable => {
                self.admit(
                    Kind::Net,
                    "address-unreadable",
                    format!("{} {:?}", act.proto, act.op).to_lowercase(),
                );
                NetPlace::Unreadable
            }
        };
        let fact = NetFact { class, proto: act.proto, place, is_ephemeral: act.is_ephemeral, result };
        self.endpoints.peers.see(&fact, act);
        if let Some(seen) = self.sockets.get_mut(&fact) {
            seen.hits += 1;
        } else if self.sockets.len() < MAX_FACTS {
            let by = self.actors.of(observation, &self.processes);
            self.sockets.insert(fact, Seen { hits: 1, by, is_part: false });
        } else {
            self.counts.untold += 1;
        }
    }

    /// A bind to a path makes a name; a connect uses one.
    fn observe_socket_path(
        &mut self,
        observation: &Observation,
        op: NetOp,
        path: PathId,
        result: EffectResult,
        is_held: bool,
    ) {
        let by = (observation.pid, observation.tid);
        match (op, result) {
            (NetOp::Bind, result) => {
                let fact = FileFact { class: ActClass::BindPath, path, to: None, result };
                self.count_file(observation, fact, is_held);
                if result == EffectResult::Ok {
                    self.paths.made(path, MadeAs::File, by);
                } else {
                    self.paths.refused(path, by);
                }
            }
            (_, EffectResult::Ok) => self.paths.used(path),
            (_, EffectResult::Denied) => {}
        }
    }

    fn count_file(&mut self, observation: &Observation, fact: FileFact, is_held: bool) {
        let is_full = self.files.len() >= MAX_FACTS;
        let is_part = fact.class == ActClass::OpenRead
            && matches!(&observation.act, Act::File(act) if classes_of_file(act).iter().count() > 1);
        match self.files.entry(fact) {
            Entry::Occupied(mut seen) => {
                let seen = seen.get_mut();
                seen.hits += self.weight;
                seen.is_part &= is_part;
            }
            Entry::Vacant(free) if !is_full => {
                let by = self.actors.of(observation, &self.processes);
                free.insert(Seen { hits: self.weight, by, is_part });
            }
            Entry::Vacant(_) => self.counts.untold += 1,
        }
        if is_held {
            self.held.insert(fact);
        }
    }

    fn path(&mut self, path: &PathRef, kind: Kind) -> Option<PathId> {
        if !path.is_trustworthy() {
            let reason = match path.state {
                PathState::Cut => "path-cut",
                PathState::Unverified => "path-unverified",
                _ => "path-unreadable",
            };
            self.admit(kind, reason, Name::from_bytes(&path.bytes).as_str().to_owned());
        }
        let id = self.paths.intern(path);
        self.counts.untold += u64::from(id.is_none());
        id
    }

    fn admit(&mut self, kind: Kind, reason: &str, detail: String) {
        // Each says the same; a hundred are enough for a reader.
        if self.gaps.len() < 100 {
            self.gaps.insert(Gap { kind, reason: reason.into(), detail });
        }
    }

    /// What the call's result makes of the act, and whether the sandbox's own means decided it; `None` when it is
    /// a failure and nothing more.
    fn judge(
        &self,
        class: ActClass,
        result: CallResult,
        path: &PathRef,
        to: Option<&PathRef>,
    ) -> Option<(EffectResult, bool)> {
        let is_of_run = |id| self.processes.is_task(id);
        if self.context.barriers.refuse(class, result, path, to, &is_of_run) {
            return Some((EffectResult::Denied, true));
        }
        effect_result(class, result).map(|result| (result, false))
    }

    /// Counts how the call ended, once for each call.
    fn count_ending(&mut self, observation: &Observation) {
        let CallResult::Errno(errno) = observation.result else { return };
        let class = match &observation.act {
            Act::File(act) => classes_of_file(act).iter().next(),
            Act::Pair(act) => Some(class_of_pair(act.op)),
            Act::Exec(_) => Some(ActClass::Exec),
            Act::Net(act) => Some(class_of_net(act.op)),
            Act::Namespaces(_) | Act::Fork { .. } | Act::Exit { .. } | Act::Blind { .. } | Act::Named(_) => {
                None
            }
        };
        // An act without an effect is refused or fails like any other.
        match ending(class.unwrap_or(ActClass::OpenRead), observation.result) {
            Ending::Effect(EffectResult::Denied) => self.counts.denied += 1,
            Ending::Effect(EffectResult::Ok) => {}
            Ending::Failed(_) => *self.failed.entry(errno).or_default() += 1,
        }
    }

    fn learn_template(&mut self, argument: &[u8]) {
        if self.templates.len() < MAX_TEMPLATES
            && let Some(template) = Template::in_argument(argument)
        {
            self.templates.insert((template.prefix, template.len, template.suffix));
        }
    }

    /// `failed.ENOENT` and its like.
    pub(super) fn failures(&self) -> impl Iterator<Item = (String, u64)> {
        self.failed.iter().map(|(errno, count)| (format!("failed.{}", errno_name(*errno)), *count))
    }
}

#[cfg(test)]
mod alike;
#[cfg(test)]
mod every_rule;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
