//! Frames on a local stream: a JSON header, bytes that JSON could not hold, and descriptors.
//!
//! A frame begins with `asy`, the version, and two lengths in little-endian order. Its descriptors come with its first
//! byte. What does not look like that ends the line; nothing is skipped.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The version that this program speaks.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 3] = *b"asy";
const HEAD: usize = 12;
/// The longest header. It has a length for each argument, of which there can be a million.
const MAX_HEADER: u32 = 8 << 20;
/// The longest body: the kernel takes at most 6 MiB of arguments and environment, and policies come besides.
const MAX_BODY: u32 = 16 << 20;
/// `SCM_MAX_FD` of `include/net/scm.h`.
pub const MAX_FDS: usize = 253;
/// How long the rest of a frame may take that has begun.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a line cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other end went away, or the kernel refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other end speaks something else.
    #[error("it does not speak as we do")]
    Foreign,
    /// The other end is of another version.
    #[error("it speaks version {0} and this program version {VERSION}")]
    Version(u8),
    /// A length beyond what there can be.
    #[error("a frame of {0} bytes is too long")]
    TooLong(u64),
    /// It does not decode.
    #[error("a frame does not decode: {0}")]
    Decode(#[from] serde_json::Error),
    /// It decodes to something that cannot be.
    #[error("a frame does not add up: {0}")]
    Wrong(&'static str),
}

/// What came in one frame.
#[derive(Debug, Default)]
pub struct Frame {
    /// JSON.
    pub header: Vec<u8>,
    /// Bytes that the header divides up.
    pub body: Vec<u8>,
    /// Descriptors, closed on exec.
    pub fds: Vec<OwnedFd>,
}

/// One end of a line. It never blocks for longer than a frame may take.
#[derive(Debug)]
pub struct Line {
    stream: UnixStream,
}

impl Line {
    /// Takes a stream.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream })
    }

    /// The stream, for who waits until it is readable.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Sends a frame.
    pub fn send(&self, header: &[u8], body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), WireError> {
        let (head, total) = head_of(header.len(), body.len())?;
        if fds.len() > MAX_FDS {
            return Err(WireError::Wrong("too many descriptors"));
        }
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        let deadline = Instant::now() + PATIENCE;
        let bytes = [&head[..], header, body].concat();
        let mut sent = 0;
        while sent < total {
            let slices = [IoSlice::new(&bytes[sent..])];
            match sendmsg(&self.stream, &slices, &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    sent += count;
                    // They went with the first byte.
                    ancillary.clear();
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => self.wait(PollFlags::OUT, Some(deadline))?,
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    /// Receives a frame, whose first byte may take this long to come, or for ever. `None` when the other end has closed.
    pub fn receive(&self, patience: Option<Duration>) -> Result<Option<Frame>, WireError> {
        let mut frame = Frame::default();
        let mut head = [0u8; HEAD];
        let deadline = patience.map(|patience| Instant::now() + patience);
        if self.read(&mut head[..1], deadline, &mut frame.fds)? == 0 {
            return Ok(None);
        }
        let deadline = Some(Instant::now() + PATIENCE);
        self.read_all(&mut head[1..], deadline, &mut frame.fds)?;
        let (header, body) = lengths_of(head)?;
        frame.header = self.take(header, deadline, &mut frame.fds)?;
        frame.body = self.take(body, deadline, &mut frame.fds)?;
        Ok(Some(frame))
    }

    /// Room is made as it is filled: a length alone costs the one that sends it more than us.
    fn take(
        &self,
        length: usize,
        deadline: Option<Instant>,
        fds: &mut Vec<OwnedFd>,
    ) -> Result<Vec<u8>, WireError> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let at = bytes.len();
            bytes.resize(length.min(at + (1 << 18)), 0);
            self.read_all(&mut bytes[at..], deadline, fds)?;
        }
        Ok(bytes)
    }

    fn read_all(
        &self,
        mut to: &mut [u8],
        deadline: Option<Instant>,
        fds: &mut Vec<OwnedFd>,
    ) -> Result<(), WireError> {
        while !to.is_empty() {
            match self.read(to, deadline, fds)? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                count => to = &mut to[count..],
            }
        }
        Ok(())
    }

    fn read(
        &self,
        to: &mut [u8],
        deadline: Option<Instant>,
        fds: &mut Vec<OwnedFd>,
    ) -> Result<usize, WireError> {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        loop {
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut slices = [IoSliceMut::new(to)];
            let received = match recvmsg(&self.stream, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => received,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => {
                    self.wait(PollFlags::IN, deadline)?;
                    continue;
                }
                // The other end was killed with our frame unread.
                Err(rustix::io::Errno::CONNRESET) => return Ok(0),
                Err(error) => return Err(io::Error::from(error).into()),
            };
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    fds.extend(rights);
                }
            }
            if received.flags.contains(ReturnFlags::CTRUNC) || fds.len() > MAX_FDS {
                return Err(WireError::Wrong("too many descriptors"));
            }
            return Ok(received.bytes);
        }
    }

    fn wait(&self, flags: PollFlags, deadline: Option<Instant>) -> io::Result<()> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        let left = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            // Rounded up, so that a last moment is not asked for again and again.
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        let mut polled = [PollFd::from_borrowed_fd(self.stream.as_fd(), flags)];
        match poll(&mut polled, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn head_of(header: usize, body: usize) -> Result<([u8; HEAD], usize), WireError> {
    let length = |length: usize, most: u32| {
        u32::try_from(length).ok().filter(|length| *length <= most).ok_or(WireError::TooLong(length as u64))
    };
    let (header, body) = (length(header, MAX_HEADER)?, length(body, MAX_BODY)?);
    let mut head = [0u8; HEAD];
    head[..3].copy_from_slice(&MAGIC);
    head[3] = VERSION;
    head[4..8].copy_from_slice(&header.to_le_bytes());
    head[8..].copy_from_slice(&body.to_le_bytes());
    Ok((head, HEAD + header as usize + body as usize))
}

/// The two lengths that a frame begins with. Pure, as what it reads is anybody's.
pub fn lengths_of(head: [u8; HEAD]) -> Result<(usize, usize), WireError> {
    let [a, b, c, version, h0, h1, h2, h3, b0, b1, b2, b3] = head;
    if [a, b, c] != MAGIC {
        return Err(WireError::Foreign);
    }
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    let header = u32::from_le_bytes([h0, h1, h2, h3]);
    let body = u32::from_le_bytes([b0, b1, b2, b3]);
    if header > MAX_HEADER || body > MAX_BODY {
        return Err(WireError::TooLong(u64::from(header) + u64::from(body)));
    }
    Ok((header as usize, body as usize))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn pair() -> (Line, Line) {
        let (one, other) = UnixStream::pair().unwrap();
        (Line::new(one).unwrap(), Line::new(other).unwrap())
    }

    #[test]
    fn a_frame_arrives_whole_with_its_descriptors() {
        let (ours, theirs) = pair();
        let body = vec![7u8; 3 << 20];
        let file = std::fs::File::open("/dev/null").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| ours.send(b"{}", &body, &[file.as_fd(), file.as_fd()]).unwrap());
            let frame = theirs.receive(None).unwrap().unwrap();
            assert_eq!((&frame.header[..], frame.body == body, frame.fds.len()), (&b"{}"[..], true, 2));
            for fd in &frame.fds {
                let flags = rustix::io::fcntl_getfd(fd).unwrap();
                assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
            }
        });
        ours.send(b"1", b"", &[]).unwrap();
        ours.send(b"2", b"x", &[file.as_fd()]).unwrap();
        drop(ours);
        let frames: Vec<_> = std::iter::from_fn(|| theirs.receive(None).unwrap()).collect();
        let told: Vec<_> = frames.iter().map(|frame| (&frame.header[..], frame.fds.len())).collect();
        assert_eq!(told, [(&b"1"[..], 0), (&b"2"[..], 1)]);
    }

    #[test]
    fn what_is_no_frame_ends_the_line() {
        let check = |bytes: &[u8], want: &str| {
            let (ours, theirs) = pair();
            (&ours.stream).write_all(bytes).unwrap();
            drop(ours);
            let error = theirs.receive(None).unwrap_err().to_string();
            assert!(error.contains(want), "{bytes:?}: {error}");
        };
        check(b"GET / HTTP/1.1\r\n", "does not speak");
        check(b"asy\x02\0\0\0\0\0\0\0\0", "version 2");
        check(b"asy\x01\xff\xff\xff\xff\0\0\0\0", "too long");
        check(b"asy\x01\0\0\0\0\0\0\0\x7f", "too long");
        check(b"asy\x01\x05\0\0\0\0\0\0\0ab", "unexpected end");
        check(b"asy", "unexpected end");
        let (ours, _theirs) = pair();
        assert!(matches!(ours.send(&vec![0; 9 << 20], b"", &[]), Err(WireError::TooLong(_))));
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        let (ours, theirs) = pair();
        let error = theirs.receive(Some(Duration::from_millis(20))).unwrap_err();
        assert!(matches!(error, WireError::Io(error) if error.kind() == io::ErrorKind::TimedOut));
        drop(ours);
        assert!(theirs.receive(Some(Duration::from_secs(5))).unwrap().is_none());
    }
}
