//! One event, or the run, in words: the message that log formats have beside their fields. Pure.

use super::{Facts, Head};
use crate::evidence::Outcome;
use crate::evidence::view::Content;

/// A message stands on every screen that lists it: of longer texts, the fields have the whole.
const MOST_CHARS: usize = 500;

/// What an event says: `write /etc/crontab: denied by policy`.
pub(super) fn event(facts: &Facts<'_>) -> String {
    let event = facts.view.event;
    let mut text = match facts.view.content {
        Content::Fs { op, path, to } => match to {
            Some(to) => format!("{op} {path} -> {to}"),
            None => format!("{op} {path}"),
        },
        Content::Exec { path } => format!("exec {path}"),
        Content::Net { op, proto, .. } => format!("{op} {proto} {}", event.subject().unwrap_or_default()),
        Content::Degraded { component, reason, detail } => match detail {
            Some(detail) => format!("not held: {component}: {reason}: {detail}"),
            None => format!("not held: {component}: {reason}"),
        },
        Content::Started | Content::Summary | Content::Finished | Content::Unknown => {
            format!("{} {}", event.kind(), event.subject().unwrap_or_default())
        }
    };
    text = cut(&text);
    match (facts.view.is_denied(), facts.view.denied_by()) {
        (true, Some(by)) => text.extend([": denied by ", by]),
        (true, None) => text += ": denied",
        (false, _) if facts.is_authorised == Some(false) => text += ": not authorised",
        (false, _) => {}
    }
    text
}

/// What was run and how it ended: `make test: exit code 0, verdict ok`.
pub(super) fn run(head: &Head) -> String {
    let words = head.command().unwrap_or_default();
    let outcome = match head.outcome() {
        Some(Outcome::ExitCode(code)) => format!("exit code {code}"),
        Some(Outcome::Signal(name)) => format!("signal {name}"),
        Some(Outcome::Timeout) => "timed out".to_owned(),
        None => "how it ended is not said".to_owned(),
    };
    let verdict = head.summary().and_then(|summary| summary.str("assayverdict"));
    let verdict = verdict.map_or_else(|| "no verdict".to_owned(), |verdict| format!("verdict {verdict}"));
    format!("{}: {outcome}, {verdict}", cut(&words.join(" ")))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        Some((at, _)) => format!("{}\u{2026}", &text[..at]),
        None => text.to_owned(),
    }
}
