//! What a suggested profile keeps closed although a grant of its reaches over it: the paths that the built-in policy
//! denies and the run did not touch. Pure.
//!
//! Learning must not widen: a grant of the work directory by name would else open its git hooks to the next run.

use std::collections::{BTreeMap, BTreeSet};

use super::super::effect::{Effect, FsEffect, FsOp};
use super::super::roots::is_beneath;
use super::super::wire::{Grant, Profile};

/// A path that is protected, in the form of a name of the identity (`${WORKDIR}/.git/hooks`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protected {
    /// The path.
    pub path: String,
    /// Whether only writing is kept from it; otherwise every access is.
    pub is_write_only: bool,
}

/// Adds denies for the protected paths that `profile` reaches and `effects` did not need.
pub fn protect(profile: &mut Profile, effects: &[&Effect], protected: &[Protected]) {
    profile.deny = protected
        .iter()
        .filter(|one| is_reached(profile, one) && !effects.iter().any(|effect| needs(effect, one)))
        .map(|one| {
            let accesses = if one.is_write_only { BTreeSet::from([Grant::Write]) } else { BTreeSet::new() };
            (one.path.clone(), accesses)
        })
        .collect();
}

/// Denies of several profiles: an access to a path stays denied where one denies it, and every other does too or grants
/// nothing that it would narrow.
pub fn merged_denies(profiles: &[Profile]) -> BTreeMap<String, BTreeSet<Grant>> {
    let paths: BTreeSet<&String> = profiles.iter().flat_map(|profile| profile.deny.keys()).collect();
    let denies = |profile: &Profile, path: &str, access: Grant| {
        profile.deny.get(path).is_some_and(|accesses| accesses.is_empty() || accesses.contains(&access))
    };
    let mut merged = BTreeMap::new();
    for path in paths {
        let accesses: BTreeSet<Grant> = Grant::ALL
            .into_iter()
            .filter(|&access| {
                profiles.iter().any(|profile| denies(profile, path, access))
                    && profiles
                        .iter()
                        .all(|profile| denies(profile, path, access) || !concerns(profile, path, access))
            })
            .collect();
        if accesses.len() == Grant::ALL.len() {
            merged.insert(path.clone(), BTreeSet::new());
        } else if !accesses.is_empty() {
            merged.insert(path.clone(), accesses);
        }
    }
    merged
}

/// Whether a profile grants this access at the path, above it, or beneath it.
fn concerns(profile: &Profile, path: &str, access: Grant) -> bool {
    let is_near = |granted: &str| is_beneath(path, granted) || is_beneath(granted, path);
    let has = |grants: &BTreeSet<Grant>| {
        grants.contains(&access) || (access == Grant::List && grants.contains(&Grant::Read))
    };
    let is_listed = |programs: &BTreeSet<String>| programs.iter().any(|program| is_near(program));
    profile.fs.iter().any(|(granted, grants)| has(grants) && is_near(granted))
        // A program has to be read to be run.
        || (matches!(access, Grant::Read | Grant::List | Grant::Execute) && profile.exec.as_ref().is_some_and(is_listed))
}

/// Whether a grant reaches the path, or something beneath it, with an access that it is protected from.
fn is_reached(profile: &Profile, one: &Protected) -> bool {
    profile.fs.iter().any(|(allowed, grants)| {
        let concerns = if one.is_write_only { grants.contains(&Grant::Write) } else { !grants.is_empty() };
        concerns && is_beneath(&one.path, allowed)
    })
}

/// Whether the run did something that the deny would stop.
fn needs(effect: &Effect, one: &Protected) -> bool {
    let Effect::Fs(fs) = effect else { return false };
    let names: Vec<&str> = std::iter::once(&fs.path)
        .chain(fs.to.iter().filter(|_| fs.op != FsOp::Symlink))
        .map(|name| name.as_str().trim_end_matches('/'))
        .collect();
    let writes = !matches!(fs.op, FsOp::Read | FsOp::List);
    let touches = names.iter().any(|name| is_beneath(name, &one.path)) && (writes || !one.is_write_only);
    touches || moves_across(fs, &names, one)
}

/// A deny is held by mounts: what lies above it cannot be moved, and nothing can be moved or linked across.
fn moves_across(fs: &FsEffect, names: &[&str], one: &Protected) -> bool {
    if !matches!(fs.op, FsOp::Rename | FsOp::Link | FsOp::Delete) {
        return false;
    }
    let carries = names.iter().any(|name| is_beneath(&one.path, name));
    let mut above = one.path.as_str();
    let mut crosses = false;
    while let Some((parent, _)) = above.rsplit_once('/') {
        // A variable alone is a root, whose ancestors nobody pins.
        if !parent.contains('/') {
            break;
        }
        let inside = names.iter().filter(|name| is_beneath(name, parent)).count();
        crosses |= inside > 0 && inside < names.len();
        above = parent;
    }
    carries || crosses
}

#[cfg(test)]
mod tests {
    use super::super::super::effect::EffectResult;
    use super::super::super::name::Name;
    use super::*;

    fn effect(op: FsOp, path: &str, to: Option<&str>) -> Effect {
        Effect::Fs(FsEffect {
            op,
            path: Name::from_canonical(path),
            to: to.map(Name::from_canonical),
            result: EffectResult::Ok,
        })
    }

    fn denies(grants: &[(&str, &[Grant])], effects: &[Effect]) -> Vec<String> {
        let mut profile = Profile::default();
        for (path, grants) in grants {
            profile.fs.insert((*path).to_owned(), grants.iter().copied().collect());
        }
        let protected = [
            Protected { path: "${WORKDIR}/.git/hooks".into(), is_write_only: true },
            Protected { path: "${WORKDIR}/CLAUDE.md".into(), is_write_only: true },
            Protected { path: "${HOME}/.ssh".into(), is_write_only: false },
        ];
        protect(&mut profile, &effects.iter().collect::<Vec<_>>(), &protected);
        profile.deny.into_keys().collect()
    }

    const WRITE: &[Grant] = &[Grant::Read, Grant::Write];

    #[test]
    fn a_grant_of_the_work_directory_does_not_open_its_hooks() {
        let wrote = [effect(FsOp::Create, "${WORKDIR}/f", None)];
        assert_eq!(
            denies(&[("${WORKDIR}", WRITE)], &wrote),
            ["${WORKDIR}/.git/hooks", "${WORKDIR}/CLAUDE.md"]
        );
        assert_eq!(denies(&[("${WORKDIR}", &[Grant::Read])], &wrote), [""; 0]);
        assert_eq!(denies(&[("${WORKDIR}/src", WRITE)], &wrote), [""; 0]);
        assert_eq!(denies(&[("${HOME}", &[Grant::Read])], &[]), ["${HOME}/.ssh"]);
    }

    #[test]
    fn what_the_run_did_stays_allowed() {
        let made = [effect(FsOp::Create, "${WORKDIR}/.git/hooks/pre-commit", None)];
        assert_eq!(denies(&[("${WORKDIR}", WRITE)], &made), ["${WORKDIR}/CLAUDE.md"]);
        let read = [
            effect(FsOp::Read, "${WORKDIR}/CLAUDE.md", None),
            effect(FsOp::Read, "${HOME}/.ssh/known_hosts", None),
        ];
        assert_eq!(
            denies(&[("${WORKDIR}", WRITE), ("${HOME}", &[Grant::Read])], &read),
            ["${WORKDIR}/.git/hooks", "${WORKDIR}/CLAUDE.md"]
        );
    }

    #[test]
    fn a_move_that_the_mounts_would_stop_stays_allowed() {
        let moved = [effect(FsOp::Rename, "${WORKDIR}/.git", Some("${WORKDIR}/.git.old"))];
        assert_eq!(denies(&[("${WORKDIR}", WRITE)], &moved), ["${WORKDIR}/CLAUDE.md"]);
        let across = [effect(FsOp::Rename, "${WORKDIR}/.git/tmp", Some("${WORKDIR}/out"))];
        assert_eq!(denies(&[("${WORKDIR}", WRITE)], &across), ["${WORKDIR}/CLAUDE.md"]);
        let within = [effect(FsOp::Rename, "${WORKDIR}/.git/a.lock", Some("${WORKDIR}/.git/a"))];
        assert_eq!(
            denies(&[("${WORKDIR}", WRITE)], &within),
            ["${WORKDIR}/.git/hooks", "${WORKDIR}/CLAUDE.md"]
        );
    }
}
