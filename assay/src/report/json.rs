//! What was found → JSON for programs. Canonical, so that equal findings are equal bytes.

use crate::canon::value::{Object, Value};
use crate::evidence::lint::{Finding, Level, Report};
use crate::evidence::verify::Verified;

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
