//! One loaded set of programs that serves many runs at once: loaded by whoever starts the runs, joined by a process of each.
//!
//! All that is a run's is found by its slot; what the programs and the host have in common is here once.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use assay_common::limits::{
    LEAST_RING_BYTES, SERVED_CALLS_LEN, SERVED_INHERITED_LEN, SERVED_LEAVERS_LEN, SERVED_PROCESSES_LEN,
    SERVED_REPEAT_PLACES,
};
use assay_common::loss::{COUNTERS, FAILURES};
use assay_common::names;
use assay_common::offsets::Settings;
use assay_common::served::MOST_SLOTS;

use super::counted::{Counters, served_repeat_places};
use super::programs::{Programs, ProgramsError, bad_map, possible_cpus};
use super::{clearing, slot};

/// What a set of programs is loaded for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedConfig {
    /// The group whose children are the groups of the runs, by its directory.
    pub parent: PathBuf,
    /// How deep those children lie below the root of the hierarchy.
    pub level: u32,
    /// How many runs there can be at once, at most [`MOST_SLOTS`].
    pub slots: u32,
}

/// The kernel half in place for many runs. What was loaded stays for as long as a process has it.
#[derive(Debug)]
pub struct Shared {
    pub(super) programs: Programs,
    pub(super) level: u32,
    pub(super) slots: u32,
}

impl Shared {
    /// Makes the maps, loads the programs and attaches them: to the host, and to the parent of the runs' groups. This
    /// process has one thread afterwards if it had one before.
    pub fn load(config: &SharedConfig) -> Result<Self, ProgramsError> {
        let SharedConfig { parent, level, slots } = config;
        if !(1..=MOST_SLOTS).contains(slots) {
            return Err(bad_map(names::SERVED, format!("{slots} slots are not 1 to {MOST_SLOTS}")));
        }
        let group = std::fs::metadata(parent).map_err(|error| bad_map(names::RUNS, error))?.ino();
        let places = served_repeat_places(possible_cpus());
        let of_all = |each: u32| slots * each;
        let sizes = [
            (names::RING, LEAST_RING_BYTES),
            (names::RINGS, *slots),
            (names::TRAFFICS, *slots),
            (names::TRAFFIC, 1),
            (names::SERVED, *slots),
            (names::SEEN, of_all(COUNTERS)),
            (names::LOST, of_all(COUNTERS)),
            (names::REPEATED, of_all(COUNTERS)),
            (names::FAILED, of_all(COUNTERS * FAILURES.len() as u32)),
            (names::BEYOND, *slots),
            (names::REPEATS, of_all(places * possible_cpus())),
            (names::PROCESSES, of_all(SERVED_PROCESSES_LEN)),
            (names::LEAVERS, of_all(SERVED_LEAVERS_LEN)),
            (names::INHERITED, of_all(SERVED_INHERITED_LEN)),
            (names::TAKEN, SERVED_CALLS_LEN),
            (names::AIMED, SERVED_CALLS_LEN),
            // Runs whose policies speak of names have their own.
            (names::CLASSES, 1),
            (names::SERVERS, 1),
            (names::ADDRESSES, 1),
            (names::STREAMS, 1),
        ];
        let programs = Programs::load_for_many(parent, &sizes, |settings| Settings {
            level: *level,
            parent: group,
            slots: *slots,
            repeat_places: places,
            slot_places: places * possible_cpus(),
            processes: SERVED_PROCESSES_LEN,
            leavers: SERVED_LEAVERS_LEN,
            ..settings
        })?;
        Ok(Self { programs, level: *level, slots: *slots })
    }

    /// Places where repeats of one run are counted.
    pub(super) fn places() -> u32 {
        served_repeat_places(possible_cpus()) * possible_cpus()
    }

    /// Makes a slot's ring ahead of the first run that has it, who would wait some milliseconds for it otherwise.
    pub fn prepare(&mut self, slot: u32) -> Result<(), ProgramsError> {
        slot::prepare(&self.programs.loaded, slot)
    }

    /// Makes a slot as new, when the process of its run is gone, however that ended. Its ring stays for the next run.
    pub fn clear(&mut self, slot: u32) -> Result<(), ProgramsError> {
        clearing::clear(&self.programs.loaded, slot, Self::places())
    }

    /// Gives back the ring of a slot that no run has; the kernel takes some milliseconds for it.
    pub fn release(&mut self, slot: u32) -> Result<(), ProgramsError> {
        slot::release(&self.programs.loaded, slot)
    }

    /// Records delivered and lost so far in this slot, by hook.
    pub fn counters(&self, slot: u32) -> Result<Counters, ProgramsError> {
        slot::counters(&self.programs.loaded, slot)
    }

    /// How long each program ran and how often, for whichever task; nothing where the kernel does not measure it.
    pub fn times(&self) -> Result<Vec<(&'static str, Duration, u64)>, ProgramsError> {
        self.programs.times()
    }

    /// How many runs there can be at once.
    pub fn slots(&self) -> u32 {
        self.slots
    }
}

const _: () = assert!(SERVED_REPEAT_PLACES.is_power_of_two(), "a place is found by a mask");
