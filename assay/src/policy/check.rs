//! Policy × act → [`Verdict`]. Pure.
//!
//! Not allowed is denied; a deny wins at any depth. A denial names the rule that denies, if one does, and the line
//! that would allow the act.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::problem::Place;
use super::rule::{Access, AccessSet, Base, PathRule, Policy, yaml_scalar};
use crate::profile::acts::{EffectKind, Need, Side, needs};
use crate::profile::effect::{
    Effect, ExecEffect, FsEffect, FsOp, NetEffect, NetEffectOp, Port, is_never_granted,
};
use crate::profile::name::{Name, unescape};

mod near;
mod sockets;

pub use near::Judge;
use near::Rules;
pub use sockets::is_name;
use sockets::{judge_inet, judge_unix_abstract, judge_unix_path, verb};

/// One thing that needs authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// An access to the file at this absolute path, links resolved.
    File(Access, &'a [u8]),
    /// The name at this path is moved, or something is moved onto it: needs write, and must not carry along a
    /// path on which a deny lies.
    Move(&'a [u8]),
    /// The program at this path starts.
    Exec(&'a [u8]),
    /// A mount: never granted.
    Mount(&'a [u8]),
    /// An IP endpoint is connected to, sent to, bound or listened on.
    Inet(Inet<'a>),
    /// A UNIX socket with a path is connected to, sent to or bound.
    UnixPath(&'a [u8]),
    /// An abstract UNIX socket, without its leading NUL.
    UnixAbstract(&'a [u8]),
    /// A UNIX socket without a name, or a socket of another family, known by this word only.
    Family(&'a str),
}

/// What is known of an IP endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inet<'a> {
    /// True for bind and listen, where the address is our own.
    pub is_local: bool,
    /// The address, when it is known.
    pub address: Option<IpAddr>,
    /// The name the run's own resolver gave for it.
    pub host: Option<&'a str>,
    /// The port; `None` for one the kernel chose.
    pub port: Option<u16>,
}

/// What the policy says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may happen, by this rule.
    Allowed {
        /// The rule's text, or a word for what is always allowed.
        rule: String,
        /// Where it is written.
        place: Option<Place>,
    },
    /// It may not.
    Denied(Denial),
}

impl Verdict {
    /// Whether it may happen.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }
}

/// Why something may not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What was asked for, as a person says it: `write /etc/passwd`.
    pub what: String,
    /// The rule that denies; `None` when no rule allows.
    pub rule: Option<(String, Place)>,
    /// The line that would allow it, or what to do with the rule that denies.
    pub remedy: String,
}

impl Denial {
    /// Why, in a few words.
    pub fn why(&self) -> String {
        match &self.rule {
            Some((text, place)) => format!("denied by `{text}` ({place})"),
            None => "no rule allows it".into(),
        }
    }
}

/// What an operation needs at one of its names, by the table of acts.
fn accesses(op: FsOp, side: Side) -> AccessSet {
    needs(EffectKind::Fs(op), side)
        .iter()
        .filter_map(|need| match need {
            Need::Read => Some(Access::Read),
            Need::Write => Some(Access::Write),
            Need::Execute => Some(Access::Execute),
            Need::NetRule | Need::Base | Need::Never => None,
        })
        .collect()
}

/// What the policy says to one request.
pub fn judge(policy: &Policy, request: Request<'_>) -> Verdict {
    match request {
        Request::File(access, path) => judge_file(Rules::all(policy), access, path),
        Request::Move(path) => judge_move(Rules::all(policy), path),
        Request::Exec(path) => judge_exec(policy, path),
        Request::Mount(path) => Verdict::Denied(Denial {
            what: format!("mount {}", policy.spell(path)),
            rule: None,
            remedy: "mounts are never granted".into(),
        }),
        Request::Inet(inet) => judge_inet(policy, inet),
        Request::UnixPath(path) => judge_unix_path(policy, "connect", path),
        Request::UnixAbstract(name) => judge_unix_abstract(policy, "connect", name),
        Request::Family(family) => judge_family(policy, family),
    }
}

/// What the policy says to an effect; the first denial of what it needs. Names of the effect are read with
/// [`path_of_name`] and `roots` (variable name and absolute path).
pub fn judge_effect(policy: &Policy, effect: &Effect, roots: &[(String, Vec<u8>)]) -> Verdict {
    match effect {
        Effect::Fs(fs) => judge_fs_effect(policy, fs, roots, &mut |_, ask| ask(Rules::all(policy))),
        Effect::Exec(ExecEffect { path, .. }) => judge_exec(policy, &path_of_name(path, roots)),
        Effect::Net(net) => judge_net_effect(policy, net, roots),
    }
}

/// The absolute path behind a name of the identity: `${VAR}` at its beginning replaced, escapes undone. A name
/// that is no path (`pipe:`, a folded one) comes back as its bytes.
pub fn path_of_name(name: &Name, roots: &[(String, Vec<u8>)]) -> Vec<u8> {
    // A file without a name is judged as its directory is, and a deleted one as the name it had.
    let text = name.as_str();
    let text = text.strip_prefix("unnamed:").or_else(|| text.strip_prefix("deleted:")).unwrap_or(text);
    let raw = |text: &str| unescape(text).unwrap_or_else(|| text.as_bytes().to_vec());
    if let Some((variable, rest)) = text.strip_prefix("${").and_then(|rest| rest.split_once('}'))
        && (rest.is_empty() || rest.starts_with('/'))
        && let Some((_, root)) = roots.iter().find(|(known, _)| known == variable)
    {
        return [root.as_slice(), &raw(rest)].concat();
    }
    raw(text)
}

/// Asks about a path, of the rules that can speak about it.
type Asking<'a, 'p> = dyn FnMut(&[u8], &mut dyn FnMut(Rules<'_, 'p>) -> Verdict) -> Verdict + 'a;

fn judge_fs_effect<'p>(
    policy: &'p Policy,
    fs: &FsEffect,
    roots: &[(String, Vec<u8>)],
    asking: &mut Asking<'_, 'p>,
) -> Verdict {
    let path = path_of_name(&fs.path, roots);
    let (at_path, at_to) = (accesses(fs.op, Side::Path), accesses(fs.op, Side::To));
    let mut verdict = None;
    let mut ask = |path: &[u8], judge: &mut dyn FnMut(Rules<'_, 'p>) -> Verdict| match asking(path, judge) {
        denied @ Verdict::Denied(_) => Some(denied),
        allowed @ Verdict::Allowed { .. } => {
            verdict.get_or_insert(allowed);
            None
        }
    };
    if fs.op == FsOp::Mount {
        return judge(policy, Request::Mount(&path));
    }
    for access in Access::ALL.into_iter().filter(|access| at_path.has(*access)) {
        // Listing is the part of `read` that can be granted alone.
        let access = if fs.op == FsOp::List { Access::List } else { access };
        if let Some(denied) = ask(&path, &mut |rules| judge_file(rules, access, &path)) {
            return denied;
        }
    }
    if fs.op == FsOp::Rename
        && let Some(denied) = ask(&path, &mut |rules| judge_move(rules, &path))
    {
        return denied;
    }
    // A symlink's `to` is its text, not a name that is touched.
    if let (Some(to), false) = (&fs.to, at_to.is_empty()) {
        let to = path_of_name(to, roots);
        for access in Access::ALL.into_iter().filter(|access| at_to.has(*access)) {
            if let Some(denied) = ask(&to, &mut |rules| judge_file(rules, access, &to)) {
                return denied;
            }
        }
        if let Some(denied) = ask(&to, &mut |rules| judge_move(rules, &to)) {
            return denied;
        }
    }
    verdict.unwrap_or(Verdict::Allowed { rule: "nothing to authorise".into(), place: None })
}

/// As [`judge_effect`], where the addresses are known that a host's name stands for: each of them needs authority.
pub fn judge_effect_at(
    policy: &Policy,
    effect: &Effect,
    addresses: &BTreeSet<IpAddr>,
    roots: &[(String, Vec<u8>)],
) -> Verdict {
    let Effect::Net(net) = effect else { return judge_effect(policy, effect, roots) };
    let NetEffect { host: Some(host), address: None, .. } = net.as_ref() else {
        return judge_effect(policy, effect, roots);
    };
    let mut verdicts = addresses.iter().map(|address| {
        let (is_local, port) = (is_local(net.op), number_of(net.port));
        judge_inet(policy, Inet { is_local, address: Some(*address), host: Some(host), port })
    });
    let Some(first) = verdicts.next() else { return judge_effect(policy, effect, roots) };
    std::iter::once(first.clone()).chain(verdicts).find(|verdict| !verdict.is_allowed()).unwrap_or(first)
}

/// As [`judge_effect`], with this number in place of a port of the kernel's choice; `None` for what has no port.
pub fn judge_with_port(
    policy: &Policy,
    effect: &Effect,
    port: u16,
    roots: &[(String, Vec<u8>)],
) -> Option<Verdict> {
    let Effect::Net(net) = effect else { return None };
    let net = NetEffect { port: Some(Port::Number(port)), ..NetEffect::clone(net) };
    Some(judge_net_effect(policy, &net, roots))
}

fn is_local(op: NetEffectOp) -> bool {
    matches!(op, NetEffectOp::Bind | NetEffectOp::Listen)
}

fn number_of(port: Option<Port>) -> Option<u16> {
    match port {
        Some(Port::Number(port)) => Some(port),
        Some(Port::Ephemeral) | None => None,
    }
}

fn judge_net_effect(policy: &Policy, net: &NetEffect, roots: &[(String, Vec<u8>)]) -> Verdict {
    let is_local = is_local(net.op);
    match net.proto.as_str() {
        "unix" => match &net.address {
            None => judge_family(policy, "unix"),
            Some(name) => match name.as_str().strip_prefix('@') {
                Some(name) => {
                    let name = unescape(name).unwrap_or_else(|| name.as_bytes().to_vec());
                    judge_unix_abstract(policy, verb(net.op), &name)
                }
                None => judge_unix_path(policy, verb(net.op), &path_of_name(name, roots)),
            },
        },
        family if is_never_granted(family) => judge_family(policy, family),
        _ if net.address.is_some() || net.host.is_some() || net.port.is_some() => {
            let address = net.address.as_ref().and_then(|address| address.as_str().parse().ok());
            // Beside an address, a name is only claimed.
            let host = net.host.as_deref().filter(|_| net.address.is_none());
            judge_inet(policy, Inet { is_local, address, host, port: number_of(net.port) })
        }
        family => judge_family(policy, family),
    }
}

fn allowed(rule: &PathRule) -> Verdict {
    Verdict::Allowed { rule: rule.text.clone(), place: Some(rule.place.clone()) }
}

/// How the identity names a process that is not the run's.
const OTHER_PROCESS: &[u8] = b"/proc/${OTHER_PID}";

fn is_of_another_process(path: &[u8]) -> bool {
    path.strip_prefix(OTHER_PROCESS).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        || is_numbered(path)
}

/// Whether it names a process by its number. In the identity the run's own have none.
fn is_numbered(path: &[u8]) -> bool {
    let number = path.strip_prefix(b"/proc/").and_then(|rest| rest.split(|&byte| byte == b'/').next());
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// Whether a rule speaks about what `/proc` shows of processes outside the run.
pub fn shows_others(rule: &PathRule) -> bool {
    rule.patterns.iter().any(|pattern| {
        pattern.covers(OTHER_PROCESS)
            || pattern.reaches_beneath(OTHER_PROCESS)
            || is_numbered(&pattern.literal_prefix())
    })
}

fn judge_file(rules: Rules<'_, '_>, access: Access, path: &[u8]) -> Verdict {
    let policy = rules.policy;
    let what = || format!("{} {}", access.as_str(), policy.spell(path));
    if !path.starts_with(b"/") {
        // A pipe, a memfd, a deleted file: no name in the tree that a rule could govern.
        return Verdict::Allowed { rule: "no name in the tree".into(), place: None };
    }
    if let Some(rule) = rules.deny().find(|rule| rule.applies(access, path)) {
        return denied_by(what(), &rule.text, &rule.place);
    }
    // The base grants a run its own `/proc`: what is there of other processes needs a rule of the policy.
    let is_others = is_of_another_process(path);
    let is_granted = |rule: &&PathRule| {
        !(is_others && rule.is_base)
            && (rule.applies(access, path) || access == Access::Read && rule.applies(Access::Execute, path))
    };
    if let Some(rule) = rules.allow().find(is_granted) {
        return allowed(rule);
    }
    // Starting a program reads it.
    let listed = policy.exec_allow.as_deref().unwrap_or_default();
    if let (Access::Read, Some(rule)) =
        (access, listed.iter().find(|rule| rule.applies(Access::Execute, path)))
    {
        return allowed(rule);
    }
    not_allowed(what(), fs_remedy(policy, access, path))
}

/// The line that would allow it, and what else it would open.
fn fs_remedy(policy: &Policy, access: Access, path: &[u8]) -> String {
    let spelled = yaml_scalar(&policy.spell(path));
    let line = format!("fs.allow: - {{path: {spelled}, access: [{}]}}", access.as_str());
    let is_home = policy.roots.iter().any(|(variable, root)| variable == "${HOME}" && root == path);
    match path {
        b"/" => format!("{line} would open the whole host, not only `/`: name what is needed beneath it"),
        _ if is_home => format!("{line} would open the whole home: name what is needed beneath it"),
        _ => line,
    }
}

fn judge_move(rules: Rules<'_, '_>, path: &[u8]) -> Verdict {
    let write = AccessSet::of(Access::Write);
    let carried = rules.deny().find(|rule| {
        !rule.access.intersection(write).is_empty()
            && rule.patterns.iter().any(|pattern| pattern.is_fixed_beneath(path))
    });
    match carried {
        Some(rule) => denied_by(format!("move {}", rules.policy.spell(path)), &rule.text, &rule.place),
        None => judge_file(rules, Access::Write, path),
    }
}

fn judge_exec(policy: &Policy, path: &[u8]) -> Verdict {
    let what = || format!("execute {}", policy.spell(path));
    if !path.starts_with(b"/") {
        return match policy.exec_allow {
            None => Verdict::Allowed { rule: "no name in the tree".into(), place: None },
            Some(_) => not_allowed(what(), "a program without a name cannot be listed in exec.allow".into()),
        };
    }
    for rule in policy.exec_deny.iter().chain(&policy.fs_deny) {
        // Who may not read a program cannot start it.
        if rule.applies(Access::Execute, path) || rule.applies(Access::Read, path) {
            return denied_by(what(), &rule.text, &rule.place);
        }
    }
    let scalar = yaml_scalar(&policy.spell(path));
    let (rules, remedy) = match &policy.exec_allow {
        Some(rules) => (rules, format!("exec.allow: - {scalar}")),
        None => (&policy.fs_allow, format!("fs.allow: - {{path: {scalar}, access: [execute]}}")),
    };
    match rules.iter().find(|rule| rule.applies(Access::Execute, path)) {
        Some(rule) => allowed(rule),
        None => not_allowed(what(), remedy),
    }
}

fn judge_family(policy: &Policy, family: &str) -> Verdict {
    match (family, policy.base) {
        ("unix", _) => Verdict::Allowed { rule: "a socket without a name".into(), place: None },
        ("netlink", Base::System) => Verdict::Allowed { rule: "base: system".into(), place: None },
        ("netlink", Base::None) => not_allowed("use netlink".into(), "base: system".into()),
        ("tcp" | "udp", _) if policy.net_allow.is_empty() => {
            not_allowed(format!("use {family}"), "net.allow names what may be reached".into())
        }
        ("tcp" | "udp", _) => Verdict::Allowed { rule: "a socket without an address".into(), place: None },
        (family, _) => not_allowed(format!("use {family}"), "sockets of this kind are never granted".into()),
    }
}

fn denied_by(what: String, text: &str, place: &Place) -> Verdict {
    Verdict::Denied(Denial {
        what,
        rule: Some((text.to_owned(), place.clone())),
        remedy: format!("a deny always wins: remove or narrow `{text}` at {place}"),
    })
}

fn not_allowed(what: String, remedy: String) -> Verdict {
    Verdict::Denied(Denial { what, rule: None, remedy })
}
