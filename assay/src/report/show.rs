//! The contents of a bundle, for a person. Streams: nothing but the summary is kept.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::text::Paint;
use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::evidence::verify::{Event, Verified};
use crate::evidence::view::{self, Content, View};
use crate::profile::name::harmless;

/// What the head of a listing needs.
#[derive(Debug, Clone, Default)]
pub struct Head {
    started: Option<Event>,
    summary: Option<Object>,
    finished: Option<Event>,
    counts: [u64; 5],
}

impl Head {
    /// Takes one event in.
    pub fn add(&mut self, event: &Event) {
        let at = match View::new(event).content {
            Content::Started => {
                self.started.get_or_insert_with(|| event.clone());
                return;
            }
            Content::Summary => {
                self.summary.get_or_insert_with(|| event.object.clone());
                return;
            }
            Content::Finished => {
                self.finished.get_or_insert_with(|| event.clone());
                return;
            }
            Content::Fs { .. } => 0,
            Content::Exec { .. } => 1,
            Content::Net { .. } => 2,
            Content::Degraded { .. } => 3,
            Content::Unknown => 4,
        };
        self.counts[at] += 1;
    }

    /// Writes what stands above the listing.
    pub fn write(&self, out: &mut dyn Write, verified: &Verified, paint: Paint) -> io::Result<()> {
        let manifest = &verified.manifest;
        let mut line =
            |name: &str, text: &str| writeln!(out, "{} {text}", paint.style("1", &format!("{name:<10}")));
        line("run", &harmless(&manifest.run_id))?;
        line("run root", &manifest.run_root.to_string())?;
        line(
            "producer",
            &format!("{} {}", harmless(&manifest.producer), harmless(&manifest.producer_version)),
        )?;
        if let Some(started) = &self.started {
            if let Some(words) = view::command(started) {
                line("command", &words.into_iter().map(word).collect::<Vec<_>>().join(" "))?;
            }
            let facts = [("mode", "assaymode"), ("kernel", "assaykernel"), ("policy", "assaypolicydigest")];
            for (name, attribute) in facts {
                if let Some(text) = started.object.str(attribute) {
                    line(name, &harmless(text))?;
                }
            }
        }
        let outcome = self
            .summary
            .as_ref()
            .and_then(|summary| summary.get("data"))
            .or_else(|| self.finished.as_ref().and_then(|finished| finished.object.get("data")));
        if let Some(outcome) = outcome.and_then(Value::as_object).and_then(|data| data.get("outcome")) {
            line("outcome", &outcome_words(outcome))?;
        }
        match &self.summary {
            None => line("coverage", "not stated")?,
            Some(summary) => {
                if let Some(verdict) = summary.str("assayverdict") {
                    line("verdict", &harmless(verdict))?;
                }
                line("coverage", &coverage(summary))?;
                for gap in gaps(summary) {
                    line("", &gap)?;
                }
                if let Some(duration) = summary.get("assaydurationms").and_then(Value::as_count) {
                    line("duration", &format!("{}.{:03} s", duration / 1000, duration % 1000))?;
                }
            }
        }
        let [fs, exec, net, degraded, unknown] = self.counts;
        let mut counts = format!("{fs} files, {exec} programs, {net} network, {degraded} degradations");
        if unknown > 0 {
            write!(counts, ", {unknown} of unknown type").expect("writing to a String cannot fail");
        }
        line("events", &format!("{}: {counts}", manifest.event_count))
    }
}

fn word(word: &str) -> String {
    let is_plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"".contains(c));
    if is_plain { harmless(word).into_owned() } else { format!("'{}'", harmless(word)) }
}

fn outcome_words(outcome: &Value) -> String {
    match outcome.as_object().and_then(|outcome| outcome.iter().next()) {
        Some(("exit_code", code)) => format!("exit code {}", code.as_count().unwrap_or_default()),
        Some(("signal", Value::String(name))) => format!("signal {}", harmless(name)),
        Some(("timeout", _)) => "timed out".to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn coverage(summary: &Object) -> String {
    let words = ["fs", "exec", "net"].map(|kind| {
        let word = summary.str(&format!("assaycoverage{kind}")).unwrap_or("not stated");
        format!("{kind} {}", harmless(word))
    });
    let lost = summary.get("assaylost").and_then(Value::as_count).map(|lost| format!("; {lost} events lost"));
    words.join(", ") + &lost.unwrap_or_default()
}

fn gaps(summary: &Object) -> Vec<String> {
    let list = read::parse(summary.str("assaygaps").unwrap_or("[]").as_bytes()).ok();
    let list =
        list.as_ref().and_then(Value::as_array).unwrap_or_default().iter().filter_map(Value::as_object);
    list.map(|gap| {
        let field = |key| harmless(gap.str(key).unwrap_or_default());
        format!("{}: {} {}", field("kind"), field("reason"), field("detail")).trim_end().to_owned()
    })
    .take(50)
    .collect()
}

/// Writes one line of the listing; nothing for the events of the head.
pub fn line(out: &mut dyn Write, event: &Event, paint: Paint) -> io::Result<()> {
    let view = View::new(event);
    let hits = event.object.get("assayhits").and_then(Value::as_count).filter(|hits| *hits > 1);
    let mut after = hits.map(|hits| format!("  \u{d7}{hits}")).unwrap_or_default();
    if view.is_denied() {
        let by = view.denied_by().map(|by| format!(" by {}", harmless(by))).unwrap_or_default();
        after.push_str("  ");
        after.push_str(&paint.style("31", &format!("denied{by}")));
    }
    if event.object.get("assayauthorised") == Some(&Value::Bool(false)) && !view.is_denied() {
        after.push_str("  ");
        after.push_str(&paint.style("33", "not authorised"));
    }
    let peers: Vec<String> =
        view.peers().iter().map(|peer| harmless(&peer.to_string()).into_owned()).collect();
    if !peers.is_empty() {
        write!(after, "  answered by {}", peers.join(" and by ")).expect("writing to a String cannot fail");
    }
    let (kind, op, text) = match view.content {
        Content::Started | Content::Summary | Content::Finished => return Ok(()),
        Content::Fs { op, path, to } => {
            let to = to.map(|to| format!(" -> {}", harmless(to))).unwrap_or_default();
            ("fs", op, format!("{}{to}", harmless(path)))
        }
        Content::Exec { path } => {
            let digest = event
                .data()
                .and_then(|data| data.str("sha256"))
                .map(|digest| format!("  {}", harmless(digest)));
            ("exec", "run", format!("{}{}", harmless(path), digest.unwrap_or_default()))
        }
        Content::Net { op, proto, .. } => {
            let subject = event.subject().unwrap_or_default();
            ("net", op, format!("{} {}", harmless(proto), harmless(subject)))
        }
        Content::Degraded { component, reason, detail } => {
            let detail = detail.map(|detail| format!(" {}", harmless(detail))).unwrap_or_default();
            ("degraded", component, format!("{}{detail}", harmless(reason)))
        }
        Content::Unknown => {
            let subject =
                event.subject().map(|subject| format!(" {}", harmless(subject))).unwrap_or_default();
            ("unknown", "", format!("{}{subject}", harmless(event.kind())))
        }
    };
    writeln!(out, "{kind:<8} {:<8} {text}{after}", harmless(op))
}
