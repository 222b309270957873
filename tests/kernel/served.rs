//! Many runs by one loaded set of programs: each is told all that it did and nothing of the others.

mod host;

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libc::{AF_INET, AT_FDCWD, O_CREAT, O_RDONLY, O_WRONLY, SOCK_STREAM};

use crate::actor::{Act, Step, act, call};
use crate::harness::sandbox::{cgroup_roots, text, wait_until};
use crate::needs::are_met;
use crate::network::{connect, inet, socket};
use crate::stage::{NEEDS, command_of, program, tiny_program};
use crate::uring;
use host::{Ended, Reader, Run, Script, Told};
pub use host::{FLAG, serve};

/// Folders of runs, and the group above theirs. Both go with it.
struct Served {
    folder: tempfile::TempDir,
    parent: PathBuf,
}

impl Served {
    fn new(test: &str) -> Option<Self> {
        if !are_met(&format!("served::{test}"), &NEEDS) {
            return None;
        }
        let folder = tempfile::Builder::new().prefix("assay-served-").tempdir().expect("a folder");
        let parent = cgroup_roots()[0].join(folder.path().file_name().expect("a name"));
        fs::create_dir(&parent).expect("a group");
        Some(Self { folder, parent })
    }

    /// A folder for a run, with a file and a program in it.
    fn place(&self, name: &str) -> PathBuf {
        let place = self.folder.path().canonicalize().expect("its name").join(name);
        fs::create_dir(&place).expect("a folder");
        fs::write(place.join("f"), "").expect("a file");
        fs::write(place.join("tiny"), tiny_program()).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(place.join("tiny"), mode).expect("a mode");
        place
    }

    /// A run of these steps in a folder of this name, once all are ready.
    fn run(&self, slot: u32, name: &str, steps: &[Step]) -> Run {
        let folder = self.place(name);
        let go = folder.join("go").into_os_string().into_encoded_bytes();
        let steps = [&[act(Act::Patience(300)), create("ready"), act(Act::Await(go))], steps].concat();
        let command = command_of(&steps);
        Run { slot, folder, command, reader: Reader::Steady, counts: false, notes_names: false }
    }

    /// Plays rounds of runs; what came of each, in order.
    fn play(&self, slots: u32, rounds: Vec<Vec<Run>>, outside: Vec<String>) -> Vec<Ended> {
        let script = Script { parent: self.parent.clone(), slots, rounds, outside };
        let script = serde_json::to_string(&script).expect("JSON");
        let mut command = Command::new(program());
        command.arg(FLAG).args(script.as_bytes().chunks(100_000).map(text));
        let output = command.stdin(Stdio::null()).output().expect("ourselves");
        print!("{}", text(&output.stderr));
        assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
        let ended: Vec<Ended> = serde_json::from_slice(&output.stdout).expect("JSON");
        let joins: Vec<u64> = ended.iter().filter_map(|one| Some(one.told.as_ref()?.join_us)).collect();
        println!("joining took {joins:?} µs");
        ended
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Where all went well there is nobody left.
        drop(fs::write(self.parent.join("cgroup.kill"), "1"));
        for entry in fs::read_dir(&self.parent).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                wait_until("a group goes", || fs::remove_dir(entry.path()).is_ok());
            }
        }
        wait_until("the group goes", || fs::remove_dir(&self.parent).is_ok());
    }
}

fn open(path: &str) -> Step {
    call(libc::SYS_openat, [AT_FDCWD.into(), path.into(), O_RDONLY.into(), 0.into()])
}

fn create(path: &str) -> Step {
    call(libc::SYS_openat, [AT_FDCWD.into(), path.into(), (O_WRONLY | O_CREAT).into(), 0o644.into()])
}

fn opens(times: u64) -> Step {
    act(Act::Opens(times, b"f".to_vec()))
}

/// How many lines have this operation on this file.
fn count(told: &Told, op: &str, path: &Path) -> u64 {
    let is_it = |line: &&serde_json::Value| line["op"] == op && line["path"].as_str() == path.to_str();
    told.lines.iter().filter(is_it).count() as u64
}

/// Nothing is told of another run's folder, and what was sent has arrived.
fn check_own(told: &Told, folder: &Path) {
    let all = folder.parent().expect("the folder of all").to_str().expect("a plain name");
    let own = format!("{}/", folder.display());
    let foreign = told.lines.iter().find(|line| {
        let path = line["path"].as_str().unwrap_or_default();
        path.starts_with(all) && !path.starts_with(&own)
    });
    assert_eq!(foreign, None);
    assert_eq!(told.arrived, told.seen, "{}", folder.display());
    assert_eq!(told.unseen, None);
}

#[test]
fn two_runs_at_once_are_told_apart() {
    runs_at_once("two_runs_at_once_are_told_apart", 2);
}

#[test]
fn fifty_runs_at_once_are_told_apart() {
    runs_at_once("fifty_runs_at_once_are_told_apart", 50);
}

/// Files, programs, requests to a ring, connections and their bytes, writes to what was inherited, and counts.
fn runs_at_once(test: &str, count_of_runs: u32) {
    let Some(served) = Served::new(test) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let end = listener.local_addr().expect("its address");
    let taker = std::thread::spawn(move || {
        for stream in listener.incoming().take(count_of_runs as usize) {
            let mut all = Vec::new();
            stream.expect("a connection").read_to_end(&mut all).expect("its bytes");
        }
    });
    let sent = |slot: u32| u64::from(slot + 1) * 10;
    let runs: Vec<Run> = (0..count_of_runs)
        .map(|slot| {
            let bytes = vec![b'x'; sent(slot) as usize];
            let steps = [
                open("f"),
                opens(100 + u64::from(slot)),
                open("none"),
                act(Act::Fork(vec![create("made")])),
                act(Act::Spawns(2, b"tiny".to_vec())),
                uring::ring(uring::open("by-ring", O_WRONLY | O_CREAT)),
                socket(AF_INET, SOCK_STREAM, 0).keep(1),
                connect(1, inet(end)),
                call(
                    libc::SYS_write,
                    [crate::actor::Arg::Kept(1), (&bytes).into(), (bytes.len() as i64).into()],
                ),
            ];
            let run = served.run(slot, &format!("run-{slot}"), &steps);
            Run { counts: true, notes_names: slot == 0, ..run }
        })
        .collect();
    let outside = served.place("outside");
    let at = |name: &str| outside.join(name).display().to_string();
    let others = format!("{}/f", runs[0].folder.display());
    let steps = [create(&at("made")), open(&others), open(&at("none")), act(Act::Opens(50, at("f").into()))];
    let ended = served.play(count_of_runs, vec![runs.clone()], command_of(&steps));
    taker.join().expect("all connections");
    for (run, ended) in runs.iter().zip(&ended) {
        let told = ended.told.as_ref().expect("a reader that lived");
        check_own(told, &run.folder);
        assert_eq!(told.lost, []);
        assert_eq!(ended.counts, (told.seen, 0));
        assert_eq!(ended.counts_after, (0, 0));
        let at = |name: &str| run.folder.join(name);
        for (op, name, times) in
            [("open", "made", 1), ("open", "by-ring", 1), ("exec", "tiny", 2), ("write", "out", 1)]
        {
            assert_eq!(count(told, op, &at(name)), times, "{op} {name} of {}", run.slot);
        }
        let (repeated, counted) = told.repeated;
        assert_eq!(repeated, counted);
        let all = 1 + 100 + u64::from(run.slot);
        let here = count(told, "open", &at("f"));
        assert!(here < all, "nothing was counted");
        assert!(here + counted >= all, "{here} lines and {counted} counted of {all}");
        assert!(told.failures >= 1, "{}", told.failures);
        let connects = told.lines.iter().filter(|line| line["op"] == "connect" && line["port"] == end.port());
        assert_eq!(connects.count(), 1);
        // The terminating NUL is not sent.
        assert_eq!(told.traffic, [("tcp".to_owned(), end.to_string(), sent(run.slot))]);
        assert_eq!(told.notes_names, run.notes_names);
    }
}

/// A run whose reader does not read fills its own ring, and no other.
#[test]
fn a_run_that_floods_its_ring_loses_only_its_own() {
    let Some(served) = Served::new("a_run_that_floods_its_ring_loses_only_its_own") else { return };
    let many = 60_000;
    let flood = Run { reader: Reader::Late, ..served.run(1, "flood", &[opens(many)]) };
    let runs = vec![served.run(0, "one", &[opens(3_000)]), flood, served.run(2, "other", &[opens(3_000)])];
    let ended = served.play(3, vec![runs.clone()], Vec::new());
    for (run, ended) in runs.iter().zip(&ended) {
        let told = ended.told.as_ref().expect("a reader that lived");
        check_own(told, &run.folder);
        let lost: u64 = told.lost.iter().map(|(_, count)| count).sum();
        assert_eq!(ended.counts, (told.seen, lost));
        let here = count(told, "open", &run.folder.join("f"));
        let of_opens = told.lost.iter().find(|(hook, _)| hook == "open").map_or(0, |(_, count)| *count);
        if run.reader == Reader::Late {
            assert!(lost > 0, "nothing was lost");
            // Of the actor's own, `ready` was there before.
            assert!(here + of_opens >= many && here + of_opens <= many + 2, "{here} seen, {of_opens} lost");
        } else {
            assert_eq!((here, lost), (3_000, 0), "{}", run.folder.display());
        }
    }
}

/// Its reader was killed while its command went on, and what it left behind acts on.
#[test]
fn a_slot_used_again_starts_clean() {
    let Some(served) = Served::new("a_slot_used_again_starts_clean") else { return };
    let mut first = served.run(0, "first", &[opens(500), create("half")]);
    let cleared = first.folder.join("cleared").into_os_string().into_encoded_bytes();
    let go = first.folder.join("go").into_os_string().into_encoded_bytes();
    let ready = [act(Act::Patience(300)), create("ready"), act(Act::Await(go))];
    let steps = [&ready[..], &[opens(500), create("half"), act(Act::Await(cleared))]].concat();
    first.command = command_of(&[&steps[..], &[create("late"), opens(2_000), create("end")]].concat());
    first.reader = Reader::Dies;
    first.counts = true;
    let end = first.folder.join("end").into_os_string().into_encoded_bytes();
    let second = served.run(0, "second", &[act(Act::Await(end)), opens(40), create("made")]);
    let ended = served.play(1, vec![vec![first], vec![second.clone()]], Vec::new());
    assert!(ended[0].told.is_none() && ended[0].counts.0 > 0, "{:?}", ended[0]);
    assert_eq!(ended[0].counts_after, (0, 0));
    let told = ended[1].told.as_ref().expect("a reader that lived");
    check_own(told, &second.folder);
    assert_eq!((told.lost.len(), told.repeated, told.failures), (0, (0, 0), 0));
    assert_eq!(count(told, "open", &second.folder.join("f")), 40);
    assert_eq!(count(told, "open", &second.folder.join("made")), 1);
    assert_eq!(ended[1].counts, (told.seen, 0));
}

#[test]
fn what_left_its_group_is_still_its_own_runs() {
    let Some(served) = Served::new("what_left_its_group_is_still_its_own_runs") else { return };
    let above = served.parent.parent().expect("the root").join("cgroup.procs");
    let mut leaver = served.run(0, "leaver", &[]);
    let script = format!(
        "touch ready; until [ -e go ]; do :; done; echo 0 >{}; touch left; ./tiny; (touch by-a-child)",
        above.display()
    );
    leaver.command = ["sh", "-c", &script].map(ToOwned::to_owned).to_vec();
    let stays = served.run(1, "stays", &[opens(10), create("made")]);
    let runs = vec![leaver, stays];
    let ended = served.play(2, vec![runs.clone()], Vec::new());
    let told = |index: usize| ended[index].told.as_ref().expect("a reader that lived");
    for (index, run) in runs.iter().enumerate() {
        check_own(told(index), &run.folder);
        assert_eq!(told(index).lost, []);
    }
    for (op, name) in [("open", "left"), ("exec", "tiny"), ("open", "by-a-child")] {
        assert_eq!(count(told(0), op, &runs[0].folder.join(name)), 1, "{op} {name}");
    }
    assert_eq!(count(told(1), "open", &runs[1].folder.join("made")), 1);
}

/// The reader of one is killed; its copy reads on where it stopped.
#[test]
fn a_copy_of_a_killed_reader_goes_on_with_its_own_ring() {
    let Some(served) = Served::new("a_copy_of_a_killed_reader_goes_on_with_its_own_ring") else { return };
    let mut first = served.run(0, "inherited", &[]);
    let at = |name: &str| first.folder.join(name).into_os_string().into_encoded_bytes();
    let steps = [
        act(Act::Patience(300)),
        create("ready"),
        act(Act::Await(at("go"))),
        opens(200),
        create("half"),
        act(Act::Await(at("inherited"))),
        opens(300),
        create("made"),
    ];
    first.command = command_of(&steps);
    first.reader = Reader::Inherited;
    let runs = vec![first, served.run(1, "other", &[opens(700)])];
    let ended = served.play(2, vec![runs.clone()], Vec::new());
    for (run, ended) in runs.iter().zip(&ended) {
        let told = ended.told.as_ref().expect("a reader that goes on");
        check_own(told, &run.folder);
        assert_eq!(told.lost, []);
        assert_eq!(ended.counts_after, (0, 0));
    }
    let told = ended[0].told.as_ref().expect("it");
    assert_eq!(count(told, "open", &runs[0].folder.join("f")), 500);
    assert_eq!(count(told, "open", &runs[0].folder.join("made")), 1);
    assert_eq!(count(ended[1].told.as_ref().expect("it"), "open", &runs[1].folder.join("f")), 700);
}

/// How many processes of a served run are watched for leaving its group.
const WATCHED: u64 = assay_common::limits::SERVED_PROCESSES_LEN as u64;

#[test]
fn more_processes_than_are_watched_are_counted() {
    let Some(served) = Served::new("more_processes_than_are_watched_are_counted") else { return };
    // Beside the crowd there is the command.
    let crowd = act(Act::Crowd(WATCHED + 9));
    let run = served.run(0, "crowded", &[crowd.clone(), open("f"), crowd]);
    let all = served.play(2, vec![vec![run]], Vec::new());
    let told = all[0].told.as_ref().expect("what it was told");
    // Those that ended have made room.
    assert_eq!((told.unkept, told.lost.len()), (20, 0));
}

/// A process is there until its last thread ends, and is forgotten then, whichever that was.
#[test]
fn processes_are_forgotten_with_their_last_thread() {
    let Some(served) = Served::new("processes_are_forgotten_with_their_last_thread") else { return };
    let headless = vec![act(Act::Headless(Vec::new())); WATCHED as usize + 50];
    let run = served.run(0, "headless", &headless);
    let all = served.play(2, vec![vec![run]], Vec::new());
    let told = all[0].told.as_ref().expect("what it was told");
    assert_eq!((told.unkept, told.lost.len()), (0, 0));
}
