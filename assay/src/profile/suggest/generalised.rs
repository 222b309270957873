//! What stands beside the rules of a suggested profile: for how many names of the run each stands. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::effect::{Effect, EffectResult, FsOp};
use super::super::wire::{Profile, Section};
use super::{as_named, inside, policy_path, trimmed};

/// What each rule that is wider than one name stands for, and how many denies lie beneath it.
pub(super) fn generalised(profile: &Profile, effects: &[Effect]) -> BTreeMap<(Section, String), String> {
    let (mut files, mut programs) = (Vec::with_capacity(effects.len()), Vec::new());
    for effect in effects.iter().filter(|effect| effect.result() == EffectResult::Ok) {
        let (used, names) = match effect {
            Effect::Fs(fs) => {
                let to = fs.to.as_ref().filter(|_| fs.op != FsOp::Symlink);
                (&mut files, [Some(&fs.path), to])
            }
            Effect::Exec(exec) => (&mut programs, [Some(&exec.path), None]),
            Effect::Net(_) => continue,
        };
        let names = names.into_iter().flatten();
        used.extend(names.filter_map(|name| policy_path(trimmed(as_named(name.as_str())))));
    }
    for used in [&mut files, &mut programs] {
        // Mostly in order already.
        used.sort();
        used.dedup();
    }
    let rules = profile.fs.keys().map(|rule| (Section::Fs, rule, &files));
    let listed = profile.exec.iter().flatten().map(|rule| (Section::Exec, rule, &programs));
    let (mut beside, mut near) = (BTreeMap::new(), 0);
    for (section, rule, used) in rules.chain(listed) {
        let directory = trimmed(rule);
        // Names are found by where they sort, as there may be very many of both; rules come in order, too.
        let mut before = |bound: &str| {
            near = lower_bound(used, near, bound);
            near
        };
        let itself = before(directory);
        let is_itself = directory != "/" && used.get(itself).is_some_and(|name| name == directory);
        let Range { start, end } = inside(directory);
        let first = before(&start);
        let beneath = before(&end) - first;
        if beneath == 0 && (!is_itself || directory == rule) {
            continue;
        }
        let denies = if section == Section::Fs { denies_beneath(profile, rule) } else { 0 };
        let and_denies =
            if denies > 0 { format!("; {} beneath it", counted(denies, "deny")) } else { String::new() };
        let names = beneath + usize::from(is_itself);
        let words = format!("stands for {} used{and_denies}", counted(names, "name"));
        beside.insert((section, rule.clone()), words);
    }
    beside
}

/// How many of the names sort before a bound, looked for from a place that is not far.
fn lower_bound(names: &[String], near: usize, bound: &str) -> usize {
    let near = near.min(names.len());
    let is_before = |name: &String| name.as_str() < bound;
    let mut step = 1;
    if names.get(near).is_some_and(is_before) {
        while names.get(near + step).is_some_and(is_before) {
            step *= 2;
        }
        let end = (near + step).min(names.len());
        return near + names[near..end].partition_point(is_before);
    }
    while near.checked_sub(step).is_some_and(|at| !is_before(&names[at])) {
        step *= 2;
    }
    let start = near.saturating_sub(step);
    start + names[start..near].partition_point(is_before)
}

/// How many denies a rule reaches over.
fn denies_beneath(profile: &Profile, rule: &str) -> usize {
    let itself = usize::from(profile.deny.contains_key(rule.trim_end_matches('/')));
    itself + profile.deny.range(inside(rule)).count()
}

fn counted(count: usize, word: &str) -> String {
    match (count, word) {
        (1, word) => format!("1 {word}"),
        (count, "deny") => format!("{count} denies"),
        (count, word) => format!("{count} {word}s"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bound_is_found_from_anywhere(
            names in prop::collection::btree_set("[ab/]{0,4}", 0..40),
            near in 0..60usize,
            bound in "[ab/]{0,4}",
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let want = names.iter().filter(|name| **name < bound).count();
            prop_assert_eq!(lower_bound(&names, near, &bound), want);
        }
    }
}
