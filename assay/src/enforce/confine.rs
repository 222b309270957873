//! All that the launched child does to itself on behalf of the policy, as one value that travels to it.
//!
//! Two steps, because they need different rights: [`Confinement::hold_mounts`] while the child still may mount,
//! [`Confinement::restrict`] right before it starts the command.

use serde::{Deserialize, Serialize};

use super::grant::{Filter, Ruleset};
use super::landlock::{ApplyError, apply};
use super::mounts::{self, Hold, MountError};
use super::placeholders::Placeholders;
use super::plan::Plan;
use super::status::Enforcement;
use super::syscall_filter;
use super::{observer_guard, own_processes};

/// What the child is to do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confinement {
    /// For Landlock.
    pub ruleset: Ruleset,
    /// For its mount namespace.
    pub holds: Vec<Hold>,
    /// For its mount namespace, before those.
    pub placeholders: Vec<Placeholders>,
    /// An empty directory that the placeholders need; empty when there are none.
    #[serde(with = "super::grant::path_text")]
    pub scratch: Vec<u8>,
    /// Whether its `/proc` shows only its own processes.
    pub is_proc_own: bool,
    /// How its system calls are filtered.
    pub filter: Filter,
}

/// Why the child could not confine itself. It must not start the command then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// The mounts.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// Landlock.
    #[error(transparent)]
    Landlock(#[from] ApplyError),
    /// The system call filter.
    #[error("filter system calls: {0}")]
    Filter(std::io::Error),
    /// What it was told does not decode.
    #[error("decode the confinement: {0}")]
    Decode(#[from] serde_json::Error),
}

impl Confinement {
    /// The child's part of a plan.
    pub fn of(plan: &Plan, scratch: &[u8]) -> Self {
        Self {
            ruleset: plan.ruleset.clone(),
            holds: plan.holds.clone(),
            placeholders: plan.placeholders.clone(),
            scratch: scratch.to_vec(),
            is_proc_own: plan.is_proc_own,
            filter: plan.filter,
        }
    }

    /// The form in which it travels.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("maps with text keys, lists and words always serialise")
    }

    /// Reads that form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ConfineError> {
        Ok(serde_json::from_slice(bytes)?)
    }

    /// First step: with `CAP_SYS_ADMIN` and in a mount namespace of its own. Does nothing when there is nothing to
    /// hold.
    pub fn hold_mounts(&self) -> Result<(), ConfineError> {
        Ok(mounts::hold(&self.holds, &self.placeholders, &self.scratch)?)
    }

    /// With the first step, where it is asked for.
    pub fn show_only_own_processes(&self) -> std::io::Result<()> {
        if self.is_proc_own { own_processes::show_only_own() } else { Ok(()) }
    }

    /// Second step: single-threaded, with `no_new_privs` set.
    pub fn restrict(&self) -> Result<Enforcement, ConfineError> {
        let enforcement = apply(&self.ruleset)?;
        syscall_filter::apply(self.filter).map_err(ConfineError::Filter)?;
        Ok(enforcement)
    }
}

/// Last of all, when everything that watches the command is there: it must leave these tasks alone.
pub fn guard(watchers: &[u32]) -> Result<(), ConfineError> {
    observer_guard::apply(watchers).map_err(ConfineError::Filter)
}
