//! The content hashes of a bundle, by half, to ask whether another bundle's events are among them. Pure.

use crate::canon::digest::Digest;

/// Half of a content hash: nobody can make two events whose halves agree, and a million of them take half the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Half(u128);

impl Half {
    /// In the place of a half, where there is none: nobody has found what hashes to zeros.
    pub const NONE: Self = Self(0);

    /// The first half of a hash.
    pub fn of(hash: &Digest) -> Self {
        Self(u128::from_be_bytes(*hash.as_raw().first_chunk().expect("a hash is longer")))
    }

    /// How many drawers a set of halves has.
    const DRAWERS: usize = 1 << 16;

    fn drawer(self) -> usize {
        (self.0 >> (128 - 16)) as usize
    }
}

/// Halves that can be asked for one.
#[derive(Debug, Clone, Default)]
pub struct Halves {
    sorted: Vec<Half>,
    /// Where each drawer of those with the same first bits begins, and where the last one ends. A search among millions
    /// waits for memory at every step; so it takes a step or two.
    starts: Vec<u32>,
}

impl Halves {
    /// Puts them in order.
    pub fn new(mut halves: Vec<Half>) -> Self {
        halves.sort_unstable();
        let mut starts = Vec::with_capacity(Half::DRAWERS + 1);
        for (at, half) in halves.iter().enumerate() {
            let at = u32::try_from(at).expect("a bundle has fewer events");
            while starts.len() <= half.drawer() {
                starts.push(at);
            }
        }
        let end = u32::try_from(halves.len()).expect("a bundle has fewer events");
        starts.resize(Half::DRAWERS + 1, end);
        Self { sorted: halves, starts }
    }

    /// Whether one of them is this.
    pub fn has(&self, half: Half) -> bool {
        let drawer = half.drawer();
        match self.starts.get(drawer..drawer + 2) {
            Some(ends) => self.sorted[ends[0] as usize..ends[1] as usize].binary_search(&half).is_ok(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_and_nothing_else() {
        for count in [0u32, 1, 2, 1000, 70_000] {
            let half = |n: u32| Half::of(&Digest::of(&n.to_le_bytes()));
            let halves = Halves::new((0..count).map(half).collect());
            assert!((0..count).all(|n| halves.has(half(n))), "{count}");
            assert!((count..count + 1000).all(|n| !halves.has(half(n))), "{count}");
        }
        assert!(!Halves::default().has(Half(0)));
    }

    #[test]
    fn the_ends_of_every_drawer_are_found() {
        let ends = |drawer: u128| [drawer << 112, (drawer << 112) | ((1 << 112) - 1)].map(Half);
        for drawers in [vec![0], vec![0xffff], vec![0, 1, 0xfffe, 0xffff], vec![7, 9]] {
            let halves = Halves::new(drawers.iter().copied().flat_map(ends).collect());
            for drawer in [0, 1, 6, 7, 8, 9, 10, 0xfffe, 0xffff] {
                for half in ends(drawer) {
                    assert_eq!(halves.has(half), drawers.contains(&drawer), "{half:x?}");
                }
                assert!(!halves.has(Half((drawer << 112) + 5)));
            }
        }
    }
}
