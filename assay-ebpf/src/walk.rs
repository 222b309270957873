//! Resolves a path string as the kernel just did, in the kernel's own cache of names: from the directory it started
//! from, through mounts, `..`, links and the task's root.
//!
//! The call has just walked the same way, so the names are cached. What is not (another thread moved it, a link
//! whose text lies in the page cache) ends the walk with a state that says so, and the rest of the string beside it.

use assay_common::kind::{RecordKind, SectionTag, walk_state};
use assay_common::limits::{
    NAME_LEN, STRING_LEN, WALK_CHILDREN, WALK_LEN, WALK_LINKS, WALK_MOUNTS, WALK_START, WALK_STEPS,
};
use assay_common::names::tail;
use assay_common::result::is_told_by_result;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use aya_ebpf::macros::raw_tracepoint;
use aya_ebpf::programs::RawTracePointContext;

use crate::chain::{put_chain, put_name_facts};
use crate::emit::{scratch, submit};
use crate::kernel::{Context, at_most, each, off, read};
use crate::maps::{Scratch, TAILS, mode};
use crate::start::begin_walk;

const S_IFMT: u16 = 0o170_000;
const S_IFLNK: u16 = 0o120_000;

/// Where resolving a string has come to. In the scratch for the verifier's sake; see [`crate::chain::Chain`].
#[repr(C)]
pub struct Walk {
    dentry: u64,
    mnt: u64,
    root_dentry: u64,
    root_mnt: u64,
    /// List node, or mount, under search.
    node: u64,
    /// Where a list ends, when it is circular.
    head: u64,
    /// What a search found, or 0.
    found: u64,
    index: u32,
    pos: u32,
    len: u32,
    mode: u32,
    links: u32,
    state: u32,
    /// Whether something may be mounted on `dentry`.
    is_entering: u32,
    padding: u32,
}

impl Walk {
    /// At the beginning of the string of a job.
    #[inline(always)]
    pub fn at(index: u32, mode: u32, pos: u32, place: (u64, u64), root: (u64, u64)) -> Self {
        Self {
            dentry: place.0,
            mnt: place.1,
            root_dentry: root.0,
            root_mnt: root.1,
            node: 0,
            head: 0,
            found: 0,
            index,
            pos,
            len: 0,
            mode,
            links: 0,
            state: u32::from(walk_state::LIMIT),
            is_entering: 0,
            padding: 0,
        }
    }
}

/// Runs the next job of the record, adds what it found, and goes on with the other one or sends the record.
#[raw_tracepoint]
pub fn walk(ctx: RawTracePointContext) -> i32 {
    let Some(scratch) = scratch() else { return 0 };
    let index = scratch.next_job & 1;
    scratch.next_job += 1;
    run_job(index);
    let Some(scratch) = crate::emit::scratch() else { return 0 };
    if index == 0 && scratch.jobs[1].is_wanted != 0 {
        // SAFETY: nothing here needs dropping; if the call fails, the record is sent without its second path.
        unsafe { TAILS.tail_call(&ctx, tail::WALK) };
    }
    submit();
    0
}

#[inline(always)]
fn run_job(index: u32) {
    let Some(scratch) = scratch() else { return };
    let job = scratch.jobs[index as usize & 1];
    if job.is_wanted == 0 {
        return;
    }
    begin_walk(index);
    if job.mode == mode::START {
        scratch.state.state = u32::from(walk_state::START);
    } else {
        each(scratch, WALK_STEPS, step);
    }
    // Of a call that failed the cache need not know more: what is left is text, as it would be of all of it. But a link
    // leads on, and where a limit was reached there may be one: userspace looks.
    if scratch.state.state == u32::from(walk_state::NOT_CACHED) && !is_told_by_result(scratch.header().ret) {
        scratch.state.state = u32::from(walk_state::START);
    }
    let Walk { dentry, mnt, pos, state, .. } = scratch.state;
    let (chain, rest) = if index == 0 {
        (SectionTag::ChainA, SectionTag::RestA)
    } else {
        (SectionTag::ChainB, SectionTag::RestB)
    };
    put_chain(chain, state as u8, dentry, mnt);
    if state as u8 != walk_state::DONE {
        let at = pos as usize & (WALK_LEN - 1);
        let from = scratch.walk[index as usize & 1].as_ptr() as u64 + at as u64;
        scratch.put_kernel_string(rest, from);
    } else if index == 0 && scratch.header().kind == RecordKind::Call as u16 {
        put_name_facts(scratch, dentry);
    }
}

/// The byte of the string at `pos`.
#[inline(always)]
fn byte(scratch: &Scratch, pos: u32) -> u8 {
    scratch.walk[scratch.state.index as usize & 1][pos as usize & (WALK_LEN - 1)]
}

/// One move. Ends the loop by returning 1.
unsafe extern "C" fn step(_index: u32, _context: *mut Context) -> i64 {
    // The verifier wants to see that it is 0 or 1; the compiler, which knows, must leave the mask.
    i64::from(core::hint::black_box(walk_on()) & 1)
}

/// One move: into a mount, over a slash, up, or along one name. Whether the walk is over. See [`crate::kernel`] for why
/// it, and what it is made of, are functions of their own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_on() -> u32 {
    let Some(scratch) = scratch() else { return 1 };
    if scratch.state.is_entering != 0 {
        enter_mount();
        return 0;
    }
    let first = byte(scratch, scratch.state.pos);
    if first == b'/' {
        scratch.state.pos += 1;
        return 0;
    }
    if first == 0 {
        scratch.state.state = u32::from(walk_state::DONE);
        return 1;
    }
    scratch.state.len = 0;
    each(scratch, NAME_LEN as u32, measure);
    let (pos, len) = (scratch.state.pos, scratch.state.len);
    let after = byte(scratch, pos + len);
    let is_last = after == 0 || (after == b'/' && byte(scratch, pos + len + 1) == 0);
    if first == b'.' && len == 1 {
        scratch.state.pos += 1;
        return 0;
    }
    if first == b'.' && len == 2 && byte(scratch, pos + 1) == b'.' {
        climb(scratch);
        return 0;
    }
    if is_last && scratch.state.mode == mode::NAME {
        scratch.state.state = u32::from(walk_state::PARENT);
        return 1;
    }
    find_child();
    let Some(scratch) = crate::emit::scratch() else { return 1 };
    let child = scratch.state.found;
    let inode: u64 = if child == 0 { 0 } else { read(child + off!(dentry_inode)) };
    if inode == 0 {
        // Among more names than are looked through there may be one that is a link.
        let is_cut = child == 0 && scratch.state.node != 0 && scratch.state.node != scratch.state.head;
        let state = if is_cut { walk_state::LIMIT } else { walk_state::NOT_CACHED };
        scratch.state.state = u32::from(state);
        return 1;
    }
    let is_link = read::<u16>(inode + off!(inode_mode)) & S_IFMT == S_IFLNK;
    if is_link && !(is_last && after == 0 && scratch.state.mode == mode::LINK) {
        return follow(inode);
    }
    scratch.state.dentry = child;
    scratch.state.pos = pos + len;
    scratch.state.is_entering = 1;
    0
}

/// Counts the bytes of the name at `pos`.
unsafe extern "C" fn measure(_index: u32, context: *mut Context) -> i64 {
    // SAFETY: see `step`.
    let scratch = unsafe { &mut *(*context).scratch };
    let next = byte(scratch, scratch.state.pos + scratch.state.len);
    if next == 0 || next == b'/' {
        return 1;
    }
    scratch.state.len += 1;
    0
}

/// `..`: to the parent, out of a mount, but not out of the task's root.
#[inline(always)]
fn climb(scratch: &mut Scratch) {
    if scratch.state.dentry == scratch.state.root_dentry && scratch.state.mnt == scratch.state.root_mnt {
        scratch.state.pos += 2;
        return;
    }
    let root: u64 = read(scratch.state.mnt + off!(vfsmount_root));
    if scratch.state.dentry == root {
        let mount = scratch.state.mnt - off!(mount_mnt);
        let parent: u64 = read(mount + off!(mount_parent));
        if parent == mount || parent == 0 {
            scratch.state.pos += 2;
        } else {
            // The same `..` again, from the place this is mounted on.
            scratch.state.dentry = read(mount + off!(mount_point));
            scratch.state.mnt = parent + off!(mount_mnt);
        }
        return;
    }
    scratch.state.dentry = read(scratch.state.dentry + off!(dentry_parent));
    scratch.state.pos += 2;
    scratch.state.is_entering = 1;
}

/// Steps into what is mounted on the current place, if anything is; it may itself be covered, so it is asked again.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn enter_mount() -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    scratch.state.is_entering = 0;
    let flags: u32 = read(scratch.state.dentry + off!(dentry_flags));
    if u64::from(flags) & off!(mounted_flag) == 0 {
        return 0;
    }
    let mounts = scratch.state.mnt - off!(mount_mnt) + off!(mount_mounts);
    scratch.state.head = mounts;
    scratch.state.node = read(mounts);
    scratch.state.found = 0;
    each(scratch, WALK_MOUNTS, match_mount);
    if scratch.state.found != 0 {
        scratch.state.mnt = scratch.state.found + off!(mount_mnt);
        scratch.state.dentry = read(scratch.state.mnt + off!(vfsmount_root));
        scratch.state.is_entering = 1;
    }
    0
}

/// Looks at one mount below the current one.
unsafe extern "C" fn match_mount(_index: u32, context: *mut Context) -> i64 {
    // SAFETY: see `step`.
    let scratch = unsafe { &mut *(*context).scratch };
    if scratch.state.node == 0 || scratch.state.node == scratch.state.head {
        return 1;
    }
    let mount = scratch.state.node - off!(mount_child);
    if read::<u64>(mount + off!(mount_point)) == scratch.state.dentry {
        scratch.state.found = mount;
        return 1;
    }
    scratch.state.node = read(scratch.state.node);
    0
}

/// Looks for the name at `pos` among the cached children of the current directory.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_child() -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    let list = scratch.state.dentry + off!(dentry_children);
    // A circular list before 6.8, one that ends in null since.
    scratch.state.head = list;
    scratch.state.node = read(list);
    scratch.state.found = 0;
    each(scratch, WALK_CHILDREN, match_child);
    0
}

/// Looks at one child.
unsafe extern "C" fn match_child(_index: u32, context: *mut Context) -> i64 {
    // SAFETY: see `step`.
    let scratch = unsafe { &mut *(*context).scratch };
    if scratch.state.node == 0 || scratch.state.node == scratch.state.head {
        return 1;
    }
    let child = scratch.state.node - off!(dentry_sibling);
    scratch.state.node = read(scratch.state.node);
    let len: u32 = read(child + off!(dentry_name) + off!(qstr_len));
    if len != scratch.state.len {
        return 0;
    }
    // A name that was removed stays in the list until its last user is gone.
    if read::<u64>(child + off!(dentry_hash) + 8) == 0 {
        return 0;
    }
    let name: u64 = read(child + off!(dentry_name) + off!(qstr_name));
    // SAFETY: the length is masked to the room for a name.
    unsafe {
        let to = scratch.name.as_mut_ptr();
        bpf_probe_read_kernel(to.cast(), len & (NAME_LEN as u32 - 1), name as *const _);
    }
    scratch.state.found = child;
    each(scratch, len & (NAME_LEN as u32 - 1), compare);
    i64::from(scratch.state.found != 0)
}

/// Compares one byte of the name read with the string; forgets the child when they differ.
unsafe extern "C" fn compare(index: u32, context: *mut Context) -> i64 {
    // SAFETY: see `step`.
    let scratch = unsafe { &mut *(*context).scratch };
    let theirs = scratch.name[index as usize & (NAME_LEN - 1)];
    if theirs == byte(scratch, scratch.state.pos + index) {
        return 0;
    }
    scratch.state.found = 0;
    1
}

/// Puts a link's text in front of the rest of the string. Ends the loop when it cannot.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn follow(inode: u64) -> u32 {
    let Some(scratch) = scratch() else { return 1 };
    let text: u64 = read(inode + off!(inode_link));
    if text == 0 {
        scratch.state.state = u32::from(walk_state::LINK);
        return 1;
    }
    let size: u64 = read(inode + off!(inode_size));
    let rest = scratch.state.pos + scratch.state.len;
    scratch.state.links += 1;
    if size == 0
        || size > STRING_LEN as u64 / 2
        || size > u64::from(rest)
        || scratch.state.links > WALK_LINKS
        || rest as usize >= WALK_LEN
    {
        scratch.state.state = u32::from(walk_state::LIMIT);
        return 1;
    }
    let at = rest - size as u32;
    // SAFETY: the index is masked to `WALK_LEN`, behind which `STRING_LEN` bytes follow,
    // and the length is masked to less than that.
    let failed = unsafe {
        let to =
            scratch.walk[scratch.state.index as usize & 1].as_mut_ptr().add(at as usize & (WALK_LEN - 1));
        bpf_probe_read_kernel(to.cast(), at_most::<{ STRING_LEN / 2 }>(size), text as *const _)
    };
    if failed != 0 {
        scratch.state.state = u32::from(walk_state::UNREADABLE);
        return 1;
    }
    scratch.state.pos = at;
    if byte(scratch, at) == b'/' {
        scratch.state.dentry = scratch.state.root_dentry;
        scratch.state.mnt = scratch.state.root_mnt;
    }
    0
}

const _: () = assert!(WALK_START + STRING_LEN <= WALK_LEN);
