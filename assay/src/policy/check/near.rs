//! The rules of `fs` that can speak about what lies in a directory, found on the way down to it. Pure.
//!
//! A run has very many effects, in the order of their names, and few rules reach where most of them lie: which those are
//! is asked once for each directory, of the rules that are left of the one above it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Verdict, judge_effect_at, judge_fs_effect};
use crate::policy::rule::{PathRule, Policy};
use crate::profile::effect::Effect;

/// Rules of `fs`, in the order of the policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'r, 'p> {
    pub(super) policy: &'p Policy,
    /// Those that deny and those that allow; all of the policy's when there is none.
    near: Option<(&'r [&'p PathRule], &'r [&'p PathRule])>,
}

impl<'r, 'p> Rules<'r, 'p> {
    /// All of a policy.
    pub(super) fn all(policy: &'p Policy) -> Self {
        Self { policy, near: None }
    }

    /// Those that deny.
    pub(super) fn deny(self) -> impl Iterator<Item = &'p PathRule> + use<'r, 'p> {
        let (all, near) = match self.near {
            None => (self.policy.fs_deny.as_slice(), [].as_slice()),
            Some((deny, _)) => ([].as_slice(), deny),
        };
        all.iter().chain(near.iter().copied())
    }

    /// Those that allow.
    pub(super) fn allow(self) -> impl Iterator<Item = &'p PathRule> + use<'r, 'p> {
        let (all, near) = match self.near {
            None => (self.policy.fs_allow.as_slice(), [].as_slice()),
            Some((_, allow)) => ([].as_slice(), allow),
        };
        all.iter().chain(near.iter().copied())
    }
}

/// Judges one effect after the other. In whatever order they come, the verdicts are those of
/// [`judge_effect_at`]; it is quick where neighbours follow each other.
#[derive(Debug)]
pub struct Judge<'p> {
    policy: &'p Policy,
    roots: &'p [(String, Vec<u8>)],
    /// The directory that was gone down to last.
    directory: Vec<u8>,
    /// The directories above it and itself, from the root.
    levels: Vec<Level>,
    /// The rules that are left at each level, those of the last at the end.
    deny: Vec<&'p PathRule>,
    allow: Vec<&'p PathRule>,
}

/// A directory on the way down.
#[derive(Debug, Clone, Copy)]
struct Level {
    /// Where its name ends in `directory`.
    end: usize,
    /// Where its rules begin.
    deny: usize,
    allow: usize,
}

impl<'p> Judge<'p> {
    /// By this policy; names are read with `roots`.
    pub fn new(policy: &'p Policy, roots: &'p [(String, Vec<u8>)]) -> Self {
        Self {
            policy,
            roots,
            directory: Vec::new(),
            levels: vec![Level { end: 0, deny: 0, allow: 0 }],
            deny: policy.fs_deny.iter().collect(),
            allow: policy.fs_allow.iter().collect(),
        }
    }

    /// What the policy says to an effect, where these are the addresses that a host's name stands for.
    pub fn effect_at(&mut self, effect: &Effect, addresses: &BTreeSet<IpAddr>) -> Verdict {
        match effect {
            Effect::Fs(fs) => {
                let policy = self.policy;
                judge_fs_effect(policy, fs, self.roots, &mut |path, ask| ask(self.near(path)))
            }
            Effect::Exec(_) | Effect::Net(_) => judge_effect_at(self.policy, effect, addresses, self.roots),
        }
    }

    /// The rules that can speak about a path.
    fn near(&mut self, path: &[u8]) -> Rules<'_, 'p> {
        if path.first() != Some(&b'/') {
            return Rules::all(self.policy);
        }
        let name = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        self.go_to(&path[..name]);
        let last = self.levels[self.levels.len() - 1];
        Rules { policy: self.policy, near: Some((&self.deny[last.deny..], &self.allow[last.allow..])) }
    }

    fn go_to(&mut self, directory: &[u8]) {
        if self.directory == directory {
            return;
        }
        let is_above = |level: &Level| {
            directory.get(..level.end) == self.directory.get(..level.end)
                && matches!(directory.get(level.end), None | Some(b'/'))
        };
        let kept = self.levels.partition_point(is_above);
        if let Some(left) = self.levels.get(kept) {
            // What a level has begins where that of the one above ends.
            self.deny.truncate(left.deny);
            self.allow.truncate(left.allow);
        }
        self.levels.truncate(kept);
        let begin = self.levels[kept - 1].end;
        let ends = directory[begin..].iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
        let ends = ends.map(|(at, _)| begin + at).chain((begin < directory.len()).then_some(directory.len()));
        for end in ends {
            let above = self.levels[self.levels.len() - 1];
            let level = Level { end, deny: self.deny.len(), allow: self.allow.len() };
            keep(&mut self.deny, above.deny, &directory[..end]);
            keep(&mut self.allow, above.allow, &directory[..end]);
            self.levels.push(level);
        }
        self.directory.clear();
        self.directory.extend_from_slice(directory);
    }
}

/// Adds those of the rules from `from` on that can speak about what is in a directory.
fn keep(rules: &mut Vec<&PathRule>, from: usize, directory: &[u8]) {
    for at in from..rules.len() {
        let rule = rules[at];
        if rule.patterns.iter().any(|pattern| pattern.concerns(directory)) {
            rules.push(rule);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::load::{Context, NoFiles, load_bytes};
    use crate::profile::effect::{EffectResult, FsEffect, FsOp};
    use crate::profile::name::Name;

    const RULES: &str = "\
api_version: assay/v1
fs:
  allow: [/a, {path: /a/b/w, access: [read, write]}, '/b/*/c', {path: '/**/t', access: [write]}, {path: ., access: [write]}]
  deny: [/a/b/c, '/a/**/s', '/b/*.key', {path: '/a/b/w/x/y', access: [write]}, {path: '/**/.e', access: [read]}]
exec:
  allow: [/b/a/run]
";

    proptest! {
        /// Whatever was gone down to before: the rules that are left say what all of them say.
        #[test]
        fn each_effect_has_the_verdict_of_all_rules(
            effects in prop::collection::vec(
                ("((/(a|b|c|w|x|y|s|t|\\.|\\.e|k\\.key|run|)){0,6}/?|pipe:|\\$\\{W\\}/(s|t))", 0..FsOp::ALL.len(), "(/(a|b|w|x)){0,4}"),
                1..40,
            ),
        ) {
            let policy = load_bytes(b"p", RULES.as_bytes(), &Context::for_tests(), &NoFiles).unwrap();
            let roots = [("W".to_owned(), b"/a/b".to_vec())];
            let mut judge = Judge::new(&policy, &roots);
            for (path, op, to) in effects {
                let op = FsOp::ALL[op];
                let to = matches!(op, FsOp::Rename | FsOp::Link | FsOp::Symlink)
                    .then(|| Name::from_canonical(to));
                let effect =
                    Effect::Fs(FsEffect { op, path: Name::from_canonical(path), to, result: EffectResult::Ok });
                let none = BTreeSet::new();
                let want = judge_effect_at(&policy, &effect, &none, &roots);
                prop_assert_eq!(judge.effect_at(&effect, &none), want, "{:?}", effect);
            }
        }
    }
}
