//! One record, decoded: owned values, nothing resolved, nothing guessed.

use std::net::SocketAddr;

use assay_common::calls::Op;
use assay_common::hooks::Hook;
use assay_common::record::{FileFacts, PeerFacts, Repeat, SockFacts};

/// A decoded record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub t_ns: u64,
    /// The run's number.
    pub run: u32,
    /// Process id in the initial namespace.
    pub pid: u32,
    /// Thread id, likewise.
    pub tid: u32,
    /// The task's name, without NULs.
    pub comm: Vec<u8>,
    /// The task had left the run's group.
    pub is_outside: bool,
    /// A section did not fit into the record.
    pub has_overflowed: bool,
    /// What the kernel half could not vouch for.
    pub doubt: Doubt,
    /// Whether more like it are counted from now on and not sent.
    pub repeat: Option<Repeat>,
    /// What happened.
    pub kind: EventKind,
}

/// What the kernel half could not vouch for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Doubt {
    /// Nothing.
    #[default]
    None,
    /// It says only that some of what the call acted on is not known.
    Unread,
    /// Another thread may have changed the name, or the address, that was read.
    Unconfirmed,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// A system call returned.
    Call(Call),
    /// A request was handed to an `io_uring`: the call it stands for. Its result is not known yet.
    UringSubmit {
        /// The request's identity, until it is completed.
        request: u64,
        /// The call.
        call: Call,
    },
    /// A request to an `io_uring` was completed.
    UringComplete {
        /// The request's identity.
        request: u64,
        /// What it came to, with what is known only now.
        call: Call,
    },
    /// A program started.
    Exec(Exec),
    /// A task was made.
    Fork {
        /// Its process id.
        pid: u32,
        /// Its thread id.
        tid: u32,
    },
    /// The task ended.
    Exit {
        /// The exit word.
        status: i32,
    },
    /// A task was moved out of the run's group, perhaps by another one.
    Leave {
        /// Its process id.
        pid: u32,
        /// Its thread id.
        tid: u32,
    },
    /// The second witness saw a hook being passed.
    Witness(Witness),
    /// A packet that may name an address.
    Packet(Packet),
    /// How the host of the run looks names up.
    Sources {
        /// The text of `/etc/resolv.conf`.
        resolv_conf: Vec<u8>,
        /// The text of `/etc/hosts`.
        hosts: Vec<u8>,
    },
}

/// A packet of one of the run's sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts, each asked for by name")]
pub struct Packet {
    /// The other end.
    pub remote: SocketAddr,
    /// Whether it goes out: the first of its connection that carries anything, or one that begins a connection of QUIC. Else
    /// it comes in.
    pub is_out: bool,
    /// The socket, by a number that no other one ever has.
    pub cookie: u64,
    /// Whether it is TCP; else it is UDP.
    pub is_tcp: bool,
    /// Whether its socket is known to belong to the network namespace that the run began in.
    pub is_home: bool,
    /// TCP's number of its first byte.
    pub sequence: u32,
    /// What it carries, from the beginning.
    pub payload: Vec<u8>,
    /// Whether it carries more than is here.
    pub is_cut: bool,
}

/// A hook of the kernel's security modules was passed: something was allowed to go on, and may have failed after all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// Which.
    pub hook: Hook,
    /// The name, as the kernel's own entries have it.
    pub a: Option<Chain>,
    /// The second name.
    pub b: Option<Chain>,
    /// Facts of the file that the first name leads to.
    pub file: Option<FileFacts>,
    /// The socket's family.
    pub family: u16,
    /// The address, as the kernel has copied it.
    pub address: Option<Bytes>,
}

/// A system call that returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which, without its variants.
    pub op: Op,
    /// Its number.
    pub nr: u16,
    /// It came by the 32-bit entry.
    pub is_compat: bool,
    /// Its arguments. For openat2 the third is the flags themselves.
    pub args: [u64; 6],
    /// What it returned.
    pub ret: i64,
    /// Its first path, or the file it was about.
    pub a: PathArg,
    /// Its second path.
    pub b: PathArg,
    /// The file it returned or used.
    pub file: Option<FileFacts>,
    /// The socket it used.
    pub socket: Option<SockFacts>,
    /// The address passed to it.
    pub address: Option<Bytes>,
    /// The UNIX socket's own address.
    pub unix_name: Option<Bytes>,
    /// Who is at the other end of a UNIX connection.
    pub peer: Option<PeerFacts>,
    /// The program that runs there.
    pub peer_image: Option<Chain>,
}

#[cfg(test)]
impl Call {
    /// One of which no more is known than that it returned this.
    pub fn bare(op: Op, ret: i64) -> Self {
        Self {
            op,
            nr: 0,
            is_compat: false,
            args: [0; 6],
            ret,
            a: PathArg::default(),
            b: PathArg::default(),
            file: None,
            socket: None,
            address: None,
            unix_name: None,
            peer: None,
            peer_image: None,
        }
    }
}

/// A program start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// Parent process id.
    pub ppid: u32,
    /// The thread that called, which now is the process.
    pub old_tid: u32,
    /// The string passed, and for a script where it led.
    pub a: PathArg,
    /// The image's file.
    pub image: Option<Chain>,
    /// Facts of the image's file.
    pub file: Option<FileFacts>,
    /// The image is a script's interpreter.
    pub is_script: bool,
    /// The argument area.
    pub argv: Option<Bytes>,
}

/// What the record holds of one path argument.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathArg {
    /// The string passed.
    pub requested: Option<Bytes>,
    /// Where it led, or how far.
    pub chain: Option<Chain>,
    /// What of the string was not followed.
    pub rest: Option<Bytes>,
    /// What a look from userspace found shortly after.
    pub late: Option<Late>,
    /// The links that such a look followed.
    pub followed: Option<Followed>,
}

/// What a look from userspace found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Late {
    /// The path.
    pub bytes: Vec<u8>,
    /// What it is worth.
    pub worth: LateWorth,
    /// What lay there under the whole path, as the bits of a mode that say the kind; `None` where nothing was seen to.
    /// In the record the section's `aux` has them, shifted down to the lowest bit.
    pub there: Option<u32>,
}

/// What a look from userspace is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateWorth {
    /// It was there, or every link on the way to it was.
    Found,
    /// There was no link: it is the text of a call that failed, as it stood.
    Text,
    /// A link that the call met was gone.
    Gone,
}

/// Links that were followed after the call that met them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// When they had been read, by the clock of the records.
    pub t_ns: u64,
    /// Their own names.
    pub links: Vec<Vec<u8>>,
}

/// Bytes as read by the kernel half.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How reading them went.
    pub state: ReadState,
}

/// How reading went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadState {
    /// All is there.
    Whole,
    /// Longer than a record holds.
    Cut,
    /// Could not be read.
    Unreadable,
}

/// A file's names, joined from the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The path: absolute, `/` for the root itself.
    pub path: Vec<u8>,
    /// Where following the names ended.
    pub end: ChainEnd,
    /// Why resolving the string stopped there.
    pub walk: WalkEnd,
}

/// Where following a file's names ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainEnd {
    /// At the top of the task's mount namespace.
    Root,
    /// At the top of a mount in no namespace.
    Detached,
    /// At the top of another mount namespace.
    Foreign,
    /// At a file without a parent.
    Nameless,
    /// At a limit.
    Cut,
    /// At something unreadable.
    Unreadable,
}

/// Why resolving a string stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkEnd {
    /// The file itself was reached.
    Done,
    /// Before the last name.
    Parent,
    /// It was not begun.
    Start,
    /// A name is not cached.
    NotCached,
    /// A link could not be followed.
    Link,
    /// A limit was reached.
    Limit,
    /// Something could not be read.
    Unreadable,
}
