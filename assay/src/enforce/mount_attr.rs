//! `mount_setattr(2)`: options of a mount and all beneath it, at once.
#![expect(unsafe_code, reason = "neither rustix nor libc wraps this call")]

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt as _;

/// `MOUNT_ATTR_RDONLY`
pub const READ_ONLY: u64 = 0x1;
/// `MOUNT_ATTR_NODEV`
pub const NO_DEVICES: u64 = 0x4;
/// `MOUNT_ATTR_NOEXEC`
pub const NO_EXECUTION: u64 = 0x8;

/// `struct mount_attr` in include/uapi/linux/mount.h.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Sets options on the mount at `path`, and on every mount beneath it.
pub fn set_recursively(path: &OsStr, options: u64) -> io::Result<()> {
    let path = CString::new(path.as_bytes())?;
    let attributes = MountAttributes { set: options, clear: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the path is NUL-terminated, the structure is the kernel's first version of it and its size is passed
    // along; both outlive the call, which keeps neither.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            std::ptr::from_ref(&attributes),
            std::mem::size_of::<MountAttributes>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
