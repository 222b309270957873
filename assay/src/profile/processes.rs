//! The processes of a run as its own record tells them: who is whose child, what each ran, how it ended. Pure.

use std::collections::HashMap;

use super::volatile::is_word_of;
use super::words::{Words, length};
use crate::observe::observation::{Act, CallResult, Observation, PathRef};

/// One process.
#[derive(Debug, Clone)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its parent's id, 0 for the command itself.
    pub ppid: u32,
    /// What it ran: the file and the arguments.
    pub programs: Vec<(PathRef, Vec<Vec<u8>>)>,
    /// How it ended, as wait(2) tells it.
    pub status: Option<i32>,
    /// When it was first seen, in nanoseconds since the command's first instruction.
    pub began_ns: u64,
    /// When it ended, likewise.
    pub ended_ns: Option<u64>,
}

/// The processes and threads of a run.
#[derive(Debug)]
pub struct ProcessTable {
    processes: Vec<Process>,
    /// The latest process with this id.
    latest: HashMap<u32, usize>,
    /// Every thread id ever used, and its process.
    tasks: HashMap<u32, u32>,
    root_pid: u32,
    last_tid: u32,
    argument_bytes: usize,
    /// The tables of many arguments, by process and how many programs it has run, and of how many bytes they are.
    words: HashMap<(usize, usize), Words>,
    words_of: usize,
    /// Processes that are not in the tree because it was full.
    pub untold: u64,
    /// Programs started.
    pub execs: u64,
    /// Threads made beside processes.
    pub threads: u64,
}

/// The most processes told in the tree.
const MAX_PROCESSES: usize = 200_000;
/// The most argument bytes kept for it.
const MAX_ARGUMENT_BYTES: usize = 64 << 20;
/// Tables are kept of so many bytes of arguments, a few commands as long as a system takes; then of the next ones.
const MAX_WORDS_OF: usize = 16 << 20;

impl ProcessTable {
    /// A table that knows the command's process.
    pub fn new(root_pid: u32) -> Self {
        let mut table = Self {
            processes: Vec::new(),
            latest: HashMap::new(),
            tasks: HashMap::new(),
            root_pid,
            last_tid: 0,
            argument_bytes: 0,
            words: HashMap::new(),
            words_of: 0,
            untold: 0,
            execs: 0,
            threads: 0,
        };
        table.born(root_pid, 0, 0);
        table
    }

    /// Takes what an observation says about processes.
    pub fn see(&mut self, observation: &Observation) {
        if observation.tid != self.last_tid {
            self.last_tid = observation.tid;
            if !self.latest.contains_key(&observation.pid) {
                self.born(observation.pid, observation.ppid, observation.t_ns);
            }
            self.tasks.insert(observation.tid, observation.pid);
        }
        match &observation.act {
            Act::Fork { child_pid, child_tid } => {
                if child_pid == child_tid {
                    self.born(*child_pid, observation.pid, observation.t_ns);
                } else {
                    self.threads += 1;
                    self.tasks.insert(*child_tid, *child_pid);
                }
            }
            Act::Exec(act) if observation.result == CallResult::Ok => {
                self.execs += 1;
                let bytes = act.path.bytes.len() + act.argv.iter().map(Vec::len).sum::<usize>();
                self.argument_bytes += bytes;
                if let Some(&index) = self.latest.get(&observation.pid) {
                    let is_told = self.argument_bytes <= MAX_ARGUMENT_BYTES;
                    let argv = if is_told { act.argv.clone() } else { Vec::new() };
                    self.processes[index].programs.push((act.path.clone(), argv));
                }
            }
            Act::Exit { status } if observation.pid == observation.tid => {
                if let Some(&index) = self.latest.get(&observation.pid) {
                    self.processes[index].status = Some(*status);
                    self.processes[index].ended_ns = Some(observation.t_ns);
                }
            }
            _ => {}
        }
    }

    fn born(&mut self, pid: u32, parent: u32, began_ns: u64) {
        self.tasks.insert(pid, pid);
        if self.processes.len() >= MAX_PROCESSES {
            self.untold += 1;
            self.latest.remove(&pid);
            return;
        }
        let parent = if pid == self.root_pid { 0 } else { parent };
        // A fork can be seen after the child's first act.
        if let Some(&index) = self.latest.get(&pid)
            && self.processes[index].status.is_none()
        {
            if self.processes[index].ppid == 0 {
                self.processes[index].ppid = parent;
            }
            self.processes[index].began_ns = self.processes[index].began_ns.min(began_ns);
            return;
        }
        self.latest.insert(pid, self.processes.len());
        self.processes.push(Process {
            pid,
            ppid: parent,
            programs: Vec::new(),
            status: None,
            began_ns,
            ended_ns: None,
        });
    }

    /// What the process runs now, or did `back` programs ago; of one that has run none, what its parent ran. With the
    /// number of programs it has run.
    pub fn program_of(&self, pid: u32, back: usize) -> (Option<&PathRef>, usize) {
        let Some(&first) = self.latest.get(&pid) else { return (None, 0) };
        let count = self.processes[first].programs.len().saturating_sub(back);
        let (mut index, mut left) = (first, count);
        // A chain of parents is no longer than this, and ids that came back could close a ring.
        for _ in 0..64 {
            let process = &self.processes[index];
            if let Some((path, _)) = left.checked_sub(1).and_then(|last| process.programs.get(last)) {
                return (Some(path), count);
            }
            let Some(&above) = self.latest.get(&process.ppid) else { break };
            (index, left) = (above, self.processes[above].programs.len());
        }
        (None, count)
    }

    /// Whether the program that the process started last was given the last name of `path`, so that it did not draw it.
    pub fn was_told(&mut self, pid: u32, path: &PathRef) -> bool {
        let name = path.bytes.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let Some(&index) = self.latest.get(&pid) else { return false };
        let programs = &self.processes[index].programs;
        let Some((_, argv)) = programs.last().filter(|_| !name.is_empty()) else { return false };
        let key = (index, programs.len());
        if !self.words.contains_key(&key) {
            let len = length(argv);
            if self.words_of + len > MAX_WORDS_OF {
                self.words.clear();
                self.words_of = 0;
            }
            if let Some(words) = Words::of(argv) {
                self.words_of += len;
                self.words.insert(key, words);
            }
        }
        match self.words.get(&key) {
            Some(words) => words.have(argv, name),
            None => argv.iter().any(|argument| is_word_of(argument, name)),
        }
    }

    /// Whether `id` was a process or thread of the run.
    pub fn is_task(&self, id: u32) -> bool {
        self.tasks.contains_key(&id)
    }

    /// The processes, in order of birth.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.processes.len() as u64 + self.untold
    }

    /// Whether `id` is one of `actors` (tasks), a process above one of them, or a child of one of them.
    pub fn is_related(&self, id: u32, actors: &[u32]) -> bool {
        if !self.is_task(id) {
            return false;
        }
        let process_of = |task: u32| self.tasks.get(&task).copied().unwrap_or(task);
        let parent_of = |pid: u32| self.latest.get(&pid).map_or(0, |&index| self.processes[index].ppid);
        actors.iter().filter(|actor| **actor != 0).any(|&actor| {
            let mut above = process_of(actor);
            // A chain of parents is no longer than this, and ids that came back could close a ring.
            for _ in 0..64 {
                if id == actor || id == above {
                    return true;
                }
                if above == 0 {
                    break;
                }
                above = parent_of(above);
            }
            parent_of(process_of(id)) == process_of(actor)
        })
    }
}
