//! Puts the object into the kernel: its maps made, its programs past the verifier.
//!
//! aya reads the object and turns its references into descriptors. Making and loading is done here, because aya's own
//! loader first reads and parses all of the kernel's BTF, which is megabytes that nobody asked for.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use assay_common::limits::{LEAST_RING_BYTES, TRAFFIC_LEN};
use assay_common::names::{self, PROGRAMS, Place, Program};
use assay_common::traffic::{TrafficEnd, TrafficTally};
use aya::maps::{Map, MapData};
use aya_obj::btf::BtfFeatures;
use aya_obj::generated::bpf_insn;
use aya_obj::{EbpfSectionKind, Function, Object};

use super::witness;
use crate::host::bpf_elements;
use crate::host::bpf_syscall::{
    self, LSM_MAC, MapShape, PROG_TYPE_CGROUP_SKB, PROG_TYPE_CGROUP_SOCK_ADDR, PROG_TYPE_LSM,
    PROG_TYPE_RAW_TRACEPOINT, TypedProgram,
};

/// The most threads that load programs.
const LOADERS: usize = 4;

/// Why the object could not be put into the kernel.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The object itself is not understood.
    #[error("load the observer: {0}")]
    Object(String),
    /// The kernel refused a map, or the types.
    #[error("make the observer's map `{name}`: {source}")]
    Map {
        /// Which.
        name: String,
        /// Its words.
        source: std::io::Error,
    },
    /// The kernel refused a program.
    #[error("load the observer's program `{name}`: {source}\n{words}")]
    Program {
        /// Which.
        name: &'static str,
        /// Its errno.
        source: std::io::Error,
        /// The end of what its verifier says, from the second line on: one fact is one line.
        words: String,
    },
}

/// The object with its maps in the kernel; its programs are still here.
pub struct Made {
    object: Object,
    maps: HashMap<String, OwnedFd>,
}

/// The object in the kernel.
pub struct Loaded {
    /// Maps by name.
    pub maps: HashMap<String, OwnedFd>,
    /// Programs by name.
    pub programs: HashMap<&'static str, OwnedFd>,
    /// Why those are not there that a run can be observed without.
    pub refused: HashMap<&'static str, ObjectError>,
}

impl Loaded {
    /// A map by its name.
    pub fn map(&self, name: &str) -> Result<BorrowedFd<'_>, ObjectError> {
        let found = self.maps.get(name).map(OwnedFd::as_fd);
        found.ok_or_else(|| ObjectError::Object(format!("it has no map `{name}`")))
    }

    /// The same, as aya has it.
    pub fn aya_map(&self, name: &str) -> Result<Map, ObjectError> {
        let copy = self.map(name)?.try_clone_to_owned().map_err(|source| refused(name, source))?;
        aya_map(copy).map_err(|error| ObjectError::Object(format!("{name}: {error}")))
    }
}

/// A map as aya has it.
pub fn aya_map(fd: OwnedFd) -> Result<Map, String> {
    MapData::from_fd(fd).and_then(Map::from_map_data).map_err(|error| error.to_string())
}

/// Makes a ring of so many bytes, as a map of rings holds it.
pub fn make_ring(bytes: u32) -> std::io::Result<OwnedFd> {
    bpf_syscall::map_create_as(&MapShape {
        map_type: bpf_syscall::MAP_TYPE_RINGBUF,
        key_size: 0,
        value_size: 0,
        max_entries: bytes,
        flags: 0,
        inner: None,
        name: names::RINGS,
    })
}

/// Makes what one run's traffic is counted in, as a map of such holds it.
pub fn make_traffic() -> std::io::Result<OwnedFd> {
    bpf_syscall::map_create_as(&MapShape {
        map_type: bpf_syscall::MAP_TYPE_HASH,
        key_size: size_of::<TrafficEnd>() as u32,
        value_size: size_of::<TrafficTally>() as u32,
        max_entries: TRAFFIC_LEN,
        flags: bpf_syscall::NO_PREALLOC,
        inner: None,
        name: names::TRAFFICS,
    })
}

/// Which programs are loaded.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Those that every run has.
    pub every: bool,
    /// Those that read answers of name servers.
    pub answers: bool,
    /// Those of the second witness: the kernel's functions that they are attached to, with their ids.
    pub hooks: HashMap<&'static str, u32>,
}

impl Wanted {
    fn includes(&self, place: Place) -> bool {
        match place {
            Place::AnswerIn => self.answers,
            Place::Hook(function) | Place::NewerHook(function) => self.hooks.contains_key(function),
            Place::Tracepoint(_)
            | Place::Names(_)
            | Place::Uring(..)
            | Place::Tail(_)
            | Place::PacketIn
            | Place::PacketOut
            | Place::Address(_) => self.every,
        }
    }
}

/// The sections that are made with what `set_globals` puts into them.
fn is_read_only(map: &aya_obj::Map) -> bool {
    map.section_kind() == EbpfSectionKind::Rodata
}

/// What passed the verifier, and what did not and need not.
type Verified = (HashMap<&'static str, OwnedFd>, HashMap<&'static str, ObjectError>);

impl Made {
    /// Reads the object and makes its maps, but the one that holds globals, with the sizes that are given by name.
    /// Those that are there already are taken as they are.
    pub fn make(
        bytes: &[u8],
        sizes: &[(&str, u32)],
        there: &[(&str, BorrowedFd<'_>)],
    ) -> Result<Self, ObjectError> {
        let mut object = Object::parse(bytes).map_err(not_understood)?;
        let mut made = HashMap::new();
        for (name, map) in &mut object.maps {
            if let Some((_, size)) = sizes.iter().find(|(known, _)| known == name) {
                map.set_max_entries(*size);
            }
            let one = there.iter().find(|(known, _)| known == name);
            if let Some((_, fd)) = one {
                made.insert(name.clone(), fd.try_clone_to_owned().map_err(|source| refused(name, source))?);
            } else if !is_read_only(map) {
                made.insert(name.clone(), make_map(name, map)?);
            }
        }
        Ok(Self { object, maps: made })
    }

    /// Sets the globals, and hands every program that is wanted to the verifier.
    pub fn load(mut self, globals: &[(&str, &[u8])], wanted: &Wanted) -> Result<Loaded, ObjectError> {
        let globals = globals.iter().map(|(name, bytes)| (*name, (*bytes, true))).collect();
        self.object.patch_map_data(globals).map_err(not_understood)?;
        for (name, map) in &self.object.maps {
            if is_read_only(map) {
                let fd = make_map(name, map)?;
                bpf_syscall::map_freeze(fd.as_fd()).map_err(|source| refused(name, source))?;
                self.maps.insert(name.clone(), fd);
            }
        }
        let types = self.types()?;
        self.leave_out(wanted);
        self.relocate()?;
        let (programs, refused) = self.verify(types.as_fd(), wanted)?;
        Ok(Loaded { maps: self.maps, programs, refused })
    }

    /// Forgets the programs that are not wanted, which then cost nothing more.
    fn leave_out(&mut self, wanted: &Wanted) {
        for program in PROGRAMS.into_iter().filter(|program| !wanted.includes(program.place)) {
            if let Some(unwanted) = self.object.programs.remove(program.name) {
                self.object.functions.remove(&unwanted.function_key());
            }
        }
    }

    /// The object's own types, which tell the verifier where its functions are.
    fn types(&mut self) -> Result<OwnedFd, ObjectError> {
        // What every kernel knows that has what the programs need besides; the newer kinds are written as older ones.
        let known = BtfFeatures::new(true, true, true, false, true, true, true, false);
        let types = self.object.fixup_and_sanitize_btf(&known).map_err(not_understood)?;
        let bytes = types.ok_or_else(|| ObjectError::Object("it has no types".into()))?.to_bytes();
        bpf_syscall::btf_load(&bytes).map_err(|source| refused("types", source))
    }

    /// Puts descriptors in the place of names.
    fn relocate(&mut self) -> Result<(), ObjectError> {
        let text: HashSet<usize> = self.object.functions.keys().map(|(section, _)| *section).collect();
        let definitions = std::mem::take(&mut self.object.maps);
        let maps = definitions
            .iter()
            .filter_map(|(name, map)| self.maps.get(name).map(|fd| (name.as_str(), fd.as_raw_fd(), map)));
        self.object.relocate_maps(maps, &text).map_err(not_understood)?;
        self.object.relocate_calls(&text).map_err(not_understood)
    }

    /// Hands every program to the verifier, several at a time, the longest first: nearly all of it is the verifier's
    /// work, and it works in parallel.
    fn verify(&self, types: BorrowedFd<'_>, wanted: &Wanted) -> Result<Verified, ObjectError> {
        let mut waiting = Vec::new();
        let mut functions = HashMap::new();
        for program in PROGRAMS.into_iter().filter(|one| wanted.includes(one.place)) {
            let found = self.object.programs.get(program.name);
            let function = found.and_then(|found| self.object.functions.get(&found.function_key()));
            let function = function
                .ok_or_else(|| ObjectError::Object(format!("it has no program `{}`", program.name)))?;
            functions.insert(program.name, function);
            waiting.push((program, function));
        }
        waiting.sort_by_key(|(_, function)| function.instructions.len());
        let (waiting, done) = (Mutex::new(waiting), Mutex::new(Vec::new()));
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(LOADERS);
        let work = || {
            loop {
                let next = waiting.lock().ok().and_then(|mut waiting| waiting.pop());
                let Some((program, function)) = next else { break };
                let loaded = self.load_program(program, function, types, wanted);
                if let Ok(mut done) = done.lock() {
                    done.push((program, loaded));
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (mut programs, mut refused) = (HashMap::new(), HashMap::new());
        for (program, loaded) in done {
            let name = program.name;
            let source = match loaded {
                Ok(fd) => {
                    programs.insert(name, fd);
                    continue;
                }
                Err(source) => source,
            };
            let words = self.typed(program, functions[name], types, wanted, bpf_syscall::prog_refusal);
            let error = ObjectError::Program { name, source, words: words.unwrap_or_default() };
            // Without these a run is observed all the same; who attaches them tells that they are not there.
            match program.place {
                Place::Tracepoint(_) | Place::Uring(..) | Place::Tail(_) => return Err(error),
                Place::Names(_)
                | Place::PacketIn
                | Place::PacketOut
                | Place::Address(_)
                | Place::AnswerIn
                | Place::Hook(_)
                | Place::NewerHook(_) => {
                    refused.insert(name, error);
                }
            }
        }
        Ok((programs, refused))
    }

    fn load_program(
        &self,
        program: Program,
        function: &Function,
        types: BorrowedFd<'_>,
        wanted: &Wanted,
    ) -> std::io::Result<OwnedFd> {
        self.typed(program, function, types, wanted, bpf_syscall::prog_load_typed)?
    }

    /// Does something with a program as the kernel takes it.
    fn typed<T>(
        &self,
        program: Program,
        function: &Function,
        types: BorrowedFd<'_>,
        wanted: &Wanted,
        act: impl FnOnce(&TypedProgram<'_>) -> T,
    ) -> std::io::Result<T> {
        let instructions = words(function);
        let license = CString::new(self.object.license.as_bytes())?;
        Ok(act(&TypedProgram {
            prog_type: match program.place {
                Place::PacketIn | Place::PacketOut | Place::AnswerIn => PROG_TYPE_CGROUP_SKB,
                Place::Tracepoint(_) | Place::Names(_) | Place::Uring(..) | Place::Tail(_) => {
                    PROG_TYPE_RAW_TRACEPOINT
                }
                Place::Address(_) => PROG_TYPE_CGROUP_SOCK_ADDR,
                Place::Hook(_) | Place::NewerHook(_) => PROG_TYPE_LSM,
            },
            target: match program.place {
                // No function of the kernel's; the verifier asks only as what.
                Place::Address(attach) => Some((0, attach)),
                place => witness::function(place)
                    .and_then(|function| wanted.hooks.get(function))
                    .map(|id| (*id, LSM_MAC)),
            },
            name: program.name,
            license: &license,
            instructions: &instructions,
            types,
            functions: &function.func_info.func_info_bytes(),
            function_size: function.func_info_rec_size,
        }))
    }
}

/// The instructions as the kernel takes them.
fn words(function: &Function) -> Vec<u64> {
    let word = |one: &bpf_insn| {
        u64::from(one.code)
            | u64::from(one.dst_reg()) << 8
            | u64::from(one.src_reg()) << 12
            | u64::from(one.off as u16) << 16
            | u64::from(one.imm as u32) << 32
    };
    function.instructions.iter().map(word).collect()
}

/// Every program with the functions it calls, as the kernel takes it, but for the descriptors of its maps.
#[cfg(test)]
pub fn linked(bytes: &[u8]) -> Result<Vec<(&'static str, Vec<u64>)>, ObjectError> {
    let mut object = Object::parse(bytes).map_err(not_understood)?;
    let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    object.relocate_calls(&text).map_err(not_understood)?;
    let instructions =
        |program: &Program| words(&object.functions[&object.programs[program.name].function_key()]);
    Ok(PROGRAMS.iter().map(|program| (program.name, instructions(program))).collect())
}

/// Makes a map as the object wants it, with its first content.
fn make_map(name: &str, map: &aya_obj::Map) -> Result<OwnedFd, ObjectError> {
    let inner = match name {
        names::RINGS => Some(make_ring(LEAST_RING_BYTES)),
        names::TRAFFICS => Some(make_traffic()),
        _ => None,
    };
    let inner = inner.transpose().map_err(|source| refused(name, source))?;
    let shape = MapShape {
        map_type: map.map_type(),
        key_size: map.key_size(),
        value_size: map.value_size(),
        max_entries: map.max_entries(),
        flags: map.map_flags(),
        inner: inner.as_ref().map(OwnedFd::as_fd),
        name,
    };
    let fd = bpf_syscall::map_create_as(&shape).map_err(|source| refused(name, source))?;
    // A new map is all zero.
    if map.data().iter().any(|byte| *byte != 0) {
        bpf_elements::set(fd.as_fd(), &0u32.to_ne_bytes(), map.data())
            .map_err(|source| refused(name, source))?;
    }
    Ok(fd)
}

fn not_understood(error: impl std::fmt::Display) -> ObjectError {
    ObjectError::Object(error.to_string())
}

fn refused(name: &str, source: std::io::Error) -> ObjectError {
    ObjectError::Map { name: name.to_owned(), source }
}
