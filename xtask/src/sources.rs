//! What the object was built from, as one digest.
//!
//! In: the root of a checkout. Out: a SHA-256 over every file and version that decides what the object is. Compiled
//! into `xtask`, which writes the digest, and into the stable test `freshness`, which checks it; so it must use nothing
//! beside the standard library and `sha2`, and must not run a program.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// The object, from the root of a checkout.
pub const OBJECT: &str = "assay/bpf/assay.bpf.o";
/// What is recorded about it.
pub const RECORD: &str = "assay/bpf/assay.bpf.toml";

/// The crates whose whole source goes into the object.
const CRATES: [&str; 2] = ["assay-common", "assay-ebpf"];
/// The outside crate that goes into it, with all it needs.
const FRAMEWORK: &str = "aya-ebpf";

/// `sha256:…` over everything the object is made of.
pub fn digest(root: &Path) -> io::Result<String> {
    let mut files = BTreeMap::new();
    for name in CRATES {
        let folder = root.join(name);
        files.insert(format!("{name}/Cargo.toml"), fs::read(folder.join("Cargo.toml"))?);
        collect(&folder.join("src"), &format!("{name}/src"), &mut files)?;
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let lock = fs::read_to_string(root.join("Cargo.lock"))?;

    let mut hash = Sha256::new();
    for (name, bytes) in &files {
        // Lengths first, so that no two sets of files spell the same bytes.
        hash.update(format!("{} {name}\n{} ", name.len(), bytes.len()));
        hash.update(bytes);
    }
    for line in inherited(&manifest).into_iter().chain(locked(&lock)?) {
        hash.update(format!("{} {line}\n", line.len()));
    }
    Ok(sha256_text(&hash.finalize()))
}

/// `sha256:…` of these bytes.
pub fn digest_of(bytes: &[u8]) -> String {
    sha256_text(&Sha256::digest(bytes))
}

/// The value of `key = "value"` in the record beside the object.
pub fn recorded<'a>(record: &'a str, key: &str) -> Option<&'a str> {
    record.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim().trim_matches('"'))
    })
}

fn sha256_text(hash: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in hash {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn collect(folder: &Path, name: &str, files: &mut BTreeMap<String, Vec<u8>>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        let Some(file) = path.file_name().and_then(|file| file.to_str()) else {
            return Err(io::Error::other(format!("{} is not a name for a source file", path.display())));
        };
        let name = format!("{name}/{file}");
        if path.is_dir() {
            collect(&path, &name, files)?;
        } else {
            files.insert(name, fs::read(&path)?);
        }
    }
    Ok(())
}

/// What both crates inherit from the workspace: part of every symbol's hash, or of what is compiled.
fn inherited(manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut lines = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section == "[workspace.package]"
            && line.split('=').next().is_some_and(|key| matches!(key.trim(), "version" | "edition"))
        {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// Name, version and checksum of the framework and of everything it needs, as the lock file has them.
fn locked(lock: &str) -> io::Result<Vec<String>> {
    let mut packages: BTreeMap<&str, (String, Vec<&str>)> = BTreeMap::new();
    for block in lock.split("[[package]]").skip(1) {
        let Some(name) = recorded(block, "name") else { continue };
        let version = recorded(block, "version").unwrap_or_default();
        let checksum = recorded(block, "checksum").unwrap_or_default();
        let needs = block
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with('"'))
            // `"name"`, or `"name version"` where the lock file holds several.
            .filter_map(|line| line.trim_matches(['"', ',']).split(' ').next())
            .collect();
        let (lines, all_needs) = packages.entry(name).or_default();
        let _ = write!(lines, "{name} {version} {checksum};");
        all_needs.extend::<Vec<&str>>(needs);
    }
    if !packages.contains_key(FRAMEWORK) {
        return Err(io::Error::other(format!("Cargo.lock does not hold {FRAMEWORK}")));
    }
    let mut seen = BTreeSet::new();
    let mut open = vec![FRAMEWORK];
    while let Some(name) = open.pop() {
        if let Some((_, needs)) = packages.get(name)
            && seen.insert(name)
        {
            open.extend(needs);
        }
    }
    Ok(seen.into_iter().map(|name| packages[name].0.clone()).collect())
}
