//! A time line in the JSON that Perfetto and Chrome's viewer open: runs as bundles tell them, or the acts of a trace.
//!
//! A bundle says when a run began and how long it took, and not when an effect happened: it is one bar, with counts. A trace
//! has the moment of every act. What process lived how long neither says; a program's bar ends at its last act.

use std::collections::BTreeMap;

use super::{Facts, Run, text};
use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::timestamp::Timestamp;
use crate::evidence::verify::Event;
use crate::profile::name::harmless;
use crate::report::json::{escaped, to_text};

/// What stands before the first event, before each that follows, and after the last; every event is a line.
pub const FRAME: (&str, &str, &str) = ("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", ",", "]}\n");

/// What a bundle's bar says of its effects.
#[derive(Debug, Clone, Default)]
pub struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    /// Counts an event that the head does not have.
    pub fn add(&mut self, event: &Event) {
        let facts = Facts::new(event);
        let mut one = |name| *self.0.entry(name).or_default() += 1;
        one(facts.kind());
        if facts.view.is_denied() {
            one("denied");
        } else if facts.is_authorised == Some(false) {
            one("unauthorised");
        }
    }
}

/// The events of a run: its name, and its bar; where the bundle does not say when it began, a mark at the time at which the
/// bundle was written. `number` counts the bundles from 1.
pub fn run(run: &Run<'_>, counts: &Counts, number: u64) -> Vec<String> {
    let head = run.head;
    let summary = head.summary();
    let mut args = Object::from([
        ("archive", run.archive.to_string().into()),
        ("bundle_id", run.manifest.run_root.to_string().into()),
        ("run_id", run.manifest.run_id.as_str().into()),
    ]);
    for (key, attribute) in [
        ("coverage_exec", "assaycoverageexec"),
        ("coverage_fs", "assaycoveragefs"),
        ("coverage_net", "assaycoveragenet"),
        ("verdict", "assayverdict"),
    ] {
        args.set_some(key, summary.and_then(|object| object.str(attribute)));
    }
    args.set_some("lost", summary.and_then(|object| object.get("assaylost")).cloned());
    args.set_some("machine", run.host);
    for (name, count) in &counts.0 {
        args.set(&format!("effects_{name}"), super::number(*count));
    }
    let moment = |text: Option<&str>| Some(Timestamp::parse(text?)?.seconds() as u64 * 1_000_000_000);
    let began = moment(summary.and_then(|object| object.str("assaystartedat")));
    let written = head.summary.as_ref().or(head.started.as_ref());
    let written = moment(written.and_then(|event| event.object.str("time"))).unwrap_or_default();
    let duration = summary.and_then(|object| object.get("assaydurationms")?.as_count());
    let kind = match (began, duration) {
        (Some(at), Some(duration)) => Kind::Bar { at, length: duration.saturating_mul(1_000_000) },
        _ => Kind::Mark { at: began.unwrap_or(written), scope: "p" },
    };
    let title = text::run(head);
    vec![
        named("process_name", number, number, &format!("run {number}: {}", run.manifest.run_id)),
        line(&title, &kind, number, number, args),
    ]
}

/// What an event is on the time line; moments and lengths in nanoseconds.
enum Kind {
    Bar { at: u64, length: u64 },
    Begin { at: u64 },
    End { at: u64 },
    Mark { at: u64, scope: &'static str },
}

/// An event, without what separates it from the next.
fn line(name: &str, kind: &Kind, pid: u64, tid: u64, args: Object) -> String {
    let mut out = format!("{{\"args\":{},\"name\":", to_text(&args.into()));
    write::append_string(name, &mut out);
    let (letter, at) = match kind {
        Kind::Bar { at, length } => {
            out.extend([",\"dur\":", &microseconds(*length)]);
            ("X", at)
        }
        Kind::Begin { at } => ("B", at),
        Kind::End { at } => ("E", at),
        Kind::Mark { at, scope } => {
            out.extend([",\"s\":\"", scope, "\""]);
            ("i", at)
        }
    };
    let moment = microseconds(*at);
    out.push_str(&[",\"ph\":\"", letter, "\",\"pid\":"].concat());
    out.extend([&pid.to_string(), ",\"tid\":", &tid.to_string(), ",\"ts\":", &moment, "}"]);
    escaped(out)
}

/// The format's times are microseconds, with a fraction.
fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

/// Names a process or a thread.
fn named(what: &str, pid: u64, tid: u64, name: &str) -> String {
    let object = Object::from([
        ("args", Object::from([("name", name.into())]).into()),
        ("name", what.into()),
        ("ph", "M".into()),
        ("pid", super::number(pid)),
        ("tid", super::number(tid)),
    ]);
    to_text(&object.into())
}

/// Why a line of a trace cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TraceError {
    /// Which, from 1.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

/// How a trace ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With all there was.
    Whole,
    /// Otherwise; the words say how.
    Cut(String),
}

/// Makes events of the lines of a trace, as they come.
#[derive(Debug, Default)]
pub struct Acts {
    lines: u64,
    told: u64,
    last: u64,
    /// Of each process, the last moment at which it was seen, and whether a program's bar is open.
    processes: BTreeMap<u64, Process>,
    end: Option<End>,
}

#[derive(Debug, Default)]
struct Process {
    last: u64,
    is_open: bool,
}

impl Acts {
    /// Takes the next line, without its LF, and says what becomes of it.
    pub fn line(&mut self, text: &[u8]) -> Result<Vec<String>, TraceError> {
        self.lines += 1;
        let line = self.lines;
        let wrong = |what: String| TraceError { line, what };
        let value = read::parse(text).map_err(|error| wrong(error.to_string()))?;
        let object = value.as_object().ok_or_else(|| wrong("not an object".into()))?;
        if self.end.is_some() {
            return Err(wrong("something follows the last line of the trace".into()));
        }
        if let Some(end) = object.get("end") {
            return Ok(self.ended(end, object));
        }
        let count = |key: &str| {
            object
                .get(key)
                .and_then(Value::as_count)
                .ok_or_else(|| wrong(format!("{key}: absent, or no count")))
        };
        let (at, pid, tid) = (count("t_ns")?, count("pid")?, count("tid")?);
        let op = object.str("op").ok_or_else(|| wrong("op: absent, or no text".into()))?;
        self.told += 1;
        self.last = self.last.max(at);
        Ok(self.act(object, op, at, (pid, tid)))
    }

    fn act(&mut self, object: &Object, op: &str, at: u64, (pid, tid): (u64, u64)) -> Vec<String> {
        let mut events = Vec::new();
        let process = self.processes.entry(pid).or_default();
        let is_started = op == "exec" && object.str("result") == Some("ok");
        let path = object.str("path").unwrap_or_default();
        if is_started {
            if process.is_open {
                events.push(line("", &Kind::End { at: process.last }, pid, pid, Object::new()));
            }
            events.push(named("process_name", pid, pid, path));
            events.push(line(path, &Kind::Begin { at }, pid, pid, object.clone()));
            process.is_open = true;
        } else {
            let what = object.str("path").or_else(|| object.str("host")).or_else(|| object.str("address"));
            let what = what.or_else(|| object.str("proto")).unwrap_or_default();
            let mut name = format!("{op} {what}");
            if let Some(result) = object.str("result").filter(|result| *result != "ok") {
                name.extend([": ", result]);
            }
            events.push(line(&name, &Kind::Mark { at, scope: "t" }, pid, tid, object.clone()));
        }
        process.last = process.last.max(at);
        events
    }

    fn ended(&mut self, end: &Value, object: &Object) -> Vec<String> {
        let lost = object.get("lost").and_then(Value::as_count);
        let told = object.get("events").and_then(Value::as_count);
        let end = match (end, lost, told) {
            (Value::Bool(true), Some(0), Some(told)) if told == self.told => End::Whole,
            (Value::Bool(true), Some(lost), Some(told)) if told == self.told => {
                End::Cut(format!("{lost} records were lost"))
            }
            (Value::Bool(true), _, told) => End::Cut(format!(
                "it has {} lines of acts and says {}",
                self.told,
                told.map_or_else(|| "nothing of how many".to_owned(), |told| told.to_string())
            )),
            _ => End::Cut(harmless(object.str("reason").unwrap_or("it says no reason")).into_owned()),
        };
        self.end = Some(end);
        Vec::new()
    }

    /// The events that end all bars, and how the trace ended. A trace that is not whole says so on the time line.
    pub fn finish(self) -> (Vec<String>, End) {
        let mut events: Vec<String> = self
            .processes
            .iter()
            .filter(|(_, process)| process.is_open)
            .map(|(pid, process)| line("", &Kind::End { at: process.last }, *pid, *pid, Object::new()))
            .collect();
        let end = self.end.unwrap_or_else(|| End::Cut("it was cut off".to_owned()));
        if let End::Cut(why) = &end {
            let name = format!("this trace is not whole: {why}");
            events.push(line(&name, &Kind::Mark { at: self.last, scope: "g" }, 0, 0, Object::new()));
        }
        (events, end)
    }
}
