//! The object in the kernel: loaded with this kernel's offsets, attached, its counters read, detached when dropped.

use std::collections::HashMap as StdHashMap;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use assay_common::limits::{INHERITED_LEN, LEAVERS_LEN, PROCESSES_LEN};
use assay_common::loss::failed;
use assay_common::names::{self, PROGRAMS, Place};
use assay_common::offsets::Settings;
use assay_common::served::ONLY_RUN;
use aya::maps::{MapData, RingBuf};
use zerocopy::IntoBytes as _;

use super::answers::{self, NamesWanted};
use super::begun::Begun;
use super::btf::BtfError;
use super::btf_file::BTF_PATH;
use super::counted::repeat_places;
use super::object::{Loaded, Made, ObjectError, Wanted};
use super::observer::ObserverConfig;
use super::plan::{Plan, PlanError};
use super::{slot, witness};
use crate::host::{bpf_elements, bpf_syscall, netns, random};
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

impl Failures {
    /// As the kernel half is told.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::AsText => failed::AS_TEXT,
            Self::Counted => failed::COUNTED,
            Self::Resolved => failed::RESOLVED,
        }
    }
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
    pub(super) loaded: Loaded,
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
    /// What notes them, where it was loaded by itself.
    answers: Option<Loaded>,
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
    /// Loads and attaches every program; those that see packets to the group's directory. For one run.
    pub fn load(config: &ObserverConfig) -> Result<Self, ProgramsError> {
        Self::load_begun(config, Begun::for_one(config.second_witness)?)
    }

    /// The same, where its maps are made.
    pub fn load_begun(config: &ObserverConfig, begun: Begun) -> Result<Self, ProgramsError> {
        let watch_writes = u32::from(!config.inherited.is_empty());
        let (mut programs, hooks) = Self::put(begun, config.names.is_some(), |settings| Settings {
            level: config.level,
            watch_writes,
            counts_repeats: u32::from(config.counting.repeats),
            failures: config.counting.failures.number(),
            group: config.group_id,
            ..settings
        })?;
        let inherits = (ONLY_RUN, INHERITED_LEN);
        slot::note_inherited(&programs.loaded, inherits, &config.inherited, &config.sockets)?;
        programs.attach_all(&config.group)?;
        programs.noted = config.names.as_ref().map(|wanted| programs.note_names(&config.group, wanted));
        programs.attach_witness(&hooks);
        Ok(programs)
    }

    /// The same for many runs, in groups below this one.
    pub(super) fn load_for_many(
        parent: &Path,
        sizes: &[(&'static str, u32)],
        of_runs: impl FnOnce(Settings) -> Settings,
    ) -> Result<Self, ProgramsError> {
        let obstacle = "runs that are served together have none".to_owned();
        let (mut programs, _) = Self::put(Begun::make(sizes, Some(obstacle))?, false, of_runs)?;
        programs.attach_all(parent)?;
        Ok(programs)
    }

    /// Loads the programs, and says where those of a second witness go.
    fn put(
        begun: Begun,
        is_for_names: bool,
        of_runs: impl FnOnce(Settings) -> Settings,
    ) -> Result<(Self, Hooks), ProgramsError> {
        let Begun { made, plan, hooks, obstacle } = begun;
        let settings = of_runs(settings(&plan, possible_cpus()));
        let globals = [(names::OFFSETS, plan.offsets.as_bytes()), (names::SETTINGS, settings.as_bytes())];
        let wanted = Wanted { every: true, answers: is_for_names, hooks };
        let loaded = made.load(&globals, &wanted)?;
        let programs = Self {
            links: Vec::new(),
            loaded,
            plan,
            sees_uring: false,
            unseen_packets: None,
            untaken_names: None,
            unseen_addresses: None,
            no_witness: obstacle,
            noted: None,
            answers: None,
        };
        programs.join_tails()?;
        Ok((programs, wanted.hooks))
    }

    /// Attaches what belongs to the host, and to this group.
    fn attach_all(&mut self, group: &Path) -> Result<(), ProgramsError> {
        self.attach()?;
        self.untaken_names = self.attach_names().err().map(|error| error.to_string());
        self.sees_uring = self.plan.can_read_uring() && self.attach_uring();
        // A reason is a line; the verifier's words follow it.
        let first = |why: String| why.lines().next().unwrap_or_default().to_owned();
        self.unseen_packets = self.attach_to_group(group, way_of_packets).err().map(first);
        self.unseen_addresses = self.attach_to_group(group, way_of_addresses).err().map(first);
        Ok(())
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

    fn attach_witness(&mut self, hooks: &Hooks) {
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
        let slots = if self.no_witness.is_none() { witness::slots(possible_cpus()) } else { 1 };
        witness::counts(&self.loaded, slots, skipped).map_err(|error| bad_map(names::WITNESS_TALLY, error))
    }

    fn note_names(&mut self, group: &Path, wanted: &NamesWanted) -> Result<(), String> {
        let directory = fs::File::open(group).map_err(|error| error.to_string())?;
        let loaded = self.answers.as_ref().unwrap_or(&self.loaded);
        self.links.push(answers::note(loaded, &directory, wanted)?);
        Ok(())
    }

    /// Loads the programs that note addresses of names by themselves, with maps of their own, and attaches them to a run's
    /// group.
    pub(super) fn note_names_of_one(
        &mut self,
        group: &Path,
        wanted: &NamesWanted,
    ) -> Result<(), ProgramsError> {
        let own = [names::CLASSES, names::SERVERS, names::ADDRESSES, names::STREAMS, names::QUESTION];
        let is_there = |name: &str| !own.contains(&name) && !name.starts_with(".rodata");
        let there = self.loaded.maps.iter().filter(|(name, _)| is_there(name));
        let there: Vec<_> = there.map(|(name, fd)| (name.as_str(), fd.as_fd())).collect();
        let settings = settings(&self.plan, possible_cpus());
        let globals =
            [(names::OFFSETS, self.plan.offsets.as_bytes()), (names::SETTINGS, settings.as_bytes())];
        let answers = Wanted { answers: true, ..Wanted::default() };
        self.answers = Some(Made::make(object(), &[], &there)?.load(&globals, &answers)?);
        self.noted = Some(self.note_names(group, wanted));
        Ok(())
    }

    /// The map of addresses by classes of names, where those are noted.
    pub fn addresses(&self) -> Option<BorrowedFd<'_>> {
        let loaded = self.answers.as_ref().unwrap_or(&self.loaded);
        self.noted.as_ref()?.as_ref().ok().and_then(|()| answers::addresses(loaded))
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
    pub fn arm(&self, group_id: u64, run: u32) -> Result<(), ProgramsError> {
        let map = self.loaded.map(names::RUNS)?;
        bpf_elements::set(map, &group_id.to_ne_bytes(), &run.to_ne_bytes())
            .map_err(|error| bad_map(names::RUNS, error))
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
        let map = self.loaded.aya_map(name)?;
        RingBuf::try_from(map).map_err(|e| bad_map(name, e))
    }

    /// Fills the table of programs that others go on with. The map stays with us: a table without an owner in userspace is
    /// emptied by the kernel.
    fn join_tails(&self) -> Result<(), ProgramsError> {
        let table = self.loaded.map(names::TAILS)?;
        for program in PROGRAMS {
            if let Place::Tail(slot) = program.place {
                let fd = self.program(program.name)?.as_raw_fd();
                bpf_elements::set(table, &slot.to_ne_bytes(), &fd.to_ne_bytes())
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
}

/// The kernel's functions that the second witness is attached to, with their ids.
pub(super) type Hooks = StdHashMap<&'static str, u32>;

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

pub(super) fn bad_map(map: &'static str, reason: impl std::fmt::Display) -> ProgramsError {
    ProgramsError::Map { map, reason: format!("{reason}") }
}

/// What every load is told.
fn settings(plan: &Plan, processors: u32) -> Settings {
    let netns = netns::is_told_to_packets().then(netns::own_cookie).and_then(Result::ok);
    Settings {
        level: 1,
        watch_writes: 0,
        observer: std::process::id(),
        can_ask_netns: u32::from(netns.is_some()),
        netns: netns.unwrap_or(0),
        repeat_places: repeat_places(processors),
        witness_slots: witness::slots(processors),
        takes_names: u32::from(plan.can_take_names()),
        hears_addresses: 1,
        counts_repeats: 0,
        failures: failed::AS_TEXT,
        // Keyed afresh for each, and known to nobody.
        seed: random::number(),
        group: 0,
        parent: 0,
        slots: 0,
        slot_places: 0,
        processes: PROCESSES_LEN,
        leavers: LEAVERS_LEN,
    }
}

/// Processors that may ever run; each has a record under construction.
pub(super) fn possible_cpus() -> u32 {
    aya::util::nr_cpus().map_or(assay_common::limits::MAX_CPUS, |n| n as u32)
}
