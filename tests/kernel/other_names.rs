//! Denied files by the names they had before the run began, and what `/proc` shows of processes outside it.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::confined::Scene;
use crate::harness::sandbox::{sandbox, text};
use crate::needs::{Need, are_met};

const NEEDS: &[Need] = &[Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(2)];

/// How a run came out.
struct Ran {
    code: i32,
    printed: String,
    verdict: String,
    evidence: Value,
}

impl Ran {
    /// The degradations about files, `reason detail`.
    fn degradations(&self) -> Vec<String> {
        let all = self.evidence["identity"]["degradations"].as_array().into_iter().flatten();
        let about_files = all.filter(|one| one["component"] == "fs");
        about_files
            .map(|one| format!("{} {}", one["reason"].as_str().unwrap(), one["detail"].as_str().unwrap()))
            .collect()
    }

    /// Whether the identity has this effect, with the result and who denied it or whether it was authorised.
    fn has(&self, op: &str, path: &str, result: &str) -> bool {
        let fs = self.evidence["identity"]["effects"]["fs"].as_array().into_iter().flatten();
        fs.into_iter()
            .any(|effect| effect["op"] == op && effect["path"] == path && effect["result"] == result)
    }
}

fn run(scene: &Scene, options: &[&str], policy: &str, script: &str) -> Ran {
    scene.file("policy.yaml", &format!("api_version: assay/v1\n{policy}\n"));
    let (file, status) = (scene.path("policy.yaml"), scene.path("status.json"));
    let profile = scene.path("profile.json");
    let mut all = options.to_vec();
    all.extend(["--policy", file.to_str().unwrap(), "--status-file", status.to_str().unwrap()]);
    all.extend(["--profile", profile.to_str().unwrap(), "--profile-format", "json"]);
    let mut command = sandbox(&all, &["sh", "-c", script]);
    command.current_dir(scene.path("w")).env("HOME", scene.path("home")).env("LC_ALL", "C");
    let output = command.output().expect("assay runs");
    let read = |name: &str| -> Value {
        let bytes = fs::read(scene.path(name)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    };
    Ran {
        code: output.status.code().unwrap_or(-1),
        printed: text(&output.stdout) + &text(&output.stderr),
        verdict: read("status.json")["verdict"].as_str().unwrap_or_default().to_owned(),
        evidence: read("profile.evidence.json"),
    }
}

const OPEN: &str = "{path: '${WORKDIR}', access: [read, write, execute]}";

#[test]
fn a_hard_link_from_before_the_run_leads_to_no_denied_file() {
    if !are_met("other_names::a_hard_link_from_before_the_run_leads_to_no_denied_file", NEEDS) {
        return;
    }
    let scene = Scene::new();
    scene.file("w/config", "config\n");
    scene.file("home/.keys/key", "key\n");
    fs::create_dir_all(scene.path("w/deep/er")).unwrap();
    fs::hard_link(scene.path("w/config"), scene.path("w/deep/config2")).unwrap();
    fs::hard_link(scene.path("home/.keys/key"), scene.path("w/deep/er/copy")).unwrap();
    let policy = format!("fs: {{allow: [{OPEN}], deny: [{{path: config, access: [write]}}, '~/.keys']}}");
    let script = "echo x >> deep/config2; echo x >> config; cat deep/config2; cat deep/er/copy; mv deep d2; rm deep/er/copy; ln deep/er/copy c; echo x > deep/new; cat deep/new";
    for options in [&["--enforce"][..], &[], &["--fail-closed"]] {
        let ran = run(&scene, options, &policy, script);
        assert_eq!(
            ran.printed.lines().filter(|line| !line.contains(':')).collect::<Vec<_>>(),
            ["config", "x"],
            "{}",
            ran.printed
        );
        assert_eq!((ran.code, ran.verdict.as_str()), (0, "denied"), "{}", ran.printed);
        assert_eq!(ran.degradations(), [""; 0]);
        assert!(ran.has("write", "${WORKDIR}/deep/config2", "denied"));
        assert!(ran.has("read", "${WORKDIR}/deep/er/copy", "denied"));
    }
    assert_eq!(fs::read_to_string(scene.path("w/config")).unwrap(), "config\n");
    assert_eq!(fs::read_to_string(scene.path("home/.keys/key")).unwrap(), "key\n");
    let ran = run(&scene, &["--dry-run"], &policy, "cat deep/er/copy; echo x >> deep/config2");
    assert_eq!((ran.code, ran.verdict.as_str()), (4, "unauthorised"), "{}", ran.printed);
}

#[test]
fn a_mount_from_before_the_run_leads_to_no_denied_file() {
    if !are_met("other_names::a_mount_from_before_the_run_leads_to_no_denied_file", NEEDS) {
        return;
    }
    let scene = Scene::new();
    scene.file("secret/key", "key\n");
    scene.file("secret/.env", "env\n");
    scene.file("w/shown/x", "");
    let (from, to) = (scene.path("secret"), scene.path("w/shown"));
    let policy =
        format!("fs: {{allow: [{OPEN}], deny: [../secret/key, '../secret/**/.env', ../secret/later]}}");
    scene.file("policy.yaml", &format!("api_version: assay/v1\n{policy}\n"));
    let file = scene.path("policy.yaml");
    // In a mount namespace of its own, so that nothing is left behind.
    let mount = format!(
        "mount --make-rprivate / && mount --bind '{}' '{}' && exec \"$@\"",
        from.display(),
        to.display()
    );
    let assay = sandbox(
        &["--enforce", "--policy", file.to_str().unwrap()],
        &[
            "sh",
            "-c",
            "cat shown/key; cat shown/.env; echo x > shown/key; echo free > shown/other; cat shown/other",
        ],
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &mount, "sh"]).arg(assay.get_program()).args(assay.get_args());
    command.current_dir(scene.path("w")).env("HOME", scene.path("home")).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(text(&output.stdout), "free\n", "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(scene.path("secret/key")).unwrap(), "key\n");
}

/// One link that several mounts show is one, what is mounted on a file is none, and a link is denied wherever it is shown.
#[test]
fn what_mounts_show_twice_hides_no_hard_link() {
    if !are_met("other_names::what_mounts_show_twice_hides_no_hard_link", NEEDS) {
        return;
    }
    // The mounts, and how the file that is not denied by its own name is reached.
    let ways = [
        ("the denied link twice", "mount --bind real mnt", "w/copy"),
        ("the denied file on a file", "mount --bind real/s/key a/on", "w/copy"),
        ("the other link on a file", "mount --bind out/copy a/on", "a/on"),
        ("the other link twice", "mount --bind w mnt", "mnt/copy"),
        (
            "another filesystem beneath",
            "mount -t tmpfs none mnt && mkdir mnt/deep && mount --bind w mnt/deep",
            "mnt/deep/copy",
        ),
    ];
    for (what, mounts, reached) in ways {
        let scene = Scene::new();
        scene.file("real/s/key", "key\n");
        for file in ["a/on", "mnt/none", "out/none", "w/free"] {
            scene.file(file, "free\n");
        }
        let folder = if what == "the other link on a file" { "out" } else { "w" };
        fs::hard_link(scene.path("real/s/key"), scene.path(&format!("{folder}/copy"))).unwrap();
        let allows = ["a", "mnt", "w"].map(|name| format!("{{path: ../{name}, access: [read, write]}}"));
        let policy = format!("fs: {{allow: [{}], deny: [../real/s]}}", allows.join(", "));
        scene.file("policy.yaml", &format!("api_version: assay/v1\n{policy}\n"));
        let file = scene.path("policy.yaml");
        let script = format!("cat ../{reached}; cat ../mnt/s/key; cat ../a/on | grep -v free; cat free");
        let assay = sandbox(&["--enforce", "--policy", file.to_str().unwrap()], &["sh", "-c", &script]);
        let mount = format!(
            "mount --make-rprivate / && cd '{}' && {mounts} && cd w && exec \"$@\"",
            scene.path("").display()
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &mount, "sh"]).arg(assay.get_program()).args(assay.get_args());
        command.current_dir(scene.path("w")).env("HOME", scene.path("home")).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(text(&output.stdout), "free\n", "{what}: {}", text(&output.stderr));
        assert!(
            text(&output.stderr).contains(&format!("{reached}: Permission denied")),
            "{what}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn what_may_be_written_but_not_read_is_hidden_and_told() {
    if !are_met("other_names::what_may_be_written_but_not_read_is_hidden_and_told", NEEDS) {
        return;
    }
    let scene = Scene::new();
    scene.file("w/log", "old\n");
    let policy = format!("fs: {{allow: [{OPEN}], deny: [{{path: log, access: [read]}}]}}");
    let ran = run(&scene, &["--enforce"], &policy, "cat log; echo x >> log; true");
    assert_eq!(ran.degradations(), ["allow-hidden ${WORKDIR}/log"]);
    assert!(ran.has("read", "${WORKDIR}/log", "denied") && ran.has("write", "${WORKDIR}/log", "denied"));
    assert_eq!(run(&scene, &["--fail-closed"], &policy, "true").code, 2);
    assert_eq!(fs::read_to_string(scene.path("w/log")).unwrap(), "old\n");
}

/// A process outside the run, with a secret in each place where `/proc` would show one.
struct Outside(std::process::Child);

impl Drop for Outside {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn of_other_processes_nothing_is_seen() {
    if !are_met("other_names::of_other_processes_nothing_is_seen", NEEDS) {
        return;
    }
    let scene = Scene::new();
    scene.file("outside/file", "secret-file\n");
    let mut command = Command::new("sleep");
    command.arg("600.25").current_dir(scene.path("outside"));
    command.env("SECRET", "secret-variable").stdin(fs::File::open(scene.path("outside/file")).unwrap());
    let outside = Outside(command.spawn().unwrap());
    let pid = outside.0.id();
    let policy = format!("fs: {{allow: [{OPEN}]}}");
    let script = format!(
        "cd /proc/{pid} && echo ENTERED; for f in cmdline environ status stat comm maps fd/0 root/etc/passwd cwd/file mem task/{pid}/comm net/unix; do head -c 200 /proc/{pid}/$f; done; ls /proc/{pid} /proc/{pid}/fd; readlink /proc/{pid}/exe; ls -d /proc/{pid}; for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done"
    );
    let script = format!(
        "({script}) 2>/dev/null; grep -c ^Pid: /proc/$$/status; test -r /proc/self/mounts && echo own"
    );
    for options in [&["--enforce"][..], &[]] {
        let ran = run(&scene, options, &policy, &script);
        let seen: Vec<&str> = ran
            .printed
            .lines()
            .filter(|line| !line.is_empty() && !line.contains("sh -c") && !line.starts_with("tr "))
            .collect();
        assert_eq!(seen, ["1", "own"], "{}", ran.printed);
        assert!(!ran.printed.contains("600.25"), "{}", ran.printed);
        assert!(ran.has("read", "/proc/${OTHER_PID}/environ", "denied"), "{}", ran.evidence["identity"]);
        assert_eq!((ran.verdict.as_str(), ran.degradations()), ("denied", Vec::new()));
    }
    // Whoever asks for it gets it, as far as Landlock lets it.
    let asked = format!("fs: {{allow: [{OPEN}, {{path: /proc, access: [read]}}]}}");
    let ran = run(&scene, &["--enforce"], &asked, &format!("cat /proc/{pid}/comm; cat /proc/{pid}/environ"));
    assert!(
        ran.printed.starts_with("sleep\n") && !ran.printed.contains("secret-variable"),
        "{}",
        ran.printed
    );
    // In a dry run nothing changes, and it is told.
    let ran = run(&scene, &["--dry-run"], &policy, &format!("cat /proc/{pid}/comm"));
    assert_eq!((ran.code, ran.verdict.as_str()), (4, "unauthorised"), "{}", ran.printed);
    assert!(ran.printed.starts_with("sleep\n"), "{}", ran.printed);
}
