//! What the service loads once: the kernel half for many runs, and numbers kept free for clients' descriptors.

use super::duty;
use super::reserve::Reserve;
use crate::daemon::metrics::ProgramTime;
use crate::daemon::worker::Assignment;
use crate::exit::Exit;
use crate::host::mountinfo::OwnGroup;
use crate::observe::kernel::Observer;
use crate::observe::kernel::shared::{Shared, SharedConfig};

/// In the service, and by copy in every worker.
#[derive(Debug)]
pub struct Loaded {
    shared: Shared,
    reserve: Reserve,
}

/// Rings that are made before the first run: those of the places that are given first.
const MADE_AHEAD: u32 = 4;

impl Loaded {
    /// Loads it for runs whose groups lie beneath this one.
    pub fn load(runs: &OwnGroup, slots: u32) -> Result<Self, String> {
        let reserve = Reserve::take().map_err(|error| format!("keep descriptors free: {error}"))?;
        let config = SharedConfig { parent: runs.directory.clone(), level: runs.level + 1, slots };
        // A reason is a line; the verifier's words follow it.
        let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
        let mut shared = Shared::load(&config).map_err(|error| first(error.to_string()))?;
        for slot in 0..slots.min(MADE_AHEAD) {
            shared.prepare(slot).map_err(|error| first(error.to_string()))?;
        }
        Ok(Self { shared, reserve })
    }

    /// What a worker does with its copy.
    pub fn work(self, assignment: Assignment) -> Exit {
        let Self { shared, reserve } = self;
        let slot = assignment.slot;
        duty::work(Box::new(move |config| Observer::join(shared, slot, config)), reserve, assignment)
    }

    /// Makes a place as new when nothing is left of the worker that had it.
    pub fn clear(&mut self, slot: u32) -> Result<(), String> {
        self.shared.clear(slot).map_err(|error| error.to_string())
    }

    /// How much the programs ran, where the kernel measures it.
    pub fn times(&self) -> Vec<ProgramTime> {
        let told = self.shared.times().unwrap_or_default();
        told.into_iter().map(|(name, time, runs)| ProgramTime { name: name.to_owned(), runs, time }).collect()
    }
}
