//! Policy × act on a socket with an address → [`Verdict`]. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Denial, Inet, Rules, Verdict, denied_by, fs_remedy, judge_family, judge_file, not_allowed};
use crate::policy::net::{IpNet, LOCALHOST, NetRule, Target};
use crate::policy::rule::{Access, PathRule, Policy};
use crate::profile::effect::{NetEffectOp, bracketed};
use crate::profile::name::Name;

pub(super) fn judge_inet(policy: &Policy, inet: Inet<'_>) -> Verdict {
    let Inet { is_local, host, port, .. } = inet;
    // The kernel takes a connection to the unspecified address to this host.
    let address = inet.address.map(|address| match address.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) if !is_local => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) if !is_local => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    });
    // One of several names is enough to allow it.
    let end = host
        .map(|host| host.split(',').next().unwrap_or(host).to_owned())
        .or_else(|| address.map(|a| a.to_string()))
        .unwrap_or_else(|| "*".into());
    let end = bracketed(&end);
    // Bound without a number, a socket gets a port of the kernel's choice: that is asked for as port 0.
    let chosen = if is_local { "0" } else { "*" };
    let port_text = port.map_or(chosen.to_owned(), |port| port.to_string());
    let what = || format!("{} {end}:{port_text}", if is_local { "bind" } else { "connect" });
    let denies = |rule: &&NetRule| {
        // Bound to every address, a socket is bound to a denied one of this host's too.
        let bound = address
            .filter(|_| is_local)
            .and_then(|wildcard| target_nets(&rule.target).into_iter().find(|net| net.is_bound_by(wildcard)));
        let address = bound.map(|net| net.address).or(address);
        rule.applies(address, host, port)
            || port.is_none() && rule.applies(address, host, Some(rule.ports.low))
    };
    if let Some(rule) = policy.net_deny.iter().find(denies) {
        return denied_by(what(), &rule.text, &rule.place);
    }
    // Where names allow, nobody may put himself in the place of a name server.
    let mut named = policy.net_allow.iter().chain(&policy.net_deny).filter(|rule| is_name(&rule.target));
    if let (true, Some(53), Some(address), Some(rule)) = (is_local, port, address, named.next())
        && (address.is_unspecified() || policy.nameservers.contains(&address))
    {
        return not_allowed(what(), format!("remove `{}`, or bind to another port", rule.text));
    }
    let asked = if is_local { port.or(Some(0)) } else { port };
    if let Some(rule) = policy.net_allow.iter().find(|rule| rule.applies(address, host, asked)) {
        return Verdict::Allowed { rule: rule.text.clone(), place: Some(rule.place.clone()) };
    }
    // Nothing is sent to port 0: with it a resolver asks the kernel which way it would take to an address it was given.
    let is_probe = |rule: &&NetRule| is_name(&rule.target) && rule.applies(None, host, Some(rule.ports.low));
    if let (Some(rule), Some(0), false) = (policy.net_allow.iter().find(is_probe), port, is_local) {
        return Verdict::Allowed { rule: rule.text.clone(), place: Some(rule.place.clone()) };
    }
    let asks_names = policy.net_allow.iter().find(|rule| is_name(&rule.target));
    if let (Some(rule), Some(address), Some(53 | 0), false) = (asks_names, address, port, is_local)
        && policy.nameservers.contains(&address)
    {
        let rule_text = format!("{} (asking the host's name server)", rule.text);
        return Verdict::Allowed { rule: rule_text, place: Some(rule.place.clone()) };
    }
    not_allowed(what(), format!("net.allow: - \"{end}:{port_text}\""))
}

/// The addresses of a rule, when it has some.
fn target_nets(target: &Target) -> Vec<IpNet> {
    match target {
        Target::Net(net) => vec![*net],
        Target::Host(name) if name == "localhost" => LOCALHOST.map(IpNet::single).to_vec(),
        _ => Vec::new(),
    }
}

/// Whether a rule gives a host that must be looked up.
pub fn is_name(target: &Target) -> bool {
    matches!(target, Target::Host(name) if name != "localhost")
}

/// How an act on a socket is called.
pub(super) fn verb(op: NetEffectOp) -> &'static str {
    match op {
        NetEffectOp::Bind => "bind",
        NetEffectOp::Listen => "listen on",
        NetEffectOp::Send => "send to",
        NetEffectOp::Connect | NetEffectOp::Use => "connect",
    }
}

pub(super) fn judge_unix_path(policy: &Policy, verb: &str, path: &[u8]) -> Verdict {
    let what = || format!("{verb} unix:{}", policy.spell(path));
    if !path.starts_with(b"/") {
        return judge_family(policy, "unix");
    }
    if let Some(rule) = policy.net_deny.iter().find(|rule| rule.applies_to_unix_path(path)) {
        return denied_by(what(), &rule.text, &rule.place);
    }
    // What is closed altogether is closed as a socket too, whatever pattern allows it.
    let is_closed = |rule: &&PathRule| rule.applies(Access::Read, path) && rule.applies(Access::Write, path);
    if let Some(rule) = policy.fs_deny.iter().find(is_closed) {
        return denied_by(what(), &rule.text, &rule.place);
    }
    if let Some(rule) = policy.net_allow.iter().find(|rule| rule.applies_to_unix_path(path)) {
        return Verdict::Allowed { rule: rule.text.clone(), place: Some(rule.place.clone()) };
    }
    match judge_file(Rules::all(policy), Access::Write, path) {
        Verdict::Denied(Denial { rule: Some((text, place)), .. }) => denied_by(what(), &text, &place),
        // The name is made as a file's is: the directory is what can be granted, and then the socket needs no rule.
        Verdict::Denied(_) if matches!(verb, "bind" | "listen on") => {
            let slash = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            not_allowed(what(), fs_remedy(policy, Access::Write, &path[..slash.max(1)]))
        }
        Verdict::Denied(_) => not_allowed(what(), format!("net.allow: - \"unix:{}\"", policy.spell(path))),
        allowed @ Verdict::Allowed { .. } => allowed,
    }
}

pub(super) fn judge_unix_abstract(policy: &Policy, verb: &str, name: &[u8]) -> Verdict {
    let spelled = Name::from_bytes(name);
    let what = || format!("{verb} unix:@{spelled}");
    if let Some(rule) = policy.net_deny.iter().find(|rule| rule.applies_to_unix_abstract(name)) {
        return denied_by(what(), &rule.text, &rule.place);
    }
    match policy.net_allow.iter().find(|rule| rule.applies_to_unix_abstract(name)) {
        Some(rule) => Verdict::Allowed { rule: rule.text.clone(), place: Some(rule.place.clone()) },
        None => not_allowed(what(), format!("net.allow: - \"unix:@{spelled}\"")),
    }
}

#[cfg(test)]
mod tests;
