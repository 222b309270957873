//! The commands in the pages work by copy and paste, in their order, beside the files that the page speaks of.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::sample::{Dir, harmless, of};

/// What is in blocks of these kinds is for a shell.
const SHELLS: [&str; 2] = ["```sh", "```console"];

/// The commands of a page, block by block.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if SHELLS.contains(&line.trim()) {
            let block = lines.by_ref().take_while(|line| line.trim() != "```");
            // A prompt is not typed.
            let typed = block.map(|line| line.strip_prefix("$ ").or(line.strip_prefix("# ")).unwrap_or(line));
            blocks.push(typed.fold(String::new(), |text, line| text + line + "\n"));
        }
    }
    blocks
}

fn pages() -> Vec<(String, String)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let guides = std::fs::read_dir(docs.join("guides")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = guides.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    paths.push(docs.join("cli.md"));
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn the_commands_of_the_guides_work_as_they_stand() {
    let program = Path::new(env!("CARGO_BIN_EXE_assay")).parent().unwrap().to_owned();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut count = 0;
    for (name, page) in pages() {
        let dir = Dir::new();
        dir.put("run.tar.gz", of(harmless()));
        dir.put("last-good.tar.gz", of(harmless()));
        dir.put(
            "assay.yaml",
            "api_version: assay/v1\nfs: {allow: [{path: '${WORKDIR}', access: [read, write]}]}\nnet: {allow: ['127.0.0.1:*']}\n",
        );
        for block in blocks(&page) {
            let mut shell = Command::new("sh");
            shell.args(["-euc", &block]).current_dir(dir.path()).env("PATH", &path).stdin(Stdio::null());
            let output = shell.output().unwrap();
            assert!(output.status.success(), "{name}: {block}{}", String::from_utf8_lossy(&output.stderr));
            count += 1;
        }
    }
    assert!(count >= 2, "only {count} blocks");
}

/// What a page shows of `assay.yaml` is taken as it stands.
#[test]
fn the_settings_of_the_guides_are_taken() {
    let mut count = 0;
    for (name, page) in pages() {
        for block in page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
            let dir = Dir::new();
            dir.put("run.tar.gz", of(harmless()));
            dir.put("assay.yaml", block);
            let ran = crate::sample::assay(&dir, &["evidence", "lint", "run.tar.gz"], b"");
            assert_eq!(ran.code, Some(0), "{name}: {block}{ran:?}");
            assert!(ran.stderr.contains("those of assay.yaml"), "{name}: {ran:?}");
            count += 1;
        }
    }
    assert!(count >= 1, "only {count} blocks");
}
