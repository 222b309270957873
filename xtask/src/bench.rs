//! What things cost here, measured.

use anyhow::Result;
use clap::Subcommand;

mod actor;
mod bpf;
mod evidence;
mod executed;
mod group;
mod hooks;
mod network;
mod programs;
mod raw_calls;
mod runs;
mod spread;
mod tracepoint;
mod watched;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// The ways to hook system calls, side by side: what each sees, and what each costs. Needs root.
    Hooks(hooks::Options),
    /// Whole commands, bare and recorded, side by side. Needs root.
    Runs(runs::Options),
    /// Writing, verifying, linting, showing, judging and comparing large bundles, side by side.
    Evidence(evidence::Options),
    /// Bytes and connections through the loopback, bare and observed, side by side. Needs root.
    Network(network::Options),
    /// The client that `network` measures: prints its nanoseconds by the clock and of processor time.
    #[command(hide = true)]
    NetworkClient(network::Client),
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
        Command::Network(options) => network::execute(options),
        Command::NetworkClient(client) => network::client(client),
        Command::Runs(options) => runs::execute(options),
        Command::Programs(options) => executed::execute(options),
        Command::Actor { processor } => actor::execute(*processor),
    }
}
