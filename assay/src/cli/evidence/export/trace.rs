//! The lines of a trace → a time line, as they come. A trace has no hashes: what is in it is taken as it is.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::path::Path;

use super::Lines;
use crate::cli::output::Output;
use crate::evidence::integrity::{Limits, shown};
use crate::report::export::perfetto::{Acts, End, FRAME};

/// Writes it. What is wrong with the trace is put into `trouble`; of one that is not whole it is told, here and on the
/// time line.
pub fn write(
    path: &Path,
    writer: &mut dyn Write,
    trouble: &mut Option<String>,
    out: &Output,
) -> io::Result<()> {
    let name =
        if path == Path::new("-") { "stdin".into() } else { shown(path.as_os_str().as_encoded_bytes()) };
    let mut failed = |what: &dyn std::fmt::Display| *trouble = Some(format!("{name}: {what}"));
    let mut reader: Box<dyn io::BufRead> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        match File::open(path) {
            Ok(file) => Box::new(BufReader::with_capacity(1 << 16, file)),
            Err(error) => {
                failed(&error);
                return Ok(());
            }
        }
    };
    let most = Limits::FORMAT.line_bytes as u64;
    let (mut acts, mut line) = (Acts::default(), Vec::new());
    let mut lines = Lines::begin(writer, FRAME)?;
    loop {
        line.clear();
        match reader.by_ref().take(most + 1).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) if line.len() as u64 > most => {
                failed(&format!("a line of more than {most} bytes"));
                return Ok(());
            }
            Ok(_) => {}
            Err(error) => {
                failed(&error);
                return Ok(());
            }
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else {
            // Whoever was killed while writing left half a line.
            break;
        }
        match acts.line(&line) {
            Ok(events) => events.iter().try_for_each(|event| lines.put(event))?,
            Err(error) => {
                failed(&error);
                return Ok(());
            }
        }
    }
    let (events, end) = acts.finish();
    events.iter().try_for_each(|event| lines.put(event))?;
    if let End::Cut(why) = end {
        out.warning(&format!("{name}: this trace is not whole: {why}"));
    }
    lines.end()
}
