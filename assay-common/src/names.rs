//! Names of programs, maps and globals in the object, typed once.

/// A program of the object and where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its name in the object.
    pub name: &'static str,
    /// The raw tracepoint it is attached to, or its slot in [`TAILS`].
    pub place: Place,
}

/// Where a program belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Attached to this raw tracepoint.
    Tracepoint(&'static str),
    /// Attached to one of these raw tracepoints, the newer name first; where there is none, `io_uring` stays unseen.
    Uring(&'static str, &'static str),
    /// Put into this slot of the tail-call table.
    Tail(u32),
}

/// Slots of the tail-call table; [`crate::calls::Shape`] numbers begin it.
pub mod tail {
    /// A call that returned a descriptor of a file.
    pub const OPENED: u32 = 1;
    /// A call on one or two path strings.
    pub const PATHS: u32 = 2;
    /// A call on a descriptor of a file.
    pub const FD: u32 = 3;
    /// A call on a socket with an address argument, or none.
    pub const SOCKET: u32 = 4;
    /// A write through a descriptor that may be older than the run.
    pub const WRITE: u32 = 5;
    /// Only the arguments matter.
    pub const BARE: u32 = 6;
    /// `sendmmsg`.
    pub const MMSG: u32 = 7;
    /// Resolves the strings that a program before it prepared, then emits.
    pub const WALK: u32 = 8;
    /// `recvmsg` and `recvmmsg`.
    pub const RECEIVE: u32 = 9;
    /// Size of the table.
    pub const SLOTS: u32 = 16;
}

/// Every program of the object.
pub const PROGRAMS: [Program; 16] = [
    Program { name: "sys_exit", place: Place::Tracepoint("sys_exit") },
    Program { name: "process_exec", place: Place::Tracepoint("sched_process_exec") },
    Program { name: "process_fork", place: Place::Tracepoint("sched_process_fork") },
    Program { name: "process_exit", place: Place::Tracepoint("sched_process_exit") },
    Program { name: "cgroup_attach", place: Place::Tracepoint("cgroup_attach_task") },
    Program { name: "uring_submit", place: Place::Uring("io_uring_submit_req", "io_uring_submit_sqe") },
    Program { name: "uring_complete", place: Place::Uring("io_uring_complete", "io_uring_complete") },
    Program { name: "call_opened", place: Place::Tail(tail::OPENED) },
    Program { name: "call_paths", place: Place::Tail(tail::PATHS) },
    Program { name: "call_fd", place: Place::Tail(tail::FD) },
    Program { name: "call_socket", place: Place::Tail(tail::SOCKET) },
    Program { name: "call_write", place: Place::Tail(tail::WRITE) },
    Program { name: "call_bare", place: Place::Tail(tail::BARE) },
    Program { name: "call_mmsg", place: Place::Tail(tail::MMSG) },
    Program { name: "call_receive", place: Place::Tail(tail::RECEIVE) },
    Program { name: "walk", place: Place::Tail(tail::WALK) },
];

/// The ring of records.
pub const RING: &str = "RING";
/// Hash: cgroup id → run number.
pub const RUNS: &str = "RUNS";
/// Hash: process id → run number, for processes that left the run's group.
pub const LEAVERS: &str = "LEAVERS";
/// Hash: process id → run number, for every process born into a run.
pub const PROCESSES: &str = "PROCESSES";
/// Hash: (device, inode) → 1 while not written, for files that were open for writing before the run.
pub const INHERITED: &str = "INHERITED";
/// Tail-call table.
pub const TAILS: &str = "TAILS";
/// Per-processor record under construction.
pub const SCRATCH: &str = "SCRATCH";
/// Per-processor counters of records delivered, by operation.
pub const SEEN: &str = "SEEN";
/// Per-processor counters of records lost, by operation.
pub const LOST: &str = "LOST";
/// Global: field offsets.
pub const OFFSETS: &str = "OFFSETS";
/// Global: settings of this load.
pub const SETTINGS: &str = "SETTINGS";

/// Every map of the object.
pub const MAPS: [&str; 9] = [RING, RUNS, LEAVERS, PROCESSES, INHERITED, TAILS, SCRATCH, SEEN, LOST];
