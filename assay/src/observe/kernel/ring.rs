//! The ring: bytes out, nothing decoded.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd as _;
use std::time::Duration;

use assay_common::record::Header;
use aya::maps::{Map, MapData, RingBuf};

/// The shortest sleep between two looks. The kernel half never wakes the reader: a wake-up for each record would cost
/// the run more than all the rest, and the ring holds what two busy processors can fill in some hundred milliseconds.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// The longest, when nothing comes.
const LONGEST_NAP: Duration = Duration::from_millis(16);

/// The reading end of the ring.
pub struct Ring {
    buffer: RingBuf<MapData>,
    nap: Duration,
    /// What the next record is not handed out for.
    known: Option<Vec<u8>>,
    /// Whose records are handed out, where others had the ring before.
    run: Option<u32>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("nap", &self.nap).finish_non_exhaustive()
    }
}

impl Ring {
    /// Takes the ring.
    pub fn new(ring: RingBuf<MapData>) -> Self {
        Self { buffer: ring, nap: SHORTEST_NAP, known: None, run: None }
    }

    /// Takes a ring that other runs had before: what is there is theirs, and so is what a program of theirs that was on
    /// its way may still add.
    pub fn of_run(ring: RingBuf<MapData>, run: u32) -> Self {
        let mut taken = Self { run: Some(run), ..Self::new(ring) };
        while taken.buffer.next().is_some() {}
        taken
    }

    /// The same ring, read from where its last reader stopped: that is written in the ring itself, and a copy of a
    /// reader in another process does not know it.
    pub fn reopen(&mut self) -> io::Result<()> {
        let descriptor = self.buffer.as_fd().try_clone_to_owned()?;
        let map = MapData::from_fd(descriptor).map_err(io::Error::other)?;
        self.buffer = RingBuf::try_from(Map::RingBuf(map)).map_err(io::Error::other)?;
        Ok(())
    }

    /// Passes over the next record if it is this one, whatever was added to it since.
    pub fn pass_over(&mut self, known: &[u8]) {
        self.known = Some(known.to_vec());
    }

    /// Sleeps until it is worth looking.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.nap).await;
    }

    /// Hands out what is there, at most `limit` records, so that others get their turn. How many there were. A record is the
    /// ring's until `each` has returned: who is killed meanwhile leaves it to the next reader.
    pub fn drain(&mut self, limit: usize, mut each: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        while count < limit {
            let Some(record) = self.buffer.next() else { break };
            count += 1;
            if self.run.is_some_and(|run| run_of(&record) != Some(run)) {
                continue;
            }
            if !self.known.take().is_some_and(|known| is_same(&record, &known)) {
                each(&record);
            }
        }
        self.nap = if count > 0 { SHORTEST_NAP } else { LONGEST_NAP.min(self.nap * 2) };
        count
    }
}

/// The run that a record is of.
fn run_of(record: &[u8]) -> Option<u32> {
    const AT: usize = offset_of!(Header, run);
    record.get(AT..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Whether a record is one that was read before. It has its time and its task in it, so no two are equal; what is added
/// later stands behind it, and changes the size that it begins with.
fn is_same(record: &[u8], known: &[u8]) -> bool {
    const SIZE: usize = size_of::<u32>();
    record.len() > SIZE && known.get(SIZE..record.len()) == record.get(SIZE..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_known_again_with_what_was_added_to_it() {
        let record = [12, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let added = [20, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 9, 9, 9, 9];
        let other = [12, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 9];
        assert!(is_same(&record, &record) && is_same(&record, &added));
        assert!(!is_same(&record, &other) && !is_same(&added, &record));
        assert!(!is_same(&record, &[]) && !is_same(&[], &[]) && !is_same(&record[..4], &record));
    }
}
