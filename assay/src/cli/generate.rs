//! Completions and man pages, generated from the command line's own definition.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::cli::output::Output;
use crate::exit::Exit;

/// Flags of `assay completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// For which shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Flags of `assay man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Where the pages go; made when it is not there.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes a shell's completions to stdout.
pub fn completions(args: &CompletionsArgs, out: &Output) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "assay", &mut script);
    match out.result(&script) {
        Ok(()) => Exit::Success,
        Err(error) => {
            out.error(&format!("write the completions: {error}"));
            Exit::Refused
        }
    }
}

/// Writes one man page a command into a directory.
pub fn man(args: &ManArgs, out: &Output) -> Exit {
    match write_pages(&args.directory) {
        Ok(()) => Exit::Success,
        Err(error) => {
            out.error(&format!("write man pages to {}: {error}", args.directory.display()));
            Exit::Refused
        }
    }
}

fn write_pages(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)
}
