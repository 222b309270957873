//! What each rule looks at. Pure: an event or what went by → what was found.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::places::{
    CREDENTIALS, GIT_CONFIG, MAY_HOLD_SECRETS, METADATA, NO_CREDENTIALS, PROTECTED, ROOT_SOCKETS, SET_ID,
    TEMPORARY, WRITABLE,
};
use super::seen::Seen;
use super::{Found, Level};
use crate::canon::read;
use crate::canon::value::Value;
use crate::evidence::events::kind;
use crate::evidence::verify::Verified;
use crate::evidence::view::{self, Content, View};
use crate::profile::redact;

fn found(subject: impl Into<String>, message: impl Into<String>) -> Found {
    Found { subject: subject.into(), message: message.into(), level: None, sequence: None }
}

/// A finding about an act: one level milder than its rule when the act was refused.
fn act(view: &View<'_>, level: Level, subject: &str, verb: &str) -> Found {
    let is_denied = view.is_denied();
    let message = if is_denied { format!("tried to {verb} it, and was denied") } else { verb.to_owned() };
    let level = (is_denied && level == Level::Error).then_some(Level::Warn);
    Found { subject: subject.into(), message, level, sequence: None }
}

fn whole(message: impl Into<String>) -> Vec<Found> {
    vec![Found { subject: String::new(), message: message.into(), level: None, sequence: None }]
}

fn is_held_kind(component: &str) -> bool {
    matches!(component, "fs" | "exec" | "net" | "observer")
}

pub(super) fn containment_absent(_: &Seen, view: &View<'_>) -> Option<Found> {
    match view.content {
        Content::Degraded { component, reason, detail: None } if is_held_kind(component) => {
            Some(found(component, reason))
        }
        _ => None,
    }
}

pub(super) fn containment_degraded(_: &Seen, view: &View<'_>) -> Option<Found> {
    match view.content {
        Content::Degraded { component, reason, detail } if detail.is_some() || !is_held_kind(component) => {
            Some(found(detail.unwrap_or(component), format!("{component}: {reason}")))
        }
        _ => None,
    }
}

pub(super) fn not_contained(_: &Seen, view: &View<'_>) -> Option<Found> {
    let mode = view.event.object.str("assaymode");
    (view.content == Content::Started && mode == Some("dry-run")).then(|| found("", "dry run"))
}

const COVERAGES: [(&str, &str); 3] =
    [("fs", "assaycoveragefs"), ("exec", "assaycoverageexec"), ("net", "assaycoveragenet")];

/// The word a summary has for the coverage of a kind.
fn coverage<'a>(seen: &'a Seen, attribute: &str) -> Option<&'a str> {
    seen.summary.as_ref()?.str(attribute)
}

fn coverage_findings(seen: &Seen, word: &str) -> Vec<Found> {
    let kinds = COVERAGES.into_iter().filter(|(_, attribute)| coverage(seen, attribute) == Some(word));
    kinds
        .map(|(kind, _)| {
            let reasons = gaps(seen, kind);
            let message =
                if reasons.is_empty() { "no reason is given".to_owned() } else { reasons.join("; ") };
            Found { subject: kind.into(), message, level: None, sequence: None }
        })
        .collect()
}

/// The reasons that the summary gives for a kind.
fn gaps(seen: &Seen, kind: &str) -> Vec<String> {
    let text = seen.summary.as_ref().and_then(|summary| summary.str("assaygaps")).unwrap_or("[]");
    let Ok(Value::Array(list)) = read::parse(text.as_bytes()) else { return Vec::new() };
    list.iter()
        .filter_map(Value::as_object)
        .filter(|gap| gap.str("kind") == Some(kind))
        .filter_map(|gap| {
            let reason = gap.str("reason")?;
            Some(gap.str("detail").map_or_else(|| reason.to_owned(), |detail| format!("{reason} ({detail})")))
        })
        .take(20)
        .collect()
}

pub(super) fn coverage_none(seen: &Seen, _: &Verified) -> Vec<Found> {
    coverage_findings(seen, "none")
}

pub(super) fn coverage_partial(seen: &Seen, _: &Verified) -> Vec<Found> {
    coverage_findings(seen, "partial")
}

pub(super) fn coverage_unstated(seen: &Seen, _: &Verified) -> Vec<Found> {
    let known = |attribute: &str| matches!(coverage(seen, attribute), Some("complete" | "partial" | "none"));
    let unstated: Vec<_> =
        COVERAGES.into_iter().filter(|(_, key)| !known(key)).map(|(kind, _)| kind).collect();
    if unstated.is_empty() { Vec::new() } else { whole(format!("not said for {}", unstated.join(", "))) }
}

pub(super) fn events_lost(seen: &Seen, _: &Verified) -> Vec<Found> {
    match seen.summary.as_ref().and_then(|summary| summary.get("assaylost")).and_then(Value::as_count) {
        None | Some(0) => Vec::new(),
        Some(lost) => whole(format!("{lost} lost")),
    }
}

pub(super) fn record_incomplete(seen: &Seen, _: &Verified) -> Vec<Found> {
    let mut lacks = Vec::new();
    if seen.first.as_deref() != Some(kind::STARTED) {
        lacks.push(format!("it does not begin with {}", kind::STARTED));
    }
    if seen.count(kind::SUMMARY) == 0 {
        lacks.push(format!("{} is missing", kind::SUMMARY));
    }
    if seen.last.as_deref() != Some(kind::FINISHED) {
        lacks.push(format!("it does not end with {}", kind::FINISHED));
    }
    lacks.into_iter().flat_map(whole).collect()
}

pub(super) fn counts_differ(seen: &Seen, _: &Verified) -> Vec<Found> {
    seen.count_problems().into_iter().flat_map(whole).collect()
}

pub(super) fn run_id_differs(seen: &Seen, _: &Verified) -> Vec<Found> {
    match seen.computed_run_id() {
        Some(computed) if computed != seen.run_id => whole(format!("the events give {computed}")),
        _ => Vec::new(),
    }
}

fn changes(view: &View<'_>, is_meant: impl Fn(&str) -> bool, level: Level) -> Option<Found> {
    let Content::Fs { op, path, to } = view.content else { return None };
    if !matches!(op, "write" | "create" | "delete" | "rename" | "link" | "symlink" | "attr" | "mount") {
        return None;
    }
    // The text of a symbolic link is no name that was changed, and neither is the old name of a hard link.
    let old = (op != "link").then_some(path);
    let new = to.filter(|_| op != "symlink");
    let name = [old, new].into_iter().flatten().find(|name| is_meant(name))?;
    Some(act(view, level, name, op))
}

pub(super) fn protected_config_written(_: &Seen, view: &View<'_>) -> Option<Found> {
    // What `git init` and `git clone` lay there and nothing runs.
    let is_meant = |name: &str| !name.ends_with(".sample") && PROTECTED.has(name);
    changes(view, is_meant, Level::Error)
}

pub(super) fn git_config_written(_: &Seen, view: &View<'_>) -> Option<Found> {
    changes(view, |name| GIT_CONFIG.has(name), Level::Warn)
}

fn reads(view: &View<'_>, is_meant: impl Fn(&str) -> bool, level: Level) -> Option<Found> {
    // A hard link or another name makes it readable elsewhere.
    match view.content {
        Content::Fs { op: op @ ("read" | "link" | "rename"), path, .. } if is_meant(path) => {
            Some(act(view, level, path, op))
        }
        _ => None,
    }
}

fn is_credential(name: &str) -> bool {
    CREDENTIALS.has(name) && !NO_CREDENTIALS.has(name)
}

pub(super) fn credential_read(_: &Seen, view: &View<'_>) -> Option<Found> {
    reads(view, is_credential, Level::Error)
}

pub(super) fn secret_file_read(_: &Seen, view: &View<'_>) -> Option<Found> {
    reads(view, |name| MAY_HOLD_SECRETS.has(name) && !is_credential(name), Level::Warn)
}

fn program<'a>(view: &View<'a>) -> Option<&'a str> {
    match view.content {
        Content::Exec { path } => Some(path),
        _ => None,
    }
}

fn is_from_memory(path: &str) -> bool {
    path.starts_with("memfd:")
        || path.starts_with("/memfd:")
        || path.starts_with("deleted:")
        || path.starts_with("/proc/self/fd/")
        || !(path.starts_with('/') || path.starts_with("${"))
}

pub(super) fn exec_from_memory(_: &Seen, view: &View<'_>) -> Option<Found> {
    let path = program(view)?;
    is_from_memory(path).then(|| act(view, Level::Error, path, "run"))
}

pub(super) fn exec_of_written(seen: &Seen, view: &View<'_>) -> Option<Found> {
    let path = program(view)?;
    seen.was_written(path).then(|| act(view, Level::Warn, path, "run"))
}

pub(super) fn exec_from_temp(_: &Seen, view: &View<'_>) -> Option<Found> {
    let path = program(view)?;
    (!is_from_memory(path) && TEMPORARY.has(path)).then(|| act(view, Level::Warn, path, "run"))
}

pub(super) fn exec_from_workdir(_: &Seen, view: &View<'_>) -> Option<Found> {
    let path = program(view)?;
    WRITABLE.has(path).then(|| act(view, Level::Info, path, "run"))
}

pub(super) fn set_id_program(_: &Seen, view: &View<'_>) -> Option<Found> {
    let path = program(view)?;
    let is_system = ["/bin/", "/sbin/", "/usr/", "/lib/", "/run/wrappers/", "/opt/"]
        .iter()
        .any(|prefix| path.starts_with(prefix));
    let name = path.rsplit('/').next().unwrap_or_default();
    (is_system && SET_ID.contains(&name)).then(|| act(view, Level::Warn, path, "run"))
}

pub(super) fn root_socket(_: &Seen, view: &View<'_>) -> Option<Found> {
    match view.content {
        Content::Net {
            op: op @ ("connect" | "send"), proto: "unix" | "", address: Some(address), ..
        } if ROOT_SOCKETS.has(address) => {
            let mut found = act(view, Level::Error, address, op);
            let peers: Vec<String> = view.peers().iter().map(ToString::to_string).collect();
            if !peers.is_empty() {
                let _ = write!(found.message, ", answered by {}", peers.join(" and by "));
            }
            Some(found)
        }
        _ => None,
    }
}

pub(super) fn cloud_metadata(_: &Seen, view: &View<'_>) -> Option<Found> {
    let Content::Net { op: op @ ("connect" | "send"), host, address, .. } = view.content else { return None };
    if let Some(name) = [host, address].into_iter().flatten().find(|name| METADATA.contains(name)) {
        return Some(act(view, Level::Error, name, op));
    }
    // Whatever it is called.
    let stands_for = view.addresses().into_iter().map(|address| address.to_string());
    let name = stands_for.into_iter().find(|address| METADATA.contains(&address.as_str()))?;
    Some(act(view, Level::Error, &name, op))
}

pub(super) fn other_name_asked(_: &Seen, view: &View<'_>) -> Option<Found> {
    let Content::Net { op: op @ ("connect" | "send"), host: Some(host), .. } = view.content else {
        return None;
    };
    let asked = view.asked().find(|name| !host.split(',').any(|one| one == *name))?;
    Some(act(view, Level::Warn, &format!("{host} (asked for {asked})"), op))
}

pub(super) fn egress_plain_address(_: &Seen, view: &View<'_>) -> Option<Found> {
    // A name beside the address is only claimed.
    let Content::Net { op: op @ ("connect" | "send"), address: Some(address), port, .. } = view.content
    else {
        return None;
    };
    // A name server has no name before it was asked.
    if port == Some(53) || METADATA.contains(&address) {
        return None;
    }
    let ip: IpAddr = address.parse().ok()?;
    let is_near = match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unspecified(),
    };
    if is_near {
        return None;
    }
    let mut found = act(view, Level::Warn, view.event.subject().unwrap_or(address), op);
    let is_private = match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    };
    if is_private {
        found.level = Some(Level::Info);
    }
    Some(found)
}

/// As many as a person would still look through one by one.
const MANY: u64 = 100;

pub(super) fn many_deletions(seen: &Seen, _: &Verified) -> Vec<Found> {
    let total: u64 = seen.deleted.values().sum();
    let Some((worst, most)) = seen.deleted.iter().max_by_key(|(_, count)| **count) else { return Vec::new() };
    if total < MANY {
        return Vec::new();
    }
    let message = format!("{total} deleted in {} directories, {most} of them here", seen.deleted.len());
    vec![Found { subject: format!("{worst}/"), message, level: None, sequence: None }]
}

pub(super) fn unauthorised(_: &Seen, view: &View<'_>) -> Option<Found> {
    let is_unauthorised = view.event.object.get("assayauthorised") == Some(&Value::Bool(false));
    if !is_unauthorised || view.is_denied() {
        return None;
    }
    let verb = match view.content {
        Content::Fs { op, .. } | Content::Net { op, .. } => op,
        _ => "run",
    };
    Some(found(view.event.subject().unwrap_or_default(), verb))
}

pub(super) fn denied(_: &Seen, view: &View<'_>) -> Option<Found> {
    let verb = match view.content {
        _ if !view.is_denied() => return None,
        Content::Fs { op, .. } | Content::Net { op, .. } => op,
        Content::Exec { .. } => "run",
        _ => return None,
    };
    let by = view.denied_by().map(|by| format!(" (by {by})")).unwrap_or_default();
    Some(found(view.event.subject().unwrap_or_default(), format!("{verb}{by}")))
}

pub(super) fn secret_in_text(_: &Seen, view: &View<'_>) -> Option<Found> {
    let rule = view.event.object.iter().find_map(|(key, value)| {
        // Digests and ids are as long as keys, and have no shape of one.
        (!matches!(key, "assaycontenthash" | "assayrunid" | "id" | "time")).then(|| shape_in(value))?
    })?;
    // The subject may hold it, and a finding travels as well.
    Some(found("", format!("{rule} in event {}", view.event.sequence)))
}

fn shape_in(value: &Value) -> Option<&'static str> {
    match value {
        Value::String(text) => redact::find_key_shapes(text.as_bytes()).first().map(|secret| secret.rule),
        Value::Array(elements) => elements.iter().find_map(shape_in),
        Value::Object(object) => object.iter().find_map(|(_, member)| shape_in(member)),
        Value::Null | Value::Bool(_) | Value::Integer(_) => None,
    }
}

/// How much of a command is looked through: what stands behind it was put there by somebody, not left by mistake, and
/// finding secrets takes more than the length of a text.
const MOST_COMMAND_BYTES: usize = 16 << 10;

pub(super) fn argv_unredacted(seen: &Seen, view: &View<'_>) -> Option<Found> {
    if view.content != Content::Started || seen.count(kind::STARTED) > 0 {
        return None;
    }
    let mut left = MOST_COMMAND_BYTES;
    let words: Vec<Vec<u8>> = view::command(view.event)?
        .into_iter()
        .map_while(|word| {
            left = left.checked_sub(word.len() + 1)?;
            Some(word.as_bytes().to_vec())
        })
        .collect();
    let secrets = redact::find_in_argv(&words);
    let at = words.iter().zip(&secrets).position(|(word, secrets)| {
        secrets.iter().any(|secret| {
            let text = word.get(secret.range.clone()).unwrap_or_default();
            !(text.is_empty() || text.starts_with(b"${REDACTED"))
        })
    })?;
    Some(found("", format!("argument {at}")))
}

pub(super) fn marked_sensitive(_: &Seen, view: &View<'_>) -> Option<Found> {
    let is_marked = |key: &str| view.event.object.get(key) == Some(&Value::Bool(true));
    let marks: Vec<_> = ["assaysecrets", "assaypii"].into_iter().filter(|key| is_marked(key)).collect();
    (!marks.is_empty()).then(|| found(view.event.subject().unwrap_or_default(), marks.join(", ")))
}

pub(super) fn clock_odd(seen: &Seen, view: &View<'_>) -> Option<Found> {
    let now = view.event.object.str("time").and_then(crate::evidence::timestamp::Timestamp::parse)?;
    if seen.time.is_some_and(|before| now < before) {
        return Some(found("", "earlier than the event before"));
    }
    let first = seen.first_time?;
    (now.seconds() - first.seconds() > 86_400).then(|| found("", "more than a day after the first event"))
}

pub(super) fn order_odd(seen: &Seen, view: &View<'_>) -> Option<Found> {
    let subject = view.event.subject().unwrap_or_default();
    let kind = view.event.kind();
    let is_single = matches!(kind, kind::STARTED | kind::SUMMARY | kind::FINISHED);
    if is_single && seen.count(kind) > 0 {
        return Some(found(subject, format!("{kind} for the second time")));
    }
    if seen.last.as_deref() == Some(kind::FINISHED) {
        return Some(found(subject, format!("it follows {}", kind::FINISHED)));
    }
    let place = |kind: &str| kind::ALL.iter().position(|known| *known == kind);
    let before = seen.last.as_deref().and_then(place);
    if let (Some(before), Some(here)) = (before, place(kind))
        && here < before
    {
        return Some(found(subject, format!("{kind} after {}", kind::ALL[before])));
    }
    let (Some(before), Ok(Some(effect))) = (&seen.effect, view.strict_effect()) else {
        return None;
    };
    match before.cmp(effect) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(found(subject, "the same effect again")),
        std::cmp::Ordering::Greater => Some(found(subject, "it should come before the effect before it")),
    }
}

pub(super) fn unknown_event_type(_: &Seen, view: &View<'_>) -> Option<Found> {
    (view.content == Content::Unknown).then(|| found(view.event.kind(), "unknown"))
}

pub(super) fn malformed_data(_: &Seen, view: &View<'_>) -> Option<Found> {
    if view.is_well_formed() {
        return None;
    }
    let problem = match (view.content, view.strict_effect()) {
        (_, Err(error)) => error.problem.clone(),
        (Content::Degraded { .. }, _) => {
            view::strict_degradation(view.event).err().map(|error| error.problem).unwrap_or_default()
        }
        _ => "something is absent, or has another form".to_owned(),
    };
    Some(found(view.event.subject().unwrap_or_default(), format!("{}: {problem}", view.event.kind())))
}

pub(super) fn unknown_manifest_key(_: &Seen, verified: &Verified) -> Vec<Found> {
    let keys = verified.manifest.unknown_keys.iter().take(super::MOST_PER_RULE);
    keys.map(|key| Found { subject: key.clone(), message: "unknown".into(), level: None, sequence: None })
        .collect()
}

pub(super) fn packed_again(_: &Seen, verified: &Verified) -> Vec<Found> {
    if verified.archive.is_restamped {
        whole("tar headers hold more than the format asks")
    } else {
        Vec::new()
    }
}
