//! Two profiles, or the effects of two runs → what the second has that the first has not, and the other way. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::effect::{Effect, Port};
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
        let mut all: BTreeMap<(Section, String), BTreeSet<Grant>> = BTreeMap::new();
        for Rule { section, text, grant } in rules(profile) {
            all.entry((section, text)).or_default().extend(grant);
        }
        let is_listed = profile.exec.is_some();
        let words = |grants: &BTreeSet<Grant>| {
            if grants.is_empty() {
                return "allowed".to_owned();
            }
            grants.iter().map(|grant| grant.as_str()).collect::<Vec<_>>().join(", ")
        };
        let mut all: BTreeMap<_, _> = all.iter().map(|(key, grants)| (key.clone(), words(grants))).collect();
        for (path, accesses) in &profile.deny {
            let what = if accesses.is_empty() { "every access".to_owned() } else { words(accesses) };
            all.insert((Section::Fs, format!("deny {path}")), what);
        }
        if !is_listed {
            all.insert((Section::Exec, "programs".to_owned()), "where `execute` is granted".to_owned());
        }
        all
    };
    changes(&of(first), &of(second))
}

/// Differences of the effects of two runs.
pub fn effects(first: &[Effect], second: &[Effect]) -> Vec<Change> {
    let of = |effects: &[Effect]| {
        let mut all: BTreeMap<(Section, String), BTreeSet<&str>> = BTreeMap::new();
        for effect in effects {
            all.entry(words(effect)).or_default().insert(effect.result().as_str());
        }
        all.into_iter()
            .map(|(key, results)| (key, results.into_iter().collect::<Vec<_>>().join(" and ")))
            .collect::<BTreeMap<_, _>>()
    };
    changes(&of(first), &of(second))
}

fn changes(
    first: &BTreeMap<(Section, String), String>,
    second: &BTreeMap<(Section, String), String>,
) -> Vec<Change> {
    let keys: BTreeSet<&(Section, String)> = first.keys().chain(second.keys()).collect();
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

/// An effect without its result.
fn words(effect: &Effect) -> (Section, String) {
    match effect {
        Effect::Fs(fs) => {
            let to = fs.to.as_ref().map(|to| format!(" -> {to}")).unwrap_or_default();
            (Section::Fs, format!("{} {}{to}", fs.op.as_str(), fs.path))
        }
        Effect::Exec(exec) => (Section::Exec, exec.path.to_string()),
        Effect::Net(net) => {
            let place = net
                .host
                .clone()
                .or_else(|| net.address.as_ref().map(|address| format!(" {address}")))
                .unwrap_or_default();
            let port = match net.port {
                None => String::new(),
                Some(Port::Number(port)) => format!(" port {port}"),
                Some(Port::Ephemeral) => " port of the kernel's choice".to_owned(),
            };
            (Section::Net, format!("{} {}{place}{port}", net.op.as_str(), net.proto))
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
mod tests {
    use super::*;
    use crate::profile::effect::{EffectResult, FsEffect, FsOp};
    use crate::profile::name::Name;

    #[test]
    fn profiles_differ_by_rule_and_access() {
        let profile = |fs: &[(&str, Grant)]| Profile {
            fs: fs.iter().map(|(path, grant)| ((*path).into(), [*grant].into())).collect(),
            ..Profile::default()
        };
        let (a, b) = (
            profile(&[("/a", Grant::Read), ("/b", Grant::Read)]),
            profile(&[("/b", Grant::Write), ("/c", Grant::Read)]),
        );
        let lines: Vec<String> = profiles(&a, &b).iter().map(Change::line).collect();
        assert_eq!(lines, ["- fs /a (read)", "~ fs /b (read, then write)", "+ fs /c (read)"]);
        assert_eq!(profiles(&a, &a), []);
    }

    #[test]
    fn profiles_differ_by_what_they_deny_and_by_a_list_of_programs() {
        let a = Profile { deny: [("/s".into(), BTreeSet::new())].into(), ..Profile::default() };
        let b = Profile {
            deny: [("/s".into(), [Grant::Write].into())].into(),
            exec: Some(BTreeSet::new()),
            ..a.clone()
        };
        let lines: Vec<String> = profiles(&a, &b).iter().map(Change::line).collect();
        assert_eq!(
            lines,
            ["~ fs deny /s (every access, then write)", "- exec programs (where `execute` is granted)"]
        );
        let lines: Vec<String> = profiles(&Profile { exec: Some(BTreeSet::new()), ..Profile::default() }, &b)
            .iter()
            .map(Change::line)
            .collect();
        assert_eq!(lines, ["+ fs deny /s (write)"]);
    }

    #[test]
    fn effects_differ_by_operation_and_result() {
        let fs = |op, path: &str, result| {
            Effect::Fs(FsEffect { op, path: Name::from_canonical(path), to: None, result })
        };
        let a = [fs(FsOp::Read, "/a", EffectResult::Ok)];
        let b = [fs(FsOp::Read, "/a", EffectResult::Denied), fs(FsOp::Write, "/a", EffectResult::Ok)];
        let lines: Vec<String> = effects(&a, &b).iter().map(Change::line).collect();
        assert_eq!(lines, ["~ fs read /a (ok, then denied)", "+ fs write /a (ok)"]);
    }
}
