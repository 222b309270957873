//! The processes of a run: by its control group, or without one by descent from us.
//!
//! By descent is the weaker net: it needs us to be who orphans come to, and what forks faster than we look can
//! outrun a signal. It is for callers who may not make a group.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;

use rustix::process::{Pid, WaitId, WaitIdOptions};

use super::cgroup::Group;
use super::signals;

/// How often all that is found is killed before we give up.
const MAX_ROUNDS: u32 = 100;

/// Where the processes of a run are found.
#[derive(Debug)]
pub enum Members {
    /// In its group.
    Group(Group),
    /// Among our descendants.
    Descent(Descent),
}

/// Our descendants but for our own helpers.
#[derive(Debug)]
pub struct Descent {
    helpers: Vec<u32>,
    /// The command: its end is waited for by who started it.
    command: Cell<Option<u32>>,
}

impl Descent {
    /// From now on orphans of the run come to us instead of to init. `helpers` are not of the run.
    pub fn claim(helpers: Vec<u32>) -> io::Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        Ok(Self { helpers, command: Cell::new(None) })
    }

    /// Every living process of the run, and the dead ones that wait for us.
    fn look(&self) -> (Vec<u32>, Vec<u32>) {
        let ourselves = std::process::id();
        let table = process_table();
        let is_of_the_run = |pid: u32| {
            let mut at = pid;
            // Bounded, since the table was not read in one instant and could hold a circle.
            for _ in 0..table.len() {
                if self.helpers.contains(&at) {
                    return false;
                }
                match table.get(&at) {
                    Some((parent, _)) if *parent == ourselves => return true,
                    Some((parent, _)) => at = *parent,
                    None => return false,
                }
            }
            false
        };
        let (dead, living): (Vec<_>, Vec<_>) =
            table.iter().filter(|(pid, _)| is_of_the_run(**pid)).partition(|(_, (_, is_dead))| *is_dead);
        let ours = dead.into_iter().filter(|(_, (parent, _))| *parent == ourselves);
        (living.into_iter().map(|(pid, _)| *pid).collect(), ours.map(|(pid, _)| *pid).collect())
    }
}

impl Members {
    /// Tells which process is the command.
    pub fn expect_command(&self, pid: u32) {
        if let Self::Descent(descent) = self {
            descent.command.set(Some(pid));
        }
    }

    /// Every living process.
    pub fn list(&self) -> Vec<u32> {
        match self {
            Self::Group(group) => group.members(),
            Self::Descent(descent) => descent.look().0,
        }
    }

    /// Whether any is alive.
    pub fn is_populated(&self) -> bool {
        match self {
            Self::Group(group) => group.is_populated(),
            Self::Descent(_) => !self.list().is_empty(),
        }
    }

    /// Whether process `pid` is one of them.
    pub fn has(&self, pid: u32) -> bool {
        match self {
            Self::Group(group) => group.is_member(pid),
            Self::Descent(descent) => descent.look().0.contains(&pid),
        }
    }

    /// Sends signal `number` to every one.
    pub fn signal(&self, number: i32) {
        for pid in self.list() {
            // One that may not be signalled is left for `kill`.
            drop(signals::send(pid, number));
        }
    }

    /// Kills every one.
    pub fn kill(&self) {
        match self {
            Self::Group(group) => group.kill(),
            Self::Descent(_) => {
                for _ in 0..MAX_ROUNDS {
                    if self.list().is_empty() {
                        return;
                    }
                    self.signal(libc::SIGKILL);
                }
            }
        }
    }

    /// Lets them run on without us. True when they do.
    pub fn release(&self) -> bool {
        match self {
            Self::Group(group) => group.release(),
            // They go to init when we end.
            Self::Descent(_) => true,
        }
    }

    /// Waits for orphans that came to us and have ended, as init would have.
    pub fn reap(&self) {
        let Self::Descent(descent) = self else { return };
        let command = descent.command.get();
        for pid in descent.look().1.into_iter().filter(|pid| Some(*pid) != command) {
            if let Some(pid) = Pid::from_raw(pid as i32) {
                rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).ok();
            }
        }
    }
}

/// Every process: its parent, and whether it is dead.
fn process_table() -> BTreeMap<u32, (u32, bool)> {
    let read = |pid: u32| {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may hold anything; the state and the parent follow the last one.
        let after = stat.iter().rposition(|byte| *byte == b')')? + 2;
        let mut fields = std::str::from_utf8(stat.get(after..)?).ok()?.split(' ');
        let is_dead = matches!(fields.next()?, "Z" | "X");
        Some((pid, (fields.next()?.parse().ok()?, is_dead)))
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_a_member_and_a_helper_is_not() {
        let start = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (mut child, mut helper) = (start(), start());
        let descent = Descent { helpers: vec![helper.id()], command: Cell::new(None) };
        let members = Members::Descent(descent);
        assert!(members.has(child.id()));
        assert!(!members.has(helper.id()));
        assert!(!members.has(std::process::id()));
        assert!(!members.has(1));
        for process in [&mut child, &mut helper] {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        assert!(!members.has(child.id()));
    }
}
