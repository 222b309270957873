//! Numbers in names that count, and are the id of a process or of the user by chance only. Pure.
//!
//! Whoever makes `part1` to `part400` makes, on one run in a hundred, one that has its own id in it. That this is no id is
//! shown by the names beside it: the same name with other numbers, which are nobody's.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::paths::{PathId, PathLife, PathTable};
use super::processes::ProcessTable;
use super::roots::parent;

/// So many other numbers show that a place in a name counts.
const PROOF: usize = 2;

/// A name with a number left out: its directory, what stands before the number and what stands after it.
type Pattern<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// What is known of a pattern in which an id was found.
#[derive(Default)]
struct Found<'a> {
    /// The paths with an id there, and where in their last name it begins.
    ids: Vec<(PathId, usize)>,
    /// Numbers in its place that are nobody's id; no more than are needed.
    others: BTreeSet<&'a [u8]>,
}

/// The places in names, by path and offset into its last component, where a number counts though it is the id of who made it.
pub(super) fn counting_places(paths: &PathTable, processes: &ProcessTable) -> HashSet<(PathId, usize)> {
    let is_id = |path: PathId, id: u32| processes.is_related(id, &paths.life(path).actors);
    counting(paths, &made, &is_id)
}

/// The same of the user's id, in what the run made or found.
pub(super) fn counting_like_user(paths: &PathTable, user: Option<u32>) -> HashSet<(PathId, usize)> {
    counting(paths, &known, &|_, id| Some(id) == user)
}

fn counting(
    paths: &PathTable,
    is_among: &dyn Fn(&PathLife) -> bool,
    is_id: &dyn Fn(PathId, u32) -> bool,
) -> HashSet<(PathId, usize)> {
    let is_id = |path: PathId, number: &[u8]| as_id(number).is_some_and(|id| is_id(path, id));
    let among = || paths.ids().filter(|path| is_among(paths.life(*path)));
    let mut found: HashMap<Pattern<'_>, Found<'_>> = HashMap::new();
    for path in among() {
        for (pattern, number) in numbers(paths.bytes(path)) {
            if is_id(path, number) {
                found.entry(pattern).or_default().ids.push((path, pattern.1.len()));
            }
        }
    }
    if found.is_empty() {
        return HashSet::new();
    }
    let directories: HashSet<&[u8]> = found.keys().map(|(directory, ..)| *directory).collect();
    for path in among().filter(|path| directories.contains(parent(paths.bytes(*path)))) {
        for (pattern, number) in numbers(paths.bytes(path)) {
            if let Some(found) = found.get_mut(&pattern)
                && found.others.len() < PROOF
                && !is_id(path, number)
            {
                found.others.insert(number);
            }
        }
    }
    found.into_values().filter(|found| found.others.len() >= PROOF).flat_map(|found| found.ids).collect()
}

/// The number as an id would be printed: without a zero in front.
pub(super) fn as_id(number: &[u8]) -> Option<u32> {
    if number.len() > 10 || number.first() == Some(&b'0') {
        return None;
    }
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// What the run made, or was refused to.
fn made(life: &PathLife) -> bool {
    life.made.is_some() || life.was_refused
}

/// That, and what it used.
fn known(life: &PathLife) -> bool {
    made(life) || life.was_there
}

/// Every number in the last name of a path, and the pattern around it.
fn numbers(path: &[u8]) -> impl Iterator<Item = (Pattern<'_>, &[u8])> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let directory = parent(path);
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let mut at = 0;
    std::iter::from_fn(move || {
        at += name[at..].iter().position(u8::is_ascii_digit)?;
        let start = at;
        at += name[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        Some(((directory, &name[..start], &name[at..]), &name[start..at]))
    })
}
