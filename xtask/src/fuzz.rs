//! Fuzzing with stable Rust: libFuzzer, with the same instrumentation that cargo-fuzz asks rustc for, short of a sanitizer,
//! which safe code has little use for.
//!
//! In: targets of `tests/fuzz/check.rs` and how long. Out: findings as an error; what was learned joins the corpus in
//! `tests/fixtures/fuzz`, from which `tests/it/mutations.rs` runs every input on each build.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::step::{command, output, root, run};

#[path = "../../tests/fuzz/corpus.rs"]
mod corpus;

/// What to fuzz, and how long.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Targets; all, one after the other, when there are none.
    targets: Vec<String>,
    /// How long each target runs: `90s`, `20m`, `1h`. With `0s` the corpus is only run and minimized.
    #[arg(long = "for", default_value = "1m", value_parser = duration)]
    time: Duration,
}

/// An instruction counter at every edge, and the operands of comparisons. Debug assertions and overflow checks are on: a
/// wrong number that happens to do no harm is a finding too.
const FLAGS: &[&str] = &[
    "--cfg",
    "fuzzing",
    "-C",
    "passes=sancov-module",
    "-C",
    "llvm-args=-sanitizer-coverage-level=4",
    "-C",
    "llvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-C",
    "llvm-args=-sanitizer-coverage-pc-table",
    "-C",
    "llvm-args=-sanitizer-coverage-trace-compares",
    "-C",
    "debug-assertions=yes",
    "-C",
    "overflow-checks=yes",
];

/// An input takes less than this, or it is a finding.
const MOST_SECONDS: u32 = 5;
/// The process takes less than this, or it is a finding; the counters and what libFuzzer remembers are part of it.
const MOST_MEGABYTES: u32 = 1024;
/// Inputs of the corpus are no longer than this.
const MOST_BYTES: usize = 8192;
/// Files of the corpus hold no more than this; the shortest inputs are kept.
const MOST_CORPUS_BYTES: usize = 150_000;

const CORPUS: &str = "tests/fixtures/fuzz";

/// Runs it.
pub fn execute(options: &Options) -> Result<()> {
    let known = targets()?;
    for name in &options.targets {
        if !known.contains(name) {
            bail!("no target `{name}`; there are {}", known.join(", "));
        }
    }
    let fuzzer = build()?;
    let chosen = if options.targets.is_empty() { &known } else { &options.targets };
    for target in chosen {
        fuzz(&fuzzer, target, options.time)?;
    }
    Ok(())
}

/// The names in the table of `check.rs`.
fn targets() -> Result<Vec<String>> {
    let text = fs::read_to_string(root().join("tests/fuzz/check.rs"))?;
    let table = text.split("pub const TARGETS").nth(1).and_then(|rest| rest.split("];").next());
    let rows = table.context("tests/fuzz/check.rs has no table of targets")?.lines();
    Ok(rows.filter_map(|row| Some(row.trim().strip_prefix("(\"")?.split('"').next()?.to_owned())).collect())
}

fn build() -> Result<PathBuf> {
    // With a target named, the flags stay away from build scripts and macros.
    let host = output(command("rustc").args(["--print", "host-tuple"]))?;
    let folder = root().join("target/fuzz");
    run(command("cargo")
        .args([
            "build",
            "--release",
            "--manifest-path",
            "tests/fuzz/Cargo.toml",
            "--target",
            &host,
            "--target-dir",
        ])
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f")))?;
    Ok(folder.join(host).join("release/target"))
}

fn fuzz(fuzzer: &Path, target: &str, time: Duration) -> Result<()> {
    let folder = root().join("target/fuzz").join(target);
    let (corpus, smaller, findings) =
        (folder.join("corpus"), folder.join("smaller"), folder.join("findings"));
    for each in [&corpus, &findings] {
        fs::create_dir_all(each).with_context(|| format!("make {}", each.display()))?;
    }
    for (at, input) in corpus::read(&root().join(CORPUS), target)?.iter().enumerate() {
        fs::write(corpus.join(format!("kept-{at:05}")), input)?;
    }
    let libfuzzer = |more: &[String]| {
        let mut command = command("nice");
        command.args(["-n", "19"]).arg(fuzzer).env("ASSAY_FUZZ_TARGET", target);
        command.args([
            format!("-timeout={MOST_SECONDS}"),
            format!("-rss_limit_mb={MOST_MEGABYTES}"),
            format!("-max_len={MOST_BYTES}"),
            "-verbosity=0".to_owned(),
            format!("-dict={}", root().join("tests/fuzz/words.dict").display()),
        ]);
        command.args(more);
        command
    };
    if !time.is_zero() {
        let more = [
            format!("-max_total_time={}", time.as_secs()),
            format!("-artifact_prefix={}/", findings.display()),
            "-print_final_stats=1".to_owned(),
        ];
        let found = run(libfuzzer(&more).arg(&corpus));
        found.with_context(|| format!("{target}: the input lies in {}", findings.display()))?;
    }
    if smaller.exists() {
        fs::remove_dir_all(&smaller)?;
    }
    fs::create_dir_all(&smaller)?;
    run(libfuzzer(&["-merge=1".to_owned()]).args([&smaller, &corpus]))?;
    let mut inputs = Vec::new();
    for entry in fs::read_dir(&smaller)? {
        inputs.push(fs::read(entry?.path())?);
    }
    let kept = keep(inputs);
    println!("{target}: {} inputs in {CORPUS}/{target}.txt", kept.len());
    fs::create_dir_all(root().join(CORPUS))?;
    corpus::write(&root().join(CORPUS), target, &kept)
        .with_context(|| format!("write the corpus of {target}"))
}

/// The shortest inputs, as many as fit, in order.
fn keep(mut inputs: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    inputs.dedup();
    let mut bytes = 0;
    inputs.retain(|input| {
        bytes += input.escape_ascii().count() + 1;
        bytes <= MOST_CORPUS_BYTES
    });
    inputs
}

fn duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(format!("`{unit}` is no unit; s, m and h are")),
    };
    let count: u64 = digits.parse().map_err(|_| "a number and a unit, such as `20m`".to_owned())?;
    Ok(Duration::from_secs(count * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_typed() {
        assert_eq!(duration("20m"), Ok(Duration::from_secs(1200)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        assert!(duration("1d").is_err() && duration("m").is_err());
    }

    #[test]
    fn the_table_of_targets_is_found() {
        assert!(targets().is_ok_and(|names| names.iter().any(|name| name == "archive")));
    }
}
