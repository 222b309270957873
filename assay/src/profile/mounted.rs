//! Where a run mounted something, and the roots of the host's tree that lie there once more. Pure.

use super::acts::ActClass;
use super::canonical::FileFact;
use super::effect::EffectResult;
use super::paths::PathTable;
use super::prefixes::Prefixes;
use super::roots::{RootTable, RootVar};

/// The places where a run mounted something. There can be as many as there are paths.
pub struct Mounted(Prefixes);

impl Mounted {
    /// Those of this run. `/` is none.
    pub fn of<'a>(facts: impl Iterator<Item = &'a FileFact>, paths: &PathTable) -> Self {
        let mounts = facts.filter(|fact| fact.class == ActClass::Mount && fact.result == EffectResult::Ok);
        let mut places = Prefixes::default();
        for place in mounts.map(|fact| paths.bytes(fact.path)) {
            if place.first() == Some(&b'/') && place.len() > 1 {
                places.add(place);
            }
        }
        Self(places)
    }

    /// Whether it mounted nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How much of `path` is the place beneath which it lies in a root, the root, and where in `path` that ends.
    pub fn root_beneath(&self, path: &[u8], roots: &RootTable) -> Option<(usize, RootVar, usize)> {
        let places: Vec<usize> =
            self.0.lengths_of(path).filter(|len| path.get(*len) == Some(&b'/')).collect();
        // The deepest first.
        places.into_iter().rev().find_map(|place| {
            let rooted = roots.split(&path[place..])?;
            (!rooted.var.is_cgroup()).then_some((place, rooted.var, path.len() - rooted.rest.len()))
        })
    }
}
