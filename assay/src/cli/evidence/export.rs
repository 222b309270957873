//! Flags → export: the effects of verified bundles, a line each, for programs of others.
//!
//! Every bundle is read to its end and verified before the first line is written. Then it is read again, and has to be
//! the same bytes. A file appears whole or not at all; on stdout, the exit code says whether what came is the whole.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

mod trace;

use super::input::{Input, InputError, stdin_more_than_once};
use crate::canon::digest::Digest;
use crate::cli::output::Output;
use crate::cli::pager::Pager;
use crate::evidence::integrity::shown;
use crate::evidence::verify::Verified;
use crate::exit::Exit;
use crate::report::export::perfetto::{self, Counts};
use crate::report::export::{self, Head, Run};
use crate::sandbox::artifact::{Owner, Target};

const EXAMPLES: &str = "\
Examples:
  assay evidence export run.tar.gz --format jsonl -o run.jsonl
  assay evidence export runs/ --format jsonl | duckdb -c \"FROM read_json_auto('/dev/stdin')\"
  assay evidence export runs/ --format ocsf --host \"$HOSTNAME\" -o events.ocsf.jsonl
  assay evidence export --trace run.trace.ndjson --format perfetto -o run.perfetto.json";

/// Flags of `assay evidence export`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Bundles; `-` is stdin, a directory stands for every `*.tar.gz` in it, by name.
    #[arg(value_name = "BUNDLE", required_unless_present = "trace")]
    bundles: Vec<PathBuf>,
    /// What is written.
    #[arg(long, value_enum)]
    format: Format,
    /// Where to write; without it, to stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to call the machine that the runs ran on: a bundle does not say it.
    #[arg(long, value_name = "NAME", required_if_eq("format", "ocsf"))]
    host: Option<String>,
    /// Make the time line of a trace (`assay sandbox --trace`), with every act at its moment; only for `perfetto`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bundles", "host"])]
    trace: Option<PathBuf>,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A flat JSON object a line, for a table or a log pipeline.
    Jsonl,
    /// OTLP/JSON logs, a `resourceLogs` object a line.
    OtlpJson,
    /// OCSF 1.5.0, an event a line.
    Ocsf,
    /// A time line for Perfetto or Chrome's viewer: a bar for each run, or the acts of a trace.
    Perfetto,
}

impl Format {
    /// The format, if it is one of a line for each event.
    fn of_lines(self) -> Option<export::Format> {
        match self {
            Self::Jsonl => Some(export::Format::Jsonl),
            Self::OtlpJson => Some(export::Format::OtlpJson),
            Self::Ocsf => Some(export::Format::Ocsf),
            Self::Perfetto => None,
        }
    }

    /// What stands before the first line, before each that follows, and after the last; every line ends in LF.
    fn frame(self) -> (&'static str, &'static str, &'static str) {
        if self == Self::Perfetto { perfetto::FRAME } else { ("", "", "") }
    }
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Exit {
    match export(args, out) {
        Ok(()) => Exit::Success,
        Err(problems) => {
            for problem in problems {
                out.error(&format!("export {problem}"));
            }
            Exit::Refused
        }
    }
}

fn export(args: &Args, out: &Output) -> Result<(), Vec<String>> {
    if stdin_more_than_once(args.bundles.iter().map(PathBuf::as_path), out) {
        return Err(Vec::new());
    }
    let one = |error: &dyn std::fmt::Display| vec![error.to_string()];
    let target = args.output.as_deref().map(Target::prepare).transpose().map_err(|error| one(&error))?;
    if args.trace.is_some() && args.format != Format::Perfetto {
        return Err(vec!["--trace: only for --format perfetto; a trace is JSON lines already".to_owned()]);
    }
    let mut checked = check(&paths(&args.bundles)?)?;
    let mut trouble = None;
    let mut write = |writer: &mut dyn Write| {
        match &args.trace {
            Some(path) => trace::write(path, writer, &mut trouble, out)?,
            None => write_all(args, &mut checked, writer, &mut trouble)?,
        }
        // What is not whole must not look whole: a file does not appear.
        if trouble.is_some() { Err(io::Error::other("not all could be read")) } else { Ok(()) }
    };
    let written = match &target {
        Some(target) => target.write(Owner::Ourselves, &mut write).map(drop).map_err(|error| one(&error)),
        None => out
            .result_with(Pager::Never, &mut write)
            .map_err(|error| vec![format!("write the result: {error}")]),
    };
    match trouble {
        Some(trouble) => {
            let what = if target.is_some() { "nothing was written" } else { "what was written is not whole" };
            Err(vec![format!("{trouble}: {what}")])
        }
        None => written,
    }
}

/// The bundles that are meant, in order: those of a directory by their names.
fn paths(given: &[PathBuf]) -> Result<Vec<PathBuf>, Vec<String>> {
    let (mut paths, mut problems) = (Vec::new(), Vec::new());
    for path in given {
        if path == Path::new("-") || !path.is_dir() {
            paths.push(path.clone());
            continue;
        }
        let name = shown(path.as_os_str().as_encoded_bytes());
        match bundles_in(path) {
            Ok(found) if found.is_empty() => problems.push(format!("{name}: no *.tar.gz in this directory")),
            Ok(found) => paths.extend(found),
            Err(error) => problems.push(format!("open {name}: {error}")),
        }
    }
    if problems.is_empty() { Ok(paths) } else { Err(problems) }
}

fn bundles_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if is_bundle(&name) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

/// A name that begins with a dot is a file that somebody hides or is still writing.
fn is_bundle(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.ends_with(b".tar.gz") && !name.starts_with(b".")
}

/// A bundle that was found good.
struct Checked {
    path: PathBuf,
    sha256: Digest,
    /// What was verified, and what was learnt by it, if there was room; otherwise it is opened and verified once more.
    known: Option<Known>,
}

struct Known {
    input: Input,
    verified: Verified,
    head: Head,
}

/// How much of what verifying tells is kept for all bundles together, in bytes.
const MOST_KEPT: usize = 4 << 20;
/// How many files stay open meanwhile.
const MOST_OPEN: usize = 64;

/// Verifies all of them, and tells of each that is not good.
fn check(paths: &[PathBuf]) -> Result<Vec<Checked>, Vec<String>> {
    let (mut checked, mut problems) = (Vec::new(), Vec::new());
    let (mut kept, mut open) = (0, 0);
    for path in paths {
        match Input::open_again(path).and_then(verify) {
            Ok(known) => {
                let sha256 = known.verified.archive.sha256;
                let weight = known.head.weight() + known.verified.manifest.weight();
                // What came through a pipe cannot be had again.
                let is_kept = !known.input.is_file() || (kept + weight <= MOST_KEPT && open < MOST_OPEN);
                if is_kept {
                    kept += weight;
                    open += 1;
                }
                checked.push(Checked { path: path.clone(), sha256, known: is_kept.then_some(known) });
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    if problems.is_empty() { Ok(checked) } else { Err(problems) }
}

fn verify(mut input: Input) -> Result<Known, InputError> {
    let mut head = Head::default();
    let verified = input.verify(|_, event| head.add(event))?;
    Ok(Known { input, verified, head })
}

/// Writes the lines of all bundles. What goes wrong with a bundle is put into `trouble`.
fn write_all(
    args: &Args,
    checked: &mut [Checked],
    writer: &mut dyn Write,
    trouble: &mut Option<String>,
) -> io::Result<()> {
    let mut lines = Lines::begin(writer, args.format.frame())?;
    for bundle in checked {
        match write_one(args, bundle, &mut lines) {
            Ok(printed) => printed?,
            Err(error) => {
                // Nothing closes what is not whole.
                *trouble = Some(error.to_string());
                return Ok(());
            }
        }
    }
    lines.end()
}

/// Writes lines within the frame of their format.
struct Lines<'a> {
    writer: &'a mut dyn Write,
    between: &'static str,
    after: &'static str,
    is_first: bool,
    bundles: u64,
}

impl<'a> Lines<'a> {
    fn begin(
        writer: &'a mut dyn Write,
        (before, between, after): (&'static str, &'static str, &'static str),
    ) -> io::Result<Self> {
        writer.write_all(before.as_bytes())?;
        Ok(Self { writer, between, after, is_first: true, bundles: 0 })
    }

    fn put(&mut self, line: &str) -> io::Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_all(self.between.as_bytes())?;
        }
        self.writer.write_all(line.as_bytes())?;
        self.writer.write_all(b"\n")
    }

    fn end(self) -> io::Result<()> {
        self.writer.write_all(self.after.as_bytes())
    }
}

fn write_one(args: &Args, bundle: &mut Checked, lines: &mut Lines<'_>) -> Result<io::Result<()>, InputError> {
    let Known { mut input, verified, head } = match bundle.known.take() {
        Some(known) => known,
        None => Input::open_again(&bundle.path).and_then(verify)?,
    };
    if verified.archive.sha256 != bundle.sha256 {
        return Err(InputError::Changed { name: input.name });
    }
    let run = Run {
        manifest: &verified.manifest,
        archive: &bundle.sha256,
        head: &head,
        host: args.host.as_deref(),
    };
    let Some(format) = args.format.of_lines() else { return time_line(&mut input, &run, &verified, lines) };
    let mut printed = lines.put(&format.run(&run));
    input.reread(
        &verified,
        |_| true,
        |event| {
            if let Some(line) = format.event(&run, event) {
                printed = lines.put(&line);
            }
            until_nobody_reads(&printed)
        },
    )?;
    Ok(printed)
}

/// The bar of a run, which counts its effects.
fn time_line(
    input: &mut Input,
    run: &Run<'_>,
    verified: &Verified,
    lines: &mut Lines<'_>,
) -> Result<io::Result<()>, InputError> {
    let mut counts = Counts::default();
    input.reread(
        verified,
        |_| true,
        |event| {
            if !run.head.has(event) {
                counts.add(event);
            }
            ControlFlow::Continue(())
        },
    )?;
    lines.bundles += 1;
    let events = perfetto::run(run, &counts, lines.bundles);
    Ok(events.iter().try_for_each(|event| lines.put(event)))
}

fn until_nobody_reads(printed: &io::Result<()>) -> ControlFlow<()> {
    if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}
