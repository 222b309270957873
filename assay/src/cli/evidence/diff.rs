//! Flags → diff: reads two bundles twice each, prints what differs.

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::input::{Input, InputError, stdin_more_than_once};
use crate::cli::output::Output;
use crate::cli::pager::Pager;
use crate::evidence::diff::{Change, Lacking, Outline, Picker, changes, lacking};
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
    if stdin_more_than_once([&*args.first, &*args.second], out) {
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
    let paint = if out.is_colored() { Paint::Colored } else { Paint::Plain };
    let written = out.result_with(Pager::Never, |writer| match args.format {
        Format::Text => report::diff::text(writer, &changes, &a, &b, paint),
        Format::Markdown => report::diff::markdown(writer, &changes, &a, &b),
        Format::Json => report::diff::json(writer, &changes, &a, &b),
    });
    if let Err(error) = written {
        out.error(&format!("write the result: {error}"));
        return Exit::Refused;
    }
    if changes.is_empty() { Exit::Success } else { Exit::Found }
}

type Read = Result<(Verified, Outline), InputError>;

/// Reads both bundles at the same time.
fn outline_both(first: &mut Input, second: &mut Input) -> (Read, Read) {
    both(|| outline(first), || outline(second))
}

/// Reads a bundle once.
fn outline(input: &mut Input) -> Read {
    let mut outline = Outline::default();
    let verified = input.verify(|_, event| outline.add(event))?;
    Ok((verified, outline))
}

/// Reads both bundles once more, unless their run roots say that they hold the same.
fn compare(
    (first, first_verified, first_outline): &mut (Input, Verified, Outline),
    (second, second_verified, second_outline): &mut (Input, Verified, Outline),
) -> Result<Vec<Change>, InputError> {
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    if first_verified.manifest.run_root != second_verified.manifest.run_root {
        let (of_first, of_second) = lacking(first_outline, second_outline);
        let pick = |input: &mut Input, verified: &Verified, lacking: &Lacking, mut picker: Picker| {
            input.reread(
                verified,
                |place| lacking.has(place),
                |event| {
                    picker.add(event);
                    ControlFlow::Continue(())
                },
            )?;
            Ok(picker.finish())
        };
        let picked = both(
            || pick(first, first_verified, &of_first, Picker::of_first()),
            || pick(second, second_verified, &of_second, Picker::of_second()),
        );
        (removed, added) = (picked.0?, picked.1?);
    }
    Ok(changes(first_outline, second_outline, removed, added))
}

/// Does two things at the same time.
fn both<A: Send, B>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), other)
    })
}
