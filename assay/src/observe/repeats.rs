//! Acts that the kernel half counted instead of sending them: which observation each count belongs to. Pure.

use std::collections::HashMap;

use assay_common::record::Repeat;

use super::observation::Observation;

/// An observation, and how often it was made again.
pub type Again = (Observation, u64);

/// The counts that are open.
#[derive(Debug, Clone, Default)]
pub struct Repeats {
    /// Number of the count → the act that is counted.
    counted: HashMap<u64, Observation>,
    ended: Vec<Again>,
    told: u64,
    unknown: u64,
}

impl Repeats {
    /// A count ended, because another took its place or the run is over.
    pub fn end(&mut self, number: u64, times: u64) {
        let known = self.counted.remove(&number);
        match known {
            _ if times == 0 => {}
            Some(observation) => {
                self.told += times;
                self.ended.push((observation, times));
            }
            None => self.unknown += times,
        }
    }

    /// A record said that acts like this one are counted from now on.
    pub fn begin(&mut self, repeat: Repeat, observation: &Observation) {
        self.counted.insert(repeat.number, observation.clone());
    }

    /// What came out since this was asked last.
    pub fn take(&mut self) -> Vec<Again> {
        std::mem::take(&mut self.ended)
    }

    /// Acts told by a count so far.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// Acts that were counted under a number that no record began.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::observation::{Act, CallResult};

    fn observation(pid: u32) -> Observation {
        Observation {
            seq: 0,
            t_ns: 0,
            pid,
            tid: pid,
            ppid: 0,
            comm: Vec::new(),
            act: Act::Exit { status: 0 },
            result: CallResult::Ok,
        }
    }

    fn begin(number: u64) -> Repeat {
        Repeat { number, ended: 0, count: 0 }
    }

    #[test]
    fn a_count_goes_to_the_act_that_began_it() {
        let mut repeats = Repeats::default();
        repeats.begin(begin(1), &observation(10));
        repeats.begin(begin(2), &observation(20));
        repeats.end(2, 7);
        repeats.end(1, 3);
        assert_eq!(repeats.take(), [(observation(20), 7), (observation(10), 3)]);
        assert!(repeats.take().is_empty());
        assert_eq!((repeats.told(), repeats.unknown()), (10, 0));
    }

    #[test]
    fn a_count_that_nothing_began_is_not_forgotten() {
        let mut repeats = Repeats::default();
        repeats.end(5, 4);
        repeats.begin(begin(5), &observation(1));
        repeats.end(5, 0);
        repeats.end(5, 1);
        assert!(repeats.take().is_empty());
        assert_eq!((repeats.told(), repeats.unknown()), (0, 5));
    }
}
