//! The ways to hook, as data, and what it takes to attach one.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};

use super::super::bpf::{self, Kind, Map};
use super::super::group::Group;
use super::super::programs::{self, Body, Hook, SAVED_LEN, Surroundings, assemble, counter};
use super::super::tracepoint::{self, Tracefs};

/// A system call with a tracepoint pair of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub name: &'static str,
    pub nr: i32,
    pub arguments: u8,
}

pub const OPENAT: Call = Call { name: "openat", nr: libc::SYS_openat as i32, arguments: 4 };
pub const GETPPID: Call = Call { name: "getppid", nr: libc::SYS_getppid as i32, arguments: 0 };

/// A way to hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// One program at raw `sys_exit`.
    RawExit,
    /// Programs at raw `sys_enter` and raw `sys_exit`.
    RawBoth,
    /// One program at `sys_exit` with types.
    TypedExit,
    /// Programs at the tracepoint pair of this call.
    Pair(Call),
}

impl Way {
    /// The four, with `openat` as the call that is asked for.
    pub const ALL: [Self; 4] = [Self::RawExit, Self::RawBoth, Self::TypedExit, Self::Pair(OPENAT)];

    /// How it is called in the tables.
    pub fn name(self) -> String {
        match self {
            Self::RawExit => "raw `sys_exit`".to_owned(),
            Self::RawBoth => "raw `sys_enter` + `sys_exit`".to_owned(),
            Self::TypedExit => "`tp_btf` `sys_exit`".to_owned(),
            Self::Pair(call) => format!("`sys_enter_{0}` + `sys_exit_{0}`", call.name),
        }
    }

    /// Its programs when they do the same at both ends.
    pub fn same(self, body: Body) -> Vec<(Hook, Body)> {
        self.hooks().into_iter().map(|hook| (hook, body)).collect()
    }

    /// Its programs when number and arguments of `openat` are at hand at the end.
    pub fn whole(self) -> Vec<(Hook, Body)> {
        let hooks = self.hooks();
        match hooks[..] {
            [entry, exit] => vec![(entry, Body::Save(OPENAT.nr)), (exit, Body::Restore)],
            _ => vec![(hooks[0], Body::Fetch(OPENAT.nr))],
        }
    }

    /// Where its programs hang.
    pub fn hooks(self) -> Vec<Hook> {
        match self {
            Self::RawExit => vec![Hook::RawExit],
            Self::RawBoth => vec![Hook::RawEnter, Hook::RawExit],
            Self::TypedExit => vec![Hook::TypedExit],
            Self::Pair(call) => vec![Hook::CallEnter(call.arguments), Hook::CallExit],
        }
    }

    /// The call whose pair it is.
    fn call(self) -> &'static str {
        match self {
            Self::Pair(call) => call.name,
            Self::RawExit | Self::RawBoth | Self::TypedExit => "",
        }
    }
}

/// The maps, and the numbers of tracepoints.
pub struct Workbench {
    runs: Map,
    saved: Map,
    counts: Map,
    level: u32,
    pub tracefs: Tracefs,
    typedef: u32,
}

/// Programs in place; dropping it detaches them.
pub struct Attached(Vec<OwnedFd>);

impl Attached {
    /// How many descriptors it takes.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Workbench {
    /// Makes the maps, with this group as the run.
    pub fn new(group: &Group) -> Result<Self> {
        // As many as threads are in a call at once; nothing here is measured with more than a few.
        const THREADS: u32 = 1024;
        let runs = Map::new(bpf::HASH, 8, 4, 16).context("make a map")?;
        runs.set(&group.id.to_ne_bytes(), &1u32.to_ne_bytes())?;
        Ok(Self {
            runs,
            saved: Map::new(bpf::HASH, 8, SAVED_LEN, THREADS)?,
            counts: Map::new(bpf::ARRAY, 4, 8, counter::ALL)?,
            level: group.level,
            tracefs: Tracefs::new()?,
            typedef: tracepoint::btf_typedef("btf_trace_sys_exit")?,
        })
    }

    /// Loads and attaches these programs of a way.
    pub fn attach(&self, way: Way, programs: &[(Hook, Body)]) -> Result<Attached> {
        let attach = |&(hook, body): &(Hook, Body)| {
            self.attach_one(way.call(), hook, body).with_context(|| format!("attach {}", way.name()))
        };
        programs.iter().map(attach).collect::<Result<_>>().map(Attached)
    }

    /// Whether a program for the start of programs can go on with the same programs as one for the end of calls.
    pub fn can_share(&self, hook: Hook) -> Result<bool> {
        let table = Map::new(bpf::PROGRAMS, 4, 4, 1)?;
        let _of_calls = self.load(hook, Body::GoOn(table.number()))?;
        let kind = match hook {
            Hook::TypedExit => Kind::Typed(tracepoint::btf_typedef("btf_trace_sched_process_exec")?),
            _ => Kind::Raw,
        };
        match bpf::load(kind, &assemble(hook, Body::GoOn(table.number()), self.surroundings())) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(false),
            Err(error) => Err(error).context("share a table of programs"),
        }
    }

    /// Loads one program.
    pub fn load(&self, hook: Hook, body: Body) -> io::Result<OwnedFd> {
        let kind = match hook {
            Hook::RawEnter | Hook::RawExit => Kind::Raw,
            Hook::TypedExit => Kind::Typed(self.typedef),
            Hook::CallEnter(_) | Hook::CallExit => Kind::Event,
        };
        bpf::load(kind, &assemble(hook, body, self.surroundings()))
    }

    fn attach_one(&self, call: &str, hook: Hook, body: Body) -> Result<OwnedFd> {
        let program = self.load(hook, body)?;
        let raw = |name: &CStr| bpf::attach_raw(&program, Some(name));
        let link = match hook {
            Hook::RawEnter => raw(c"sys_enter")?,
            Hook::RawExit => raw(c"sys_exit")?,
            Hook::TypedExit => bpf::attach_raw(&program, None)?,
            Hook::CallEnter(_) => bpf::attach_event(&program, self.event("enter", call)?)?,
            Hook::CallExit => bpf::attach_event(&program, self.event("exit", call)?)?,
        };
        // The attachment keeps its program.
        Ok(link)
    }

    fn event(&self, end: &str, call: &str) -> Result<u64> {
        let name = format!("sys_{end}_{call}");
        self.tracefs.syscall(&name)?.with_context(|| format!("this kernel has no tracepoint {name}"))
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings {
            runs: self.runs.number(),
            saved: self.saved.number(),
            counts: self.counts.number(),
            level: self.level,
        }
    }

    /// Reads the counters, and sets them to 0.
    pub fn take_counts(&self) -> Result<[u64; counter::ALL as usize]> {
        let mut counts = [0; programs::counter::ALL as usize];
        for (index, count) in counts.iter_mut().enumerate() {
            let key = index as u32;
            *count = self.counts.read(key)?;
            self.counts.set(&key.to_ne_bytes(), &0u64.to_ne_bytes())?;
        }
        Ok(counts)
    }
}
