//! The commands in the pages work by copy and paste, in their order, beside the files that the page speaks of.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::blocks::{AGENTS, NOT_RUN, of_page, pages, reason, records};
use crate::sample::{Dir, harmless, of};

/// The pages whose commands need no root.
fn plain_pages() -> Vec<(String, String)> {
    let mut all = pages();
    all.retain(|(name, page)| {
        name == "docs/cli.md" || name.starts_with("docs/guides/") && name != AGENTS && !records(name, page)
    });
    all
}

/// Whoever adds a block says who runs it, or why nobody does.
#[test]
fn every_block_for_a_shell_is_run_or_says_why_not() {
    let (mut run, mut not_run) = (0, vec![0; NOT_RUN.len()]);
    for (name, page) in pages() {
        let (before_tests, _) = page.split_once("\n## Test it").unwrap_or((&page, ""));
        for block in of_page(&name, &page) {
            // `tests/kernel/readme.rs`; and the guides, here, in `tests/kernel/guides.rs` or `agents.rs`.
            let is_run = name == "README.md"
                && of_page(&name, before_tests).iter().any(|one| one.text == block.text)
                || name == "docs/cli.md"
                || name.starts_with("docs/guides/") && reason(&block).is_none();
            match NOT_RUN
                .iter()
                .position(|(page, begins, _)| *page == block.page && block.text.starts_with(begins))
            {
                Some(place) if !is_run => not_run[place] += 1,
                None if is_run => run += 1,
                Some(_) => panic!("{name}: it is run, and listed as not run:\n{}", block.text),
                None => panic!("{name}: nobody runs this, and `NOT_RUN` has no reason:\n{}", block.text),
            }
        }
    }
    for ((page, begins, _), count) in NOT_RUN.iter().zip(&not_run) {
        assert!(*count > 0, "no block of {page} begins with `{begins}`");
    }
    assert!(run >= 15, "only {run} blocks are run");
    let said = format!("{} blocks of the pages are not run", not_run.iter().sum::<i32>());
    let contributing = include_str!("../../docs/contributing.md");
    assert!(contributing.contains(&said), "docs/contributing.md should say: {said}");
}

#[test]
fn the_commands_of_the_guides_work_as_they_stand() {
    let program = Path::new(env!("CARGO_BIN_EXE_assay")).parent().unwrap().to_owned();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut count = 0;
    for (name, page) in plain_pages() {
        let dir = Dir::new();
        dir.put("run.tar.gz", of(harmless()));
        dir.put("last-good.tar.gz", of(harmless()));
        dir.put(
            "assay.yaml",
            "api_version: assay/v1\nfs: {allow: [{path: '${WORKDIR}', access: [read, write]}]}\nnet: {allow: ['127.0.0.1:*']}\n",
        );
        for block in of_page(&name, &page).iter().filter(|block| reason(block).is_none()) {
            let block = &block.text;
            let mut shell = Command::new("sh");
            shell.args(["-euc", block]).current_dir(dir.path()).env("PATH", &path).stdin(Stdio::null());
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
    for (name, page) in plain_pages() {
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
