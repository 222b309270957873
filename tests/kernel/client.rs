//! Runs of ordinary users, served: the same record as root's, kept where they cannot reach it.

pub mod attacks;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::sandbox::{ASSAY, Running, children_of, groups_of, is_running, json, text, wait_until};
use crate::harness::service::{GROUP, Service, USER, is_good};
use crate::needs::{Need, are_met};

const NEEDS: [Need; 5] =
    [Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(6), Need::Program("setpriv")];

fn service(name: &str, options: &[&str]) -> Option<Service> {
    are_met(&format!("client::{name}"), &NEEDS).then(|| Service::start(options))
}

fn shown(output: &Output) -> String {
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// The run in the evidence of a profile in the user's folder.
fn evidence(folder: &Path) -> Value {
    json(&folder.join("p.evidence.json"))
}

const RECORD: [&str; 6] = ["--profile", "../p.json", "--profile-format", "json", "--bundle", "../b.tgz"];

/// The same command by the same user, once served and once run by root as that user.
fn check_alike(service: &Service, mode: &[&str], command: &[&str]) {
    let home = service.home(USER);
    let folder = home.join("w");
    let empty = || {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            drop(fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)));
        }
    };
    let options = [&RECORD[..], mode].concat();
    empty();
    let served = service.sandbox(USER, &options, command).output().expect("assay");
    let told = evidence(&home);
    let owner = fs::metadata(home.join("b.tgz")).expect("a bundle");
    assert_eq!((owner.uid(), owner.mode() & 0o777), (USER, 0o600));
    assert!(is_good(&home.join("b.tgz")));
    let entries = service.entries();
    let entry = entries.last().expect("an entry");
    assert_eq!((&entry["run_id"], &entry["user"]["uid"]), (&told["run_id"], &USER.into()), "{entry:#}");
    assert_eq!(entry["exit_code"].as_i64(), served.status.code().map(i64::from), "{}", shown(&served));
    let kept = service.kept(entry);
    for (name, copy) in
        [("bundle.tar.gz", "b.tgz"), ("evidence.json", "p.evidence.json"), ("profile.json", "p.json")]
    {
        assert_eq!(fs::read(kept.join(name)).expect(name), fs::read(home.join(copy)).expect(copy), "{name}");
    }

    empty();
    let mut alone = Command::new(ASSAY);
    alone.args(["sandbox", "--daemon", "never", "--user", &format!("{USER}:{GROUP}")]).args(&options);
    alone.arg("--").args(command).current_dir(&folder).env_clear().stdin(Stdio::null());
    alone.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C").env("HOME", &home);
    let alone = alone.output().expect("assay");
    let expected = evidence(&home);
    assert_eq!(served.status.code(), alone.status.code(), "{}{}", shown(&served), shown(&alone));
    assert_eq!(text(&served.stdout), text(&alone.stdout));
    let mut identity = told["identity"].clone();
    if mode == ["--dry-run"] {
        // A client's child keeps the rights that its user has no way to give up, and that is told.
        let degradations = identity["degradations"].as_array_mut().expect("degradations");
        degradations.retain(|one| one["reason"] != "bounding-set-kept");
    }
    // Root's `--user` has the home of no directory service's user.
    assert_eq!(identity, expected["identity"], "{command:?}");
}

#[test]
fn an_ordinary_user_gets_the_record_that_root_gets() {
    let Some(service) = service("an_ordinary_user_gets_the_record_that_root_gets", &[]) else { return };
    let commands: [&[&str]; 6] = [
        &["sh", "-c", "echo hi > x; cat x; ls /proc/1/root; echo $UID"],
        &[
            "sh",
            "-c",
            "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; cat ~/.ssh/id_rsa /etc/shadow; exit 7",
        ],
        &["git", "init", "-q", "r"],
        &["sh", "-c", "echo 'int main(){return 3;}' > a.c && gcc a.c && ./a.out"],
        &[
            "python3",
            "-c",
            "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.connect_ex(('127.0.0.1', 9)))",
        ],
        &["sh", "-c", "touch $TMPDIR/a; mktemp > m; kill -9 $$"],
    ];
    for command in commands {
        for mode in [&[][..], &["--enforce"], &["--dry-run"]] {
            check_alike(&service, mode, command);
        }
    }
}

/// Nothing but the run's own: signals, descriptors, streams, its parent, its exit.
#[test]
fn the_command_is_its_callers_child() {
    let Some(service) = service("the_command_is_its_callers_child", &[]) else { return };
    let home = service.home(USER);
    let script = "cat; cat <&3; id -u; umask; echo $A; ps -o ppid= -p $$ | tr -d ' '; readlink /proc/self/fd/7; exit 5";
    let hostname = fs::read_to_string("/etc/hostname").expect("a file");
    // What the shell opens is passed on.
    let assay = format!("umask 027; exec 3</etc/hostname 7>>{}; exec \"$@\"", home.join("seven").display());
    let mut shell = Command::new("setpriv");
    shell.args(["--reuid", &USER.to_string(), "--regid", &GROUP.to_string(), "--clear-groups", "--"]);
    shell.args(["sh", "-c", &assay, "sh"]).arg(service.path("assay"));
    shell.args(["sandbox", "--daemon", &service.socket().to_string_lossy(), "--", "sh", "-c", script]);
    shell.current_dir(home.join("w")).env("A", "b\u{e9}c").env("HOME", &home);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut child = shell.spawn().expect("a shell");
    let id = child.id();
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), b"from stdin\n").expect("a pipe");
    let output = child.wait_with_output().expect("assay");
    let seven = home.join("seven").display().to_string();
    let want = format!("from stdin\n{hostname}{USER}\n0027\nb\u{e9}c\n{id}\n{seven}\n");
    assert_eq!((text(&output.stdout), output.status.code()), (want, Some(5)), "{}", shown(&output));
}

/// The command of a client that is killed ends, and what there is of the record is kept and says so.
#[test]
fn a_client_that_is_killed_leaves_no_command_and_a_record() {
    let Some(service) = service("a_client_that_is_killed_leaves_no_command_and_a_record", &[]) else {
        return;
    };
    let script = "touch seen; echo $$ > pid; exec sleep 1000";
    let folder = service.home(USER).join("w");
    let mut client = Running::start(&mut service.sandbox(USER, &[], &["sh", "-c", script]));
    let pid = || fs::read_to_string(folder.join("pid")).ok()?.trim().parse::<u32>().ok();
    wait_until("the command runs", || pid().is_some());
    let command = pid().expect("a pid");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(client.id() as i32).expect("an id"),
        Signal::KILL,
    )
    .expect("it is there");
    client.wait();
    wait_until("its command is gone", || !is_running(command));
    wait_until("its record is kept", || service.entries().len() == 1);
    let entry = &service.entries()[0];
    assert_eq!(entry["verdict"], "failed", "{entry:#}");
    assert!(entry["reasons"].to_string().contains("the client went away"), "{entry:#}");
    wait_until("its files are in their place", || service.kept(entry).exists());
    let evidence = fs::read_to_string(service.kept(entry).join("evidence.yaml")).expect("evidence");
    assert!(evidence.contains("${WORKDIR}/seen"), "{evidence}");
    wait_until("nothing is left", || {
        groups_of(service.id()).is_empty() && children_of(service.id()).is_empty()
    });
}

/// The service is killed: the run goes on observed, and its record is whole. The next one finds nothing to mend.
#[test]
fn a_service_that_is_killed_leaves_its_runs_observed() {
    let Some(mut service) = service("a_service_that_is_killed_leaves_its_runs_observed", &[]) else { return };
    let folder = service.home(USER).join("w");
    let script = "touch ready; until [ -e go ]; do sleep 0.02; done; touch made";
    let client = Running::start(service.sandbox(USER, &RECORD, &["sh", "-c", script]).stderr(Stdio::piped()));
    wait_until("the command runs", || folder.join("ready").exists());
    service.signal(Signal::KILL);
    service.ended();
    service.start_again(&[]);
    let other = service.sandbox(USER + 1, &[], &["true"]).output().expect("assay");
    assert_eq!(other.status.code(), Some(0), "{}", shown(&other));
    fs::write(folder.join("go"), "").expect("a file");
    let output = client.output();
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let told = evidence(&service.home(USER));
    assert!(told["identity"].to_string().contains("${WORKDIR}/made"), "{told:#}");
    assert!(["fs", "exec", "net"].iter().all(|kind| told["coverage"][kind] == "complete"), "{told:#}");
    let verdicts: Vec<Value> = service.entries().iter().map(|entry| entry["verdict"].clone()).collect();
    assert_eq!(verdicts, ["ok", "ok"]);
}

/// The process that observes a run is killed: the command ends, its client says so, and the service closes the record as
/// lost, with what the heir of that process wrote.
#[test]
fn a_worker_that_is_killed_leaves_no_command_and_what_it_had_seen() {
    let Some(service) = service("a_worker_that_is_killed_leaves_no_command_and_what_it_had_seen", &[]) else {
        return;
    };
    let folder = service.home(USER).join("w");
    let script = "touch seen; echo $$ > pid; exec sleep 1000";
    let client = Running::start(service.sandbox(USER, &[], &["sh", "-c", script]).stderr(Stdio::piped()));
    let pid = || fs::read_to_string(folder.join("pid")).ok()?.trim().parse::<u32>().ok();
    wait_until("the command runs", || pid().is_some());
    let command = pid().expect("a pid");
    let workers = children_of(service.id());
    let [worker] = workers[..] else { panic!("{workers:?}") };
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(worker as i32).expect("an id"),
        Signal::KILL,
    )
    .expect("it is there");
    let output = client.output();
    assert_eq!(output.status.code(), Some(125), "{}", shown(&output));
    assert!(text(&output.stderr).contains("the command was ended"), "{}", shown(&output));
    wait_until("its command is gone", || !is_running(command));
    wait_until("its record is closed", || service.entries().len() == 1);
    let entry = &service.entries()[0];
    assert_eq!(entry["kind"], "lost", "{entry:#}");
    wait_until("its files are kept", || service.kept(entry).join("evidence.yaml").exists());
    let evidence = fs::read_to_string(service.kept(entry).join("evidence.yaml")).expect("evidence");
    assert!(evidence.contains("${WORKDIR}/seen") && evidence.contains("observer-died"), "{evidence}");
    // And others are served as before.
    let other = service.sandbox(USER + 1, &["--quiet"], &["true"]).output().expect("assay");
    assert_eq!(other.status.code(), Some(0), "{}\n{}", shown(&other), service.log());
    wait_until("nothing is left", || groups_of(worker).is_empty());
}

/// Where a user's own places lead is looked up with their rights: what is there that they may not see stays unknown to them.
#[test]
fn places_are_looked_up_with_the_rights_of_their_user() {
    let Some(service) = service("places_are_looked_up_with_the_rights_of_their_user", &[]) else { return };
    let secret = service.path("secret");
    fs::create_dir(&secret).expect("a folder");
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("a mode");
    fs::create_dir(secret.join("hidden-name")).expect("a folder");
    fs::write(secret.join("hidden-name/file"), "").expect("a file");
    std::os::unix::fs::symlink("hidden-name", secret.join("way")).expect("a link");
    // The kernel has all of it at hand.
    assert!(secret.join("way/file").metadata().is_ok());
    let way = secret.join("way").display().to_string();
    for (number, variable) in ["HOME", "TMPDIR", "XDG_RUNTIME_DIR"].into_iter().enumerate() {
        let mut command = service.sandbox(USER, &["--trace", "../t"], &["sh", "-c", "echo x > made"]);
        let output = command.env(variable, &way).output().expect("assay");
        assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
        let entry = &service.entries()[number];
        let mut told = text(&output.stderr) + &entry.to_string();
        told += &fs::read_to_string(service.home(USER).join("t")).expect("a trace");
        for file in ["evidence.yaml", "profile.yaml", "report.md"] {
            told += &fs::read_to_string(service.kept(entry).join(file)).expect(file);
        }
        let lines: Vec<&str> = told.lines().filter(|line| line.contains("hidden-name")).collect();
        assert!(lines.is_empty(), "{variable}: {lines:#?}");
    }
    let output = service.sandbox(USER, &["--workdir", &way], &["true"]).output().expect("assay");
    assert!(!output.status.success() && !shown(&output).contains("hidden-name"), "{}", shown(&output));
}

/// Who has as many runs as one may have is told so in one line, however much they had to say; others are served.
#[test]
fn who_is_over_a_limit_is_told_so_and_nobody_else() {
    let limit = ["--max-runs-per-user", "1"];
    let Some(service) = service("who_is_over_a_limit_is_told_so_and_nobody_else", &limit) else { return };
    let folder = service.home(USER).join("w");
    let script = "touch ready; until [ -e go ]; do sleep 0.02; done";
    let first =
        Running::start(service.sandbox(USER, &["--quiet"], &["sh", "-c", script]).stderr(Stdio::piped()));
    wait_until("a run runs", || folder.join("ready").exists());
    for long in [10, 100_000] {
        let mut command = service.sandbox(USER, &[], &["true"]);
        for number in 0..10 {
            command.env(format!("LONG_{number}"), "x".repeat(long));
        }
        let output = command.output().expect("assay");
        assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
        assert!(text(&output.stderr).contains("the daemon does not serve this run"), "{}", shown(&output));
    }
    let other = service.sandbox(USER + 1, &["--quiet"], &["true"]).output().expect("assay");
    assert_eq!(other.status.code(), Some(0), "{}", shown(&other));
    fs::write(folder.join("go"), "").expect("a file");
    let output = first.output();
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
}

/// A service that is told to stop waits, and then ends what still runs, of which the record is kept.
#[test]
fn a_service_that_stops_ends_its_runs_and_keeps_their_records() {
    let Some(mut service) = service("a_service_that_stops_ends_its_runs_and_keeps_their_records", &[]) else {
        return;
    };
    let folder = service.home(USER).join("w");
    let mut client = Running::start(
        service.sandbox(USER, &[], &["sh", "-c", "touch ready; exec sleep 1000"]).stderr(Stdio::null()),
    );
    wait_until("the command runs", || folder.join("ready").exists());
    service.signal(Signal::TERM);
    assert_eq!(service.ended(), Some(0), "{}", service.log());
    assert_eq!(client.wait().code(), Some(125));
    let entry = &service.entries()[0];
    assert!(entry["reasons"].to_string().contains("told to stop"), "{entry:#}");
}

const MANY: [&str; 6] =
    ["--max-runs", "256", "--max-runs-per-user", "256", "--max-starts-per-minute", "10000"];

/// Fifty at once of five users, or as many as `ASSAY_SERVED_RUNS` says of twenty: each its own and whole.
#[test]
fn fifty_runs_at_once_are_each_whole_and_only_their_own() {
    let Some(service) = service("fifty_runs_at_once_are_each_whole_and_only_their_own", &MANY) else {
        return;
    };
    let asked = std::env::var("ASSAY_SERVED_RUNS").ok().and_then(|count| count.parse::<u32>().ok());
    let (count, users) = asked.map_or((50, 5), |count| (count, 20));
    let began = std::time::Instant::now();
    let run = |number: u32| {
        let name = format!("only-{number}-");
        let script =
            format!("for i in 1 2 3; do echo x > {name}$i; cat {name}$i >/dev/null; done; ls . >/dev/null");
        service
            .sandbox(USER + number % users, &["--timeout", "120"], &["sh", "-c", &script])
            .output()
            .expect("assay")
    };
    let homes: Vec<_> = (0..users).map(|number| service.home(USER + number)).collect();
    assert_eq!(homes.len(), users as usize);
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..count).map(|number| scope.spawn(move || (number, run(number)))).collect();
        for one in runs {
            let (number, output) = one.join().expect("a thread");
            assert_eq!(output.status.code(), Some(0), "{number}: {}\n{}", shown(&output), service.log());
        }
    });
    let entries = service.entries();
    println!("{count} runs of {users} users ended within {} ms", began.elapsed().as_millis());
    assert_eq!(entries.len(), count as usize);
    let mut seen = Vec::new();
    for entry in &entries {
        assert_eq!((&entry["verdict"], &entry["counts"]["lost"]), (&"ok".into(), &0.into()), "{entry:#}");
        let evidence = fs::read_to_string(service.kept(entry).join("evidence.yaml")).expect("evidence");
        let numbers: std::collections::BTreeSet<u32> =
            evidence.split("only-").skip(1).filter_map(|rest| rest.split('-').next()?.parse().ok()).collect();
        let numbers: Vec<u32> = numbers.into_iter().collect();
        let [number] = numbers[..] else { panic!("one run saw those of {numbers:?}") };
        assert_eq!(entry["user"]["uid"], USER + number % users);
        for file in 1..=3 {
            assert!(evidence.contains(&format!("only-{number}-{file}")), "{number}");
        }
        seen.push(number);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..count).collect::<Vec<u32>>());
}
