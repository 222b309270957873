//! Which deny it was whose mount stopped an act that the policy by itself allows. Pure.

use crate::enforce::Plan;
use crate::enforce::split::is_at_or_beneath;
use crate::evidence::Refusal;
use crate::policy::Policy;
use crate::policy::check::path_of_name;
use crate::policy::rule::PathRule;
use crate::profile::effect::{Effect, FsOp};

/// Why it ended, with the deny where it can be told which.
pub fn refusal(policy: &Policy, plan: &Plan, effect: &Effect, roots: &[(String, Vec<u8>)]) -> Refusal {
    let what = "a mount that holds a deny at, above or beneath it was in the way";
    match deny_in_the_way(policy, plan, effect, roots) {
        Some(rule) => Refusal {
            rule: Some(rule.text.clone()),
            at: Some(rule.place.to_string()),
            remedy: format!("{what}: remove or narrow `{}` at {}", rule.text, rule.place),
        },
        None => Refusal { rule: None, at: None, remedy: what.into() },
    }
}

fn deny_in_the_way<'a>(
    policy: &'a Policy,
    plan: &Plan,
    effect: &Effect,
    roots: &[(String, Vec<u8>)],
) -> Option<&'a PathRule> {
    let Effect::Fs(fs) = effect else { return None };
    let to = fs.to.as_ref().filter(|_| fs.op != FsOp::Symlink);
    let names: Vec<Vec<u8>> =
        std::iter::once(&fs.path).chain(to).map(|name| path_of_name(name, roots)).collect();
    let is_stopped_at = |point: &Vec<u8>| {
        let inside = names.iter().filter(|name| is_at_or_beneath(name, point)).count();
        // Nothing goes over its edge, and it cannot be moved with what is above it.
        let is_crossed = inside > 0 && inside < names.len();
        is_crossed || names.iter().any(|name| is_at_or_beneath(point, name))
    };
    let mut holds = plan.holds.iter().filter(|hold| {
        names.iter().any(|name| is_at_or_beneath(name, &hold.path))
            || std::iter::once(&hold.path).chain(&hold.pins).any(is_stopped_at)
    });
    holds.find_map(|hold| {
        let denies = |rule: &&PathRule| rule.patterns.iter().any(|pattern| pattern.covers(&hold.path));
        policy.fs_deny.iter().find(denies)
    })
}
