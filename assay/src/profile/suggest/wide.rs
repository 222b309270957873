//! Many rules that only read in one directory → one rule for the directory. Pure.
//!
//! Never where that would open a place for secrets.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::protect::Touched;
use super::{above_of, inside, parent};
use crate::profile::grant_set::GrantSet;
use crate::profile::wire::Grant;

/// What no directory is called that is granted whole for what is read in it.
const SECRET_DIRECTORIES: &[&str] = &[
    "private",
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".gcloud",
    ".kube",
    ".docker",
    ".password-store",
    "keyrings",
];

/// Directories in which so many files are read that they are granted whole.
pub(super) fn collapse(rules: &mut BTreeMap<String, GrantSet>, many: usize, touched: &Touched<'_>) {
    let is_deep = |directory: &str| is_deep(directory) && !touched.is_reached_from(directory);
    // How many rules each directory has that only read and could be one for all of it.
    let mut counts: HashMap<String, usize> = HashMap::new();
    for (path, _) in rules.iter().filter(|(path, grants)| is_read(**grants) && is_deep(parent(path))) {
        *counts.entry(parent(path).to_owned()).or_default() += 1;
    }
    let mut wide: Vec<String> =
        counts.iter().filter(|(_, count)| **count > many).map(|(path, _)| path.clone()).collect();
    // Each is looked through once, and what only reads in it is gone then.
    let mut done: HashSet<String> = HashSet::new();
    while let Some(directory) = wide.pop() {
        if above_of(&directory).any(|above| done.contains(above)) {
            continue;
        }
        let names = rules.range(inside(&directory)).filter(|(_, grants)| is_read(**grants));
        for path in names.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
            rules.remove(&path);
        }
        let was_read = rules.get(&directory).is_some_and(|grants| is_read(*grants));
        let grants = rules.entry(directory.clone()).or_default();
        if was_read {
            *grants = GrantSet::new();
        }
        grants.insert(Grant::Read);
        // One rule more for the directory above, unless it was one before.
        let above = parent(&directory);
        if !was_read && is_read(*grants) && is_deep(above) {
            let count = counts.entry(above.to_owned()).or_default();
            *count += 1;
            if *count == many + 1 {
                wide.push(above.to_owned());
            }
        }
        done.insert(directory);
    }
}

pub(super) fn is_read(grants: GrantSet) -> bool {
    grants.iter().all(|grant| matches!(grant, Grant::Read | Grant::List))
}

/// Whether a directory is far enough down that all of it belongs together: three names below `/`, two below a
/// variable, and no place for secrets.
pub(super) fn is_deep(directory: &str) -> bool {
    let names = directory.split('/').count();
    let is_secret = directory.split('/').any(|name| SECRET_DIRECTORIES.contains(&name));
    let least = if directory.starts_with("${") { 3 } else { 4 };
    names >= least && !is_secret
}
