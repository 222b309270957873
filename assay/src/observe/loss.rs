//! What the observer did not see, as a value that travels from the kernel to every artifact.
//!
//! Pure. A record is *complete* only when the ledger says so; nothing is dropped with `continue`.

use std::collections::{BTreeMap, BTreeSet};

/// The three kinds the coverage is told for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Files.
    Fs,
    /// Programs.
    Exec,
    /// Network.
    Net,
}

impl Kind {
    /// All kinds, in their order in the evidence.
    pub const ALL: [Self; 3] = [Self::Fs, Self::Exec, Self::Net];

    /// The key in the evidence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fs => "fs",
            Self::Exec => "exec",
            Self::Net => "net",
        }
    }
}

/// How much of a kind was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Completeness {
    /// Every probe was attached for the whole run, nothing was lost, nothing happened that we cannot see.
    Complete,
    /// Some was seen; the reasons say what is missing.
    Partial,
    /// Nothing was observed.
    None,
}

impl Completeness {
    /// The word in the evidence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::None => "none",
        }
    }
}

/// Why a kind is not complete.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// The kind it concerns.
    pub kind: Kind,
    /// A stable word: `records-lost`, `probe-not-attached`, `io-uring`, `path-cut`, `left-cgroup` …
    pub reason: String,
    /// For a person: what exactly. Never part of the identity.
    pub detail: String,
}

/// How many gaps of one kind and reason are kept.
pub const MOST_ALIKE: usize = 100;

/// Losses and gaps of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LossLedger {
    /// Records the kernel half could not deliver, by hook name (`open`, `exec`, `connect` …). Only non-zero entries.
    pub lost: BTreeMap<String, u64>,
    /// Records that arrived but could not be decoded, by reason. Only non-zero entries.
    pub undecoded: BTreeMap<String, u64>,
    /// What could not be seen, with the reason.
    pub gaps: BTreeSet<Gap>,
    /// True when no observer ran at all.
    pub is_unobserved: bool,
}

impl LossLedger {
    /// A run that nobody observed.
    pub fn unobserved(detail: &str) -> Self {
        let gaps = Kind::ALL
            .into_iter()
            .map(|kind| Gap { kind, reason: "not-observed".into(), detail: detail.into() })
            .collect();
        Self { is_unobserved: true, gaps, ..Self::default() }
    }

    /// Admits that something of `kind` was not seen. Of one kind and reason it keeps [`MOST_ALIKE`] details: the
    /// command chooses how many there are, and one says already that the record is not whole.
    pub fn admit(&mut self, kind: Kind, reason: &str, detail: impl Into<String>) {
        let is_alike = |gap: &&Gap| gap.kind == kind && gap.reason == reason;
        if self.gaps.iter().filter(is_alike).count() < MOST_ALIKE {
            self.gaps.insert(Gap { kind, reason: reason.into(), detail: detail.into() });
        }
    }

    /// Records lost in all, undecoded ones included.
    pub fn total_lost(&self) -> u64 {
        self.lost.values().sum::<u64>() + self.undecoded.values().sum::<u64>()
    }

    /// How much of `kind` was seen.
    pub fn completeness(&self, kind: Kind) -> Completeness {
        if self.is_unobserved {
            Completeness::None
        } else if self.total_lost() > 0 || self.gaps.iter().any(|gap| gap.kind == kind) {
            Completeness::Partial
        } else {
            Completeness::Complete
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_alike_some_are_kept_and_other_reasons_beside_them() {
        let mut ledger = LossLedger::default();
        for number in 0..3 * MOST_ALIKE {
            ledger.admit(Kind::Fs, "path-unverified", format!("/link/{number}"));
        }
        ledger.admit(Kind::Fs, "path-cut", "/long");
        ledger.admit(Kind::Net, "path-unverified", "/socket");
        assert_eq!(ledger.gaps.len(), MOST_ALIKE + 2);
        assert_eq!(ledger.completeness(Kind::Fs), Completeness::Partial);
        assert_eq!(ledger.completeness(Kind::Net), Completeness::Partial);
        assert_eq!(ledger.completeness(Kind::Exec), Completeness::Complete);
    }
}
