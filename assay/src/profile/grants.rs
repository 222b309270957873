//! What a profile grants and denies, found by path: many rules are not gone through for each other. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::effort::looked_at;
use super::grant_set::GrantSet;
use super::merge::Rule;
use super::wire::{Grant, Profile, Section};

/// The rules of one profile. A path is looked for without slashes at its end.
pub struct Grants<'a> {
    profile: &'a Profile,
    fs: BTreeMap<&'a str, GrantSet>,
    exec: Option<BTreeSet<&'a str>>,
}

impl<'a> Grants<'a> {
    /// Of this profile.
    pub fn of(profile: &'a Profile) -> Self {
        let mut fs: BTreeMap<&str, GrantSet> = BTreeMap::new();
        for (path, grants) in &profile.fs {
            fs.entry(path.trim_end_matches('/')).or_default().add(*grants);
        }
        let exec =
            profile.exec.as_ref().map(|paths| paths.iter().map(|path| path.trim_end_matches('/')).collect());
        Self { profile, fs, exec }
    }

    /// Whether it allows what a rule of another profile does: by the same rule, or by one for a directory above.
    pub fn allow(&self, rule: &Rule) -> bool {
        match (rule.section, rule.grant) {
            (Section::Fs, Some(grant)) => self.reach(&rule.text, grant),
            (Section::Fs, None) => false,
            (Section::Net, _) => self.profile.net.contains(&rule.text),
            (Section::Exec, _) => match &self.exec {
                Some(programs) => upwards(&rule.text).any(|path| programs.contains(path)),
                // Without a list of programs, the execute access of `fs` decides.
                None => self.reach(&rule.text, Grant::Execute),
            },
        }
    }

    fn reach(&self, path: &str, access: Grant) -> bool {
        upwards(path)
            .inspect(|_| looked_at(1))
            .any(|path| self.fs.get(path).is_some_and(|grants| has(*grants, access)))
    }

    /// Whether it grants an access to a path, above it or beneath it.
    pub fn concern(&self, path: &str, access: Grant) -> bool {
        let path = path.trim_end_matches('/');
        // Behind the slash comes `0`.
        let (from, to) = (format!("{path}/"), format!("{path}0"));
        let beneath = (std::ops::Bound::Included(from.as_str()), std::ops::Bound::Excluded(to.as_str()));
        let is_granted = || {
            self.reach(path, access)
                || self
                    .fs
                    .range::<str, _>(beneath)
                    .inspect(|_| looked_at(1))
                    .any(|(_, grants)| has(*grants, access))
        };
        let is_run = |programs: &BTreeSet<&str>| {
            upwards(path).any(|path| programs.contains(path))
                || programs.range::<str, _>(beneath).next().is_some()
        };
        // A program has to be read to be run.
        let by_program = matches!(access, Grant::Read | Grant::List | Grant::Execute);
        is_granted() || (by_program && self.exec.as_ref().is_some_and(is_run))
    }

    /// Whether it denies an access to exactly this path.
    pub fn deny(&self, path: &str, access: Grant) -> bool {
        let denied = self.profile.deny.get(path);
        denied.is_some_and(|accesses| accesses.is_empty() || accesses.contains(access))
    }
}

/// Listing is the part of reading that does not open files.
fn has(grants: GrantSet, access: Grant) -> bool {
    grants.contains(access) || (access == Grant::List && grants.contains(Grant::Read))
}

/// A path and the directories above it, up to the root, which is empty.
fn upwards(path: &str) -> impl Iterator<Item = &str> {
    let whole = path.trim_end_matches('/');
    let above = whole.rmatch_indices('/').map(|(at, _)| whole[..at].trim_end_matches('/'));
    std::iter::once(whole).chain(above)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profile::roots::is_beneath;

    proptest! {
        /// The search says what going through all of them says.
        #[test]
        fn a_path_is_found_where_it_lies(
            granted in prop::collection::btree_set("(/[ab]|/aa|\\$\\{W\\}|/){1,3}/?", 0..6),
            path in "(/[ab]|/aa|\\$\\{W\\}){1,4}/?",
        ) {
            let read: GrantSet = [Grant::Read].into();
            let profile = Profile {
                fs: granted.iter().map(|path| (path.clone(), read)).collect(),
                exec: Some(granted.clone()),
                ..Profile::default()
            };
            let grants = Grants::of(&profile);
            let above = granted.iter().any(|one| is_beneath(&path, one));
            let near = above || granted.iter().any(|one| is_beneath(one, &path));
            for access in [Grant::Read, Grant::List] {
                let rule = Rule { section: Section::Fs, text: path.clone(), grant: Some(access) };
                prop_assert_eq!(grants.allow(&rule), above);
                prop_assert_eq!(grants.concern(&path, access), near);
            }
            let rule = Rule { section: Section::Exec, text: path.clone(), grant: None };
            prop_assert_eq!(grants.allow(&rule), above);
        }
    }
}
