//! The blocks of the pages that are for a shell, and who runs each: nothing that a person may copy is left untried unsaid.

use std::path::{Path, PathBuf};

/// What is in blocks of these kinds is for a shell.
const SHELLS: [&str; 3] = ["```sh", "```console", "```bash"];

/// Blocks that no test runs: the page, how the block begins, and why.
pub const NOT_RUN: [(&str, &str, &str); 12] = [
    ("README.md", "cargo xtask ci", "it runs all tests, this one among them"),
    ("docs/contributing.md", "cargo xtask check", "it runs all tests, this one among them"),
    ("docs/benchmarks.md", "", "minutes of load, to be measured on a quiet machine"),
    (
        "docs/decisions/0003-hooks.md",
        "cargo xtask bench hooks",
        "minutes of load, to be measured on a quiet machine",
    ),
    (
        "docs/guides/install.md",
        "sudo apt install",
        "it would change the machine; `cargo xtask package check` installs the package in a Debian of its own",
    ),
    ("docs/guides/install.md", "cargo install", "it builds for minutes; `.ci/run` builds the same"),
    (
        "docs/guides/install.md",
        "sudo setcap",
        "it needs systemd; `tests/kernel/capable.rs` types what `assay doctor` says here",
    ),
    (
        "docs/guides/many-runs.md",
        "assay runs",
        "it reads the spool of this host; `tests/it/runs.rs` types it on one of its own",
    ),
    (
        "docs/guides/many-runs.md",
        "sudo groupadd",
        "it would change the machine; `tests/kernel/client.rs` starts a service of its own",
    ),
    (
        "docs/guides/many-runs.md",
        "assay sandbox",
        "it needs the host's service; `tests/kernel/client.rs` asks one of its own",
    ),
    ("docs/guides/many-runs.md", "sudo systemctl", "it needs systemd"),
    ("docs/guides/install.md", "sudo chgrp", "it would change the machine"),
];

/// The guide whose commands start coding agents: `tests/kernel/agents.rs` runs it, with the agents.
pub const AGENTS: &str = "docs/guides/agents.md";

/// A block, as it is typed: without prompts.
pub struct Block {
    /// The page, from the root of the checkout.
    pub page: String,
    /// What is typed.
    pub text: String,
}

/// Every block of a page.
pub fn of_page(name: &str, page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if SHELLS.contains(&line.trim()) {
            let block = lines.by_ref().take_while(|line| line.trim() != "```");
            // A prompt is not typed.
            let typed = block.map(|line| line.strip_prefix("$ ").or(line.strip_prefix("# ")).unwrap_or(line));
            let text = typed.fold(String::new(), |text, line| text + line + "\n");
            blocks.push(Block { page: name.to_owned(), text });
        }
    }
    blocks
}

/// The root of this checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every page, by its name from the root, with its text; in the order of their names.
pub fn pages() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of pages").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let name = |path: &Path| path.strip_prefix(root()).expect("beneath the root").display().to_string();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).expect("a page"))).collect()
}

/// Why nobody runs it; `None` where somebody does.
pub fn reason(block: &Block) -> Option<&'static str> {
    let is_it =
        |&&(page, begins, _): &&(&str, &str, &str)| page == block.page && block.text.starts_with(begins);
    NOT_RUN.iter().find(is_it).map(|(_, _, why)| *why)
}

/// A guide whose commands record runs, which takes root and the real kernel: `tests/kernel/guides.rs` runs it.
pub fn records(name: &str, page: &str) -> bool {
    name.starts_with("docs/guides/")
        && name != AGENTS
        && of_page(name, page)
            .iter()
            .any(|block| reason(block).is_none() && block.text.contains("assay sandbox "))
}
