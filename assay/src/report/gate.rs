//! The verdict of a gate → text and JSON.

use std::io::{self, Write};

use super::text::Paint;
use crate::canon::value::{Object, Value};
use crate::evidence::gate::{Judgement, Reason};
use crate::evidence::verify::Verified;
use crate::profile::name::harmless;

/// What the bundle was held against, for the record.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// The digest of the policy.
    pub policy_digest: Option<String>,
    /// The run id of the baseline.
    pub baseline_run_id: Option<String>,
}

/// For a person: one line that says it, then a line for each reason.
pub fn text(out: &mut dyn Write, judgement: &Judgement, verified: &Verified, paint: Paint) -> io::Result<()> {
    let verdict = if judgement.is_pass() { paint.style("32;1", "pass") } else { paint.style("31;1", "fail") };
    writeln!(out, "{verdict}: {}", harmless(&verified.manifest.run_id))?;
    lines(out, "", &judgement.reasons, judgement.more_reasons)?;
    lines(out, "note ", &judgement.notes, judgement.more_notes)
}

fn lines(out: &mut dyn Write, prefix: &str, reasons: &[Reason], more: u64) -> io::Result<()> {
    for reason in reasons {
        let subject = harmless(&reason.subject);
        let separator = if subject.is_empty() { "" } else { ": " };
        let place = reason.sequence.map(|sequence| format!(" [event {sequence}]")).unwrap_or_default();
        writeln!(out, "  {prefix}{}: {subject}{separator}{}{place}", reason.code, harmless(&reason.detail))?;
    }
    if more > 0 {
        writeln!(out, "  {prefix}and {more} more")?;
    }
    Ok(())
}

/// `{verdict, reasons, notes, more_reasons, more_notes, run_id, run_root, policy_digest?, baseline_run_id?}`
pub fn json(judgement: &Judgement, verified: &Verified, terms: &Terms) -> Value {
    let list = |reasons: &[Reason]| -> Value {
        let reasons = reasons.iter().map(|reason| {
            let mut object = Object::from([
                ("code", reason.code.into()),
                ("detail", reason.detail.as_str().into()),
                ("subject", reason.subject.as_str().into()),
            ]);
            object.set_some("event", reason.sequence.map(Value::count));
            Value::from(object)
        });
        reasons.collect::<Vec<_>>().into()
    };
    let mut object = Object::from([
        ("more_notes", Value::count(judgement.more_notes)),
        ("more_reasons", Value::count(judgement.more_reasons)),
        ("notes", list(&judgement.notes)),
        ("reasons", list(&judgement.reasons)),
        ("run_id", verified.manifest.run_id.as_str().into()),
        ("run_root", verified.manifest.run_root.to_string().into()),
        ("verdict", if judgement.is_pass() { "pass" } else { "fail" }.into()),
    ]);
    object.set_some("policy_digest", terms.policy_digest.as_deref());
    object.set_some("baseline_run_id", terms.baseline_run_id.as_deref());
    object.into()
}
