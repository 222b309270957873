//! What a worker tells the service, a line of JSON each: [`Report`] <-> bytes. Pure.
//!
//! A worker reads what strangers send, so that its lines are checked as those of a stranger.

use crate::canon::read;
use crate::canon::shape::{Form, Shape, always, sometimes};
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::sandbox::outcome::Verdict;

/// No line is longer, its line feed included: what `PIPE_BUF` lets be written whole or not at all.
pub const MOST_BYTES: usize = 4096;

/// No reason is longer.
const MOST_REASON: usize = 512;

/// How the observer fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Records that were read.
    pub records: u64,
    /// Records that were lost.
    pub lost: u64,
    /// The longest time between an act and the reading of its record, in microseconds.
    pub lag_us: u64,
}

impl Tally {
    /// What is known after one more report: nothing that was counted is taken back.
    #[must_use]
    pub fn advanced(self, told: Self) -> Self {
        Self {
            records: self.records.max(told.records),
            lost: self.lost.max(told.lost),
            lag_us: self.lag_us.max(told.lag_us),
        }
    }
}

/// A run that is over and whose record is in the spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    /// Its id, where it has one.
    pub run_id: Option<String>,
    /// What it came to.
    pub verdict: Verdict,
    /// What the observer saw of it.
    pub tally: Tally,
    /// Bytes that it takes in the spool.
    pub bytes: u64,
    /// How long the command ran, in milliseconds.
    pub ms: u64,
    /// The place of its entry in the chain of the spool, where it has one.
    pub seq: Option<u64>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The command runs, as this process.
    Started {
        /// Its number.
        pid: u32,
    },
    /// It goes on.
    Progress(Tally),
    /// It is over.
    Finished(Over),
    /// No run came of the connection, for this reason.
    Refused {
        /// One sentence, without a secret.
        reason: String,
    },
}

/// Why a line is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// Longer than a line may be.
    #[error("read a report: it is longer than {MOST_BYTES} bytes")]
    TooLong,
    /// No JSON of ours.
    #[error("read a report: {0}")]
    Json(#[from] read::ReadError),
    /// JSON of another shape.
    #[error("read a report: {0}")]
    Shape(String),
}

impl Report {
    /// The line, with its line feed.
    pub fn to_line(&self) -> String {
        let mut object = Object::new();
        match self {
            Self::Started { pid } => {
                object.set("kind", "started");
                object.set("pid", Value::count(u64::from(*pid)));
            }
            Self::Progress(tally) => {
                object.set("kind", "progress");
                set_tally(&mut object, tally);
            }
            Self::Finished(over) => {
                object.set("kind", "finished");
                set_tally(&mut object, &over.tally);
                object.set_some("run_id", over.run_id.as_deref());
                object.set("verdict", over.verdict.as_str());
                object.set("bytes", Value::count(over.bytes));
                object.set("ms", Value::count(over.ms));
                object.set_some("seq", over.seq.map(Value::count));
            }
            Self::Refused { reason } => {
                object.set("kind", "refused");
                object.set("reason", cut(reason));
            }
        }
        write::to_string(&Value::from(object)) + "\n"
    }

    /// Reads a line without its line feed.
    pub fn read(line: &[u8]) -> Result<Self, ReportError> {
        if line.len() >= MOST_BYTES {
            return Err(ReportError::TooLong);
        }
        let value = read::parse(line)?;
        shape().check(&value).map_err(|mismatch| ReportError::Shape(mismatch.to_string()))?;
        let object = value.as_object().expect("the shape is that of objects");
        let count = |key: &str| object.get(key).and_then(Value::as_count).unwrap_or(0);
        let tally = || Tally { records: count("records"), lost: count("lost"), lag_us: count("lag_us") };
        Ok(match object.str("kind").unwrap_or_default() {
            "started" => Self::Started { pid: count("pid") as u32 },
            "progress" => Self::Progress(tally()),
            "refused" => Self::Refused { reason: cut(object.str("reason").unwrap_or_default()).to_owned() },
            _ => Self::Finished(Over {
                run_id: object.str("run_id").map(str::to_owned),
                verdict: read_verdict(object.str("verdict").unwrap_or_default()),
                tally: tally(),
                bytes: count("bytes"),
                ms: count("ms"),
                seq: object.get("seq").and_then(Value::as_count),
            }),
        })
    }
}

fn set_tally(object: &mut Object, tally: &Tally) {
    object.set("records", Value::count(tally.records));
    object.set("lost", Value::count(tally.lost));
    object.set("lag_us", Value::count(tally.lag_us));
}

/// The shape has no other words.
fn read_verdict(word: &str) -> Verdict {
    Verdict::ALL.into_iter().find(|verdict| verdict.as_str() == word).unwrap_or(Verdict::Failed)
}

/// At most so many bytes, between two characters.
fn cut(reason: &str) -> &str {
    let end = (0..=MOST_REASON.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
    &reason[..end.unwrap_or(0)]
}

fn shape() -> Shape {
    let kind = |word| always("kind", Shape::Word(vec![word]), "which");
    let tally = || {
        [
            always("records", Shape::Count, "read"),
            always("lost", Shape::Count, "lost"),
            always("lag_us", Shape::Count, "microseconds"),
        ]
    };
    let verdicts = Verdict::ALL.into_iter().map(Verdict::as_str).collect();
    Shape::OneOf(vec![
        Shape::Object(vec![
            kind("started"),
            always("pid", Shape::Between(1, i64::from(i32::MAX)), "the command's process"),
        ]),
        Shape::Object(vec![kind("progress")]).and(tally()),
        Shape::Object(vec![kind("finished")]).and(tally()).and([
            sometimes("run_id", Shape::Form(Form::RunId), "its id"),
            always("verdict", Shape::Word(verdicts), "what it came to"),
            always("bytes", Shape::Count, "in the spool"),
            always("ms", Shape::Count, "milliseconds"),
            sometimes("seq", Shape::Count, "its entry"),
        ]),
        Shape::Object(vec![kind("refused"), always("reason", Shape::Filled, "why")]),
    ])
}

/// Takes a stream of lines apart.
#[derive(Debug, Default)]
pub struct Lines {
    begun: Vec<u8>,
    is_skipping: bool,
}

impl Lines {
    /// Takes what was read, and gives the reports that are whole by now. Of a line that is too long the rest is passed over.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Result<Report, ReportError>> {
        let mut reports = Vec::new();
        for byte in bytes {
            if *byte == b'\n' {
                if !std::mem::take(&mut self.is_skipping) {
                    reports.push(Report::read(&self.begun));
                }
                self.begun.clear();
            } else if !self.is_skipping {
                self.begun.push(*byte);
                if self.begun.len() >= MOST_BYTES {
                    reports.push(Err(ReportError::TooLong));
                    self.is_skipping = true;
                    self.begun.clear();
                }
            }
        }
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TALLY: Tally = Tally { records: 12, lost: 3, lag_us: 4000 };

    fn over() -> Over {
        Over {
            run_id: Some("sandbox_0123456789abcdef".into()),
            verdict: Verdict::Denied,
            tally: TALLY,
            bytes: 77,
            ms: 1500,
            seq: Some(4),
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        for report in [
            Report::Started { pid: 1 },
            Report::Progress(TALLY),
            Report::Finished(over()),
            Report::Finished(Over { run_id: None, seq: None, ..over() }),
            Report::Refused { reason: "no request came within 10 s".into() },
        ] {
            let line = report.to_line();
            assert!(line.len() <= MOST_BYTES);
            assert_eq!(Report::read(line.trim_end().as_bytes()), Ok(report), "{line}");
        }
    }

    #[test]
    fn what_is_no_report_is_not_believed() {
        for line in [
            "",
            "{}",
            "[]",
            r#"{"kind":"started"}"#,
            r#"{"kind":"started","pid":0}"#,
            r#"{"kind":"started","pid":4294967296}"#,
            r#"{"kind":"started","pid":1,"uid":0}"#,
            r#"{"kind":"ended"}"#,
            r#"{"kind":"progress","records":-1,"lost":0,"lag_us":0}"#,
            r#"{"kind":"progress","records":1.5,"lost":0,"lag_us":0}"#,
            r#"{"kind":"refused","reason":""}"#,
            r#"{"bytes":1,"kind":"finished","lag_us":1,"lost":1,"ms":1,"records":1,"verdict":"good"}"#,
            r#"{"bytes":1,"kind":"finished","lag_us":1,"lost":1,"ms":1,"records":1,"run_id":"x\ny","verdict":"ok"}"#,
        ] {
            assert!(Report::read(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn a_reason_has_an_end_between_two_characters() {
        let reason = "ä".repeat(5000);
        let line = Report::Refused { reason }.to_line();
        assert!(line.len() < MOST_BYTES, "{}", line.len());
        assert!(matches!(Report::read(line.trim_end().as_bytes()), Ok(Report::Refused { .. })));
    }

    #[test]
    fn lines_are_found_however_they_are_cut_and_one_that_is_too_long_is_one_error() {
        let good = Report::Started { pid: 9 }.to_line();
        let text = format!("{good}{}\n{good}nonsense\n{good}", "x".repeat(3 * MOST_BYTES));
        for size in [1, 7, 4096, text.len()] {
            let mut lines = Lines::default();
            let reports: Vec<_> = text.as_bytes().chunks(size).flat_map(|chunk| lines.take(chunk)).collect();
            let good: Vec<bool> = reports.iter().map(Result::is_ok).collect();
            assert_eq!(good, [true, false, true, false, true], "{size}");
            assert!(lines.begun.capacity() <= 2 * MOST_BYTES);
        }
    }
}
