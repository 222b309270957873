//! Writes to files that were open before the run, by whichever call: told once for each file.

use assay_common::limits::AIO_LEN;
use assay_common::record::{Header, flags};
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;

use crate::call::{arg, put_file};
use crate::emit::{scratch, tell_unread};
use crate::kernel::{Context, at_most, each, file_of, off, read, read_user};
use crate::maps::{FileId, INHERITED, Scratch};

/// A write: told once for each file that was open for writing before the run.
#[raw_tracepoint]
pub fn call_write(_ctx: RawTracePointContext) -> i32 {
    const MAP_SHARED_MASK: u64 = 3;
    const MAP_ANONYMOUS: u64 = 0x20;
    const PROT_WRITE: u64 = 2;
    const MAX_ERRNO: i64 = 4095;
    let Some(scratch) = scratch() else { return 0 };
    let (args, ret, call) = (scratch.header().args, scratch.header().ret, scratch.call);
    let run = scratch.header().run;
    // Only a mapping has its descriptor there; a private one writes nothing, and one that failed is none.
    let is_mapping = call.dir_a == 4;
    if is_mapping
        && (args[3] & MAP_SHARED_MASK == 2 || args[3] & MAP_ANONYMOUS != 0 || (-MAX_ERRNO..0).contains(&ret))
    {
        return 0;
    }
    let file = file_of(arg(&args, call.dir_a) as i32);
    if file == 0 {
        // Another thread has closed it meanwhile.
        tell_unread();
        return 0;
    }
    // One that cannot be written yet may be made so later, by a call that names no file.
    let is_first = if is_mapping && args[2] & PROT_WRITE == 0 {
        is_unwritten(file, run)
    } else {
        is_first_write(file, run)
    };
    if !is_first {
        return 0;
    }
    put_file(file);
    0
}

/// Whether this file was open for writing before the run, and nothing was told of it yet.
#[inline(always)]
pub fn is_first_write(file: u64, run: u32) -> bool {
    let Some(told) = INHERITED.get_ptr_mut(&id_of(file, run)) else { return false };
    // SAFETY: a flag of its own; two processors may both find it set, and the write is then told twice.
    unsafe {
        let is_first = *told != 0;
        *told = 0;
        is_first
    }
}

/// The same, and nothing counts as told by asking.
#[inline(always)]
fn is_unwritten(file: u64, run: u32) -> bool {
    // SAFETY: a flag that is read at once.
    unsafe { INHERITED.get(&id_of(file, run)) }.is_some_and(|told| *told != 0)
}

/// Whether this file or socket was open before the run, and noted so.
#[inline(always)]
pub fn is_inherited(file: u64, run: u32) -> bool {
    // SAFETY: as above.
    unsafe { INHERITED.get(&id_of(file, run)) }.is_some()
}

#[inline(always)]
fn id_of(file: u64, run: u32) -> FileId {
    let inode: u64 = read(file + off!(file_inode));
    let sb: u64 = read(inode + off!(inode_sb));
    FileId { dev: read(sb + off!(sb_dev)), run, ino: read(inode + off!(inode_ino)) }
}

/// `io_submit`: the requests that were taken, of which those that write are told like writes.
#[raw_tracepoint]
pub fn call_aio(_ctx: RawTracePointContext) -> i32 {
    let Some(scratch) = scratch() else { return 0 };
    let taken = scratch.header().ret as u64;
    each(scratch, at_most::<{ AIO_LEN as usize }>(taken), aio_request);
    if taken > u64::from(AIO_LEN) {
        tell_unread();
    }
    0
}

/// One of them. Ends the loop where it cannot be read any more.
unsafe extern "C" fn aio_request(index: u32, context: *mut Context) -> i64 {
    // SAFETY: `each` passes its own context.
    let scratch = unsafe { &mut *(*context).scratch };
    let Some(file) = aio_file(scratch, index) else {
        tell_unread();
        return 1;
    };
    if file != 0 && is_first_write(file, scratch.header().run) {
        scratch.at = size_of::<Header>() as u32;
        put_file(file);
    }
    0
}

/// The file that a request writes to; 0 where it writes to none, `None` where that is not known. `struct iocb` is the same
/// by both entries, the list of them is not.
#[inline(always)]
fn aio_file(scratch: &mut Scratch, index: u32) -> Option<u64> {
    const PWRITE: u16 = 1;
    const PWRITEV: u16 = 8;
    let list = scratch.header().args[2];
    let request = if scratch.header().flags & flags::COMPAT != 0 {
        u64::from(read_user::<u32>(list + u64::from(index) * 4)?)
    } else {
        read_user::<u64>(list + u64::from(index) * 8)?
    };
    let opcode = read_user::<u16>(request + 16)?;
    if opcode != PWRITE && opcode != PWRITEV {
        return Some(0);
    }
    let file = file_of(read_user::<u32>(request + 20)? as i32);
    if file == 0 { None } else { Some(file) }
}
