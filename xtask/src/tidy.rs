//! The rules of `docs/architecture.md` and `docs/style.md` that a program can check.
//!
//! In: the files of this checkout. Out: complaints, each with file and line. The rules are data, in [`rules`]; how a
//! file is taken apart is in [`source`].

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::step::{self, root};
use rules::{
    COMPANIONS, FORBIDDEN_NAMES, FORBIDDEN_WORDS, IMPORTS, LINES, OUTSIDE, PRINTERS, PURE, TEST_WORDS, UNSAFE,
};
use source::Source;

mod promises;
mod rules;
mod source;

/// Prints every complaint; fails if there is one.
pub fn execute() -> Result<()> {
    let complaints = complaints(&root())?;
    for complaint in &complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        1 => bail!("1 complaint"),
        many => bail!("{many} complaints"),
    }
}

/// Every complaint about the files that git knows.
fn complaints(root: &Path) -> Result<Vec<String>> {
    let list = step::output(step::command("git").args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
    ]))?;
    let mut complaints = Vec::new();
    for name in list.split('\0').filter(|name| !name.is_empty()) {
        let path = root.join(name);
        if !path.is_file() {
            continue;
        }
        let bytes = fs::read(&path).with_context(|| format!("read {name}"))?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        complaints.extend(folders_of_this_machine(name, &text, root));
        complaints.extend(unfinished_merges(name, &text));
        if Path::new(name).extension().is_some_and(|extension| extension == "rs") {
            complaints.extend(of_source(&Source::new(name, &text)));
        }
    }
    complaints.extend(promises::complaints(root)?);
    Ok(complaints)
}

/// A path of the machine it was written on means nothing to anyone else.
fn folders_of_this_machine(name: &str, text: &str, root: &Path) -> Vec<String> {
    let folder = root.display().to_string();
    // A checkout right under `/` has no telling name.
    if folder.matches('/').count() < 2 {
        return Vec::new();
    }
    lines_with(text, |line| line.contains(&folder))
        .map(|line| format!("{name}:{line}: names a folder of this machine, {folder}"))
        .collect()
}

/// What a merge leaves where it could not decide.
fn unfinished_merges(name: &str, text: &str) -> Vec<String> {
    let has_mark = |line: &str| ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark));
    lines_with(text, has_mark).map(|line| format!("{name}:{line}: the mark of a merge")).collect()
}

fn lines_with<'a>(text: &'a str, has: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = usize> + 'a {
    text.lines().enumerate().filter(move |(_, line)| has(line)).map(|(index, _)| index + 1)
}

/// Every complaint about one Rust file.
fn of_source(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut complain = |line: usize, text: String| complaints.push(format!("{}:{line}: {text}", source.name));

    // The tests of a file are what its own first line says.
    if !source.text.starts_with("//!") && source.stem() != "tests" {
        complain(
            1,
            "does not begin with a `//!` line: what goes in, what comes out, what it must not do".into(),
        );
    }
    if FORBIDDEN_NAMES.contains(&source.stem()) {
        complain(1, format!("`{}` does not say what the file does", source.stem()));
    }
    let lines = source.lines_without_tests();
    if lines > LINES && !source.is_test_file() {
        complain(LINES, format!("{lines} lines without tests; {LINES} is the limit"));
    }
    for (line, code) in source.code() {
        let code = code.as_str();
        for (word, why) in FORBIDDEN_WORDS {
            if code.contains(word) {
                complain(line, format!("`{word}`: {why}"));
            }
        }
        if !source.is_test(line) {
            for (word, why) in TEST_WORDS {
                if code.contains(word) && !source.name.starts_with("xtask/") {
                    complain(line, format!("`{word}`: {why}"));
                }
            }
        }
        if source::has_word(code, "unsafe") && !is_in(source.name, UNSAFE) {
            complain(line, "`unsafe` in a file that is not listed for it".into());
        }
        if source.name.starts_with("assay/src/") {
            for word in ["println!", "print!", "eprintln!", "eprint!", "stdout().lock()", "stderr().lock()"] {
                if source::has_word(code, word) && !is_in(source.name, PRINTERS) && !source.is_test(line) {
                    complain(line, format!("`{word}`: only cli::output prints"));
                }
            }
        }
    }
    if let Some(module) = source.module() {
        complaints.extend(of_imports(source, &module));
    }
    complaints
}

/// Complaints about what a file of the userspace half uses.
fn of_imports(source: &Source, module: &str) -> Vec<String> {
    let mut complaints = BTreeSet::new();
    let rule =
        IMPORTS.iter().filter(|rule| is_within(module, rule.module)).max_by_key(|rule| rule.module.len());
    for (line, path) in source.crate_paths() {
        if source.is_test(line) {
            continue;
        }
        let Some(rule) = rule else {
            complaints.insert((line, format!("`{module}` is not in the table of who may import what")));
            continue;
        };
        let is_own = is_within(&path, rule.module);
        if !is_own && !rule.may_import.iter().any(|allowed| is_within(&path, allowed) || path == *allowed) {
            complaints.insert((line, format!("`{}` may not import `{path}`", rule.module)));
        }
    }
    for (line, code) in source.code() {
        let code = code.as_str();
        if source.is_test(line) {
            continue;
        }
        for (outside, files) in OUTSIDE {
            // A module of ours may be named like the crate it wraps.
            let code =
                code.replace(&format!("super::{outside}::"), "").replace(&format!("self::{outside}::"), "");
            if source::has_word(&code, &format!("{outside}::")) && !is_in(source.name, files) {
                complaints.insert((line, format!("only {} may name `{outside}`", files.join(", "))));
            }
        }
        let is_pure = is_in(source.name, PURE.0) && !is_in(source.name, PURE.1);
        for word in COMPANIONS {
            if is_pure && source::has_word(code, word) {
                complaints.insert((line, format!("`{word}` in a module that is pure")));
            }
        }
    }
    complaints.into_iter().map(|(line, text)| format!("{}:{line}: {text}", source.name)).collect()
}

/// `a::b` lies within `a`; everything lies within the root, whose path is empty.
fn is_within(module: &str, outer: &str) -> bool {
    outer.is_empty()
        || module == outer
        || module.strip_prefix(outer).is_some_and(|rest| rest.starts_with("::"))
}

/// Whether a file is one of these, or lies in one of these folders (which end in `/`).
fn is_in(name: &str, files: &[&str]) -> bool {
    files.iter().any(|file| name == *file || (file.ends_with('/') && name.starts_with(file)))
}

#[cfg(test)]
mod tests;
