//! Flags → verify, lint, diff, show, gate, attest. Each command's work is in the file named after it.

use std::path::PathBuf;

use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::cli::output::Output;
use crate::evidence::integrity::Code;
use crate::exit::Exit;

mod diff;
mod gate;
mod input;
mod lint;
mod show;

use input::{Input, InputError};

/// Commands under `assay evidence`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Check that a bundle is whole: every hash, every number, every limit.
    ///
    /// Exits 0 when it is good and 2 when it is not, with a stable code such as `integrity/content-hash`.
    Verify(VerifyArgs),
    /// Say what a reviewer should see in a bundle.
    ///
    /// Exits 0 when no finding is at or above `--fail-on`, 1 when one is, and 2 when the bundle could not be read or
    /// is not good.
    Lint(lint::Args),
    /// Say what the second bundle did that the first did not, and the other way round.
    ///
    /// Exits 0 when nothing differs, 1 when something does, and 2 when a bundle could not be read or is not good.
    Diff(diff::Args),
    /// Show the contents of a bundle.
    ///
    /// Exits 0, or 2 when the bundle could not be read or is not good.
    Show(show::Args),
    /// Would the policy have allowed this run, and is it within a baseline.
    ///
    /// Exits 0 when it passes, 1 when it does not, and 2 when something could not be read or is not good. A bundle
    /// that claims nothing, or is not complete, does not pass.
    Gate(gate::Args),
}

/// How a result is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For a person.
    Text,
    /// For a program.
    Json,
}

/// Flags of `assay evidence verify`.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// The bundle; `-` is stdin.
    #[arg(value_name = "BUNDLE", required_unless_present = "explain")]
    bundle: Option<PathBuf>,
    /// How the result is told.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Say what a code means, and check nothing; `all` lists them.
    #[arg(long, value_name = "CODE", conflicts_with = "bundle")]
    explain: Option<String>,
}

/// Runs it.
pub fn run(command: Command, out: &Output) -> Exit {
    match command {
        Command::Verify(args) => verify(&args, out),
        Command::Lint(args) => lint::run(&args, out),
        Command::Diff(args) => diff::run(&args, out),
        Command::Show(args) => show::run(&args, out),
        Command::Gate(args) => gate::run(&args, out),
    }
}

fn verify(args: &VerifyArgs, out: &Output) -> Exit {
    if let Some(code) = &args.explain {
        return explain_code(code, out);
    }
    let bundle = args.bundle.as_deref().expect("clap demands it without --explain");
    let result = Input::open_once(bundle).and_then(|mut input| input.verify(|_, _| {}));
    let (exit, text, object) = match &result {
        Ok(verified) => {
            let manifest = &verified.manifest;
            let text = format!(
                "good: {} with {} events\nrun root: {}\narchive: {}\n",
                crate::evidence::integrity::shown(manifest.run_id.as_bytes()),
                manifest.event_count,
                manifest.run_root,
                verified.archive.sha256
            );
            let object = Object::from([
                ("archive_sha256", verified.archive.sha256.to_string().into()),
                ("event_count", Value::count(manifest.event_count)),
                ("run_id", manifest.run_id.as_str().into()),
                ("run_root", manifest.run_root.to_string().into()),
                ("verified", true.into()),
            ]);
            (Exit::Success, text, object)
        }
        Err(error) => {
            out.error(&format!("verify {error}"));
            let mut object = Object::from([("verified", false.into())]);
            let mut text = String::new();
            if let InputError::Bad { failure, .. } = error {
                out.hint(failure.code.meaning());
                object.set("code", failure.code.as_str());
                object.set("detail", failure.detail.as_str());
                text = format!("not good: {}\n", failure.code);
            } else {
                object.set("detail", error.to_string());
            }
            (Exit::Refused, text, object)
        }
    };
    let result = match args.format {
        Format::Text => text,
        Format::Json => write::to_string(&object.into()) + "\n",
    };
    if input::write_result(out, result.as_bytes()) { exit } else { Exit::Refused }
}

fn explain_code(name: &str, out: &Output) -> Exit {
    let bare = name.strip_prefix("integrity/").unwrap_or(name);
    let codes: Vec<&Code> = Code::ALL
        .iter()
        .filter(|code| bare == "all" || code.as_str().ends_with(&format!("/{bare}")))
        .collect();
    if codes.is_empty() {
        out.error(&format!("no code `{name}`"));
        out.hint("`--explain all` lists them");
        return Exit::Refused;
    }
    let lines: Vec<String> = codes.iter().map(|code| format!("{code}: {}\n", code.meaning())).collect();
    let text = lines.concat();
    if input::write_result(out, text.as_bytes()) { Exit::Success } else { Exit::Refused }
}
