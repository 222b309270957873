//! The journal's own protocol: an entry with its fields as one datagram. The framing is pure.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use super::log::{Entry, Level};

/// Where the journal listens.
pub const SOCKET: &str = "/run/systemd/journal/socket";

/// The journal, connected.
#[derive(Debug)]
pub struct Journal(UnixDatagram);

impl Journal {
    /// Connects to the journal that listens at `socket`, if `stderr` goes there by the word of `JOURNAL_STREAM`.
    pub fn behind(stderr: impl AsFd, stream: Option<&str>, socket: &Path) -> Option<Self> {
        let stat = rustix::fs::fstat(stderr).ok()?;
        if !is_stream(stream?, stat.st_dev, stat.st_ino) {
            return None;
        }
        let connected = UnixDatagram::unbound().ok()?;
        connected.connect(socket).ok()?;
        // A journal that does not read must not stop us.
        connected.set_nonblocking(true).ok()?;
        Some(Self(connected))
    }

    /// Sends it.
    pub fn send(&self, entry: &Entry) -> io::Result<()> {
        self.0.send(&frame(entry)).map(drop)
    }
}

/// Whether the words of `JOURNAL_STREAM`, device and inode in decimal, name this file.
fn is_stream(stream: &str, device: u64, inode: u64) -> bool {
    stream.split_once(':').is_some_and(|(dev, ino)| dev.parse() == Ok(device) && ino.parse() == Ok(inode))
}

fn frame(entry: &Entry) -> Vec<u8> {
    // The numbers of syslog(3).
    let priority = match entry.level {
        Level::Error => "3",
        Level::Warning => "4",
        Level::Note => "6",
        Level::Detail => "7",
    };
    let mut bytes = Vec::new();
    append("MESSAGE", &entry.text, &mut bytes);
    append("PRIORITY", priority, &mut bytes);
    append("SYSLOG_IDENTIFIER", "assay", &mut bytes);
    for (name, value) in &entry.fields {
        append(name, value, &mut bytes);
    }
    bytes
}

/// `NAME=value`, or, where the value has a line feed, the name in a line, the value's length and the value.
fn append(name: &str, value: &str, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        bytes.push(b'\n');
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        bytes.push(b'=');
    }
    bytes.extend_from_slice(value.as_bytes());
    bytes.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn an_entry_is_framed_as_the_journal_reads_it() {
        let entry =
            Entry::new(Level::Note, "a run ended").with("ASSAY_UID", "1000").with("ASSAY_X", "a\nMESSAGE=b");
        let mut expect =
            b"MESSAGE=a run ended\nPRIORITY=6\nSYSLOG_IDENTIFIER=assay\nASSAY_UID=1000\nASSAY_X\n".to_vec();
        expect.extend([11, 0, 0, 0, 0, 0, 0, 0]);
        expect.extend(b"a\nMESSAGE=b\n");
        assert_eq!(frame(&entry), expect);
    }

    #[test]
    fn it_is_sent_where_stderr_goes_there_and_only_then() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let listener = UnixDatagram::bind(&socket).unwrap();
        let stderr = tempfile::tempfile().unwrap();
        let stat = stderr.metadata().unwrap();
        let stream = format!("{}:{}", stat.dev(), stat.ino());
        let journal = Journal::behind(&stderr, Some(&stream), &socket).unwrap();
        journal.send(&Entry::new(Level::Warning, "w")).unwrap();
        let mut bytes = [0; 100];
        let count = listener.recv(&mut bytes).unwrap();
        assert!(bytes[..count].starts_with(b"MESSAGE=w\nPRIORITY=4\n"));

        for other in ["", "1", "1:2", "x:y", &format!("{}:{}", stat.dev(), stat.ino() + 1)] {
            assert!(Journal::behind(&stderr, Some(other), &socket).is_none(), "{other:?}");
        }
        assert!(Journal::behind(&stderr, None, &socket).is_none());
        assert!(Journal::behind(&stderr, Some(&stream), &directory.path().join("none")).is_none());
    }
}
