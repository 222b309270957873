//! A user who has the socket and is no client of ours: what it says is checked, and what it names is asked of the kernel.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use assay::sandbox::descendants::Descendants;
use assay::sandbox::environment::EnvironmentRequest;
use assay::sandbox::inherited::Inherited;
use assay::sandbox::outcome::ChildEnd;
use assay::sandbox::request::{Format, Mode, Timeout};
use assay::served::ask::Ask;
use assay::served::message::{self, ToClient, ToWorker};
use assay::served::policy_files::PolicyFiles;
use assay::served::wire::Line;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::{USER, service, shown};
use crate::harness::sandbox::{Running, groups_of, is_running, text, wait_until};
use crate::harness::service::{GROUP, Service, copy_program};

/// The first word of our own command line by which this binary is such a user; the attack's name, the socket and the
/// number of a process follow.
pub const FLAG: &str = "--attack";

/// How long the service may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request for `sh -c 'touch attacked'`, as an honest client would make it.
fn ask() -> Ask {
    Ask {
        command: [&b"sh"[..], b"-c", b"touch attacked"].map(<[u8]>::to_vec).into(),
        environment: vec![b"PATH=/usr/bin:/bin".to_vec()],
        descriptors: Vec::new(),
        inherited: Inherited { ignored: 0, blocked: 0, closed: 7 },
        mode: Mode::Default,
        is_fail_closed: false,
        allows_unobserved: true,
        scrubbing: EnvironmentRequest::Passthrough,
        workdir: None,
        timeout: Timeout::Never,
        descendants: Descendants::Wait,
        format: Format::Yaml,
        is_report_html: false,
        wants_profile: false,
        epoch: None,
        streams: Vec::new(),
        policy: None,
        policy_files: PolicyFiles::default(),
    }
}

/// An attacker's end of the line.
struct Attacker {
    line: Line,
    here: File,
}

impl Attacker {
    fn connect(socket: &str) -> Self {
        let stream = UnixStream::connect(socket).expect("a member may connect");
        Self { line: Line::new(stream).expect("a line"), here: File::open(".").expect("a folder") }
    }

    fn ask(&self, ask: &Ask, fds: &[BorrowedFd<'_>]) {
        let (header, body) = ask.pack();
        self.send(&ToWorker::Ask(Box::new(header)), &body, fds);
    }

    fn send(&self, message: &ToWorker, body: &[u8], fds: &[BorrowedFd<'_>]) {
        // It may have hung up.
        drop(self.line.send(&message::write(message).expect("a message"), body, fds));
    }

    /// Reads until the service wants the launcher, is done, or hangs up; in a word.
    fn hear(&self) -> String {
        loop {
            let frame = match self.line.receive(Some(PATIENCE)) {
                Ok(Some(frame)) => frame,
                Ok(None) => return "closed".into(),
                Err(error) => return format!("broken: {error}"),
            };
            match message::read::<ToClient>(&frame).expect("what the service says is well-formed") {
                ToClient::Refused { reasons } => return format!("refused: {}", reasons.join("; ")),
                ToClient::Notice { .. } => {}
                ToClient::Launch { .. } => return "launch".into(),
                ToClient::Over(over) => {
                    let why = over.ending.not_started.map(|why| why.texts().join("; "));
                    return format!(
                        "over: {}",
                        why.or(over.ending.failures.first().cloned()).unwrap_or_default()
                    );
                }
            }
        }
    }

    /// Answers that this process is the launcher.
    fn name(&self, pid: u32) -> String {
        let (ours, theirs) = UnixStream::pair().expect("a line");
        let pid = Pid::from_raw(pid as i32).expect("an id");
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("it is there");
        self.send(&ToWorker::Launched {}, &[], &[theirs.as_fd(), pidfd.as_fd()]);
        let told = self.hear();
        drop(ours);
        told
    }
}

fn sleeper() -> Child {
    Command::new("sleep").arg("1000").stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("sleep")
}

/// Plays an attack, and says what the service made of it.
pub fn attack(name: &str, socket: &str, number: u32) -> String {
    let attacker = Attacker::connect(socket);
    let here = attacker.here.as_fd();
    let null = File::open("/dev/null").expect("a device");
    match name {
        "garbage" => {
            let mut stream = attacker.line.stream();
            drop(stream.write_all(&[b'x'; 4096]));
            attacker.hear()
        }
        "other-version" => {
            let mut stream = attacker.line.stream();
            drop(stream.write_all(b"asy\x63\x02\0\0\0\0\0\0\0{}"));
            attacker.hear()
        }
        "huge" => {
            let mut stream = attacker.line.stream();
            drop(stream.write_all(b"asy\x01\xff\xff\xff\x7f\xff\xff\xff\x7f"));
            attacker.hear()
        }
        "half" => {
            let mut stream = attacker.line.stream();
            drop(stream.write_all(b"asy\x01\x10\0\0\0"));
            attacker.hear()
        }
        "silence" => attacker.hear(),
        "no-request" => {
            attacker.send(&ToWorker::Launched {}, &[], &[here]);
            attacker.hear()
        }
        "no-descriptors" => {
            attacker.ask(&ask(), &[]);
            attacker.hear()
        }
        "many-descriptors" => {
            attacker.ask(&ask(), &[here; 200]);
            attacker.hear()
        }
        "no-folder" => {
            attacker.ask(&ask(), &[null.as_fd()]);
            attacker.hear()
        }
        "trace-to-a-device" => {
            let ask = Ask { streams: vec![("trace".into(), b"/etc/shadow".to_vec())], ..ask() };
            attacker.ask(&ask, &[here, null.as_fd()]);
            attacker.hear()
        }
        "body-too-short" => {
            let (header, _) = ask().pack();
            attacker.send(&ToWorker::Ask(Box::new(header)), &[], &[here]);
            attacker.hear()
        }
        "more-words" => {
            let mut header = serde_json::to_value(ask().pack().0).expect("JSON");
            header["as_root"] = true.into();
            header["kind"] = "ask".into();
            let header = serde_json::to_vec(&header).expect("JSON");
            drop(attacker.line.send(&header, &ask().pack().1, &[here]));
            attacker.hear()
        }
        "its-own-end-first" => {
            attacker.ask(&ask(), &[here]);
            let end = ChildEnd::Exited(0);
            attacker.send(&ToWorker::Ended { end }, &[], &[]);
            let told = attacker.hear();
            if told == "launch" { attacker.hear() } else { told }
        }
        _ => about_processes(name, &attacker, number),
    }
}

/// Those that begin as an honest client does, and then name another process than the launcher.
fn about_processes(name: &str, attacker: &Attacker, number: u32) -> String {
    let null = File::open("/dev/null").expect("a device");
    attacker.ask(&ask(), &[attacker.here.as_fd()]);
    assert_eq!(attacker.hear(), "launch");
    match name {
        "a-process-of-others" | "a-process-in-a-run" => attacker.name(number),
        "itself" => attacker.name(std::process::id()),
        "a-grandchild" => {
            let mut shell = Command::new("sh");
            let mut shell =
                shell.args(["-c", "sleep 1000 & echo $!; wait"]).stdout(Stdio::piped()).spawn().expect("sh");
            let mut told = [0u8; 16];
            let count = shell.stdout.take().expect("a pipe").read(&mut told).expect("a number");
            let grandchild: u32 = text(&told[..count]).trim().parse().expect("a number");
            let answer = attacker.name(grandchild);
            kill_process(Pid::from_raw(grandchild as i32).expect("an id"), Signal::KILL).expect("it is ours");
            shell.wait().expect("it is ours");
            answer
        }
        "a-child-that-is-no-launcher" => {
            let mut child = sleeper();
            let answer = attacker.name(child.id());
            drop(child.kill());
            child.wait().expect("it is ours");
            answer
        }
        "no-process" => {
            attacker.send(&ToWorker::Launched {}, &[], &[null.as_fd(), null.as_fd()]);
            attacker.hear()
        }
        "dead-process" => {
            let mut child = sleeper();
            let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("it is there");
            drop(child.kill());
            child.wait().expect("it is ours");
            let (_ours, theirs) = UnixStream::pair().expect("a line");
            attacker.send(&ToWorker::Launched {}, &[], &[theirs.as_fd(), pidfd.as_fd()]);
            attacker.hear()
        }
        "no-launcher" => attacker.hear(),
        _ => panic!("no such attack: {name}"),
    }
}

/// The end of every attack, as it says itself.
pub fn play(mut arguments: impl Iterator<Item = String>) {
    let (name, socket) = (arguments.next().expect("a name"), arguments.next().expect("a socket"));
    let number = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    println!("{}", attack(&name, &socket, number));
}

/// This user plays this attack.
fn attacked(service: &Service, uid: u32, name: &str, number: u32) -> String {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &uid.to_string(), "--regid", &GROUP.to_string(), "--clear-groups", "--"]);
    command.arg(service.path("attacker")).args([FLAG, name]).arg(service.socket()).arg(number.to_string());
    command.current_dir(service.home(uid).join("w")).stdin(Stdio::null());
    let output = command.output().expect("an attacker");
    assert!(output.status.success(), "{name}: {}", shown(&output));
    text(&output.stdout).trim().to_owned()
}

const ATTACKS: [(&str, &str); 16] = [
    ("garbage", "it does not speak as we do"),
    ("other-version", "it speaks version 99"),
    ("huge", "is too long"),
    ("half", "timed out"),
    ("silence", "timed out"),
    ("no-request", "begins with something else"),
    ("no-descriptors", "do not add up"),
    ("many-descriptors", "do not add up"),
    ("no-folder", "stand in the client's directory"),
    ("trace-to-a-device", "the file for the trace is none"),
    ("body-too-short", "its body is too short"),
    ("more-words", "does not decode"),
    ("its-own-end-first", "does not answer as it should"),
    ("itself", "no child of its own"),
    ("a-grandchild", "no child of its own"),
    ("no-process", "Socket operation on non-socket"),
];

/// What is asked of the kernel about a process that is named.
const PROCESSES: [(&str, &str); 3] =
    [("a-child-that-is-no-launcher", "over: "), ("dead-process", "over: "), ("no-launcher", "over: ")];

#[test]
fn whoever_lies_to_the_service_gains_nothing() {
    let options = ["--max-starts-per-minute", "1000", "--max-runs-per-user", "100"];
    let Some(service) = service("attacks::whoever_lies_to_the_service_gains_nothing", &options) else {
        return;
    };
    copy_program(&std::env::current_exe().expect("ourselves"), &service.path("attacker"));
    // Processes that are not the attacker's: root's, another user's, and one of a run of its own.
    let mut sleep = Command::new("sleep");
    let roots = Running::start(sleep.arg("1000").stdin(Stdio::null()).stdout(Stdio::null()));
    let mut sleep = Command::new("setpriv");
    sleep
        .args([
            "--reuid",
            &(USER + 1).to_string(),
            "--regid",
            &GROUP.to_string(),
            "--clear-groups",
            "sleep",
            "1000",
        ])
        .stdout(Stdio::null());
    let others = Running::start(&mut sleep);
    let folder = service.home(USER).join("w");
    let script = "echo $$ > pid; exec sleep 1000";
    let mut run =
        Running::start(service.sandbox(USER, &["--quiet"], &["sh", "-c", script]).stderr(Stdio::null()));
    let inside = || fs::read_to_string(folder.join("pid")).ok()?.trim().parse::<u32>().ok();
    wait_until("a run runs", || inside().is_some());
    let inside = inside().expect("a pid");
    let groups = [roots.id(), others.id(), inside].map(group_of);

    let named = [
        (roots.id(), "a-process-of-others"),
        (others.id(), "a-process-of-others"),
        (inside, "a-process-in-a-run"),
    ];
    std::thread::scope(|scope| {
        for (name, want) in ATTACKS.into_iter().chain(PROCESSES) {
            let service = &service;
            scope.spawn(move || {
                let told = attacked(service, USER, name, 0);
                assert!(told.contains(want), "{name}: {told}");
            });
        }
        for (number, name) in named {
            let service = &service;
            scope.spawn(move || {
                let told = attacked(service, USER, name, number);
                assert!(told.contains("no child of its own"), "{name} {number}: {told}");
            });
        }
    });
    assert!(!folder.join("attacked").exists(), "a command ran");
    assert_eq!([roots.id(), others.id(), inside].map(group_of), groups, "a process was moved");
    assert!(is_running(inside));

    // Who is not of the group does not get as far.
    let socket = service.socket().to_string_lossy().into_owned();
    let stranger =
        service.as_user(USER + 2, USER + 2, &["sandbox", "--daemon", &socket, "--", "true"]).output();
    let stranger = stranger.expect("assay");
    assert_eq!(stranger.status.code(), Some(2), "{}", shown(&stranger));
    assert!(text(&stranger.stderr).contains("Permission denied"), "{}", shown(&stranger));

    // A command in a run is no client, and reaches neither the records nor the service's own files.
    let from_within = [service.path("attacker").display().to_string(), FLAG.into(), "silence".into(), socket];
    let from_within: Vec<&str> = from_within.iter().map(String::as_str).collect();
    let output = service.sandbox(USER + 1, &["--quiet", "--dry-run"], &from_within).output().expect("assay");
    assert!(text(&output.stdout).contains("it is itself in a run"), "{}", shown(&output));
    let spool = service.spool().display().to_string();
    let output =
        service.sandbox(USER + 1, &["--quiet", "--dry-run"], &["ls", &spool]).output().expect("assay");
    assert!(text(&output.stderr).contains("Permission denied"), "{}", shown(&output));

    // And everybody else is served as before.
    let output = service.sandbox(USER + 3, &["--quiet"], &["true"]).output().expect("assay");
    assert_eq!(output.status.code(), Some(0), "{}\n{}", shown(&output), service.log());
    kill_process(Pid::from_raw(run.id() as i32).expect("an id"), Signal::TERM).expect("it is there");
    run.wait();
    drop((roots, others));
    wait_until("nothing is left", || groups_of(service.id()).is_empty());
    let verdicts: Vec<String> = service.entries().iter().map(|entry| entry["verdict"].to_string()).collect();
    assert!(verdicts.iter().filter(|verdict| *verdict == "\"ok\"").count() <= 4, "{verdicts:?}");
}

fn group_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it is there")
}
