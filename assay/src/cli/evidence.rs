//! Flags → verify, lint, diff, show, gate, attest, export. Each command's work is in the file named after it.

use std::path::PathBuf;

use crate::canon::value::{Object, Value};
use crate::cli::output::Output;
use crate::evidence::integrity::{Code, shown};
use crate::exit::Exit;
use crate::report::json::to_text;

pub(super) mod attest;
mod diff;
mod export;
mod gate;
pub(super) mod input;
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
    /// Write a signed statement about a bundle: DSSE with an in-toto Statement.
    ///
    /// `assay evidence verify BUNDLE --attestation A --key K.pub` checks it.
    Attest(attest::Args),
    /// Write the effects of bundles as lines for other programs: tables, log pipelines, a SIEM.
    ///
    /// Every bundle is verified before a line is written. Exits 0, or 2 when a bundle could not be read or is not
    /// good, and when not all could be written.
    Export(export::Args),
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
    /// An attestation that must vouch for the bundle (DSSE with an in-toto Statement).
    #[arg(long, value_name = "FILE", requires = "key")]
    attestation: Option<PathBuf>,
    /// The public key that must have signed it, in PEM; may be given more than once, then one of them must.
    #[arg(long, value_name = "KEY", requires = "attestation")]
    key: Vec<PathBuf>,
    /// Say what a code means, and read no bundle; `all` lists them.
    #[arg(long, value_name = "CODE")]
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
        Command::Attest(args) => attest::run(&args, out),
        Command::Export(args) => export::run(&args, out),
    }
}

fn verify(args: &VerifyArgs, out: &Output) -> Exit {
    if let Some(code) = &args.explain {
        return explain_code(code, out);
    }
    let bundle = args.bundle.as_deref().expect("clap demands it without --explain");
    let paths = std::iter::once(bundle)
        .chain(args.attestation.as_deref())
        .chain(args.key.iter().map(PathBuf::as_path));
    if input::stdin_more_than_once(paths, out) {
        return Exit::Refused;
    }
    let result = Input::open_once(bundle).and_then(|mut input| input.verify(|_, _| {}));
    let verified = match result {
        Ok(verified) => verified,
        Err(error) => return not_good(args, &error, out),
    };
    let signer =
        match args.attestation.as_deref().map(|path| attest::check(path, &args.key, &verified)).transpose() {
            Ok(signer) => signer,
            Err(error) => {
                out.error(&format!("attestation: {error}"));
                let object = Object::from([
                    ("code", ATTESTATION.into()),
                    ("detail", error.into()),
                    ("verified", false.into()),
                ]);
                return tell(args, &format!("not good: {ATTESTATION}\n"), object, Exit::Refused, out);
            }
        };
    let manifest = &verified.manifest;
    let mut text = format!(
        "good: {} with {} events\nrun root: {}\narchive: {}\n",
        shown(manifest.run_id.as_bytes()),
        manifest.event_count,
        manifest.run_root,
        verified.archive.sha256
    );
    let mut object = Object::from([
        ("archive_sha256", verified.archive.sha256.to_string().into()),
        ("event_count", Value::count(manifest.event_count)),
        ("run_id", manifest.run_id.as_str().into()),
        ("run_root", manifest.run_root.to_string().into()),
        ("verified", true.into()),
    ]);
    if let Some(signer) = signer {
        text += &("attested by: ".to_owned() + &signer + "\n");
        object.set("attested_by", signer);
    }
    tell(args, &text, object, Exit::Success, out)
}

/// The code of an attestation that does not vouch for the bundle.
const ATTESTATION: &str = "integrity/attestation";

fn not_good(args: &VerifyArgs, error: &InputError, out: &Output) -> Exit {
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
    tell(args, &text, object, Exit::Refused, out)
}

fn tell(args: &VerifyArgs, text: &str, object: Object, exit: Exit, out: &Output) -> Exit {
    let json = || to_text(&object.into()) + "\n";
    let result = match args.format {
        Format::Text => text.to_owned(),
        Format::Json => json(),
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
