//! What was found → JSON for programs. Canonical, so that equal findings are equal bytes.

use std::fmt::Write as _;

use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::lint::{Finding, Level, Report};
use crate::evidence::verify::Verified;
use crate::profile::name::must_escape;

/// The text of a value: canonical, but for characters that a terminal, an editor or a CI service's log (`##vso[…]`) would
/// act on, which are escaped.
pub fn to_text(value: &Value) -> String {
    escaped(write::to_string(value))
}

/// JSON in which such characters are escaped. Where it has lines, it keeps them.
pub fn escaped(json: String) -> String {
    let text = json;
    let is_acted_on = |c: char| must_escape(c) && c != '\n';
    if !(text.contains(is_acted_on) || text.contains("##")) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 64);
    let mut before = ' ';
    for c in text.chars() {
        let is_second = c == '#' && before == '#';
        before = c;
        if is_second || is_acted_on(c) {
            // All of them are one unit of UTF-16, and stand only inside strings.
            write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a String cannot fail");
        } else {
            out.push(c);
        }
    }
    out
}

/// `{findings, ignored, more, run_id, run_root, counts}`
pub fn lint(report: &Report, verified: &Verified) -> Value {
    let findings: Vec<Value> = report.findings.iter().map(|one| finding(one).into()).collect();
    let ignored: Vec<Value> = report
        .ignored
        .iter()
        .map(|(one, reason)| {
            let mut object = finding(one);
            object.set("reason", reason.as_str());
            object.into()
        })
        .collect();
    let more: Vec<Value> = report
        .more
        .iter()
        .map(|(rule, level, count)| {
            Object::from([
                ("count", Value::count(*count)),
                ("level", level.as_str().into()),
                ("rule", (*rule).into()),
            ])
            .into()
        })
        .collect();
    let counts = [Level::Error, Level::Warn, Level::Info].map(|level| {
        let listed = report.findings.iter().filter(|finding| finding.level == level).count() as u64;
        let more: u64 = report.more.iter().filter(|(_, at, _)| *at == level).map(|(_, _, count)| count).sum();
        (level.as_str(), Value::count(listed + more))
    });
    Object::from([
        ("counts", Object::from(counts).into()),
        ("findings", findings.into()),
        ("ignored", ignored.into()),
        ("more", more.into()),
        ("run_id", verified.manifest.run_id.as_str().into()),
        ("run_root", verified.manifest.run_root.to_string().into()),
    ])
    .into()
}

fn finding(finding: &Finding) -> Object {
    let mut object = Object::from([
        ("level", finding.level.as_str().into()),
        ("message", finding.message.as_str().into()),
        ("rule", finding.rule.into()),
        ("subject", finding.subject.as_str().into()),
    ]);
    object.set_some("event", finding.sequence.map(Value::count));
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped_and_reads_back_the_same() {
        let value = Value::from("a\u{9b}2J\u{7f}\u{202e}\u{feff}\n\u{1f980}");
        let text = to_text(&value);
        assert_eq!(text, "\"a\\u009b2J\\u007f\\u202e\\ufeff\\n\u{1f980}\"");
        assert_eq!(crate::canon::read::parse(text.as_bytes()), Ok(value));
    }
}
