//! The paths of a run and what became of them: made by the run, moved, gone at its end. Pure.
//!
//! Every path is kept once, under a small number; what happens to it later only changes a few flags. What the flags
//! mean does not depend on the order in which independent processes were seen.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use hashbrown::HashTable;

use crate::observe::observation::{PathRef, PathState};

use super::drawn::is_drawn_by;
use super::effort::looked_at;

/// The number of a path in its [`PathTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// How a path came to be there, when the run made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MadeAs {
    /// A file: open, mknod, bind.
    File,
    /// A directory.
    Directory,
    /// A symbolic or hard link, or a rename of something else: the act that made it tells of it.
    OtherName,
}

/// Where a path was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// Nowhere.
    No,
    /// By rename, or by link and unlink, always to this one.
    To(PathId),
    /// To several.
    Various,
}

/// What happened to one path.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts, each asked for by name")]
pub struct PathLife {
    /// How the bytes are to be read.
    pub state: PathState,
    /// The run made it, and before that nothing showed that it was there.
    pub made: Option<MadeAs>,
    /// It was used before the run made it, or without.
    pub was_there: bool,
    /// The last act on its name did not remove it.
    pub is_alive: bool,
    /// A write to it was refused.
    pub was_refused: bool,
    /// It was made as mkstemp and mkdtemp do: for its owner alone, a file for reading and writing.
    pub is_made_private: bool,
    /// The program that did so calls the files so that it draws names for.
    pub is_drawn_by_maker: bool,
    /// Where it went.
    pub moved: Moved,
    /// Linked to under this name; becomes a move when the old name goes.
    linked: Moved,
    /// Tasks that made it or tried to: up to four, which is enough to recognise an id in its name.
    pub actors: [u32; 4],
}

/// All paths of a run.
#[derive(Debug, Default)]
pub struct PathTable {
    /// The bytes of all of them, one after the other.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    lives: Vec<PathLife>,
    numbers: HashTable<PathId>,
    hasher: RandomState,
}

/// Where a path's bytes are, and what they hash to.
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    len: u32,
    /// How the bytes are to be read; one value for all that name a place in the file tree.
    state: PathState,
    hash: u64,
}

/// How many bytes of distinct names are kept. A run with more is told with a gap.
const MAX_NAME_BYTES: usize = 1 << 30;
/// Hashes are made of pieces of a path that are not shorter than this, so that most paths are one.
const PIECE: usize = 128;

impl PathTable {
    /// The number of `path`, or `None` when the table is full.
    pub fn intern(&mut self, path: &PathRef) -> Option<PathId> {
        let is_named = path.bytes.first() == Some(&b'/')
            && matches!(
                path.state,
                PathState::Resolved | PathState::LookedUpLate | PathState::Unverified | PathState::Lexical
            );
        let state = if is_named { PathState::Resolved } else { path.state };
        let hash = self.hash(&path.bytes);
        if let Some(known) = self.look_up(hash, state, &path.bytes) {
            return Some(known);
        }
        let len = u32::try_from(path.bytes.len()).ok()?;
        if self.bytes.len() + path.bytes.len() > MAX_NAME_BYTES || self.lives.len() >= 1 << 28 {
            return None;
        }
        let id = PathId(self.lives.len() as u32);
        self.entries.push(Entry { start: self.bytes.len(), len, state, hash });
        self.bytes.extend_from_slice(&path.bytes);
        let entries = &self.entries;
        self.numbers.insert_unique(hash, id, |id| entries[id.0 as usize].hash);
        self.lives.push(PathLife {
            state,
            made: None,
            was_there: false,
            is_alive: true,
            was_refused: false,
            is_made_private: false,
            is_drawn_by_maker: false,
            moved: Moved::No,
            linked: Moved::No,
            actors: [0; 4],
        });
        Some(id)
    }

    fn look_up(&self, hash: u64, state: PathState, bytes: &[u8]) -> Option<PathId> {
        looked_at(1);
        let is_it = |id: &PathId| {
            let entry = self.entries[id.0 as usize];
            entry.hash == hash && entry.state == state && is_equal(self.bytes(*id), bytes)
        };
        self.numbers.find(hash, is_it).copied()
    }

    /// The number of an absolute path, if it was ever seen.
    pub fn find(&self, path: &[u8]) -> Option<PathId> {
        self.look_up(self.hash(path), PathState::Resolved, path)
    }

    /// Its bytes.
    pub fn bytes(&self, id: PathId) -> &[u8] {
        let Entry { start, len, .. } = self.entries[id.0 as usize];
        &self.bytes[start..start + len as usize]
    }

    /// All of them, by number.
    pub fn ids(&self) -> impl Iterator<Item = PathId> + use<> {
        (0..self.lives.len() as u32).map(PathId)
    }

    /// What happened to `id`.
    pub fn life(&self, id: PathId) -> &PathLife {
        &self.lives[id.0 as usize]
    }

    fn life_mut(&mut self, id: PathId) -> &mut PathLife {
        &mut self.lives[id.0 as usize]
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.lives.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }

    /// `id` was used as something that is there.
    pub fn used(&mut self, id: PathId) {
        let life = self.life_mut(id);
        life.was_there |= life.made.is_none();
    }

    /// `id` was made by task `tid` of process `pid`.
    pub fn made(&mut self, id: PathId, how: MadeAs, by: (u32, u32)) {
        let life = self.life_mut(id);
        if life.made.is_none() && !life.was_there {
            life.made = Some(how);
        }
        life.is_alive = true;
        life.add_actors(by);
    }

    /// `id` was made as mkstemp and mkdtemp do, by `program` if that is known.
    pub fn made_private(&mut self, id: PathId, program: Option<&PathRef>) {
        let name = self.bytes(id).rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let is_drawn = program.is_some_and(|program| is_drawn_by(&program.bytes, name));
        let life = self.life_mut(id);
        life.is_made_private = true;
        life.is_drawn_by_maker |= is_drawn;
    }

    /// Writing to `id` was refused to task `tid` of process `pid`.
    pub fn refused(&mut self, id: PathId, by: (u32, u32)) {
        let life = self.life_mut(id);
        life.was_refused = true;
        life.add_actors(by);
    }

    /// The name `id` was removed.
    pub fn deleted(&mut self, id: PathId) {
        self.used(id);
        let life = self.life_mut(id);
        life.is_alive = false;
        match life.linked {
            Moved::No => {}
            Moved::To(target) => life.moved = life.moved.and(target),
            Moved::Various => life.moved = Moved::Various,
        }
    }

    /// `from`, whose bytes these are, was renamed to `to`.
    pub fn renamed(&mut self, from: PathId, from_bytes: &[u8], to: PathId, by: (u32, u32)) {
        self.used(from);
        if self.is_made_here(from, from_bytes) {
            self.made(to, MadeAs::OtherName, by);
        } else {
            self.used(to);
            self.life_mut(to).is_alive = true;
        }
        let life = self.life_mut(from);
        life.is_alive = false;
        life.moved = life.moved.and(to);
    }

    /// `to` was made as another name of `from`.
    pub fn linked(&mut self, from: PathId, to: PathId, by: (u32, u32)) {
        self.used(from);
        self.made(to, MadeAs::OtherName, by);
        let life = self.life_mut(from);
        life.linked = life.linked.and(to);
    }

    /// Whether the run made this path, or a directory above it. (A path beneath a directory that the run moved
    /// here has no life of its own.)
    fn is_made_here(&self, id: PathId, bytes: &[u8]) -> bool {
        if self.life(id).made.is_some() {
            return true;
        }
        // From the top, so that the hash of each directory goes on from that of one not far above it.
        let (mut hasher, mut begun) = (self.hasher.build_hasher(), 0);
        for end in memchr::memchr_iter(b'/', bytes).filter(|end| *end > 0) {
            let piece = &bytes[begun..end];
            looked_at(piece.len());
            let mut whole = hasher.clone();
            whole.write(piece);
            let is_made = self.look_up(whole.finish(), PathState::Resolved, &bytes[..end]);
            if is_made.is_some_and(|id| self.life(id).made.is_some()) {
                return true;
            }
            if piece.len() >= PIECE {
                (hasher, begun) = (whole, end);
            }
        }
        false
    }

    /// In pieces, each of which ends before a slash.
    fn hash(&self, path: &[u8]) -> u64 {
        looked_at(path.len());
        let mut hasher = self.hasher.build_hasher();
        let mut rest = path;
        while let Some(slash) = rest.get(PIECE..).and_then(|rest| memchr::memchr(b'/', rest)) {
            let (piece, more) = rest.split_at(PIECE + slash);
            hasher.write(piece);
            rest = more;
        }
        hasher.write(rest);
        hasher.finish()
    }
}

fn is_equal(one: &[u8], other: &[u8]) -> bool {
    looked_at(other.len());
    one == other
}

impl Moved {
    fn and(self, to: PathId) -> Self {
        match self {
            Self::No => Self::To(to),
            Self::To(already) if already == to => self,
            Self::To(_) | Self::Various => Self::Various,
        }
    }
}

impl PathLife {
    fn add_actors(&mut self, (pid, tid): (u32, u32)) {
        for actor in [pid, tid] {
            if actor != 0
                && !self.actors.contains(&actor)
                && let Some(free) = self.actors.iter_mut().find(|slot| **slot == 0)
            {
                *free = actor;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// Wherever the pieces of a path end, what is made above it is found.
        #[test]
        fn a_directory_that_was_made_is_found_above_any_path(
            names in proptest::collection::vec("[a-z]{0,90}", 1..12),
            made: usize,
            more in proptest::collection::vec("[a-z]{1,90}", 1..4),
        ) {
            let path = format!("/d{}", names.join("/d"));
            let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]).collect();
            let above = &path[..ends[made % ends.len()]];
            let below = format!("{path}/{}", more.join("/"));
            for (what, is_made) in [(above, true), (&format!("{above}x"), false)] {
                let mut table = PathTable::default();
                let id = table.intern(&PathRef::resolved(what)).expect("room");
                let file = table.intern(&PathRef::resolved(below.as_str())).expect("room");
                proptest::prop_assert_eq!(table.find(what.as_bytes()), Some(id));
                proptest::prop_assert!(!table.is_made_here(file, below.as_bytes()));
                table.made(id, MadeAs::Directory, (1, 1));
                proptest::prop_assert_eq!(table.is_made_here(file, below.as_bytes()), is_made);
            }
        }
    }
}
