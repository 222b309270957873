//! What loads one set of programs for many runs, as small as it can be: this test binary, run again. In: a script of runs.
//! Out: what each of them was told, and what was counted of its slot.
//!
//! It loads, and makes a process for each run, which joins, starts a command in a group of its own, and reads its ring.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use assay::observe::kernel::answers::NamesWanted;
use assay::observe::kernel::counted::Counters;
use assay::observe::kernel::programs::InheritedFile;
use assay::observe::kernel::{Counting, Failures, Observer, ObserverConfig, Shared, SharedConfig};
use assay::observe::pipeline::{Pipeline, Subject};
use assay::observe::stream::RecordReader;
use assay::observe::trace::TraceWriter;
use assay::sandbox::fork;
use rustix::process::{Signal, WaitOptions, getpid, kill_process, waitpid};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The first argument of a test binary that is to serve runs; its script follows.
pub const FLAG: &str = "--served";

/// What is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Script {
    /// The group whose children are those of the runs.
    pub parent: PathBuf,
    /// How many runs there can be at once.
    pub slots: u32,
    /// Runs that are there at the same time, one lot after the other.
    pub rounds: Vec<Vec<Run>>,
    /// What is done by nobody's run while those of a lot go on.
    pub outside: Vec<String>,
}

/// A run. Its command makes `ready` and waits for `go`, both in its folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// Its slot.
    pub slot: u32,
    /// Where it runs.
    pub folder: PathBuf,
    /// What it runs.
    pub command: Vec<String>,
    /// How its ring is read.
    pub reader: Reader,
    /// Whether repeats and failures are counted.
    pub counts: bool,
    /// Whether addresses of names are noted.
    pub notes_names: bool,
}

/// How a ring is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reader {
    /// As it fills.
    Steady,
    /// When the command has ended.
    Late,
    /// Until the command has made `half`; then the reader is killed, and a copy of it goes on.
    Inherited,
    /// The same, and nobody goes on.
    Dies,
}

/// What one run was told.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Told {
    /// Lines of the trace.
    pub lines: Vec<Value>,
    /// Records that arrived.
    pub arrived: u64,
    /// Records sent.
    pub seen: u64,
    /// Records lost, by hook; those of which some were.
    pub lost: Vec<(String, u64)>,
    /// Acts counted and not sent, and what the counts of them come to.
    pub repeated: (u64, u64),
    /// Processes that there was no room to watch.
    pub unkept: u64,
    /// Calls that failed for want of their object.
    pub failures: u64,
    /// Protocol, other end, bytes sent to it.
    pub traffic: Vec<(String, String, u64)>,
    /// Whether addresses of names were noted.
    pub notes_names: bool,
    /// Why the kernel half does not see something that it can on every kernel.
    pub unseen: Option<String>,
    /// Microseconds that joining took.
    pub join_us: u64,
}

/// A slot after its run, as who loaded the programs sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ended {
    /// What the run was told; nothing where its reader died.
    pub told: Option<Told>,
    /// Records sent and lost.
    pub counts: (u64, u64),
    /// The same when the slot was cleared.
    pub counts_after: (u64, u64),
}

/// Plays a script and prints what came of it. Called before `main`, in a process with one thread.
pub fn serve(script: &[u8]) {
    let script: Script = serde_json::from_slice(script).expect("a script");
    let config = SharedConfig { parent: script.parent.clone(), level: 2, slots: script.slots };
    let begin = Instant::now();
    let mut shared = Shared::load(&config).unwrap_or_else(|error| panic!("{error}: {error:?}"));
    eprintln!("{} slots loaded in {:?}", script.slots, begin.elapsed());
    let mut ended = Vec::new();
    for runs in &script.rounds {
        let mut processes = Vec::new();
        for run in runs {
            let Some(pid) = fork::fork().expect("a process") else {
                let told = observe(shared, &script.parent, run);
                let text = serde_json::to_vec(&told).expect("JSON");
                fs::write(run.folder.join("told.part"), text).expect("a file");
                fs::rename(run.folder.join("told.part"), run.folder.join("told")).expect("a file");
                fork::end();
            };
            processes.push(pid);
        }
        wait_until("all are ready", || runs.iter().all(|run| run.folder.join("ready").exists()));
        for run in runs {
            fs::write(run.folder.join("go"), "").expect("a file");
        }
        if let [program, arguments @ ..] = script.outside.as_slice() {
            let status = Command::new(program).args(arguments).stdout(Stdio::null()).status();
            assert!(status.expect("the other program").success());
        }
        for pid in processes {
            waitpid(Some(pid), WaitOptions::empty()).expect("a child");
        }
        for run in runs {
            let told = run.folder.join("told");
            if run.reader != Reader::Dies {
                wait_until("the run is told", || told.exists());
            }
            let counts = sums(&shared.counters(run.slot).expect("counters"));
            let begin = Instant::now();
            shared.clear(run.slot).unwrap_or_else(|error| panic!("{error}"));
            eprintln!("slot {} cleared in {:?}", run.slot, begin.elapsed());
            let counts_after = sums(&shared.counters(run.slot).expect("counters"));
            let told = fs::read(&told).ok().map(|text| serde_json::from_slice(&text).expect("JSON"));
            ended.push(Ended { told, counts, counts_after });
            // What lives on is nobody's now.
            fs::write(run.folder.join("cleared"), "").expect("a file");
        }
    }
    println!("{}", serde_json::to_string(&ended).expect("JSON"));
}

/// Waits as long as fifty runs at once may take where the processor is emulated.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(240);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn sums(counters: &Counters) -> (u64, u64) {
    let sum = |counts: &[(&str, u64)]| counts.iter().map(|(_, count)| count).sum();
    (sum(&counters.seen), sum(&counters.lost))
}

/// Joins, runs the command to its end, and tells what it did.
fn observe(shared: Shared, parent: &Path, run: &Run) -> Told {
    let group = parent.join(run.folder.file_name().expect("a name"));
    fs::create_dir(&group).expect("a group");
    let out = File::create(run.folder.join("out")).expect("a file");
    let config = config(run, &group, &out.metadata().expect("its facts"));
    let begin = Instant::now();
    let mut observer =
        Observer::join(shared, run.slot, &config).unwrap_or_else(|error| panic!("{error}: {error:?}"));
    let join_us = begin.elapsed().as_micros() as u64;
    let mut command = Command::new("sh");
    command.args(["-c", "echo 0 >\"$0/cgroup.procs\" && exec \"$@\""]).arg(&group).args(&run.command);
    let mut child = command.current_dir(&run.folder).stdin(Stdio::null()).stdout(out).spawn().expect("sh");
    observer.follow(child.id()).expect("its namespace");
    let subject = Subject { root_pid: child.id(), sees_uring: observer.sees_uring(), has_witness: false };
    let mut reading = Reading::new(subject);
    let is_heir = matches!(run.reader, Reader::Inherited | Reader::Dies);
    if is_heir {
        reading.outlive(&mut observer, run, subject);
    }
    while is_running(&group, &mut child, is_heir) {
        if run.reader != Reader::Late {
            reading.drain(&mut observer, |_| {});
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    reading.drain(&mut observer, |_| {});
    Told { join_us, ..reading.end(&observer) }
}

fn config(run: &Run, group: &Path, out: &fs::Metadata) -> ObserverConfig {
    let names = NamesWanted {
        ends: vec![b"tset.a\0".to_vec()],
        denies: vec![false],
        servers: vec![[127, 0, 0, 1].into()],
    };
    ObserverConfig {
        group_id: fs::metadata(group).expect("the group").ino(),
        level: 2,
        group: group.to_owned(),
        names: run.notes_names.then_some(names),
        inherited: vec![InheritedFile { dev: out.dev(), ino: out.ino() }],
        sockets: Vec::new(),
        counting: Counting {
            repeats: run.counts,
            failures: if run.counts { Failures::Counted } else { Failures::AsText },
        },
        second_witness: false,
    }
}

/// From records to lines.
struct Reading {
    pipeline: Pipeline,
    writer: TraceWriter,
    lines: Vec<Value>,
    arrived: u64,
}

impl Reading {
    fn new(subject: Subject) -> Self {
        let (pipeline, writer) = (Pipeline::new(subject), TraceWriter::new(&[]));
        Self { pipeline, writer, lines: Vec::new(), arrived: 0 }
    }

    fn push(&mut self, record: &[u8]) {
        self.arrived += 1;
        let Self { pipeline, writer, lines, .. } = self;
        pipeline.push(record, |observation| {
            let mut line = String::new();
            writer.line(&observation, &mut line);
            lines.extend(line.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line")));
        });
    }

    /// Takes all that waits.
    fn drain(&mut self, observer: &mut Observer, mut keep: impl FnMut(&[u8])) {
        while observer.drain(|record| {
            keep(record);
            self.push(record);
        }) > 0
        {}
    }

    /// Reads until the command has made `half`, keeps what was read, and dies. Returns in a copy of this process that goes
    /// on, where there is to be one.
    fn outlive(&mut self, observer: &mut Observer, run: &Run, subject: Subject) {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        let spool = run.folder.join("spool");
        let is_copy = run.reader == Reader::Inherited && fork::fork().expect("a process").is_none();
        if !is_copy {
            let mut kept = Vec::new();
            while !run.folder.join("half").exists() {
                self.drain(observer, |record| kept.extend_from_slice(record));
                std::thread::sleep(Duration::from_millis(1));
            }
            fs::write(&spool, kept).expect("a file");
            kill_process(getpid(), Signal::KILL).expect("to die");
        }
        drop(theirs);
        assert_eq!(ours.read(&mut [0]).expect("an end"), 0);
        observer.take_over().expect("to go on");
        let mut kept = RecordReader::headless(File::open(&spool).expect("a file"), subject);
        while let Some(record) = kept.next_record().expect("a whole record") {
            self.push(record);
        }
        fs::write(run.folder.join("inherited"), "").expect("a file");
    }

    fn end(self, observer: &Observer) -> Told {
        let counters = observer.counters().expect("counters");
        let counted = observer.counted().expect("counts");
        let traffic = observer.traffic().expect("traffic").unwrap_or_default();
        // It is of the whole host, and told all the same.
        observer.skipped().expect("a number");
        let lost = counters.lost.iter().filter(|(_, count)| *count > 0);
        let ends = traffic.others.iter();
        Told {
            lines: self.lines,
            arrived: self.arrived,
            seen: sums(&counters).0,
            unkept: counters.unkept,
            lost: lost.map(|(hook, count)| ((*hook).to_owned(), *count)).collect(),
            repeated: (counted.repeated, counted.repeats.iter().map(|(_, times)| times).sum()),
            failures: counted.failures.iter().map(|(_, _, times)| times).sum(),
            traffic: ends
                .map(|((proto, address, port), tally)| {
                    ((*proto).to_owned(), format!("{address}:{port}"), tally.bytes_out)
                })
                .collect(),
            notes_names: observer.addresses().is_some(),
            unseen: observer.unseen_packets().map(ToOwned::to_owned),
            join_us: 0,
        }
    }
}

/// Whether somebody is in the group, or the command itself is still there.
fn is_running(group: &Path, child: &mut Child, is_heir: bool) -> bool {
    let events = fs::read_to_string(group.join("cgroup.events")).expect("its events");
    let has_ended = is_heir || child.try_wait().expect("our child").is_some();
    events.contains("populated 1") || !has_ended
}
