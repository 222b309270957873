//! All that CI runs, in its order; every step is a command that can be typed.
//!
//! The cheap and the strict come first. The workspace's tests come last, so that the closing lines are theirs.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::step::{self, command, run};
use crate::{browser, ebpf, kernel, package, python, vm};

/// Runs all of it; stops at the first step that fails.
pub fn check() -> Result<()> {
    let mut not_run = Vec::new();
    run(command("cargo").args(["fmt", "--all", "--check"]))?;
    run(command("cargo").args(["clippy", "--workspace", "--all-targets", "--", "-Dwarnings"]))?;
    // `test = false` keeps the kernel tests out of `cargo test`, and out of `--all-targets` with it.
    run(command("cargo").args(["clippy", "--package", "assay", "--test", "kernel", "--", "-Dwarnings"]))?;
    if step::find("cargo-deny").is_some() {
        run(command("cargo").args(["deny", "--offline", "check", "bans", "licenses", "sources"]))?;
    } else {
        not_run.push("cargo deny check: cargo-deny is not installed".to_owned());
    }

    println!("$ cargo xtask ebpf verify");
    let verified = ebpf::execute(ebpf::Command::Verify)?;
    if verified != ExitCode::SUCCESS {
        not_run.push("cargo xtask ebpf verify: this machine has another compiler or linker".to_owned());
    }

    match browser::missing() {
        None => {
            run(command("cargo").args([
                "clippy",
                "--package",
                "assay",
                "--test",
                "browser",
                "--",
                "-Dwarnings",
            ]))?;
            println!("$ cargo xtask browser");
            browser::execute(&browser::Options::default())?;
        }
        Some(missing) => not_run.push(format!("cargo xtask browser: {missing}")),
    }

    println!("$ cargo xtask kernel");
    let absent = kernel::execute(&[], &[])?;

    println!("$ cargo xtask vm");
    match vm::missing() {
        None => {
            let ran = vm::execute(&vm::Options::default())?;
            let unproven = vm::unproven(&absent, &ran);
            if !unproven.is_empty() {
                bail!("these ran neither here nor in a machine:\n{}", unproven.join("\n"));
            }
        }
        Some(missing) => not_run.push(format!("cargo xtask vm: {missing}")),
    }

    if let Some(missing) = python::missing() {
        not_run.push(format!("tests that hold output to programs of others: {missing}"));
    }
    // Minutes, and Debian's mirror: for those who make releases, and have set it up.
    match package::missing() {
        None => {
            println!("$ cargo xtask package check");
            package::execute(package::Command::Check)?;
        }
        Some(missing) => not_run.push(format!("cargo xtask package check: {missing}")),
    }

    if step::find("shellcheck").is_none() {
        not_run.push("the scripts of .ci by shellcheck: it is not installed".to_owned());
    }

    for step in &not_run {
        println!("not run: {step}");
    }
    workspace()
}

/// The tests: all that need no root, after those that do.
pub fn test() -> Result<()> {
    println!("$ cargo xtask kernel");
    kernel::execute(&[], &[])?;
    workspace()
}

/// What the cases of property tests and of `tests/it/mutations.rs` are drawn from.
const SEED: &str = "PROPTEST_RNG_SEED";

fn workspace() -> Result<()> {
    // One command a line of results: unit tests, tests/it, the tidiness of the tree, the examples in the docs.
    let mut tests = command("cargo");
    tests.args(["test", "--workspace", "--no-fail-fast"]);
    // What CI says of a commit must not depend on a throw of dice. Everybody else's runs look for new cases.
    if step::is_ci() && std::env::var_os(SEED).is_none() {
        tests.env(SEED, "20261130");
    }
    run(&mut tests)
}
