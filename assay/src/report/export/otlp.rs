//! OTLP/JSON logs: on each line one record with its resource, as a collector's file receiver and OTLP over HTTP read it.
//!
//! Attributes have the names of OpenTelemetry's conventions where there are such, and `assay.…` otherwise. When an effect
//! happened, a bundle does not say: such records have no time, only that of their observation.

use super::{Facts, Head, Run, list, number, text};
use crate::canon::value::{Object, Value};
use crate::evidence::Outcome;
use crate::evidence::timestamp::Timestamp;
use crate::evidence::verify::Event;
use crate::evidence::view::Content;
use crate::report::json::to_text;

/// Numbers of the log data model.
#[derive(Debug, Clone, Copy)]
enum Severity {
    Info = 9,
    Warn = 13,
    Error = 17,
}

impl Severity {
    fn text(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }
}

/// Attributes in the order of their names, as `{key, value}` pairs with the type in the value.
#[derive(Debug, Default)]
struct Attributes(Object);

impl Attributes {
    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.0.set(key, any(value.into()));
    }

    fn set_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }

    fn list(self) -> Value {
        let pair =
            |(key, value): (String, Value)| Object::from([("key", key.into()), ("value", value)]).into();
        Value::Array(self.0.into_members().map(pair).collect())
    }
}

/// A value with its type, as `AnyValue` has it. Whole numbers of 64 bits are text in the JSON of protobuf.
fn any(value: Value) -> Value {
    let one = |kind: &str, value: Value| Object::from([(kind, value)]).into();
    match value {
        Value::Null => Object::new().into(),
        Value::Bool(_) => one("boolValue", value),
        Value::Integer(integer) => one("intValue", integer.value().to_string().into()),
        Value::String(_) => one("stringValue", value),
        Value::Array(elements) => {
            let values: Vec<Value> = elements.into_iter().map(any).collect();
            one("arrayValue", Object::from([("values", values.into())]).into())
        }
        Value::Object(object) => {
            let mut members = Attributes::default();
            for (key, value) in object.into_members() {
                members.set(&key, value);
            }
            one("kvlistValue", Object::from([("values", members.list())]).into())
        }
    }
}

/// The resource stands on every line: what is longer than this is left out of it, and named there. The record of the run
/// has it whole.
const MOST_BYTES: usize = 1024;

fn resource(run: &Run<'_>) -> Value {
    let mut attributes = Attributes::default();
    let mut left_out = Vec::new();
    let (started, summary) = (run.head.started(), run.head.summary());
    let of =
        |object: Option<&Object>, key: &str| object.and_then(|object| object.str(key)).map(str::to_owned);
    let archive = run.archive.to_string();
    for (key, value) in [
        ("assay.archive", Some(archive)),
        ("assay.bundle_id", Some(run.manifest.run_root.to_string())),
        ("assay.mode", of(started, "assaymode")),
        ("assay.run_id", Some(run.manifest.run_id.clone())),
        ("assay.verdict", of(summary, "assayverdict")),
        ("host.arch", of(started, "assayarch").map(architecture)),
        ("host.name", run.host.map(str::to_owned)),
        ("os.type", Some("linux".to_owned())),
        ("os.version", of(started, "assaykernel")),
        ("service.name", Some(run.manifest.producer.clone())),
        ("service.version", Some(run.manifest.producer_version.clone())),
    ] {
        match value {
            Some(value) if value.len() > MOST_BYTES => left_out.push(Value::from(key)),
            value => attributes.set_some(key, value),
        }
    }
    match run.head.command() {
        Some(words) if words.iter().map(|word| word.len() + 1).sum::<usize>() <= MOST_BYTES => {
            attributes.set("process.command_args", words_of(&words));
        }
        Some(_) => left_out.push("process.command_args".into()),
        None => {}
    }
    attributes.set_some("assay.left_out", Some(left_out).filter(|names| !names.is_empty()));
    Object::from([("attributes", attributes.list())]).into()
}

fn words_of(words: &[&str]) -> Vec<Value> {
    words.iter().map(|word| Value::from(*word)).collect()
}

/// The names of architectures that the conventions have.
fn architecture(name: String) -> String {
    match name.as_str() {
        "x86_64" => "amd64".to_owned(),
        "aarch64" => "arm64".to_owned(),
        _ => name,
    }
}

/// A line: a record and its resource.
fn line(
    run: &Run<'_>,
    event: Option<&Event>,
    begun: Option<&str>,
    severity: Severity,
    body: &str,
    attributes: Attributes,
) -> String {
    let mut record = Object::from([
        ("attributes", attributes.list()),
        ("body", any(body.into())),
        ("severityNumber", Value::count(severity as u64)),
        ("severityText", severity.text().into()),
    ]);
    record.set_some("eventName", event.map(Event::kind));
    record.set_some("timeUnixNano", begun.and_then(nanoseconds));
    record.set_some("observedTimeUnixNano", event.and_then(|event| nanoseconds(event.object.str("time")?)));
    let scope = Object::from([
        ("name", run.manifest.producer.as_str().into()),
        ("version", run.manifest.producer_version.as_str().into()),
    ]);
    let records = Object::from([("logRecords", vec![record.into()].into()), ("scope", scope.into())]);
    let logs = Object::from([("resource", resource(run)), ("scopeLogs", vec![Value::from(records)].into())]);
    to_text(&Object::from([("resourceLogs", vec![Value::from(logs)].into())]).into())
}

/// Nanoseconds since 1970, as text: JSON's numbers do not hold them.
fn nanoseconds(time: &str) -> Option<Value> {
    let seconds = u64::try_from(Timestamp::parse(time)?.seconds()).ok()?;
    // Beyond the year 2554, 64 bits do not hold them either.
    seconds.checked_mul(1_000_000_000).map(|nanoseconds| nanoseconds.to_string().into())
}

/// The line of the run, without its LF.
pub fn run(run: &Run<'_>) -> String {
    let head = run.head;
    let (started, summary) = (head.started(), head.summary());
    let mut attributes = Attributes::default();
    attributes.set("assay.kind", "run");
    attributes.set_some("process.command_args", head.command().map(|words| words_of(&words)));
    let data = head.started.as_ref().and_then(Event::data);
    attributes.set_some("assay.canonicalizer", data.and_then(|data| data.str("canonicalizer")));
    for (key, attribute) in
        [("assay.observer", "assayobserver"), ("assay.policy_digest", "assaypolicydigest")]
    {
        attributes.set_some(key, started.and_then(|object| object.str(attribute)));
    }
    for (key, attribute) in [
        ("assay.coverage.exec", "assaycoverageexec"),
        ("assay.coverage.fs", "assaycoveragefs"),
        ("assay.coverage.net", "assaycoveragenet"),
        ("assay.descendants", "assaydescendants"),
        ("assay.verdict", "assayverdict"),
    ] {
        attributes.set_some(key, summary.and_then(|object| object.str(attribute)));
    }
    for (key, attribute) in [("assay.duration_ms", "assaydurationms"), ("assay.lost", "assaylost")] {
        let count = summary.and_then(|object| object.get(attribute)).and_then(Value::as_count);
        attributes.set_some(key, count.map(number));
    }
    let unread = |text: &str| Object::from([("detail", text.into()), ("reason", "not-read".into())]).into();
    attributes.set("assay.gaps", list(summary, "assaygaps", unread));
    attributes.set("assay.not_governed", list(summary, "assaynotgoverned", |text| text.into()));
    match head.outcome() {
        Some(Outcome::ExitCode(code)) => attributes.set("process.exit.code", number(code.into())),
        Some(Outcome::Signal(name)) => attributes.set("assay.signal", name.as_str()),
        Some(Outcome::Timeout) => attributes.set("assay.timed_out", true),
        None => {}
    }
    let event = head.started.as_ref().or(head.summary.as_ref());
    let begun = summary.and_then(|object| object.str("assaystartedat"));
    line(run, event, begun, severity_of(head), &text::run(head), attributes)
}

/// A record that lost something cannot be relied on; a verdict other than `ok` is to be looked at.
fn severity_of(head: &Head) -> Severity {
    let Some(summary) = head.summary() else { return Severity::Error };
    match (summary.get("assaylost").and_then(Value::as_count), summary.str("assayverdict")) {
        (Some(0), Some("ok")) => Severity::Info,
        (Some(0), _) => Severity::Warn,
        _ => Severity::Error,
    }
}

/// The line of an event, without its LF.
pub fn event(run: &Run<'_>, event: &Event) -> String {
    let facts = Facts::new(event);
    let mut attributes = Attributes::default();
    attributes.set("assay.seq", number(event.sequence));
    attributes.set_some("assay.subject", event.subject());
    attributes.set_some("assay.op", facts.op());
    attributes.set_some("assay.result", facts.result);
    attributes.set_some("assay.authorised", facts.is_authorised);
    attributes.set_some("assay.denied_by", facts.view.denied_by());
    attributes.set_some("assay.hits", facts.hits.map(number));
    let kind = facts.kind();
    attributes.set("assay.kind", kind);
    match facts.view.content {
        Content::Fs { path, to, .. } => {
            attributes.set("file.path", path);
            attributes.set_some("assay.to", to);
        }
        Content::Exec { path } => {
            attributes.set("process.executable.path", path);
            attributes.set_some("assay.digest", facts.digest());
            attributes.set_some("assay.digest_error", event.object.str("assaydigesterror"));
        }
        Content::Net { .. } => network(&mut attributes, &facts),
        Content::Degraded { component, reason, detail } => {
            attributes.set("assay.component", component);
            attributes.set("assay.reason", reason);
            attributes.set_some("assay.detail", detail);
        }
        Content::Started | Content::Summary | Content::Finished | Content::Unknown => {}
    }
    let is_warned = facts.is_warned() || !matches!(kind, "fs" | "exec" | "net");
    let severity = if is_warned { Severity::Warn } else { Severity::Info };
    line(run, Some(event), None, severity, &text::event(&facts), attributes)
}

fn network(attributes: &mut Attributes, facts: &Facts<'_>) {
    let Content::Net { op, proto, host, address, port } = facts.view.content else { return };
    let transport = match proto {
        "tcp" | "udp" | "unix" => Some(proto),
        _ => None,
    };
    attributes.set_some("network.transport", transport);
    attributes.set_some("assay.proto", Some(proto).filter(|proto| !proto.is_empty()));
    attributes.set_some("network.type", address.and_then(family));
    let port = port.map(number);
    if matches!(op, "bind" | "listen") {
        attributes.set_some("network.local.address", address);
        attributes.set_some("network.local.port", port);
    } else {
        // Beside an address, a host is only what a client asked for.
        attributes.set_some("server.address", address.or(host));
        attributes.set_some("server.port", port.clone());
        attributes.set_some("network.peer.address", address);
        attributes.set_some("network.peer.port", port.filter(|_| address.is_some()));
    }
    attributes.set_some("assay.host", host);
    let data = facts.view.event.data();
    attributes.set_some("assay.host_from", data.and_then(|data| data.str("host_from")));
    attributes.set_some("assay.port_chosen", facts.has_chosen_port().then_some(true));
    attributes.set_some("assay.addresses", Some(facts.addresses()).filter(|list| !list.is_empty()));
    attributes.set_some("assay.peers", facts.peers());
    attributes.set_some("assay.asked", Some(facts.asked()).filter(|list| !list.is_empty()));
}

fn family(address: &str) -> Option<&'static str> {
    Some(if address.parse::<std::net::IpAddr>().ok()?.is_ipv4() { "ipv4" } else { "ipv6" })
}
