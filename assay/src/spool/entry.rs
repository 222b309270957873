//! What one line of the chain says. Pure: values and their JSON are in [`wire`](super::entry::wire), no file is touched.

use std::collections::BTreeMap;

use crate::canon::digest::Digest;
use crate::evidence::timestamp::Timestamp;
use crate::evidence::{Degradation, Evidence, Outcome, identity};
use crate::observe::loss::{Completeness, Kind};
use crate::profile::effect::{Effect, EffectResult};

mod shape;
pub mod wire;

pub use shape::{kinds, shape};

/// The version of a line.
pub const SCHEMA: &str = "assay.spool-entry/v1";

/// What a run's bundle is called among its files.
pub const BUNDLE: &str = "bundle.tar.gz";

/// No line is longer.
pub const MOST_BYTES: usize = 1 << 20;

/// So many bytes of a command, of its reasons and of its degradations each are kept in the chain; the run's own files
/// have them all.
const MOST_KEPT: usize = 64 << 10;

/// So many runs one line collects.
pub const MOST_COLLECTED: usize = 10_000;

/// One line of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place, from 0.
    pub seq: u64,
    /// The digest of the bytes of the entry's line before, without its line feed; of nothing for the first.
    pub prev: Digest,
    /// When it was written, by the clock of the host.
    pub time: Timestamp,
    /// What it says.
    pub body: Body,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The chain begins.
    Begun,
    /// A chain begins where there were runs already: what was before it is gone.
    BegunAnew {
        /// How many directories of runs were there.
        found: u64,
    },
    /// A run that ended.
    Run(Box<Run>),
    /// A run whose writer died, closed by somebody else.
    Lost(Box<Lost>),
    /// Files of old runs were removed.
    Collected(Collected),
    /// What stands before this line is no whole entry: its writer was stopped half way.
    Torn(Torn),
}

/// A user of the host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// The name, in the form of [`Name`](crate::profile::name::Name), where the host has one.
    pub name: Option<String>,
}

/// A file of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFacts {
    /// Of its bytes.
    pub sha256: Digest,
    /// How many they are.
    pub bytes: u64,
}

/// The files of a run by name.
pub type Files = BTreeMap<String, FileFacts>;

/// A run that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Whose it is.
    pub user: User,
    /// When it began.
    pub begun_at: Timestamp,
    /// The name of its directory.
    pub directory: String,
    /// What lies there.
    pub files: Files,
    /// What came of it.
    pub summary: Summary,
}

/// What came of a run, as its writer tells it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// The run id, where there is evidence.
    pub run_id: Option<String>,
    /// The digest of the identity, where there is evidence.
    pub digest: Option<Digest>,
    /// The words of the command, secrets redacted.
    pub command: Vec<String>,
    /// Where it ran, in the form of [`Name`](crate::profile::name::Name).
    pub workdir: Option<String>,
    /// How it was held: `default`, `dry-run`, `enforce`.
    pub mode: String,
    /// Of the policy's bytes.
    pub policy_digest: Option<Digest>,
    /// How the command ended; `None` when it did not start.
    pub outcome: Option<Outcome>,
    /// Our exit code.
    pub exit_code: u8,
    /// What was decided.
    pub verdict: String,
    /// Why.
    pub reasons: Vec<String>,
    /// What was asked of the sandbox and not kept.
    pub degradations: Vec<Degradation>,
    /// How far the record can be trusted; `None` without evidence.
    pub coverage: Option<Coverage>,
    /// How many effects of each kind, how many were denied, how many records were lost.
    pub counts: BTreeMap<String, u64>,
    /// From the first instruction to the end of the last descendant.
    pub duration_ms: u64,
    /// What had no room, by what it is.
    pub left_out: BTreeMap<String, u64>,
}

/// How much of each kind was seen, in the order of [`Kind::ALL`].
pub type Coverage = [Completeness; 3];

/// A run whose writer died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Whose it is, and what; `None` when what says so is not whole.
    pub begun: Option<super::begun::Begin>,
    /// The name of its directory.
    pub directory: String,
    /// What lies there.
    pub files: Files,
    /// Those of them that were found to be no whole files of their kind.
    pub not_whole: Vec<String>,
}

/// Why files were removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// They were older than so many days.
    KeepDays(u64),
    /// All together were more than so many bytes, and these were the oldest.
    MaxBytes(u64),
}

/// Files of old runs that were removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// The runs, by the place of their entries, in order.
    pub runs: Vec<u64>,
    /// How many bytes they had.
    pub bytes: u64,
    /// Why.
    pub why: Why,
}

/// Bytes of the chain that are no whole entry: all that stands between the entry before and the one that tells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// Of the bytes, with the line feed that ends them.
    pub sha256: Digest,
    /// How many they are.
    pub bytes: u64,
}

impl Body {
    /// The word for it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::BegunAnew { .. } => "begun-anew",
            Self::Run(_) => "run",
            Self::Lost(_) => "lost",
            Self::Collected(_) => "collected",
            Self::Torn(_) => "torn",
        }
    }

    /// Whose run it tells, where it tells one and knows it.
    pub fn user(&self) -> Option<&User> {
        match self {
            Self::Run(run) => Some(&run.user),
            Self::Lost(lost) => lost.begun.as_ref().map(|begun| &begun.user),
            Self::Begun | Self::BegunAnew { .. } | Self::Collected(_) | Self::Torn(_) => None,
        }
    }

    /// Where a run's files lie and which they are, where it tells a run.
    pub fn place(&self) -> Option<(&str, &Files)> {
        match self {
            Self::Run(run) => Some((&run.directory, &run.files)),
            Self::Lost(lost) => Some((&lost.directory, &lost.files)),
            Self::Begun | Self::BegunAnew { .. } | Self::Collected(_) | Self::Torn(_) => None,
        }
    }

    /// The words of the command, where it tells a run.
    pub fn command(&self) -> Option<&[String]> {
        match self {
            Self::Run(run) => Some(&run.summary.command),
            Self::Lost(lost) => lost.begun.as_ref().map(|begun| begun.command.as_slice()),
            Self::Begun | Self::BegunAnew { .. } | Self::Collected(_) | Self::Torn(_) => None,
        }
    }

    /// What was decided of a run; `lost` where nobody was left to.
    pub fn verdict(&self) -> Option<&str> {
        match self {
            Self::Run(run) => Some(&run.summary.verdict),
            Self::Lost(_) => Some("lost"),
            Self::Begun | Self::BegunAnew { .. } | Self::Collected(_) | Self::Torn(_) => None,
        }
    }
}

impl Summary {
    /// What evidence says of a run. The exit code and the reasons are the caller's to add.
    pub fn of(evidence: &Evidence) -> Self {
        let (identity, observed) = (&evidence.identity, &evidence.observed);
        let digest = identity::digest(identity);
        let ledger = &evidence.coverage.ledger;
        let mut counts: BTreeMap<String, u64> =
            ["denied", "exec", "fs", "net"].map(|key| (key.to_owned(), 0)).into();
        for effect in &identity.effects {
            let kind = match effect {
                Effect::Fs(_) => Kind::Fs,
                Effect::Exec(_) => Kind::Exec,
                Effect::Net(_) => Kind::Net,
            };
            *counts.entry(kind.as_str().to_owned()).or_default() += 1;
            let is_denied = effect.result() == EffectResult::Denied;
            *counts.entry("denied".to_owned()).or_default() += u64::from(is_denied);
        }
        counts.insert("lost".to_owned(), ledger.total_lost());
        Self {
            run_id: Some(identity::run_id(&digest)),
            digest: Some(digest),
            command: identity.command.clone(),
            workdir: observed.roots.get("WORKDIR").cloned(),
            mode: observed.mode.clone(),
            policy_digest: observed.policy_digest,
            outcome: Some(identity.outcome.clone()),
            exit_code: 0,
            verdict: observed.verdict.clone(),
            reasons: Vec::new(),
            degradations: identity.degradations.clone(),
            coverage: Some(Kind::ALL.map(|kind| ledger.completeness(kind))),
            counts,
            duration_ms: observed.duration_ms,
            left_out: BTreeMap::new(),
        }
    }

    /// The same with lists that are cut to what a line has room for; what is cut is counted.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let command = keep(&mut self.command, String::len);
        let reasons = keep(&mut self.reasons, String::len);
        let degradations =
            keep(&mut self.degradations, |one| one.reason.len() + one.detail.as_ref().map_or(0, String::len));
        for (name, count) in [("command", command), ("reasons", reasons), ("degradations", degradations)] {
            if count > 0 {
                *self.left_out.entry(name.to_owned()).or_default() += count;
            }
        }
        self
    }
}

/// Cuts a list where it has more than [`MOST_KEPT`] bytes; says how many elements went.
pub(super) fn keep<T>(list: &mut Vec<T>, bytes: impl Fn(&T) -> usize) -> u64 {
    // What stands around each element takes room as well.
    const AROUND: usize = 64;
    let mut room = MOST_KEPT;
    let kept = list.iter().take_while(|one| {
        let needed = bytes(one).saturating_add(AROUND);
        let has_room = needed <= room;
        room = room.saturating_sub(needed);
        has_room
    });
    let kept = kept.count();
    let left_out = list.len() - kept;
    list.truncate(kept);
    left_out as u64
}

/// Whether a run's file may be called so: nothing that leaves its directory, is hidden, or needs an escape.
pub fn is_file_name(name: &str) -> bool {
    let is_of = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=64).contains(&name.len()) && !name.starts_with(['.', '-']) && name.chars().all(is_of)
}

#[cfg(test)]
mod tests;
