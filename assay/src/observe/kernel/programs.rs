//! The object in the kernel: loaded with this kernel's offsets, attached, its counters read, detached when dropped.

use std::collections::HashMap as StdHashMap;
use std::collections::hash_map::RandomState;
use std::ffi::CString;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use assay_common::loss::{COUNTERS, failed};
use assay_common::names::{self, PROGRAMS, Place};
use assay_common::offsets::Settings;
use aya::maps::{HashMap, Map, MapData, PerCpuArray, RingBuf};
use zerocopy::IntoBytes as _;

use super::answers::{self, NamesWanted};
use super::btf::{Btf, BtfError};
use super::btf_file::{BTF_PATH, BtfFile};
use super::counted::{Counted, Counters, hook_name, repeat_places};
use super::object::{Loaded, Made, ObjectError, Wanted};
use super::observer::ObserverConfig;
use super::plan::{Plan, PlanError, plan};
use super::{traffic, witness};
use crate::host::{bpf_syscall, hook_programs, netns};
use crate::observe::traffic::Traffic;
use crate::observe::witness::WitnessCounts;

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
    /// The kernel refused the object.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A tracepoint is not there.
    #[error("attach the observer to tracepoint `{tracepoint}`: {source}")]
    Attach {
        /// Which.
        tracepoint: &'static str,
        /// Its words.
        source: std::io::Error,
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

/// What the kernel half counts instead of sending it each time. Both leave it out of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counting {
    /// Acts like one that was sent.
    pub repeats: bool,
    /// Calls that failed without being refused.
    pub failures: Failures,
}

/// What becomes of calls that failed without being refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Failures {
    /// They are sent, and their paths are text: they went nowhere.
    #[default]
    AsText,
    /// Those that failed for want of their object are counted.
    Counted,
    /// They are sent with where their paths led: what is hidden from a run fails as if it were not there.
    Resolved,
}

/// A file that was open for writing before the run, or a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InheritedFile {
    /// Device, as `stat` has it.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

/// The kernel half in place.
pub struct Programs {
    /// Closing them detaches the programs; first of all.
    links: Vec<OwnedFd>,
    loaded: Loaded,
    plan: Plan,
    sees_uring: bool,
    unseen_packets: Option<String>,
    /// Why the kernel's own copies of names are not seen, and of addresses; `None` when they are.
    untaken_names: Option<String>,
    unseen_addresses: Option<String>,
    /// Why there is no second witness; `None` when there is one.
    no_witness: Option<String>,
    /// Whether addresses of names are noted, where that was asked for.
    noted: Option<Result<(), String>>,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs")
            .field("missing", &self.plan.missing)
            .field("noted", &self.noted)
            .field("no_witness", &self.no_witness)
            .finish_non_exhaustive()
    }
}

impl Programs {
    /// Loads and attaches every program; those that see packets to the group's directory.
    pub fn load(config: &ObserverConfig) -> Result<Self, ProgramsError> {
        let ObserverConfig { group_id, level, group, names, inherited, sockets, counting, second_witness } =
            config;
        let names = names.as_ref();
        // The maps are made while the kernel's BTF is read.
        let processors = possible_cpus();
        let obstacle =
            if *second_witness { hook_programs::obstacle() } else { Some("not asked for".to_owned()) };
        let mut sizes = vec![
            (names::SCRATCH, processors),
            (names::COPY, processors),
            (names::REPEATS, processors * repeat_places(processors)),
        ];
        sizes.extend(witness::sizes(obstacle.is_none(), processors));
        let functions = if obstacle.is_none() { witness::functions() } else { Vec::new() };
        let (made, planned) = std::thread::scope(|scope| {
            let planned = scope.spawn(|| read_plan(&functions));
            let made = Made::make(object(), &sizes);
            let plan = planned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (made, plan)
        });
        let (plan, hooks) = planned?;
        let obstacle = obstacle.or_else(|| witness::missing(&hooks));
        let netns = netns::is_told_to_packets().then(netns::own_cookie).and_then(Result::ok);
        let settings = Settings {
            level: *level,
            watch_writes: u32::from(!inherited.is_empty()),
            observer: std::process::id(),
            can_ask_netns: u32::from(netns.is_some()),
            netns: netns.unwrap_or(0),
            repeat_places: repeat_places(processors),
            witness_slots: witness::slots(processors),
            takes_names: u32::from(plan.can_take_names()),
            hears_addresses: 1,
            counts_repeats: u32::from(counting.repeats),
            failures: match counting.failures {
                Failures::AsText => failed::AS_TEXT,
                Failures::Counted => failed::COUNTED,
                Failures::Resolved => failed::RESOLVED,
            },
            // Keyed afresh for each, and known to nobody.
            seed: RandomState::new().build_hasher().finish(),
            group: *group_id,
        };
        let globals = [(names::OFFSETS, plan.offsets.as_bytes()), (names::SETTINGS, settings.as_bytes())];
        let hooks = if obstacle.is_none() { hooks } else { StdHashMap::new() };
        let wanted = Wanted { answers: names.is_some(), hooks };
        let loaded = made?.load(&globals, &wanted)?;
        let mut programs = Self {
            links: Vec::new(),
            loaded,
            plan,
            sees_uring: false,
            unseen_packets: None,
            untaken_names: None,
            unseen_addresses: None,
            no_witness: obstacle,
            noted: None,
        };
        programs.join_tails()?;
        programs.note_inherited(inherited, sockets)?;
        programs.attach()?;
        programs.untaken_names = programs.attach_names().err().map(|error| error.to_string());
        programs.sees_uring = programs.plan.can_read_uring() && programs.attach_uring();
        // A reason is a line; the verifier's words follow it.
        let first = |why: String| why.lines().next().unwrap_or_default().to_owned();
        programs.unseen_packets = programs.attach_to_group(group, way_of_packets).err().map(first);
        programs.unseen_addresses = programs.attach_to_group(group, way_of_addresses).err().map(first);
        programs.noted = names.map(|wanted| programs.note_names(group, wanted));
        programs.attach_witness(&wanted.hooks);
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

    /// Why there is no second witness; `None` when there is one.
    pub fn no_witness(&self) -> Option<&str> {
        self.no_witness.as_deref()
    }

    fn attach_witness(&mut self, hooks: &StdHashMap<&'static str, u32>) {
        if self.no_witness.is_some() {
            return;
        }
        match witness::attach(&self.loaded, hooks) {
            Ok(links) => self.links.extend(links),
            Err(why) => self.no_witness = Some(why.lines().next().unwrap_or_default().to_owned()),
        }
    }

    /// What the second witness sent and lost.
    pub fn witness_counts(&self) -> Result<WitnessCounts, ProgramsError> {
        let skipped = self.passed_over(witness::is_hook)?;
        witness::counts(&self.loaded, skipped).map_err(|error| bad_map(names::WITNESS_TALLY, error))
    }

    fn note_names(&mut self, group: &Path, wanted: &NamesWanted) -> Result<(), String> {
        let directory = fs::File::open(group).map_err(|error| error.to_string())?;
        self.links.push(answers::note(&mut self.loaded, &directory, wanted)?);
        Ok(())
    }

    /// The map of addresses by classes of names, where those are noted.
    pub fn addresses(&self) -> Option<BorrowedFd<'_>> {
        self.noted.as_ref()?.as_ref().ok().and_then(|()| answers::addresses(&self.loaded))
    }

    /// Why the kernel's own copies of names, or of addresses, are not seen; `None` when they are. Calls that have one say so.
    pub fn unseen_copies(&self) -> Option<&str> {
        self.untaken_names.as_deref().or(self.unseen_addresses.as_deref())
    }

    /// Why packets are not seen, and with them no names for addresses; `None` when they are.
    pub fn unseen_packets(&self) -> Option<&str> {
        self.unseen_packets.as_deref()
    }

    /// Begins to record what happens in this group and below it.
    pub fn arm(&mut self, group_id: u64, run: u32) -> Result<(), ProgramsError> {
        let map = self.loaded.maps.get_mut(names::RUNS).ok_or_else(|| no_map(names::RUNS))?;
        let mut runs: HashMap<_, u64, u32> = HashMap::try_from(map).map_err(|e| bad_map(names::RUNS, e))?;
        runs.insert(group_id, run, 0).map_err(|e| bad_map(names::RUNS, e))
    }

    /// Takes the ring. Once only.
    pub fn take_ring(&mut self) -> Result<RingBuf<MapData>, ProgramsError> {
        self.take_ring_named(names::RING)
    }

    /// Takes the second witness's ring. Once only.
    pub fn take_witness_ring(&mut self) -> Result<RingBuf<MapData>, ProgramsError> {
        self.take_ring_named(names::WITNESS_RING)
    }

    fn take_ring_named(&mut self, name: &'static str) -> Result<RingBuf<MapData>, ProgramsError> {
        let map = self.loaded.maps.remove(name).ok_or_else(|| no_map(name))?;
        RingBuf::try_from(map).map_err(|e| bad_map(name, e))
    }

    /// Records delivered and lost so far, by hook name.
    pub fn counters(&self) -> Result<Counters, ProgramsError> {
        Ok(Counters { seen: self.counter_map(names::SEEN)?, lost: self.counter_map(names::LOST)? })
    }

    /// What was counted and not sent.
    pub fn counted(&self) -> Result<Counted, ProgramsError> {
        let map = |name: &'static str| self.loaded.maps.get(name).ok_or_else(|| no_map(name));
        Counted::read(map(names::REPEATS)?, map(names::REPEATED)?, map(names::FAILED)?)
            .map_err(|error| bad_map(names::REPEATS, error))
    }

    /// What went over the network; `None` where packets are not seen.
    pub fn traffic(&self) -> Result<Option<Traffic>, ProgramsError> {
        if self.unseen_packets.is_some() {
            return Ok(None);
        }
        traffic::read(&self.loaded).map(Some).map_err(|reason| bad_map(names::TRAFFIC, reason))
    }

    /// How often the kernel passed over a program because it was running already on that processor, for whichever task of
    /// the host.
    pub fn skipped(&self) -> Result<u64, ProgramsError> {
        // All that the kernel gives back to its caches comes by where names do, in interrupts as well; a name that was
        // passed over is missed at the return of its call, which says so.
        self.passed_over(|place| !witness::is_hook(place) && !matches!(place, Place::Names(_)))
    }

    /// The same of programs with such a place. A kernel that does not tell has not said that it passed over none.
    fn passed_over(&self, is_asked: impl Fn(Place) -> bool) -> Result<u64, ProgramsError> {
        const WHAT: &str = "recursion_misses:";
        let untold = |program| bad_map(program, format!("the kernel does not tell `{WHAT}`"));
        let told = self.told_of_each(WHAT, is_asked)?;
        told.into_iter().map(|(program, times)| times.ok_or_else(|| untold(program))).sum()
    }

    /// How many instructions the verifier went through for each program. 0 on kernels that do not tell (before 5.16).
    pub fn verified(&self) -> Result<Vec<(&'static str, u64)>, ProgramsError> {
        self.verified_of(|place| !witness::is_hook(place))
    }

    /// The same, for the programs of the second witness.
    pub fn verified_hooks(&self) -> Result<Vec<(&'static str, u64)>, ProgramsError> {
        self.verified_of(witness::is_hook)
    }

    fn verified_of(
        &self,
        is_asked: impl Fn(Place) -> bool,
    ) -> Result<Vec<(&'static str, u64)>, ProgramsError> {
        let told = self.told_of_each("verified_insns:", is_asked)?;
        Ok(told.into_iter().map(|(program, count)| (program, count.unwrap_or(0))).collect())
    }

    /// A number that the kernel keeps of each program, for those with such a place; `None` where it tells none.
    fn told_of_each(
        &self,
        what: &str,
        is_asked: impl Fn(Place) -> bool,
    ) -> Result<Vec<(&'static str, Option<u64>)>, ProgramsError> {
        let mut all = Vec::new();
        for program in PROGRAMS.into_iter().filter(|program| is_asked(program.place)) {
            let Some(fd) = self.loaded.programs.get(program.name) else { continue };
            // The kernel tells it nowhere else that needs no newer library.
            let path = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
            let info = fs::read_to_string(&path).map_err(|error| bad_map(names::TAILS, error))?;
            let told = info.lines().find_map(|line| line.strip_prefix(what));
            all.push((program.name, told.and_then(|number| number.trim().parse().ok())));
        }
        Ok(all)
    }

    fn counter_map(&self, name: &'static str) -> Result<Vec<(&'static str, u64)>, ProgramsError> {
        let map = self.loaded.maps.get(name).ok_or_else(|| no_map(name))?;
        let counters: PerCpuArray<_, u64> = PerCpuArray::try_from(map).map_err(|e| bad_map(name, e))?;
        let mut all = Vec::new();
        for index in 0..COUNTERS {
            let Some(hook) = hook_name(index) else { continue };
            let values = counters.get(&index, 0).map_err(|e| bad_map(name, e))?;
            all.push((hook, values.iter().sum()));
        }
        Ok(all)
    }

    /// Fills the table of programs that others go on with. The map stays with us: a table without an owner in userspace is
    /// emptied by the kernel.
    fn join_tails(&self) -> Result<(), ProgramsError> {
        let table = self.loaded.maps.get(names::TAILS).ok_or_else(|| no_map(names::TAILS))?;
        let Map::ProgramArray(table) = table else { return Err(no_map(names::TAILS)) };
        for program in PROGRAMS {
            if let Place::Tail(slot) = program.place {
                let fd = self.program(program.name)?.as_raw_fd();
                bpf_syscall::map_update(table.fd().as_fd(), &slot.to_ne_bytes(), &fd.to_ne_bytes())
                    .map_err(|error| bad_map(names::TAILS, error))?;
            }
        }
        Ok(())
    }

    fn program(&self, name: &'static str) -> Result<&OwnedFd, ProgramsError> {
        self.loaded.programs.get(name).ok_or_else(|| {
            let reason = self.loaded.refused.get(name).map(ToString::to_string);
            ObjectError::Object(reason.unwrap_or_else(|| format!("it has no program `{name}`"))).into()
        })
    }

    fn attach(&mut self) -> Result<(), ProgramsError> {
        for program in PROGRAMS {
            if let Place::Tracepoint(tracepoint) = program.place {
                let link = self
                    .attach_to(program.name, tracepoint)
                    .map_err(|source| ProgramsError::Attach { tracepoint, source })?;
                self.links.push(link);
            }
        }
        Ok(())
    }

    /// Attaches what sees the kernel's own copies of names. Where it cannot be, each call that has a name says so.
    fn attach_names(&mut self) -> std::io::Result<()> {
        if !self.plan.can_take_names() {
            return Err(std::io::Error::other("this kernel keeps names in another way"));
        }
        for program in PROGRAMS {
            if let Place::Names(tracepoint) = program.place {
                self.links.push(self.attach_to(program.name, tracepoint)?);
            }
        }
        Ok(())
    }

    /// Attaches the programs for `io_uring` where this kernel has its tracepoints.
    fn attach_uring(&mut self) -> bool {
        for program in PROGRAMS {
            let Place::Uring(newer, older) = program.place else { continue };
            let link = self.attach_to(program.name, newer).or_else(|_| self.attach_to(program.name, older));
            let Ok(link) = link else { return false };
            self.links.push(link);
        }
        true
    }

    /// Attaches what belongs to the group, as it says; why not, where it cannot be.
    fn attach_to_group(&mut self, group: &Path, way: fn(Place) -> Option<u32>) -> Result<(), String> {
        let directory = fs::File::open(group).map_err(|error| error.to_string())?;
        for program in PROGRAMS {
            let Some(way) = way(program.place) else { continue };
            let fd = self.program(program.name).map_err(|error| error.to_string())?;
            let link = bpf_syscall::link_cgroup(fd.as_fd(), directory.as_fd(), way);
            self.links.push(link.map_err(|error| format!("attach to the group: {error}"))?);
        }
        Ok(())
    }

    fn attach_to(&self, name: &'static str, tracepoint: &str) -> std::io::Result<OwnedFd> {
        let program = self.program(name).map_err(std::io::Error::other)?;
        bpf_syscall::raw_tracepoint_open(program.as_fd(), &CString::new(tracepoint)?)
    }

    fn note_inherited(
        &mut self,
        files: &[InheritedFile],
        sockets: &[InheritedFile],
    ) -> Result<(), ProgramsError> {
        let map = self.loaded.maps.get_mut(names::INHERITED).ok_or_else(|| no_map(names::INHERITED))?;
        let mut noted: HashMap<_, [u64; 2], u32> =
            HashMap::try_from(map).map_err(|e| bad_map(names::INHERITED, e))?;
        let files = files.iter().map(|file| (file, 1));
        for (file, is_watched) in files.chain(sockets.iter().map(|socket| (socket, 0))) {
            let (major, minor) = (rustix::fs::major(file.dev), rustix::fs::minor(file.dev));
            // The kernel's own encoding of a device number.
            let dev = u64::from(major) << 20 | u64::from(minor);
            noted.insert([dev, file.ino], is_watched, 0).map_err(|e| bad_map(names::INHERITED, e))?;
        }
        Ok(())
    }
}

/// Where the fields are on this kernel, and which of these functions it has.
fn read_plan(functions: &[&'static str]) -> Result<(Plan, StdHashMap<&'static str, u32>), ProgramsError> {
    let file = BtfFile::open().map_err(ProgramsError::BtfFile)?;
    let btf = Btf::parse(&file)?;
    let hooks = if functions.is_empty() { StdHashMap::new() } else { btf.functions(functions) };
    Ok((plan(btf.offsets())?, hooks))
}

fn way_of_packets(place: Place) -> Option<u32> {
    match place {
        Place::PacketIn => Some(bpf_syscall::INGRESS),
        Place::PacketOut => Some(bpf_syscall::EGRESS),
        _ => None,
    }
}

fn way_of_addresses(place: Place) -> Option<u32> {
    if let Place::Address(attach) = place { Some(attach) } else { None }
}

fn no_map(map: &'static str) -> ProgramsError {
    ProgramsError::Map { map, reason: "the object has no such map".into() }
}

fn bad_map(map: &'static str, reason: impl std::fmt::Display) -> ProgramsError {
    ProgramsError::Map { map, reason: format!("{reason}") }
}

/// Processors that may ever run; each has a record under construction.
fn possible_cpus() -> u32 {
    aya::util::nr_cpus().map_or(assay_common::limits::MAX_CPUS, |n| n as u32)
}
