//! The schemas in docs/formats/schema are what the program writes; and they, the readers and the shapes that both are
//! made of say the same of good values and of thousands of bad ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use assay::canon::{read, shape::Shape};
use assay::cli::schemas::{FORMATS, Format};
use assay::evidence::lint::settings;
use assay::evidence::{Degradation, Endpoint, Fold, Outcome, ProcessFacts, identity, shapes, wire};
use assay::policy::{Context, parse, yaml};
use assay::profile::effect::{EffectResult, FsEffect, FsOp, HostFrom, NetEffect, NetEffectOp};
use assay::profile::name::Name;
use serde_json::{Value, json};

use crate::sample::{evidence, exec, harmless, of};
use crate::schema::complaints;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/formats/schema")
}

#[test]
fn the_schemas_are_what_the_program_writes() {
    let mut there: BTreeSet<String> = std::fs::read_dir(directory())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .collect();
    for format in &FORMATS {
        let text = std::fs::read_to_string(directory().join(format.file())).unwrap_or_default();
        assert!(text == format.schema(), "{} is not current: run `cargo xtask schema`", format.file());
        there.remove(&format.file());
    }
    assert!(there.is_empty(), "of no format: {there:?}");
}

/// A change of a value that most formats cannot bear, and what was put where.
struct Mutation {
    value: Value,
    told: String,
    /// A string became another string: whether that can be is not for its shape to say.
    is_text_for_text: bool,
}

/// Every node replaced by one of each type, every key removed, a key added to every object, an element doubled in every
/// list.
fn mutations(value: &Value) -> Vec<Mutation> {
    let mut pointers = Vec::new();
    collect(value, String::new(), &mut pointers);
    let others = [
        json!(null),
        json!(true),
        json!(-1),
        json!(7),
        json!(70_000),
        json!(""),
        json!("x"),
        json!("99999999999999999999"),
        json!([]),
        json!({}),
    ];
    let mut mutations = Vec::new();
    let mut add = |value: Value, told: String, is_text_for_text| {
        mutations.push(Mutation { value, told, is_text_for_text });
    };
    for pointer in pointers {
        let old = value.pointer(&pointer).expect("it is there");
        for other in &others {
            let mut changed = value.clone();
            *changed.pointer_mut(&pointer).expect("it is there") = other.clone();
            add(changed, format!("{pointer} := {other}"), old.is_string() && other.is_string());
        }
        if let Some(object) = old.as_object() {
            for key in object.keys() {
                let mut changed = value.clone();
                changed.pointer_mut(&pointer).and_then(Value::as_object_mut).expect("an object").remove(key);
                add(changed, format!("{pointer} without {key}"), false);
            }
            let mut changed = value.clone();
            let members = changed.pointer_mut(&pointer).and_then(Value::as_object_mut).expect("an object");
            members.insert("zz".into(), json!(1));
            add(changed, format!("{pointer} with zz"), false);
        }
        if let Some(first) = old.as_array().and_then(|list| list.first()) {
            let mut changed = value.clone();
            let list = changed.pointer_mut(&pointer).and_then(Value::as_array_mut).expect("an array");
            list.push(first.clone());
            add(changed, format!("{pointer} with its first twice"), false);
        }
    }
    mutations
}

fn collect(value: &Value, at: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, member) in object {
                collect(member, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), pointers);
            }
        }
        // A few of a long list are as good as all.
        Value::Array(list) => {
            for (place, element) in list.iter().enumerate().take(4) {
                collect(element, format!("{at}/{place}"), pointers);
            }
        }
        _ => {}
    }
    pointers.push(at);
}

fn format(name: &str) -> &'static Format {
    FORMATS.iter().find(|format| format.name == name).expect("a format of this name")
}

fn schema_of(format: &Format) -> Value {
    serde_json::from_str(&format.schema()).expect("JSON")
}

fn fits(shape: &Shape, value: &Value) -> bool {
    let value = read::parse(value.to_string().as_bytes()).expect("strict JSON");
    shape.check(&value).is_ok()
}

/// What a command prints, as JSON.
fn printed(args: &[&str]) -> Value {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_assay")).args(args).output().expect("assay");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {output:?}"))
}

/// An evidence profile in which everything occurs that can.
fn full_evidence() -> Value {
    let degradation = Degradation {
        component: assay::evidence::Component::Fs,
        reason: "deny-inside-allow".into(),
        detail: Some("/a".into()),
    };
    let mut effects = harmless();
    effects.push(exec("/usr/bin/denied"));
    effects.push(assay::profile::effect::Effect::Fs(FsEffect {
        op: FsOp::Rename,
        path: Name::from_canonical("/a"),
        to: Some(Name::from_canonical("/b")),
        result: EffectResult::Denied,
    }));
    effects.push(assay::profile::effect::Effect::net(NetEffect {
        op: NetEffectOp::Connect,
        proto: "tcp".into(),
        host: Some("example.com".into()),
        host_from: Some(HostFrom::Dns),
        address: None,
        port: Some(assay::profile::effect::Port::Ephemeral),
        result: EffectResult::Ok,
    }));
    effects.sort();
    let mut evidence = evidence(effects, vec![degradation]);
    evidence.identity.outcome = Outcome::Signal("SIGKILL".into());
    let observed = &mut evidence.observed;
    observed.folded =
        vec![Fold { rule: "pid".into(), from: "/x.7".into(), to: Name::from_canonical("/x.${PID}") }];
    observed.programs.insert("/gone".into(), Err("it is no longer there".into()));
    observed.processes = vec![ProcessFacts {
        pid: 7,
        ppid: 1,
        programs: vec![vec!["a".into()]],
        status: Some(9),
        began_us: Some(1),
        ended_us: Some(2),
    }];
    observed.endpoints = vec![
        Endpoint {
            proto: "tcp".into(),
            host: Some("api.test".into()),
            host_from: Some(HostFrom::Dns),
            addresses: ["10.0.0.1", "fd00::1"].map(|address| address.parse().expect("an address")).into(),
            port: 443,
            connections: Some(3),
            failed: 1,
            blocked: 2,
            bytes: Some((100, 200)),
            ..Endpoint::default()
        },
        Endpoint { proto: "tcp".into(), port: 80, is_served: true, ..Endpoint::default() },
    ];
    observed.policy_digest = Some(assay::canon::digest::Digest::of(b"policy"));
    observed.counters.insert("observations".into(), u64::MAX);
    for facts in observed.effects.values_mut() {
        facts.denied_by = Some("policy");
        facts.refused.iter_mut().for_each(|refused| refused.at = Some("p:1:1".into()));
    }
    evidence.coverage.ledger.lost.insert("open".into(), 3);
    evidence.coverage.ledger.admit(assay::observe::loss::Kind::Net, "io-uring", "2 times");
    serde_json::from_str(&wire::write(&evidence, wire::Format::Json)).expect("JSON")
}

/// Good values of every format.
fn samples(name: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path.to_str().expect("a plain name").to_owned()
    };
    let mut more = harmless();
    more.push(exec("/tmp/x"));
    let (a, b) = (file("a", &of(harmless())), file("b", &of(more)));
    let policy = file("p.yaml", POLICY.to_string().as_bytes());
    let (one, other) = (file("1.json", PROFILE.as_bytes()), file("2.json", OTHER_PROFILE.as_bytes()));
    let broken = file("broken.yaml", b"api_version: assay/v1\nfs: {alow: []}\n");
    let damaged = file("damaged", b"x");
    let json = ["--format", "json"];
    let print = |args: &[&str]| printed(&[args, &json].concat());
    match name {
        "evidence-profile" => vec![full_evidence()],
        "profile" => vec![serde_json::from_str(PROFILE).expect("JSON")],
        "policy" => vec![POLICY.clone()],
        "bundle-manifest" => vec![print(&["evidence", "show", &a])["manifest"].clone()],
        "bundle-event" => print(&["evidence", "show", &b])["events"].as_array().expect("events").clone(),
        "trace-line" => TRACE.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect(),
        "status-file" => vec![
            json!({"child": {"exit_code": 7}, "exit_code": 4, "verdict": "unauthorised", "reasons": ["x"], "artifacts":
                {"profile": {"path": "p", "sha256": "0".repeat(64)}},
                "degradations": [{"component": "fs", "reason": "deny-inside-allow", "detail": "/a"}]}),
            json!({"child": null, "exit_code": 2, "verdict": "refused", "reasons": [], "artifacts": {}, "degradations": []}),
        ],
        "spool-entry" => crate::spool::samples(),
        "spool-begun" => vec![crate::spool::begun()],
        "verify-output" => vec![print(&["evidence", "verify", &a]), print(&["evidence", "verify", &damaged])],
        "lint-output" => vec![print(&["evidence", "lint", &b])],
        "diff-output" => vec![print(&["evidence", "diff", &a, &b])],
        "show-output" => vec![print(&["evidence", "show", &a])],
        "gate-output" => vec![print(&["evidence", "gate", &b, "--policy", &policy, "--baseline", &a])],
        "runs-list-output" => vec![crate::runs::listing()],
        "runs-show-output" => vec![crate::runs::showing()],
        "runs-verify-output" => crate::runs::verifying(),
        "profile-merge-output" => vec![print(&["profile", "merge", "--min-runs", "2", &one, &other])],
        "profile-diff-output" => vec![print(&["profile", "diff", &one, &other])],
        "policy-check-output" => vec![
            print(&["policy", "check", &policy]),
            print(&["policy", "check", &policy, "--path", "/srv/x", "--connect", "127.0.0.1:1"]),
            print(&["policy", "check", &broken]),
        ],
        "doctor-output" => vec![print(&["doctor"])],
        other => panic!("{other}: a format without a sample"),
    }
}

const PROFILE: &str = r#"{"api_version":"assay/v1","exec":{"allow":["/bin/a"]},
    "fs":{"allow":["/usr",{"access":["read","write"],"path":"/w"}],"deny":["/w/k",{"access":["write"],"path":"/w/h"}]},
    "net":{"allow":["127.0.0.1:*"]}}"#;
const OTHER_PROFILE: &str = r#"{"api_version":"assay/v1","fs":{"allow":[{"access":["read"],"path":"/w"}]}}"#;

static POLICY: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| {
    json!({
        "api_version": "assay/v1",
        "base": "none",
        "fs": {"allow": ["/usr", {"path": "/srv", "access": ["read", "list"]}], "deny": [{"path": "/srv/x"}, "/srv/y"]},
        "net": {"allow": ["127.0.0.1:*"], "deny": ["169.254.169.254"]},
        "exec": {"allow": ["/usr/bin"], "deny": ["/usr/bin/sudo"]},
        "env": {"allow": ["MY_*"]},
        "lint": {"levels": {"exec-from-temp": "info"},
            "ignore": [{"rule": "exec-from-temp", "subject": "/tmp/*", "reason": "known"}]},
    })
});

const TRACE: [&str; 5] = [
    r#"{"seq":0,"t_ns":0,"pid":7,"tid":7,"ppid":1,"comm":"sh","op":"exec","path":"/w/s","requested":"./s","interpreter":"/bin/sh","argv":["./s"],"argv_cut":true,"result":"ok"}"#,
    r#"{"seq":1,"t_ns":1,"pid":7,"tid":7,"ppid":1,"comm":"sh","op":"open","path":"/x","path_state":"lexical","access":["read","write"],"path_only":true,"result":"ENOENT"}"#,
    r#"{"seq":2,"t_ns":2,"pid":7,"tid":7,"ppid":1,"comm":"sh","op":"connect","proto":"tcp","address":"127.0.0.1","port":80,"host":"localhost","ephemeral":true,"result":"ok"}"#,
    r#"{"end":true,"events":3,"lost":0}"#,
    r#"{"end":false,"reason":"observer killed"}"#,
];

/// For every format: the good fits, and of the bad the schema (read by another program's rules) and the shape say the
/// same; each of the kinds of damage that no closed format bears is refused.
#[test]
fn schema_and_shape_say_the_same_of_good_and_bad() {
    for format in &FORMATS {
        let (schema, shape) = (schema_of(format), (format.shape)());
        let mut refused = 0;
        for sample in samples(format.name) {
            assert_eq!(complaints(&schema, &sample), [""; 0], "{}: {sample}", format.name);
            assert!(
                fits(&shape, &sample),
                "{}: {:?}",
                format.name,
                shape.check(&read::parse(sample.to_string().as_bytes()).unwrap())
            );
            for mutation in mutations(&sample) {
                let by_schema = complaints(&schema, &mutation.value);
                let is_refused = !fits(&shape, &mutation.value);
                assert_eq!(
                    !by_schema.is_empty(),
                    is_refused,
                    "{}: {}: {by_schema:?}",
                    format.name,
                    mutation.told
                );
                refused += usize::from(is_refused);
            }
            // What no format bears: a key that is not in it, and something else altogether.
            for bad in [json!("x"), json!(7), json!([7]), json!({"zz": 1})] {
                assert!(!complaints(&schema, &bad).is_empty(), "{}: {bad}", format.name);
            }
            if let Some(object) = sample.as_object() {
                let mut more = object.clone();
                more.insert("zz".into(), json!(1));
                assert!(!complaints(&schema, &more.into()).is_empty(), "{}: a key too many", format.name);
            }
        }
        assert!(refused >= 20, "{}: only {refused} bad examples", format.name);
    }
}

/// The reader of evidence profiles takes nothing that the schema refuses; what it refuses beyond that is what no schema
/// can say: digests that do not fit, completeness that does not follow.
#[test]
fn the_reader_of_evidence_is_as_strict_as_its_schema() {
    let schema = schema_of(format("evidence-profile"));
    let good = full_evidence();
    let read = |value: &Value| wire::read(&value.to_string());
    read(&good).expect("the sample is good");
    let mut agreed = 0;
    for mutation in mutations(&good) {
        let complaints = complaints(&schema, &mutation.value);
        match read(&mutation.value) {
            Ok(_) => assert_eq!(complaints, [""; 0], "{}", mutation.told),
            Err(error) => {
                let error = error.to_string();
                // Beyond what 64 bits hold, no pattern can say.
                let is_meant = [
                    "not the digest",
                    "does not follow",
                    "not a list of addresses",
                    "not a kind",
                    "not a count",
                ];
                let is_meaning = is_meant.iter().any(|meant| error.contains(meant));
                assert!(!complaints.is_empty() || is_meaning, "{}: {error}", mutation.told);
                agreed += usize::from(!complaints.is_empty());
            }
        }
    }
    assert!(agreed > 500, "{agreed}");
}

/// Whether a reader takes an object.
type Read = fn(&assay::canon::value::Object) -> bool;

/// The readers of a bundle's effects have their own code, for speed; it says what the shapes say.
#[test]
fn the_readers_of_effects_say_what_the_shapes_say() {
    let good = full_evidence();
    let lists = &good["identity"]["effects"];
    let kinds: [(&str, Shape, Read); 3] = [
        ("fs", shapes::fs_effect(), |object| identity::fs_effect(object, "").is_ok()),
        ("exec", shapes::exec_effect(), |object| identity::exec_effect(object, "").is_ok()),
        ("net", shapes::net_effect(), |object| identity::net_effect(object, "").is_ok()),
    ];
    let check = |shape: &Shape, read_it: Read, sample: &Value| {
        for mutation in mutations(sample).iter().filter(|mutation| mutation.value.is_object()) {
            let value = read::parse(mutation.value.to_string().as_bytes()).expect("strict JSON");
            let object = value.as_object().expect("an object");
            assert_eq!(read_it(object), shape.check(&value).is_ok(), "{}: {value:?}", mutation.told);
        }
    };
    for (name, shape, read_it) in kinds {
        for effect in lists[name].as_array().expect("a list") {
            check(&shape, read_it, effect);
        }
    }
    let degradation = &good["identity"]["degradations"][0];
    check(&shapes::degradation(), |object| identity::degradation(object, "").is_ok(), degradation);
    for outcome in [json!({"exit_code": 3}), json!({"signal": "SIGHUP"}), json!({"timeout": true})] {
        check(&shapes::outcome(), |object| identity::outcome(object, "").is_ok(), &outcome);
    }
}

/// The reader of policies has its own code, for its messages; it takes what the schema takes, but for texts whose meaning
/// no schema knows.
#[test]
fn the_reader_of_policies_says_what_its_schema_says() {
    let schema = schema_of(format("policy"));
    let problems = |value: &Value| {
        let text = value.to_string();
        let mut problems = Vec::new();
        if let Some(root) = yaml::read("p", text.as_bytes(), &mut problems) {
            parse::parse("p", &root, &Context::symbolic(), &mut problems);
        }
        problems.extend(settings::parse("p", text.as_bytes()).err().unwrap_or_default());
        problems
    };
    assert_eq!(problems(&POLICY), []);
    for mutation in mutations(&POLICY) {
        let (by_schema, by_reader) = (complaints(&schema, &mutation.value), problems(&mutation.value));
        if by_schema.is_empty() != by_reader.is_empty() {
            let is_meaning =
                by_schema.is_empty() && (mutation.is_text_for_text || mutation.told.ends_with("zz"));
            assert!(is_meaning, "{}: {by_schema:?} {by_reader:?}", mutation.told);
        }
    }
}
