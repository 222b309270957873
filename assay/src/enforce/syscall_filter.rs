//! A filter on the system calls that no file or address rule reaches: sockets of other families, and typing into a
//! terminal.
//!
//! `socket` is let through for UNIX, netlink route and, unless the command is to have no network, IPv4 and IPv6; `TIOCSTI` and `TIOCLINUX` are refused. Both for
//! 64-bit and 32-bit calls. What it refuses ends in EACCES. Everything else passes.
#![expect(unsafe_code, reason = "prctl(PR_SET_SECCOMP) has no safe wrapper")]

use std::io;

use libc::sock_filter;

use super::grant::Filter;

// `struct seccomp_data` in include/uapi/linux/seccomp.h; both architectures are little-endian.
pub(super) const NUMBER: u32 = 0;
pub(super) const ARCHITECTURE: u32 = 4;
pub(super) const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// What the numbers of one calling convention are.
struct Calls {
    architecture: u32,
    socket: u32,
    socketpair: u32,
    ioctl: u32,
    /// The call that carries many others, on old 32-bit machines.
    socketcall: Option<u32>,
}

// `AUDIT_ARCH_*` in include/uapi/linux/audit.h.
#[cfg(target_arch = "x86_64")]
const CONVENTIONS: [Calls; 2] = [
    Calls { architecture: 0xc000_003e, socket: 41, socketpair: 53, ioctl: 16, socketcall: None },
    Calls { architecture: 0x4000_0003, socket: 359, socketpair: 360, ioctl: 54, socketcall: Some(102) },
];
#[cfg(target_arch = "aarch64")]
const CONVENTIONS: [Calls; 2] = [
    Calls { architecture: 0xc000_00b7, socket: 198, socketpair: 199, ioctl: 29, socketcall: None },
    Calls { architecture: 0x4000_0028, socket: 281, socketpair: 288, ioctl: 54, socketcall: None },
];

/// `AF_UNIX`, `AF_INET`, `AF_INET6`: any protocol.
const FAMILIES: [u32; 3] = [1, 2, 10];
/// Only `AF_UNIX`.
const FAMILIES_WITHOUT_INTERNET: [u32; 1] = [1];
/// `AF_NETLINK`
const NETLINK: u32 = 16;
/// `NETLINK_ROUTE`
const ROUTE: u32 = 0;
/// `TIOCSTI` and `TIOCLINUX`
const TERMINAL_INPUT: [u32; 2] = [0x5412, 0x541c];
/// `SYS_SOCKET` of `socketcall`
const SOCKETCALL_SOCKET: u32 = 1;

pub(super) const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
pub(super) const RETURN: u16 = 0x06;
/// `SECCOMP_RET_ALLOW`
pub(super) const ALLOW: u32 = 0x7fff_0000;
/// `SECCOMP_RET_ERRNO` with EACCES, and with ENOSYS.
const REFUSE: u32 = 0x0005_000d;
const UNKNOWN: u32 = 0x0005_0026;

pub(super) fn statement(code: u16, value: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k: value }
}

/// Runs `body` when what was loaded is `value`, else goes on behind it.
pub(super) fn when(value: u32, body: Vec<sock_filter>) -> Vec<sock_filter> {
    let over = u8::try_from(body.len()).expect("a body of this program is short");
    let mut code = vec![sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: over, k: value }];
    code.extend(body);
    code
}

/// The program. Pure.
fn program(families: &[u32]) -> Vec<sock_filter> {
    let mut code = vec![statement(LOAD, ARCHITECTURE)];
    for calls in CONVENTIONS {
        code.extend(when(calls.architecture, of_convention(&calls, families)));
    }
    code.push(statement(RETURN, UNKNOWN));
    code
}

fn of_convention(calls: &Calls, families: &[u32]) -> Vec<sock_filter> {
    let mut socket = vec![statement(LOAD, argument(0))];
    for family in families.iter().copied() {
        socket.extend(when(family, vec![statement(RETURN, ALLOW)]));
    }
    let mut netlink = vec![statement(LOAD, argument(2))];
    netlink.extend(when(ROUTE, vec![statement(RETURN, ALLOW)]));
    netlink.push(statement(RETURN, REFUSE));
    socket.extend(when(NETLINK, netlink));
    socket.push(statement(RETURN, REFUSE));

    let mut ioctl = vec![statement(LOAD, argument(1))];
    for request in TERMINAL_INPUT {
        ioctl.extend(when(request, vec![statement(RETURN, REFUSE)]));
    }
    ioctl.push(statement(RETURN, ALLOW));

    let mut code = vec![statement(LOAD, NUMBER)];
    code.extend(when(calls.ioctl, ioctl));
    code.extend(when(calls.socketpair, socket.clone()));
    code.extend(when(calls.socket, socket));
    if let Some(socketcall) = calls.socketcall {
        // Its arguments lie in memory that another thread can change, so a socket is not made this way.
        let mut body = vec![statement(LOAD, argument(0))];
        body.extend(when(SOCKETCALL_SOCKET, vec![statement(RETURN, REFUSE)]));
        body.push(statement(RETURN, ALLOW));
        code.extend(when(socketcall, body));
    }
    code.push(statement(RETURN, ALLOW));
    code
}

/// Filters this thread and everything it starts. `no_new_privs` must be set.
pub fn apply(filter: Filter) -> io::Result<()> {
    match filter {
        Filter::None => Ok(()),
        Filter::Families => install(program(&FAMILIES)),
        Filter::NoInternet => install(program(&FAMILIES_WITHOUT_INTERNET)),
    }
}

/// Adds a program to those that every call of this thread, and of what it starts, goes through.
pub(super) fn install(mut code: Vec<sock_filter>) -> io::Result<()> {
    let filter = libc::sock_fprog {
        len: u16::try_from(code.len()).expect("the program is short"),
        filter: code.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program, which is alive and as long as `len` says, and keeps no pointer.
    let result =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, std::ptr::from_ref(&filter)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether this kernel takes filters: asked by giving it none, which it answers with EFAULT if it does.
pub fn is_possible() -> bool {
    // SAFETY: a null pointer is what makes this a question; the kernel reads nothing of ours.
    let result = unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, std::ptr::null::<libc::sock_fprog>())
    };
    result == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// Runs a program the way the kernel would.
#[cfg(test)]
pub(super) fn run(code: &[sock_filter], architecture: u32, number: u32, arguments: [u32; 3]) -> u32 {
    let mut loaded = 0;
    let mut at = 0;
    loop {
        let now = code[at];
        at += 1;
        match now.code {
            LOAD => {
                loaded = match now.k {
                    NUMBER => number,
                    ARCHITECTURE => architecture,
                    offset => arguments[((offset - 16) / 8) as usize],
                }
            }
            JUMP_IF_EQUAL => at += usize::from(if loaded == now.k { now.jt } else { now.jf }),
            RETURN => return now.k,
            other => panic!("instruction {other:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(families: &[u32], architecture: u32, number: u32, arguments: [u32; 3]) -> u32 {
        super::run(&program(families), architecture, number, arguments)
    }

    #[test]
    fn only_the_known_families_are_let_through() {
        for calls in CONVENTIONS {
            let socket =
                |family, protocol| run(&FAMILIES, calls.architecture, calls.socket, [family, 1, protocol]);
            for (family, protocol) in [(1, 0), (2, 6), (10, 17), (16, 0)] {
                assert_eq!(socket(family, protocol), ALLOW, "family {family}");
            }
            for (family, protocol) in [(16, 9), (17, 3), (40, 0), (38, 0), (31, 0), (0, 0), (u32::MAX, 0)] {
                assert_eq!(socket(family, protocol), REFUSE, "family {family}");
            }
            let offline =
                |family| run(&FAMILIES_WITHOUT_INTERNET, calls.architecture, calls.socket, [family, 1, 0]);
            assert_eq!([1, 2, 10, 16].map(offline), [ALLOW, REFUSE, REFUSE, ALLOW]);
            assert_eq!(run(&FAMILIES, calls.architecture, calls.socketpair, [1, 1, 0]), ALLOW);
            assert_eq!(run(&FAMILIES, calls.architecture, calls.ioctl, [0, 0x5401, 0]), ALLOW);
            assert_eq!(run(&FAMILIES, calls.architecture, calls.ioctl, [0, 0x5412, 0]), REFUSE);
            if let Some(socketcall) = calls.socketcall {
                assert_eq!(run(&FAMILIES, calls.architecture, socketcall, [1, 0, 0]), REFUSE);
                assert_eq!(run(&FAMILIES, calls.architecture, socketcall, [3, 0, 0]), ALLOW);
            }
            assert_eq!(run(&FAMILIES, calls.architecture, 0, [0; 3]), ALLOW);
        }
        assert_eq!(run(&FAMILIES, 0x1234, 0, [0; 3]), UNKNOWN);
    }

    #[test]
    fn this_kernel_takes_filters() {
        assert!(is_possible());
    }
}
