//! What the kernel half counted of packets, read at the end of a run.

use std::io;
use std::os::fd::BorrowedFd;

use assay_common::traffic::{TrafficEnd, TrafficTally};
use zerocopy::FromBytes as _;

use crate::host::bpf_elements as elements;
use crate::observe::traffic::Traffic;

const END: usize = size_of::<TrafficEnd>();
const TALLY: usize = size_of::<TrafficTally>();

/// Reads what is counted by its end, and what had no room there, which has a place for each slot.
pub(super) fn read(ends: BorrowedFd<'_>, beyond: BorrowedFd<'_>, slot: u32) -> io::Result<Traffic> {
    let tally = |bytes: &[u8]| TrafficTally::read_from_bytes(bytes).map_err(|_| io::ErrorKind::InvalidData);
    let mut counted = Vec::new();
    for (end, bytes) in elements::entries(ends, END, TALLY)? {
        let end = TrafficEnd::read_from_bytes(&end).map_err(|_| io::ErrorKind::InvalidData)?;
        counted.push((end, tally(&bytes)?));
    }
    Ok(Traffic::of(counted, tally(&elements::values(beyond, TALLY, slot, 1)?)?))
}
