//! Under load: what was seen and what was lost add up to what was done, counted by the actors themselves.

use std::fs;
use std::path::Path;

use crate::actor;
use crate::harness::sandbox::{sandbox, text};
use crate::harness::trace;
use crate::needs::{Need, are_met};

const NEEDS: [Need; 3] = [Need::Root, Need::Btf, Need::CgroupV2];

/// Runs `actors` at once; each does `act`. Gives the lines of the trace that hold `mark`, and what the trace says was lost.
fn traced(actors: usize, act: &str, mark: &str) -> (u64, u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace");
    let (name, value) = actor::environment(act);
    let script = format!("for i in $(seq {actors}); do \"$@\" & done; wait");
    let mut command = vec!["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()];
    command.extend(actor::command());
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let output = sandbox(&["--dry-run", "--trace", &path.to_string_lossy()], &command)
        .env(name, value)
        .output()
        .expect("assay runs");
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}: {}", output.status, text(&output.stderr));
    let whole = fs::read_to_string(&path).expect("a trace");
    let trace = trace::read(&whole).expect("a trace that is whole");
    let marked = trace
        .lines
        .iter()
        .filter(|line| line.result == "ok" && line.path.as_deref() == Some(mark.as_bytes()))
        .count();
    (marked as u64, trace.lost)
}

fn adds_up(made: u64, (seen, lost): (u64, u64)) {
    assert!(seen <= made, "{seen} seen of {made} made");
    assert!(seen + lost >= made, "{seen} seen and {lost} lost of {made} made");
    assert!(lost > 0 || seen == made, "{seen} seen of {made} made, and none lost");
    println!("{made} made, {seen} seen, {lost} lost");
}

#[test]
fn two_busy_loops_of_opens_add_up() {
    if !are_met("loss::two_busy_loops_of_opens_add_up", &NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().canonicalize().expect("its name").join("marked");
    fs::write(&file, "x").expect("a file");
    let mark = file.to_string_lossy();
    adds_up(200_000, traced(2, &format!("opens 100000 {mark}"), &mark));
}

#[test]
fn many_processes_at_once_add_up() {
    if !are_met("loss::many_processes_at_once_add_up", &NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().canonicalize().expect("its name").join("marked");
    fs::write(&file, "x").expect("a file");
    let mark = file.to_string_lossy();
    adds_up(160_000, traced(16, &format!("opens 10000 {mark}"), &mark));
}

#[test]
fn a_storm_of_short_programs_adds_up() {
    if !are_met("loss::a_storm_of_short_programs_adds_up", &NEEDS) {
        return;
    }
    let program = Path::new("/bin/true").canonicalize().expect("a program");
    let mark = program.to_string_lossy();
    // Each start is one exec line, and the program's own opens have other paths.
    adds_up(6_000, traced(4, &format!("starts 1500 {mark}"), &mark));
}
