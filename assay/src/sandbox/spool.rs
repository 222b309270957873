//! Records as they came off the ring, kept in memory that outlives this process, for who has to go on without it.

use std::fs::File;
use std::io::{self, Write as _};

use rustix::fs::MemfdFlags;

/// More than this is not kept: what an heir then lacks is counted as lost. Some hundred thousand records.
pub const LIMIT: u64 = 256 << 20;

/// Bytes gathered before they are handed to the kernel.
const BUFFER: usize = 1 << 17;

/// Records in the making of a spool.
#[derive(Debug)]
pub struct Spool {
    file: File,
    buffer: Vec<u8>,
    room: u64,
}

impl Spool {
    /// An empty one. It has no name anywhere and goes with the last process that has it open.
    pub fn create() -> io::Result<Self> {
        let file = File::from(rustix::fs::memfd_create("assay-spool", MemfdFlags::CLOEXEC)?);
        Ok(Self { file, buffer: Vec::with_capacity(BUFFER), room: LIMIT })
    }

    /// Adds a record.
    pub fn push(&mut self, record: &[u8]) {
        // Once one has no room none has any, so that what is kept has no hole.
        self.room = self.room.saturating_sub(record.len() as u64);
        if self.room == 0 {
            return;
        }
        if self.buffer.len() + record.len() > BUFFER {
            self.flush();
        }
        self.buffer.extend_from_slice(record);
    }

    /// Hands on what was gathered.
    pub fn flush(&mut self) {
        if !self.buffer.is_empty() && self.file.write_all(&self.buffer).is_err() {
            self.room = 0;
        }
        self.buffer.clear();
    }

    /// What its writer handed on, to be read from the start.
    pub fn into_file(self) -> File {
        self.file
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    fn kept(spool: Spool) -> Vec<u8> {
        let mut file = spool.into_file();
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_was_handed_on_is_there() {
        let mut spool = Spool::create().unwrap();
        spool.push(b"one");
        spool.push(&vec![b'x'; BUFFER]);
        spool.flush();
        spool.push(b"not yet");
        assert_eq!(kept(spool), [b"one".as_slice(), &vec![b'x'; BUFFER]].concat());
    }

    #[test]
    fn what_has_no_room_ends_it() {
        let mut spool = Spool::create().unwrap();
        spool.room = 8;
        spool.push(b"four");
        spool.push(b"more than that");
        spool.push(b"x");
        spool.flush();
        assert_eq!(kept(spool), b"four");
    }
}
