//! Flags → a report of a bundle, for a person.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::evidence::input::{Input, InputError, write_file};
use super::failure::Refusal;
use crate::cli::output::Output;
use crate::cli::pager::Pager;
use crate::evidence::Evidence;
use crate::evidence::retold::{BundleFacts, Retelling};
use crate::exit::Exit;
use crate::report::basis::Basis;
use crate::report::text::Paint;
use crate::report::{html, markdown, plain};

/// Flags of `assay report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The bundle; `-` is stdin.
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// What is made; otherwise what the name of the output ends in, or text.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Where to write; without it, to stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What a report is made as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// One file for a browser, which loads nothing else.
    Html,
    /// For a pull request or a wiki.
    Markdown,
    /// For a terminal.
    Text,
}

impl Format {
    /// What a name asks for.
    fn of(path: &Path) -> Self {
        let ending = path.extension().map(std::ffi::OsStr::to_ascii_lowercase);
        match ending.as_ref().and_then(|ending| ending.to_str()) {
            Some("html" | "htm") => Self::Html,
            Some("md" | "markdown") => Self::Markdown,
            _ => Self::Text,
        }
    }
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Exit {
    let (evidence, facts) = match read(&args.bundle) {
        Ok(told) => told,
        Err(refusal) => return refusal.tell(out),
    };
    let format = args.format.or_else(|| args.output.as_deref().map(Format::of)).unwrap_or(Format::Text);
    let basis = Basis::Bundle(&facts);
    let is_for_terminal = args.output.is_none() && out.is_colored();
    let paint = if is_for_terminal { Paint::Colored } else { Paint::Plain };
    let write = |writer: &mut dyn Write| match format {
        Format::Html => html::write(writer, &evidence, basis),
        Format::Markdown => markdown::write(writer, &evidence, basis),
        Format::Text => plain::write(writer, &evidence, basis, paint),
    };
    let is_written = match &args.output {
        Some(path) => write_file(out, path, write),
        None => match out.result_with(Pager::Never, write) {
            Ok(()) => true,
            Err(error) => {
                out.error(&format!("write the result: {error}"));
                false
            }
        },
    };
    if is_written { Exit::Success } else { Exit::Refused }
}

/// The evidence that a bundle holds, once it was found good.
fn read(bundle: &Path) -> Result<(Evidence, BundleFacts), Refusal> {
    let refused = |error: InputError| Refusal::new(format!("report {error}"));
    let mut retelling = Retelling::new();
    let mut input = Input::open_once(bundle).map_err(refused)?;
    let verified = input.verify(|_, event| retelling.add(event)).map_err(refused)?;
    retelling.finish(&verified).map_err(|error| {
        Refusal::new(format!("report {}: {error}", input.name))
            .with_hint("`assay evidence show` prints what is there")
    })
}
