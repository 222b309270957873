//! Holds what the second witness saw at the hooks of the kernel's security modules against what the first told. Pure.
//!
//! Each act is compared by its kind and its name, whoever did it and however often. What a hook let pass must have been told,
//! whatever came of it, for it may have failed afterwards; and what was told as done must have passed its hook. The two know a
//! name by different means: the second is given the kernel's own entries, the first resolves strings again.

use std::collections::{BTreeMap, BTreeSet};

use assay_common::hooks::Hook;

use super::event::{Event, Witness};
use super::loss::{Kind, LossLedger};

mod judgement;
mod names;
#[cfg(test)]
mod tests;

pub use judgement::{Comparison, WitnessCounts, judge};

/// What names may take in memory. A run with more of them is not compared, and says so.
const ROOM: usize = 48 * 1024 * 1024;
/// What a name takes besides its bytes.
const OVERHEAD: usize = 96;

/// An act as both know it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    hook: Hook,
    /// The name; of two names, a NUL between them.
    name: Vec<u8>,
}

/// What the second witness saw of one act.
#[derive(Debug, Clone, Copy)]
struct Passed {
    /// When last.
    t_ns: u64,
    pid: u32,
    file: FileId,
}

/// What the first told of one act.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    /// Whether it was done at least once.
    is_done: bool,
    /// The file it then was done to, where that is known.
    file: FileId,
}

/// A file by device and number; zeros for none.
type FileId = (u32, u64);

/// A call that failed before the kernel could be asked for where it went: it is known by its last name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Failed {
    hook: Hook,
    pid: u32,
    last: Vec<u8>,
}

/// Both sides of one run.
#[derive(Debug, Clone, Default)]
pub struct Witnesses {
    told: BTreeMap<Key, Told>,
    passed: BTreeMap<Key, Passed>,
    opened: BTreeSet<FileId>,
    passed_open: BTreeSet<FileId>,
    failed: BTreeSet<Failed>,
    /// Kinds of which the first told an act without a whole name, which its record admits.
    without_name: BTreeSet<Hook>,
    /// Kinds of which the first presumes an act that it did not see the end of, which its record admits.
    presumed: BTreeSet<Hook>,
    bytes: usize,
    records: u64,
}

impl Witnesses {
    /// A hook was passed.
    pub fn see(&mut self, event: &Event, witness: &Witness) {
        self.records += 1;
        let Some(name) = names::of_witness(event, witness) else { return };
        let file = witness.file.map_or((0, 0), |file| (file.dev, file.ino));
        if witness.hook == Hook::Open {
            self.make_room(OVERHEAD);
            self.passed_open.insert(file);
        }
        let passed = Passed { t_ns: event.t_ns, pid: event.pid, file };
        let key = Key { hook: witness.hook, name };
        if let Some(known) = self.passed.get_mut(&key) {
            *known = passed;
        } else if self.make_room(OVERHEAD + key.name.len()) {
            self.passed.insert(key, passed);
        }
    }

    /// An act was told.
    fn tell(&mut self, hook: Hook, name: Vec<u8>, told: Told) {
        let key = Key { hook, name };
        if let Some(known) = self.told.get_mut(&key) {
            if told.is_done {
                *known = told;
            }
        } else if self.make_room(OVERHEAD + key.name.len()) {
            self.told.insert(key, told);
        }
    }

    /// A call failed that may have passed a hook.
    fn fail(&mut self, hook: Hook, pid: u32, path: &[u8]) {
        let last = last_of(path).to_vec();
        if self.make_room(OVERHEAD + last.len()) {
            self.failed.insert(Failed { hook, pid, last });
        }
    }

    fn make_room(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        self.bytes <= ROOM
    }

    /// Holds the one against the other, from the start of the command.
    pub fn compare(&self, started_at_ns: u64) -> Comparison {
        let mut comparison = Comparison {
            records: self.records,
            // The start of the command itself passes one.
            is_awake: self.passed.keys().any(|key| key.hook == Hook::Exec),
            is_whole: self.bytes <= ROOM,
            ..Comparison::default()
        };
        for (key, passed) in self.passed.iter().filter(|(_, passed)| passed.t_ns >= started_at_ns) {
            if self.was_told(key, passed) {
                comparison.agreed += 1;
            } else if self.without_name.contains(&key.hook) {
                comparison.unchecked += 1;
            } else {
                comparison.second_only.push((kind_of(key.hook), shown(key)));
            }
        }
        for (key, told) in self.told.iter().filter(|(_, told)| told.is_done) {
            if !self.has_passed(key, *told) && !self.presumed.contains(&key.hook) {
                comparison.first_only.push((kind_of(key.hook), shown(key)));
            }
        }
        comparison
    }

    fn has_passed(&self, key: &Key, told: Told) -> bool {
        // See `was_told`.
        let is_opened =
            key.hook == Hook::Open && told.file != (0, 0) && self.passed_open.contains(&told.file);
        is_opened || self.passed.contains_key(key)
    }

    fn was_told(&self, key: &Key, passed: &Passed) -> bool {
        // A file whose name changed while it was opened is known by itself.
        let is_opened = key.hook == Hook::Open && passed.file != (0, 0) && self.opened.contains(&passed.file);
        if is_opened || self.told.contains_key(key) {
            return true;
        }
        let last = last_of(&key.name).to_vec();
        self.failed.contains(&Failed { hook: key.hook, pid: passed.pid, last })
    }
}

/// The last name of a path.
fn last_of(path: &[u8]) -> &[u8] {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// The kind of coverage that an act belongs to.
fn kind_of(hook: Hook) -> Kind {
    match hook {
        Hook::Exec => Kind::Exec,
        Hook::Connect | Hook::Bind | Hook::Listen | Hook::Send => Kind::Net,
        Hook::Open
        | Hook::Unlink
        | Hook::Rmdir
        | Hook::Mkdir
        | Hook::Mknod
        | Hook::Rename
        | Hook::Link
        | Hook::Symlink
        | Hook::Truncate
        | Hook::Chmod
        | Hook::Chown => Kind::Fs,
    }
}

/// For a person.
fn shown(key: &Key) -> String {
    let name = String::from_utf8_lossy(&key.name).replace('\0', " -> ");
    format!("{} {name}", key.hook.as_str())
}

/// Admits what the two disagree about.
pub fn admit(ledger: &mut LossLedger, who: &str, acts: &[(Kind, String)]) {
    /// What is named of each kind; more of the same helps nobody.
    const NAMED: usize = 20;
    for kind in Kind::ALL {
        let of_kind = || acts.iter().filter(|(other, _)| *other == kind);
        for (_, act) in of_kind().take(NAMED) {
            ledger.admit(kind, DISAGREES, format!("{who}: {act}"));
        }
        let more = of_kind().count().saturating_sub(NAMED);
        if more > 0 {
            ledger.admit(kind, DISAGREES, format!("{who}: {more} more"));
        }
    }
}

/// The reason that stands in the coverage.
pub const DISAGREES: &str = "witness-disagrees";
