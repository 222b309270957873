//! Every developer command of assay: `cargo xtask --help`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod ebpf;
mod sources;
mod step;
mod toolchain;

/// Every developer command of assay.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The kernel half: build the object, check it, install what it takes.
    #[command(subcommand)]
    Ebpf(ebpf::Command),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Ebpf(what) => ebpf::execute(what),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
