//! Records as they came off the ring, kept in memory that outlives this process, for who has to go on without it.
//!
//! A record is here before the ring is told that it was read ([`Spool::push`]), so that at any moment the next reader finds
//! it in one of the two: the last one here may still be in the ring, and is recognised there.

use std::fs::File;
use std::io::{self, Write as _};

use rustix::fs::MemfdFlags;

/// More than this is not kept: what an heir then lacks is counted as lost. Some hundred thousand records.
pub const LIMIT: u64 = 256 << 20;

/// Records in the making of a spool.
#[derive(Debug)]
pub struct Spool {
    file: File,
    room: u64,
}

impl Spool {
    /// An empty one. It has no name anywhere and goes with the last process that has it open.
    pub fn create() -> io::Result<Self> {
        let file = File::from(rustix::fs::memfd_create("assay-spool", MemfdFlags::CLOEXEC)?);
        Ok(Self { file, room: LIMIT })
    }

    /// Adds a record. Each is handed to the kernel at once: what is gathered here dies with us.
    pub fn push(&mut self, record: &[u8]) {
        // Once one has no room none has any, so that what is kept has no hole.
        self.room = self.room.saturating_sub(record.len() as u64);
        if self.room > 0 && self.file.write_all(record).is_err() {
            self.room = 0;
        }
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
    fn what_was_pushed_is_there_at_once() {
        let mut spool = Spool::create().unwrap();
        let mut other = spool.file.try_clone().unwrap();
        for record in [b"one".as_slice(), &vec![b'x'; 100_000], b"three"] {
            spool.push(record);
            let end = other.stream_position().unwrap();
            let mut bytes = vec![0; record.len()];
            rustix::io::pread(&other, &mut bytes[..], end - record.len() as u64).unwrap();
            assert_eq!(bytes, record);
        }
        assert_eq!(kept(spool).len(), 3 + 100_000 + 5);
    }

    #[test]
    fn what_has_no_room_ends_it() {
        let mut spool = Spool::create().unwrap();
        spool.room = 8;
        spool.push(b"four");
        spool.push(b"more than that");
        spool.push(b"x");
        assert_eq!(kept(spool), b"four");
    }
}
