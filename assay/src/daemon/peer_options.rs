//! Two things that the kernel tells of who is at the other end of a socket, and that rustix does not ask for.
#![expect(unsafe_code, reason = "rustix has no wrapper of these options")]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

/// `SO_PEERPIDFD`, since Linux 6.5.
const PEER_PIDFD: libc::c_int = 77;

/// The process that connected. `None` where the kernel does not tell; an error when it is gone.
pub fn pidfd(line: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut number: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the socket is open, and the kernel writes at most `length` bytes to `number`.
    let failed = unsafe {
        libc::getsockopt(
            line.as_raw_fd(),
            libc::SOL_SOCKET,
            PEER_PIDFD,
            (&raw mut number).cast(),
            &raw mut length,
        )
    };
    if failed != 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ENOPROTOOPT) { Ok(None) } else { Err(error) };
    }
    // SAFETY: the kernel just made this descriptor and nothing else knows its number.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(number) }))
}

/// The supplementary groups that it had then.
pub fn groups(line: &UnixStream) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut length = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: the socket is open, and the kernel writes at most `length` bytes to `groups`, which has them.
        let failed = unsafe {
            libc::getsockopt(
                line.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let count = length as usize / size_of::<u32>();
        if failed == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // It then says how many there are.
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() {
            return Err(error);
        }
        groups = vec![0u32; count];
    }
}
