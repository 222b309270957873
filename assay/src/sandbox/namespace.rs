//! A mount namespace of the launcher's own.
#![expect(unsafe_code, reason = "unshare is unsafe for flags that concern shared descriptors")]

use rustix::io::Errno;
use rustix::thread::UnshareFlags;

/// Gives this process its own copy of the mounts.
pub fn unshare_mounts() -> Result<(), Errno> {
    // SAFETY: only CLONE_FILES can break the ownership of descriptors, and it is not asked for.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
}
