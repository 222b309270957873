//! The one writer of artifacts: whole or not at all, mode 0600, never through a symbolic link.
//!
//! The directory is opened before the command starts, so that the command cannot put another in its place; the
//! file is written beside its target and renamed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use sha2::{Digest as _, Sha256};

use crate::canon::digest::Digest;

/// Who owns what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Whoever we are.
    Ourselves,
    /// The user who called `sudo`.
    Invoking {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
}

/// An artifact that is in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Where.
    pub path: PathBuf,
    /// Of its bytes.
    pub sha256: Digest,
}

/// Why an artifact is not in its place.
#[derive(Debug, thiserror::Error)]
#[error("write {}: {source}", path.display())]
pub struct ArtifactError {
    /// Where it should be.
    pub path: PathBuf,
    /// What went wrong.
    pub source: io::Error,
}

/// Where an artifact will be, with its directory held open.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    name: OsString,
    directory: OwnedFd,
}

/// A directory in which nothing can be made is told before the command runs. What else may be in the way shows when
/// something is.
fn refuse_closed(directory: &OwnedFd) -> io::Result<()> {
    use rustix::io::Errno;
    match rustix::fs::accessat(directory, ".", rustix::fs::Access::WRITE_OK, AtFlags::EACCESS) {
        Err(error @ (Errno::ROFS | Errno::ACCESS)) => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

impl Target {
    /// Opens the directory of `path`. Nothing is written yet.
    pub fn prepare(path: &Path) -> Result<Self, ArtifactError> {
        let failed = |source: io::Error| ArtifactError { path: path.to_owned(), source };
        let invalid = |text: &str| failed(io::Error::new(io::ErrorKind::InvalidInput, text.to_owned()));
        // `file_name` drops a trailing slash, which says "a directory".
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(invalid("it names a directory"));
        }
        let name = path.file_name().ok_or_else(|| invalid("it names no file"))?.to_owned();
        let directory = open_directory(&parent_of(path)).map_err(failed)?;
        refuse_closed(&directory).map_err(failed)?;
        let target = Self { path: path.to_owned(), name, directory };
        target.refuse_special().map_err(failed)?;
        Ok(target)
    }

    /// Where it will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes it whole, or leaves what was there.
    pub fn write(
        &self,
        owner: Owner,
        render: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Written, ArtifactError> {
        self.write_whole(owner, render)
            .map(|sha256| Written { path: self.path.clone(), sha256 })
            .map_err(|source| ArtifactError { path: self.path.clone(), source })
    }

    fn write_whole(
        &self,
        owner: Owner,
        render: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Digest> {
        self.refuse_special()?;
        self.refuse_moved()?;
        let (temporary, file) = self.create_beside(owner)?;
        let result = render_and_hash(file, render).and_then(|digest| {
            rustix::fs::renameat(&self.directory, &temporary, &self.directory, &self.name)?;
            Ok(digest)
        });
        if result.is_err() {
            rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty()).ok();
        }
        result
    }

    /// Puts an empty file in place and returns it, for what is written as it happens.
    pub fn stream(&self, owner: Owner) -> Result<File, ArtifactError> {
        let open = || {
            self.refuse_special()?;
            let (temporary, file) = self.create_beside(owner)?;
            if let Err(error) = rustix::fs::renameat(&self.directory, &temporary, &self.directory, &self.name)
            {
                rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty()).ok();
                return Err(error.into());
            }
            // Who cuts it short must not make a hole of it.
            rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
            Ok(file)
        };
        open().map_err(|source| ArtifactError { path: self.path.clone(), source })
    }

    /// Gives what [`stream`](Self::stream) put in place its last line, when its writer was killed: half a line at
    /// its end goes. Only where it is a file of the owner's without another name.
    pub fn end_stream(&self, owner: Owner, line: &[u8]) -> Result<(), ArtifactError> {
        let end = || {
            let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())?);
            let stat = rustix::fs::fstat(&file)?;
            let uid = match owner {
                Owner::Ourselves => rustix::process::geteuid().as_raw(),
                Owner::Invoking { uid, .. } => uid,
            };
            let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            if !is_regular || stat.st_nlink != 1 || stat.st_uid != uid {
                return Err(io::Error::other("it was replaced during the run"));
            }
            let length = end_of_last_line(&file, stat.st_size as u64)?;
            file.set_len(length)?;
            file.write_all_at(line, length)
        };
        end().map_err(|source| ArtifactError { path: self.path.clone(), source })
    }

    /// Removes what the process `maker` was writing beside the target when it was killed.
    pub fn remove_leftover(&self, maker: u32) {
        // The names beyond the first are for when somebody else has it.
        for attempt in 0..4 {
            let name = temporary_name(maker, attempt);
            let Ok(stat) = rustix::fs::statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink == 1 {
                rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty()).ok();
            }
        }
    }

    /// A new file beside the target, which nobody else can have made or opened.
    fn create_beside(&self, owner: Owner) -> io::Result<(OsString, File)> {
        for attempt in 0..1000u32 {
            let name = temporary_name(std::process::id(), attempt);
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDWR;
            match rustix::fs::openat(&self.directory, &name, flags, Mode::RUSR | Mode::WUSR) {
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
                Ok(fd) => {
                    let prepared = give_to(&fd, owner);
                    if let Err(error) = prepared {
                        rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty()).ok();
                        return Err(error);
                    }
                    return Ok((name, File::from(fd)));
                }
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    /// A rename would replace a device, a pipe or a link of the system: none of them is what was meant.
    fn refuse_special(&self) -> io::Result<()> {
        let refuse = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text.to_owned()));
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile | FileType::Symlink => {}
                FileType::Directory => return refuse("it is a directory"),
                _ => return refuse("it is not a regular file"),
            },
        }
        let device = rustix::fs::fstat(&self.directory)?.st_dev;
        let is_of_the_system = ["/dev", "/proc", "/sys"].into_iter().any(|system| {
            rustix::fs::stat(system).is_ok_and(|stat| stat.st_dev == device && !is_root_device(device))
        });
        if is_of_the_system { refuse("its directory belongs to the kernel") } else { Ok(()) }
    }

    /// What is reported as the path must be where the file is.
    fn refuse_moved(&self) -> io::Result<()> {
        let held = rustix::fs::fstat(&self.directory)?;
        let named = rustix::fs::stat(parent_of(&self.path))?;
        if (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino) {
            Ok(())
        } else {
            Err(io::Error::other("its directory was replaced during the run"))
        }
    }
}

fn temporary_name(maker: u32, attempt: u32) -> OsString {
    format!(".assay-{maker}-{attempt}.tmp").into()
}

/// Writes one artifact whose directory nobody else changes meanwhile.
pub fn write_atomically(
    path: &Path,
    owner: Owner,
    render: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Written, ArtifactError> {
    Target::prepare(path)?.write(owner, render)
}

/// Where the last whole line of a file ends.
fn end_of_last_line(file: &File, length: u64) -> io::Result<u64> {
    let mut block = vec![0u8; 1 << 16];
    let mut end = length;
    while end > 0 {
        let begin = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - begin) as usize];
        file.read_exact_at(part, begin)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != OsStr::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// In a container or a chroot `/dev` may be a plain directory of the root filesystem.
fn is_root_device(device: u64) -> bool {
    rustix::fs::stat("/").is_ok_and(|stat| stat.st_dev == device)
}

fn give_to(fd: &OwnedFd, owner: Owner) -> io::Result<()> {
    // The umask can only have taken bits away, and may have taken ours.
    rustix::fs::fchmod(fd, Mode::RUSR | Mode::WUSR)?;
    if let Owner::Invoking { uid, gid } = owner {
        let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
        rustix::fs::fchown(fd, Some(uid), Some(gid))?;
    }
    Ok(())
}

fn render_and_hash(file: File, render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Digest> {
    let mut writer = BufWriter::with_capacity(1 << 16, Hashing { file, hasher: Sha256::new() });
    render(&mut writer)?;
    let Hashing { file, hasher } = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    drop(file);
    Ok(Digest::from_raw(hasher.finalize().into()))
}

struct Hashing {
    file: File,
    hasher: Sha256,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn write(path: &Path, text: &str) -> Result<Written, ArtifactError> {
        write_atomically(path, Owner::Ourselves, |out| out.write_all(text.as_bytes()))
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_written_is_whole_private_and_hashed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "an older and longer text").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let written = write(&path, "text").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
        assert_eq!(written, Written { path: path.clone(), sha256: Digest::of(b"text") });
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(names(directory.path()), ["a"]);
    }

    #[test]
    fn a_symbolic_link_is_replaced_and_its_target_untouched() {
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        for name in ["whole", "streamed"] {
            let link = directory.path().join(name);
            symlink(&victim, &link).unwrap();
            if name == "whole" {
                write(&link, "text").unwrap();
            } else {
                Target::prepare(&link).unwrap().stream(Owner::Ourselves).unwrap().write_all(b"text").unwrap();
            }
            assert!(std::fs::symlink_metadata(&link).unwrap().is_file());
            assert_eq!(std::fs::metadata(&link).unwrap().mode() & 0o7777, 0o600);
            assert_eq!(std::fs::read(&link).unwrap(), b"text");
        }
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn a_failure_leaves_what_was_there_and_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "old").unwrap();
        let result = write_atomically(&path, Owner::Ourselves, |out| {
            out.write_all(&vec![b'x'; 200_000])?;
            Err(io::Error::other("no more"))
        });
        assert!(result.unwrap_err().to_string().ends_with("no more"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(directory.path()), ["a"]);
    }

    #[test]
    fn a_stream_whose_writer_was_killed_gets_its_last_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let target = Target::prepare(&path).unwrap();
        let check = |there: &[u8], expect: &[u8]| {
            std::fs::write(&path, there).unwrap();
            target.end_stream(Owner::Ourselves, b"end\n").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), expect);
        };
        check(b"", b"end\n");
        check(b"half", b"end\n");
        check(b"one\ntwo\n", b"one\ntwo\nend\n");
        check(&[b"one\n".as_slice(), &vec![b'x'; 200_000]].concat(), b"one\nend\n");
        // Neither through a link, nor into a file that has another name.
        let victim = directory.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        for link in [symlink::<&Path, &Path>, |from, to| std::fs::hard_link(from, to)] {
            std::fs::remove_file(&path).unwrap();
            link(&victim, &path).unwrap();
            assert!(target.end_stream(Owner::Ourselves, b"end\n").is_err());
        }
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn what_is_no_regular_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let socket = directory.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        for path in [
            Path::new("/dev/null"),
            Path::new("/dev/stdout"),
            Path::new("/proc/self/x"),
            directory.path(),
            &directory.path().join("new/"),
            &directory.path().join(".."),
            &directory.path().join("absent/file"),
            &fifo,
            &socket,
            Path::new(""),
        ] {
            assert!(write(path, "text").is_err(), "{}", path.display());
        }
        assert!(rustix::fs::stat("/dev/null").is_ok_and(|stat| stat.st_rdev != 0));
    }

    #[test]
    fn a_directory_that_was_replaced_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let target = Target::prepare(&inner.join("a")).unwrap();
        std::fs::rename(&inner, directory.path().join("moved")).unwrap();
        symlink("/etc", &inner).unwrap();
        let error = target.write(Owner::Ourselves, |out| out.write_all(b"text")).unwrap_err();
        assert!(error.to_string().contains("replaced"), "{error}");
        assert!(!Path::new("/etc/a").exists());
    }
}
