//! The accesses that one rule grants: a set without a place in memory of its own, because there may be a rule for every name
//! of a run. Pure.

use super::wire::Grant;

/// A set of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GrantSet(u8);

impl GrantSet {
    /// None.
    pub const fn new() -> Self {
        Self(0)
    }

    fn bit(grant: Grant) -> u8 {
        1 << grant as u8
    }

    /// Whether one is in it.
    pub fn contains(self, grant: Grant) -> bool {
        self.0 & Self::bit(grant) != 0
    }

    /// Puts one into it.
    pub fn insert(&mut self, grant: Grant) {
        self.0 |= Self::bit(grant);
    }

    /// Puts all of another one into it.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether every access is in it.
    pub fn is_all(self) -> bool {
        Grant::ALL.into_iter().all(|grant| self.contains(grant))
    }

    /// Whether nothing is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of it is in another one.
    pub fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Those in it, in order.
    pub fn iter(self) -> impl Iterator<Item = Grant> {
        Grant::ALL.into_iter().filter(move |grant| self.contains(*grant))
    }
}

impl Extend<Grant> for GrantSet {
    fn extend<I: IntoIterator<Item = Grant>>(&mut self, grants: I) {
        grants.into_iter().for_each(|grant| self.insert(grant));
    }
}

impl FromIterator<Grant> for GrantSet {
    fn from_iter<I: IntoIterator<Item = Grant>>(grants: I) -> Self {
        let mut set = Self::new();
        set.extend(grants);
        set
    }
}

impl<const N: usize> From<[Grant; N]> for GrantSet {
    fn from(grants: [Grant; N]) -> Self {
        grants.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(one in prop::collection::vec(0..4usize, 0..6), other in prop::collection::vec(0..4usize, 0..6)) {
            let grants = |numbers: &[usize]| numbers.iter().map(|at| Grant::ALL[*at]).collect::<Vec<_>>();
            let (one, other) = (grants(&one), grants(&other));
            let set: GrantSet = one.iter().copied().collect();
            let known: BTreeSet<Grant> = one.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), known.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.is_empty(), known.is_empty());
            prop_assert!(Grant::ALL.into_iter().all(|grant| set.contains(grant) == known.contains(&grant)));
            let others: BTreeSet<Grant> = other.iter().copied().collect();
            prop_assert_eq!(set.is_subset(other.into_iter().collect()), known.is_subset(&others));
        }
    }
}
