//! A mount namespace of the launcher's own.
#![expect(unsafe_code, reason = "unshare is unsafe for flags that concern shared descriptors")]

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::thread::{ThreadNameSpaceType, UnshareFlags};

/// Gives this process a user namespace of its own, which is not mapped yet, and in it its own copy of the mounts.
pub fn unshare_user_and_mounts() -> Result<(), Errno> {
    // SAFETY: as below.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }
}

/// Enters the mount namespace of that process.
pub fn enter_mounts(pidfd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::thread::move_into_thread_name_spaces(pidfd, ThreadNameSpaceType::MOUNT)
}

/// Gives this process its own copy of the mounts.
pub fn unshare_mounts() -> Result<(), Errno> {
    // SAFETY: only CLONE_FILES can break the ownership of descriptors, and it is not asked for.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
}
