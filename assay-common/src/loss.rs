//! Indexes of the counters that the kernel half keeps: one pair per operation, and some of its own.

/// Counters per operation: index is [`crate::calls::Op`]'s number. Two maps of this size: seen and lost.
pub const COUNTERS: u32 = 64;

/// Errnos of calls that failed for want of their object, which may be counted instead of sent: `ENOENT`, `ENOTDIR`.
pub const FAILURES: [i32; 2] = [2, 20];

/// What becomes of calls that failed without being refused, as a setting of a load.
pub mod failed {
    /// They are sent with the path as text: they went nowhere.
    pub const AS_TEXT: u32 = 0;
    /// Those of [`super::FAILURES`] are counted.
    pub const COUNTED: u32 = 1;
    /// They are sent with where the path led: something is hidden from the run, and what ends there fails as if nothing
    /// were there.
    pub const RESOLVED: u32 = 2;
}

/// Index for packets that go out.
pub const PACKET_OUT: u32 = 56;
/// Index for packets that come in.
pub const PACKET_IN: u32 = 57;
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
