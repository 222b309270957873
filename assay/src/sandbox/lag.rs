//! How long records wait until they are read.

use assay_common::record::Header;
use zerocopy::FromBytes as _;

/// The longest wait so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lag {
    most_ns: u64,
}

/// Some records that are read at once: the first of them has waited longest.
#[derive(Debug)]
pub struct Batch<'a> {
    lag: &'a mut Lag,
    is_first: bool,
}

impl Lag {
    /// Begins to read some.
    pub fn batch(&mut self) -> Batch<'_> {
        Batch { lag: self, is_first: true }
    }

    /// In microseconds.
    pub fn most_us(self) -> u64 {
        self.most_ns / 1000
    }

    fn waited(&mut self, from_ns: u64, to_ns: u64) {
        self.most_ns = self.most_ns.max(to_ns.saturating_sub(from_ns));
    }
}

impl Batch<'_> {
    /// One was read.
    pub fn see(&mut self, record: &[u8]) {
        if !std::mem::take(&mut self.is_first) {
            return;
        }
        // Some are of no moment.
        if let Ok((header, _)) = Header::ref_from_prefix(record)
            && header.t_ns != 0
        {
            self.lag.waited(header.t_ns, now_ns());
        }
    }
}

/// By the clock that the kernel half stamps records with.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_counts_and_no_record_is_read_before_it_was_made() {
        let mut lag = Lag::default();
        lag.waited(1_000, 4_500_000);
        lag.waited(5_000_000, 6_000_000);
        lag.waited(7_000_000, 0);
        assert_eq!(lag.most_us(), 4499);
    }
}
