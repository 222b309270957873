//! Which refusals were part of another: an open for reading and writing is one act, and what refused one half of it
//! refused the other. Pure.

use std::collections::BTreeSet;

use crate::evidence::{Evidence, Refusal};
use crate::profile::effect::{Effect, EffectResult, FsEffect, FsOp};

/// Why a read was refused that was asked for together with a write.
pub const IN_PART: &str = "it was asked for together with a write, which was refused";

/// The read of opens for reading and writing that the policy refused for the writing was refused by it too.
pub fn refuse_parts(evidence: &mut Evidence, parts: &BTreeSet<Effect>) {
    let effects = &mut evidence.observed.effects;
    for part in parts {
        let Effect::Fs(FsEffect { path, .. }) = part else { continue };
        let is_refused = [FsOp::Write, FsOp::Create].into_iter().any(|op| {
            let (path, result) = (path.clone(), EffectResult::Denied);
            let whole = effects.get(&Effect::Fs(FsEffect { op, path, to: None, result }));
            whole.is_some_and(|facts| facts.denied_by == Some("policy"))
        });
        if let Some(facts) =
            effects.get_mut(part).filter(|facts| is_refused && facts.denied_by == Some("system"))
        {
            facts.denied_by = Some("policy");
            facts.refused = Some(Box::new(Refusal { rule: None, at: None, remedy: IN_PART.into() }));
        }
    }
}
