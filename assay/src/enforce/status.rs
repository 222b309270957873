//! What of a policy is held, by which means, and what is not and why. Pure.

use std::collections::BTreeMap;

use super::grant::Filter;
use crate::host::{Landlock, Right};
use crate::policy::problem::Place;

/// That `/proc` shows what is not the run's.
pub const PROCESSES_VISIBLE: &str = "other-processes-visible";

/// What a degradation concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// File access.
    Fs,
    /// Program starts.
    Exec,
    /// Network.
    Net,
    /// Environment scrubbing.
    Env,
    /// Capabilities.
    Capabilities,
    /// The observer.
    Observer,
    /// The launch itself.
    Launch,
}

impl Component {
    /// Every component, in order.
    pub const ALL: [Self; 7] =
        [Self::Fs, Self::Exec, Self::Net, Self::Env, Self::Capabilities, Self::Observer, Self::Launch];

    /// The word in every format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fs => "fs",
            Self::Exec => "exec",
            Self::Net => "net",
            Self::Env => "env",
            Self::Capabilities => "capabilities",
            Self::Observer => "observer",
            Self::Launch => "launch",
        }
    }
}

/// Something that was asked of the sandbox and not kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Degradation {
    /// What it concerns.
    pub component: Component,
    /// A stable word (`landlock-absent`, `deny-inside-allow`, `kept-by-option` …).
    pub reason: String,
    /// The path or address that is not held; without it the whole kind is not held.
    pub detail: Option<String>,
}

impl Degradation {
    /// One about a whole kind.
    pub fn whole(component: Component, reason: &str) -> Self {
        Self { component, reason: reason.into(), detail: None }
    }

    /// One about this path, address or rule.
    pub fn about(component: Component, reason: &str, detail: impl Into<String>) -> Self {
        Self { component, reason: reason.into(), detail: Some(detail.into()) }
    }

    /// For a person: what is not held.
    pub fn explain(&self) -> String {
        let (component, what) = (self.component.as_str(), self.what());
        match &self.detail {
            Some(detail) => format!("{component}: {what}: {detail}"),
            None => format!("{component}: {what}"),
        }
    }

    fn what(&self) -> &str {
        match self.reason.as_str() {
            "landlock-absent" => "not held: this kernel offers no Landlock",
            "landlock-truncate" => "truncating a file is not held: this kernel's Landlock is too old",
            "landlock-refer" => "renames between directories fail: this kernel's Landlock is too old",
            "landlock-scope" => {
                "abstract sockets of outside stay reachable: this kernel's Landlock is too old"
            }
            "deny-inside-allow" => "a deny inside an allow that nothing here can hold",
            "deny-symlink-name" => "a denied name is, or is reached by, a link that can be replaced",
            "deny-not-yet-existing" => "a denied name that does not exist yet and could be made",
            "deny-pattern-not-yet-existing" => "later names that match a denied pattern",
            "deny-other-names-not-searched" => "too many files to look for other names of what is denied",
            "allow-hidden" => "what may be written but not read is closed to both",
            PROCESSES_VISIBLE => "status and command lines of processes outside the run can be read",
            "allow-not-existing" => "an allowed name that does not exist, so that it cannot be granted",
            "allow-pattern-frozen" => "only names that match now are granted",
            "pattern-too-wide" => "a pattern that matches too many names to follow them all",
            "pattern-not-listed" => "a pattern in a directory that cannot be listed",
            "rule-vanished" => "a path that was gone when its rule was applied",
            "address-not-held" => "the address of a rule is not held, only its ports",
            "tcp-not-held" => "TCP is not held",
            "udp-not-held" => "UDP is not held",
            "unix-not-held" => "sockets with a path are not held",
            "abstract-unix-not-held" => "abstract sockets are not held",
            "family-not-held" => "sockets of other families are not held",
            "host-held-by-address" => "a host by name, but for the addresses it had at the start",
            "host-not-resolved" => "a host that could not be looked up, so that it cannot be granted",
            "host-pattern-not-granted" => {
                "a pattern of hosts cannot be looked up, so that it cannot be granted"
            }
            other => other,
        }
    }

    /// What it takes to hold it, where something does.
    fn remedy(&self, is_privileged: bool) -> Option<&'static str> {
        Some(match self.reason.as_str() {
            "landlock-absent"
            | "landlock-truncate"
            | "landlock-refer"
            | "landlock-scope"
            | "abstract-unix-not-held" => "a newer kernel is needed; `assay doctor` says which",
            "deny-not-yet-existing" if is_privileged => {
                "`--fail-closed` holds it by a placeholder, on the file system of the work directory"
            }
            "deny-inside-allow"
            | "deny-not-yet-existing"
            | "deny-symlink-name"
            | PROCESSES_VISIBLE
            | "tcp-not-held"
            | "udp-not-held"
            | "address-not-held"
            | "unix-not-held"
                if !is_privileged =>
            {
                "run as root, or with CAP_SYS_ADMIN"
            }
            "deny-symlink-name" => "deny what the link leads to, by its own name",
            "deny-pattern-not-yet-existing" => "deny the directory, or name each",
            "allow-not-existing" => "make it before the run, or allow the directory above",
            "allow-pattern-frozen" => "allow the directory instead of the pattern",
            "host-held-by-address" => "this takes Linux 6.15 and at most 64 names; or name its addresses",
            "host-not-resolved" => "name its addresses, or let the host look it up",
            "host-pattern-not-granted" => "name each host",
            "pattern-too-wide" => "narrow it",
            "pattern-not-listed" => "name each, or make the directory readable",
            _ => return None,
        })
    }
}

/// So many details are told one by one; of more, some and their number.
const FEW: usize = 3;

/// For a person, a line for each kind: what is not held, and what it takes to hold it.
pub fn explain_all<'a>(
    degradations: impl Iterator<Item = &'a Degradation>,
    is_privileged: bool,
) -> Vec<String> {
    let mut kinds = BTreeMap::<(Component, &str), Vec<&Degradation>>::new();
    for degradation in degradations {
        kinds.entry((degradation.component, &degradation.reason)).or_default().push(degradation);
    }
    let mut lines = Vec::new();
    for ((component, _), all) in kinds {
        let remedy = all[0].remedy(is_privileged).map_or_else(String::new, |remedy| format!("; {remedy}"));
        if all.len() <= FEW {
            lines.extend(all.iter().map(|degradation| format!("{}{remedy}", degradation.explain())));
            continue;
        }
        let names: Vec<&str> = all.iter().take(FEW).filter_map(|one| one.detail.as_deref()).collect();
        let (component, what, count) = (component.as_str(), all[0].what(), all.len());
        lines.push(format!("{component}: {count} times {what}: {} …{remedy}", names.join(", ")));
    }
    lines
}

/// In few words, a line for each kind: component, reason, and what it is about.
pub fn brief(degradations: &[Degradation]) -> Vec<String> {
    let mut kinds = BTreeMap::<(Component, &str), Vec<&str>>::new();
    for degradation in degradations {
        let details = kinds.entry((degradation.component, &degradation.reason)).or_default();
        details.extend(degradation.detail.as_deref());
    }
    let mut lines = Vec::new();
    for ((component, reason), details) in kinds {
        let few = details.iter().take(FEW).copied().collect::<Vec<_>>().join(", ");
        let about = if few.is_empty() { few } else { format!(": {few}") };
        let more = match details.len().saturating_sub(FEW) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        lines.push(format!("{} {reason}{about}{more}", component.as_str()));
    }
    lines
}

/// One rule of the policy, and what becomes of it here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleStatus {
    /// The list it stands in: `fs.allow`, `net.deny` …
    pub list: &'static str,
    /// As it is written.
    pub text: String,
    /// The accesses it speaks about; empty for network rules.
    pub access: String,
    /// Where it is written.
    pub place: Place,
    /// What becomes of it.
    pub held: Held,
}

/// What becomes of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// It is held, by this.
    By(&'static str),
    /// There is nothing it could bite on.
    Moot(&'static str),
    /// It is not held, or not wholly, because of these degradations.
    Not(Vec<String>),
}

/// What applying a ruleset came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Enforcement {
    /// Whether anything is restricted at all.
    pub is_active: bool,
    /// Per right: restricted or not.
    pub rights: BTreeMap<String, bool>,
    /// Paths whose rule could not be added because they were gone or out of reach, with the reason. What they
    /// would have allowed is refused.
    pub skipped: Vec<(String, String)>,
}

/// What no rule governs here, for `observed.not_governed`.
pub fn not_governed(landlock: &Landlock, filter: Filter) -> Vec<String> {
    let mut list = vec![
        "changing attributes (mode, owner, times, xattrs) where no read-only mount holds it".to_owned(),
        "looking up metadata (stat, access, readlink, chdir, O_PATH)".to_owned(),
        "running a readable file through an interpreter or the ELF loader, or a program that is only in memory".to_owned(),
        "what is done through descriptors the command was given".to_owned(),
        "starting an allowed program by another name that the command gave it".to_owned(),
    ];
    if !landlock.has(Right::ResolveUnix) {
        list.push("connecting to sockets that others make outside the writable trees during the run".into());
    }
    if filter != Filter::NoInternet {
        list.push("listening on a port that the kernel chooses, without a bind before".into());
    }
    list.push("abstract sockets among the run's own processes".into());
    list.push("sockets of other families that an io_uring request makes".into());
    if !landlock.has(Right::ScopeSignal) {
        list.push("signals to processes outside the run".into());
    }
    if landlock.is_present() && !landlock.has(Right::IoctlDev) {
        list.push("ioctls on devices".into());
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_of_one_kind_are_one_line_with_what_it_takes() {
        let missing: Vec<_> = (10..45)
            .map(|number| Degradation::about(Component::Fs, "deny-not-yet-existing", format!("/w/{number}")))
            .chain([Degradation::about(Component::Net, "udp-not-held", "udp")])
            .collect();
        assert_eq!(
            explain_all(missing.iter(), false),
            [
                "fs: 35 times a denied name that does not exist yet and could be made: /w/10, /w/11, /w/12 …; run as root, or with CAP_SYS_ADMIN",
                "net: UDP is not held: udp; run as root, or with CAP_SYS_ADMIN",
            ]
        );
        assert!(explain_all(missing.iter(), true)[0].contains("`--fail-closed` holds it"));
        let whole = Degradation::whole(Component::Fs, "landlock-absent");
        assert_eq!(
            brief(&[missing.as_slice(), &[whole]].concat()),
            [
                "fs deny-not-yet-existing: /w/10, /w/11, /w/12 and 32 more",
                "fs landlock-absent",
                "net udp-not-held: udp",
            ]
        );
    }
}
