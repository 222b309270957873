//! What is counted of the runs, from what workers report. Pure.

use core::time::Duration;
use std::collections::BTreeMap;

use super::report::{Over, Tally};
use crate::sandbox::outcome::Verdict;

/// Upper bounds of the buckets for how long a record waits to be read, in milliseconds.
const LAGS: [u64; 6] = [1, 10, 100, 1000, 10_000, 60_000];
/// Upper bounds of the buckets for how long a command runs, in milliseconds.
const LENGTHS: [u64; 7] = [100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000];

/// How many of something there were up to each bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One more than there are bounds.
    counts: Vec<u64>,
    sum_us: u64,
}

impl Histogram {
    fn new(bounds: &'static [u64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum_us: 0 }
    }

    fn add(&mut self, value: Duration) {
        let place = self.bounds.iter().position(|bound| value <= Duration::from_millis(*bound));
        self.counts[place.unwrap_or(self.bounds.len())] += 1;
        self.sum_us = self.sum_us.saturating_add(value.as_micros() as u64);
    }

    /// Each bound with how many did not exceed it; the last has no bound and counts all.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let bounds = self.bounds.iter().map(|bound| Some(Duration::from_millis(*bound))).chain([None]);
        bounds.zip(&self.counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }

    /// All values together.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us)
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Runs that ended, by verdict.
    pub ended: BTreeMap<Verdict, u64>,
    /// Connections that got no run, by a word for the reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Workers that ended without a word.
    pub died: u64,
    /// Records of workers that are over.
    pub records: u64,
    /// Of these, lost ones.
    pub lost: u64,
    /// The longest lag of each run.
    pub lags: Histogram,
    /// How long each command ran.
    pub lengths: Histogram,
    /// Bytes that were written to the spool.
    pub spooled: u64,
    /// How many entries the chain of the spool has.
    pub entries: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            ended: Verdict::ALL.into_iter().map(|verdict| (verdict, 0)).collect(),
            refused: BTreeMap::new(),
            died: 0,
            records: 0,
            lost: 0,
            lags: Histogram::new(&LAGS),
            lengths: Histogram::new(&LENGTHS),
            spooled: 0,
            entries: 0,
        }
    }
}

impl Counts {
    /// A connection got no run.
    pub fn refuse(&mut self, word: &'static str) {
        *self.refused.entry(word).or_default() += 1;
    }

    /// A run ended.
    pub fn end(&mut self, over: &Over) {
        *self.ended.entry(over.verdict).or_default() += 1;
        self.lags.add(Duration::from_micros(over.tally.lag_us));
        self.lengths.add(Duration::from_millis(over.ms));
        self.spooled = self.spooled.saturating_add(over.bytes);
        if let Some(seq) = over.seq {
            self.entries = self.entries.max(seq.saturating_add(1));
        }
    }

    /// A worker is over whose observer had told this last.
    pub fn settle(&mut self, tally: Tally) {
        self.records = self.records.saturating_add(tally.records);
        self.lost = self.lost.saturating_add(tally.lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_all_that_do_not_exceed_its_bound() {
        let mut histogram = Histogram::new(&[10, 100]);
        for ms in [0, 10, 11, 100, 101] {
            histogram.add(Duration::from_millis(ms));
        }
        let ms = Duration::from_millis;
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets, [(Some(ms(10)), 2), (Some(ms(100)), 4), (None, 5)]);
        assert_eq!((histogram.sum(), histogram.count()), (ms(222), 5));
    }

    #[test]
    fn the_chain_is_as_long_as_the_last_entry_says_whoever_reports_first() {
        let mut counts = Counts::default();
        let over =
            |seq| Over { run_id: None, verdict: Verdict::Ok, tally: Tally::default(), bytes: 5, ms: 1, seq };
        for seq in [Some(4), Some(3), None] {
            counts.end(&over(seq));
        }
        assert_eq!((counts.entries, counts.spooled, counts.ended[&Verdict::Ok]), (5, 15, 3));
    }
}
