//! The spool from outside: many processes that append at once, and samples of what it writes.

use std::path::Path;
use std::process::Command;

use assay::evidence::timestamp::Timestamp;
use assay::evidence::{Component, Degradation, Evidence};
use assay::spool::chain::Walked;
use assay::spool::entry::{Body, Collected, Entry, Torn, Why, wire};
use assay::spool::{Begin, Committed, Spool, Summary, User, Writer};

use crate::sample::{bundle, evidence, harmless};

/// A moment that all tests here begin at.
pub const MOMENT: i64 = 1_767_323_045;

pub fn moment(seconds: i64) -> Timestamp {
    Timestamp::new(MOMENT + seconds).unwrap()
}

/// A spool in a directory that is there.
pub fn create(beneath: &Path) -> Spool {
    Spool::create(&beneath.join("spool"), moment(0)).unwrap()
}

pub fn begin(uid: u32, name: &str, command: &[&str], seconds: i64) -> Begin {
    let user = User { uid, name: Some(name.into()) };
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    Begin { user, command, time: moment(seconds), writer: Writer::ourselves().unwrap() }
}

/// A run that ended with this evidence.
pub fn commit(spool: &Spool, begin: &Begin, evidence: &Evidence, seconds: i64) -> Committed {
    let mut staging = spool.begin(begin).unwrap();
    std::fs::write(staging.directory().join("bundle.tar.gz"), bundle(evidence)).unwrap();
    let summary = Summary { command: begin.command.clone(), ..Summary::of(evidence) };
    staging.commit(summary, moment(seconds)).unwrap()
}

pub fn walk(spool: &Spool) -> (Vec<Entry>, Walked) {
    let mut entries = Vec::new();
    let walked = spool.walk(None, |_, entry| entries.extend(entry)).unwrap();
    (entries, walked)
}

/// One line of every kind.
pub fn samples() -> Vec<serde_json::Value> {
    let place = tempfile::tempdir().unwrap();
    let spool = create(place.path());
    let degradations = vec![Degradation::about(Component::Fs, "deny-inside-allow", "/a")];
    let mut full = evidence(harmless(), degradations);
    full.observed.policy_digest = Some(assay::canon::digest::Digest::of(b"policy"));
    full.observed.roots.insert("WORKDIR".into(), "/w".into());
    commit(&spool, &begin(1000, "ann", &["make", "test"], 0), &full, 1);
    let mut refused = spool.begin(&begin(7, "bo", &["x"], 2)).unwrap();
    let left_out = [("command".to_owned(), 3)].into();
    let summary = Summary { reasons: vec!["no".into()], left_out, ..Summary::default() };
    refused.commit(summary, moment(3)).unwrap();
    drop(spool.begin(&begin(7, "bo", &["x"], 4)).unwrap());
    assert_eq!(spool.recover(moment(5), &|_| false).unwrap().len(), 1);
    let (mut entries, walked) = walk(&spool);
    assert_eq!((walked.faults, entries.len()), (vec![], 4));
    let prev = walked.head.unwrap().sha256;
    let more = [
        Body::BegunAnew { found: 2 },
        Body::Collected(Collected { runs: vec![1, 2], bytes: 9, why: Why::KeepDays(30) }),
        Body::Collected(Collected { runs: vec![1], bytes: 0, why: Why::MaxBytes(5) }),
        Body::Torn(Torn { sha256: prev, bytes: 4 }),
    ];
    entries.extend(more.map(|body| Entry { seq: 4, prev, time: moment(6), body }));
    entries.iter().map(|entry| serde_json::from_str(&wire::to_line(entry)).unwrap()).collect()
}

/// What is noted of a run that begins.
pub fn begun() -> serde_json::Value {
    let begin = begin(1000, "ann", &["make"], 0);
    serde_json::from_str(&assay::spool::begun::to_json(&begin)).unwrap()
}

#[test]
fn twenty_processes_that_append_at_once_make_one_chain() {
    const PROCESSES: usize = 20;
    const RUNS: usize = 5;
    // The processes are this test again, with a spool given.
    if let Some(path) = std::env::var_os("ASSAY_TEST_SPOOL") {
        let spool = Spool::open(Path::new(&path)).unwrap();
        for run in 0..RUNS {
            let begin = begin(std::process::id(), "one", &["true"], run as i64);
            commit(&spool, &begin, &evidence(harmless(), vec![]), run as i64);
        }
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let spool = create(place.path());
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "spool::twenty_processes_that_append_at_once_make_one_chain"])
                .env("ASSAY_TEST_SPOOL", spool.path())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let (entries, walked) = walk(&spool);
    assert_eq!(walked.faults, []);
    assert_eq!(walked.torn, []);
    assert_eq!(entries.len(), 1 + PROCESSES * RUNS);
    let mut directories: Vec<&str> =
        entries.iter().filter_map(|entry| entry.body.place()).map(|(name, _)| name).collect();
    directories.sort_unstable();
    directories.dedup();
    assert_eq!(directories.len(), PROCESSES * RUNS, "each has a directory of its own");
    for name in directories {
        assert!(spool.path().join("runs").join(name).join("bundle.tar.gz").is_file());
    }
    assert_eq!(std::fs::read_dir(spool.path().join("open")).unwrap().count(), 0);
}
