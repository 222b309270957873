//! A listening socket that a service manager opened for us: `LISTEN_PID` and `LISTEN_FDS` as in `sd_listen_fds(3)`.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener;

use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::sandbox::descriptors;

/// The first descriptor that is passed.
const FIRST: i32 = 3;

/// Why what was passed is not used.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// It is not one.
    #[error("take over the passed socket: {0} were passed, and this takes one")]
    Many(String),
    /// It is not open.
    #[error("take over the passed socket: {0}")]
    Take(#[from] io::Error),
    /// It is something else.
    #[error("take over the passed socket: it is no listening stream socket of the UNIX family")]
    Other,
}

/// What the environment says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passed {
    /// `LISTEN_PID`
    pub pid: Option<String>,
    /// `LISTEN_FDS`
    pub count: Option<String>,
}

/// Takes the socket over. `None` when none was passed to the process `own`, which is this one.
pub fn take(passed: &Passed, own: u32) -> Result<Option<UnixListener>, ActivationError> {
    if is_for(passed, own)? { check(descriptors::take(FIRST)?).map(Some) } else { Ok(None) }
}

/// Whether one descriptor was passed to process `own`.
fn is_for(passed: &Passed, own: u32) -> Result<bool, ActivationError> {
    let (Some(pid), Some(count)) = (&passed.pid, &passed.count) else { return Ok(false) };
    // Of an ancestor's, whose environment we have.
    if pid.parse() != Ok(own) {
        return Ok(false);
    }
    if count == "1" { Ok(true) } else { Err(ActivationError::Many(count.clone())) }
}

fn check(fd: OwnedFd) -> Result<UnixListener, ActivationError> {
    let is_ours = sockopt::socket_domain(fd.as_fd()) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(fd.as_fd()) == Ok(SocketType::STREAM)
        && sockopt::socket_acceptconn(fd.as_fd()) == Ok(true);
    if is_ours { Ok(UnixListener::from(fd)) } else { Err(ActivationError::Other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_passed_to_this_process_is_taken() {
        let passed = |pid: &str, count: &str| Passed { pid: Some(pid.into()), count: Some(count.into()) };
        assert!(!is_for(&Passed::default(), 7).unwrap());
        assert!(!is_for(&passed("8", "1"), 7).unwrap());
        assert!(!is_for(&passed("", "1"), 7).unwrap());
        assert!(is_for(&passed("7", "1"), 7).unwrap());
        for count in ["0", "2", "", "one", "-1"] {
            assert!(matches!(is_for(&passed("7", count), 7), Err(ActivationError::Many(_))), "{count:?}");
        }
    }

    #[test]
    fn only_a_listening_socket_will_do() {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("s")).unwrap();
        assert!(check(listener.into()).is_ok());
        let (connected, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let network = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let datagram = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        for fd in [OwnedFd::from(connected), network.into(), datagram.into(), file.into()] {
            assert!(matches!(check(fd), Err(ActivationError::Other)));
        }
    }
}
