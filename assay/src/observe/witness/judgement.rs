//! What a comparison comes to in the record: agreement, disagreement, or nothing, where either side admits losses. Pure.

use std::collections::BTreeMap;

use super::admit;
use crate::observe::loss::{Kind, LossLedger};

/// One side held against the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparison {
    /// Hooks that were passed, as far as records of them arrived.
    pub records: u64,
    /// Whether any hook of a start was: that of the command is, wherever hooks call our programs.
    pub is_awake: bool,
    /// Whether all names found room.
    pub is_whole: bool,
    /// Acts that both tell, each name once.
    pub agreed: u64,
    /// Acts that the second saw, of kinds of which the first admits to know one without its name.
    pub unchecked: u64,
    /// Acts that the second alone saw.
    pub second_only: Vec<(Kind, String)>,
    /// Acts that the first alone told as done.
    pub first_only: Vec<(Kind, String)>,
}

/// What the programs of the second witness counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WitnessCounts {
    /// Records sent.
    pub seen: u64,
    /// Records lost.
    pub lost: u64,
}

/// Reasons by which the first admits to have missed something, whatever it was.
const FIRST_LOST: [&str; 6] = [
    "records-unaccounted",
    "record-not-taken-over",
    "losses-unknown",
    "probes-skipped",
    "start-not-seen",
    "observer-died",
];

/// Admits disagreements, and says what came of it: a word, and counters.
pub fn judge(
    comparison: &Comparison,
    counts: Result<WitnessCounts, String>,
    ledger: &mut LossLedger,
) -> (String, BTreeMap<String, u64>) {
    let counts = match counts {
        Ok(counts) => counts,
        Err(why) => return (format!("not compared: {why}"), BTreeMap::new()),
    };
    if !comparison.is_awake && counts.lost == 0 {
        return ("absent: the kernel does not call its programs".into(), BTreeMap::new());
    }
    let mut unchecked = comparison.unchecked;
    let mut disagreed = 0;
    let mut check = |is_fair: bool, who: &str, acts: &[(Kind, String)], ledger: &mut LossLedger| {
        if is_fair && comparison.is_whole {
            disagreed += acts.len() as u64;
            admit(ledger, who, acts);
        } else {
            unchecked += acts.len() as u64;
        }
    };
    // Who lost records cannot be held to what it did not tell.
    let has_first_all =
        ledger.total_lost() == 0 && !ledger.gaps.iter().any(|gap| FIRST_LOST.contains(&gap.reason.as_str()));
    let has_second_all = counts.lost == 0 && counts.seen == comparison.records;
    check(has_first_all, "seen by the second witness alone", &comparison.second_only, ledger);
    check(has_second_all, "told by the first witness alone", &comparison.first_only, ledger);
    let word =
        if comparison.is_whole { "present" } else { "not compared: more names than there is room for" };
    let told = [
        ("records", comparison.records),
        ("lost", counts.lost),
        ("agreed", comparison.agreed),
        ("disagreed", disagreed),
        ("unchecked", unchecked),
    ];
    (word.into(), told.into_iter().map(|(name, count)| (format!("witness.{name}"), count)).collect())
}
