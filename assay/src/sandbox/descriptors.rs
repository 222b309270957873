//! Descriptor numbers: taking over one that was passed to us, closing those that were not meant for us.
#![expect(unsafe_code, reason = "a number handed over by exec becomes an owned descriptor only by assertion")]

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use super::inherited::Inherited;

/// Takes over descriptor `number`, which our parent process left open for us, and closes it on exec.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD reads a flag of a number that may or may not be open; it touches no memory.
    if number < 3 || unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: it is open, it is no standard stream, and in a process that has just started nothing else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// The descriptors above stderr that are open now. Asked before we open any, these are what we inherited.
pub fn open_above_stderr() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let numbers: Vec<RawFd> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|n| *n > 2)
        .collect();
    // The directory itself was one of them and is closed by now.
    // SAFETY: F_GETFD reads a flag of a number that may or may not be open; it touches no memory.
    numbers.into_iter().filter(|number| unsafe { libc::fcntl(*number, libc::F_GETFD) } != -1).collect()
}

/// Closes these numbers, which nothing in this process owns: the child has its own copies, and a copy of ours
/// would keep a pipe open that the child has closed.
pub fn close_inherited(numbers: &[RawFd]) {
    for number in numbers {
        // SAFETY: the caller read these numbers before this process opened anything, so no value owns them.
        unsafe { libc::close(*number) };
    }
}

/// These numbers, which stay open for as long as the caller keeps what it borrows.
pub fn borrow_all<'a>(numbers: &[RawFd]) -> Vec<BorrowedFd<'a>> {
    // SAFETY: as in `close_inherited`: they are the command's, and stay open until it has its own copies.
    numbers.iter().map(|number| unsafe { BorrowedFd::borrow_raw(*number) }).collect()
}

/// Puts `/dev/null` in the place of our stdin and stdout: they are the command's now, and a copy of ours would keep
/// a pipe open that the command has closed. Where that fails they stay, which only delays what others see.
pub fn let_go_of_stdio() {
    if let Ok(null) = std::fs::File::open("/dev/null") {
        rustix::stdio::dup2_stdin(&null).ok();
    }
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        rustix::stdio::dup2_stdout(&null).ok();
    }
}

/// The same for stderr, in a process that has nothing to say there.
pub fn let_go_of_stderr() {
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        rustix::stdio::dup2_stderr(&null).ok();
    }
}

/// Closes everything above stderr except `keep`.
pub fn close_all_but(keep: RawFd) {
    let keep = keep as libc::c_uint;
    // SAFETY: called first thing in a process that owns nothing above stderr but `keep`. Both calls only close.
    unsafe {
        if keep > 3 {
            libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, keep - 1, 0 as libc::c_uint);
        }
        libc::syscall(libc::SYS_close_range, keep + 1, libc::c_uint::MAX, 0 as libc::c_uint);
    }
}

/// Closes those of stdin, stdout and stderr that were closed when we were started, just before `execve`.
pub fn close_what_was_closed(inherited: &Inherited) {
    for number in (0..3).filter(|number| inherited.closed & (1 << number) != 0) {
        // SAFETY: Rust's runtime put `/dev/null` there; this process prints nothing more before it is replaced.
        unsafe { libc::close(number) };
    }
}

/// Whether fewer than so many can be opened besides those that are open.
pub fn are_fewer_than(wanted: u64) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").map_or(wanted, |entries| entries.count() as u64);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.is_some_and(|limit| limit < open + wanted)
}
