//! What the commands print with `--format json` follows its schema in docs/formats/schema, and old files stay readable.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::sample::{harmless, of};
use crate::schema;

fn assay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_assay")).args(args).output().expect("assay runs")
}

/// The printed JSON of a command that ends with this, which must be of this schema.
fn check(name: &str, args: &[&str], code: i32) -> Value {
    let output = assay(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/formats/schema/{name}.v1.schema.json"));
    let schema: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("a schema")).expect("JSON");
    assert_eq!(schema::complaints(&schema, &value), [""; 0], "{args:?}: {value}");
    value
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path: PathBuf = self.0.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path.to_str().expect("a plain name").to_owned()
    }
}

#[test]
fn what_commands_print_follows_its_schema() {
    let files = Files::new();
    let a = files.write("a.tar.gz", of(harmless()));
    let b = files.write("b.tar.gz", of(Vec::new()));
    let policy = files.write("p.yaml", "api_version: assay/v1\nfs:\n  allow: [/usr, {path: /srv, access: [read]}]\n  deny: [/srv/x]\nnet:\n  allow: ['127.0.0.1:*']\n");
    let broken = files.write("broken.yaml", "api_version: assay/v1\nfs:\n  alow: [/usr]\n");
    check("lint-output", &["evidence", "lint", "--fail-on", "none", "--format", "json", &a], 0);
    assert_eq!(check("diff-output", &["evidence", "diff", "--format", "json", &a, &a], 0)["same"], true);
    assert_eq!(check("diff-output", &["evidence", "diff", "--format", "json", &a, &b], 1)["same"], false);
    let output = assay(&["evidence", "gate", "--policy", &policy, "--format", "json", &a]);
    let code = output.status.code().expect("a code");
    check("gate-output", &["evidence", "gate", "--policy", &policy, "--format", "json", &a], code);
    check("policy-check-output", &["policy", "check", "--format", "json", &policy], 0);
    check("policy-check-output", &["policy", "check", "--format", "json", "--path", "/srv/x", &policy], 0);
    check(
        "policy-check-output",
        &["policy", "check", "--format", "json", "--connect", "127.0.0.1:80", &policy],
        0,
    );
    check("policy-check-output", &["policy", "check", "--format", "json", &broken], 2);
    let output = assay(&["doctor", "--format", "json"]);
    check("doctor-output", &["doctor", "--format", "json"], output.status.code().expect("a code"));
}

const PROFILE: &str =
    "api_version: assay/v1\nfs:\n  allow:\n    - {path: /a, access: [read]}\nexec:\n  allow:\n    - /bin/a\n";

#[test]
fn profiles_of_both_forms_merge_and_differ() {
    let files = Files::new();
    let yaml = files.write("a.yaml", PROFILE);
    let json = files.write(
        "b.json",
        r#"{"api_version":"assay/v1","fs":{"allow":[{"path":"/b","access":["write"]}]},"exec":{"allow":["/bin/a"]}}"#,
    );
    let merged = check("profile-merge-output", &["profile", "merge", "--format", "json", &yaml, &json], 0);
    assert_eq!(merged["runs"], 2);
    let seen: Vec<(&str, &str)> = merged["rules"]
        .as_array()
        .expect("rules")
        .iter()
        .map(|rule| (rule["rule"].as_str().expect("a rule"), rule["seen_in"].as_str().expect("a count")))
        .collect();
    assert_eq!(seen, [("/a", "1/2"), ("/b", "1/2"), ("/bin/a", "2/2")]);
    let both = check(
        "profile-merge-output",
        &["profile", "merge", "--min-runs", "2", "--format", "json", &yaml, &json],
        0,
    );
    assert_eq!(both["rules"].as_array().map(Vec::len), Some(1));
    let changes = check("profile-diff-output", &["profile", "diff", "--format", "json", &yaml, &json], 1);
    assert_eq!(changes.as_array().map(Vec::len), Some(2));
    check("profile-diff-output", &["profile", "diff", "--format", "json", &yaml, &yaml], 0);
    // The result is a policy, whatever the order.
    let one = assay(&["profile", "merge", &yaml, &json]);
    let other = assay(&["profile", "merge", &json, &yaml]);
    assert_eq!(one.stdout, other.stdout);
    let written = files.write("merged.yaml", &one.stdout);
    assert_eq!(assay(&["policy", "check", &written]).status.code(), Some(0));
    // What it writes in either form it reads again, as one run.
    let with_counts =
        files.write("merged.json", assay(&["profile", "merge", "--format", "json", &yaml, &json]).stdout);
    check("profile-diff-output", &["profile", "diff", "--format", "json", &written, &with_counts], 0);
    assert_eq!(
        assay(&["profile", "merge", &with_counts, &json]).stdout,
        assay(&["profile", "merge", &written, &json]).stdout
    );
    let altered = files.write(
        "altered.json",
        r#"{"runs":1,"policy":{"api_version":"assay/v1"},"rules":[],"left_out":[],"x":1}"#,
    );
    assert_eq!(assay(&["profile", "merge", &altered]).status.code(), Some(2));
}

#[test]
fn notes_are_for_people() {
    let files = Files::new();
    let plain = files.write("plain.yaml", PROFILE);
    let noted = files.write("noted.yaml", format!("{PROFILE}notes: [nothing was observed]\n"));
    check("profile-diff-output", &["profile", "diff", "--format", "json", &plain, &noted], 0);
    assert_eq!(assay(&["policy", "check", &noted]).status.code(), Some(0));
    for wrong in ["1", "[1]", "{a: b}"] {
        let wrong = files.write("wrong.yaml", format!("{PROFILE}notes: {wrong}\n"));
        assert_eq!(assay(&["policy", "check", &wrong]).status.code(), Some(2));
        assert_eq!(assay(&["profile", "merge", &wrong]).status.code(), Some(2));
    }
}

#[test]
fn hostile_profiles_are_refused_with_two_and_a_reason() {
    let files = Files::new();
    let good = files.write("good.yaml", PROFILE);
    let deep = format!("api_version: assay/v1\nfs: {}{}\n", "[".repeat(2_000), "]".repeat(2_000));
    let cases: [(&str, Vec<u8>); 21] = [
        ("empty", Vec::new()),
        ("binary", vec![0xff, 0xfe, 0, 1]),
        ("list", b"[1, 2]".to_vec()),
        ("deep", deep.into_bytes()),
        ("twice", b"api_version: assay/v1\napi_version: assay/v1\n".to_vec()),
        ("twice.json", br#"{"api_version":"assay/v1","api_version":"assay/v1"}"#.to_vec()),
        ("anchors", b"api_version: &a assay/v1\nfs: {allow: [*a]}\n".to_vec()),
        ("newer", b"api_version: assay/v2\n".to_vec()),
        ("newer evidence", br#"{"schema":"assay.evidence-profile/v2"}"#.to_vec()),
        ("bad access", b"api_version: assay/v1\nfs: {allow: [{path: /a, access: [fly]}]}\n".to_vec()),
        ("cut.json", br#"{"api_version":"assay/v1","fs":{"all"#.to_vec()),
        ("a word for a list", b"api_version: assay/v1\nfs: {allow: /usr}\n".to_vec()),
        ("nothing for a list", b"api_version: assay/v1\nnet: {allow: }\n".to_vec()),
        ("no list", b"api_version: assay/v1\nexec: {}\n".to_vec()),
        (
            "a key too many",
            b"api_version: assay/v1\nfs: {allow: [{path: /a, access: [read], acess: [write]}]}\n".to_vec(),
        ),
        ("no access", b"api_version: assay/v1\nfs: {allow: [{path: /a}]}\n".to_vec()),
        ("an empty access", b"api_version: assay/v1\nfs: {allow: [{path: /a, access: []}]}\n".to_vec()),
        ("a number for a rule", b"api_version: assay/v1\nnet: {allow: [1]}\n".to_vec()),
        ("a policy", b"api_version: assay/v1\nbase: none\n".to_vec()),
        ("a bundle", of(harmless())),
        (
            "half an evidence profile",
            br#"{"schema":"assay.evidence-profile/v1","run_id":"sandbox_0123456789abcdef"}"#.to_vec(),
        ),
    ];
    for (name, bytes) in cases {
        let bad = files.write(name, bytes);
        for args in [
            ["profile", "merge", &good, &bad],
            ["profile", "diff", &good, &bad],
            ["profile", "diff", &bad, &good],
        ] {
            let output = assay(&args);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
            assert!(output.stdout.is_empty() && stderr.contains(name), "{name}: {stderr}");
        }
        if name.starts_with("newer") {
            let stderr = assay(&["profile", "merge", &bad]).stderr;
            let stderr = String::from_utf8_lossy(&stderr);
            assert!(stderr.contains("v1"), "it says which version is known: {stderr}");
        }
    }
    assert_eq!(assay(&["profile", "merge", "--min-runs", "3", &good, &good]).status.code(), Some(2));
    assert_eq!(assay(&["profile", "merge", "/nonexistent"]).status.code(), Some(2));
}

/// As of a policy, since a profile is one: file, line, column, what to write, and every fault at once.
#[test]
fn a_bad_profile_is_told_with_its_place_and_what_to_write() {
    let files = Files::new();
    let head = "api_version: assay/v1\nfs:\n  allow:\n";
    for (text, wanted) in [
        ("", vec![":1:1: the file is empty; begin with `api_version: assay/v1`"]),
        ("{}", vec![":1:1: no policy: none of its keys is a policy's; begin with"]),
        (
            &*format!("{head}    - {{path: /a, access: [raed]}}\n    - \"\"\n"),
            vec![
                ":4:27: unknown access `raed`; did you mean `read`?",
                ":5:7: expected a path, found an empty string;",
            ],
        ),
        (&format!("{head}   - /a\n  - /b\n"), vec![":5:5: not YAML: "]),
        ("\u{1f}not\u{2028}text", vec![":1:1: "]),
        (
            r#"{"runs": -1, "policy": {"api_version": "assay/v1"}, "rules": [], "left_out": []}"#,
            vec![": read what `merge --format json` wrote: runs: "],
        ),
    ] {
        let bad = files.write("bad.yaml", text);
        let output = assay(&["profile", "merge", &bad]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        for (line, wanted) in stderr.lines().zip(&wanted) {
            assert!(line.contains(&format!("bad.yaml{wanted}")), "{wanted}: {stderr}");
        }
        assert_eq!(stderr.lines().count(), wanted.len(), "{stderr}");
    }
    let bundle = assay(&["profile", "merge", &files.write("run.tar.gz", of(harmless()))]);
    assert!(String::from_utf8_lossy(&bundle.stderr).contains("`assay evidence diff`"), "{bundle:?}");
}

/// Names of every kind, denies beside their allows, many rules: what is written is read as a policy and as a profile.
#[test]
fn what_merge_writes_is_a_policy() {
    let files = Files::new();
    let names = [
        "/a b: {#",
        "/a\\x0ab",
        "/- x",
        "/\u{e9}\u{1f600}",
        "/'\"",
        "/~",
        "/x # y",
        "/null",
        "${HOME}/*",
        "/a/*/b",
    ];
    let mut text = "api_version: assay/v1\nfs:\n  allow:\n".to_owned();
    let odd = names.iter().map(|name| format!("    - {{path: {name:?}, access: [write]}}\n"));
    text.extend(odd.chain((0..3_000).map(|number| format!("    - /srv/{number}\n"))));
    text += "  deny:\n    - /srv/1\n    - {path: /srv/2, access: [read]}\n    - {path: /srv/2, access: [write]}\n";
    let (first, second) =
        (files.write("first.yaml", &text), files.write("second.yaml", "api_version: assay/v1\n"));
    for format in ["yaml", "json"] {
        let merged = assay(&["profile", "merge", "--format", format, &first, &second]);
        assert_eq!(merged.status.code(), Some(0), "{merged:?}");
        let written = files.write(&format!("merged.{format}"), &merged.stdout);
        let difference = assay(&["profile", "diff", &first, &written]);
        assert_eq!(difference.status.code(), Some(0), "{difference:?}");
        if format == "yaml" {
            let checked = assay(&["policy", "check", &written]);
            assert_eq!(checked.status.code(), Some(0), "{checked:?}");
        }
    }
}

/// What a profile allows is what the evidence beside it makes of it: files of both kinds can be mixed, an empty profile
/// says nothing, and the order is no matter.
#[test]
fn profiles_and_evidence_can_be_mixed() {
    let files = Files::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/versions");
    let path = |name: &str| folder.join(name).to_str().expect("a plain name").to_owned();
    let (yaml, json) = (path("v1.evidence.yaml"), path("v1.evidence.json"));
    let made = assay(&["profile", "merge", &yaml]);
    let profile = files.write("made.yaml", &made.stdout);
    let empty = files.write("empty.yaml", "api_version: assay/v1\n");
    let counts = |args: &[&str]| -> Vec<String> {
        let args = [&["profile", "merge", "--format", "json"], args].concat();
        let merged = check("profile-merge-output", &args, 0);
        let rules = merged["rules"].as_array().expect("rules");
        rules.iter().map(|rule| rule["seen_in"].as_str().expect("a share").to_owned()).collect()
    };
    let three = counts(&[&yaml, &json, &profile]);
    assert!(!three.is_empty() && three.iter().all(|share| share == "3/3"), "{three:?}");
    let with_empty = counts(&[&empty, &yaml]);
    assert_eq!(with_empty.len(), three.len());
    assert!(with_empty.iter().all(|share| share == "1/2"), "{with_empty:?}");
    assert_eq!(counts(&[&empty, &empty]), [""; 0]);
    assert_eq!(
        assay(&["profile", "merge", &empty, &yaml]).stdout,
        assay(&["profile", "merge", &yaml, &empty]).stdout
    );
    for (a, b) in [(&yaml, &json), (&yaml, &profile), (&profile, &json), (&empty, &empty)] {
        assert_eq!(
            check("profile-diff-output", &["profile", "diff", "--format", "json", a, b], 0),
            Value::Array(vec![])
        );
    }
    let changes = check("profile-diff-output", &["profile", "diff", "--format", "json", &empty, &json], 1);
    assert!(changes.as_array().is_some_and(|changes| changes.len() >= three.len()), "{changes}");
}

/// What stands in a profile that a stranger wrote reaches no terminal as it is.
#[test]
fn a_hostile_profile_cannot_move_the_cursor() {
    const HOSTILE: &str = r"/x\u001b[2J\u009b31m\r\n# h\u0007\u202e\u2028\u0000";
    let files = Files::new();
    let good = files.write("good.yaml", PROFILE);
    let bad = files.write(
        "bad.json",
        format!(
            r#"{{"api_version":"assay/v1","exec":{{"allow":["{HOSTILE}"]}},"net":{{"allow":["{HOSTILE}"]}},"fs":{{"allow":[{{"path":"{HOSTILE}","access":["read"]}}],"deny":["{HOSTILE}"]}}}}"#
        ),
    );
    // Without what no path can have, so that it is a policy.
    let path = HOSTILE.replace('[', "").replace(r"\u0000", "");
    let valid = files.write(
        "valid.json",
        format!(
            r#"{{"api_version":"assay/v1","exec":{{"deny":["{path}"]}},"fs":{{"allow":["{path}"],"deny":["{path}/x"]}}}}"#
        ),
    );
    let key = files.write("key.json", format!(r#"{{"api_version":"assay/v1","{HOSTILE}":1}}"#));
    let value = files.write("value.json", format!(r#"{{"api_version":"{HOSTILE}"}}"#));
    for args in [
        &["profile", "diff", &good, &bad][..],
        &["profile", "diff", &bad, &good],
        &["profile", "diff", "--format", "json", &good, &bad],
        &["profile", "merge", &good, &bad],
        &["profile", "merge", "--format", "json", &good, &bad],
        &["profile", "merge", &key],
        &["profile", "merge", &value],
        &["policy", "check", &bad],
        &["policy", "check", "--format", "json", &bad],
        &["policy", "check", &valid],
        &["policy", "check", "--format", "json", &valid],
        &["policy", "check", "--path", "/x", &valid],
        &["policy", "check", "--path", "/x", "--format", "json", &valid],
        &["policy", "check", &key],
        &["policy", "check", &value],
    ] {
        let output = assay(args);
        assert!(!args.contains(&valid.as_str()) || output.status.success(), "{output:?}");
        for text in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(text);
            let hostile = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{2028}');
            assert_eq!(text.chars().find(|c| hostile(*c)), None, "{args:?}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("# h")), "{args:?}: {text}");
        }
    }
}

/// A format, what reads a file of a version of it, the versions that are read, some that are not, and what is said then.
type Reader<'a> = (&'a str, &'a dyn Fn(&str) -> Output, &'a [&'a str], &'a [&'a str], &'a str);

/// What each reader makes of each version of its format: those there were are read, every other is refused by its name,
/// and what is refused says which are known.
#[test]
fn the_versions_there_were_are_read_and_no_other() {
    let files = Files::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let fixture = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a fixture");
    let evidence = fixture("versions/v1.evidence.yaml");
    let policy = fixture("versions/v1.policy.yaml");
    let profile = fixture("versions/v1.profile.yaml");
    let (manifest, events) =
        (fixture("bundles/independent.manifest.json"), fixture("bundles/independent.events.ndjson"));
    let with = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    let schema = |version: &str| {
        let text = with(&evidence, "assay.evidence-profile/v1", &format!("assay.evidence-profile/{version}"));
        assay(&["profile", "merge", &files.write("e", text)])
    };
    let canonicalizer = |version: &str| {
        let text = with(&evidence, "assay-canon/1", &format!("assay-canon/{version}"));
        assay(&["profile", "merge", &files.write("e", text)])
    };
    let language = |version: &str| {
        let text = with(&policy, "assay/v1", &format!("assay/{version}"));
        assay(&["policy", "check", &files.write("p", text)])
    };
    let learnt = |version: &str| {
        let text = with(&profile, "assay/v1", &format!("assay/{version}"));
        assay(&["profile", "merge", &files.write("p", text)])
    };
    let archive = |version: &str| {
        let manifest = with(&manifest, "\"schema_version\":1", &format!("\"schema_version\":{version}"));
        let bundle = crate::damaged::pack(manifest.as_bytes(), events.as_bytes());
        assay(&["evidence", "verify", &files.write("b", bundle)])
    };
    let readers: [Reader<'_>; 5] = [
        ("evidence profile", &schema, &["v1"], &["v0", "v2", "v1.1", "v10", ""], "assay.evidence-profile/v1"),
        ("canonicalizer", &canonicalizer, &["1"], &["0", "2", "1.1"], "assay-canon/1"),
        ("policy", &language, &["v1"], &["v0", "v2", "v1beta1", "V1"], "assay/v1"),
        ("profile", &learnt, &["v1"], &["v0", "v2", "v1beta1"], "assay/v1"),
        ("bundle", &archive, &["1"], &["0", "2", "65537", "18"], "integrity/version"),
    ];
    for (format, run, known, unknown, told) in readers {
        for version in known {
            let output = run(version);
            assert_eq!(output.status.code(), Some(0), "{format} {version}: {output:?}");
        }
        for version in unknown {
            let output = run(version);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{format} {version}: {stderr}");
            assert!(stderr.contains(told), "{format} {version}: {stderr}");
        }
    }
}

/// Files as each earlier version wrote them are read by this one.
#[test]
fn old_files_stay_readable() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/versions");
    let trace_line = include_str!("../../docs/formats/schema/trace-line.v1.schema.json");
    let trace_line: Value = serde_json::from_str(trace_line).expect("a schema");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the fixtures").flatten() {
        let path = entry.path();
        let path = path.to_str().expect("a plain name");
        let ending = |ending: &str| path.ends_with(ending);
        let code = if ending(".evidence.yaml") || ending(".evidence.json") || ending(".profile.yaml") {
            assay(&["profile", "merge", path]).status.code()
        } else if ending(".policy.yaml") {
            assay(&["policy", "check", path]).status.code()
        } else if ending(".tar.gz") {
            assay(&["evidence", "verify", path]).status.code()
        } else if let Some(version) = path.strip_suffix(".attestation.json") {
            let [bundle, key] = [".tar.gz", ".attestation.pub"].map(|ending| format!("{version}{ending}"));
            assay(&["evidence", "verify", &bundle, "--attestation", path, "--key", &key]).status.code()
        } else if ending(".attestation.pub") {
            // Read with its attestation.
            continue;
        } else if ending(".records") {
            crate::replay::check_version(std::path::Path::new(path));
            Some(0)
        } else if ending(".trace") {
            // Nothing of ours reads a trace; whoever does goes by the schema.
            let lines = std::fs::read_to_string(path).expect("a trace");
            let mut lines = lines.lines().map(|line| serde_json::from_str(line).expect("JSON"));
            let is_wrong = lines.any(|line: Value| !schema::complaints(&trace_line, &line).is_empty());
            Some(i32::from(is_wrong))
        } else {
            panic!("{path}: what is it?")
        };
        assert_eq!(code, Some(0), "{path}");
        count += 1;
    }
    assert!(count >= 9, "{count} fixtures");
}
