//! The seam between a run and its record: armed before the command starts, pumped while it runs, finished at its
//! end.

use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::artifact::{ArtifactError, Owner, Target, Written};
use super::assemble::Tally;
use super::cgroup::Group;
use super::descendants::Fate;
use super::hold::Hold;
use super::outcome::ChildEnd;
use super::request::SandboxRequest;
use super::streamed::Stream;
use super::withheld::Withheld;
use super::{assemble, capabilities, host_facts, writing};
use crate::evidence::Degradation;
use crate::observe::kernel::programs::{InheritedFile, ProgramsError};
use crate::observe::kernel::{Observer, ObserverConfig};
use crate::observe::loss::LossLedger;
use crate::observe::observation::Observation;
use crate::observe::pipeline::{Pipeline, Subject};
use crate::observe::stream;
use crate::observe::trace::TraceWriter;
use crate::profile::canonical::{Barriers, CanonContext, Canonical, Canonicalizer};

/// Nothing can be observed here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("observe the run: {reason}")]
pub struct Unobservable {
    /// What is missing.
    pub reason: String,
    /// How to get it.
    pub hint: String,
}

/// Where the artifacts of a run will be, with their directories held open since before the command started.
#[derive(Debug)]
pub struct Targets {
    targets: Vec<(&'static str, Result<Target, ArtifactError>)>,
    /// Who owns them.
    pub owner: Owner,
}

impl Targets {
    /// Opens the directories.
    pub fn prepare(request: &SandboxRequest) -> Self {
        let files = request.artifacts.files().into_iter();
        Self {
            targets: files.map(|(name, path)| (name, Target::prepare(path))).collect(),
            owner: request.owner,
        }
    }

    /// The target of that name, where the artifact was asked for.
    pub fn of(&self, name: &str) -> Option<&Result<Target, ArtifactError>> {
        self.targets.iter().find(|(known, _)| *known == name).map(|(_, target)| target)
    }

    /// Those that can not be written as it looks now.
    pub fn failures(&self) -> impl Iterator<Item = &ArtifactError> {
        self.targets.iter().filter_map(|(_, target)| target.as_ref().err())
    }

    /// Every artifact but the status file, which comes after all others.
    pub fn of_the_record(&self) -> impl Iterator<Item = (&'static str, &Result<Target, ArtifactError>)> {
        self.targets.iter().filter(|(name, _)| *name != "status").map(|(name, target)| (*name, target))
    }
}

/// What a recorder needs to know before the command starts.
#[derive(Debug)]
pub struct Arming<'a> {
    /// The run as asked for.
    pub request: &'a SandboxRequest,
    /// The run's group.
    pub group: &'a Group,
    /// Where streamed artifacts go.
    pub targets: &'a Targets,
}

/// What names of the run are relative to, as the command sees it.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Where the command starts, as far as it has a name.
    pub workdir: Option<PathBuf>,
    /// The child's home, as its environment has it.
    pub home: Option<PathBuf>,
    /// The private directory.
    pub tmpdir: Option<PathBuf>,
    /// The caller's directory for temporary files.
    pub caller_tmpdir: PathBuf,
    /// The user's runtime directory, as the child's environment has it.
    pub runtime_dir: Option<PathBuf>,
}

/// What is known about a run when it is over.
#[derive(Debug)]
pub struct Ended<'a> {
    /// The run as asked for.
    pub request: &'a SandboxRequest,
    /// The process that was the command; 0 when it never started.
    pub pid: u32,
    /// How the command ended.
    pub child: ChildEnd,
    /// What became of the processes that outlived it.
    pub descendants: Fate,
    /// What was asked and not kept by the launch; sorted.
    pub degradations: Vec<Degradation>,
    /// Names of the environment variables that were removed.
    pub env_removed: Vec<Vec<u8>>,
    /// What names are relative to; the private directory is gone by now.
    pub places: Places,
    /// When it started.
    pub started_at: SystemTime,
    /// From then until the end of the last descendant.
    pub duration: Duration,
    /// What it is held to.
    pub hold: &'a Hold,
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
}

/// Our own priority while the command runs, as `nice` has it. The command was started before with the one it was given.
const READER_NICENESS: i32 = -10;

/// A record in the making.
#[derive(Debug)]
pub struct Recorder {
    observer: Observer,
    group: PathBuf,
    recording: Option<Recording>,
    sinks: Sinks,
}

/// The pure half: from records to what the artifacts are made of.
#[derive(Debug)]
struct Recording {
    pipeline: Pipeline,
    canonicalizer: Option<Canonicalizer>,
    withheld: Withheld,
}

/// What is written while it happens.
#[derive(Debug, Default)]
struct Sinks {
    trace: Option<TraceSink>,
    records: Option<RecordSink>,
}

impl Sinks {
    fn flush(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.out.flush();
        }
        if let Some(records) = &mut self.records {
            records.out.flush();
        }
    }
}

#[derive(Debug)]
struct TraceSink {
    writer: TraceWriter,
    line: String,
    out: Stream,
}

#[derive(Debug)]
struct RecordSink {
    out: Stream,
}

impl Recorder {
    /// Loads and arms the observer for the run's group.
    pub fn arm(arming: &Arming) -> Result<Self, Unobservable> {
        let request = arming.request;
        let config = ObserverConfig {
            group_id: arming.group.id(),
            level: arming.group.level(),
            inherited: inherited_files(),
        };
        let observer = Observer::start(&config).map_err(|error| unobservable(&error))?;
        let mut sinks = Sinks::default();
        if let Some(Ok(target)) = arming.targets.of("trace") {
            let command: Vec<Vec<u8>> = request.command.iter().map(|word| word.as_bytes().to_vec()).collect();
            let out = Stream::open(target, arming.targets.owner);
            sinks.trace = Some(TraceSink { writer: TraceWriter::new(&command), line: String::new(), out });
        }
        if let Some(Ok(target)) = arming.targets.of("records") {
            sinks.records = Some(RecordSink { out: Stream::open(target, arming.targets.owner) });
        }
        let group = arming.group.directory().to_path_buf();
        Ok(Self { observer, group, recording: None, sinks })
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
        places: &Places,
        barriers: Barriers,
    ) {
        let subject = Subject { root_pid: pid, sees_uring: self.observer.sees_uring() };
        if let Some(records) = &mut self.sinks.records {
            let mut head = Vec::new();
            stream::write_head(&mut head, subject).expect("writing to a Vec cannot fail");
            records.out.write(&head);
        }
        // The command may keep every processor busy; whoever reads along must get a turn all the same. Where we may not,
        // records that are not read in time are counted as lost.
        rustix::process::setpriority_process(None, READER_NICENESS).ok();
        // Without it, what the kernel half cannot finish stays unverified, which every such path then says.
        self.observer.follow(pid).ok();
        // Without a profile too: what the policy stopped is told at the end of every run.
        let canonicalizer = Some({
            let command = request.command.iter().map(|word| word.as_bytes().to_vec()).collect();
            let mut context =
                CanonContext::new(host_facts::roots(request, places, &self.group), command, pid);
            context.started_at = host_facts::now_seconds();
            context.stdio = stdio_files();
            context.barriers = barriers;
            if let Some(ports) = host_facts::ephemeral_ports() {
                context.ephemeral_ports = ports;
            }
            Canonicalizer::new(context)
        });
        let withheld = Withheld::new(capabilities::taken(request));
        self.recording = Some(Recording { pipeline: Pipeline::new(subject), canonicalizer, withheld });
    }

    /// Takes what was observed, for as long as it is polled.
    pub async fn pump(&mut self) -> String {
        loop {
            if self.drain() == 0 {
                // Who reads along sees it, and what is written survives us.
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
        let sinks = &mut self.sinks;
        self.observer.drain(|record| {
            if let Some(records) = &mut sinks.records {
                records.out.write(record);
            }
            let Recording { pipeline, canonicalizer, withheld } = &mut *recording;
            pipeline.push(record, |observation| take(&observation, sinks, canonicalizer, withheld));
        })
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

/// Writes every artifact that was asked for.
pub fn finish(recorder: Option<Recorder>, ended: &Ended, targets: &Targets) -> Recorded {
    let mut told = Recorded::default();
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
        told.tally = assemble::tally(&evidence);
        told.unauthorised = assemble::unauthorised(&evidence);
        told.denied = assemble::denied_by_policy(&evidence);
        told.sentences = ended.hold.sentences(&evidence);
        told.launch = launch;
        told.sentences.extend(assemble::departures(&evidence));
        writing::write(&evidence, ended, targets, &mut told);
    }
    told
}

/// What the observer had to say besides the observations.
#[derive(Debug)]
pub struct Record {
    /// Losses and gaps.
    pub ledger: LossLedger,
    /// Counters for the evidence.
    pub counters: BTreeMap<String, u64>,
}

impl Record {
    fn unobserved() -> Self {
        Self { ledger: LossLedger::unobserved("no observer ran"), counters: BTreeMap::new() }
    }
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
    let Recorder { observer, recording, mut sinks, .. } = recorder;
    let Some(Recording { pipeline, mut canonicalizer, mut withheld }) = recording else {
        return (Record::unobserved(), assemble::without_observer(ended), None);
    };
    let totals =
        pipeline.finish(|observation| take(&observation, &mut sinks, &mut canonicalizer, &mut withheld));
    let record = assemble::record(totals, counters, observer.missing_fields());
    drop(observer);
    if let Some(mut trace) = sinks.trace {
        let end = trace.writer.end(record.ledger.total_lost());
        trace.out.write(end.as_bytes());
        trace.out.close("trace", targets, told);
    }
    if let Some(records) = sinks.records {
        records.out.close("records", targets, told);
    }
    let canonical = canonicalizer.map(|canonicalizer| canonicalizer.finish(assemble::run_end(ended)));
    (record, canonical, Some(withheld))
}

/// Regular files that the command inherits open for writing.
fn inherited_files() -> Vec<InheritedFile> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(info) = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")) else { continue };
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
            .unwrap_or(0);
        let is_kept = flags & libc::O_CLOEXEC as u32 == 0;
        let is_writable = matches!(flags as i32 & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR);
        if !is_kept || !is_writable {
            continue;
        }
        if let Ok(meta) = std::fs::metadata(entry.path())
            && meta.is_file()
        {
            files.push(InheritedFile { dev: meta.dev(), ino: meta.ino() });
        }
    }
    files.sort();
    files.dedup();
    files
}

/// The files that standard output and standard error are, if they are files.
fn stdio_files() -> Vec<Vec<u8>> {
    [1, 2]
        .into_iter()
        .filter_map(|number| {
            let link = format!("/proc/self/fd/{number}");
            let is_file = std::fs::metadata(&link).is_ok_and(|meta| meta.is_file());
            let path = std::fs::read_link(&link).ok().filter(|_| is_file)?;
            Some(path.into_os_string().into_vec())
        })
        .collect()
}

/// What the user is told when the kernel half cannot be put in place.
fn unobservable(error: &ProgramsError) -> Unobservable {
    // One fact a line.
    let text = error.to_string();
    let reason = text.lines().next().unwrap_or_default().to_owned();
    let hint = match error {
        ProgramsError::BtfFile(_) | ProgramsError::Btf(_) | ProgramsError::Plan(_) => {
            "a kernel built with CONFIG_DEBUG_INFO_BTF is needed; `assay doctor` tells more".to_owned()
        }
        ProgramsError::Load(_)
        | ProgramsError::Program { .. }
        | ProgramsError::Attach { .. }
        | ProgramsError::Map { .. } => {
            "run as root, or with CAP_BPF and CAP_PERFMON; `assay doctor` tells more".to_owned()
        }
    };
    Unobservable { reason, hint }
}
