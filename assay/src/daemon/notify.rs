//! What a service manager is told of our state, by the datagrams of `sd_notify(3)`: words that are pure, and a sender.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// What it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State<'a> {
    /// It serves, and this is what it does.
    Ready(&'a str),
    /// This is what it does.
    Status(&'a str),
    /// It reads its settings again, since this moment of the monotonic clock, in microseconds.
    Reloading(u64),
    /// It stops, and this is what it waits for.
    Stopping(&'a str),
    /// It is alive.
    Alive,
}

impl State<'_> {
    /// The datagram.
    fn to_text(self) -> String {
        // A line feed would begin another word.
        let line = |text: &str| text.replace('\n', " ");
        match self {
            Self::Ready(text) => format!("READY=1\nSTATUS={}\n", line(text)),
            Self::Status(text) => format!("STATUS={}\n", line(text)),
            Self::Reloading(since) => format!("RELOADING=1\nMONOTONIC_USEC={since}\n"),
            Self::Stopping(text) => format!("STOPPING=1\nSTATUS={}\n", line(text)),
            Self::Alive => "WATCHDOG=1\n".to_owned(),
        }
    }
}

/// Who is told.
#[derive(Debug)]
pub struct Notifier(Option<(UnixDatagram, SocketAddr)>);

impl Notifier {
    /// The manager whose address `NOTIFY_SOCKET` is; without one nobody is told.
    pub fn new(address: Option<&OsStr>) -> io::Result<Self> {
        let Some(address) = address.filter(|address| !address.is_empty()) else { return Ok(Self(None)) };
        let address = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(address)?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not stop us.
        socket.set_nonblocking(true)?;
        Ok(Self(Some((socket, address))))
    }

    /// Tells it. Nothing depends on whether it listens.
    pub fn tell(&self, state: State<'_>) {
        if let Some((socket, address)) = &self.0 {
            drop(socket.send_to_addr(state.to_text().as_bytes(), address));
        }
    }
}

/// How often the manager wants to hear that we are alive, from `WATCHDOG_USEC` and `WATCHDOG_PID`: twice as often as it must.
pub fn alive_every(usec: Option<&str>, pid: Option<&str>, own: u32) -> Option<Duration> {
    let usec: u64 = usec?.parse().ok().filter(|usec| *usec > 0)?;
    pid.is_none_or(|pid| pid.parse() == Ok(own)).then(|| Duration::from_micros(usec / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_words() {
        for (state, expect) in [
            (State::Ready("0 runs"), "READY=1\nSTATUS=0 runs\n"),
            (State::Status("one\nREADY=1"), "STATUS=one READY=1\n"),
            (State::Reloading(77), "RELOADING=1\nMONOTONIC_USEC=77\n"),
            (State::Stopping("3 runs"), "STOPPING=1\nSTATUS=3 runs\n"),
            (State::Alive, "WATCHDOG=1\n"),
        ] {
            assert_eq!(state.to_text(), expect);
        }
    }

    #[test]
    fn it_is_said_to_a_socket_with_a_path_and_to_one_without() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("assay-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        for (listener, address) in [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (UnixDatagram::bind_addr(&abstract_name).unwrap(), format!("@{name}").into()),
        ] {
            let mut bytes = [0u8; 64];
            Notifier::new(Some(&address)).unwrap().tell(State::Alive);
            let count = listener.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"WATCHDOG=1\n");
        }
        Notifier::new(None).unwrap().tell(State::Alive);
    }

    #[test]
    fn it_is_alive_twice_as_often_as_it_must_be_and_only_where_it_is_meant() {
        assert_eq!(alive_every(Some("3000000"), Some("7"), 7), Some(Duration::from_millis(1500)));
        assert_eq!(alive_every(Some("3000000"), None, 7), Some(Duration::from_millis(1500)));
        for (usec, pid) in [(None, None), (Some("0"), None), (Some("x"), None), (Some("3000000"), Some("8"))]
        {
            assert_eq!(alive_every(usec, pid, 7), None);
        }
    }
}
