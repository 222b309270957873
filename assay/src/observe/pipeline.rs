//! Records in, observations out, with everything that was not one counted: decode → resolve → filter. Pure.

use std::collections::BTreeMap;

use super::decode::decode;
use super::event::{Event, EventKind};
use super::loss::{Kind, LossLedger};
use super::observation::Observation;
use super::process::ProcessTable;
use super::resolve::{Resolved, resolve};

/// The state between a run's first record and its last.
#[derive(Debug, Clone)]
pub struct Pipeline {
    root_pid: u32,
    started_at_ns: Option<u64>,
    next_seq: u64,
    records: u64,
    processes: ProcessTable,
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
    /// For the run whose command is started by process `root_pid`: what that process does before its program starts
    /// is ours, not the command's.
    pub fn new(root_pid: u32) -> Self {
        Self {
            root_pid,
            started_at_ns: None,
            next_seq: 0,
            records: 0,
            processes: ProcessTable::default(),
            filtered: BTreeMap::new(),
            ledger: LossLedger::default(),
        }
    }

    /// Takes one record.
    pub fn push(&mut self, record: &[u8]) -> Option<Observation> {
        self.records += 1;
        let event = match decode(record) {
            Ok(event) => event,
            Err(error) => {
                *self.ledger.undecoded.entry(error.as_str().to_owned()).or_default() += 1;
                return None;
            }
        };
        let Some(started_at_ns) = self.start_time(&event) else {
            *self.filtered.entry("before-start").or_default() += 1;
            return None;
        };
        self.note_processes(&event);
        if event.has_overflowed {
            for kind in Kind::ALL {
                self.ledger.admit(kind, "record-overflow", "a record was longer than the observer holds");
            }
        }
        match resolve(&event, &self.processes) {
            Resolved::Nothing(reason) => {
                *self.filtered.entry(reason).or_default() += 1;
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
            && event.pid == self.root_pid
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
            EventKind::Call(_) | EventKind::Exit { .. } | EventKind::Leave { .. } => {}
        }
    }

    /// Ends it.
    pub fn finish(self) -> Totals {
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
