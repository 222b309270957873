//! Every map and global: who writes, who reads, what happens when it is full.

use assay_common::limits::{
    MAX_CPUS, NAME_LEN, PROCESSES_LEN, RECORD_LEN, RECORD_SLACK, RING_BYTES, STRING_LEN, WALK_LEN,
};
use assay_common::loss::COUNTERS;
use assay_common::names::tail;
use assay_common::offsets::{Offsets, Settings};
use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, ProgramArray, RingBuf};

/// Records. Written by `emit` only, read by userspace. Full: the record is counted in `LOST`.
#[map]
pub static RING: RingBuf = RingBuf::with_byte_size(RING_BYTES, 0);

/// Group id → run number. Written by userspace, read at every call on the host. Full: the run is refused at start.
#[map]
pub static RUNS: HashMap<u64, u32> = HashMap::with_max_entries(1024, 0);

/// Process id → run number, for processes that left the run's group. Full: the departure is recorded all the same,
/// and what that process does later is lost, which its `Leave` record admits.
#[map]
pub static LEAVERS: HashMap<u32, u32> = HashMap::with_max_entries(4096, 0);

/// Process id → run number, for every process seen to be born into a run. Full: a later departure of that process from
/// the group is not noticed; userspace counts processes and admits it.
#[map]
pub static PROCESSES: HashMap<u32, u32> = HashMap::with_max_entries(PROCESSES_LEN, BPF_F_NO_PREALLOC);

/// Files that were open for writing before the run. Written by userspace; the value is 1 until a write was told.
#[map]
pub static INHERITED: HashMap<FileId, u32> = HashMap::with_max_entries(1024, 0);

/// Programs by [`tail`] slot. Written by userspace once.
#[map]
pub static TAILS: ProgramArray = ProgramArray::with_max_entries(tail::SLOTS, 0);

/// One record under construction per processor: raw tracepoints run with preemption off. A plain array, because a
/// per-processor one holds at most 32 KiB an element; userspace sets its length to the number of processors.
#[map]
pub static SCRATCH: Array<Scratch> = Array::with_max_entries(MAX_CPUS, 0);

/// Records delivered, by operation.
#[map]
pub static SEEN: PerCpuArray<u64> = PerCpuArray::with_max_entries(COUNTERS, 0);

/// Records lost, by operation.
#[map]
pub static LOST: PerCpuArray<u64> = PerCpuArray::with_max_entries(COUNTERS, 0);

/// Where fields are on this kernel. Set before loading.
#[unsafe(no_mangle)]
pub static OFFSETS: Offsets = Offsets::UNKNOWN;

/// Settings of this load. Set before loading.
#[unsafe(no_mangle)]
pub static SETTINGS: Settings = Settings { level: 1, watch_writes: 0, observer: 0, padding: 0 };

/// How many entries `LEAVERS` ever had: zero spares everyone else the look-up.
#[unsafe(no_mangle)]
pub static mut LEAVER_COUNT: u32 = 0;

/// A file by its filesystem and number.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileId {
    /// `super_block.s_dev`.
    pub dev: u64,
    /// `inode.i_ino`.
    pub ino: u64,
}

/// A path to resolve; its string is in `walk`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Job {
    /// The descriptor of the directory that a relative string starts from.
    pub dir: i32,
    /// How far to go: [`mode`].
    pub mode: u32,
    /// Whether there is such a job.
    pub is_wanted: u32,
    /// Always zero.
    pub padding: u32,
}

/// How far a resolution goes.
pub mod mode {
    /// To the file, through a link at the end.
    pub const FOLLOW: u32 = 0;
    /// To the directory of the last name.
    pub const NAME: u32 = 1;
    /// To the file, but a link at the end is the file meant.
    pub const LINK: u32 = 2;
    /// Not at all: where the string starts is all that is known of a call that failed.
    pub const START: u32 = 3;
}

/// A record under construction, and what the programs of one call hand on to each other.
#[repr(C)]
pub struct Scratch {
    /// The record; what lies behind `RECORD_LEN` is room for one read too far.
    pub record: [u8; RECORD_LEN + RECORD_SLACK],
    /// The strings under resolution, the second behind the first.
    pub walk: [[u8; WALK_LEN + STRING_LEN]; 2],
    /// A name read from the kernel for comparison.
    pub name: [u8; NAME_LEN],
    /// Bytes of the record so far.
    pub at: u32,
    /// Next job.
    pub next_job: u32,
    /// The two jobs.
    pub jobs: [Job; 2],
    /// Counter index of this record.
    pub counter: u32,
    /// Always zero.
    pub padding: u32,
    /// Following one file's names.
    pub chain: crate::chain::Chain,
    /// Resolving one string.
    pub state: crate::walk::Walk,
    /// Where the descriptors of a message begin, in user memory.
    pub received: u64,
    /// How the call is read.
    pub call: assay_common::calls::Call,
}
