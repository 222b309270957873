//! Builds the kernel tests as you, runs them as root, and says what could not run and why.
//!
//! In: a filter. Out: the tests' own output, then one line for each need this machine does not meet.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::again;
use crate::step::{self, command, output, root, run};

/// The tests' binary, built.
pub fn build() -> Result<PathBuf> {
    let mut cargo = command("cargo");
    cargo.args(["test", "--package", "assay", "--test", "kernel", "--no-run", "--message-format=json"]);
    let messages = output(&mut cargo)?;
    let of = |line: &str| Some(line.split_once("\"executable\":\"")?.1.split('"').next()?.to_owned());
    messages
        .lines()
        .filter(|line| line.contains("\"kind\":[\"test\"]") && line.contains("\"name\":\"kernel\""))
        .find_map(of)
        .map(PathBuf::from)
        .with_context(|| format!("find the test binary in what `{}` says", step::shown(&cargo)))
}

/// Runs the tests whose names hold one of the `filters`; all when there is none. `settings` is for their environment.
/// Returns a line for each that could not run.
pub fn execute(filters: &[String], settings: &[(&str, &str)]) -> Result<Vec<String>> {
    let tests = build()?;
    let not_run = root().join("target/kernel-not-run");
    // What is left of an earlier run would be counted again; mostly there is nothing.
    drop(fs::remove_file(&not_run));
    fs::File::create(&not_run).with_context(|| format!("create {}", not_run.display()))?;

    let with = |words: &[String]| -> Result<Command> {
        let mut command = as_root(&tests)?;
        command.arg(format!("ASSAY_NOT_RUN={}", not_run.display()));
        command.args(settings.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(&tests).args(words);
        Ok(command)
    };
    let outcome = passed(with(filters)?, with);

    let told = fs::read_to_string(&not_run).with_context(|| format!("read {}", not_run.display()))?;
    for line in told.lines() {
        println!("not run: {line}");
    }
    println!("{} could not run on this machine", count(told.lines().count(), "test"));
    outcome.with_context(|| format!("to see it again: cargo xtask kernel {}", filters.join(" ")))?;
    Ok(told.lines().map(str::to_owned).collect())
}

/// Runs the tests. In CI, where few failed, each runs again alone; what is left of that is the outcome (see `again`).
fn passed(mut tests: Command, with: impl Fn(&[String]) -> Result<Command>) -> Result<()> {
    if !step::is_ci() {
        return run(&mut tests);
    }
    let (outcome, lines) = step::run_and_read(&mut tests)?;
    let Err(error) = outcome else { return Ok(()) };
    let failures = again::failures(&lines);
    let mut is_fault = BTreeSet::new();
    for failure in &failures {
        let alone = [failure.name.clone(), "--exact".to_owned()];
        let passes = || with(&alone).and_then(|mut test| run(&mut test)).is_ok();
        if failures.len() > again::MOST || !(0..again::TIMES).all(|_| passes()) {
            is_fault.insert(&failure.name);
        }
    }
    print!("{}", again::summary(&failures, |one| !is_fault.contains(&one.name)));
    if failures.is_empty() || !is_fault.is_empty() { Err(error) } else { Ok(()) }
}

/// `env`, by way of `sudo` where we are not root.
fn as_root(tests: &std::path::Path) -> Result<Command> {
    let mut command = if step::is_root() {
        let mut env = command("env");
        // cargo sets it for its own children; programs under test would look for their libraries there.
        env.args(["--unset", "LD_LIBRARY_PATH"]);
        env
    } else if step::find("sudo").is_some() {
        let mut sudo = command("sudo");
        sudo.arg("env").arg(format!("PATH={}", std::env::var("PATH").unwrap_or_default()));
        sudo
    } else {
        bail!("the kernel tests need root: there is no sudo here; run {} as root", tests.display());
    };
    command.current_dir(root().join("assay"));
    Ok(command)
}

/// `1 test`, `2 tests`.
pub fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
