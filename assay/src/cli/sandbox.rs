//! Flags → a sandbox request.

use crate::cli::output::Output;
use crate::exit::Exit;

/// Flags of `assay sandbox`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_args: Args, out: &Output) -> Exit {
    out.error("not built yet");
    Exit::Failed
}
