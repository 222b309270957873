//! The network half of the plan: which ports Landlock is told, which addresses the cgroup programs, what is not
//! held. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::grant::{Filter, Ruleset};
use super::means::Means;
use super::name_classes::{self, NameClass};
use super::status::{Component, Degradation, Held, RuleStatus};
use super::survey::Survey;
use crate::host::{Landlock, Right};
use crate::policy::check::is_name;
use crate::policy::net::{IpNet, LOCALHOST, NetRule, Ports, Target};
use crate::policy::rule::Policy;

/// Addresses and ports, as the cgroup programs are told: a deny wins, then an allow, else refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetTable {
    /// What may be reached and bound.
    pub allow: Vec<NetEntry>,
    /// What may not, whatever is allowed.
    pub deny: Vec<NetEntry>,
    /// Name servers, at port 53.
    pub nameservers: Vec<IpAddr>,
    /// Classes of names that are held as answers come; their numbers count from 1.
    pub names: Vec<NameClass>,
    /// The host's name servers, whose answers count.
    pub servers: Vec<IpAddr>,
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetEntry {
    /// The addresses; `None` is every one.
    pub net: Option<IpNet>,
    /// The ports.
    pub ports: Ports,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetOutcome {
    /// For the cgroup programs.
    pub table: Option<NetTable>,
    /// For the system call filter.
    pub filter: Filter,
    /// What is not held.
    pub degradations: BTreeSet<Degradation>,
    /// Each rule, and what becomes of it.
    pub rules: Vec<RuleStatus>,
}

/// More ports than this are not told to Landlock one by one.
const MAX_PORTS: usize = 1_024;

/// Decides it, and adds what Landlock is told to `ruleset`.
pub fn plan(
    policy: &Policy,
    landlock: &Landlock,
    survey: &Survey,
    means: Means,
    ruleset: &mut Ruleset,
) -> NetOutcome {
    let mut outcome = NetOutcome::default();
    let names = held_names(policy, means);
    let found = if names.is_empty() { &survey.hosts } else { &survey.hosts_file };
    let allow = entries(&policy.net_allow, found, !names.is_empty(), &mut outcome.degradations);
    let deny = entries(&policy.net_deny, &survey.hosts, !names.is_empty(), &mut outcome.degradations);
    let asks_names = policy.net_allow.iter().any(|rule| is_name(&rule.target));
    let nameservers = if asks_names { policy.nameservers.clone() } else { Vec::new() };

    let by_name =
        names.iter().flat_map(|class| &class.allow).map(|ports| NetEntry { net: None, ports: *ports });
    let all: Vec<NetEntry> = allow.iter().copied().chain(by_name).collect();
    let ports = tcp_ports(&all, asks_names);
    let is_tcp_held = landlock.has(Right::BindTcp) && landlock.has(Right::ConnectTcp);
    if let (true, Some(ports)) = (is_tcp_held, &ports) {
        ruleset.handled.extend([Right::BindTcp, Right::ConnectTcp]);
        ruleset.ports.clone_from(ports);
    }
    if means.syscall_filter {
        // Where addresses cannot be held, a policy that allows none can.
        let is_needless = all.is_empty() && !means.cgroup_programs;
        outcome.filter = if is_needless { Filter::NoInternet } else { Filter::Families };
    }
    let is_open = allow.iter().any(|entry| entry.net.is_none() && entry.ports.is_any()) && deny.is_empty();
    let mut miss = |reason: &str, detail: &str| {
        outcome.degradations.insert(Degradation::about(Component::Net, reason, detail));
    };
    if means.cgroup_programs {
        outcome.table = Some(NetTable {
            allow: allow.clone(),
            deny,
            nameservers,
            servers: if names.is_empty() { Vec::new() } else { policy.nameservers.clone() },
            names,
        });
    } else if !is_open && outcome.filter != Filter::NoInternet {
        if !(is_tcp_held && ports.is_some()) {
            miss("tcp-not-held", "tcp");
        }
        miss("udp-not-held", "udp");
        for rule in policy.net_allow.iter().chain(&policy.net_deny) {
            if matches!(rule.target, Target::Net(_) | Target::Host(_)) {
                miss("address-not-held", &rule.text);
            }
        }
    }
    plan_unix(policy, landlock, means, ruleset, &mut miss);
    if !means.syscall_filter {
        miss("family-not-held", "other families");
    }
    for (list, rules) in [("net.allow", &policy.net_allow), ("net.deny", &policy.net_deny)] {
        for rule in rules {
            let held = status_of(rule, &outcome.degradations, means, landlock);
            outcome.rules.push(RuleStatus {
                list,
                text: rule.text.clone(),
                access: String::new(),
                place: rule.place.clone(),
                held,
            });
        }
    }
    outcome
}

/// UNIX sockets: by path where the kernel restricts that, abstract ones by scope.
fn plan_unix(
    policy: &Policy,
    landlock: &Landlock,
    means: Means,
    ruleset: &mut Ruleset,
    miss: &mut dyn FnMut(&str, &str),
) {
    let everything = is_every_socket_allowed(policy);
    if landlock.has(Right::ResolveUnix) {
        for rule in &policy.net_allow {
            if let Target::UnixPath(patterns) = &rule.target {
                for path in patterns.iter().filter_map(crate::policy::pattern::Pattern::as_literal) {
                    // A path that is gone is skipped, and told, when the ruleset is applied.
                    ruleset.grant(&path, [Right::ResolveUnix].into());
                }
            }
        }
    } else if !everything && !means.mounts {
        miss("unix-not-held", "unix");
    }
    let names_abstract = policy.net_allow.iter().any(|rule| matches!(rule.target, Target::UnixAbstract(_)));
    if landlock.has(Right::ScopeAbstractUnix) && !names_abstract {
        ruleset.handled.insert(Right::ScopeAbstractUnix);
    } else {
        miss("abstract-unix-not-held", "abstract unix");
    }
    if landlock.has(Right::ScopeSignal) {
        ruleset.handled.insert(Right::ScopeSignal);
    }
}

/// Whether no path is kept from the run that a socket can have.
fn is_every_socket_allowed(policy: &Policy) -> bool {
    policy.net_allow.iter().any(|rule| rule.applies_to_unix_path(b"/"))
        && !policy.net_deny.iter().any(|rule| matches!(rule.target, Target::UnixPath(_)))
}

/// The classes of names that are held as answers come; none where that cannot be, or where they are too many.
fn held_names(policy: &Policy, means: Means) -> Vec<NameClass> {
    if !(means.cgroup_programs && means.names) {
        return Vec::new();
    }
    let classes = name_classes::classes(&policy.net_allow, &policy.net_deny);
    if classes.len() > name_classes::MAX_CLASSES { Vec::new() } else { classes }
}

/// The entries of these rules; names become the addresses that were found for them. Names that are not held as answers
/// come keep those, which is told.
fn entries(
    rules: &[NetRule],
    hosts: &BTreeMap<String, Vec<IpAddr>>,
    is_held: bool,
    degradations: &mut BTreeSet<Degradation>,
) -> Vec<NetEntry> {
    let mut entries = Vec::new();
    for rule in rules {
        let ports = rule.ports;
        match &rule.target {
            Target::Any => entries.push(NetEntry { net: None, ports }),
            Target::Net(net) => entries.push(NetEntry { net: Some(*net), ports }),
            Target::Host(name) if name == "localhost" => {
                entries
                    .extend(LOCALHOST.map(|address| NetEntry { net: Some(IpNet::single(address)), ports }));
            }
            Target::Host(name) => {
                let found = hosts.get(name).map(Vec::as_slice).unwrap_or_default();
                if !is_held {
                    let reason = match found {
                        [] if name.starts_with("*.") => "host-pattern-not-granted",
                        [] => "host-not-resolved",
                        _ => "host-held-by-address",
                    };
                    degradations.insert(Degradation::about(Component::Net, reason, &rule.text));
                }
                entries.extend(
                    found.iter().map(|address| NetEntry { net: Some(IpNet::single(*address)), ports }),
                );
            }
            Target::UnixPath(_) | Target::UnixAbstract(_) => {}
        }
    }
    entries
}

/// The TCP ports some rule allows, or `None` when they are too many to be told one by one.
fn tcp_ports(allow: &[NetEntry], asks_names: bool) -> Option<BTreeSet<u16>> {
    let mut ports = BTreeSet::new();
    for entry in allow {
        if usize::from(entry.ports.high - entry.ports.low) >= MAX_PORTS {
            return None;
        }
        ports.extend(entry.ports.low..=entry.ports.high);
        if ports.len() > MAX_PORTS {
            return None;
        }
    }
    if asks_names {
        ports.insert(53);
    }
    Some(ports)
}

fn status_of(
    rule: &NetRule,
    degradations: &BTreeSet<Degradation>,
    means: Means,
    landlock: &Landlock,
) -> Held {
    let mut reasons: Vec<_> = degradations
        .iter()
        .filter(|degradation| degradation.detail.as_deref() == Some(&rule.text))
        .map(|degradation| degradation.reason.clone())
        .collect();
    // Of a whole kind that is not held, no rule is.
    let kinds: &[&str] = match &rule.target {
        Target::UnixPath(_) => &["unix-not-held"],
        Target::UnixAbstract(_) => &["abstract-unix-not-held"],
        Target::Any if !rule.ports.is_any() => &["tcp-not-held", "udp-not-held"],
        Target::Any | Target::Host(_) | Target::Net(_) => &[],
    };
    let is_missed = |kind: &&str| degradations.iter().any(|degradation| degradation.reason == *kind);
    reasons.extend(kinds.iter().copied().filter(is_missed).map(str::to_owned));
    match (reasons.is_empty(), means.cgroup_programs, &rule.target) {
        (false, _, _) => Held::Not(reasons),
        (true, true, Target::Any | Target::Net(_) | Target::Host(_)) => Held::By("cgroup"),
        (true, _, Target::UnixPath(_)) if landlock.has(Right::ResolveUnix) => Held::By("landlock"),
        (true, _, Target::UnixPath(_)) if means.mounts => Held::By("mount"),
        (true, _, Target::UnixPath(_)) => Held::Moot("every socket may be reached"),
        (true, _, _) => Held::By("landlock"),
    }
}
