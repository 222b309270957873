//! What `assay policy check` says of a policy is what a run under it comes to: the same plan, with and without rights.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::ordinary::Ordinary;
use crate::harness::sandbox::{ASSAY, json, text};
use crate::needs::{Need, are_met};

const NEEDS: [Need; 5] =
    [Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(6), Need::Program("setpriv")];

/// A policy without its first line; `OPEN` stands for an allow of the work directory.
struct Row {
    policy: &'static str,
    /// What of it root cannot hold.
    root: &'static [&'static str],
    /// What an ordinary user cannot, besides what they can hold of no policy.
    user: &'static [&'static str],
}

/// What can be held of no policy without rights.
const EVER: [&str; 2] = ["fs other-processes-visible /proc", "net unix-not-held unix"];

const ROWS: &[Row] = &[
    Row { policy: "fs: {OPEN}", root: &[], user: &[] },
    // A deny in an allow: a file with another name, and a directory.
    Row {
        policy: "fs: {OPEN, deny: [{path: keys, access: [write]}, one.pem]}",
        root: &[],
        user: &[
            "fs deny-inside-allow ${WORKDIR}/hard",
            "fs deny-inside-allow ${WORKDIR}/keys",
            "fs deny-inside-allow ${WORKDIR}/one.pem",
        ],
    },
    Row {
        policy: "fs: {OPEN, deny: [{path: one.pem, access: [read]}]}",
        root: &["fs allow-hidden ${WORKDIR}/hard", "fs allow-hidden ${WORKDIR}/one.pem"],
        user: &["fs deny-inside-allow ${WORKDIR}/hard", "fs deny-inside-allow ${WORKDIR}/one.pem"],
    },
    // Patterns, and what does not exist yet.
    Row {
        policy: "fs: {OPEN, deny: ['**/*.pem']}",
        root: &["fs deny-pattern-not-yet-existing **/*.pem"],
        user: &[
            "fs deny-inside-allow ${WORKDIR}/hard",
            "fs deny-inside-allow ${WORKDIR}/one.pem",
            "fs deny-pattern-not-yet-existing **/*.pem",
        ],
    },
    Row {
        policy: "fs: {OPEN, deny: [secret, {path: .github/workflows, access: [write]}]}",
        root: &[
            "fs deny-not-yet-existing ${WORKDIR}/.github/workflows",
            "fs deny-not-yet-existing ${WORKDIR}/secret",
        ],
        user: &[
            "fs deny-not-yet-existing ${WORKDIR}/.github/workflows",
            "fs deny-not-yet-existing ${WORKDIR}/secret",
        ],
    },
    Row {
        policy: "fs: {allow: [{path: later/file, access: [read, write]}, {path: 'src/*.txt', access: [read, write]}]}",
        root: &["fs allow-not-existing ${WORKDIR}/later/file", "fs allow-pattern-frozen src/*.txt"],
        user: &["fs allow-not-existing ${WORKDIR}/later/file", "fs allow-pattern-frozen src/*.txt"],
    },
    // The private directory, which only a run has.
    Row {
        policy: "fs: {allow: [{path: '${TMPDIR}/made', access: [read, write]}], deny: ['${TMPDIR}/secret', '${CALLER_TMPDIR}/assay-nothing', '~/.none']}",
        root: &["fs deny-not-yet-existing ${TMPDIR}/secret"],
        user: &["fs deny-not-yet-existing ${TMPDIR}/secret"],
    },
    // Links: a name that leads elsewhere, and one on the way.
    Row {
        policy: "fs: {OPEN, deny: [{path: dir/x, access: [write]}]}",
        root: &[
            "fs deny-not-yet-existing ${WORKDIR}/dir/x",
            "fs deny-not-yet-existing ${WORKDIR}/real/x",
            "fs deny-symlink-name ${WORKDIR}/dir",
        ],
        user: &[
            "fs deny-not-yet-existing ${WORKDIR}/dir/x",
            "fs deny-not-yet-existing ${WORKDIR}/real/x",
            "fs deny-symlink-name ${WORKDIR}/dir",
        ],
    },
    Row {
        policy: "fs: {OPEN, deny: [dir]}",
        root: &[],
        user: &["fs deny-inside-allow ${WORKDIR}/real", "fs deny-symlink-name ${WORKDIR}/dir"],
    },
    // Programs.
    Row {
        policy: "fs: {OPEN}\nexec: {allow: [/usr, /bin, ./tool], deny: [/usr/bin/env]}",
        root: &[],
        user: &[],
    },
    Row {
        policy: "fs: {OPEN}\nexec: {deny: [./tool, './*.sh', ./later]}",
        root: &["exec deny-not-yet-existing ${WORKDIR}/later", "exec deny-pattern-not-yet-existing ./*.sh"],
        user: &[
            "exec deny-inside-allow ${WORKDIR}/tool",
            "exec deny-not-yet-existing ${WORKDIR}/later",
            "exec deny-pattern-not-yet-existing ./*.sh",
        ],
    },
    // Addresses: a name, ports, a network with an exception, all but one.
    Row {
        policy: "fs: {OPEN}\nnet: {allow: ['*.example.com:443', 'localhost:80']}",
        root: &[],
        user: &[
            "net address-not-held *.example.com:443",
            "net address-not-held localhost:80",
            "net host-pattern-not-granted *.example.com:443",
            "net udp-not-held udp",
        ],
    },
    Row {
        policy: "fs: {OPEN}\nnet: {allow: ['*:80', '[::1]:1-3']}",
        root: &[],
        user: &["net address-not-held [::1]:1-3", "net udp-not-held udp"],
    },
    Row {
        policy: "fs: {OPEN}\nnet: {allow: ['10.0.0.0/8:1-5000'], deny: ['10.1.0.0/16']}",
        root: &[],
        user: &[
            "net address-not-held 10.0.0.0/8:1-5000",
            "net address-not-held 10.1.0.0/16",
            "net tcp-not-held tcp",
            "net udp-not-held udp",
        ],
    },
    Row {
        policy: "fs: {OPEN}\nnet: {allow: ['*'], deny: ['169.254.169.254']}",
        root: &[],
        user: &["net address-not-held 169.254.169.254", "net tcp-not-held tcp", "net udp-not-held udp"],
    },
    // UNIX sockets: by path and abstract, allowed and denied.
    Row {
        policy: "fs: {OPEN}\nnet: {allow: ['unix:real/socket', 'unix:@name']}",
        root: &["net abstract-unix-not-held abstract unix"],
        user: &["net abstract-unix-not-held abstract unix"],
    },
    Row { policy: "fs: {OPEN}\nnet: {deny: ['unix:@name', 'unix:real/socket']}", root: &[], user: &[] },
    Row {
        policy: "fs: {OPEN}\nnet: {allow: ['unix:/**'], deny: ['unix:real/socket']}",
        root: &[],
        user: &[],
    },
    Row { policy: "fs: {OPEN}\nenv: {allow: ['MY_*']}", root: &[], user: &[] },
];

/// Who checks, and runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Root,
    User,
}

/// What the policies speak about.
fn scene() -> Ordinary {
    let scene = Ordinary::new();
    for name in ["w", "w/keys", "w/src", "w/real", "out"] {
        scene.directory(name);
    }
    for name in ["w/keys/a", "w/src/a.txt", "w/one.pem", "w/tool"] {
        scene.file(name, b"x");
    }
    fs::hard_link(scene.path("w/one.pem"), scene.path("w/hard")).expect("a link");
    symlink("real", scene.path("w/dir")).expect("a link");
    drop(UnixListener::bind(scene.path("w/real/socket")).expect("a socket"));
    scene
}

fn assay(scene: &Ordinary, who: Who, arguments: &[&str]) -> Command {
    let mut command = if who == Who::User { scene.assay(arguments) } else { Command::new(ASSAY) };
    if who == Who::Root {
        command.args(arguments).stdin(Stdio::null()).env("TMPDIR", "/tmp").env("HOME", scene.path(""));
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    }
    command.current_dir(scene.path("w"));
    command
}

/// The degradations of a policy, in words. Those of the launch and the observer are no matter of it.
fn told(list: &Value) -> BTreeSet<String> {
    let all = list.as_array().expect("degradations").iter();
    let of_policy =
        all.filter(|one| ["fs", "exec", "net"].contains(&one["component"].as_str().expect("a component")));
    let word = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    of_policy.map(|one| ["component", "reason", "detail"].map(|key| word(one, key)).join(" ")).collect()
}

/// What `check` says of it, when a run agrees.
fn agreed(scene: &Ordinary, who: Who, check: &[&str], run: &[&str]) -> BTreeSet<String> {
    let check = [&["policy", "check", "--format", "json"], check].concat();
    let output = assay(scene, who, &check).output().expect("assay runs");
    let said: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let (profile, evidence) = (scene.at("out/p.json"), scene.path("out/p.evidence.json"));
    drop(fs::remove_file(&evidence));
    let record = ["sandbox", "--enforce", "--allow-unobserved", "--profile", &profile];
    let run = [&record[..], &["--profile-format", "json"], run, &["--", "true"]].concat();
    let output = assay(scene, who, &run).output().expect("assay runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let evidence = json(&evidence);
    let degradations = told(&said["degradations"]);
    assert_eq!(degradations, told(&evidence["identity"]["degradations"]), "{run:?}");
    assert_eq!(said["not_governed"], evidence["observed"]["not_governed"], "{run:?}");

    // Rule by rule it is the same again: what is not held has its reason there, and what is there its rule.
    let reason = |line: &String| line.split(' ').nth(1).expect("a reason").to_owned();
    let reasons: BTreeSet<String> = degradations.iter().map(reason).collect();
    let rules = said["rules"].as_array().expect("rules");
    let unheld = || rules.iter().filter(|rule| rule["status"] == "not held");
    for rule in unheld() {
        let why = rule["why"].as_str().expect("reasons");
        assert!(why.split(", ").all(|word| reasons.contains(word)), "{rule} {degradations:?}");
    }
    for reason in reasons.iter().filter(|reason| reason.starts_with("deny-") || *reason == "address-not-held")
    {
        let names =
            |rule: &Value| rule["why"].as_str().is_some_and(|why| why.split(", ").any(|one| one == reason));
        assert!(unheld().any(names), "{reason}: {rules:#?}");
    }
    degradations
}

fn hold(who: Who) {
    let scene = scene();
    let open = "allow: [{path: '${WORKDIR}', access: [read, write, execute]}]";
    for row in ROWS {
        let policy = format!("api_version: assay/v1\n{}\n", row.policy.replace("OPEN", open));
        scene.file("policy.yaml", policy.as_bytes());
        let policy = scene.at("policy.yaml");
        let expect = if who == Who::Root { row.root.to_vec() } else { [row.user, &EVER].concat() };
        let expect: BTreeSet<String> = expect.into_iter().map(str::to_owned).collect();
        assert_eq!(agreed(&scene, who, &[&policy], &["--policy", &policy]), expect, "{}", row.policy);
    }
    // Of the built-in policy there is more than a row can name.
    assert!(agreed(&scene, who, &["--builtin"], &[]).len() > 10);
}

#[test]
fn what_a_check_says_is_what_a_run_holds() {
    if are_met("checked::what_a_check_says_is_what_a_run_holds", &NEEDS[..4]) {
        hold(Who::Root);
    }
}

#[test]
fn what_a_check_says_to_an_ordinary_user_is_what_their_run_holds() {
    if are_met("checked::what_a_check_says_to_an_ordinary_user_is_what_their_run_holds", &NEEDS) {
        hold(Who::User);
    }
}

/// Which of the names in a directory that can be entered, but not listed, a pattern means cannot be known.
#[test]
fn a_pattern_in_a_directory_that_cannot_be_listed_is_named() {
    if !are_met("checked::a_pattern_in_a_directory_that_cannot_be_listed_is_named", &NEEDS) {
        return;
    }
    let scene = scene();
    let directory = scene.directory("w/t");
    scene.file("w/t/a.s", b"x");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o311)).expect("a mode");
    // What does, and whether it goes through: what is denied there is not held, and what is allowed is not granted.
    for (rules, act, passes) in [
        ("allow: [{path: '${WORKDIR}', access: [read]}], deny: ['t/*.s']", "cat t/a.s", true),
        (
            "allow: [{path: '${WORKDIR}', access: [read, write]}], deny: [{path: 't/*.s', access: [write]}]",
            "echo x > t/a.s",
            true,
        ),
        ("allow: [{path: 't/*.s', access: [read]}]", "cat t/a.s", false),
    ] {
        scene.file("policy.yaml", format!("api_version: assay/v1\nfs: {{{rules}}}\n").as_bytes());
        let policy = scene.at("policy.yaml");
        let is_told = |who| {
            let told = agreed(&scene, who, &[&policy], &["--policy", &policy]);
            told.contains("fs pattern-not-listed t/*.s")
        };
        assert!(is_told(Who::User), "{rules}");
        // Root lists it.
        assert!(!is_told(Who::Root), "{rules}");
        let run = |mode| {
            let arguments =
                ["sandbox", mode, "--allow-unobserved", "--policy", &policy, "--", "sh", "-c", act];
            assay(&scene, Who::User, &arguments).output().expect("assay runs")
        };
        let held = run("--enforce");
        assert_eq!(held.status.success(), passes, "{rules}: {}", text(&held.stderr));
        let refused = run("--fail-closed");
        assert_eq!(refused.status.code(), Some(2), "{rules}: {}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains("t/*.s"), "{rules}: {}", text(&refused.stderr));
    }
}
