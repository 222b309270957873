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
