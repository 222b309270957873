//! A service whose workers do what their client says: this test binary, run again. In: settings as arguments. Out: its log
//! on stderr.
//!
//! It begins before `main`, for the test harness has a thread for each test, and a process with two is not copied.
#![expect(unsafe_code, reason = "what runs before `main` is found by its section")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use assay::daemon::activation::Passed;
use assay::daemon::limits::Limits;
use assay::daemon::log::{Entry, Log};
use assay::daemon::plan::Plan;
use assay::daemon::report::{Over, Report, Tally};
use assay::daemon::serve;
use assay::daemon::worker::{Assignment, Reporter, Served};
use assay::evidence::timestamp::Timestamp;
use assay::exit::Exit;
use assay::sandbox::outcome::Verdict;
use assay::sandbox::signals::SignalQueue;
use assay::sandbox::{cgroup, fork};
use assay::spool::{Begin, Spool, User, Writer};
use rustix::event::{PollFd, PollFlags};

/// The first argument of a test binary that is to serve; its settings follow, each `name=value`.
pub const FLAG: &str = "--service";

/// Runs before `main` of the test binary.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    let mut args = std::env::args().skip(1);
    if args.next().is_none_or(|first| first != FLAG) {
        return;
    }
    let settings: Vec<(String, String)> = args
        .filter_map(|arg| arg.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
        .collect();
    let code = match serve::run(plan(&settings), |_| Ok(served()), &Stderr) {
        Ok(()) => 0,
        Err(error) => {
            writeln!(std::io::stderr(), "failed to {error}").ok();
            2
        }
    };
    std::process::exit(code);
}

fn plan(settings: &[(String, String)]) -> Plan {
    let text = |name: &str| settings.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    let number = |name: &str| text(name).map(|text| text.parse::<u32>().expect("a number"));
    let usual = Limits::default();
    Plan {
        socket: text("socket").expect("a socket").into(),
        spool: text("spool").expect("a spool").into(),
        group: text("group").unwrap_or("0").into(),
        limits: Limits {
            runs: number("runs").unwrap_or(usual.runs),
            runs_per_user: number("runs-per-user").unwrap_or(usual.runs_per_user),
            waiting_per_user: number("waiting").unwrap_or(usual.waiting_per_user),
            starts_per_minute: number("starts").unwrap_or(usual.starts_per_minute),
            spool_bytes_per_user: number("spool-bytes").map_or(usual.spool_bytes_per_user, u64::from),
        },
        drain: Duration::from_millis(number("drain-ms").unwrap_or(60_000).into()),
        metrics: text("metrics").map(|place| place.parse().expect("a place")),
        passed: Passed { pid: std::env::var("LISTEN_PID").ok(), count: std::env::var("LISTEN_FDS").ok() },
        notify: std::env::var_os("NOTIFY_SOCKET"),
        alive_every: number("alive-ms").map(|ms| Duration::from_millis(ms.into())),
    }
}

fn served() -> Served<()> {
    Served {
        shared: (),
        slots: 8,
        work,
        clear: |(), _| Ok(()),
        refuse: |mut line, why| drop(line.write_all(format!("refused: {why}\n").as_bytes())),
        times: |()| Vec::new(),
    }
}

struct Stderr;

impl Log for Stderr {
    fn log(&self, entry: &Entry) {
        writeln!(std::io::stderr(), "{}", entry.text).ok();
    }
}

/// Does what the first line says, and answers each step in a line.
fn work((): (), assignment: Assignment) -> Exit {
    let Assignment { line, peer, slot, groups_parent, spool, report, .. } = assignment;
    // Who hung up does not read.
    let say = |text: String| drop(writeln!(&line, "{text}"));
    let tell = |report_of: Report| drop(report.report(&report_of));
    let mut lines = BufReader::new(&line);
    let mut words = String::new();
    lines.read_line(&mut words).ok();
    if words == "hello\n" {
        say("hello".into());
        words.clear();
        lines.read_line(&mut words).ok();
    }
    match words.trim_end() {
        "who" => {
            say(format!("uid {} gid {} groups {:?} slot {slot}", peer.uid, peer.gid, peer.groups));
            say(open_files().join(" "));
            tell(Report::Refused { reason: "only asked".into() });
        }
        "run" => {
            tell(Report::Started { pid: std::process::id() });
            say(format!("started in {slot}"));
            let verdict = wait_for_word(&line);
            tell(finished(verdict));
            say(format!("finished {}", verdict.as_str()));
        }
        "stuck" => {
            tell(Report::Started { pid: std::process::id() });
            let pid = stay_in_group(&groups_parent.directory);
            say(format!("stuck with {pid}"));
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        "begin and die" => {
            let staging = Spool::open(&spool).and_then(|spool| {
                let writer = Writer::ourselves().expect("ourselves");
                let user = User { uid: peer.uid, name: None };
                let time = Timestamp::new(1_800_000_000).expect("a time");
                spool.begin(&Begin { user, command: vec!["true".into()], time, writer })
            });
            let staging = staging.expect("a place in the spool");
            std::fs::write(staging.directory().join("trace.ndjson"), [b'\n'; 3000]).expect("a trace");
            tell(Report::Started { pid: std::process::id() });
            say("begun".into());
            kill_ourselves();
        }
        "die" => {
            tell(Report::Started { pid: std::process::id() });
            let pid = stay_in_group(&groups_parent.directory);
            say(format!("dying with {pid}"));
            kill_ourselves();
        }
        "leave an heir" => {
            tell(Report::Started { pid: std::process::id() });
            if fork::fork().expect("a copy").is_none() {
                inherit(&line, &report);
            }
        }
        other => {
            say(format!("what is {other}?"));
            tell(Report::Refused { reason: "no word that is known".into() });
        }
    }
    Exit::Success
}

fn kill_ourselves() {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        .expect("a signal");
}

fn inherit(mut line: &UnixStream, report: &Reporter) -> ! {
    writeln!(line, "an heir").ok();
    line.read_exact(&mut [0]).ok();
    report.report(&finished(Verdict::Failed)).ok();
    fork::end()
}

fn finished(verdict: Verdict) -> Report {
    let tally = Tally { records: 10, lost: 0, lag_us: 700 };
    Report::Finished(Over { run_id: None, verdict, tally, bytes: 100, ms: 5, seq: Some(0) })
}

/// Waits for a byte of the client's, or to be told to end.
fn wait_for_word(line: &UnixStream) -> Verdict {
    let signals = SignalQueue::take_over().expect("signals");
    let mut polled = [PollFd::new(line, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
    rustix::event::poll(&mut polled, None).expect("something");
    if polled[1].revents().is_empty() {
        return Verdict::Ok;
    }
    let number = signals.next().expect("a signal").map(|received| received.number);
    if number == Some(15) { Verdict::Incomplete } else { Verdict::Failed }
}

/// A process that stays, in a group as a run has one. Which it is.
#[expect(clippy::zombie_processes, reason = "it is to outlive its parent, which never waits")]
fn stay_in_group(parent: &Path) -> u32 {
    let directory = parent.join(format!("assay-{}-0", cgroup::own_mark().expect("a mark")));
    std::fs::create_dir(&directory).expect("a group");
    let mut command = std::process::Command::new("sleep");
    let child = command.arg("1000").stderr(std::process::Stdio::null()).spawn().expect("sleep");
    std::fs::write(directory.join("cgroup.procs"), child.id().to_string()).expect("a member");
    child.id()
}

/// What is open above stderr, by what it is.
fn open_files() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("proc").flatten();
    let mut open: Vec<String> = entries
        .filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok_and(|number| number > 2))
        })
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .map(|target| target.to_string_lossy().split(':').next().unwrap_or_default().to_owned())
        .filter(|target| !target.starts_with("/proc/"))
        .collect();
    open.sort();
    open
}
