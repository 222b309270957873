//! Flags → export: bundles out of the spool, into a directory or as one tar.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::filters::Filters;
use super::list::tell_unsearched;
use super::{Place, refuse};
use crate::cli::evidence::input::write_file;
use crate::cli::output::Output;
use crate::cli::pager::Pager;
use crate::exit::Exit;
use crate::profile::name::harmless;
use crate::spool::Spool;
use crate::spool::entry::Entry;
use crate::spool::export::{Archive, ExportError, outside_name};
use crate::spool::query::Query;

/// Flags of `assay runs export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The runs, by their entries; without any, those of the filters.
    #[arg(value_name = "ENTRY")]
    runs: Vec<u64>,
    /// Where to copy them; `-` writes a tar to stdout.
    ///
    /// A directory that is there. Each bundle is called by its entry and its run id.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    filters: Filters,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Exit {
    let query = args.filters.query();
    if args.runs.is_empty() && query == Query::default() {
        out.error("export: no run is named, and nothing is asked for");
        out.hint(
            "`assay runs export 12 13 -o DIR`, or filters as of `assay runs list`, such as `--since 7d`",
        );
        return Exit::Refused;
    }
    let spool = match args.place.open(out) {
        Ok(spool) => spool,
        Err(exit) => return exit,
    };
    let entries = match choose(&spool, args, &query, out) {
        Ok(entries) => entries,
        Err(exit) => return exit,
    };
    // Who names a run wants that run's bundle; who filters wants those that there are.
    let is_named = !args.runs.is_empty();
    if args.output == Path::new("-") {
        return archive(&spool, &entries, is_named, out);
    }
    let mut is_whole = true;
    let mut copied = 0u64;
    for entry in &entries {
        let target = args.output.join(outside_name(entry));
        let mut failure = None;
        let mut buffer = Vec::new();
        // Nothing is put there before it is known to be good.
        match spool.copy_bundle(entry, &mut buffer) {
            Ok(()) if write_file(out, &target, |file| file.write_all(&buffer)) => copied += 1,
            Ok(()) => is_whole = false,
            Err(error) => failure = Some(error),
        }
        is_whole &= failure.is_none_or(|error| tell(&error, is_named, out));
    }
    out.note(&format!("{copied} bundles are in {}", args.output.display()));
    if is_whole { Exit::Success } else { Exit::Refused }
}

fn archive(spool: &Spool, entries: &[Entry], is_named: bool, out: &Output) -> Exit {
    let mut is_whole = true;
    let written = out.result_with(Pager::Never, |writer| {
        let mut archive = Archive::new(Unbuffered(writer));
        for entry in entries {
            match archive.add(spool, entry) {
                // A reader that went away, or a disk that is full, takes no more.
                Err(ExportError::Io { source, .. }) if is_of_writing(&source) => return Err(source),
                Err(error) => is_whole &= tell(&error, is_named, out),
                Ok(()) => {}
            }
        }
        archive.finish()
    });
    match written {
        Err(error) => refuse(out, &format!("write the archive: {error}")),
        Ok(()) if is_whole => Exit::Success,
        Ok(()) => Exit::Refused,
    }
}

fn is_of_writing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::StorageFull | io::ErrorKind::WriteZero)
}

/// A writer that is only borrowed.
struct Unbuffered<'a>(&'a mut dyn Write);

impl Write for Unbuffered<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Says why a bundle was not copied; whether all that was asked for is there nevertheless.
fn tell(error: &ExportError, is_named: bool, out: &Output) -> bool {
    let text = harmless(&error.to_string()).into_owned();
    if matches!(error, ExportError::Absent(_)) && !is_named {
        out.note(&text);
        return true;
    }
    out.error(&text);
    false
}

fn choose(spool: &Spool, args: &Args, query: &Query, out: &Output) -> Result<Vec<Entry>, Exit> {
    if args.runs.is_empty() {
        let found = spool.find(query, None).map_err(|error| refuse(out, &error))?;
        tell_unsearched(&found, out);
        // What was collected is not there to be copied.
        let there = found.runs.into_iter().filter(|run| run.collected_by.is_none());
        return Ok(there.map(|run| run.entry).collect());
    }
    let mut entries = Vec::new();
    let is_taken = |entry: &Entry| args.runs.contains(&entry.seq) && query.takes(entry);
    let walked = spool.walk(None, |_, entry| entries.extend(entry.filter(is_taken)));
    walked.map_err(|error| refuse(out, &error))?;
    for seq in &args.runs {
        if !entries.iter().any(|entry| entry.seq == *seq) {
            return Err(refuse(out, &format!("export {seq}: no entry of a run in the chain")));
        }
    }
    Ok(entries)
}
