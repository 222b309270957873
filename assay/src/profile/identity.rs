//! What makes a run the same run, and the facts about it that go with its effects. Pure.
//!
//! Values only: their file forms live in `evidence::identity` and `evidence::wire`.

use super::effect::Effect;
use crate::enforce::status::Degradation;

/// Name and version of the canonicaliser, part of every identity.
pub const CANONICALIZER: &str = "assay-canon/1";

/// What makes a run the same run: equal bytes of its canonical JSON, equal run id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The command with roots substituted and secrets redacted, in `Name` text form.
    pub command: Vec<String>,
    /// Sorted, without repetition.
    pub effects: Vec<Effect>,
    /// How the command ended.
    pub outcome: Outcome,
    /// What was asked of the sandbox and not kept; sorted, without repetition.
    pub degradations: Vec<Degradation>,
}

/// How the command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It exited.
    ExitCode(u8),
    /// A signal ended it; the name as in `SIGKILL`.
    Signal(String),
    /// `--timeout` ended it.
    Timeout,
}

/// How often one effect was seen, and who decided when it was denied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EffectFacts {
    /// How many observations folded into it.
    pub hits: u64,
    /// `policy`, `launch` or `system` when it was denied.
    pub denied_by: Option<&'static str>,
    /// False when the policy does not authorise it; `None` when no policy was asked.
    pub is_authorised: Option<bool>,
}

/// One fold of the canonicaliser, so that a reader can undo it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fold {
    /// The rule's name.
    pub rule: String,
    /// The name as the trace has it, in `Name` text form.
    pub from: String,
    /// The name as the identity has it.
    pub to: String,
}

/// A process of the run, for the report's tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Its id.
    pub pid: u32,
    /// Its parent's id, 0 for the first.
    pub ppid: u32,
    /// Programs it ran, in order, in `Name` text form with redacted arguments.
    pub programs: Vec<Vec<String>>,
    /// The exit word of `wait(2)`, when it was seen to end.
    pub status: Option<i32>,
}
