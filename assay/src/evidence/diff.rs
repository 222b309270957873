//! Two bundles → what the second did that the first did not, and the other way round. Pure.
//!
//! Each bundle is read twice: once to learn the hashes of what it holds ([`Outline`]), once more to pick out what the
//! other lacks ([`Picker`]), so that memory grows with the differences and not with the bundles.

use std::collections::BTreeMap;

use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::evidence::halves::{Half, Halves};
use crate::evidence::verify::Event;
use crate::evidence::view::{Content, View};
use crate::observe::loss::Kind as CoverageKind;

mod pair;
mod told;

use pair::pair;
pub use told::Told;

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
    /// Which aspect differs, when both have it.
    pub aspect: Option<Aspect>,
    sides: Sides,
}

/// Which bundle has it. Nearly all changes have one side, and there may be very many.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sides {
    Before(Told),
    After(Told),
    Both(Box<(Told, Told)>),
    /// It is the other half of another change.
    Joined,
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
    /// What the first bundle has.
    pub fn before(&self) -> Option<&Told> {
        match &self.sides {
            Sides::Before(told) => Some(told),
            Sides::Both(both) => Some(&both.0),
            Sides::After(_) | Sides::Joined => None,
        }
    }

    /// What the second bundle has.
    pub fn after(&self) -> Option<&Told> {
        match &self.sides {
            Sides::After(told) => Some(told),
            Sides::Both(both) => Some(&both.1),
            Sides::Before(_) | Sides::Joined => None,
        }
    }

    /// The operation; for a change of operation the one before.
    pub fn op(&self) -> &str {
        self.before().or(self.after()).map_or("", Told::op)
    }

    /// The name, endpoint or component.
    pub fn subject(&self) -> &str {
        self.after().or(self.before()).map_or("", Told::subject)
    }

    /// `added`, `removed` or `changed`.
    pub fn word(&self) -> &'static str {
        match self.sides {
            Sides::After(_) => "added",
            Sides::Before(_) => "removed",
            Sides::Both(_) | Sides::Joined => "changed",
        }
    }

    /// The one side of it that is known, while its other half is looked for.
    fn single(&self) -> Option<&Told> {
        match &self.sides {
            Sides::Before(told) | Sides::After(told) => Some(told),
            Sides::Both(_) | Sides::Joined => None,
        }
    }

    fn is_told(&self) -> bool {
        self.sides != Sides::Joined
    }

    /// Takes in what it was before.
    fn join(&mut self, old: &mut Self, aspect: Aspect) {
        let take = |change: &mut Self| std::mem::replace(&mut change.sides, Sides::Joined);
        if let (Sides::Before(before), Sides::After(after)) = (take(old), take(self)) {
            self.sides = Sides::Both(Box::new((before, after)));
            self.aspect = Some(aspect);
        }
    }
}

/// What one reading of a bundle tells.
#[derive(Debug, Clone, Default)]
pub struct Outline {
    /// By place in the bundle, half a content hash; none of events that are compared by what they say.
    hashes: Vec<Half>,
    command: Option<Value>,
    outcome: Option<Value>,
    coverage: BTreeMap<&'static str, Value>,
}

/// Which events of a bundle the other one lacks, by place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lacking(Vec<bool>);

impl Lacking {
    /// Whether the event at this place is one of them.
    pub fn has(&self, place: u64) -> bool {
        usize::try_from(place).ok().and_then(|place| self.0.get(place)).copied().unwrap_or(false)
    }
}

/// What the second lacks of the first, and the first of the second. The hashes are dropped.
pub fn lacking(first: &mut Outline, second: &mut Outline) -> (Lacking, Lacking) {
    let (first, second) = (std::mem::take(&mut first.hashes), std::mem::take(&mut second.hashes));
    let one_way = |of: &[Half], other: &[Half]| {
        let other = Halves::new(other.to_vec());
        Lacking(of.iter().map(|half| *half != Half::NONE && !other.has(*half)).collect())
    };
    (one_way(&first, &second), one_way(&second, &first))
}

impl Outline {
    /// Takes one event in.
    pub fn add(&mut self, event: &Event) {
        let view = View::new(event);
        let field = |key: &str| event.data().and_then(|data| data.get(key)).cloned();
        let is_frame = matches!(view.content, Content::Started | Content::Summary | Content::Finished);
        self.hashes.push(if is_frame { Half::NONE } else { event.half_hash() });
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

/// Takes what one bundle has and the other lacks ([`lacking`]).
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
        let told = Told::new(event.object.get("data").unwrap_or(&Value::Null), op, subject);
        let sides = if self.is_before { Sides::Before(told) } else { Sides::After(told) };
        self.picked.push(Change { kind, aspect: None, sides });
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
        if before == after {
            return;
        }
        let told = |value: &Value| Told::new(value, "", subject);
        let sides = match (before.map(told), after.map(told)) {
            (Some(before), Some(after)) => Sides::Both(Box::new((before, after))),
            (Some(before), None) => Sides::Before(before),
            (None, Some(after)) => Sides::After(after),
            (None, None) => return,
        };
        changes.push(Change { kind, aspect: Some(Aspect::Value), sides });
    };
    compare(Kind::Command, "", first.command.as_ref(), second.command.as_ref());
    compare(Kind::Outcome, "", first.outcome.as_ref(), second.outcome.as_ref());
    for kind in CoverageKind::ALL {
        let kind = kind.as_str();
        compare(Kind::Coverage, kind, first.coverage.get(kind), second.coverage.get(kind));
    }
    changes.sort_unstable_by(|a, b| {
        let key = |change: &Change| (change.kind, change.before().is_some(), change.aspect.is_some());
        let words = |a: &Change, b: &Change| (a.op(), a.subject()).cmp(&(b.op(), b.subject()));
        // Two that are told alike differ in their data.
        let data = |change: &Change| {
            (change.before().map(Told::json), change.after().map(Told::json))
                .cmp(&(b.before().map(Told::json), b.after().map(Told::json)))
        };
        key(a).cmp(&key(b)).then_with(|| words(a, b)).then_with(|| data(a))
    });
    changes
}

#[cfg(test)]
mod tests;
