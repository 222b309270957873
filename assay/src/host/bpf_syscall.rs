//! bpf(2): maps, programs, types, attachments.
//!
//! Takes instructions as numbers and gives descriptors back. Knows nothing of what the programs are for.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// `BPF_MAP_CREATE`
const MAP_CREATE: libc::c_int = 0;
/// `BPF_PROG_LOAD`
const PROG_LOAD: libc::c_int = 5;
/// `BPF_RAW_TRACEPOINT_OPEN`
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
/// `BPF_BTF_LOAD`
const BTF_LOAD: libc::c_int = 18;
/// `BPF_MAP_FREEZE`
const MAP_FREEZE: libc::c_int = 22;
/// `BPF_LINK_CREATE`
const LINK_CREATE: libc::c_int = 28;

/// `BPF_MAP_TYPE_HASH`
pub const MAP_TYPE_HASH: u32 = 1;
/// `BPF_MAP_TYPE_ARRAY`
pub const MAP_TYPE_ARRAY: u32 = 2;
/// `BPF_MAP_TYPE_RINGBUF`
pub const MAP_TYPE_RINGBUF: u32 = 27;
/// `BPF_F_NO_PREALLOC`
pub const NO_PREALLOC: u32 = 1;
/// `BPF_PROG_TYPE_RAW_TRACEPOINT`
pub const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
/// `BPF_PROG_TYPE_CGROUP_SKB`
pub const PROG_TYPE_CGROUP_SKB: u32 = 8;
/// `BPF_PROG_TYPE_LSM`
pub const PROG_TYPE_LSM: u32 = 29;
/// `BPF_LSM_MAC`
pub const LSM_MAC: u32 = 27;
/// `BPF_CGROUP_INET_INGRESS`
pub const INGRESS: u32 = 0;
/// `BPF_CGROUP_INET_EGRESS`
pub const EGRESS: u32 = 1;
/// `BPF_PROG_TYPE_CGROUP_SOCK`
pub const PROG_TYPE_CGROUP_SOCK: u32 = 9;
/// `BPF_PROG_TYPE_CGROUP_SOCK_ADDR`
pub const PROG_TYPE_CGROUP_SOCK_ADDR: u32 = 18;

/// `union bpf_attr` of `BPF_PROG_LOAD`, as far as `attach_btf_id`.
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
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

/// `union bpf_attr` of `BPF_MAP_CREATE`, its first fields.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

/// `union bpf_attr` of `BPF_BTF_LOAD`, its first fields.
#[repr(C)]
struct BtfLoad {
    btf: u64,
    btf_log_buf: u64,
    btf_size: u32,
    btf_log_size: u32,
}

/// `union bpf_attr` of `BPF_RAW_TRACEPOINT_OPEN`, its first fields.
#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    padding: u32,
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
    map_create_as(&MapShape {
        map_type,
        key_size: 4,
        value_size: 8,
        max_entries: entries,
        flags: 0,
        inner: None,
        name: "",
    })
}

/// What a map is like.
#[derive(Debug, Clone, Copy)]
pub struct MapShape<'a> {
    /// `BPF_MAP_TYPE_*`
    pub map_type: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Elements, or for a ring its bytes.
    pub max_entries: u32,
    /// `BPF_F_*`
    pub flags: u32,
    /// Of a map of maps, one like those that it holds.
    pub inner: Option<BorrowedFd<'a>>,
    /// Cut at 15 bytes.
    pub name: &'a str,
}

/// Makes a map.
pub fn map_create_as(shape: &MapShape<'_>) -> io::Result<OwnedFd> {
    bpf(
        MAP_CREATE,
        &MapCreate {
            map_type: shape.map_type,
            key_size: shape.key_size,
            value_size: shape.value_size,
            max_entries: shape.max_entries,
            map_flags: shape.flags,
            inner_map_fd: shape.inner.map_or(0, |inner| inner.as_raw_fd() as u32),
            numa_node: 0,
            map_name: cut(shape.name),
        },
    )
}

/// Lets nobody write the map from userspace any more.
pub fn map_freeze(map: BorrowedFd<'_>) -> io::Result<()> {
    command(MAP_FREEZE, &(map.as_raw_fd() as u32)).map(drop)
}

/// Hands types to the kernel.
pub fn btf_load(types: &[u8]) -> io::Result<OwnedFd> {
    let btf_size = u32::try_from(types.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    bpf(BTF_LOAD, &BtfLoad { btf: types.as_ptr() as u64, btf_log_buf: 0, btf_size, btf_log_size: 0 })
}

/// Attaches a raw program to a tracepoint, until the descriptor is closed.
pub fn raw_tracepoint_open(program: BorrowedFd<'_>, tracepoint: &CStr) -> io::Result<OwnedFd> {
    let name = tracepoint.as_ptr() as u64;
    bpf(RAW_TRACEPOINT_OPEN, &RawTracepointOpen { name, prog_fd: program.as_raw_fd() as u32, padding: 0 })
}

/// Attaches a program to the function of the kernel's that it was loaded for, until the descriptor is closed.
pub fn attach_loaded(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    bpf(RAW_TRACEPOINT_OPEN, &RawTracepointOpen { name: 0, prog_fd: program.as_raw_fd() as u32, padding: 0 })
}

/// A program of several functions, with the types that tell the verifier what they are.
#[derive(Debug, Clone, Copy)]
pub struct TypedProgram<'a> {
    /// `BPF_PROG_TYPE_*`
    pub prog_type: u32,
    /// What it will be attached to, and as what: the kernel's function by its BTF id, `BPF_*`.
    pub target: Option<(u32, u32)>,
    /// Cut at 15 bytes.
    pub name: &'a str,
    /// Its license, as the kernel asks for it.
    pub license: &'a CStr,
    /// The instructions of all of its functions.
    pub instructions: &'a [u64],
    /// Its types, from [`btf_load`].
    pub types: BorrowedFd<'a>,
    /// `struct bpf_func_info` of every function.
    pub functions: &'a [u8],
    /// Bytes of one of them.
    pub function_size: usize,
}

/// Loads it. The verifier writes no log: that is half of its time.
pub fn prog_load_typed(program: &TypedProgram<'_>) -> io::Result<OwnedFd> {
    bpf(PROG_LOAD, &typed(program)?)
}

/// What the verifier says against it: the last lines of its log. Loads it once more, for that is what makes one.
pub fn prog_refusal(program: &TypedProgram<'_>) -> String {
    /// Kernels before 6.4 keep the beginning of a log that is too long, and its end is what says why.
    const ROOM: u32 = 16 << 20;
    const LINES: usize = 24;
    let mut log = vec![0u8; ROOM as usize];
    let attributes = typed(program).map(|attributes| ProgLoad {
        log_level: 1,
        log_size: ROOM,
        log_buf: log.as_mut_ptr() as u64,
        ..attributes
    });
    // It is refused again; that is what it was loaded for.
    drop(attributes.and_then(|attributes| bpf(PROG_LOAD, &attributes)));
    let len = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..len]);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

fn typed(program: &TypedProgram<'_>) -> io::Result<ProgLoad> {
    let count = program.functions.len() / program.function_size.max(1);
    Ok(ProgLoad {
        prog_type: program.prog_type,
        insn_cnt: u32::try_from(program.instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        insns: program.instructions.as_ptr() as u64,
        license: program.license.as_ptr() as u64,
        prog_name: cut(program.name),
        prog_btf_fd: program.types.as_raw_fd() as u32,
        func_info_rec_size: program.function_size as u32,
        func_info: program.functions.as_ptr() as u64,
        func_info_cnt: count as u32,
        attach_btf_id: program.target.map_or(0, |(function, _)| function),
        expected_attach_type: program.target.map_or(0, |(_, attach_type)| attach_type),
        ..ProgLoad::default()
    })
}

/// A name as the kernel takes it.
fn cut(name: &str) -> [u8; 16] {
    let mut bytes = [0u8; 16];
    for (to, from) in bytes.iter_mut().take(15).zip(name.bytes()) {
        // The kernel knows no others in a name.
        *to = if from.is_ascii_alphanumeric() || from == b'.' { from } else { b'_' };
    }
    bytes
}

/// Loads a program. `name` is cut at 15 bytes.
pub fn prog_load(prog_type: u32, attach_type: u32, name: &str, instructions: &[u64]) -> io::Result<OwnedFd> {
    let license = c"GPL";
    let attributes = ProgLoad {
        prog_type,
        insn_cnt: u32::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        insns: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        prog_name: cut(name),
        expected_attach_type: attach_type,
        ..ProgLoad::default()
    };
    bpf(PROG_LOAD, &attributes)
}

/// Whether this process may load programs for the hooks of security modules: tries one for a function that is none.
/// Whoever may not is told so first, and anything else that the kernel says is about the function.
pub fn may_load_hooks() -> io::Result<()> {
    /// `r0 = 0; exit`
    const RETURN_0: [u64; 2] = [0xb7, 0x95];
    let attributes = ProgLoad {
        prog_type: PROG_TYPE_LSM,
        insn_cnt: RETURN_0.len() as u32,
        insns: RETURN_0.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        expected_attach_type: LSM_MAC,
        // The first type of every kernel is a number.
        attach_btf_id: 1,
        ..ProgLoad::default()
    };
    match bpf(PROG_LOAD, &attributes) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::ENOSYS)) => {
            Err(error)
        }
        Ok(_) | Err(_) => Ok(()),
    }
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

/// A command that makes something.
#[expect(unsafe_code, reason = "a descriptor fresh from the kernel")]
pub(super) fn bpf<T>(number: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let fd = command(number, attributes)?;
    // SAFETY: the commands that are given to this function return a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

pub(super) fn command<T>(number: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    syscall(number, std::ptr::from_ref(attributes).cast_mut())
}

/// A command that answers in its attributes.
pub(super) fn command_mut<T>(number: libc::c_int, attributes: &mut T) -> io::Result<libc::c_long> {
    syscall(number, std::ptr::from_mut(attributes))
}

#[expect(unsafe_code, reason = "libc and rustix have no wrapper of bpf(2)")]
fn syscall<T>(number: libc::c_int, attributes: *mut T) -> io::Result<libc::c_long> {
    // SAFETY: `attributes` is a live `repr(C)` prefix of `union bpf_attr` for this command and its size is passed
    // along; the kernel writes to it only where it came from `command_mut`; the pointers inside, where it has any, point
    // to memory that outlives the call and is as long as the command wants it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, number, attributes, std::mem::size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
