//! OCSF 1.5.0 events, one a line: File System Activity, Process Activity, Network Activity, Detection Finding.
//!
//! What the classes have no attribute for stands under `unmapped`. When an effect happened, a bundle does not say: `time` is
//! when the bundle was written, and `start_time`, `end_time` and `count` say of what span and of how many acts it tells.

use super::{Facts, Head, Run, list, number, text};
use crate::canon::value::{Object, Value};
use crate::evidence::Outcome;
use crate::evidence::timestamp::Timestamp;
use crate::evidence::verify::Event;
use crate::evidence::view::Content;
use crate::report::json::to_text;

/// The version of the schema.
pub const VERSION: &str = "1.5.0";

/// What is longer than this is not repeated on every line; the line of the run has it whole.
const MOST_BYTES: usize = 1024;

/// A class and what was done, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Activity {
    category: u64,
    class: u64,
    id: u64,
}

impl Activity {
    const LAUNCH: Self = Self { category: 1, class: 1007, id: 1 };
    const TERMINATE: Self = Self { category: 1, class: 1007, id: 2 };
    const FOUND: Self = Self { category: 2, class: 2004, id: 1 };
    /// What has no number of its own, and is told by its name.
    const OTHER: u64 = 99;

    fn file(op: &str) -> Self {
        let id = match op {
            "create" | "link" | "symlink" => 1,
            "read" | "list" => 2,
            "write" => 3,
            "delete" => 4,
            "rename" => 5,
            "attr" => 6,
            // Mounting, unmounting and moving mounts are one operation here.
            _ => Self::OTHER,
        };
        Self { category: 1, class: 1001, id }
    }

    fn network(op: &str) -> Self {
        let id = match op {
            "connect" => 1,
            "send" => 6,
            "listen" => 7,
            _ => Self::OTHER,
        };
        Self { category: 4, class: 4001, id }
    }
}

/// How much a line matters, by the schema's numbers.
#[derive(Debug, Clone, Copy)]
enum Severity {
    Informational = 1,
    Low = 2,
    Medium = 3,
    High = 4,
}

/// What all classes have.
fn base(
    run: &Run<'_>,
    event: Option<&Event>,
    activity: Activity,
    severity: Severity,
    message: String,
) -> Object {
    let manifest = run.manifest;
    let product = Object::from([
        ("name", manifest.producer.as_str().into()),
        ("version", manifest.producer_version.as_str().into()),
    ]);
    let uid = event.and_then(|event| event.object.str("id")).unwrap_or(&manifest.run_id);
    let metadata = Object::from([
        ("correlation_uid", run.archive.to_string().into()),
        ("product", product.into()),
        ("profiles", vec![Value::from("host"), Value::from("security_control")].into()),
        ("uid", uid.into()),
        ("version", VERSION.into()),
    ]);
    let mut object = Object::from([
        ("activity_id", number(activity.id)),
        ("category_uid", number(activity.category)),
        ("class_uid", number(activity.class)),
        ("device", device(run).into()),
        ("message", message.into()),
        ("metadata", metadata.into()),
        ("severity_id", number(severity as u64)),
        ("type_uid", number(activity.class * 100 + activity.id)),
    ]);
    let started = run.head.summary().and_then(|summary| milliseconds(summary.str("assaystartedat")?));
    let written = event.and_then(|event| milliseconds(event.object.str("time")?));
    // Without any event there is no time, and the schema demands one.
    object.set("time", number(written.or(started).unwrap_or_default()));
    if let Some(started) = started {
        let duration = run.head.summary().and_then(|summary| summary.get("assaydurationms")?.as_count());
        object.set("start_time", number(started));
        object.set_some("end_time", duration.map(|duration| number(started.saturating_add(duration))));
    }
    object
}

/// Milliseconds since 1970.
fn milliseconds(time: &str) -> Option<u64> {
    Some(u64::try_from(Timestamp::parse(time)?.seconds()).ok()? * 1000)
}

fn device(run: &Run<'_>) -> Object {
    let name = run.host.unwrap_or("unknown");
    let kernel = run.head.started().and_then(|started| started.str("assaykernel"));
    let mut os = Object::from([("name", "Linux".into()), ("type_id", number(200))]);
    os.set_some("kernel_release", kernel.filter(|kernel| kernel.len() <= MOST_BYTES));
    let mut device = Object::from([("name", name.into()), ("os", os.into()), ("type_id", number(0))]);
    device.set_some("hostname", Some(name).filter(|name| is_hostname(name)));
    device
}

fn is_hostname(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    !name.is_empty() && name.len() <= 253 && name.bytes().all(is_plain)
}

/// Who acted: a bundle says it of the run as a whole.
fn actor(run: &Run<'_>) -> Object {
    let mut process = Object::from([("uid", run.manifest.run_id.as_str().into())]);
    let words = run.head.command().unwrap_or_default();
    let program = words.first().map(|word| last_name(word)).filter(|name| name.len() <= MOST_BYTES);
    process.set_some("name", program);
    let line = words.join(" ");
    process.set_some("cmd_line", Some(line).filter(|line| !line.is_empty() && line.len() <= MOST_BYTES));
    Object::from([("process", process.into())])
}

/// The last component of a path; of one that ends in a slash, the one before.
fn last_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

fn file(path: &str, kind: u64) -> Object {
    let kind = if path.ends_with('/') { FOLDER } else { kind };
    Object::from([("name", last_name(path).into()), ("path", path.into()), ("type_id", number(kind))])
}

const UNKNOWN: u64 = 0;
const REGULAR: u64 = 1;
const FOLDER: u64 = 2;
const LINK: u64 = 7;

/// The line of the run, without its LF: the end of its command.
pub fn run(run: &Run<'_>) -> String {
    let head = run.head;
    let event = head.summary.as_ref().or(head.started.as_ref());
    let mut object = base(run, event, Activity::TERMINATE, severity_of(head), text::run(head));
    object.set("actor", Object::from([("app_name", run.manifest.producer.as_str().into())]));
    let words = head.command().unwrap_or_default();
    let mut process = Object::from([("uid", run.manifest.run_id.as_str().into())]);
    process.set_some("name", words.first().map(|word| last_name(word)));
    process.set_some("cmd_line", Some(words.join(" ")).filter(|line| !line.is_empty()));
    object.set("process", process);

    let (started, summary) = (head.started(), head.summary());
    let mut unmapped = identity(run);
    for (key, attribute) in
        [("mode", "assaymode"), ("observer", "assayobserver"), ("policy_digest", "assaypolicydigest")]
    {
        unmapped.set_some(key, started.and_then(|object| object.str(attribute)));
    }
    for (key, attribute) in [
        ("coverage_exec", "assaycoverageexec"),
        ("coverage_fs", "assaycoveragefs"),
        ("coverage_net", "assaycoveragenet"),
        ("descendants", "assaydescendants"),
        ("verdict", "assayverdict"),
    ] {
        unmapped.set_some(key, summary.and_then(|object| object.str(attribute)));
    }
    let lost = summary.and_then(|object| object.get("assaylost")).and_then(Value::as_count);
    unmapped.set_some("lost", lost.map(number));
    let unread = |text: &str| Object::from([("detail", text.into()), ("reason", "not-read".into())]).into();
    unmapped.set("gaps", list(summary, "assaygaps", unread));
    unmapped.set("not_governed", list(summary, "assaynotgoverned", |text| text.into()));
    match head.outcome() {
        Some(Outcome::ExitCode(code)) => object.set("exit_code", number(code.into())),
        Some(Outcome::Signal(name)) => unmapped.set("signal", name.as_str()),
        Some(Outcome::Timeout) => unmapped.set("timed_out", true),
        None => {}
    }
    object.set("unmapped", unmapped);
    to_text(&object.into())
}

/// A record that lost something cannot be relied on; a verdict other than `ok` is to be looked at.
fn severity_of(head: &Head) -> Severity {
    let Some(summary) = head.summary() else { return Severity::High };
    match (summary.get("assaylost").and_then(Value::as_count), summary.str("assayverdict")) {
        (Some(0), Some("ok")) => Severity::Informational,
        (Some(0), _) => Severity::Medium,
        _ => Severity::High,
    }
}

/// Which run a line is of, beside what the schema has a place for.
fn identity(run: &Run<'_>) -> Object {
    Object::from([
        ("bundle_id", run.manifest.run_root.to_string().into()),
        ("run_id", run.manifest.run_id.as_str().into()),
    ])
}

/// The line of an event, without its LF.
pub fn event(run: &Run<'_>, event: &Event) -> String {
    let facts = Facts::new(event);
    let message = text::event(&facts);
    let severity = match (facts.view.is_denied(), facts.is_authorised) {
        (false, Some(false)) => Severity::Medium,
        (true, _) => Severity::Low,
        (false, Some(true) | None) => Severity::Informational,
    };
    let begin = |activity, message| base(run, Some(event), activity, severity, message);
    let mut object = match facts.view.content {
        Content::Fs { op, path, to } => fs(begin(Activity::file(op), message), op, path, to),
        Content::Exec { path } => exec(begin(Activity::LAUNCH, message), &facts, path),
        Content::Net { op, .. } => network(begin(Activity::network(op), message), &facts),
        Content::Degraded { .. }
        | Content::Started
        | Content::Summary
        | Content::Finished
        | Content::Unknown => return found(run, &facts, message),
    };
    object.set("actor", actor(run));
    if object.get("activity_id").and_then(Value::as_count) == Some(Activity::OTHER) {
        object.set_some("activity_name", facts.op());
    }
    let is_observed = run.head.started().and_then(|started| started.str("assaymode")) == Some("dry-run");
    let (action, disposition, status) = match (facts.result, is_observed) {
        (Some("denied"), _) => (2, 2, 2),
        (Some("ok"), true) => (3, 1, 1),
        (Some("ok"), false) => (1, 1, 1),
        (Some(_) | None, _) => (0, 0, 0),
    };
    object.set("action_id", number(action));
    object.set("disposition_id", number(disposition));
    object.set("status_id", number(status));
    let denied_by = facts.view.denied_by();
    object.set_some("status_detail", denied_by.map(|by| format!("denied by {by}")));
    // The schema's integers have 32 bits.
    object.set_some("count", facts.hits.map(|hits| number(hits.min(i32::MAX as u64))));
    to_text(&unmapped(object, run, &facts).into())
}

/// Adds what the classes have no attribute for.
fn unmapped(mut object: Object, run: &Run<'_>, facts: &Facts<'_>) -> Object {
    let mut unmapped = identity(run);
    unmapped.set_some("authorised", facts.is_authorised);
    let event = facts.view.event;
    match facts.view.content {
        Content::Fs { op, path, to } => {
            unmapped.set("op", op);
            match op {
                "symlink" => unmapped.set_some("target", to),
                "link" => unmapped.set("link_of", path),
                _ => {}
            }
        }
        Content::Exec { .. } => unmapped.set_some("digest_error", event.object.str("assaydigesterror")),
        Content::Net { host, .. } => {
            let data = event.data();
            unmapped.set_some("host", host);
            unmapped.set_some("host_from", data.and_then(|data| data.str("host_from")));
            unmapped.set_some("port_chosen", facts.has_chosen_port().then_some(true));
            unmapped.set_some("addresses", Some(facts.addresses()).filter(|list| !list.is_empty()));
            unmapped.set_some("peers", facts.peers());
            unmapped.set_some("asked", Some(facts.asked()).filter(|list| !list.is_empty()));
        }
        Content::Degraded { component, reason, detail } => {
            unmapped.set("component", component);
            unmapped.set("reason", reason);
            unmapped.set_some("detail", detail);
        }
        Content::Started | Content::Summary | Content::Finished | Content::Unknown => {
            unmapped.set("type", event.kind());
            unmapped.set_some("subject", event.subject());
        }
    }
    object.set("unmapped", unmapped);
    object
}

fn fs(mut object: Object, op: &str, path: &str, to: Option<&str>) -> Object {
    match (op, to) {
        // What was made is the second name.
        ("link", Some(to)) => object.set("file", file(to, UNKNOWN)),
        ("rename", Some(to)) => {
            object.set("file", file(path, UNKNOWN));
            object.set("file_result", file(to, UNKNOWN));
        }
        ("symlink", _) => object.set("file", file(path, LINK)),
        ("list", _) => object.set("file", file(path, FOLDER)),
        _ => object.set("file", file(path, UNKNOWN)),
    }
    object
}

fn exec(mut object: Object, facts: &Facts<'_>, path: &str) -> Object {
    let mut program = file(path, REGULAR);
    let hex = facts.digest().and_then(|digest| digest.strip_prefix("sha256:"));
    if let Some(hex) = hex.filter(|hex| !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        let hash = Object::from([
            ("algorithm", "SHA-256".into()),
            ("algorithm_id", number(3)),
            ("value", hex.into()),
        ]);
        program.set("hashes", vec![Value::from(hash)]);
    }
    let uid = facts.view.event.object.str("id").unwrap_or_default();
    let process =
        Object::from([("file", program.into()), ("name", last_name(path).into()), ("uid", uid.into())]);
    object.set("process", process);
    object
}

fn network(mut object: Object, facts: &Facts<'_>) -> Object {
    let Content::Net { op, proto, host, address, port } = facts.view.content else { return object };
    let is_outbound = matches!(op, "connect" | "send");
    let mut info = Object::from([("direction_id", number(if is_outbound { 2 } else { 0 }))]);
    info.set_some("protocol_name", Some(proto).filter(|proto| !proto.is_empty()));
    info.set_some(
        "protocol_num",
        match proto {
            "tcp" => Some(number(6)),
            "udp" => Some(number(17)),
            _ => None,
        },
    );
    object.set("connection_info", info);
    let mut endpoint = Object::new();
    let ip = address.and_then(|address| address.parse::<std::net::IpAddr>().ok());
    match (ip, address, host) {
        (Some(ip), ..) => endpoint.set("ip", ip.to_string()),
        (None, None, Some(host)) if is_hostname(host) => endpoint.set("hostname", host),
        (None, Some(name), _) | (None, None, Some(name)) => endpoint.set("name", name),
        (None, None, None) => endpoint.set("name", facts.view.event.subject().unwrap_or(proto)),
    }
    let port = port.and_then(|port| u16::try_from(port).ok());
    endpoint.set_some("port", port);
    object.set("dst_endpoint", endpoint);
    object
}

/// What was asked for and not held; and an event that nothing here can judge.
fn found(run: &Run<'_>, facts: &Facts<'_>, message: String) -> String {
    let event = facts.view.event;
    let title = match facts.view.content {
        Content::Degraded { .. } => "something that was asked of the sandbox was not held",
        _ => "an event of a type that is not known, or that should be there once",
    };
    let info = Object::from([
        ("desc", message.as_str().into()),
        ("title", title.into()),
        ("uid", event.object.str("id").unwrap_or_default().into()),
    ]);
    let mut object = base(run, Some(event), Activity::FOUND, Severity::Medium, message);
    object.set("finding_info", info);
    to_text(&unmapped(object, run, facts).into())
}
