//! The kernel's own copies of the names that calls are given.
//!
//! A call copies its names out of the program's memory when it begins, and another thread may change that memory until it
//! returns. The copy is what the kernel acted on. It is seen when the call gives it back, shortly before it returns: it is
//! memory of a cache of its own, and the kernel tells of all that is given back to its caches. Every such event of the host
//! comes by here, so that the first question is which cache it is.

use assay_common::calls::{Call, Op, SOCKETCALL, Shape, TABLE};
use assay_common::limits::{STRING_LEN, WALK_START};
use assay_common::record::flags;
use aya_ebpf::bindings::BPF_ANY;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::{
    bpf_get_current_task_btf, bpf_get_smp_processor_id, bpf_probe_read_kernel_str, bpf_task_pt_regs,
};
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;

use crate::call::{NUMBER, TS_COMPAT, arg, argument, look_up};
use crate::emit::scratch;
use crate::kernel::{current_task, off, read, read_into, setting};
use crate::maps::{COPY, Scratch, TAKEN, TakenName};
use crate::scope;

/// The name's memory begins with what the kernel knows of it, among which is where it stood.
const PLAIN: u32 = 0;
/// It was too long for that: it is known only as the first of its call.
const LONG: u32 = 1;
/// The second of its call.
const LONG_AGAIN: u32 = 2;
/// The path in a UNIX socket's address, which was not a name of its own.
const OF_ADDRESS: u32 = 3;
/// As [`PLAIN`], the second of a call both of whose names stand in one place: `pivot_root(".", ".")`.
const PLAIN_AGAIN: u32 = 4;

/// `names_cachep`, once it was seen.
#[unsafe(no_mangle)]
static mut NAMES_CACHE: u64 = 0;

/// Whether a name was ever [`LONG`]: nearly none is, and without one nobody looks.
#[unsafe(no_mangle)]
static mut HAS_LONG: u32 = 0;

/// `kmem_cache_free(call_site, object, cache)`: before Linux 6.1 the last one is the cache's name.
#[raw_tracepoint]
pub fn name_given_back(ctx: RawTracePointContext) -> i32 {
    if !is_of_names(ctx.arg(2)) {
        return 0;
    }
    if scope::current().is_none() {
        return 0;
    }
    keep(ctx.arg(1));
    0
}

/// Whether it is the cache of names. It stays the same for as long as the machine runs.
#[inline(always)]
fn is_of_names(cache: u64) -> bool {
    // SAFETY: a number that is written once, or by two at a time with the same value.
    let known = unsafe { core::ptr::read_volatile(&raw const NAMES_CACHE) };
    if known != 0 {
        return cache == known;
    }
    let is_it = is_called_so(read(cache + off!(cache_name))) || is_called_so(cache);
    if is_it {
        // SAFETY: as above.
        unsafe { core::ptr::write_volatile(&raw mut NAMES_CACHE, cache) };
    }
    is_it
}

#[inline(always)]
fn is_called_so(name: u64) -> bool {
    read::<u64>(name) == u64::from_le_bytes(*b"names_ca")
        && read::<u32>(name + 8) == u32::from_le_bytes(*b"che\0")
}

/// Keeps a name that a call of the current task acted on, where its return tells of it.
#[inline(always)]
fn keep(object: u64) {
    // SAFETY: the helpers have no preconditions.
    let regs = unsafe { bpf_task_pt_regs(bpf_get_current_task_btf()) } as u64;
    // No record is under construction while a call is still at work.
    let Some(words) = scratch().map(|scratch| &mut scratch.words) else { return };
    read_into(words, regs);
    let nr = u64::from(words[NUMBER] as u32);
    if nr >= TABLE as u64 {
        return;
    }
    let is_compat = read::<u32>(current_task() + off!(task_status)) & TS_COMPAT != 0;
    let call = look_up(is_compat, nr);
    let is_of_socket = call.shape == Shape::Socket as u8 || is_compat && nr == SOCKETCALL;
    if !is_of_socket && !is_told_by_name(call) {
        return;
    }
    let name: u64 = read(object + off!(filename_name));
    let is_whole = name == object + off!(filename_iname);
    let given: u64 = if is_whole { read(object + off!(filename_uptr)) } else { 0 };
    let order = if is_of_socket {
        // A name that the kernel made itself.
        if given != 0 || !is_whole {
            return;
        }
        OF_ADDRESS
    } else if is_whole {
        let [first, second] = [call.path_a, call.path_b].map(|at| argument(words, is_compat, at));
        if given == 0 || given != first && given != second {
            return;
        }
        // SAFETY: whether it is there is all that is asked.
        if first == second && unsafe { TAKEN.get(&key(PLAIN, given)) }.is_some() {
            PLAIN_AGAIN
        } else {
            PLAIN
        }
    } else {
        // SAFETY: a flag that is only ever set.
        unsafe { core::ptr::write_volatile(&raw mut HAS_LONG, 1) };
        // SAFETY: whether it is there is all that is asked.
        if unsafe { TAKEN.get(&key(LONG, 0)) }.is_some() { LONG_AGAIN } else { LONG }
    };
    let text = if is_whole { name } else { object };
    // SAFETY: this processor's own element: preemption is off, and names are not given back in interrupts.
    unsafe {
        let Some(copy) = COPY.get_ptr_mut(bpf_get_smp_processor_id()) else { return };
        if bpf_probe_read_kernel_str(copy.cast(), STRING_LEN as u32, text as *const _) > 0 {
            // Where there is no room it is not there at the return, which says so.
            let _ = TAKEN.insert(&key(order, given), &*copy, u64::from(BPF_ANY));
        }
    }
}

/// Whether all that tells what such a call acted on is a name. An open that succeeded is told by its descriptor, and a
/// program that was started by its file.
#[inline(always)]
pub fn is_told_by_name(call: Call) -> bool {
    call.shape == Shape::Paths as u8 && call.op != Op::Exec as u16
}

#[inline(always)]
fn key(order: u32, given: u64) -> TakenName {
    TakenName { tid: bpf_get_current_pid_tgid() as u32, order, given }
}

/// Copies the name that stood at an address to `to`, which has [`STRING_LEN`] bytes, and forgets it. Its length with the
/// NUL as the helper tells it, or 0 where the kernel's copy was not seen.
///
/// # Safety
///
/// `to` is writable for [`STRING_LEN`] bytes.
#[inline(always)]
pub unsafe fn take(given: u64, to: *mut u8) -> i64 {
    if setting!(takes_names) == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let mut read = copy(&key(PLAIN, given), to);
        if read == 0 {
            read = copy(&key(PLAIN_AGAIN, given), to);
        }
        // SAFETY: see `keep`.
        if read != 0 || core::ptr::read_volatile(&raw const HAS_LONG) == 0 {
            return read;
        }
        let read = copy(&key(LONG, 0), to);
        if read != 0 { read } else { copy(&key(LONG_AGAIN, 0), to) }
    }
}

/// # Safety
///
/// As for [`take`].
#[inline(always)]
unsafe fn copy(key: &TakenName, to: *mut u8) -> i64 {
    // SAFETY: nobody else has entries of this task; it is removed only below.
    unsafe {
        let Some(text) = TAKEN.get(key) else { return 0 };
        let read = bpf_probe_read_kernel_str(to.cast(), STRING_LEN as u32, text.as_ptr().cast());
        let _ = TAKEN.remove(key);
        if read > 0 { read } else { 0 }
    }
}

/// Forgets what was kept of a call that is not told by its names after all.
#[inline(always)]
pub fn forget(call: Call, args: &[u64; 6]) {
    if setting!(takes_names) == 0 || !is_told_by_name(call) {
        return;
    }
    // Not being there is as good as being removed.
    let _ = TAKEN.remove(&key(PLAIN, arg(args, call.path_a)));
    let _ = TAKEN.remove(&key(PLAIN_AGAIN, arg(args, call.path_a)));
    let _ = TAKEN.remove(&key(PLAIN, arg(args, call.path_b)));
    forget_long();
}

/// Forgets long names, of which those of the next call could not be told apart.
#[inline(always)]
pub fn forget_long() {
    // SAFETY: see `keep`.
    if unsafe { core::ptr::read_volatile(&raw const HAS_LONG) } != 0 {
        let _ = TAKEN.remove(&key(LONG, 0));
        let _ = TAKEN.remove(&key(LONG_AGAIN, 0));
    }
}

/// Whether the kernel took a path from a UNIX socket's address.
#[inline(always)]
pub fn has_socket_path() -> bool {
    // SAFETY: whether it is there is all that is asked.
    setting!(takes_names) != 0 && unsafe { TAKEN.get(&key(OF_ADDRESS, 0)) }.is_some()
}

/// Puts the path that the kernel took from a UNIX socket's address into the walk room. Its length with the NUL, 0 where it
/// was not seen.
#[inline(always)]
pub fn take_socket_path(scratch: &mut Scratch) -> u64 {
    if setting!(takes_names) == 0 {
        return 0;
    }
    // SAFETY: the walk room is longer than `WALK_START + STRING_LEN`.
    unsafe { copy(&key(OF_ADDRESS, 0), scratch.walk[0].as_mut_ptr().add(WALK_START)) as u64 }
}

/// Says of a call that did what it was asked for that the kernel's copy of its name was not seen.
#[inline(always)]
pub fn admit(scratch: &mut Scratch) {
    let op = scratch.call.op;
    let header = scratch.header();
    // Of those that failed nothing came, and these are told by more than a name.
    if setting!(takes_names) != 0 && header.ret >= 0 && op != Op::Open as u16 && op != Op::Exec as u16 {
        header.flags |= flags::UNCONFIRMED;
    }
}
