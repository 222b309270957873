//! Policy × what lies there × what this kernel offers → [`Plan`]: what is told to the kernel, and what is not held.
//!
//! Pure. Nothing is dropped: each rule ends as held, as moot, or as a degradation that names it.

use std::collections::{BTreeMap, BTreeSet};

use super::grant::{Filter, Ruleset};
use super::links::show;
use super::means::Means;
use super::mounts::{Hold, Means as MountMeans, Shown};
use super::net_plan::{self, NetTable};
use super::placeholders::{Placeholders, group};
use super::split::{Grant, add_grants, between, is_at_or_beneath, is_beneath, is_listed};
use super::status::PROCESSES_VISIBLE;
use super::status::{Component, Degradation, Held, RuleStatus, not_governed};
use super::survey::{Found, Kind, Survey};
use crate::host::{Landlock, Right};
use crate::policy::check::{Request, judge, shows_others};
use crate::policy::rule::{Access, AccessSet, PathRule, Policy};

/// What is told to the kernel, and what is not held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// For Landlock.
    pub ruleset: Ruleset,
    /// For the child's mount namespace, in order.
    pub holds: Vec<Hold>,
    /// Before those: names that only the command sees.
    pub placeholders: Vec<Placeholders>,
    /// Whether the child's `/proc` shows only its own processes.
    pub is_proc_own: bool,
    /// For the programs on the run's cgroup; `None` when there are none.
    pub net: Option<NetTable>,
    /// How the child's system calls are filtered.
    pub filter: Filter,
    /// What was asked and is not held. Sorted.
    pub degradations: BTreeSet<Degradation>,
    /// Each rule, and what becomes of it.
    pub rules: Vec<RuleStatus>,
    /// What no rule governs here, for `observed.not_governed`.
    pub not_governed: Vec<String>,
}

/// Decides it.
pub fn plan(policy: &Policy, landlock: &Landlock, survey: &Survey, means: Means) -> Plan {
    let mut files = FilePlan::new(policy, landlock, survey, means);
    files.collect_grants();
    files.subtract_denies();
    files.place_denies();
    files.mask_sockets();
    let is_proc_own = files.keep_processes_apart();
    let FilePlan { grants, mut holds, placeholders, mut degradations, mut rules, split, .. } = files;
    // A mount comes before those beneath it, and a mask hides what would be beneath it. Links come last: what they
    // show is what is held by then.
    holds.sort_by(|a, b| (a.link.is_some(), &a.path).cmp(&(b.link.is_some(), &b.path)));
    let masks: Vec<_> = holds
        .iter()
        .filter(|hold| hold.means == MountMeans::MaskDirectory)
        .map(|hold| hold.path.clone())
        .collect();
    holds.dedup_by(|later, first| {
        let is_same = later.path == first.path;
        if is_same {
            first.means = first.means.and(later.means);
            first.is_makeable |= later.is_makeable;
            if later.link == Some(Shown::Nothing) {
                first.link = Some(Shown::Nothing);
            }
        }
        is_same
    });
    holds.retain(|hold| !masks.iter().any(|mask| is_beneath(&hold.path, mask)));
    let mut ruleset = Ruleset::default();
    if landlock.is_present() {
        ruleset.handled =
            Right::ALL.into_iter().filter(|right| right.is_fs() && landlock.has(*right)).collect();
        add_grants(&mut ruleset, &grants, &split, survey);
    }
    let net = net_plan::plan(policy, landlock, survey, means, &mut ruleset);
    degradations.extend(net.degradations);
    rules.extend(net.rules);
    Plan {
        ruleset,
        holds,
        placeholders: group(placeholders),
        is_proc_own,
        net: net.table,
        filter: net.filter,
        degradations,
        rules,
        not_governed: not_governed(landlock, net.filter),
    }
}

struct FilePlan<'a> {
    policy: &'a Policy,
    landlock: &'a Landlock,
    survey: &'a Survey,
    means: Means,
    grants: Vec<Grant>,
    holds: Vec<Hold>,
    /// Missing path to the directory above it that exists.
    placeholders: BTreeMap<Vec<u8>, Vec<u8>>,
    degradations: BTreeSet<Degradation>,
    rules: Vec<RuleStatus>,
    /// Programs that are held by granting execution to everything around them.
    split: BTreeSet<Vec<u8>>,
}

/// What a deny takes away: who may not read a program cannot start it, and `list` is a part of `read`.
fn taken(access: AccessSet) -> AccessSet {
    if access.has(Access::Read) {
        access.union([Access::Execute, Access::List].into_iter().collect())
    } else {
        access
    }
}

impl<'a> FilePlan<'a> {
    fn new(policy: &'a Policy, landlock: &'a Landlock, survey: &'a Survey, means: Means) -> Self {
        let unsearched = survey.unsearched.iter().map(|path| policy.spell(path));
        let unsearched =
            unsearched.map(|path| Degradation::about(Component::Fs, "deny-other-names-not-searched", path));
        let mut degradations: BTreeSet<_> = unsearched.collect();
        if landlock.is_present() {
            let needed = [
                (Right::Truncate, "landlock-truncate", "truncate"),
                (Right::Refer, "landlock-refer", "rename"),
            ];
            for (right, reason, detail) in needed {
                if !landlock.has(right) {
                    degradations.insert(Degradation::about(Component::Fs, reason, detail));
                }
            }
        } else {
            degradations.insert(Degradation::whole(Component::Fs, "landlock-absent"));
            degradations.insert(Degradation::whole(Component::Exec, "landlock-absent"));
        }
        Self {
            policy,
            landlock,
            survey,
            means,
            grants: Vec::new(),
            holds: Vec::new(),
            placeholders: BTreeMap::new(),
            degradations,
            rules: Vec::new(),
            split: BTreeSet::new(),
        }
    }

    fn denies(&self) -> impl Iterator<Item = (&'static str, &'a PathRule, &'a Found)> + use<'a> {
        let fs = self
            .policy
            .fs_deny
            .iter()
            .zip(&self.survey.fs_deny)
            .map(|(rule, found)| ("fs.deny", rule, found));
        let exec = self
            .policy
            .exec_deny
            .iter()
            .zip(&self.survey.exec_deny)
            .map(|(rule, found)| ("exec.deny", rule, found));
        fs.chain(exec)
    }

    fn collect_grants(&mut self) {
        let policy = self.policy;
        for (rule, found) in policy.fs_allow.iter().zip(&self.survey.fs_allow) {
            let access = match policy.exec_allow {
                // With `exec.allow`, only what it lists may run; what `execute` includes stays.
                Some(_) if rule.access.has(Access::Execute) => {
                    rule.access.without(AccessSet::of(Access::Execute)).union(AccessSet::of(Access::Read))
                }
                _ => rule.access,
            };
            self.grant_found("fs.allow", rule, found, access);
        }
        for (rule, found) in policy.exec_allow.iter().flatten().zip(&self.survey.exec_allow) {
            self.grant_found("exec.allow", rule, found, AccessSet::of(Access::Execute));
        }
        if self.grants.iter().any(|grant| grant.access.has(Access::Execute)) {
            for loader in &self.survey.loaders {
                self.grants.push(Grant {
                    path: loader.clone(),
                    kind: Kind::File,
                    access: AccessSet::of(Access::Execute),
                });
            }
        }
    }

    fn grant_found(&mut self, list: &'static str, rule: &PathRule, found: &Found, access: AccessSet) {
        for (path, kind) in &found.there {
            self.grants.push(Grant { path: path.clone(), kind: *kind, access });
        }
        let mut reasons = BTreeSet::new();
        if !self.landlock.is_present() {
            reasons.insert("landlock-absent".to_owned());
        }
        let needs_names = access.has(Access::Write) && !rule.is_base;
        let is_within = |path: &[u8]| {
            // A wider rule that lets the run make the name itself.
            self.policy.fs_allow.iter().zip(&self.survey.fs_allow).any(|(other, found)| {
                other.access.intersection(access) == access
                    && found.there.keys().any(|above| is_beneath(path, above))
            })
        };
        if needs_names && !found.is_open {
            for path in found.missing.iter().filter(|path| !is_within(path)) {
                let detail = self.policy.spell(path);
                self.degradations.insert(Degradation::about(Component::Fs, "allow-not-existing", detail));
                reasons.insert("allow-not-existing".into());
            }
        }
        if needs_names && found.is_open {
            let is_covered = rule.patterns.iter().all(|pattern| is_within(&pattern.literal_prefix()));
            // A pattern that ends in `/**` grants its matches with all that is made in them, but not new names.
            if !is_covered {
                self.degradations.insert(Degradation::about(
                    Component::Fs,
                    "allow-pattern-frozen",
                    &rule.text,
                ));
                reasons.insert("allow-pattern-frozen".into());
            }
        }
        if found.is_cut {
            self.degradations.insert(Degradation::about(Component::Fs, "pattern-too-wide", &rule.text));
            reasons.insert("pattern-too-wide".into());
        }
        if found.is_unlisted {
            self.degradations.insert(Degradation::about(Component::Fs, "pattern-not-listed", &rule.text));
            reasons.insert("pattern-not-listed".into());
        }
        let held = if !reasons.is_empty() {
            Held::Not(reasons.into_iter().collect())
        } else if found.there.is_empty() {
            Held::Moot("nothing is there")
        } else {
            Held::By("landlock")
        };
        self.push_status(list, rule, held);
    }

    fn push_status(&mut self, list: &'static str, rule: &PathRule, held: Held) {
        self.rules.push(RuleStatus {
            list,
            text: rule.text.clone(),
            access: rule.access.words(),
            place: rule.place.clone(),
            held,
        });
    }

    /// A deny at or above a grant takes its accesses away.
    fn subtract_denies(&mut self) {
        let denies: Vec<_> = self.denies().collect();
        for grant in &mut self.grants {
            for (_, rule, found) in &denies {
                let covers = rule.patterns.iter().any(|pattern| pattern.covers(&grant.path))
                    || found.there.keys().any(|path| is_at_or_beneath(&grant.path, path));
                if covers {
                    grant.access = grant.access.without(taken(rule.access));
                }
            }
        }
        self.grants.retain(|grant| !grant.access.is_empty());
    }

    /// Denies that lie inside a grant need another means.
    fn place_denies(&mut self) {
        let denies: Vec<_> = self.denies().collect();
        for (list, rule, found) in denies {
            let mut means = BTreeSet::new();
            let mut reasons = BTreeSet::new();
            for (path, kind) in &found.there {
                let conflict = self.conflict(path, taken(rule.access));
                if conflict.is_empty() {
                    continue;
                }
                match self.hold(path, *kind, rule.access, conflict) {
                    Some(word) => {
                        means.insert(word);
                    }
                    None => {
                        reasons.insert(self.degrade(conflict, "deny-inside-allow", self.policy.spell(path)));
                    }
                }
            }
            for (path, target) in &found.links {
                match self.hold_link(path, target.as_ref(), rule.access) {
                    Some(true) => drop(means.insert("mount")),
                    Some(false) => drop(reasons.insert(self.degrade(
                        rule.access,
                        "deny-symlink-name",
                        self.policy.spell(path),
                    ))),
                    None => {}
                }
            }
            for path in &found.links_above {
                if self.is_writable_above(path) {
                    let spelled = self.policy.spell(path);
                    reasons.insert(self.degrade(rule.access, "deny-symlink-name", spelled));
                }
            }
            if !found.is_open {
                for path in &found.missing {
                    if self.conflict(path, AccessSet::of(Access::Write)).is_empty() {
                        continue;
                    }
                    if self.place_placeholder(path, rule.access) {
                        means.insert("placeholder");
                        continue;
                    }
                    reasons.insert(self.degrade(
                        rule.access,
                        "deny-not-yet-existing",
                        self.policy.spell(path),
                    ));
                }
            }
            let is_reachable = self.grants.iter().any(|grant| {
                grant.access.has(Access::Write)
                    && rule.patterns.iter().any(|pattern| pattern.reaches_beneath(&grant.path))
            });
            if found.is_open && is_reachable {
                reasons.insert(self.degrade(rule.access, "deny-pattern-not-yet-existing", rule.text.clone()));
            }
            if found.is_cut {
                reasons.insert(self.degrade(rule.access, "pattern-too-wide", rule.text.clone()));
            }
            if found.is_unlisted {
                reasons.insert(self.degrade(rule.access, "pattern-not-listed", rule.text.clone()));
            }
            if !self.landlock.is_present() {
                reasons.insert("landlock-absent".to_owned());
            }
            let held = match (reasons.is_empty(), means.into_iter().next()) {
                (false, _) => Held::Not(reasons.into_iter().collect()),
                (true, Some(word)) => Held::By(word),
                (true, None) if found.there.is_empty() => {
                    Held::Moot("nothing is there, and nothing can be made there")
                }
                (true, None) => Held::By("landlock"),
            };
            self.push_status(list, rule, held);
        }
    }

    /// Holds a name that does not exist by a placeholder, where that may be done.
    fn place_placeholder(&mut self, path: &[u8], denied: AccessSet) -> bool {
        let Some(directory) = self.survey.above_missing.get(path) else { return false };
        if !self.means.mounts || !self.means.placeholders {
            return false;
        }
        let means =
            if denied.has(Access::Read) { MountMeans::MaskFile } else { MountMeans::ReadOnlyNoExecution };
        self.placeholders.insert(path.to_vec(), directory.clone());
        let pins = self.pins(path);
        self.holds.push(Hold { path: path.to_vec(), means, pins, is_makeable: true, link: None });
        true
    }

    /// Sockets that are there and that no rule allows. Landlock leaves connecting to them alone before ABI 9, and
    /// a deny inside a writable tree always.
    fn mask_sockets(&mut self) {
        if !self.means.mounts {
            return;
        }
        let sockets = self.survey.sockets.iter();
        for path in sockets.filter(|path| !judge(self.policy, Request::UnixPath(path)).is_allowed()) {
            let is_writable = !self.conflict(path, AccessSet::of(Access::Write)).is_empty();
            if is_writable || !self.landlock.has(Right::ResolveUnix) {
                let pins = self.pins(path);
                let means = MountMeans::MaskFile;
                // A socket that the run makes in the place of one that is gone is its own.
                self.holds.push(Hold { path: path.clone(), means, pins, is_makeable: false, link: None });
            }
        }
    }

    /// Of processes outside the run, `base: system` shows nothing. True when a `/proc` of its own is to hold that.
    fn keep_processes_apart(&mut self) -> bool {
        let mut rules = self.policy.fs_allow.iter().filter(|rule| shows_others(rule)).peekable();
        if rules.peek().is_none() || !rules.all(|rule| rule.is_base) {
            return false;
        }
        if !self.means.mounts {
            self.degradations.insert(Degradation::about(Component::Fs, PROCESSES_VISIBLE, "/proc"));
        }
        self.means.mounts
    }

    /// The directories from the outermost writable tree down to `path`.
    fn pins(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let writable = self
            .grants
            .iter()
            .filter(|grant| is_beneath(path, &grant.path) && grant.access.has(Access::Write))
            .map(|grant| grant.path.as_slice())
            .min_by_key(|path| path.len());
        writable.map_or_else(Vec::new, |from| between(from, path))
    }

    fn degrade(&mut self, access: AccessSet, reason: &str, detail: String) -> String {
        let component =
            if access == AccessSet::of(Access::Execute) { Component::Exec } else { Component::Fs };
        self.degradations.insert(Degradation::about(component, reason, detail));
        reason.to_owned()
    }

    /// What of `access` is granted to `path` by grants above it.
    fn conflict(&self, path: &[u8], access: AccessSet) -> AccessSet {
        self.grants
            .iter()
            .filter(|grant| is_beneath(path, &grant.path))
            .fold(AccessSet::EMPTY, |set, grant| set.union(grant.access.intersection(access)))
    }

    /// Finds a means for a deny inside an allow, and prepares it.
    fn hold(
        &mut self,
        path: &[u8],
        kind: Kind,
        denied: AccessSet,
        conflict: AccessSet,
    ) -> Option<&'static str> {
        let execute = AccessSet::of(Access::Execute);
        let is_writable_above = !self.conflict(path, AccessSet::of(Access::Write)).is_empty();
        if conflict == execute
            && !is_writable_above
            && self.landlock.is_present()
            && is_listed(path, &self.grants, self.survey)
        {
            self.split.insert(path.to_vec());
            if self.means.mounts {
                // Landlock keeps the kernel from starting it; only a mount keeps the loader (`ld.so FILE`) from mapping it.
                self.push_hold(path, MountMeans::NoExecution, false);
            }
            return Some("landlock");
        }
        if !self.means.mounts {
            return None;
        }
        if is_writable_above && denied.has(Access::Read) && !denied.has(Access::Write) {
            // What cannot be read is hidden, and then there is nothing to write to.
            self.degradations.insert(Degradation::about(
                Component::Fs,
                "allow-hidden",
                self.policy.spell(path),
            ));
        }
        let has = |access| denied.has(access);
        let means = match (has(Access::Read), has(Access::Write), has(Access::Execute)) {
            (true, _, _) if kind == Kind::Directory => MountMeans::MaskDirectory,
            (true, _, _) => MountMeans::MaskFile,
            (false, true, true) => MountMeans::ReadOnlyNoExecution,
            (false, true, false) => MountMeans::ReadOnly,
            (false, false, _) => MountMeans::NoExecution,
        };
        self.push_hold(path, means, is_writable_above);
        Some("mount")
    }

    fn push_hold(&mut self, path: &[u8], means: MountMeans, is_makeable: bool) {
        let pins = self.pins(path);
        self.holds.push(Hold { path: path.to_vec(), means, pins, is_makeable, link: None });
    }

    fn is_writable_above(&self, path: &[u8]) -> bool {
        !self.conflict(path, AccessSet::of(Access::Write)).is_empty()
    }

    /// Holds the name of a denied link, which the run could otherwise remove, move or put something else in the place
    /// of. `None` when it could not; false when nothing here can hold it.
    fn hold_link(
        &mut self,
        path: &[u8],
        target: Option<&(Vec<u8>, Kind)>,
        denied: AccessSet,
    ) -> Option<bool> {
        if !self.is_writable_above(path) {
            return None;
        }
        if !self.means.mounts {
            return Some(false);
        }
        let Some((means, shown)) = show(self.policy, target, denied) else { return Some(false) };
        let pins = self.pins(path);
        self.holds.push(Hold { path: path.to_vec(), means, pins, is_makeable: true, link: Some(shown) });
        Some(true)
    }
}

#[cfg(test)]
mod tests;
