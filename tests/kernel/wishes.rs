//! What a root command may wish: to undo what observes and holds it. Without the capabilities that are dropped all of it
//! comes to nothing; what one that the user kept grants is in the record, and what was done to the observer itself makes
//! coverage partial.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::confined::Scene;
use crate::harness::sandbox::{json, sandbox, text};
use crate::needs::{Need, are_met};

const NEEDS: &[Need] =
    &[Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(6), Need::Program("python3")];
const POLICY: &str = "api_version: assay/v1\nfs:\n  allow: [{path: '${WORKDIR}', access: [read, write, execute]}]\n  deny: [{path: .git/hooks, access: [write]}, ../secret]\n";

/// What of a wish that is granted must be in the record.
enum Admitted {
    /// Coverage is partial for this reason.
    Coverage(&'static str),
    /// This effect on this path.
    Effect(&'static str, &'static str),
    /// Nothing was done to anything: it looked at what is not governed, or changed what it sees itself.
    Harmless,
}

use Admitted::{Coverage, Effect, Harmless};

/// Every wish that some capability or the lack of enforcement grants.
const ADMISSIONS: &[(&str, Admitted)] = &[
    ("trace the observer", Coverage("other-process")),
    ("write the observer's memory", Coverage("other-process")),
    ("read the observer's memory by call", Coverage("other-process")),
    ("read the observer's environment", Effect("read", "/proc/${OTHER_PID}/environ")),
    ("read the observer's memory", Effect("read", "/proc/${OTHER_PID}/maps")),
    ("take the observer's descriptor", Effect("read", "/dev/null")),
    ("see the observer", Harmless),
    ("list what the observer has open", Effect("list", "/proc/${OTHER_PID}/fd")),
    ("see init", Effect("read", "/proc/${OTHER_PID}/status")),
    ("leave the group by a mount of its own", Coverage("left-cgroup")),
    ("list bpf links", Coverage("bpf-call")),
    ("replace the programs that hold it", Coverage("bpf-call")),
    ("detach the links that hold it", Coverage("bpf-call")),
    ("pin the observer's maps", Coverage("bpf-call")),
    ("watch the kernel", Harmless),
    ("mount over a denied path", Effect("mount", "${WORKDIR}/.git/hooks")),
    ("bind over a denied path", Effect("mount", "${WORKDIR}/.git/hooks")),
    ("remount it writable", Effect("mount", "${WORKDIR}/.git/hooks")),
    ("make its mount writable", Effect("mount", "${WORKDIR}/.git/hooks")),
    ("unmount it", Effect("mount", "${WORKDIR}/.git/hooks")),
    ("enter the host's mounts", Coverage("other-namespace")),
    ("enter the observer's mounts", Coverage("other-namespace")),
    ("enter the observer's groups", Coverage("other-namespace")),
    ("change the root", Harmless),
    ("make a device", Effect("create", "${WORKDIR}/device")),
    ("read the denied file by its handle", Effect("read", "${WORKDIR}/../secret")),
    ("write a hook", Effect("create", "${WORKDIR}/.git/hooks/pre-commit")),
];

/// What a run of the wishes came to.
struct Told {
    scene: Scene,
    granted: BTreeSet<String>,
    tried: usize,
    verdict: Value,
    evidence: Value,
}

impl Told {
    fn has_effect(&self, op: &str, path: &str) -> bool {
        let secret = self.scene.path("secret");
        let path = path.replace("${WORKDIR}/../secret", secret.to_str().expect("a plain name"));
        let effects = self.evidence["identity"]["effects"]["fs"].as_array().expect("effects");
        effects
            .iter()
            .any(|effect| effect["op"] == op && effect["path"] == path.as_str() && effect["result"] == "ok")
    }

    /// The kinds that are partial for this reason.
    fn partial(&self, reason: &str) -> BTreeSet<&str> {
        let reasons = self.evidence["coverage"]["reasons"].as_array().expect("reasons");
        let of = reasons.iter().filter(|told| told["reason"] == reason);
        of.filter_map(|told| told["kind"].as_str()).collect()
    }
}

/// Lets a command wish.
fn wish(options: &[&str], argument: &str) -> Told {
    let scene = Scene::new();
    scene.file("w/.git/hooks/x", "");
    scene.file("secret", "secret\n");
    scene.file("w/wishes.py", include_str!("wishes.py"));
    scene.file("policy.yaml", POLICY);
    let [policy, status, profile] = ["policy.yaml", "status.json", "run.json"].map(|name| scene.path(name));
    let mut all = vec!["--policy", policy.to_str().unwrap(), "--status-file", status.to_str().unwrap()];
    all.extend(["--profile", profile.to_str().unwrap(), "--profile-format", "json"]);
    all.extend(options);
    // Past one that lies where the policy does not look.
    let script = format!("exec python3 wishes.py {argument}");
    let mut command = sandbox(&all, &["sh", "-c", &script]);
    command.current_dir(scene.path("w")).env("HOME", scene.path("home")).env("TMPDIR", scene.path("tmp"));
    let output = command.output().expect("assay runs");
    let printed = text(&output.stdout);
    let status = json(&status);
    assert_eq!(status["child"]["exit_code"], 0, "{options:?}: {printed}{}{status}", text(&output.stderr));
    assert!(!printed.contains("BROKEN"), "{printed}");
    let after = |word: &str, line: &str| line.strip_prefix(word).map(str::to_owned);
    let tried = printed.lines().find_map(|line| after("tried ", line)?.parse().ok()).unwrap_or(0);
    Told {
        granted: printed.lines().filter_map(|line| after("GRANTED: ", line)).collect(),
        tried,
        verdict: status["verdict"].clone(),
        evidence: json(&scene.path("run.evidence.json")),
        scene,
    }
}

#[test]
fn roots_wishes_come_to_nothing() {
    if !are_met("wishes::roots_wishes_come_to_nothing", NEEDS) {
        return;
    }
    let told = wish(&["--enforce"], "");
    assert_eq!((told.granted.len(), told.tried), (0, 46), "{:?}", told.granted);
    assert_eq!(told.verdict, "denied");
    assert!(told.scene.path("w/.git/hooks/x").exists());
    assert!(told.has_effect("create", "${WORKDIR}/after"), "what came after is not told");
    for kind in ["fs", "exec", "net"] {
        assert_eq!(told.evidence["coverage"][kind], "complete", "{}", told.evidence["coverage"]);
    }
}

/// Each capability by itself, and all of them: what it grants is told, or makes coverage partial.
#[test]
fn what_a_kept_capability_grants_is_in_the_record() {
    if !are_met("wishes::what_a_kept_capability_grants_is_in_the_record", NEEDS) {
        return;
    }
    const ALL: &str =
        "SYS_ADMIN,SYS_PTRACE,BPF,PERFMON,NET_ADMIN,DAC_READ_SEARCH,SYS_CHROOT,SYS_MODULE,MKNOD";
    // With what this kernel surely grants, so that there is something to admit.
    let cases: &[(&str, &str, &[&str])] = &[
        ("--enforce", "BPF,NET_ADMIN,PERFMON,KILL,SYS_MODULE", &[]),
        ("--enforce", "SYS_PTRACE,DAC_READ_SEARCH", &[]),
        ("--enforce", "SYS_ADMIN", &["detach the links that hold it", "make its mount writable"]),
        ("--enforce", ALL, &["detach the links that hold it", "make a device"]),
        ("--dry-run", "SYS_PTRACE", &["write the observer's memory", "read the observer's memory by call"]),
        ("--dry-run", ALL, &["leave the group by a mount of its own", "enter the observer's mounts"]),
    ];
    for (mode, kept, surely) in cases {
        let told = wish(&[mode, "--keep-caps", kept], if *mode == "--dry-run" { "observed" } else { "" });
        let what = format!("{mode} {kept}: {:?} {}", told.granted, told.evidence["coverage"]);
        for wish in *surely {
            assert!(told.granted.contains(*wish), "{wish} is not granted: {what}");
        }
        if surely.is_empty() {
            assert!(told.granted.is_empty(), "{what}");
        }
        for wish in &told.granted {
            let known = ADMISSIONS.iter().find(|(known, _)| known == wish);
            let is_admitted = match known.map(|(_, admitted)| admitted) {
                Some(Coverage(reason)) => told.partial(reason) == BTreeSet::from(["exec", "fs", "net"]),
                Some(Effect(op, path)) => told.has_effect(op, path),
                Some(Harmless) => true,
                None => false,
            };
            assert!(is_admitted, "{wish} is granted and not in the record: {what}");
        }
        assert!(told.has_effect("create", "${WORKDIR}/after"), "what came after is not told: {what}");
        let degradations = told.evidence["identity"]["degradations"].as_array().unwrap();
        for name in kept.split(',').filter(|name| *name != "KILL") {
            let is_it = |told: &&Value| {
                told["reason"] == "kept-by-option" && told["detail"] == format!("CAP_{name}").as_str()
            };
            assert!(degradations.iter().any(|told| is_it(&told)), "{name}: {degradations:?}");
        }
    }
}

/// Whoever keeps the right to can take the observer's programs away under it. It sees nothing then, and vouches for nothing.
#[test]
fn an_observer_that_was_turned_off_vouches_for_nothing() {
    if !are_met("wishes::an_observer_that_was_turned_off_vouches_for_nothing", NEEDS) {
        return;
    }
    let told = wish(&["--dry-run", "--keep-caps", "SYS_ADMIN"], "blind");
    assert!(fs::exists(told.scene.path("w/unseen")).unwrap());
    assert!(!told.has_effect("create", "${WORKDIR}/unseen"), "it was not turned off");
    assert_eq!(told.partial("bpf-call"), BTreeSet::from(["exec", "fs", "net"]));
}
