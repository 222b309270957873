//! One `#[repr(C)]` struct per thing that crosses the ring, with explicit padding.
//!
//! A record is a [`Header`], then sections: a [`Section`] and its bytes, padded to eight.

use crate::kind::RecordKind;
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
    /// call it stands for, and the last is the request's identity. For a socket that came in a message the last is the
    /// process that the kernel says is at its other end, 0 where it says none.
    pub args: [u64; 6],
    /// [`flags`].
    pub flags: u32,
    /// The system call's number.
    pub nr: u32,
}

impl Header {
    /// Of a record that belongs to no task.
    #[inline]
    pub const fn of_no_task(kind: RecordKind, size: u32, t_ns: u64, run: u32) -> Self {
        Self {
            size,
            kind: kind as u16,
            op: 0,
            t_ns,
            run,
            pid: 0,
            tid: 0,
            ppid: 0,
            comm: [0; COMM_LEN],
            ret: 0,
            args: [0; 6],
            flags: 0,
            nr: 0,
        }
    }
}

/// What one slot of the second witness counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[repr(C)]
pub struct WitnessTally {
    /// Records delivered.
    pub seen: u64,
    /// Records lost, because the ring was full or the record too long.
    pub lost: u64,
    /// Not zero when a hook found no slot free. Not exact: two may count at a time.
    pub turned_away: u64,
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
    /// Some of what the call acted on could not be read, or was more than is looked at.
    pub const UNREAD: u32 = 16;
    /// The kernel's own copy of a name was not seen: another thread may have changed the one that was read.
    pub const UNCONFIRMED: u32 = 32;
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

/// Who the kernel says is at the other end of a UNIX connection: who listened there, as `SO_PEERCRED` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[repr(C)]
pub struct PeerFacts {
    /// Process id in the initial namespace; 0 where the kernel names nobody, as for datagrams.
    pub pid: u32,
    /// User id in the initial namespace.
    pub uid: u32,
    /// 1 when the process still lives; else no more of it is known.
    pub is_alive: u32,
    /// Always zero.
    pub padding: u32,
    /// The process's name.
    pub comm: [u8; COMM_LEN],
}

/// What the kernel knows of a packet of the run's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[repr(C)]
pub struct PacketFacts {
    /// The other end's address; an IPv4 address stands in the first four bytes.
    pub remote: [u8; 16],
    /// The socket, by a number that no other one ever has.
    pub cookie: u64,
    /// `AF_INET` or `AF_INET6`.
    pub family: u16,
    /// The other end's port.
    pub remote_port: u16,
    /// Our own port.
    pub local_port: u16,
    /// `IPPROTO_TCP` or `IPPROTO_UDP`.
    pub protocol: u8,
    /// [`packet`] flags.
    pub flags: u8,
    /// TCP's sequence number of the first byte.
    pub sequence: u32,
    /// Bytes the packet carries.
    pub carried: u32,
    /// How many of them are here.
    pub kept: u32,
    /// Always zero.
    pub padding: u32,
}

/// Flags of a packet.
pub mod packet {
    /// It goes out: the first of its connection that carries anything, or one that begins a connection of QUIC. Else it comes
    /// in.
    pub const OUT: u8 = 1;
    /// Its socket belongs to the network namespace that the run began in.
    pub const HOME: u8 = 2;
}

const _: () = assert!(size_of::<PacketFacts>() == 48);

/// That more acts like this one will be counted and not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[repr(C)]
pub struct Repeat {
    /// The number they are counted under.
    pub number: u64,
    /// The number that was counted in the same place until now; 0 when there was none.
    pub ended: u64,
    /// How often, besides the record that began it.
    pub count: u64,
}

/// Where acts like one that was sent are counted: an element of the map of repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[repr(C)]
pub struct RepeatEntry {
    /// All that makes two acts the same: file, names above it, call and flags, run.
    pub key: [u64; 8],
    /// [`Repeat::number`]; 0 while the place is free.
    pub number: u64,
    /// How often since.
    pub count: u64,
}

const _: () = assert!(size_of::<Repeat>() == 24);
const _: () = assert!(size_of::<RepeatEntry>() == 80);
const _: () = assert!(size_of::<Header>() == 112);
const _: () = assert!(size_of::<Section>() == 8);
const _: () = assert!(size_of::<FileFacts>() == 40);
const _: () = assert!(size_of::<SockFacts>() == 32);
const _: () = assert!(size_of::<PeerFacts>() == 32);
