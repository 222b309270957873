//! What the kernel half counted instead of sending it, read at the end of a run.

use std::os::fd::AsFd as _;

use assay_common::calls::Op;
use assay_common::limits::{REPEAT_PLACES, REPEAT_PLACES_LEAST, REPEAT_PROCESSORS};
use assay_common::loss::{COUNTERS, EXEC, EXIT, FAILURES, FORK, LEAVE, PACKET_IN, PACKET_OUT, URING};
use assay_common::record::RepeatEntry;
use aya::maps::{Map, MapError, PerCpuArray};
use zerocopy::FromBytes as _;

use crate::host::bpf_syscall;

/// Counts of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counted {
    /// Number of a count, and how often: those that are open.
    pub repeats: Vec<(u64, u64)>,
    /// How many acts were counted as like one that was sent, over all counts that ever were.
    pub repeated: u64,
    /// Calls that failed for want of their object: operation, errno, how often.
    pub failures: Vec<(Op, i32, u64)>,
}

/// Why the counts could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CountedError {
    /// The kernel's words.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The kernel's words.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    /// A map is not what its name says.
    #[error("a map is of another kind")]
    Kind,
}

impl Counted {
    /// Reads the maps.
    pub fn read(repeats: &Map, repeated: &Map, failed: &Map) -> Result<Self, CountedError> {
        let mut counted = Self::default();
        let Map::Array(entries) = repeats else { return Err(CountedError::Kind) };
        let size = size_of::<RepeatEntry>();
        for bytes in bpf_syscall::map_values(entries.fd().as_fd(), size)?.chunks_exact(size) {
            let entry = RepeatEntry::read_from_bytes(bytes).map_err(|_| CountedError::Kind)?;
            if entry.number != 0 {
                counted.repeats.push((entry.number, entry.count));
            }
        }
        let repeated: PerCpuArray<_, u64> = PerCpuArray::try_from(repeated)?;
        for index in 0..COUNTERS {
            counted.repeated += repeated.get(&index, 0)?.iter().sum::<u64>();
        }
        let failed: PerCpuArray<_, u64> = PerCpuArray::try_from(failed)?;
        for op in Op::ALL {
            for (which, errno) in FAILURES.into_iter().enumerate() {
                let index = op as u32 * FAILURES.len() as u32 + which as u32;
                let count: u64 = failed.get(&index, 0)?.iter().sum();
                if count > 0 {
                    counted.failures.push((op, errno, count));
                }
            }
        }
        Ok(counted)
    }
}

/// Places to count in that each processor has.
pub fn repeat_places(processors: u32) -> u32 {
    let share = REPEAT_PLACES * REPEAT_PROCESSORS / processors.max(REPEAT_PROCESSORS);
    // Down to a power of two.
    (1 << share.max(1).ilog2()).max(REPEAT_PLACES_LEAST)
}

/// Records delivered and lost, by hook name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// Delivered to the ring.
    pub seen: Vec<(&'static str, u64)>,
    /// Lost, because the ring was full or the record too long.
    pub lost: Vec<(&'static str, u64)>,
}

/// The hook a counter belongs to.
pub fn hook_name(index: u32) -> Option<&'static str> {
    match index {
        PACKET_IN => Some("packet"),
        PACKET_OUT => Some("greeting"),
        URING => Some("io_uring"),
        EXEC => Some("exec_start"),
        FORK => Some("fork"),
        EXIT => Some("exit"),
        LEAVE => Some("leave"),
        _ => Op::from_number(u16::try_from(index).ok()?).map(Op::as_str),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_processors_share_the_places() {
        for (processors, places) in [(1, 4096), (2, 4096), (16, 4096), (17, 2048), (256, 256), (1024, 64)] {
            assert_eq!(repeat_places(processors), places, "{processors} processors");
        }
    }
}
