//! What a run's evidence says of its names, held against docs/formats/canonicalisation.md: by another implementation, which
//! was written from that page alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::sandbox::text;

/// What the other implementation makes otherwise, a line each: nothing, as it should be. `told` has what a trace does not
/// tell; without it, whatever only that decides is right.
pub fn differences(evidence: &Path, trace: &Path, told: Option<&Path>, command: &[&str]) -> String {
    differences_of((&format!("{}:{}", user(), id("-u")), &host()), evidence, trace, told, command)
}

/// The same for another user (`NAME:ID`) and host.
pub fn differences_of(
    (user, host): (&str, &str),
    evidence: &Path,
    trace: &Path,
    told: Option<&Path>,
    command: &[&str],
) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kernel/canonical.py");
    let mut checker = Command::new("python3");
    checker.arg(script).args([evidence, trace]).args([user, host]).args(command);
    if let Some(told) = told {
        checker.env("TOLD", told);
    }
    let output = checker.output().expect("python3");
    let found = text(&output.stdout);
    let is_well = output.status.success() && output.stderr.is_empty();
    assert!(is_well != (output.status.code() == Some(1) && !found.is_empty()), "{}", text(&output.stderr));
    found
}

/// Who we are.
pub fn user() -> String {
    id("-un")
}

fn id(what: &str) -> String {
    let output = Command::new("id").arg(what).output().expect("id");
    text(&output.stdout).trim().to_owned()
}

/// The name of this host.
pub fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim().to_owned()
}
