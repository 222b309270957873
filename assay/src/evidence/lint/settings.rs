//! The `lint:` section of `assay.yaml` → levels and ignored findings. Pure: the caller reads the file.

use std::collections::BTreeMap;

use super::places::glob;
use super::rules::RULES;
use super::{Level, rules};
use crate::policy::problem::{Place, Problem, nearest};
use crate::policy::yaml::{self, Key, Node, Value};

/// What a project says about findings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    levels: BTreeMap<String, Option<Level>>,
    ignored: Vec<Ignored>,
}

/// Findings that were looked at and accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// The rule.
    pub rule: String,
    /// A pattern for the subject; `*` is any text. Without it every finding of the rule is meant.
    pub subject: Option<String>,
    /// Why it was accepted.
    pub reason: String,
}

/// Reads the section; every problem at once, each with its place under the name `file`. What else the file holds is the
/// policy's.
pub fn parse(file: &str, bytes: &[u8]) -> Result<Settings, Vec<Problem>> {
    let mut reader = Reader { file, problems: Vec::new(), settings: Settings::default() };
    if let Some(root) = yaml::read(file, bytes, &mut reader.problems) {
        match root.value {
            Value::Map(members) => {
                for (_, section) in members.iter().filter(|(key, _)| key.name == "lint") {
                    reader.section(section);
                }
            }
            // An empty file says nothing.
            Value::Other(_, "null") => {}
            other => reader.complain(root.at, format!("{} in the place of a mapping", other.kind()), None),
        }
    }
    if reader.problems.is_empty() { Ok(reader.settings) } else { Err(reader.problems) }
}

struct Reader<'a> {
    file: &'a str,
    problems: Vec<Problem>,
    settings: Settings,
}

impl Reader<'_> {
    fn complain(&mut self, (line, column): (usize, usize), message: String, hint: Option<String>) {
        let place = Place { file: self.file.to_owned(), line, column };
        self.problems.push(Problem { place, message, hint });
    }

    fn members<'n>(&mut self, node: &'n Node, what: &str) -> &'n [(Key, Node)] {
        match &node.value {
            Value::Map(members) => members,
            Value::Other(_, "null") => &[],
            other => {
                self.complain(node.at, format!("`{what}` is {} and must be a mapping", other.kind()), None);
                &[]
            }
        }
    }

    fn section(&mut self, node: &Node) {
        for (key, value) in self.members(node, "lint") {
            match key.name.as_str() {
                "levels" => {
                    for (rule, level) in self.members(value, "levels") {
                        self.level(rule, level);
                    }
                }
                "ignore" => match &value.value {
                    Value::List(entries) => entries.iter().for_each(|entry| self.entry(entry)),
                    Value::Other(_, "null") => {}
                    other => {
                        let message = format!("`ignore` is {} and must be a list", other.kind());
                        self.complain(value.at, message, None);
                    }
                },
                name => self.unknown(key.at, "key", name, &["levels", "ignore"]),
            }
        }
    }

    fn unknown(&mut self, at: (usize, usize), what: &str, name: &str, known: &[&str]) {
        let hint = match nearest(name, known) {
            Some(word) => format!("did you mean `{word}`?"),
            None if what == "rule" => "`assay evidence lint --explain all` lists them".to_owned(),
            None => format!("known are {}", known.join(", ")),
        };
        self.complain(at, format!("lint: no {what} `{name}`"), Some(hint));
    }

    fn rule(&mut self, at: (usize, usize), name: &str) {
        if rules::find(name).is_none() {
            let known: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
            self.unknown(at, "rule", name, &known);
        }
    }

    fn level(&mut self, rule: &Key, node: &Node) {
        self.rule(rule.at, &rule.name);
        // YAML of old takes `off` for a truth value.
        let (Value::String(word) | Value::Other(word, _)) = &node.value else {
            return self.complain(node.at, format!("the level is {}", node.value.kind()), None);
        };
        let level = match word.as_str() {
            "error" => Some(Level::Error),
            "warn" => Some(Level::Warn),
            "info" => Some(Level::Info),
            "off" => None,
            word => return self.unknown(node.at, "level", word, &["error", "warn", "info", "off"]),
        };
        self.settings.levels.insert(rule.name.clone(), level);
    }

    fn entry(&mut self, node: &Node) {
        let (mut rule, mut subject, mut reason) = (None, None, None);
        for (key, value) in self.members(node, "an entry of ignore") {
            let place = match key.name.as_str() {
                "rule" => &mut rule,
                "subject" => &mut subject,
                "reason" => &mut reason,
                name => {
                    self.unknown(key.at, "key", name, &["rule", "subject", "reason"]);
                    continue;
                }
            };
            if let Value::String(text) = &value.value {
                *place = Some((value.at, text.clone()));
            } else {
                let message = format!("`{}` is {} and must be a string", key.name, value.value.kind());
                self.complain(value.at, message, Some("put it in quotes".to_owned()));
            }
        }
        let Some((at, rule)) = rule else {
            return self.complain(node.at, "an entry of `ignore` names no rule".to_owned(), None);
        };
        self.rule(at, &rule);
        match reason {
            Some((_, reason)) if !reason.trim().is_empty() => {
                let subject = subject.map(|(_, subject)| subject);
                self.settings.ignored.push(Ignored { rule, subject, reason });
            }
            _ => self.complain(node.at, format!("ignoring `{rule}` needs a reason"), None),
        }
    }
}

impl Settings {
    /// The level of a finding that has `level` by itself; `None` when the rule is off.
    pub fn level(&self, rule: &str, level: Level) -> Option<Level> {
        self.levels.get(rule).copied().unwrap_or(Some(level))
    }

    /// Why a finding is ignored, if it is.
    pub fn ignored(&self, rule: &str, subject: &str) -> Option<&str> {
        self.ignored
            .iter()
            .find(|ignored| {
                ignored.rule == rule
                    && ignored
                        .subject
                        .as_ref()
                        .is_none_or(|pattern| glob(pattern.as_bytes(), subject.as_bytes()))
            })
            .map(|ignored| ignored.reason.as_str())
    }

    /// Whether it says anything.
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty() && self.ignored.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_reasons_are_read_and_the_rest_of_the_policy_left_alone() {
        let settings = read(
            "api_version: assay/v1\nfs: {allow: [/usr]}\nlint:\n  levels: {denied: warn, clock-odd: off}\n  \
             ignore:\n    - {rule: credential-read, subject: '*/.npmrc', reason: the registry is public}\n",
        )
        .unwrap();
        assert_eq!(settings.level("denied", Level::Info), Some(Level::Warn));
        assert_eq!(settings.level("clock-odd", Level::Warn), None);
        assert_eq!(settings.level("credential-read", Level::Error), Some(Level::Error));
        assert_eq!(settings.ignored("credential-read", "${HOME}/.npmrc"), Some("the registry is public"));
        assert_eq!(settings.ignored("credential-read", "/etc/shadow"), None);
        assert!(read("api_version: assay/v1\n").unwrap().is_empty());
        assert!(read("").is_err(), "as for a policy");
    }

    #[test]
    fn what_would_silence_nothing_or_without_reason_is_refused() {
        let problems = read(
            "api_version: assay/v1\nlint:\n  levels: {nope: off, denied: loud, credential-raed: off}\n  \
             ignore:\n    - {rule: denied, reason: ' '}\n    - {rule: denied, reasn: x}\n    - {subject: x, reason: y}\n",
        );
        let told: Vec<String> = problems.unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "p.yaml:3:12: lint: no rule `nope`; `assay evidence lint --explain all` lists them",
                "p.yaml:3:31: lint: no level `loud`; known are error, warn, info, off",
                "p.yaml:3:37: lint: no rule `credential-raed`; did you mean `credential-read`?",
                "p.yaml:5:7: ignoring `denied` needs a reason",
                "p.yaml:6:22: lint: no key `reasn`; did you mean `reason`?",
                "p.yaml:6:7: ignoring `denied` needs a reason",
                "p.yaml:7:7: an entry of `ignore` names no rule",
            ]
        );
        for text in [
            "lint: {level: {}}",
            "lint: {}\nlint: {}\n",
            "lint: []",
            "lint: {levels: [x]}",
            "lint: {ignore: {}}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    fn read(text: &str) -> Result<Settings, Vec<Problem>> {
        parse("p.yaml", text.as_bytes())
    }
}
