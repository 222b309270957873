//! Who is whose child: fed by events, asked by `resolve`. Pure.

use std::collections::HashMap;

/// The processes of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessTable {
    parents: HashMap<u32, u32>,
    born: u64,
}

impl ProcessTable {
    /// A process was made. Threads are of their process.
    pub fn fork(&mut self, parent: u32, pid: u32, tid: u32) {
        if pid == tid {
            self.born += 1;
            self.parents.insert(pid, parent);
        }
    }

    /// A program started in a process; the kernel said who its parent is.
    pub fn exec(&mut self, pid: u32, parent: u32) {
        self.parents.entry(pid).or_insert_with(|| {
            self.born += 1;
            parent
        });
    }

    /// The parent a process was born of, or 0.
    pub fn parent_of(&self, pid: u32) -> u32 {
        self.parents.get(&pid).copied().unwrap_or(0)
    }

    /// Whether a process is one of the run's.
    pub fn contains(&self, pid: u32) -> bool {
        self.parents.contains_key(&pid)
    }

    /// Processes seen so far.
    pub fn born(&self) -> u64 {
        self.born
    }
}
