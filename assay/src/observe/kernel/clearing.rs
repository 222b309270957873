//! Makes a slot as new after its run, however that ended: by whoever loaded the programs, or by the next run.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use assay_common::limits::SERVED_CALLS_LEN;
use assay_common::loss::{COUNTERS, FAILURES};
use assay_common::names;
use assay_common::record::RepeatEntry;
use assay_common::served::{Served, slot_of};
use assay_common::traffic::{TrafficEnd, TrafficTally};

use super::object::Loaded;
use super::programs::{ProgramsError, bad_map, possible_cpus};
use super::slot::{placed, served, set_served};
use crate::host::bpf_elements as elements;

/// A number in a map.
const NUMBER: usize = size_of::<u32>();

/// Forgets the run that has the slot, and all that was kept and counted for it. Its ring stays, for the next run.
pub(super) fn clear(loaded: &Loaded, slot: u32, places: u32) -> Result<(), ProgramsError> {
    let last = served(loaded, slot)?;
    disarm(loaded, slot)?;
    if last.processes != 0 {
        forget_processes(loaded, names::PROCESSES, slot)?;
    }
    if last.leavers != 0 {
        forget_processes(loaded, names::LEAVERS, slot)?;
        look_at_leavers(loaded)?;
    }
    // Nothing of it is anybody's now; what is written after this is the next run's.
    set_served(loaded, slot, &Served { run: last.run, ..Served::default() })?;
    forget_inherited(loaded, slot)?;
    forget_taken(loaded)?;
    forget_traffic(loaded, slot)?;
    let counter = size_of::<u64>() * possible_cpus() as usize;
    zero(loaded, names::SEEN, counter, slot, COUNTERS)?;
    zero(loaded, names::LOST, counter, slot, COUNTERS)?;
    zero(loaded, names::REPEATED, counter, slot, COUNTERS)?;
    zero(loaded, names::FAILED, counter, slot, COUNTERS * FAILURES.len() as u32)?;
    zero(loaded, names::BEYOND, size_of::<TrafficTally>(), slot, 1)?;
    zero(loaded, names::REPEATS, size_of::<RepeatEntry>(), slot, places)
}

/// From here on nothing more is recorded for the slot: its group is no run's group, and what left it is nobody's.
pub(super) fn disarm(loaded: &Loaded, slot: u32) -> Result<(), ProgramsError> {
    let runs = loaded.map(names::RUNS)?;
    remove(runs, size_of::<u64>(), NUMBER, |_, run| is_of(run, slot))
        .map_err(|error| bad_map(names::RUNS, error))?;
    let last = served(loaded, slot)?;
    set_served(loaded, slot, &Served { is_live: 0, ..last })
}

/// Forgets the slot's processes in one of the two maps that know them.
fn forget_processes(loaded: &Loaded, name: &'static str, slot: u32) -> Result<(), ProgramsError> {
    remove(loaded.map(name)?, NUMBER, NUMBER, |_, run| is_of(run, slot)).map_err(|error| bad_map(name, error))
}

/// Spares every other task of the host the look-up where no run has a leaver any more. One that leaves meanwhile says so
/// itself, or is found by the second look.
fn look_at_leavers(loaded: &Loaded) -> Result<(), ProgramsError> {
    let (leavers, flag) = (loaded.map(names::LEAVERS)?, loaded.map(names::LEAVING)?);
    let is_empty = || elements::keys(leavers, NUMBER, 1).map(|keys| keys.is_empty());
    let set = |is: u32| elements::set(flag, &0u32.to_ne_bytes(), &is.to_ne_bytes());
    let look = || {
        if is_empty()? {
            set(0)?;
            if !is_empty()? {
                set(1)?;
            }
        }
        Ok(())
    };
    look().map_err(|error: io::Error| bad_map(names::LEAVERS, error))
}

fn forget_inherited(loaded: &Loaded, slot: u32) -> Result<(), ProgramsError> {
    // Device, run and number of the file.
    const KEY: usize = 16;
    remove(loaded.map(names::INHERITED)?, KEY, NUMBER, |key, _| is_of(&key[NUMBER..2 * NUMBER], slot))
        .map_err(|error| bad_map(names::INHERITED, error))
}

/// Forgets names that calls gave back and never told, for their tasks are gone.
fn forget_taken(loaded: &Loaded) -> Result<(), ProgramsError> {
    // Task, which of its names, and where it stood.
    const KEY: usize = 16;
    let taken = loaded.map(names::TAKEN)?;
    let forget = || {
        for key in elements::keys(taken, KEY, SERVED_CALLS_LEN as usize)? {
            if !std::path::Path::new(&format!("/proc/{}", number(&key))).exists() {
                elements::remove(taken, &key)?;
            }
        }
        Ok(())
    };
    forget().map_err(|error: io::Error| bad_map(names::TAKEN, error))
}

fn forget_traffic(loaded: &Loaded, slot: u32) -> Result<(), ProgramsError> {
    let Some(traffic) = placed(loaded, names::TRAFFICS, slot)? else { return Ok(()) };
    remove(traffic.as_fd(), size_of::<TrafficEnd>(), size_of::<TrafficTally>(), |_, _| true)
        .map_err(|error| bad_map(names::TRAFFICS, error))
}

/// Removes the elements of a hash that are meant.
fn remove(
    map: BorrowedFd<'_>,
    key_size: usize,
    value_size: usize,
    is_meant: impl Fn(&[u8], &[u8]) -> bool,
) -> io::Result<()> {
    for (key, value) in elements::entries(map, key_size, value_size)? {
        if is_meant(&key, &value) {
            elements::remove(map, &key)?;
        }
    }
    Ok(())
}

/// Sets a slot's share of an array to zero.
fn zero(
    loaded: &Loaded,
    name: &'static str,
    value_size: usize,
    slot: u32,
    share: u32,
) -> Result<(), ProgramsError> {
    elements::clear_values(loaded.map(name)?, value_size, slot * share, share)
        .map_err(|error| bad_map(name, error))
}

/// Whether a run's number is of this slot.
fn is_of(run: &[u8], slot: u32) -> bool {
    slot_of(number(run)) == slot
}

fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}
