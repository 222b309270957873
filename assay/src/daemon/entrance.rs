//! The socket that users connect to: in a directory that only root can change, made by us or passed to us, and by one
//! service at a time.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::process::{Gid, geteuid};

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum EntranceError {
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
    /// Another service serves there.
    #[error("listen at {}: another service does, process {pid}", socket.display())]
    Running {
        /// The socket.
        socket: PathBuf,
        /// Its process, as it said itself.
        pid: String,
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

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> EntranceError {
    let path = path.to_owned();
    move |source| EntranceError::Io { action, path, source }
}

/// The right to be the one service of a socket. It is given back when the last copy of it is closed, so workers close theirs.
#[derive(Debug)]
pub struct Claim {
    socket: PathBuf,
    file: File,
    before: Option<PathBuf>,
}

impl Claim {
    /// Makes the directory if it is not there, and claims the socket.
    pub fn lay(socket: &Path) -> Result<Self, EntranceError> {
        let directory = socket.parent().filter(|_| socket.is_absolute() && socket.file_name().is_some());
        let directory = directory.ok_or_else(|| EntranceError::Path(socket.to_owned()))?;
        match DirBuilder::new().mode(0o755).create(directory) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("make", directory)(source));
            }
            _ => {}
        }
        if let Some((directory, complaint)) =
            complaint_about(directory).map_err(failed("look at", directory))?
        {
            return Err(EntranceError::Directory { socket: socket.to_owned(), directory, complaint });
        }
        let mut name = socket.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(failed("open", &path))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed("read", &path))?;
        let mut lines = text.lines();
        let pid = lines.next().unwrap_or("unknown").to_owned();
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(EntranceError::Running { socket: socket.to_owned(), pid });
            }
            Err(errno) => return Err(failed("lock", &path)(errno.into())),
        }
        let before = lines.next().filter(|line| !line.is_empty()).map(PathBuf::from);
        Ok(Self { socket: socket.to_owned(), file, before })
    }

    /// Where the service before us had its groups of runs.
    pub fn before(&self) -> Option<&Path> {
        self.before.as_deref()
    }

    /// Notes who has it now, and where its groups are, for who comes next.
    pub fn sign(&mut self, pid: u32, groups: &Path) -> Result<(), EntranceError> {
        use std::io::Seek as _;
        let text = format!("{pid}\n{}\n", groups.display());
        let written = self
            .file
            .set_len(0)
            .and_then(|()| self.file.rewind())
            .and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(failed("write", &self.socket.with_extension("sock.lock")))
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Entrance {
    listener: UnixListener,
    claim: Claim,
    /// Which file it is, where we made it.
    made: Option<(u64, u64)>,
}

impl Entrance {
    /// Listens on what was passed to us.
    pub fn passed(claim: Claim, listener: UnixListener) -> Result<Self, EntranceError> {
        listener.set_nonblocking(true).map_err(failed("listen at", &claim.socket))?;
        Ok(Self { listener, claim, made: None })
    }

    /// Makes the socket, for root and `group`. One that nobody listens at any more is replaced.
    pub fn make(claim: Claim, group: u32) -> Result<Self, EntranceError> {
        let socket = claim.socket.as_path();
        let taken = |obstacle| EntranceError::Taken { socket: socket.to_owned(), obstacle };
        match fs::symlink_metadata(socket) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("look at", socket)(error)),
            Ok(found) if !found.file_type().is_socket() => {
                return Err(taken("there is something that is no socket"));
            }
            Ok(_) => match UnixStream::connect(socket) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(socket).map_err(failed("remove", socket))?;
                }
                _ => return Err(taken("somebody listens there who is no service of ours")),
            },
        }
        // Nobody else may connect before it is the group's.
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(socket);
        rustix::process::umask(mask);
        let listener = bound.map_err(failed("listen at", socket))?;
        listener.set_nonblocking(true).map_err(failed("listen at", socket))?;
        let found = fs::symlink_metadata(socket).map_err(failed("look at", socket))?;
        let entrance = Self { listener, made: Some((found.dev(), found.ino())), claim };
        entrance.give_to(group)?;
        Ok(entrance)
    }

    /// Lets `group` connect, where the socket is of our making.
    pub fn give_to(&self, group: u32) -> Result<(), EntranceError> {
        let socket = self.claim.socket.as_path();
        if self.made.is_some() {
            rustix::fs::chown(socket, None, Some(Gid::from_raw(group)))
                .map_err(|errno| failed("change the group of", socket)(errno.into()))?;
            fs::set_permissions(socket, fs::Permissions::from_mode(0o660))
                .map_err(failed("change the mode of", socket))?;
        }
        Ok(())
    }

    /// The next connection, or `None` when nobody waits.
    pub fn accept(&self) -> io::Result<Option<UnixStream>> {
        match self.listener.accept() {
            Ok((line, _)) => Ok(Some(line)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {
                    Ok(None)
                }
                _ => Err(error),
            },
        }
    }

    /// Takes the socket away, where it is of our making and still ours.
    pub fn close(self) {
        let is_ours = |found: Metadata| Some((found.dev(), found.ino())) == self.made;
        if fs::symlink_metadata(&self.claim.socket).is_ok_and(is_ours) {
            drop(fs::remove_file(&self.claim.socket));
        }
    }
}

impl AsFd for Entrance {
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
    fn the_second_service_names_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("run/assay.sock");
        let mut first = Claim::lay(&socket).unwrap();
        assert_eq!(first.before(), None);
        first.sign(4711, Path::new("/groups")).unwrap();
        let error = Claim::lay(&socket).unwrap_err();
        assert!(error.to_string().ends_with("assay.sock: another service does, process 4711"), "{error}");
        drop(first);
        let second = Claim::lay(&socket).unwrap();
        assert_eq!(second.before(), Some(Path::new("/groups")));
    }

    #[test]
    fn a_socket_of_a_dead_service_is_replaced_and_anything_else_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("assay.sock");
        let make = || Entrance::make(Claim::lay(&socket).unwrap(), own_gid());
        // Left behind: closed without being taken away.
        drop(make().unwrap());
        assert!(socket.exists());
        let entrance = make().unwrap();
        assert_eq!(fs::metadata(&socket).unwrap().mode() & 0o7777, 0o660);
        let client = UnixStream::connect(&socket).unwrap();
        assert!(entrance.accept().unwrap().is_some());
        assert!(entrance.accept().unwrap().is_none());
        drop(client);
        entrance.close();
        assert!(!socket.exists());

        let other = UnixListener::bind(&socket).unwrap();
        assert!(make().unwrap_err().to_string().contains("somebody listens there"));
        drop(other);
        fs::remove_file(&socket).unwrap();
        fs::write(&socket, "precious").unwrap();
        assert!(make().unwrap_err().to_string().contains("no socket"));
        assert_eq!(fs::read(&socket).unwrap(), b"precious");
    }

    #[test]
    fn a_socket_that_another_put_there_meanwhile_stays() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("assay.sock");
        let entrance = Entrance::make(Claim::lay(&socket).unwrap(), own_gid()).unwrap();
        fs::remove_file(&socket).unwrap();
        // Kept open, so that its number is not given again.
        let _other = UnixListener::bind(&socket).unwrap();
        entrance.close();
        assert!(socket.exists());
    }

    #[test]
    fn a_directory_behind_a_link_or_without_a_place_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", directory.path().join("link")).unwrap();
        let error = Claim::lay(&directory.path().join("link/assay.sock")).unwrap_err();
        assert!(error.to_string().ends_with("is a symbolic link"), "{error}");
        let error = Claim::lay(Path::new("assay.sock")).unwrap_err();
        assert!(matches!(error, EntranceError::Path(_)), "{error}");
        fs::set_permissions(directory.path().join("real"), fs::Permissions::from_mode(0o777)).unwrap();
        let error = Claim::lay(&directory.path().join("real/assay.sock")).unwrap_err();
        assert!(error.to_string().ends_with("can be written by others"), "{error}");
    }
}
