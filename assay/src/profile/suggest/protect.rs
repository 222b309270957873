//! What a suggested profile keeps closed although a grant of its reaches over it: the paths that the built-in policy
//! denies and the run did not touch. Pure.
//!
//! Learning must not widen: a grant of the work directory by name would else open its git hooks to the next run.

use std::collections::{BTreeMap, HashMap};

use super::super::effect::{Effect, FsEffect, FsOp};
use super::super::grant_set::GrantSet;
use super::super::roots::is_beneath;
use super::super::wire::{Grant, Profile};
use super::above_of;

/// A path that is protected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protected {
    /// The path in the form of a name of the identity (`${WORKDIR}/.git/hooks`); one name of it may have a `*`.
    pub path: String,
    /// Whether only writing is kept from it; otherwise every access is, and it is a secret.
    pub is_write_only: bool,
    /// Its other names, where one root of the run lies in another: `${WORKDIR}/.ssh` when the work directory is the
    /// home, and as it is without any.
    also: Vec<String>,
}

impl Protected {
    /// A path; `roots` are those of the run, variable → path, as `observed.roots` has them.
    pub fn new(path: String, is_write_only: bool, roots: &BTreeMap<String, String>) -> Self {
        let absolute = match path.strip_prefix("${").and_then(|rest| rest.split_once('}')) {
            Some((variable, rest)) => roots.get(variable).map(|root| format!("{root}{rest}")),
            None => Some(path.clone()),
        };
        let mut also = Vec::new();
        if let Some(absolute) = absolute {
            let beneath = roots.iter().filter(|(_, root)| root.len() > 1 && is_beneath(&absolute, root));
            also.extend(
                beneath.map(|(variable, root)| format!("${{{variable}}}{}", &absolute[root.len()..])),
            );
            also.push(absolute);
            also.retain(|name| *name != path);
        }
        Self { path, is_write_only, also }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.path.as_str()).chain(self.also.iter().map(String::as_str))
    }

    /// Whether what is granted at `rule` and beneath it reaches this path.
    fn is_reached_from(&self, rule: &str) -> bool {
        // Wherever a variable leads, it leads into the tree.
        rule == "/" || self.names().any(|name| reaches(rule, name))
    }
}

/// The secrets among the protected paths at which a run did something: there the rest of each has to be kept closed
/// by granting less, as a deny would stop the run.
pub struct Touched<'a>(Vec<&'a Protected>);

impl<'a> Touched<'a> {
    /// Those that a run used.
    pub fn by(used: &Used<'_>, protected: &'a [Protected]) -> Self {
        Self(protected.iter().filter(|one| !one.is_write_only && !used.at(one).is_empty()).collect())
    }

    /// Whether a name lies in one of them.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|one| one.names().any(|secret| reaches(secret, name)))
    }

    /// Whether a grant of this directory would open one of them, or a part of one.
    pub fn is_reached_from(&self, directory: &str) -> bool {
        self.0.iter().any(|one| one.is_reached_from(directory)) || self.has(directory)
    }
}

/// What a run did at which name: the access that it needs there. There may be very many names, and few of them are near
/// a protected path.
pub struct Used<'a> {
    /// In order; a name can stand here several times.
    accesses: Vec<(&'a str, Grant)>,
    /// Names that were given or taken, in order.
    moved: Vec<&'a str>,
    /// The two names of each move or link, both ways, in order.
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Used<'a> {
    /// By these effects.
    pub fn by(effects: &[&'a Effect]) -> Self {
        let mut used =
            Self { accesses: Vec::with_capacity(effects.len()), moved: Vec::new(), pairs: Vec::new() };
        for effect in effects {
            match effect {
                Effect::Fs(fs) => used.file(fs),
                Effect::Exec(exec) => used.add(exec.path.as_str(), Grant::Execute),
                // A rule of `net` allows it, and a deny of the path would mask the socket.
                Effect::Net(net) if net.proto == "unix" => {
                    if let Some(path) = &net.address {
                        used.add(path.as_str(), Grant::Write);
                    }
                }
                Effect::Net(_) => {}
            }
        }
        // Effects come in the order of their names, one operation after the other: that is merged, not sorted.
        used.accesses.sort_by_key(|(name, _)| *name);
        used.moved.sort_unstable();
        used.pairs.sort_unstable();
        used
    }

    fn file(&mut self, fs: &'a FsEffect) {
        let grant = match fs.op {
            FsOp::Read => Grant::Read,
            FsOp::List => Grant::List,
            _ => Grant::Write,
        };
        let to = fs.to.as_ref().filter(|_| fs.op != FsOp::Symlink);
        for name in std::iter::once(&fs.path).chain(to) {
            self.add(name.as_str(), grant);
        }
        if fs.op == FsOp::Link {
            self.add(fs.path.as_str(), Grant::Read);
        }
        if matches!(fs.op, FsOp::Rename | FsOp::Link | FsOp::Delete) {
            let names = std::iter::once(&fs.path).chain(to).map(|name| name.as_str().trim_end_matches('/'));
            self.moved.extend(names.clone());
            let mut names = names;
            if let (Some(from), Some(to)) = (names.next(), names.next()) {
                self.pairs.extend([(from, to), (to, from)]);
            }
        }
    }

    fn add(&mut self, name: &'a str, grant: Grant) {
        let name = name.strip_prefix("deleted:").or_else(|| name.strip_prefix("unnamed:")).unwrap_or(name);
        self.accesses.push((name.trim_end_matches('/'), grant));
    }

    /// What was done at a path and beneath it.
    fn at(&self, one: &Protected) -> GrantSet {
        let mut grants = GrantSet::new();
        for path in one.names() {
            // Names that begin with it lie side by side, up to its `*` if it has one.
            let start = path.split('*').next().unwrap_or(path);
            let first = self.accesses.partition_point(|(name, _)| *name < start);
            let near = self.accesses[first..].iter().take_while(|(name, _)| name.starts_with(start));
            grants.extend(near.filter(|(name, _)| reaches(path, name)).map(|(_, grant)| *grant));
            // Whoever moves a directory moves what is in it.
            if upwards(path).any(|above| self.moved.binary_search(&above).is_ok()) {
                grants.extend(Grant::ALL);
            }
        }
        grants
    }

    /// Whether a name was moved or linked across a directory above a path. A deny is held by mounts: nothing can be moved
    /// or linked across the directories above it. For a secret that is so all the same: that a move fails is told, and can
    /// be mended; that a secret lay open cannot.
    fn crosses(&self, one: &Protected) -> bool {
        let mut above = one.path.as_str();
        while let Some((parent, _)) = above.rsplit_once('/') {
            // A variable alone is a root, whose ancestors nobody pins.
            if !parent.contains('/') {
                break;
            }
            let first = self.pairs.partition_point(|(name, _)| *name < parent);
            let mut near = self.pairs[first..].iter().take_while(|(name, _)| name.starts_with(parent));
            if near.any(|(name, other)| is_beneath(name, parent) && !is_beneath(other, parent)) {
                return true;
            }
            above = parent;
        }
        false
    }
}

/// A path and the directories above it, up to the root, which is empty.
fn upwards(path: &str) -> impl Iterator<Item = &str> {
    let whole = path.trim_end_matches('/');
    let above = whole.rmatch_indices('/').map(|(at, _)| whole[..at].trim_end_matches('/'));
    std::iter::once(whole).chain(above)
}

/// Adds denies for the protected paths that `profile` reaches and the run did not need.
pub fn protect(profile: &mut Profile, used: &Used<'_>, protected: &[Protected]) {
    let granted = Granted::by(profile);
    let denied =
        protected.iter().filter_map(|one| Some((one.path.clone(), denied(&granted, used, one)?))).collect();
    profile.deny = denied;
}

/// What is to be denied at a protected path, if anything is; no access named is every access.
fn denied(granted: &Granted<'_>, used: &Used<'_>, one: &Protected) -> Option<GrantSet> {
    let granted = granted.over(one);
    let needed = used.at(one);
    if one.is_write_only {
        let is_needed = needed.contains(Grant::Write) || used.crosses(one);
        return (granted.contains(Grant::Write) && !is_needed).then(|| [Grant::Write].into());
    }
    if needed.is_empty() {
        return (!granted.is_empty()).then(GrantSet::new);
    }
    // The run was in there. What it did not do there stays denied; who may not read a program cannot start it.
    let reads = [Grant::List, Grant::Read, Grant::Execute];
    let may_read = needed.iter().any(|grant| reads.contains(&grant));
    let accesses = [
        (Grant::Read, !may_read && (granted.contains(Grant::Read) || granted.contains(Grant::List))),
        (Grant::Write, !needed.contains(Grant::Write) && granted.contains(Grant::Write)),
        (Grant::Execute, !needed.contains(Grant::Execute) && granted.contains(Grant::Execute)),
    ];
    let accesses: GrantSet =
        accesses.into_iter().filter(|(_, is_denied)| *is_denied).map(|(grant, _)| grant).collect();
    (!accesses.is_empty()).then_some(accesses)
}

/// What the rules of a profile grant, by the rule. There may be thousands, and few reach over a path.
struct Granted<'a> {
    /// Rules whose names have no `*`, by the name as a path above or at another has it.
    plain: HashMap<&'a str, GrantSet>,
    /// Rules that have to be looked at one by one.
    patterns: Vec<(&'a str, GrantSet)>,
    profile: &'a Profile,
}

impl<'a> Granted<'a> {
    fn by(profile: &'a Profile) -> Self {
        let mut granted = Self { plain: HashMap::new(), patterns: Vec::new(), profile };
        for (rule, grants) in &profile.fs {
            if rule.contains('*') || rule == "/" {
                granted.patterns.push((rule, *grants));
            } else {
                granted.plain.entry(rule.trim_end_matches('/')).or_default().add(*grants);
            }
        }
        granted
    }

    /// What is granted at a path because rules reach over it.
    fn over(&self, one: &Protected) -> GrantSet {
        let mut granted = GrantSet::new();
        for name in one.names() {
            if name.contains('*') {
                // Whatever lies at its `*` or beneath may be meant.
                let rules = self.plain.iter().filter(|(rule, _)| reaches(rule, name));
                rules.for_each(|(_, grants)| granted.add(*grants));
            } else {
                let rules = std::iter::once(name).chain(above_of(name)).filter_map(|at| self.plain.get(at));
                rules.for_each(|grants| granted.add(*grants));
            }
        }
        for (rule, grants) in &self.patterns {
            if !grants.is_subset(granted) && one.is_reached_from(rule) {
                granted.add(*grants);
            }
        }
        let profile = self.profile;
        if profile.exec.iter().flatten().any(|program| one.is_reached_from(program)) {
            granted.extend([Grant::Read, Grant::Execute]);
        }
        if profile
            .net
            .iter()
            .filter_map(|rule| rule.strip_prefix("unix:"))
            .any(|path| one.is_reached_from(path))
        {
            granted.insert(Grant::Write);
        }
        granted
    }
}

/// Whether a rule, whose names may have `*`, covers a path or may, when the path has a `*` too.
fn reaches(rule: &str, path: &str) -> bool {
    if !rule.contains('*') && !path.contains('*') {
        return is_beneath(path, rule);
    }
    let mut names = path.split('/');
    for wanted in rule.trim_end_matches('/').split('/') {
        if wanted == "**" {
            return true;
        }
        if !names.next().is_some_and(|name| may_be_one(wanted, name)) {
            return false;
        }
    }
    true
}

/// Whether two names with or without `*` can be one name. Of two with a `*` only what is before it is compared.
fn may_be_one(wanted: &str, name: &str) -> bool {
    let Some((start, rest)) = wanted.split_once('*') else {
        return if name.contains('*') { may_be_one(name, wanted) } else { wanted == name };
    };
    if let Some((other, _)) = name.split_once('*') {
        return start.starts_with(other) || other.starts_with(start);
    }
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for piece in middle.split('*') {
        let Some(at) = left.find(piece) else { return false };
        left = &left[at + piece.len()..];
    }
    left.ends_with(end)
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
        let protected =
            [("${WORKDIR}/.git/hooks", true), ("${WORKDIR}/CLAUDE.md", true), ("${HOME}/.ssh", false)]
                .map(|(path, is_write_only)| Protected::new(path.into(), is_write_only, &BTreeMap::new()));
        protect(&mut profile, &Used::by(&effects.iter().collect::<Vec<_>>()), &protected);
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

    proptest::proptest! {
        /// Rules are found by where they lie, and are those that would be found by looking at each.
        #[test]
        fn the_rules_over_a_path_are_those_that_reach_it(
            rules in proptest::collection::btree_set("(/|\\$\\{HOME\\}|(\\$\\{HOME\\})?(/(a|b|a\\*|\\*|\\*\\*)){1,3}/?)", 0..8),
            path in "(\\$\\{HOME\\})?(/(a|b|ab|a\\*)){1,4}",
        ) {
            let profile = Profile {
                fs: rules.iter().map(|rule| (rule.clone(), [Grant::Read].into())).collect(),
                ..Profile::default()
            };
            let one = Protected::new(path, false, &[("HOME".to_owned(), "/a".to_owned())].into());
            let is_reached = rules.iter().any(|rule| one.is_reached_from(rule));
            proptest::prop_assert_eq!(!Granted::by(&profile).over(&one).is_empty(), is_reached);
        }
    }
}
