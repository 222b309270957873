//! Who belongs to a run: its own processes, all of them, wherever they go, and nobody else.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{AT_FDCWD, O_CREAT, O_RDONLY, O_WRONLY};

use crate::actor::{Act, Step, act, call};
use crate::harness::sandbox::{cgroup_roots, text, wait_until};
use crate::stage::{Stage, command_of};

fn stage(test: &str) -> Option<Stage> {
    let stage = Stage::new(&format!("scope::{test}"))?;
    stage.file("f", "");
    Some(stage)
}

fn open(path: &str) -> Step {
    call(libc::SYS_openat, [AT_FDCWD.into(), path.into(), O_RDONLY.into(), 0.into()])
}

fn create(path: &str) -> Step {
    call(libc::SYS_openat, [AT_FDCWD.into(), path.into(), (O_WRONLY | O_CREAT).into(), 0o644.into()])
}

fn fork(steps: Vec<Step>) -> Step {
    act(Act::Fork(steps))
}

#[test]
fn twenty_sandboxes_at_once_each_record_their_own_command() {
    let Some(first) = stage("twenty_sandboxes_at_once_each_record_their_own_command") else { return };
    let mut stages = vec![first];
    stages.extend((1..20).filter_map(|_| stage("twenty_sandboxes_at_once_each_record_their_own_command")));
    assert_eq!(stages.len(), 20);
    // Each waits until all are there, so that all act at the same time.
    let meeting = tempfile::tempdir().expect("a folder");
    let go = meeting.path().join("go");
    let steps = |index: usize| {
        vec![
            create(&meeting.path().join(index.to_string()).display().to_string()),
            act(Act::Await(go.clone().into_os_string().into_encoded_bytes())),
            act(Act::Opens(300, b"f".to_vec())),
            fork(vec![act(Act::Opens(100, b"f".to_vec())), create("made")]),
        ]
    };
    let children: Vec<Child> = stages
        .iter()
        .enumerate()
        .map(|(index, stage)| {
            let command = command_of(&steps(index));
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            stage.command(&command).spawn().expect("assay")
        })
        .collect();
    wait_until("all have begun", || (0..20).all(|index| meeting.path().join(index.to_string()).exists()));
    fs::write(&go, "").expect("a file");
    for (stage, child) in stages.iter().zip(children) {
        let played = stage.read(&child.wait_with_output().expect("assay"));
        let own = stage.at("");
        let is_own =
            |line: &&serde_json::Value| line["path"].as_str().is_some_and(|path| path.starts_with(&own));
        assert_eq!(played.trace.iter().filter(is_own).count(), 401, "{}", played.stderr);
        let foreign = played.trace.iter().find(|line| {
            line["path"].as_str().is_some_and(|path| path.contains("assay-stage-") && !path.starts_with(&own))
        });
        assert_eq!(foreign, None);
        assert_eq!(played.lost, 0);
        stage.check_coverage(&played);
    }
}

#[test]
fn a_process_that_slips_away_from_its_parent_is_still_the_runs() {
    let Some(stage) = stage("a_process_that_slips_away_from_its_parent_is_still_the_runs") else { return };
    // setsid and a second fork, whose parent does not wait; the grandchild acts when its parent is gone.
    let script = "(setsid sh -c '(until [ -e gone ]; do :; done; cat f; touch late) &' ); touch gone";
    let played = stage.run(&["sh", "-c", script]);
    let told: Vec<String> = played.trace.iter().map(|line| stage.shown(line)).collect();
    assert!(told.contains(&"open $/f < f [read] = ok".to_owned()), "{told:#?}");
    assert!(told.contains(&"open $/late < late [write create] = ok".to_owned()), "{told:#?}");
    assert_eq!(played.lost, 0);
}

/// A number that nobody has, far from where the kernel gives out the next ones.
fn free_number() -> i32 {
    let next: i32 =
        fs::read_to_string("/proc/sys/kernel/pid_max").expect("the limit").trim().parse().expect("a number");
    let own = std::process::id() as i32;
    let at = if own > next / 2 { next / 4 } else { next / 4 * 3 };
    (at..next).find(|number| !fs::exists(format!("/proc/{number}")).unwrap_or(true)).expect("a free one")
}

#[test]
fn a_number_that_is_used_again_is_another_process() {
    let Some(stage) = stage("a_number_that_is_used_again_is_another_process") else { return };
    let stage = stage.option(&["--keep-caps", "SYS_ADMIN"]);
    let number = free_number();
    let named = |name: &str, path: &str| {
        vec![call(libc::SYS_prctl, [libc::PR_SET_NAME.into(), name.into()]), create(path)]
    };
    let first = act(Act::CloneAs(number, named("one", "by-one")));
    let second = act(Act::CloneAs(number, named("other", "by-other")));
    let played = stage.play(&[first, fork(vec![second])]);
    let told = |path: &str| {
        let line = played.trace.iter().find(|line| line["requested"] == path).expect("the act");
        (line["pid"].as_i64().expect("a number"), line["ppid"].clone(), line["comm"].clone())
    };
    let (one, other) = (told("by-one"), told("by-other"));
    assert_eq!((one.0, other.0), (number.into(), number.into()));
    assert_ne!(one.1, other.1, "they have different parents");
    assert_eq!((one.2, other.2), ("one".into(), "other".into()));
    assert_eq!(played.lost, 0);
}

/// A child that ends; and when somebody outside has its number, what takes hold of whoever has it.
const TAKES_HOLD: &str = r#"
import ctypes, os, time
child = os.fork()
if not child: os._exit(0)
os.waitpid(child, 0)
with open("number.new", "w") as out: out.write(str(child))
os.rename("number.new", "number")
while not os.path.exists("there"): time.sleep(0.01)
libc = ctypes.CDLL(None, use_errno=True)
held = libc.syscall(101, 0x4206, child, 0, 0)
raise SystemExit(ctypes.get_errno() if held else 0)
"#;

/// A process with the number that its argument says, until standard input ends.
const HAS_NUMBER: &str = r#"
import ctypes, os, struct, sys
number = ctypes.c_int(int(sys.argv[1]))
# flags, pidfd, child_tid, parent_tid, exit_signal (SIGCHLD), stack, stack_size, tls, set_tid, set_tid_size
args = struct.pack("10Q", 0, 0, 0, 0, 17, 0, 0, 0, ctypes.addressof(number), 1)
child = ctypes.CDLL(None).syscall(435, ctypes.c_char_p(args), len(args))
if child == 0:
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os.waitpid(child, 0)
"#;

#[test]
fn who_gets_the_number_of_one_of_the_run_later_is_not_of_the_run() {
    let test = "who_gets_the_number_of_one_of_the_run_later_is_not_of_the_run";
    let Some(stage) = stage(test) else { return };
    let stage = stage
        .option(&["--keep-caps", "SYS_PTRACE"])
        .partial("fs", "other-process")
        .partial("exec", "other-process");
    let stage = stage.partial("net", "other-process");
    stage.file("takes-hold.py", TAKES_HOLD);
    let run = stage.command(&["python3", "takes-hold.py"]).spawn().expect("assay");
    wait_until("the number of one that ended", || stage.path("number").exists());
    let number = fs::read_to_string(stage.path("number")).expect("a number");
    let mut other = Command::new("python3")
        .args(["-c", HAS_NUMBER, &number])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut told = String::new();
    BufReader::new(other.stdout.take().expect("a pipe")).read_line(&mut told).expect("a line");
    fs::write(stage.path("there"), "").expect("a file");
    let played = stage.read(&run.wait_with_output().expect("assay"));
    drop(other.stdin.take());
    other.wait().expect("it");
    assert_eq!(told.trim(), number, "nobody else got the number");
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    stage.check_coverage(&played);
}

/// Processes that have the stage as their working directory.
fn processes_of(stage: &Stage) -> Vec<u32> {
    let is_ours = |pid: &u32| {
        let is_actor =
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| text(&line).contains("--actor"));
        let cwd = fs::read_link(format!("/proc/{pid}/cwd"));
        is_actor
            && cwd.is_ok_and(|cwd| cwd == stage.path("").components().as_path())
            && !fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| text(&line).contains("sandbox"))
    };
    let pids = fs::read_dir("/proc").expect("proc").flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
}

#[test]
fn a_process_that_is_moved_out_of_its_group_is_recorded_and_told() {
    // That it left is told of itself, whether or not it goes on to make others.
    for has_child in [false, true] {
        moved_out(has_child);
    }
}

/// The process is its threads: the first may end before the others, and stays in its group when they are moved.
#[test]
fn a_process_without_its_first_thread_that_is_moved_out_is_recorded_and_told() {
    let test = "a_process_without_its_first_thread_that_is_moved_out_is_recorded_and_told";
    let Some(stage) = stage(test) else { return };
    let stage =
        ["fs", "exec", "net"].into_iter().fold(stage, |stage, kind| stage.partial(kind, "left-cgroup"));
    let go = stage.path("go").into_os_string().into_encoded_bytes();
    let steps = vec![create("ready"), act(Act::Await(go)), open("f"), fork(vec![create("by-a-child")])];
    let command = command_of(&[act(Act::Headless(steps))]);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let run = stage.command(&command).spawn().expect("assay");
    wait_until("the actor is ready", || stage.path("ready").exists());
    let elsewhere = Elsewhere::new();
    let actor = processes_of(&stage);
    assert_eq!(actor.len(), 1, "{actor:?}");
    let children =
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", actor[0])).expect("its children");
    let state =
        || fs::read_to_string(format!("/proc/{0}/task/{0}/stat", children.trim())).expect("its state");
    wait_until("its first thread has ended", || state().contains(") Z "));
    fs::write(elsewhere.0.join("cgroup.procs"), children.trim()).expect("to move it");
    stage.file("go", "");
    let played = stage.read(&run.wait_with_output().expect("assay"));
    let told: Vec<String> = played.act().iter().map(|line| stage.shown(line)).collect();
    let lines = [
        "open $/ready < ready [write create] = ok",
        "open $/f < f [read] = ok",
        "open $/by-a-child < by-a-child [write create] = ok",
    ];
    assert_eq!(told, lines);
    stage.check_coverage(&played);
}

fn moved_out(has_child: bool) {
    let Some(stage) = stage("a_process_that_is_moved_out_of_its_group_is_recorded_and_told") else { return };
    let stage =
        ["fs", "exec", "net"].into_iter().fold(stage, |stage, kind| stage.partial(kind, "left-cgroup"));
    let go = stage.path("go").into_os_string().into_encoded_bytes();
    let mut steps = vec![create("ready"), act(Act::Await(go)), open("f")];
    let mut lines = vec!["open $/ready < ready [write create] = ok", "open $/f < f [read] = ok"];
    if has_child {
        steps.push(fork(vec![create("by-a-child")]));
        lines.push("open $/by-a-child < by-a-child [write create] = ok");
    }
    let command = command_of(&steps);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let child = stage.command(&command).spawn().expect("assay");
    wait_until("the actor is ready", || stage.path("ready").exists());
    let elsewhere = Elsewhere::new();
    let moved = processes_of(&stage);
    assert_eq!(moved.len(), 1, "{moved:?}");
    fs::write(elsewhere.0.join("cgroup.procs"), moved[0].to_string()).expect("to move it");
    stage.file("go", "");
    let played = stage.read(&child.wait_with_output().expect("assay"));
    let told: Vec<String> = played.act().iter().map(|line| stage.shown(line)).collect();
    assert_eq!(told, lines);
    stage.check_coverage(&played);
}

/// A group beside those of the runs.
struct Elsewhere(PathBuf);

impl Elsewhere {
    fn new() -> Self {
        // Tests of one process are there at once.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = cgroup_roots()[0].join(format!("assay-elsewhere-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a group");
        Self(path)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // Its last process may still be on its way out.
        wait_until("the group goes", || fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn paths_are_those_of_the_hosts_tree_inside_another_root() {
    let Some(stage) = stage("paths_are_those_of_the_hosts_tree_inside_another_root") else { return };
    let stage = stage.option(&["--keep-caps", "SYS_CHROOT"]);
    stage.dir("root/d").file("root/d/f", "").link("root/absolute", "/d");
    stage.check(&[
        (call(libc::SYS_chroot, ["root".into()]), "chroot $/root < root = ok"),
        (open("f"), "open $/f < f [read] = ok"),
        (open("/d/f"), "open $/root/d/f < /d/f [read] = ok"),
        (open("/absolute/f"), "open $/root/d/f < /absolute/f [read] = ok"),
        (call(libc::SYS_chmod, ["/absolute/f".into(), 0o600.into()]), "chmod $/root/d/f < /absolute/f = ok"),
        (call(libc::SYS_chdir, ["/d".into()]), "chdir $/root/d < /d = ok"),
        (call(libc::SYS_unlink, ["../../../d/f".into()]), "unlink $/root/d/f < ../../../d/f = ok"),
        // Nothing was reached: this is text, which knows no root.
        (open("../none"), "open $/root/none #lexical < ../none [read] = ENOENT"),
        // So that the actor's last mark is told as the first was.
        (call(libc::SYS_chdir, ["/".into()]), "chdir $/root < / = ok"),
    ]);
}

#[test]
fn paths_lead_through_bind_mounts_of_a_namespace_of_its_own() {
    let Some(stage) = stage("paths_lead_through_bind_mounts_of_a_namespace_of_its_own") else { return };
    let stage = stage.option(&["--keep-caps", "SYS_ADMIN,SYS_CHROOT"]);
    stage.dir("real/d").dir("seen").file("real/d/f", "");
    let (real, seen) = (stage.at("real"), stage.at("seen"));
    let private = libc::MS_REC | libc::MS_PRIVATE;
    stage.check(&[
        (call(libc::SYS_unshare, [libc::CLONE_NEWNS.into()]), "unshare [mnt] = ok"),
        (
            call(libc::SYS_mount, ["none".into(), "/".into(), 0.into(), (private as i64).into(), 0.into()]),
            "mount / = ok",
        ),
        (
            call(
                libc::SYS_mount,
                [(&real).into(), (&seen).into(), 0.into(), (libc::MS_BIND as i64).into(), 0.into()],
            ),
            "mount $/seen = ok",
        ),
        // As the program sees it: that is its tree.
        (open("seen/d/f"), "open $/seen/d/f < seen/d/f [read] = ok"),
        (open("real/d/f"), "open $/real/d/f < real/d/f [read] = ok"),
        (call(libc::SYS_chmod, ["seen/d/f".into(), 0o600.into()]), "chmod $/seen/d/f < seen/d/f = ok"),
        (call(libc::SYS_unlink, ["seen/d/../d/f".into()]), "unlink $/seen/d/f < seen/d/../d/f = ok"),
        (
            call(libc::SYS_mount, ["none".into(), "seen/d".into(), "tmpfs".into(), 0.into(), 0.into()]),
            "mount $/seen/d < seen/d = ok",
        ),
        (create("seen/d/inside"), "open $/seen/d/inside < seen/d/inside [write create] = ok"),
        (call(libc::SYS_mkdir, ["seen/d/e".into(), 0o755.into()]), "mkdir $/seen/d/e < seen/d/e = ok"),
        (
            call(libc::SYS_umount2, ["seen/d".into(), libc::MNT_DETACH.into()]),
            "umount $/seen/d < seen/d = ok",
        ),
        (open("seen/d/inside"), "open $/seen/d/inside #lexical < seen/d/inside [read] = ENOENT"),
    ]);
}

#[test]
fn a_mount_that_is_moved_and_a_root_that_is_changed_are_told() {
    let Some(stage) = stage("a_mount_that_is_moved_and_a_root_that_is_changed_are_told") else { return };
    let stage = stage.option(&["--keep-caps", "SYS_ADMIN,SYS_CHROOT"]);
    stage.dir("a").dir("b").dir("new/old").link("to-b", "b");
    let (new, private) = (stage.at("new"), (libc::MS_REC | libc::MS_PRIVATE) as i64);
    let mount = |what: &str, place: &str, kind: &str, flags: i64| {
        call(libc::SYS_mount, [what.into(), place.into(), kind.into(), flags.into(), 0.into()])
    };
    stage.check(&[
        (call(libc::SYS_unshare, [libc::CLONE_NEWNS.into()]), "unshare [mnt] = ok"),
        (mount("none", "/", "none", private), "mount / = ok"),
        (mount("none", "a", "tmpfs", 0), "mount $/a < a = ok"),
        (create("a/f"), "open $/a/f < a/f [write create] = ok"),
        (
            call(429, [AT_FDCWD.into(), "a".into(), AT_FDCWD.into(), "to-b".into(), 0.into()]),
            "mount $/to-b #lexical < to-b = EINVAL",
        ),
        // MOVE_MOUNT_T_SYMLINKS
        (
            call(429, [AT_FDCWD.into(), "a".into(), AT_FDCWD.into(), "to-b".into(), 0x10.into()]),
            "mount $/b < to-b = ok",
        ),
        (open("b/f"), "open $/b/f < b/f [read] = ok"),
        (mount(&new, &new, "none", libc::MS_BIND as i64), "mount $/new = ok"),
        (
            call(libc::SYS_pivot_root, [(&new).into(), (&format!("{new}/old")).into()]),
            "pivot_root $/new #lexical = ok",
        ),
        (open("/old/etc/passwd"), "open /old/etc/passwd [read] = ok"),
    ]);
}
