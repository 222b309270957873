//! Environments of Python with the packages of `tests/it/python-packages.txt` and `tests/kernel/python-packages.txt`, made
//! once a list and kept for all checkouts, in the user's cache. `tests/it/python.rs` and `tests/kernel/needs.rs` look for them
//! in the same place.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use crate::step::{command, run};

/// The lists, and what is in them.
const LISTS: [(&str, &str); 2] = [
    ("tests/it/python-packages.txt", include_str!("../../tests/it/python-packages.txt")),
    ("tests/kernel/python-packages.txt", include_str!("../../tests/kernel/python-packages.txt")),
];
/// Written last: what has it is whole.
const WHOLE: &str = "whole";

/// The user's cache; `None` without a home.
pub fn cache() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
}

/// Where the environment of a list is or will be; `None` without a home.
fn place(packages: &str) -> Option<PathBuf> {
    let name = u64::from_be_bytes(*Sha256::digest(packages).first_chunk().expect("a digest is longer"));
    Some(cache()?.join("assay-test-python").join(format!("{name:016x}")))
}

/// Why the tests that take the first list cannot run; `None` when it is there. Those that take the other say so themselves.
pub fn missing() -> Option<String> {
    missing_of(LISTS[0])
}

fn missing_of((list, packages): (&str, &str)) -> Option<String> {
    match place(packages) {
        None => Some(format!("no HOME for the packages of {list}")),
        Some(place) if place.join(WHOLE).is_file() => None,
        Some(place) => Some(format!("{} is not there; `cargo xtask setup` makes it", place.display())),
    }
}

/// Makes them. Where the packages cannot be had, the tests that take them are counted as not run.
pub fn setup() {
    for list in LISTS {
        if missing_of(list).is_none() {
            continue;
        }
        if let Err(error) = install(list) {
            println!("not installed: the packages of {}: {error:#}", list.0);
        }
    }
}

fn install((list, packages): (&str, &str)) -> Result<()> {
    let place = place(packages).context("find a home")?;
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
        .arg(list))?;
    fs::write(place.join(WHOLE), "").with_context(|| format!("write into {}", place.display()))
}
