//! Findings → SARIF 2.1.0, as code-scanning pages accept it: every result has a file and a line.
//!
//! A finding about a file of the work directory points at that file, relative to the root of the repository; any
//! other at the bundle, with the line of its event.

use std::fmt::Write as _;

use crate::canon::digest::Digest;
use crate::canon::value::{Object, Value};
use crate::evidence::lint::rules::{RULES, Rule};
use crate::evidence::lint::{Finding, Level, Report};
use crate::profile::name::{harmless, unescape};

/// The schema that the output follows.
pub const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The log of one lint run over the bundle of this name.
pub fn lint(report: &Report, bundle: &str, version: &str) -> Value {
    let mut results: Vec<Value> = report.findings.iter().map(|one| result(one, bundle).into()).collect();
    results.extend(report.more.iter().map(|(rule, level, count)| {
        let finding = Finding {
            rule,
            level: *level,
            subject: String::new(),
            message: format!("{count} more findings of this rule"),
            sequence: None,
        };
        Value::from(result(&finding, bundle))
    }));
    results.extend(report.ignored.iter().map(|(one, reason)| {
        let mut result = result(one, bundle);
        let suppression =
            Object::from([("justification", reason.as_str().into()), ("kind", "external".into())]);
        result.set("suppressions", vec![suppression.into()]);
        Value::from(result)
    }));
    let driver = Object::from([
        ("name", "assay".into()),
        ("rules", RULES.iter().map(|one| rule(one).into()).collect::<Vec<Value>>().into()),
        ("semanticVersion", version.into()),
    ]);
    let run = Object::from([
        ("automationDetails", Object::from([("id", "assay/evidence-lint/".into())]).into()),
        ("columnKind", "utf16CodeUnits".into()),
        ("results", results.into()),
        ("tool", Object::from([("driver", driver.into())]).into()),
    ]);
    Object::from([
        ("$schema", SCHEMA.into()),
        ("runs", Value::Array(vec![run.into()])),
        ("version", "2.1.0".into()),
    ])
    .into()
}

fn text(text: &str) -> Value {
    Object::from([("text", text.into())]).into()
}

fn rule(rule: &Rule) -> Object {
    Object::from([
        ("defaultConfiguration", Object::from([("level", level(rule.level).into())]).into()),
        ("fullDescription", text(rule.why)),
        ("help", text(rule.advice)),
        ("id", rule.id.into()),
        ("name", rule.id.into()),
        ("shortDescription", text(rule.title)),
    ])
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warning",
        Level::Info => "note",
    }
}

fn result(finding: &Finding, bundle: &str) -> Object {
    let at = RULES.iter().position(|rule| rule.id == finding.rule).unwrap_or(0);
    let subject = harmless(&finding.subject);
    let message = if subject.is_empty() {
        harmless(&finding.message).into_owned()
    } else {
        format!("{subject}: {}", harmless(&finding.message))
    };
    // A message is read as text with links in brackets; a backslash takes their meaning away.
    let message = message.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]");
    let (uri, line) = match finding.subject.strip_prefix("${WORKDIR}/") {
        Some(path) if !path.is_empty() => (uri(path), 1),
        _ => (uri(bundle.trim_start_matches('/')), finding.sequence.map_or(1, |sequence| sequence + 1)),
    };
    let physical = Object::from([
        ("artifactLocation", Object::from([("uri", uri.into()), ("uriBaseId", "%SRCROOT%".into())]).into()),
        ("region", Object::from([("startLine", Value::count(line))]).into()),
    ]);
    let fingerprint = Digest::of(format!("{}\n{}", finding.rule, finding.subject).as_bytes()).hex();
    Object::from([
        ("level", level(finding.level).into()),
        ("locations", vec![Object::from([("physicalLocation", physical.into())]).into()].into()),
        ("message", text(&message)),
        ("partialFingerprints", Object::from([("assayFinding/v1", fingerprint.into())]).into()),
        ("ruleId", finding.rule.into()),
        ("ruleIndex", Value::count(at as u64)),
    ])
}

/// A relative URI of a name: the bytes behind its escapes, percent-encoded.
fn uri(name: &str) -> String {
    let bytes = unescape(name).unwrap_or_else(|| name.as_bytes().to_vec());
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(byte as char);
            }
            _ => write!(out, "%{byte:02X}").expect("writing to a String cannot fail"),
        }
    }
    // Nothing may climb out of the repository, or name another host.
    let parts = out.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect::<Vec<_>>();
    if parts.is_empty() { "bundle".to_owned() } else { parts.join("/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_uri_that_cannot_climb() {
        for (name, expect) in [
            ("src/a b.rs", "src/a%20b.rs"),
            ("x\\xff\\x0ay", "x%FF%0Ay"),
            ("../../etc//passwd", "etc/passwd"),
            ("http://host/x", "http%3A/host/x"),
            ("//host/x", "host/x"),
            ("..", "bundle"),
        ] {
            assert_eq!(uri(name), expect);
        }
    }

    #[test]
    fn a_finding_points_at_the_file_of_the_repository_or_at_the_event() {
        let finding = |subject: &str| Finding {
            rule: "denied",
            level: Level::Info,
            subject: subject.into(),
            message: "write".into(),
            sequence: Some(7),
        };
        let place = |subject: &str| {
            let result = result(&finding(subject), "out/run.tar.gz");
            let location = result.get("locations").and_then(Value::as_array).unwrap()[0].as_object().unwrap();
            let physical = location.get("physicalLocation").and_then(Value::as_object).unwrap();
            let artifact = physical.get("artifactLocation").and_then(Value::as_object).unwrap();
            let region = physical.get("region").and_then(Value::as_object).unwrap();
            let line = region.get("startLine").and_then(Value::as_count).unwrap();
            (artifact.str("uri").unwrap().to_owned(), line)
        };
        assert_eq!(place("${WORKDIR}/.git/hooks/x"), (".git/hooks/x".into(), 1));
        assert_eq!(place("/etc/shadow"), ("out/run.tar.gz".into(), 8));
    }

    #[test]
    fn a_hostile_subject_makes_no_link() {
        let finding = Finding {
            rule: "denied",
            level: Level::Info,
            subject: "[click](https://example.com)\u{1b}[2J".into(),
            message: "write".into(),
            sequence: None,
        };
        let result = result(&finding, "b");
        let message = result.get("message").and_then(Value::as_object).unwrap().str("text").unwrap();
        assert_eq!(message, "\\[click\\](https://example.com)\\\\x1b\\[2J: write");
    }
}
