//! What rules remember of the events that went by. Pure.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::canon::digest::Digest;
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::CANONICALIZER;
use crate::evidence::events::kind;
use crate::evidence::identity;
use crate::evidence::manifest::Manifest;
use crate::evidence::timestamp::Timestamp;
use crate::evidence::view::{self, Content, View};
use crate::profile::effect::Effect;

/// What went by.
#[derive(Debug, Clone, Default)]
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
}

/// The pieces of the identity, as canonical JSON.
#[derive(Debug, Clone, Default)]
struct IdentityParts {
    is_broken: bool,
    command: Option<String>,
    outcome: Option<String>,
    lists: BTreeMap<&'static str, String>,
}

impl Seen {
    /// Remembers one event.
    pub fn add(&mut self, manifest: &Manifest, view: &View<'_>) {
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
        self.remember(view);
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

    fn add_to_identity(&mut self, view: &View<'_>) {
        let Some(data) = view.event.data() else {
            self.identity.is_broken = true;
            return;
        };
        let append = |parts: &mut IdentityParts, list: &'static str, data: &Object| {
            let text = parts.lists.entry(list).or_default();
            if !text.is_empty() {
                text.push(',');
            }
            write::append(&Value::Object(data.clone()), text);
        };
        let parts = &mut self.identity;
        match view.content {
            Content::Started => parts.command = data.get("command").map(write::to_string),
            Content::Fs { .. } => append(parts, "fs", data),
            Content::Net { .. } => append(parts, "net", data),
            Content::Exec { .. } => append(parts, "exec", &view::without_digest(data)),
            Content::Degraded { .. } => append(parts, "degradations", data),
            Content::Summary => parts.outcome = data.get("outcome").map(write::to_string),
            Content::Finished | Content::Unknown => {}
        }
        if matches!(view.content, Content::Fs { .. } | Content::Exec { .. } | Content::Net { .. }) {
            match view.strict_effect() {
                Ok(effect) => self.effect = effect.cloned(),
                Err(_) => parts.is_broken = true,
            }
        }
    }

    /// The run id that the events give, when they hold a whole identity of this program's making.
    pub fn computed_run_id(&self) -> Option<String> {
        let parts = &self.identity;
        let (Some(command), Some(outcome), true, false) =
            (&parts.command, &parts.outcome, self.is_ours, parts.is_broken)
        else {
            return None;
        };
        let list = |key: &str| parts.lists.get(key).map_or("", String::as_str);
        let text = format!(
            "{{\"canonicalizer\":\"{CANONICALIZER}\",\"command\":{command},\"degradations\":[{}],\
             \"effects\":{{\"exec\":[{}],\"fs\":[{}],\"net\":[{}]}},\"outcome\":{outcome}}}",
            list("degradations"),
            list("exec"),
            list("fs"),
            list("net")
        );
        Some(identity::run_id(&Digest::of(text.as_bytes())))
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
