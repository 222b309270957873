//! Packages of Debian's whose programs a test runs in namespaces of its own, and which would change how this host looks names
//! up if they were installed: they are unpacked into the user's cache. `tests/kernel/needs.rs` looks for them there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::python::cache;
use crate::step::{command, run};

/// The services that look names up, and what they load.
const PACKAGES: [&str; 4] = ["nscd", "systemd-resolved", "libnss-resolve", "libsystemd-shared"];
/// Written last, with the packages' names: what has it is whole.
const WHOLE: &str = "whole";

/// Unpacks them. Where they cannot be had, the tests that take them are counted as not run.
pub fn setup() {
    let Some(place) = cache().map(|cache| cache.join("assay-test-debian")) else { return };
    if fs::read_to_string(place.join(WHOLE)).is_ok_and(|names| names == PACKAGES.join(" ")) {
        return;
    }
    if let Err(error) = unpack(&place) {
        println!("not unpacked: {}: {error:#}", PACKAGES.join(", "));
    }
}

fn unpack(place: &Path) -> Result<()> {
    // What is left of an attempt that was ended would be taken for a package.
    drop(fs::remove_dir_all(place));
    fs::create_dir_all(place).with_context(|| format!("make {}", place.display()))?;
    run(command("apt-get").args(["download", "-q"]).args(PACKAGES).current_dir(place))?;
    for entry in fs::read_dir(place)? {
        let file: PathBuf = entry?.path();
        if file.extension().is_some_and(|end| end == "deb") {
            run(command("dpkg-deb").arg("-x").arg(&file).arg(place))?;
            fs::remove_file(&file)?;
        }
    }
    fs::write(place.join(WHOLE), PACKAGES.join(" "))
        .with_context(|| format!("write into {}", place.display()))
}
