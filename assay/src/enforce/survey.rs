//! Looks at the file tree and the name service for what the rules of a policy speak about. Reads only.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use super::split::is_beneath;
use super::walk::is_looked_at;
use crate::policy::check::is_name;
use crate::policy::net::Target;
use crate::policy::pattern::{Part, Pattern};
use crate::policy::rule::{Access, PathRule, Policy};

/// What lies at the paths of a policy's rules. Each list is parallel to the policy's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// For `fs.allow`.
    pub fs_allow: Vec<Found>,
    /// For `fs.deny`.
    pub fs_deny: Vec<Found>,
    /// For `exec.allow`; empty when there is none.
    pub exec_allow: Vec<Found>,
    /// For `exec.deny`.
    pub exec_deny: Vec<Found>,
    /// ELF loaders of this system: the kernel starts them with a program, so they must be executable.
    pub loaders: Vec<Vec<u8>>,
    /// Addresses of the hosts that rules name; empty when the look-up failed.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
    /// Addresses that `/etc/hosts` has for the hosts that rules name, patterns included.
    pub hosts_file: BTreeMap<String, Vec<IpAddr>>,
    /// For each missing path of `fs.deny`: the directory that exists above it.
    pub above_missing: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Denied paths whose other names could not all be looked for.
    pub unsearched: BTreeSet<Vec<u8>>,
    /// UNIX sockets that are there, by path, links resolved.
    pub sockets: Vec<Vec<u8>>,
    /// Names directly in the directories a denied program is split out of: directory to names.
    pub listings: BTreeMap<Vec<u8>, Vec<(Vec<u8>, Kind)>>,
}

/// What lies at the paths of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// What is there, links resolved, sorted.
    pub there: BTreeMap<Vec<u8>, Kind>,
    /// Names among them that are symbolic links, the directories above resolved, and what they lead to; `None` for
    /// one that leads nowhere.
    pub links: BTreeMap<Vec<u8>, Option<(Vec<u8>, Kind)>>,
    /// Links to directories on the way to them: whoever may replace one leads the name elsewhere.
    pub links_above: BTreeSet<Vec<u8>>,
    /// Paths without `*` where nothing is.
    pub missing: BTreeSet<Vec<u8>>,
    /// Whether a pattern with `*` may match more later.
    pub is_open: bool,
    /// Whether the search was cut: there may be more.
    pub is_cut: bool,
    /// Whether a directory could not be listed, whose names the command may reach all the same.
    pub is_unlisted: bool,
}

/// What something is, as far as rights depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A directory.
    Directory,
    /// Anything else.
    File,
}

impl Survey {
    /// With `directory` there and empty, as the run's private one is once it is made.
    #[must_use]
    pub fn with_empty(mut self, directory: &[u8]) -> Self {
        let lists = [&mut self.fs_allow, &mut self.fs_deny, &mut self.exec_allow, &mut self.exec_deny];
        for found in lists.into_iter().flatten() {
            if found.missing.remove(directory) {
                found.there.insert(directory.to_vec(), Kind::Directory);
            }
        }
        self.above_missing.remove(directory);
        for (path, above) in &mut self.above_missing {
            if is_beneath(path, directory) {
                *above = directory.to_vec();
            }
        }
        self
    }
}

/// The most directory entries one pattern may look at.
const MAX_ENTRIES: usize = 200_000;
/// The most matches of one pattern.
const MAX_MATCHES: usize = 4_096;

/// Looks up everything.
///
/// `is_asked`: allowed names are looked up too, because they cannot be held as the run looks them up itself.
pub fn survey(policy: &Policy, is_asked: bool) -> Survey {
    let look = |rules: &[PathRule]| rules.iter().map(look_up).collect::<Vec<_>>();
    let mut survey = Survey {
        fs_allow: look(&policy.fs_allow),
        fs_deny: look(&policy.fs_deny),
        exec_allow: look(policy.exec_allow.as_deref().unwrap_or_default()),
        exec_deny: look(&policy.exec_deny),
        loaders: Vec::new(),
        hosts: look_up_hosts(policy, is_asked),
        hosts_file: look_up_in_file(policy, &fs::read_to_string("/etc/hosts").unwrap_or_default()),
        above_missing: BTreeMap::new(),
        unsearched: BTreeSet::new(),
        sockets: super::sockets::find(),
        listings: BTreeMap::new(),
    };
    let programs =
        survey.fs_allow.iter().zip(&policy.fs_allow).filter(|(_, rule)| rule.access.has(Access::Execute));
    let programs = programs.map(|(found, _)| found).chain(&survey.exec_allow);
    let programs: Vec<_> = programs.flat_map(|found| found.there.iter()).collect();
    survey.loaders = find_loaders(programs.into_iter());
    let missing = survey.fs_deny.iter().filter(|found| !found.is_open).flat_map(|found| &found.missing);
    survey.above_missing = missing.filter_map(|path| Some((path.clone(), above(path)?))).collect();
    survey.listings = list_split(policy, &survey);
    survey
}

/// What lies at the paths of one rule.
pub(super) fn look_up(rule: &PathRule) -> Found {
    let mut found = Found::default();
    for pattern in &rule.patterns {
        if let Some(path) = pattern.as_literal() {
            find_links(&path, &mut found);
            match fs::metadata(OsStr::from_bytes(&path)) {
                Ok(meta) => {
                    let kind = kind_of(&meta);
                    let real = fs::canonicalize(OsStr::from_bytes(&path));
                    found.there.insert(real.map_or(path, |real| real.into_os_string().into_vec()), kind);
                }
                // A link that leads nowhere is there itself.
                Err(_) if fs::symlink_metadata(OsStr::from_bytes(&path)).is_ok() => {}
                Err(_) => {
                    found.missing.insert(path);
                }
            }
        } else {
            found.is_open = true;
            let mut budget = MAX_ENTRIES;
            expand(pattern, &pattern.literal_prefix(), &mut budget, &mut found);
        }
    }
    // A path as written and where it leads are two patterns; if one is there, the other is not missing.
    if !found.there.is_empty() && !found.is_open {
        found.missing.clear();
    }
    found
}

/// Notes which names of `path` are links: the last one, and those above it.
fn find_links(path: &[u8], found: &mut Found) {
    let ends = (1..path.len()).filter(|&at| path[at] == b'/').chain([path.len()]);
    for end in ends {
        let here = OsStr::from_bytes(&path[..end]);
        let Ok(meta) = fs::symlink_metadata(here) else { return };
        if !meta.is_symlink() {
            continue;
        }
        let here = Path::new(here);
        let (Some(above), Some(name)) = (here.parent(), here.file_name()) else { continue };
        let Ok(above) = fs::canonicalize(above) else { return };
        let real = above.join(name).into_os_string().into_vec();
        if end == path.len() {
            let target = fs::canonicalize(here).ok();
            let kind = fs::metadata(here).ok().map(|meta| kind_of(&meta));
            found.links.insert(real, target.map(|to| to.into_os_string().into_vec()).zip(kind));
        } else {
            found.links_above.insert(real);
        }
    }
}

/// The directory that exists above a missing path, when that path is written without links.
fn above(path: &[u8]) -> Option<Vec<u8>> {
    let mut end = path.len();
    loop {
        end = path[..end].iter().rposition(|&byte| byte == b'/')?;
        let directory = if end == 0 { &b"/"[..] } else { &path[..end] };
        if let Ok(meta) = fs::metadata(OsStr::from_bytes(directory)) {
            let is_real = fs::canonicalize(OsStr::from_bytes(directory))
                .is_ok_and(|real| real.as_os_str().as_bytes() == directory);
            return (meta.is_dir() && is_real).then(|| directory.to_vec());
        }
    }
}

fn kind_of(meta: &fs::Metadata) -> Kind {
    if meta.is_dir() { Kind::Directory } else { Kind::File }
}

/// Adds what matches `pattern` in and below `directory`. Links are matched by their own name and not descended.
fn expand(pattern: &Pattern, directory: &[u8], budget: &mut usize, found: &mut Found) {
    // Everything inside a directory is the directory's own business.
    if let [front @ .., Part::AnyDepth] = pattern.parts()
        && Pattern::from_parts(front.to_vec()).matches(directory)
    {
        add_children(directory, budget, found);
        return;
    }
    for (path, kind, is_link) in children(directory, budget, found) {
        if pattern.matches(&path) {
            if found.there.len() >= MAX_MATCHES {
                found.is_cut = true;
                return;
            }
            if is_link {
                find_links(&path, found);
            }
            match fs::canonicalize(OsStr::from_bytes(&path)) {
                Ok(real) => drop(found.there.insert(real.into_os_string().into_vec(), kind)),
                Err(_) if is_link => {}
                Err(_) => drop(found.there.insert(path, kind)),
            }
        } else if kind == Kind::Directory && !is_link && pattern.reaches_beneath(&path) {
            expand(pattern, &path, budget, found);
        }
    }
}

fn add_children(directory: &[u8], budget: &mut usize, found: &mut Found) {
    for (path, kind, _) in children(directory, budget, found) {
        if found.there.len() >= MAX_MATCHES {
            found.is_cut = true;
            return;
        }
        found.there.insert(path, kind);
    }
}

fn children(directory: &[u8], budget: &mut usize, found: &mut Found) -> Vec<(Vec<u8>, Kind, bool)> {
    let path = Path::new(OsStr::from_bytes(directory));
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => {
            // Of a name that is no directory nothing lies beneath.
            let is_directory = error.kind() != std::io::ErrorKind::NotADirectory;
            found.is_unlisted |= is_directory && !is_looked_at(Err(error), path);
            return Vec::new();
        }
    };
    let mut children = Vec::new();
    for entry in entries.flatten() {
        if *budget == 0 {
            found.is_cut = true;
            break;
        }
        *budget -= 1;
        let path = entry.path();
        // Mostly the list tells what it is; of a link, what it leads to counts.
        let listed = entry.file_type().ok();
        let is_link = listed.is_some_and(|kind| kind.is_symlink());
        let kind = match listed {
            Some(kind) if kind.is_dir() => Kind::Directory,
            Some(kind) if !kind.is_symlink() => Kind::File,
            Some(_) | None => fs::metadata(&path).map_or(Kind::File, |meta| kind_of(&meta)),
        };
        children.push((path.into_os_string().into_vec(), kind, is_link));
    }
    children.sort();
    children
}

/// The ELF loaders: those of the programs that rules name, and the ones in their usual places.
fn find_loaders<'a>(programs: impl Iterator<Item = (&'a Vec<u8>, &'a Kind)>) -> Vec<Vec<u8>> {
    let mut loaders = BTreeSet::new();
    let mut add = |path: &OsStr| {
        if let Ok(real) = fs::canonicalize(path) {
            loaders.insert(real.into_os_string().into_vec());
        }
    };
    for (path, kind) in programs {
        if *kind == Kind::File
            && let Some(loader) = elf_loader(path)
        {
            add(OsStr::from_bytes(&loader));
        }
    }
    for directory in ["/lib", "/lib64", "/lib32", "/libx32"] {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.as_bytes().starts_with(b"ld-")
                && name.as_bytes().windows(3).any(|window| window == b".so")
            {
                add(entry.path().as_os_str());
            }
        }
    }
    loaders.into_iter().collect()
}

/// The loader an ELF program asks for (`PT_INTERP`).
fn elf_loader(path: &[u8]) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut head = Vec::new();
    // Opening a FIFO or a device could block or do something.
    fs::metadata(OsStr::from_bytes(path)).ok().filter(fs::Metadata::is_file)?;
    fs::File::open(OsStr::from_bytes(path)).ok()?.take(4096).read_to_end(&mut head).ok()?;
    elf_loader_of(&head)
}

/// The loader named in the first bytes of an ELF file, when it is named there. Pure.
fn elf_loader_of(head: &[u8]) -> Option<Vec<u8>> {
    let number = |at: usize, size: usize| -> Option<usize> {
        let bytes = head.get(at..at.checked_add(size)?)?;
        usize::try_from(bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))).ok()
    };
    // Little-endian only: the two architectures we build for are.
    if head.get(..4)? != b"\x7fELF" || head.get(5)? != &1 {
        return None;
    }
    let is_64 = head.get(4)? == &2;
    let (table, entry_size, count) = if is_64 {
        (number(32, 8)?, number(54, 2)?, number(56, 2)?)
    } else {
        (number(28, 4)?, number(42, 2)?, number(44, 2)?)
    };
    for index in 0..count.min(64) {
        let entry = table.checked_add(index.checked_mul(entry_size)?)?;
        if number(entry, 4)? != 3 {
            continue;
        }
        let (offset, size) = if is_64 {
            (number(entry + 8, 8)?, number(entry + 32, 8)?)
        } else {
            (number(entry + 4, 4)?, number(entry + 16, 4)?)
        };
        let name = head.get(offset..offset.checked_add(size)?)?;
        return Some(name.split(|byte| *byte == 0).next()?.to_vec());
    }
    None
}

fn look_up_in_file(policy: &Policy, file: &str) -> BTreeMap<String, Vec<IpAddr>> {
    let mut hosts = BTreeMap::<_, Vec<_>>::new();
    for line in file.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { continue };
        let names: Vec<&str> = words.collect();
        for rule in policy.net_allow.iter().chain(&policy.net_deny).filter(|rule| is_name(&rule.target)) {
            let Target::Host(name) = &rule.target else { continue };
            let is_meant = |given: &&str| rule.applies(None, Some(given), Some(rule.ports.low));
            let known = hosts.entry(name.clone()).or_default();
            if names.iter().any(is_meant) && !known.contains(&address.to_canonical()) {
                known.push(address.to_canonical());
            }
        }
    }
    hosts
}

fn look_up_hosts(policy: &Policy, is_asked: bool) -> BTreeMap<String, Vec<IpAddr>> {
    let mut hosts = BTreeMap::new();
    let allowed = policy.net_allow.iter().filter(|_| is_asked);
    for rule in allowed.chain(&policy.net_deny) {
        let Target::Host(name) = &rule.target else { continue };
        if is_name(&rule.target) && !name.starts_with("*.") && !hosts.contains_key(name) {
            let found: BTreeSet<_> = (name.as_str(), 0)
                .to_socket_addrs()
                .map(|found| found.map(|address| address.ip().to_canonical()).collect())
                .unwrap_or_default();
            hosts.insert(name.clone(), found.into_iter().collect());
        }
    }
    hosts
}

/// What lies in each directory between an executable tree and a denied program in it, so that the plan can grant
/// all but the denied one.
fn list_split(policy: &Policy, survey: &Survey) -> BTreeMap<Vec<u8>, Vec<(Vec<u8>, Kind)>> {
    let mut listings = BTreeMap::new();
    let denies =
        survey.fs_deny.iter().zip(&policy.fs_deny).chain(survey.exec_deny.iter().zip(&policy.exec_deny));
    for (found, rule) in denies {
        if !rule.access.has(Access::Execute) {
            continue;
        }
        for path in found.there.keys() {
            let mut end = path.len();
            while let Some(at) = path[..end].iter().rposition(|&byte| byte == b'/') {
                let directory = if at == 0 { b"/".to_vec() } else { path[..at].to_vec() };
                listings.entry(directory).or_insert_with_key(|directory| {
                    let mut budget = MAX_ENTRIES;
                    children(directory, &mut budget, &mut Found::default())
                        .into_iter()
                        .filter(|(_, _, is_link)| !is_link)
                        .map(|(path, kind, _)| (path, kind))
                        .collect()
                });
                if at == 0 {
                    break;
                }
                end = at;
            }
        }
    }
    listings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_of_this_test_is_found() {
        let me = std::env::current_exe().unwrap();
        let loader = elf_loader(me.as_os_str().as_bytes()).expect("the test binary is dynamically linked");
        assert!(fs::metadata(OsStr::from_bytes(&loader)).is_ok());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_after_an_elf_magic_are_read_without_panic(tail: Vec<u8>, class in 1u8..3) {
            let head = [b"\x7fELF".as_slice(), &[class, 1], &tail].concat();
            elf_loader_of(&head);
        }
    }
}
