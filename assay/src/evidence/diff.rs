//! Two bundles → what the second did that the first did not, and the other way round. Pure.
//!
//! Each bundle is read twice: once to learn the hashes of what it holds ([`Outline`]), once more to pick out what the
//! other lacks ([`Picker`]), so that memory grows with the differences and not with the bundles.

use std::collections::BTreeMap;

use crate::canon::digest::Digest;
use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::evidence::verify::Event;
use crate::evidence::view::{Content, View};
use crate::observe::loss::Kind as CoverageKind;

/// What a change concerns, in the order they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The command line.
    Command,
    /// Effects on files.
    Fs,
    /// Programs.
    Exec,
    /// Effects on the network.
    Net,
    /// Degradations.
    Degradation,
    /// How much was observed.
    Coverage,
    /// How the command ended.
    Outcome,
    /// Events of types that are not known here.
    Other,
}

impl Kind {
    /// Every kind, in order.
    pub const ALL: [Self; 8] = [
        Self::Command,
        Self::Fs,
        Self::Exec,
        Self::Net,
        Self::Degradation,
        Self::Coverage,
        Self::Outcome,
        Self::Other,
    ];

    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Fs => "fs",
            Self::Exec => "exec",
            Self::Net => "net",
            Self::Degradation => "degradation",
            Self::Coverage => "coverage",
            Self::Outcome => "outcome",
            Self::Other => "other",
        }
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What it concerns.
    pub kind: Kind,
    /// The operation; for a change of operation the one before.
    pub op: String,
    /// The name, endpoint or component.
    pub subject: String,
    /// What the first bundle has.
    pub before: Option<Value>,
    /// What the second bundle has.
    pub after: Option<Value>,
    /// Which aspect differs, when both have it.
    pub aspect: Option<Aspect>,
}

/// What differs where both bundles have something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// The operation: a read became a write.
    Operation,
    /// Whether it was denied.
    Result,
    /// The digest of a program.
    Digest,
    /// The value as a whole.
    Value,
}

impl Change {
    /// `added`, `removed` or `changed`.
    pub fn word(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        }
    }
}

/// What one reading of a bundle tells.
#[derive(Debug, Clone, Default)]
pub struct Outline {
    /// By place in the bundle; `None` for events that are compared by what they say.
    by_place: Vec<Option<Digest>>,
    sorted: Vec<Digest>,
    command: Option<Value>,
    outcome: Option<Value>,
    coverage: BTreeMap<&'static str, Value>,
}

impl Outline {
    /// Takes one event in.
    pub fn add(&mut self, event: &Event) {
        let view = View::new(event);
        let field = |key: &str| event.data().and_then(|data| data.get(key)).cloned();
        let is_frame = matches!(view.content, Content::Started | Content::Summary | Content::Finished);
        self.by_place.push((!is_frame).then_some(event.content_hash));
        match view.content {
            Content::Started => self.command = self.command.take().or_else(|| field("command")),
            Content::Summary => {
                self.outcome = self.outcome.take().or_else(|| field("outcome"));
                for kind in CoverageKind::ALL {
                    self.coverage.insert(kind.as_str(), coverage(&event.object, kind));
                }
            }
            // Without a summary, the last event has it too.
            Content::Finished => self.outcome = self.outcome.take().or_else(|| field("outcome")),
            _ => {}
        }
    }

    /// Makes it ready for [`Picker`].
    pub fn finish(&mut self) {
        self.sorted = self.by_place.iter().flatten().copied().collect();
        self.sorted.sort_unstable();
    }

    /// Whether the event at this place is one that the other bundle does not have.
    pub fn lacks(&self, place: u64, other: &Self) -> bool {
        let hash = usize::try_from(place).ok().and_then(|place| self.by_place.get(place)).copied().flatten();
        hash.is_some_and(|hash| other.sorted.binary_search(&hash).is_err())
    }
}

fn coverage(summary: &Object, kind: CoverageKind) -> Value {
    let word = summary.str(&format!("assaycoverage{}", kind.as_str())).unwrap_or("unstated");
    let gaps = read::parse(summary.str("assaygaps").unwrap_or("[]").as_bytes()).ok();
    let mut reasons: Vec<Value> = gaps
        .as_ref()
        .and_then(Value::as_array)
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_object)
        .filter(|gap| gap.str("kind") == Some(kind.as_str()))
        .filter_map(|gap| gap.str("reason"))
        .map(Value::from)
        .collect();
    reasons.dedup();
    Object::from([("coverage", word.into()), ("reasons", reasons.into())]).into()
}

/// Takes what one bundle has and the other lacks ([`Outline::lacks`]).
#[derive(Debug)]
pub struct Picker {
    picked: Vec<Change>,
    is_before: bool,
}

impl Picker {
    /// For events of the first bundle.
    pub fn of_first() -> Self {
        Self { picked: Vec::new(), is_before: true }
    }

    /// For events of the second bundle.
    pub fn of_second() -> Self {
        Self { picked: Vec::new(), is_before: false }
    }

    /// Takes one event.
    pub fn add(&mut self, event: &Event) {
        let view = View::new(event);
        let subject = event.subject().unwrap_or_default();
        let (kind, op, subject) = match view.content {
            Content::Started | Content::Summary | Content::Finished => return,
            Content::Fs { op, path, .. } => (Kind::Fs, op, path),
            Content::Exec { path } => (Kind::Exec, "exec", path),
            Content::Net { op, .. } => (Kind::Net, op, subject),
            Content::Degraded { component, .. } => (Kind::Degradation, component, subject),
            Content::Unknown => (Kind::Other, event.kind(), subject),
        };
        let data = event.object.get("data").cloned().unwrap_or(Value::Null);
        let (before, after) = if self.is_before { (Some(data), None) } else { (None, Some(data)) };
        self.picked.push(Change {
            kind,
            op: op.to_owned(),
            subject: subject.to_owned(),
            before,
            after,
            aspect: None,
        });
    }

    /// What was picked.
    pub fn finish(self) -> Vec<Change> {
        self.picked
    }
}

/// Puts together what both pickers found and what the outlines tell.
pub fn changes(first: &Outline, second: &Outline, removed: Vec<Change>, added: Vec<Change>) -> Vec<Change> {
    let mut changes = pair(removed, added);
    let mut compare = |kind: Kind, subject: &str, before: Option<&Value>, after: Option<&Value>| {
        if before != after {
            changes.push(Change {
                kind,
                op: String::new(),
                subject: subject.to_owned(),
                before: before.cloned(),
                after: after.cloned(),
                aspect: Some(Aspect::Value),
            });
        }
    };
    compare(Kind::Command, "", first.command.as_ref(), second.command.as_ref());
    compare(Kind::Outcome, "", first.outcome.as_ref(), second.outcome.as_ref());
    for kind in CoverageKind::ALL {
        let kind = kind.as_str();
        compare(Kind::Coverage, kind, first.coverage.get(kind), second.coverage.get(kind));
    }
    changes.sort_by(|a, b| {
        let key = |change: &Change| (change.kind, change.before.is_some(), change.aspect.is_some());
        key(a).cmp(&key(b)).then_with(|| (&a.op, &a.subject).cmp(&(&b.op, &b.subject)))
    });
    changes
}

/// How many halves are looked at for one other half. A run has no more operations on one name; a bundle that somebody
/// made to keep a reader busy may have a million.
const MOST_CANDIDATES: usize = 16;

/// Finds in what was removed and what was added the two halves of one change.
fn pair(mut removed: Vec<Change>, added: Vec<Change>) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut places: BTreeMap<(Kind, Aspect, Digest), Vec<usize>> = BTreeMap::new();
    // From the last to the first, so that the first is taken first.
    for (at, change) in removed.iter().enumerate().rev() {
        for aspect in [Aspect::Digest, Aspect::Result, Aspect::Operation] {
            if let Some(key) = key(change, change.before.as_ref(), aspect) {
                places.entry((change.kind, aspect, key)).or_default().push(at);
            }
        }
    }
    let mut is_taken = vec![false; removed.len()];
    for mut change in added {
        let half = [Aspect::Digest, Aspect::Result, Aspect::Operation].into_iter().find_map(|aspect| {
            let key = key(&change, change.after.as_ref(), aspect)?;
            let candidates = places.get_mut(&(change.kind, aspect, key))?;
            while candidates.last().is_some_and(|at| is_taken[*at]) {
                candidates.pop();
            }
            let fits = |at: &&usize| !is_taken[**at] && becomes(&removed[**at], &change, aspect);
            let at = *candidates.iter().rev().take(MOST_CANDIDATES).find(fits)?;
            Some((at, aspect))
        });
        if let Some((at, aspect)) = half {
            is_taken[at] = true;
            change.before = removed[at].before.take();
            change.op.clone_from(&removed[at].op);
            change.aspect = Some(aspect);
        }
        changes.push(change);
    }
    changes.extend(
        removed.into_iter().zip(is_taken).filter(|(_, is_taken)| !is_taken).map(|(change, _)| change),
    );
    changes
}

/// What two halves must have in common; `None` when the aspect does not apply.
fn key(change: &Change, data: Option<&Value>, aspect: Aspect) -> Option<Digest> {
    let mut data = data?.as_object()?.clone();
    match (aspect, change.kind) {
        (Aspect::Digest, Kind::Exec) => drop(data.remove("sha256")),
        (Aspect::Result, Kind::Fs | Kind::Exec | Kind::Net) => {
            data.remove("result")?;
            data.remove("sha256");
        }
        (Aspect::Operation, Kind::Fs) => drop(data.remove("op")?),
        _ => return None,
    }
    Some(Digest::of(crate::canon::write::to_string(&data.into()).as_bytes()))
}

/// Only a read that became a change is one change of operation; any other two are two.
fn becomes(before: &Change, after: &Change, aspect: Aspect) -> bool {
    let is_look = |op: &str| matches!(op, "read" | "list");
    aspect != Aspect::Operation || is_look(&before.op) != is_look(&after.op)
}

#[cfg(test)]
mod tests;
