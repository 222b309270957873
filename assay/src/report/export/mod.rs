//! A verified bundle's events → lines for programs of others: tables, log pipelines, a SIEM. Pure.
//!
//! Every format has one line for the run, which comes first, and one for each event that is not part of that line.
//! What a name holds cannot end its line: all of it is JSON.

pub mod jsonl;
pub mod ocsf;
pub mod otlp;
pub mod perfetto;
mod text;

use crate::canon::digest::Digest;
use crate::canon::read;
use crate::canon::value::{MAX_INTEGER, Object, Value};
use crate::evidence::manifest::Manifest;
use crate::evidence::verify::Event;
use crate::evidence::view::{self, Content, View};
use crate::evidence::{Outcome, peer};

/// What frames a bundle's effects: the first event of each kind that says something of the whole run.
#[derive(Debug, Clone, Default)]
pub struct Head {
    started: Option<Event>,
    summary: Option<Event>,
    finished: Option<Event>,
}

impl Head {
    /// Takes one event in.
    pub fn add(&mut self, event: &Event) {
        let place = match View::new(event).content {
            Content::Started => &mut self.started,
            Content::Summary => &mut self.summary,
            Content::Finished => &mut self.finished,
            Content::Fs { .. }
            | Content::Exec { .. }
            | Content::Net { .. }
            | Content::Degraded { .. }
            | Content::Unknown => return,
        };
        place.get_or_insert_with(|| event.clone());
    }

    /// Whether the line of the run says what this event says. A second one of a kind that should be there once is
    /// somebody's hand, and gets a line of its own.
    pub fn has(&self, event: &Event) -> bool {
        [&self.started, &self.summary, &self.finished]
            .into_iter()
            .flatten()
            .any(|kept| kept.sequence == event.sequence)
    }

    /// How much it holds, in bytes of canonical JSON, about.
    pub fn weight(&self) -> usize {
        let kept = [&self.started, &self.summary, &self.finished].into_iter().flatten();
        kept.map(|event| crate::canon::write::to_string(&event.object.clone().into()).len()).sum()
    }

    fn started(&self) -> Option<&Object> {
        self.started.as_ref().map(|event| &event.object)
    }

    fn summary(&self) -> Option<&Object> {
        self.summary.as_ref().map(|event| &event.object)
    }

    fn command(&self) -> Option<Vec<&str>> {
        view::command(self.started.as_ref()?)
    }

    fn outcome(&self) -> Option<Outcome> {
        [&self.summary, &self.finished].into_iter().flatten().find_map(view::outcome)
    }
}

/// One run, as every line of it needs it.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The bundle's manifest.
    pub manifest: &'a Manifest,
    /// The digest of the bundle's file.
    pub archive: &'a Digest,
    /// What frames the effects.
    pub head: &'a Head,
    /// The machine it ran on, as whoever exports calls it.
    pub host: Option<&'a str>,
}

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Flat columns.
    Jsonl,
    /// OTLP/JSON logs.
    OtlpJson,
    /// OCSF.
    Ocsf,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Jsonl, Self::OtlpJson, Self::Ocsf];

    /// The line of the run, without its LF.
    pub fn run(self, run: &Run<'_>) -> String {
        match self {
            Self::Jsonl => jsonl::run(run),
            Self::OtlpJson => otlp::run(run),
            Self::Ocsf => ocsf::run(run),
        }
    }

    /// The line of an event, without its LF; `None` when the line of the run has said it.
    pub fn event(self, run: &Run<'_>, event: &Event) -> Option<String> {
        if run.head.has(event) {
            return None;
        }
        Some(match self {
            Self::Jsonl => jsonl::event(run, event),
            Self::OtlpJson => otlp::event(run, event),
            Self::Ocsf => ocsf::event(run, event),
        })
    }
}

/// What an event says beside its content, as far as it says it in the form that is meant.
struct Facts<'a> {
    view: View<'a>,
    /// `ok`, `denied`.
    result: Option<&'a str>,
    is_authorised: Option<bool>,
    hits: Option<u64>,
}

impl<'a> Facts<'a> {
    fn new(event: &'a Event) -> Self {
        let object = &event.object;
        Self {
            view: View::new(event),
            result: event.data().and_then(|data| data.str("result")),
            is_authorised: object.get("assayauthorised").and_then(Value::as_bool),
            hits: object.get("assayhits").and_then(Value::as_count),
        }
    }

    /// The digest of a program.
    fn digest(&self) -> Option<&'a str> {
        self.view.event.data().and_then(|data| data.str("sha256"))
    }

    /// Whether the kernel chose the port.
    fn has_chosen_port(&self) -> bool {
        self.view.event.data().and_then(|data| data.str("port")) == Some("ephemeral")
    }

    /// The name of the operation; of a program, `exec`.
    fn op(&self) -> Option<&'a str> {
        match self.view.content {
            Content::Fs { op, .. } | Content::Net { op, .. } => Some(op).filter(|op| !op.is_empty()),
            Content::Exec { .. } => Some("exec"),
            Content::Degraded { .. }
            | Content::Started
            | Content::Summary
            | Content::Finished
            | Content::Unknown => None,
        }
    }

    /// What kind of thing happened; `other` for what is not known, or should be there once and is there again.
    fn kind(&self) -> &'static str {
        match self.view.content {
            Content::Fs { .. } => "fs",
            Content::Exec { .. } => "exec",
            Content::Net { .. } => "net",
            Content::Degraded { .. } => "degradation",
            Content::Started | Content::Summary | Content::Finished | Content::Unknown => "other",
        }
    }

    /// Whether it was denied, or done without authority.
    fn is_warned(&self) -> bool {
        self.view.is_denied() || self.is_authorised == Some(false)
    }

    /// The other addresses that its host's name stands for.
    fn addresses(&self) -> Vec<Value> {
        self.view.addresses().iter().map(|address| address.to_string().into()).collect()
    }

    /// Who answered at a UNIX socket.
    fn peers(&self) -> Option<Vec<Value>> {
        let peers: Vec<Value> = self.view.peers().iter().map(|peer| peer::object(peer).into()).collect();
        Some(peers).filter(|peers| !peers.is_empty())
    }

    fn asked(&self) -> Vec<Value> {
        self.view.asked().map(Value::from).collect()
    }
}

/// A count that stays a number in every line; more than 2^53−1 is told as that.
fn number(count: u64) -> Value {
    Value::count(count.min(MAX_INTEGER as u64))
}

/// The list that an attribute holds as JSON text. Another text is told as the only element of one, made by `otherwise`.
fn list(object: Option<&Object>, key: &str, otherwise: impl Fn(&str) -> Value) -> Value {
    let Some(text) = object.and_then(|object| object.str(key)) else { return Value::Array(Vec::new()) };
    let like = otherwise("");
    let is_like = |element: &Value| std::mem::discriminant(element) == std::mem::discriminant(&like);
    match read::parse(text.as_bytes()) {
        Ok(Value::Array(elements)) if elements.iter().all(is_like) => Value::Array(elements),
        _ => Value::Array(vec![otherwise(text)]),
    }
}

#[cfg(test)]
mod tests;
