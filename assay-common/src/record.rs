//! One `#[repr(C)]` struct per thing that crosses the ring, with explicit padding.
//!
//! A record is a [`Header`], then sections: a [`Section`] and its bytes, padded to eight.

use crate::limits::COMM_LEN;

/// What every record begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[repr(C)]
pub struct Header {
    /// Bytes of the whole record.
    pub size: u32,
    /// [`crate::kind::RecordKind`].
    pub kind: u16,
    /// [`crate::calls::Op`]'s number for calls, otherwise 0.
    pub op: u16,
    /// `CLOCK_MONOTONIC` at the return of the call.
    pub t_ns: u64,
    /// The run's number.
    pub run: u32,
    /// Process id in the initial namespace.
    pub pid: u32,
    /// Thread id in the initial namespace.
    pub tid: u32,
    /// Parent process id; only in fork and exec records.
    pub ppid: u32,
    /// The task's name.
    pub comm: [u8; COMM_LEN],
    /// What the call returned. For forks the child's thread id, for exits the exit word, for exec the former thread id.
    pub ret: i64,
    /// The call's arguments. For forks the first is the child's process id. For requests to an `io_uring` those of the
    /// call it stands for, and the last is the request's identity.
    pub args: [u64; 6],
    /// [`flags`].
    pub flags: u32,
    /// The system call's number.
    pub nr: u32,
}

/// Flags of a record.
pub mod flags {
    /// The call came by the 32-bit entry.
    pub const COMPAT: u32 = 1;
    /// A section did not fit and was left out.
    pub const OVERFLOW: u32 = 2;
    /// The image is a script's interpreter.
    pub const SCRIPT: u32 = 4;
    /// The task is not in the run's group any more.
    pub const OUTSIDE: u32 = 8;
}

/// What comes before the bytes of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[repr(C)]
pub struct Section {
    /// [`crate::kind::SectionTag`].
    pub tag: u16,
    /// How reading it went; see the tag.
    pub state: u8,
    /// A second state; see the tag.
    pub aux: u8,
    /// Bytes that follow, without padding.
    pub len: u32,
}

/// What the kernel knows of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[repr(C)]
pub struct FileFacts {
    /// `inode.i_mode`: type and permission bits.
    pub mode: u32,
    /// `file.f_mode`: `FMODE_*`.
    pub f_mode: u32,
    /// `file.f_flags`: `O_*`.
    pub f_flags: u32,
    /// `inode.i_nlink`.
    pub nlink: u32,
    /// `super_block.s_dev`, the kernel's own encoding (major << 20 | minor).
    pub dev: u32,
    /// 1 when the name is no longer in its directory.
    pub is_unlinked: u32,
    /// `super_block.s_magic`.
    pub magic: u64,
    /// `inode.i_ino`.
    pub ino: u64,
}

/// `FMODE_CREATED`: this open made the file. The same bit since 4.19.
pub const FMODE_CREATED: u32 = 0x0010_0000;

/// What the kernel knows of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[repr(C)]
pub struct SockFacts {
    /// `AF_*`.
    pub family: u16,
    /// `SOCK_*`.
    pub kind: u16,
    /// `IPPROTO_*`, or the family's own.
    pub protocol: u16,
    /// Local port, host order.
    pub local_port: u16,
    /// Local IPv4 address, network order.
    pub local4: [u8; 4],
    /// Local IPv6 address.
    pub local6: [u8; 16],
    /// 1 when the port is the kernel's choice, not the program's.
    pub is_port_chosen: u32,
}

const _: () = assert!(size_of::<Header>() == 112);
const _: () = assert!(size_of::<Section>() == 8);
const _: () = assert!(size_of::<FileFacts>() == 40);
const _: () = assert!(size_of::<SockFacts>() == 32);
