//! The names that a policy speaks of → classes of names, as the kernel half tells them apart. Pure.
//!
//! A class is all that the policy says to a name. The kernel half finds it by the longest end of the name that a rule
//! has; so a class has the rules of its own end, and those of every shorter one.

use std::collections::BTreeMap;

use crate::policy::check::is_name;
use crate::policy::net::{NetRule, Ports, Target};

/// More are not told apart: each costs a look-up at every connection.
pub const MAX_CLASSES: usize = 64;

/// What a policy says to the names of one class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NameClass {
    /// The end of its names, backwards, as the kernel half keeps them: a whole name has a NUL behind it.
    pub reversed: Vec<u8>,
    /// Ports at which their addresses may be reached.
    pub allow: Vec<Ports>,
    /// Ports at which they may not.
    pub deny: Vec<Ports>,
}

/// The classes of a policy's rules. Numbers count from 1.
pub fn classes(allow: &[NetRule], deny: &[NetRule]) -> Vec<NameClass> {
    let mut rules: BTreeMap<Vec<u8>, (Vec<Ports>, Vec<Ports>)> = BTreeMap::new();
    for (list, is_deny) in [(allow, false), (deny, true)] {
        for rule in list.iter().filter(|rule| is_name(&rule.target)) {
            let Target::Host(name) = &rule.target else { continue };
            let (allowed, denied) = rules.entry(reversed(name)).or_default();
            if is_deny { denied } else { allowed }.push(rule.ports);
        }
    }
    let mut classes = Vec::with_capacity(rules.len());
    // In order of their bytes, the ends that another begins with come before it and are open when it comes.
    let mut open: Vec<(&Vec<u8>, &(_, _))> = Vec::new();
    for (end, ports) in &rules {
        while open.last().is_some_and(|(shorter, _)| !end.starts_with(shorter)) {
            open.pop();
        }
        open.push((end, ports));
        let mut class = NameClass { reversed: end.clone(), ..NameClass::default() };
        for (_, (allow, deny)) in &open {
            class.allow.extend(allow);
            class.deny.extend(deny);
        }
        classes.push(class);
    }
    classes
}

/// A rule's name backwards: `*.b.c` as `c.b.`, which every name below begins with, `a.b.c` as `c.b.a` and a NUL.
fn reversed(name: &str) -> Vec<u8> {
    match name.strip_prefix('*') {
        Some(end) => end.bytes().rev().collect(),
        None => name.bytes().rev().chain([0]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::load::{Context, NoFiles, load_bytes};

    #[test]
    fn a_class_has_the_rules_of_its_end_and_of_every_shorter_one() {
        let text = "api_version: assay/v1\nnet: {allow: ['*.b.c:443', 'a.b.c:80', '10.0.0.1:1', localhost], deny: ['a.b.c:81', '*.a.b.c']}";
        let policy = load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).unwrap();
        let port = |port| Ports { low: port, high: port };
        let class = |reversed: &[u8], allow: &[Ports], deny: &[Ports]| NameClass {
            reversed: reversed.to_vec(),
            allow: allow.to_vec(),
            deny: deny.to_vec(),
        };
        assert_eq!(
            classes(&policy.net_allow, &policy.net_deny),
            [
                class(b"c.b.", &[port(443)], &[]),
                class(b"c.b.a\0", &[port(443), port(80)], &[port(81)]),
                class(b"c.b.a.", &[port(443)], &[Ports::ANY]),
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn a_class_is_what_each_rule_says_of_its_end(names in proptest::collection::vec(("[ab*]{1,3}", 1u16..4, proptest::bool::ANY), 0..30)) {
            let rule = |(name, port, _): &(String, u16, bool)| NetRule {
                text: name.clone(),
                place: crate::policy::problem::Place { file: "p".into(), line: 1, column: 1 },
                target: Target::Host(name.clone()),
                ports: Ports { low: *port, high: *port },
            };
            let of = |is_deny| names.iter().filter(|one| one.2 == is_deny).map(rule).collect::<Vec<_>>();
            let (allow, deny) = (of(false), of(true));
            let said = |rules: &[NetRule], end: &[u8]| {
                let mut all: Vec<_> = rules
                    .iter()
                    .filter(|rule| matches!(&rule.target, Target::Host(name) if end.starts_with(&reversed(name))))
                    .map(|rule| rule.ports.low)
                    .collect();
                all.sort_unstable();
                all
            };
            let told = |ports: &[Ports]| {
                let mut all: Vec<_> = ports.iter().map(|ports| ports.low).collect();
                all.sort_unstable();
                all
            };
            for class in classes(&allow, &deny) {
                proptest::prop_assert_eq!(told(&class.allow), said(&allow, &class.reversed));
                proptest::prop_assert_eq!(told(&class.deny), said(&deny, &class.reversed));
            }
        }
    }
}
