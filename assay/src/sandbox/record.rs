//! What there is to say of a run's record besides what was observed.

use std::collections::BTreeMap;

use crate::observe::loss::LossLedger;

/// What the observer had to say besides the observations.
#[derive(Debug)]
pub struct Record {
    /// Losses and gaps.
    pub ledger: LossLedger,
    /// Counters for the evidence.
    pub counters: BTreeMap<String, u64>,
    /// Whether there was a second witness, or why not.
    pub second_witness: Option<String>,
}

impl Record {
    /// That of a run that nobody observed.
    pub fn unobserved() -> Self {
        Self {
            ledger: LossLedger::unobserved("no observer ran"),
            counters: BTreeMap::new(),
            second_witness: None,
        }
    }
}
