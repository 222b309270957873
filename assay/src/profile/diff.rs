//! Two profiles, or the effects of two runs → what the second has that the first has not, and the other way. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::effect::{Effect, EffectResult, Port};
use super::grant_set::GrantSet;
use super::merge::{Rule, rules};
use super::wire::{Grant, Profile, Section};

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// `fs`, `exec` or `net`.
    pub section: Section,
    /// The path, endpoint or program, with the operation where there is one.
    pub text: String,
    /// What the first had: accesses or a result; `None` when it had nothing.
    pub before: Option<String>,
    /// What the second has.
    pub after: Option<String>,
}

/// Differences of two profiles.
pub fn profiles(first: &Profile, second: &Profile) -> Vec<Change> {
    let of = |profile: &Profile| {
        let mut all: BTreeMap<(Section, String), GrantSet> = BTreeMap::new();
        for Rule { section, text, grant } in rules(profile) {
            all.entry((section, text)).or_default().extend(grant);
        }
        let is_listed = profile.exec.is_some();
        let words = |grants: GrantSet| {
            if grants.is_empty() {
                return "allowed".to_owned();
            }
            grants.iter().map(Grant::as_str).collect::<Vec<_>>().join(", ")
        };
        let mut all: BTreeMap<_, _> = all
            .iter()
            .map(|((section, text), grants)| ((*section, text.clone(), ()), words(*grants)))
            .collect();
        for (path, accesses) in &profile.deny {
            let what = if accesses.is_empty() { "every access".to_owned() } else { words(*accesses) };
            all.insert((Section::Fs, format!("deny {path}"), ()), what);
        }
        if !is_listed {
            all.insert((Section::Exec, "programs".to_owned(), ()), "where `execute` is granted".to_owned());
        }
        all
    };
    changes(&of(first), &of(second))
}

/// Differences of the effects of two runs.
pub fn effects(first: &[Effect], second: &[Effect]) -> Vec<Change> {
    let of = |effects: &[Effect]| {
        let mut all: BTreeMap<(Section, String, Effect), BTreeSet<&str>> = BTreeMap::new();
        for effect in effects {
            let (section, text) = words(effect);
            // By the effect itself: two of them may read alike.
            all.entry((section, text, allowed(effect))).or_default().insert(effect.result().as_str());
        }
        all.into_iter()
            .map(|(key, results)| (key, results.into_iter().collect::<Vec<_>>().join(" and ")))
            .collect::<BTreeMap<_, _>>()
    };
    changes(&of(first), &of(second))
}

fn changes<T: Ord>(
    first: &BTreeMap<(Section, String, T), String>,
    second: &BTreeMap<(Section, String, T), String>,
) -> Vec<Change> {
    let keys: BTreeSet<&(Section, String, T)> = first.keys().chain(second.keys()).collect();
    keys.into_iter()
        .filter(|key| first.get(*key) != second.get(*key))
        .map(|key| Change {
            section: key.0,
            text: key.1.clone(),
            before: first.get(key).cloned(),
            after: second.get(key).cloned(),
        })
        .collect()
}

/// An effect whatever its result.
fn allowed(effect: &Effect) -> Effect {
    let mut effect = effect.clone();
    match &mut effect {
        Effect::Fs(fs) => fs.result = EffectResult::Ok,
        Effect::Exec(exec) => exec.result = EffectResult::Ok,
        Effect::Net(net) => net.result = EffectResult::Ok,
    }
    effect
}

/// An effect without its result.
fn words(effect: &Effect) -> (Section, String) {
    match effect {
        Effect::Fs(fs) => {
            let to = fs.to.as_ref().map(|to| format!(" -> {to}")).unwrap_or_default();
            (Section::Fs, format!("{} {}{to}", fs.op.as_str(), fs.path))
        }
        Effect::Exec(exec) => (Section::Exec, exec.path.to_string()),
        Effect::Net(net) => {
            let from = net.host_from.map(|from| format!(" ({})", from.as_str())).unwrap_or_default();
            let host = net.host.as_ref().map(|host| format!(" {host}{from}")).unwrap_or_default();
            let address = net.address.as_ref().map(|address| format!(" {address}")).unwrap_or_default();
            let port = match net.port {
                None => String::new(),
                Some(Port::Number(port)) => format!(" port {port}"),
                Some(Port::Ephemeral) => " port of the kernel's choice".to_owned(),
            };
            (Section::Net, format!("{} {}{host}{address}{port}", net.op.as_str(), net.proto))
        }
    }
}

impl Change {
    /// One line for a person: `+`, `-` or `~`, and what changed.
    pub fn line(&self) -> String {
        let section = self.section.as_str();
        match (&self.before, &self.after) {
            (None, Some(after)) => format!("+ {section} {} ({after})", self.text),
            (Some(before), None) => format!("- {section} {} ({before})", self.text),
            (Some(before), Some(after)) => format!("~ {section} {} ({before}, then {after})", self.text),
            (None, None) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests;
