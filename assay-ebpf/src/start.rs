//! Prepares the resolution of one path argument: reads its string, and takes the directory it starts from out of the
//! kernel, where a later look from outside would find another one.

use assay_common::calls::NONE;
use assay_common::kind::{SectionTag, read_state};
use assay_common::limits::{STRING_LEN, WALK_LEN, WALK_START};
use assay_common::loss::failed;
use assay_common::result::is_told_by_result;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::{bpf_probe_read_kernel_str, bpf_probe_read_user_str};

use crate::emit::{scratch, string_length};
use crate::kernel::{file_of, place_of, root_directory, working_directory};
use crate::maps::{Job, Scratch, mode};
use crate::served::of_run;
use crate::walk::Walk;

/// `AT_FDCWD`.
pub const AT_FDCWD: i32 = -100;

/// Which of a call's two paths.
#[derive(Clone, Copy)]
pub enum Which {
    /// The first.
    A,
    /// The second.
    B,
}

impl Which {
    #[inline(always)]
    fn index(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }

    #[inline(always)]
    fn requested(self) -> SectionTag {
        match self {
            Self::A => SectionTag::RequestedA,
            Self::B => SectionTag::RequestedB,
        }
    }
}

/// Where a string is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// In the program's memory.
    User(u64),
    /// In the kernel's.
    Kernel(u64),
}

/// Reads the string, adds it as requested, and sets up its job. `dir` is the descriptor a relative string starts from.
#[inline(always)]
pub fn prepare(which: Which, text: Text, dir: i32, mode: u32) {
    let (is_kernel, address) = match text {
        Text::User(address) => (0, address),
        Text::Kernel(address) => (1, address),
    };
    add_string(which.index() as u32, is_kernel, address, dir as u32, mode);
}

/// See [`prepare`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_string(which: u32, is_kernel: u32, address: u64, dir: u32, mode: u32) -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    let which = if which == 0 { Which::A } else { Which::B };
    let index = which.index();
    // SAFETY: the walk room is longer than `WALK_START + STRING_LEN`.
    let to = unsafe { scratch.walk[index].as_mut_ptr().add(WALK_START) };
    // A null string means the descriptor itself, for the calls that allow it; to others it is EFAULT.
    let is_null = is_kernel == 0 && address == 0;
    // SAFETY: as above, for `STRING_LEN` bytes.
    let read = unsafe {
        if is_null {
            *to = 0;
            1
        } else if is_kernel == 0 {
            let is_told = crate::taken::is_told_by_name(scratch.call);
            let taken = if is_told { crate::taken::take(address, to) } else { 0 };
            if taken > 0 {
                taken
            } else {
                let read = bpf_probe_read_user_str(to.cast(), STRING_LEN as u32, address as *const _);
                // An empty one need not be taken by calls that act on the descriptor then.
                if *to != 0 {
                    crate::taken::admit(scratch);
                }
                read
            }
        } else {
            bpf_probe_read_kernel_str(to.cast(), STRING_LEN as u32, address as *const _)
        }
    };
    if read < 0 {
        scratch.end_section(which.requested() as u16, read_state::UNREADABLE, 0, 0);
        return 0;
    }
    let len = string_length(read);
    if !is_null {
        let from = scratch.walk[index].as_ptr() as u64 + WALK_START as u64;
        scratch.put_kernel_bytes::<STRING_LEN>(which.requested(), from, u64::from(len));
    }
    set_job(scratch, which, dir as i32, mode);
    0
}

/// Sets up the job for a string that is in the walk room already.
#[inline(always)]
pub fn set_job(scratch: &mut Scratch, which: Which, dir: i32, mode: u32) {
    scratch.jobs[which.index()] = Job { dir, mode, is_wanted: 1, padding: 0 };
}

/// Puts a walk to where the string of a job starts. Asked by the program that walks, in the same call of the same task:
/// the others would each carry it for each of their paths.
#[inline(always)]
pub fn begin_walk(index: u32) {
    find_start(index);
}

/// See [`begin_walk`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_start(index: u32) -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    let job = scratch.jobs[index as usize & 1];
    let text = &scratch.walk[index as usize & 1];
    let root = root_directory();
    let mut pos = WALK_START as u32;
    let (dentry, mnt) = if text[WALK_START] == b'/' {
        match own_link(text) {
            // The link itself is meant, not where it leads.
            Some((_, after)) if job.mode == mode::LINK && text[after as usize & (WALK_LEN - 1)] == 0 => root,
            Some((target, after)) => {
                pos = after;
                match target {
                    Target::Descriptor(fd) => place_of(file_of(fd)),
                    Target::Root => root,
                    Target::WorkingDirectory => working_directory(),
                }
            }
            None => root,
        }
    } else if job.dir == AT_FDCWD {
        working_directory()
    } else {
        place_of(file_of(job.dir))
    };
    scratch.state = Walk::at(index, job.mode, pos, (dentry, mnt), root);
    0
}

/// The directory argument of a path argument.
#[inline(always)]
pub fn directory(args: &[u64; 6], at: u8) -> i32 {
    if at == NONE { AT_FDCWD } else { args[usize::from(at & 7).min(5)] as i32 }
}

/// Where one of a task's own links in `/proc` leads.
#[derive(Clone, Copy)]
enum Target {
    /// `fd/N`.
    Descriptor(i32),
    /// `root`.
    Root,
    /// `cwd`.
    WorkingDirectory,
}

/// `/proc/self/fd/N…`, `root…` and `cwd…`, the same under `thread-self` and the task's own number, and `/dev/fd/N…`, are
/// links that only the acting task can follow: where they lead, and where the string goes on.
#[inline(always)]
fn own_link(text: &[u8; WALK_LEN + STRING_LEN]) -> Option<(Target, u32)> {
    if starts(text, WALK_START, b"/dev/fd/") {
        return descriptor(text, WALK_START + 8);
    }
    if !starts(text, WALK_START, b"/proc/") {
        return None;
    }
    let name = WALK_START + 6;
    let at = if starts(text, name, b"self/") {
        name + 5
    } else if starts(text, name, b"thread-self/") {
        name + 12
    } else {
        let (number, after) = number(text, name)?;
        if number as u32 != (bpf_get_current_pid_tgid() >> 32) as u32 || text[after] != b'/' {
            return None;
        }
        after + 1
    };
    if starts(text, at, b"fd/") {
        return descriptor(text, at + 3);
    }
    let target = if starts(text, at, b"root") {
        Target::Root
    } else if starts(text, at, b"cwd") {
        Target::WorkingDirectory
    } else {
        return None;
    };
    let after = match target {
        Target::Root => at + 4,
        Target::WorkingDirectory | Target::Descriptor(_) => at + 3,
    };
    let next = text[after];
    if next != 0 && next != b'/' { None } else { Some((target, after as u32)) }
}

/// The descriptor whose number is at `at`.
#[inline(always)]
fn descriptor(text: &[u8; WALK_LEN + STRING_LEN], at: usize) -> Option<(Target, u32)> {
    let (fd, after) = number(text, at)?;
    let next = text[after];
    if next != 0 && next != b'/' { None } else { Some((Target::Descriptor(fd), after as u32)) }
}

/// A decimal number of at most seven digits, and where it ends.
#[inline(always)]
fn number(text: &[u8; WALK_LEN + STRING_LEN], mut at: usize) -> Option<(i32, usize)> {
    let (mut value, mut digits) = (0i32, 0);
    while digits < 7 {
        let byte = text[at];
        if !byte.is_ascii_digit() {
            break;
        }
        value = value * 10 + i32::from(byte - b'0');
        at += 1;
        digits += 1;
    }
    if digits == 0 { None } else { Some((value, at)) }
}

#[inline(always)]
fn starts<const N: usize>(text: &[u8; WALK_LEN + STRING_LEN], from: usize, prefix: &[u8; N]) -> bool {
    let mut at = 0;
    while at < N {
        if text[from + at] != prefix[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// How far to resolve: not at all for a call that failed for want of the file, as it went nowhere; unless what it wanted
/// may be hidden.
#[inline(always)]
pub fn mode_for(ret: i64, wanted: u32) -> u32 {
    if is_told_by_result(ret) || failures() == failed::RESOLVED { wanted } else { mode::START }
}

/// What becomes of calls that failed, in the run of the record under construction.
#[inline(always)]
fn failures() -> u32 {
    let Some(scratch) = scratch() else { return failed::AS_TEXT };
    of_run!(scratch.header().run, failures)
}
