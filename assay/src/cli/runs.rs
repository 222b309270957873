//! Flags → list, show, verify, export and gc of a spool. Each command's work is in the file named after it.

use std::io;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::output::Output;
use crate::evidence::timestamp::Timestamp;
use crate::exit::Exit;
use crate::profile::name::harmless;
use crate::spool::{Spool, SpoolError};

mod export;
mod filters;
mod gc;
mod list;
mod show;
mod verify;

/// Commands under `assay runs`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List runs, the last one first.
    ///
    /// Exits 0, also when there is none, or 2 when the spool could not be read.
    List(list::Args),
    /// Show what the chain says of one run, and where its files are.
    ///
    /// Exits 0, or 2 when there is no such run.
    Show(show::Args),
    /// Check that nothing was removed or changed: the chain, every file, every bundle.
    ///
    /// Exits 0 when all is as it was written and 2 when it is not, with a stable code such as `chain/edited`.
    Verify(verify::Args),
    /// Copy bundles out.
    ///
    /// Exits 0, or 2 when one that was asked for could not be copied or is not as the chain names it.
    Export(export::Args),
    /// Remove the files of old runs; their entries stay, and say so.
    ///
    /// Exits 0, or 2 when something could not be removed.
    Gc(gc::Args),
}

/// Which spool.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// The directory of the spool.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/assay")]
    spool: PathBuf,
}

/// Runs it.
pub fn run(command: Command, out: &Output) -> Exit {
    match command {
        Command::List(args) => list::run(&args, out),
        Command::Show(args) => show::run(&args, out),
        Command::Verify(args) => verify::run(&args, out),
        Command::Export(args) => export::run(&args, out),
        Command::Gc(args) => gc::run(&args, out),
    }
}

impl Place {
    /// Opens it, or says why not.
    fn open(&self, out: &Output) -> Result<Spool, Exit> {
        Spool::open(&self.spool).map_err(|error| {
            out.error(&harmless(&error.to_string()));
            if let SpoolError::Io { source, .. } = &error {
                match source.kind() {
                    io::ErrorKind::PermissionDenied => {
                        out.hint("a spool is its owner's alone: try it with `sudo`");
                    }
                    io::ErrorKind::NotFound => out.hint("`--spool DIR` says where it is"),
                    _ => {}
                }
            }
            Exit::Refused
        })
    }
}

/// Says what went wrong.
fn refuse(out: &Output, error: &dyn std::fmt::Display) -> Exit {
    out.error(&harmless(&error.to_string()));
    Exit::Refused
}

/// The clock of the host.
fn now() -> Timestamp {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Timestamp::new(seconds.min(Timestamp::LAST as u64) as i64).expect("it is within what can be written")
}
