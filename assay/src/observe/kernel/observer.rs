//! The observer of one run: the kernel half in place and armed, its ring read, its losses told.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use assay_common::names;

use super::answers::NamesWanted;
use super::begun::Begun;
use super::counted::{Counted, Counters};
use super::late::LateLook;
use super::programs::{Counting, InheritedFile, Programs, ProgramsError, bad_map};
use super::ring::Ring;
use super::shared::Shared;
use super::slot::Slot;
use crate::observe::traffic::Traffic;
use crate::observe::witness::WitnessCounts;

/// Records handed out before others get their turn.
const BATCH: usize = 4096;

/// What an observer is started for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObserverConfig {
    /// The run's group: its id, which is the inode number of its directory. 0 for none.
    pub group_id: u64,
    /// Its depth below the root of the hierarchy, 1 for a child of the root.
    pub level: u32,
    /// Its directory.
    pub group: PathBuf,
    /// Names whose addresses are to be noted as answers come.
    pub names: Option<NamesWanted>,
    /// Files the command inherits that it could write to.
    pub inherited: Vec<InheritedFile>,
    /// Sockets the command inherits.
    pub sockets: Vec<InheritedFile>,
    /// What need not be sent each time.
    pub counting: Counting,
    /// Whether a second witness is wanted, where the kernel has one.
    pub second_witness: bool,
}

/// The kernel half in place for one run. Dropping it detaches everything, or gives back the slot of a run that is served
/// beside others.
#[derive(Debug)]
pub struct Observer {
    programs: Programs,
    slot: Slot,
    joined: Option<Joined>,
    ring: Ring,
    /// The second witness's, where there is one.
    witness_ring: Option<Ring>,
    late: Option<LateLook>,
    record: Vec<u8>,
}

/// Of a run that is served beside others.
#[derive(Debug)]
struct Joined {
    /// The process that observes it; copies of it only look on.
    owner: u32,
    /// How often the kernel had passed over a program before.
    skipped_before: u64,
}

impl Observer {
    /// Loads, attaches and arms. From here on what the group does is recorded.
    pub fn start(config: &ObserverConfig) -> Result<Self, ProgramsError> {
        Self::start_begun(config, Begun::for_one(config.second_witness)?)
    }

    /// The same, where the maps are made.
    pub fn start_begun(config: &ObserverConfig, begun: Begun) -> Result<Self, ProgramsError> {
        let mut programs = Programs::load_begun(config, begun)?;
        let ring = Ring::new(programs.take_ring()?);
        let witness_ring = match programs.no_witness() {
            None => Some(Ring::new(programs.take_witness_ring()?)),
            Some(_) => None,
        };
        let slot = Slot::only();
        programs.arm(config.group_id, slot.run)?;
        Ok(Self { programs, slot, joined: None, ring, witness_ring, late: None, record: Vec::new() })
    }

    /// Takes a slot of what was loaded for many runs, and arms. To be called in a process that was forked from the one that
    /// loaded it, when no run has the slot.
    pub fn join(shared: Shared, slot: u32, config: &ObserverConfig) -> Result<Self, ProgramsError> {
        if slot >= shared.slots || config.level != shared.level {
            let reason = format!("slot {slot} of {} at level {}", shared.slots, config.level);
            return Err(bad_map(names::SERVED, reason));
        }
        let programs = shared.programs;
        let slot = Slot::take(&programs.loaded, slot, Shared::places(), config)?;
        let ring = slot.open_ring()?;
        let joined = Joined { owner: std::process::id(), skipped_before: programs.skipped()? };
        // From here on dropping it gives the slot back.
        let mut observer = Self {
            programs,
            slot,
            joined: Some(joined),
            ring,
            witness_ring: None,
            late: None,
            record: Vec::new(),
        };
        if let Some(names) = &config.names {
            observer.programs.note_names_of_one(&config.group, names)?;
        }
        observer.programs.arm(config.group_id, observer.slot.run)?;
        Ok(observer)
    }

    /// Names the process whose mount namespace late looks are made in. It must be alive.
    pub fn follow(&mut self, pid: u32) -> io::Result<()> {
        self.late = Some(LateLook::of_process(pid)?);
        Ok(())
    }

    /// Goes on in the place of the process that this one is a copy of, and that is dead.
    pub fn take_over(&mut self) -> io::Result<()> {
        if let Some(joined) = &mut self.joined {
            joined.owner = std::process::id();
        }
        self.ring.reopen()?;
        self.witness_ring.as_mut().map_or(Ok(()), Ring::reopen)
    }

    /// Names the last record that the process before this one is known to have read, with what a look added to it: the
    /// ring may not have been told.
    pub fn has_read(&mut self, last: &[u8]) {
        self.ring.pass_over(last);
        if let Some(ring) = &mut self.witness_ring {
            ring.pass_over(last);
        }
    }

    /// Sleeps until it is worth looking for records.
    pub async fn wait(&mut self) {
        self.ring.wait().await;
    }

    /// Hands out records that wait, some thousands at most. How many there were; 0 means that none waits.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let (late, buffer) = (self.late.as_ref(), &mut self.record);
        let of_first = self.ring.drain(BATCH, |record| match late {
            Some(late) if late.is_wanted(record) => {
                buffer.clear();
                buffer.extend_from_slice(record);
                late.annotate(buffer);
                each(buffer);
            }
            Some(_) | None => each(record),
        });
        // What it tells needs no looking up.
        of_first + self.witness_ring.as_mut().map_or(0, |ring| ring.drain(BATCH, &mut each))
    }

    /// Whether requests to an `io_uring` are seen.
    pub fn sees_uring(&self) -> bool {
        self.programs.sees_uring()
    }

    /// The map of addresses by classes of names, where those are noted.
    pub fn addresses(&self) -> Option<BorrowedFd<'_>> {
        self.programs.addresses()
    }

    /// Why no names for addresses are seen; `None` when they are.
    pub fn unseen_packets(&self) -> Option<&str> {
        self.programs.unseen_packets()
    }

    /// Why there is no second witness; `None` when there is one.
    pub fn no_witness(&self) -> Option<&str> {
        self.programs.no_witness()
    }

    /// What the second witness sent and lost.
    pub fn witness_counts(&self) -> Result<WitnessCounts, ProgramsError> {
        self.programs.witness_counts()
    }

    /// Records delivered and lost, by hook.
    pub fn counters(&self) -> Result<Counters, ProgramsError> {
        self.slot.counters(&self.programs.loaded)
    }

    /// What was counted and not sent.
    pub fn counted(&self) -> Result<Counted, ProgramsError> {
        self.slot.counted(&self.programs.loaded)
    }

    /// What went over the network, by its ends; `None` where packets are not seen.
    pub fn traffic(&self) -> Result<Option<Traffic>, ProgramsError> {
        let is_seen = self.programs.unseen_packets().is_none();
        is_seen.then(|| self.slot.traffic(&self.programs.loaded)).transpose()
    }

    /// How often the kernel passed over a program since the run has been observed, for whichever task of the host.
    pub fn skipped(&self) -> Result<u64, ProgramsError> {
        let before = self.joined.as_ref().map_or(0, |joined| joined.skipped_before);
        self.programs.skipped().map(|now| now.saturating_sub(before))
    }

    /// Fields this kernel does not have, and some records need.
    pub fn missing_fields(&self) -> &[String] {
        self.programs.missing_fields()
    }
}

impl Drop for Observer {
    /// Of a run that is served beside others nothing more is recorded, and what is left of it waits for whoever loaded the
    /// programs. A copy of the process that observes it has nothing to give back.
    fn drop(&mut self) {
        if self.joined.as_ref().is_some_and(|joined| joined.owner == std::process::id()) {
            // Whoever loaded the programs clears the slot in any case.
            self.slot.disarm(&self.programs.loaded).ok();
        }
    }
}
