//! The seam between a run and its record: armed before the command starts, pumped while it runs, finished at its
//! end.

use std::io::{self, BufReader, Seek as _};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;

use super::artifact::Written;
use super::as_user::AsUser;
use super::assemble::Tally;
use super::beginning::Beginning;
use super::caller::Caller;
use super::cgroup::Group;
use super::counting::counting;
use super::descriptors::are_fewer_than;
pub use super::ended::{Ended, ObserverEnd, Places};
use super::inheritance::Inheritance;
use super::lag::Lag;
pub use super::record::Record;
use super::request::SandboxRequest;
use super::spool::Spool;
use super::streamed::Stream;
pub use super::targets::Targets;
use super::user::User;
use super::withheld::Withheld;
use super::{assemble, capabilities, given, host_facts, sources, start, watchdog, writing};
use crate::evidence::{Degradation, Evidence};
use crate::observe::kernel::answers::NamesWanted;
use crate::observe::kernel::programs::ProgramsError;
use crate::observe::kernel::{Counting, Observer, ObserverConfig};
use crate::observe::loss::Kind;
use crate::observe::observation::Observation;
use crate::observe::pipeline::{Pipeline, Subject};
use crate::observe::stream::{self, RecordReader};
use crate::observe::trace::TraceWriter;
use crate::profile::barriers::Barriers;
use crate::profile::canonical::{CanonContext, Canonical, Canonicalizer};

/// Nothing can be observed here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("observe the run: {reason}")]
pub struct Unobservable {
    /// What is missing.
    pub reason: String,
    /// How to get it.
    pub hint: String,
}

/// What a recorder needs to know before the command starts.
#[derive(Debug)]
pub struct Arming<'a> {
    /// The run as asked for.
    pub request: &'a SandboxRequest,
    /// Who asked for it.
    pub caller: &'a Caller,
    /// The run's group.
    pub group: &'a Group,
    /// Where streamed artifacts go.
    pub targets: &'a Targets,
    /// Names whose addresses are to be noted as answers come.
    pub names: Option<NamesWanted>,
    /// Whether something is hidden from the run.
    pub hides: bool,
    /// What of the observer was begun before.
    pub beginning: Option<Beginning>,
}

/// What the record comes to.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Artifacts in their places.
    pub written: Vec<(&'static str, Written)>,
    /// Sentences about those that are not.
    pub unwritten: Vec<String>,
    /// Why the record is not whole.
    pub losses: Vec<String>,
    /// Effects that the policy does not authorise and nothing stopped.
    pub unauthorised: u64,
    /// Effects that the policy denied.
    pub denied: u64,
    /// A sentence for each of both, and where observation ended.
    pub sentences: Vec<String>,
    /// A sentence for each refusal of the launch's, and for each program that gains rights.
    pub launch: Vec<String>,
    /// The run in a few numbers; `None` when nothing was observed.
    pub tally: Option<Tally>,
    /// What was asked of the sandbox and not kept.
    pub degradations: Vec<Degradation>,
    /// All of it, where something was recorded.
    pub evidence: Option<Box<Evidence>>,
    /// The longest that a record waited to be read, in microseconds.
    pub lag_us: u64,
}

/// Our own priority while the command runs, as `nice` has it. The command was started before with the one it was given.
const READER_NICENESS: i32 = -10;

/// A record in the making.
#[derive(Debug)]
pub struct Recorder {
    observer: Observer,
    recording: Option<Recording>,
    sinks: Sinks,
    inherited: Inheritance,
    /// What an heir reads, where there is one.
    spool: Option<Spool>,
    lag: Lag,
    /// A client's user, with whose rights is looked up what the kernel half did not find.
    looks_as: Option<User>,
}

/// The pure half: from records to what the artifacts are made of.
#[derive(Debug)]
struct Recording {
    pipeline: Pipeline,
    canonicalizer: Option<Canonicalizer>,
    withheld: Withheld,
    subject: Subject,
    sources: Vec<u8>,
}

/// What is written while it happens.
#[derive(Debug, Default)]
struct Sinks {
    trace: Option<TraceSink>,
    records: Option<Stream>,
}

impl Sinks {
    fn open(request: &SandboxRequest, targets: &Targets) -> Self {
        let mut sinks = Self::default();
        if let Some(out) = targets.stream("trace") {
            let command: Vec<Vec<u8>> = request.command.iter().map(|word| word.as_bytes().to_vec()).collect();
            sinks.trace = Some(TraceSink { writer: TraceWriter::new(&command), line: String::new(), out });
        }
        sinks.records = targets.stream("records");
        sinks
    }

    /// What goes ahead of all records.
    fn begin(&mut self, subject: Subject, sources: &[u8]) {
        if let Some(records) = &mut self.records {
            let mut head = Vec::new();
            stream::write_head(&mut head, subject).expect("writing to a Vec cannot fail");
            records.write(&head);
            records.write(sources);
        }
    }

    fn flush(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.out.flush();
        }
        if let Some(records) = &mut self.records {
            records.flush();
        }
    }
}

#[derive(Debug)]
struct TraceSink {
    writer: TraceWriter,
    line: String,
    out: Stream,
}

impl Recorder {
    /// Loads and arms the observer for the run's group.
    pub fn arm(arming: Arming) -> Result<Self, Unobservable> {
        let request = arming.request;
        let inherited = Inheritance::look();
        let counting = counting(&arming);
        let config = ObserverConfig {
            group_id: arming.group.id(),
            level: arming.group.level(),
            group: arming.group.directory().to_path_buf(),
            names: arming.names,
            inherited: inherited.files.clone(),
            sockets: inherited.sockets.clone(),
            counting,
            second_witness: request.wants_second_witness,
        };
        let observer = match (arming.caller.client(), arming.beginning) {
            (Some(client), _) => client.observe(&config),
            (None, Some(begun)) => begun.wait().and_then(|begun| Observer::start_begun(&config, begun)),
            (None, None) => Observer::start(&config),
        };
        let observer = observer.map_err(|error| unobservable(&error))?;
        let sinks = Sinks::open(request, arming.targets);
        let looks_as = start::client_of(request, arming.caller).cloned();
        Ok(Self { observer, recording: None, sinks, inherited, spool: None, lag: Lag::default(), looks_as })
    }

    /// Whether one could be armed for this group; nothing is kept.
    pub fn try_out(group: &Group) -> Result<(), Unobservable> {
        let config = ObserverConfig {
            group_id: group.id(),
            level: group.level(),
            group: group.directory().to_path_buf(),
            names: None,
            inherited: Vec::new(),
            sockets: Vec::new(),
            counting: Counting::default(),
            second_witness: false,
        };
        Observer::start(&config).map(drop).map_err(|error| unobservable(&error))
    }

    /// The map of addresses by classes of names, where those are noted.
    pub fn addresses(&self) -> Option<BorrowedFd<'_>> {
        self.observer.addresses()
    }

    /// Whether a trace is being written.
    pub fn is_tracing(&self) -> bool {
        self.sinks.trace.is_some()
    }

    /// Tells the process that is about to become the command.
    pub fn expect_start_of(
        &mut self,
        pid: u32,
        request: &SandboxRequest,
        caller: &Caller,
        places: &Places,
        barriers: Barriers,
    ) {
        let subject = Subject {
            root_pid: pid,
            sees_uring: self.observer.sees_uring(),
            has_witness: self.observer.no_witness().is_none(),
        };
        // The command may keep every processor busy; whoever reads along must get a turn all the same. Where we may not,
        // records that are not read in time are counted as lost.
        rustix::process::setpriority_process(None, READER_NICENESS).ok();
        // Without it, what the kernel half cannot finish stays unverified, which every such path then says.
        self.observer.follow(pid).ok();
        // Without a profile too: what the policy stopped is told at the end of every run.
        let canonicalizer = Some({
            let command = request.command.iter().map(|word| word.as_bytes().to_vec()).collect();
            let mut context = CanonContext::new(places.roots.clone(), command, pid);
            context.started_at = host_facts::now_seconds();
            context.stdio = given::output_files();
            context.barriers = barriers;
            if let Some(ports) = host_facts::ephemeral_ports() {
                context.ephemeral_ports = ports;
            }
            Canonicalizer::new(context)
        });
        let withheld = Withheld::new(capabilities::taken(request, caller));
        let mut pipeline = Pipeline::new(subject);
        let sources = sources::record();
        self.sinks.begin(subject, &sources);
        // It tells nothing by itself.
        pipeline.push(&sources, |_| {});
        self.recording = Some(Recording { pipeline, canonicalizer, withheld, subject, sources });
    }

    /// Takes what was observed, for as long as it is polled.
    pub async fn pump(&mut self) -> String {
        loop {
            if self.drain() == 0 {
                // Whoever reads along sees it, and it survives us.
                self.sinks.flush();
                self.observer.wait().await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes what waits, some thousands of records at most; how many there were.
    fn drain(&mut self) -> usize {
        let Some(recording) = &mut self.recording else { return 0 };
        let (sinks, spool, mut lag) = (&mut self.sinks, &mut self.spool, self.lag.batch());
        // Where that is possible once, as it was before the command started, it is always.
        let _as_client = self.looks_as.as_ref().map(AsUser::take_on);
        self.observer.drain(|record| {
            lag.see(record);
            if let Some(spool) = spool {
                spool.push(record);
            }
            recording.push(record, sinks);
        })
    }

    /// From here on what is read is kept for an heir, too.
    pub fn keep_spool(&mut self) -> io::Result<()> {
        self.spool = Some(Spool::create()?);
        // What is gathered here would be written twice, by us and by the heir.
        self.sinks.flush();
        Ok(())
    }

    /// Goes on in the place of the process that this one is a copy of, and that is dead: takes what that had read, and
    /// begins what is written while it happens anew.
    pub fn take_over(&mut self, request: &SandboxRequest, targets: &Targets) -> io::Result<()> {
        self.observer.take_over()?;
        let (Some(recording), Some(spool)) = (&mut self.recording, self.spool.take()) else { return Ok(()) };
        self.sinks = Sinks::open(request, targets);
        self.sinks.begin(recording.subject, &recording.sources);
        let mut file = spool.into_file();
        file.rewind()?;
        let mut records = RecordReader::headless(BufReader::with_capacity(1 << 18, file), recording.subject);
        let mut last = Vec::new();
        // Half a record at its end is whole in the ring.
        while let Ok(Some(record)) = records.next_record() {
            recording.push(record, &mut self.sinks);
            last.clear();
            last.extend_from_slice(record);
        }
        self.observer.has_read(&last);
        Ok(())
    }
}

impl Recording {
    fn push(&mut self, record: &[u8], sinks: &mut Sinks) {
        if let Some(records) = &mut sinks.records {
            records.write(record);
        }
        let Self { pipeline, canonicalizer, withheld, .. } = self;
        pipeline.push(record, |observation| take(&observation, sinks, canonicalizer, withheld));
        take_again(pipeline, canonicalizer);
    }
}

/// One observation to everything that wants it.
fn take(
    observation: &Observation,
    sinks: &mut Sinks,
    canonicalizer: &mut Option<Canonicalizer>,
    withheld: &mut Withheld,
) {
    withheld.see(observation);
    if let Some(trace) = &mut sinks.trace {
        trace.line.clear();
        trace.writer.line(observation, &mut trace.line);
        trace.out.write(trace.line.as_bytes());
    }
    if let Some(canonicalizer) = canonicalizer {
        canonicalizer.observe(observation);
    }
}

/// Observations that were made again, to the only one that counts them.
fn take_again(pipeline: &mut Pipeline, canonicalizer: &mut Option<Canonicalizer>) {
    for (observation, times) in pipeline.made_again() {
        if let Some(canonicalizer) = canonicalizer {
            canonicalizer.observe_again(&observation, times);
        }
    }
}

/// Writes every artifact that was asked for.
pub fn finish(recorder: Option<Recorder>, ended: &Ended, targets: &Targets) -> Recorded {
    let mut told = Recorded { degradations: ended.degradations.clone(), ..Recorded::default() };
    for (_, target) in targets.of_the_record() {
        if let Err(error) = target {
            told.unwritten.push(error.to_string());
        }
    }
    let (record, canonical, withheld) = if let Some(recorder) = recorder {
        close(recorder, ended, targets, &mut told)
    } else {
        writing::write_unobserved_trace(targets, &mut told);
        (Record::unobserved(), assemble::without_observer(ended), None)
    };
    told.losses = assemble::loss_sentences(&record.ledger);
    if let Some(canonical) = canonical {
        let (evidence, launch) = assemble::evidence(ended, record, canonical, withheld);
        // As the record has them: one may be that there is none.
        told.degradations.clone_from(&evidence.identity.degradations);
        told.unauthorised = assemble::unauthorised(&evidence);
        told.denied = assemble::denied_by_policy(&evidence);
        told.sentences = ended.hold.sentences(&evidence);
        told.launch = launch;
        told.sentences.extend(assemble::departures(&evidence));
        let digest = writing::write(&evidence, ended, targets, &mut told);
        told.tally = assemble::tally(&evidence, &digest);
        told.evidence = Some(Box::new(evidence));
    }
    told
}

/// Takes the last records, closes the streams, and adds up.
fn close(
    mut recorder: Recorder,
    ended: &Ended,
    targets: &Targets,
    told: &mut Recorded,
) -> (Record, Option<Canonical>, Option<Withheld>) {
    while recorder.drain() > 0 {}
    let counters = recorder.observer.counters();
    let Recorder { observer, recording, mut sinks, inherited, lag, .. } = recorder;
    told.lag_us = lag.most_us();
    let Some(Recording { mut pipeline, mut canonicalizer, mut withheld, .. }) = recording else {
        return (Record::unobserved(), assemble::without_observer(ended), None);
    };
    let counted = observer.counted();
    if let Ok(counted) = &counted {
        counted.repeats.iter().for_each(|(number, times)| pipeline.end_count(*number, *times));
        take_again(&mut pipeline, &mut canonicalizer);
        for (_, errno, times) in &counted.failures {
            pipeline.count_failures(*times);
            if let Some(canonicalizer) = &mut canonicalizer {
                canonicalizer.count_failures(*errno, *times);
            }
        }
    }
    let traffic = observer.traffic();
    if let (Ok(Some(traffic)), Some(canonicalizer)) = (&traffic, &mut canonicalizer) {
        canonicalizer.measure(traffic.clone());
    }
    let totals =
        pipeline.finish(|observation| take(&observation, &mut sinks, &mut canonicalizer, &mut withheld));
    let comparison = totals.witness.clone();
    let mut record = assemble::record(totals, counters, counted, observer.missing_fields());
    assemble::admit_skipped(&mut record.ledger, observer.skipped());
    assemble::admit_inherited(&mut record.ledger, &inherited);
    assemble::admit_left(&mut record.ledger, ended.descendants);
    if let Some(why) = observer.unseen_packets() {
        record.ledger.admit(Kind::Net, "names-not-seen", why);
        record.ledger.admit(Kind::Net, "bytes-not-counted", why);
    }
    if let Err(error) = &traffic {
        record.ledger.admit(Kind::Net, "bytes-not-counted", error.to_string());
    }
    let no_witness = observer.no_witness().map(ToOwned::to_owned);
    let witness_counts = observer.witness_counts();
    drop(observer);
    if ended.observer == ObserverEnd::Died {
        assemble::admit_death(&mut record.ledger, ended.untaken.as_deref());
    }
    assemble::hear_second_witness(&mut record, comparison.as_ref(), no_witness, witness_counts);
    if let Some(mut trace) = sinks.trace {
        match ended.observer {
            ObserverEnd::Lived => trace.out.write(trace.writer.end(record.ledger.total_lost()).as_bytes()),
            ObserverEnd::Died => trace.out.write(watchdog::TRACE_END),
        }
        trace.out.close("trace", targets, told);
    }
    if let Some(records) = sinks.records {
        records.close("records", targets, told);
    }
    let canonical = canonicalizer.map(|canonicalizer| assemble::finish(canonicalizer, &record, ended));
    (record, canonical, Some(withheld))
}

/// How many descriptors the observer, the group, the network programs and the artifacts take at most.
const DESCRIPTORS: u64 = 96;

/// What the user is told when the kernel half cannot be put in place.
fn unobservable(error: &ProgramsError) -> Unobservable {
    // One fact a line.
    let text = error.to_string();
    let reason = text.lines().next().unwrap_or_default().to_owned();
    let hint = match error {
        // Most of the crates' own words hide the errno, so the limit itself is asked.
        _ if are_fewer_than(DESCRIPTORS) => {
            format!(
                "the limit of open files (`ulimit -n`) is too low; {DESCRIPTORS} more are needed than are open now"
            )
        }
        ProgramsError::BtfFile(_) | ProgramsError::Btf(_) | ProgramsError::Plan(_) => {
            "a kernel built with CONFIG_DEBUG_INFO_BTF is needed; `assay doctor` tells more".to_owned()
        }
        // Asking for what one has would help nobody.
        ProgramsError::Object(_) | ProgramsError::Attach { .. } | ProgramsError::Map { .. }
            if rustix::process::geteuid().is_root() =>
        {
            "this kernel refuses it to root: lockdown=confidentiality, a container, or a verifier that is unlike those \
             it was tried on; `assay doctor --verbose` tells more"
                .to_owned()
        }
        ProgramsError::Object(_) | ProgramsError::Attach { .. } | ProgramsError::Map { .. } => {
            "run as root, or with CAP_BPF and CAP_PERFMON; `assay doctor` tells more".to_owned()
        }
    };
    Unobservable { reason, hint }
}
