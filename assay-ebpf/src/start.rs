//! Prepares the resolution of one path argument: reads its string, and takes the directory it starts from out of the
//! kernel, where a later look from outside would find another one.

use assay_common::calls::NONE;
use assay_common::kind::{SectionTag, read_state};
use assay_common::limits::{STRING_LEN, WALK_LEN, WALK_START};
use aya_ebpf::helpers::generated::{bpf_probe_read_kernel_str, bpf_probe_read_user_str};

use crate::kernel::{file_of, place_of, root_directory, working_directory};
use crate::maps::{Job, Scratch, mode};

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
#[derive(Clone, Copy)]
pub enum Text {
    /// In the program's memory.
    User(u64),
    /// In the kernel's.
    Kernel(u64),
}

/// Reads the string, adds it as requested, and sets up its job. `dir` is the descriptor a relative string starts from.
#[inline(always)]
pub fn prepare(scratch: &mut Scratch, which: Which, text: Text, dir: i32, mode: u32) {
    let index = which.index();
    // SAFETY: the walk room is longer than `WALK_START + STRING_LEN`.
    let to = unsafe { scratch.walk[index].as_mut_ptr().add(WALK_START) };
    // SAFETY: as above, for `STRING_LEN` bytes.
    let read = unsafe {
        match text {
            // A null string means the descriptor itself, for the calls that allow it; to others it is EFAULT.
            Text::User(0) => {
                *to = 0;
                1
            }
            Text::User(address) => bpf_probe_read_user_str(to.cast(), STRING_LEN as u32, address as *const _),
            Text::Kernel(address) => {
                bpf_probe_read_kernel_str(to.cast(), STRING_LEN as u32, address as *const _)
            }
        }
    };
    if read <= 0 {
        scratch.end_section(which.requested(), read_state::UNREADABLE, 0, 0);
        return;
    }
    let len = (read as u32 - 1) & (STRING_LEN as u32 - 1);
    match text {
        Text::User(0) => {}
        Text::User(_) | Text::Kernel(_) => {
            let from = scratch.walk[index].as_ptr() as u64 + WALK_START as u64;
            scratch.put_kernel_bytes::<STRING_LEN>(which.requested(), from, u64::from(len));
        }
    }
    set_job(scratch, which, dir, mode);
}

/// Sets up the job for a string that is in the walk room already.
#[inline(always)]
pub fn set_job(scratch: &mut Scratch, which: Which, dir: i32, mode: u32) {
    let index = which.index();
    let (root_dentry, root_mnt) = root_directory();
    scratch.root_dentry = root_dentry;
    scratch.root_mnt = root_mnt;
    let mut pos = WALK_START as u32;
    let first = scratch.walk[index][WALK_START];
    let (dentry, mnt) = if first == b'/' {
        match own_descriptor(&scratch.walk[index]) {
            // The link itself is meant, not where it leads.
            Some((_, after))
                if mode == crate::maps::mode::LINK
                    && scratch.walk[index][after as usize & (WALK_LEN - 1)] == 0 =>
            {
                (root_dentry, root_mnt)
            }
            Some((fd, after)) => {
                pos = after;
                place_of(file_of(fd))
            }
            None => (root_dentry, root_mnt),
        }
    } else if dir == AT_FDCWD {
        working_directory()
    } else {
        place_of(file_of(dir))
    };
    scratch.jobs[index] = Job { dentry, mnt, mode, is_wanted: 1, pos, padding: 0 };
}

/// The directory argument of a path argument.
#[inline(always)]
pub fn directory(args: &[u64; 6], at: u8) -> i32 {
    if at == NONE { AT_FDCWD } else { args[usize::from(at & 7).min(5)] as i32 }
}

/// `/proc/self/fd/N…`, `/proc/thread-self/fd/N…` and `/dev/fd/N…` are links that only the acting task can follow:
/// the descriptor, and where the string goes on.
#[inline(always)]
fn own_descriptor(text: &[u8; WALK_LEN + STRING_LEN]) -> Option<(i32, u32)> {
    let mut at = if starts(text, b"/proc/self/fd/") {
        WALK_START + 14
    } else if starts(text, b"/dev/fd/") {
        WALK_START + 8
    } else if starts(text, b"/proc/thread-self/fd/") {
        WALK_START + 21
    } else {
        return None;
    };
    let (mut fd, mut digits) = (0i32, 0);
    while digits < 7 {
        let byte = text[at];
        if !byte.is_ascii_digit() {
            break;
        }
        fd = fd * 10 + i32::from(byte - b'0');
        at += 1;
        digits += 1;
    }
    let after = text[at];
    if digits == 0 || (after != 0 && after != b'/') { None } else { Some((fd, at as u32)) }
}

#[inline(always)]
fn starts<const N: usize>(text: &[u8; WALK_LEN + STRING_LEN], prefix: &[u8; N]) -> bool {
    let mut at = 0;
    while at < N {
        if text[WALK_START + at] != prefix[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// How far to resolve: not at all for a call that failed for want of the file, as it went nowhere.
#[inline(always)]
pub fn mode_for(ret: i64, wanted: u32) -> u32 {
    const EPERM: i64 = -1;
    const EACCES: i64 = -13;
    const EROFS: i64 = -30;
    const EXDEV: i64 = -18;
    const EBUSY: i64 = -16;
    // EXDEV and EBUSY are how Landlock and mounts refuse; connect's own errors come after the socket was found.
    if ret >= 0 || ret == EPERM || ret == EACCES || ret == EROFS || ret == EXDEV || ret == EBUSY {
        wanted
    } else {
        mode::START
    }
}
