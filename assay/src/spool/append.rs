//! Appends to the chain: one writer at a time, whole lines, on the disk before anybody is told.

use std::fs::File;
use std::io::{self, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;

use rustix::fs::OFlags;

use super::chain::{Head, Walk, nothing};
use super::directory::{Directory, lock_exclusively};
use super::entry::wire::{LineReader, to_line};
use super::entry::{Body, Entry, MOST_BYTES, Torn};
use super::lines::Lines;
use crate::canon::digest::Digest;
use crate::evidence::timestamp::Timestamp;

/// The name of the chain.
pub const CHAIN: &str = "chain.ndjson";

/// The chain, locked for us until this goes.
#[derive(Debug)]
pub struct LockedChain {
    file: File,
}

/// Why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// A system call failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The entry has too many bytes.
    #[error("the entry has {0} bytes")]
    Length(usize),
}

/// How the chain ends.
#[derive(Debug, PartialEq, Eq)]
struct End {
    head: Option<Head>,
    /// Bytes behind it that are no entry, with the line feed that ends them.
    torn: Option<Torn>,
    /// Whether that line feed, or the one of the last entry, has yet to be written.
    lacks_line_feed: bool,
}

impl LockedChain {
    /// Locks the chain of a spool, which is made where it is not there.
    pub fn lock(root: &Directory) -> io::Result<Self> {
        loop {
            let is_there = root.stat(CHAIN)?.is_some();
            let file = root.open_file(CHAIN, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)?;
            if !is_there {
                root.sync()?;
            }
            lock_exclusively(&file)?;
            // Another file may have been put there while we waited.
            let (ours, named) = (rustix::fs::fstat(&file)?, root.stat(CHAIN)?);
            if named.is_some_and(|named| (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)) {
                return Ok(Self { file });
            }
        }
    }

    /// Whether there is no entry in it, nor anything else.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() == 0)
    }

    /// A reader of it from this place on.
    pub fn lines(&self, offset: u64) -> io::Result<Lines<BufReader<&File>>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Lines::new(BufReader::with_capacity(1 << 16, file), offset))
    }

    /// Writes an entry behind the last one, in one piece with what has to stand before it: the first entry of a chain that
    /// has none, and the one that tells torn bytes. `found` is how many directories of runs are there. It is on the disk
    /// after [`Self::sync`].
    pub fn write(
        &self,
        body: Body,
        now: Timestamp,
        found: impl FnOnce() -> io::Result<u64>,
    ) -> Result<Head, AppendError> {
        let End { mut head, torn, lacks_line_feed } = self.end()?;
        let mut text = if lacks_line_feed { "\n".to_owned() } else { String::new() };
        let mut append = |body| {
            let seq = match head {
                None => 0,
                // Nobody writes so many; somebody may have written such a number.
                Some(head) => {
                    head.seq.checked_add(1).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?
                }
            };
            let entry = Entry { seq, prev: head.map_or_else(nothing, |head| head.sha256), time: now, body };
            let line = to_line(&entry);
            if line.len() > MOST_BYTES {
                return Err(AppendError::Length(line.len()));
            }
            let appended = Head { seq: entry.seq, sha256: Digest::of(line.as_bytes()) };
            head = Some(appended);
            text += &line;
            text.push('\n');
            Ok(appended)
        };
        let is_first = |body: &Body| matches!(body, Body::Begun | Body::BegunAnew { .. });
        if torn.is_none() && self.is_empty()? && !is_first(&body) {
            append(match found()? {
                0 => Body::Begun,
                found => Body::BegunAnew { found },
            })?;
        }
        if let Some(torn) = torn {
            append(Body::Torn(torn))?;
        }
        let appended = append(body)?;
        self.write_whole(text.as_bytes())?;
        Ok(appended)
    }

    /// Waits until all of it is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// All of the bytes or none of them: half of a line that we wrote, and that nobody was told of, is taken back. What a
    /// writer left that was stopped is not touched.
    fn write_whole(&self, bytes: &[u8]) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        (&self.file).write_all(bytes).inspect_err(|_| {
            // What stays then is told as torn by the next.
            drop(self.file.set_len(before));
        })
    }

    fn end(&self) -> io::Result<End> {
        let length = self.file.metadata()?.len();
        let mut bytes = vec![0; length.min(MOST_BYTES as u64 + 2) as usize];
        let begin = length - bytes.len() as u64;
        self.file.read_exact_at(&mut bytes, begin)?;
        let lacks_line_feed = bytes.last().is_some_and(|byte| *byte != b'\n');
        if let Some(head) = last_entry(&bytes) {
            return Ok(End { head: Some(head), torn: None, lacks_line_feed });
        }
        let mut walk = Walk::new(None);
        let mut lines = self.lines(0)?;
        while let Some(line) = lines.read()? {
            walk.add(&line);
        }
        Ok(End { head: walk.head(), torn: walk.torn_end(), lacks_line_feed })
    }
}

/// The last line of these bytes, where it is a whole entry: then nothing else needs to be read.
fn last_entry(bytes: &[u8]) -> Option<Head> {
    let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let line = &lines[memchr::memrchr(b'\n', lines).map_or(0, |at| at + 1)..];
    let entry = LineReader::default().read(line).ok()?;
    Some(Head { seq: entry.seq, sha256: Digest::of(line) })
}
