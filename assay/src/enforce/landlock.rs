//! Applies a [`Ruleset`] to the calling thread: the only place that restricts by Landlock.
//!
//! Called by the launched child, single-threaded, right before exec. What the kernel refuses is an error, never a
//! quiet success: the caller must not exec after one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use landlock::{
    AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort, PathBeneath, PathFd,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus,
};

use super::grant::Ruleset;
use super::status::Enforcement;
use crate::host::Right;
use crate::host::probe::{access_fs, access_net, scope};
use crate::profile::name::Name;

/// Why a ruleset could not be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The kernel refused to make it, or one of its rules.
    #[error("make the Landlock ruleset: {0}")]
    Make(#[from] RulesetError),
    /// The kernel made it and does not hold all of it.
    #[error("apply the Landlock ruleset: the kernel holds only part of it")]
    Partly,
}

/// Restricts this thread and everything it starts. `no_new_privs` must be set already, or be allowed to be set now.
pub fn apply(ruleset: &Ruleset) -> Result<Enforcement, ApplyError> {
    let mut enforcement = Enforcement {
        is_active: !ruleset.handled.is_empty(),
        rights: Right::ALL
            .into_iter()
            .map(|right| (right.as_str().to_owned(), ruleset.handled.contains(&right)))
            .collect(),
        skipped: Vec::new(),
    };
    if ruleset.handled.is_empty() {
        return Ok(enforcement);
    }
    let mut created = make(ruleset)?;
    for (path, rights) in &ruleset.paths {
        let access = fs_flags(rights.iter().filter(|right| ruleset.handled.contains(right)));
        if access.is_empty() {
            continue;
        }
        match PathFd::new(OsStr::from_bytes(path)) {
            Ok(fd) => created = created.add_rule(PathBeneath::new(fd, access))?,
            Err(error) => {
                enforcement.skipped.push((Name::from_bytes(path).as_str().to_owned(), error.to_string()));
            }
        }
    }
    let net = net_flags(&ruleset.handled);
    if !net.is_empty() {
        for port in &ruleset.ports {
            created = created.add_rule(NetPort::new(*port, net))?;
        }
    }
    let status = created.restrict_self()?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(enforcement),
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => Err(ApplyError::Partly),
    }
}

/// The ruleset without rules; every handled right must be one the kernel has.
fn make(ruleset: &Ruleset) -> Result<RulesetCreated, RulesetError> {
    let mut new = landlock::Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let fs = fs_flags(ruleset.handled.iter());
    if !fs.is_empty() {
        new = new.handle_access(fs)?;
    }
    let net = net_flags(&ruleset.handled);
    if !net.is_empty() {
        new = new.handle_access(net)?;
    }
    for scope in ruleset.handled.iter().filter_map(|right| scope(*right)) {
        new = new.scope(scope)?;
    }
    new.create()
}

fn fs_flags<'a>(rights: impl Iterator<Item = &'a Right>) -> BitFlags<AccessFs> {
    rights.filter_map(|right| access_fs(*right)).fold(BitFlags::EMPTY, |flags, access| flags | access)
}

fn net_flags<'a>(rights: impl IntoIterator<Item = &'a Right>) -> BitFlags<AccessNet> {
    rights
        .into_iter()
        .filter_map(|right| access_net(*right))
        .fold(BitFlags::EMPTY, |flags, access| flags | access)
}
