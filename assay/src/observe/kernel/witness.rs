//! The second witness in the kernel: where its programs go, whether all of them are there, what they counted.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};

use assay_common::limits::{LEAST_RING_BYTES, WITNESS_RING_BYTES, WITNESS_SLOTS, WITNESS_SLOTS_LEAST};
use assay_common::names::{self, PROGRAMS, Place};
use assay_common::record::WitnessTally;
use zerocopy::FromBytes as _;

use super::object::Loaded;
use crate::host::{bpf_elements, bpf_syscall};
use crate::observe::witness::WitnessCounts;

/// How many records can be under construction on this many processors.
pub(super) fn slots(processors: u32) -> u32 {
    // A hook that is interrupted keeps its slot while others pass on the same processor.
    (processors * 2).next_power_of_two().clamp(WITNESS_SLOTS_LEAST, WITNESS_SLOTS)
}

/// The sizes of its maps, which are next to nothing where it cannot be.
pub(super) fn sizes(is_wanted: bool, processors: u32) -> [(&'static str, u32); 4] {
    let slots = if is_wanted { slots(processors) } else { 1 };
    [
        (names::WITNESS_RING, if is_wanted { WITNESS_RING_BYTES } else { LEAST_RING_BYTES }),
        (names::WITNESS_SLOTS, slots),
        (names::WITNESS_TAKEN, slots),
        (names::WITNESS_TALLY, slots),
    ]
}

/// The kernel's functions that its programs are attached to.
pub(super) fn functions() -> Vec<&'static str> {
    PROGRAMS.into_iter().filter_map(|program| function(program.place)).collect()
}

/// Why it cannot be with these functions of the kernel's; one without some of its programs would be a witness of less than it
/// says.
pub(super) fn missing(hooks: &HashMap<&'static str, u32>) -> Option<String> {
    PROGRAMS.into_iter().find_map(|program| match program.place {
        Place::Hook(function) if !hooks.contains_key(function) => {
            Some(format!("the kernel has no function `{function}`"))
        }
        _ => None,
    })
}

/// Attaches those that were loaded, or says why not all of them are there.
pub(super) fn attach(loaded: &Loaded, hooks: &HashMap<&'static str, u32>) -> Result<Vec<OwnedFd>, String> {
    let mut links = Vec::new();
    for program in PROGRAMS {
        if function(program.place).is_none_or(|function| !hooks.contains_key(function)) {
            continue;
        }
        let Some(fd) = loaded.programs.get(program.name) else {
            let reason = loaded.refused.get(program.name).map(ToString::to_string);
            return Err(reason.unwrap_or_else(|| format!("the object has no program `{}`", program.name)));
        };
        let link = bpf_syscall::attach_loaded(fd.as_fd());
        links.push(link.map_err(|error| format!("attach `{}`: {error}", program.name))?);
    }
    Ok(links)
}

/// What its slots counted; `skipped` is what the kernel counted for it.
pub(super) fn counts(loaded: &Loaded, slots: u32, skipped: u64) -> Result<WitnessCounts, String> {
    let tallies = loaded.map(names::WITNESS_TALLY).map_err(|error| error.to_string())?;
    let size = size_of::<WitnessTally>();
    let values = bpf_elements::values(tallies, size, 0, slots).map_err(|error| error.to_string())?;
    let mut counts = WitnessCounts { seen: 0, lost: skipped };
    for bytes in values.chunks_exact(size) {
        let tally = WitnessTally::read_from_bytes(bytes).map_err(|error| error.to_string())?;
        counts.seen += tally.seen;
        counts.lost += tally.lost + tally.turned_away;
    }
    Ok(counts)
}

/// Whether a program is one of its.
pub(super) fn is_hook(place: Place) -> bool {
    function(place).is_some()
}

/// The hook that a program of its stands at.
pub(super) fn function(place: Place) -> Option<&'static str> {
    match place {
        Place::Hook(function) | Place::NewerHook(function) => Some(function),
        Place::Tracepoint(_)
        | Place::Names(_)
        | Place::Uring(..)
        | Place::Tail(_)
        | Place::PacketIn
        | Place::PacketOut
        | Place::Address(_)
        | Place::AnswerIn => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_lacks_one_hook_has_no_second_witness() {
        let mut hooks: HashMap<&'static str, u32> = functions().into_iter().map(|name| (name, 1)).collect();
        assert_eq!(missing(&hooks), None);
        // Older kernels cut a file by descriptor at the hook of those that cut it by name.
        hooks.remove("bpf_lsm_file_truncate");
        assert_eq!(missing(&hooks), None);
        hooks.remove("bpf_lsm_path_rename");
        assert_eq!(missing(&hooks).as_deref(), Some("the kernel has no function `bpf_lsm_path_rename`"));
    }

    #[test]
    fn slots_are_a_power_of_two_for_every_number_of_processors() {
        for (processors, expected) in [(1, 8), (2, 8), (6, 16), (64, 128), (1024, 256)] {
            assert_eq!(slots(processors), expected, "{processors} processors");
        }
    }
}
