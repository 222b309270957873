//! Where users connect: a socket made by us or passed to us, and one service at a time.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::socket_file::{SocketError, SocketFile, directory_of, failed, trusted_directory};

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum EntranceError {
    /// The socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Another service serves there.
    #[error("listen at {}: another service does, process {pid}", socket.display())]
    Running {
        /// The socket.
        socket: PathBuf,
        /// Its process, as it said itself.
        pid: String,
    },
}

/// The right to be the one service of a socket. It is given back when the last copy of it is closed, so workers close theirs.
#[derive(Debug)]
pub struct Claim {
    socket: PathBuf,
    lock: PathBuf,
    file: File,
    before: Option<PathBuf>,
}

impl Claim {
    /// Makes the directory if it is not there, and claims the socket.
    pub fn lay(socket: &Path) -> Result<Self, EntranceError> {
        let directory = directory_of(socket)?;
        match DirBuilder::new().mode(0o755).create(directory) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("make", directory)(source).into());
            }
            _ => {}
        }
        trusted_directory(socket)?;
        let mut name = socket.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&lock)
            .map_err(failed("open", &lock))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed("read", &lock))?;
        let mut lines = text.lines();
        let pid = lines.next().unwrap_or("unknown").to_owned();
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(EntranceError::Running { socket: socket.to_owned(), pid });
            }
            Err(errno) => return Err(failed("lock", &lock)(errno.into()).into()),
        }
        let before = lines.next().filter(|line| !line.is_empty()).map(PathBuf::from);
        Ok(Self { socket: socket.to_owned(), lock, file, before })
    }

    /// Where the service before us had its groups of runs.
    pub fn before(&self) -> Option<&Path> {
        self.before.as_deref()
    }

    /// Notes who has it now, and where its groups are, for who comes next.
    pub fn sign(&mut self, pid: u32, groups: &Path) -> Result<(), EntranceError> {
        let text = format!("{pid}\n{}\n", groups.display());
        let written = self
            .file
            .set_len(0)
            .and_then(|()| self.file.rewind())
            .and_then(|()| self.file.write_all(text.as_bytes()));
        Ok(written.map_err(failed("write", &self.lock))?)
    }
}

/// The socket that users connect to.
#[derive(Debug)]
pub struct Entrance {
    listening: Listening,
    /// Held for as long as we listen.
    _claim: Claim,
}

#[derive(Debug)]
enum Listening {
    Passed(UnixListener),
    Made(SocketFile),
}

impl Entrance {
    /// Listens on what was passed to us.
    pub fn passed(claim: Claim, listener: UnixListener) -> Result<Self, EntranceError> {
        listener.set_nonblocking(true).map_err(failed("listen at", &claim.socket))?;
        Ok(Self { listening: Listening::Passed(listener), _claim: claim })
    }

    /// Makes the socket, for root and `group`.
    pub fn make(claim: Claim, group: u32) -> Result<Self, EntranceError> {
        let made = SocketFile::make(&claim.socket, group)?;
        Ok(Self { listening: Listening::Made(made), _claim: claim })
    }

    /// Lets `group` connect, where the socket is of our making.
    pub fn give_to(&self, group: u32) -> Result<(), SocketError> {
        match &self.listening {
            Listening::Made(made) => made.give_to(group),
            Listening::Passed(_) => Ok(()),
        }
    }

    /// The next connection, or `None` when nobody waits.
    pub fn accept(&self) -> io::Result<Option<UnixStream>> {
        match self.listener().accept() {
            Ok((line, _)) => Ok(Some(line)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {
                    Ok(None)
                }
                _ => Err(error),
            },
        }
    }

    /// Takes the socket away, where it is of our making.
    pub fn close(self) {
        if let Listening::Made(made) = self.listening {
            made.remove();
        }
    }

    fn listener(&self) -> &UnixListener {
        match &self.listening {
            Listening::Passed(listener) => listener,
            Listening::Made(made) => made.listener(),
        }
    }
}

impl AsFd for Entrance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener().as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn connections_are_taken_until_nobody_waits() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("run/assay.sock");
        let group = rustix::process::getegid().as_raw();
        let entrance = Entrance::make(Claim::lay(&socket).unwrap(), group).unwrap();
        let _client = UnixStream::connect(&socket).unwrap();
        assert!(entrance.accept().unwrap().is_some());
        assert!(entrance.accept().unwrap().is_none());
        entrance.close();
        assert!(!socket.exists());
    }

    #[test]
    fn a_socket_that_was_passed_stays_where_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("assay.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let entrance = Entrance::passed(Claim::lay(&socket).unwrap(), listener).unwrap();
        assert!(entrance.accept().unwrap().is_none());
        entrance.close();
        assert!(socket.exists());
    }
}
