//! Flags → show: the contents of a bundle, filtered, through a pager on a terminal.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use super::Format;
use super::input::{Input, InputError};
use crate::canon::value::Value;
use crate::cli::output::Output;
use crate::cli::pager::Pager;
use crate::evidence::verify::{Event, Verified};
use crate::evidence::view::{Content, View};
use crate::exit::Exit;
use crate::report::json::to_text;
use crate::report::show::{Head, line};
use crate::report::text::Paint;

/// Flags of `assay evidence show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The bundle; `-` is stdin.
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// Text, or JSON of `{events, manifest, verified}`.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Only events of this kind; may be given more than once.
    #[arg(long, value_enum, value_name = "KIND")]
    kind: Vec<Kind>,
    /// Only events whose path, program or endpoint begins so.
    #[arg(long, value_name = "PREFIX")]
    path: Option<String>,
    /// Only effects with this result.
    #[arg(long, value_enum, value_name = "RESULT")]
    result: Option<ResultWord>,
    /// Whether to use `$PAGER` (or less) on a terminal.
    #[arg(long, value_enum, default_value_t = Pager::Auto, value_name = "WHEN")]
    pager: Pager,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Fs,
    Exec,
    Net,
    Degraded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ResultWord {
    Ok,
    Denied,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Exit {
    match show(args, out) {
        Ok(()) => Exit::Success,
        Err(text) => {
            out.error(&format!("show {text}"));
            Exit::Refused
        }
    }
}

fn show(args: &Args, out: &Output) -> Result<(), String> {
    let text = |error: InputError| error.to_string();
    let mut input = Input::open_again(&args.bundle).map_err(text)?;
    let mut head = Head::default();
    let verified = input.verify(|_, event| head.add(event)).map_err(text)?;
    let paint = if out.is_colored() { Paint::Colored } else { Paint::Plain };
    let mut second_reading = Ok(());
    let written = out.result_with(args.pager, |writer| {
        let mut printed = Ok(());
        match args.format {
            Format::Text => {
                head.write(writer, &verified, paint)?;
                writeln!(writer)?;
                second_reading = input.reread(
                    &verified,
                    |_| true,
                    |event| {
                        if is_asked_for(args, event) {
                            printed = line(writer, event, paint);
                        }
                        until_nobody_reads(&printed)
                    },
                );
            }
            Format::Json => second_reading = json(args, &mut input, &verified, writer, &mut printed)?,
        }
        printed
    });
    second_reading.map_err(text)?;
    written.map_err(|error| format!("write the result: {error}"))
}

/// Streams `{events, manifest, verified}`.
fn json(
    args: &Args,
    input: &mut Input,
    verified: &Verified,
    writer: &mut dyn Write,
    printed: &mut io::Result<()>,
) -> io::Result<Result<(), InputError>> {
    writer.write_all(b"{\"events\":[")?;
    let mut is_first = true;
    let result = input.reread(
        verified,
        |_| true,
        |event| {
            if is_asked_for(args, event) {
                let comma = if is_first { "" } else { "," };
                is_first = false;
                let text = to_text(&Value::Object(event.object.clone()));
                *printed = write!(writer, "{comma}{text}");
            }
            until_nobody_reads(printed)
        },
    );
    let manifest = to_text(&Value::Object(verified.manifest.object.clone()));
    // `verified` is said last: a reader that stops before has no whole JSON.
    let is_verified = result.is_ok();
    writeln!(writer, "],\"manifest\":{manifest},\"verified\":{is_verified}}}")?;
    Ok(result)
}

/// A pager that was ended leaves nobody to read the rest for.
fn until_nobody_reads(printed: &io::Result<()>) -> ControlFlow<()> {
    if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Whether the filters let an event through. The events that frame the record pass when nothing is filtered.
fn is_asked_for(args: &Args, event: &Event) -> bool {
    let view = View::new(event);
    let kind = match view.content {
        Content::Fs { .. } => Some(Kind::Fs),
        Content::Exec { .. } => Some(Kind::Exec),
        Content::Net { .. } => Some(Kind::Net),
        Content::Degraded { .. } => Some(Kind::Degraded),
        Content::Started | Content::Summary | Content::Finished | Content::Unknown => None,
    };
    if !args.kind.is_empty() && !kind.is_some_and(|kind| args.kind.contains(&kind)) {
        return false;
    }
    if let Some(prefix) = &args.path {
        let to = match view.content {
            Content::Fs { to, .. } => to,
            _ => None,
        };
        if !event.subject().into_iter().chain(to).any(|name| name.starts_with(prefix.as_str())) {
            return false;
        }
    }
    match (args.result, event.data().and_then(|data| data.str("result"))) {
        (None, _) | (Some(ResultWord::Ok), Some("ok")) | (Some(ResultWord::Denied), Some("denied")) => true,
        (Some(_), _) => false,
    }
}
