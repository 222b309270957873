//! Flags → merge, diff.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::evidence::input::stdin_more_than_once;
use crate::canon::indented;
use crate::canon::value::{Object, Value};
use crate::cli::output::Output;
use crate::evidence::wire as evidence_wire;
use crate::exit::Exit;
use crate::policy::path::Context;
use crate::profile::diff::{self, Change};
use crate::profile::effect::Effect;
use crate::profile::merge::{Merged, Rule, merge};
use crate::profile::name::harmless;
use crate::profile::suggest::suggest;
use crate::profile::wire::{self, Comments, Format, Profile};
use crate::report::json::to_text;
use crate::sandbox::writing::protected;

/// Commands under `assay profile`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make one profile of many runs.
    ///
    /// Takes profiles and evidence profiles, as YAML or JSON. Each rule of the result says in how many of the runs it
    /// was needed. Exits 0, or 2 when a file could not be read.
    Merge(MergeArgs),
    /// What changed between two profiles.
    ///
    /// Two evidence profiles are compared by what the runs did, anything else by what the profiles allow. Exits 0
    /// when they are the same, 1 when not, 2 when a file could not be read.
    Diff(DiffArgs),
}

/// Flags of `assay profile merge`.
#[derive(Debug, clap::Args)]
pub struct MergeArgs {
    /// Profiles or evidence profiles; `-` is stdin.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Keep only what at least this many runs needed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    min_runs: u32,
    /// `yaml` is a policy with comments; `json` has the policy beside the counts.
    #[arg(long, value_enum, default_value_t = MergeFormat::Yaml)]
    format: MergeFormat,
}

/// How a merged profile is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MergeFormat {
    /// A policy that can be used at once.
    Yaml,
    /// `{runs, policy, rules, left_out}`.
    Json,
}

/// Flags of `assay profile diff`.
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// The first; `-` is stdin.
    #[arg(value_name = "A")]
    first: PathBuf,
    /// The second.
    #[arg(value_name = "B")]
    second: PathBuf,
    /// How to print.
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    format: DiffFormat,
}

/// How differences are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DiffFormat {
    /// One line a difference.
    Text,
    /// A list of `{section, what, before?, after?}`.
    Json,
}

/// Runs it.
pub fn run(command: Command, out: &Output) -> Exit {
    match command {
        Command::Merge(args) => run_merge(&args, out),
        Command::Diff(args) => run_diff(&args, out),
    }
}

/// What a file turned out to be.
enum Input {
    Profile(Profile),
    Evidence { effects: Vec<Effect>, profile: Profile },
}

impl Input {
    fn profile(self) -> Profile {
        match self {
            Self::Profile(profile) | Self::Evidence { profile, .. } => profile,
        }
    }
}

/// The largest profile that is read.
const MAX_BYTES: u64 = 1 << 28;

fn read(path: &Path) -> Result<Input, String> {
    let bytes = super::evidence::input::read_small(path, MAX_BYTES).map_err(|error| error.to_string())?;
    let name = crate::profile::name::Name::from_bytes(path.as_os_str().as_encoded_bytes());
    if bytes.starts_with(GZIP) {
        return Err(format!(
            "{name}: a compressed file, as bundles are: `assay evidence diff` compares those"
        ));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("{name}: not UTF-8; profiles and evidence profiles are text"))?;
    let value = match evidence_wire::parse(&text) {
        Ok(value) => value,
        Err(error) => return Err(complaints(name.as_str(), &text).unwrap_or(format!("{name}: {error}"))),
    };
    if evidence_wire::claims_to_be(&value) {
        let evidence = evidence_wire::from_value(&value).map_err(|error| format!("{name}: {error}"))?;
        let profile = suggest(&evidence.identity.effects, &evidence.observed.folded, &protected(&evidence));
        return Ok(Input::Evidence { effects: evidence.identity.effects, profile });
    }
    // What `merge --format json` wrote has its profile beside the counts.
    let has_counts =
        value.as_object().is_some_and(|object| object.contains("policy") && object.contains("runs"));
    let merged = if has_counts {
        let checked = super::schemas::profile_merge_output().check(&value);
        checked.map_err(|mismatch| format!("{name}: read what `merge --format json` wrote: {mismatch}"))?;
        value.as_object().and_then(|object| object.get("policy"))
    } else {
        None
    };
    if merged.is_none()
        && text.len() <= SURELY_A_POLICY
        && let Some(complaints) = complaints(name.as_str(), &text)
    {
        return Err(complaints);
    }
    wire::from_value(merged.unwrap_or(&value)).map(Input::Profile).map_err(|error| format!("{name}: {error}"))
}

/// A profile of more bytes can have more rules than a policy may have. It is read all the same.
const SURELY_A_POLICY: usize = 1 << 18;

/// How a compressed file begins.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// What the reader of policies says is wrong, where, and what to write instead: a profile is a policy.
fn complaints(name: &str, text: &str) -> Option<String> {
    let mut problems = Vec::new();
    let node = crate::policy::yaml::read(name, text.as_bytes(), &mut problems);
    if let Some(node) = node {
        crate::policy::parse::parse(name, &node, &Context::symbolic(), &mut problems);
    }
    problems.sort();
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn run_merge(args: &MergeArgs, out: &Output) -> Exit {
    if stdin_more_than_once(args.files.iter().map(PathBuf::as_path), out) {
        return Exit::Refused;
    }
    let mut profiles = Vec::new();
    let mut is_bad = false;
    for file in &args.files {
        match read(file) {
            Ok(input) => profiles.push(input.profile()),
            Err(error) => {
                error.lines().for_each(|line| out.error(line));
                is_bad = true;
            }
        }
    }
    if is_bad {
        return Exit::Refused;
    }
    if args.min_runs as usize > profiles.len() {
        out.error(&format!("--min-runs {} with {} files would keep nothing", args.min_runs, profiles.len()));
        return Exit::Refused;
    }
    let merged = merge(&profiles, args.min_runs as usize);
    let text = match args.format {
        MergeFormat::Yaml => merged.profile.write(&merged.comments(), Format::Yaml),
        MergeFormat::Json => merged_json(&merged),
    };
    if text.len() > SURELY_A_POLICY
        && let Some(complaint) =
            complaints("the merged profile", &merged.profile.write(&Comments::default(), Format::Yaml))
    {
        out.warning(&format!("it can be merged and compared, but --policy will refuse it: {complaint}"));
    }
    print(text.as_bytes(), Exit::Success, out)
}

fn merged_json(merged: &Merged) -> String {
    let list = |rules: &std::collections::BTreeMap<Rule, usize>| {
        let rules = rules.iter().map(|(rule, count)| {
            let mut object = Object::new();
            object.set("section", rule.section.as_str());
            object.set("rule", rule.text.as_str());
            object.set_some("access", rule.grant.map(wire::Grant::as_str));
            object.set("seen_in", format!("{count}/{}", merged.runs));
            Value::Object(object)
        });
        Value::Array(rules.collect())
    };
    let members: [(&str, Value); 4] = [
        ("runs", Value::count(merged.runs as u64)),
        ("policy", merged.profile.object().into()),
        ("rules", list(&merged.seen_in)),
        ("left_out", list(&merged.left_out)),
    ];
    indented::write(&members.iter().map(|(key, value)| (*key, value)).collect::<Vec<_>>())
}

fn run_diff(args: &DiffArgs, out: &Output) -> Exit {
    if stdin_more_than_once([&*args.first, &*args.second], out) {
        return Exit::Refused;
    }
    let (first, second) = match (read(&args.first), read(&args.second)) {
        (Ok(first), Ok(second)) => (first, second),
        (first, second) => {
            for error in [first.err(), second.err()].into_iter().flatten() {
                error.lines().for_each(|line| out.error(line));
            }
            return Exit::Refused;
        }
    };
    let changes = match (first, second) {
        (Input::Evidence { effects: first, .. }, Input::Evidence { effects: second, .. }) => {
            diff::effects(&first, &second)
        }
        (first, second) => diff::profiles(&first.profile(), &second.profile()),
    };
    let text = match args.format {
        DiffFormat::Text => changes.iter().fold(String::new(), |mut text, change| {
            writeln!(text, "{}", harmless(&change.line())).expect("writing to a String cannot fail");
            text
        }),
        DiffFormat::Json => to_text(&Value::Array(changes.iter().map(change_json).collect())) + "\n",
    };
    print(text.as_bytes(), if changes.is_empty() { Exit::Success } else { Exit::Found }, out)
}

fn change_json(change: &Change) -> Value {
    let mut object = Object::new();
    object.set("section", change.section.as_str());
    object.set("what", change.text.as_str());
    object.set_some("before", change.before.as_deref());
    object.set_some("after", change.after.as_deref());
    Value::Object(object)
}

fn print(bytes: &[u8], exit: Exit, out: &Output) -> Exit {
    if super::evidence::input::write_result(out, bytes) { exit } else { Exit::Refused }
}
