//! Acts that say nothing new: counted, and not sent again.
//!
//! An open for reading of a file that was opened before in the same way, found under the same names, adds a number to the
//! record and nothing else. Whether it is the same is decided by what the kernel holds, not by strings: the file's inode,
//! its place in the tree, and a signature of everything above it. The signature is of each name's dentry, its sequence
//! number, which the kernel raises whenever a name is moved or removed and never lowers, and its hash; and of each mount
//! on the way. So whatever changes the path changes the signature, whoever did it and by whatever means, and no event has
//! to be waited for. It is begun with a number that nobody knows, so that nobody can make two paths sign alike.
//!
//! Each processor has places of its own, so that nothing is shared and no count is lost. A record that takes another's
//! place says how often that one was counted. In doubt an act is sent.

use assay_common::calls::Op;
use assay_common::kind::SectionTag;
use assay_common::limits::REPEAT_STEPS;
use assay_common::loss::{COUNTERS, FAILURES, failed};
use assay_common::record::{FMODE_CREATED, Repeat, RepeatEntry};
use assay_common::served::slot_of;
use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;

use crate::chain::{add_facts_of, is_own_root};
use crate::emit::{count, count_at, scratch};
use crate::kernel::{Context, each, file_of, off, place_of, read, setting};
use crate::maps::{FAILED, REPEATED, REPEATS};
use crate::served::{has_begun, of_run};

const FMODE_WRITE: u32 = 2;
const O_ACCMODE: u64 = 3;
const O_PATH: u64 = 0o10_000_000;

/// What is known of an act that may have been sent before.
#[repr(C)]
pub struct Again {
    /// Where the signature has come to.
    dentry: u64,
    mnt: u64,
    /// Root of that mount.
    root: u64,
    signature: u64,
    /// Whether it reached the root of the task's own namespace.
    is_whole: u32,
    /// Whether the record under construction is to begin a count.
    is_new: u32,
    /// The file's place.
    file_dentry: u64,
    file_mnt: u64,
    key: [u64; 8],
    /// Where it would be counted.
    index: u32,
    padding: u32,
    /// How many counts this processor has begun.
    begun: u64,
}

/// Whether a call that failed is one that did nothing, for want of its object, and is counted here.
#[inline(always)]
pub fn is_counted_failure(op: u16, ret: i64, flags: u64, run: u32) -> bool {
    // Acts on names of files; the others are few, or tell something by failing.
    if of_run!(run, failures) != failed::COUNTED || op == 0 || op > Op::Removexattr as u16 || !has_begun(run)
    {
        return false;
    }
    // Told apart by userspace: an open that would have had no effect.
    if op == Op::Open as u16 && flags & O_PATH != 0 {
        return false;
    }
    let which = if ret == -(FAILURES[0] as i64) {
        0
    } else if ret == -(FAILURES[1] as i64) {
        1
    } else {
        return false;
    };
    let places = COUNTERS * FAILURES.len() as u32;
    count_at(&FAILED, slot_of(run) * places + u32::from(op) * FAILURES.len() as u32 + which);
    true
}

/// Whether an open that succeeded was counted. If it was not, what is known of it stays in the scratch for [`announce`].
#[inline(always)]
pub fn is_counted_open(fd: i64, flags: u64, nr: u64, run: u32) -> bool {
    let Some(scratch) = scratch() else { return false };
    scratch.again.is_new = 0;
    // Only opens for reading: what may have been changed is told each time. Flags above 32 bits are openat2's own.
    if of_run!(run, counts_repeats) == 0 || flags & O_ACCMODE != 0 || flags >> 32 != 0 || !has_begun(run) {
        return false;
    }
    core::hint::black_box(count_open(fd as u32, flags as u32, nr as u32, run)) != 0
}

/// See [`is_counted_open`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_open(fd: u32, flags: u32, nr: u32, run: u32) -> u32 {
    let file = file_of(fd as i32);
    let f_mode: u32 = read(file + off!(file_mode));
    let (dentry, mnt) = place_of(file);
    let inode: u64 = read(file + off!(file_inode));
    // Null for a name that is not in its directory any more, and for a root, which has none.
    let is_named = read::<u64>(dentry + off!(dentry_hash) + 8) != 0;
    // Whatever its flags say by now, it must not be able to write.
    if file == 0 || f_mode & (FMODE_CREATED | FMODE_WRITE) != 0 || inode == 0 || !is_named {
        return 0;
    }
    let mode: u16 = read(inode + off!(inode_mode));
    let generation: u32 = read(inode + off!(inode_generation));
    let number: u64 = read(inode + off!(inode_ino));
    if sign(dentry, mnt) == 0 {
        return 0;
    }
    let Some(scratch) = scratch() else { return 0 };
    let signature = scratch.again.signature;
    let key = [
        signature,
        dentry,
        mnt,
        inode,
        number,
        u64::from(generation) << 32 | u64::from(f_mode),
        u64::from(flags) << 32 | u64::from(nr),
        u64::from(run) << 32 | u64::from(mode),
    ];
    let place = mix(mix(mix(signature, number), key[6]), key[7]) >> 32;
    // SAFETY: the helper has no preconditions.
    let processor = unsafe { bpf_get_smp_processor_id() };
    let places = setting!(repeat_places);
    let first = slot_of(run) * setting!(slot_places) + processor * places;
    let index = first + (place as u32 & (places - 1));
    let Some(entry) = REPEATS.get_ptr_mut(index) else { return 0 };
    // SAFETY: this processor's own element, with preemption off.
    let entry: &mut RepeatEntry = unsafe { &mut *entry };
    if is_same(&entry.key, &key) {
        entry.count += 1;
        count(&REPEATED, run, Op::Open as u32);
        return 1;
    }
    scratch.again.key = key;
    scratch.again.index = index;
    scratch.again.file_dentry = dentry;
    scratch.again.file_mnt = mnt;
    scratch.again.is_new = 1;
    0
}

/// Whether two keys are the same, word by word: what the compiler calls for `==` looks at single bytes.
#[inline(always)]
fn is_same(one: &[u64; 8], other: &[u64; 8]) -> bool {
    let (mut difference, mut at) = (0, 0);
    while at < one.len() {
        difference |= one[at] ^ other[at];
        at += 1;
    }
    difference == 0
}

/// The place of the file whose open may begin a count. What is sent is what was signed, not what the descriptor leads to
/// by now.
#[inline(always)]
pub fn signed_place() -> Option<(u64, u64)> {
    let scratch = scratch()?;
    // Another call that makes a descriptor was not signed.
    let is_open = scratch.header().op == Op::Open as u16;
    let is_signed = is_open && scratch.again.is_new != 0;
    if is_signed { Some((scratch.again.file_dentry, scratch.again.file_mnt)) } else { None }
}

/// Adds what the kernel knows of the file that was signed.
#[inline(always)]
pub fn put_signed_facts() {
    let Some(scratch) = scratch() else { return };
    let [_, dentry, _, inode, _, f_mode, flags, _] = scratch.again.key;
    add_facts_of(dentry, inode, f_mode as u32, (flags >> 32) as u32);
}

/// Adds to the record of an open, whose names are in it already, that it begins a count; unless a name has changed since
/// it was signed.
#[inline(always)]
pub fn announce() {
    announce_count();
}

/// See [`announce`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn announce_count() -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    if scratch.again.is_new == 0 {
        return 0;
    }
    let (dentry, mnt) = (scratch.again.file_dentry, scratch.again.file_mnt);
    let is_signed = sign(dentry, mnt) != 0;
    let Some(scratch) = crate::emit::scratch() else { return 0 };
    let Some(entry) = REPEATS.get_ptr_mut(scratch.again.index) else { return 0 };
    if !is_signed || scratch.again.signature != scratch.again.key[0] {
        scratch.again.is_new = 0;
        return 0;
    }
    // SAFETY: see `count_open`.
    let entry: &RepeatEntry = unsafe { &*entry };
    scratch.again.begun += 1;
    // SAFETY: the helper has no preconditions.
    let processor = u64::from(unsafe { bpf_get_smp_processor_id() });
    let number = (processor + 1) << 40 | scratch.again.begun;
    let repeat = Repeat { number, ended: entry.number, count: entry.count };
    if !scratch.put_value(SectionTag::Repeat, repeat) {
        // Nobody is told of the count, so it must not begin, and the one before it not end.
        scratch.again.is_new = 0;
    }
    0
}

/// Begins the count that the record announced. It has been sent: one that was not must not hide those after it.
#[inline(always)]
pub fn keep() {
    let Some(scratch) = scratch() else { return };
    if scratch.again.is_new == 0 {
        return;
    }
    let Some(entry) = REPEATS.get_ptr_mut(scratch.again.index) else { return };
    // SAFETY: see `count_open`; and for the number `announce_count`.
    unsafe {
        let processor = u64::from(bpf_get_smp_processor_id());
        (*entry).key = scratch.again.key;
        (*entry).number = (processor + 1) << 40 | scratch.again.begun;
        (*entry).count = 0;
    }
}

/// Signs everything above a file, up to the root of the task's own namespace. 0 when it is not reached.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn sign(dentry: u64, mnt: u64) -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    scratch.again.dentry = dentry;
    scratch.again.mnt = mnt;
    scratch.again.root = read(mnt + off!(vfsmount_root));
    scratch.again.signature = mix(setting!(seed), mnt);
    scratch.again.is_whole = 0;
    each(scratch, REPEAT_STEPS, above);
    scratch.again.is_whole
}

/// One name, or one mount. Ends the loop by returning 1.
unsafe extern "C" fn above(_index: u32, context: *mut Context) -> i64 {
    // SAFETY: `each` passes its own context.
    let again = unsafe { &mut (*(*context).scratch).again };
    let dentry = again.dentry;
    if dentry == 0 {
        return 1;
    }
    if dentry == again.root {
        let mount = again.mnt - off!(mount_mnt);
        let parent: u64 = read(mount + off!(mount_parent));
        if parent == mount || parent == 0 {
            again.is_whole = u32::from(is_own_root(mount));
            return 1;
        }
        again.dentry = read(mount + off!(mount_point));
        again.mnt = parent + off!(mount_mnt);
        again.root = read(again.mnt + off!(vfsmount_root));
        again.signature = mix(again.signature, again.mnt);
        return 0;
    }
    let sequence: u32 = read(dentry + off!(dentry_seq));
    let parent: u64 = read(dentry + off!(dentry_parent));
    let hash: u64 = read(dentry + off!(dentry_name) + off!(qstr_hash));
    // At the top of something that is nowhere mounted.
    if parent == dentry {
        return 1;
    }
    again.signature = mix(mix(again.signature, dentry ^ u64::from(sequence) << 32), hash);
    again.dentry = parent;
    0
}

/// Folds one number into another, so that all bits count.
#[inline(always)]
fn mix(state: u64, word: u64) -> u64 {
    let mixed = (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
