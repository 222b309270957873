//! Requests to an io_uring: acts that are no system calls.
//!
//! What is asked for is read when the request is submitted, while its names are held; what came of it when it is
//! completed. Userspace joins the two by the request's identity. A record carries the number and the arguments of the
//! system call that the request stands for, so that nobody downstream needs to know the difference.

use assay_common::calls::Op;
use assay_common::kind::{RecordKind, SectionTag};
use assay_common::limits::SOCKADDR_LEN;
use assay_common::loss;
use assay_common::names::tail;
use assay_common::offsets::MISSING;
use assay_common::record::flags;
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;

use crate::aimed::{self, AF_INET, AF_INET6};
use crate::call::put_file;
use crate::chain::{put_chain, put_facts};
use crate::emit::{scratch, submit};
use crate::kernel::{off, place_of, read, read_user};
use crate::maps::{Scratch, TAILS, mode};
use crate::network::{put_socket_file, put_unix_path, sk_of};
use crate::scope;
use crate::served::of_run;
use crate::start::{AT_FDCWD, Text, Which, prepare, set_job};
use crate::written::is_first_write;

/// `IORING_OP_*`: fixed numbers of the user interface.
mod opcode {
    pub const WRITEV: u8 = 2;
    pub const WRITE_FIXED: u8 = 5;
    pub const SENDMSG: u8 = 9;
    pub const RECVMSG: u8 = 10;
    pub const CONNECT: u8 = 16;
    pub const FALLOCATE: u8 = 17;
    pub const OPENAT: u8 = 18;
    pub const WRITE: u8 = 23;
    pub const SEND: u8 = 26;
    pub const OPENAT2: u8 = 28;
    pub const SPLICE: u8 = 30;
    pub const RENAMEAT: u8 = 35;
    pub const UNLINKAT: u8 = 36;
    pub const MKDIRAT: u8 = 37;
    pub const SYMLINKAT: u8 = 38;
    pub const LINKAT: u8 = 39;
    pub const FSETXATTR: u8 = 41;
    pub const SETXATTR: u8 = 42;
    pub const SOCKET: u8 = 45;
    pub const SEND_ZC: u8 = 47;
    pub const SENDMSG_ZC: u8 = 48;
    pub const FTRUNCATE: u8 = 55;
    pub const BIND: u8 = 56;
    pub const LISTEN: u8 = 57;
    pub const WRITEV_FIXED: u8 = 61;
    /// The last one whose meaning is known here (`IORING_OP_PIPE`).
    pub const LAST: u8 = 62;
}

/// Numbers of the calls that requests stand for.
mod native {
    pub const WRITE: u32 = 1;
    pub const SOCKET: u32 = 41;
    pub const CONNECT: u32 = 42;
    pub const SENDTO: u32 = 44;
    pub const RECVMSG: u32 = 47;
    pub const BIND: u32 = 49;
    pub const LISTEN: u32 = 50;
    pub const FTRUNCATE: u32 = 77;
    pub const SETXATTR: u32 = 188;
    pub const FSETXATTR: u32 = 190;
    pub const MKDIRAT: u32 = 258;
    pub const UNLINKAT: u32 = 263;
    pub const LINKAT: u32 = 265;
    pub const SYMLINKAT: u32 = 266;
    pub const RENAMEAT2: u32 = 316;
    pub const IO_URING_SETUP: u32 = 425;
    pub const OPENAT2: u32 = 437;
}

const AT_SYMLINK_FOLLOW: u32 = 0x400;
/// More than any address family has.
const AF_MAX: u16 = 64;

/// What a request stands for; `op` 0 for none that is observed.
#[derive(Clone, Copy)]
#[repr(C)]
struct Meaning {
    /// The operation.
    op: u16,
    /// The call's number.
    nr: u16,
}

/// More operations than there are.
const OPCODES: usize = 128;

/// A table, and no `match`: what is read from it is unknown to the verifier, which then goes through what follows once,
/// and not once for each operation.
static MEANINGS: [Meaning; OPCODES] = meanings();

const fn meanings() -> [Meaning; OPCODES] {
    let mut all = [Meaning { op: 0, nr: 0 }; OPCODES];
    let known = [
        (opcode::OPENAT, Op::Open, native::OPENAT2),
        (opcode::OPENAT2, Op::Open, native::OPENAT2),
        (opcode::UNLINKAT, Op::Unlink, native::UNLINKAT),
        (opcode::RENAMEAT, Op::Rename, native::RENAMEAT2),
        (opcode::MKDIRAT, Op::Mkdir, native::MKDIRAT),
        (opcode::SYMLINKAT, Op::Symlink, native::SYMLINKAT),
        (opcode::LINKAT, Op::Link, native::LINKAT),
        (opcode::SETXATTR, Op::Setxattr, native::SETXATTR),
        (opcode::FSETXATTR, Op::Setxattr, native::FSETXATTR),
        (opcode::FTRUNCATE, Op::Truncate, native::FTRUNCATE),
        (opcode::CONNECT, Op::Connect, native::CONNECT),
        (opcode::BIND, Op::Bind, native::BIND),
        (opcode::LISTEN, Op::Listen, native::LISTEN),
        (opcode::SOCKET, Op::Socket, native::SOCKET),
        (opcode::SEND, Op::Send, native::SENDTO),
        (opcode::SENDMSG, Op::Send, native::SENDTO),
        (opcode::SEND_ZC, Op::Send, native::SENDTO),
        (opcode::SENDMSG_ZC, Op::Send, native::SENDTO),
    ];
    let mut at = 0;
    while at < known.len() {
        all[known[at].0 as usize] = Meaning { op: known[at].1 as u16, nr: known[at].2 as u16 };
        at += 1;
    }
    all
}

/// The operation and call a request stands for, or none that is observed.
#[inline(always)]
fn meaning(opcode: u8) -> Option<(u16, u32)> {
    let found = MEANINGS[core::hint::black_box(usize::from(opcode)) & (OPCODES - 1)];
    if found.op == 0 || usize::from(opcode) >= OPCODES { None } else { Some((found.op, u32::from(found.nr))) }
}

/// `io_uring_submit_req(req)`, or `io_uring_submit_sqe(req, …)` before 6.3: prepared, not yet begun.
#[raw_tracepoint]
pub fn uring_submit(ctx: RawTracePointContext) -> i32 {
    let Some(member) = scope::current() else { return 0 };
    let req: u64 = ctx.arg(0);
    let opcode: u8 = read(req + off!(req_opcode));
    if opcode > opcode::LAST || opcode == opcode::RECVMSG && receives_many(req) {
        tell_unknown(opcode, member);
        return 0;
    }
    let Some((op, nr)) = meaning(opcode) else { return 0 };
    let Some(scratch) = scratch() else { return 0 };
    let header = scratch.begin(RecordKind::UringSubmit, op, u32::from(op), member);
    header.nr = nr;
    header.args[5] = req;
    if op == Op::Socket as u16 {
        // All of them, as there are few: which are plain is told apart later.
        header.args[0] = u64::from(read::<u32>(req + off!(socket_domain)));
        header.args[1] = u64::from(read::<u32>(req + off!(socket_kind)));
        header.args[2] = u64::from(read::<u32>(req + off!(socket_protocol)));
        submit();
        return 0;
    }
    if opcode == opcode::CONNECT || op == Op::Send as u16 || op == Op::Bind as u16 {
        if !put_address(scratch, req, op) {
            return 0;
        }
    } else {
        put_names(req, opcode);
    }
    // SAFETY: nothing here needs dropping; an empty slot ends the program, and `plan` refuses to run with one.
    unsafe { TAILS.tail_call(&ctx, tail::WALK) };
    0
}

/// Whether it receives message after message, each with its descriptors, into buffers of which no completion tells.
#[inline(always)]
fn receives_many(req: u64) -> bool {
    const RECV_MULTISHOT: u16 = 1 << 1;
    let message: u64 = read(req + off!(message_user));
    read::<u16>(req + off!(message_flags)) & RECV_MULTISHOT != 0 && may_bring(message, is_compat(req))
}

/// Whether a `struct msghdr` has room for descriptors; as far as can be seen.
#[inline(always)]
fn may_bring(message: u64, is_compat: bool) -> bool {
    let room = if is_compat {
        read_user::<u32>(message + 20).map(u64::from)
    } else {
        read_user::<u64>(message + 40)
    };
    room != Some(0)
}

/// Whether the request's ring was made by the 32-bit entry, so that what lies in memory is laid out as for it.
#[inline(always)]
fn is_compat(req: u64) -> bool {
    let bit = off!(ring_compat_bit);
    if bit == u64::from(MISSING) {
        return false;
    }
    let ring: u64 = read(req + off!(req_ctx));
    let byte: u8 = read(ring + bit / 8);
    (byte >> (bit % 8)) & 1 != 0
}

/// A request that is not understood.
#[inline(always)]
fn tell_unknown(opcode: u8, member: scope::Membership) {
    let Some(scratch) = scratch() else { return };
    let header = scratch.begin(RecordKind::Call, Op::Beyond as u16, Op::Beyond as u32, member);
    header.nr = native::IO_URING_SETUP;
    header.args[0] = u64::from(opcode);
    submit();
}

/// Reads the names a request holds. A name is not cached before the request is begun: it is resolved as far as it is.
/// Each path is prepared in one place, whatever the request: the verifier goes through that once for each place.
#[inline(always)]
fn put_names(req: u64, opcode: u8) {
    let Some(scratch) = scratch() else { return };
    let (name, dir, mode): (u64, i32, u32) = if opcode == opcode::OPENAT || opcode == opcode::OPENAT2 {
        let header = scratch.header();
        header.args[2] = read(req + off!(open_how));
        header.args[3] = u64::from(read::<u32>(req + off!(open_slot)));
        (read(req + off!(open_filename)), read(req + off!(open_dfd)), mode::FOLLOW)
    } else if opcode == opcode::UNLINKAT {
        scratch.header().args[2] = u64::from(read::<u32>(req + off!(unlink_flags)));
        (read(req + off!(unlink_filename)), read(req + off!(unlink_dfd)), mode::NAME)
    } else if opcode == opcode::MKDIRAT {
        (read(req + off!(mkdir_filename)), read(req + off!(mkdir_dfd)), mode::NAME)
    } else if opcode == opcode::RENAMEAT {
        scratch.header().args[4] = u64::from(read::<u32>(req + off!(rename_flags)));
        (read(req + off!(rename_oldpath)), read(req + off!(rename_old_dfd)), mode::NAME)
    } else if opcode == opcode::LINKAT {
        let flags: u32 = read(req + off!(link_flags));
        let wanted = if flags & AT_SYMLINK_FOLLOW == 0 { mode::LINK } else { mode::FOLLOW };
        (read(req + off!(link_oldpath)), read(req + off!(link_old_dfd)), wanted)
    } else if opcode == opcode::SYMLINKAT {
        (read(req + off!(link_newpath)), read(req + off!(link_new_dfd)), mode::NAME)
    } else if opcode == opcode::SETXATTR {
        (read(req + off!(xattr_filename)), AT_FDCWD, mode::FOLLOW)
    } else {
        return;
    };
    prepare(Which::A, Text::Kernel(read(name + off!(filename_name))), dir, mode);
    let (name, dir): (u64, i32) = if opcode == opcode::RENAMEAT {
        (read(req + off!(rename_newpath)), read(req + off!(rename_new_dfd)))
    } else if opcode == opcode::LINKAT {
        (read(req + off!(link_newpath)), read(req + off!(link_new_dfd)))
    } else if opcode == opcode::SYMLINKAT {
        let text: u64 = read(req + off!(link_oldpath));
        let Some(scratch) = crate::emit::scratch() else { return };
        scratch.put_kernel_string(SectionTag::RequestedB, read(text + off!(filename_name)));
        return;
    } else {
        return;
    };
    prepare(Which::B, Text::Kernel(read(name + off!(filename_name))), dir, mode::NAME);
}

/// Reads the address of a request on a socket. False when it sends to where the socket is connected anyway.
#[inline(always)]
fn put_address(scratch: &mut Scratch, req: u64, op: u16) -> bool {
    if op == Op::Connect as u16 {
        let address: u64 = read(req + off!(connect_addr));
        let len: u32 = read(req + off!(connect_addr_len));
        scratch.put_user_bytes::<SOCKADDR_LEN>(SectionTag::Sockaddr, address, u64::from(len));
        let family = read_user::<u16>(address).unwrap_or(0);
        if family == 1 && len > 2 && len <= SOCKADDR_LEN as u32 && put_unix_path(scratch, address, len) {
            set_job(scratch, Which::A, AT_FDCWD, mode::FOLLOW);
        }
        return true;
    }
    let held: u64 = read(req + off!(req_async_data));
    if held == 0 && op == Op::Send as u16 {
        return put_sent_address(scratch, req);
    }
    let len: u32 = if op == Op::Bind as u16 {
        read(req + off!(bind_addr_len))
    } else {
        read(held + off!(async_msg) + off!(msg_namelen))
    };
    if held == 0 || len == 0 {
        return op == Op::Bind as u16;
    }
    // What lies there is an address only if it begins with a family; some kernels keep a bind's elsewhere.
    let family: u16 = read(held + off!(async_addr));
    if family <= AF_MAX {
        scratch.put_kernel_bytes::<SOCKADDR_LEN>(
            SectionTag::Sockaddr,
            held + off!(async_addr),
            u64::from(len),
        );
    }
    true
}

/// The address of a message that the kernel has not taken over yet: before 6.10 it does that when it begins the request.
/// False when there is none.
#[inline(always)]
fn put_sent_address(scratch: &mut Scratch, req: u64) -> bool {
    let opcode: u8 = read(req + off!(req_opcode));
    let (address, len) = if opcode == opcode::SENDMSG || opcode == opcode::SENDMSG_ZC {
        let message: u64 = read(req + off!(message_user));
        // A message that is not mapped yet has an address that cannot be read.
        if is_compat(req) {
            (read_user::<u32>(message).map_or(1, u64::from), read_user::<u32>(message + 4).unwrap_or(1))
        } else {
            (read_user::<u64>(message).unwrap_or(1), read_user::<u32>(message + 8).unwrap_or(1))
        }
    } else if off!(sent_addr) != u64::from(MISSING) && off!(sent_addr_len) != u64::from(MISSING) {
        (read::<u64>(req + off!(sent_addr)), u32::from(read::<u16>(req + off!(sent_addr_len))))
    } else {
        return false;
    };
    if address == 0 || len == 0 {
        return false;
    }
    scratch.put_user_bytes::<SOCKADDR_LEN>(SectionTag::Sockaddr, address, u64::from(len));
    true
}

/// `io_uring_complete(ctx, req, …)`: the result is in the request on every kernel.
#[raw_tracepoint]
pub fn uring_complete(ctx: RawTracePointContext) -> i32 {
    let Some(member) = scope::current() else { return 0 };
    let req: u64 = ctx.arg(1);
    if req == 0 {
        return 0;
    }
    let opcode: u8 = read(req + off!(req_opcode));
    if is_write(opcode) {
        tell_write(req, member);
        return 0;
    }
    if opcode == opcode::RECVMSG {
        let res: i32 = read(req + off!(req_cqe) + off!(cqe_res));
        let message: u64 = read(req + off!(message_user));
        let is_compat = is_compat(req);
        if res < 0 || !may_bring(message, is_compat) {
            return 0;
        }
        let Some(scratch) = scratch() else { return 0 };
        let header = scratch.begin(RecordKind::Call, Op::Receive as u16, Op::Receive as u32, member);
        header.nr = native::RECVMSG;
        header.ret = i64::from(res);
        header.args[1] = message;
        if is_compat {
            header.flags |= flags::COMPAT;
        }
        // SAFETY: nothing here needs dropping; see `uring_submit`.
        unsafe { TAILS.tail_call(&ctx, tail::RECEIVE) };
        return 0;
    }
    let Some((op, nr)) = meaning(opcode) else { return 0 };
    let Some(scratch) = scratch() else { return 0 };
    let res: i32 = read(req + off!(req_cqe) + off!(cqe_res));
    let header = scratch.begin(RecordKind::UringComplete, op, loss::URING, member);
    header.nr = nr;
    header.ret = i64::from(res);
    header.args[5] = req;
    // A request's file is its first member.
    let mut file: u64 = read(req);
    if op == Op::Open as u16 {
        let slot: u32 = read(req + off!(open_slot));
        file = if res >= 0 && slot == 0 { crate::kernel::file_of(res) } else { 0 };
    }
    let is_socket =
        op == Op::Connect as u16 || op == Op::Send as u16 || op == Op::Bind as u16 || op == Op::Listen as u16;
    if is_socket {
        let family = put_socket_file(file);
        if op == Op::Connect as u16 || op == Op::Send as u16 {
            put_inet_end(file, family, op == Op::Connect as u16);
        }
    } else if file != 0
        && (op == Op::Open as u16 || opcode == opcode::FTRUNCATE || opcode == opcode::FSETXATTR)
    {
        let (dentry, mnt) = place_of(file);
        put_chain(SectionTag::ChainA, 0, dentry, mnt);
        put_facts(file);
    }
    submit();
    0
}

/// Adds the other end of a request on such a socket as the kernel has it, where it has.
#[inline(always)]
fn put_inet_end(file: u64, family: u16, is_connect: bool) {
    if family != AF_INET && family != AF_INET6 {
        return;
    }
    let sk = sk_of(file);
    if !aimed::put_end(sk, aimed::LAST_ONE) && is_connect {
        aimed::put_connected(sk, family);
    }
    aimed::forget();
}

/// Whether a request writes through its file.
#[inline(always)]
fn is_write(opcode: u8) -> bool {
    opcode == opcode::WRITE
        || opcode == opcode::WRITEV
        || opcode == opcode::WRITE_FIXED
        || opcode == opcode::WRITEV_FIXED
        || opcode == opcode::SPLICE
        || opcode == opcode::FALLOCATE
}

/// Tells a write to a file that was open for writing before the run, as the call it stands for: nothing about it has
/// to wait for its other half.
#[inline(always)]
fn tell_write(req: u64, member: scope::Membership) {
    if of_run!(member.run, watch_writes) == 0 {
        return;
    }
    let res: i32 = read(req + off!(req_cqe) + off!(cqe_res));
    // A request's file is its first member; a splice's is the one written to.
    let file: u64 = read(req);
    if res < 0 || !is_first_write(file, member.run) {
        return;
    }
    let Some(scratch) = scratch() else { return };
    let header = scratch.begin(RecordKind::Call, Op::Write as u16, Op::Write as u32, member);
    header.nr = native::WRITE;
    header.ret = i64::from(res);
    put_file(file);
}
