//! The ring: bytes out, nothing decoded.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use aya::maps::{Map, MapData, RingBuf};

/// The shortest sleep between two looks. The kernel half never wakes the reader: a wake-up for each record would cost
/// the run more than all the rest, and the ring holds what two busy processors can fill in some hundred milliseconds.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// The longest, when nothing comes.
const LONGEST_NAP: Duration = Duration::from_millis(16);

/// The reading end of the ring.
pub struct Ring {
    ring: RingBuf<MapData>,
    nap: Duration,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("nap", &self.nap).finish_non_exhaustive()
    }
}

impl Ring {
    /// Takes the ring.
    pub fn new(ring: RingBuf<MapData>) -> Self {
        Self { ring, nap: SHORTEST_NAP }
    }

    /// The same ring, read from where its last reader stopped: that is written in the ring itself, and a copy of a
    /// reader in another process does not know it.
    pub fn reopen(&mut self) -> io::Result<()> {
        let descriptor = self.ring.as_fd().try_clone_to_owned()?;
        let map = MapData::from_fd(descriptor).map_err(io::Error::other)?;
        self.ring = RingBuf::try_from(Map::RingBuf(map)).map_err(io::Error::other)?;
        Ok(())
    }

    /// Sleeps until it is worth looking.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.nap).await;
    }

    /// Hands out what is there, at most `limit` records, so that others get their turn. How many there were.
    pub fn drain(&mut self, limit: usize, mut each: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        while count < limit {
            let Some(record) = self.ring.next() else { break };
            each(&record);
            count += 1;
        }
        self.nap = if count > 0 { SHORTEST_NAP } else { LONGEST_NAP.min(self.nap * 2) };
        count
    }
}
