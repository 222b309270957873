//! What makes a run the same run, and the facts about it that go with its effects. Pure.
//!
//! Values only: their file forms live in `evidence::identity` and `evidence::wire`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::effect::Effect;
use super::name::Name;
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
    /// Who did it first; kept of what was denied or not authorised.
    pub by: Option<Arc<Actor>>,
    /// What the policy says to it, when it says no and it was denied for that or happened all the same.
    pub refused: Option<Box<Refusal>>,
    /// The addresses that a host's name stands for in this effect.
    pub addresses: BTreeSet<IpAddr>,
    /// The names that clients asked for there (TLS's server name, HTTP's `Host`), other than those it is told by.
    pub asked: BTreeSet<String>,
    /// Who was at the other end of a UNIX connection; the first sixteen.
    pub peers: BTreeSet<Peer>,
}

/// Who was at the other end of a UNIX connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// Its process id and user id; `None` where the kernel names nobody.
    pub process: Option<(u32, u32)>,
    /// What it ran, in `Name` text form.
    pub program: Option<String>,
    /// Its name as the kernel has it, in `Name` text form; `None` where the process had ended.
    pub comm: Option<String>,
}

impl Peer {
    /// Why some of it is not told.
    pub fn unread(&self) -> Option<&'static str> {
        match self {
            Self { process: None, .. } => Some("the kernel names nobody"),
            Self { comm: None, .. } => Some("the process that listened has ended"),
            Self { program: None, .. } => Some("its program could not be read"),
            Self { .. } => None,
        }
    }
}

impl fmt::Display for Peer {
    /// `/usr/bin/dockerd, uid 0`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.process, self.program.as_ref().or(self.comm.as_ref())) {
            (Some((_, uid)), Some(name)) => write!(f, "{name}, uid {uid}"),
            (Some((pid, uid)), None) => write!(f, "process {pid}, which had ended, uid {uid}"),
            (None, _) => write!(f, "nobody whom the kernel names"),
        }
    }
}

/// What is known of effects beside their facts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// Those that were each time part of an act that wanted more, so that what refused that refused them.
    pub parts: BTreeSet<Effect>,
    /// The numbers of others' ports that are told as the kernel's choice.
    pub ports: BTreeMap<Effect, BTreeSet<u16>>,
}

/// A process, at the time of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// Its id.
    pub pid: u32,
    /// What it ran, in `Name` text form; `None` when its start was not seen.
    pub program: Option<String>,
    /// Its name as the kernel has it, in `Name` text form.
    pub comm: String,
}

impl fmt::Display for Actor {
    /// `/usr/bin/cat (pid 12)`, with the name where the program does not give it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, program, comm } = self;
        match program {
            Some(program) => {
                let name = program.rsplit('/').next().unwrap_or(program);
                // The kernel keeps the first 15 bytes of it.
                if name.starts_with(comm.as_str()) && (name == comm || comm.len() >= 15) {
                    write!(f, "{program} (pid {pid})")
                } else {
                    write!(f, "{program} ({comm}, pid {pid})")
                }
            }
            None => write!(f, "{comm} (pid {pid})"),
        }
    }
}

/// What a policy says to an act that it does not authorise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that denies; `None` when no rule allows.
    pub rule: Option<String>,
    /// Where that rule is written: `FILE:LINE:COL`.
    pub at: Option<String>,
    /// The line that would allow it, or what to do with the rule that denies.
    pub remedy: String,
}

/// One fold of the canonicaliser, so that a reader can undo it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fold {
    /// The rule's name.
    pub rule: Cow<'static, str>,
    /// The name as the trace has it, in `Name` text form.
    pub from: String,
    /// The name as the identity has it.
    pub to: Name,
}

/// A process of the run, for the report's tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessFacts {
    /// Its id.
    pub pid: u32,
    /// Its parent's id, 0 for the first.
    pub ppid: u32,
    /// Programs it ran, in order, in `Name` text form with redacted arguments.
    pub programs: Vec<Vec<String>>,
    /// The exit word of `wait(2)`, when it was seen to end.
    pub status: Option<i32>,
    /// When it was first seen, in microseconds since the command's first instruction; older records do not say.
    pub began_us: Option<u64>,
    /// When it was seen to end, likewise.
    pub ended_us: Option<u64>,
}
