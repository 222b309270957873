//! Flags → diff: reads two bundles twice each, prints what differs.

use std::path::PathBuf;

use super::input::{Input, InputError, both_are_stdin, write_result};
use crate::cli::output::Output;
use crate::evidence::diff::{Change, Outline, Picker, changes};
use crate::evidence::verify::Verified;
use crate::exit::Exit;
use crate::report;
use crate::report::text::Paint;

/// Flags of `assay evidence diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The bundle that came first; `-` is stdin.
    #[arg(value_name = "A")]
    first: PathBuf,
    /// The bundle that is compared with it; `-` is stdin.
    #[arg(value_name = "B")]
    second: PathBuf,
    /// How the differences are told.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// How differences are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For a person.
    Text,
    /// For a program.
    Json,
    /// For a pull request.
    Markdown,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Exit {
    if both_are_stdin(&args.first, &args.second) {
        out.error("only one of two bundles can come from stdin");
        return Exit::Refused;
    }
    let compared = Input::open_again(&args.first).and_then(|mut first| {
        let mut second = Input::open_again(&args.second)?;
        let (first_read, second_read) = outline_both(&mut first, &mut second);
        let ((first_verified, first_outline), (second_verified, second_outline)) =
            (first_read?, second_read?);
        let mut first = (first, first_verified, first_outline);
        let mut second = (second, second_verified, second_outline);
        let changes = compare(&mut first, &mut second)?;
        Ok((changes, first.1.manifest, second.1.manifest))
    });
    let (changes, a, b) = match compared {
        Ok(compared) => compared,
        Err(error) => {
            out.error(&format!("diff {error}"));
            return Exit::Refused;
        }
    };
    let mut bytes = Vec::new();
    let written = match args.format {
        Format::Text => {
            let paint = if out.is_colored() { Paint::Colored } else { Paint::Plain };
            report::diff::text(&mut bytes, &changes, &a, &b, paint)
        }
        Format::Markdown => report::diff::markdown(&mut bytes, &changes, &a, &b),
        Format::Json => {
            bytes = (report::json::to_text(&report::diff::json(&changes, &a, &b)) + "\n").into_bytes();
            Ok(())
        }
    };
    written.expect("writing to a Vec cannot fail");
    if !write_result(out, &bytes) {
        return Exit::Refused;
    }
    if changes.is_empty() { Exit::Success } else { Exit::Found }
}

type Read = Result<(Verified, Outline), InputError>;

/// Reads both bundles at the same time.
fn outline_both(first: &mut Input, second: &mut Input) -> (Read, Read) {
    std::thread::scope(|scope| {
        let first = scope.spawn(|| outline(first));
        let second = outline(second);
        (first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), second)
    })
}

/// Reads a bundle once.
fn outline(input: &mut Input) -> Read {
    let mut outline = Outline::default();
    let verified = input.verify(|_, event| outline.add(event))?;
    outline.finish();
    Ok((verified, outline))
}

/// Reads both bundles once more, unless their run roots say that they hold the same.
fn compare(
    (first, first_verified, first_outline): &mut (Input, Verified, Outline),
    (second, second_verified, second_outline): &mut (Input, Verified, Outline),
) -> Result<Vec<Change>, InputError> {
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    if first_verified.manifest.run_root != second_verified.manifest.run_root {
        let mut picker = Picker::of_first();
        let is_wanted = |place| first_outline.lacks(place, second_outline);
        first.reread(first_verified, is_wanted, |event| picker.add(event))?;
        removed = picker.finish();
        let mut picker = Picker::of_second();
        let is_wanted = |place| second_outline.lacks(place, first_outline);
        second.reread(second_verified, is_wanted, |event| picker.add(event))?;
        added = picker.finish();
    }
    Ok(changes(first_outline, second_outline, removed, added))
}
