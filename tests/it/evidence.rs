//! `assay evidence` from outside: exit codes, stdin, formats, and what a hostile bundle can do to a reader.

use serde_json::Value;

use assay::evidence::{Component, Degradation};
use assay::profile::effect::FsOp;

use crate::sample::{Dir, assay, bundle, connect, evidence, exec, fs, harmless, of};
use crate::schema;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn with(effect: assay::profile::effect::Effect) -> Vec<u8> {
    let mut effects = harmless();
    effects.push(effect);
    of(effects)
}

const POLICY: &str = "api_version: assay/v1\nfs: {allow: [{path: '${WORKDIR}', access: [read, write]}]}\n\
                      net: {allow: ['127.0.0.1:*']}\n";

#[test]
fn every_command_takes_a_file_and_stdin() {
    let dir = Dir::new();
    let good = of(harmless());
    dir.put("b", &good);
    dir.put("p.yaml", POLICY);
    for args in [
        &["verify", "B"][..],
        &["verify", "B", "--format", "json"],
        &["lint", "B"],
        &["lint", "B", "--format", "json", "--fail-on", "info"],
        &["lint", "B", "--format", "sarif"],
        &["diff", "B", "b"],
        &["diff", "b", "B"],
        &["show", "B"],
        &["show", "B", "--format", "json"],
        &["export", "B", "--format", "jsonl"],
        &["export", "B", "--format", "otlp-json"],
        &["export", "B", "--format", "ocsf", "--host", "h"],
        &["export", "B", "--format", "perfetto"],
        &["gate", "B", "--policy", "p.yaml"],
        &["gate", "B", "--policy", "p.yaml", "--baseline", "b"],
        &["gate", "b", "--policy", "p.yaml", "--baseline", "B"],
    ] {
        let run = |name: &str, stdin: &[u8]| {
            let args: Vec<&str> =
                ["evidence"].iter().chain(args).map(|arg| if *arg == "B" { name } else { arg }).collect();
            assay(&dir, &args, stdin)
        };
        let (file, stdin) = (run("b", b""), run("-", &good));
        assert_eq!((file.code, stdin.code), (Some(0), Some(0)), "{args:?}: {file:?}");
        assert_eq!(
            file.stdout.replace("/b\"", "/stdin\""),
            stdin.stdout.replace("/b\"", "/stdin\""),
            "{args:?}"
        );
        for trouble in [run("b.missing", b""), run(".", b""), run("-", &good[..100]), run("-", b"")] {
            assert_eq!(trouble.code, Some(2), "{args:?}: {trouble:?}");
            assert!(trouble.stderr.starts_with("error: "), "{trouble:?}");
        }
    }
    for args in [
        &["evidence", "diff", "-", "-"][..],
        &["evidence", "gate", "-", "--baseline", "-"],
        &["evidence", "gate", "-", "--policy", "-"],
        &["evidence", "gate", "b", "--policy", "-", "--baseline", "-"],
        &["evidence", "lint", "-", "--config", "-"],
        &["evidence", "attest", "-", "--key", "-"],
        &["evidence", "export", "-", "-", "--format", "jsonl"],
        &["evidence", "verify", "-", "--attestation", "-", "--key", "b"],
        &["evidence", "verify", "b", "--attestation", "-", "--key", "-"],
        &["evidence", "verify", "b", "--attestation", "b", "--key", "-", "--key", "-"],
        &["profile", "merge", "-", "b", "-"],
        &["profile", "diff", "-", "-"],
    ] {
        let output = assay(&dir, args, &good);
        assert_eq!((output.code, &*output.stderr), (Some(2), "error: only one file can come from stdin\n"));
    }
    assert_eq!(
        assay(&dir, &["evidence", "gate", "b"], b"").code,
        Some(2),
        "without terms there is no verdict"
    );
}

#[test]
fn verify_names_a_stable_code() {
    let dir = Dir::new();
    let mut bad = of(harmless());
    let last = bad.len() - 5;
    bad[last] ^= 1;
    dir.put("b", &bad);
    let ran = assay(&dir, &["evidence", "verify", "b"], b"");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("integrity/gzip"), "{ran:?}");
    assert!(ran.stdout.contains("integrity/gzip"), "{ran:?}");
    let ran = assay(&dir, &["evidence", "verify", "b", "--format", "json"], b"");
    assert_eq!(json(&ran.stdout)["code"], "integrity/gzip");
    assert_eq!(json(&ran.stdout)["verified"], false);
    let ran = assay(&dir, &["evidence", "verify", "--explain", "integrity/content-hash"], b"");
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout.starts_with("integrity/content-hash: "), "{ran:?}");
    assert_eq!(assay(&dir, &["evidence", "verify", "--explain", "nonsense"], b"").code, Some(2));
}

#[test]
fn lint_exits_by_its_worst_finding() {
    let dir = Dir::new();
    dir.put("error", with(fs(FsOp::Read, "${HOME}/.ssh/id_rsa")));
    dir.put("warn", with(exec("/tmp/x")));
    let code = |bundle: &str, fail_on: &str| {
        assay(&dir, &["evidence", "lint", bundle, "--fail-on", fail_on], b"").code.unwrap()
    };
    assert_eq!(assay(&dir, &["evidence", "lint", "error"], b"").code, Some(1));
    assert_eq!(assay(&dir, &["evidence", "lint", "warn"], b"").code, Some(0));
    assert_eq!(["error", "warn", "info", "none"].map(|level| code("error", level)), [1, 1, 1, 0]);
    assert_eq!(["error", "warn", "info", "none"].map(|level| code("warn", level)), [0, 1, 1, 0]);
    let ran = assay(&dir, &["evidence", "lint", "--explain", "credential-read"], b"");
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout.starts_with("credential-read (error): "), "{ran:?}");
    assert_eq!(assay(&dir, &["evidence", "lint", "--explain", "nonsense"], b"").code, Some(2));
}

#[test]
fn a_project_file_sets_levels_and_says_so() {
    let dir = Dir::new();
    dir.put("b", with(fs(FsOp::Read, "${HOME}/.npmrc")));
    assert_eq!(assay(&dir, &["evidence", "lint", "b"], b"").code, Some(1));
    dir.put(
        "assay.yaml",
        "api_version: assay/v1\nlint: {ignore: [{rule: credential-read, subject: '*/.npmrc', reason: public}]}\n",
    );
    let ran = assay(&dir, &["evidence", "lint", "b"], b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("ignored credential-read: ${HOME}/.npmrc"), "{ran:?}");
    assert!(ran.stderr.contains("assay.yaml"), "{ran:?}");
    assert_eq!(assay(&dir, &["evidence", "lint", "b", "--no-config"], b"").code, Some(1));
    assert_eq!(assay(&dir, &["policy", "check", "assay.yaml"], b"").code, Some(0), "it still is a policy");
    dir.put("assay.yaml", "lint: {ignore: [{rule: credential-read}]}\n");
    let ran = assay(&dir, &["evidence", "lint", "b"], b"");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.starts_with("assay.yaml:1:17: ignoring `credential-read` needs a reason"), "{ran:?}");
}

#[test]
fn diff_is_silent_about_nothing_and_names_what_differs() {
    let dir = Dir::new();
    dir.put("a", of(harmless()));
    let ran = assay(&dir, &["evidence", "diff", "a", "a"], b"");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
    let mut effects = harmless();
    effects[0] = fs(FsOp::Write, "${WORKDIR}/Makefile");
    effects.extend((0..400).map(|n| fs(FsOp::Create, &format!("${{WORKDIR}}/node_modules/m{n}/index.js"))));
    effects.push(exec("/usr/bin/curl"));
    let degradation = Degradation { component: Component::Net, reason: "no-bpf".into(), detail: None };
    dir.put("b", bundle(&evidence(effects, vec![degradation])));
    let ran = assay(&dir, &["evidence", "diff", "a", "b"], b"");
    assert_eq!(ran.code, Some(1));
    let lines: Vec<&str> = ran.stdout.lines().skip(2).collect();
    assert_eq!(
        lines,
        [
            "Files",
            "  ~ ${WORKDIR}/Makefile: read became write",
            "  + create 400 names beneath ${WORKDIR}/node_modules",
            "Programs",
            "  + /usr/bin/curl",
            "Degradations",
            "  + net, no-bpf",
        ]
    );
    let ran = assay(&dir, &["evidence", "diff", "a", "b", "--format", "json"], b"");
    let value = json(&ran.stdout);
    assert_eq!((ran.code, &value["same"]), (Some(1), &Value::Bool(false)));
    assert_eq!(value["changes"].as_array().unwrap().len(), 403);
    assert_eq!(value["counts"], json(r#"{"added":402,"changed":1,"removed":0}"#));
    let ran = assay(&dir, &["evidence", "diff", "a", "b", "--format", "markdown"], b"");
    assert!(ran.stdout.contains("- added: `/usr/bin/curl`"), "{ran:?}");
    assert_eq!(assay(&dir, &["evidence", "diff", "a", "nothing"], b"").code, Some(2));
}

#[test]
fn gate_passes_what_the_policy_allows() {
    let dir = Dir::new();
    dir.put("p.yaml", POLICY);
    dir.put("good", of(harmless()));
    dir.put("bad", with(connect("192.0.2.7", 443)));
    let gate = |args: &[&str]| {
        let args: Vec<&str> = ["evidence", "gate"].iter().chain(args).copied().collect();
        assay(&dir, &args, b"")
    };
    let ran = gate(&["good", "--policy", "p.yaml", "--format", "json"]);
    assert_eq!((ran.code, &json(&ran.stdout)["verdict"]), (Some(0), &Value::from("pass")), "{ran:?}");
    let ran = gate(&["bad", "--policy", "p.yaml", "--format", "json"]);
    let value = json(&ran.stdout);
    assert_eq!((ran.code, &value["verdict"]), (Some(1), &Value::from("fail")));
    assert_eq!(value["reasons"][0]["code"], "not-allowed");
    assert_eq!(value["reasons"][0]["subject"], "192.0.2.7:443");
    for (policy, code) in
        [(POLICY, 0), ("api_version: assay/v1\n", 1), ("api_version: assay/v1\nextends: [p.yaml]\n", 0)]
    {
        let ran = assay(&dir, &["evidence", "gate", "good", "--policy", "-"], policy.as_bytes());
        assert_eq!(ran.code, Some(code), "{policy}: {ran:?}");
    }
    let ran = assay(&dir, &["evidence", "gate", "good", "--policy", "-"], b"api_version: assay/v1\nfs: 1\n");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("stdin:2:"), "{ran:?}");
    assert_eq!(gate(&["bad", "--baseline", "good"]).code, Some(1));
    assert_eq!(gate(&["good", "--baseline", "bad"]).code, Some(0));
    dir.put("broken.yaml", "api_version: assay/v1\nfs: {allow: 1}\n");
    let ran = gate(&["good", "--policy", "broken.yaml"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("broken.yaml:2:"), "{ran:?}");
    assert_eq!(gate(&["good", "--policy", "missing.yaml"]).code, Some(2));
}

#[test]
fn show_filters_and_tells_all_as_json() {
    let dir = Dir::new();
    dir.put("b", of(harmless()));
    let show = |args: &[&str]| {
        let args: Vec<&str> = ["evidence", "show", "b"].iter().chain(args).copied().collect();
        assay(&dir, &args, b"").stdout
    };
    let value = json(&show(&["--format", "json"]));
    assert_eq!(value["verified"], true);
    assert_eq!(value["manifest"]["schema_version"], 1);
    assert_eq!(value["events"].as_array().unwrap().len(), 7);
    let subjects = |args: &[&str]| -> Vec<String> {
        let value = json(&show(&[&["--format", "json"], args].concat()));
        let events = value["events"].as_array().unwrap();
        events.iter().map(|event| event["subject"].as_str().unwrap_or("").to_owned()).collect()
    };
    assert_eq!(subjects(&["--kind", "exec"]), ["/usr/bin/make"]);
    assert_eq!(subjects(&["--kind", "exec", "--kind", "net"]), ["/usr/bin/make", "127.0.0.1:8080"]);
    assert_eq!(subjects(&["--path", "${WORKDIR}/out"]), ["${WORKDIR}/out/a.o"]);
    assert_eq!(subjects(&["--result", "denied"]), [""; 0]);
    let text = show(&["--kind", "fs"]);
    assert!(text.contains("fs       create   ${WORKDIR}/out/a.o  \u{d7}3\n"), "{text}");
    assert!(!text.contains("exec     "), "{text}");
}

/// `--explain` may stand beside a bundle, as a person has it in the line before; nothing of it is read.
#[test]
fn explain_stands_alone_or_beside_a_bundle() {
    let dir = Dir::new();
    dir.put("b", with(exec("/tmp/x")));
    for (command, word) in [("lint", "exec-from-temp"), ("verify", "integrity/content-hash")] {
        let alone = assay(&dir, &["evidence", command, "--explain", word], b"");
        assert_eq!(alone.code, Some(0), "{alone:?}");
        assert!(alone.stdout.starts_with(word), "{alone:?}");
        for bundle in ["b", "-", "missing"] {
            let beside = assay(&dir, &["evidence", command, bundle, "--explain", word], b"");
            assert_eq!((beside.code, &beside.stdout), (Some(0), &alone.stdout), "{beside:?}");
        }
        let unknown = assay(&dir, &["evidence", command, "b", "--explain", "no-such-thing"], b"");
        assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(2), ""), "{unknown:?}");
    }
}

/// Runs `assay` on a terminal of its own; what the terminal got, and the exit code.
fn on_a_terminal(dir: &Dir, pager: Option<&str>, args: &str) -> (String, Option<i32>) {
    let line = format!("{} {args}", env!("CARGO_BIN_EXE_assay"));
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(dir.path()).stdin(std::process::Stdio::null());
    script.env("NO_COLOR", "1").env("LESS", "FRX").env("TERM", "xterm").env_remove("PAGER");
    if let Some(pager) = pager {
        script.env("PAGER", pager);
    }
    let output = script.output().expect("script, of Debian's bsdutils, is installed");
    (String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n"), output.status.code())
}

#[test]
fn show_is_paged_on_a_terminal_and_nowhere_else() {
    let dir = Dir::new();
    dir.put("b", of(harmless()));
    let plain = assay(&dir, &["evidence", "show", "b"], b"").stdout;
    let count = plain.lines().count();
    assert!(count > 5 && !plain.contains("paged"), "{plain}");

    let paged = |text: &str| text.lines().filter(|line| line.starts_with("paged: ")).count();
    let (text, code) = on_a_terminal(&dir, Some("sed 's/^/paged: /'"), "evidence show b");
    assert_eq!((paged(&text), code), (count, Some(0)), "{text}");
    for args in ["evidence show b --pager never", "evidence lint b", "evidence diff b b"] {
        let (text, code) = on_a_terminal(&dir, Some("sed 's/^/paged: /'"), args);
        assert_eq!((paged(&text), code), (0, Some(0)), "{args}: {text}");
    }
    // No pager is wanted.
    for pager in ["", " ", "cat"] {
        let (text, code) = on_a_terminal(&dir, Some(pager), "evidence show b");
        assert_eq!((text.lines().count(), code), (count, Some(0)), "{text}");
    }
    // Through a pipe nothing is paged, whatever the variable says.
    let piped = std::process::Command::new(env!("CARGO_BIN_EXE_assay"))
        .args(["evidence", "show", "b"])
        .env("PAGER", "sed 's/^/paged: /'")
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), plain);
}

/// A reader who has seen enough ends the pager, and with it what is written to it: no complaint, and exit 0.
#[test]
fn a_pager_that_ends_early_ends_show_well() {
    let dir = Dir::new();
    dir.put("b", of((0..3_000).map(|n| fs(FsOp::Create, &format!("${{WORKDIR}}/f{n}"))).collect()));
    let (text, code) = on_a_terminal(&dir, Some("head -n 1"), "evidence show b");
    assert_eq!((text.lines().count(), code), (1, Some(0)), "{text}");
    let (text, code) = on_a_terminal(&dir, Some("head -n 1"), "evidence show b --format json");
    assert_eq!((text.lines().count(), code), (1, Some(0)), "{text}");
    let (text, code) = on_a_terminal(&dir, Some("true"), "evidence show b");
    assert_eq!((text.trim(), code), ("", Some(0)));
}

/// Everything that a terminal, a browser or a page of Markdown could take for more than text.
const HOSTILE: &str =
    "/x\u{1b}[2J\u{9b}31m\r\n# h\u{7}\u{202e}\u{2028}``` | <script>alert(1)</script> [l](javascript:x) \u{0}";

/// What services that run CI take for commands when it stands in a log: at the start of a line, or anywhere.
const COMMANDS: [&str; 5] = [
    "::error file=x::pwned",
    "  ::stop-commands::x",
    "##vso[task.setvariable variable=PATH]/tmp",
    "##[error]pwned",
    "/x##teamcity[buildStatus status='SUCCESS']",
];

#[test]
fn a_hostile_bundle_cannot_command_the_service_that_keeps_the_log() {
    let dir = Dir::new();
    dir.put("p.yaml", POLICY);
    dir.put("a", of(harmless()));
    for text in COMMANDS {
        let mut effects = harmless();
        effects.extend([fs(FsOp::Write, text), fs(FsOp::Read, text), exec(text), connect(text, 1)]);
        let degradation =
            Degradation { component: Component::Fs, reason: text.into(), detail: Some(text.into()) };
        let mut evidence = evidence(effects, vec![degradation]);
        evidence.identity.command = vec![text.into(), text.into()];
        evidence.observed.verdict = text.into();
        evidence.coverage.ledger.admit(assay::observe::loss::Kind::Fs, text, text);
        dir.put("b", bundle(&evidence));
        let odd = [crate::damaged::member(text.as_bytes(), b"", |_| {}), vec![0; 1024]].concat();
        dir.put("odd", crate::damaged::gzip(&odd));
        for args in [
            &["verify", "b"][..],
            &["verify", "odd"],
            &["lint", "b"],
            &["lint", "b", "--format", "json"],
            &["lint", "b", "--format", "sarif"],
            &["diff", "a", "b"],
            &["diff", "a", "b", "--format", "markdown"],
            &["diff", "b", "a", "--format", "json"],
            &["show", "b"],
            &["show", "b", "--format", "json"],
            &["export", "b", "--format", "jsonl"],
            &["export", "b", "--format", "otlp-json"],
            &["export", "b", "--format", "ocsf", "--host", "##[h"],
            &["export", "b", "--format", "perfetto"],
            &["export", "b", "--format", "otlp-json"],
            &["export", "b", "--format", "ocsf", "--host", "##[h"],
            &["export", "b", "--format", "perfetto"],
            &["gate", "b", "--policy", "p.yaml"],
            &["gate", "b", "--baseline", "a", "--format", "json"],
            &["attest", "b", "--unsigned"],
        ] {
            let args: Vec<&str> = ["evidence"].iter().chain(args).copied().collect();
            let ran = assay(&dir, &args, b"");
            for line in ran.stdout.lines().chain(ran.stderr.lines()) {
                assert!(!line.trim_start().starts_with("::"), "{args:?}: {line}");
                // A statement is signed as it is; it is no log.
                let is_command = ["##[", "##vso[", "##teamcity["].iter().any(|mark| line.contains(mark));
                assert!(args[1] == "attest" || !is_command, "{args:?}: {line}");
            }
        }
    }
}

/// A bundle of another program, whose every text is hostile and whose hashes are right.
pub fn hostile() -> Vec<u8> {
    let degradation =
        Degradation { component: Component::Fs, reason: HOSTILE.into(), detail: Some(HOSTILE.into()) };
    let mut effects = harmless();
    effects.extend([
        fs(FsOp::Write, &format!("${{WORKDIR}}/.git/hooks/{HOSTILE}")),
        fs(FsOp::Read, HOSTILE),
        exec(&format!("/tmp/{HOSTILE}")),
        connect(HOSTILE, 1),
    ]);
    let mut evidence = evidence(effects, vec![degradation]);
    evidence.identity.command = vec![HOSTILE.into(), format!("--token={HOSTILE}")];
    evidence.observed.verdict = HOSTILE.into();
    evidence.observed.host.insert("kernel".into(), HOSTILE.into());
    evidence.coverage.ledger.admit(assay::observe::loss::Kind::Fs, HOSTILE, HOSTILE);
    bundle(&evidence)
}

#[test]
fn a_hostile_bundle_cannot_move_the_cursor_or_colour_the_terminal() {
    let dir = Dir::new();
    dir.put("a", of(harmless()));
    dir.put("b", hostile());
    dir.put("p.yaml", POLICY);
    // What `attest` writes is no text for a terminal: it is signed byte for byte.
    for args in [
        &["verify", "b"][..],
        &["lint", "b"],
        &["lint", "b", "--format", "json"],
        &["lint", "b", "--format", "sarif"],
        &["diff", "a", "b"],
        &["diff", "b", "a"],
        &["diff", "a", "b", "--format", "markdown"],
        &["diff", "a", "b", "--format", "json"],
        &["show", "b"],
        &["show", "b", "--format", "json"],
        &["export", "b", "--format", "jsonl"],
        &["gate", "b", "--policy", "p.yaml"],
        &["gate", "b", "--policy", "p.yaml", "--format", "json"],
        &["gate", "b", "--baseline", "a"],
        &["gate", "b", "--baseline", "a", "--format", "json"],
    ] {
        let args: Vec<&str> = ["evidence"].iter().chain(args).copied().collect();
        let ran = assay(&dir, &args, b"");
        assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
        let is_json = args
            .iter()
            .any(|arg| matches!(*arg, "json" | "sarif" | "jsonl" | "otlp-json" | "ocsf" | "perfetto"));
        for text in [&ran.stdout, &ran.stderr] {
            let control = text.chars().find(|c| c.is_control() && *c != '\n');
            assert_eq!(control, None, "{args:?}");
            if !is_json {
                // JSON is for programs, and keeps text as it is.
                assert!(!text.contains(['\u{202e}', '\u{2028}']), "{args:?}");
                assert!(!text.lines().any(|line| line.starts_with("# h")), "{args:?}: {text}");
            }
        }
    }
}

#[test]
fn a_hostile_bundle_cannot_break_markdown() {
    let dir = Dir::new();
    dir.put("a", of(harmless()));
    dir.put("b", hostile());
    let ran = assay(&dir, &["evidence", "diff", "a", "b", "--format", "markdown"], b"");
    for line in ran.stdout.lines().filter(|line| line.contains("script")) {
        // Without its code spans, nothing of the name is left.
        let mut outside = String::new();
        let mut rest = line;
        while let Some(at) = rest.find('`') {
            outside.push_str(&rest[..at]);
            let fence = rest[at..].chars().take_while(|c| *c == '`').count();
            let body = &rest[at + fence..];
            let marks = "`".repeat(fence);
            let end = (0..body.len())
                .filter(|end| body.is_char_boundary(*end) && body[*end..].starts_with(&marks))
                .find(|end| !body[..*end].ends_with('`') && !body[end + fence..].starts_with('`'))
                .expect("each fence is closed");
            rest = &body[end + fence..];
        }
        outside.push_str(rest);
        assert!(!outside.contains(['<', '[', '|', '#']), "{outside}");
    }
}

#[test]
fn sarif_follows_its_schema_and_has_the_places_that_code_scanning_wants() {
    let schema = json(include_str!("../fixtures/sarif/sarif-schema-2.1.0.json"));
    let dir = Dir::new();
    dir.put("b.tar.gz", hostile());
    dir.put("assay.yaml", "lint: {ignore: [{rule: exec-from-temp, reason: known}]}\n");
    for bundle in ["b.tar.gz", "./b.tar.gz"] {
        let ran = assay(&dir, &["evidence", "lint", bundle, "--format", "sarif"], b"");
        let log = json(&ran.stdout);
        assert_eq!(schema::complaints(&schema, &log), [""; 0]);
        let results = log["runs"][0]["results"].as_array().unwrap();
        assert!(results.len() >= 5, "{results:?}");
        for result in results {
            let place = &result["locations"][0]["physicalLocation"];
            let uri = place["artifactLocation"]["uri"].as_str().unwrap();
            assert!(!uri.starts_with('/') && !uri.contains("..") && !uri.contains(':'), "{uri}");
            assert!(place["region"]["startLine"].as_u64().unwrap() >= 1);
            let rule = result["ruleIndex"].as_u64().unwrap();
            let id = log.pointer(&format!("/runs/0/tool/driver/rules/{rule}/id")).unwrap();
            assert_eq!(*id, result["ruleId"]);
            assert!(result["partialFingerprints"].as_object().is_some_and(|prints| !prints.is_empty()));
        }
        assert!(results.iter().any(|result| result.get("suppressions").is_some()));
        assert!(results.iter().any(|result| {
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "b.tar.gz"
        }));
    }
    let broken = json(r#"{"version":"2.1.0","runs":[{"tool":{"driver":{"name":1}},"x":1}]}"#);
    assert_eq!(schema::complaints(&schema, &broken).len(), 2, "the check can fail");
}

#[test]
fn the_guide_has_the_rules_as_they_are() {
    let guide = include_str!("../../docs/guides/evidence.md");
    let table = assay::report::text::rule_table();
    assert!(guide.ends_with(&table), "the end of docs/guides/evidence.md should be:\n{table}");
}

#[test]
fn the_page_of_the_format_names_every_code() {
    let page = include_str!("../../docs/formats/bundle.md");
    for code in assay::evidence::integrity::Code::ALL {
        // Where the bytes come from is no matter of the format.
        let is_named = page.contains(&format!("`{code}`"));
        assert!(is_named || *code == assay::evidence::integrity::Code::Read, "{code}");
    }
}
