//! The effects of a run → the policy that allows them, as narrow as is stable. Pure.
//!
//! System directories are granted by directory and the work directory by name; everything else as the file it is,
//! or, where names are made, removed or moved, as the directory they are in. What was denied is not granted.

use std::collections::{BTreeMap, BTreeSet};

use super::effect::{Effect, EffectResult, FsEffect, FsOp, NetEffect, NetEffectOp, Port};
use super::identity::Fold;
use super::name::Name;
use super::wire::{Comments, Grant, Profile};

pub mod protect;

use protect::Protected;

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
    folded: &[Fold],
    protected: &[Protected],
) -> Profile {
    let effects: Vec<&Effect> =
        effects.into_iter().filter(|effect| effect.result() == EffectResult::Ok).collect();
    let mut suggestion = Suggestion { made: made_by(&effects), ..Suggestion::default() };
    // A file that was written under a temporary name and renamed: names are made where both names are.
    for fold in folded.iter().filter(|fold| fold.rule.split('+').any(|rule| rule == "temp-rename")) {
        suggestion.names_in(parent(&fold.to));
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
                        // The policy language takes a word without a slash for a program's bare name.
                        if !path.contains('/') {
                            path.push('/');
                        }
                        programs.insert(path);
                    }
                    None => is_listable = false,
                }
            }
            Effect::Net(net) => suggestion.net.extend(net_rule(net)),
        }
    }
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
        collapse(&mut profile.fs, many);
        if profile.fs.len() <= MAX_RULES || many == 1 {
            break;
        }
        many /= 2;
    }
    profile.fs = without_covered(&profile.fs);
    protect::protect(&mut profile, &effects, protected);
    profile
}

/// The comment above a profile. Only what follows from the identity stands in it, so that equal runs write equal
/// bytes.
pub fn comments(command: &[String], run_id: &str, effects: &[Effect]) -> Comments {
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
            Effect::Net(net) if net.op == NetEffectOp::Use && net.proto != "netlink" => {
                Some(net.proto.as_str())
            }
            _ => None,
        })
        .collect();
    if !families.is_empty() {
        let families: Vec<&str> = families.into_iter().collect();
        header.push(format!("not granted: sockets that no policy grants: {}", families.join(", ")));
    }
    Comments { header, ..Comments::default() }
}

#[derive(Default)]
struct Suggestion {
    /// Names the run made: they are not there when a policy is applied.
    made: BTreeSet<String>,
    fs: BTreeMap<String, BTreeSet<Grant>>,
    net: BTreeSet<String>,
}

impl Suggestion {
    fn fs(&mut self, effect: &FsEffect) {
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
    fn grant(&mut self, path: &str, grant: Grant) {
        let existing = self.existing(path).to_owned();
        if existing != path {
            self.names_in(&existing);
            return;
        }
        let is_reading = matches!(grant, Grant::Read | Grant::List);
        if is_reading && let Some(system) = SYSTEM.iter().find(|system| covers(system, path)) {
            self.fs.entry((*system).to_owned()).or_default().extend([Grant::Read, Grant::Execute]);
            return;
        }
        if is_reading && covers("${WORKDIR}", path) {
            self.fs.entry("${WORKDIR}".into()).or_default().insert(Grant::Read);
            return;
        }
        let is_base = BASE_WRITE.iter().any(|base| covers(base, path))
            || (is_reading && BASE_READ.iter().any(|base| covers(base, path)));
        if is_base {
            return;
        }
        if let Some(path) = policy_path(path) {
            self.fs.entry(path).or_default().insert(grant);
        }
    }

    /// Grants making, removing and moving names in a directory, or in the first one above it that the run did not
    /// make itself.
    fn names_in(&mut self, directory: &str) {
        let directory = self.existing(directory).to_owned();
        if BASE_WRITE.iter().any(|base| covers(base, &directory)) {
            return;
        }
        if let Some(path) = policy_path(&directory) {
            self.fs.entry(path).or_default().extend([Grant::Read, Grant::Write]);
        }
    }

    /// `path`, or the first directory above it that was there before the run.
    fn existing<'a>(&self, path: &'a str) -> &'a str {
        let mut path = trimmed(path);
        let mut kept = path;
        // The whole way up: a directory can have been made under a name that is not told itself.
        loop {
            if self.made.contains(path) {
                kept = parent(path);
            }
            let above = parent(path);
            if above == path {
                return kept;
            }
            path = above;
        }
    }
}

/// Names that the run made.
fn made_by(effects: &[&Effect]) -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    for effect in effects {
        let Effect::Fs(fs) = effect else { continue };
        match fs.op {
            FsOp::Create | FsOp::Symlink => {
                made.insert(trimmed(fs.path.as_str()).to_owned());
            }
            FsOp::Rename | FsOp::Link => {
                made.extend(fs.to.as_ref().map(|to| trimmed(to.as_str()).to_owned()));
            }
            FsOp::Read | FsOp::List | FsOp::Write | FsOp::Delete | FsOp::Attr | FsOp::Mount => {}
        }
    }
    made
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

fn covers(directory: &str, path: &str) -> bool {
    directory == "/" && path.starts_with('/')
        || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A name of the identity as a policy spells it: its own variables kept, what was folded as `*`. `None` when it is no
/// path.
fn policy_path(name: &str) -> Option<String> {
    let (mut out, rest) = match name.strip_prefix("${").and_then(|rest| rest.split_once('}')) {
        Some((variable @ ("WORKDIR" | "HOME" | "TMPDIR" | "CALLER_TMPDIR"), rest)) => {
            (format!("${{{variable}}}"), rest)
        }
        Some(("RUNTIME_DIR", rest)) => ("/run/user/*".to_owned(), rest),
        Some(("CGROUP" | "CGROUP_PARENT", rest)) => ("/sys/fs/cgroup/**".to_owned(), rest),
        None if name.starts_with('/') => (String::new(), name),
        Some(_) | None => return None,
    };
    out.push_str(&globbed(rest));
    Some(out)
}

/// Text of a name with `*` written out and each variable as `*`.
fn globbed(text: &str) -> String {
    let mut out = String::new();
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
    out
}

/// Text without anything that a policy takes for a pattern, or for a mistaken one.
fn literal(text: &str) -> String {
    text.replace('*', "\\x2a").replace('[', "\\x5b")
}

fn net_rule(net: &NetEffect) -> Option<String> {
    if net.op == NetEffectOp::Use {
        return None;
    }
    let address = net.address.as_ref().map(Name::as_str);
    if net.proto == "unix" {
        let address = address?;
        return match address.strip_prefix('@') {
            // A rule for an abstract name has one `*`, at its end.
            Some(name) => {
                let name = globbed(name);
                let end = name.find('*').map_or(name.len(), |star| star + 1);
                Some(format!("unix:@{}", &name[..end]))
            }
            None => policy_path(address).map(|path| format!("unix:{path}")),
        };
    }
    let host = match (&net.host, address) {
        (Some(host), _) => host.clone(),
        (None, Some(address)) if address.contains(':') => format!("[{address}]"),
        (None, Some(address)) => address.to_owned(),
        (None, None) => return None,
    };
    let port = match net.port {
        Some(Port::Number(port)) => port.to_string(),
        Some(Port::Ephemeral) | None => "*".to_owned(),
    };
    (!host.starts_with("${")).then(|| format!("{host}:{port}"))
}

/// Directories in which so many files are read that they are granted whole.
fn collapse(rules: &mut BTreeMap<String, BTreeSet<Grant>>, many: usize) {
    loop {
        let mut children: BTreeMap<String, usize> = BTreeMap::new();
        for (path, grants) in rules.iter() {
            let is_read = grants.iter().all(|grant| matches!(grant, Grant::Read | Grant::List));
            if is_read && is_deep(parent(path)) {
                *children.entry(parent(path).to_owned()).or_default() += 1;
            }
        }
        let wide: Vec<String> =
            children.into_iter().filter(|(_, count)| *count > many).map(|(path, _)| path).collect();
        if wide.is_empty() {
            return;
        }
        for directory in wide {
            rules.retain(|path, grants| {
                let is_read = grants.iter().all(|grant| matches!(grant, Grant::Read | Grant::List));
                !(is_read && covers(&directory, path))
            });
            rules.entry(directory).or_default().insert(Grant::Read);
        }
    }
}

/// Whether a directory is far enough down that all of it belongs together: three names below `/`, two below a
/// variable, and no place for secrets.
fn is_deep(directory: &str) -> bool {
    let names = directory.split('/').count();
    let is_secret = directory.split('/').any(|name| {
        matches!(
            name,
            "private"
                | ".ssh"
                | ".gnupg"
                | ".aws"
                | ".azure"
                | ".gcloud"
                | ".kube"
                | ".docker"
                | ".password-store"
                | "keyrings"
        )
    });
    let least = if directory.starts_with("${") { 3 } else { 4 };
    names >= least && !is_secret
}

/// Rules that no other rule makes superfluous.
fn without_covered(rules: &BTreeMap<String, BTreeSet<Grant>>) -> BTreeMap<String, BTreeSet<Grant>> {
    let includes = |above: &BTreeSet<Grant>, grant: Grant| {
        above.contains(&grant) || (grant == Grant::List && above.contains(&Grant::Read))
    };
    let mut kept = BTreeMap::new();
    for (path, grants) in rules {
        let grants: BTreeSet<Grant> = grants
            .iter()
            .copied()
            .filter(|grant| {
                let mut above = path.as_str();
                while parent(above) != above {
                    above = parent(above);
                    if rules.get(above).is_some_and(|above| includes(above, *grant)) {
                        return false;
                    }
                }
                !(*grant == Grant::List && rules[path].contains(&Grant::Read))
            })
            .collect();
        if !grants.is_empty() {
            kept.insert(path.clone(), grants);
        }
    }
    kept
}

fn drop_covered(paths: &BTreeSet<String>) -> BTreeSet<String> {
    let is_covered = |path: &str| {
        let mut above = path;
        while parent(above) != above {
            above = parent(above);
            if paths.contains(above) {
                return true;
            }
        }
        false
    };
    paths.iter().filter(|path| !is_covered(path)).cloned().collect()
}

#[cfg(test)]
mod tests;
