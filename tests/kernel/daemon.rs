//! The loop of the service: who gets a worker, and what becomes of workers and service whoever dies.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Gid, Pid, Signal, Uid, kill_process};

use crate::harness::sandbox::{ASSAY, groups_of_service, is_running, text, wait_until};
use crate::needs::{Need, are_met};

mod service;

const NEEDS: [Need; 2] = [Need::Root, Need::CgroupV2];
/// Users and groups that nobody has.
const ALICE: u32 = 4_000_001;
const BOB: u32 = 4_000_002;
const MEMBERS: u32 = 4_000_100;

/// A service in a folder of its own. It and what it left end with the test.
struct Service {
    base: tempfile::TempDir,
    child: Child,
}

impl Service {
    fn start(settings: &[&str]) -> Self {
        let base = tempfile::tempdir().expect("a folder");
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        Self { child: Self::spawn(&base, settings), base }
    }

    /// Another one at the same place.
    fn start_again(&mut self, settings: &[&str]) {
        self.child = Self::spawn(&self.base, settings);
    }

    fn spawn(base: &tempfile::TempDir, settings: &[&str]) -> Child {
        let log = fs::File::options().append(true).create(true).open(base.path().join("log")).expect("a log");
        let mut command = Command::new(std::env::current_exe().expect("ourselves"));
        command.arg(service::FLAG).arg(format!("socket={}", base.path().join("s/assay.sock").display()));
        command.arg(format!("spool={}", base.path().join("spool").display()));
        command.arg(format!("group={MEMBERS}")).args(settings);
        let before = fs::read_to_string(base.path().join("log")).expect("a log").matches("listening").count();
        let mut child = command.stdin(Stdio::null()).stderr(log).spawn().expect("a service");
        let log = || fs::read_to_string(base.path().join("log")).expect("a log");
        wait_until("it listens or says why not", || {
            log().matches("listening").count() > before || !is_running(child.id())
        });
        assert!(matches!(child.try_wait(), Ok(None)), "{}", log());
        child
    }

    fn socket(&self) -> PathBuf {
        self.base.path().join("s/assay.sock")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.base.path().join("log")).expect("a log")
    }

    fn says(&self, words: &str) {
        wait_until(words, || self.log().contains(words));
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal");
    }

    /// Waits for its end and says how it came.
    fn ends(&mut self) -> Option<i32> {
        self.child.wait().expect("a status").code()
    }

    /// A connection as somebody who is in the group of members.
    fn member(&self, uid: u32) -> Caller {
        self.connect(uid, uid, vec![MEMBERS]).expect("a member may connect")
    }

    fn connect(&self, uid: u32, gid: u32, groups: Vec<u32>) -> io::Result<Caller> {
        let socket = self.socket();
        // Ids are a thread's; this one ends as who it became.
        let connect = move || {
            let groups: Vec<Gid> = groups.into_iter().map(Gid::from_raw).collect();
            rustix::thread::set_thread_groups(&groups)?;
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            rustix::thread::set_thread_res_gid(gid, gid, gid)?;
            rustix::thread::set_thread_res_uid(uid, uid, uid)?;
            UnixStream::connect(socket)
        };
        let line = std::thread::spawn(connect).join().expect("no panic")?;
        line.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Caller(BufReader::new(line)))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended, and been waited for.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().ok();
            self.child.wait().ok();
        }
        for runs in groups_of_service(self.child.id()) {
            wait_until("nothing of it is left", || {
                for entry in fs::read_dir(&runs).into_iter().flatten().flatten() {
                    fs::write(entry.path().join("cgroup.kill"), "1").ok();
                    fs::remove_dir(entry.path()).ok();
                }
                fs::remove_dir(&runs).is_ok() || !runs.exists()
            });
        }
    }
}

/// Somebody who is connected.
struct Caller(BufReader<UnixStream>);

impl Caller {
    fn says(&mut self, words: &str) -> &mut Self {
        // Who was refused is told so and hung up on, perhaps before it has said anything.
        writeln!(self.0.get_mut(), "{words}").ok();
        self
    }

    /// The next line; nothing when the other side is gone.
    fn hears(&mut self) -> String {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => panic!("a line in time: {error}"),
            _ => {}
        }
        line.trim_end().to_owned()
    }

    /// The number at the end of the next line.
    fn hears_number(&mut self) -> u32 {
        let line = self.hears();
        line.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    }
}

fn kill(pid: u32) {
    // One that is gone is what we wanted.
    kill_process(Pid::from_raw(pid as i32).expect("an id"), Signal::KILL).ok();
}

#[test]
fn who_is_a_member_gets_a_worker_and_a_stranger_a_line() {
    if !are_met("daemon::who_is_a_member_gets_a_worker_and_a_stranger_a_line", &NEEDS) {
        return;
    }
    let service = Service::start(&[]);
    let mut root = service.connect(0, 0, Vec::new()).expect("root may");
    assert_eq!(root.says("who").hears(), "uid 0 gid 0 groups [] slot 0");
    let mut alice = service.member(ALICE);
    let who = alice.says("who").hears();
    assert!(who.starts_with(&format!("uid {ALICE} gid {ALICE} groups [{MEMBERS}] slot")), "{who}");
    let mut bob = service.connect(BOB, MEMBERS, Vec::new()).expect("a member may");
    assert!(bob.says("who").hears().starts_with(&format!("uid {BOB} gid {MEMBERS} ")));

    // The socket itself keeps strangers out; the service does where somebody has opened it.
    let refused = service.connect(BOB, BOB, Vec::new()).map(drop).expect_err("a stranger");
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    fs::set_permissions(service.socket(), fs::Permissions::from_mode(0o666)).expect("a mode");
    let mut stranger = service.connect(BOB, BOB, vec![BOB]).expect("a connection");
    assert_eq!(stranger.hears(), format!("refused: you are not a member of the group `{MEMBERS}`"));
    assert_eq!(stranger.hears(), "");
    service.says(&format!("user {BOB} is not served: you are not a member"));
}

#[test]
fn a_worker_holds_nothing_of_other_runs() {
    if !are_met("daemon::a_worker_holds_nothing_of_other_runs", &NEEDS) {
        return;
    }
    let service = Service::start(&["metrics=127.0.0.1:0"]);
    let mut others: Vec<Caller> = (0..3).map(|_| service.member(ALICE)).collect();
    for other in &mut others {
        other.says("run").hears();
    }
    let mut bob = service.member(BOB);
    assert!(bob.says("who").hears().ends_with("slot 3"));
    // Its connection, its client's process, its end of its own pipe.
    let open = bob.hears();
    let kinds: Vec<&str> = open.split(' ').collect();
    assert!(matches!(kinds[..], ["anon_inode" | "pidfd", "pipe", "socket"]), "{open}");
}

#[test]
fn what_one_takes_too_much_of_another_still_gets() {
    if !are_met("daemon::what_one_takes_too_much_of_another_still_gets", &NEEDS) {
        return;
    }
    let service = Service::start(&["runs-per-user=2", "runs=3", "waiting=1", "starts=5"]);
    let mut first = service.member(ALICE);
    // It said nothing yet.
    let told = service.member(ALICE).hears();
    assert_eq!(told, "refused: you have 1 connections that started no run, which is the limit for a user");
    assert_eq!(first.says("run").hears(), "started in 0");
    let mut second = service.member(ALICE);
    second.says("run").hears();
    let told = service.member(ALICE).hears();
    assert_eq!(told, "refused: you have 2 runs at once, which is the limit for a user");
    let mut bob = service.member(BOB);
    assert_eq!(bob.says("run").hears(), "started in 2");
    assert_eq!(service.member(BOB).hears(), "refused: the host has 3 runs at once, which is its limit");
    assert_eq!(first.says("").hears(), "finished ok");
    service.says(&format!("a run of user {ALICE} ended: ok, without an id, 5 ms, 10 records, 0 lost"));
    // Its place is free when its process is gone, which is a moment later.
    let mut admitted = String::new();
    for _ in 0..3 {
        wait_until("one more", || {
            let mut next = service.member(ALICE);
            match next.says("run").hears().as_str() {
                "started in 0" => next.says("").hears() == "finished ok",
                told => {
                    assert!(told.contains("at once") || told.contains("within a minute"), "{told}");
                    told.contains("within a minute")
                }
            }
        });
        admitted.push('.');
    }
    let told = loop {
        let told = service.member(ALICE).says("run").hears();
        if !told.contains("at once") {
            break told;
        }
    };
    assert_eq!(told, "refused: you started 5 runs within a minute, which is the limit for a user");
}

#[test]
fn a_reload_loses_no_run() {
    if !are_met("daemon::a_reload_loses_no_run", &NEEDS) {
        return;
    }
    let service = Service::start(&[]);
    let mut alice = service.member(ALICE);
    alice.says("run").hears();
    service.signal(Signal::HUP);
    service.says(&format!("reloaded: members of `{MEMBERS}` may connect"));
    assert_eq!(service.member(BOB).says("run").hears(), "started in 1");
    assert_eq!(alice.says("").hears(), "finished ok");
}

#[test]
fn when_it_stops_runs_are_waited_for_and_nobody_is_admitted() {
    if !are_met("daemon::when_it_stops_runs_are_waited_for_and_nobody_is_admitted", &NEEDS) {
        return;
    }
    let mut service = Service::start(&[]);
    let mut alice = service.member(ALICE);
    alice.says("run").hears();
    service.signal(Signal::TERM);
    service.says("stopping: waiting for 1 connections, 60 s at most");
    assert_eq!(service.member(BOB).hears(), "refused: the service is stopping");
    assert_eq!(alice.says("").hears(), "finished ok");
    assert_eq!(service.ends(), Some(0));
    assert!(!service.socket().exists());
    assert_eq!(groups_of_service(service.child.id()), Vec::<PathBuf>::new());
    assert!(service.log().ends_with("stopped\n"), "{}", service.log());
}

#[test]
fn runs_that_go_on_are_ended_by_their_workers_who_write_what_there_is() {
    if !are_met("daemon::runs_that_go_on_are_ended_by_their_workers_who_write_what_there_is", &NEEDS) {
        return;
    }
    for settings in [&["drain-ms=50"][..], &["drain-ms=60000"]] {
        let mut service = Service::start(settings);
        let mut alice = service.member(ALICE);
        alice.says("run").hears();
        service.signal(Signal::TERM);
        if settings == ["drain-ms=60000"] {
            service.says("stopping: waiting");
            service.signal(Signal::INT);
        }
        assert_eq!(alice.hears(), "finished incomplete");
        assert_eq!(service.ends(), Some(0));
        service.says(&format!("a run of user {ALICE} ended: incomplete"));
    }
}

#[test]
fn a_worker_that_does_not_end_is_killed_with_its_run() {
    if !are_met("daemon::a_worker_that_does_not_end_is_killed_with_its_run", &NEEDS) {
        return;
    }
    let mut service = Service::start(&[]);
    let mut alice = service.member(ALICE);
    let pid = alice.says("stuck").hears_number();
    for words in ["stopping: waiting", "stopping: ending", "they and their runs are killed"] {
        service.signal(Signal::TERM);
        service.says(words);
    }
    assert_eq!(service.ends(), Some(0));
    wait_until("its process is gone", || !is_running(pid));
    assert_eq!(alice.hears(), "");
}

#[test]
fn what_a_dead_worker_left_does_not_go_on() {
    if !are_met("daemon::what_a_dead_worker_left_does_not_go_on", &NEEDS) {
        return;
    }
    let service = Service::start(&["metrics=/run/assay-test-metrics.sock"]);
    let mut alice = service.member(ALICE);
    let pid = alice.says("die").hears_number();
    service.says(&format!("of user {ALICE} was ended by signal 9 before its run was recorded"));
    wait_until("its process is gone", || !is_running(pid));
    // The group of the runs is empty again.
    let runs = groups_of_service(service.child.id());
    assert_eq!(runs.len(), 1);
    wait_until("its group is gone", || {
        fs::read_dir(&runs[0])
            .is_ok_and(|mut entries| entries.all(|entry| !entry.expect("an entry").path().is_dir()))
    });

    let mut line = UnixStream::connect("/run/assay-test-metrics.sock").expect("metrics");
    line.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("a question");
    let mut page = String::new();
    line.read_to_string(&mut page).expect("an answer");
    assert!(page.contains("\nassay_workers_died_total 1\n"), "{page}");
    assert!(page.contains("\nassay_runs_running 0\n"), "{page}");
    service.signal(Signal::TERM);
    service.says("stopped");
    assert!(!std::path::Path::new("/run/assay-test-metrics.sock").exists());
}

#[test]
fn a_run_whose_worker_died_is_closed_as_lost_and_counts_for_its_user() {
    if !are_met("daemon::a_run_whose_worker_died_is_closed_as_lost_and_counts_for_its_user", &NEEDS) {
        return;
    }
    let mut service = Service::start(&["spool-bytes=2000"]);
    let lost = |entry, user| {
        format!(
            "entry {entry} of the spool: a run of user {user} whose writer died is recorded as lost, with 2 files"
        )
    };
    assert_eq!(service.member(ALICE).says("begin and die").hears(), "begun");
    service.says(&lost(1, ALICE));
    wait_until("it is known what she has", || {
        let told = service.member(ALICE).says("who").hears();
        told == "refused: your records take more than 2000 bytes, which is the limit for a user"
    });
    assert!(service.member(BOB).says("who").hears().starts_with("uid"));

    // The same when the service died before its worker, by the next one.
    let mut bob = service.member(BOB);
    assert_eq!(bob.says("hello").hears(), "hello");
    service.signal(Signal::KILL);
    service.ends();
    assert_eq!(bob.says("begin and die").hears(), "begun");
    assert_eq!(bob.hears(), "");
    service.start_again(&[]);
    service.says(&lost(2, BOB));
}

#[test]
fn a_place_is_taken_for_as_long_as_an_heir_is_there() {
    if !are_met("daemon::a_place_is_taken_for_as_long_as_an_heir_is_there", &NEEDS) {
        return;
    }
    let service = Service::start(&[]);
    let mut alice = service.member(ALICE);
    assert_eq!(alice.says("leave an heir").hears(), "an heir");
    for _ in 0..20 {
        let who = service.member(BOB).says("who").hears();
        assert!(!who.ends_with("slot 0"), "{who}");
    }
    alice.says("");
    service.says(&format!("a run of user {ALICE} ended: failed"));
    wait_until("place 0 is free", || service.member(BOB).says("who").hears().ends_with("slot 0"));
}

#[test]
fn runs_go_on_without_the_service_and_another_one_starts_beside_them() {
    if !are_met("daemon::runs_go_on_without_the_service_and_another_one_starts_beside_them", &NEEDS) {
        return;
    }
    let mut service = Service::start(&[]);
    let mut alice = service.member(ALICE);
    alice.says("run").hears();
    let mut victim = service.member(BOB);
    let pid = victim.says("stuck").hears_number();
    let first = service.child.id();
    service.signal(Signal::KILL);
    service.ends();
    // The socket is still there, and nobody listens at it.
    assert!(service.socket().exists());
    service.start_again(&[]);
    assert!(is_running(pid), "the other service's run goes on");
    assert_eq!(service.member(BOB).says("run").hears(), "started in 0");
    assert_eq!(alice.says("").hears(), "finished ok");

    // And when its worker dies as well, the next service ends it.
    let worker = groups_of_service(first).into_iter().flat_map(|runs| fs::read_dir(runs).expect("a group"));
    let worker = worker.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().expect("a name");
        name.strip_prefix("assay-")?.split('-').nth(1)?.parse::<u32>().ok()
    });
    let worker = worker.expect("a worker's group");
    kill(worker);
    wait_until("the worker is dead", || !is_running(worker));
    service.signal(Signal::TERM);
    service.signal(Signal::TERM);
    assert_eq!(service.ends(), Some(0));
    service.start_again(&[]);
    wait_until("its run is ended", || !is_running(pid));
    assert_eq!(groups_of_service(first), Vec::<PathBuf>::new());
}

#[test]
fn a_socket_that_is_passed_is_taken_and_left() {
    if !are_met("daemon::a_socket_that_is_passed_is_taken_and_left", &NEEDS) {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    let socket = base.path().join("assay.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let manager = UnixDatagram::bind(base.path().join("notify")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let hears = || {
        let mut bytes = [0; 200];
        let count = manager.recv(&mut bytes).expect("a word in time");
        text(&bytes[..count])
    };
    let script = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" \"$@\"";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().expect("ourselves"))
        .args([service::FLAG, &format!("socket={}", socket.display()), "alive-ms=10"])
        .arg(format!("spool={}", base.path().join("spool").display()))
        .env("NOTIFY_SOCKET", base.path().join("notify"))
        .stdin(std::os::fd::OwnedFd::from(listener))
        .stderr(Stdio::null())
        .spawn()
        .expect("a service");
    assert_eq!(hears(), "READY=1\nSTATUS=0 runs, 0 connections without a run\n");
    assert_eq!(hears(), "WATCHDOG=1\n");
    let mut line = BufReader::new(UnixStream::connect(&socket).expect("a connection"));
    writeln!(line.get_mut(), "who").expect("it listens");
    let mut told = String::new();
    line.read_line(&mut told).expect("an answer");
    assert!(told.starts_with("uid 0 "), "{told}");
    kill_process(Pid::from_child(&child), Signal::HUP).expect("a signal");
    while !hears().starts_with("RELOADING=1\nMONOTONIC_USEC=") {}
    while !hears().starts_with("READY=1\n") {}
    kill_process(Pid::from_child(&child), Signal::TERM).expect("a signal");
    while !hears().starts_with("STOPPING=1\n") {}
    assert!(child.wait().expect("a status").success());
    assert!(socket.exists());
}

#[test]
fn the_command_refuses_by_code_2_and_says_why() {
    if !are_met("daemon::the_command_refuses_by_code_2_and_says_why", &NEEDS) {
        return;
    }
    let service = Service::start(&[]);
    let socket = service.socket();
    let refused = |arguments: &[&str]| {
        let output = Command::new(ASSAY).arg("daemon").args(arguments).output().expect("assay runs");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let at = socket.to_str().expect("a plain name");
    let told = refused(&["--socket", at, "--group", "root"]);
    assert!(told.contains(&format!("another service does, process {}", service.child.id())), "{told}");
    let elsewhere = service.base.path().join("other.sock");
    let elsewhere = elsewhere.to_str().expect("a plain name");
    let told = refused(&["--socket", elsewhere, "--group", "no-such-group"]);
    assert!(told.contains("find group `no-such-group`") && told.contains("groupadd"), "{told}");
    let told = refused(&["--socket", "relative.sock", "--group", "root"]);
    assert!(told.contains("must be an absolute path"), "{told}");
    let told = refused(&["--metrics", "0.0.0.0:1"]);
    assert!(told.contains("neither an absolute path nor an address of the loopback"), "{told}");
}

/// The unit, as far as it can be had without a manager: its capabilities, and that it gains none.
#[test]
fn what_the_unit_leaves_the_service_is_enough() {
    let needs = [Need::Root, Need::CgroupV2, Need::Btf, Need::Program("setpriv")];
    if !are_met("daemon::what_the_unit_leaves_the_service_is_enough", &needs) {
        return;
    }
    let unit = include_str!("../../packaging/assay.service");
    let left = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).expect("a set");
    let left: String = left.to_lowercase().split(' ').map(|name| name.replace("cap_", ",+")).collect();
    let base = tempfile::tempdir().expect("a folder");
    let at = |name: &str| base.path().join(name);
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    // Where an ordinary user may run it.
    fs::copy(ASSAY, at("assay")).expect("a copy");
    fs::create_dir_all(at("home/w")).expect("a folder");
    for folder in ["home", "home/w"] {
        std::os::unix::fs::chown(at(folder), Some(ALICE), Some(MEMBERS)).expect("an owner");
    }
    let log = fs::File::create(at("log")).expect("a log");
    let mut command = Command::new("setpriv");
    command
        .args(["--no-new-privs", "--inh-caps=-all", "--bounding-set"])
        .arg(format!("-all{left}"))
        .arg("--");
    command.arg(at("assay")).args(["daemon", "--group", &MEMBERS.to_string(), "--drain", "0", "--socket"]);
    command.arg(at("assay.sock")).arg("--spool").arg(at("spool"));
    let child = command.stdin(Stdio::null()).stderr(log).spawn().expect("a service");
    let log = || fs::read_to_string(at("log")).expect("a log");
    wait_until("it listens", || log().contains("listening") || !is_running(child.id()));
    let mut service = Service { base, child };
    let at = |name: &str| service.base.path().join(name);

    for mode in ["--enforce", "--dry-run"] {
        let mut user = Command::new("setpriv");
        user.args(["--reuid", &ALICE.to_string(), "--regid", &MEMBERS.to_string(), "--clear-groups", "--"]);
        user.arg(at("assay"))
            .args(["sandbox", mode, "--profile", "run.yaml", "--daemon"])
            .arg(at("assay.sock"));
        user.args(["--", "sh", "-c", "cat /etc/hostname > made; exit 3"]);
        user.env("HOME", at("home")).env_remove("SUDO_UID").current_dir(at("home/w"));
        let output = user.stdin(Stdio::null()).output().expect("a run");
        let told = format!("{}{}", text(&output.stderr), service.log());
        assert_eq!(output.status.code(), Some(3), "{mode}: {told}");
        let evidence = fs::read_to_string(at("home/w/run.evidence.yaml")).expect("evidence");
        for kind in ["fs", "exec", "net"] {
            assert!(evidence.contains(&format!("\n  {kind}: complete\n")), "{mode}: {evidence}");
        }
        fs::remove_file(at("home/w/made")).expect("what the command made");
    }
    service.signal(Signal::TERM);
    assert_eq!(service.ends(), Some(0));
}
