//! Flags → list: one line a run, or JSON of them.

use std::io::{self, Write};

use super::filters::Filters;
use super::{Place, refuse};
use crate::canon::value::{Object, Value};
use crate::cli::evidence::Format;
use crate::cli::output::Output;
use crate::cli::pager::Pager;
use crate::exit::Exit;
use crate::profile::name::harmless;
use crate::report::json::to_text;
use crate::spool::entry::{Body, wire};
use crate::spool::index::{Found, FoundRun};

/// Flags of `assay runs list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    filters: Filters,
    /// No more runs than this.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// How the result is told.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Whether to use `$PAGER` (or less) on a terminal.
    #[arg(long, value_enum, default_value_t = Pager::Auto, value_name = "WHEN", hide_short_help = true)]
    pager: Pager,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Exit {
    let spool = match args.place.open(out) {
        Ok(spool) => spool,
        Err(exit) => return exit,
    };
    let found = match spool.find(&args.filters.query(), args.limit) {
        Ok(found) => found,
        Err(error) => return refuse(out, &error),
    };
    let written = out.result_with(args.pager, |writer| match args.format {
        Format::Text => write_rows(writer, &found.runs),
        Format::Json => writeln!(writer, "{}", to_text(&to_json(&found))),
    });
    if let Err(error) = written {
        return refuse(out, &format!("write the result: {error}"));
    }
    if args.format == Format::Text && found.more > 0 {
        out.note(&format!("{} more runs", found.more));
    }
    tell_unsearched(&found, out);
    Exit::Success
}

/// Says which runs could not be searched for names.
pub fn tell_unsearched(found: &Found, out: &Output) {
    for (why, count) in &found.unsearched {
        out.note(&format!("{count} runs were not searched wholly for paths and hosts: {why}"));
    }
}

const HEAD: [&str; 6] = ["entry", "time", "user", "verdict", "exit", "run"];

fn write_rows(out: &mut dyn Write, runs: &[FoundRun]) -> io::Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    let rows: Vec<([String; 6], String)> = runs.iter().map(row).collect();
    let mut widths = HEAD.map(str::len);
    for (cells, _) in &rows {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut write = |cells: &[String; 6], command: &str| {
        for (cell, width) in cells.iter().zip(widths) {
            write!(out, "{cell:<width$}  ")?;
        }
        writeln!(out, "{command}")
    };
    write(&HEAD.map(str::to_owned), "command")?;
    rows.iter().try_for_each(|(cells, command)| write(cells, command))
}

fn row(run: &FoundRun) -> ([String; 6], String) {
    let body = &run.entry.body;
    let (exit, id) = match body {
        Body::Run(run) => {
            (run.summary.exit_code.to_string(), run.summary.run_id.clone().unwrap_or_else(|| "-".into()))
        }
        Body::Lost(_) | Body::Begun | Body::BegunAnew { .. } | Body::Collected(_) | Body::Torn(_) => {
            ("-".into(), "-".into())
        }
    };
    let verdict = harmless(body.verdict().unwrap_or("-")).into_owned();
    let verdict = if run.collected_by.is_some() { verdict + ", collected" } else { verdict };
    let cells = [run.entry.seq.to_string(), run.entry.time.to_string(), user_of(body), verdict, exit, id];
    (cells, line_of(body.command().unwrap_or_default()))
}

/// A user's name, or number.
pub fn user_of(body: &Body) -> String {
    match body.user() {
        None => "-".into(),
        Some(user) => {
            let name = user.name.as_ref().map(|name| harmless(name).into_owned());
            name.unwrap_or_else(|| user.uid.to_string())
        }
    }
}

/// A command on one line, harmless to print and no longer than a line is read.
pub fn line_of(words: &[String]) -> String {
    const MOST: usize = 200;
    let is_plain =
        |word: &str| !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"".contains(c));
    let words = words.iter().map(|word| {
        if is_plain(word) { harmless(word).into_owned() } else { format!("'{}'", harmless(word)) }
    });
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST) {
        None => line,
        Some((at, _)) => line[..at].to_owned() + "\u{2026}",
    }
}

/// A run as it is told to programs: its entry, and what is known beside it.
pub fn run_object(run: &FoundRun) -> Object {
    let mut object = Object::from([
        ("entry", wire::to_object(&run.entry).into()),
        ("line_sha256", run.sha256.to_string().into()),
    ]);
    object.set_some("collected_by", run.collected_by.map(Value::count));
    object
}

fn to_json(found: &Found) -> Value {
    let mut unsearched = Object::new();
    for (why, count) in &found.unsearched {
        unsearched.set(why, Value::count(*count));
    }
    let runs: Vec<Value> = found.runs.iter().map(|run| run_object(run).into()).collect();
    Object::from([
        ("runs", runs.into()),
        ("more", Value::count(found.more)),
        ("unsearched", unsearched.into()),
    ])
    .into()
}
