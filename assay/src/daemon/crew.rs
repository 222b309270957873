//! The workers: who they work for, which place each has, what they reported, and when one is over.

use std::collections::BTreeSet;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::limits::Had;
use super::report::{Lines, Report, ReportError, Tally};

/// What a worker's process came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It lives, or has not been waited for.
    Living,
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
}

/// One worker.
#[derive(Debug)]
pub struct Worker {
    /// Its process.
    pub pid: Pid,
    /// Whose connection it has.
    pub uid: u32,
    /// Its place in the kernel half.
    pub slot: u32,
    /// How far the connection has come.
    pub had: Had,
    /// Whether it said what came of it.
    pub is_accounted: bool,
    /// What its observer told last.
    pub tally: Tally,
    /// What its process came to.
    pub life: Life,
    pipe: Option<PipeReader>,
    lines: Lines,
}

impl Worker {
    /// One that was just made.
    pub fn new(pid: Pid, uid: u32, slot: u32, pipe: PipeReader) -> Self {
        Self {
            pid,
            uid,
            slot,
            had: Had::Waited,
            is_accounted: false,
            tally: Tally::default(),
            life: Life::Living,
            pipe: Some(pipe),
            lines: Lines::default(),
        }
    }

    /// Whether nothing of it is left: neither its process nor a copy of it that could still report.
    pub fn is_over(&self) -> bool {
        self.pipe.is_none() && self.life != Life::Living
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Takes what it reported since, a bounded part at a time.
    fn read(&mut self) -> Vec<Result<Report, ReportError>> {
        let mut bytes = [0u8; 4096];
        let Some(pipe) = &mut self.pipe else { return Vec::new() };
        match pipe.read(&mut bytes) {
            Ok(0) => self.pipe = None,
            Ok(count) => return self.lines.take(&bytes[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.pipe = None,
        }
        Vec::new()
    }
}

/// All of them.
#[derive(Debug)]
pub struct Crew {
    workers: Vec<Worker>,
    slots: u32,
    given_up: BTreeSet<u32>,
}

impl Crew {
    /// Nobody, and so many places.
    pub fn new(slots: u32) -> Self {
        Self { workers: Vec::new(), slots, given_up: BTreeSet::new() }
    }

    /// The lowest place that nobody has.
    pub fn free_slot(&self) -> Option<u32> {
        let is_free = |slot: &u32| self.workers.iter().all(|worker| worker.slot != *slot);
        (0..self.slots).find(|slot| is_free(slot) && !self.given_up.contains(slot))
    }

    /// Gives this place to nobody any more.
    pub fn give_up(&mut self, slot: u32) {
        self.given_up.insert(slot);
    }

    /// One more.
    pub fn enter(&mut self, worker: Worker) {
        self.workers.push(worker);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Worker> {
        self.workers.iter()
    }

    /// The pipes that are open, each with its worker's place.
    pub fn pipes(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.workers.iter().filter_map(|worker| Some((worker.slot, worker.pipe.as_ref()?.as_fd())))
    }

    /// The worker at a place, and what it reported since.
    pub fn read(&mut self, slot: u32) -> Option<(&mut Worker, Vec<Result<Report, ReportError>>)> {
        let worker = self.workers.iter_mut().find(|worker| worker.slot == slot)?;
        let reports = worker.read();
        Some((worker, reports))
    }

    /// Waits for those processes that ended, and for none that did not.
    pub fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if let Some(worker) = self.workers.iter_mut().find(|worker| worker.is_process(pid)) {
                worker.life = life_of(status);
            }
        }
    }

    /// Those of whom nothing is left; their places are free.
    pub fn take_over(&mut self) -> Vec<Worker> {
        self.workers.extract_if(.., |worker| worker.is_over()).collect()
    }

    /// Sends a signal to each that lives.
    pub fn signal(&self, signal: Signal) {
        // Until it has been waited for, which only `reap` does, its number is its own.
        for worker in self.workers.iter().filter(|worker| worker.life == Life::Living) {
            rustix::process::kill_process(worker.pid, signal).ok();
        }
    }
}

impl Worker {
    fn is_process(&self, pid: Pid) -> bool {
        self.pid == pid && self.life == Life::Living
    }
}

fn life_of(status: WaitStatus) -> Life {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Life::Exited(code),
        (None, Some(number)) => Life::Killed(number),
        (None, None) => Life::Living,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::worker::Reporter;
    use super::*;

    fn worker(pid: Pid, slot: u32) -> (Worker, Reporter) {
        let (pipe, reporter) = Reporter::pair().unwrap();
        (Worker::new(pid, 1000, slot, pipe), reporter)
    }

    #[test]
    fn a_place_is_free_when_process_and_pipe_are_gone() {
        let mut crew = Crew::new(2);
        let (mut first, reporter) = worker(rustix::process::getpid(), 0);
        first.life = Life::Exited(0);
        crew.enter(first);
        let (second, second_reporter) = worker(rustix::process::getpid(), 1);
        crew.enter(second);
        assert_eq!(crew.free_slot(), None);

        // An heir still has a copy.
        let (read, reports) = crew.read(0).unwrap();
        assert!(reports.is_empty() && !read.is_over());
        reporter.report(&Report::Started { pid: 7 }).unwrap();
        drop(reporter);
        assert_eq!(crew.read(0).unwrap().1, [Ok(Report::Started { pid: 7 })]);
        crew.read(0);
        // The other's pipe is closed, but its process is not known to have ended.
        drop(second_reporter);
        crew.read(1);
        assert_eq!(crew.pipes().count(), 0);
        let over: Vec<u32> = crew.take_over().iter().map(|worker| worker.slot).collect();
        assert_eq!(over, [0]);
        assert_eq!((crew.free_slot(), crew.len()), (Some(0), 1));
        crew.give_up(0);
        assert_eq!(crew.free_slot(), None);
    }

    #[test]
    fn a_worker_that_does_not_stop_reporting_is_read_a_part_at_a_time() {
        let (mut worker, reporter) = worker(rustix::process::getpid(), 0);
        let mut written = 0u32;
        while reporter.report(&Report::Progress(Tally::default())).is_ok() {
            written += 1;
        }
        let first = worker.read().len() as u32;
        assert!(first > 0 && first < written);
        // And what did not fit did not come in part.
        let mut read = first;
        while read < written {
            let reports = worker.read();
            assert!(reports.iter().all(Result::is_ok));
            read += reports.len() as u32;
        }
        assert!(worker.read().is_empty() && !worker.is_over());
    }

    #[test]
    fn how_a_process_ended_is_told() {
        for (script, expect) in [("exit 3", Life::Exited(3)), ("kill -9 $$", Life::Killed(9))] {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let status = rustix::process::waitpid(Some(Pid::from_child(&child)), WaitOptions::empty());
            // There is nothing left to wait for.
            child.wait().unwrap_err();
            assert_eq!(life_of(status.unwrap().unwrap().1), expect);
        }
    }
}
