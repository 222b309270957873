//! bpf(2) for the few commands that need no object file: a map, a program of a few instructions, a cgroup link.
//!
//! Takes instructions as numbers and gives descriptors back. Knows nothing of what the programs are for.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// `BPF_MAP_CREATE`
const MAP_CREATE: libc::c_int = 0;
/// `BPF_PROG_LOAD`
const PROG_LOAD: libc::c_int = 5;
/// `BPF_LINK_CREATE`
const LINK_CREATE: libc::c_int = 28;

/// `BPF_MAP_TYPE_ARRAY`
pub const MAP_TYPE_ARRAY: u32 = 2;
/// `BPF_PROG_TYPE_RAW_TRACEPOINT`
pub const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
/// `BPF_PROG_TYPE_CGROUP_SOCK`
pub const PROG_TYPE_CGROUP_SOCK: u32 = 9;
/// `BPF_PROG_TYPE_CGROUP_SOCK_ADDR`
pub const PROG_TYPE_CGROUP_SOCK_ADDR: u32 = 18;

/// `union bpf_attr` of `BPF_PROG_LOAD`, as far as `expected_attach_type`.
#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

/// `union bpf_attr` of `BPF_MAP_CREATE`, its first fields.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

/// `union bpf_attr` of `BPF_LINK_CREATE`, its first fields.
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

/// Makes a map of `entries` values of 8 bytes with keys of 4.
pub fn map_create(map_type: u32, entries: u32) -> io::Result<OwnedFd> {
    bpf(MAP_CREATE, &MapCreate { map_type, key_size: 4, value_size: 8, max_entries: entries })
}

/// Loads a program. `name` is cut at 15 bytes.
pub fn prog_load(prog_type: u32, attach_type: u32, name: &str, instructions: &[u64]) -> io::Result<OwnedFd> {
    let license = c"GPL";
    let mut prog_name = [0u8; 16];
    for (to, from) in prog_name.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    let attributes = ProgLoad {
        prog_type,
        insn_cnt: u32::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        insns: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        prog_name,
        expected_attach_type: attach_type,
        ..ProgLoad::default()
    };
    bpf(PROG_LOAD, &attributes)
}

/// Attaches a program to a cgroup. It stays attached until the descriptor that comes back is closed by its last
/// holder.
pub fn link_cgroup(program: BorrowedFd<'_>, cgroup: BorrowedFd<'_>, attach_type: u32) -> io::Result<OwnedFd> {
    bpf(
        LINK_CREATE,
        &LinkCreate {
            prog_fd: program.as_raw_fd() as u32,
            target_fd: cgroup.as_raw_fd() as u32,
            attach_type,
            flags: 0,
        },
    )
}

#[expect(unsafe_code, reason = "libc and rustix have no wrapper of bpf(2)")]
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: `attributes` is a live `repr(C)` prefix of `union bpf_attr` for this command and its size is passed
    // along; the pointers inside, where it has any, point to memory that outlives the call (`prog_load`).
    let fd = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), std::mem::size_of::<T>())
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the three commands above return a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
