//! What a report is made of: the evidence of a run, or what its bundle holds of it. Pure.

use crate::canon::digest::Digest;
use crate::evidence::retold::{BundleFacts, Part};
use crate::evidence::{Evidence, identity};

/// What a report is made of.
#[derive(Debug, Clone, Copy)]
pub enum Basis<'a> {
    /// The evidence of the run itself.
    Run,
    /// The same, where the digest of its identity is known.
    Known(&'a Digest),
    /// A bundle, which does not hold all of it.
    Bundle(&'a BundleFacts),
}

impl<'a> Basis<'a> {
    /// Whether a part is told. What is not must not be shown as if there had been none.
    pub fn has(self, part: Part) -> bool {
        match self {
            Self::Run | Self::Known(_) => true,
            Self::Bundle(facts) => !facts.missing.contains(&part),
        }
    }

    /// The run's id.
    pub fn run_id(self, evidence: &Evidence) -> String {
        match self {
            Self::Run => identity::run_id(&identity::digest(&evidence.identity)),
            Self::Known(digest) => identity::run_id(digest),
            Self::Bundle(facts) => facts.run_id.clone(),
        }
    }

    /// The bundle, where it is one.
    pub fn bundle(self) -> Option<&'a BundleFacts> {
        match self {
            Self::Run | Self::Known(_) => None,
            Self::Bundle(facts) => Some(facts),
        }
    }
}

/// As much of a digest as a person compares.
pub fn short_digest(digest: &Digest) -> String {
    format!("sha256:{}", &digest.hex()[..16])
}
