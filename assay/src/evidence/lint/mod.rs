//! A bundle → what a reviewer should see. Runs every rule on every event, gathers findings, never stops at the
//! first. Pure.

use crate::evidence::manifest::Manifest;
use crate::evidence::verify::{Event, Verified};
use crate::evidence::view::View;

mod checks;
pub mod places;
pub mod rules;
pub mod seen;
pub mod settings;

use rules::{Check, RULES, Rule};
use seen::Seen;
use settings::Settings;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Worth knowing.
    Info,
    /// Worth a look.
    Warn,
    /// Not to be passed without a reason.
    Error,
}

impl Level {
    /// The word in every format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// One complaint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static str,
    /// How bad it is, after the project's settings.
    pub level: Level,
    /// What it concerns: a name, an endpoint, or empty for the bundle as a whole.
    pub subject: String,
    /// What was seen, in a few words.
    pub message: String,
    /// The event, when there is one.
    pub sequence: Option<u64>,
}

/// What lint found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The findings: the worst first, then by rule and event.
    pub findings: Vec<Finding>,
    /// Findings beyond [`MOST_PER_RULE`], by rule.
    pub more: Vec<(&'static str, Level, u64)>,
    /// Findings that the settings ignore, with the reason.
    pub ignored: Vec<(Finding, String)>,
}

impl Report {
    /// The worst level there is.
    pub fn worst(&self) -> Option<Level> {
        let listed = self.findings.iter().map(|finding| finding.level);
        listed.chain(self.more.iter().map(|(_, level, _)| *level)).max()
    }
}

/// How many findings of one rule are told one by one; the rest is counted.
pub const MOST_PER_RULE: usize = 200;

/// What a rule's check says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it concerns.
    pub subject: String,
    /// What was seen.
    pub message: String,
    /// Another level than the rule's own.
    pub level: Option<Level>,
    /// The event, when there is one.
    pub sequence: Option<u64>,
}

/// Runs the rules over a bundle while it is read.
pub struct Linter<'a> {
    settings: &'a Settings,
    seen: Seen,
    tallies: Vec<Tally>,
    report: Report,
}

#[derive(Debug, Clone, Default)]
struct Tally {
    listed: usize,
    ignored: usize,
    more: u64,
    more_level: Option<Level>,
}

impl<'a> Linter<'a> {
    /// A linter with a project's settings.
    pub fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            seen: Seen::default(),
            tallies: vec![Tally::default(); RULES.len()],
            report: Report::default(),
        }
    }

    /// Looks at one event.
    pub fn event(&mut self, manifest: &Manifest, event: &Event) {
        let view = View::new(event);
        for (at, rule) in RULES.iter().enumerate() {
            if let Check::Event(check) = rule.check
                && let Some(found) = check(&self.seen, &view)
            {
                self.add(at, rule, Found { sequence: Some(event.sequence), ..found });
            }
        }
        self.seen.add(manifest, view);
    }

    /// Looks at the whole, and ends.
    pub fn finish(mut self, verified: &Verified) -> Report {
        self.seen.close();
        for (at, rule) in RULES.iter().enumerate() {
            if let Check::Whole(check) = rule.check {
                for found in check(&self.seen, verified) {
                    self.add(at, rule, found);
                }
            }
        }
        for (rule, tally) in RULES.iter().zip(&self.tallies) {
            if let Some(level) = tally.more_level {
                self.report.more.push((rule.id, level, tally.more));
            }
        }
        let place = |finding: &Finding| RULES.iter().position(|rule| rule.id == finding.rule);
        self.report.findings.sort_by(|a, b| {
            b.level.cmp(&a.level).then(place(a).cmp(&place(b))).then(a.sequence.cmp(&b.sequence))
        });
        self.report
    }

    fn add(&mut self, at: usize, rule: &Rule, found: Found) {
        let Some(level) = self.settings.level(rule.id, found.level.unwrap_or(rule.level)) else { return };
        let finding = Finding {
            rule: rule.id,
            level,
            subject: found.subject,
            message: found.message,
            sequence: found.sequence,
        };
        let tally = &mut self.tallies[at];
        if let Some(reason) = self.settings.ignored(rule.id, &finding.subject) {
            if tally.ignored < MOST_PER_RULE {
                tally.ignored += 1;
                self.report.ignored.push((finding, reason.to_owned()));
            }
        } else if tally.listed < MOST_PER_RULE {
            tally.listed += 1;
            self.report.findings.push(finding);
        } else {
            tally.more += 1;
            tally.more_level = tally.more_level.max(Some(level));
        }
    }
}

#[cfg(test)]
mod tests;
