//! An environment of Python with the packages of `tests/it/python-packages.txt`, made once a list and kept for all
//! checkouts, in the user's cache. `tests/it/python.rs` looks for it in the same place.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use crate::step::{command, run};

const PACKAGES: &str = include_str!("../../tests/it/python-packages.txt");
/// Written last: what has it is whole.
const WHOLE: &str = "whole";

/// Where it is or will be; `None` without a home.
fn place() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let name = u64::from_be_bytes(*Sha256::digest(PACKAGES).first_chunk().expect("a digest is longer"));
    Some(cache.join("assay-test-python").join(format!("{name:016x}")))
}

/// Why the tests that take it cannot run; `None` when it is there.
pub fn missing() -> Option<String> {
    match place() {
        None => Some("no HOME for the packages of tests/it/python-packages.txt".to_owned()),
        Some(place) if place.join(WHOLE).is_file() => None,
        Some(place) => Some(format!("{} is not there; `cargo xtask setup` makes it", place.display())),
    }
}

/// Makes it. Where the packages cannot be had, the tests that take them are counted as not run.
pub fn setup() {
    if missing().is_none() {
        return;
    }
    if let Err(error) = install() {
        println!("not installed: the packages of tests/it/python-packages.txt: {error:#}");
    }
}

fn install() -> Result<()> {
    let place = place().context("find a home")?;
    // What is left of an attempt that was ended would be taken for packages.
    drop(fs::remove_dir_all(&place));
    run(command("python3").args(["-m", "venv"]).arg(&place))?;
    run(command(place.join("bin/python"))
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--requirement",
        ])
        .arg("tests/it/python-packages.txt"))?;
    fs::write(place.join(WHOLE), "").with_context(|| format!("write into {}", place.display()))
}
