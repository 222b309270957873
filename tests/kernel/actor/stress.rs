//! Many calls in little time, counted by whoever makes them.

use super::memory::{Shared, terminated};

/// Opens and closes a file; adds up those that succeeded.
pub fn opens(times: u64, path: &[u8], shared: &Shared) -> i64 {
    let path = terminated(path);
    let mut made = 0;
    for _ in 0..times {
        // SAFETY: a terminated string, and a descriptor of ours.
        unsafe {
            let fd = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY);
            if fd >= 0 {
                made += 1;
                libc::close(fd as i32);
            }
        }
    }
    shared.add_opens(made);
    made as i64
}

/// Opens and closes a file until the time is over; adds up those that succeeded.
pub fn opens_for(seconds: u64, path: &[u8], shared: &Shared) -> i64 {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let mut made = 0;
    while std::time::Instant::now() < end {
        made += opens(256, path, shared);
    }
    made
}

/// Makes processes that run a program; adds up those that ended with 0.
pub fn spawns(times: u64, program: &[u8], shared: &Shared) -> i64 {
    let program = terminated(program);
    let mut made = 0;
    for _ in 0..times {
        // SAFETY: this process has one thread; the arguments are terminated strings and lists.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let argv = [program.as_ptr().cast(), std::ptr::null()];
                let none = [std::ptr::null()];
                libc::execve(program.as_ptr().cast(), argv.as_ptr(), none.as_ptr());
                libc::_exit(127);
            }
            if child > 0 && super::wait(child) == 0 {
                shared.add_spawn();
                made += 1;
            }
        }
    }
    made
}

/// Makes so many processes, which end when all are there. How many there were.
pub fn crowd(count: u64) -> i64 {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written, of which there is room.
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    let mut children = Vec::new();
    for _ in 0..count {
        // SAFETY: this process has one thread; the child reads into a byte of its own, to the end of the pipe, and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::close(ends[1]);
                let mut byte = 0u8;
                libc::read(ends[0], (&raw mut byte).cast(), 1);
                libc::_exit(0);
            }
            if child > 0 {
                children.push(child);
            }
        }
    }
    // SAFETY: descriptors of ours.
    unsafe { (libc::close(ends[1]), libc::close(ends[0])) };
    children.into_iter().filter(|child| super::wait(*child) == 0).count() as i64
}
