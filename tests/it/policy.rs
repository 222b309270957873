//! `assay policy check` and the policy of a run, from outside.

mod broken;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn assay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_assay")).args(arguments).output().expect("start assay")
}

fn guides() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides/policies")
}

fn written(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("assay.yaml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

#[test]
fn every_policy_of_the_guides_is_valid() {
    let mut count = 0;
    for entry in fs::read_dir(guides()).unwrap() {
        let path = entry.unwrap().path();
        let output = assay(&["policy", "check", path.to_str().unwrap()]);
        assert!(output.status.success(), "{path:?}: {output:?}");
        count += 1;
    }
    assert_eq!(count, 4);
}

#[test]
fn the_built_in_policy_is_printed_and_is_a_policy() {
    let printed = assay(&["policy", "check", "--builtin"]);
    let (_directory, path) = written(std::str::from_utf8(&printed.stdout).unwrap());
    let output = assay(&["policy", "check", &path, "--format", "json"]);
    assert!(output.status.success(), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["valid"], true);
    assert!(answer["rules"].as_array().unwrap().len() > 100);
}

#[test]
fn a_broken_policy_is_exit_2_with_its_places_and_nothing_runs() {
    let (directory, path) = written("api_version: assay/v1\nfs:\n  alow: [/usr]\n  deny: [\"$HOME\"]\n");
    let want = [
        format!("{path}:3:3: unknown key `alow`; did you mean `allow`?"),
        format!("{path}:4:10: bad path `$HOME`; did you mean `${{HOME}}`?"),
    ];
    let checked = assay(&["policy", "check", &path]);
    assert_eq!(checked.status.code(), Some(2), "{checked:?}");
    let lines: Vec<_> = std::str::from_utf8(&checked.stderr).unwrap().lines().collect();
    assert_eq!(lines, want);
    let made = directory.path().join("made");
    let ran = assay(&["sandbox", "--policy", &path, "--", "touch", made.to_str().unwrap()]);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(!made.exists());
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(want.iter().all(|line| text.lines().any(|told| told == line)), "{text}");
}

#[test]
fn a_host_without_a_port_is_answered_port_by_port() {
    let (_directory, path) = written(
        "api_version: assay/v1\nnet:\n  allow: ['api.example.com:443', '10.0.0.0/8:5000-6000', '127.0.0.1:*']\n  deny: ['10.0.0.0/8:5432']\n",
    );
    let check = |endpoint: &str, want: &[&str]| {
        let output = assay(&["policy", "check", &path, "--connect", endpoint]);
        assert!(output.status.success(), "{output:?}");
        let lines: Vec<_> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
        assert_eq!(lines.len(), want.len(), "{lines:?}");
        for (line, want) in lines.iter().zip(want) {
            assert!(line.starts_with(want), "{line}\n{want}");
        }
    };
    let no = "denied: no rule allows it; net.allow: -";
    check(
        "api.example.com",
        &[
            // Nothing is sent to port 0; resolvers ask the kernel by it which way it would take.
            "connect api.example.com:0: allowed by `api.example.com:443`",
            &format!("connect api.example.com:1-442: {no} \"api.example.com:1-442\""),
            "connect api.example.com:443: allowed by `api.example.com:443`",
            &format!("connect api.example.com:444-65535: {no} \"api.example.com:444-65535\""),
        ],
    );
    check(
        "10.1.2.3:5400-5500",
        &[
            "connect 10.1.2.3:5400-5431: allowed by `10.0.0.0/8:5000-6000`",
            "connect 10.1.2.3:5432: denied: denied by `10.0.0.0/8:5432`",
            "connect 10.1.2.3:5433-5500: allowed by `10.0.0.0/8:5000-6000`",
        ],
    );
    check("127.0.0.1", &["connect 127.0.0.1: allowed by `127.0.0.1:*`"]);
    check("other.example.com", &[&format!("connect other.example.com: {no} \"other.example.com:*\"")]);
    check("::1", &[&format!("connect ::1: {no} \"[::1]:*\"")]);
    check("api.example.com:443", &["connect api.example.com:443: allowed by"]);
}

#[test]
fn the_runtime_directory_is_where_the_environment_says_or_a_login_makes_it() {
    let (_directory, path) =
        written("api_version: assay/v1\nfs: {allow: [{path: '${RUNTIME_DIR}/app', access: [read]}]}\n");
    let is_allowed = |value: Option<&str>, asked: &str| {
        let mut check = Command::new(env!("CARGO_BIN_EXE_assay"));
        check.args(["policy", "check", &path, "--path", asked]).env_remove("SUDO_UID");
        match value {
            Some(value) => check.env("XDG_RUNTIME_DIR", value),
            None => check.env_remove("XDG_RUNTIME_DIR"),
        };
        let output = check.output().expect("start assay");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{output:?}");
        told.contains("${RUNTIME_DIR}/app")
    };
    let usual = format!("/run/user/{}/app/x", rustix::process::getuid().as_raw());
    assert!(is_allowed(Some("/srv/of user/run"), "/srv/of user/run/app/x"));
    assert!(!is_allowed(Some("/srv/of user/run"), &usual));
    for nowhere in [None, Some(""), Some("/"), Some("//"), Some("run"), Some("/..")] {
        assert!(is_allowed(nowhere, &usual), "{nowhere:?}");
        assert!(!is_allowed(nowhere, "/app/x"), "{nowhere:?}");
    }
}

#[test]
fn a_policy_extends_others_and_a_cycle_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("api_version: assay/v1\n{text}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    file("base/one.yaml", "extends: [../two.yaml]\nfs: {deny: [/etc/shadow]}\n");
    file("two.yaml", "base: none\nfs: {allow: [/etc]}\n");
    let top = file("top.yaml", "extends: [base/one.yaml, ./two.yaml]\nfs: {allow: [/etc/shadow]}\n");
    let output = assay(&[
        "policy",
        "check",
        &top,
        "--path",
        "/etc/shadow",
        "--path",
        "/etc/passwd",
        "--format",
        "json",
    ]);
    assert!(output.status.success(), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdict = |request: &str| {
        let answers = answer["answers"].as_array().unwrap();
        answers.iter().find(|answer| answer["request"] == request).unwrap()["verdict"].clone()
    };
    assert_eq!(verdict("read /etc/shadow"), "denied");
    assert_eq!(verdict("read /etc/passwd"), "allowed");
    assert_eq!(verdict("write /etc/passwd"), "denied");
    let a = file("a.yaml", "extends: [b.yaml]\n");
    file("b.yaml", "extends: [a.yaml]\n");
    let output = assay(&["policy", "check", &a]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("b.yaml:2:11: `a.yaml` extends itself"), "{text}");
}

/// The text without its marks, and line and column of each.
fn places(marked: &str) -> (String, Vec<(usize, usize)>) {
    let (mut text, mut places) = (String::new(), Vec::new());
    for piece in marked.split_inclusive('‸') {
        let (piece, is_marked) = piece.strip_suffix('‸').map_or((piece, false), |piece| (piece, true));
        text.push_str(piece);
        if is_marked {
            let line = text.rsplit('\n').next().unwrap_or_default();
            places.push((text.matches('\n').count() + 1, line.chars().count() + 1));
        }
    }
    (text, places)
}

/// Runs it with each policy; nothing may happen but that all problems are told, each in its place with what to do.
fn check_broken(arguments: impl Fn(&str, &str) -> Vec<String>) {
    assert!(broken::BROKEN.len() >= 40);
    for (marked, want) in broken::BROKEN {
        let (text, places) = places(&format!("api_version: assay/v1\n{marked}\n"));
        let (directory, path) = written(&text);
        let marker = directory.path().join("marker");
        let arguments = arguments(&path, marker.to_str().unwrap());
        let output = assay(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{marked}: {told}");
        assert!(!marker.exists(), "{marked}: it ran");
        assert!(output.stdout.is_empty(), "{marked}: {:?}", output.stdout);
        let lines: Vec<&str> = told.lines().filter(|line| line.contains(&path)).collect();
        assert_eq!((lines.len(), places.len()), (want.len(), want.len()), "{marked}: {told}");
        for ((line, (row, column)), (message, suggestion)) in lines.iter().zip(places).zip(*want) {
            let rest = line.strip_prefix(&format!("{path}:{row}:{column}: "));
            let rest = rest.unwrap_or_else(|| panic!("{marked}: not at {row}:{column}: {line}"));
            let (said, suggested) = rest.split_once("; ").unwrap_or((rest, ""));
            assert!(said.contains(message) && suggested.contains(suggestion), "{marked}: {line}");
        }
    }
}

#[test]
fn no_broken_policy_lets_anything_run() {
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    check_broken(|policy, marker| text(&["sandbox", "--policy", policy, "--", "touch", marker]));
    check_broken(|policy, marker| {
        text(&["sandbox", "--enforce", "--fail-closed", "--policy", policy, "--", "touch", marker])
    });
    check_broken(|policy, _| text(&["policy", "check", policy]));
}
