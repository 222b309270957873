//! An ordinary user, without `sudo`: with capabilities on the program's file, in a control group that was delegated.
//!
//! What the doctor says is typed as it stands, and what each capability is for is tried with and without it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::harness::sandbox::{ASSAY, cgroup_roots, text};
use crate::needs::{Need, are_met};

const NEEDS: [Need; 6] = [
    Need::Root,
    Need::Btf,
    Need::CgroupV2,
    Need::LandlockAbi(6),
    Need::Program("setcap"),
    Need::Program("setpriv"),
];

const USER: u32 = 4242;

/// A copy of the program, a work directory of the user's, and a control group above the user's own.
struct Place {
    folder: tempfile::TempDir,
    group: PathBuf,
}

impl Place {
    fn new(name: &str) -> Option<Self> {
        if !are_met(&format!("capable::{name}"), &NEEDS) {
            return None;
        }
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        fs::copy(ASSAY, folder.path().join("assay")).expect("a copy");
        for (name, content) in [("w/kept/secret", "secret\n"), ("w/open", "open\n"), ("w/run/x", "")] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder above")).expect("a folder");
            fs::write(path, content).expect("a file");
        }
        for name in ["w", "w/kept", "w/kept/secret", "w/open", "w/run"] {
            chown(folder.path().join(name), Some(USER), Some(USER)).expect("its owner");
        }
        let root = cgroup_roots().into_iter().next().expect("a hierarchy");
        let group = root.join(format!("capable-{}-{name}", std::process::id()));
        fs::create_dir(&group).expect("a group");
        Some(Self { folder, group })
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("assay")
    }

    /// Joins the group as root, types `first` there, and goes on as the user with `command`.
    fn typed(&self, first: &[String], command: &[&str]) -> Output {
        // There is no sudo on many machines; here root already types.
        let script = format!(
            "echo $$ > {}/cgroup.procs\nsudo() {{ \"$@\"; }}\n{}\nexec setpriv --reuid {USER} --regid {USER} --clear-groups \"$@\"",
            self.group.display(),
            first.join("\n"),
        );
        let mut shell = Command::new("sh");
        shell.args(["-ec", &script, "sh"]).arg(self.program()).args(command).stdin(Stdio::null());
        shell.current_dir(self.folder.path().join("w")).env("HOME", self.folder.path().join("w/run"));
        shell.env_remove("SUDO_UID").env_remove("SUDO_GID").env_remove("LD_LIBRARY_PATH");
        shell.output().expect("a shell")
    }

    /// What the doctor says to the user, after this was typed.
    fn doctor(&self, first: &[String]) -> (Option<i32>, Value) {
        let output = self.typed(first, &["doctor", "--format", "json"]);
        let said =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        (output.status.code(), said)
    }

    /// The group that a user's administrator delegates.
    fn delegated(&self) -> Vec<String> {
        let mine = self.group.join("mine").display().to_string();
        vec![
            format!("sudo mkdir -p {mine}"),
            format!("sudo chown {USER} {mine} {mine}/cgroup.procs"),
            format!("echo $$ | sudo tee {mine}/cgroup.procs > /dev/null"),
        ]
    }

    fn setcap(&self, capabilities: &str) {
        let set = Command::new("setcap").arg(format!("{capabilities}+ep")).arg(self.program()).status();
        assert!(set.expect("setcap").success(), "{capabilities}");
    }

    fn evidence(&self) -> Value {
        let bytes = fs::read(self.folder.path().join("w/run/p.evidence.json")).expect("evidence");
        serde_json::from_slice(&bytes).expect("JSON")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for below in fs::read_dir(&self.group).into_iter().flatten().flatten() {
            drop(fs::remove_dir(below.path()));
        }
        drop(fs::remove_dir(&self.group));
    }
}

fn check<'a>(said: &'a Value, name: &str) -> &'a Value {
    let checks = said["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no `{name}`: {said:#}"))
}

/// The commands of the way out of a check that has this word.
fn commands(said: &Value, name: &str, word: &str) -> Vec<String> {
    let ways = check(said, name)["fix"].as_array().expect("ways");
    let commands = |way: &Value| -> Vec<String> {
        let all = way["commands"].as_array().expect("commands");
        all.iter().map(|one| one.as_str().expect("a command").to_owned()).collect()
    };
    ways.iter().map(commands).find(|all| all.iter().any(|one| one.contains(word))).unwrap_or_else(|| {
        panic!("{name} has no way with `{word}`: {said:#}");
    })
}

#[test]
fn what_the_doctor_says_to_type_gives_an_ordinary_user_all_that_is_missing() {
    let Some(place) = Place::new("what_the_doctor_says_to_type_gives_an_ordinary_user_all_that_is_missing")
    else {
        return;
    };
    let (code, said) = place.doctor(&[]);
    assert_eq!(code, Some(2), "{said:#}");
    for name in ["capabilities", "bpf", "cgroup v2"] {
        assert_eq!(check(&said, name)["state"], "missing", "{said:#}");
    }
    let typed = [commands(&said, "capabilities", "setcap"), commands(&said, "cgroup v2", "mkdir")].concat();
    let quiet: Vec<String> = typed.iter().map(|line| format!("{line} > /dev/null")).collect();
    let (code, said) = place.doctor(&quiet);
    assert_eq!(code, Some(0), "{typed:?} {said:#}");
    for name in
        ["user", "capabilities", "bpf", "cgroup v2", "observer", "deny inside an allow", "addresses and UDP"]
    {
        assert_eq!(check(&said, name)["state"], "ok", "{name}: {said:#}");
    }
}

#[test]
fn each_capability_gives_what_the_page_says_and_what_is_without_it_is_told() {
    let Some(place) = Place::new("each_capability_gives_what_the_page_says_and_what_is_without_it_is_told")
    else {
        return;
    };
    let page = include_str!("../../docs/guides/install.md");
    for (capabilities, net, lacks) in [
        ("cap_bpf,cap_perfmon", "partial", &["bounding-set-kept", "cgroup-writable"][..]),
        ("cap_bpf,cap_perfmon,cap_net_admin", "complete", &["bounding-set-kept", "cgroup-writable"]),
        ("cap_bpf,cap_perfmon,cap_net_admin,cap_sys_admin", "complete", &["bounding-set-kept"]),
        ("cap_bpf,cap_perfmon,cap_net_admin,cap_sys_admin,cap_setpcap", "complete", &[]),
    ] {
        place.setcap(capabilities);
        let script = "grep -h CapPrm /proc/self/status; cat open";
        let options =
            ["sandbox", "--dry-run", "--keep-caps", "SYS_ADMIN", "--profile-format", "json", "--profile"];
        let output = place
            .typed(&place.delegated(), &[&options[..], &["run/p.json", "--", "sh", "-c", script]].concat());
        // The command itself has none, whatever it asks to keep.
        assert_eq!(
            text(&output.stdout),
            "CapPrm:\t0000000000000000\nopen\n",
            "{capabilities}: {}",
            text(&output.stderr)
        );
        let evidence = place.evidence();
        let coverage = &evidence["coverage"];
        assert_eq!(coverage["fs"], "complete", "{capabilities}: {coverage:#}");
        assert_eq!(coverage["exec"], "complete", "{capabilities}: {coverage:#}");
        assert_eq!(coverage["net"], net, "{capabilities}: {coverage:#}");
        let told = evidence["identity"]["degradations"].as_array().expect("degradations");
        let told = told.iter().map(|one| one["reason"].as_str().expect("a reason"));
        // What was asked to be kept is told as that; the command has it not.
        let told: Vec<&str> = told.filter(|reason| *reason != "kept-by-option").collect();
        assert_eq!(told, lacks, "{capabilities}: {evidence:#}");
        let row = page.lines().find(|line| line.starts_with(&format!("| `{capabilities}` |")));
        let row = row.unwrap_or_else(|| panic!("install.md has no row for {capabilities}"));
        assert!(lacks.iter().all(|reason| row.contains(&format!("`{reason}`"))), "{row}");
    }
}

#[test]
fn with_all_of_them_a_policy_is_held_as_for_root() {
    let Some(place) = Place::new("with_all_of_them_a_policy_is_held_as_for_root") else { return };
    place.setcap("cap_bpf,cap_perfmon,cap_net_admin,cap_sys_admin,cap_setpcap");
    let policy = "api_version: assay/v1\nfs:\n  allow:\n    - {path: '${WORKDIR}', access: [read, write, execute]}\n  deny: [kept]\n\
        net: {allow: ['127.0.0.1:1']}\n";
    fs::write(place.folder.path().join("policy.yaml"), policy).expect("a policy");
    let script = "exec 2>/dev/null; cat open; (cat kept/secret) && echo READ; (mv kept other) && echo MOVED
python3 -c \"
import socket
for end in ('127.0.0.1', 1), ('127.0.0.2', 1), ('127.0.0.1', 9):
    s = socket.socket()
    try: s.connect(end)
    except OSError as e: print(end, e.errno)
\"; exit 0";
    let options = [
        "sandbox",
        "--enforce",
        "--fail-closed",
        "--policy",
        "../policy.yaml",
        "--status-file",
        "run/status",
    ];
    let output = place.typed(&place.delegated(), &[&options[..], &["--", "sh", "-c", script]].concat());
    // Refused by the peer, by a program on the group, which alone can tell addresses apart, and by Landlock.
    let expect = "open\n('127.0.0.1', 1) 111\n('127.0.0.2', 1) 1\n('127.0.0.1', 9) 13\n";
    assert_eq!(text(&output.stdout), expect, "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let status: Value =
        serde_json::from_slice(&fs::read(place.folder.path().join("w/run/status")).expect("a status"))
            .expect("JSON");
    assert_eq!(status["verdict"], "denied", "{status:#}");
    assert!(is_below(&place.group).is_empty(), "a group is left");
}

/// The groups that runs left beneath the user's.
fn is_below(group: &Path) -> Vec<PathBuf> {
    let mine = fs::read_dir(group.join("mine")).expect("the user's group");
    mine.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
