//! The table of rules: id, level, title, why, what to do, check. Each has a good and a bad example in the tests. Pure.

use std::net::IpAddr;

use super::places::{
    CREDENTIALS, MAY_HOLD_SECRETS, METADATA, NO_CREDENTIALS, PROTECTED, ROOT_SOCKETS, SET_ID, TEMPORARY,
    WRITABLE, is_among,
};
use super::seen::Seen;
use super::{Found, Level};
use crate::canon::read;
use crate::canon::value::Value;
use crate::evidence::events::kind;
use crate::evidence::verify::Verified;
use crate::evidence::view::{self, Content, View};
use crate::profile::redact;

/// One rule.
pub struct Rule {
    /// Its stable name.
    pub id: &'static str,
    /// How bad it is unless the project or the case says otherwise.
    pub level: Level,
    /// What it says, in a few words.
    pub title: &'static str,
    /// Why a reviewer should care.
    pub why: &'static str,
    /// What to do about it.
    pub advice: &'static str,
    pub(super) check: Check,
}

/// How a rule looks.
#[derive(Clone, Copy)]
pub(super) enum Check {
    /// At each event.
    Event(fn(&Seen, &View<'_>) -> Option<Found>),
    /// At the end, at what went by.
    Whole(fn(&Seen, &Verified) -> Vec<Found>),
}

/// The rule of this name.
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}

/// Every rule, in the order they are told.
pub const RULES: &[Rule] = &[
    Rule {
        id: "containment-absent",
        level: Level::Error,
        title: "a whole kind of action was not held",
        why: "The sandbox was asked to hold files, programs or the network to a policy, and this host could not: what the run did not do, it chose not to do.",
        advice: "Run on a host where `assay doctor` says it can be held, or use `--fail-closed` so that such a run does not start.",
        check: Check::Event(containment_absent),
    },
    Rule {
        id: "containment-degraded",
        level: Level::Warn,
        title: "something that was asked of the sandbox was not held",
        why: "The rest of the policy was held, this part was only watched.",
        advice: "Look whether the run used it; change the policy so that it can be held, or the host.",
        check: Check::Event(containment_degraded),
    },
    Rule {
        id: "not-contained",
        level: Level::Info,
        title: "the run was observed and not contained",
        why: "In a dry run nothing is blocked: denials are missing because nothing was denied.",
        advice: "Run with `--enforce` once the policy fits.",
        check: Check::Event(not_contained),
    },
    Rule {
        id: "coverage-none",
        level: Level::Error,
        title: "a kind of action was not observed at all",
        why: "The record cannot say anything about it; that nothing is listed means nothing.",
        advice: "Run where the observer can load: `assay doctor` says what is missing.",
        check: Check::Whole(coverage_none),
    },
    Rule {
        id: "coverage-partial",
        level: Level::Warn,
        title: "a kind of action was observed in part",
        why: "Something may have happened that is not in the record; the reasons say what.",
        advice: "Read the reasons; run again without what caused them, or on another kernel.",
        check: Check::Whole(coverage_partial),
    },
    Rule {
        id: "coverage-unstated",
        level: Level::Warn,
        title: "the record does not say how much was observed",
        why: "Without coverage nobody can tell nothing happened from nothing was seen.",
        advice: "Treat it as partial. Bundles of `assay sandbox` always say it.",
        check: Check::Whole(coverage_unstated),
    },
    Rule {
        id: "events-lost",
        level: Level::Error,
        title: "events were lost",
        why: "The run did more than the record shows, and nobody knows what.",
        advice: "Run again on a quieter machine; `--fail-closed` makes a loss fatal.",
        check: Check::Whole(events_lost),
    },
    Rule {
        id: "record-incomplete",
        level: Level::Warn,
        title: "the record lacks its beginning, its end or its summary",
        why: "A record that was cut is whole as far as its hashes go, and still tells half.",
        advice: "Get the bundle from the run again; do not accept it for a gate.",
        check: Check::Whole(record_incomplete),
    },
    Rule {
        id: "counts-differ",
        level: Level::Error,
        title: "the summary counts other events than there are",
        why: "Events were taken out or put in before the bundle was sealed.",
        advice: "Do not trust the bundle; ask where it came from.",
        check: Check::Whole(counts_differ),
    },
    Rule {
        id: "run-id-differs",
        level: Level::Error,
        title: "the run id is not that of the identity in the events",
        why: "The run id names a behaviour; these events describe another one.",
        advice: "Do not trust the bundle; ask where it came from.",
        check: Check::Whole(run_id_differs),
    },
    Rule {
        id: "protected-config-written",
        level: Level::Error,
        title: "configuration that makes code run later was changed",
        why: "Git hooks, CI workflows, agent, editor and shell configuration run code after the sandbox is gone, with the rights of whoever runs it.",
        advice: "Read the change before anything uses it; deny writing there in the policy.",
        check: Check::Event(protected_config_written),
    },
    Rule {
        id: "git-config-written",
        level: Level::Warn,
        title: "a repository's git configuration was changed",
        why: "`.git/config` can name programs that the next git command runs. Cloning writes it for good reasons.",
        advice: "Look at `git config --list` for aliases, filters, hooksPath, fsmonitor and sshCommand.",
        check: Check::Event(git_config_written),
    },
    Rule {
        id: "credential-read",
        level: Level::Error,
        title: "credentials or keys were read",
        why: "Who reads a key can use it elsewhere, for as long as it lives.",
        advice: "Deny the file in the policy; replace the key if the run had a way out.",
        check: Check::Event(credential_read),
    },
    Rule {
        id: "secret-file-read",
        level: Level::Warn,
        title: "a file that often holds secrets was read",
        why: "Environment files and the agents' own credentials are read for good reasons, and leak from there.",
        advice: "Check what was in it, and where the run connected.",
        check: Check::Event(secret_file_read),
    },
    Rule {
        id: "exec-from-memory",
        level: Level::Error,
        title: "a program ran from memory or from a deleted file",
        why: "There is no file that anybody could look at afterwards.",
        advice: "Find out which program does it and why; deny it in the policy.",
        check: Check::Event(exec_from_memory),
    },
    Rule {
        id: "exec-of-written",
        level: Level::Warn,
        title: "the run wrote a program and ran it",
        why: "What ran was made during the run: downloaded, unpacked or built.",
        advice: "Its digest is in the bundle: compare it with what should have been built.",
        check: Check::Event(exec_of_written),
    },
    Rule {
        id: "exec-from-temp",
        level: Level::Warn,
        title: "a program ran from a temporary place",
        why: "Anybody may put files there, and they are gone when somebody looks.",
        advice: "Find out what put it there; do not allow `execute` on temporary directories.",
        check: Check::Event(exec_from_temp),
    },
    Rule {
        id: "exec-from-workdir",
        level: Level::Info,
        title: "a program ran from the work directory",
        why: "The run may change what it runs there.",
        advice: "Expected for builds and tests; otherwise look at the program.",
        check: Check::Event(exec_from_workdir),
    },
    Rule {
        id: "set-id-program",
        level: Level::Warn,
        title: "a program ran that raises its own rights",
        why: "sudo, su, mount and their like act with other rights than the run was given.",
        advice: "Deny it in the policy (`exec.deny`); under enforcement it fails anyway.",
        check: Check::Event(set_id_program),
    },
    Rule {
        id: "root-socket",
        level: Level::Error,
        title: "a socket was used whose other end acts for the caller",
        why: "Through a container engine, a system or user bus, or a key agent, work goes on outside the sandbox and outside this record.",
        advice: "Deny the socket in the policy; look in the log of the service for what was asked of it.",
        check: Check::Event(root_socket),
    },
    Rule {
        id: "cloud-metadata",
        level: Level::Error,
        title: "the cloud's metadata service was addressed",
        why: "It hands the machine's own credentials to whoever asks.",
        advice: "Deny the address in the policy; replace the machine's credentials if an answer came.",
        check: Check::Event(cloud_metadata),
    },
    Rule {
        id: "egress-plain-address",
        level: Level::Warn,
        title: "a connection went to a plain address",
        why: "No name was asked for before, so there is nothing to review it by.",
        advice: "Find out whose address it is; allow by name or by a narrow range.",
        check: Check::Event(egress_plain_address),
    },
    Rule {
        id: "many-deletions",
        level: Level::Warn,
        title: "many files were deleted",
        why: "A clean-up and a mistake look the same.",
        advice: "Compare with what should be gone; the bundle lists every name.",
        check: Check::Whole(many_deletions),
    },
    Rule {
        id: "unauthorised",
        level: Level::Warn,
        title: "the run did what its policy does not authorise",
        why: "It was not blocked, because the run was a dry run or this could not be held.",
        advice: "Allow it in the policy if it is needed, or find out why it happens.",
        check: Check::Event(unauthorised),
    },
    Rule {
        id: "denied",
        level: Level::Info,
        title: "an action was denied",
        why: "It shows what the run tried.",
        advice: "Allow it in the policy if it is needed.",
        check: Check::Event(denied),
    },
    Rule {
        id: "secret-in-text",
        level: Level::Error,
        title: "something with the shape of a secret stands in the record",
        why: "Bundles travel; whoever gets this one gets the secret.",
        advice: "Replace the secret, and keep this bundle to yourself.",
        check: Check::Event(secret_in_text),
    },
    Rule {
        id: "argv-unredacted",
        level: Level::Error,
        title: "the command holds a secret in plain text",
        why: "Every user of the machine could read it while the run went on, and every reader of this bundle can.",
        advice: "Pass it through a file or the environment; replace the secret.",
        check: Check::Event(argv_unredacted),
    },
    Rule {
        id: "marked-sensitive",
        level: Level::Warn,
        title: "its producer marked an event as holding secrets or personal data",
        why: "`assaysecrets` or `assaypii` is true.",
        advice: "Treat the bundle accordingly.",
        check: Check::Event(marked_sensitive),
    },
    Rule {
        id: "clock-odd",
        level: Level::Warn,
        title: "time runs backwards, or events lie a day apart",
        why: "Events are stamped when the bundle is written, at once and in order.",
        advice: "Ask how the bundle was made; its order is by sequence, not by time.",
        check: Check::Event(clock_odd),
    },
    Rule {
        id: "order-odd",
        level: Level::Warn,
        title: "events are not in the order of the format, or one is there twice",
        why: "The canonical order leaves no room for a choice; another order is another program's or somebody's hand.",
        advice: "Ask how the bundle was made.",
        check: Check::Event(order_odd),
    },
    Rule {
        id: "unknown-event-type",
        level: Level::Warn,
        title: "an event of a type that is not known here",
        why: "Nothing here can judge it.",
        advice: "Read it with a newer version, or ask its producer what it means.",
        check: Check::Event(unknown_event_type),
    },
    Rule {
        id: "malformed-data",
        level: Level::Warn,
        title: "an event does not hold what its type says",
        why: "Rules judge what they can read; the rest went by them.",
        advice: "Ask the producer; `gate` does not pass such an event.",
        check: Check::Event(malformed_data),
    },
    Rule {
        id: "not-canonical",
        level: Level::Warn,
        title: "bytes are not canonical",
        why: "The hashes hold, but the same content has another text: it was not written by a program that follows the format.",
        advice: "Ask how the bundle was made.",
        check: Check::Whole(not_canonical),
    },
    Rule {
        id: "unknown-manifest-key",
        level: Level::Info,
        title: "the manifest holds a key that the format does not have",
        why: "No hash covers it.",
        advice: "Do not rely on it.",
        check: Check::Whole(unknown_manifest_key),
    },
    Rule {
        id: "packed-again",
        level: Level::Info,
        title: "the archive was packed again",
        why: "Times, owners or modes are set that the format leaves empty. The members are whole.",
        advice: "Nothing, if you know who did it.",
        check: Check::Whole(packed_again),
    },
];

fn found(subject: impl Into<String>, message: impl Into<String>) -> Option<Found> {
    Some(Found { subject: subject.into(), message: message.into(), level: None, sequence: None })
}

/// A finding about an act: one level milder than its rule when the act was refused.
fn act(view: &View<'_>, level: Level, subject: &str, verb: &str) -> Option<Found> {
    let is_denied = view.is_denied();
    let message = if is_denied { format!("tried to {verb} it, and was denied") } else { format!("{verb}") };
    let level = (is_denied && level == Level::Error).then_some(Level::Warn);
    Some(Found { subject: subject.into(), message, level, sequence: None })
}

fn whole(message: impl Into<String>) -> Vec<Found> {
    vec![Found { subject: String::new(), message: message.into(), level: None, sequence: None }]
}

fn is_held_kind(component: &str) -> bool {
    matches!(component, "fs" | "exec" | "net" | "observer")
}

fn containment_absent(_: &Seen, view: &View<'_>) -> Option<Found> {
    match view.content {
        Content::Degraded { component, reason, detail: None } if is_held_kind(component) => {
            found(component, reason)
        }
        _ => None,
    }
}

fn containment_degraded(_: &Seen, view: &View<'_>) -> Option<Found> {
    match view.content {
        Content::Degraded { component, reason, detail } if detail.is_some() || !is_held_kind(component) => {
            found(detail.unwrap_or(component), format!("{component}: {reason}"))
        }
        _ => None,
    }
}

fn not_contained(_: &Seen, view: &View<'_>) -> Option<Found> {
    let mode = view.event.object.str("assaymode");
    (view.content == Content::Started && mode == Some("dry-run")).then(|| found("", "dry run"))?
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

fn coverage_none(seen: &Seen, _: &Verified) -> Vec<Found> {
    coverage_findings(seen, "none")
}

fn coverage_partial(seen: &Seen, _: &Verified) -> Vec<Found> {
    coverage_findings(seen, "partial")
}

fn coverage_unstated(seen: &Seen, _: &Verified) -> Vec<Found> {
    let known = |attribute: &str| matches!(coverage(seen, attribute), Some("complete" | "partial" | "none"));
    let unstated: Vec<_> =
        COVERAGES.into_iter().filter(|(_, key)| !known(key)).map(|(kind, _)| kind).collect();
    if unstated.is_empty() { Vec::new() } else { whole(format!("not said for {}", unstated.join(", "))) }
}

fn events_lost(seen: &Seen, _: &Verified) -> Vec<Found> {
    match seen.summary.as_ref().and_then(|summary| summary.get("assaylost")).and_then(Value::as_count) {
        None | Some(0) => Vec::new(),
        Some(lost) => whole(format!("{lost} lost")),
    }
}

fn record_incomplete(seen: &Seen, _: &Verified) -> Vec<Found> {
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

fn counts_differ(seen: &Seen, _: &Verified) -> Vec<Found> {
    let data = seen.summary.as_ref().and_then(|summary| summary.get("data")).and_then(Value::as_object);
    let Some(counts) = data.and_then(|data| data.get("counts")).and_then(Value::as_object) else {
        return Vec::new();
    };
    [("fs", kind::FS), ("exec", kind::EXEC), ("net", kind::NET), ("degradations", kind::DEGRADED)]
        .into_iter()
        .filter_map(|(key, kind)| {
            let said = counts.get(key).and_then(Value::as_count)?;
            (said != seen.count(kind))
                .then(|| format!("{said} {key} were counted, {} are there", seen.count(kind)))
        })
        .flat_map(whole)
        .collect()
}

fn run_id_differs(seen: &Seen, _: &Verified) -> Vec<Found> {
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
    act(view, level, name, op)
}

fn protected_config_written(_: &Seen, view: &View<'_>) -> Option<Found> {
    // What `git init` and `git clone` lay there and nothing runs.
    let is_meant = |name: &str| !name.ends_with(".sample") && is_among(name, PROTECTED);
    changes(view, is_meant, Level::Error)
}

fn git_config_written(_: &Seen, view: &View<'_>) -> Option<Found> {
    changes(
        view,
        |name| is_among(name, &[".git/config", ".git/modules/*/config", ".gitmodules"]),
        Level::Warn,
    )
}

fn reads(view: &View<'_>, is_meant: impl Fn(&str) -> bool, level: Level) -> Option<Found> {
    // A hard link or another name makes it readable elsewhere.
    match view.content {
        Content::Fs { op: op @ ("read" | "link" | "rename"), path, .. } if is_meant(path) => {
            act(view, level, path, op)
        }
        _ => None,
    }
}

fn is_credential(name: &str) -> bool {
    is_among(name, CREDENTIALS) && !is_among(name, NO_CREDENTIALS)
}

fn credential_read(_: &Seen, view: &View<'_>) -> Option<Found> {
    reads(view, is_credential, Level::Error)
}

fn secret_file_read(_: &Seen, view: &View<'_>) -> Option<Found> {
    reads(view, |name| is_among(name, MAY_HOLD_SECRETS) && !is_credential(name), Level::Warn)
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
        || path.ends_with(" (deleted)")
        || path.starts_with("/proc/self/fd/")
        || !(path.starts_with('/') || path.starts_with("${"))
}

fn exec_from_memory(_: &Seen, view: &View<'_>) -> Option<Found> {
    let path = program(view)?;
    is_from_memory(path).then(|| act(view, Level::Error, path, "run"))?
}

fn exec_of_written(seen: &Seen, view: &View<'_>) -> Option<Found> {
    let path = program(view)?;
    seen.was_written(path).then(|| act(view, Level::Warn, path, "run"))?
}

fn exec_from_temp(_: &Seen, view: &View<'_>) -> Option<Found> {
    let path = program(view)?;
    (!is_from_memory(path) && is_among(path, TEMPORARY)).then(|| act(view, Level::Warn, path, "run"))?
}

fn exec_from_workdir(_: &Seen, view: &View<'_>) -> Option<Found> {
    let path = program(view)?;
    is_among(path, WRITABLE).then(|| act(view, Level::Info, path, "run"))?
}

fn set_id_program(_: &Seen, view: &View<'_>) -> Option<Found> {
    let path = program(view)?;
    let is_system = ["/bin/", "/sbin/", "/usr/", "/lib/", "/run/wrappers/", "/opt/"]
        .iter()
        .any(|prefix| path.starts_with(prefix));
    let name = path.rsplit('/').next().unwrap_or_default();
    (is_system && SET_ID.contains(&name)).then(|| act(view, Level::Warn, path, "run"))?
}

fn root_socket(_: &Seen, view: &View<'_>) -> Option<Found> {
    match view.content {
        Content::Net {
            op: op @ ("connect" | "send"), proto: "unix" | "", address: Some(address), ..
        } if is_among(address, ROOT_SOCKETS) => act(view, Level::Error, address, op),
        _ => None,
    }
}

fn cloud_metadata(_: &Seen, view: &View<'_>) -> Option<Found> {
    let Content::Net { op: op @ ("connect" | "send"), host, address, .. } = view.content else { return None };
    let name = [host, address].into_iter().flatten().find(|name| METADATA.contains(name))?;
    act(view, Level::Error, name, op)
}

fn egress_plain_address(_: &Seen, view: &View<'_>) -> Option<Found> {
    let Content::Net { op: op @ ("connect" | "send"), host: None, address: Some(address), port, .. } =
        view.content
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
    let mut found = act(view, Level::Warn, view.event.subject().unwrap_or(address), op)?;
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

fn many_deletions(seen: &Seen, _: &Verified) -> Vec<Found> {
    let total: u64 = seen.deleted.values().sum();
    let Some((worst, most)) = seen.deleted.iter().max_by_key(|(_, count)| **count) else { return Vec::new() };
    if total < MANY {
        return Vec::new();
    }
    let message = format!("{total} deleted in {} directories, {most} of them here", seen.deleted.len());
    vec![Found { subject: format!("{worst}/"), message, level: None, sequence: None }]
}

fn unauthorised(_: &Seen, view: &View<'_>) -> Option<Found> {
    let is_unauthorised = view.event.object.get("assayauthorised") == Some(&Value::Bool(false));
    if !is_unauthorised || view.is_denied() {
        return None;
    }
    let verb = match view.content {
        Content::Fs { op, .. } | Content::Net { op, .. } => op,
        _ => "run",
    };
    found(view.event.subject().unwrap_or_default(), verb)
}

fn denied(_: &Seen, view: &View<'_>) -> Option<Found> {
    let verb = match view.content {
        _ if !view.is_denied() => return None,
        Content::Fs { op, .. } | Content::Net { op, .. } => op,
        Content::Exec { .. } => "run",
        _ => return None,
    };
    let by = view.denied_by().map(|by| format!(" (by {by})")).unwrap_or_default();
    found(view.event.subject().unwrap_or_default(), format!("{verb}{by}"))
}

fn secret_in_text(_: &Seen, view: &View<'_>) -> Option<Found> {
    let rule = view.event.object.iter().find_map(|(key, value)| {
        // Digests and ids are as long as keys, and have no shape of one.
        (!matches!(key, "assaycontenthash" | "assayrunid" | "id" | "time")).then(|| shape_in(value))?
    })?;
    // The subject may hold it, and a finding travels as well.
    found("", format!("{rule} in event {}", view.event.sequence))
}

fn shape_in(value: &Value) -> Option<&'static str> {
    match value {
        Value::String(text) => redact::find_key_shapes(text.as_bytes()).first().map(|secret| secret.rule),
        Value::Array(elements) => elements.iter().find_map(shape_in),
        Value::Object(object) => object.iter().find_map(|(_, member)| shape_in(member)),
        Value::Null | Value::Bool(_) | Value::Integer(_) => None,
    }
}

fn argv_unredacted(_: &Seen, view: &View<'_>) -> Option<Found> {
    if view.content != Content::Started {
        return None;
    }
    let words: Vec<Vec<u8>> =
        view::command(view.event)?.into_iter().map(|word| word.as_bytes().to_vec()).collect();
    let secrets = redact::find_in_argv(&words);
    let at = words.iter().zip(&secrets).position(|(word, secrets)| {
        secrets.iter().any(|secret| {
            let text = word.get(secret.range.clone()).unwrap_or_default();
            !(text.is_empty() || text.starts_with(b"${REDACTED"))
        })
    })?;
    found("", format!("argument {at}"))
}

fn marked_sensitive(_: &Seen, view: &View<'_>) -> Option<Found> {
    let is_marked = |key: &str| view.event.object.get(key) == Some(&Value::Bool(true));
    let marks: Vec<_> = ["assaysecrets", "assaypii"].into_iter().filter(|key| is_marked(key)).collect();
    (!marks.is_empty()).then(|| found(view.event.subject().unwrap_or_default(), marks.join(", ")))?
}

fn clock_odd(seen: &Seen, view: &View<'_>) -> Option<Found> {
    let now = view.event.object.str("time").and_then(crate::evidence::timestamp::Timestamp::parse)?;
    if seen.time.is_some_and(|before| now < before) {
        return found("", "earlier than the event before");
    }
    let first = seen.first_time?;
    (now.seconds() - first.seconds() > 86_400).then(|| found("", "more than a day after the first event"))?
}

fn order_odd(seen: &Seen, view: &View<'_>) -> Option<Found> {
    let subject = view.event.subject().unwrap_or_default();
    let kind = view.event.kind();
    let is_single = matches!(kind, kind::STARTED | kind::SUMMARY | kind::FINISHED);
    if is_single && seen.count(kind) > 0 {
        return found(subject, format!("{kind} for the second time"));
    }
    if seen.last.as_deref() == Some(kind::FINISHED) {
        return found(subject, format!("it follows {}", kind::FINISHED));
    }
    let place = |kind: &str| kind::ALL.iter().position(|known| *known == kind);
    let before = seen.last.as_deref().and_then(place);
    if let (Some(before), Some(here)) = (before, place(kind))
        && here < before
    {
        return found(subject, format!("{kind} after {}", kind::ALL[before]));
    }
    let (Some(before), Ok(Some(effect))) = (&seen.effect, view::strict_effect(view.event)) else {
        return None;
    };
    match before.cmp(&effect) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => found(subject, "the same effect again"),
        std::cmp::Ordering::Greater => found(subject, "it should come before the effect before it"),
    }
}

fn unknown_event_type(_: &Seen, view: &View<'_>) -> Option<Found> {
    (view.content == Content::Unknown).then(|| found(view.event.kind(), "unknown"))?
}

fn malformed_data(_: &Seen, view: &View<'_>) -> Option<Found> {
    if view.is_well_formed() {
        return None;
    }
    let problem = match (view.content, view::strict_effect(view.event)) {
        (_, Err(error)) => error.problem,
        (Content::Degraded { .. }, _) => {
            view::strict_degradation(view.event).err().map(|error| error.problem).unwrap_or_default()
        }
        _ => "something is absent, or has another form".to_owned(),
    };
    found(view.event.subject().unwrap_or_default(), format!("{}: {problem}", view.event.kind()))
}

fn not_canonical(seen: &Seen, verified: &Verified) -> Vec<Found> {
    let mut findings = Vec::new();
    if !verified.is_manifest_canonical {
        findings.extend(whole("the manifest"));
    }
    if seen.not_canonical > 0 {
        findings.extend(whole(format!("{} events", seen.not_canonical)));
    }
    findings
}

fn unknown_manifest_key(_: &Seen, verified: &Verified) -> Vec<Found> {
    let keys = verified.manifest.unknown_keys.iter().take(super::MOST_PER_RULE);
    keys.map(|key| Found { subject: key.clone(), message: "unknown".into(), level: None, sequence: None })
        .collect()
}

fn packed_again(_: &Seen, verified: &Verified) -> Vec<Found> {
    if verified.archive.is_restamped {
        whole("tar headers hold more than the format asks")
    } else {
        Vec::new()
    }
}
