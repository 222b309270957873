//! The processes of a run as trees: who is whose child. Pure.

use std::collections::BTreeMap;

use crate::evidence::ProcessFacts;

/// Who is whose child, by places in the list of processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forest {
    /// Those without a parent in the list.
    pub roots: Vec<usize>,
    /// The children of each that has some, in order of birth.
    pub children: BTreeMap<usize, Vec<usize>>,
}

impl Forest {
    /// Of processes in order of birth.
    pub fn of(processes: &[ProcessFacts]) -> Self {
        let mut forest = Self::default();
        let mut latest: BTreeMap<u32, usize> = BTreeMap::new();
        for (at, process) in processes.iter().enumerate() {
            // Ids come back: the parent is the latest process of that id born before.
            match latest.get(&process.ppid) {
                Some(&parent) if process.ppid != 0 => forest.children.entry(parent).or_default().push(at),
                _ => forest.roots.push(at),
            }
            latest.insert(process.pid, at);
        }
        forest
    }
}

/// The end of a process, where it was not an ordinary one.
pub fn ended(status: Option<i32>) -> String {
    match status {
        Some(0) | None => String::new(),
        Some(status) if status.trailing_zeros() >= 7 => format!(" — exit {}", (status >> 8) & 0xff),
        Some(status) => format!(" — signal {}", status & 0x7f),
    }
}
