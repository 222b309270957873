//! The `lint:` section of `assay.yaml` → levels and ignored findings. Pure: the caller reads the file.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::places::glob;
use super::{Level, rules};

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

#[derive(Deserialize)]
struct File {
    lint: Option<Section>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(default)]
    levels: BTreeMap<String, Word>,
    #[serde(default)]
    ignore: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Error,
    Warn,
    Info,
    Off,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    rule: String,
    subject: Option<String>,
    reason: String,
}

/// Reads the section; every problem at once.
pub fn parse(text: &str) -> Result<Settings, Vec<String>> {
    let file: File = match serde_saphyr::from_str(text) {
        Ok(file) => file,
        Err(error) => return Err(vec![error.to_string()]),
    };
    let Some(section) = file.lint else { return Ok(Settings::default()) };
    let mut problems = Vec::new();
    let mut demand_rule = |rule: &str| {
        if rules::find(rule).is_none() {
            problems.push(format!("lint: no rule `{rule}`; `assay evidence lint --explain all` lists them"));
        }
    };
    let mut settings = Settings::default();
    for (rule, word) in section.levels {
        demand_rule(&rule);
        let level = match word {
            Word::Error => Some(Level::Error),
            Word::Warn => Some(Level::Warn),
            Word::Info => Some(Level::Info),
            Word::Off => None,
        };
        settings.levels.insert(rule, level);
    }
    for entry in &section.ignore {
        demand_rule(&entry.rule);
    }
    for entry in section.ignore {
        if entry.reason.trim().is_empty() {
            problems.push(format!("lint: ignoring `{}` needs a reason", entry.rule));
        }
        settings.ignored.push(Ignored { rule: entry.rule, subject: entry.subject, reason: entry.reason });
    }
    if problems.is_empty() { Ok(settings) } else { Err(problems) }
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
        let settings = parse(
            "api_version: assay/v1\nfs: {allow: [/usr]}\nlint:\n  levels: {denied: warn, clock-odd: off}\n  \
             ignore:\n    - {rule: credential-read, subject: '*/.npmrc', reason: the registry is public}\n",
        )
        .unwrap();
        assert_eq!(settings.level("denied", Level::Info), Some(Level::Warn));
        assert_eq!(settings.level("clock-odd", Level::Warn), None);
        assert_eq!(settings.level("credential-read", Level::Error), Some(Level::Error));
        assert_eq!(settings.ignored("credential-read", "${HOME}/.npmrc"), Some("the registry is public"));
        assert_eq!(settings.ignored("credential-read", "/etc/shadow"), None);
        assert!(parse("api_version: assay/v1\n").unwrap().is_empty());
    }

    #[test]
    fn what_would_silence_nothing_or_without_reason_is_refused() {
        let problems =
            parse("lint: {levels: {nope: off}, ignore: [{rule: denied, reason: ' '}]}").unwrap_err();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(parse("lint: {ignore: [{rule: denied}]}").is_err(), "a reason is demanded");
        assert!(parse("lint: {level: {}}").is_err());
        assert!(parse("lint: {levels: {denied: loud}}").is_err());
        assert!(parse("lint: {}\nlint: {}\n").is_err());
    }
}
