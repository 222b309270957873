//! `bpf(2)` and `perf_event_open(2)`, as far as small programs on tracepoints need them.
//!
//! In: instructions, names, numbers. Out: descriptors. A program is detached when its attachment is dropped.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Numbers of `enum bpf_cmd`.
mod cmd {
    pub const MAP_CREATE: i64 = 0;
    pub const MAP_LOOKUP_ELEM: i64 = 1;
    pub const MAP_UPDATE_ELEM: i64 = 2;
    pub const PROG_LOAD: i64 = 5;
    pub const PROG_GET_NEXT_ID: i64 = 11;
    pub const PROG_GET_FD_BY_ID: i64 = 13;
    pub const OBJ_GET_INFO_BY_FD: i64 = 15;
    pub const RAW_TRACEPOINT_OPEN: i64 = 17;
    pub const LINK_GET_FD_BY_ID: i64 = 30;
    pub const LINK_CREATE: i64 = 28;
    pub const LINK_GET_NEXT_ID: i64 = 31;
    pub const ENABLE_STATS: i64 = 32;
}

/// `BPF_MAP_TYPE_HASH`.
pub const HASH: u32 = 1;
/// `BPF_MAP_TYPE_ARRAY`.
pub const ARRAY: u32 = 2;
/// `BPF_MAP_TYPE_PROG_ARRAY`: a table of programs to go on with.
pub const PROGRAMS: u32 = 3;

/// What a program may be attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A raw tracepoint.
    Raw,
    /// A raw tracepoint whose arguments have types: this typedef of the kernel's BTF.
    Typed(u32),
    /// A tracepoint as a perf event.
    Event,
    /// The packets of a control group, one way.
    Packets(Direction),
}

/// A packet's way: `enum bpf_attach_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// `BPF_CGROUP_INET_INGRESS`
    In = 0,
    /// `BPF_CGROUP_INET_EGRESS`
    Out = 1,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct MapElem {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Up to `attach_btf_id`; what is not set is 0 in all of our programs.
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
    unused: [u32; 8],
    line_info_cnt: u32,
    attach_btf_id: u32,
}

const _: () = assert!(mem::offset_of!(ProgLoad, attach_btf_id) == 108);

#[repr(C)]
#[derive(Default)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkId {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct InfoByFd {
    fd: u32,
    len: u32,
    info: u64,
}

/// The head of `struct bpf_link_info`.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    id: u32,
    prog_id: u32,
    padding: u32,
    of_kind: [u64; 6],
}

/// Where the fields of `struct bpf_prog_info` are, and how much of it is asked for.
mod prog_info {
    pub const TRANSLATED_LEN: usize = 20;
    pub const NAME: usize = 64;
    pub const RUN_TIME_NS: usize = 192;
    pub const RUN_COUNT: usize = 200;
    pub const VERIFIED: usize = 216;
    pub const LEN: usize = 224;
}

/// What the kernel knows of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its name, cut at 15 bytes.
    pub name: String,
    /// Instructions after the kernel has rewritten them.
    pub instructions: u32,
    /// Instructions the verifier went through.
    pub verified: u32,
    /// How often it ran, while statistics were on.
    pub runs: u64,
    /// For how long.
    pub nanoseconds: u64,
}

/// The first published form of `struct perf_event_attr`.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

fn bpf<T>(cmd: i64, attr: &mut T) -> io::Result<i64> {
    // SAFETY: every `attr` here is a `repr(C)` prefix of the union's member for its command, its size is given, and
    // the addresses in it are of values that live until the call returns.
    #[expect(unsafe_code, reason = "no wrapper attaches bare instructions")]
    let result = unsafe { libc::syscall(libc::SYS_bpf, cmd, std::ptr::from_mut(attr), mem::size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(fd: i64) -> OwnedFd {
    // SAFETY: the call that returned it made it, and nothing else knows it.
    #[expect(unsafe_code, reason = "a descriptor fresh from the kernel")]
    unsafe {
        OwnedFd::from_raw_fd(fd as i32)
    }
}

fn number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd() as u32
}

/// A map.
pub struct Map {
    fd: OwnedFd,
    key: usize,
    value: usize,
}

impl Map {
    /// Makes one, with this size of key and value.
    pub fn new(map_type: u32, key: usize, value: usize, max_entries: u32) -> io::Result<Self> {
        let mut attr = MapCreate { map_type, key_size: key as u32, value_size: value as u32, max_entries };
        Ok(Self { fd: owned(bpf(cmd::MAP_CREATE, &mut attr)?), key, value })
    }

    /// Its number, for instructions.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Sets an element.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key && value.len() == self.value, "an element of another map");
        let mut attr = self.element(key.as_ptr() as u64, value.as_ptr() as u64);
        bpf(cmd::MAP_UPDATE_ELEM, &mut attr).map(drop)
    }

    /// Reads the number in an element.
    pub fn read(&self, key: u32) -> io::Result<u64> {
        assert!(self.key == 4 && self.value == 8, "not a map of numbers");
        let (key, mut value) = (key.to_ne_bytes(), [0u8; 8]);
        let mut attr = self.element(key.as_ptr() as u64, value.as_mut_ptr() as u64);
        bpf(cmd::MAP_LOOKUP_ELEM, &mut attr)?;
        Ok(u64::from_ne_bytes(value))
    }

    fn element(&self, key: u64, value: u64) -> MapElem {
        MapElem { map_fd: number(&self.fd), padding: 0, key, value, flags: 0 }
    }
}

/// Hands a program to the verifier. The error holds its words.
pub fn load(kind: Kind, code: &[u64]) -> io::Result<OwnedFd> {
    const TRACEPOINT: u32 = 5;
    const CGROUP_SKB: u32 = 8;
    const RAW_TRACEPOINT: u32 = 17;
    const TRACING: u32 = 26;
    const TRACE_RAW_TP: u32 = 23;
    let mut log = vec![0u8; 1 << 16];
    let mut attr = ProgLoad {
        prog_type: match kind {
            Kind::Raw => RAW_TRACEPOINT,
            Kind::Typed(_) => TRACING,
            Kind::Event => TRACEPOINT,
            Kind::Packets(_) => CGROUP_SKB,
        },
        insn_cnt: code.len() as u32,
        insns: code.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        ..ProgLoad::default()
    };
    if let Kind::Typed(typedef) = kind {
        attr.expected_attach_type = TRACE_RAW_TP;
        attr.attach_btf_id = typedef;
    }
    if let Kind::Packets(direction) = kind {
        attr.expected_attach_type = direction as u32;
    }
    if let Ok(fd) = bpf(cmd::PROG_LOAD, &mut attr) {
        return Ok(owned(fd));
    }
    // Once more, for the verifier's words.
    (attr.log_level, attr.log_size, attr.log_buf) = (1, log.len() as u32, log.as_mut_ptr() as u64);
    match bpf(cmd::PROG_LOAD, &mut attr) {
        Ok(fd) => Ok(owned(fd)),
        Err(error) => {
            let words = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
            Err(io::Error::new(error.kind(), format!("{error}\n{words}")))
        }
    }
}

/// Attaches a raw program to the tracepoint of this name, or a typed one to the one it is typed for.
pub fn attach_raw(program: &OwnedFd, name: Option<&CStr>) -> io::Result<OwnedFd> {
    let mut attr = RawTracepointOpen {
        name: name.map_or(0, |name| name.as_ptr() as u64),
        prog_fd: number(program),
        padding: 0,
    };
    bpf(cmd::RAW_TRACEPOINT_OPEN, &mut attr).map(owned)
}

/// Attaches a program to the packets of a control group, by its directory.
pub fn attach_packets(program: &OwnedFd, group: &File, direction: Direction) -> io::Result<OwnedFd> {
    let mut attr = LinkCreate {
        prog_fd: number(program),
        target_fd: group.as_raw_fd() as u32,
        attach_type: direction as u32,
        flags: 0,
    };
    bpf(cmd::LINK_CREATE, &mut attr).map(owned)
}

/// Attaches a program to the tracepoint with this number in tracefs. It then runs on every processor, whichever the
/// event is opened on.
pub fn attach_event(program: &OwnedFd, tracepoint: u64) -> io::Result<OwnedFd> {
    const TYPE_TRACEPOINT: u32 = 2;
    const FLAG_FD_CLOEXEC: i64 = 8;
    const IOC_SET_BPF: u64 = 0x4004_2408;
    let attr = PerfEventAttr {
        kind: TYPE_TRACEPOINT,
        size: mem::size_of::<PerfEventAttr>() as u32,
        config: tracepoint,
        sample_period: 1,
        ..PerfEventAttr::default()
    };
    // SAFETY: `attr` has the layout and the size it names, and lives until the call returns.
    #[expect(unsafe_code, reason = "perf_event_open has no wrapper")]
    let event = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1i64, 0i64, -1i64, FLAG_FD_CLOEXEC)
    };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    let event = owned(event);
    // SAFETY: the request takes a descriptor by value.
    #[expect(unsafe_code, reason = "no wrapper for this request")]
    let result = unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_BPF, program.as_raw_fd()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(event) }
}

/// Lets the kernel count how often programs run and for how long, until this is dropped.
pub fn enable_statistics() -> io::Result<OwnedFd> {
    const RUN_TIME: u32 = 0;
    bpf(cmd::ENABLE_STATS, &mut { RUN_TIME }).map(owned)
}

/// Every program on the host.
pub fn programs() -> io::Result<Vec<Known>> {
    let (mut all, mut id) = (Vec::new(), 0);
    loop {
        let mut attr = LinkId { id, ..LinkId::default() };
        match bpf(cmd::PROG_GET_NEXT_ID, &mut attr) {
            Ok(_) => id = attr.next_id,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(all),
            Err(error) => return Err(error),
        }
        // It may be gone by now.
        let Ok(fd) = bpf(cmd::PROG_GET_FD_BY_ID, &mut LinkId { id, ..LinkId::default() }) else { continue };
        let (fd, mut info) = (owned(fd), [0u64; prog_info::LEN / 8]);
        let mut by_fd =
            InfoByFd { fd: number(&fd), len: mem::size_of_val(&info) as u32, info: info.as_mut_ptr() as u64 };
        bpf(cmd::OBJ_GET_INFO_BY_FD, &mut by_fd)?;
        let word = |at: usize| info[at / 8];
        let half = |at: usize| (word(at) >> (at % 8 * 8)) as u32;
        let name: Vec<u8> =
            info[prog_info::NAME / 8..][..2].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        all.push(Known {
            name: String::from_utf8_lossy(name).into_owned(),
            instructions: half(prog_info::TRANSLATED_LEN) / 8,
            verified: half(prog_info::VERIFIED),
            runs: word(prog_info::RUN_COUNT),
            nanoseconds: word(prog_info::RUN_TIME_NS),
        });
    }
}

/// How many programs of anybody hang on raw or typed tracepoints, or on perf events by a link.
pub fn links() -> io::Result<usize> {
    const KINDS: [u32; 3] = [1, 2, 7];
    let (mut count, mut id) = (0, 0);
    loop {
        let mut attr = LinkId { id, ..LinkId::default() };
        match bpf(cmd::LINK_GET_NEXT_ID, &mut attr) {
            Ok(_) => id = attr.next_id,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(count),
            Err(error) => return Err(error),
        }
        // It may be gone by now.
        let Ok(link) = bpf(cmd::LINK_GET_FD_BY_ID, &mut LinkId { id, ..LinkId::default() }) else { continue };
        let (link, mut info) = (owned(link), LinkInfo::default());
        let mut by_fd = InfoByFd {
            fd: number(&link),
            len: mem::size_of::<LinkInfo>() as u32,
            info: (&raw mut info) as u64,
        };
        bpf(cmd::OBJ_GET_INFO_BY_FD, &mut by_fd)?;
        count += usize::from(KINDS.contains(&info.kind));
    }
}
