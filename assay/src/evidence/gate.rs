//! A bundle × a policy × a baseline → pass, or the reasons why not. Pure.
//!
//! A bundle that claims nothing, or does not vouch for all it should, does not pass: absence of bad news has to be
//! news itself.

use crate::canon::value::Value;
use crate::evidence::events::kind;
use crate::evidence::halves::{Half, Halves};
use crate::evidence::lint::seen::Seen;
use crate::evidence::manifest::Manifest;
use crate::evidence::verify::Event;
use crate::evidence::view::{Content, View};
use crate::observe::loss::Kind;
use crate::policy::{Policy, Verdict, judge_effect_at};
use crate::profile::effect::EffectResult;

/// What a bundle is held against.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms<'a> {
    /// The policy that must allow every action.
    pub policy: Option<&'a Policy>,
    /// The run that it must not go beyond.
    pub baseline: Option<&'a Baseline>,
    /// What is not complete is accepted as well.
    pub partial: Partial,
}

/// Whether a record that is not complete can pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Partial {
    /// It cannot.
    #[default]
    Refused,
    /// It can, if somebody asked for that.
    Accepted,
}

/// What a run did, as halves of hashes.
#[derive(Debug, Clone, Default)]
pub struct Baseline {
    gathered: Vec<Half>,
    halves: Halves,
}

impl Baseline {
    /// Takes one event of the baseline in.
    pub fn add(&mut self, event: &Event) {
        if !matches!(event.kind(), kind::SUMMARY | kind::FINISHED) {
            self.gathered.push(event.half_hash());
        }
    }

    /// Makes it ready to be asked.
    pub fn finish(&mut self) {
        self.halves = Halves::new(std::mem::take(&mut self.gathered));
    }

    fn has(&self, event: &Event) -> bool {
        self.halves.has(event.half_hash())
    }
}

/// Why a bundle does not pass, or what is worth saying though it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// A stable word.
    pub code: &'static str,
    /// What it concerns; empty for the bundle as a whole.
    pub subject: String,
    /// For a person.
    pub detail: String,
    /// The event, when there is one.
    pub sequence: Option<u64>,
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judgement {
    /// Why it does not pass; it passes when there are none.
    pub reasons: Vec<Reason>,
    /// Reasons beyond [`MOST`], which are only counted.
    pub more_reasons: u64,
    /// What is worth saying and fails nothing.
    pub notes: Vec<Reason>,
    /// Notes beyond [`MOST`].
    pub more_notes: u64,
}

impl Judgement {
    /// Whether it passes.
    pub fn is_pass(&self) -> bool {
        self.reasons.is_empty()
    }
}

/// How many reasons, and how many notes, are told one by one.
pub const MOST: usize = 500;

/// Judges a bundle while it is read.
pub struct Gate<'a> {
    terms: Terms<'a>,
    roots: Vec<(String, Vec<u8>)>,
    seen: Seen,
    judgement: Judgement,
    acts: u64,
}

impl<'a> Gate<'a> {
    /// A gate with these terms. The policy must have been resolved against [`crate::policy::Context::symbolic`].
    pub fn new(terms: Terms<'a>) -> Self {
        let roots = ["WORKDIR", "TMPDIR", "HOME", "CALLER_TMPDIR", "RUNTIME_DIR"]
            .map(|variable| (variable.to_owned(), format!("/${{{variable}}}").into_bytes()));
        Self { terms, roots: roots.into(), seen: Seen::default(), judgement: Judgement::default(), acts: 0 }
    }

    /// Looks at one event.
    pub fn event(&mut self, manifest: &Manifest, event: &Event) {
        let view = View::new(event);
        if let Some(baseline) = self.terms.baseline
            && !matches!(view.content, Content::Summary | Content::Finished)
            && !baseline.has(event)
        {
            let what =
                if view.content == Content::Started { "another command" } else { "the baseline did not" };
            self.fail("beyond-baseline", &view, what.to_owned());
        }
        match view.content {
            Content::Unknown => {
                self.fail("unknown-event", &view, format!("{}: nothing here can judge it", event.kind()));
            }
            Content::Fs { .. } | Content::Exec { .. } | Content::Net { .. } => self.act(&view),
            Content::Degraded { component, reason, .. } => {
                self.note("degraded", &view, format!("{component}: {reason}"));
            }
            Content::Started | Content::Summary | Content::Finished => {}
        }
        self.seen.add(manifest, view);
    }

    fn act(&mut self, view: &View<'_>) {
        self.acts += 1;
        let effect = match view.strict_effect() {
            Ok(Some(effect)) => effect,
            Ok(None) => return,
            Err(error) => return self.fail("malformed", view, error.problem.clone()),
        };
        let Some(policy) = self.terms.policy else { return };
        let Verdict::Denied(denial) = judge_effect_at(policy, effect, &view.addresses(), &self.roots) else {
            return;
        };
        let result = match effect {
            crate::profile::effect::Effect::Fs(fs) => fs.result,
            crate::profile::effect::Effect::Exec(exec) => exec.result,
            crate::profile::effect::Effect::Net(net) => net.result,
        };
        let detail = format!("{}: {}", denial.what, denial.why());
        match (result, view.denied_by()) {
            // The machine would have stopped it with any policy.
            (EffectResult::Denied, Some(by @ ("system" | "launch"))) => {
                self.note("denied", view, format!("{detail}; refused by {by} anyway"));
            }
            (EffectResult::Denied, _) => self.fail("tried", view, detail),
            (EffectResult::Ok, _) => self.fail("not-allowed", view, detail),
        }
    }

    /// Looks at the whole, and ends.
    pub fn finish(mut self) -> Judgement {
        self.seen.close();
        for (kind, name) in
            [(kind::STARTED, "beginning"), (kind::SUMMARY, "summary"), (kind::FINISHED, "end")]
        {
            if self.seen.count(kind) != 1 {
                self.fail_whole("incomplete", format!("the record has not exactly one {name}"));
            }
        }
        if self.acts == 0 {
            self.fail_whole("claims-nothing", "no file, program or connection is in the record".to_owned());
        }
        for problem in self.seen.count_problems() {
            self.fail_whole("counts-differ", problem);
        }
        if let Some(computed) = self.seen.computed_run_id()
            && computed != self.seen.run_id
        {
            self.fail_whole("run-id-differs", format!("the events give {computed}"));
        }
        self.judge_coverage();
        self.judgement
    }

    fn judge_coverage(&mut self) {
        let mut gaps = Vec::new();
        for kind in Kind::ALL {
            let attribute = format!("assaycoverage{}", kind.as_str());
            let word =
                self.seen.summary.as_ref().and_then(|summary| summary.str(&attribute)).unwrap_or("unstated");
            if word != "complete" {
                gaps.push((
                    "coverage",
                    kind.as_str(),
                    format!("coverage is {}", crate::profile::name::harmless(word)),
                ));
            }
        }
        match self
            .seen
            .summary
            .as_ref()
            .and_then(|summary| summary.get("assaylost"))
            .and_then(Value::as_count)
        {
            Some(0) => {}
            Some(lost) => gaps.push(("events-lost", "", format!("{lost} events were lost"))),
            None => gaps.push(("events-lost", "", "how many events were lost is not stated".to_owned())),
        }
        for (code, subject, detail) in gaps {
            let reason = Reason { code, subject: subject.into(), detail, sequence: None };
            match self.terms.partial {
                Partial::Refused => self.push(reason),
                Partial::Accepted => self.judgement.notes.push(reason),
            }
        }
    }

    fn fail(&mut self, code: &'static str, view: &View<'_>, detail: String) {
        self.push(reason(code, view, detail));
    }

    fn fail_whole(&mut self, code: &'static str, detail: String) {
        self.push(Reason { code, subject: String::new(), detail, sequence: None });
    }

    fn push(&mut self, reason: Reason) {
        if self.judgement.reasons.len() < MOST {
            self.judgement.reasons.push(reason);
        } else {
            self.judgement.more_reasons += 1;
        }
    }

    fn note(&mut self, code: &'static str, view: &View<'_>, detail: String) {
        if self.judgement.notes.len() < MOST {
            self.judgement.notes.push(reason(code, view, detail));
        } else {
            self.judgement.more_notes += 1;
        }
    }
}

fn reason(code: &'static str, view: &View<'_>, detail: String) -> Reason {
    let subject = view.event.subject().unwrap_or_default().to_owned();
    Reason { code, subject, detail, sequence: Some(view.event.sequence) }
}

#[cfg(test)]
mod tests;
