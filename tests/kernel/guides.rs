//! The guides whose commands record runs work by copy and paste, in their order, in a folder of somebody's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use crate::harness::sandbox::{ASSAY, text};
use crate::needs::{Need, are_met};

#[path = "../it/blocks.rs"]
mod blocks;

#[test]
fn the_commands_of_the_guides_that_record_work_as_they_stand() {
    let needs = [
        Need::Root,
        Need::Btf,
        Need::CgroupV2,
        Need::LandlockAbi(4),
        Need::Program("git"),
        Need::Program("make"),
    ];
    if !are_met("guides::the_commands_of_the_guides_that_record_work_as_they_stand", &needs) {
        return;
    }
    let mut count = 0;
    let pages = blocks::pages().into_iter().filter(|(name, page)| blocks::records(name, page));
    for (name, page) in pages {
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
        let path = |inside: &str| folder.path().join(inside);
        for inside in ["bin", "home", "work"] {
            fs::create_dir(path(inside)).expect("a folder");
        }
        std::os::unix::fs::symlink(ASSAY, path("bin/assay")).expect("a link");
        // Who runs this is root already, and many machines have no sudo.
        fs::write(path("bin/sudo"), "#!/bin/sh\nexec \"$@\"\n").expect("a program");
        fs::set_permissions(path("bin/sudo"), fs::Permissions::from_mode(0o755)).expect("a mode");
        let programs = format!("{}:{}", path("bin").display(), std::env::var("PATH").expect("a PATH"));
        for block in blocks::of_page(&name, &page).iter().filter(|block| blocks::reason(block).is_none()) {
            let mut shell = Command::new("sh");
            shell.args(["-euc", &block.text]).current_dir(path("work")).stdin(Stdio::null());
            shell.env("PATH", &programs).env("HOME", path("home"));
            shell.env_remove("SUDO_UID").env_remove("SUDO_GID").env_remove("LD_LIBRARY_PATH");
            let output = shell.output().expect("a shell");
            let told = text(&output.stdout) + &text(&output.stderr);
            assert!(output.status.success(), "{name}: {}{told}", block.text);
            count += 1;
        }
    }
    assert!(count >= 10, "only {count} blocks");
}
