//! A directory held open, and what is done beneath it: by names alone, through no link, with a bound on what is read.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use sha2::{Digest as _, Sha256};

use super::entry::FileFacts;
use crate::canon::digest::Digest;

/// A directory.
#[derive(Debug)]
pub struct Directory(OwnedFd);

/// Nothing of ours is nested deeper than this; what is, somebody else made.
const MOST_DEPTH: usize = 8;

impl Directory {
    /// Opens the directory of this path, which may lead through links but is none itself.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens one beneath.
    pub fn open_directory(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Makes one beneath, for us alone; false when something has the name already.
    pub fn make_directory(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::mkdirat(&self.0, name, Mode::RWXU) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a plain file beneath that has no other name.
    pub fn open_file(&self, name: &str, access: OFlags) -> io::Result<File> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?);
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no plain file"));
        }
        if stat.st_nlink != 1 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it has another name"));
        }
        Ok(file)
    }

    /// Reads a plain file beneath, up to `most` bytes.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(name, OFlags::RDONLY)?;
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it is larger than {most} bytes"),
            ));
        }
        Ok(bytes)
    }

    /// Writes a new file beneath: beside its name first, and then renamed, so that nobody finds half of it.
    pub fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let beside = format!(".{name}.tmp");
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        let mut file = self.open_file(&beside, flags)?;
        let written = file.write_all(bytes).and_then(|()| self.rename(&beside, self, name));
        if written.is_err() {
            rustix::fs::unlinkat(&self.0, &beside, AtFlags::empty()).ok();
        }
        written
    }

    /// The digest and the length of a plain file beneath.
    pub fn measure(&self, name: &str, is_synced: Synced) -> io::Result<FileFacts> {
        let mut file = self.open_file(name, OFlags::RDONLY)?;
        let (mut hasher, mut bytes) = (Sha256::new(), 0);
        let mut block = vec![0; 1 << 16];
        loop {
            let count = file.read(&mut block)?;
            if count == 0 {
                break;
            }
            hasher.update(&block[..count]);
            bytes += count as u64;
        }
        match is_synced {
            Synced::Yes => file.sync_all()?,
            Synced::No => {}
        }
        Ok(FileFacts { sha256: Digest::from_raw(hasher.finalize().into()), bytes })
    }

    /// The names beneath, in order; a name of ours is ASCII, so that one which is no UTF-8 is told by its escaped form.
    pub fn names(&self) -> io::Result<Vec<Result<String, String>>> {
        let mut names = Vec::new();
        // A handle of its own: where another reading stands is no matter.
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let escaped = || crate::evidence::integrity::shown(name);
            names.push(std::str::from_utf8(name).map(str::to_owned).map_err(|_| escaped()));
        }
        names.sort();
        Ok(names)
    }

    /// What is beneath by this name, or nothing.
    pub fn stat(&self, name: &str) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What the directory itself is.
    pub fn own_stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.0)?)
    }

    /// Gives something beneath another name in another directory.
    pub fn rename(&self, from: &str, into: &Self, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &into.0, to)?)
    }

    /// Removes a name beneath with all that lies there, through no link and into no other mount.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        remove_beneath(&self.0, OsStr::new(name), MOST_DEPTH)
    }

    /// Waits until the names beneath are on the disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }

    /// Locks the directory for ourselves until the guard goes.
    pub fn lock(&self) -> io::Result<DirectoryLock> {
        // A lock belongs to an open file: this one is opened again, so that it goes with the guard.
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let again = rustix::fs::openat(&self.0, ".", flags, Mode::empty())?;
        lock_exclusively(&again)?;
        Ok(DirectoryLock { _locked: again })
    }
}

/// Whether a file is waited for until it is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synced {
    /// It is.
    Yes,
    /// It is only read.
    No,
}

/// A directory that is locked.
#[derive(Debug)]
pub struct DirectoryLock {
    _locked: OwnedFd,
}

/// Waits for a lock that no other process has.
pub fn lock_exclusively(file: &impl std::os::fd::AsFd) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| rustix::fs::flock(file, FlockOperation::LockExclusive))?)
}

/// Waits until no other process has a lock for itself.
pub fn lock_for_reading(file: &impl std::os::fd::AsFd) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| rustix::fs::flock(file, FlockOperation::LockShared))?)
}

fn remove_beneath(directory: &OwnedFd, name: &OsStr, depth: usize) -> io::Result<()> {
    use rustix::io::Errno;
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) if depth > 0 => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let inner = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    if rustix::fs::fstat(&inner)?.st_dev != rustix::fs::fstat(directory)?.st_dev {
        return Err(io::Error::other("something is mounted there"));
    }
    for entry in Dir::read_from(&inner)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            remove_beneath(&inner, OsStr::from_bytes(name), depth - 1)?;
        }
    }
    Ok(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?)
}
