//! A listening socket that is a file: made for root and a group, in a directory that only root can change, in place of one
//! at which nobody listens any more, and taken away at the end.

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::process::{Gid, geteuid};

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Its name is not one that a socket could have.
    #[error("listen at {}: it must be an absolute path with a directory", .0.display())]
    Path(PathBuf),
    /// Somebody else could put another socket in its place.
    #[error("listen at {}: {} {complaint}", socket.display(), directory.display())]
    Directory {
        /// The socket.
        socket: PathBuf,
        /// The directory that is wrong.
        directory: PathBuf,
        /// What is wrong with it.
        complaint: &'static str,
    },
    /// Something that is none of ours is there.
    #[error("listen at {}: {obstacle}", socket.display())]
    Taken {
        /// The socket.
        socket: PathBuf,
        /// What is there.
        obstacle: &'static str,
    },
    /// The kernel refused it.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SocketError {
    let path = path.to_owned();
    move |source| SocketError::Io { action, path, source }
}

/// The directory of a socket, if nobody else can change anything in it or put another in its place.
pub fn trusted_directory(socket: &Path) -> Result<&Path, SocketError> {
    let directory = directory_of(socket)?;
    match complaint_about(directory).map_err(failed("look at", directory))? {
        None => Ok(directory),
        Some((directory, complaint)) => {
            Err(SocketError::Directory { socket: socket.to_owned(), directory, complaint })
        }
    }
}

/// The directory of a socket.
pub fn directory_of(socket: &Path) -> Result<&Path, SocketError> {
    let directory = socket.parent().filter(|_| socket.is_absolute() && socket.file_name().is_some());
    directory.ok_or_else(|| SocketError::Path(socket.to_owned()))
}

/// A socket of our making.
#[derive(Debug)]
pub struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
    made: (u64, u64),
}

impl SocketFile {
    /// Makes it. One that nobody listens at any more is replaced.
    pub fn make(path: &Path, group: u32) -> Result<Self, SocketError> {
        trusted_directory(path)?;
        let taken = |obstacle| SocketError::Taken { socket: path.to_owned(), obstacle };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("look at", path)(error)),
            Ok(found) if !found.file_type().is_socket() => {
                return Err(taken("there is something that is no socket"));
            }
            Ok(_) => match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).map_err(failed("remove", path))?;
                }
                _ => return Err(taken("somebody listens there who is no service of ours")),
            },
        }
        // Nobody else may connect before it is the group's.
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        rustix::process::umask(mask);
        let listener = bound.map_err(failed("listen at", path))?;
        listener.set_nonblocking(true).map_err(failed("listen at", path))?;
        let found = fs::symlink_metadata(path).map_err(failed("look at", path))?;
        let socket = Self { listener, path: path.to_owned(), made: (found.dev(), found.ino()) };
        socket.give_to(group)?;
        Ok(socket)
    }

    /// Lets `group` connect.
    pub fn give_to(&self, group: u32) -> Result<(), SocketError> {
        let path = self.path.as_path();
        rustix::fs::chown(path, None, Some(Gid::from_raw(group)))
            .map_err(|errno| failed("change the group of", path)(errno.into()))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o660))
            .map_err(failed("change the mode of", path))
    }

    /// The socket itself.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Takes it away, if it is still ours.
    pub fn remove(self) {
        let is_ours = |found: Metadata| (found.dev(), found.ino()) == self.made;
        if fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            drop(fs::remove_file(&self.path));
        }
    }
}

impl AsFd for SocketFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// The first directory, from the socket's own upwards, in which somebody else than we could change something, and how.
fn complaint_about(directory: &Path) -> io::Result<Option<(PathBuf, &'static str)>> {
    let own = fs::symlink_metadata(directory)?;
    if own.file_type().is_symlink() {
        return Ok(Some((directory.to_owned(), "is a symbolic link")));
    }
    let real = fs::canonicalize(directory)?;
    for (place, above) in real.ancestors().enumerate() {
        let found = fs::symlink_metadata(above)?;
        let place = if place == 0 { Place::Own } else { Place::Above };
        if let Some(complaint) = complaint_of(place, found.uid(), found.mode(), geteuid().as_raw()) {
            return Ok(Some((above.to_owned(), complaint)));
        }
    }
    Ok(None)
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// Where the socket lies.
    Own,
    /// Somewhere above it.
    Above,
}

fn complaint_of(place: Place, owner: u32, mode: u32, own: u32) -> Option<&'static str> {
    const STICKY: u32 = 0o1000;
    let is_shared = mode & 0o022 != 0;
    match place {
        _ if owner != 0 && owner != own => Some("belongs to somebody else"),
        Place::Own if is_shared => Some("can be written by others"),
        // There nobody can rename what belongs to somebody else.
        Place::Above if is_shared && mode & STICKY == 0 => Some("can be written by others"),
        Place::Own | Place::Above => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_gid() -> u32 {
        rustix::process::getegid().as_raw()
    }

    #[test]
    fn a_directory_is_trusted_where_nobody_else_can_change_it() {
        for (place, owner, mode, expect) in [
            (Place::Own, 0, 0o40755, true),
            (Place::Own, 1000, 0o40755, true),
            (Place::Own, 1001, 0o40755, false),
            (Place::Own, 0, 0o40775, false),
            (Place::Own, 0, 0o41777, false),
            (Place::Above, 0, 0o41777, true),
            (Place::Above, 0, 0o40777, false),
            (Place::Above, 1001, 0o41755, false),
        ] {
            assert_eq!(
                complaint_of(place, owner, mode, 1000).is_none(),
                expect,
                "{place:?} {owner} {mode:o}"
            );
        }
    }

    #[test]
    fn a_socket_of_a_dead_service_is_replaced_and_anything_else_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("assay.sock");
        let make = || SocketFile::make(&path, own_gid());
        // Left behind: closed without being taken away.
        drop(make().unwrap());
        assert!(path.exists());
        let socket = make().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o660);
        UnixStream::connect(&path).unwrap();
        socket.remove();
        assert!(!path.exists());

        let other = UnixListener::bind(&path).unwrap();
        assert!(make().unwrap_err().to_string().contains("somebody listens there"));
        drop(other);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        assert!(make().unwrap_err().to_string().contains("no socket"));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_socket_that_another_put_there_meanwhile_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("assay.sock");
        let socket = SocketFile::make(&path, own_gid()).unwrap();
        fs::remove_file(&path).unwrap();
        // Kept open, so that its number is not given again.
        let _other = UnixListener::bind(&path).unwrap();
        socket.remove();
        assert!(path.exists());
    }

    #[test]
    fn a_directory_behind_a_link_or_without_a_place_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", directory.path().join("link")).unwrap();
        let error = trusted_directory(&directory.path().join("link/assay.sock")).unwrap_err();
        assert!(error.to_string().ends_with("is a symbolic link"), "{error}");
        let error = trusted_directory(Path::new("assay.sock")).unwrap_err();
        assert!(matches!(error, SocketError::Path(_)), "{error}");
        fs::set_permissions(directory.path().join("real"), fs::Permissions::from_mode(0o777)).unwrap();
        let error = trusted_directory(&directory.path().join("real/assay.sock")).unwrap_err();
        assert!(error.to_string().ends_with("can be written by others"), "{error}");
    }
}
