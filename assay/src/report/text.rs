//! What was found → text for a terminal. Nothing that comes from a bundle can move the cursor or colour a line.

use std::io::{self, Write};

use crate::evidence::lint::rules::{self, RULES, Rule};
use crate::evidence::lint::{Finding, Level, Report};
use crate::evidence::verify::Verified;
use crate::profile::name::harmless;

/// Colours, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Plain text.
    Plain,
    /// With escape sequences of our own.
    Colored,
}

impl Paint {
    /// The text in this style.
    pub fn style(self, style: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Colored => format!("\x1b[{style}m{text}\x1b[0m"),
        }
    }
}

fn level(level: Level, paint: Paint) -> String {
    let style = match level {
        Level::Error => "31;1",
        Level::Warn => "33;1",
        Level::Info => "36",
    };
    paint.style(style, level.as_str())
}

/// The findings, by rule, with why and what to do.
pub fn lint(out: &mut dyn Write, report: &Report, verified: &Verified, paint: Paint) -> io::Result<()> {
    let mut told: Vec<(&str, Level)> = Vec::new();
    for finding in &report.findings {
        if !told.contains(&(finding.rule, finding.level)) {
            told.push((finding.rule, finding.level));
        }
    }
    for more in &report.more {
        if !told.contains(&(more.0, more.1)) {
            told.push((more.0, more.1));
        }
    }
    for (id, at) in told {
        let Some(rule) = rules::find(id) else { continue };
        writeln!(out, "{} {}: {}", level(at, paint), paint.style("1", id), rule.title)?;
        for finding in report.findings.iter().filter(|finding| finding.rule == id && finding.level == at) {
            writeln!(out, "  {}", line(finding))?;
        }
        for (_, _, count) in report.more.iter().filter(|(more, level, _)| *more == id && *level == at) {
            writeln!(out, "  and {count} more")?;
        }
        writeln!(out, "  why: {}\n  do: {}\n", rule.why, rule.advice)?;
    }
    for (finding, reason) in &report.ignored {
        writeln!(out, "ignored {}: {} ({})", finding.rule, line(finding), harmless(reason))?;
    }
    let count = |at: Level| {
        let listed = report.findings.iter().filter(|finding| finding.level == at).count() as u64;
        listed
            + report.more.iter().filter(|(_, level, _)| *level == at).map(|(_, _, count)| count).sum::<u64>()
    };
    writeln!(
        out,
        "{}: {} events; {} error, {} warn, {} info, {} ignored",
        harmless(&verified.manifest.run_id),
        verified.manifest.event_count,
        count(Level::Error),
        count(Level::Warn),
        count(Level::Info),
        report.ignored.len()
    )
}

fn line(finding: &Finding) -> String {
    let subject = harmless(&finding.subject);
    let message = harmless(&finding.message);
    let place = finding.sequence.map(|sequence| format!(" [event {sequence}]")).unwrap_or_default();
    if subject.is_empty() { format!("{message}{place}") } else { format!("{subject}: {message}{place}") }
}

/// One rule, or all of them.
pub fn explain(out: &mut dyn Write, rules: &[&Rule], paint: Paint) -> io::Result<()> {
    for (at, rule) in rules.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{} ({}): {}", paint.style("1", rule.id), level(rule.level, paint), rule.title)?;
        writeln!(out, "  why: {}\n  do: {}", rule.why, rule.advice)?;
    }
    Ok(())
}

/// Every rule as a table of Markdown, for the documentation.
pub fn rule_table() -> String {
    let rows = RULES.iter().map(|rule| {
        format!(
            "| `{}` | {} | {} | {} | {} |\n",
            rule.id,
            rule.level.as_str(),
            rule.title,
            rule.why,
            rule.advice
        )
    });
    let head = "| rule | level | what | why | what to do |\n| --- | --- | --- | --- | --- |\n".to_owned();
    std::iter::once(head).chain(rows).collect()
}
