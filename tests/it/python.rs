//! Python with the packages of `python-packages.txt`, which `cargo xtask setup` installs; `cargo xtask check` counts the
//! tests that take them as not run where they are not there.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use assay::canon::digest::Digest;

/// Where `xtask/src/python.rs` makes it.
fn place() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let digest = Digest::of(include_bytes!("python-packages.txt"));
    Some(cache.join("assay-test-python").join(&digest.hex()[..16]))
}

/// Its directory of programs; `None`, and said so, where it was proved not to be there.
pub fn programs() -> Option<PathBuf> {
    let place = place().filter(|place| place.join("whole").is_file());
    if place.is_none() {
        eprintln!(
            "not run: the packages of python-packages.txt are not installed; `cargo xtask setup` does it"
        );
    }
    place.map(|place| place.join("bin"))
}

/// Runs a program text with arguments; what it prints.
pub fn run(program: &str, args: &[&str]) -> Option<String> {
    let mut python = Command::new(programs()?.join("python"));
    python.args(["-I", "-c", program]).args(args).stdin(Stdio::null());
    let output = python.output().expect("start Python");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("text"))
}
