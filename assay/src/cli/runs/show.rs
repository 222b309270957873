//! Flags → show: one entry of the chain, and where the run's files are.

use std::io::{self, Write};
use std::path::Path;

use super::list::{line_of, run_object, user_of};
use super::{Place, refuse};
use crate::canon::value::Value;
use crate::cli::evidence::Format;
use crate::cli::output::Output;
use crate::evidence::Outcome;
use crate::exit::Exit;
use crate::observe::loss::Kind;
use crate::profile::name::{Name, harmless};
use crate::report::json::to_text;
use crate::spool::entry::{BUNDLE, Body, Files, Run};
use crate::spool::index::FoundRun;
use crate::spool::{Spool, SpoolError};

/// Flags of `assay runs show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run: the number of its entry, or its run id (of several, the last one).
    #[arg(value_name = "ENTRY|RUN_ID")]
    run: String,
    #[command(flatten)]
    place: Place,
    /// How the result is told.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Exit {
    let spool = match args.place.open(out) {
        Ok(spool) => spool,
        Err(exit) => return exit,
    };
    let (found, others) = match find(&spool, &args.run) {
        Ok(found) => found,
        Err(error) => return refuse(out, &error),
    };
    let Some(run) = found else {
        let exit = refuse(out, &format!("show {}: no entry of a run in the chain", harmless(&args.run)));
        out.hint("`assay runs list` has them");
        return exit;
    };
    let directory = spool.directory_of(&run.entry);
    let written = out.result_with(crate::cli::pager::Pager::Never, |writer| match args.format {
        Format::Text => write_text(writer, &run, &directory),
        Format::Json => writeln!(writer, "{}", to_text(&to_json(&run, &directory))),
    });
    if let Err(error) = written {
        return refuse(out, &format!("write the result: {error}"));
    }
    if others > 0 {
        out.note(&format!("{others} other runs have this run id: `assay runs list --run-id ID` lists them"));
    }
    let has_bundle = run.entry.body.place().is_some_and(|(_, files)| files.contains_key(BUNDLE));
    if has_bundle && run.collected_by.is_none() {
        let bundle = Name::from_bytes(directory.join(BUNDLE).as_os_str().as_encoded_bytes());
        out.hint(&format!("what it did: assay evidence show {bundle}"));
    }
    Exit::Success
}

/// The run that is meant, and how many others have its id. The chain is read, not the index.
fn find(spool: &Spool, word: &str) -> Result<(Option<FoundRun>, u64), SpoolError> {
    let seq: Option<u64> = word.parse().ok();
    let mut found: Option<FoundRun> = None;
    let mut others = 0;
    spool.walk(None, |line, entry| {
        let Some(entry) = entry else { return };
        if let (Body::Collected(collected), Some(found)) = (&entry.body, &mut found)
            && collected.runs.contains(&found.entry.seq)
        {
            found.collected_by = Some(entry.seq);
        }
        let has_id = matches!(&entry.body, Body::Run(run) if run.summary.run_id.as_deref() == Some(word));
        let is_meant = entry.body.place().is_some() && (seq == Some(entry.seq) || has_id);
        if is_meant {
            others += u64::from(found.is_some());
            found = Some(FoundRun { entry, sha256: line.sha256, collected_by: None });
        }
    })?;
    Ok((found, others))
}

fn to_json(run: &FoundRun, directory: &Path) -> Value {
    let mut object = run_object(run);
    let path = Name::from_bytes(directory.as_os_str().as_encoded_bytes());
    object.set("directory", path.as_str());
    Value::Object(object)
}

fn write_text(out: &mut dyn Write, found: &FoundRun, directory: &Path) -> io::Result<()> {
    let entry = &found.entry;
    let mut line = |name: &str, text: &str| writeln!(out, "{name:<12} {text}");
    line("entry", &entry.seq.to_string())?;
    line("line", &found.sha256.to_string())?;
    line("written", &entry.time.to_string())?;
    let user = entry.body.user().map(|user| format!("{} ({})", user_of(&entry.body), user.uid));
    line("user", user.as_deref().unwrap_or("not known"))?;
    line("command", &line_of(entry.body.command().unwrap_or_default()))?;
    match &entry.body {
        Body::Run(run) => write_run(&mut line, run)?,
        Body::Lost(lost) => {
            line("verdict", "lost: its writer died, and nobody was left to say what came of it")?;
            if let Some(begun) = &lost.begun {
                line("begun", &begun.time.to_string())?;
            }
            for name in &lost.not_whole {
                line("not whole", &harmless(name))?;
            }
        }
        Body::Begun | Body::BegunAnew { .. } | Body::Collected(_) | Body::Torn(_) => {}
    }
    let none = Files::new();
    let files = entry.body.place().map_or(&none, |(_, files)| files);
    match found.collected_by {
        Some(by) => line("files", &format!("collected, as entry {by} says"))?,
        None => line("files", Name::from_bytes(directory.as_os_str().as_encoded_bytes()).as_str())?,
    }
    for (name, facts) in files {
        line("", &format!("{} {:>10} {}", facts.sha256, facts.bytes, harmless(name)))?;
    }
    Ok(())
}

fn write_run(line: &mut dyn FnMut(&str, &str) -> io::Result<()>, run: &Run) -> io::Result<()> {
    let summary = &run.summary;
    line("run", summary.run_id.as_deref().unwrap_or("no evidence"))?;
    line("begun", &run.begun_at.to_string())?;
    line("duration", &format!("{}.{:03} s", summary.duration_ms / 1000, summary.duration_ms % 1000))?;
    if let Some(workdir) = &summary.workdir {
        line("workdir", &harmless(workdir))?;
    }
    line("mode", &harmless(&summary.mode))?;
    if let Some(policy) = summary.policy_digest {
        line("policy", &policy.to_string())?;
    }
    let outcome = match &summary.outcome {
        None => "the command did not start".to_owned(),
        Some(Outcome::ExitCode(code)) => format!("exit code {code}"),
        Some(Outcome::Signal(signal)) => format!("signal {}", harmless(signal)),
        Some(Outcome::Timeout) => "timed out".to_owned(),
    };
    line("outcome", &outcome)?;
    line("exit code", &format!("{}, ours", summary.exit_code))?;
    line("verdict", &harmless(&summary.verdict))?;
    for reason in &summary.reasons {
        line("", &harmless(reason))?;
    }
    for degradation in &summary.degradations {
        line("degraded", &harmless(&degradation.explain()))?;
    }
    if let Some(coverage) = &summary.coverage {
        let words =
            Kind::ALL.iter().zip(coverage).map(|(kind, word)| format!("{} {}", kind.as_str(), word.as_str()));
        line("coverage", &words.collect::<Vec<_>>().join(", "))?;
    }
    let counts = summary.counts.iter().map(|(name, count)| format!("{} {count}", harmless(name)));
    line("counts", &counts.collect::<Vec<_>>().join(", "))?;
    for (name, count) in &summary.left_out {
        line("left out", &format!("{count} of {}: the run's files have them", harmless(name)))?;
    }
    Ok(())
}
