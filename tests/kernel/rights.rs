//! What fails because the launch took a right away is told, with the option that gives it back.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::fs::XattrFlags;
use serde_json::Value;

use crate::harness::sandbox::{ASSAY, every_file, text};
use crate::needs::{Need, are_met};

const NEEDS: [Need; 3] = [Need::Root, Need::Btf, Need::CgroupV2];

/// A dry run that leaves its evidence in `folder`.
fn dry_run(folder: &Path, options: &[&str], command: &[&str]) -> (Output, Value) {
    let mut assay = Command::new(ASSAY);
    assay.args(["sandbox", "--dry-run", "--profile-format", "json", "--profile", "run.json"]).args(options);
    assay.arg("--policy").arg(every_file()).arg("--").args(command);
    assay.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null()).current_dir(folder);
    let output = assay.output().expect("assay runs");
    let evidence = fs::read(folder.join("run.evidence.json")).expect("evidence");
    (output, serde_json::from_slice(&evidence).expect("JSON"))
}

fn denied_by(evidence: &Value, kind: &str, path: &str) -> Option<String> {
    let effects = evidence["observed"]["effects"][kind].as_array().expect("effects");
    let effect = effects.iter().find(|effect| effect["path"] == path && effect["result"] == "denied")?;
    effect["denied_by"].as_str().map(ToOwned::to_owned)
}

#[test]
fn what_fails_for_want_of_a_dropped_capability_is_the_launchs_doing() {
    if !are_met("rights::what_fails_for_want_of_a_dropped_capability_is_the_launchs_doing", &NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = "mknod n c 1 3; chroot . true; mount -t tmpfs x .; mkdir d; touch d/f; exit 0";
    let (output, evidence) = dry_run(folder.path(), &[], &["sh", "-c", script]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert_eq!(denied_by(&evidence, "fs", "${WORKDIR}/n").as_deref(), Some("launch"), "{evidence:#}");
    for capability in ["MKNOD", "SYS_CHROOT", "SYS_ADMIN"] {
        assert!(told.contains(&format!("`--keep-caps {capability}` would allow it")), "{capability}: {told}");
    }
    let report = fs::read_to_string(folder.path().join("run.json.report.md")).expect("a report");
    assert!(report.contains("`MKNOD`, which `--keep-caps MKNOD` would keep (1)"), "{report}");

    // What it says is so.
    let (output, evidence) =
        dry_run(folder.path(), &["--keep-caps", "MKNOD"], &["mknod", "n", "c", "1", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(denied_by(&evidence, "fs", "${WORKDIR}/n"), None);
}

#[test]
fn a_user_without_the_capability_is_refused_by_the_system() {
    if !are_met("rights::a_user_without_the_capability_is_refused_by_the_system", &NEEDS) {
        return;
    }
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("a mode");
    let (output, evidence) = dry_run(folder.path(), &["--user", "65534"], &["mknod", "n", "c", "1", "3"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(denied_by(&evidence, "fs", "${WORKDIR}/n").as_deref(), Some("system"), "{evidence:#}");
    assert!(!text(&output.stderr).contains("--keep-caps"));
}

#[test]
fn a_program_whose_file_asks_for_a_dropped_capability_says_why_it_does_not_start() {
    if !are_met(
        "rights::a_program_whose_file_asks_for_a_dropped_capability_says_why_it_does_not_start",
        &NEEDS,
    ) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("pinger");
    fs::copy("/bin/true", &program).expect("a copy");
    // Version 2, effective at once: NET_RAW.
    let value: Vec<u8> =
        [0x0200_0001u32, 1 << 13, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    rustix::fs::setxattr(&program, "security.capability", &value, XattrFlags::empty()).expect("an attribute");
    let (output, evidence) = dry_run(folder.path(), &[], &["sh", "-c", "./pinger; exit 0"]);
    let told = text(&output.stderr);
    assert_eq!(denied_by(&evidence, "exec", "${WORKDIR}/pinger").as_deref(), Some("launch"), "{evidence:#}");
    assert!(told.contains("execute ${WORKDIR}/pinger: NET_RAW is dropped"), "{told}");
}

#[test]
fn what_no_new_privs_will_break_is_listed() {
    if !are_met("rights::what_no_new_privs_will_break_is_listed", &NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("setter");
    fs::copy("/bin/true", &program).expect("a copy");
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).expect("a mode");
    let (output, evidence) = dry_run(folder.path(), &[], &["sh", "-c", "./setter; ./setter; true"]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("${WORKDIR}/setter is a setuid or setgid program: under enforcement"), "{told}");
    assert_eq!(evidence["observed"]["counters"]["setuid.${WORKDIR}/setter"], 2, "{evidence:#}");
    let report = fs::read_to_string(folder.path().join("run.json.report.md")).expect("a report");
    assert!(report.contains("- `${WORKDIR}/setter` (2)"), "{report}");
}
