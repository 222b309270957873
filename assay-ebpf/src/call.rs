//! System calls, at their return: the arguments are still in the registers, the strings are paged in, the result is
//! known, and the descriptor it made can be followed to its file.

use assay_common::calls::{
    self, COMPAT, Call, NATIVE, NONE, Op, SOCKETCALL, SOCKETCALLS, Shape, TABLE, X32, ioctl,
};
use assay_common::either::{self, EITHER};
use assay_common::kind::{RecordKind, SectionTag};
use assay_common::names::tail;
use assay_common::record::{Header, flags};
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;

use crate::chain::{put_chain, put_facts};
use crate::emit::{scratch, submit};
use crate::kernel::{
    current_task, file_of, off, place_of, read, read_into, read_user, root_directory, working_directory,
};
use crate::maps::{TAILS, mode};
use crate::scope;
use crate::served::of_run;
use crate::start::{Text, Which, directory, mode_for, prepare};

/// `openat2`, by either entry.
const OPENAT2: u64 = 437;
/// `sendto`, by the 64-bit entry.
const SENDTO: u64 = 44;
/// `TS_COMPAT`: the task is in a 32-bit call.
pub const TS_COMPAT: u32 = 2;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_SYMLINK_FOLLOW: u64 = 0x400;

/// x86-64 `struct pt_regs`, as far as it is read, as indexes of its words. Its layout is fixed by the ABI of signal
/// frames and ptrace.
mod regs {
    pub const BP: usize = 4;
    pub const BX: usize = 5;
    pub const R10: usize = 7;
    pub const R9: usize = 8;
    pub const R8: usize = 9;
    pub const CX: usize = 11;
    pub const DX: usize = 12;
    pub const SI: usize = 13;
    pub const DI: usize = 14;
    pub const ORIG_AX: usize = 15;
}

/// The call's number among the registers.
pub const NUMBER: usize = regs::ORIG_AX;

/// The registers of the arguments by the 64-bit entry; what stands behind them is asked for by nobody.
static ARGUMENTS: [usize; 8] =
    [regs::DI, regs::SI, regs::DX, regs::R10, regs::R8, regs::R9, regs::ORIG_AX, regs::ORIG_AX];
/// The same by the 32-bit entry.
static ARGUMENTS_COMPAT: [usize; 8] =
    [regs::BX, regs::CX, regs::DX, regs::SI, regs::DI, regs::BP, regs::ORIG_AX, regs::ORIG_AX];

/// An argument of the call with these registers.
#[inline(always)]
pub fn argument(words: &[u64; 16], is_compat: bool, at: u8) -> u64 {
    let at = core::hint::black_box(usize::from(at)) & 7;
    let index = core::hint::black_box(if is_compat { ARGUMENTS_COMPAT[at] } else { ARGUMENTS[at] });
    let value = words[index & 15];
    if is_compat { value & 0xffff_ffff } else { value }
}

/// Looks at every return of every call on the host, and goes on only with those that are a run's and in the table.
#[raw_tracepoint]
pub fn sys_exit(ctx: RawTracePointContext) -> i32 {
    let Some(member) = scope::current() else { return 0 };
    let regs: u64 = ctx.arg(0);
    let ret: i64 = ctx.arg(1);
    // The kernel runs the low half, whatever stands in the other: since Linux 5.14 it leaves that in place.
    let nr = u64::from(read::<u32>(regs + regs::ORIG_AX as u64 * 8));
    if nr >= TABLE as u64 {
        // All bits set is no call. A kernel without such calls refuses them.
        if nr != NO_CALL && nr & X32 != 0 && ret != -ENOSYS {
            tell_x32(member, ret);
        }
        return 0;
    }
    // Nothing was open for writing before the run, mostly. Most calls of most programs end here.
    let either = EITHER_TABLE[in_table(nr)];
    if either == either::NOTHING || either == either::WRITES && of_run!(member.run, watch_writes) == 0 {
        return 0;
    }
    let is_compat = read::<u32>(current_task() + off!(task_status)) & TS_COMPAT != 0;
    let mut call = look_up(is_compat, nr);
    // socketcall's own table is asked once its first argument is known.
    if call.shape == Shape::None as u8 && !(is_compat && nr == SOCKETCALL) {
        return 0;
    }
    if call.op == Op::Write as u16 && of_run!(member.run, watch_writes) == 0 {
        return 0;
    }
    // To where the socket is connected, which is known: the most frequent of all calls on sockets.
    if nr == SENDTO && !is_compat && read::<u64>(regs + regs::R8 as u64 * 8) == 0 {
        return 0;
    }
    // Not on the stack: it is short, and kernels before 6.13 count that of all functions together.
    let Some(words) = scratch().map(|scratch| &mut scratch.words) else { return 0 };
    read_into(words, regs);
    let mut args = if is_compat {
        let half = |index: usize| words[index] & 0xffff_ffff;
        [half(regs::BX), half(regs::CX), half(regs::DX), half(regs::SI), half(regs::DI), half(regs::BP)]
    } else {
        [
            words[regs::DI],
            words[regs::SI],
            words[regs::DX],
            words[regs::R10],
            words[regs::R8],
            words[regs::R9],
        ]
    };
    if is_compat && nr == SOCKETCALL {
        call = SOCKETCALL_TABLE[args[0] as usize & 31];
        let inner = read_user::<[u32; 6]>(args[1]).unwrap_or([0; 6]);
        args = inner.map(u64::from);
        if call.shape == Shape::None as u8 {
            return 0;
        }
    }
    if call.op == Op::Beyond as u16 {
        call = beyond(call, nr, is_compat, &args);
        if call.shape == Shape::None as u8 {
            return 0;
        }
    }
    // openat2 keeps its flags in memory.
    if nr == OPENAT2 {
        args[2] = read_user(args[2]).unwrap_or(0);
    }
    let Some(slot) = slot_of(call, nr, ret, &args, member.run) else { return 0 };
    if call.op == Op::Open as u16 && ret >= 0 {
        if crate::again::is_counted_open(ret, flags_of_open(call, nr, is_compat, &args), nr, member.run) {
            return 0;
        }
    } else if ret < 0
        && crate::again::is_counted_failure(
            call.op,
            ret,
            flags_of_open(call, nr, is_compat, &args),
            member.run,
        )
    {
        crate::taken::forget(call, &args);
        return 0;
    }
    let Some(scratch) = scratch() else { return 0 };
    scratch.call = call;
    let header = scratch.begin(RecordKind::Call, call.op, u32::from(call.op), member);
    header.ret = ret;
    header.args = args;
    header.nr = nr as u32;
    if is_compat {
        header.flags |= flags::COMPAT;
    }
    // SAFETY: nothing here needs dropping; an empty slot ends the program, and `plan` refuses to run with one.
    unsafe { TAILS.tail_call(&ctx, slot) };
    0
}

const ENOSYS: i64 = 38;
/// What stands for no call, where a tracer or a filter put it.
const NO_CALL: u64 = 0xffff_ffff;
const IOCTL: u64 = 16;
const IOCTL_COMPAT: u64 = 54;
const REQUEST_KEY: u64 = 249;
const REQUEST_KEY_COMPAT: u64 = 287;
const FSCONFIG: u64 = 431;

/// The flags of an open, by whichever call.
#[inline(always)]
fn flags_of_open(call: Call, nr: u64, is_compat: bool, args: &[u64; 6]) -> u64 {
    const CREAT: u64 = 85;
    const CREAT_COMPAT: u64 = 8;
    const O_WRONLY: u64 = 1;
    if nr == if is_compat { CREAT_COMPAT } else { CREAT } {
        O_WRONLY
    } else if call.path_a == 0 {
        args[1] & 0xffff_ffff
    } else if nr == OPENAT2 {
        args[2]
    } else {
        args[2] & 0xffff_ffff
    }
}

/// A call of the x32 kind: its number is told and nothing else, for its arguments are in a table of their own.
#[inline(always)]
fn tell_x32(member: scope::Membership, ret: i64) {
    let Some(scratch) = scratch() else { return };
    let header = scratch.begin(RecordKind::Call, Op::Beyond as u16, Op::Beyond as u32, member);
    header.ret = ret;
    header.nr = u32::from(calls::X32_CALL);
    submit();
}

/// What one of the calls is that matter only with certain arguments.
#[inline(always)]
fn beyond(call: Call, nr: u64, is_compat: bool, args: &[u64; 6]) -> Call {
    if nr == if is_compat { IOCTL_COMPAT } else { IOCTL } {
        let request = args[1] & 0xffff_ffff;
        if request == ioctl::FICLONE || request == ioctl::FICLONERANGE {
            return Call { op: Op::Write as u16, shape: Shape::Write as u8, ..call };
        }
        if request == ioctl::SETFLAGS || request == ioctl::SETFLAGS_COMPAT || request == ioctl::FSSETXATTR {
            return Call { op: Op::Setxattr as u16, shape: Shape::Fd as u8, ..call };
        }
        return if request == ioctl::TIOCSTI || request == ioctl::TIOCLINUX { call } else { Call::NOT };
    }
    // Without such information no program outside is started to make the key.
    if nr == if is_compat { REQUEST_KEY_COMPAT } else { REQUEST_KEY } && args[2] == 0 {
        return Call::NOT;
    }
    // An int, whatever stands in the other half.
    if nr == FSCONFIG && args[1] & 0xffff_ffff != calls::FSCONFIG_RECONFIGURE {
        return Call::NOT;
    }
    call
}

static EITHER_TABLE: [u8; TABLE] = EITHER;
static NATIVE_TABLE: [Call; TABLE] = NATIVE;
static COMPAT_TABLE: [Call; TABLE] = COMPAT;
static SOCKETCALL_TABLE: [Call; 32] = SOCKETCALLS;

/// A number that is known to be one of a table's.
#[inline(always)]
fn in_table(nr: u64) -> usize {
    // Older verifiers forget the bound when the number is spilled; the compiler, which remembers it, must leave the mask.
    core::hint::black_box(nr) as usize & (TABLE - 1)
}

#[inline(always)]
pub fn look_up(is_compat: bool, nr: u64) -> Call {
    let nr = in_table(nr);
    if is_compat { COMPAT_TABLE[nr] } else { NATIVE_TABLE[nr] }
}

/// Which program goes on, or none when this call is of no interest after all.
#[inline(always)]
fn slot_of(call: Call, nr: u64, ret: i64, args: &[u64; 6], run: u32) -> Option<u32> {
    const AF_UNIX: u64 = 1;
    const AF_INET: u64 = 2;
    const AF_INET6: u64 = 10;
    const SOCK_RAW: u64 = 3;
    const IPPROTO_TCP: u64 = 6;
    const IPPROTO_UDP: u64 = 17;
    const EPERM: i64 = 1;
    const EACCES: i64 = 13;
    const FALLOCATE: u64 = 285;
    const FALLOCATE_COMPAT: u64 = 324;
    const PTRACE: u64 = 101;
    const PTRACE_COMPAT: u64 = 26;
    const PTRACE_ATTACH: u64 = 16;
    const PTRACE_SEIZE: u64 = 0x4206;
    if call.op == Op::Receive as u16 && ret < 0 {
        return None;
    }
    if call.shape == Shape::Opened as u8 {
        return Some(if ret >= 0 { tail::OPENED } else { tail::PATHS });
    }
    if call.shape == Shape::Write as u8 {
        // Nothing written: no bytes, or for a mapping and fallocate, whose success is no count, an error.
        let is_count =
            call.dir_a != 4 && nr != FALLOCATE && nr != FALLOCATE_COMPAT && nr != IOCTL && nr != IOCTL_COMPAT;
        let is_quiet = ret < 0 && call.dir_a != 4 || ret == 0 && is_count || of_run!(run, watch_writes) == 0;
        return if is_quiet { None } else { Some(tail::WRITE) };
    }
    if call.shape == Shape::Aio as u8 {
        return if ret <= 0 || of_run!(run, watch_writes) == 0 { None } else { Some(tail::AIO) };
    }
    // A program that started is told by its own tracepoint.
    if call.op == Op::Exec as u16 && ret >= 0 {
        return None;
    }
    // Without an address it goes where the socket is connected to, which is known.
    if call.op == Op::Send as u16 && call.path_b != NONE && args[4] == 0 {
        return None;
    }
    // Of ptrace only taking hold of another process: what is done to it then, it does itself.
    if call.op == Op::OtherProcess as u16 && (nr == PTRACE || nr == PTRACE_COMPAT) {
        let is_hold = args[0] == PTRACE_ATTACH || args[0] == PTRACE_SEIZE;
        return if is_hold { Some(tail::BARE) } else { None };
    }
    if call.op == Op::Socket as u16 {
        let [family, kind, protocol] = [args[0], args[1] & 0xf, args[2]].map(|number| number & 0xffff_ffff);
        let is_plain_protocol = protocol == 0 || protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
        let is_inet = (family == AF_INET || family == AF_INET6) && kind != SOCK_RAW && is_plain_protocol;
        // Those are told by the address they go to, and others may go by calls or hooks of their own. One that was
        // refused goes nowhere.
        if (family == AF_UNIX || is_inet) && ret != -EPERM && ret != -EACCES {
            return None;
        }
    }
    Some(u32::from(call.shape))
}

/// A call that returned a descriptor: the file is what the descriptor leads to.
#[raw_tracepoint]
pub fn call_opened(_ctx: RawTracePointContext) -> i32 {
    let Some(scratch) = scratch() else { return 0 };
    let (args, ret) = (scratch.header().args, scratch.header().ret);
    let path = scratch.call.path_a;
    if path == 0 {
        scratch.put_user_string(SectionTag::RequestedA, args[0]);
    } else if path == 1 {
        scratch.put_user_string(SectionTag::RequestedA, args[1]);
    }
    let Some((dentry, mnt)) = crate::again::signed_place() else {
        put_file(file_of(ret as i32));
        return 0;
    };
    put_chain(SectionTag::ChainA, 0, dentry, mnt);
    crate::again::put_signed_facts();
    crate::again::announce();
    if submit() {
        crate::again::keep();
    }
    0
}

/// A call on a descriptor.
#[raw_tracepoint]
pub fn call_fd(_ctx: RawTracePointContext) -> i32 {
    let Some(scratch) = scratch() else { return 0 };
    let fd = scratch.header().args[0] as i32;
    put_file(file_of(fd));
    0
}

/// Adds a file and sends the record.
#[inline(always)]
pub fn put_file(file: u64) {
    if file != 0 {
        let (dentry, mnt) = place_of(file);
        put_chain(SectionTag::ChainA, 0, dentry, mnt);
        put_facts(file);
    }
    submit();
}

/// A call on one or two path strings.
#[raw_tracepoint]
pub fn call_paths(ctx: RawTracePointContext) -> i32 {
    let Some(scratch) = scratch() else { return 0 };
    let (args, ret, call) = (scratch.header().args, scratch.header().ret, scratch.call);
    // A relative string no longer starts where it started: where it led is the task's own directory now.
    if ret >= 0 && (call.op == Op::Chdir as u16 || call.op == Op::Chroot as u16) {
        let (dentry, mnt) = if call.op == Op::Chdir as u16 { working_directory() } else { root_directory() };
        scratch.put_user_string(SectionTag::RequestedA, args[0]);
        crate::taken::forget(call, &args);
        put_chain(SectionTag::ChainA, 0, dentry, mnt);
        submit();
        return 0;
    }
    if call.path_a != NONE {
        let wanted = wanted_mode(call, &args);
        prepare(
            Which::A,
            Text::User(arg(&args, call.path_a)),
            directory(&args, call.dir_a),
            mode_for(ret, wanted),
        );
    }
    if call.path_b != NONE {
        let text = arg(&args, call.path_b);
        // A symlink's text, and what `mount` mounts, are not names in the tree.
        if call.op == Op::Symlink as u16 || (call.op == Op::Mount as u16 && call.dir_b == NONE) {
            if call.op == Op::Symlink as u16 {
                put_text(text);
            } else {
                scratch.put_user_string(SectionTag::RequestedB, text);
            }
        } else {
            let wanted = if call.op == Op::Mount as u16 { mode::FOLLOW } else { mode::NAME };
            prepare(Which::B, Text::User(text), directory(&args, call.dir_b), mode_for(ret, wanted));
        }
    }
    crate::taken::forget_long();
    // SAFETY: nothing here needs dropping; see `sys_exit`.
    unsafe { TAILS.tail_call(&ctx, tail::WALK) };
    0
}

/// Adds the text of a link that was made, as the kernel took it.
#[inline(always)]
fn put_text(address: u64) {
    add_text(address);
}

/// See [`put_text`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_text(address: u64) -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    let to = scratch.walk[1].as_mut_ptr();
    // SAFETY: the walk room is longer than `STRING_LEN`.
    let read = unsafe { crate::taken::take(address, to) };
    if read > 0 {
        scratch.put_kernel_string(SectionTag::RequestedB, to as u64);
    } else {
        crate::taken::admit(scratch);
        scratch.put_user_string(SectionTag::RequestedB, address);
    }
    0
}

#[inline(always)]
pub fn arg(args: &[u64; 6], at: u8) -> u64 {
    match at {
        0 => args[0],
        1 => args[1],
        2 => args[2],
        3 => args[3],
        4 => args[4],
        _ => args[5],
    }
}

#[inline(always)]
fn wanted_mode(call: Call, args: &[u64; 6]) -> u32 {
    // The root it started from is gone.
    if call.op == Op::PivotRoot as u16 {
        return mode::START;
    }
    let at_flags = arg(args, call.flags);
    if call.follow == calls::Follow::Name as u8 {
        mode::NAME
    } else if call.follow == calls::Follow::Link as u8
        || (call.follow == calls::Follow::UnlessFlag as u8 && at_flags & AT_SYMLINK_NOFOLLOW != 0)
        || (call.follow == calls::Follow::IfFlag as u8 && at_flags & AT_SYMLINK_FOLLOW == 0)
    {
        mode::LINK
    } else {
        mode::FOLLOW
    }
}

/// A call whose arguments say all there is.
#[raw_tracepoint]
pub fn call_bare(_ctx: RawTracePointContext) -> i32 {
    submit();
    0
}

/// A call that makes or enters namespaces.
#[raw_tracepoint]
pub fn call_namespaces(_ctx: RawTracePointContext) -> i32 {
    let Some(scratch) = scratch() else { return 0 };
    let header = scratch.header();
    let kinds = namespaces(header);
    if kinds != 0 {
        header.args[0] = kinds;
        submit();
    }
    0
}

/// Which namespaces, by their flags; 0 for none. `setns` may be told none and enters one all the same: then it is all bits.
#[inline(always)]
fn namespaces(header: &Header) -> u64 {
    const CLONE: u32 = 56;
    const CLONE_COMPAT: u32 = 120;
    const CLONE3: u32 = 435;
    const SETNS: u32 = 308;
    const SETNS_COMPAT: u32 = 346;
    const SIGNAL: u64 = 0xff;
    let is_compat = header.flags & flags::COMPAT != 0;
    let (nr, [first, second, ..]) = (header.nr, header.args);
    if nr == if is_compat { SETNS_COMPAT } else { SETNS } {
        let kinds = second & calls::NAMESPACE_FLAGS;
        return if kinds == 0 { u64::MAX } else { kinds };
    }
    let is_clone = nr == if is_compat { CLONE_COMPAT } else { CLONE };
    // The child returns as well.
    if (is_clone || nr == CLONE3) && header.ret == 0 {
        return 0;
    }
    let flags = if is_clone {
        first & !SIGNAL
    } else if nr == CLONE3 {
        read_user(first).unwrap_or(u64::MAX)
    } else {
        first
    };
    flags & calls::NAMESPACE_FLAGS
}
