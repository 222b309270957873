//! Follows a file's names from its dentry to the root of its mount namespace, through mounts, and adds them.

use assay_common::kind::{SectionTag, chain_state};
use assay_common::limits::{CHAIN_LEN, CHAIN_STEPS, NAME_LEN, RECORD_LEN};
use assay_common::record::FileFacts;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;

use crate::emit::scratch;
use crate::kernel::{Context, current_task, each, off, read};
use crate::maps::Scratch;

/// Where following a file's names has come to. It lives in the scratch: what is read from a map is unknown to the
/// verifier, which then need not follow the loop round by round.
#[repr(C)]
pub struct Chain {
    dentry: u64,
    mnt: u64,
    at: u32,
    end: u32,
    state: u32,
    padding: u32,
}

/// Adds the names from `dentry` to the root, each with its NUL. `aux` is the walk's state.
#[inline(always)]
pub fn put_chain(tag: SectionTag, aux: u8, dentry: u64, mnt: u64) {
    add_chain(tag as u32, u32::from(aux), dentry, mnt);
}

/// See [`put_chain`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_chain(tag: u32, aux: u32, dentry: u64, mnt: u64) -> u32 {
    if let Some(scratch) = scratch() {
        follow(scratch, tag, aux, dentry, mnt);
    }
    0
}

/// Adds the names to a record that may be another than this processor's.
#[inline(always)]
pub fn follow(scratch: &mut Scratch, tag: u32, aux: u32, dentry: u64, mnt: u64) {
    let Some(at) = scratch.chain_at() else { return };
    let end = at + (CHAIN_LEN - NAME_LEN) as u32;
    scratch.chain = Chain { dentry, mnt, at, end, state: u32::from(chain_state::CUT), padding: 0 };
    each(scratch, CHAIN_STEPS, step);
    let (len, state) = (scratch.chain.at - at, scratch.chain.state as u8);
    scratch.end_section(tag as u16, state, aux as u8, len & (CHAIN_LEN as u32 * 2 - 1));
}

/// One name, or one mount. Ends the loop by returning 1.
unsafe extern "C" fn step(_index: u32, context: *mut Context) -> i64 {
    // SAFETY: `each` passes its own context.
    let scratch = unsafe { &mut *(*context).scratch };
    let (dentry, mnt) = (scratch.chain.dentry, scratch.chain.mnt);
    // No such descriptor, or a read that failed on the way here.
    if dentry == 0 {
        scratch.chain.state = u32::from(chain_state::UNREADABLE);
        return 1;
    }
    let root: u64 = read(mnt + off!(vfsmount_root));
    if dentry == root {
        let mount = mnt - off!(mount_mnt);
        let parent: u64 = read(mount + off!(mount_parent));
        if parent == mount || parent == 0 {
            scratch.chain.state = u32::from(top_state(mount));
            return 1;
        }
        scratch.chain.dentry = read(mount + off!(mount_point));
        scratch.chain.mnt = parent + off!(mount_mnt);
        return 0;
    }
    let parent: u64 = read(dentry + off!(dentry_parent));
    let name: u64 = read(dentry + off!(dentry_name) + off!(qstr_name));
    let at = scratch.chain.at as usize & (RECORD_LEN - 1);
    // SAFETY: masked to `RECORD_LEN`; a name is at most `NAME_LEN`, less than the slack behind it.
    let len = unsafe {
        let to = scratch.record.as_mut_ptr().add(at);
        bpf_probe_read_kernel_str(to.cast(), NAME_LEN as u32, name as *const _)
    };
    if len <= 0 || parent == 0 {
        scratch.chain.state = u32::from(chain_state::UNREADABLE);
        return 1;
    }
    scratch.chain.at += len as u32;
    if parent == dentry {
        scratch.chain.state = u32::from(chain_state::NAMELESS);
        return 1;
    }
    scratch.chain.dentry = parent;
    i64::from(scratch.chain.at > scratch.chain.end)
}

/// Whether the top of this mount is the root of the task's own namespace.
#[inline(always)]
pub fn is_own_root(mount: u64) -> bool {
    top_state(mount) == chain_state::ROOT
}

/// The number that kernels since 6.18 give every anonymous mount namespace.
const MNT_NS_ANON_INO: u32 = 0xefff_fff7;

/// What it means to have arrived at the top of this mount.
#[inline(always)]
fn top_state(mount: u64) -> u8 {
    let namespace: u64 = read(mount + off!(mount_ns));
    let proxy: u64 = read(current_task() + off!(task_nsproxy));
    let own: u64 = read(proxy + off!(nsproxy_mnt));
    // Internal mounts have no namespace, or an error value for one.
    if namespace == own {
        chain_state::ROOT
    } else if namespace == 0 || namespace > u64::MAX - 4096 {
        chain_state::DETACHED
    } else {
        // A mount that was made and is nowhere yet has a namespace to itself, which has no number, or a fixed one.
        let number: u32 = read(namespace + off!(namespace_common) + off!(namespace_inum));
        if number == 0 || number == MNT_NS_ANON_INO { chain_state::DETACHED } else { chain_state::FOREIGN }
    }
}

/// Adds what the kernel knows of an open file.
#[inline(always)]
pub fn put_facts(file: u64) {
    add_facts(file);
}

/// See [`put_facts`], and [`crate::kernel`] for why it is a function of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_facts(file: u64) -> u32 {
    let dentry: u64 = read(file + off!(file_path) + off!(path_dentry));
    let inode: u64 = read(file + off!(file_inode));
    add_facts_of(dentry, inode, read(file + off!(file_mode)), read(file + off!(file_flags)))
}

/// Adds what the kernel knows of an open file, given what of it is known already.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn add_facts_of(dentry: u64, inode: u64, f_mode: u32, f_flags: u32) -> u32 {
    let Some(scratch) = scratch() else { return 0 };
    scratch.put_value(SectionTag::FileFacts, facts_of(dentry, inode, f_mode, f_flags));
    0
}

/// Adds what the kernel knows of a file that a name led to.
#[inline(always)]
pub fn put_name_facts(scratch: &mut Scratch, dentry: u64) {
    let facts = facts_of(dentry, read(dentry + off!(dentry_inode)), 0, 0);
    scratch.put_value(SectionTag::FileFacts, facts);
}

#[inline(always)]
fn facts_of(dentry: u64, inode: u64, f_mode: u32, f_flags: u32) -> FileFacts {
    let sb: u64 = read(inode + off!(inode_sb));
    // `d_hash.pprev` is null for a name that is not in its directory any more; so it is for a root, which has no name.
    let pprev: u64 = read(dentry + off!(dentry_hash) + 8);
    let parent: u64 = read(dentry + off!(dentry_parent));
    FileFacts {
        mode: u32::from(read::<u16>(inode + off!(inode_mode))),
        f_mode,
        f_flags,
        nlink: read(inode + off!(inode_nlink)),
        dev: read(sb + off!(sb_dev)),
        is_unlinked: u32::from(pprev == 0 && parent != dentry),
        magic: read(sb + off!(sb_magic)),
        ino: read(inode + off!(inode_ino)),
    }
}
