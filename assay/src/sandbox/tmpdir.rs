//! The child's private `TMPDIR`: made empty for its user alone, removed with whatever it then holds.
//!
//! The removal follows no link, needs no depth of stack or descriptors, and opens what the child closed to us.

use std::ffi::{CStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::host::random;

/// A path that is free now, beneath the first of `bases` where we may make a directory.
///
/// Chosen apart from the making, so that whoever must remove it can be told first.
pub fn choose(bases: &[PathBuf]) -> io::Result<PathBuf> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for base in bases {
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        let usable = std::fs::canonicalize(base).and_then(|base| {
            rustix::fs::access(&base, access)?;
            Ok(base)
        });
        match usable {
            Err(error) => failure = error,
            Ok(base) => {
                // No other process can name it beforehand, and no copy of this one has it.
                let random = random::number();
                return Ok(base.join(format!("assay-{random:016x}")));
            }
        }
    }
    Err(failure)
}

/// Makes the directory, empty, so that only its owner can enter it.
pub fn create(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    rustix::fs::mkdir(path, Mode::RWXU)?;
    let directory = open_directory(rustix::fs::CWD, path)?;
    // The umask may have taken bits away.
    rustix::fs::fchmod(&directory, Mode::RWXU)?;
    if let Some((uid, gid)) = owner {
        rustix::fs::fchown(&directory, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    Ok(())
}

/// Removes the directory and all in it. One that is gone is not an error.
pub fn remove(path: &Path) -> io::Result<()> {
    let top = match open_to_empty(rustix::fs::CWD, path) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    empty(&top)?;
    match rustix::fs::unlinkat(rustix::fs::CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Empties `top`. A directory that is not empty is emptied of files and its own directories moved up to `top`,
/// so the tree gets flatter instead of our stack deeper.
fn empty(top: &OwnedFd) -> io::Result<()> {
    let mut moved = 0u64;
    let mut failure = None;
    // What appears while we work is removed in a later round; who never stops making files is told.
    for _ in 0..10_000 {
        let entries = list(top)?;
        if entries.is_empty() {
            return Ok(());
        }
        let mut has_progress = false;
        for (name, kind) in entries {
            let result = if kind == FileType::Directory {
                flatten(top, &name, &mut moved)
            } else {
                rustix::fs::unlinkat(top, &name, AtFlags::empty()).map(|()| true)
            };
            match result {
                Ok(did_remove) => has_progress |= did_remove,
                Err(Errno::NOENT) => has_progress = true,
                Err(error) => failure = Some(error),
            }
        }
        if !has_progress {
            return Err(failure.unwrap_or(Errno::NOTEMPTY).into());
        }
    }
    Err(failure.unwrap_or(Errno::NOTEMPTY).into())
}

/// Removes the directory `name` in `top`, after moving its directories up. True when anything changed.
fn flatten(top: &OwnedFd, name: &CStr, moved: &mut u64) -> Result<bool, Errno> {
    let directory = match open_to_empty(top, name) {
        // It became something else since it was listed.
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return rustix::fs::unlinkat(top, name, AtFlags::empty()).map(|()| true);
        }
        other => other?,
    };
    let mut has_changed = false;
    for (inner, kind) in list(&directory)? {
        let result = if kind == FileType::Directory {
            move_up(&directory, &inner, top, moved)
        } else {
            rustix::fs::unlinkat(&directory, &inner, AtFlags::empty())
        };
        has_changed |= result.is_ok();
    }
    match rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) if has_changed => Ok(true),
        Err(error) => Err(error),
    }
}

fn move_up(directory: &OwnedFd, name: &CStr, top: &OwnedFd, moved: &mut u64) -> Result<(), Errno> {
    // An empty one, the usual case, needs no move.
    if rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR).is_ok() {
        return Ok(());
    }
    // Moving a directory writes its `..`, which needs write permission on it.
    drop(open_to_empty(directory, name));
    loop {
        let free = OsString::from(format!(".assay-removing-{moved}"));
        *moved += 1;
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(directory, name, top, &free, flags) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
    }
}

/// Opens a directory so that it can be emptied, giving ourselves the permission where its owner took it.
fn open_to_empty(at: impl std::os::fd::AsFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    let at = at.as_fd();
    let opened = open_directory(at, name);
    let is_closed_to_us = match &opened {
        Err(Errno::ACCESS) => true,
        Ok(directory) => {
            let mode = rustix::fs::fstat(directory)?.st_mode;
            Mode::from_raw_mode(mode) & Mode::RWXU != Mode::RWXU
        }
        Err(_) => false,
    };
    if !is_closed_to_us {
        return opened;
    }
    // chmod follows links; O_PATH with O_NOFOLLOW makes sure there is none, and /proc names what is open.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(at, name, flags, Mode::empty())?;
    let named = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&handle));
    let changed = rustix::fs::chmod(named.as_str(), Mode::RWXU);
    match (opened, changed) {
        (Ok(directory), _) => Ok(directory),
        (Err(_), Ok(())) => open_directory(at, name),
        (Err(error), Err(_)) => Err(error),
    }
}

fn open_directory(at: impl std::os::fd::AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

fn list(directory: &OwnedFd) -> Result<Vec<(std::ffi::CString, FileType)>, Errno> {
    let mut entries = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                match rustix::fs::statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => FileType::Unknown,
                }
            }
            known => known,
        };
        entries.push((entry.file_name().to_owned(), kind));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn base() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn made(bases: &[PathBuf]) -> PathBuf {
        let path = choose(bases).unwrap();
        create(&path, None).unwrap();
        path
    }

    fn close(path: &Path) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o0)).unwrap();
    }

    #[test]
    fn it_is_private_and_empty() {
        let base = base();
        let path = made(&[base.path().join("absent"), base.path().to_owned()]);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
        remove(&path).unwrap();
        assert!(!path.exists());
        remove(&path).unwrap();
    }

    #[test]
    fn links_out_of_it_are_removed_and_not_followed() {
        let base = base();
        let victim = base.path().join("victim");
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("precious"), "x").unwrap();
        let path = made(&[base.path().to_owned()]);
        symlink(&victim, path.join("to-directory")).unwrap();
        symlink(victim.join("precious"), path.join("to-file")).unwrap();
        symlink("..", path.join("up")).unwrap();
        std::fs::create_dir(path.join("inner")).unwrap();
        symlink(&victim, path.join("inner/again")).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
        assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 1);
    }

    #[test]
    fn the_directory_itself_is_not_followed() {
        let base = base();
        let victim = base.path().join("victim");
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("precious"), "x").unwrap();
        let path = base.path().join("link");
        symlink(&victim, &path).unwrap();
        assert!(remove(&path).is_err());
        assert!(victim.join("precious").exists());
    }

    #[test]
    fn directories_closed_to_us_are_opened() {
        let base = base();
        let path = made(&[base.path().to_owned()]);
        std::fs::create_dir_all(path.join("a/b/c")).unwrap();
        std::fs::write(path.join("a/b/c/file"), "x").unwrap();
        close(&path.join("a/b/c/file"));
        close(&path.join("a/b/c"));
        close(&path.join("a/b"));
        close(&path.join("a"));
        close(&path);
        remove(&path).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_removed() {
        let base = base();
        let path = made(&[base.path().to_owned()]);
        let mut at = open_directory(rustix::fs::CWD, &path).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            rustix::fs::symlinkat("..", &at, "up").unwrap();
            at = open_directory(&at, "d").unwrap();
        }
        drop(at);
        remove(&path).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn names_like_ours_and_odd_names_are_no_trouble() {
        let base = base();
        let path = made(&[base.path().to_owned()]);
        for name in [".assay-removing-0", ".assay-removing-1", "-rf", "new\nline", "sp ace"] {
            std::fs::create_dir_all(path.join(name).join("inner/deep")).unwrap();
            std::fs::write(path.join(name).join("inner/deep/f"), "x").unwrap();
        }
        remove(&path).unwrap();
        assert!(!path.exists());
    }
}
