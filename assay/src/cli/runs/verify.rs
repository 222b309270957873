//! Flags → verify: is everything in the spool as it was written.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{Place, refuse};
use crate::canon::digest::Digest;
use crate::canon::value::{Object, Value};
use crate::cli::evidence::Format;
use crate::cli::evidence::attest::read_key;
use crate::cli::evidence::input::write_result;
use crate::cli::output::Output;
use crate::evidence::signature::PublicKey;
use crate::exit::Exit;
use crate::profile::name::harmless;
use crate::report::json::to_text;
use crate::spool::check::Check;
use crate::spool::fault::Code;

/// Flags of `assay runs verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// The digest of a line that was noted elsewhere, as an earlier `verify` printed it: it must be in the chain.
    #[arg(long, value_name = "DIGEST")]
    head: Option<Digest>,
    /// The public key of the host, in PEM: its signatures must vouch for the chain. May be given more than once.
    #[arg(long, value_name = "FILE")]
    public_key: Vec<PathBuf>,
    /// How the result is told.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Say what a code means, and read no spool; `all` lists them.
    #[arg(long, value_name = "CODE", conflicts_with_all = ["head", "public_key"])]
    explain: Option<String>,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Exit {
    if let Some(word) = &args.explain {
        return explain(word, out);
    }
    let spool = match args.place.open(out) {
        Ok(spool) => spool,
        Err(exit) => return exit,
    };
    let keys = args.public_key.iter().map(|path| read_key(path, PublicKey::from_pem));
    let keys = match keys.collect::<Result<Vec<_>, _>>() {
        Ok(keys) => keys,
        Err(error) => return refuse(out, &error),
    };
    let check = match spool.check(args.head, &keys) {
        Ok(check) => check,
        Err(error) => return refuse(out, &error),
    };
    let text = match args.format {
        Format::Text => text(&check),
        Format::Json => to_text(&to_json(&check)) + "\n",
    };
    if !write_result(out, text.as_bytes()) {
        return Exit::Refused;
    }
    if args.format == Format::Text {
        check.notes.iter().for_each(|note| out.note(note));
        if args.head.is_none() && keys.is_empty() && check.faults.is_empty() {
            out.hint("note the head where this host's root is not: with `--head` a later check shows what was cut off");
        }
    }
    if check.faults.is_empty() { Exit::Success } else { Exit::Refused }
}

fn text(check: &Check) -> String {
    let mut text = String::new();
    let mut line = |args: std::fmt::Arguments<'_>| {
        text.write_fmt(args).and_then(|()| text.write_str("\n")).expect("writing to a String cannot fail");
    };
    for fault in &check.faults {
        let place = fault.seq.map(|seq| format!("entry {seq}: ")).unwrap_or_default();
        line(format_args!("{}: {place}{}", fault.code, harmless(&fault.detail)));
    }
    let word = if check.faults.is_empty() { "good" } else { "not good" };
    line(format_args!(
        "{word}: {} entries, {} runs, {} of them collected; {} files and {} bundles checked, {} faults",
        check.entries,
        check.runs,
        check.collected,
        check.files,
        check.bundles,
        check.faults.len()
    ));
    if check.signatures > 0 {
        line(format_args!("{} signatures of the host", check.signatures));
    }
    if let Some(head) = check.head {
        line(format_args!("head: entry {}, {}", head.seq, head.sha256));
    }
    text
}

fn to_json(check: &Check) -> Value {
    let faults: Vec<Value> = check
        .faults
        .iter()
        .map(|fault| {
            let mut object = Object::from([
                ("code", fault.code.as_str().into()),
                ("detail", fault.detail.as_str().into()),
            ]);
            object.set_some("entry", fault.seq.map(Value::count));
            object.into()
        })
        .collect();
    let head = check.head.map_or(Value::Null, |head| {
        Object::from([("entry", Value::count(head.seq)), ("sha256", head.sha256.to_string().into())]).into()
    });
    Object::from([
        ("verified", check.faults.is_empty().into()),
        ("head", head),
        ("entries", Value::count(check.entries)),
        ("runs", Value::count(check.runs)),
        ("collected", Value::count(check.collected)),
        ("files", Value::count(check.files)),
        ("bundles", Value::count(check.bundles)),
        ("signatures", Value::count(check.signatures)),
        ("faults", faults.into()),
        ("notes", check.notes.iter().map(|note| note.as_str().into()).collect::<Vec<Value>>().into()),
    ])
    .into()
}

fn explain(word: &str, out: &Output) -> Exit {
    let codes = Code::ALL.iter().filter(|code| word == "all" || code.as_str() == word);
    let lines: Vec<String> = codes.map(|code| format!("{code}: {}\n", code.meaning())).collect();
    if lines.is_empty() {
        out.error(&format!("no code `{}`", harmless(word)));
        out.hint("`--explain all` lists them");
        return Exit::Refused;
    }
    if write_result(out, lines.concat().as_bytes()) { Exit::Success } else { Exit::Refused }
}
