//! Flags → merge, diff.

use crate::cli::output::Output;
use crate::exit::Exit;

/// Commands under `assay profile`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {}

/// Runs it.
pub fn run(_command: Command, out: &Output) -> Exit {
    out.error("not built yet");
    Exit::Failed
}
