//! The effects of a run → the policy that allows them, as narrow as is stable. Pure.
//!
//! System directories are granted by directory and the work directory by name; everything else as the file it is,
//! or, where names are made, removed or moved, as the directory they are in. What was denied is not granted.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use super::effect::{
    Effect, EffectResult, FsEffect, FsOp, NetEffect, NetEffectOp, Port, bracketed, is_never_granted,
};
use super::fold_rule::FoldRule;
use super::grant_set::GrantSet;
use super::identity::Fold;
use super::name::Name;
use super::roots::is_beneath;
use super::wire::{Comments, Grant, Profile};

mod generalised;
pub mod protect;
mod wide;

use generalised::generalised;
use protect::{Protected, Touched, Used};
use wide::collapse;

/// Directories that are granted whole as soon as something in them is read.
const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"];

/// What `base: system` grants to read already, so that a profile need not say it.
const BASE_READ: &[&str] =
    &["/proc", "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm", "${CGROUP}", "${CGROUP_PARENT}"];

/// What `base: system` grants to read and write already.
const BASE_WRITE: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "${TMPDIR}",
];

/// More files than this in one directory are granted as the directory, where that is deep enough.
const MANY: usize = 16;
/// The most rules of `fs` that the policy reader should have to bear.
const MAX_RULES: usize = 8_000;

/// The profile of a run: what it did, and which temporary names became others. Of the `protected` paths, those that its
/// grants would reach and the run did not touch are denied.
pub fn suggest<'a>(
    effects: impl IntoIterator<Item = &'a Effect>,
    folded: &'a [Fold],
    protected: &[Protected],
) -> Profile {
    let effects: Vec<&Effect> =
        effects.into_iter().filter(|effect| effect.result() == EffectResult::Ok).collect();
    let used = Used::by(&effects);
    let mut suggestion = Suggestion::new(made_by(&effects), Touched::by(&used, protected));
    // A file that was written under a temporary name and renamed: names are made where both names are.
    for fold in
        folded.iter().filter(|fold| fold.rule.split('+').any(|rule| rule == FoldRule::TempRename.as_str()))
    {
        suggestion.names_in(parent(fold.to.as_str()));
    }
    let mut programs = BTreeSet::new();
    let mut is_listable = true;
    for effect in &effects {
        match effect {
            Effect::Fs(fs) => suggestion.fs(fs),
            Effect::Exec(exec) => {
                let path = suggestion.existing(as_named(exec.path.as_str()));
                match policy_path(path) {
                    Some(mut path) => {
                        // So that nobody takes it for a program's bare name.
                        if !path.contains('/') {
                            path.push('/');
                        }
                        programs.insert(path);
                    }
                    None => is_listable = false,
                }
            }
            Effect::Net(net) => suggestion.net.extend(net_rules(net)),
        }
    }
    let touched = suggestion.touched;
    let mut profile = Profile { net: suggestion.net, exec: None, fs: suggestion.fs, deny: BTreeMap::new() };
    if is_listable {
        profile.exec = Some(drop_covered(&programs));
    } else {
        // A program without a name cannot be listed: then where programs lie has to decide.
        for program in &programs {
            profile.fs.entry(program.clone()).or_default().extend([Grant::Read, Grant::Execute]);
        }
    }
    let mut many = MANY;
    loop {
        collapse(&mut profile.fs, many, &touched);
        if profile.fs.len() <= MAX_RULES || many == 1 {
            break;
        }
        many /= 2;
    }
    profile.fs = without_covered(&profile.fs);
    protect::protect(&mut profile, &used, protected);
    profile
}

/// The comments of a profile: what it is above it, and beside each rule that is wider than one name how many names it
/// stands for. Only what follows from the identity stands in them, so that equal runs write equal bytes.
pub fn comments(profile: &Profile, command: &[String], run_id: &str, effects: &[Effect]) -> Comments {
    let mut header = vec![
        "What a run did, as a policy: it allows this, and what `base: system` adds, and nothing else."
            .to_owned(),
        format!("run: {run_id}"),
        format!("command: {}", command.join(" ")),
    ];
    let denied = effects.iter().filter(|effect| effect.result() == EffectResult::Denied).count();
    if denied > 0 {
        header.push(format!("not granted: {denied} effects that were denied"));
    }
    let is_mount = |effect: &&Effect| matches!(effect, Effect::Fs(FsEffect { op: FsOp::Mount, .. }));
    let mounts = effects.iter().filter(is_mount).count();
    if mounts > 0 {
        header.push(format!("not granted: {mounts} mounts, which no policy grants"));
    }
    let families: BTreeSet<&str> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Net(net)
                if net.op == NetEffectOp::Use && net.proto != "netlink" || is_never_granted(&net.proto) =>
            {
                Some(net.proto.as_str())
            }
            _ => None,
        })
        .collect();
    if !families.is_empty() {
        let families: Vec<&str> = families.into_iter().collect();
        header.push(format!("not granted: sockets that no policy grants: {}", families.join(", ")));
    }
    Comments { header, notes: Vec::new(), beside: generalised(profile, effects) }
}

/// Where the names in a directory sort.
fn inside(directory: &str) -> Range<String> {
    let directory = directory.trim_end_matches('/');
    format!("{directory}/")..format!("{directory}0")
}

struct Suggestion<'a> {
    /// Secrets that the run was in: no grant may open the rest of one for more than had to be.
    touched: Touched<'a>,
    /// Names the run made: they are not there when a policy is applied.
    made: HashSet<&'a str>,
    /// The directory that was looked up from last, and the first that the run made above or at it.
    looked_up: Cell<(&'a str, Option<&'a str>)>,
    /// Directories that were granted for making names: there are few, and many names in each.
    granted: HashSet<&'a str>,
    fs: BTreeMap<String, GrantSet>,
    net: BTreeSet<String>,
}

impl<'a> Suggestion<'a> {
    fn new(made: HashSet<&'a str>, touched: Touched<'a>) -> Self {
        let looked_up = Cell::new(("", None));
        Self { touched, made, looked_up, granted: HashSet::new(), fs: BTreeMap::new(), net: BTreeSet::new() }
    }

    fn fs(&mut self, effect: &'a FsEffect) {
        let path = trimmed(as_named(effect.path.as_str()));
        // A file without a name: making it takes writing in its directory.
        if let Some(directory) = path.strip_prefix("unnamed:") {
            self.names_in(if directory.is_empty() { "/" } else { directory });
        }
        match effect.op {
            FsOp::Read => self.grant(path, Grant::Read),
            FsOp::List => self.grant(path, Grant::List),
            FsOp::Write | FsOp::Attr => self.grant(path, Grant::Write),
            FsOp::Create | FsOp::Delete | FsOp::Symlink => self.names_in(parent(path)),
            FsOp::Rename | FsOp::Link => {
                let to = effect.to.as_ref().map_or(path, |to| trimmed(to.as_str()));
                self.names_in(parent(path));
                self.names_in(parent(to));
            }
            FsOp::Mount => {}
        }
    }

    /// Grants one access to a file; if the run made it, then what is granted for making it does.
    fn grant(&mut self, path: &'a str, grant: Grant) {
        let existing = self.existing(path);
        if existing != path {
            self.names_in(existing);
            if let Some(path) = policy_path(existing).filter(|_| !is_in_base(existing)) {
                self.fs.entry(path).or_default().insert(grant);
            }
            return;
        }
        let is_reading = matches!(grant, Grant::Read | Grant::List);
        if is_reading && let Some(system) = SYSTEM.iter().find(|system| is_beneath(path, system)) {
            self.fs.entry((*system).to_owned()).or_default().extend([Grant::Read, Grant::Execute]);
            return;
        }
        if is_reading && is_beneath(path, "${WORKDIR}") && !self.touched.is_reached_from("${WORKDIR}") {
            // Once is enough, and there may be very many.
            if self.fs.get("${WORKDIR}").is_none_or(|grants| !grants.contains(Grant::Read)) {
                self.fs.entry("${WORKDIR}".into()).or_default().insert(Grant::Read);
            }
            return;
        }
        let is_base = is_in_base(path)
            || (is_reading
                && !is_beneath(path, "/proc/${OTHER_PID}")
                && BASE_READ.iter().any(|base| is_beneath(path, base)));
        if is_base {
            return;
        }
        if let Some(path) = policy_path(path) {
            self.fs.entry(path).or_default().insert(grant);
        }
    }

    /// Grants making, removing and moving names in a directory, or in the first one above it that the run did not
    /// make itself.
    fn names_in(&mut self, directory: &'a str) {
        if !self.granted.insert(directory) {
            return;
        }
        let directory = self.existing(directory);
        if is_in_base(directory) {
            return;
        }
        if let Some(path) = policy_path(directory) {
            let grants = self.fs.entry(path).or_default();
            grants.insert(Grant::Write);
            if !self.touched.is_reached_from(directory) {
                grants.insert(Grant::Read);
            }
        }
    }

    /// `path`, or the first directory above it that was there before the run.
    fn existing(&self, path: &'a str) -> &'a str {
        let path = trimmed(path);
        // The whole way up: a directory can have been made under a name that is not told itself.
        let directory = parent(path);
        let (known, mut made) = self.looked_up.get();
        if known != directory {
            let way = std::iter::once(directory).chain(above_of(directory));
            made = way.filter(|above| self.made.contains(above)).last();
            self.looked_up.set((directory, made));
        }
        made.or_else(|| self.made.get(path).copied()).map_or(path, parent)
    }
}

fn is_in_base(path: &str) -> bool {
    BASE_WRITE.iter().any(|base| is_beneath(path, base))
}

/// Names that the run made.
fn made_by<'a>(effects: &[&'a Effect]) -> HashSet<&'a str> {
    let mut made = HashSet::new();
    for effect in effects {
        let Effect::Fs(fs) = effect else { continue };
        match fs.op {
            FsOp::Create | FsOp::Symlink => {
                made.insert(trimmed(fs.path.as_str()));
            }
            FsOp::Rename | FsOp::Link => {
                made.extend(fs.to.as_ref().map(|to| trimmed(to.as_str())));
            }
            FsOp::Read | FsOp::List | FsOp::Write | FsOp::Delete | FsOp::Attr | FsOp::Mount => {}
        }
    }
    made
}

/// The directories above, up to a root.
fn above_of(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |&path| Some(parent(path)).filter(|&above| above != path)).skip(1)
}

/// A deleted file is granted by the name it had.
fn as_named(path: &str) -> &str {
    path.strip_prefix("deleted:").unwrap_or(path)
}

fn trimmed(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() { path } else { trimmed }
}

/// The directory above; a root is its own.
fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) => "/",
        Some(slash) => &path[..slash],
        None => path,
    }
}

/// A name of the identity as a policy spells it: its own variables kept, what was folded as `*`. `None` when it is no
/// path.
fn policy_path(name: &str) -> Option<String> {
    let (begin, rest) = match name.strip_prefix("${").and_then(|rest| rest.split_once('}')) {
        Some(("WORKDIR" | "HOME" | "TMPDIR" | "CALLER_TMPDIR" | "RUNTIME_DIR", rest)) => {
            (&name[..name.len() - rest.len()], rest)
        }
        Some(("CGROUP" | "CGROUP_PARENT", rest)) => ("/sys/fs/cgroup/**", rest),
        None if name.starts_with('/') => ("", name),
        Some(_) | None => return None,
    };
    let mut out = String::with_capacity(begin.len() + rest.len());
    out.push_str(begin);
    globbed(rest, &mut out);
    Some(out)
}

/// Appends the text of a name with `*` written out and each variable as `*`.
fn globbed(text: &str, out: &mut String) {
    if !text.bytes().any(|byte| matches!(byte, b'$' | b'*' | b'[')) {
        out.push_str(text);
        return;
    }
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out.push_str(&literal(&rest[..at]));
        // Two in a row would mean any number of directories.
        if !out.ends_with('*') {
            out.push('*');
        }
        rest = rest[at..].split_once('}').map_or("", |(_, rest)| rest);
    }
    out.push_str(&literal(rest));
}

/// Text without anything that a policy takes for a pattern, or for a mistaken one.
fn literal(text: &str) -> String {
    text.replace('*', "\\x2a").replace('[', "\\x5b")
}

/// The rules that allow it: one for each of its names, where it has several.
fn net_rules(net: &NetEffect) -> Vec<String> {
    match &net.host {
        // Beside an address, a name is only claimed.
        Some(hosts) if net.address.is_none() => hosts
            .split(',')
            .filter_map(|host| net_rule(&NetEffect { host: Some(host.into()), ..net.clone() }))
            .collect(),
        Some(_) | None => net_rule(&NetEffect { host: None, ..net.clone() }).into_iter().collect(),
    }
}

fn net_rule(net: &NetEffect) -> Option<String> {
    if net.op == NetEffectOp::Use || is_never_granted(&net.proto) {
        return None;
    }
    let address = net.address.as_ref().map(Name::as_str);
    if net.proto == "unix" {
        let address = address?;
        return match address.strip_prefix('@') {
            // A rule for an abstract name has one `*`, at its end.
            Some(name) => {
                let mut text = String::new();
                globbed(name, &mut text);
                let name = text;
                let end = name.find('*').map_or(name.len(), |star| star + 1);
                Some(format!("unix:@{}", &name[..end]))
            }
            None => policy_path(address).map(|path| format!("unix:{path}")),
        };
    }
    let host = match (&net.host, address) {
        (Some(host), _) => host.clone(),
        (None, Some(address)) => bracketed(address).into_owned(),
        (None, None) => return None,
    };
    let port = match net.port {
        Some(Port::Number(port)) => port.to_string(),
        Some(Port::Ephemeral) | None => "*".to_owned(),
    };
    (!host.starts_with("${")).then(|| format!("{host}:{port}"))
}

/// Rules that no other rule makes superfluous.
fn without_covered(rules: &BTreeMap<String, GrantSet>) -> BTreeMap<String, GrantSet> {
    let mut known = HashMap::new();
    let mut kept = BTreeMap::new();
    for (path, grants) in rules {
        let directory = parent(path);
        let above = if directory == path { GrantSet::new() } else { reach(directory, rules, &mut known) };
        let is_new = |grant: &Grant| {
            let by_reading = grants.contains(Grant::Read) || above.contains(Grant::Read);
            !(above.contains(*grant) || *grant == Grant::List && by_reading)
        };
        let grants: GrantSet = grants.iter().filter(is_new).collect();
        if !grants.is_empty() {
            kept.insert(path.clone(), grants);
        }
    }
    kept
}

/// What is granted at a directory and above it. Many rules have theirs in common.
fn reach<'a>(
    directory: &'a str,
    rules: &BTreeMap<String, GrantSet>,
    known: &mut HashMap<&'a str, GrantSet>,
) -> GrantSet {
    let mut unknown = Vec::new();
    let mut reach = GrantSet::new();
    for above in std::iter::once(directory).chain(above_of(directory)) {
        if let Some(known) = known.get(above) {
            reach = *known;
            break;
        }
        unknown.push(above);
    }
    for above in unknown.into_iter().rev() {
        if let Some(grants) = rules.get(above) {
            reach.add(*grants);
        }
        known.insert(above, reach);
    }
    reach
}

fn drop_covered(paths: &BTreeSet<String>) -> BTreeSet<String> {
    let is_covered = |path: &str| above_of(path).any(|above| paths.contains(above));
    paths.iter().filter(|path| !is_covered(path)).cloned().collect()
}

#[cfg(test)]
mod tests;
