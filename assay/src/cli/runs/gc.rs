//! Flags → gc: the files of old runs go, their entries stay.

use super::{Place, now, refuse};
use crate::cli::evidence::input::write_result;
use crate::cli::output::Output;
use crate::exit::Exit;
use crate::spool::entry::Why;

/// Flags of `assay runs gc`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["keep_days", "max_bytes"]))]
pub struct Args {
    /// Remove the files of runs that were written so many days ago, or longer.
    #[arg(long, value_name = "N")]
    keep_days: Option<u64>,
    /// Remove the files of the oldest runs, until all others have no more bytes than this (also 500M, 20G).
    #[arg(long, value_name = "N", value_parser = bytes)]
    max_bytes: Option<u64>,
    /// Say what would be removed, and remove nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: Place,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Exit {
    let why = match (args.keep_days, args.max_bytes) {
        (Some(days), None) => Why::KeepDays(days),
        (None, Some(bytes)) => Why::MaxBytes(bytes),
        (Some(_), Some(_)) | (None, None) => unreachable!("clap takes one of the two"),
    };
    let spool = match args.place.open(out) {
        Ok(spool) => spool,
        Err(exit) => return exit,
    };
    let done = if args.dry_run { spool.plan_collection(why, now()) } else { spool.collect(why, now()) };
    let collection = match done {
        Ok(collection) => collection,
        Err(error) => return refuse(out, &error),
    };
    let word = if args.dry_run { "would remove" } else { "removed" };
    let planned = collection.runs.iter().filter(|_| args.dry_run);
    let mut lines: Vec<String> =
        planned.map(|run| format!("entry {} of {}: {} bytes\n", run.seq, run.time, run.bytes)).collect();
    lines.push(format!(
        "{word} the files of {} runs, {} bytes; {} runs with {} bytes stay\n",
        collection.runs.len(),
        collection.bytes(),
        collection.kept,
        collection.kept_bytes
    ));
    if !collection.left_over.is_empty() {
        let count = collection.left_over.len();
        out.note(&format!("{word} {count} directories that an earlier collection had left"));
    }
    if write_result(out, lines.concat().as_bytes()) { Exit::Success } else { Exit::Refused }
}

/// A count of bytes, with a unit of 1024.
fn bytes(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: Option<u64> = match unit {
        "" => Some(1),
        "k" | "K" => Some(1 << 10),
        "M" => Some(1 << 20),
        "G" => Some(1 << 30),
        "T" => Some(1 << 40),
        _ => None,
    };
    let product = factor.and_then(|factor| number.parse::<u64>().ok()?.checked_mul(factor));
    product.ok_or_else(|| "expected a number of bytes, also with k, M, G or T".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (text, expect) in
            [("0", Some(0)), ("7", Some(7)), ("500M", Some(500 << 20)), ("2T", Some(2 << 40))]
        {
            assert_eq!(bytes(text).ok(), expect, "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "1GB", "99999999999T", " 1"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
