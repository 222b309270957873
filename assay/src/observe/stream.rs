//! Raw records in a file: what `--keep-records` writes and replay reads. Pure over `Read` and `Write`.
//!
//! Eight bytes of magic, the wire version, the run's first process, what was seen, then records as they came off the ring; each
//! states its own size.

use std::io::{self, Read, Write};

use assay_common::WIRE_VERSION;
use assay_common::limits::RECORD_LEN;

use super::pipeline::Subject;

const MAGIC: [u8; 8] = *b"assayrec";
/// What was seen: requests to an `io_uring`.
const SEES_URING: u32 = 1;
/// Hooks, by the second witness.
const HAS_WITNESS: u32 = 2;

/// A stream that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// Not a stream of records.
    #[error("read records: this is not a file of records")]
    Magic,
    /// Written by another version.
    #[error("read records: they are of version {found}, this program reads version {WIRE_VERSION}")]
    Version {
        /// The file's version.
        found: u32,
    },
    /// A record says it is shorter than a header or longer than any.
    #[error("read records: record {index} has an impossible size of {size} bytes")]
    Size {
        /// Which.
        index: u64,
        /// What it says.
        size: u32,
    },
    /// The input failed, or ended within a record.
    #[error("read records: {0}")]
    Io(#[from] io::Error),
}

/// Begins a stream.
pub fn write_head(to: &mut impl Write, subject: Subject) -> io::Result<()> {
    to.write_all(&MAGIC)?;
    to.write_all(&WIRE_VERSION.to_le_bytes())?;
    to.write_all(&subject.root_pid.to_le_bytes())?;
    let flags = [(subject.sees_uring, SEES_URING), (subject.has_witness, HAS_WITNESS)];
    let flags: u32 = flags.into_iter().filter(|(is_so, _)| *is_so).map(|(_, flag)| flag).sum();
    to.write_all(&flags.to_le_bytes())
}

/// Reads a stream.
#[derive(Debug)]
pub struct RecordReader<R> {
    from: R,
    subject: Subject,
    index: u64,
    record: Vec<u8>,
}

impl<R: Read> RecordReader<R> {
    /// Reads the head.
    pub fn new(mut from: R) -> Result<Self, StreamError> {
        let mut head = [0; 20];
        from.read_exact(&mut head).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => StreamError::Magic,
            _ => StreamError::Io(error),
        })?;
        if head[..8] != MAGIC {
            return Err(StreamError::Magic);
        }
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if word(8) != WIRE_VERSION {
            return Err(StreamError::Version { found: word(8) });
        }
        let subject = Subject {
            root_pid: word(12),
            sees_uring: word(16) & SEES_URING != 0,
            has_witness: word(16) & HAS_WITNESS != 0,
        };
        Ok(Self { from, subject, index: 0, record: Vec::new() })
    }

    /// Goes on with records that have no head of their own.
    pub fn headless(from: R, subject: Subject) -> Self {
        Self { from, subject, index: 0, record: Vec::new() }
    }

    /// What the records are about.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// The next record, or `None` at the end.
    pub fn next_record(&mut self) -> Result<Option<&[u8]>, StreamError> {
        let mut size = [0; 4];
        match self.from.read(&mut size[..1])? {
            0 => return Ok(None),
            _ => self.from.read_exact(&mut size[1..])?,
        }
        let size = u32::from_le_bytes(size);
        // Room for what userspace adds.
        if !(8..=2 * RECORD_LEN as u32).contains(&size) {
            return Err(StreamError::Size { index: self.index, size });
        }
        self.index += 1;
        self.record.clear();
        self.record.extend_from_slice(&size.to_le_bytes());
        self.record.resize(size as usize, 0);
        self.from.read_exact(&mut self.record[4..])?;
        Ok(Some(&self.record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_reads_what_was_written() {
        let mut bytes = Vec::new();
        let subject = Subject { root_pid: 7, sees_uring: true, has_witness: true };
        write_head(&mut bytes, subject).unwrap();
        bytes.extend(12u32.to_le_bytes());
        bytes.extend([1; 8]);
        let mut reader = RecordReader::new(&bytes[..]).unwrap();
        assert_eq!(reader.subject(), subject);
        assert_eq!(reader.next_record().unwrap().unwrap().len(), 12);
        assert!(reader.next_record().unwrap().is_none());
        bytes.pop();
        let mut reader = RecordReader::new(&bytes[..]).unwrap();
        assert!(matches!(reader.next_record(), Err(StreamError::Io(_))));
    }

    #[test]
    fn foreign_files_are_refused() {
        assert!(matches!(RecordReader::new(&b"PK"[..]), Err(StreamError::Magic)));
        assert!(matches!(
            RecordReader::new(&b"assayrec\xff\0\0\0\0\0\0\0\0\0\0\0"[..]),
            Err(StreamError::Version { found: 255 })
        ));
        let mut bytes = Vec::new();
        write_head(&mut bytes, Subject { root_pid: 1, sees_uring: false, has_witness: false }).unwrap();
        bytes.extend(u32::MAX.to_le_bytes());
        let mut reader = RecordReader::new(&bytes[..]).unwrap();
        assert!(matches!(reader.next_record(), Err(StreamError::Size { index: 0, .. })));
    }
}
