//! Every map and global: who writes, who reads, what happens when it is full.

use core::cell::UnsafeCell;

use assay_common::limits::{
    ADDRESSES_LEN, AIMED_LEN, AIMS_LEN, HOST_LEN, INHERITED_LEN, LEAVERS_LEN, MAX_CPUS, NAME_LEN,
    PROCESSES_LEN, RECORD_LEN, RECORD_SLACK, REPEAT_PLACES, RING_BYTES, STRING_LEN, TAKEN_LEN, TRAFFIC_LEN,
    WALK_LEN, WITNESS_RING_BYTES, WITNESS_SLOTS as SLOTS,
};
use assay_common::loss::{COUNTERS, FAILURES};
use assay_common::names::tail;
use assay_common::offsets::{Offsets, Settings};
use assay_common::record::{RepeatEntry, WitnessTally};
use assay_common::served::Served;
use assay_common::traffic::{TrafficEnd, TrafficTally};
use aya_ebpf::bindings::bpf_map_type::BPF_MAP_TYPE_ARRAY_OF_MAPS;
use aya_ebpf::bindings::{BPF_F_NO_PREALLOC, bpf_map_def};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray, ProgramArray, RingBuf};

/// Records of the only run. Written by `emit` and `packet` only, read by userspace, which makes it small where several runs
/// are served. Full: the record is counted in `LOST`.
#[map]
pub static RING: RingBuf = RingBuf::with_byte_size(RING_BYTES, 0);

/// Slot → the ring of the run that has it. Written by userspace; none: the record is counted in `LOST`.
#[map]
pub static RINGS: OfMaps = OfMaps::new();

/// Slot → the traffic of the run that has it. Written by userspace; none: it is counted in `BEYOND`.
#[map]
pub static TRAFFICS: OfMaps = OfMaps::new();

/// Slot → what belongs to the run that has it; userspace sets its length, as of all that has a place for each slot.
#[map]
pub static SERVED: Array<Served> = Array::with_max_entries(1, 0);

/// Group id → run number. Written by userspace, read at every call on the host. Full: the run is refused at start.
#[map]
pub static RUNS: HashMap<u64, u32> = HashMap::with_max_entries(1024, 0);

/// Process id → run number, for processes that left the run's group. Full, or its run has its share of it: the departure is
/// recorded all the same, and what that process does later is lost, which its `Leave` record admits.
#[map]
pub static LEAVERS: HashMap<u32, u32> = HashMap::with_max_entries(LEAVERS_LEN, 0);

/// Process id → run number, for every process seen to be born into a run. Full, or its run has its share of it: a later
/// departure of that process from the group is not noticed, which its slot counts and userspace admits.
#[map]
pub static PROCESSES: HashMap<u32, u32> = HashMap::with_max_entries(PROCESSES_LEN, BPF_F_NO_PREALLOC);

/// Files that were open for writing before the run, and sockets. Written by userspace; the value is 1 until a write was
/// told, and 0 for a socket.
#[map]
pub static INHERITED: HashMap<FileId, u32> = HashMap::with_max_entries(INHERITED_LEN, BPF_F_NO_PREALLOC);

/// Programs by [`tail`] slot. Written by userspace once.
#[map]
pub static TAILS: ProgramArray = ProgramArray::with_max_entries(tail::SLOTS, 0);

/// The kernel's copies of names, between the moment when it gives them back and the return of the call: see
/// [`crate::taken`]. Full: the return says that the name is not confirmed.
#[map]
pub static TAKEN: HashMap<TakenName, [u8; STRING_LEN]> = HashMap::with_max_entries(TAKEN_LEN, 0);

/// Task → the addresses that its call goes to, as the kernel took them: see [`crate::aimed`]. Full: the oldest goes, and
/// where that is a call's that has not returned, its return says that the address is not confirmed.
#[map]
pub static AIMED: LruHashMap<u32, Aim> = LruHashMap::with_max_entries(AIMS_LEN, 0);

/// One such copy on its way into [`TAKEN`] per processor.
#[map]
pub static COPY: Array<[u8; STRING_LEN]> = Array::with_max_entries(MAX_CPUS, 0);

/// One record under construction per processor: raw tracepoints run with preemption off. A plain array, because a
/// per-processor one holds at most 32 KiB an element; userspace sets its length to the number of processors.
#[map]
pub static SCRATCH: Array<Scratch> = Array::with_max_entries(MAX_CPUS, 0);

/// Records delivered, by slot and operation.
#[map]
pub static SEEN: PerCpuArray<u64> = PerCpuArray::with_max_entries(COUNTERS, 0);

/// Records lost, by slot and operation.
#[map]
pub static LOST: PerCpuArray<u64> = PerCpuArray::with_max_entries(COUNTERS, 0);

/// The end of a name, backwards → its class. Written by userspace once; a name that is not there is of no concern.
#[map]
pub static CLASSES: LpmTrie<[u8; HOST_LEN], u32> = LpmTrie::with_max_entries(1024, 0);

/// The host's name servers: an IPv4 address as it is mapped into IPv6. Written by userspace once.
#[map]
pub static SERVERS: HashMap<[u8; 16], u32> = HashMap::with_max_entries(64, 0);

/// Until when an address was given to a name of a class, by `bpf_ktime_get_ns`. Full: the answer is not delivered.
#[map]
pub static ADDRESSES: HashMap<Given, u64> = HashMap::with_max_entries(ADDRESSES_LEN, BPF_F_NO_PREALLOC);

/// Connection to a name server → the number of the byte that its next message begins with. Full: the oldest goes, and the
/// answers of that connection allow nothing more.
#[map]
pub static STREAMS: LruHashMap<u64, u32> = LruHashMap::with_max_entries(1024, 0);

/// One name under reading per processor: packets come in one after the other on each.
#[map]
pub static QUESTION: PerCpuArray<Question> = PerCpuArray::with_max_entries(1, 0);

/// Where acts like one that was sent are counted: for each slot as many places for each processor as the settings say;
/// userspace sets its length. Written by [`crate::again`], read by userspace at the end. Two that meet in one place take turns.
#[map]
pub static REPEATS: Array<RepeatEntry> = Array::with_max_entries(REPEAT_PLACES, 0);

/// What went to each end and came from it, of the only run. Written by [`crate::traffic`], read by userspace at the end. Full: what more ends
/// there are is counted in `BEYOND`.
#[map]
pub static TRAFFIC: HashMap<TrafficEnd, TrafficTally> =
    HashMap::with_max_entries(TRAFFIC_LEN, BPF_F_NO_PREALLOC);

/// The traffic of ends that `TRAFFIC` had no room for, by slot.
#[map]
pub static BEYOND: Array<TrafficTally> = Array::with_max_entries(1, 0);

/// Acts counted and not sent, by slot and operation.
#[map]
pub static REPEATED: PerCpuArray<u64> = PerCpuArray::with_max_entries(COUNTERS, 0);

/// Calls that failed for want of their object and were not sent, by slot, operation and [`FAILURES`].
#[map]
pub static FAILED: PerCpuArray<u64> = PerCpuArray::with_max_entries(COUNTERS * FAILURES.len() as u32, 0);

/// Records of the second witness. Written by [`crate::witness`] only, read by userspace, which makes it small where there is
/// no second witness. Full: the record is counted in `WITNESS_TALLY`.
#[map]
pub static WITNESS_RING: RingBuf = RingBuf::with_byte_size(WITNESS_RING_BYTES, 0);

/// Records of the second witness under construction. A hook can be interrupted by another task, so that a slot belongs to
/// whoever has taken it, and not to a processor. Userspace sets its length.
#[map]
pub static WITNESS_SLOTS: Array<Scratch> = Array::with_max_entries(SLOTS, 0);

/// Slot → 1 while it is taken.
#[map]
pub static WITNESS_TAKEN: HashMap<u32, u32> = HashMap::with_max_entries(SLOTS, 0);

/// What was sent and what was not, by slot; written by whoever has it.
#[map]
pub static WITNESS_TALLY: Array<WitnessTally> = Array::with_max_entries(SLOTS, 0);

/// Where fields are on this kernel. Set before loading.
#[unsafe(no_mangle)]
pub static OFFSETS: Offsets = Offsets::UNKNOWN;

/// Settings of this load. Set before loading.
#[unsafe(no_mangle)]
pub static SETTINGS: Settings = Settings {
    level: 1,
    watch_writes: 0,
    observer: 0,
    can_ask_netns: 0,
    netns: 0,
    counts_repeats: 0,
    failures: 0,
    repeat_places: 1,
    witness_slots: 1,
    takes_names: 0,
    hears_addresses: 0,
    seed: 0,
    group: 0,
    parent: 0,
    slots: 0,
    slot_places: 1,
    processes: PROCESSES_LEN,
    leavers: LEAVERS_LEN,
};

/// Whether `LEAVERS` has entries: zero spares everyone else the look-up. A section of its own, so that userspace can set it
/// back.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.leaving")]
pub static mut LEAVING: u32 = 0;

/// A map of maps: what is in it is a map like the one that userspace makes it with.
#[repr(transparent)]
pub struct OfMaps(UnsafeCell<bpf_map_def>);

// SAFETY: nothing here reads or writes it: to the kernel it is a name. It stands in a cell to lie in one section with the
// other maps.
unsafe impl Sync for OfMaps {}

impl OfMaps {
    /// One place; userspace sets its length.
    const fn new() -> Self {
        let size = size_of::<u32>() as u32;
        Self(UnsafeCell::new(bpf_map_def {
            type_: BPF_MAP_TYPE_ARRAY_OF_MAPS,
            key_size: size,
            value_size: size,
            max_entries: 1,
            map_flags: 0,
            id: 0,
            pinning: 0,
        }))
    }
}

/// A run's file by its filesystem and number.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileId {
    /// `super_block.s_dev`.
    pub dev: u32,
    /// The run.
    pub run: u32,
    /// `inode.i_ino`.
    pub ino: u64,
}

/// Which name of which task's call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TakenName {
    /// The task.
    pub tid: u32,
    /// How it is known: see [`crate::taken`].
    pub order: u32,
    /// Where it stood in the program's memory.
    pub given: u64,
}

/// The addresses that a call goes to.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Aim {
    /// The socket, by a number that no other one ever has.
    pub cookie: u64,
    /// How many there were.
    pub count: u32,
    /// Always zero.
    pub padding: u32,
    /// The first of them, and the last.
    pub ends: [End; AIMED_LEN],
}

/// An address and port.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct End {
    /// As it stands in a packet; of IPv4 the first word.
    pub address: [u32; 4],
    /// As it stands in a packet.
    pub port: u16,
    /// `AF_INET` or `AF_INET6`.
    pub family: u16,
}

/// An address, for a class of names.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Given {
    /// The class.
    pub class: u32,
    /// The address; an IPv4 address as it is mapped into IPv6.
    pub address: [u8; 16],
}

/// The name that an answer is about, and how far reading has come.
#[repr(C)]
pub struct Question {
    /// The name's bytes, and what follows them.
    pub wire: [u8; HOST_LEN],
    /// Its letters backwards, with room for a key's length in front and for what a key has behind it.
    pub reversed: [u8; 4 * HOST_LEN],
    /// Where the message begins in the packet.
    pub base: u32,
    /// Where the next record begins.
    pub at: u32,
    /// Letters left of the label.
    pub left: u32,
    /// Letters so far.
    pub len: u32,
    /// Bytes of the whole name; 0 while its end was not found.
    pub end: u32,
    /// Its class.
    pub class: u32,
    /// Whether an address could not be noted.
    pub has_failed: u32,
    /// Whether it has letters that stand in no policy.
    pub is_odd: u32,
    /// Whether a record of the answer could not be read.
    pub is_short: u32,
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
    /// Whether the addresses of a `sendmmsg` are the kernel's own copies.
    pub aimed: u32,
    /// The registers of the call, as far as its number.
    pub words: [u64; 16],
    /// Following one file's names.
    pub chain: crate::chain::Chain,
    /// Resolving one string.
    pub state: crate::walk::Walk,
    /// Whether an act like this one was sent before.
    pub again: crate::again::Again,
    /// Where the descriptors of a message begin, in user memory.
    pub received: u64,
    /// How the call is read.
    pub call: assay_common::calls::Call,
}
