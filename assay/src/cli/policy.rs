//! Flags → check.

use crate::cli::output::Output;
use crate::exit::Exit;

/// Commands under `assay policy`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {}

/// Runs it.
pub fn run(_command: Command, out: &Output) -> Exit {
    out.error("not built yet");
    Exit::Failed
}
