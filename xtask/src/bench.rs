//! What things cost here, measured.

use anyhow::Result;
use clap::Subcommand;

mod actor;
mod bpf;
mod evidence;
mod executed;
mod group;
mod hooks;
mod programs;
mod raw_calls;
mod runs;
mod spread;
mod tracepoint;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// The ways to hook system calls, side by side: what each sees, and what each costs. Needs root.
    Hooks(hooks::Options),
    /// Whole commands, bare and recorded, side by side. Needs root.
    Runs(runs::Options),
    /// Writing, verifying, linting, showing, judging and comparing large bundles, side by side.
    Evidence(evidence::Options),
    /// The observer's programs, one by one: instructions verified, runs, and time. Needs root.
    Programs(executed::Options),
    /// The measured process of the others: reads jobs on stdin, answers on stdout.
    #[command(hide = true)]
    Actor {
        /// The processor it keeps to.
        processor: usize,
    },
}

/// Runs one.
pub fn execute(what: &Command) -> Result<()> {
    match what {
        Command::Hooks(options) => hooks::execute(options),
        Command::Evidence(options) => evidence::execute(options),
        Command::Runs(options) => runs::execute(options),
        Command::Programs(options) => executed::execute(options),
        Command::Actor { processor } => actor::execute(*processor),
    }
}
