//! Who reads the metrics: a socket for them, and an answer to each that asks, a part at a time. The words of HTTP are pure.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::PollFlags;

use super::metrics::CONTENT_TYPE;
use super::socket_file::{SocketError, SocketFile};

/// So many are answered at once; others wait.
const MOST: usize = 8;
/// So long one may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// No request is longer.
const MOST_ASKED: usize = 8192;
/// So many headers are read.
const MOST_HEADERS: usize = 64;

/// Where metrics are to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A socket that is a file.
    Socket(PathBuf),
    /// A port that only this host reaches.
    Port(SocketAddr),
}

/// The text is no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither an absolute path nor an address of the loopback, such as 127.0.0.1:9464")]
pub struct PlaceError(String);

impl std::str::FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        if text.starts_with('/') {
            return Ok(Self::Socket(text.into()));
        }
        let address: Option<SocketAddr> = text.parse().ok();
        let address = address.filter(|address| address.ip().is_loopback());
        address.map(Self::Port).ok_or_else(|| PlaceError(text.to_owned()))
    }
}

/// Why metrics are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// The socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The port.
    #[error("listen at {address}: {source}")]
    Port {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

#[derive(Debug)]
enum Listening {
    Socket(SocketFile),
    Port(TcpListener),
}

/// Those who ask.
#[derive(Debug)]
pub struct Scrapes {
    listening: Listening,
    open: Vec<Scrape>,
    next: u64,
}

/// One that asks, and is then answered.
#[derive(Debug)]
struct Scrape {
    number: u64,
    line: File,
    asked: Vec<u8>,
    answer: Option<Vec<u8>>,
    sent: usize,
    until: Duration,
}

/// One who asks, to be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Somebody new.
    New,
    /// This one.
    Old(u64),
}

impl Scrapes {
    /// Listens, for root and `group` where it is a file.
    pub fn listen(place: &Place, group: u32) -> Result<Self, ScrapeError> {
        let listening = match place {
            Place::Socket(path) => Listening::Socket(SocketFile::make(path, group)?),
            Place::Port(address) => {
                let listen = || {
                    let listener = TcpListener::bind(address)?;
                    listener.set_nonblocking(true)?;
                    Ok(listener)
                };
                Listening::Port(listen().map_err(|source| ScrapeError::Port { address: *address, source })?)
            }
        };
        Ok(Self { listening, open: Vec::new(), next: 0 })
    }

    /// What to wait for.
    pub fn waited(&self) -> impl Iterator<Item = (Who, BorrowedFd<'_>, PollFlags)> {
        let new = (self.open.len() < MOST).then(|| (Who::New, self.as_fd(), PollFlags::IN));
        let old = self.open.iter().map(|scrape| {
            let flags = if scrape.answer.is_some() { PollFlags::OUT } else { PollFlags::IN };
            (Who::Old(scrape.number), scrape.line.as_fd(), flags)
        });
        new.into_iter().chain(old)
    }

    /// When somebody has had time enough.
    pub fn due(&self) -> Option<Duration> {
        self.open.iter().map(|scrape| scrape.until).min()
    }

    /// Somebody is ready. `page` makes what is to be told.
    pub fn advance(&mut self, who: Who, now: Duration, page: impl FnOnce() -> String) {
        match who {
            // That nobody could be accepted is tried again when somebody waits.
            Who::New => drop(self.accept(now)),
            Who::Old(number) => {
                if let Some(place) = self.open.iter().position(|scrape| scrape.number == number)
                    && !self.open[place].advance(page)
                {
                    self.open.swap_remove(place);
                }
            }
        }
    }

    /// Lets go of those that had time enough.
    pub fn expire(&mut self, now: Duration) {
        self.open.retain(|scrape| now < scrape.until);
    }

    /// Takes the socket away.
    pub fn close(self) {
        if let Listening::Socket(socket) = self.listening {
            socket.remove();
        }
    }

    fn accept(&mut self, now: Duration) -> io::Result<()> {
        let line: OwnedFd = match &self.listening {
            Listening::Socket(socket) => socket.listener().accept()?.0.into(),
            Listening::Port(listener) => listener.accept()?.0.into(),
        };
        rustix::io::ioctl_fionbio(&line, true)?;
        self.next += 1;
        self.open.push(Scrape {
            number: self.next,
            line: File::from(line),
            asked: Vec::new(),
            answer: None,
            sent: 0,
            until: now + PATIENCE,
        });
        Ok(())
    }
}

impl AsFd for Scrapes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.listening {
            Listening::Socket(socket) => socket.as_fd(),
            Listening::Port(listener) => listener.as_fd(),
        }
    }
}

impl Scrape {
    /// Reads or writes a part. False when it is over.
    fn advance(&mut self, page: impl FnOnce() -> String) -> bool {
        match &self.answer {
            None => {
                let mut bytes = [0u8; 2048];
                match self.line.read(&mut bytes) {
                    Ok(0) => return false,
                    Ok(count) => self.asked.extend_from_slice(&bytes[..count]),
                    Err(error) => return is_patience(&error),
                }
                self.answer = answer(&self.asked, page);
                true
            }
            Some(answer) => {
                match self.line.write(&answer[self.sent..]) {
                    Ok(count) => self.sent += count,
                    Err(error) => return is_patience(&error),
                }
                self.sent < answer.len()
            }
        }
    }
}

fn is_patience(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The answer, once the question is whole.
fn answer(asked: &[u8], page: impl FnOnce() -> String) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(asked) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if asked.len() <= MOST_ASKED => return None,
        _ => return Some(reply("400 Bad Request", "text/plain", "no request\n")),
    }
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
    Some(match (request.method, path) {
        (Some("GET"), "/metrics" | "/") => reply("200 OK", CONTENT_TYPE, &page()),
        (Some("GET"), _) => reply("404 Not Found", "text/plain", "see /metrics\n"),
        _ => reply("405 Method Not Allowed", "text/plain", "only GET\n"),
    })
}

fn reply(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn only_this_host_is_told() {
        for (text, expect) in [
            ("/run/assay/metrics.sock", true),
            ("127.0.0.1:9464", true),
            ("[::1]:9464", true),
            ("0.0.0.0:9464", false),
            ("192.168.0.1:9464", false),
            ("metrics.sock", false),
            ("localhost:9464", false),
            ("9464", false),
            ("", false),
        ] {
            assert_eq!(text.parse::<Place>().is_ok(), expect, "{text:?}");
        }
    }

    #[test]
    fn a_request_is_answered_once_it_is_whole() {
        for (asked, expect) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Some("HTTP/1.1 200")),
            ("GET /metrics?name[]=a HTTP/1.0\r\n\r\n", Some("HTTP/1.1 200")),
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n", None),
            ("GET /other HTTP/1.1\r\n\r\n", Some("HTTP/1.1 404")),
            ("POST /metrics HTTP/1.1\r\n\r\n", Some("HTTP/1.1 405")),
            ("nonsense \u{1}\r\n\r\n", Some("HTTP/1.1 400")),
        ] {
            let answer = answer(asked.as_bytes(), || "a 1\n".into());
            let answer = answer.map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(answer.as_deref().map(|text| &text[..12]), expect, "{asked:?}");
        }
        let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(MOST_ASKED));
        assert!(answer(endless.as_bytes(), String::new).unwrap().starts_with(b"HTTP/1.1 400"));
    }

    /// Serves until nothing is ready.
    fn serve(scrapes: &mut Scrapes, now: Duration, page: &str) {
        loop {
            let polled: Vec<(Who, bool)> = scrapes
                .waited()
                .map(|(who, fd, flags)| {
                    let mut polled = [rustix::event::PollFd::from_borrowed_fd(fd, flags)];
                    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
                    (who, rustix::event::poll(&mut polled, Some(&now)).unwrap() > 0)
                })
                .collect();
            let Some((who, _)) = polled.into_iter().find(|(_, is_ready)| *is_ready) else { return };
            scrapes.advance(who, now, || page.into());
        }
    }

    #[test]
    fn who_does_not_read_or_ask_takes_nothing_from_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("metrics.sock");
        let group = rustix::process::getegid().as_raw();
        let mut scrapes = Scrapes::listen(&Place::Socket(path.clone()), group).unwrap();
        let page = "x".repeat(3 << 20);
        let connect = || UnixStream::connect(&path).unwrap();
        let mut deaf = connect();
        deaf.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let _mute = connect();
        serve(&mut scrapes, Duration::ZERO, &page);
        assert_eq!(scrapes.open.len(), 2);

        let mut good = connect();
        good.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        serve(&mut scrapes, Duration::from_secs(1), "short");
        let mut read = String::new();
        good.read_to_string(&mut read).unwrap();
        assert!(read.ends_with("\r\n\r\nshort"), "{read}");

        assert_eq!(scrapes.due(), Some(PATIENCE));
        scrapes.expire(PATIENCE);
        assert!(scrapes.open.is_empty());
        scrapes.close();
        assert!(!path.exists());
    }

    #[test]
    fn so_many_are_answered_at_once() {
        let mut scrapes = Scrapes::listen(&"127.0.0.1:0".parse().unwrap(), 0).unwrap();
        let Listening::Port(listener) = &scrapes.listening else { unreachable!() };
        let address = listener.local_addr().unwrap();
        let clients: Vec<_> = (0..MOST + 3).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        serve(&mut scrapes, Duration::ZERO, "");
        assert_eq!(scrapes.open.len(), MOST);
        drop(clients);
        serve(&mut scrapes, Duration::ZERO, "");
        assert!(scrapes.open.is_empty());
    }
}
