//! Who did something first: process, program and name, kept once however many acts there are. Pure.

use std::collections::HashMap;

use super::processes::ProcessTable;
use crate::observe::observation::{Act, CallResult, Observation, PathRef};

/// A number for one actor; they grow in the order of what was seen.
pub(super) type ActorId = u32;

/// How often something was seen, and who did it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// How often.
    pub hits: u64,
    /// Who was first.
    pub(super) by: ActorId,
    /// Whether each time it was part of an act that wanted more: the read of an open for reading and writing.
    pub(super) is_part: bool,
}

/// What came of one effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    /// How often, and by whom first.
    pub seen: Seen,
    /// Whether the sandbox's own means decided it.
    pub is_held: bool,
}

impl Told {
    /// Takes in the same effect told again.
    pub fn add(&mut self, other: Self) {
        self.seen.hits += other.seen.hits;
        self.seen.by = self.seen.by.min(other.seen.by);
        self.seen.is_part &= other.seen.is_part;
        self.is_held |= other.is_held;
    }
}

/// An act's process at the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorSeen {
    /// Its id.
    pub pid: u32,
    /// What it ran; `None` when its start was not seen.
    pub program: Option<PathRef>,
    /// Its name, as the kernel has it.
    pub comm: Vec<u8>,
}

/// Every actor that was the first to do something.
#[derive(Debug, Default)]
pub struct ActorTable {
    actors: Vec<ActorSeen>,
    /// Process, how many programs it had run, and its name.
    known: HashMap<(u32, usize, Vec<u8>), ActorId>,
}

impl ActorTable {
    /// The number of who did this.
    pub(super) fn of(&mut self, observation: &Observation, processes: &ProcessTable) -> ActorId {
        // A start that succeeded was asked for by what ran before it.
        let is_started = matches!(observation.act, Act::Exec(_)) && observation.result == CallResult::Ok;
        let (program, count) = processes.program_of(observation.pid, usize::from(is_started));
        let key = (observation.pid, count, observation.comm.clone());
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let id = ActorId::try_from(self.actors.len()).unwrap_or(ActorId::MAX);
        self.actors.push(ActorSeen {
            pid: observation.pid,
            program: program.cloned(),
            comm: observation.comm.clone(),
        });
        self.known.insert(key, id);
        id
    }

    /// All of them, in the order of their numbers.
    pub fn all(&self) -> &[ActorSeen] {
        &self.actors
    }
}
