//! What the policy stops, or does not authorise, is told with who did it, by which rule, and what would allow it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::formats::Format;
use crate::harness::sandbox::{ASSAY, json, text};
use crate::needs::{Need, are_met};

const NEEDS: &[Need] = &[Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(4)];

const POLICY: &str = "api_version: assay/v1
fs:
  allow: [{path: '${WORKDIR}', access: [read, write, execute]}]
  deny: [closed]
exec: {deny: [bin]}
";

/// A run in `folder` under [`POLICY`]; what it printed, its evidence and its report.
fn run(folder: &Path, mode: &str, script: &str) -> (Output, Value, String) {
    run_under(folder, POLICY, &[mode], script)
}

fn run_under(folder: &Path, policy: &str, options: &[&str], script: &str) -> (Output, Value, String) {
    let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let work = folder.join("w");
    for name in ["w/closed", "w/bin"] {
        fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    fs::copy("/bin/true", work.join("bin/tool")).expect("a program");
    fs::write(work.join("closed/f"), "x").expect("a file");
    fs::write(folder.join("p.yaml"), policy).expect("a policy");
    let (policy, profile) = (at("p.yaml"), at("run.json"));
    let record = ["--policy", &policy, "--profile", &profile, "--profile-format", "json"];
    let options = [options, &record].concat();
    let mut assay = Command::new(ASSAY);
    assay.arg("sandbox").args(options).args(["--", "sh", "-c", script]).current_dir(&work);
    assay.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
    let output = assay.output().expect("assay runs");
    let evidence = fs::read(folder.join("run.evidence.json")).expect("evidence");
    let report = fs::read_to_string(folder.join("run.json.report.md")).expect("a report");
    let evidence: Value = serde_json::from_slice(&evidence).expect("JSON");
    Format::Evidence.check(&evidence);
    (output, evidence, report)
}

fn effect<'a>(evidence: &'a Value, kind: &str, path: &str) -> &'a Value {
    let effects = evidence["observed"]["effects"][kind].as_array().expect("effects");
    effects.iter().find(|effect| effect["path"] == path).unwrap_or_else(|| panic!("{path}: {evidence:#}"))
}

/// What is expected of one act: the word for it, the list it is in, verb and path, who did it, the line of the policy
/// that denies it, and what to do.
type Want<'a> = (&'a str, &'a str, &'a str, &'a str, Option<usize>, &'a str);

/// Who did it, under which rule, and what to do about it: as the evidence, the report and the end of the run have it.
fn check(told: &(Output, Value, String), (word, kind, what, by, at, remedy): Want<'_>) {
    let (output, evidence, report) = told;
    let (verb, path) = what.split_once(' ').expect("a verb and a path");
    let effect = effect(evidence, kind, path);
    assert_eq!(effect["by"]["program"], by, "{effect:#}");
    let pid = effect["by"]["pid"].as_u64().expect("a process id");
    let processes = evidence["observed"]["processes"].as_array().expect("processes");
    assert!(processes.iter().any(|process| process["pid"] == pid), "{pid}: {evidence:#}");
    assert!(evidence["identity"].to_string().find("\"by\"").is_none());
    let refused = &effect["refused"];
    assert!(refused["remedy"].as_str().is_some_and(|told| told.contains(remedy)), "{refused:#}");
    let place = refused["at"].as_str();
    assert_eq!(
        place.map(|place| place.contains(&format!("p.yaml:{}:", at.unwrap_or(0)))),
        at.map(|_| true),
        "{refused:#}"
    );
    let told = text(&output.stderr);
    let line = told
        .lines()
        .find(|line| {
            line.contains(&format!("{word}: {verb} {path} by {by}")) && line.contains(&pid.to_string())
        })
        .unwrap_or_else(|| panic!("{what}: {told}"));
    assert!(line.contains(remedy), "{line}");
    let line = report
        .lines()
        .find(|line| line.starts_with(&format!("- {verb} `{path}`")) && line.contains(&pid.to_string()))
        .unwrap_or_else(|| panic!("{what}: {report}"));
    assert!(line.contains(by) && line.contains(remedy), "{line}");
}

#[test]
fn a_denial_names_who_did_it_the_rule_and_the_line_that_would_allow_it() {
    if !are_met("denials::a_denial_names_who_did_it_the_rule_and_the_line_that_would_allow_it", NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = "cat /etc/shadow; head -c1 closed/f; bin/tool; (cp /etc/gshadow g); exit 0";
    let told = run(folder.path(), "--enforce", script);
    assert_eq!(told.0.status.code(), Some(0), "{}", text(&told.0.stderr));
    let allow = "fs.allow: - {path: /etc/shadow, access: [read]}";
    check(&told, ("denied", "fs", "read /etc/shadow", "/usr/bin/cat", None, allow));
    let allow = "fs.allow: - {path: /etc/gshadow, access: [read]}";
    check(&told, ("denied", "fs", "read /etc/gshadow", "/usr/bin/cp", None, allow));
    let remove = "remove or narrow `closed`";
    check(&told, ("denied", "fs", "read ${WORKDIR}/closed/f", "/usr/bin/head", Some(4), remove));
    let effect = effect(&told.1, "exec", "${WORKDIR}/bin/tool");
    assert_eq!((&effect["by"]["comm"], &effect["denied_by"]), (&"sh".into(), &"policy".into()), "{effect:#}");
    assert!(text(&told.0.stderr).contains("denied: execute ${WORKDIR}/bin/tool by /usr/bin/"));
}

#[test]
fn too_few_descriptors_are_told_as_that() {
    if !are_met("denials::too_few_descriptors_are_told_as_that", NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for limit in [12, 16, 24, 32] {
        let line = format!("ulimit -n {limit}; exec {ASSAY} sandbox --trace t -- touch made");
        let output =
            Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output().expect("a shell runs");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{limit}: {told}");
        assert!(told.contains("the limit of open files (`ulimit -n`) is too low"), "{limit}: {told}");
        assert!(!folder.path().join("made").exists());
    }
}

#[test]
fn an_act_that_only_was_not_authorised_names_the_same() {
    if !are_met("denials::an_act_that_only_was_not_authorised_names_the_same", NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let told = run(folder.path(), "--dry-run", "cat /etc/shadow closed/f; bin/tool");
    assert_eq!(told.0.status.code(), Some(4), "{}", text(&told.0.stderr));
    let allow = "fs.allow: - {path: /etc/shadow, access: [read]}";
    check(&told, ("not authorised", "fs", "read /etc/shadow", "/usr/bin/cat", None, allow));
    let remove = "remove or narrow `closed`";
    check(&told, ("not authorised", "fs", "read ${WORKDIR}/closed/f", "/usr/bin/cat", Some(4), remove));
    // What asked for a program is what ran before it.
    let started = effect(&told.1, "exec", "${WORKDIR}/bin/tool");
    assert!(started["by"]["program"].as_str().is_some_and(|program| program.ends_with("sh")), "{started:#}");
    // Of what may happen nobody needs to be named.
    assert!(effect(&told.1, "exec", "/usr/bin/cat").get("by").is_none());
}

/// Landlock is told of what is there when the run begins. What it refuses later is refused by us, also where the policy
/// would have allowed it; what the system refuses of that which was granted is not.
#[test]
fn what_could_not_be_granted_is_refused_by_us_and_what_the_system_refuses_is_not() {
    let name = "denials::what_could_not_be_granted_is_refused_by_us_and_what_the_system_refuses_is_not";
    if !are_met(name, NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let work = folder.path().join("w");
    fs::create_dir(&work).expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    chown(&work, Some(65_534), Some(65_534)).expect("a folder given away");
    fs::write(work.join("kept.log"), "x").expect("a file");
    fs::set_permissions(work.join("kept.log"), fs::Permissions::from_mode(0o600)).expect("a mode");
    let policy = "api_version: assay/v1
fs: {allow: [{path: '*.log', access: [read, write]}, {path: '/proc/*/uid_map', access: [write]}]}
";
    let status = folder.path().join("status");
    let options = ["--enforce", "--user", "65534:65534", "--status-file", status.to_str().expect("text")];
    let under = |script: &str| {
        let told = run_under(folder.path(), policy, &options, script);
        assert_eq!(told.0.status.code(), Some(0), "{script}: {}", text(&told.0.stderr));
        let verdict = json(&status)["verdict"].as_str().expect("a verdict").to_owned();
        (told, verdict)
    };
    let remedy = "allow the directory it is in";
    let (told, verdict) = under("(echo x > new.log); (cp kept.log a.log); (unshare -U -r true); exit 0");
    assert_eq!(verdict, "denied");
    assert!(!work.join("new.log").exists());
    let shell = fs::canonicalize("/bin/sh").expect("a shell");
    let shell = shell.to_str().expect("a plain name");
    check(&told, ("denied", "fs", "create ${WORKDIR}/new.log", shell, None, remedy));
    check(&told, ("denied", "fs", "write /proc/${PID}/uid_map", "/usr/bin/unshare", None, remedy));
    for path in ["${WORKDIR}/new.log", "/proc/${PID}/uid_map"] {
        let effect = effect(&told.1, "fs", path);
        let facts = [&effect["result"], &effect["denied_by"], &effect["authorised"]];
        assert_eq!(facts, [&Value::from("denied"), &"policy".into(), &true.into()], "{effect:#}");
    }

    let (told, verdict) = under("(cat kept.log); exit 0");
    let effect = effect(&told.1, "fs", "${WORKDIR}/kept.log");
    let facts = [&effect["result"], &effect["denied_by"], &effect["authorised"]];
    assert_eq!(facts, [&Value::from("denied"), &"system".into(), &true.into()], "{effect:#}");
    assert_eq!(verdict, "ok");
}
