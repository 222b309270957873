//! What the kernel half counted instead of sending it, read at the end of a run.

use assay_common::calls::Op;
use assay_common::limits::{REPEAT_PLACES, REPEAT_PLACES_LEAST, REPEAT_PROCESSORS, SERVED_REPEAT_PLACES};
use assay_common::loss::{EXEC, EXIT, FAILURES, FORK, LEAVE, PACKET_IN, PACKET_OUT, URING};
use assay_common::record::RepeatEntry;
use zerocopy::FromBytes as _;

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

impl Counted {
    /// From what a run's places hold, and its counters of all processors.
    pub fn of(repeats: &[u8], repeated: &[u64], failed: &[u64]) -> Self {
        let entries = repeats.chunks_exact(size_of::<RepeatEntry>()).filter_map(|bytes| {
            let entry = RepeatEntry::read_from_bytes(bytes).ok()?;
            (entry.number != 0).then_some((entry.number, entry.count))
        });
        let mut failures = Vec::new();
        for op in Op::ALL {
            for (which, errno) in FAILURES.into_iter().enumerate() {
                let count = failed.get(op as usize * FAILURES.len() + which).copied().unwrap_or(0);
                if count > 0 {
                    failures.push((op, errno, count));
                }
            }
        }
        Self { repeats: entries.collect(), repeated: repeated.iter().sum(), failures }
    }
}

/// Places to count in that each processor has.
pub fn repeat_places(processors: u32) -> u32 {
    let share = REPEAT_PLACES * REPEAT_PROCESSORS / processors.max(REPEAT_PROCESSORS);
    // Down to a power of two.
    (1 << share.max(1).ilog2()).max(REPEAT_PLACES_LEAST)
}

/// The same of a run that is served beside others.
pub fn served_repeat_places(processors: u32) -> u32 {
    let share = SERVED_REPEAT_PLACES / processors;
    (1 << share.max(1).ilog2()).max(REPEAT_PLACES_LEAST)
}

/// Records delivered and lost, by hook name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// Delivered to the ring.
    pub seen: Vec<(&'static str, u64)>,
    /// Lost, because the ring was full or the record too long.
    pub lost: Vec<(&'static str, u64)>,
    /// Processes that there was no room to watch: that one of them left the group may not have been noticed.
    pub unkept: u64,
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
        for (processors, places) in [(1, 2048), (2, 1024), (6, 256), (1024, 64)] {
            assert_eq!(served_repeat_places(processors), places, "{processors} processors");
        }
    }
}
