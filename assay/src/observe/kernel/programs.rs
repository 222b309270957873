//! The object in the kernel: loaded with this kernel's offsets, attached, its counters read, detached when dropped.

use std::fs;

use assay_common::calls::Op;
use assay_common::loss::{COUNTERS, EXEC, EXIT, FORK, LEAVE, URING};
use assay_common::names::{self, PROGRAMS, Place};
use assay_common::offsets::Settings;
use aya::maps::{HashMap, MapData, PerCpuArray, ProgramArray, RingBuf};
use aya::programs::RawTracePoint;
use aya::{Ebpf, EbpfLoader, VerifierLogLevel};
use zerocopy::IntoBytes as _;

use super::btf::{Btf, BtfError};
use super::plan::{Plan, PlanError, plan};

/// Threads that load programs.
const LOADERS: usize = 4;

/// Where a kernel shows its own BTF.
pub const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// The object, checked in; its digest is in the evidence.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);
static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/assay.bpf.o"));

/// The bytes of the object that observes.
pub fn object() -> &'static [u8] {
    &OBJECT.0
}

/// Why the kernel half could not be put in place.
#[derive(Debug, thiserror::Error)]
pub enum ProgramsError {
    /// No BTF to read offsets from.
    #[error("open {BTF_PATH}: {0}")]
    BtfFile(std::io::Error),
    /// BTF that is not understood.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// A kernel that lacks a field.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The kernel refused the object's maps.
    #[error("load the observer: {0}")]
    Load(#[source] Box<aya::EbpfError>),
    /// The kernel refused a program.
    #[error("load the observer's program `{name}`: {source}")]
    Program {
        /// Which.
        name: &'static str,
        /// Its words, the verifier's included.
        source: Box<aya::programs::ProgramError>,
    },
    /// A tracepoint is not there.
    #[error("attach the observer to tracepoint `{tracepoint}`: {source}")]
    Attach {
        /// Which.
        tracepoint: &'static str,
        /// Its words.
        source: Box<aya::programs::ProgramError>,
    },
    /// A map could not be written or read.
    #[error("use the observer's map `{map}`: {reason}")]
    Map {
        /// Which.
        map: &'static str,
        /// Why.
        reason: String,
    },
}

/// A file that was open for writing before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InheritedFile {
    /// Device, as `stat` has it.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

/// The kernel half in place.
pub struct Programs {
    ebpf: Ebpf,
    plan: Plan,
    sees_uring: bool,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").field("missing", &self.plan.missing).finish_non_exhaustive()
    }
}

impl Programs {
    /// Loads and attaches every program, for groups at `level` below the root of the hierarchy.
    pub fn load(level: u32, inherited: &[InheritedFile]) -> Result<Self, ProgramsError> {
        // A new loader reads and parses all of the kernel's BTF, whether or not it is to be used; ours meanwhile looks
        // up what it needs.
        let (mut loader, plan) = std::thread::scope(|scope| {
            let planned = scope.spawn(read_plan);
            let loader = EbpfLoader::new();
            let plan = planned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (loader, plan)
        });
        let plan = plan?;
        let settings = Settings {
            level,
            watch_writes: u32::from(!inherited.is_empty()),
            observer: std::process::id(),
            padding: 0,
        };
        let mut ebpf = loader
            .btf(None)
            // The verifier writes its log even where nobody takes it, and that is half of its time. Without it a refusal
            // has only its errno.
            .verifier_log_level(VerifierLogLevel::DISABLE)
            .override_global(names::OFFSETS, plan.offsets.as_bytes(), true)
            .override_global(names::SETTINGS, settings.as_bytes(), true)
            .map_max_entries(names::SCRATCH, possible_cpus())
            .load(object())
            .map_err(|error| ProgramsError::Load(Box::new(error)))?;
        attach(&mut ebpf)?;
        let sees_uring = plan.can_read_uring() && attach_uring(&mut ebpf)?;
        let mut programs = Self { ebpf, plan, sees_uring };
        programs.watch_inherited(inherited)?;
        Ok(programs)
    }

    /// Fields this kernel does not have and some records need.
    pub fn missing_fields(&self) -> &[String] {
        &self.plan.missing
    }

    /// Whether requests to an `io_uring` are seen.
    pub fn sees_uring(&self) -> bool {
        self.sees_uring
    }

    /// Begins to record what happens in this group and below it.
    pub fn arm(&mut self, group_id: u64, run: u32) -> Result<(), ProgramsError> {
        let map = self.ebpf.map_mut(names::RUNS).ok_or_else(|| no_map(names::RUNS))?;
        let mut runs: HashMap<_, u64, u32> = HashMap::try_from(map).map_err(|e| bad_map(names::RUNS, e))?;
        runs.insert(group_id, run, 0).map_err(|e| bad_map(names::RUNS, e))
    }

    /// Takes the ring. Once only.
    pub fn take_ring(&mut self) -> Result<RingBuf<MapData>, ProgramsError> {
        let map = self.ebpf.take_map(names::RING).ok_or_else(|| no_map(names::RING))?;
        RingBuf::try_from(map).map_err(|e| bad_map(names::RING, e))
    }

    /// Records delivered and lost so far, by hook name.
    pub fn counters(&self) -> Result<Counters, ProgramsError> {
        Ok(Counters { seen: self.counter_map(names::SEEN)?, lost: self.counter_map(names::LOST)? })
    }

    fn counter_map(&self, name: &'static str) -> Result<Vec<(&'static str, u64)>, ProgramsError> {
        let map = self.ebpf.map(name).ok_or_else(|| no_map(name))?;
        let counters: PerCpuArray<_, u64> = PerCpuArray::try_from(map).map_err(|e| bad_map(name, e))?;
        let mut all = Vec::new();
        for index in 0..COUNTERS {
            let Some(hook) = hook_name(index) else { continue };
            let values = counters.get(&index, 0).map_err(|e| bad_map(name, e))?;
            all.push((hook, values.iter().sum()));
        }
        Ok(all)
    }

    fn watch_inherited(&mut self, files: &[InheritedFile]) -> Result<(), ProgramsError> {
        if files.is_empty() {
            return Ok(());
        }
        let map = self.ebpf.map_mut(names::INHERITED).ok_or_else(|| no_map(names::INHERITED))?;
        let mut watched: HashMap<_, [u64; 2], u32> =
            HashMap::try_from(map).map_err(|e| bad_map(names::INHERITED, e))?;
        for file in files {
            let (major, minor) = (rustix::fs::major(file.dev), rustix::fs::minor(file.dev));
            // The kernel's own encoding of a device number.
            let dev = u64::from(major) << 20 | u64::from(minor);
            watched.insert([dev, file.ino], 1, 0).map_err(|e| bad_map(names::INHERITED, e))?;
        }
        Ok(())
    }
}

/// Where the fields are on this kernel.
fn read_plan() -> Result<Plan, ProgramsError> {
    let btf = fs::read(BTF_PATH).map_err(ProgramsError::BtfFile)?;
    Ok(plan(Btf::parse(&btf)?.offsets())?)
}

/// Records delivered and lost, by hook name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// Delivered to the ring.
    pub seen: Vec<(&'static str, u64)>,
    /// Lost, because the ring was full or the record too long.
    pub lost: Vec<(&'static str, u64)>,
}

fn attach(ebpf: &mut Ebpf) -> Result<(), ProgramsError> {
    load_all(ebpf)?;
    let mut tails = Vec::new();
    for program in PROGRAMS {
        if let Place::Tail(slot) = program.place {
            let fd = raw(ebpf, program.name)?.fd().map_err(|source| refused(program.name, source))?;
            tails.push((slot, fd.try_clone().map_err(|error| bad_map(names::TAILS, error))?));
        }
    }
    // The map stays with `ebpf`: a tail-call table without an owner in userspace is emptied by the kernel.
    let map = ebpf.map_mut(names::TAILS).ok_or_else(|| no_map(names::TAILS))?;
    let mut table = ProgramArray::try_from(map).map_err(|e| bad_map(names::TAILS, e))?;
    for (slot, fd) in &tails {
        table.set(*slot, fd, 0).map_err(|e| bad_map(names::TAILS, e))?;
    }
    for program in PROGRAMS {
        if let Place::Tracepoint(tracepoint) = program.place {
            raw(ebpf, program.name)?
                .attach(tracepoint)
                .map_err(|source| ProgramsError::Attach { tracepoint, source: Box::new(source) })?;
        }
    }
    Ok(())
}

/// Attaches the programs for `io_uring` where this kernel has its tracepoints.
fn attach_uring(ebpf: &mut Ebpf) -> Result<bool, ProgramsError> {
    for program in PROGRAMS {
        let Place::Uring(newer, older) = program.place else { continue };
        let raw = raw(ebpf, program.name)?;
        if raw.attach(newer).is_err() && raw.attach(older).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Loads every program, several at a time: nearly all of it is the verifier's work, and it works in parallel.
fn load_all(ebpf: &mut Ebpf) -> Result<(), ProgramsError> {
    let (sender, results) = std::sync::mpsc::channel();
    let waiting = std::sync::Mutex::new(ebpf.programs_mut().collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for _ in 0..LOADERS {
            let (sender, waiting) = (sender.clone(), &waiting);
            scope.spawn(move || {
                loop {
                    let next = waiting.lock().ok().and_then(|mut waiting| waiting.pop());
                    let Some((name, program)) = next else { break };
                    let loaded = <&mut RawTracePoint>::try_from(program).and_then(RawTracePoint::load);
                    if let Err(source) = loaded {
                        let name =
                            PROGRAMS.iter().find(|known| known.name == name).map_or("?", |known| known.name);
                        // The receiver outlives the scope.
                        sender.send(refused(name, source)).ok();
                    }
                }
            });
        }
    });
    drop(sender);
    results.try_iter().next().map_or(Ok(()), Err)
}

fn raw<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut RawTracePoint, ProgramsError> {
    let program = ebpf
        .program_mut(name)
        .ok_or_else(|| bad_map(names::TAILS, format!("the object has no program `{name}`")))?;
    program.try_into().map_err(|source| refused(name, source))
}

fn refused(name: &'static str, source: aya::programs::ProgramError) -> ProgramsError {
    ProgramsError::Program { name, source: Box::new(source) }
}

fn no_map(map: &'static str) -> ProgramsError {
    ProgramsError::Map { map, reason: "the object has no such map".into() }
}

fn bad_map(map: &'static str, reason: impl std::fmt::Display) -> ProgramsError {
    ProgramsError::Map { map, reason: format!("{reason}") }
}

/// The hook a counter belongs to.
fn hook_name(index: u32) -> Option<&'static str> {
    match index {
        URING => Some("io_uring"),
        EXEC => Some("exec_start"),
        FORK => Some("fork"),
        EXIT => Some("exit"),
        LEAVE => Some("leave"),
        _ => Op::from_number(u16::try_from(index).ok()?).map(Op::as_str),
    }
}

/// Processors that may ever run; each has a record under construction.
fn possible_cpus() -> u32 {
    aya::util::nr_cpus().map_or(assay_common::limits::MAX_CPUS, |n| n as u32)
}
