//! Records in, observations out, with everything that was not one counted: decode → resolve → filter. Pure.

use std::collections::BTreeMap;

use assay_common::calls::Op;
use assay_common::record::Repeat;

use super::decode::decode;
use super::event::{Doubt, Event, EventKind};
use super::followed::FollowedLinks;
use super::loss::{Kind, LossLedger};
use super::names::{self, NameTable};
use super::observation::{Act, CallResult, NamedAct, Observation};
use super::process::ProcessTable;
use super::received::Own;
use super::repeats::{Again, Repeats};
use super::resolve::{Resolved, resolve};
use super::uring::{Joined, UringTable};
use super::witness::{Comparison, Witnesses};

/// What a stream of records is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// The process that starts the command: what it does before its program starts is ours, not the command's.
    pub root_pid: u32,
    /// Whether requests to an `io_uring` are records of their own.
    pub sees_uring: bool,
    /// Whether a second witness sends records too.
    pub has_witness: bool,
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
    repeats: Repeats,
    failures: u64,
    own: Own,
    followed: FollowedLinks,
    names: NameTable,
    witnesses: Witnesses,
    filtered: BTreeMap<&'static str, u64>,
    ledger: LossLedger,
}

/// What a pipeline has to say at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Records that came in.
    pub records: u64,
    /// Observations that went out, those that were counted included.
    pub observations: u64,
    /// Of these, acts that the kernel half counted because one like it had been sent.
    pub repeated: u64,
    /// Acts that the kernel half counted as like one that did not arrive.
    pub unknown: u64,
    /// Of the observations, calls that failed for want of their object and were only counted.
    pub failures: u64,
    /// Records that were no act of the command, by reason.
    pub filtered: BTreeMap<&'static str, u64>,
    /// Records that were not understood, and gaps.
    pub ledger: LossLedger,
    /// Processes seen.
    pub processes: u64,
    /// Whether the command was seen to start.
    pub has_started: bool,
    /// What the second witness saw, held against the rest; `None` without one.
    pub witness: Option<Comparison>,
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
            repeats: Repeats::default(),
            failures: 0,
            own: Own::default(),
            followed: FollowedLinks::default(),
            names: NameTable::default(),
            witnesses: Witnesses::default(),
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
        if let EventKind::Sources { resolv_conf, hosts } = &event.kind {
            // Ours, and not from the ring.
            self.records -= 1;
            self.names.learn(resolv_conf, hosts);
            return;
        }
        if let EventKind::Witness(witness) = &event.kind {
            // From another ring, and no act: it may even be told before the start that it came after.
            self.records -= 1;
            self.witnesses.see(&event, witness);
            return;
        }
        let repeat = event.repeat;
        // Whatever becomes of this record, another count ended.
        if let Some(ended) = repeat.filter(|repeat| repeat.ended != 0) {
            self.repeats.end(ended.ended, ended.count);
        }
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
        self.note_core_dump(&event);
        match event.doubt {
            Doubt::Unread => {
                self.admit_unread(&event);
                self.filter("call-unread");
                return;
            }
            Doubt::Unconfirmed => self.admit_unconfirmed(&event),
            Doubt::None => {}
        }
        if self.own.is_received_socket(&event, &self.processes, &mut self.ledger) {
            self.filter("received-socket");
            return;
        }
        if self.own.is_own_file(&event, &mut self.ledger) {
            self.filter("received-own");
            return;
        }
        if let EventKind::Packet(packet) = &event.kind {
            let read = self.names.read(packet);
            if let Some((reason, detail)) = read.gap {
                self.ledger.admit(Kind::Net, reason, detail);
            }
            if read.names.is_empty() {
                self.filter("packet-without-name");
            } else {
                self.filter("packet-with-name");
            }
            for named in read.names {
                each(self.named(named, event.t_ns));
            }
            return;
        }
        match self.uring.join(event) {
            Joined::Event(event) => self.deliver(*event, repeat, &mut each),
            Joined::Waits => self.filter("io-uring-submitted"),
            Joined::Unpaired => self.filter("io-uring-unpaired"),
            Joined::Presumed(event) => {
                self.admit_presumed(&event);
                self.filter("io-uring-submitted");
                self.deliver(*event, None, &mut each);
            }
        }
    }

    /// An event's observation, and the names that the run came to know by it.
    fn deliver(&mut self, event: Event, repeat: Option<Repeat>, each: &mut impl FnMut(Observation)) {
        let t_ns = event.t_ns;
        let Some(observation) = self.observe(event) else { return };
        if let Some(repeat) = repeat {
            self.repeats.begin(repeat, &observation);
        }
        for named in self.names.see(&observation) {
            each(self.named(named, t_ns));
        }
        each(observation);
    }

    /// A count that was open when the run ended.
    pub fn end_count(&mut self, number: u64, times: u64) {
        self.repeats.end(number, times);
    }

    /// Calls that failed for want of their object, and were counted instead of sent.
    pub fn count_failures(&mut self, times: u64) {
        self.failures += times;
    }

    /// Observations that were made again, since this was asked last, and how often.
    pub fn made_again(&mut self) -> Vec<Again> {
        self.repeats.take()
    }

    /// The kernel writes a core dump by itself, or hands it to a program outside.
    fn note_core_dump(&mut self, event: &Event) {
        const CORE: i32 = 0x80;
        if let EventKind::Exit { status } = &event.kind
            && status & CORE != 0
        {
            self.ledger.admit(Kind::Fs, "core-dump", format!("process {}", event.pid));
        }
    }

    /// A call whose name or address was read from the program's memory alone, when it returned.
    fn admit_unconfirmed(&mut self, event: &Event) {
        let EventKind::Call(call) = &event.kind else { return };
        let kind = match call.op {
            Op::Connect | Op::Bind | Op::Listen | Op::Send => Kind::Net,
            _ => Kind::Fs,
        };
        self.ledger.admit(kind, "name-unconfirmed", call.op.as_str());
    }

    /// A call of which the kernel half could not read, or does not look at, all that it acted on.
    fn admit_unread(&mut self, event: &Event) {
        let EventKind::Call(call) = &event.kind else { return };
        let kinds = match call.op {
            Op::Write => &[Kind::Fs][..],
            Op::Send => &[Kind::Net],
            _ => &Kind::ALL,
        };
        for kind in kinds {
            self.ledger.admit(*kind, "call-unread", call.op.as_str());
        }
    }

    /// A name that the run came to know.
    fn named(&self, named: NamedAct, t_ns: u64) -> Observation {
        Observation {
            // It is no act of its own: it belongs to the one that comes next.
            seq: self.next_seq,
            t_ns: t_ns.saturating_sub(self.started_at_ns.unwrap_or(t_ns)),
            pid: 0,
            tid: 0,
            ppid: 0,
            comm: Vec::new(),
            act: Act::Named(named),
            result: CallResult::Ok,
        }
    }

    fn filter(&mut self, reason: &'static str) {
        *self.filtered.entry(reason).or_default() += 1;
    }

    /// A request without a completion: it may have been told not to report success.
    fn admit_presumed(&mut self, event: &Event) {
        self.witnesses.presume(event);
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
                if self.subject.has_witness {
                    self.witnesses.see_no_act(&event);
                }
                self.filter(reason);
                None
            }
            Resolved::Act { act, result, gaps } => {
                if self.subject.has_witness {
                    self.witnesses.see_act(&event, &act, result);
                }
                for (kind, reason, detail) in gaps {
                    self.ledger.admit(kind, reason, detail);
                }
                self.followed.take(&event);
                if let Some(link) = self.followed.changed_by(&act, result) {
                    self.ledger.admit(Kind::Fs, "path-unverified", String::from_utf8_lossy(&link));
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
            EventKind::Exit { .. } => self.processes.exit(event.pid, event.tid),
            EventKind::Call(_)
            | EventKind::Witness(_)
            | EventKind::UringSubmit { .. }
            | EventKind::UringComplete { .. }
            | EventKind::Leave { .. }
            | EventKind::Packet(_)
            | EventKind::Sources { .. } => {}
        }
    }

    /// Ends it. Requests that were never completed come out now.
    pub fn finish(mut self, mut each: impl FnMut(Observation)) -> Totals {
        for event in self.uring.take_rest() {
            self.admit_presumed(&event);
            self.deliver(event, None, &mut each);
        }
        for server in self.names.unfinished() {
            self.ledger.admit(Kind::Net, names::ANSWER_CUT, names::cut_at(server));
        }
        let started_at_ns = self.started_at_ns.unwrap_or(0);
        Totals {
            witness: self.subject.has_witness.then(|| self.witnesses.compare(started_at_ns)),
            records: self.records,
            observations: self.next_seq + self.repeats.told() + self.failures,
            repeated: self.repeats.told(),
            unknown: self.repeats.unknown(),
            failures: self.failures,
            filtered: self.filtered,
            ledger: self.ledger,
            processes: self.processes.born(),
            has_started: self.started_at_ns.is_some(),
        }
    }
}
