//! The system calls that are observed, as data: number → operation, and where its arguments are.
//!
//! Numbers are those of x86-64 and, for the 32-bit entry, of i386. `None` in a column: that entry has no such call.

/// The operation of a call, without its variants. The number is also its counter's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Op {
    /// open, creat, openat, openat2, `open_by_handle_at`
    Open = 1,
    /// unlink, unlinkat
    Unlink = 2,
    /// rmdir
    Rmdir = 3,
    /// rename, renameat, renameat2
    Rename = 4,
    /// mkdir, mkdirat
    Mkdir = 5,
    /// mknod, mknodat
    Mknod = 6,
    /// link, linkat
    Link = 7,
    /// symlink, symlinkat
    Symlink = 8,
    /// truncate, ftruncate
    Truncate = 9,
    /// chmod, fchmod, fchmodat, fchmodat2
    Chmod = 10,
    /// chown, lchown, fchown, fchownat
    Chown = 11,
    /// utime, utimes, futimesat, utimensat
    Utime = 12,
    /// setxattr, lsetxattr, fsetxattr, setxattrat
    Setxattr = 13,
    /// removexattr, lremovexattr, fremovexattr, removexattrat
    Removexattr = 14,
    /// mount, `move_mount`
    Mount = 15,
    /// umount, umount2
    Umount = 16,
    /// `pivot_root`
    PivotRoot = 17,
    /// chdir, fchdir
    Chdir = 18,
    /// chroot
    Chroot = 19,
    /// execve, execveat that failed
    Exec = 20,
    /// connect
    Connect = 21,
    /// bind
    Bind = 22,
    /// listen
    Listen = 23,
    /// sendto, sendmsg, sendmmsg with an address
    Send = 24,
    /// socket of a family other than UNIX, INET and INET6, or a raw one
    Socket = 25,
    /// write and its relatives through a descriptor older than the run
    Write = 26,
    /// `io_uring_setup`: what is asked of the ring is no system call
    IoUring = 27,
    /// `process_vm_writev`, `process_vm_readv`, ptrace: acting through another process
    OtherProcess = 28,
    /// recvmsg, recvmmsg that brought descriptors; `pidfd_getfd`
    Receive = 29,
    /// Calls after which something acts where no probe follows: acct, `request_key`, bpf, modules, some ioctls, x32 calls
    Beyond = 30,
    /// unshare, setns, and clone and clone3 into namespaces of its own
    Namespaces = 31,
}

impl Op {
    /// Every operation, in the order of their numbers.
    pub const ALL: [Self; 31] = [
        Self::Open,
        Self::Unlink,
        Self::Rmdir,
        Self::Rename,
        Self::Mkdir,
        Self::Mknod,
        Self::Link,
        Self::Symlink,
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
        Self::Exec,
        Self::Connect,
        Self::Bind,
        Self::Listen,
        Self::Send,
        Self::Socket,
        Self::Write,
        Self::IoUring,
        Self::OtherProcess,
        Self::Receive,
        Self::Beyond,
        Self::Namespaces,
    ];

    /// The operation with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// The word in the trace and in the loss counters.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Unlink => "unlink",
            Self::Rmdir => "rmdir",
            Self::Rename => "rename",
            Self::Mkdir => "mkdir",
            Self::Mknod => "mknod",
            Self::Link => "link",
            Self::Symlink => "symlink",
            Self::Truncate => "truncate",
            Self::Chmod => "chmod",
            Self::Chown => "chown",
            Self::Utime => "utime",
            Self::Setxattr => "setxattr",
            Self::Removexattr => "removexattr",
            Self::Mount => "mount",
            Self::Umount => "umount",
            Self::PivotRoot => "pivot_root",
            Self::Chdir => "chdir",
            Self::Chroot => "chroot",
            Self::Exec => "exec",
            Self::Connect => "connect",
            Self::Bind => "bind",
            Self::Listen => "listen",
            Self::Send => "send",
            Self::Socket => "socket",
            Self::Write => "write",
            Self::IoUring => "io_uring_setup",
            Self::OtherProcess => "other_process",
            Self::Receive => "receive",
            Self::Beyond => "beyond",
            Self::Namespaces => "namespaces",
        }
    }
}

/// How a call is read: also the slot of the program that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Shape {
    /// Not observed.
    None = 0,
    /// Takes one path and returns a descriptor.
    Opened = 1,
    /// Takes one or two paths.
    Paths = 2,
    /// Takes a descriptor of a file.
    Fd = 3,
    /// Takes a socket and perhaps an address.
    Socket = 4,
    /// Writes through a descriptor.
    Write = 5,
    /// Only its arguments matter.
    Bare = 6,
    /// `sendmmsg`.
    Mmsg = 7,
    /// Brings descriptors in messages.
    Receive = 9,
    /// `io_submit`.
    Aio = 10,
    /// Makes or enters namespaces.
    Namespaces = 11,
}

/// Where an argument is; [`NONE`] where there is none.
pub type Arg = u8;
/// There is no such argument. For a directory: the path is relative to the working directory.
pub const NONE: Arg = 7;

/// Whether a link at the end of the path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Follow {
    /// Always.
    Yes = 0,
    /// Never, and the name itself is made, removed or moved: resolution stops before it.
    Name = 1,
    /// Unless `AT_SYMLINK_NOFOLLOW` is in the flags argument.
    UnlessFlag = 2,
    /// Only if `AT_SYMLINK_FOLLOW` is in the flags argument.
    IfFlag = 3,
    /// Never, but the link itself is the file meant.
    Link = 4,
}

/// How to read one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Call {
    /// [`Op`]'s number.
    pub op: u16,
    /// [`Shape`].
    pub shape: u8,
    /// [`Follow`] for the first path (and the second, which is always a name, ignores it).
    pub follow: u8,
    /// Directory descriptor of the first path; for `Fd`, `Write` and `Socket` the descriptor itself.
    pub dir_a: Arg,
    /// The first path; for `Socket` the address or message.
    pub path_a: Arg,
    /// Directory descriptor of the second path.
    pub dir_b: Arg,
    /// The second path; for `Socket` the length of the address, [`NONE`] when `path_a` is a message.
    pub path_b: Arg,
    /// Flags that `follow` and `AT_EMPTY_PATH` are read from.
    pub flags: Arg,
    /// Always zero.
    pub padding: u8,
}

impl Call {
    /// Not observed.
    pub const NOT: Self = Self {
        op: 0,
        shape: 0,
        follow: 0,
        dir_a: NONE,
        path_a: NONE,
        dir_b: NONE,
        path_b: NONE,
        flags: NONE,
        padding: 0,
    };
}

/// One row: numbers, then how to read it.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Its number by the 64-bit entry.
    pub native: Option<u16>,
    /// Its number by the 32-bit entry.
    pub compat: Option<u16>,
    /// How to read it.
    pub call: Call,
}

const fn row(
    name: &'static str,
    native: u16,
    compat: u16,
    op: Op,
    shape: Shape,
    follow: Follow,
    args: [Arg; 5],
) -> Row {
    let native = if native == NO { None } else { Some(native) };
    let compat = if compat == NO { None } else { Some(compat) };
    let call = Call {
        op: op as u16,
        shape: shape as u8,
        follow: follow as u8,
        dir_a: args[0],
        path_a: args[1],
        dir_b: args[2],
        path_b: args[3],
        flags: args[4],
        padding: 0,
    };
    Row { name, native, compat, call }
}

const NO: u16 = u16::MAX;
const X: Arg = NONE;

use Follow::{IfFlag, Link, Name, UnlessFlag, Yes};
use Shape::{Aio, Bare, Fd, Mmsg, Namespaces, Opened, Paths, Receive, Socket, Write};

/// Every observed call. Arguments are `[dir_a, path_a, dir_b, path_b, flags]`.
pub const ROWS: &[Row] = &[
    row("open", 2, 5, Op::Open, Opened, Yes, [X, 0, X, X, X]),
    row("creat", 85, 8, Op::Open, Opened, Yes, [X, 0, X, X, X]),
    row("openat", 257, 295, Op::Open, Opened, Yes, [0, 1, X, X, X]),
    row("openat2", 437, 437, Op::Open, Opened, Yes, [0, 1, X, X, X]),
    row("open_by_handle_at", 304, 342, Op::Open, Opened, Yes, [X, X, X, X, X]),
    row("unlink", 87, 10, Op::Unlink, Paths, Name, [X, 0, X, X, X]),
    row("unlinkat", 263, 301, Op::Unlink, Paths, Name, [0, 1, X, X, X]),
    row("rmdir", 84, 40, Op::Rmdir, Paths, Name, [X, 0, X, X, X]),
    row("rename", 82, 38, Op::Rename, Paths, Name, [X, 0, X, 1, X]),
    row("renameat", 264, 302, Op::Rename, Paths, Name, [0, 1, 2, 3, X]),
    row("renameat2", 316, 353, Op::Rename, Paths, Name, [0, 1, 2, 3, X]),
    row("mkdir", 83, 39, Op::Mkdir, Paths, Name, [X, 0, X, X, X]),
    row("mkdirat", 258, 296, Op::Mkdir, Paths, Name, [0, 1, X, X, X]),
    row("mknod", 133, 14, Op::Mknod, Paths, Name, [X, 0, X, X, X]),
    row("mknodat", 259, 297, Op::Mknod, Paths, Name, [0, 1, X, X, X]),
    row("link", 86, 9, Op::Link, Paths, Link, [X, 0, X, 1, X]),
    row("linkat", 265, 303, Op::Link, Paths, IfFlag, [0, 1, 2, 3, 4]),
    // A symlink's text is argument 0 and is not resolved: it is read as the second path of a shape of its own.
    row("symlink", 88, 83, Op::Symlink, Paths, Name, [X, 1, X, 0, X]),
    row("symlinkat", 266, 304, Op::Symlink, Paths, Name, [1, 2, X, 0, X]),
    row("truncate", 76, 92, Op::Truncate, Paths, Yes, [X, 0, X, X, X]),
    row("truncate64", NO, 193, Op::Truncate, Paths, Yes, [X, 0, X, X, X]),
    row("ftruncate", 77, 93, Op::Truncate, Fd, Yes, [0, X, X, X, X]),
    row("ftruncate64", NO, 194, Op::Truncate, Fd, Yes, [0, X, X, X, X]),
    row("chmod", 90, 15, Op::Chmod, Paths, Yes, [X, 0, X, X, X]),
    row("fchmod", 91, 94, Op::Chmod, Fd, Yes, [0, X, X, X, X]),
    row("fchmodat", 268, 306, Op::Chmod, Paths, Yes, [0, 1, X, X, X]),
    row("fchmodat2", 452, 452, Op::Chmod, Paths, UnlessFlag, [0, 1, X, X, 3]),
    row("chown", 92, 212, Op::Chown, Paths, Yes, [X, 0, X, X, X]),
    row("chown16", NO, 182, Op::Chown, Paths, Yes, [X, 0, X, X, X]),
    row("lchown", 94, 198, Op::Chown, Paths, Link, [X, 0, X, X, X]),
    row("lchown16", NO, 16, Op::Chown, Paths, Link, [X, 0, X, X, X]),
    row("fchown", 93, 207, Op::Chown, Fd, Yes, [0, X, X, X, X]),
    row("fchown16", NO, 95, Op::Chown, Fd, Yes, [0, X, X, X, X]),
    row("fchownat", 260, 298, Op::Chown, Paths, UnlessFlag, [0, 1, X, X, 4]),
    row("utime", 132, 30, Op::Utime, Paths, Yes, [X, 0, X, X, X]),
    row("utimes", 235, 271, Op::Utime, Paths, Yes, [X, 0, X, X, X]),
    row("futimesat", 261, 299, Op::Utime, Paths, Yes, [0, 1, X, X, X]),
    row("utimensat", 280, 320, Op::Utime, Paths, UnlessFlag, [0, 1, X, X, 3]),
    row("utimensat_time64", NO, 412, Op::Utime, Paths, UnlessFlag, [0, 1, X, X, 3]),
    row("setxattr", 188, 226, Op::Setxattr, Paths, Yes, [X, 0, X, X, X]),
    row("lsetxattr", 189, 227, Op::Setxattr, Paths, Link, [X, 0, X, X, X]),
    row("fsetxattr", 190, 228, Op::Setxattr, Fd, Yes, [0, X, X, X, X]),
    row("setxattrat", 463, 463, Op::Setxattr, Paths, UnlessFlag, [0, 1, X, X, 2]),
    row("removexattr", 197, 235, Op::Removexattr, Paths, Yes, [X, 0, X, X, X]),
    row("lremovexattr", 198, 236, Op::Removexattr, Paths, Link, [X, 0, X, X, X]),
    row("fremovexattr", 199, 237, Op::Removexattr, Fd, Yes, [0, X, X, X, X]),
    row("removexattrat", 466, 466, Op::Removexattr, Paths, UnlessFlag, [0, 1, X, X, 2]),
    row("file_setattr", 469, 469, Op::Setxattr, Paths, UnlessFlag, [0, 1, X, X, 4]),
    // What is mounted is text (a device, or nothing at all); where it is mounted is a path.
    row("mount", 165, 21, Op::Mount, Paths, Yes, [X, 1, X, 0, X]),
    row("move_mount", 429, 429, Op::Mount, Paths, Yes, [2, 3, 0, 1, X]),
    row("mount_setattr", 442, 442, Op::Mount, Paths, UnlessFlag, [0, 1, X, X, 2]),
    row("umount", NO, 22, Op::Umount, Paths, Yes, [X, 0, X, X, X]),
    row("umount2", 166, 52, Op::Umount, Paths, Yes, [X, 0, X, X, X]),
    row("pivot_root", 155, 217, Op::PivotRoot, Paths, Yes, [X, 0, X, 1, X]),
    row("chdir", 80, 12, Op::Chdir, Paths, Yes, [X, 0, X, X, X]),
    row("fchdir", 81, 133, Op::Chdir, Fd, Yes, [0, X, X, X, X]),
    row("chroot", 161, 61, Op::Chroot, Paths, Yes, [X, 0, X, X, X]),
    row("execve", 59, 11, Op::Exec, Paths, Yes, [X, 0, X, X, X]),
    row("execveat", 322, 358, Op::Exec, Paths, UnlessFlag, [0, 1, X, X, 4]),
    row("connect", 42, 362, Op::Connect, Socket, Yes, [0, 1, X, 2, X]),
    row("bind", 49, 361, Op::Bind, Socket, Yes, [0, 1, X, 2, X]),
    row("listen", 50, 363, Op::Listen, Socket, Yes, [0, X, X, X, X]),
    row("sendto", 44, 369, Op::Send, Socket, Yes, [0, 4, X, 5, X]),
    row("sendmsg", 46, 370, Op::Send, Socket, Yes, [0, 1, X, X, X]),
    row("sendmmsg", 307, 345, Op::Send, Mmsg, Yes, [0, 1, X, X, X]),
    row("socket", 41, 359, Op::Socket, Bare, Yes, [X, X, X, X, X]),
    row("write", 1, 4, Op::Write, Write, Yes, [0, X, X, X, X]),
    row("writev", 20, 146, Op::Write, Write, Yes, [0, X, X, X, X]),
    row("pwrite64", 18, 181, Op::Write, Write, Yes, [0, X, X, X, X]),
    row("pwritev", 296, 334, Op::Write, Write, Yes, [0, X, X, X, X]),
    row("pwritev2", 328, 379, Op::Write, Write, Yes, [0, X, X, X, X]),
    row("fallocate", 285, 324, Op::Write, Write, Yes, [0, X, X, X, X]),
    row("sendfile", 40, 187, Op::Write, Write, Yes, [0, X, X, X, X]),
    row("sendfile64", NO, 239, Op::Write, Write, Yes, [0, X, X, X, X]),
    row("copy_file_range", 326, 377, Op::Write, Write, Yes, [2, X, X, X, X]),
    row("splice", 275, 313, Op::Write, Write, Yes, [2, X, X, X, X]),
    row("mmap", 9, NO, Op::Write, Write, Yes, [4, X, X, X, X]),
    row("mmap2", NO, 192, Op::Write, Write, Yes, [4, X, X, X, X]),
    row("io_submit", 209, 248, Op::Write, Aio, Yes, [X, X, X, X, X]),
    row("io_uring_setup", 425, 425, Op::IoUring, Bare, Yes, [X, X, X, X, X]),
    row("pidfd_getfd", 438, 438, Op::Receive, Receive, Yes, [X, X, X, X, X]),
    row("recvmsg", 47, 372, Op::Receive, Receive, Yes, [0, 1, X, X, X]),
    row("recvmmsg", 299, 337, Op::Receive, Receive, Yes, [0, 1, X, X, X]),
    row("recvmmsg_time64", NO, 417, Op::Receive, Receive, Yes, [0, 1, X, X, X]),
    row("process_vm_writev", 311, 348, Op::OtherProcess, Bare, Yes, [X, X, X, X, X]),
    row("process_vm_readv", 310, 347, Op::OtherProcess, Bare, Yes, [X, X, X, X, X]),
    row("ptrace", 101, 26, Op::OtherProcess, Bare, Yes, [X, X, X, X, X]),
    // Which of them matter is told by their arguments: `slot_of` in the kernel half.
    row("ioctl", 16, 54, Op::Beyond, Bare, Yes, [0, X, X, X, X]),
    row("setns", 308, 346, Op::Namespaces, Namespaces, Yes, [X, X, X, X, X]),
    row("unshare", 272, 310, Op::Namespaces, Namespaces, Yes, [X, X, X, X, X]),
    row("clone", 56, 120, Op::Namespaces, Namespaces, Yes, [X, X, X, X, X]),
    row("clone3", 435, 435, Op::Namespaces, Namespaces, Yes, [X, X, X, X, X]),
    row("acct", 163, 51, Op::Beyond, Bare, Yes, [X, X, X, X, X]),
    row("request_key", 249, 287, Op::Beyond, Bare, Yes, [X, X, X, X, X]),
    row("fsconfig", 431, 431, Op::Beyond, Bare, Yes, [X, X, X, X, X]),
    // What they do is done in the kernel, where the observer itself is.
    row("bpf", 321, 357, Op::Beyond, Bare, Yes, [X, X, X, X, X]),
    row("init_module", 175, 128, Op::Beyond, Bare, Yes, [X, X, X, X, X]),
    row("finit_module", 313, 350, Op::Beyond, Bare, Yes, [X, X, X, X, X]),
    row("kexec_load", 246, 283, Op::Beyond, Bare, Yes, [X, X, X, X, X]),
    row("kexec_file_load", 320, NO, Op::Beyond, Bare, Yes, [X, X, X, X, X]),
    row("iopl", 172, 110, Op::Beyond, Bare, Yes, [X, X, X, X, X]),
    row("ioperm", 173, 101, Op::Beyond, Bare, Yes, [X, X, X, X, X]),
    row("swapon", 167, 87, Op::Beyond, Bare, Yes, [X, X, X, X, X]),
];

/// The bit that marks a call of the x32 kind, which comes by the 64-bit entry. Most kernels have none.
pub const X32: u64 = 0x4000_0000;

/// What stands for the number of such a call in a record.
pub const X32_CALL: u16 = u16::MAX;

/// The ioctls that are told, by their numbers.
pub mod ioctl {
    /// Shares the blocks of another file.
    pub const FICLONE: u64 = 0x4004_9409;
    /// Shares some of them.
    pub const FICLONERANGE: u64 = 0x4020_940d;
    /// Changes a file's attributes (`chattr`), by the 64-bit entry.
    pub const SETFLAGS: u64 = 0x4008_6602;
    /// The same by the 32-bit entry.
    pub const SETFLAGS_COMPAT: u64 = 0x4004_6602;
    /// Changes a file's attributes.
    pub const FSSETXATTR: u64 = 0x401c_5820;
    /// Types on a terminal.
    pub const TIOCSTI: u64 = 0x5412;
    /// Pastes on a virtual terminal, among others.
    pub const TIOCLINUX: u64 = 0x541c;
}

/// Kinds of namespaces: the flag of unshare, setns and clone, and the name in `/proc/self/ns`.
pub const NAMESPACES: [(u64, &str); 8] = [
    (0x2_0000, "mnt"),
    (0x200_0000, "cgroup"),
    (0x400_0000, "uts"),
    (0x800_0000, "ipc"),
    (0x1000_0000, "user"),
    (0x2000_0000, "pid"),
    (0x4000_0000, "net"),
    (0x80, "time"),
];

/// All of their flags; `clone` has a signal's number where the last one is.
pub const NAMESPACE_FLAGS: u64 = 0x7e02_0080;

/// `FSCONFIG_CMD_RECONFIGURE`: a filesystem is mounted anew with other options.
pub const FSCONFIG_RECONFIGURE: u64 = 7;

/// i386's one call for all of the socket calls; its first argument says which, its second where the arguments are.
pub const SOCKETCALL: u64 = 102;

/// Numbers a table holds.
pub const TABLE: usize = 512;

/// number → call, for the 64-bit entry.
pub const NATIVE: [Call; TABLE] = table(false);
/// number → call, for the 32-bit entry.
pub const COMPAT: [Call; TABLE] = table(true);
/// `socketcall`'s own numbering → call.
pub const SOCKETCALLS: [Call; 32] = socketcalls();

const fn table(is_compat: bool) -> [Call; TABLE] {
    let mut table = [Call::NOT; TABLE];
    let mut at = 0;
    while at < ROWS.len() {
        let number = if is_compat { ROWS[at].compat } else { ROWS[at].native };
        if let Some(number) = number {
            assert!(table[number as usize].op == 0, "two rows have one number");
            table[number as usize] = ROWS[at].call;
        }
        at += 1;
    }
    table
}

const fn socketcalls() -> [Call; 32] {
    let mut table = [Call::NOT; 32];
    table[1] = named("socket");
    table[2] = named("bind");
    table[3] = named("connect");
    table[4] = named("listen");
    table[11] = named("sendto");
    table[16] = named("sendmsg");
    table[17] = named("recvmsg");
    table[19] = named("recvmmsg");
    table[20] = named("sendmmsg");
    table
}

const fn named(name: &str) -> Call {
    let mut at = 0;
    while at < ROWS.len() {
        let (row, name) = (ROWS[at].name.as_bytes(), name.as_bytes());
        if row.len() == name.len() {
            let mut same = 0;
            while same < row.len() && row[same] == name[same] {
                same += 1;
            }
            if same == row.len() {
                return ROWS[at].call;
            }
        }
        at += 1;
    }
    panic!("no such row")
}

/// Which row a number belongs to.
pub fn row_of(number: u16, is_compat: bool) -> Option<&'static Row> {
    ROWS.iter().find(|row| if is_compat { row.compat == Some(number) } else { row.native == Some(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_found_by_its_number() {
        for op in Op::ALL {
            assert_eq!(Op::from_number(op as u16), Some(op));
        }
        assert_eq!(Op::from_number(0), None);
        assert_eq!(Op::from_number(32), None);
    }

    #[test]
    fn every_row_is_in_its_tables() {
        for row in ROWS {
            if let Some(number) = row.native {
                assert_eq!(NATIVE[usize::from(number)], row.call, "{}", row.name);
            }
            if let Some(number) = row.compat {
                assert_eq!(COMPAT[usize::from(number)], row.call, "{}", row.name);
            }
        }
    }
}
