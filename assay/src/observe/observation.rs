//! One thing the run did, resolved: who, what, where the kernel really went, and how it ended.
//!
//! This is what the trace prints and what the canonicaliser folds. Bytes stay bytes here; text forms are made
//! at the edges (`profile::name`, `observe::trace`).

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// An act of the run, as one line of the trace tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Position in the order seen, from 0.
    pub seq: u64,
    /// Nanoseconds since the command's first instruction (`CLOCK_MONOTONIC`).
    pub t_ns: u64,
    /// Process id (thread group) as the initial pid namespace has it.
    pub pid: u32,
    /// Thread id, likewise.
    pub tid: u32,
    /// Parent process id at the time of the fork, 0 when it was not seen.
    pub ppid: u32,
    /// The task's `comm`, without the trailing NULs.
    pub comm: Vec<u8>,
    /// What it did.
    pub act: Act,
    /// How the call ended.
    pub result: CallResult,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallResult {
    /// It succeeded.
    Ok,
    /// It failed with this (positive) errno.
    Errno(i32),
}

/// What kind of act it was, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// An act on one name or file: open, unlink, rmdir, mkdir, mknod, truncate, chmod, chown, utime,
    /// setxattr, removexattr, mount, umount, chdir, chroot, write (through a descriptor older than the run) …
    File(FileAct),
    /// An act on two names: rename, link, symlink (there `to` is the link's text, unresolved).
    Pair(PairAct),
    /// A program started, or could not be started.
    Exec(ExecAct),
    /// connect, bind, listen, send, socket.
    Net(NetAct),
    /// unshare, setns, or clone and clone3 into namespaces of its own.
    Namespaces(NamespaceAct),
    /// A process or thread came into being.
    Fork {
        /// The new process id.
        child_pid: u32,
        /// The new thread id; equal to `child_pid` for a process.
        child_tid: u32,
    },
    /// A thread ended; the process ended when `pid == tid` of the observation's last thread.
    Exit {
        /// The kernel's exit code word (`wait(2)` encoding).
        status: i32,
    },
    /// The run came to know a name for an address.
    Named(NamedAct),
    /// Something the observer cannot follow: the name says what (`io_uring_setup`, `cgroup_leave` …).
    Blind {
        /// A stable name of the means.
        means: &'static str,
        /// What it concerned, for a person.
        detail: Vec<u8>,
    },
}

/// The system call without its variants, as the trace's `op` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileOp {
    /// open, creat, openat, openat2, `open_by_handle_at`
    Open,
    /// unlink, unlinkat
    Unlink,
    /// rmdir, unlinkat with `AT_REMOVEDIR`
    Rmdir,
    /// mkdir, mkdirat
    Mkdir,
    /// mknod, mknodat
    Mknod,
    /// truncate, ftruncate, fallocate
    Truncate,
    /// chmod, fchmod, fchmodat, fchmodat2
    Chmod,
    /// chown, fchown, lchown, fchownat
    Chown,
    /// utime, utimes, futimesat, utimensat
    Utime,
    /// setxattr family
    Setxattr,
    /// removexattr family
    Removexattr,
    /// mount, `move_mount`, fsmount …
    Mount,
    /// umount
    Umount,
    /// `pivot_root`
    PivotRoot,
    /// chdir, fchdir
    Chdir,
    /// chroot
    Chroot,
    /// A write through a descriptor that was open before the run
    Write,
    /// recvmsg, recvmmsg, `pidfd_getfd`: a descriptor came from another process, for a file that the run has not opened
    /// that way itself
    Receive,
}

impl FileOp {
    /// Every operation, in order.
    pub const ALL: [Self; 18] = [
        Self::Open,
        Self::Unlink,
        Self::Rmdir,
        Self::Mkdir,
        Self::Mknod,
        Self::Truncate,
        Self::Chmod,
        Self::Chown,
        Self::Utime,
        Self::Setxattr,
        Self::Removexattr,
        Self::Mount,
        Self::Umount,
        Self::PivotRoot,
        Self::Chdir,
        Self::Chroot,
        Self::Write,
        Self::Receive,
    ];
}

const _: () = assert!(FileOp::ALL.len() == FileOp::Receive as usize + 1, "the list lacks an operation");

/// Two-name operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PairOp {
    /// rename, renameat, renameat2 (see [`PairAct::exchange`])
    Rename,
    /// link, linkat
    Link,
    /// symlink, symlinkat
    Symlink,
}

impl PairOp {
    /// Every operation, in order.
    pub const ALL: [Self; 3] = [Self::Rename, Self::Link, Self::Symlink];
}

/// The `access` words of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// For reading.
    Read,
    /// For writing.
    Write,
    /// The call made the file (`FMODE_CREATED`), not merely `O_CREAT`.
    Create,
    /// `O_TRUNC`.
    Truncate,
    /// `O_APPEND`.
    Append,
    /// For execution only.
    Execute,
}

impl Access {
    /// Every word, in order.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Create, Self::Truncate, Self::Append, Self::Execute];
}

/// What a path leads to, as far as the kernel told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Not told: the call failed, or has no descriptor.
    Unknown,
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link itself (`O_PATH|O_NOFOLLOW`).
    Symlink,
    /// A FIFO or pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// An act on one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileAct {
    /// The call.
    pub op: FileOp,
    /// Where the kernel went.
    pub path: PathRef,
    /// The string the program passed, when it passed one.
    pub requested: Option<Vec<u8>>,
    /// For opens: what for. Empty for an `O_PATH` open.
    pub access: BTreeSet<Access>,
    /// What lies there.
    pub kind: FileKind,
    /// True for `O_PATH` opens, which read and write nothing.
    pub is_path_only: bool,
    /// The call was to make a new file or directory (`O_EXCL`), with a mode that serves the owner alone (0600, 0700), as
    /// mkstemp and mkdtemp do.
    pub is_private: bool,
}

/// An act on two names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairAct {
    /// The call.
    pub op: PairOp,
    /// rename, link: the old name. symlink: the link that was made.
    pub path: PathRef,
    /// rename, link: the new name. symlink: its text, as [`PathRef::literal`].
    pub to: PathRef,
    /// The strings the program passed, in the order of `path` and `to`.
    pub requested: (Option<Vec<u8>>, Option<Vec<u8>>),
    /// `RENAME_EXCHANGE`: both names changed places.
    pub is_exchange: bool,
}

/// A program start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecAct {
    /// The file started: for a script, the script.
    pub path: PathRef,
    /// The string passed to execve.
    pub requested: Option<Vec<u8>>,
    /// A script's interpreter, resolved.
    pub interpreter: Option<PathRef>,
    /// The new image's arguments (for a script, as the kernel rewrote them).
    pub argv: Vec<Vec<u8>>,
    /// True when `argv` was longer than the record holds.
    pub is_argv_cut: bool,
    /// Set-id or file-capability program: its credentials changed at this exec.
    pub is_privileged: bool,
}

/// Network operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetOp {
    /// connect
    Connect,
    /// bind
    Bind,
    /// listen
    Listen,
    /// sendto, sendmsg, sendmmsg with an address
    Send,
    /// socket of a family other than INET, INET6 and UNIX: what it may reach is told by the family alone
    Socket,
}

impl NetOp {
    /// Every act, in order.
    pub const ALL: [Self; 5] = [Self::Connect, Self::Bind, Self::Listen, Self::Send, Self::Socket];
}

/// An act on a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetAct {
    /// The call.
    pub op: NetOp,
    /// `tcp`, `udp`, `unix`, `netlink`, `icmp`, `raw`, `packet`, `vsock`, … or `family-N`.
    pub proto: &'static str,
    /// The other end, or for bind and listen our own.
    pub endpoint: Endpoint,
    /// For bind: the program asked for port 0, and the port in `endpoint` is the kernel's choice.
    pub is_ephemeral: bool,
    /// For a UNIX connection that was made: who is at its other end.
    pub peer: Option<Box<Peer>>,
}

/// Who is at the other end of a UNIX connection, as `SO_PEERCRED` has it: who listened there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// Its process id in the initial namespace, and its user; `None` where the kernel names nobody, as for datagrams.
    pub process: Option<(u32, u32)>,
    /// The program that it ran; `None` where it had ended, or has none.
    pub program: Option<PathRef>,
    /// Its name as the kernel has it; `None` where it had ended.
    pub comm: Option<Vec<u8>>,
}

/// Making namespaces, or entering one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceAct {
    /// The call.
    pub op: NamespaceOp,
    /// Which kinds, by their names in `/proc/self/ns`; empty where `setns` was not told.
    pub kinds: Vec<&'static str>,
}

/// Calls that make or enter namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NamespaceOp {
    /// unshare
    Unshare,
    /// setns
    Setns,
    /// clone, clone3
    Clone,
}

impl NamespaceOp {
    /// Every operation.
    pub const ALL: [Self; 3] = [Self::Unshare, Self::Setns, Self::Clone];
}

/// A name for an address, and who gave it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedAct {
    /// The name: lower case, without a dot at its end, and of any bytes but those only that a name is written with.
    pub host: String,
    /// The address.
    pub address: IpAddr,
    /// The port, where only what listens there is called so.
    pub port: Option<u16>,
    /// Who gave it.
    pub from: NameSource,
}

/// Who gave a name for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameSource {
    /// A name server of the host's configuration, in an answer to the run.
    Resolver,
    /// The host's `/etc/hosts`, which the run has read.
    Hosts,
    /// Another server that answers like a name server, one of the run's own making perhaps.
    OtherServer,
    /// The client, which asked for it when it greeted a server by TLS, over TCP or QUIC.
    Tls,
    /// The client, which asked for it in the first request of HTTP that it sent over the connection.
    Http,
}

/// Where a socket act went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An IP address and port; a v4-mapped v6 address is told as v4.
    Inet(SocketAddr),
    /// A named UNIX socket.
    UnixPath(PathRef),
    /// An abstract UNIX socket, without the leading NUL.
    UnixAbstract(Vec<u8>),
    /// An unnamed UNIX socket, or a family without an address we tell.
    None,
    /// The address could not be read.
    Unreadable,
}

/// A path as far as it is known. Absolute paths are those of the acting process's mount namespace, from its
/// topmost mount (not its chroot), with links resolved.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathRef {
    /// The bytes: absolute when `state` is `Resolved`.
    pub bytes: Vec<u8>,
    /// How much they are worth.
    pub state: PathState,
}

/// How much a path is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathState {
    /// The kernel's own dentries gave every component of it, or all but the last one, which the call itself named.
    Resolved,
    /// A link in it could not be followed in the kernel; userspace looked it up shortly after the call.
    LookedUpLate,
    /// The kernel's cache of names gave its beginning; the rest is the string's, joined as text, because neither the
    /// kernel's cache nor a look shortly after knew better.
    Unverified,
    /// The call failed for want of what it named: the place up to which that is known joined with the rest of the string,
    /// `.` and `..` folded as text.
    Lexical,
    /// A file without a name in the tree: pipe, socket, memfd, deleted file, a handle that was refused. The bytes say which
    /// (`memfd:NAME`, `pipe:`, `/dir/name (deleted)`, `handle:` …).
    Nameless,
    /// Text that is not a path to be resolved (a symlink's target, an abstract name).
    Literal,
    /// Cut at a limit: the bytes are the part nearest the file, and the real path is longer.
    Cut,
    /// Could not be read from the program's memory or the kernel.
    Unreadable,
}

impl fmt::Debug for PathRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}(\"{}\")", self.state, self.bytes.escape_ascii())
    }
}

impl PathRef {
    /// A resolved absolute path.
    pub fn resolved(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), state: PathState::Resolved }
    }

    /// Text that is not resolved.
    pub fn literal(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), state: PathState::Literal }
    }

    /// A path of which nothing is known.
    pub fn unreadable() -> Self {
        Self { bytes: Vec::new(), state: PathState::Unreadable }
    }

    /// Whether the identity may name it without admitting a gap.
    pub fn is_trustworthy(&self) -> bool {
        match self.state {
            PathState::Resolved
            | PathState::Nameless
            | PathState::Literal
            | PathState::LookedUpLate
            | PathState::Lexical => true,
            PathState::Cut | PathState::Unreadable | PathState::Unverified => false,
        }
    }
}
