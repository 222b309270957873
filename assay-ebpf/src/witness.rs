//! The second witness: programs at the hooks of the kernel's security modules, where these can be loaded.
//!
//! They are passed on the way to an act, whichever door it came by, and are given what the kernel has found: no string is
//! read and nothing is resolved again. What is told here is not told as an act of the run. Userspace holds it against what
//! the first witness told. They refuse nothing.
//!
//! A hook runs with preemption on: the record is built in a slot that it takes and gives back.

use assay_common::hooks::Hook;
use assay_common::kind::{RecordKind, SectionTag, walk_state};
use assay_common::limits::{RECORD_LEN, SOCKADDR_LEN};
use aya_ebpf::bindings::{BPF_NOEXIST, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;
use aya_ebpf::macros::lsm;
use aya_ebpf::programs::LsmContext;

use crate::chain::{follow, put_name_facts};
use crate::kernel::{off, place_of, read, setting};
use crate::maps::{Scratch, WITNESS_RING, WITNESS_SLOTS, WITNESS_TAKEN, WITNESS_TALLY};
use crate::scope;

/// Slots that one hook tries.
const TRIES: u32 = 4;
/// `file.f_flags` of a file that is opened to be started: its start is told by itself.
const FMODE_EXEC: u32 = 0x20;
const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// What a hook hands on, as indexes of a slot's words: what is read from there is a number to the verifier.
mod word {
    pub const DENTRY: usize = 0;
    /// Behind each entry of the kernel's stands the mount that it was reached through.
    pub const MOUNT: usize = 1;
    pub const OTHER_DENTRY: usize = 2;
    pub const OTHER_MOUNT: usize = 3;
    pub const ADDRESS: usize = 4;
    pub const ADDRESS_LEN: usize = 5;
}

/// `file_open(file)`
#[lsm(hook = "file_open")]
pub fn witness_open(ctx: LsmContext) -> i32 {
    let file: u64 = ctx.arg(0);
    let flags: u32 = read(file + off!(file_flags));
    if flags & FMODE_EXEC == 0 { of_file(Hook::Open, file) } else { 0 }
}

/// `path_unlink(dir, dentry)`
#[lsm(hook = "path_unlink")]
pub fn witness_unlink(ctx: LsmContext) -> i32 {
    of_name(Hook::Unlink, ctx.arg(0), ctx.arg(1))
}

/// `path_rmdir(dir, dentry)`
#[lsm(hook = "path_rmdir")]
pub fn witness_rmdir(ctx: LsmContext) -> i32 {
    of_name(Hook::Rmdir, ctx.arg(0), ctx.arg(1))
}

/// `path_mkdir(dir, dentry, …)`
#[lsm(hook = "path_mkdir")]
pub fn witness_mkdir(ctx: LsmContext) -> i32 {
    of_name(Hook::Mkdir, ctx.arg(0), ctx.arg(1))
}

/// `path_mknod(dir, dentry, …)`
#[lsm(hook = "path_mknod")]
pub fn witness_mknod(ctx: LsmContext) -> i32 {
    of_name(Hook::Mknod, ctx.arg(0), ctx.arg(1))
}

/// `path_symlink(dir, dentry, text)`
#[lsm(hook = "path_symlink")]
pub fn witness_symlink(ctx: LsmContext) -> i32 {
    of_name(Hook::Symlink, ctx.arg(0), ctx.arg(1))
}

/// `path_rename(old dir, old dentry, new dir, new dentry, …)`
#[lsm(hook = "path_rename")]
pub fn witness_rename(ctx: LsmContext) -> i32 {
    let (old_dir, new_dir): (u64, u64) = (ctx.arg(0), ctx.arg(2));
    let old = read(old_dir + off!(path_mnt));
    let new = read(new_dir + off!(path_mnt));
    of_names(Hook::Rename, ctx.arg(1), old, ctx.arg(3), new)
}

/// `path_link(old dentry, new dir, new dentry)`: both lie in one mount, or the kernel would have refused before.
#[lsm(hook = "path_link")]
pub fn witness_link(ctx: LsmContext) -> i32 {
    let dir: u64 = ctx.arg(1);
    let mount = read(dir + off!(path_mnt));
    of_names(Hook::Link, ctx.arg(0), mount, ctx.arg(2), mount)
}

/// `path_truncate(path)`: by name, by an open, and before Linux 6.2 by descriptor.
#[lsm(hook = "path_truncate")]
pub fn witness_truncate(ctx: LsmContext) -> i32 {
    of_path(Hook::Truncate, ctx.arg(0))
}

/// `file_truncate(file)`: by descriptor, since Linux 6.2.
#[lsm(hook = "file_truncate")]
pub fn witness_cut(ctx: LsmContext) -> i32 {
    of_file(Hook::Truncate, ctx.arg(0))
}

/// `path_chmod(path, …)`
#[lsm(hook = "path_chmod")]
pub fn witness_chmod(ctx: LsmContext) -> i32 {
    of_path(Hook::Chmod, ctx.arg(0))
}

/// `path_chown(path, …)`
#[lsm(hook = "path_chown")]
pub fn witness_chown(ctx: LsmContext) -> i32 {
    of_path(Hook::Chown, ctx.arg(0))
}

/// `bprm_check_security(bprm)`: once for a script, then for its interpreter.
#[lsm(hook = "bprm_check_security")]
pub fn witness_exec(ctx: LsmContext) -> i32 {
    let bprm: u64 = ctx.arg(0);
    of_file(Hook::Exec, read(bprm + off!(bprm_file)))
}

/// `socket_connect(socket, address, len)`
#[lsm(hook = "socket_connect")]
pub fn witness_connect(ctx: LsmContext) -> i32 {
    of_socket(Hook::Connect, ctx.arg(0), ctx.arg(1), ctx.arg(2))
}

/// `socket_bind(socket, address, len)`
#[lsm(hook = "socket_bind")]
pub fn witness_bind(ctx: LsmContext) -> i32 {
    of_socket(Hook::Bind, ctx.arg(0), ctx.arg(1), ctx.arg(2))
}

/// `socket_listen(socket, backlog)`
#[lsm(hook = "socket_listen")]
pub fn witness_listen(ctx: LsmContext) -> i32 {
    of_socket(Hook::Listen, ctx.arg(0), 0, 0)
}

/// `socket_sendmsg(socket, message, size)`: most messages have no address, and end here.
#[lsm(hook = "socket_sendmsg")]
pub fn witness_send(ctx: LsmContext) -> i32 {
    let message: u64 = ctx.arg(1);
    let address: u64 = read(message + off!(msg_name));
    let len: u32 = read(message + off!(msg_namelen));
    if address == 0 || len == 0 {
        return 0;
    }
    let family = family_of(ctx.arg(0));
    if family != AF_UNIX && family != AF_INET && family != AF_INET6 {
        return 0;
    }
    of_socket(Hook::Send, ctx.arg(0), address, len)
}

#[inline(always)]
fn of_file(hook: Hook, file: u64) -> i32 {
    let Some((slot, scratch)) = begin(hook) else { return 0 };
    let (dentry, mount) = place_of(file);
    scratch.words[word::DENTRY] = dentry;
    scratch.words[word::MOUNT] = mount;
    tell(slot)
}

#[inline(always)]
fn of_path(hook: Hook, path: u64) -> i32 {
    let Some((slot, scratch)) = begin(hook) else { return 0 };
    scratch.words[word::DENTRY] = read(path + off!(path_dentry));
    scratch.words[word::MOUNT] = read(path + off!(path_mnt));
    tell(slot)
}

#[inline(always)]
fn of_name(hook: Hook, dir: u64, dentry: u64) -> i32 {
    let Some((slot, scratch)) = begin(hook) else { return 0 };
    scratch.words[word::DENTRY] = dentry;
    scratch.words[word::MOUNT] = read(dir + off!(path_mnt));
    tell(slot)
}

#[inline(always)]
fn of_names(hook: Hook, old: u64, old_mount: u64, new: u64, new_mount: u64) -> i32 {
    let Some((slot, scratch)) = begin(hook) else { return 0 };
    scratch.words[word::DENTRY] = old;
    scratch.words[word::MOUNT] = old_mount;
    scratch.words[word::OTHER_DENTRY] = new;
    scratch.words[word::OTHER_MOUNT] = new_mount;
    tell(slot)
}

#[inline(always)]
fn of_socket(hook: Hook, socket: u64, address: u64, len: u32) -> i32 {
    let Some((slot, scratch)) = begin(hook) else { return 0 };
    scratch.header().args[0] = u64::from(family_of(socket));
    scratch.words[word::ADDRESS] = address;
    scratch.words[word::ADDRESS_LEN] = u64::from(len);
    tell(slot)
}

#[inline(always)]
fn family_of(socket: u64) -> u16 {
    let sk: u64 = read(socket + off!(socket_sk));
    read(sk + off!(sk_family))
}

/// Takes a slot and begins a record in it, for a task of the run.
#[inline(always)]
fn begin(hook: Hook) -> Option<(u32, &'static mut Scratch)> {
    // What a function returned is unknown to the compiler as it is to the verifier.
    let slot = core::hint::black_box(begin_witness(hook as u32)).checked_sub(1)?;
    slot_of(slot).map(|scratch| (slot, scratch))
}

/// The slot's number and one, or 0. See [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn begin_witness(hook: u32) -> u32 {
    let Some(member) = scope::current() else { return 0 };
    let Some(slot) = core::hint::black_box(take_witness()).checked_sub(1) else { return 0 };
    let Some(scratch) = slot_of(slot) else { return 0 };
    scratch.begin(RecordKind::Witness, hook as u16, 0, member);
    for word in &mut scratch.words[..=word::ADDRESS_LEN] {
        *word = 0;
    }
    slot + 1
}

#[inline(always)]
fn slot_of(slot: u32) -> Option<&'static mut Scratch> {
    // SAFETY: whoever has taken the slot is its only user until it gives it back.
    unsafe { WITNESS_SLOTS.get_ptr_mut(slot).map(|slot| &mut *slot) }
}

/// The number and one of a slot that nobody else has, or 0. See [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_witness() -> u32 {
    // SAFETY: the helper has no preconditions.
    let first = unsafe { bpf_get_smp_processor_id() } * TRIES;
    let mask = setting!(witness_slots) - 1;
    for index in 0..TRIES {
        let slot = (first + index) & mask;
        // The kernel refuses the second of two that would insert the same.
        if WITNESS_TAKEN.insert(&slot, &1, u64::from(BPF_NOEXIST)).is_ok() {
            return slot + 1;
        }
    }
    if let Some(tally) = WITNESS_TALLY.get_ptr_mut(first & mask) {
        // SAFETY: whoever counts here at the same time leaves it above zero too, which is all that is asked of it.
        unsafe { (*tally).turned_away += 1 };
    }
    0
}

/// Ends the record with what the hook handed on, sends it, and gives the slot back.
#[inline(always)]
fn tell(slot: u32) -> i32 {
    tell_witness(slot);
    0
}

/// See [`tell`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn tell_witness(slot: u32) -> u32 {
    if let Some(scratch) = slot_of(slot) {
        if scratch.words[word::DENTRY] != 0 {
            name_witness(slot, 0);
            let dentry = scratch.words[word::DENTRY];
            put_name_facts(scratch, dentry);
        }
        if scratch.words[word::OTHER_DENTRY] != 0 {
            name_witness(slot, 1);
        }
        let (address, len) = (scratch.words[word::ADDRESS], scratch.words[word::ADDRESS_LEN]);
        if address != 0 {
            scratch.put_kernel_bytes::<SOCKADDR_LEN>(SectionTag::Sockaddr, address, len);
        }
        let is_sent = send(scratch);
        if let Some(tally) = WITNESS_TALLY.get_ptr_mut(slot) {
            // SAFETY: written by whoever has the slot.
            unsafe {
                (*tally).seen += u64::from(is_sent);
                (*tally).lost += u64::from(!is_sent);
            }
        }
    }
    // It was there; nothing else removes it.
    let _ = WITNESS_TAKEN.remove(&slot);
    0
}

/// Adds one of the two names. See [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn name_witness(slot: u32, which: u32) -> u32 {
    let Some(scratch) = slot_of(slot) else { return 0 };
    let (tag, at) = if which == 0 {
        (SectionTag::ChainA, word::DENTRY)
    } else {
        (SectionTag::ChainB, word::OTHER_DENTRY)
    };
    let (dentry, mount) = (scratch.words[at], scratch.words[at + 1]);
    follow(scratch, tag as u32, u32::from(walk_state::DONE), dentry, mount);
    0
}

#[inline(always)]
fn send(scratch: &mut Scratch) -> bool {
    let len = scratch.at as usize;
    if len > RECORD_LEN {
        return false;
    }
    scratch.header().size = len as u32;
    WITNESS_RING.output::<[u8]>(&scratch.record[..len], u64::from(BPF_RB_NO_WAKEUP)).is_ok()
}
