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
    /// Attached to this raw tracepoint, where the kernel's copies of names can be read; without it they are not seen.
    Names(&'static str),
    /// Put into this slot of the tail-call table.
    Tail(u32),
    /// Attached to the run's group, for packets that come in; without it names stay unseen.
    PacketIn,
    /// The same, for packets that go out.
    PacketOut,
    /// Attached to the run's group as this, for the addresses that calls go to; without it they are not confirmed.
    Address(u32),
    /// Attached to the run's group where a policy speaks of names, for the answers of name servers.
    AnswerIn,
    /// Attached to this hook of the security modules, by the kernel's function for it, where such programs are loaded.
    Hook(&'static str),
    /// The same, for a hook that older kernels do not have.
    NewerHook(&'static str),
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
    /// `io_submit`.
    pub const AIO: u32 = 10;
    /// unshare, setns, clone and clone3.
    pub const NAMESPACES: u32 = 11;
    /// Size of the table.
    pub const SLOTS: u32 = 16;
}

/// Where programs that are shown addresses are attached to a group: `BPF_CGROUP_*`.
pub mod attach {
    /// A connection begins.
    pub const CONNECT4: u32 = 10;
    /// The same by IPv6.
    pub const CONNECT6: u32 = 11;
    /// A datagram is sent to an address.
    pub const SEND4: u32 = 14;
    /// The same by IPv6.
    pub const SEND6: u32 = 15;
}

/// Every program of the object.
pub const PROGRAMS: [Program; 43] = [
    Program { name: "sys_exit", place: Place::Tracepoint("sys_exit") },
    Program { name: "process_exec", place: Place::Tracepoint("sched_process_exec") },
    Program { name: "process_fork", place: Place::Tracepoint("sched_process_fork") },
    Program { name: "process_exit", place: Place::Tracepoint("sched_process_exit") },
    Program { name: "cgroup_attach", place: Place::Tracepoint("cgroup_attach_task") },
    Program { name: "uring_submit", place: Place::Uring("io_uring_submit_req", "io_uring_submit_sqe") },
    Program { name: "uring_complete", place: Place::Uring("io_uring_complete", "io_uring_complete") },
    Program { name: "name_given_back", place: Place::Names("kmem_cache_free") },
    Program { name: "call_opened", place: Place::Tail(tail::OPENED) },
    Program { name: "call_paths", place: Place::Tail(tail::PATHS) },
    Program { name: "call_fd", place: Place::Tail(tail::FD) },
    Program { name: "call_socket", place: Place::Tail(tail::SOCKET) },
    Program { name: "call_write", place: Place::Tail(tail::WRITE) },
    Program { name: "call_bare", place: Place::Tail(tail::BARE) },
    Program { name: "call_mmsg", place: Place::Tail(tail::MMSG) },
    Program { name: "call_receive", place: Place::Tail(tail::RECEIVE) },
    Program { name: "call_aio", place: Place::Tail(tail::AIO) },
    Program { name: "call_namespaces", place: Place::Tail(tail::NAMESPACES) },
    Program { name: "walk", place: Place::Tail(tail::WALK) },
    Program { name: "packet_in", place: Place::PacketIn },
    Program { name: "packet_out", place: Place::PacketOut },
    Program { name: "aim_connect4", place: Place::Address(attach::CONNECT4) },
    Program { name: "aim_connect6", place: Place::Address(attach::CONNECT6) },
    Program { name: "aim_send4", place: Place::Address(attach::SEND4) },
    Program { name: "aim_send6", place: Place::Address(attach::SEND6) },
    Program { name: "answer_in", place: Place::AnswerIn },
    Program { name: "witness_open", place: Place::Hook("bpf_lsm_file_open") },
    Program { name: "witness_unlink", place: Place::Hook("bpf_lsm_path_unlink") },
    Program { name: "witness_rmdir", place: Place::Hook("bpf_lsm_path_rmdir") },
    Program { name: "witness_mkdir", place: Place::Hook("bpf_lsm_path_mkdir") },
    Program { name: "witness_mknod", place: Place::Hook("bpf_lsm_path_mknod") },
    Program { name: "witness_rename", place: Place::Hook("bpf_lsm_path_rename") },
    Program { name: "witness_link", place: Place::Hook("bpf_lsm_path_link") },
    Program { name: "witness_symlink", place: Place::Hook("bpf_lsm_path_symlink") },
    Program { name: "witness_truncate", place: Place::Hook("bpf_lsm_path_truncate") },
    Program { name: "witness_cut", place: Place::NewerHook("bpf_lsm_file_truncate") },
    Program { name: "witness_chmod", place: Place::Hook("bpf_lsm_path_chmod") },
    Program { name: "witness_chown", place: Place::Hook("bpf_lsm_path_chown") },
    Program { name: "witness_exec", place: Place::Hook("bpf_lsm_bprm_check_security") },
    Program { name: "witness_connect", place: Place::Hook("bpf_lsm_socket_connect") },
    Program { name: "witness_bind", place: Place::Hook("bpf_lsm_socket_bind") },
    Program { name: "witness_listen", place: Place::Hook("bpf_lsm_socket_listen") },
    Program { name: "witness_send", place: Place::Hook("bpf_lsm_socket_sendmsg") },
];

/// The ring of records, of the only run.
pub const RING: &str = "RING";
/// Array: slot → the ring of the run that has it.
pub const RINGS: &str = "RINGS";
/// Array: slot → the traffic of the run that has it, as [`TRAFFIC`].
pub const TRAFFICS: &str = "TRAFFICS";
/// Array: slot → [`crate::served::Served`].
pub const SERVED: &str = "SERVED";
/// One number, a section of its own: 0 while [`LEAVERS`] is empty.
pub const LEAVING: &str = ".data.leaving";
/// Hash: cgroup id → run number.
pub const RUNS: &str = "RUNS";
/// Hash: process id → run number, for processes that left the run's group.
pub const LEAVERS: &str = "LEAVERS";
/// Hash: process id → run number, for every process born into a run.
pub const PROCESSES: &str = "PROCESSES";
/// Hash: (device, run, inode) → 1 while not written, for files that were open for writing before the run; 0 for sockets.
pub const INHERITED: &str = "INHERITED";
/// Tail-call table.
pub const TAILS: &str = "TAILS";
/// Hash: task and address → the kernel's copy of the name that stood there.
pub const TAKEN: &str = "TAKEN";
/// Hash: task → the kernel's copies of the addresses that its call goes to.
pub const AIMED: &str = "AIMED";
/// Per-processor copy on its way there.
pub const COPY: &str = "COPY";
/// Per-processor record under construction.
pub const SCRATCH: &str = "SCRATCH";
/// Per-processor counters of records delivered, by operation.
pub const SEEN: &str = "SEEN";
/// Per-processor counters of records lost, by operation.
pub const LOST: &str = "LOST";
/// Per-processor places where acts like one that was sent are counted.
pub const REPEATS: &str = "REPEATS";
/// Per-processor counters of acts that were counted and not sent, by operation.
pub const REPEATED: &str = "REPEATED";
/// Per-processor counters of calls that failed for want of their object and were not sent, by operation and errno.
pub const FAILED: &str = "FAILED";
/// Hash: end → what went there and came from there, of the only run.
pub const TRAFFIC: &str = "TRAFFIC";
/// Array: slot → the traffic of ends that had no room; its `begun` is how many packets began one.
pub const BEYOND: &str = "BEYOND";
/// Global: field offsets.
pub const OFFSETS: &str = "OFFSETS";
/// Global: settings of this load.
pub const SETTINGS: &str = "SETTINGS";

/// Trie: the end of a name, backwards → its class, for names that a policy speaks of; with [`CLASS_DENIES`].
pub const CLASSES: &str = "CLASSES";
/// In a class: that names of it are denied at some port, so that an answer about one is read whole or not delivered.
pub const CLASS_DENIES: u32 = 1 << 31;
/// Hash: address → [`SERVER_PLAIN`] or [`SERVER_DENIES`], for the host's name servers.
pub const SERVERS: &str = "SERVERS";
/// No class denies.
pub const SERVER_PLAIN: u32 = 1;
/// Some class denies: what cannot be read is not delivered.
pub const SERVER_DENIES: u32 = 2;
/// Hash: (class, address) → until when its answer holds.
pub const ADDRESSES: &str = "ADDRESSES";
/// Hash: socket → the number of the byte that its next message begins with.
pub const STREAMS: &str = "STREAMS";
/// Per-processor name under reading.
pub const QUESTION: &str = "QUESTION";

/// The second witness's ring of records.
pub const WITNESS_RING: &str = "WITNESS_RING";
/// Its records under construction.
pub const WITNESS_SLOTS: &str = "WITNESS_SLOTS";
/// Hash: slot → 1 while it is in use.
pub const WITNESS_TAKEN: &str = "WITNESS_TAKEN";
/// Its counters, by slot.
pub const WITNESS_TALLY: &str = "WITNESS_TALLY";

/// Every map of the object.
pub const MAPS: [&str; 29] = [
    RING,
    RINGS,
    TRAFFICS,
    SERVED,
    RUNS,
    LEAVERS,
    PROCESSES,
    INHERITED,
    TAILS,
    TAKEN,
    AIMED,
    COPY,
    SCRATCH,
    SEEN,
    LOST,
    CLASSES,
    SERVERS,
    ADDRESSES,
    QUESTION,
    REPEATS,
    REPEATED,
    FAILED,
    STREAMS,
    TRAFFIC,
    BEYOND,
    WITNESS_RING,
    WITNESS_SLOTS,
    WITNESS_TAKEN,
    WITNESS_TALLY,
];
