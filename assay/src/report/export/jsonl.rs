//! JSON lines with flat columns, which programs that keep tables read as they are.
//!
//! The line of the run comes first and has every column, so that who looks at the first lines knows them all; the
//! others have those that say something. A column has one type, whatever a bundle holds.

use super::{Facts, Head, Run, list, number};
use crate::canon::value::{Object, Value};
use crate::evidence::Outcome;
use crate::evidence::verify::Event;
use crate::evidence::view::Content;
use crate::report::json::to_text;

/// Every column, in the order in which a line has them.
pub const COLUMNS: [&str; 52] = [
    "address",
    "addresses",
    "arch",
    "archive",
    "asked",
    "authorised",
    "bundle_id",
    "canonicalizer",
    "command",
    "component",
    "coverage_exec",
    "coverage_fs",
    "coverage_net",
    "denied_by",
    "descendants",
    "detail",
    "digest",
    "digest_error",
    "duration_ms",
    "exit_code",
    "gaps",
    "hits",
    "host",
    "host_from",
    "kernel",
    "kind",
    "lost",
    "machine",
    "mode",
    "not_governed",
    "observer",
    "op",
    "path",
    "peers",
    "policy_digest",
    "port",
    "port_chosen",
    "producer",
    "producer_version",
    "proto",
    "reason",
    "result",
    "run_id",
    "seq",
    "signal",
    "started_at",
    "subject",
    "time",
    "timed_out",
    "to",
    "type",
    "verdict",
];

/// The line of the run, without its LF.
pub fn run(run: &Run<'_>) -> String {
    let mut row = Object::new();
    for column in COLUMNS {
        row.set(column, Value::Null);
    }
    let head = run.head;
    identify(&mut row, run);
    row.set("kind", "run");
    row.set("producer", run.manifest.producer.as_str());
    row.set("producer_version", run.manifest.producer_version.as_str());
    row.set_some("machine", run.host);
    if let Some(first) = head.started.as_ref().or(head.summary.as_ref()) {
        row.set("seq", number(first.sequence));
        row.set_some("time", first.object.str("time"));
        row.set("type", first.kind());
    }
    let words = head.command().unwrap_or_default();
    row.set("command", words.into_iter().map(Value::from).collect::<Vec<_>>());
    let data = head.started.as_ref().and_then(Event::data);
    row.set_some("canonicalizer", data.and_then(|data| data.str("canonicalizer")));
    started(&mut row, head);
    summary(&mut row, head);
    to_text(&row.into())
}

/// Which run a line is of.
fn identify(row: &mut Object, run: &Run<'_>) {
    row.set("archive", run.archive.to_string());
    row.set("bundle_id", run.manifest.run_root.to_string());
    row.set("run_id", run.manifest.run_id.as_str());
}

fn started(row: &mut Object, head: &Head) {
    for (column, attribute) in [
        ("arch", "assayarch"),
        ("kernel", "assaykernel"),
        ("mode", "assaymode"),
        ("observer", "assayobserver"),
        ("policy_digest", "assaypolicydigest"),
    ] {
        row.set_some(column, head.started().and_then(|object| object.str(attribute)));
    }
}

fn summary(row: &mut Object, head: &Head) {
    let object = head.summary();
    for (column, attribute) in [
        ("coverage_exec", "assaycoverageexec"),
        ("coverage_fs", "assaycoveragefs"),
        ("coverage_net", "assaycoveragenet"),
        ("descendants", "assaydescendants"),
        ("started_at", "assaystartedat"),
        ("verdict", "assayverdict"),
    ] {
        row.set_some(column, object.and_then(|object| object.str(attribute)));
    }
    for (column, attribute) in [("duration_ms", "assaydurationms"), ("lost", "assaylost")] {
        let count = object.and_then(|object| object.get(attribute)).and_then(Value::as_count);
        row.set_some(column, count.map(number));
    }
    let unread = |text: &str| Object::from([("detail", text.into()), ("reason", "not-read".into())]).into();
    row.set("gaps", list(object, "assaygaps", unread));
    row.set("not_governed", list(object, "assaynotgoverned", |text| text.into()));
    match head.outcome() {
        Some(Outcome::ExitCode(code)) => row.set("exit_code", number(code.into())),
        Some(Outcome::Signal(name)) => row.set("signal", name.as_str()),
        Some(Outcome::Timeout) | None => {}
    }
    row.set_some("timed_out", head.outcome().map(|outcome| outcome == Outcome::Timeout));
}

/// The line of an event, without its LF.
pub fn event(run: &Run<'_>, event: &Event) -> String {
    let facts = Facts::new(event);
    let mut row = Object::new();
    identify(&mut row, run);
    row.set("seq", number(event.sequence));
    row.set_some("subject", event.subject());
    row.set_some("time", event.object.str("time"));
    row.set("type", event.kind());
    row.set_some("op", facts.op());
    row.set_some("result", facts.result);
    row.set_some("authorised", facts.is_authorised);
    row.set_some("denied_by", facts.view.denied_by());
    row.set_some("hits", facts.hits.map(number));
    row.set("kind", facts.kind());
    match facts.view.content {
        Content::Fs { path, to, .. } => {
            row.set("path", path);
            row.set_some("to", to);
        }
        Content::Exec { path } => {
            row.set("path", path);
            row.set_some("digest", facts.digest());
            row.set_some("digest_error", event.object.str("assaydigesterror"));
        }
        Content::Net { proto, host, address, port, .. } => {
            row.set_some("proto", Some(proto).filter(|proto| !proto.is_empty()));
            row.set_some("host", host);
            row.set_some("host_from", event.data().and_then(|data| data.str("host_from")));
            row.set_some("address", address);
            row.set_some("port", port.map(number));
            row.set_some("port_chosen", facts.has_chosen_port().then_some(true));
            row.set_some("addresses", Some(facts.addresses()).filter(|list| !list.is_empty()));
            row.set_some("peers", facts.peers());
            row.set_some("asked", Some(facts.asked()).filter(|list| !list.is_empty()));
        }
        Content::Degraded { component, reason, detail } => {
            row.set("component", component);
            row.set("reason", reason);
            row.set_some("detail", detail);
        }
        Content::Started | Content::Summary | Content::Finished | Content::Unknown => {}
    }
    to_text(&row.into())
}
