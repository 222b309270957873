//! Flags → lint: reads the bundle and the project's settings, prints what was found.

use std::path::{Path, PathBuf};

use super::input::{Input, read_small, stdin_more_than_once, write_result};
use crate::cli::output::Output;
use crate::evidence::lint::rules::{self, RULES};
use crate::evidence::lint::settings::{self, Settings};
use crate::evidence::lint::{Level, Linter};
use crate::exit::Exit;
use crate::report;
use crate::report::text::Paint;

/// Where a project's settings are looked for.
const PROJECT_FILE: &str = "assay.yaml";

/// Flags of `assay evidence lint`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The bundle; `-` is stdin.
    #[arg(value_name = "BUNDLE", required_unless_present = "explain")]
    bundle: Option<PathBuf>,
    /// How the findings are told.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// From which level on a finding makes the exit code 1.
    #[arg(long, value_enum, default_value_t = FailOn::Error, value_name = "LEVEL")]
    fail_on: FailOn,
    /// Say what a rule means, and read no bundle; `all` tells every rule.
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,
    /// A file whose `lint:` section sets levels and ignores findings; without it, `assay.yaml` here if there is one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Take the rules as they are, whatever `assay.yaml` says.
    #[arg(long, conflicts_with = "config")]
    no_config: bool,
}

/// How findings are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For a person.
    Text,
    /// For a program.
    Json,
    /// For code scanning (SARIF 2.1.0).
    Sarif,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    Error,
    Warn,
    Info,
    None,
}

impl FailOn {
    fn level(self) -> Option<Level> {
        match self {
            Self::Error => Some(Level::Error),
            Self::Warn => Some(Level::Warn),
            Self::Info => Some(Level::Info),
            Self::None => None,
        }
    }
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Exit {
    let paint = if out.is_colored() { Paint::Colored } else { Paint::Plain };
    if let Some(rule) = &args.explain {
        return explain(rule, paint, out);
    }
    let bundle = args.bundle.as_deref().expect("clap demands it without --explain");
    if stdin_more_than_once(args.config.as_deref().into_iter().chain([bundle]), out) {
        return Exit::Refused;
    }
    let Some(settings) = settings_of(args, out) else { return Exit::Refused };
    let mut linter = Linter::new(&settings);
    let result = Input::open_once(bundle)
        .and_then(|mut input| input.verify(|manifest, event| linter.event(manifest, event)));
    let verified = match result {
        Ok(verified) => verified,
        Err(error) => {
            out.error(&format!("lint {error}"));
            return Exit::Refused;
        }
    };
    let report = linter.finish(&verified);
    let mut bytes = Vec::new();
    match args.format {
        Format::Text => {
            report::text::lint(&mut bytes, &report, &verified, paint).expect("writing to a Vec cannot fail");
        }
        Format::Json => {
            bytes = (report::json::to_text(&report::json::lint(&report, &verified)) + "\n").into_bytes();
        }
        Format::Sarif => {
            let name = if bundle == Path::new("-") { "stdin".into() } else { bundle.to_string_lossy() };
            let log = report::sarif::lint(&report, &name, env!("CARGO_PKG_VERSION"));
            bytes = (report::json::to_text(&log) + "\n").into_bytes();
        }
    }
    if !write_result(out, &bytes) {
        return Exit::Refused;
    }
    match (args.fail_on.level(), report.worst()) {
        (Some(limit), Some(worst)) if worst >= limit => Exit::Found,
        _ => Exit::Success,
    }
}

/// A megabyte of settings is not written by hand.
const MOST_SETTINGS: u64 = 1 << 20;

fn settings_of(args: &Args, out: &Output) -> Option<Settings> {
    let path = match &args.config {
        _ if args.no_config => return Some(Settings::default()),
        Some(path) => path.as_path(),
        None if Path::new(PROJECT_FILE).is_file() => Path::new(PROJECT_FILE),
        None => return Some(Settings::default()),
    };
    let bytes = match read_small(path, MOST_SETTINGS) {
        Ok(bytes) => bytes,
        Err(error) => {
            out.error(&format!("read settings: {error}"));
            return None;
        }
    };
    match settings::parse(&path.to_string_lossy(), &bytes) {
        Ok(settings) => {
            if args.config.is_none() && !settings.is_empty() {
                out.note(&format!("levels and ignored findings are those of {PROJECT_FILE}"));
            }
            Some(settings)
        }
        Err(problems) => {
            for problem in problems {
                out.problem(&problem.to_string());
            }
            None
        }
    }
}

fn explain(id: &str, paint: Paint, out: &Output) -> Exit {
    let rules: Vec<_> =
        if id == "all" { RULES.iter().collect() } else { rules::find(id).into_iter().collect() };
    if rules.is_empty() {
        out.error(&format!("no rule `{id}`"));
        out.hint("`--explain all` tells every rule");
        return Exit::Refused;
    }
    let mut bytes = Vec::new();
    report::text::explain(&mut bytes, &rules, paint).expect("writing to a Vec cannot fail");
    if write_result(out, &bytes) { Exit::Success } else { Exit::Refused }
}
