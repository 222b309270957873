//! Indexes of the counters that the kernel half keeps: one pair per operation, and some of its own.

/// Counters per operation: index is [`crate::calls::Op`]'s number. Two maps of this size: seen and lost.
pub const COUNTERS: u32 = 64;

/// Index for completions of requests to an `io_uring`.
pub const URING: u32 = 59;
/// Index for program starts.
pub const EXEC: u32 = 60;
/// Index for forks.
pub const FORK: u32 = 61;
/// Index for exits.
pub const EXIT: u32 = 62;
/// Index for departures from the group.
pub const LEAVE: u32 = 63;
