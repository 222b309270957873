//! Which network namespace this process is in, by the number that the kernel's programs know it by.

use std::io;
use std::os::fd::AsRawFd as _;

use super::bpf_syscall::{INGRESS, PROG_TYPE_CGROUP_SKB, prog_load};

/// The number (`SO_NETNS_COOKIE`, since Linux 5.14). No other namespace ever has it.
#[expect(unsafe_code, reason = "rustix has no wrapper of this option")]
pub fn own_cookie() -> io::Result<u64> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv6Addr::UNSPECIFIED, 0))
        .or_else(|_| std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0)))?;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the socket is open, and the kernel writes at most `length` bytes to `cookie`.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(cookie)
}

/// Whether a program that sees packets may ask for their network namespace (since Linux 6.15).
pub fn is_told_to_packets() -> bool {
    // call bpf_get_netns_cookie; r0 = 1; exit
    let trial = [0x85 | 122 << 32, 0xb7 | 1 << 32, 0x95];
    prog_load(PROG_TYPE_CGROUP_SKB, INGRESS, "assay_trial", &trial).is_ok()
}
