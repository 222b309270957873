//! Flags → gate: would the policy have allowed this run, and is it within a baseline.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::Format;
use super::input::{Input, InputError, read_small, stdin_more_than_once, write_result};
use crate::cli::output::Output;
use crate::enforce::files::HostFiles;
use crate::evidence::gate::{Baseline, Gate, Partial, Terms};
use crate::evidence::verify::Verified;
use crate::exit::Exit;
use crate::policy::yaml::MAX_BYTES;
use crate::policy::{Context, Policy, load, load_bytes};
use crate::report;
use crate::report::text::Paint;
use crate::sandbox::sources;

/// Flags of `assay evidence gate`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("against").args(["policy", "baseline"]).required(true).multiple(true)))]
pub struct Args {
    /// The bundle; `-` is stdin.
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// The policy that must allow every action of the run; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The bundle of a run that was accepted: this one must not do more.
    #[arg(long, value_name = "BUNDLE")]
    baseline: Option<PathBuf>,
    /// Let a record pass that is not complete.
    #[arg(long)]
    allow_partial: bool,
    /// How the verdict is told.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Exit {
    let files = args.policy.iter().chain(&args.baseline).chain([&args.bundle]);
    if stdin_more_than_once(files.map(PathBuf::as_path), out) {
        return Exit::Refused;
    }
    let policy = match args.policy.as_deref().map(|path| load_policy(path, out)) {
        None => None,
        Some(Some(policy)) => Some(policy),
        Some(None) => return Exit::Refused,
    };
    let judged = args.baseline.as_deref().map(read_baseline).transpose().and_then(|baseline| {
        let terms = Terms {
            policy: policy.as_ref(),
            baseline: baseline.as_ref().map(|(baseline, _)| baseline),
            partial: if args.allow_partial { Partial::Accepted } else { Partial::Refused },
        };
        let mut gate = Gate::new(terms);
        let verified =
            Input::open_once(&args.bundle)?.verify(|manifest, event| gate.event(manifest, event))?;
        Ok((gate.finish(), verified, baseline.map(|(_, verified)| verified)))
    });
    let (judgement, verified, baseline) = match judged {
        Ok(judged) => judged,
        Err(error) => {
            out.error(&format!("gate {error}"));
            return Exit::Refused;
        }
    };
    let mut bytes = Vec::new();
    match args.format {
        Format::Text => {
            let paint = if out.is_colored() { Paint::Colored } else { Paint::Plain };
            report::gate::text(&mut bytes, &judgement, &verified, paint)
                .expect("writing to a Vec cannot fail");
        }
        Format::Json => {
            let terms = report::gate::Terms {
                policy_digest: policy.map(|policy| policy.digest.to_string()),
                baseline_run_id: baseline.map(|verified| verified.manifest.run_id),
            };
            bytes = (report::json::to_text(&report::gate::json(&judgement, &verified, &terms)) + "\n")
                .into_bytes();
        }
    }
    if !write_result(out, &bytes) {
        return Exit::Refused;
    }
    if judgement.is_pass() { Exit::Success } else { Exit::Found }
}

/// The policy as it meets the names of a bundle: variables stand for themselves, links are those of this host.
fn load_policy(path: &Path, out: &Output) -> Option<Policy> {
    let context = Context { nameservers: sources::nameservers(), ..Context::symbolic() };
    let loaded = if path == Path::new("-") {
        match read_small(path, MAX_BYTES as u64) {
            // What it extends is looked for from here.
            Ok(bytes) => load_bytes(b"stdin", &bytes, &context, &HostFiles),
            Err(error) => {
                out.error(&error.to_string());
                return None;
            }
        }
    } else {
        load(path.as_os_str().as_bytes(), &context, &HostFiles)
    };
    match loaded {
        Ok(policy) => Some(policy),
        Err(problems) => {
            for problem in problems {
                out.problem(&problem.to_string());
            }
            None
        }
    }
}

fn read_baseline(path: &Path) -> Result<(Baseline, Verified), InputError> {
    let mut baseline = Baseline::default();
    let verified = Input::open_once(path)?.verify(|_, event| baseline.add(event))?;
    baseline.finish();
    Ok((baseline, verified))
}
