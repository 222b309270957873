//! What placeholders need: a directory of their own on the mount of the directory they are shown in, and a kernel that
//! takes both for an overlay. Asked, not guessed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};

use super::caller::Caller;
use super::request::{Mode, SandboxRequest, Workdir};
use super::{fork, namespace};
use crate::enforce::placeholders;

/// Where what placeholders need may be: on the file system of the work directory. Empty when there are to be none.
pub fn bases(request: &SandboxRequest, caller: &Caller) -> Vec<PathBuf> {
    // They are laid with the rights of who lays them, which must be the command's own or root's for root.
    if !request.is_fail_closed || request.mode == Mode::DryRun || caller.client().is_some() {
        return Vec::new();
    }
    let workdir = match &request.workdir {
        Workdir::At(path) => fs::canonicalize(path),
        Workdir::Inherited => std::env::current_dir(),
    };
    let Ok(workdir) = workdir else { return Vec::new() };
    let bases = [caller.tmpdir(), "/tmp".into(), "/var/tmp".into()].into_iter();
    // The layers of an overlay lie on one mount, and neither in the other.
    let suits = |base: &PathBuf| {
        mount_of(base).is_some_and(|mount| mount_of(&workdir) == Some(mount))
            && fs::canonicalize(base).is_ok_and(|base| !base.starts_with(&workdir))
    };
    bases.filter(suits).collect()
}

/// The mount that a path lies on, and its device.
fn mount_of(path: &Path) -> Option<(u64, u32, u32)> {
    let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    Some((found.stx_mnt_id, found.stx_dev_major, found.stx_dev_minor))
}

/// Keeps the missing names whose directory takes placeholders: tried for each directory, where nobody sees it.
pub fn keep_coverable(above_missing: &mut BTreeMap<Vec<u8>, Vec<u8>>, scratch: &Path) {
    let all: BTreeSet<Vec<u8>> = above_missing.values().cloned().collect();
    let coverable: BTreeSet<Vec<u8>> = all
        .into_iter()
        .enumerate()
        .filter(|(index, directory)| can_cover(directory, &scratch.join(format!("try-{index}"))))
        .map(|(_, directory)| directory)
        .collect();
    above_missing.retain(|_, directory| coverable.contains(directory));
}

fn can_cover(directory: &[u8], scratch: &Path) -> bool {
    if scratch.starts_with(Path::new(OsStr::from_bytes(directory))) {
        return false;
    }
    let answer = fork::ask_a_copy(|| {
        fs::create_dir(scratch).is_ok()
            && namespace::unshare_mounts().is_ok()
            && placeholders::try_one(directory, scratch.as_os_str().as_bytes()).is_ok()
    });
    // Who cannot ask cannot rely on it.
    answer.unwrap_or(false)
}
