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
    assert_eq!(count, 6);
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

/// What `policy check` says of this text, and of another file beside it.
fn told(text: &str, beside: &str) -> (Option<i32>, String) {
    let (directory, path) = written(text);
    fs::write(directory.path().join("beside"), beside).unwrap();
    let output = assay(&["policy", "check", &path]);
    (output.status.code(), String::from_utf8(output.stderr).unwrap().replace(&path, "P"))
}

#[test]
fn an_address_with_a_port_and_no_brackets_is_asked_about() {
    for (rule, hint) in [
        ("::1:80", "`[::1]:80`; the address `::1:80` is `[::1:80]`"),
        ("fd00::2:443", "`[fd00::2]:443`; the address `fd00::2:443` is `[fd00::2:443]`"),
    ] {
        let (code, said) = told(&format!("api_version: assay/v1\nnet: {{allow: [\"{rule}\"]}}\n"), "");
        assert!(code == Some(2) && said.starts_with("P:2:15: ") && said.contains(hint), "{said}");
    }
    for rule in ["::1", "fd00::1", "2001:db8:0:0:0:0:0:1", "fd00::1:0/112", "[::1]:80", "::ffff:127.0.0.1"] {
        let (code, said) = told(&format!("api_version: assay/v1\nnet: {{allow: [\"{rule}\"]}}\n"), "");
        assert_eq!(code, Some(0), "{rule}: {said}");
    }
}

#[test]
fn a_sign_that_is_no_pattern_is_told() {
    for rule in ["secret?.pem", "key[ab].pem", "?*.pem", "/srv/a?/**"] {
        let (code, said) = told(&format!("api_version: assay/v1\nfs: {{deny: [\"{rule}\"]}}\n"), "");
        let is_told = said.contains("is an ordinary character here; `*` and `**` are the only patterns");
        assert!(code == Some(0) && is_told && said.contains("P:2:13: "), "{rule}: {said}");
    }
}

#[test]
fn nonsense_in_the_section_of_lint_is_refused_with_its_place() {
    for (lint, place, word) in [
        ("nonsense", "2:7", "expected `lint` to be a mapping"),
        ("{levls: {}}", "2:8", "did you mean `levels`?"),
        ("{levels: {clock-odd: loud}}", "2:28", "unknown level `loud`"),
        ("{levels: [x]}", "2:16", "expected `levels` to be a mapping"),
        ("{ignore: x}", "2:16", "expected a list"),
        ("{ignore: [{rule: clock-odd}]}", "2:17", "`reason` is missing"),
        ("{ignore: [{rule: clock-odd, reason: [x]}]}", "2:43", "expected a string"),
        ("{ignore: [x]}", "2:17", "expected `ignore` to be a mapping"),
    ] {
        let (code, said) = told(&format!("api_version: assay/v1\nlint: {lint}\n"), "");
        assert!(
            code == Some(2) && said.contains(&format!("P:{place}: ")) && said.contains(word),
            "{lint}: {said}"
        );
    }
    for lint in
        ["", "{levels: {clock-odd: off}, ignore: [{rule: clock-odd, subject: x, reason: y}]}", "{ignore: }"]
    {
        let (code, said) = told(&format!("api_version: assay/v1\nlint: {lint}\n"), "");
        assert_eq!(code, Some(0), "{lint}: {said}");
    }
}

#[test]
fn a_file_that_is_no_policy_is_not_quoted() {
    for beside in [
        "root:$y$secret:1::\nother:secret\n",
        "secret: {secret: secret}\n",
        "secret",
        "- secret\n",
        "*secret\n",
    ] {
        let (code, said) = told("api_version: assay/v1\nextends: [beside]\n", beside);
        assert!(code == Some(2) && said.contains("P:2:11: `beside` is no policy"), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
    let (_, said) = told("api_version: assay/v1\nextends: [beside]\n", "api_version: assay/v1\nfss: {}\n");
    assert!(said.contains("beside:2:1: unknown key `fss`"), "{said}");
}

#[test]
fn a_policy_comes_from_stdin_where_that_is_ours() {
    let check = |text: &str| {
        let (_directory, path) = written(text);
        let input = fs::File::open(path).unwrap();
        let mut assay = Command::new(env!("CARGO_BIN_EXE_assay"));
        assay.args(["policy", "check", "-", "--path", "/srv/x"]).stdin(input).output().unwrap()
    };
    let output = check("api_version: assay/v1\nfs: {allow: [/srv/x]}\n");
    assert!(output.status.success(), "{output:?}");
    let output = check("api_version: assay/v1\nfss: {}\n");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("stdin:2:1: "), "{output:?}");
    let output = assay(&["sandbox", "--policy", "-", "--", "true"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains("standard input, which is the command's"),
        "{said}"
    );
}

#[test]
fn a_work_directory_that_is_the_home_or_everything_is_told() {
    let (directory, path) = written("api_version: assay/v1\nfs: {allow: [\"${WORKDIR}\"]}\n");
    let home = directory.path().join("homes/u");
    fs::create_dir_all(home.join("src")).unwrap();
    let said = |workdir: &Path, policy: &[&str]| {
        let mut assay = Command::new(env!("CARGO_BIN_EXE_assay"));
        assay.env("HOME", &home).args(["policy", "check"]).args(policy).arg("--workdir").arg(workdir);
        String::from_utf8(assay.output().unwrap().stderr).unwrap()
    };
    for policy in [&[path.as_str()][..], &["--builtin", "--path", "/srv/x"]] {
        for (workdir, what) in [
            (home.as_path(), "the home "),
            (directory.path(), "the home "),
            (Path::new("/"), "the whole host"),
        ] {
            assert!(said(workdir, policy).contains(&format!(": {what}")), "{}", said(workdir, policy));
        }
        assert_eq!(said(&home.join("src"), policy), "");
    }
    let (_other, narrow) = written("api_version: assay/v1\nfs: {allow: [\"${WORKDIR}/src\", /usr]}\n");
    assert_eq!(said(&home, &[&narrow]), "");
}

#[test]
fn many_paths_that_are_not_there_are_one_line() {
    let paths =
        |count: usize| (0..count).map(|n| format!("/nonexistent/{n:02}")).collect::<Vec<_>>().join(", ");
    let policy = |count| format!("api_version: assay/v1\nfs: {{deny: [{}]}}\n", paths(count));
    let (_, said) = told(&policy(6), "");
    assert_eq!(said.lines().count(), 6, "{said}");
    let (_, said) = told(&policy(40), "");
    let names = "40 paths do not exist: `/nonexistent/00`, `/nonexistent/01`, `/nonexistent/02` …";
    assert!(said.lines().count() == 1 && said.contains(names), "{said}");
}
