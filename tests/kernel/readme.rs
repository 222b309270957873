//! The commands of the README's first page work as they stand, in their order, in a checkout of somebody's.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::sandbox::{ASSAY, text};
use crate::needs::{Need, are_met};

/// How the page starts the program.
const START: &str = "cargo run --quiet --release -p assay -- ";

/// What a person types, line by line, up to the section about tests.
fn typed(page: &str) -> Vec<String> {
    let (page, _) = page.split_once("\n## Test it").expect("a section about tests");
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("# "));
    let program = |line: &str| line.replacen(START, &format!("{ASSAY} "), 1);
    lines.map(program).collect()
}

#[test]
fn the_first_page_works_by_copy_and_paste() {
    let needs = [Need::Root, Need::Btf, Need::CgroupV2, Need::LandlockAbi(4), Need::Program("git")];
    if !are_met("readme::the_first_page_works_by_copy_and_paste", &needs) {
        return;
    }
    let page = include_str!("../../README.md");
    let lines = typed(page);
    assert!(
        lines.len() >= 4 && lines.iter().filter(|line| line.starts_with(ASSAY)).count() >= 3,
        "{lines:?}"
    );
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let checkout = folder.path();
    let shell = |line: &str, directory: &Path| {
        let mut shell = Command::new("sh");
        shell.args(["-ec", line]).current_dir(directory).stdin(Stdio::null());
        shell.env_remove("SUDO_UID").env_remove("SUDO_GID").env_remove("CARGO_TARGET_TMPDIR");
        let output = shell.output().expect("a shell");
        assert!(output.status.success(), "{line}: {}: {}", output.status, text(&output.stderr));
    };
    shell(
        "git init -q . && git config user.email a@b && git config user.name a && echo one > file && git add file && git commit -qm one && mkdir target",
        checkout,
    );
    for line in &lines {
        shell(line, checkout);
    }
    for left in
        ["run.profile.yaml", "run.profile.evidence.yaml", "run.profile.yaml.report.md", "run.bundle.tar.gz"]
    {
        assert!(page.contains(left) && checkout.join(left).is_file(), "{left}");
    }
}
