//! What is lost is counted and told: records seen and records lost add up to the calls that were made.

use std::fs;
use std::time::Duration;

use libc::{AT_FDCWD, O_CREAT, O_WRONLY};
use rustix::process::{Pid, Signal, kill_process};

use crate::actor::{Act, Step, act, call};
use crate::harness::sandbox::wait_until;
use crate::stage::{Played, Stage, command_of};

fn stage(test: &str) -> Option<Stage> {
    let stage = Stage::new(&format!("loss::{test}"))?;
    stage.file("f", "").program("tiny");
    Some(stage)
}

fn opens(times: u64) -> Step {
    act(Act::Opens(times, b"f".to_vec()))
}

/// How many lines of the trace are opens of the file that is opened so often.
fn seen(stage: &Stage, played: &Played) -> u64 {
    let path = stage.at("f");
    played.trace.iter().filter(|line| line["op"] == "open" && line["path"] == path.as_str()).count() as u64
}

/// Records of this hook that were lost.
fn lost(played: &Played, hook: &str) -> u64 {
    played.evidence["observed"]["lost"][hook].as_u64().unwrap_or(0)
}

/// A loss is told in every artifact, or none is in any.
fn check_told(played: &Played) {
    let told: u64 = played.evidence["observed"]["lost"]
        .as_object()
        .expect("a map")
        .values()
        .filter_map(serde_json::Value::as_u64)
        .sum();
    assert_eq!(played.lost, told, "the trace and the evidence differ");
    assert_eq!(played.summary()["assaylost"], told, "the bundle differs");
    for kind in ["fs", "exec", "net"] {
        let wanted = if told > 0 { "partial" } else { "complete" };
        assert_eq!(played.evidence["coverage"][kind], wanted);
    }
    assert_eq!(told > 0, played.outcome["reasons"].to_string().contains("lost"), "{}", played.outcome);
}

#[test]
fn many_processes_at_once_add_up() {
    let Some(stage) = stage("many_processes_at_once_add_up") else { return };
    let played = stage.play(&[act(Act::Together(vec![vec![opens(62_500)]; 16]))]);
    assert_eq!(played.told.opens, 1_000_000);
    let (seen, lost) = (seen(&stage, &played), lost(&played, "open"));
    println!("{seen} seen, {lost} lost");
    assert_eq!(seen + lost, 1_000_000);
    check_told(&played);
}

/// Two busy loops and a storm of processes: the tree is whole, or what is missing of it is counted.
#[test]
fn two_busy_loops_of_opens_add_up() {
    let Some(stage) = stage("two_busy_loops_of_opens_add_up") else { return };
    let spawns = |times: u64| act(Act::Spawns(times, b"tiny".to_vec()));
    let lists = vec![vec![opens(150_000)], vec![opens(150_000)], vec![spawns(1_000)], vec![spawns(1_000)]];
    let played = stage.play(&[act(Act::Together(lists))]);
    assert_eq!((played.told.opens, played.told.spawns), (300_000, 2_000));
    assert_eq!(seen(&stage, &played) + lost(&played, "open"), 300_000);
    let tiny = stage.at("tiny");
    let started = played.trace.iter().filter(|line| line["op"] == "exec" && line["path"] == tiny.as_str());
    assert_eq!(started.count() as u64 + lost(&played, "exec_start"), 2_000);
    check_told(&played);
}

/// Six thousand short processes, four at a time: each is there, with its parent.
#[test]
fn a_storm_of_short_programs_adds_up() {
    let Some(stage) = stage("a_storm_of_short_programs_adds_up") else { return };
    let list = vec![act(Act::Spawns(1_500, b"tiny".to_vec()))];
    let played = stage.play(&[act(Act::Together(vec![list; 4]))]);
    assert_eq!((played.told.spawns, played.lost), (6_000, 0));
    let tiny = stage.at("tiny");
    let mut children: Vec<(u64, u64)> = played
        .trace
        .iter()
        .filter(|line| line["op"] == "exec" && line["path"] == tiny.as_str())
        .map(|line| (line["ppid"].as_u64().expect("a parent"), line["pid"].as_u64().expect("a process")))
        .collect();
    assert_eq!(children.len(), 6_000);
    children.sort_unstable();
    children.dedup();
    assert_eq!(children.len(), 6_000, "a process is told twice");
    let mut parents: Vec<u64> = children.iter().map(|(parent, _)| *parent).collect();
    parents.dedup();
    assert_eq!(parents.len(), 4, "four processes made them");
    for parent in parents {
        assert_eq!(children.iter().filter(|(of, _)| *of == parent).count(), 1_500);
    }
    // The actor, its four children, and theirs.
    assert_eq!(played.evidence["observed"]["counters"]["processes"], 6_005);
    stage.check_coverage(&played);
}

/// We are stopped while the command goes on: the ring fills, and what does not fit is lost and told.
#[test]
fn what_does_not_fit_is_counted_told_and_fatal_when_asked() {
    let Some(stage) = stage("what_does_not_fit_is_counted_told_and_fatal_when_asked") else { return };
    let policy = stage.path("policy.yaml");
    let text = "api_version: assay/v1\nfs:\n  allow:\n    - {path: \"/\", access: [read, write, execute]}\nnet:\n  allow: [\"unix:/\"]\n";
    fs::write(&policy, text).expect("a policy");
    let stage = stage.option(&["--fail-closed", "--policy", policy.to_str().expect("a plain name")]);
    let create = |path: &str| {
        call(libc::SYS_openat, [AT_FDCWD.into(), path.into(), (O_WRONLY | O_CREAT).into(), 0o644.into()])
    };
    let wait = |name: &str| act(Act::Await(stage.path(name).into_os_string().into_encoded_bytes()));
    let made = 400_000;
    let command = command_of(&[create("ready"), wait("go"), opens(made), create("done"), wait("end")]);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let child = stage.command(&command).spawn().expect("assay");
    let assay = Pid::from_raw(child.id() as i32).expect("an id");
    wait_until("the actor is ready", || stage.path("ready").exists());
    kill_process(assay, Signal::STOP).expect("to stop it");
    stage.file("go", "");
    wait_until("the actor is done", || stage.path("done").exists());
    kill_process(assay, Signal::CONT).expect("to continue it");
    // The last calls shall be seen: there is room again when much has been read.
    wait_until("the ring is read", || {
        std::thread::sleep(Duration::from_millis(5));
        fs::metadata(stage.artifact("trace")).is_ok_and(|meta| meta.len() > 4_000_000)
    });
    stage.file("end", "");
    let played = stage.read(&child.wait_with_output().expect("assay"));
    assert_eq!(played.told.opens, made);
    let done = stage.at("done");
    let saw_done = played.trace.iter().any(|line| line["path"] == done.as_str());
    let lost = lost(&played, "open");
    assert!(lost > 0, "nothing was lost");
    assert_eq!(seen(&stage, &played) + lost, made + u64::from(!saw_done));
    check_told(&played);
    assert_eq!(played.status.code(), Some(3), "{}{}", played.outcome, played.stderr);
    assert_eq!(played.outcome["verdict"], "incomplete");
    assert_eq!(played.outcome["child"]["exit_code"], 0);
}
