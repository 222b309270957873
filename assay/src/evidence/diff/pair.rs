//! What one bundle has and the other lacks → the two halves of one change found in it. Pure.
//!
//! In the time of sorting, whatever the bundles hold: somebody may have made them to keep a reader busy.

use super::told::Told;
use super::{Aspect, Change, Kind};

/// A half on either side, by what it has in common with its other half.
type Keyed = (u64, u32);

/// Puts halves together, first by what says most.
pub(super) fn pair(mut removed: Vec<Change>, mut added: Vec<Change>) -> Vec<Change> {
    for aspect in [Aspect::Digest, Aspect::Result, Aspect::Operation] {
        let (before, after) = (keyed(&removed, aspect), keyed(&added, aspect));
        let mut rest = (&before[..], &after[..]);
        while let (Some((a, _)), Some((b, _))) = (rest.0.first(), rest.1.first()) {
            let key = *a.min(b);
            let take = |keyed: &mut &[Keyed]| {
                let (these, others) = keyed.split_at(keyed.partition_point(|(other, _)| *other == key));
                *keyed = others;
                these.iter().map(|(_, at)| *at as usize).collect::<Vec<_>>()
            };
            // Each list begins with the least key, so that all of one key stand in front or not at all.
            let (befores, afters) = (take(&mut rest.0), take(&mut rest.1));
            join(&mut removed, &befores, &mut added, &afters, aspect);
        }
    }
    removed.retain(Change::is_told);
    added.retain(Change::is_told);
    removed.append(&mut added);
    removed
}

fn keyed(changes: &[Change], aspect: Aspect) -> Vec<Keyed> {
    let key = |(at, change): (usize, &Change)| {
        // What found its other half is told already.
        let told = change.single()?;
        Some((told.common_hash(change.kind, aspect)?, u32::try_from(at).ok()?))
    };
    let mut keyed: Vec<Keyed> = changes.iter().enumerate().filter_map(key).collect();
    keyed.sort_unstable();
    keyed
}

/// Joins halves of one key, in order. Only a read that became a change is a change of operation; any other two are two.
fn join(removed: &mut [Change], befores: &[usize], added: &mut [Change], afters: &[usize], aspect: Aspect) {
    if befores.is_empty() || afters.is_empty() {
        return;
    }
    let classes: &[(Option<bool>, Option<bool>)] = match aspect {
        Aspect::Operation => &[(Some(true), Some(false)), (Some(false), Some(true))],
        _ => &[(None, None)],
    };
    for (before_class, after_class) in classes {
        let of = |changes: &[Change], places: &[usize], class: Option<bool>| -> Vec<usize> {
            let is_of =
                |at: &usize| class.is_none_or(|class| changes[*at].single().is_some_and(is_look) == class);
            places.iter().copied().filter(is_of).collect()
        };
        let (befores, afters) = (of(removed, befores, *before_class), of(added, afters, *after_class));
        for (before, after) in befores.into_iter().zip(afters) {
            let (old, new) = (&mut removed[before], &mut added[after]);
            if has_in_common(old, new, aspect) {
                new.join(old, aspect);
            }
        }
    }
}

fn is_look(told: &Told) -> bool {
    matches!(told.op(), "read" | "list")
}

/// Hashes may meet by chance; what is told as one change must be one.
fn has_in_common(old: &Change, new: &Change, aspect: Aspect) -> bool {
    let common = |change: &Change, kind: Kind| -> Option<String> {
        Some(change.single()?.common(kind, aspect)?.collect())
    };
    old.kind == new.kind && common(old, old.kind).is_some_and(|text| Some(text) == common(new, new.kind))
}
