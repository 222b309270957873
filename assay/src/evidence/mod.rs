//! Evidence: the value everything else is a view of. Pure.
//!
//! `identity` is what the run id is computed from, and nothing else is; `observed` is true of this run only;
//! `coverage` says how far the record can be trusted.

pub mod archive;
pub mod bundle;
pub mod diff;
pub mod dsse;
pub mod elsewhere;
pub mod events;
pub mod gate;
pub mod halves;
pub mod identity;
pub mod integrity;
pub mod lint;
pub mod manifest;
pub mod peer;
pub mod retold;
#[cfg(test)]
pub(crate) mod samples;
pub mod shapes;
pub mod signature;
mod squeezed;
pub mod statement;
pub mod timestamp;
pub mod verify;
pub mod version;
pub mod view;
pub mod wire;

use std::collections::BTreeMap;

use crate::canon::digest::Digest;
pub use crate::enforce::status::{Component, Degradation};
use crate::observe::loss::{Completeness, LossLedger};
use crate::profile::effect::{Effect, EffectResult, NetEffectOp};
pub use crate::profile::endpoints::Endpoint;
pub use crate::profile::identity::{
    Actor, CANONICALIZER, EffectFacts, Fold, Identity, Outcome, Peer, ProcessFacts, Refusal,
};

/// One run, told whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// What the run id is computed from.
    pub identity: Identity,
    /// True of this run only.
    pub observed: Observed,
    /// What the record cannot vouch for.
    pub coverage: Coverage,
}

/// What is true of this run only. Never part of the identity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    /// RFC 3339 in UTC.
    pub started_at: String,
    /// From the first instruction to the end of the last descendant.
    pub duration_ms: u64,
    /// Counts by name: `observations`, `processes`, `failed.ENOENT`, `secrets_redacted.RULE`, `filtered.REASON` …
    pub counters: BTreeMap<String, u64>,
    /// Facts per effect; a key for each effect of the identity.
    pub effects: BTreeMap<Effect, EffectFacts>,
    /// Where it connected, with numbers; by name first, then by address.
    pub endpoints: Vec<Endpoint>,
    /// What the canonicaliser folded.
    pub folded: Vec<Fold>,
    /// SHA-256 of each program started, by `Name` text; the value says why when it could not be read.
    pub programs: BTreeMap<String, Result<Digest, String>>,
    /// The process tree, in order of birth.
    pub processes: Vec<ProcessFacts>,
    /// Host facts: `kernel`, `arch`, `landlock_abi` …
    pub host: BTreeMap<String, String>,
    /// Versions and digests: `assay`, `git`, `observer_object` …
    pub versions: BTreeMap<String, String>,
    /// Digest of the policy's bytes, or of the built-in policy.
    pub policy_digest: Option<Digest>,
    /// How the run was held: `default`, `dry-run`, `enforce`.
    pub mode: String,
    /// What is a standing limit of enforcement here rather than a degradation.
    pub not_governed: Vec<String>,
    /// Names of environment variables that were removed; values never.
    pub env_removed: Vec<String>,
    /// The roots that were substituted, by variable name, in `Name` text form.
    pub roots: BTreeMap<String, String>,
    /// What we decided: `ok`, `denied`, `unauthorised`, `incomplete`, `refused`, `failed`.
    pub verdict: String,
    /// What became of processes that outlived the command: `none`, `waited`, `terminated`, `killed`, `left`.
    pub descendants: String,
}

/// Begins the counters of refusals for want of a dropped capability, by capability.
pub const WITHHELD_COUNTER: &str = "withheld.";
/// Begins the counters of connections to sockets whose other end acts for the caller, by address: what is asked for
/// there happens outside the run, and this record ends at the socket.
pub const ENDED_COUNTER: &str = "ended_at.";
/// Begins the counters of starts of programs that gain rights, by program.
pub const GAINING_COUNTER: &str = "setuid.";

/// What the record cannot vouch for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Losses and gaps; `completeness(kind)` gives the three words.
    pub ledger: LossLedger,
}

impl Coverage {
    /// True when every kind is complete.
    pub fn is_complete(&self) -> bool {
        crate::observe::loss::Kind::ALL
            .into_iter()
            .all(|kind| self.ledger.completeness(kind) == Completeness::Complete)
    }
}

impl Evidence {
    /// Who was at the other end of connections to a UNIX socket of this address.
    pub fn peers_at(&self, address: &str) -> impl Iterator<Item = &Peer> {
        let at_it = move |effect: &Effect| {
            matches!(effect, Effect::Net(net) if net.proto == "unix"
                && net.address.as_ref().is_some_and(|known| known.as_str() == address))
        };
        let effects = self.observed.effects.iter();
        effects.filter(move |(effect, _)| at_it(effect)).flat_map(|(_, facts)| &facts.peers)
    }

    /// Counts where the observation ended: connections that were made to a container engine, a bus or a key agent.
    pub fn count_ends(&mut self) {
        let (effects, counters) = (&self.observed.effects, &mut self.observed.counters);
        for (effect, facts) in effects {
            let Effect::Net(net) = effect else { continue };
            let is_use = matches!(net.op, NetEffectOp::Connect | NetEffectOp::Send);
            if let Some(address) = &net.address
                && is_use
                && net.proto == "unix"
                && net.result == EffectResult::Ok
                && lint::places::ROOT_SOCKETS.has(address.as_str())
            {
                *counters.entry(format!("{ENDED_COUNTER}{address}")).or_default() += facts.hits;
            }
        }
    }
}
