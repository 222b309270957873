//! Odd ways to do plain things: births in other groups, strings that change or are not there yet, mappings that are made
//! writable later.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};

use super::memory::{native, terminated};

/// `struct clone_args` as far as it goes here.
#[derive(Default)]
#[repr(C)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// `clone3` without shared memory: the child's id, 0 in the child.
pub fn clone3(flags: u64, group: i64) -> i64 {
    let args = CloneArgs {
        flags,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: u64::try_from(group).unwrap_or(0),
        ..CloneArgs::default()
    };
    native(libc::SYS_clone3, &[&raw const args as u64, size_of::<CloneArgs>() as u64, 0, 0, 0, 0])
}

/// The same, for a child with this number.
pub fn clone_as(number: i32) -> i64 {
    let args = CloneArgs {
        exit_signal: libc::SIGCHLD as u64,
        set_tid: &raw const number as u64,
        set_tid_size: 1,
        ..CloneArgs::default()
    };
    native(libc::SYS_clone3, &[&raw const args as u64, size_of::<CloneArgs>() as u64, 0, 0, 0, 0])
}

/// Starts a program in a child that shares memory with us until then. Its wait status.
pub fn spawn(program: &[u8]) -> i64 {
    let program = terminated(program);
    let argv = [program.as_ptr().cast_mut().cast(), std::ptr::null_mut()];
    let none = [std::ptr::null_mut()];
    let mut child = 0;
    // SAFETY: terminated strings and lists.
    let failed = unsafe {
        libc::posix_spawn(
            &raw mut child,
            program.as_ptr().cast(),
            std::ptr::null(),
            std::ptr::null(),
            argv.as_ptr(),
            none.as_ptr(),
        )
    };
    if failed == 0 { super::wait(child) } else { i64::from(-failed) }
}

/// Calls `nr` with a string that lies in a file which nobody has looked into yet.
pub fn from_file(nr: i64, fd: i64) -> i64 {
    let at =
        native(libc::SYS_mmap, &[0, 4096, libc::PROT_READ as u64, libc::MAP_PRIVATE as u64, fd as u64, 0]);
    native(nr, &[at as u64, 0, 0, 0, 0, 0])
}

/// Maps a descriptor for reading, makes the mapping writable, writes to it.
pub fn write_later(fd: i64) -> i64 {
    let at =
        native(libc::SYS_mmap, &[0, 4096, libc::PROT_READ as u64, libc::MAP_SHARED as u64, fd as u64, 0]);
    if at < 0 {
        return at;
    }
    let both = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let made = native(libc::SYS_mprotect, &[at as u64, 4096, both, 0, 0, 0]);
    if made == 0 {
        // SAFETY: just mapped, and the file is at least one byte long.
        unsafe { *(at as *mut u8) = b'l' };
    }
    made
}

/// Opens a name whose last letter another thread changes all the time between that of two files. How many of the opens
/// led to the one with this number.
pub fn flip(times: u64, name: &[u8], letters: (u8, u8), number: u64) -> i64 {
    let name: Vec<AtomicU8> = terminated(name).into_iter().map(AtomicU8::new).collect();
    let last = name.len() - 2;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                name[last].store(letters.0, Ordering::Relaxed);
                name[last].store(letters.1, Ordering::Relaxed);
            }
        });
        let mut hits = 0;
        for _ in 0..times {
            let at = name.as_ptr() as u64;
            let fd = native(libc::SYS_openat, &[libc::AT_FDCWD as u64, at, 0, 0, 0, 0]);
            // SAFETY: zeroes are such a value, and it is ours to be filled.
            let mut facts: libc::stat = unsafe { std::mem::zeroed() };
            native(libc::SYS_fstat, &[fd as u64, &raw mut facts as u64, 0, 0, 0, 0]);
            hits += i64::from(facts.st_ino == number);
            native(libc::SYS_close, &[fd as u64, 0, 0, 0, 0, 0]);
        }
        is_over.store(true, Ordering::Relaxed);
        hits
    })
}

/// Not zero until the kernel clears it, at the end of the thread that asked for that.
static FIRST: AtomicI32 = AtomicI32::new(1);

/// Ends this thread and no other.
pub fn end_first() {
    native(libc::SYS_set_tid_address, &[FIRST.as_ptr() as u64, 0, 0, 0, 0, 0]);
    native(libc::SYS_exit, &[0; 6]);
}

/// Waits until a thread is on its way out of [`end_first`].
pub fn wait_for_the_first() {
    while FIRST.load(Ordering::SeqCst) != 0 {
        std::thread::yield_now();
    }
}

/// `struct uffdio_copy`.
#[repr(C)]
struct UffdCopy {
    to: u64,
    from: u64,
    len: u64,
    mode: u64,
    copied: i64,
}

/// `struct uffd_msg`, of which the address of a fault is looked at.
#[derive(Default)]
#[repr(C)]
struct UffdMessage {
    event: [u64; 2],
    address: u64,
    more: u64,
}

const PAGE: u64 = 4096;

/// Calls `nr` with a name on a page that is not there: whenever the kernel asks for it, a thread brings it, and takes it away
/// as soon as it can, so that nobody finds it who comes later.
pub fn brought(nr: i64, name: &[u8]) -> i64 {
    const API: u64 = 0xc018_aa3f;
    const REGISTER: u64 = 0xc020_aa00;
    const COPY: u64 = 0xc028_aa03;
    let both = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let map = || native(libc::SYS_mmap, &[0, PAGE, both, private, u64::MAX, 0]) as u64;
    let (at, source) = (map(), map());
    let name = terminated(name);
    // SAFETY: a page of ours, and no name is longer.
    unsafe { std::ptr::copy_nonoverlapping(name.as_ptr(), source as *mut u8, name.len()) };
    let fault = native(libc::SYS_userfaultfd, &[libc::O_CLOEXEC as u64, 0, 0, 0, 0, 0]);
    let api = [0xaau64, 0, 0];
    let range = [at, PAGE, 1, 0];
    for (request, argument) in [(API, api.as_ptr() as u64), (REGISTER, range.as_ptr() as u64)] {
        let done = native(libc::SYS_ioctl, &[fault as u64, request, argument, 0, 0, 0]);
        if fault < 0 || done < 0 {
            return fault.min(done);
        }
    }
    let is_over = AtomicBool::new(false);
    let returned = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let mut wait = libc::pollfd { fd: fault as i32, events: libc::POLLIN, revents: 0 };
                if native(libc::SYS_poll, &[&raw mut wait as u64, 1, 10, 0, 0, 0]) < 1 {
                    continue;
                }
                let mut message = UffdMessage::default();
                let len = size_of::<UffdMessage>() as u64;
                native(libc::SYS_read, &[fault as u64, &raw mut message as u64, len, 0, 0, 0]);
                let to = message.address & !(PAGE - 1);
                let mut copy = UffdCopy { to, from: source, len: PAGE, mode: 0, copied: 0 };
                native(libc::SYS_ioctl, &[fault as u64, COPY, &raw mut copy as u64, 0, 0, 0]);
                native(libc::SYS_madvise, &[at, PAGE, libc::MADV_DONTNEED as u64, 0, 0, 0]);
            }
        });
        let returned = native(nr, &[at, 0, 0, 0, 0, 0]);
        is_over.store(true, Ordering::SeqCst);
        returned
    });
    native(libc::SYS_close, &[fault as u64, 0, 0, 0, 0, 0]);
    returned
}
