//! Flags → verify, lint, diff, show, gate.

use crate::cli::output::Output;
use crate::exit::Exit;

/// Commands under `assay evidence`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {}

/// Runs it.
pub fn run(_command: Command, out: &Output) -> Exit {
    out.error("not built yet");
    Exit::Failed
}
