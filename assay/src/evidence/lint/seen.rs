//! What rules remember of the events that went by. Pure.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use sha2::{Digest as _, Sha256};

use crate::canon::digest::Digest;
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::CANONICALIZER;
use crate::evidence::events::kind;
use crate::evidence::identity;
use crate::evidence::manifest::Manifest;
use crate::evidence::squeezed::Squeezed;
use crate::evidence::timestamp::Timestamp;
use crate::evidence::view::{Content, View};
use crate::profile::effect::Effect;

/// What went by.
#[derive(Debug, Default)]
pub struct Seen {
    /// How many events of each type.
    pub counts: BTreeMap<String, u64>,
    /// The type of the first event.
    pub first: Option<String>,
    /// The type of the last one.
    pub last: Option<String>,
    /// The first summary, whole.
    pub summary: Option<Object>,
    /// The moment of the event before.
    pub time: Option<Timestamp>,
    /// The moment of the first event.
    pub first_time: Option<Timestamp>,
    /// The effect of the event before.
    pub effect: Option<Effect>,
    /// Files deleted outside the private temporary directory, by their directory.
    pub deleted: BTreeMap<String, u64>,
    /// Whether the first event names the canonicaliser of this program.
    pub is_ours: bool,
    /// The run id of the manifest.
    pub run_id: String,
    written: HashSet<u64>,
    identity: IdentityParts,
    computed_run_id: Option<String>,
}

/// The pieces of the identity, as canonical JSON. They are hashed in another order than the events come in, so that they
/// have to be kept; squeezed, a million of them are a few mebibytes.
#[derive(Debug, Default)]
struct IdentityParts {
    is_broken: bool,
    command: Option<String>,
    outcome: Option<String>,
    lists: BTreeMap<&'static str, Squeezed>,
}

impl IdentityParts {
    fn append(&mut self, list: &'static str, element: impl FnOnce(&mut String)) {
        let list = self.lists.entry(list).or_default();
        let comma = if list.is_empty() { "" } else { "," };
        list.add(|text| {
            text.push_str(comma);
            element(text);
        });
    }

    fn run_id(mut self) -> Option<String> {
        let (Some(command), Some(outcome), false) = (&self.command, &self.outcome, self.is_broken) else {
            return None;
        };
        let mut hash = Sha256::new();
        hash.update(format!("{{\"canonicalizer\":\"{CANONICALIZER}\",\"command\":{command}"));
        // The order of canonical JSON, which is not that of the events.
        for (before, list) in [
            (",\"degradations\":[", "degradations"),
            ("],\"effects\":{\"exec\":[", "exec"),
            ("],\"fs\":[", "fs"),
            ("],\"net\":[", "net"),
        ] {
            hash.update(before);
            self.lists.remove(list).unwrap_or_default().pour(|piece| hash.update(piece));
        }
        hash.update(format!("]}},\"outcome\":{outcome}}}"));
        Some(identity::run_id(&Digest::from_raw(hash.finalize().into())))
    }
}

impl Seen {
    /// Remembers one event.
    pub fn add(&mut self, manifest: &Manifest, view: View<'_>) {
        let kind = view.event.kind();
        if let Some(count) = self.counts.get_mut(kind) {
            *count += 1;
        } else if self.counts.len() < 64 || kind::ALL.contains(&kind) {
            // Types are for the sender to choose: a bundle of a million of them must not fill memory.
            self.counts.insert(kind.to_owned(), 1);
        }
        if self.first.is_none() {
            self.first = Some(kind.to_owned());
            self.run_id.clone_from(&manifest.run_id);
        }
        if self.last.as_deref() != Some(kind) {
            self.last = Some(kind.to_owned());
        }
        self.time = view.event.object.str("time").and_then(Timestamp::parse);
        self.first_time = self.first_time.or(self.time);
        self.remember(&view);
        if self.is_ours || kind == kind::STARTED {
            self.add_to_identity(view);
        }
    }

    fn remember(&mut self, view: &View<'_>) {
        match view.content {
            Content::Started => {
                let canonicalizer = view.event.data().and_then(|data| data.str("canonicalizer"));
                self.is_ours |= canonicalizer == Some(CANONICALIZER);
            }
            Content::Fs { op, path, to } if !view.is_denied() => {
                if matches!(op, "write" | "create") {
                    self.written.insert(hash(path));
                }
                if let ("rename" | "link", Some(to)) = (op, to) {
                    self.written.insert(hash(to));
                }
                if op == "delete" && !path.starts_with("${TMPDIR}/") {
                    let directory =
                        path.trim_end_matches('/').rsplit_once('/').map_or("", |(directory, _)| directory);
                    if let Some(count) = self.deleted.get_mut(directory) {
                        *count += 1;
                    } else if self.deleted.len() < 10_000 {
                        self.deleted.insert(directory.to_owned(), 1);
                    }
                }
            }
            Content::Summary if self.summary.is_none() => self.summary = Some(view.event.object.clone()),
            _ => {}
        }
    }

    /// Whether the run itself wrote this file. One in 2^64 others is taken for written too.
    pub fn was_written(&self, path: &str) -> bool {
        self.written.contains(&hash(path))
    }

    fn add_to_identity(&mut self, view: View<'_>) {
        let event = view.event;
        let Some(data) = event.data() else {
            self.identity.is_broken = true;
            return;
        };
        let parts = &mut self.identity;
        match view.content {
            Content::Started => parts.command = data.get("command").map(write::to_string),
            Content::Fs { .. } => parts.append("fs", |text| text.push_str(event.data_json())),
            Content::Net { .. } => parts.append("net", |text| text.push_str(event.data_json())),
            // The identity does not hold the digests of programs.
            Content::Exec { .. } => parts.append("exec", |text| write::append_without(data, "sha256", text)),
            Content::Degraded { .. } => parts.append("degradations", |text| text.push_str(event.data_json())),
            Content::Summary => parts.outcome = data.get("outcome").map(write::to_string),
            Content::Finished | Content::Unknown => {}
        }
        if matches!(view.content, Content::Fs { .. } | Content::Exec { .. } | Content::Net { .. }) {
            match view.into_strict_effect() {
                Ok(effect) => self.effect = effect,
                Err(_) => parts.is_broken = true,
            }
        }
    }

    /// Computes what takes all events.
    pub fn close(&mut self) {
        self.computed_run_id = std::mem::take(&mut self.identity).run_id().filter(|_| self.is_ours);
    }

    /// The run id that the events give, when they hold a whole identity of this program's making. Known once all is
    /// closed.
    pub fn computed_run_id(&self) -> Option<&str> {
        self.computed_run_id.as_deref()
    }

    /// Where the summary counts other events than there were.
    pub fn count_problems(&self) -> Vec<String> {
        let data = self.summary.as_ref().and_then(|summary| summary.get("data")).and_then(Value::as_object);
        let Some(counts) = data.and_then(|data| data.get("counts")).and_then(Value::as_object) else {
            return Vec::new();
        };
        [("fs", kind::FS), ("exec", kind::EXEC), ("net", kind::NET), ("degradations", kind::DEGRADED)]
            .into_iter()
            .filter_map(|(key, kind)| {
                let said = counts.get(key).and_then(Value::as_count)?;
                let there = self.count(kind);
                (said != there).then(|| format!("{said} {key} were counted, {there} are there"))
            })
            .collect()
    }

    /// How many events of a type there were.
    pub fn count(&self, kind: &str) -> u64 {
        self.counts.get(kind).copied().unwrap_or(0)
    }
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}
