//! Many profiles → one: what all runs needed, and what only some did. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::grant_set::GrantSet;
use super::grants::Grants;
use super::wire::{Comments, Grant, Profile, Section};

/// A merged profile, and in how many of the runs each of its rules was needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The rules needed in enough runs.
    pub profile: Profile,
    /// For each access of each rule that is kept: the number of runs.
    pub seen_in: BTreeMap<Rule, usize>,
    /// Rules that were left out because too few runs needed them.
    pub left_out: BTreeMap<Rule, usize>,
    /// How many runs there were.
    pub runs: usize,
}

/// One thing a profile allows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// The list it stands in.
    pub section: Section,
    /// The path, endpoint or program.
    pub text: String,
    /// The access, for `fs`.
    pub grant: Option<Grant>,
}

/// The rules of a profile, one by one.
pub fn rules(profile: &Profile) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (path, grants) in &profile.fs {
        rules.extend(grants.iter().map(|grant| Rule {
            section: Section::Fs,
            text: path.clone(),
            grant: Some(grant),
        }));
    }
    let plain = |section, text: &String| Rule { section, text: text.clone(), grant: None };
    rules.extend(profile.net.iter().map(|text| plain(Section::Net, text)));
    rules.extend(profile.exec.iter().flatten().map(|text| plain(Section::Exec, text)));
    rules
}

/// Merges profiles; a rule is kept when at least `min_runs` of them allow what it does.
pub fn merge(profiles: &[Profile], min_runs: usize) -> Merged {
    let mut seen_in = BTreeMap::new();
    let mut left_out = BTreeMap::new();
    let grants: Vec<Grants<'_>> = profiles.iter().map(Grants::of).collect();
    let mut merged = Profile { deny: merged_denies(profiles, &grants, min_runs), ..Profile::default() };
    // One run without a list of programs had a program that no list can name.
    let is_listed = profiles.iter().all(|profile| profile.exec.is_some());
    if is_listed && !profiles.is_empty() {
        merged.exec = Some(BTreeSet::new());
    }
    for rule in profiles.iter().flat_map(rules) {
        if seen_in.contains_key(&rule) || left_out.contains_key(&rule) {
            continue;
        }
        let count = grants.iter().filter(|grants| grants.allow(&rule)).count();
        if count < min_runs {
            left_out.insert(rule, count);
            continue;
        }
        match (rule.section, rule.grant) {
            (Section::Fs, Some(grant)) => {
                merged.fs.entry(rule.text.clone()).or_default().insert(grant);
            }
            (Section::Fs, None) => {}
            (Section::Net, _) => {
                merged.net.insert(rule.text.clone());
            }
            (Section::Exec, _) => match &mut merged.exec {
                Some(programs) => {
                    programs.insert(rule.text.clone());
                }
                None => {
                    merged.fs.entry(rule.text.clone()).or_default().extend([Grant::Read, Grant::Execute]);
                }
            },
        }
        seen_in.insert(rule, count);
    }
    Merged { profile: merged, seen_in, left_out, runs: profiles.len() }
}

/// Denies of several profiles: an access to a path stays denied where one denies it, and fewer than `min_runs` of the others
/// grant something that it would narrow.
fn merged_denies(profiles: &[Profile], grants: &[Grants<'_>], min_runs: usize) -> BTreeMap<String, GrantSet> {
    let paths: BTreeSet<&String> = profiles.iter().flat_map(|profile| profile.deny.keys()).collect();
    let is_denied = |path: &str, access: Grant| {
        let others = grants.iter().filter(|one| !one.deny(path, access));
        let needed = others.clone().filter(|one| one.concern(path, access)).count();
        others.count() < grants.len() && needed < min_runs.max(1)
    };
    let mut merged = BTreeMap::new();
    for path in paths {
        let accesses: GrantSet = Grant::ALL.into_iter().filter(|access| is_denied(path, *access)).collect();
        if accesses.is_all() {
            merged.insert(path.clone(), GrantSet::new());
        } else if !accesses.is_empty() {
            merged.insert(path.clone(), accesses);
        }
    }
    merged
}

impl Merged {
    /// `seen_in: n/m` beside each rule.
    pub fn comments(&self) -> Comments {
        let mut header = vec![
            format!(
                "What {} did, as a policy: it allows this, and what `base: system` adds.",
                if self.runs == 1 { "1 run".to_owned() } else { format!("{} runs", self.runs) }
            ),
            format!("seen_in: n/{} says how many of them needed a rule", self.runs),
        ];
        if !self.left_out.is_empty() {
            header.push(format!("{} rules that fewer runs needed were left out", self.left_out.len()));
        }
        let mut counts: BTreeMap<_, Vec<(Option<Grant>, usize)>> = BTreeMap::new();
        for (rule, count) in &self.seen_in {
            counts.entry((rule.section, rule.text.clone())).or_default().push((rule.grant, *count));
        }
        let beside = counts.into_iter().map(|(rule, counts)| (rule, self.words(&counts))).collect();
        Comments { header, notes: Vec::new(), beside }
    }

    fn words(&self, counts: &[(Option<Grant>, usize)]) -> String {
        let runs = self.runs;
        if let [(_, first), rest @ ..] = counts
            && rest.iter().all(|(_, count)| count == first)
        {
            return format!("seen_in: {first}/{runs}");
        }
        let each: Vec<String> = counts
            .iter()
            .map(|(grant, count)| format!("{} {count}/{runs}", grant.map_or("", Grant::as_str)))
            .collect();
        format!("seen_in: {}", each.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profile::effort::counting::check_growth_from;
    use crate::profile::wire::{Format, parse};

    fn profile(fs: &[(&str, &[Grant])], net: &[&str], exec: &[&str]) -> Profile {
        Profile {
            fs: fs.iter().map(|(path, grants)| ((*path).into(), grants.iter().copied().collect())).collect(),
            deny: BTreeMap::new(),
            net: net.iter().map(|&rule| rule.into()).collect(),
            exec: Some(exec.iter().map(|&rule| rule.into()).collect()),
        }
    }

    #[test]
    fn rules_are_counted_by_what_each_run_allows() {
        let a =
            profile(&[("/a", &[Grant::Read]), ("/b/c", &[Grant::Read, Grant::Write])], &["h:1"], &["/bin/a"]);
        let b = profile(&[("/b", &[Grant::Read])], &["h:1", "h:2"], &["/bin/a", "/bin/b"]);
        let all = merge(&[a.clone(), b.clone()], 1);
        assert_eq!(
            all.profile.write(&all.comments(), Format::Yaml),
            concat!(
                "# What 2 runs did, as a policy: it allows this, and what `base: system` adds.\n",
                "# seen_in: n/2 says how many of them needed a rule\n",
                "api_version: assay/v1\n",
                "fs:\n  allow:\n",
                "    - {path: /a, access: [read]}  # seen_in: 1/2\n",
                "    - {path: /b, access: [read]}  # seen_in: 1/2\n",
                "    - {path: /b/c, access: [read, write]}  # seen_in: read 2/2, write 1/2\n",
                "net:\n  allow:\n    - \"h:1\"  # seen_in: 2/2\n    - \"h:2\"  # seen_in: 1/2\n",
                "exec:\n  allow:\n    - /bin/a  # seen_in: 2/2\n    - /bin/b  # seen_in: 1/2\n",
            )
        );
        let both = merge(&[a.clone(), b], 2);
        assert_eq!(both.profile, profile(&[("/b/c", &[Grant::Read])], &["h:1"], &["/bin/a"]));
        assert_eq!(both.left_out.len(), 5);
        let text = both.profile.write(&both.comments(), Format::Yaml);
        assert_eq!(parse(&text).unwrap(), both.profile);
        assert_eq!(merge(std::slice::from_ref(&a), 1).profile, a);
    }

    /// What the runs of a profile did that had to write there, so that it denies nothing.
    #[test]
    fn a_path_that_fewer_runs_needed_stays_closed() {
        let all = profile(&[("/w", &[Grant::Read, Grant::Write])], &[], &[]);
        let closed = BTreeMap::from([("/w/hooks".to_owned(), GrantSet::from([Grant::Write]))]);
        let other = Profile { deny: closed.clone(), ..all.clone() };
        let denies = |profiles: &[&Profile], min_runs| {
            merge(&profiles.iter().map(|one| (*one).clone()).collect::<Vec<_>>(), min_runs).profile.deny
        };
        assert_eq!(denies(&[&all, &other], 1), BTreeMap::new());
        assert_eq!(denies(&[&all, &other], 2), closed);
        assert_eq!(denies(&[&all, &other, &other], 2), closed);
        assert_eq!(denies(&[&all, &all, &other], 2), BTreeMap::new());
        assert_eq!(denies(&[&all, &all, &other], 3), closed);
        // What all deny, and what one grants nothing of.
        let none = profile(&[("/x", &[Grant::Write])], &[], &[]);
        assert_eq!(denies(&[&other, &other], 1), closed);
        assert_eq!(denies(&[&other, &none], 1), closed);
    }

    #[test]
    fn many_rules_are_not_gone_through_for_each_other() {
        let of = |number: usize, other: &str| {
            let path = |n: usize| format!("/srv/{other}{}/f{n}", n % 97);
            let deny = (0..number).map(|n| (path(n) + "/x", GrantSet::from([Grant::Write])));
            let fs = (0..number).map(|n| (path(n), GrantSet::from([Grant::Read])));
            Profile { fs: fs.collect(), deny: deny.collect(), ..Profile::default() }
        };
        check_growth_from(1_000, "two profiles", |number| {
            assert_eq!(merge(&[of(number, "a"), of(number, "b")], 1).seen_in.len(), 2 * number);
        });
    }

    fn any_profile() -> impl Strategy<Value = Profile> {
        let grants = || {
            let grant = prop::sample::select(vec![Grant::Read, Grant::List, Grant::Write, Grant::Execute]);
            prop::collection::vec(grant, 1..4).prop_map(GrantSet::from_iter)
        };
        let path = || "/[ab]{1}(/[ab]{1}){0,2}";
        let denied = prop_oneof![
            Just(GrantSet::new()),
            Just(GrantSet::from([Grant::Write])),
            Just(GrantSet::from([Grant::Read, Grant::Execute])),
        ];
        (
            prop::collection::btree_map(path(), grants(), 0..5),
            prop::collection::btree_map(path(), denied, 0..4),
            prop::collection::btree_set("h[12]:[12]", 0..3),
            prop::option::of(prop::collection::btree_set(path(), 0..3)),
        )
            .prop_map(|(fs, deny, net, exec)| Profile { fs, deny, net, exec })
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_order_or_grouping(a in any_profile(), b in any_profile(), c in any_profile()) {
            let of = |profiles: &[&Profile]| {
                merge(&profiles.iter().map(|one| (*one).clone()).collect::<Vec<_>>(), 1).profile
            };
            let all = of(&[&a, &b, &c]);
            prop_assert_eq!(of(&[&c, &a, &b]), all.clone());
            prop_assert_eq!(of(&[&b, &a, &c]), all.clone());
            prop_assert_eq!(of(&[&of(&[&a, &b]), &c]), all.clone());
            prop_assert_eq!(of(&[&a, &of(&[&b, &c])]), all);
            prop_assert_eq!(of(&[&a, &a]), a.clone());
            for min_runs in 1..=3 {
                let one = merge(&[a.clone(), b.clone(), c.clone()], min_runs);
                let other = merge(&[b.clone(), c.clone(), a.clone()], min_runs);
                prop_assert_eq!(&one, &other);
                // Nobody is granted what fewer needed, and nothing that enough needed is missing.
                prop_assert!(one.seen_in.values().all(|count| *count >= min_runs));
                prop_assert!(one.left_out.values().all(|count| *count < min_runs));
            }
        }
    }
}
