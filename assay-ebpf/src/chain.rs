//! Follows a file's names from its dentry to the root of its mount namespace, through mounts, and adds them.

use assay_common::kind::{SectionTag, chain_state};
use assay_common::limits::{CHAIN_LEN, CHAIN_STEPS, NAME_LEN, RECORD_LEN};
use assay_common::record::FileFacts;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;

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
#[inline(never)]
pub fn put_chain(scratch: &mut Scratch, tag: SectionTag, aux: u8, dentry: u64, mnt: u64) {
    let Some(at) = scratch.chain_at() else { return };
    let end = at + (CHAIN_LEN - NAME_LEN) as u32;
    scratch.chain = Chain { dentry, mnt, at, end, state: u32::from(chain_state::CUT), padding: 0 };
    each(scratch, CHAIN_STEPS, step);
    let (len, state) = (scratch.chain.at - at, scratch.chain.state as u8);
    scratch.end_section(tag, state, aux, len & (CHAIN_LEN as u32 * 2 - 1));
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
        chain_state::FOREIGN
    }
}

/// Adds what the kernel knows of an open file.
#[inline(never)]
pub fn put_facts(scratch: &mut Scratch, file: u64) {
    let dentry: u64 = read(file + off!(file_path) + off!(path_dentry));
    let inode: u64 = read(file + off!(file_inode));
    let facts = facts_of(dentry, inode, read(file + off!(file_mode)), read(file + off!(file_flags)));
    scratch.put_value(SectionTag::FileFacts, facts);
}

/// Adds what the kernel knows of a file that a name led to.
#[inline(never)]
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
