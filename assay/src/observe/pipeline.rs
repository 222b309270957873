//! Records in, observations out, with everything that was not one counted: decode → resolve → filter. Pure.

use std::collections::{BTreeMap, HashMap};

use assay_common::calls::Op;

use super::decode::decode;
use super::event::{Event, EventKind};
use super::loss::{Kind, LossLedger};
use super::observation::Observation;
use super::process::ProcessTable;
use super::resolve::{Resolved, resolve};
use super::uring::{Joined, UringTable};

/// What a stream of records is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// The process that starts the command: what it does before its program starts is ours, not the command's.
    pub root_pid: u32,
    /// Whether requests to an `io_uring` are records of their own.
    pub sees_uring: bool,
}

/// The state between a run's first record and its last.
#[derive(Debug, Clone)]
pub struct Pipeline {
    subject: Subject,
    started_at_ns: Option<u64>,
    next_seq: u64,
    records: u64,
    processes: ProcessTable,
    uring: UringTable,
    /// (device, inode) → how the run opened it: `FMODE_READ`, `FMODE_WRITE`.
    opened: HashMap<(u32, u64), u32>,
    filtered: BTreeMap<&'static str, u64>,
    ledger: LossLedger,
}

/// What a pipeline has to say at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Records that came in.
    pub records: u64,
    /// Observations that went out.
    pub observations: u64,
    /// Records that were no act of the command, by reason.
    pub filtered: BTreeMap<&'static str, u64>,
    /// Records that were not understood, and gaps.
    pub ledger: LossLedger,
    /// Processes seen.
    pub processes: u64,
    /// Whether the command was seen to start.
    pub has_started: bool,
}

impl Pipeline {
    /// For one run.
    pub fn new(subject: Subject) -> Self {
        Self {
            subject,
            started_at_ns: None,
            next_seq: 0,
            records: 0,
            processes: ProcessTable::default(),
            uring: UringTable::default(),
            opened: HashMap::new(),
            filtered: BTreeMap::new(),
            ledger: LossLedger::default(),
        }
    }

    /// Takes one record. Nearly always it is one observation or none; a request to an `io_uring` whose place was taken
    /// without a completion comes out with the one that took it.
    pub fn push(&mut self, record: &[u8], mut each: impl FnMut(Observation)) {
        self.records += 1;
        let event = match decode(record) {
            Ok(event) => event,
            Err(error) => {
                *self.ledger.undecoded.entry(error.as_str().to_owned()).or_default() += 1;
                return;
            }
        };
        if self.start_time(&event).is_none() {
            self.filter("before-start");
            return;
        }
        self.note_processes(&event);
        if event.has_overflowed {
            for kind in Kind::ALL {
                self.ledger.admit(kind, "record-overflow", "a record was longer than the observer holds");
            }
        }
        if self.is_own_file(&event) {
            self.filter("received-own");
            return;
        }
        match self.uring.join(event) {
            Joined::Event(event) => self.observe(*event).into_iter().for_each(each),
            Joined::Waits => self.filter("io-uring-submitted"),
            Joined::Unpaired => self.filter("io-uring-unpaired"),
            Joined::Presumed(event) => {
                self.admit_presumed(&event);
                self.filter("io-uring-submitted");
                self.observe(*event).into_iter().for_each(&mut each);
            }
        }
    }

    /// Remembers what the run opened, and tells whether a descriptor that came in a message is of a file it opened that
    /// way itself: passing one on among its own processes is no act. So is what is no file of a tree.
    fn is_own_file(&mut self, event: &Event) -> bool {
        const FMODE_BOTH: u32 = 3;
        const S_IFMT: u32 = 0o170_000;
        const FILES: [u32; 4] = [0o100_000, 0o040_000, 0o020_000, 0o060_000];
        let EventKind::Call(call) = &event.kind else { return false };
        if call.ret < 0 || !matches!(call.op, Op::Open | Op::Receive) {
            return false;
        }
        let Some(file) = &call.file else { return call.op == Op::Receive };
        let key = (file.dev, file.ino);
        let how = file.f_mode & FMODE_BOTH;
        if call.op == Op::Open {
            *self.opened.entry(key).or_default() |= how;
            return false;
        }
        let is_file = FILES.contains(&(file.mode & S_IFMT));
        !is_file || how & !self.opened.get(&key).copied().unwrap_or(0) == 0
    }

    fn filter(&mut self, reason: &'static str) {
        *self.filtered.entry(reason).or_default() += 1;
    }

    /// A request without a completion: it may have been told not to report success.
    fn admit_presumed(&mut self, event: &Event) {
        if let EventKind::Call(call) = &event.kind {
            let kind = match call.op {
                Op::Connect | Op::Bind | Op::Listen | Op::Send => Kind::Net,
                _ => Kind::Fs,
            };
            self.ledger.admit(kind, "io-uring-no-completion", call.op.as_str());
        }
    }

    fn observe(&mut self, event: Event) -> Option<Observation> {
        let started_at_ns = self.started_at_ns.unwrap_or(event.t_ns);
        match resolve(&event, &self.processes, self.subject.sees_uring) {
            Resolved::Nothing(reason) => {
                self.filter(reason);
                None
            }
            Resolved::Act { act, result, gaps } => {
                for (kind, reason, detail) in gaps {
                    self.ledger.admit(kind, reason, detail);
                }
                let seq = self.next_seq;
                self.next_seq += 1;
                Some(Observation {
                    seq,
                    t_ns: event.t_ns.saturating_sub(started_at_ns),
                    pid: event.pid,
                    tid: event.tid,
                    ppid: self.processes.parent_of(event.pid),
                    comm: event.comm,
                    act,
                    result,
                })
            }
        }
    }

    /// When the command's program started, once it has.
    fn start_time(&mut self, event: &Event) -> Option<u64> {
        if self.started_at_ns.is_none()
            && event.pid == self.subject.root_pid
            && matches!(event.kind, EventKind::Exec(_))
        {
            self.started_at_ns = Some(event.t_ns);
        }
        self.started_at_ns
    }

    fn note_processes(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Fork { pid, tid } => self.processes.fork(event.pid, *pid, *tid),
            EventKind::Exec(exec) => self.processes.exec(event.pid, exec.ppid),
            EventKind::Call(_)
            | EventKind::UringSubmit { .. }
            | EventKind::UringComplete { .. }
            | EventKind::Exit { .. }
            | EventKind::Leave { .. } => {}
        }
    }

    /// Ends it. Requests that were never completed come out now.
    pub fn finish(mut self, mut each: impl FnMut(Observation)) -> Totals {
        for event in self.uring.take_rest() {
            self.admit_presumed(&event);
            self.observe(event).into_iter().for_each(&mut each);
        }
        Totals {
            records: self.records,
            observations: self.next_seq,
            filtered: self.filtered,
            ledger: self.ledger,
            processes: self.processes.born(),
            has_started: self.started_at_ns.is_some(),
        }
    }
}
