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

/// Bundles with effects of every operation and kind, degradations, gaps, and texts that nobody is meant to have.
fn of_every_kind(dir: &Dir) {
    use assay::profile::effect::{HostFrom, NetEffect, NetEffectOp, Port};
    let mut effects = vec![exec("/usr/bin/make"), connect("fd00::1", 443)];
    for result in [EffectResult::Ok, EffectResult::Denied] {
        for op in FsOp::ALL {
            let to = matches!(op, FsOp::Rename | FsOp::Link | FsOp::Symlink).then_some("/b/c");
            effects.push(with("/a/", op, to, result));
            effects.push(with("/", op, to, result));
        }
        for op in [
            NetEffectOp::Connect,
            NetEffectOp::Bind,
            NetEffectOp::Listen,
            NetEffectOp::Send,
            NetEffectOp::Use,
        ] {
            for (proto, host, address, port) in [
                ("tcp", Some("a.test"), None, Some(Port::Number(443))),
                ("udp", None, Some("10.0.0.1"), Some(Port::Ephemeral)),
                ("unix", None, Some("/run/x.sock"), None),
                ("netlink", None, None, None),
            ] {
                effects.push(Effect::net(NetEffect {
                    op,
                    proto: proto.into(),
                    host: host.map(Into::into),
                    host_from: host.map(|_| HostFrom::Dns),
                    address: address.map(Name::from_canonical),
                    port,
                    result,
                }));
            }
        }
    }
    effects.sort();
    effects.dedup();
    let degradation = |detail: Option<&str>| Degradation {
        component: Component::Net,
        reason: "no-landlock-net".into(),
        detail: detail.map(Into::into),
    };
    let mut one = evidence(effects, vec![degradation(None), degradation(Some("tcp"))]);
    one.coverage.ledger.admit(assay::observe::loss::Kind::Net, "names-not-seen", "x");
    one.observed.not_governed = vec!["attr".into()];
    dir.put("every", bundle(&one));
    let mut killed = evidence(harmless(), Vec::new());
    killed.identity.outcome = assay::evidence::Outcome::Signal("SIGKILL".into());
    killed.identity.command = vec!["x".repeat(5000)];
    dir.put("killed", bundle(&killed));
    dir.put("hostile", crate::evidence::hostile());
}

/// Takes each line as the protobuf of OTLP has it, unknown fields refused, and asks of each name whether it is one of the
/// conventions or ours.
const OTLP: &str = "\
import json, pathlib, re, sys
import opentelemetry.semconv
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
known = set()
for file in pathlib.Path(opentelemetry.semconv.__path__[0]).rglob('*_attributes.py'):
    known.update(re.findall(r'Final = \"([a-z_.]+)\"', file.read_text()))
records = 0
for line in open(sys.argv[1], 'rb'):
    data = Parse(line, LogsData(), ignore_unknown_fields=False)
    assert list(Parse(line, ExportLogsServiceRequest()).resource_logs) == list(data.resource_logs), line
    for logs in data.resource_logs:
        names = [attribute.key for attribute in logs.resource.attributes]
        assert 'service.name' in names, names
        for record in logs.scope_logs[0].log_records:
            records += 1
            assert record.observed_time_unix_nano and record.severity_number and record.event_name, line
            own = [attribute.key for attribute in record.attributes]
            for name in names + own:
                assert name in known or name.startswith('assay.'), name
            assert own == sorted(set(own)), own
print(records)
";

#[test]
fn the_published_protobuf_of_otlp_takes_every_line() {
    let dir = Dir::new();
    of_every_kind(&dir);
    for name in ["every", "killed", "hostile"] {
        let ran = export(&dir, &[name, "--format", "otlp-json", "--host", "ci-7"], b"");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let out = dir.put("out", &ran.stdout);
        let Some(told) = python::run(OTLP, &[out.to_str().expect("a plain name")]) else { return };
        assert_eq!(told.trim(), ran.stdout.lines().count().to_string());
    }
}

/// Holds each event against the published schema of its class, with its profiles, in which no other member is allowed.
const OCSF: &str = "\
import collections, json, sys
from jsonschema import Draft202012Validator
from ocsf_json_schema import get_ocsf_schema, OcsfJsonSchemaEmbedded
schemas, validators, seen = OcsfJsonSchemaEmbedded(get_ocsf_schema(version='1.5.0')), {}, collections.Counter()
for line in open(sys.argv[1], 'rb'):
    event = json.loads(line)
    key = (event['class_uid'], *event['metadata']['profiles'])
    if key not in validators:
        name = schemas.lookup_class_name_from_uid(class_uid=key[0])
        validators[key] = Draft202012Validator(schemas.get_class_schema(class_name=name, profiles=list(key[1:])))
    errors = [f'{list(error.absolute_path)}: {error.message}' for error in validators[key].iter_errors(event)]
    assert not errors, (errors, line)
    assert event['type_uid'] == event['class_uid'] * 100 + event['activity_id'], line
    assert event['category_uid'] == event['class_uid'] // 1000, line
    assert event['activity_id'] != 99 or event['activity_name'], line
    seen[event['type_uid']] += 1
print(json.dumps(seen))
";

#[test]
fn the_published_schema_of_ocsf_takes_every_line() {
    let dir = Dir::new();
    of_every_kind(&dir);
    for name in ["every", "killed", "hostile"] {
        for host in ["ci-7", "a machine\u{2028} of \u{1b}[2Jours"] {
            let ran = export(&dir, &[name, "--format", "ocsf", "--host", host], b"");
            assert_eq!(ran.code, Some(0), "{ran:?}");
            let out = dir.put("out", &ran.stdout);
            let Some(told) = python::run(OCSF, &[out.to_str().expect("a plain name")]) else { return };
            let seen: std::collections::BTreeMap<String, u64> = serde_json::from_str(&told).expect("JSON");
            assert_eq!(seen.values().sum::<u64>(), ran.stdout.lines().count() as u64);
            if name == "every" {
                let types: Vec<&str> = seen.keys().map(String::as_str).collect();
                let files = ["100101", "100102", "100103", "100104", "100105", "100106", "100199"];
                let others = ["100701", "100702", "200401", "400101", "400106", "400107", "400199"];
                assert_eq!(types, [&files[..], &others].concat());
            }
        }
    }
    let ran = export(&dir, &["every", "--format", "ocsf"], b"");
    assert_eq!((ran.code, ran.stdout.is_empty()), (Some(2), true));
    assert!(ran.stderr.contains("--host"), "{ran:?}");
}

/// What is too long to stand on every line stands on that of the run.
#[test]
fn a_long_command_is_not_repeated_on_every_line() {
    let dir = Dir::new();
    let mut long = evidence(harmless(), Vec::new());
    long.identity.command = vec!["x".repeat(500_000)];
    long.observed.host.insert("kernel".into(), "k".repeat(500_000));
    dir.put("b", bundle(&long));
    for format in ["jsonl", "otlp-json", "ocsf"] {
        let ran = export(&dir, &["b", "--format", format, "--host", "h"], b"");
        let lengths: Vec<usize> = ran.stdout.lines().map(str::len).collect();
        assert!(
            lengths[0] > 500_000 && lengths[1..].iter().all(|length| *length < 4000),
            "{format}: {lengths:?}"
        );
    }
    let told = export(&dir, &["b", "--format", "otlp-json"], b"").stdout;
    assert!(told.lines().all(|line| line.contains("assay.left_out")), "what is left out is named");
}

/// The members that the description of the format demands, and bars that are closed in order.
fn check_time_line(text: &str) -> Vec<Value> {
    let whole: Value = serde_json::from_str(text).expect("JSON");
    let events = whole["traceEvents"].as_array().expect("events").clone();
    let mut open: std::collections::BTreeMap<(u64, u64), Vec<f64>> = std::collections::BTreeMap::new();
    for event in &events {
        let place = ["pid", "tid"].map(|key| event[key].as_u64().unwrap_or_else(|| panic!("{key}: {event}")));
        assert!(event["name"].is_string() && event["args"].is_object(), "{event}");
        let at = event["ts"].as_f64();
        let bars = open.entry((place[0], place[1])).or_default();
        match event["ph"].as_str().expect("what it is") {
            "M" => {
                assert!(matches!(event["name"].as_str(), Some("process_name" | "thread_name")), "{event}");
                assert!(event["args"]["name"].is_string(), "{event}");
                continue;
            }
            "X" => assert!(event["dur"].as_f64().is_some_and(|length| length >= 0.0), "{event}"),
            "i" => assert!(matches!(event["s"].as_str(), Some("g" | "p" | "t")), "{event}"),
            "B" => bars.push(at.expect("a moment")),
            "E" => {
                let begun = bars.pop().unwrap_or_else(|| panic!("nothing to end: {event}"));
                assert!(at.is_some_and(|at| at >= begun), "{event}");
            }
            other => panic!("{other}: {event}"),
        }
        assert!(at.is_some_and(|at| at >= 0.0), "{event}");
    }
    assert!(open.values().all(Vec::is_empty), "a bar that nothing ends");
    events
}

#[test]
fn runs_are_bars_of_a_time_line() {
    let dir = Dir::new();
    of_every_kind(&dir);
    let ran = export(&dir, &["every", "hostile", "--format", "perfetto"], b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let events = check_time_line(&ran.stdout);
    let bars: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(bars.len(), 2);
    // 2026-01-02T03:04:05Z in microseconds, and 1234 ms.
    assert_eq!((bars[0]["ts"].as_f64(), bars[0]["dur"].as_f64()), (Some(1_767_323_045e6), Some(1_234_000.0)));
    let shown = assay(&dir, &["evidence", "show", "every", "--format", "json"], b"").stdout;
    let count = |kind: &str| shown.matches(&format!("\"type\":\"{kind}\"")).count();
    assert_eq!(bars[0]["args"]["effects_fs"], count("assay.fs.access"));
    assert_eq!(bars[0]["args"]["effects_net"], count("assay.net.connect"));
    assert_eq!(bars[0]["args"]["effects_denied"], shown.matches("\"result\":\"denied\"").count());
}

const TRACE: &str = r#"{"comm":"sh","op":"exec","path":"/usr/bin/dash","pid":7,"ppid":1,"result":"ok","seq":0,"t_ns":0,"tid":7}
{"comm":"sh","op":"open","path":"/etc/x\"},{\u202e##[x]","pid":7,"ppid":1,"result":"ENOENT","seq":1,"t_ns":1500,"tid":7}
{"comm":"cat","op":"exec","path":"/usr/bin/cat","pid":8,"ppid":7,"result":"ok","seq":3,"t_ns":2000,"tid":8}
{"comm":"sh","op":"exec","path":"/usr/bin/true","pid":7,"ppid":1,"result":"ok","seq":4,"t_ns":2500,"tid":7}
{"address":"10.0.0.1","comm":"cat","op":"connect","pid":8,"port":443,"ppid":7,"proto":"tcp","result":"ok","seq":5,"t_ns":9007199,"tid":9}
"#;

#[test]
fn a_trace_is_a_time_line_with_every_act_at_its_moment() {
    let dir = Dir::new();
    let whole = format!("{TRACE}{{\"end\":true,\"events\":5,\"lost\":0}}\n");
    dir.put("t", &whole);
    let ran = export(&dir, &["--trace", "t", "--format", "perfetto"], b"");
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    assert_eq!(ran.stdout, export(&dir, &["--trace", "-", "--format", "perfetto"], whole.as_bytes()).stdout);
    let events = check_time_line(&ran.stdout);
    let told: Vec<String> = events
        .iter()
        .map(|event| {
            let part = |key: &str| event[key].to_string().trim_matches('"').to_owned();
            [
                part("ph"),
                part("pid"),
                part("tid"),
                part("ts"),
                event["name"].as_str().unwrap_or("").to_owned(),
            ]
            .join(" ")
        })
        .collect();
    assert_eq!(
        told,
        [
            "M 7 7 null process_name",
            "B 7 7 0.0 /usr/bin/dash",
            "i 7 7 1.5 open /etc/x\"},{\u{202e}##[x]: ENOENT",
            "M 8 8 null process_name",
            "B 8 8 2.0 /usr/bin/cat",
            "E 7 7 1.5 ",
            "M 7 7 null process_name",
            "B 7 7 2.5 /usr/bin/true",
            "i 8 9 9007.199 connect 10.0.0.1",
            "E 7 7 2.5 ",
            "E 8 8 9007.199 ",
        ]
    );
    assert!(!ran.stdout.contains(['\u{202e}', '\u{1b}']) && !ran.stdout.contains("##"));
}

#[test]
fn a_trace_that_is_not_whole_says_so_and_what_is_none_is_refused() {
    let dir = Dir::new();
    for (end, why) in [
        ("", "it was cut off"),
        ("{\"op\":\"open\",\"pi", "it was cut off"),
        ("{\"end\":true,\"events\":5,\"lost\":3}\n", "3 records were lost"),
        ("{\"end\":true,\"events\":6,\"lost\":0}\n", "it has 5 lines of acts and says 6"),
        ("{\"end\":false,\"reason\":\"observer killed\"}\n", "observer killed"),
    ] {
        let ran = export(&dir, &["--trace", "-", "--format", "perfetto"], format!("{TRACE}{end}").as_bytes());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(ran.stderr, format!("warning: stdin: this trace is not whole: {why}\n"));
        let events = check_time_line(&ran.stdout);
        let mark =
            events.iter().filter(|event| event["s"] == "g").map(|event| &event["name"]).collect::<Vec<_>>();
        assert_eq!(mark, [&Value::from(format!("this trace is not whole: {why}"))]);
    }
    for (text, told) in [
        ("not JSON\n", "line 1"),
        ("{\"op\":\"open\"}\n", "line 1: t_ns"),
        ("[]\n", "line 1: not an object"),
        ("{\"end\":true,\"events\":0,\"lost\":0}\n{}\n", "line 2: something follows"),
    ] {
        let ran = export(&dir, &["--trace", "-", "--format", "perfetto", "-o", "out"], text.as_bytes());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.starts_with(&format!("error: export stdin: {told}")), "{ran:?}");
        assert!(!dir.path().join("out").exists());
    }
    for args in [&["--trace", "missing", "--format", "perfetto"][..], &["--trace", "-", "--format", "jsonl"]]
    {
        let ran = export(&dir, args, b"");
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
}
