//! Walks through file trees, across the mounts beneath them, with what a search for links must know on the way. Reads only.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags};

/// `OVERLAYFS_SUPER_MAGIC`: there a directory's list need not have the numbers of the files.
const OVERLAYFS: u64 = 0x794c_7630;
/// `PROC_SUPER_MAGIC` and `SYSFS_MAGIC`: what the kernel makes up has no names of files on a disk.
const MADE_UP: [u64; 2] = [0x9fa0, 0x6265_6572];
/// `STATX_ATTR_MOUNT_ROOT` in `include/uapi/linux/stat.h`.
const MOUNT_ROOT: u64 = 0x2000;

/// What the list of a directory is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    /// It has the numbers of the files, as `stat` has them.
    Numbered,
    /// Only `stat` has them.
    Unnumbered,
    /// There are no files on a disk.
    MadeUp,
}

/// Which link a path ends in, however it leads there: its directory's device and inode, and the name in it.
pub(super) type Link = (u64, u64, Vec<u8>);

/// The link that a path ends in. `None` where something is mounted on it, which is no link of what is seen there, or
/// where that cannot be told.
pub(super) fn link_at(path: &[u8]) -> Option<Link> {
    let at = path.iter().rposition(|&byte| byte == b'/')?;
    let found =
        rustix::fs::statx(CWD, OsStr::from_bytes(path), AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO).ok()?;
    let (known, set) = (found.stx_attributes_mask.bits(), found.stx_attributes.bits());
    if known & MOUNT_ROOT == 0 || set & MOUNT_ROOT != 0 {
        return None;
    }
    let directory = if at == 0 { &b"/"[..] } else { &path[..at] };
    let meta = fs::metadata(OsStr::from_bytes(directory)).ok()?;
    Some((meta.dev(), meta.ino(), path[at + 1..].to_vec()))
}

/// Everything beneath a directory that is no directory itself. False when there was more than the budget allows, or
/// something of it could not be read.
pub(super) fn walk(
    directory: &[u8],
    budget: &mut usize,
    visit: &mut dyn FnMut(Listing, &DirEntry) -> io::Result<()>,
) -> bool {
    let mut listings = BTreeMap::new();
    let mut directories = vec![directory.to_vec()];
    let mut is_whole = true;
    while let Some(directory) = directories.pop() {
        let path = Path::new(OsStr::from_bytes(&directory));
        let mut read = || -> io::Result<bool> {
            let device = fs::metadata(path)?.dev();
            let listing = match listings.get(&device) {
                Some(known) => *known,
                None => *listings.entry(device).or_insert(listing_at(path)?),
            };
            if listing == Listing::MadeUp {
                return Ok(true);
            }
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                let Some(left) = budget.checked_sub(1) else { return Ok(false) };
                *budget = left;
                if entry.file_type()?.is_dir() {
                    directories.push(entry.path().into_os_string().into_vec());
                } else {
                    is_whole &= is_looked_at(visit(listing, &entry), path);
                }
            }
            Ok(true)
        };
        match read() {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => is_whole &= is_looked_at(Err(error), path),
        }
    }
    is_whole
}

fn listing_at(path: &Path) -> io::Result<Listing> {
    Ok(match rustix::fs::statfs(path)?.f_type as u64 {
        OVERLAYFS => Listing::Unnumbered,
        magic if MADE_UP.contains(&magic) => Listing::MadeUp,
        _ => Listing::Numbered,
    })
}

/// Whether nothing is left there that a command of ours could reach and we did not see: what went meanwhile, and what
/// lies behind a directory of somebody else's that does not let us through.
pub(super) fn is_looked_at(result: io::Result<()>, path: &Path) -> bool {
    let Err(error) = result else { return true };
    error.kind() == io::ErrorKind::NotFound
        || error.kind() == io::ErrorKind::PermissionDenied && is_out_of_reach(path)
}

/// Root's command may be another user's, whom a server lets through where it refuses root.
fn is_out_of_reach(path: &Path) -> bool {
    let us = rustix::process::geteuid();
    let is_closed = |directory: &Path| {
        fs::metadata(directory).is_ok_and(|meta| meta.uid() != us.as_raw())
            && rustix::fs::access(directory, rustix::fs::Access::EXEC_OK) == Err(rustix::io::Errno::ACCESS)
    };
    !us.is_root() && path.ancestors().any(is_closed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// What `walk` saw, and whether that was all.
    fn walked(directory: &Path, mut budget: usize) -> (Vec<String>, bool) {
        let mut seen = Vec::new();
        let is_whole = walk(directory.as_os_str().as_bytes(), &mut budget, &mut |_, entry| {
            seen.push(entry.file_name().into_string().unwrap());
            Ok(())
        });
        seen.sort();
        (seen, is_whole)
    }

    #[test]
    fn what_was_not_seen_is_admitted() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("a/b/x"), "").unwrap();
        fs::write(root.path().join("y"), "").unwrap();
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(walked(root.path(), 4), (names(&["x", "y"]), true));
        assert!(!walked(root.path(), 3).1);
        // It went meanwhile: nothing is there to be seen.
        assert_eq!(walked(&root.path().join("gone"), 9), (names(&[]), true));
        // It is there, and cannot be listed, whoever we are.
        assert_eq!(walked(&root.path().join("y"), 9), (names(&[]), false));
        let mut failing = |_: Listing, _: &DirEntry| Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let path = root.path().as_os_str().as_bytes();
        assert!(!walk(path, &mut 9, &mut failing), "our own directory may be opened by the command");
        // What the kernel makes up is not gone through, wherever it is mounted.
        assert_eq!(walked(Path::new("/proc/self"), 0), (names(&[]), true));
    }

    #[test]
    fn a_directory_that_cannot_be_listed_is_not_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let closed = root.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o311)).unwrap();
        // Root reads it all the same; in a thread of its own, because what it gives up does not come back.
        let found = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    if rustix::process::geteuid().is_root() {
                        let none = rustix::thread::CapabilitySets {
                            effective: rustix::thread::CapabilitySet::empty(),
                            permitted: rustix::thread::CapabilitySet::empty(),
                            inheritable: rustix::thread::CapabilitySet::empty(),
                        };
                        rustix::thread::set_capabilities(None, none).unwrap();
                    }
                    walked(root.path(), 9).1
                })
                .join()
                .unwrap()
        });
        assert!(!found);
    }

    #[test]
    fn one_link_is_one_however_a_path_leads_to_it() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a")).unwrap();
        fs::write(root.path().join("a/x"), "").unwrap();
        fs::hard_link(root.path().join("a/x"), root.path().join("a/y")).unwrap();
        std::os::unix::fs::symlink("a", root.path().join("way")).unwrap();
        let link = |path: &str| link_at(root.path().join(path).as_os_str().as_bytes());
        assert!(link("a/x").is_some());
        assert_eq!(link("a/x"), link("way/x"));
        assert_ne!(link("a/x"), link("a/y"));
        assert_eq!((link("a/z"), link_at(b"/"), link_at(b"/proc")), (None, None, None));
    }
}
