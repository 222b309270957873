//! Descriptors that come in messages: files that somebody else may have opened.

use assay_common::limits::{MMSG_LEN, RECEIVED_LEN};
use assay_common::record::{Header, flags};
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;

use crate::call::put_file;
use crate::chain::put_facts;
use crate::emit::{scratch, submit, tell_unread};
use crate::kernel::{Context, at_most, each, file_of, read_user};
use crate::maps::Scratch;
use crate::network::{is_socket, put_received_socket};
use crate::written::is_inherited;

/// `recvmmsg` by either entry, and its form with 64-bit times.
const RECVMMSG: [u32; 3] = [299, 337, 417];
/// By either entry.
const PIDFD_GETFD: u32 = 438;
const SOL_SOCKET: u32 = 1;
const SCM_RIGHTS: u32 = 1;

/// One record for each descriptor that came.
#[raw_tracepoint]
pub fn call_receive(_ctx: RawTracePointContext) -> i32 {
    let Some(scratch) = scratch() else { return 0 };
    let (nr, ret) = (scratch.header().nr, scratch.header().ret as u64);
    if nr == PIDFD_GETFD {
        tell(ret as i32);
        return 0;
    }
    let is_many = nr == RECVMMSG[0] || nr == RECVMMSG[1] || nr == RECVMMSG[2];
    let count = if is_many { at_most::<{ MMSG_LEN as usize }>(ret) } else { 1 };
    each(scratch, count, message);
    // `recvmmsg` takes as many as it is told to, other than `sendmmsg`.
    if is_many && ret > u64::from(MMSG_LEN) {
        tell_unread();
    }
    0
}

/// The descriptors of one message.
unsafe extern "C" fn message(index: u32, context: *mut Context) -> i64 {
    // SAFETY: `each` passes its own context.
    let scratch = unsafe { &mut *(*context).scratch };
    let Some(count) = find_descriptors(scratch, index) else {
        tell_unread();
        return 0;
    };
    each(scratch, if count > RECEIVED_LEN { RECEIVED_LEN } else { count }, descriptor);
    0
}

/// How many there are, and where, in `received`; `None` where that is not known. The kernel puts them into one control
/// message, at the front where nothing else was asked for; others before it are passed over.
#[inline(always)]
fn find_descriptors(scratch: &mut Scratch, index: u32) -> Option<u32> {
    let is_compat = scratch.header().flags & flags::COMPAT != 0;
    let start = scratch.header().args[1];
    let [mut at, left] = if is_compat {
        read_user::<[u32; 2]>(start + u64::from(index) * 32 + 16)?.map(u64::from)
    } else {
        read_user::<[u64; 2]>(start + u64::from(index) * 64 + 32)?
    };
    let end = at + left;
    let mut tries = 0;
    while tries < 4 {
        if at == 0 || at + 16 > end {
            return Some(0);
        }
        let (len, level, kind, data) = control(at, is_compat)?;
        if level == SOL_SOCKET && kind == SCM_RIGHTS {
            scratch.received = data;
            return Some(((at + len).wrapping_sub(data) / 4) as u32);
        }
        if len < 8 {
            return None;
        }
        at += (len + 7) & !7;
        tries += 1;
    }
    if at + 16 > end { Some(0) } else { None }
}

/// A control message's length, level, type, and where its data is.
#[inline(always)]
fn control(at: u64, is_compat: bool) -> Option<(u64, u32, u32, u64)> {
    if is_compat {
        let [len, level, kind] = read_user::<[u32; 3]>(at)?;
        Some((u64::from(len), level, kind, at + 12))
    } else {
        let len = read_user::<u64>(at)?;
        let [level, kind] = read_user::<[u32; 2]>(at + 8)?;
        Some((len, level, kind, at + 16))
    }
}

/// Tells one descriptor.
unsafe extern "C" fn descriptor(index: u32, context: *mut Context) -> i64 {
    // SAFETY: see `message`.
    let scratch: &mut Scratch = unsafe { &mut *(*context).scratch };
    let Some(fd) = read_user::<i32>(scratch.received + u64::from(index) * 4) else {
        tell_unread();
        return 1;
    };
    tell(fd);
    0
}

/// Tells a descriptor that came from another process.
#[inline(always)]
fn tell(fd: i32) {
    tell_received(fd as u32);
}

/// See [`tell`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn tell_received(fd: u32) -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    scratch.at = size_of::<Header>() as u32;
    let file = file_of(fd as i32);
    if !is_socket(file) {
        put_file(file);
        return 0;
    }
    // One that the run was given at its start is passed on among its own processes.
    if !is_inherited(file, scratch.header().run) {
        put_received_socket(scratch, file);
        put_facts(file);
        submit();
    }
    0
}
