//! What belongs to one run, where a load serves several: its settings, its ring, its counts.
//!
//! A load for one run has its settings as constants, which the verifier knows: what stands here for several is left out
//! of its programs.

use core::ffi::c_void;

use assay_common::served::{ONLY_RUN, Served, slot_of};
use aya_ebpf::helpers::generated::bpf_map_lookup_elem;

use crate::kernel::setting;
use crate::maps::{RING, RINGS, SERVED, TRAFFIC, TRAFFICS};
use crate::traffic::add_atomically;

/// A setting of a run.
macro_rules! of_run {
    ($run:expr, $field:ident) => {
        if crate::kernel::setting!(slots) == 0 {
            crate::kernel::setting!($field)
        } else {
            // SAFETY: written by userspace before the run is armed; volatile, so that nothing else of it is read.
            crate::served::element($run)
                .map_or(0, |served| unsafe { core::ptr::read_volatile(&raw const (*served).$field) })
        }
    };
}
pub(crate) use of_run;

/// What the slot of a run holds.
#[inline(always)]
pub fn element(run: u32) -> Option<*mut Served> {
    SERVED.get_ptr_mut(slot_of(run))
}

/// Whether a run has its slot still. What is left of one that ended is nobody's.
#[inline(always)]
pub fn is_live(run: u32) -> bool {
    if setting!(slots) == 0 {
        return true;
    }
    // SAFETY: numbers that are read at once.
    element(run).is_some_and(|served| unsafe {
        core::ptr::read_volatile(&raw const (*served).run) == run
            && core::ptr::read_volatile(&raw const (*served).is_live) != 0
    })
}

/// A program was started: from here on acts may be counted.
#[inline(always)]
pub fn begin(run: u32) {
    if let Some(served) = element(run) {
        // SAFETY: a flag that only goes up; who reads it a moment too early sends what could be counted.
        unsafe { core::ptr::write_volatile(&raw mut (*served).has_started, 1) };
    }
}

/// Whether one was.
#[inline(always)]
pub fn has_begun(run: u32) -> bool {
    // SAFETY: see `begin`.
    element(run)
        .is_some_and(|served| unsafe { core::ptr::read_volatile(&raw const (*served).has_started) != 0 })
}

/// The ring of a run, as helpers take it.
#[inline(always)]
pub fn ring(run: u32) -> Option<*mut c_void> {
    if setting!(slots) == 0 { Some((&raw const RING).cast_mut().cast()) } else { inner(&RINGS, run) }
}

/// The traffic of a run, likewise.
#[inline(always)]
pub fn traffic(run: u32) -> Option<*mut c_void> {
    if setting!(slots) == 0 { Some((&raw const TRAFFIC).cast_mut().cast()) } else { inner(&TRAFFICS, run) }
}

/// The map that such a map has for a run's slot.
#[inline(always)]
fn inner<T>(outer: &'static T, run: u32) -> Option<*mut c_void> {
    let slot = slot_of(run);
    // SAFETY: a map whose keys are numbers of this size; what it holds are maps.
    let found =
        unsafe { bpf_map_lookup_elem((&raw const *outer).cast_mut().cast(), (&raw const slot).cast()) };
    if found.is_null() { None } else { Some(found) }
}

/// Adds one to how many there are of something of a run's, unless there are as many as there may be.
#[inline(always)]
pub fn take_place(places: *mut u64, most: u32) -> bool {
    // SAFETY: the caller has the number. Two at a time may both take the last place.
    unsafe {
        if core::ptr::read_volatile(places) >= u64::from(most) {
            return false;
        }
        add_atomically(places, 1);
    }
    true
}

/// The same, one less.
#[inline(always)]
pub fn give_back(places: *mut u64) {
    // SAFETY: as above.
    unsafe { add_atomically(places, u64::MAX) };
}

/// The slot of the only run is the first.
const _: () = assert!(slot_of(ONLY_RUN) == 0);
