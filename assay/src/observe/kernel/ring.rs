//! The ring under `AsyncFd`: bytes out, nothing decoded.

use std::io;
use std::time::Duration;

use aya::maps::{MapData, RingBuf};
use tokio::io::unix::AsyncFd;

/// How long the reader sleeps when the kernel does not wake it: it is woken only when much waits (see
/// `RING_WAKE_BYTES`), because waking it for each record would cost the run more than all the rest.
const NAP: Duration = Duration::from_millis(4);

/// The reading end of the ring.
pub struct Ring {
    ring: AsyncFd<RingBuf<MapData>>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Ring {
    /// Takes the ring. Must be called within a runtime.
    #[expect(unsafe_code, reason = "tokio wants a promise about the descriptor")]
    pub fn new(ring: RingBuf<MapData>) -> io::Result<Self> {
        // SAFETY: the ring owns its descriptor, opens no other one, and closes it only when it is dropped itself.
        let ring = unsafe { AsyncFd::register(ring) }.map_err(|error| error.into_parts().1)?;
        Ok(Self { ring })
    }

    /// Waits until there may be something to read.
    pub async fn wait(&mut self) -> io::Result<()> {
        match tokio::time::timeout(NAP, self.ring.readable_mut()).await {
            Ok(guard) => {
                guard?.clear_ready();
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    /// Hands out what is there, at most `limit` records, so that others get their turn. How many there were.
    pub fn drain(&mut self, limit: usize, mut each: impl FnMut(&[u8])) -> usize {
        let ring = self.ring.get_mut();
        let mut count = 0;
        while count < limit {
            let Some(record) = ring.next() else { break };
            each(&record);
            count += 1;
        }
        count
    }
}
