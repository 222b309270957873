//! Who is whose child: fed by events, asked by `resolve`. Pure.

use std::collections::{HashMap, HashSet};

/// The processes of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessTable {
    parents: HashMap<u32, u32>,
    /// Those that ended: their numbers may be others' by now.
    ended: HashSet<u32>,
    born: u64,
}

impl ProcessTable {
    /// A process was made. Threads are of their process.
    pub fn fork(&mut self, parent: u32, pid: u32, tid: u32) {
        if pid == tid {
            self.born += 1;
            self.parents.insert(pid, parent);
            self.ended.remove(&pid);
        }
    }

    /// A task ended, and a process with its first. Where other threads of it live on, it counts as ended all the same:
    /// what is done to it then is told as done to another's, which says too much rather than too little.
    pub fn exit(&mut self, pid: u32, tid: u32) {
        if pid == tid && self.parents.contains_key(&pid) {
            self.ended.insert(pid);
        }
    }

    /// A program started in a process; the kernel said who its parent is.
    pub fn exec(&mut self, pid: u32, parent: u32) {
        // A thread that starts a program takes the number of the first, which ends before.
        self.ended.remove(&pid);
        self.parents.entry(pid).or_insert_with(|| {
            self.born += 1;
            parent
        });
    }

    /// The parent a process was born of, or 0.
    pub fn parent_of(&self, pid: u32) -> u32 {
        self.parents.get(&pid).copied().unwrap_or(0)
    }

    /// Whether a process is or was one of the run's.
    pub fn contains(&self, pid: u32) -> bool {
        self.parents.contains_key(&pid)
    }

    /// Whether the process that has this number now is one of the run's.
    pub fn is_alive(&self, pid: u32) -> bool {
        self.contains(pid) && !self.ended.contains(&pid)
    }

    /// Processes seen so far.
    pub fn born(&self) -> u64 {
        self.born
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_runs_until_its_process_ends_and_again_when_another_gets_it() {
        let mut table = ProcessTable::default();
        table.exec(7, 1);
        table.fork(7, 8, 8);
        table.fork(8, 8, 9);
        assert!(table.is_alive(7) && table.is_alive(8) && !table.is_alive(9));
        table.exit(8, 9);
        assert!(table.is_alive(8), "a thread is no process");
        table.exit(8, 8);
        assert!(!table.is_alive(8), "anybody may have the number");
        assert!(table.contains(8));
        table.fork(7, 8, 8);
        assert!(table.is_alive(8));
        // A thread of it starts a program: the first ends, and gives it its number.
        table.exit(8, 8);
        table.exec(8, 7);
        assert!(table.is_alive(8));
        table.exit(55, 55);
        assert!(!table.is_alive(55) && !table.contains(55));
    }
}
