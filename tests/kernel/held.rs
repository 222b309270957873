//! A whole run held to its policy: what is learned is enough and no more.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::confined::Scene;
use crate::harness::sandbox::{sandbox, text};
use crate::needs::{Need, are_met};

const NEEDS: &[Need] = &[
    Need::Root,
    Need::Btf,
    Need::CgroupV2,
    Need::LandlockAbi(6),
    Need::Program("python3"),
    Need::Program("git"),
];

/// Runs a shell script in the work directory of the scene; the exit code, the status and what was printed.
fn run(scene: &Scene, options: &[&str], script: &str) -> (i32, Value, String) {
    let status = scene.path("status.json");
    let mut options = options.to_vec();
    options.extend(["--status-file", status.to_str().unwrap()]);
    let mut command = sandbox(&options, &["sh", "-c", script]);
    command.current_dir(scene.path("w")).env("HOME", scene.path("home")).env("LC_ALL", "C");
    command.env("TMPDIR", scene.path("tmp"));
    let output = command.output().expect("assay runs");
    let told =
        fs::read(&status).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    drop(fs::remove_file(&status));
    let printed = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().unwrap_or(-1), told, printed)
}

fn fresh(scene: &Scene) {
    drop(fs::remove_dir_all(scene.path("w")));
    fs::create_dir(scene.path("w")).unwrap();
    scene.file("w/src/a.txt", "one\n");
    scene.file("w/src/deep/b.txt", "two\n");
    scene.file("w/hello.c", "int main(void) { return 0; }\n");
    let git =
        "git init -q repo && cd repo && git -c user.name=n -c user.email=e commit -q --allow-empty -m x";
    let status =
        std::process::Command::new("sh").args(["-c", git]).current_dir(scene.path("w")).status().unwrap();
    assert!(status.success());
}

#[test]
fn what_was_learned_is_enough_and_no_more() {
    if !are_met("held::what_was_learned_is_enough_and_no_more", NEEDS) {
        return;
    }
    let commands = [
        "cat src/a.txt | sort | wc -l",
        "cp -a src copy && rm -r copy",
        "tar cf t.tar src && mkdir x && tar xf t.tar -C x",
        "sed -i s/one/three/ src/a.txt && mv src/a.txt src/c.txt",
        "git clone -q repo clone && git -C clone log --oneline >/dev/null",
        "python3 -c \"open('made', 'w').write('x'); print(open('made').read())\"",
        "python3 -c \"import socket as s; l = s.create_server(('127.0.0.1', 0)); s.create_connection(l.getsockname())\"",
        "find . -name '*.txt' -exec grep -l two {} +",
    ];
    for command in commands {
        let scene = Scene::new();
        let profile = scene.path("learned.yaml");
        let profile = profile.to_str().unwrap();
        fresh(&scene);
        let (code, _, printed) = run(&scene, &["--dry-run", "--profile", profile], command);
        assert!(code == 0 || code == 4, "{command}: {code} {printed}");
        fresh(&scene);
        let (code, status, printed) = run(&scene, &["--enforce", "--policy", profile], command);
        let learned = fs::read_to_string(profile).unwrap();
        assert_eq!(
            (code, &status["verdict"]),
            (0, &Value::from("ok")),
            "{command}: {printed}{status}\n{learned}"
        );
        fresh(&scene);
        let outside = scene.path("outside");
        let more = format!("{command}; echo x > {}", outside.display());
        let (_, status, printed) = run(&scene, &["--enforce", "--policy", profile], &more);
        assert_eq!(status["verdict"], "denied", "{command}: {printed}{status}\n{learned}");
        assert!(!outside.exists());
    }
}

/// A limit of learning: a secret that lies beneath what a run moves across stays closed, and the move fails; with the line
/// to remove it is told, and without that line the move is done.
#[test]
fn a_move_that_a_learned_deny_of_a_secret_stops_is_told_with_that_deny() {
    if !are_met("held::a_move_that_a_learned_deny_of_a_secret_stops_is_told_with_that_deny", NEEDS) {
        return;
    }
    let scene = Scene::new();
    let path = |name: &str| scene.path(name).into_os_string().into_string().unwrap();
    let fresh = || {
        drop(fs::remove_file(scene.path("home/moved")));
        scene.file("home/.config/gcloud/key", "secret\n");
        scene.file("home/.config/app/x", "x\n");
    };
    let act = "python3 -SIc \"import os; h = os.environ['HOME']; os.rename(h + '/.config/app/x', h + '/moved')\" 2>&1";
    fresh();
    let (code, _, printed) = run(&scene, &["--dry-run", "--profile", &path("learned.yaml")], act);
    assert!(code == 0 || code == 4, "{code} {printed}");
    let learned = fs::read_to_string(scene.path("learned.yaml")).unwrap();
    let denies = |line: &&str| line.contains("${HOME}/.config/gcloud");
    let line = learned.lines().position(|line| denies(&line)).expect(&learned) + 1;
    fresh();
    let (policy, again) = (path("learned.yaml"), path("again.json"));
    let options = ["--enforce", "--policy", &policy, "--profile", &again, "--profile-format", "json"];
    let (_, status, printed) = run(&scene, &options, act);
    assert_eq!(status["verdict"], "denied", "{printed}{status}\n{learned}");
    let evidence = crate::harness::sandbox::json(&scene.path("again.evidence.json"));
    let effects = evidence["observed"]["effects"]["fs"].as_array().unwrap();
    let denied: Vec<&Value> = effects.iter().filter(|effect| effect["result"] == "denied").collect();
    assert_eq!(denied.len(), 1, "{denied:#?}");
    let refused = &denied[0]["refused"];
    assert_eq!((&denied[0]["op"], &denied[0]["denied_by"]), (&"rename".into(), &"policy".into()));
    assert_eq!(refused["rule"], "${HOME}/.config/gcloud", "{refused}");
    assert!(
        refused["at"].as_str().unwrap().contains(&format!("learned.yaml:{line}:")),
        "{refused}\n{learned}"
    );
    let narrowed: Vec<&str> = learned.lines().filter(|line| !denies(line)).collect();
    fs::write(scene.path("learned.yaml"), narrowed.join("\n")).unwrap();
    fresh();
    // Other secrets beneath the same directory may be named too; then each is told, one after the other.
    for _ in 0..20 {
        let (_, status, printed) = run(&scene, &options, act);
        if status["verdict"] == "ok" {
            return;
        }
        let evidence = crate::harness::sandbox::json(&scene.path("again.evidence.json"));
        let effects = evidence["observed"]["effects"]["fs"].as_array().unwrap();
        let denied = effects.iter().find(|effect| effect["result"] == "denied").expect(&printed);
        let rule = denied["refused"]["rule"].as_str().expect("a rule").to_owned();
        let text = fs::read_to_string(scene.path("learned.yaml")).unwrap();
        let less: Vec<&str> = text.lines().filter(|line| !line.contains(&rule)).collect();
        assert!(less.len() < text.lines().count(), "{rule}\n{text}");
        fs::write(scene.path("learned.yaml"), less.join("\n")).unwrap();
        fresh();
    }
    panic!("the move was never done");
}

#[test]
fn a_denied_name_that_does_not_exist_is_held_where_all_must_be() {
    if !are_met("held::a_denied_name_that_does_not_exist_is_held_where_all_must_be", NEEDS) {
        return;
    }
    let scene = Scene::new();
    fresh(&scene);
    scene.file(
        "policy.yaml",
        "api_version: assay/v1\nfs:\n  allow: [{path: '${WORKDIR}', access: [read, write, execute]}]\n  deny: [{path: .vscode, access: [write]}, secret.txt, {path: .github/workflows, access: [write]}, {path: repo/.git/hooks/new, access: [write]}]\n",
    );
    let policy = scene.path("policy.yaml");
    let options = ["--fail-closed", "--enforce", "--policy", policy.to_str().unwrap()];
    let refused = |script: &str| {
        let (_, status, printed) = run(&scene, &options, &format!("({script}) && echo PASSED; true"));
        assert_eq!(status["child"]["exit_code"], 0, "{script}: {printed}{status}");
        assert!(!printed.contains("PASSED"), "{script}: {printed}");
    };
    refused("mkdir .vscode");
    refused("echo x > .vscode");
    refused("mkdir x && mv x .vscode");
    refused("rm .vscode");
    refused("echo x > secret.txt");
    refused("cat secret.txt");
    refused("mkdir -p .github/workflows && echo x > .github/workflows/ci.yml");
    refused("mv .github g2");
    refused("echo x > repo/.git/hooks/new");
    refused("ln src/a.txt .vscode");
    let fine = "echo y > made && cat made src/a.txt && mkdir -p .github && echo z > .github/other && rm src/deep/b.txt && mv src s2 && git -C repo status --short && ls -a s2";
    let (code, status, printed) = run(&scene, &options, fine);
    assert_eq!((code, &status["verdict"]), (0, &Value::from("ok")), "{printed}{status}");
    assert!(printed.starts_with("y\none\n"), "{printed}");
    // What the command did is there; what only it could see is not.
    assert_eq!(fs::read_to_string(scene.path("w/made")).unwrap(), "y\n");
    assert_eq!(fs::read_to_string(scene.path("w/.github/other")).unwrap(), "z\n");
    assert!(scene.path("w/s2/a.txt").exists() && !scene.path("w/s2/deep/b.txt").exists());
    for name in [".vscode", "secret.txt", ".github/workflows", "repo/.git/hooks/new"] {
        assert!(fs::symlink_metadata(scene.path("w").join(name)).is_err(), "{name} appeared");
    }
    assert_eq!(fs::read_dir(scene.path("tmp")).unwrap().count(), 0, "something is left behind");
    let (code, status, printed) = run_builtin(&scene, "echo x > made2 && cat made2");
    assert_eq!((code, &status["verdict"]), (0, &Value::from("ok")), "{printed}{status}");
}

/// The built-in policy with everything held.
fn run_builtin(scene: &Scene, script: &str) -> (i32, Value, String) {
    let status = scene.path("status.json");
    let mut command = std::process::Command::new(crate::harness::sandbox::ASSAY);
    command.args([
        "sandbox",
        "--fail-closed",
        "--enforce",
        "--status-file",
        status.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        script,
    ]);
    command.current_dir(scene.path("w")).env("HOME", scene.path("home"));
    let output = command.output().expect("assay runs");
    let told =
        fs::read(&status).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    (output.status.code().unwrap_or(-1), told, text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn a_command_that_the_policy_forbids_is_126_and_the_search_goes_on_past_it() {
    if !are_met("held::a_command_that_the_policy_forbids_is_126_and_the_search_goes_on_past_it", NEEDS) {
        return;
    }
    let scene = Scene::new();
    for (name, word) in [("denied/tool", "denied"), ("w/allowed/tool", "allowed")] {
        scene.file(name, &format!("#!/bin/sh\necho {word}\n"));
        fs::set_permissions(scene.path(name), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    scene.file(
        "policy.yaml",
        "api_version: assay/v1\nfs: {allow: [{path: '${WORKDIR}', access: [read, execute]}]}\n",
    );
    let policy = scene.path("policy.yaml");
    let start = |program: &str| {
        let options = ["--enforce", "--policy", policy.to_str().unwrap()];
        let mut command = sandbox(&options, &[program]);
        let path =
            format!("{}:{}:/usr/bin", scene.path("denied").display(), scene.path("w/allowed").display());
        let output = command.current_dir(scene.path("w")).env("PATH", path).output().unwrap();
        (output.status.code(), text(&output.stdout))
    };
    assert_eq!(start("tool"), (Some(0), "allowed\n".into()));
    assert_eq!(start(scene.path("denied/tool").to_str().unwrap()), (Some(126), String::new()));
    assert_eq!(start("no-such-tool"), (Some(127), String::new()));
}

#[test]
fn git_works_in_a_worktree_under_its_recipe() {
    if !are_met("held::git_works_in_a_worktree_under_its_recipe", NEEDS) {
        return;
    }
    let scene = Scene::new();
    fresh(&scene);
    fs::create_dir(scene.path("beside")).unwrap();
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides/policies/git.yaml");
    let allow = "fs: {allow: [{path: '${WORKDIR}/../beside', access: [read, write, execute]}]}";
    scene
        .file("policy.yaml", &format!("api_version: assay/v1\nextends: ['{}']\n{allow}\n", recipe.display()));
    let policy = scene.path("policy.yaml");
    let options = ["--policy", policy.to_str().unwrap()];
    let set_up = "git -C repo config extensions.worktreeConfig true && git -C repo config user.name n && git -C repo config user.email e";
    let status =
        std::process::Command::new("sh").args(["-c", set_up]).current_dir(scene.path("w")).status().unwrap();
    assert!(status.success());
    for place in ["inside", "../../beside"] {
        let branch = place.rsplit('/').next().unwrap();
        let script = format!(
            "cd repo && git worktree add -q {place} -b {branch} && cd {place} && echo x > f && git add f && git commit -qm x && git log --oneline | wc -l"
        );
        let (code, status, printed) = run(&scene, &options, &script);
        assert_eq!((code, &status["verdict"]), (0, &Value::from("ok")), "{place}: {printed}{status}");
        assert!(printed.starts_with("2\n"), "{printed}");
    }
}
