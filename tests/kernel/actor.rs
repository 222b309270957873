//! The watched program: this test binary, run again. In: a script of [`Step`]s. Out: what each of them returned.
//!
//! It begins before `main`, so that the test harness does not add acts of its own, and it makes raw system calls, so that
//! no library chooses another one. Nothing here knows what a test expects.
#![expect(unsafe_code, reason = "raw system calls, by both entries, are what the actor is for")]

mod flip;
mod memory;
mod odd;
mod stress;
mod uring;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use serde::{Deserialize, Serialize};

pub use flip::{Flipped, FlippedEnd};
use memory::Shared;
pub use memory::{Arg, Part};
pub use uring::Request;

/// The first argument of a test binary that is to act; its script follows, in as many arguments as it needs.
pub const FLAG: &str = "--actor";
/// Calls that fail and are told: what lies between them is the script's.
pub const BEGIN: &str = "/assay-actor-begins";
/// See [`BEGIN`].
pub const END: &str = "/assay-actor-ends";

/// One thing to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    /// What.
    pub act: Act,
    /// Where what it returns is kept for later steps.
    pub keep: Option<u8>,
}

/// What to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Act {
    /// A system call by the 64-bit entry.
    Call(i64, Vec<Arg>),
    /// A system call by the 32-bit entry.
    Compat(i64, Vec<Arg>),
    /// A request to an `io_uring` of its own.
    Ring(Request),
    /// A process of its own for these; returns its wait status.
    Fork(Vec<Step>),
    /// A thread of its own for these; is waited for.
    Thread(Vec<Step>),
    /// Processes of their own for these, all at once.
    Together(Vec<Vec<Step>>),
    /// Opens and closes this file so many times.
    Opens(u64, Vec<u8>),
    /// Opens and closes this file for so many seconds.
    OpensFor(u64, Vec<u8>),
    /// May take so many seconds from here on.
    Patience(u32),
    /// Makes processes that run this program, one after the other.
    Spawns(u64, Vec<u8>),
    /// A mapping of this kept descriptor (length 4096) is written to.
    Map { fd: u8, shared: bool },
    /// Waits until this file is there.
    Await(Vec<u8>),
    /// Puts bytes at a place on the desk.
    Put(u16, Vec<u8>),
    /// Returns the `int` at a place on the desk.
    Take(u16),
    /// Returns the `long` at a place on the desk.
    TakeLong(u16),
    /// A process of its own for these, by `clone3` with these flags, perhaps in the group of a kept descriptor.
    Clone { flags: u64, group: Option<u8>, steps: Vec<Step> },
    /// A process of its own for these, whose first thread ends before its second does them.
    Headless(Vec<Step>),
    /// So many processes of their own at once, which do nothing until all are there.
    Crowd(u64),
    /// This call, with a name in memory that a thread of ours brings when the kernel asks for it, and takes away again.
    Brought { nr: i64, name: Vec<u8> },
    /// A process of its own for these, with this number.
    CloneAs(i32, Vec<Step>),
    /// A process that runs this program, by `vfork`.
    Spawn(Vec<u8>),
    /// This call, with a string out of a kept descriptor's file.
    FromFile { nr: i64, fd: u8 },
    /// A mapping of this kept descriptor for reading is made writable and written to.
    WriteLater(u8),
    /// Makes and then removes, moves or changes names that another thread changes; returns how many of them were the first.
    FlipNames { times: u64, how: Flipped, one: Vec<u8>, other: Vec<u8> },
    /// Connects, binds or sends to an address that another thread changes; returns how many went to the first.
    FlipEnds { times: u64, how: FlippedEnd, one: Vec<u8>, other: Vec<u8> },
    /// Opens a name that another thread changes; returns how many led to the file of this number.
    Flip { times: u64, name: Vec<u8>, letters: (u8, u8), number: u64 },
}

impl Step {
    /// Keeps what it returns.
    pub fn keep(mut self, slot: u8) -> Self {
        self.keep = Some(slot);
        self
    }
}

/// A system call.
pub fn call<const N: usize>(nr: i64, args: [Arg; N]) -> Step {
    act(Act::Call(nr, Vec::from(args)))
}

/// A system call by the 32-bit entry, by its number there.
pub fn compat<const N: usize>(nr: i64, args: [Arg; N]) -> Step {
    act(Act::Compat(nr, Vec::from(args)))
}

/// A step.
pub fn act(act: Act) -> Step {
    Step { act, keep: None }
}

/// What an actor tells at its end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Told {
    /// What each step returned, those within others after them.
    pub returns: Vec<i64>,
    /// Opens that were made by [`Act::Opens`].
    pub opens: u64,
    /// Processes that were made by [`Act::Spawns`].
    pub spawns: u64,
}

/// Runs before `main` of the test binary.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    if first.as_ref().is_some_and(|first| first == crate::served::FLAG) {
        let script: Vec<u8> = args.flat_map(OsString::into_encoded_bytes).collect();
        crate::served::serve(&script);
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    if first.as_ref().is_some_and(|first| first == crate::client::attacks::FLAG) {
        crate::client::attacks::play(args.filter_map(|arg| arg.into_string().ok()));
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    if first.is_none_or(|first| first != FLAG) {
        return;
    }
    let script: Vec<u8> = args.flat_map(OsString::into_encoded_bytes).collect();
    let code = match serde_json::from_slice::<Vec<Step>>(&script) {
        Ok(steps) => play(&steps),
        Err(_) => 99,
    };
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) };
}

fn play(steps: &[Step]) -> i32 {
    // Whatever goes wrong, it ends.
    // SAFETY: asks for a signal, nothing else.
    unsafe { libc::alarm(60) };
    let Some(shared) = Shared::new() else { return 98 };
    let mut actor = Actor { slots: [-1; 256], shared, next: 0 };
    mark(BEGIN);
    actor.all(steps);
    mark(END);
    let told = Told {
        returns: actor.shared.returns()[..actor.next].to_vec(),
        opens: actor.shared.opens(),
        spawns: actor.shared.spawns(),
    };
    let Ok(text) = serde_json::to_vec(&told) else { return 97 };
    // SAFETY: writes bytes that are ours.
    let written = unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
    i32::from(written != text.len() as isize)
}

fn mark(path: &str) {
    let path = memory::terminated(path.as_bytes());
    // SAFETY: a terminated string.
    unsafe { libc::rmdir(path.as_ptr().cast()) };
}

struct Actor {
    slots: [i64; 256],
    shared: Shared,
    next: usize,
}

/// How many steps there are in these, those within others included.
pub fn count(steps: &[Step]) -> usize {
    steps
        .iter()
        .map(|step| match &step.act {
            Act::Fork(steps)
            | Act::Thread(steps)
            | Act::Headless(steps)
            | Act::Clone { steps, .. }
            | Act::CloneAs(_, steps) => 1 + count(steps),
            Act::Together(lists) => 1 + lists.iter().map(|steps| count(steps)).sum::<usize>(),
            Act::Call(..)
            | Act::Compat(..)
            | Act::Ring(..)
            | Act::Crowd(..)
            | Act::Brought { .. }
            | Act::Opens(..)
            | Act::OpensFor(..)
            | Act::Patience(..)
            | Act::Spawns(..)
            | Act::Map { .. }
            | Act::Await(..)
            | Act::Put(..)
            | Act::Take(..)
            | Act::TakeLong(..)
            | Act::Spawn(..)
            | Act::FromFile { .. }
            | Act::WriteLater(..)
            | Act::FlipNames { .. }
            | Act::FlipEnds { .. }
            | Act::Flip { .. } => 1,
        })
        .sum()
}

impl Actor {
    fn all(&mut self, steps: &[Step]) {
        for step in steps {
            let index = self.next;
            self.next += 1;
            let returned = self.one(&step.act);
            if let Some(slot) = step.keep {
                self.slots[usize::from(slot)] = returned;
            }
            self.shared.set_return(index, returned);
        }
    }

    fn one(&mut self, act: &Act) -> i64 {
        match act {
            Act::Call(nr, args) => {
                let args = self.shared.arguments(args, &self.slots, 8);
                memory::native(*nr, &args)
            }
            Act::Compat(nr, args) => {
                let args = self.shared.arguments(args, &self.slots, 4);
                memory::compat(*nr, &args)
            }
            Act::Ring(request) => uring::ask(request, &mut self.shared, &self.slots),
            Act::Fork(steps) => {
                let child = self.fork(steps);
                wait(child)
            }
            Act::Thread(steps) => {
                let ended = std::thread::scope(|scope| scope.spawn(|| self.all(steps)).join());
                i64::from(ended.is_err())
            }
            Act::Headless(steps) => {
                let child = self.headless(steps);
                wait(child)
            }
            Act::Crowd(count) => stress::crowd(*count),
            Act::Brought { nr, name } => odd::brought(*nr, name),
            Act::Together(lists) => {
                let children: Vec<i32> = lists.iter().map(|steps| self.fork(steps)).collect();
                children.into_iter().map(wait).max().unwrap_or(0)
            }
            Act::Opens(times, path) => stress::opens(*times, path, &self.shared),
            Act::OpensFor(seconds, path) => stress::opens_for(*seconds, path, &self.shared),
            Act::Patience(seconds) => {
                // SAFETY: asks for a signal, nothing else.
                i64::from(unsafe { libc::alarm(*seconds) })
            }
            Act::Spawns(times, program) => stress::spawns(*times, program, &self.shared),
            Act::Map { fd, shared } => memory::write_through_mapping(self.slots[usize::from(*fd)], *shared),
            Act::Await(path) => {
                let path = std::path::Path::new(OsStr::from_bytes(path));
                while !path.exists() {
                    std::thread::yield_now();
                }
                0
            }
            Act::Put(at, bytes) => {
                self.shared.put(*at, bytes);
                0
            }
            Act::Take(at) => self.shared.take(*at),
            Act::TakeLong(at) => self.shared.take_long(*at),
            Act::Clone { flags, group, steps } => {
                let group = group.map_or(0, |slot| self.slots[usize::from(slot)]);
                self.cloned(steps, || odd::clone3(*flags, group))
            }
            Act::CloneAs(number, steps) => self.cloned(steps, || odd::clone_as(*number)),
            Act::Spawn(program) => odd::spawn(program),
            Act::FromFile { nr, fd } => odd::from_file(*nr, self.slots[usize::from(*fd)]),
            Act::WriteLater(fd) => odd::write_later(self.slots[usize::from(*fd)]),
            Act::FlipNames { times, how, one, other } => flip::names(*times, *how, one, other),
            Act::FlipEnds { times, how, one, other } => flip::ends(*times, *how, one, other),
            Act::Flip { times, name, letters, number } => odd::flip(*times, name, *letters, *number),
        }
    }

    /// Makes a process for these steps in this way, and waits for it.
    fn cloned(&mut self, steps: &[Step], make: impl FnOnce() -> i64) -> i64 {
        let child = make();
        if child == 0 {
            self.all(steps);
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        self.next += count(steps);
        if child < 0 { child } else { wait(child as i32) }
    }

    /// Makes a process for these steps, in which the thread that it began with does none of them.
    fn headless(&mut self, steps: &[Step]) -> i32 {
        // SAFETY: this process has one thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    odd::wait_for_the_first();
                    self.all(steps);
                    // SAFETY: ends the process.
                    unsafe { libc::_exit(0) };
                });
                odd::end_first();
            });
        }
        self.next += count(steps);
        child
    }

    /// Makes a process for these steps.
    fn fork(&mut self, steps: &[Step]) -> i32 {
        // SAFETY: this process has one thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            self.all(steps);
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        self.next += count(steps);
        child
    }
}

fn wait(child: i32) -> i64 {
    let mut status = 0;
    // SAFETY: `status` is ours.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    if waited < 0 { -1 } else { i64::from(status) }
}
