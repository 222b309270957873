//! Descriptors that come in messages: files that somebody else may have opened.

use assay_common::limits::{MMSG_LEN, RECEIVED_LEN};
use assay_common::record::{Header, flags};
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;

use crate::call::put_file;
use crate::emit::scratch;
use crate::kernel::{Context, at_most, each, file_of, read_user};
use crate::maps::Scratch;

/// `recvmmsg` by either entry, and its form with 64-bit times.
const RECVMMSG: [u32; 3] = [299, 337, 417];
const SOL_SOCKET: u32 = 1;
const SCM_RIGHTS: u32 = 1;

/// One record for each descriptor that came.
#[raw_tracepoint]
pub fn call_receive(_ctx: RawTracePointContext) -> i32 {
    let Some(scratch) = scratch() else { return 0 };
    let (nr, ret) = (scratch.header().nr, scratch.header().ret);
    let is_many = nr == RECVMMSG[0] || nr == RECVMMSG[1] || nr == RECVMMSG[2];
    let count = if is_many { at_most::<{ MMSG_LEN as usize }>(ret as u64) } else { 1 };
    each(scratch, count, message);
    0
}

/// The descriptors of one message. The kernel puts them into one control message, at the front where nothing else
/// was asked for; others before it are passed over.
unsafe extern "C" fn message(index: u32, context: *mut Context) -> i64 {
    // SAFETY: `each` passes its own context.
    let scratch = unsafe { &mut *(*context).scratch };
    let is_compat = scratch.header().flags & flags::COMPAT != 0;
    let start = scratch.header().args[1];
    let mut at = if is_compat {
        let head = start + u64::from(index) * 32;
        u64::from(read_user::<u32>(head + 16).unwrap_or(0))
    } else {
        let head = start + u64::from(index) * 64;
        read_user::<u64>(head + 32).unwrap_or(0)
    };
    let left = if is_compat {
        u64::from(read_user::<u32>(start + u64::from(index) * 32 + 20).unwrap_or(0))
    } else {
        read_user::<u64>(start + u64::from(index) * 64 + 40).unwrap_or(0)
    };
    let end = at + left;
    let mut tries = 0;
    while tries < 4 {
        if at == 0 || at + 16 > end {
            return 0;
        }
        let (len, level, kind, data) = control(at, is_compat);
        if level == SOL_SOCKET && kind == SCM_RIGHTS {
            scratch.received = data;
            let bytes = (at + len).wrapping_sub(data);
            let count = (bytes / 4) as u32;
            each(scratch, if count > RECEIVED_LEN { RECEIVED_LEN } else { count }, descriptor);
            return 0;
        }
        if len < 8 {
            return 0;
        }
        at += (len + 7) & !7;
        tries += 1;
    }
    0
}

/// A control message's length, level, type, and where its data is.
#[inline(always)]
fn control(at: u64, is_compat: bool) -> (u64, u32, u32, u64) {
    if is_compat {
        let head = read_user::<[u32; 3]>(at).unwrap_or([0; 3]);
        (u64::from(head[0]), head[1], head[2], at + 12)
    } else {
        let len = read_user::<u64>(at).unwrap_or(0);
        let kind = read_user::<[u32; 2]>(at + 8).unwrap_or([0; 2]);
        (len, kind[0], kind[1], at + 16)
    }
}

/// Tells one descriptor.
unsafe extern "C" fn descriptor(index: u32, context: *mut Context) -> i64 {
    // SAFETY: see `message`.
    let scratch: &mut Scratch = unsafe { &mut *(*context).scratch };
    let Some(fd) = read_user::<i32>(scratch.received + u64::from(index) * 4) else { return 1 };
    scratch.at = size_of::<Header>() as u32;
    put_file(scratch, file_of(fd));
    0
}
