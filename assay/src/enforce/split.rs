//! Grants → what Landlock is told, with execution split around denied programs. Pure.
//!
//! Landlock cannot take away beneath a directory what it gives there. Where a program inside an executable tree must
//! not run, everything around it is granted instead, name by name.

use std::collections::{BTreeMap, BTreeSet};

use super::grant::{Ruleset, rights_of};
use super::survey::{Kind, Survey};
use crate::host::Right;
use crate::policy::rule::{Access, AccessSet};

/// An access granted beneath a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The path.
    pub path: Vec<u8>,
    /// What is there.
    pub kind: Kind,
    /// What is granted.
    pub access: AccessSet,
}

/// The directories strictly between `above` and `path`, outermost first.
pub fn between(above: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    let start = if above == b"/" { 0 } else { above.len() };
    let slashes = (start + 1..path.len()).filter(|&at| path[at] == b'/');
    slashes.map(|at| path[..at].to_vec()).collect()
}

/// Whether `path` is `above` or lies beneath it.
pub fn is_at_or_beneath(path: &[u8], above: &[u8]) -> bool {
    path == above || is_beneath(path, above)
}

/// Whether `path` lies beneath `above`.
pub fn is_beneath(path: &[u8], above: &[u8]) -> bool {
    above == b"/" && path.len() > 1
        || path.strip_prefix(above).is_some_and(|rest| rest.len() > 1 && rest.starts_with(b"/"))
}

/// Whether every directory from the grants above down to `path` was listed, so that it can be split out.
pub fn is_listed(path: &[u8], grants: &[Grant], survey: &Survey) -> bool {
    grants.iter().filter(|grant| is_beneath(path, &grant.path)).all(|grant| {
        let mut end = path.len();
        loop {
            let Some(at) = path[..end].iter().rposition(|&byte| byte == b'/') else { return false };
            let directory = if at == 0 { &b"/"[..] } else { &path[..at] };
            if !survey.listings.contains_key(directory) {
                return false;
            }
            if directory == grant.path {
                return true;
            }
            if at == 0 {
                return false;
            }
            end = at;
        }
    })
}

/// Puts the grants into the ruleset; execution is split around denied programs.
pub fn add_grants(ruleset: &mut Ruleset, grants: &[Grant], split: &BTreeSet<Vec<u8>>, survey: &Survey) {
    for grant in grants {
        let is_split =
            grant.access.has(Access::Execute) && split.iter().any(|path| is_beneath(path, &grant.path));
        if !is_split {
            ruleset.grant(&grant.path, rights_of(grant.access, grant.kind));
            continue;
        }
        let execute = AccessSet::of(Access::Execute);
        // What `execute` includes is not what is denied: reading stays for the whole tree.
        ruleset.grant(
            &grant.path,
            rights_of(grant.access.without(execute), grant.kind)
                .into_iter()
                .chain([Right::ReadFile])
                .collect(),
        );
        split_around(ruleset, &grant.path, split, &survey.listings);
    }
}

fn split_around(
    ruleset: &mut Ruleset,
    directory: &[u8],
    split: &BTreeSet<Vec<u8>>,
    listings: &BTreeMap<Vec<u8>, Vec<(Vec<u8>, Kind)>>,
) {
    for (path, kind) in listings.get(directory).into_iter().flatten() {
        if split.contains(path) {
            continue;
        }
        if split.iter().any(|denied| is_beneath(denied, path)) {
            split_around(ruleset, path, split, listings);
        } else {
            ruleset.grant(path, rights_of(AccessSet::of(Access::Execute), *kind));
        }
    }
}
