//! Device nodes under rules of their own: reading, writing, and what is asked of them by ioctl, with nothing allowed besides.

use std::process::Command;

use serde_json::Value;

use crate::confined::Scene;
use crate::harness::sandbox::{json, sandbox, text};
use crate::needs::{Need, are_met};

const NEEDS: &[Need] = &[Need::Root, Need::CgroupV2, Need::LandlockAbi(6), Need::Program("python3")];

/// What a program of the host needs, and nothing of the base.
const PROGRAMS: &str = "base: none\nfs:\n  allow:\n    - /usr\n    - /bin\n    - /lib\n    - /lib64\n    - {path: /etc/ld.so.cache, access: [read]}\n    - {path: '${WORKDIR}', access: [read, write, execute]}\n";

/// Opens a device, asks something of it, and says how far it came: ENOTTY is the device's own answer.
const ASK: &str = r#"
import errno, fcntl, os, sys
for path, mode, request in zip(*[iter(sys.argv[1:])] * 3):
    try:
        flags = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}[mode]
        device = os.open(path, flags | os.O_NOCTTY)
    except OSError as error:
        print(path, mode, "open", errno.errorcode[error.errno])
        continue
    try:
        fcntl.ioctl(device, int(request, 16), bytes(64))
        print(path, mode, "answered")
    except OSError as error:
        print(path, mode, "ioctl", errno.errorcode[error.errno])
"#;

/// `TCGETS`, and `TIOCGPTN`: the number of the other end.
const ASKED: &str = "/dev/null rw 5401 /dev/null r 5401 /dev/zero r 5401 /dev/zero w 5401 /dev/ptmx rw 80045430 /dev/ptmx r 80045430 /dev/full r 5401";

fn told(devices: &str) -> Vec<String> {
    let scene = Scene::new();
    scene.file("w/ask.py", ASK);
    let policy = scene.policy(&format!("{PROGRAMS}{devices}"));
    // Past one that lies where the policy does not look.
    scene.lines(&policy, &format!("exec /usr/bin/python3 -SI ask.py {ASKED}"))
}

#[test]
fn what_is_asked_of_a_device_needs_the_right_to_write_it() {
    if !are_met("devices::what_is_asked_of_a_device_needs_the_right_to_write_it", NEEDS) {
        return;
    }
    let rule = |path: &str, access: &str| format!("    - {{path: {path}, access: [{access}]}}\n");
    let both =
        rule("/dev/null", "read, write") + &rule("/dev/zero", "read") + &rule("/dev/ptmx", "read, write");
    assert_eq!(
        told(&(both + &rule("/dev/pts", "read, write"))),
        [
            "/dev/null rw ioctl ENOTTY",
            "/dev/null r ioctl ENOTTY",
            "/dev/zero r ioctl EACCES",
            "/dev/zero w open EACCES",
            "/dev/ptmx rw answered",
            "/dev/ptmx r answered",
            "/dev/full r open EACCES",
        ]
    );
    let read = rule("/dev/null", "read") + &rule("/dev/ptmx", "read") + &rule("/dev/pts", "read");
    assert_eq!(
        told(&read),
        [
            "/dev/null rw open EACCES",
            "/dev/null r ioctl EACCES",
            "/dev/zero r open EACCES",
            "/dev/zero w open EACCES",
            "/dev/ptmx rw open EACCES",
            "/dev/ptmx r ioctl EACCES",
            "/dev/full r open EACCES",
        ]
    );
}

/// A rule about a device file gives what a file can have, and no right of a directory.
#[test]
fn a_device_that_a_rule_names_works_without_the_base() {
    if !are_met("devices::a_device_that_a_rule_names_works_without_the_base", NEEDS) {
        return;
    }
    let scene = Scene::new();
    let script = "echo x >/dev/null && echo written; cat /dev/null && echo read; head -c3 /dev/zero | wc -c; (echo x >/dev/full) 2>/dev/null || echo closed";
    for rule in
        ["{path: /dev/null, access: [read, write]}", "{path: /dev/null, access: [read, write, execute]}"]
    {
        let policy =
            scene.policy(&format!("{PROGRAMS}    - {rule}\n    - {{path: /dev/zero, access: [read]}}\n"));
        let lines = scene.lines(&policy, script);
        assert_eq!(lines, ["written", "read", "3", "closed"], "{rule}");
    }
    let policy = scene.policy(&format!("{PROGRAMS}    - {{path: /dev, access: [read, write]}}\n"));
    assert_eq!(scene.lines(&policy, script)[..3], ["written", "read", "3"]);
}

/// A block device that shows a file; nobody's afterwards.
struct Disk(String);

impl Disk {
    fn of(file: &std::path::Path) -> Self {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().expect("losetup");
        assert!(output.status.success(), "{}", text(&output.stderr));
        Self(text(&output.stdout).trim().to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("losetup").args(["--detach", &self.0]).status());
    }
}

/// What of this a root child does with the disk, and the refusal of each kind of access to it.
fn at_disk(scene: &Scene, disk: &str, policy: &str, options: &[&str]) -> (String, Vec<Value>) {
    scene.file("policy.yaml", &format!("api_version: assay/v1\nfs: {{{policy}}}\n"));
    let script = "dd if=\"$0\" bs=6 count=1 2>/dev/null && echo
(printf CHANGE 1<>\"$0\") 2>/dev/null && sync && echo written
dd if=secret bs=6 count=1 2>/dev/null && echo opened
free=$(losetup --find) && losetup \"$free\" secret 2>/dev/null && {
    echo attached
    (printf CHANGE 1<>\"$free\") 2>/dev/null && sync && echo changed
    losetup --detach \"$free\"
}
true";
    let (policy, profile) = (scene.path("policy.yaml"), scene.path("run.json"));
    let mut all = vec!["--policy", policy.to_str().unwrap(), "--profile", profile.to_str().unwrap()];
    all.extend(["--profile-format", "json"]);
    all.extend(options);
    let mut assay = sandbox(&all, &["sh", "-c", script, disk]);
    let output = assay.current_dir(scene.path("w")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let evidence = json(&scene.path("run.evidence.json"));
    let effects = evidence["observed"]["effects"]["fs"].as_array().unwrap().clone();
    (text(&output.stdout), effects.into_iter().filter(|effect| effect["path"] == disk).collect())
}

/// By the disk that a file lies on it could be read past its name.
#[test]
fn a_disk_is_no_way_around_a_deny() {
    let needed = [NEEDS, &[Need::Btf, Need::LoopDevices, Need::Program("losetup")]].concat();
    if !are_met("devices::a_disk_is_no_way_around_a_deny", &needed) {
        return;
    }
    let scene = Scene::new();
    let content = format!("SECRET{}", ".".repeat(4090));
    scene.file("w/secret", &content);
    let disk = Disk::of(&scene.path("w/secret"));
    let open = "{path: /, access: [read, write, execute]}";
    for caps in [&[][..], &["--keep-caps", "SYS_ADMIN"]] {
        let (done, effects) = at_disk(&scene, &disk.0, &format!("allow: [{open}], deny: [secret]"), caps);
        assert_eq!(done, "", "{caps:?}");
        for op in ["read", "write"] {
            let effect = effects.iter().find(|effect| effect["op"] == op).expect(op);
            assert_eq!((&effect["result"], &effect["denied_by"]), (&"denied".into(), &"policy".into()));
            assert_eq!(effect["refused"]["rule"], format!("secret (by the block device {})", disk.0));
        }
        // What may not be written makes no disk that may.
        let deny = "deny: [{path: secret, access: [write]}]";
        let named = format!("allow: [{open}, {{path: '/dev/loop*', access: [read, write]}}], {deny}");
        let (done, _) = at_disk(&scene, "/dev/null", &named, caps);
        assert_eq!(done, "\nwritten\nSECRETopened\nattached\n");
        assert_eq!(std::fs::read_to_string(scene.path("w/secret")).unwrap(), content);
        // Whoever names a disk means it.
        let named = format!("allow: [{open}, {{path: {}, access: [read]}}], deny: [secret]", disk.0);
        let (done, effects) = at_disk(&scene, &disk.0, &named, caps);
        assert!(done.starts_with("SECRET\n"), "{done}");
        assert!(effects.iter().all(|effect| effect["op"] != "read" || effect["authorised"] == true));
        // Without a deny there is nothing to go around.
        scene.file("w/secret", &content);
        let (done, _) = at_disk(&scene, &disk.0, &format!("allow: [{open}]"), caps);
        assert!(done.starts_with("SECRET\nwritten\nCHANGE"), "{done}");
        scene.file("w/secret", &content);
    }
}
