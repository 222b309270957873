//! Under a flood, what was seen and what was counted lost are what was made, exactly; and our memory stays small.
//!
//! `ASSAY_FLOOD=20x10 cargo xtask kernel flood` makes twenty runs of ten seconds and prints a line for each;
//! `ASSAY_FLOOD_RECORDS=10000000 cargo xtask kernel flood::a_long_run` a run of so many records.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::actor::{Act, act};
use crate::harness::sandbox::{sandbox, text};
use crate::needs::{Need, are_met};
use crate::stage::{Stage, command_of};

/// What our own process may take at its most, in KiB.
const MOST_MEMORY: u64 = 128 * 1024;

/// How often, and how long each.
fn asked() -> (u64, u64) {
    let asked = std::env::var("ASSAY_FLOOD").unwrap_or_default();
    let numbers =
        asked.split_once('x').and_then(|(runs, seconds)| Some((runs.parse().ok()?, seconds.parse().ok()?)));
    numbers.unwrap_or((1, 2))
}

/// What one flood came to.
struct Flooded {
    made: u64,
    seen: u64,
    lost: u64,
    peak_kib: u64,
    evidence: Value,
}

/// Four loops that open one file. With a trace every open is a record; without one the kernel counts what repeats.
fn flood(stage: &Stage, first: &[&str], seconds: u64, is_traced: bool) -> Flooded {
    let path = stage.at("f").into_bytes();
    let steps = [
        act(Act::Patience(seconds as u32 * 4 + 60)),
        act(Act::Together(vec![vec![act(Act::OpensFor(seconds, path))]; 4])),
    ];
    let command = command_of(&steps);
    let command: Vec<&str> = first.iter().copied().chain(command.iter().map(String::as_str)).collect();
    let recorded = record(stage, &command, is_traced);
    let told: crate::actor::Told = serde_json::from_slice(&recorded.printed).expect("what the actor told");
    let seen = reads(&recorded.evidence, |path| path == "${WORKDIR}/f");
    recorded.flooded(told.opens, seen)
}

/// What a command printed, what the record says of it, and the most memory that our own process had.
struct Recorded {
    printed: Vec<u8>,
    evidence: Value,
    peak_kib: u64,
}

impl Recorded {
    fn flooded(self, made: u64, seen: u64) -> Flooded {
        let lost = self.evidence["observed"]["lost"]["open"].as_u64().unwrap_or(0);
        Flooded { made, seen, lost, peak_kib: self.peak_kib, evidence: self.evidence }
    }
}

/// How often files of such a name were read.
fn reads(evidence: &Value, is_meant: impl Fn(&str) -> bool) -> u64 {
    let fs_effects = evidence["observed"]["effects"]["fs"].as_array().expect("effects");
    let meant = fs_effects
        .iter()
        .filter(|effect| effect["op"] == "read" && effect["path"].as_str().is_some_and(&is_meant));
    meant.filter_map(|effect| effect["hits"].as_u64()).sum()
}

/// Records a command, and looks all the time how much memory that takes.
fn record(stage: &Stage, command: &[&str], is_traced: bool) -> Recorded {
    let profile = stage.artifact("run.profile.json");
    let trace = stage.artifact("trace");
    let mut options =
        vec!["--dry-run", "--profile-format", "json", "--profile", profile.to_str().expect("a plain name")];
    if is_traced {
        options.extend(["--trace", trace.to_str().expect("a plain name")]);
    }
    let mut assay = sandbox(&options, command);
    assay
        .current_dir(stage.path(""))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = assay.spawn().expect("assay");
    let pid = child.id();
    let watcher = std::thread::spawn(move || {
        let mut peak = 0;
        while let Some(now) = peak_of(pid) {
            peak = peak.max(now);
            std::thread::sleep(Duration::from_millis(20));
        }
        peak
    });
    let output = child.wait_with_output().expect("assay");
    let evidence = fs::read_to_string(stage.artifact("run.profile.evidence.json"))
        .unwrap_or_else(|error| panic!("no evidence: {error}: {}", text(&output.stderr)));
    let evidence: Value = serde_json::from_str(&evidence).expect("JSON");
    Recorded { printed: output.stdout, evidence, peak_kib: watcher.join().expect("the watcher") }
}

/// The most memory a process has had, while it is there.
fn peak_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
}

fn check(flooded: &Flooded) {
    let Flooded { made, seen, lost, peak_kib, evidence } = flooded;
    println!("made {made}, seen {seen}, lost {lost}, peak {} MiB", peak_kib / 1024);
    assert!(*made > 0);
    assert_eq!(seen + lost, *made, "{}", evidence["observed"]["lost"]);
    assert!(*peak_kib > 0 && *peak_kib < MOST_MEMORY, "{peak_kib} KiB");
    let word = if evidence["observed"]["lost"] == serde_json::json!({}) { "complete" } else { "partial" };
    assert_eq!(evidence["coverage"]["fs"], word);
}

#[test]
fn what_was_made_is_seen_or_counted_lost() {
    let (runs, seconds) = asked();
    for _ in 0..runs {
        let Some(stage) = Stage::new("flood::what_was_made_is_seen_or_counted_lost") else { return };
        stage.file("f", "");
        check(&flood(&stage, &[], seconds, true));
    }
}

/// The same where nobody asked for each act: what the kernel counts for itself adds up too.
#[test]
fn what_was_made_is_seen_or_counted_lost_where_the_kernel_counts() {
    let test = "flood::what_was_made_is_seen_or_counted_lost_where_the_kernel_counts";
    let (runs, seconds) = asked();
    for _ in 0..runs {
        let Some(stage) = Stage::new(test) else { return };
        stage.file("f", "");
        check(&flood(&stage, &[], seconds, false));
    }
}

/// A root command has our ids, and makes us the last to be served. It costs records, and they are counted.
#[test]
fn an_observer_that_is_made_to_wait_counts_what_it_lost() {
    let Some(stage) = Stage::new("flood::an_observer_that_is_made_to_wait_counts_what_it_lost") else {
        return;
    };
    stage.file("f", "");
    // Each thread of the observer by its id: to say "all of this user" would slow the whole host down.
    let slower = "renice -n 19 -p $(ls /proc/$PPID/task) >/dev/null && exec \"$@\"";
    check(&flood(&stage, &["sh", "-c", slower, "sh"], 2, true));
}

/// Every open is a record that our own process reads, in bursts that it keeps up with: a thousand files in turn, so that
/// none repeats the one before.
const LONG: &str = "
import os, sys, time
wanted = int(sys.argv[1])
names = [f'l{number}' for number in range(1000)]
for at in range(wanted):
    os.close(os.open(names[at % 1000], os.O_RDONLY))
    if at % 1500 == 0:
        time.sleep(0.003)
print(wanted)
";

#[test]
fn a_long_run_takes_no_more_memory_than_a_short_one() {
    let test = "flood::a_long_run_takes_no_more_memory_than_a_short_one";
    if !are_met(test, &[Need::Program("python3")]) {
        return;
    }
    let Some(stage) = Stage::new(test) else { return };
    for number in 0..1000 {
        stage.file(&format!("l{number}"), "");
    }
    let wanted = std::env::var("ASSAY_FLOOD_RECORDS").ok().and_then(|wanted| wanted.parse().ok());
    let wanted: u64 = wanted.unwrap_or(20_000);
    let recorded = record(&stage, &["python3", "-c", LONG, &wanted.to_string()], true);
    let made = text(&recorded.printed).trim().parse().expect("a number");
    assert_eq!(made, wanted);
    let seen = reads(&recorded.evidence, |path| path.starts_with("${WORKDIR}/l"));
    let records = recorded.evidence["observed"]["counters"]["records"].as_u64().expect("a count of records");
    let flooded = recorded.flooded(made, seen);
    println!("{records} records were read");
    assert!(records >= made - flooded.lost, "{records} records of {made}");
    check(&flooded);
}
