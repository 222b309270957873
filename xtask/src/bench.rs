//! What things cost here, measured.

use anyhow::Result;
use clap::Subcommand;

mod actor;
mod bpf;
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
        Command::Runs(options) => runs::execute(options),
        Command::Actor { processor } => actor::execute(*processor),
    }
}
