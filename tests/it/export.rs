//! `assay evidence export` from outside: what it takes, what it writes, and when it writes nothing. What others read of
//! it is asked of others.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use serde_json::Value;

use assay::evidence::{Component, Degradation, Evidence};
use assay::profile::effect::{Effect, EffectResult, FsEffect, FsOp};
use assay::profile::name::Name;

use crate::python;
use crate::sample::{Dir, Ran, assay, bundle, connect, evidence, exec, fs as file, harmless, of};

fn export(dir: &Dir, args: &[&str], stdin: &[u8]) -> Ran {
    assay(dir, &[&["evidence", "export"], args].concat(), stdin)
}

fn lines(text: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn named(name: &str) -> Vec<Effect> {
    let mut effects = harmless();
    effects.push(file(FsOp::Read, name));
    effects
}

/// The paths of all lines on files, which tell whose lines they are.
fn marks(text: &str) -> Vec<String> {
    let text_of = |line: &Value| line["path"].as_str().unwrap_or_default().to_owned();
    lines(text).iter().map(text_of).filter(|path| path.starts_with("/mark/")).collect()
}

#[test]
fn the_run_comes_first_and_then_every_effect_in_the_order_of_the_bundle() {
    let dir = Dir::new();
    let degradation = Degradation {
        component: Component::Net,
        reason: "no-landlock-net".into(),
        detail: Some("tcp".into()),
    };
    dir.put("b", bundle(&evidence(harmless(), vec![degradation])));
    let ran = export(&dir, &["b", "--format", "jsonl", "--host", "ci-7"], b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = lines(&ran.stdout);
    let kinds: Vec<_> = told.iter().map(|line| line["kind"].as_str().expect("a kind")).collect();
    assert_eq!(kinds, ["run", "fs", "fs", "exec", "net", "degradation"]);
    let run = &told[0];
    assert_eq!(run["command"], serde_json::json!(["make", "test"]));
    assert_eq!(
        (&run["exit_code"], &run["verdict"], &run["machine"]),
        (&0.into(), &"ok".into(), &"ci-7".into())
    );
    assert_eq!(
        (&run["coverage_fs"], &run["lost"], &run["duration_ms"]),
        (&"complete".into(), &0.into(), &1234.into())
    );

    // Nothing that `show` tells of an effect is missing, and nothing else is told.
    let shown: Value =
        serde_json::from_str(&assay(&dir, &["evidence", "show", "b", "--format", "json"], b"").stdout)
            .expect("JSON");
    let events = shown["events"].as_array().expect("events");
    assert_eq!(events.len(), told.len() + 2, "the first and the two last are the run's line");
    for (event, line) in events[1..].iter().zip(&told[1..]) {
        assert_eq!((&event["assayseq"], &event["type"]), (&line["seq"], &line["type"]));
        assert_eq!((&event["assayhits"], &event["assayauthorised"]), (&line["hits"], &line["authorised"]));
        for (key, value) in event["data"].as_object().expect("data") {
            let column = if key == "sha256" { "digest" } else { key };
            assert_eq!(value, &line[column], "{key}");
        }
        assert_eq!(line["archive"], run["archive"]);
        assert_eq!(line["run_id"], shown["manifest"]["run_id"]);
        assert_eq!(line["bundle_id"], shown["manifest"]["bundle_id"]);
        assert!(line.as_object().expect("an object").values().all(|value| !value.is_null()), "{line}");
    }
}

#[test]
fn bundles_are_written_in_the_order_given_and_those_of_a_directory_by_name() {
    let dir = Dir::new();
    fs::create_dir(dir.path().join("runs")).expect("a directory");
    for name in ["b.tar.gz", "a.tar.gz", "c.tar.gz"] {
        dir.put(&format!("runs/{name}"), of(named(&format!("/mark/{name}"))));
    }
    // Neither of these is a bundle, and neither is looked at.
    dir.put("runs/notes.txt", "x");
    dir.put("runs/.half.tar.gz", "x");
    dir.put("first", of(named("/mark/first")));
    let ran = export(&dir, &["first", "runs", "-", "--format", "jsonl"], &of(named("/mark/stdin")));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let expected = ["first", "a.tar.gz", "b.tar.gz", "c.tar.gz", "stdin"].map(|name| format!("/mark/{name}"));
    assert_eq!(marks(&ran.stdout), expected);
    assert_eq!(lines(&ran.stdout).iter().filter(|line| line["kind"] == "run").count(), 5);

    let ran = export(&dir, &["-", "first", "-", "--format", "jsonl"], b"");
    assert_eq!((ran.code, &*ran.stderr), (Some(2), "error: only one file can come from stdin\n"));
    fs::create_dir(dir.path().join("none")).expect("a directory");
    let ran = export(&dir, &["none", "first", "--format", "jsonl"], b"");
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert_eq!(ran.stderr, "error: export none: no *.tar.gz in this directory\n");
}

#[test]
fn where_one_is_not_good_nothing_is_written_and_each_of_them_is_named() {
    let dir = Dir::new();
    let good = of(harmless());
    dir.put("good", &good);
    dir.put("cut", &good[..good.len() - 9]);
    dir.put("text", "not a bundle");
    dir.put("before", "what was here");
    for (args, is_file) in [(&[][..], false), (&["-o", "new"], true), (&["-o", "before"], true)] {
        let args = [&["good", "cut", "text", "missing", "--format", "jsonl"], args].concat();
        let ran = export(&dir, &args, b"");
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}");
        let told: Vec<_> = ran.stderr.lines().collect();
        assert_eq!(told.len(), 3, "{told:?}");
        for (line, name) in told.iter().zip(["cut: integrity/", "text: integrity/gzip", "open missing"]) {
            assert!(line.starts_with(&format!("error: export {name}")), "{line}");
        }
        let left = fs::read_dir(dir.path()).expect("the directory").count();
        assert_eq!((left, is_file || left == 4), (4, true), "nothing beside the target either");
    }
    assert_eq!(fs::read(dir.path().join("before")).expect("a file"), b"what was here");
}

#[test]
fn a_file_is_what_would_have_gone_to_stdout() {
    let dir = Dir::new();
    dir.put("b", of(harmless()));
    let stdout = export(&dir, &["b", "--format", "jsonl"], b"").stdout;
    let ran = export(&dir, &["b", "--format", "jsonl", "--output", "out.jsonl"], b"");
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), "", ""));
    assert_eq!(fs::read_to_string(dir.path().join("out.jsonl")).expect("a file"), stdout);
    for bad in ["nowhere/out.jsonl", "."] {
        let ran = export(&dir, &["b", "--format", "jsonl", "-o", bad], b"");
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
        assert!(ran.stderr.starts_with("error: export write "), "{ran:?}");
    }
}

/// So many effects that a pipe does not hold their lines.
fn many(mark: &str) -> Vec<u8> {
    let effects = (0..3000).map(|n| file(FsOp::Read, &format!("{mark}/{n:05}")));
    of(effects.collect())
}

/// Starts an export, lets `change` do something once all was verified and the first line is written, and reads the rest.
fn changed_meanwhile(dir: &Dir, bundles: &[&str], change: impl FnOnce()) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_assay"))
        .args(["evidence", "export", "--format", "jsonl"])
        .args(bundles)
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("assay");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut text = String::new();
    stdout.read_line(&mut text).expect("the first line");
    change();
    stdout.read_to_string(&mut text).expect("the rest");
    let output = child.wait_with_output().expect("assay ends");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code(), stdout: text, stderr }
}

#[test]
fn what_is_put_in_the_place_of_a_verified_bundle_is_not_taken() {
    let dir = Dir::new();
    let others = |dir: &Dir| {
        dir.put("new", many("/other"));
        fs::rename(dir.path().join("new"), dir.path().join("last")).expect("to rename");
    };
    // Of few bundles, those that were verified are still open.
    dir.put("first", many("/first"));
    dir.put("last", many("/last"));
    let ran = changed_meanwhile(&dir, &["first", "last"], || others(&dir));
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    assert!(ran.stdout.contains("\"/last/02999\"") && !ran.stdout.contains("\"/other/"));

    // Of many, each is opened once more.
    dir.put("last", many("/last"));
    let names: Vec<String> = (0..70).map(|n| format!("between-{n}")).collect();
    for name in &names {
        dir.put(name, of(harmless()));
    }
    let mut bundles: Vec<&str> = names.iter().map(String::as_str).collect();
    bundles.insert(0, "first");
    bundles.push("last");
    let ran = changed_meanwhile(&dir, &bundles, || others(&dir));
    let told = "error: export last: changed while it was read: what was written is not whole\n";
    assert_eq!((ran.code, &*ran.stderr), (Some(2), told));
    assert!(!ran.stdout.contains("\"/other/"));
    assert_eq!(lines(&ran.stdout).iter().filter(|line| line["kind"] == "run").count(), 71);
}

#[test]
fn a_bundle_that_is_written_over_while_it_is_read_is_told() {
    let dir = Dir::new();
    dir.put("first", many("/first"));
    dir.put("last", many("/last"));
    let ran = changed_meanwhile(&dir, &["first", "last"], || drop(dir.put("last", many("/other"))));
    let told = "error: export last: changed while it was read: what was written is not whole\n";
    assert_eq!((ran.code, &*ran.stderr), (Some(2), told));
    lines(&ran.stdout);
}

/// What is kept of each bundle between the readings has a bound; beyond it, a bundle is verified once more.
#[test]
fn commands_of_any_length_are_told_whole() {
    let dir = Dir::new();
    fs::create_dir(dir.path().join("runs")).expect("a directory");
    for n in 0..7u8 {
        let mut evidence = evidence(harmless(), Vec::new());
        evidence.identity.command = vec![format!("{n}"), "x".repeat(900_000)];
        dir.put(&format!("runs/{n}.tar.gz"), bundle(&evidence));
    }
    let ran = export(&dir, &["runs", "--format", "jsonl"], b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let told = lines(&ran.stdout);
    let runs: Vec<_> = told.iter().filter(|line| line["kind"] == "run").collect();
    let words: Vec<_> = runs.iter().map(|run| run["command"].as_array().expect("words")).collect();
    let firsts: Vec<_> = words.iter().map(|words| words[0].as_str().expect("a word")).collect();
    assert_eq!(firsts, ["0", "1", "2", "3", "4", "5", "6"]);
    assert!(words.iter().all(|words| words[1].as_str().is_some_and(|word| word.len() == 900_000)));
}

fn with(path: &str, op: FsOp, to: Option<&str>, result: EffectResult) -> Effect {
    Effect::Fs(FsEffect { op, path: Name::from_canonical(path), to: to.map(Name::from_canonical), result })
}

/// A run of the guide's questions.
fn run_of(more: Vec<Effect>) -> Evidence {
    let mut effects = harmless();
    effects.extend(more);
    effects.sort();
    evidence(effects, Vec::new())
}

/// Runs each question of the guide and prints the answers as JSON, a list of rows each.
const DUCKDB: &str = "\
import duckdb, json, os, re, sys
os.chdir(sys.argv[1])
answers = []
for query in re.findall(r'```sql\\n(.*?)```', open(sys.argv[2]).read(), re.S):
    answers.append([list(row) for row in duckdb.sql(query).fetchall()])
print(json.dumps(answers, default=str))
";

#[test]
fn the_questions_of_the_guide_are_answered_by_duckdb() {
    let dir = Dir::new();
    let mut one = run_of(vec![
        with("/etc/crontab", FsOp::Write, None, EffectResult::Ok),
        with("${HOME}/.bashrc", FsOp::Write, None, EffectResult::Denied),
        with("${WORKDIR}/a", FsOp::Rename, Some("/srv/a"), EffectResult::Ok),
        with("/usr/share/b", FsOp::Link, Some("${WORKDIR}/b"), EffectResult::Ok),
        connect("192.0.2.1", 443),
        exec("${WORKDIR}/tool"),
    ]);
    one.observed
        .programs
        .insert("${WORKDIR}/tool".into(), Ok(assay::canon::digest::Digest::of(b"another tool")));
    let two = run_of(vec![connect("192.0.2.1", 443), exec("${WORKDIR}/tool")]);
    let mut partial = run_of(Vec::new());
    partial.coverage.ledger.admit(assay::observe::loss::Kind::Net, "names-not-seen", "x");
    for (name, evidence) in [("1", &one), ("2", &two), ("3", &partial)] {
        dir.put(name, bundle(evidence));
    }
    for args in [
        &["1", "2", "3", "--format", "jsonl", "-o", "effects.jsonl"][..],
        &["3", "--format", "jsonl", "-o", "baseline.jsonl"],
    ] {
        assert_eq!(export(&dir, args, b"").code, Some(0));
    }
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guides/export.md");
    let Some(told) = python::run(DUCKDB, &[dir.path().to_str().expect("a plain name"), guide]) else {
        return;
    };
    let answers: Vec<Vec<Vec<Value>>> = serde_json::from_str(&told).expect("JSON");
    let [whole, outside, hosts, new, programs, denied] = &answers[..] else { panic!("{told}") };
    let cells = |rows: &[Vec<Value>], columns: &[usize]| -> Vec<String> {
        let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        rows.iter()
            .map(|row| columns.iter().map(|at| cell(&row[*at])).collect::<Vec<_>>().join(" "))
            .collect()
    };
    assert_eq!(cells(whole, &[2, 3, 7]), ["make ok partial"]);
    assert_eq!(cells(outside, &[0, 1, 2]), ["/etc/crontab write 1", "/srv/a rename 1"]);
    assert_eq!(cells(hosts, &[0, 2, 3, 4]), ["127.0.0.1 tcp 8080 3", "192.0.2.1 tcp 443 2"]);
    assert_eq!(
        cells(new, &[0, 1, 2]),
        [
            "exec exec ${WORKDIR}/tool",
            "fs link /usr/share/b",
            "fs rename ${WORKDIR}/a",
            "fs write ${HOME}/.bashrc",
            "fs write /etc/crontab",
            "net connect 192.0.2.1:443",
        ]
    );
    assert_eq!(
        cells(programs, &[0, 2, 3]),
        ["${WORKDIR}/tool 1 2", "${WORKDIR}/tool 1 2", "/usr/bin/make 3 1"]
    );
    assert_eq!(cells(denied, &[0, 1, 2, 3, 5, 6]), ["fs write ${HOME}/.bashrc denied 1 3"]);
}
