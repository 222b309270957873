//! `assay runs` from outside: what is done to a spool shows, what is asked for is found, and nothing else is touched.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use assay::evidence::{Component, Degradation, Evidence, Outcome};
use assay::profile::effect::FsOp;
use assay::spool::{Spool, Summary};
use serde_json::Value;

use crate::sample::{Dir, Ran, assay, connect, evidence, exec, fs, harmless};
use crate::spool::{begin, commit, create, moment, walk};

/// A spool with runs in it.
struct Place {
    dir: Dir,
    spool: Spool,
}

impl Place {
    /// Three runs, each with another command, user and behaviour: entries 1 to 3.
    fn new() -> Self {
        let dir = Dir::new();
        let spool = create(dir.path());
        let place = Self { dir, spool };
        place.add(0, 1000, "ann", &["make", "test"], &evidence(harmless(), vec![]));
        let denied = vec![fs(FsOp::Read, "${HOME}/.ssh/id"), connect("10.0.0.1", 443)];
        let mut second = evidence(denied, vec![Degradation::whole(Component::Net, "tcp-not-held")]);
        second.observed.verdict = "denied".into();
        place.add(100, 1001, "bo", &["curl", "-o", "x y", "example.org"], &second);
        let mut third = evidence(vec![exec("/tmp/\\x1b[2J"), fs(FsOp::Write, "/srv/a/b")], vec![]);
        third.identity.outcome = Outcome::Signal("SIGKILL".into());
        place.add(200, 1000, "ann\\x0a", &["a\u{1b}[2J\u{202e}b", "::error::x"], &third);
        place
    }

    fn add(&self, seconds: i64, uid: u32, name: &str, command: &[&str], evidence: &Evidence) {
        commit(&self.spool, &begin(uid, name, command, seconds), evidence, seconds + 1);
    }

    fn runs(&self, args: &[&str]) -> Ran {
        let (command, rest) = args.split_first().unwrap();
        assay(&self.dir, &[&["runs", command, "--spool", "spool"], rest].concat(), b"")
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.runs(&[args, &["--format", "json"]].concat());
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    /// The entries that a listing has, in its order.
    fn listed(&self, filters: &[&str]) -> Vec<u64> {
        let listed = self.json(&[&["list"], filters].concat());
        listed["runs"].as_array().unwrap().iter().map(|run| run["entry"]["seq"].as_u64().unwrap()).collect()
    }

    /// The codes of what is wrong, with the entries.
    fn faults(&self, more: &[&str]) -> Vec<(String, Option<u64>)> {
        let check = self.json(&[&["verify"], more].concat());
        let faults: Vec<_> = check["faults"]
            .as_array()
            .unwrap()
            .iter()
            .map(|fault| (fault["code"].as_str().unwrap().to_owned(), fault["entry"].as_u64()))
            .collect();
        assert_eq!(check["verified"].as_bool().unwrap(), faults.is_empty());
        let ran = self.runs(&[&["verify"], more].concat());
        assert_eq!(ran.code, Some(if faults.is_empty() { 0 } else { 2 }), "{ran:?}");
        for (code, _) in &faults {
            assert!(ran.stdout.contains(code.as_str()), "{ran:?}");
        }
        faults
    }

    fn path(&self, name: &str) -> PathBuf {
        self.spool.path().join(name)
    }

    fn chain(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("chain.ndjson")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn write_chain(&self, lines: &[String]) {
        let text: String = lines.iter().map(|line| line.clone() + "\n").collect();
        std::fs::write(self.path("chain.ndjson"), text).unwrap();
    }

    /// The directory of the run with this entry.
    fn directory(&self, seq: u64) -> PathBuf {
        let (entries, _) = walk(&self.spool);
        let entry = entries.iter().find(|entry| entry.seq == seq).unwrap();
        self.path("runs").join(entry.body.place().unwrap().0)
    }

    fn head(&self) -> String {
        self.json(&["verify"])["head"]["sha256"].as_str().unwrap().to_owned()
    }
}

/// What `list` prints as JSON, of a run that was collected and one that was not.
pub fn listing() -> Value {
    let place = Place::new();
    place.spool.begin(&begin(1, "x", &["x"], 300)).unwrap().commit(Summary::default(), moment(301)).unwrap();
    assert_eq!(place.runs(&["gc", "--keep-days", "0"]).code, Some(0));
    place.add(400, 1, "x", &["x"], &evidence(harmless(), vec![]));
    let mut listing = place.json(&["list", "--path", "/", "--limit", "1"]);
    listing["runs"].as_array_mut().unwrap().push(place.json(&["list"])["runs"][2].clone());
    assert!(
        listing["runs"][1]["collected_by"].is_u64() && listing["unsearched"].as_object().unwrap().len() == 1
    );
    listing
}

/// What `show` prints as JSON.
pub fn showing() -> Value {
    Place::new().json(&["show", "2"])
}

/// What `verify` prints as JSON, of a good spool and of others.
pub fn verifying() -> Vec<Value> {
    let place = Place::new();
    let good = place.json(&["verify"]);
    std::fs::remove_dir_all(place.directory(2)).unwrap();
    std::fs::create_dir(place.path("runs/more")).unwrap();
    let bad = place.json(&["verify"]);
    place.write_chain(&[]);
    vec![good, bad, place.json(&["verify"])]
}

fn faults(expect: &[(&str, Option<u64>)]) -> Vec<(String, Option<u64>)> {
    expect.iter().map(|(code, seq)| ((*code).to_owned(), *seq)).collect()
}

#[test]
fn a_spool_as_it_was_written_is_good() {
    let place = Place::new();
    assert_eq!(place.faults(&[]), []);
    let check = place.json(&["verify"]);
    assert_eq!(
        (&check["entries"], &check["runs"], &check["files"], &check["bundles"]),
        (&4.into(), &3.into(), &6.into(), &3.into())
    );
    assert_eq!(place.faults(&["--head", &place.head()]), []);
    let empty = Dir::new();
    create(empty.path());
    assert_eq!(assay(&empty, &["runs", "verify", "--spool", "spool"], b"").code, Some(0));
    let ran = assay(&empty, &["runs", "list", "--spool", "spool"], b"");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
}

#[test]
fn what_is_done_to_the_chain_is_named() {
    let check = |change: &dyn Fn(&mut Vec<String>), expect: &[(&str, Option<u64>)]| {
        let place = Place::new();
        let mut lines = place.chain();
        change(&mut lines);
        place.write_chain(&lines);
        assert_eq!(place.faults(&[]), faults(expect));
    };
    check(
        &|lines| lines[2] = lines[2].replace("\"verdict\":\"denied\"", "\"verdict\":\"ok\""),
        &[("chain/edited", Some(2))],
    );
    let runs_extra = ("run/extra", None);
    check(&|lines| drop(lines.remove(2)), &[("chain/deleted", Some(3)), runs_extra]);
    check(&|lines| drop(lines.pop()), &[runs_extra]);
    check(&|lines| drop(lines.drain(..)), &[("chain/missing", None), runs_extra, runs_extra, runs_extra]);
    check(
        &|lines| lines.swap(1, 2),
        &[("chain/reordered", Some(1)), ("chain/reordered", Some(2)), ("chain/reordered", Some(3))],
    );
    check(&|lines| lines.push("{".into()), &[("chain/torn", None)]);
    // The last entry is named by none: what it says of its own files gives it away, and its digest does.
    let place = Place::new();
    let head = place.head();
    let mut lines = place.chain();
    lines[3] = lines[3].replace("\"SIGKILL\"", "\"SIGTERM\"");
    place.write_chain(&lines);
    assert_eq!(place.faults(&[]), []);
    assert_eq!(place.faults(&["--head", &head]), faults(&[("chain/rolled-back", None)]));
    // All of it removed, and begun anew by the next run.
    let place = Place::new();
    std::fs::remove_file(place.path("chain.ndjson")).unwrap();
    place.add(300, 1, "x", &["x"], &evidence(harmless(), vec![]));
    assert_eq!(
        place.faults(&[]),
        faults(&[("chain/begun-anew", Some(0)), runs_extra, runs_extra, runs_extra])
    );
}

#[test]
fn a_spool_that_is_rolled_back_shows_by_its_head() {
    let place = Place::new();
    let older = place.dir.path().join("older");
    let copied =
        std::process::Command::new("cp").arg("-a").args([place.spool.path(), &older]).status().unwrap();
    assert!(copied.success());
    place.add(300, 1, "x", &["x"], &evidence(harmless(), vec![]));
    let head = place.head();
    std::fs::remove_dir_all(place.spool.path()).unwrap();
    std::fs::rename(&older, place.spool.path()).unwrap();
    assert_eq!(place.faults(&[]), [], "it is a good spool, of another day");
    assert_eq!(place.faults(&["--head", &head]), faults(&[("chain/rolled-back", None)]));
}

#[test]
fn what_is_done_to_the_files_is_named() {
    let check = |change: &dyn Fn(&Place), expect: &[(&str, Option<u64>)]| {
        let place = Place::new();
        change(&place);
        assert_eq!(place.faults(&[]), faults(expect));
    };
    let bundle = |place: &Place, seq| place.directory(seq).join("bundle.tar.gz");
    check(&|place| std::fs::remove_file(bundle(place, 2)).unwrap(), &[("file/missing", Some(2))]);
    check(&|place| std::fs::remove_dir_all(place.directory(2)).unwrap(), &[("run/missing", Some(2))]);
    check(&|place| std::fs::write(bundle(place, 2), "x").unwrap(), &[("file/changed", Some(2))]);
    check(&|place| std::fs::write(place.directory(2).join("more"), "x").unwrap(), &[("file/extra", Some(2))]);
    check(
        &|place| std::fs::write(place.directory(2).join("\u{1b}"), "x").unwrap(),
        &[("file/extra", Some(2))],
    );
    check(&|place| std::fs::create_dir(place.path("runs/more")).unwrap(), &[("run/extra", None)]);
    // Two runs have each other's files.
    check(
        &|place| {
            let (one, other) = (place.directory(1), place.directory(2));
            std::fs::rename(&one, place.path("x")).unwrap();
            std::fs::rename(&other, &one).unwrap();
            std::fs::rename(place.path("x"), &other).unwrap();
        },
        &[
            ("file/changed", Some(1)),
            ("file/changed", Some(1)),
            ("file/changed", Some(2)),
            ("file/changed", Some(2)),
        ],
    );
    // A link to a file that is just the same, and another name of it.
    check(
        &|place| {
            let path = bundle(place, 1);
            std::fs::rename(&path, place.path("x")).unwrap();
            symlink(place.path("x"), &path).unwrap();
        },
        &[("file/changed", Some(1))],
    );
    check(
        &|place| std::fs::hard_link(bundle(place, 1), place.path("x")).unwrap(),
        &[("file/changed", Some(1))],
    );
    check(
        &|place| {
            let path = bundle(place, 1);
            std::fs::remove_file(&path).unwrap();
            std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        },
        &[("file/changed", Some(1))],
    );
    // A run's directory is a link to where everything is as it was.
    check(
        &|place| {
            let path = place.directory(1);
            std::fs::rename(&path, place.path("x")).unwrap();
            symlink(place.path("x"), &path).unwrap();
        },
        &[("run/missing", Some(1))],
    );
}

#[test]
fn a_bundle_that_was_packed_anew_is_another_file_and_told_as_good() {
    let place = Place::new();
    let path = place.directory(1).join("bundle.tar.gz");
    let script = "gzip -dc \"$1\" | gzip -1n > x && mv x \"$1\"";
    let mut packed = std::process::Command::new("sh");
    let packed = packed.args(["-ec", script, "sh"]).arg(&path).current_dir(place.dir.path());
    assert!(packed.status().unwrap().success());
    assert_eq!(place.faults(&[]), faults(&[("file/changed", Some(1))]));
    let ran = place.runs(&["verify"]);
    assert!(ran.stdout.contains("what is there is a good bundle of sandbox_"), "{ran:?}");
    let ran = place.runs(&["export", "1", "-o", "."]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("not the file that its entry names"), "{ran:?}");
    assert!(!place.dir.path().read_dir().unwrap().any(|entry| entry.unwrap().file_name() != "spool"));
}

#[test]
fn a_bundle_of_another_run_than_its_entry_says_is_named() {
    let place = Place::new();
    let mut staging = place.spool.begin(&begin(1, "x", &["x"], 300)).unwrap();
    std::fs::write(staging.directory().join("bundle.tar.gz"), crate::sample::of(harmless())).unwrap();
    let summary = Summary { run_id: Some("sandbox_0123456789abcdef".into()), ..Summary::default() };
    staging.commit(summary, moment(301)).unwrap();
    let mut staging = place.spool.begin(&begin(1, "x", &["x"], 300)).unwrap();
    std::fs::write(staging.directory().join("bundle.tar.gz"), "no bundle").unwrap();
    staging.commit(Summary::default(), moment(302)).unwrap();
    assert_eq!(place.faults(&[]), faults(&[("file/bundle", Some(5)), ("file/run-id", Some(4))]));
}

#[test]
fn runs_are_found_by_what_they_are_and_did() {
    let place = Place::new();
    let id = place.json(&["show", "2"])["entry"]["run_id"].as_str().unwrap().to_owned();
    for (filters, expect) in [
        (vec![], vec![3, 2, 1]),
        (vec!["--limit", "2"], vec![3, 2]),
        (vec!["--user", "ann"], vec![1]),
        (vec!["--user", "1000"], vec![3, 1]),
        (vec!["--user", "nobody"], vec![]),
        (vec!["--since", "2026-01-02T03:05:46Z"], vec![3, 2]),
        (vec!["--until", "2026-01-02T03:05:46Z"], vec![1]),
        (vec!["--since", "2026-01-03"], vec![]),
        (vec!["--command", "make te"], vec![1]),
        (vec!["--verdict", "denied"], vec![2]),
        (vec!["--verdict", "lost"], vec![]),
        (vec!["--degradation", "tcp-not-held"], vec![2]),
        (vec!["--degradation", "net"], vec![2]),
        (vec!["--run-id", &id], vec![2]),
        (vec!["--path", "${HOME}/.ssh"], vec![2]),
        (vec!["--path", "${HOME}/.ssh/"], vec![2]),
        (vec!["--path", "${HOME}/.ss"], vec![]),
        (vec!["--path", "/srv/a/b"], vec![3]),
        (vec!["--path", "/"], vec![3, 1]),
        (vec!["--path", "/usr/bin/make"], vec![1]),
        (vec!["--host", "10.0.0.1"], vec![2]),
        (vec!["--host", "10.0.0"], vec![]),
        (vec!["--host", "10.0.0.1", "--user", "ann"], vec![]),
    ] {
        assert_eq!(place.listed(&filters), expect, "{filters:?}");
    }
    let ran = place.runs(&["list", "--limit", "1"]);
    assert!(ran.stderr.contains("2 more runs"), "{ran:?}");
    // One that has no bundle is told where the names in bundles are asked for, and only there.
    place.spool.begin(&begin(1, "x", &["x"], 300)).unwrap().commit(Summary::default(), moment(301)).unwrap();
    let ran = place.runs(&["list", "--path", "/srv"]);
    assert!(ran.stderr.contains("1 runs were not searched wholly"), "{ran:?}");
    assert!(!place.runs(&["list"]).stderr.contains("searched"));
    assert_eq!(place.listed(&["--path", "/srv"]), [3]);
    for wrong in [["--since", "yesterday"], ["--verdict", "good"], ["--limit", "-1"]] {
        assert_eq!(place.runs(&["list", wrong[0], wrong[1]]).code, Some(2));
    }
}

#[test]
fn the_index_is_never_believed_and_made_anew_when_it_does_not_fit() {
    let place = Place::new();
    let index = place.path("index.sqlite");
    let filters = ["--path", "/srv"];
    assert_eq!(place.listed(&filters), [3]);
    let good = std::fs::read(&index).unwrap();
    let check = |bytes: &[u8]| {
        std::fs::write(&index, bytes).unwrap();
        assert_eq!(place.listed(&[]), [3, 2, 1]);
        assert_eq!(place.listed(&filters), [3]);
    };
    check(b"");
    check(b"no index");
    check(&good[..good.len() / 2]);
    let mut damaged = good.clone();
    damaged[100..4096].fill(0xff);
    check(&damaged);
    let mut other_version = good.clone();
    other_version[60..64].copy_from_slice(&7u32.to_be_bytes());
    check(&other_version);
    // Of another spool, which has as many runs.
    let other = Dir::new();
    let spool = create(other.path());
    for seconds in 0..3 {
        commit(
            &spool,
            &begin(5, "o", &["o"], seconds),
            &evidence(vec![fs(FsOp::Read, "/srv/x")], vec![]),
            seconds,
        );
    }
    assert_eq!(assay(&other, &["runs", "list", "--spool", "spool", "--path", "/srv"], b"").code, Some(0));
    check(&std::fs::read(spool.path().join("index.sqlite")).unwrap());
    // Older than the chain, and newer.
    place.add(300, 1, "x", &["x"], &evidence(vec![fs(FsOp::Read, "/srv/x")], vec![]));
    std::fs::write(&index, &good).unwrap();
    assert_eq!(place.listed(&filters), [4, 3]);
    let lines = place.chain();
    place.write_chain(&lines[..3]);
    assert_eq!(place.listed(&[]), [2, 1]);
    assert_eq!(place.listed(&filters), [0u64; 0]);
    place.write_chain(&lines);
    // One that says what is not so finds nothing that is not so.
    let python = "import sqlite3, sys\nindex = sqlite3.connect(sys.argv[1])\n\
        index.execute('UPDATE runs SET verdict = \\'denied\\', uid = 7')\nindex.commit()\n";
    assert_eq!(place.listed(&[]), [4, 3, 2, 1]);
    let lied = std::process::Command::new("python3").args(["-c", python]).arg(&index).status().unwrap();
    assert!(lied.success());
    assert_eq!(place.listed(&["--verdict", "denied"]), [2]);
    assert_eq!(place.listed(&["--user", "7"]), [0u64; 0]);
    // A link to somebody else's file, and a directory.
    let precious = place.dir.put("precious", "precious");
    std::fs::remove_file(&index).unwrap();
    symlink(&precious, &index).unwrap();
    assert_eq!(place.listed(&filters), [4, 3]);
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    std::fs::remove_file(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    assert_eq!(place.listed(&filters), [4, 3]);
}

#[test]
fn nothing_of_a_run_reaches_a_terminal_as_it_is() {
    let place = Place::new();
    std::fs::write(place.directory(3).join("x\u{1b}[2Jy"), "").unwrap();
    std::fs::write(place.path("runs/\u{202e}z"), "").unwrap();
    for args in [
        vec!["list"],
        vec!["show", "3"],
        vec!["verify"],
        vec!["export", "3", "-o", "."],
        vec!["gc", "--keep-days", "0", "--dry-run"],
        vec!["list", "--format", "json"],
        vec!["show", "3", "--format", "json"],
        vec!["verify", "--format", "json"],
        vec!["show", "\u{1b}[2J"],
        vec!["verify", "--explain", "\u{1b}[2J"],
    ] {
        let ran = place.runs(&args);
        let printed = ran.stdout + &ran.stderr;
        let is_acted_on = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}');
        assert!(!printed.contains(is_acted_on), "{args:?}: {printed:?}");
        assert!(!printed.lines().any(|line| line.trim_start().starts_with("::")), "{args:?}: {printed}");
    }
    let shown = place.runs(&["show", "3"]).stdout;
    assert!(shown.contains("a\\x1b[2J\\xe2\\x80\\xaeb"), "{shown}");
}

#[test]
fn a_run_is_shown_by_its_entry_and_by_its_id() {
    let place = Place::new();
    let by_entry = place.json(&["show", "1"]);
    let id = by_entry["entry"]["run_id"].as_str().unwrap();
    assert_eq!(place.json(&["show", id]), by_entry);
    assert_eq!(by_entry["line_sha256"].as_str().unwrap().len(), 71);
    assert_eq!(
        by_entry["directory"].as_str().unwrap(),
        format!("spool/runs/{}", by_entry["entry"]["directory"].as_str().unwrap())
    );
    let ran = place.runs(&["show", "2"]);
    for text in [
        "bo (1001)",
        "curl -o 'x y' example.org",
        "denied",
        "net: TCP is not held",
        "fs complete",
        "bundle.tar.gz",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {ran:?}");
    }
    assert!(ran.stderr.contains("assay evidence show spool/runs/"), "{ran:?}");
    // Of several with one id it is the last.
    place.add(300, 1, "x", &["x"], &evidence(harmless(), vec![]));
    assert_eq!(place.json(&["show", id])["entry"]["seq"].as_u64(), Some(4));
    assert!(place.runs(&["show", id]).stderr.contains("1 other runs have this run id"));
    for absent in ["0", "9", "sandbox_0000000000000000", ""] {
        assert_eq!(place.runs(&["show", absent]).code, Some(2), "{absent}");
    }
}

#[test]
fn bundles_are_copied_out_and_are_those_that_lie_there() {
    let place = Place::new();
    let out = place.dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let names = |path: &Path| -> BTreeSet<String> {
        std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    assert_eq!(place.runs(&["export", "1", "3", "-o", "out"]).code, Some(0));
    assert_eq!(names(&out).len(), 2);
    for name in names(&out) {
        let (seq, id) = name.trim_end_matches(".tar.gz").split_once('-').unwrap();
        let copied = std::fs::read(out.join(&name)).unwrap();
        let directory = place.directory(seq.parse().unwrap());
        assert_eq!(copied, std::fs::read(directory.join("bundle.tar.gz")).unwrap());
        let ran = assay(&place.dir, &["evidence", "verify", &format!("out/{name}")], b"");
        assert!(ran.stdout.contains(id), "{ran:?}");
    }
    std::fs::remove_dir_all(&out).unwrap();
    std::fs::create_dir(&out).unwrap();
    assert_eq!(place.runs(&["export", "--verdict", "denied", "-o", "out"]).code, Some(0));
    assert!(names(&out).iter().all(|name| name.starts_with("2-")) && names(&out).len() == 1);
    // As one archive, which tar reads.
    let spool = place.spool.path().to_str().unwrap();
    let list = std::process::Command::new("sh")
        .args([
            "-ec",
            "\"$1\" runs export --spool \"$2\" --user ann -o - | tar -tf -",
            "sh",
            env!("CARGO_BIN_EXE_assay"),
            spool,
        ])
        .output()
        .unwrap();
    let listed = String::from_utf8(list.stdout).unwrap();
    assert!(
        list.status.success() && listed.starts_with("1-sandbox_") && listed.lines().count() == 1,
        "{listed}"
    );
    // What cannot be.
    assert_eq!(place.runs(&["export", "-o", "out"]).code, Some(2));
    assert_eq!(place.runs(&["export", "7", "-o", "out"]).code, Some(2));
    assert_eq!(place.runs(&["export", "1", "-o", "absent"]).code, Some(2));
    place.spool.begin(&begin(1, "x", &["x"], 300)).unwrap().commit(Summary::default(), moment(301)).unwrap();
    assert_eq!(place.runs(&["export", "4", "-o", "out"]).code, Some(2));
    assert_eq!(
        place.runs(&["export", "--user", "1", "-o", "out"]).code,
        Some(0),
        "nobody asked for that one"
    );
}

#[test]
fn what_is_collected_is_told_from_what_was_deleted() {
    let place = Place::new();
    let (first, second) = (place.directory(1), place.directory(2));
    // By age: all are of January, and one is of the future.
    let planned = place.runs(&["gc", "--keep-days", "1", "--dry-run"]);
    assert!(planned.stdout.contains("would remove the files of 3 runs"), "{planned:?}");
    assert!(first.is_dir());
    let size = |directory: &Path| -> u64 {
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    let most = size(&place.directory(3)) + size(&second);
    let ran = place.runs(&["gc", "--max-bytes", &most.to_string()]);
    assert!(
        ran.stdout.contains("removed the files of 1 runs") && ran.stdout.contains("2 runs with"),
        "{ran:?}"
    );
    assert!(!first.exists() && second.exists());
    assert_eq!(place.faults(&[]), []);
    assert_eq!(place.json(&["verify"])["collected"].as_u64(), Some(1));
    assert_eq!(place.json(&["list"])["runs"][2]["collected_by"].as_u64(), Some(4));
    assert_eq!(place.json(&["show", "1"])["collected_by"].as_u64(), Some(4));
    assert!(place.runs(&["show", "1"]).stdout.contains("collected, as entry 4 says"));
    assert_eq!(place.runs(&["export", "1", "-o", "."]).code, Some(2));
    // Once is enough.
    assert!(place.runs(&["gc", "--max-bytes", &most.to_string()]).stdout.contains("of 0 runs"));
    assert_eq!(place.chain().len(), 5);
    // Deleted by somebody else.
    std::fs::remove_dir_all(&second).unwrap();
    assert_eq!(place.faults(&[]), faults(&[("run/missing", Some(2))]));
    // A collection that was stopped behind its entry is finished by the next; until then it is no fault.
    std::fs::create_dir(&first).unwrap();
    std::fs::write(first.join("bundle.tar.gz"), "x").unwrap();
    assert_eq!(place.faults(&[]), faults(&[("run/missing", Some(2))]));
    assert!(
        place
            .runs(&["verify"])
            .stderr
            .contains("1 runs were collected and their directories are still there")
    );
    let ran = place.runs(&["gc", "--keep-days", "1"]);
    assert!(ran.stderr.contains("1 directories that an earlier collection had left"), "{ran:?}");
    assert_eq!(std::fs::read_dir(place.path("runs")).unwrap().count(), 0);
    assert_eq!(place.faults(&[]), []);
    let uses = place.spool.usage(1000).unwrap();
    assert_eq!((uses.runs, uses.bytes), (0, 0));
    for wrong in
        [vec!["gc"], vec!["gc", "--keep-days", "1", "--max-bytes", "1"], vec!["gc", "--max-bytes", "1.5G"]]
    {
        assert_eq!(place.runs(&wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn collecting_follows_no_link_and_removes_what_lies_deep() {
    let place = Place::new();
    let precious = place.dir.path().join("precious");
    std::fs::create_dir(&precious).unwrap();
    std::fs::write(precious.join("file"), "precious").unwrap();
    std::fs::remove_dir_all(place.directory(1)).unwrap();
    symlink(&precious, place.directory(1)).unwrap();
    symlink(&precious, place.directory(2).join("link")).unwrap();
    std::fs::create_dir_all(place.directory(3).join("a/b/c")).unwrap();
    std::fs::write(place.directory(3).join("a/b/c/file"), "").unwrap();
    let ran = place.runs(&["gc", "--keep-days", "0"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(std::fs::read(precious.join("file")).unwrap(), b"precious");
    assert_eq!(std::fs::read_dir(place.path("runs")).unwrap().count(), 0);
}

#[test]
fn a_run_that_was_lost_is_listed_shown_and_no_fault() {
    let place = Place::new();
    let staging = place.spool.begin(&begin(1000, "ann", &["sleep", "9"], 300)).unwrap();
    std::fs::write(staging.directory().join("bundle.tar.gz"), "half a bundle").unwrap();
    drop(staging);
    let running = place.json(&["verify"])["notes"].to_string();
    assert!(running.contains("1 runs are in progress"), "{running}");
    place.spool.recover(moment(400), &|_| false).unwrap();
    assert_eq!(place.faults(&[]), []);
    assert!(place.runs(&["verify"]).stderr.contains("1 runs were lost"));
    assert_eq!(place.listed(&["--verdict", "lost"]), [4]);
    assert_eq!(place.listed(&["--user", "ann", "--command", "sleep"]), [4]);
    let shown = place.runs(&["show", "4"]).stdout;
    assert!(
        shown.contains("lost: its writer died") && shown.contains("not whole    bundle.tar.gz"),
        "{shown}"
    );
    // What was kept of it is held to what was there.
    std::fs::write(place.directory(4).join("bundle.tar.gz"), "another half").unwrap();
    assert_eq!(place.faults(&[]), faults(&[("file/changed", Some(4))]));
}

#[test]
fn what_is_no_spool_is_refused() {
    let dir = Dir::new();
    let run = |args: &[&str]| {
        let ran = assay(&dir, &[&["runs"], args].concat(), b"");
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert_eq!(ran.stdout, "");
        ran.stderr
    };
    for command in [
        vec!["list"],
        vec!["show", "1"],
        vec!["verify"],
        vec!["export", "1", "-o", "."],
        vec!["gc", "--keep-days", "1"],
    ] {
        let told = run(&[command.as_slice(), &["--spool", "absent"]].concat());
        assert!(told.contains("absent") && told.contains("hint: `--spool DIR` says where it is"), "{told}");
        run(&[command.as_slice(), &["--spool", "."]].concat());
    }
    let spool = create(dir.path());
    std::fs::set_permissions(spool.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(run(&["list", "--spool", "spool"]).contains("others may write to it"));
    std::fs::set_permissions(spool.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    symlink(spool.path(), dir.path().join("link")).unwrap();
    run(&["list", "--spool", "link"]);
    assert_eq!(assay(&dir, &["runs", "verify", "--explain", "all"], b"").code, Some(0));
    assert!(run(&["verify", "--explain", "chain/none"]).contains("no code"));
}

#[test]
fn a_host_that_has_a_key_signs_what_it_appends() {
    let place = Place::new();
    let openssl = |args: &[&str]| {
        let status = std::process::Command::new("openssl").args(args).current_dir(place.dir.path()).status();
        assert!(status.expect("openssl is installed").success());
    };
    openssl(&["genpkey", "-algorithm", "ed25519", "-out", "spool/host.key"]);
    std::fs::set_permissions(place.path("host.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    openssl(&["pkey", "-in", "spool/host.key", "-pubout", "-out", "host.pub"]);
    openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "other.key"]);
    openssl(&["pkey", "-in", "other.key", "-pubout", "-out", "other.pub"]);
    let key = ["--public-key", "host.pub"];
    let missing = faults(&[("signature/missing", None)]);
    assert_eq!(place.faults(&[]), [], "nobody asked for signatures");
    assert_eq!(place.faults(&key), missing, "what was there before the key is vouched for by the next");
    place.add(300, 1, "x", &["x"], &evidence(harmless(), vec![]));
    assert_eq!(place.faults(&key), []);
    assert_eq!(place.faults(&["--public-key", "other.pub"]), missing);
    assert_eq!(place.faults(&["--public-key", "other.pub", "--public-key", "host.pub"]), []);
    // A collection and a run that was lost are signed as well.
    drop(place.spool.begin(&begin(1, "x", &["x"], 300)).unwrap());
    place.spool.recover(moment(400), &|_| false).unwrap();
    assert_eq!(place.runs(&["gc", "--keep-days", "0"]).code, Some(0));
    assert_eq!(place.json(&["verify", "--public-key", "host.pub"])["signatures"].as_u64(), Some(3));
    assert_eq!(place.faults(&key), []);
    // The last entry is cut off, and edited; and the signature with it.
    let lines = place.chain();
    let signatures = std::fs::read_to_string(place.path("signatures.ndjson")).unwrap();
    place.write_chain(&lines[..6]);
    let codes =
        |more: &[&str]| -> Vec<String> { place.faults(more).into_iter().map(|(code, _)| code).collect() };
    assert!(codes(&key).contains(&"signature/line".to_owned()));
    place.write_chain(&lines);
    let mut edited = lines.clone();
    edited[6] = edited[6].replace("\"keep_days\":0", "\"keep_days\":9");
    place.write_chain(&edited);
    assert_eq!((codes(&[]), codes(&key)), (vec![], vec!["signature/line".to_owned()]));
    let before: String = signatures.lines().take(2).map(|line| line.to_owned() + "\n").collect();
    std::fs::write(place.path("signatures.ndjson"), before + "{\"half").unwrap();
    assert_eq!(codes(&key), ["signature/missing"]);
    place.add(400, 1, "x", &["x"], &evidence(harmless(), vec![]));
    assert_eq!(codes(&key), [""; 0], "who has the key vouches for what is there");
    assert!(
        place
            .runs(&["verify", "--public-key", "host.pub"])
            .stderr
            .contains("1 lines of signatures are of none")
    );
    // One that others may read is no key, and the run is kept.
    std::fs::set_permissions(place.path("host.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let committed = commit(&place.spool, &begin(1, "x", &["x"], 500), &evidence(harmless(), vec![]), 501);
    assert!(committed.unsigned.unwrap().contains("others may read it"));
    assert!(Spool::create(place.spool.path(), moment(0)).is_err(), "who begins to write is told");
    assert_eq!(codes(&key), ["signature/missing"]);
    assert_eq!(place.runs(&["verify", "--public-key", "absent"]).code, Some(2));
    assert_eq!(place.runs(&["verify", "--public-key", "spool/host.key"]).code, Some(2));
}

/// What the guide says to type, on this spool: `assay` is told where it is, and the noted head lies here.
#[test]
fn the_guide_says_what_can_be_typed() {
    let place = Place::new();
    for number in 0..9 {
        place.add(300 + number, 1000, "ann", &["make"], &evidence(harmless(), vec![]));
    }
    let wrapper = format!("#!/bin/sh\nexec {} \"$@\" --spool spool\n", env!("CARGO_BIN_EXE_assay"));
    let wrapper = place.dir.put("assay", wrapper);
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    place.dir.put("head", place.head());
    let page = include_str!("../../docs/guides/many-runs.md");
    let section = page.split("\n## ").find(|one| one.starts_with("Looking at the runs of a host")).unwrap();
    let blocks = crate::blocks::of_page("docs/guides/many-runs.md", section);
    let path = format!("{}:{}", place.dir.path().display(), std::env::var("PATH").unwrap());
    for block in &blocks {
        let text = block.text.replace("/mnt/elsewhere/", "");
        let output = std::process::Command::new("sh")
            .args(["-ec", &text])
            .current_dir(place.dir.path())
            .env("PATH", &path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{text}: {output:?}");
    }
    assert_eq!(blocks.len(), 3);
    assert_eq!(place.faults(&[]), []);
}
