//! What Debian wants to know of licences: ours, and that of every crate whose code is in the program.
//!
//! In: `cargo tree`, and the sources that cargo has. Out: texts. A crate without a text of its licence is an error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::step::{command, output, root};

/// `debian/copyright`, in Debian's format.
pub fn copyright() -> Result<String> {
    let mit = fs::read_to_string(root().join("LICENSE-MIT")).context("read LICENSE-MIT")?;
    let (owner, text) = mit
        .split_once("Copyright (c) ")
        .and_then(|(_, rest)| rest.split_once('\n'))
        .context("find who has the copyright in LICENSE-MIT")?;
    let mut copyright = format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: assay\nComment:\n The program has the code of other crates in it, under licences that are in\n /usr/share/doc/assay/linked-in.txt, each with its text.\n\nFiles: *\nCopyright: {owner}\nLicense: MIT or Apache-2.0\n\nLicense: MIT\n"
    );
    for line in text.trim().lines() {
        let line = if line.trim().is_empty() { "." } else { line.trim_end() };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(copyright, " {line}");
    }
    copyright += "\nLicense: Apache-2.0\n On Debian systems, the full text is in\n /usr/share/common-licenses/Apache-2.0.\n";
    Ok(copyright)
}

/// Every crate that is linked in, with its licence, and each text of a licence once.
pub fn linked_in() -> Result<String> {
    let tree = output(command("cargo").args([
        "tree",
        "--locked",
        "--package",
        "assay",
        "--edges",
        "normal",
        "--target",
        "x86_64-unknown-linux-gnu",
        "--prefix",
        "none",
        "--format",
        "{p}\t{l}",
    ]))?;
    let home = std::env::var_os("CARGO_HOME")
        .map_or_else(|| Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cargo"), Into::into);
    let sources = home.join("registry/src");
    let mut crates = BTreeMap::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let (name, licence) =
            line.split_once('\t').with_context(|| format!("read `{line}` of cargo tree"))?;
        let words: Vec<&str> = name.split_whitespace().collect();
        // Our own, which have a folder behind the version.
        if words.iter().any(|word| word.starts_with("(/")) {
            continue;
        }
        let [name, version, ..] = words[..] else { bail!("read `{line}` of cargo tree") };
        let licence = licence.trim_end_matches(" (*)").to_owned();
        crates.insert(format!("{name}-{}", version.trim_start_matches('v')), licence);
    }
    let mut texts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut text = String::from("The program has code of these crates in it:\n\n");
    for (name, licence) in &crates {
        let _ = writeln!(text, "{name}: {licence}");
        let found = texts_of(&sources, name)?;
        // Whoever may choose may choose the one whose text every Debian has.
        let may_be_apache = licence.replace('/', " OR ").split(" OR ").any(|one| one == "Apache-2.0");
        if found.is_empty() && !may_be_apache {
            bail!("{name} is in the program, and has no text of its licence ({licence}) beside its sources");
        }
        for one in found {
            texts.entry(one).or_default().push(name);
        }
    }
    text += "\nOf those without a text below, the Apache-2.0 licence is taken: /usr/share/common-licenses/Apache-2.0.\n";
    for (licence, names) in &texts {
        let _ = write!(text, "\n{}\n{}\n\n{}\n", "-".repeat(80), names.join(", "), licence.trim());
    }
    Ok(text)
}

/// The texts of a crate's licences, as its author gives them.
fn texts_of(sources: &Path, name: &str) -> Result<Vec<String>> {
    let registries = fs::read_dir(sources).with_context(|| format!("read {}", sources.display()))?;
    let folders = registries.flatten().map(|registry| registry.path().join(name));
    let folder = folders
        .into_iter()
        .find(|folder| folder.is_dir())
        .with_context(|| format!("find the sources of {name} in {}", sources.display()))?;
    let mut texts = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?.flatten() {
        let file = entry.file_name().to_string_lossy().to_uppercase();
        let is_one = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "UNLICENSE", "NOTICE"]
            .iter()
            .any(|word| file.starts_with(word));
        if is_one && entry.path().is_file() {
            let text = fs::read_to_string(entry.path())
                .with_context(|| format!("read {}", entry.path().display()))?;
            texts.push(text.replace("\r\n", "\n"));
        }
    }
    Ok(texts)
}
