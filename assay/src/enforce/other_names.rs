//! Other names of what is denied, by which it could be reached all the same: hard links and bind mounts that were there
//! before the run. Reads only.
//!
//! Whoever denies a file means the file. Each other name that an allow leads to gets a deny of its own, with the text
//! and place of the rule it comes from; then it is planned, held and judged like any other.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};

use super::devices::deny_block_devices;
use super::split::is_at_or_beneath;
use super::survey::{Found, Kind, look_up};
use super::walk::{Link, Listing, link_at, walk};
use crate::policy::pattern::{Part, Pattern};
use crate::policy::rule::{Access, AccessSet, PathRule, Policy};

/// The most directory entries looked at for linked files in denied trees.
const MAX_DENIED: usize = 50_000;
/// The most directory entries looked at for their other names.
const MAX_SEARCHED: usize = 1_000_000;
/// Which list of the policy a rule stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum List {
    Fs,
    Exec,
}

/// A rule, by its place in its list.
type Which = (List, usize);

/// A denied file with more than one link.
#[derive(Debug, Default)]
struct Linked {
    /// Paths by which it is denied.
    names: BTreeSet<Vec<u8>>,
    /// How many links it has, and which of them were found: several paths may lead to one, through several mounts.
    count: u64,
    links: BTreeSet<Link>,
    rules: BTreeSet<Which>,
}

impl Linked {
    fn is_whole(&self) -> bool {
        self.links.len() as u64 >= self.count
    }
}

/// By device and inode.
type LinkedFiles = BTreeMap<(u64, u64), Linked>;

/// Adds a deny for each other name. What comes back are denied paths whose other names could not all be looked for.
pub fn deny_other_names(policy: &mut Policy) -> BTreeSet<Vec<u8>> {
    let mounts = read_mounts(&fs::read("/proc/self/mountinfo").unwrap_or_default());
    let mounted = mounted_elsewhere(policy, &mounts, (0, 0));
    add(policy, mounted);
    let (mut linked, mut unsearched) = find_linked(policy);
    let (found, is_whole) = search(policy, &mut linked, &mounts);
    if !is_whole {
        let rest = linked.values().filter(|file| !file.is_whole());
        unsearched.extend(rest.flat_map(|file| file.names.iter().take(1).cloned()));
    }
    let known = (policy.fs_deny.len(), policy.exec_deny.len());
    add(policy, found);
    // The search ends with the last link, which other mounts may show as well.
    let mounted = mounted_elsewhere(policy, &mounts, known);
    add(policy, mounted);
    unsearched.extend(deny_block_devices(policy));
    unsearched
}

fn rule_of(policy: &Policy, (list, at): Which) -> &PathRule {
    match list {
        List::Fs => &policy.fs_deny[at],
        List::Exec => &policy.exec_deny[at],
    }
}

fn denies(policy: &Policy) -> impl Iterator<Item = (Which, &PathRule)> {
    let fs = policy.fs_deny.iter().enumerate().map(|(at, rule)| ((List::Fs, at), rule));
    fs.chain(policy.exec_deny.iter().enumerate().map(|(at, rule)| ((List::Exec, at), rule)))
}

fn add(policy: &mut Policy, names: Vec<(Which, Pattern)>) {
    for (which, pattern) in names {
        let rule = rule_of(policy, which);
        let name = policy.spell(&pattern.literal_prefix());
        let rule = PathRule {
            text: format!("{} (by its other name {name})", rule.text),
            patterns: vec![pattern],
            ..rule.clone()
        };
        match which.0 {
            List::Fs => policy.fs_deny.push(rule),
            List::Exec => policy.exec_deny.push(rule),
        }
    }
}

/// The files that rules deny and that have more links than one; and directories that could not all be looked at.
fn find_linked(policy: &Policy) -> (LinkedFiles, BTreeSet<Vec<u8>>) {
    let (mut linked, mut unsearched) = (BTreeMap::new(), BTreeSet::new());
    let mut budget = MAX_DENIED;
    for (which, rule) in denies(policy) {
        for (path, kind) in look_up(rule).there {
            let mut note = |path: Vec<u8>, meta: &Metadata| {
                if meta.nlink() > 1 && !meta.is_dir() {
                    let file: &mut Linked = linked.entry((meta.dev(), meta.ino())).or_default();
                    file.count = meta.nlink();
                    file.rules.insert(which);
                    if !file.names.contains(&path) {
                        file.links.extend(link_at(&path));
                        file.names.insert(path);
                    }
                }
            };
            if kind == Kind::File {
                if let Ok(meta) = fs::symlink_metadata(OsStr::from_bytes(&path)) {
                    note(path, &meta);
                }
                continue;
            }
            let is_whole = walk(&path, &mut budget, &mut |_, entry| {
                note(entry.path().into_os_string().into_vec(), &entry.metadata()?);
                Ok(())
            });
            if !is_whole {
                unsearched.insert(path);
            }
        }
    }
    (linked, unsearched)
}

/// What a deny of these accesses is passed by.
fn passes(denied: AccessSet, granted: AccessSet) -> bool {
    let of_read: AccessSet = [Access::Execute, Access::List].into_iter().collect();
    let denied = if denied.has(Access::Read) { denied.union(of_read) } else { denied };
    !denied.intersection(granted).is_empty()
}

/// Looks in the allowed trees for names of linked files that no deny covers yet.
fn search(policy: &Policy, linked: &mut LinkedFiles, mounts: &[Mount]) -> (Vec<(Which, Pattern)>, bool) {
    let open = || linked.iter().filter(|(_, file)| !file.is_whole());
    let inodes: BTreeSet<u64> = open().map(|(&(_, inode), _)| inode).collect();
    let trees = allowed_trees(policy, open().flat_map(|(_, file)| &file.rules));
    let rest = Cell::new(open().count());
    let (mut found, mut budget, mut is_whole) = (Vec::new(), MAX_SEARCHED, true);
    let mut note = |path: Vec<u8>, meta: &Metadata| {
        let file = linked.get_mut(&(meta.dev(), meta.ino()));
        let Some(file) = file.filter(|file| !file.names.contains(&path)) else { return };
        let was_whole = file.is_whole();
        file.links.extend(link_at(&path));
        if !was_whole && file.is_whole() {
            rest.set(rest.get() - 1);
        }
        let covers = |which: &Which| rule_of(policy, *which).patterns.iter().any(|rule| rule.covers(&path));
        let rules = file.rules.iter().filter(|which| !covers(which));
        found.extend(rules.map(|which| (*which, Pattern::literal(&path))));
    };
    let mut note_file = |path: Vec<u8>| -> io::Result<()> {
        let meta = fs::symlink_metadata(OsStr::from_bytes(&path))?;
        if !meta.is_dir() {
            note(path, &meta);
        }
        Ok(())
    };
    // What is mounted on a file has another number than the list of its directory has.
    let points = mounts.iter().map(|mount| &mount.point).filter(|point| is_in(&trees, point));
    for point in points {
        // One that cannot be seen is hidden by another mount.
        note_file(point.clone()).ok();
    }
    for (path, kind) in trees {
        if rest.get() == 0 {
            break;
        }
        if kind == Kind::File {
            // It was there when it was looked up; who removed it meanwhile leaves nothing.
            note_file(path).ok();
            continue;
        }
        is_whole &= walk(&path, &mut budget, &mut |listing, entry| {
            let is_wanted = listing == Listing::Unnumbered || inodes.contains(&entry.ino());
            if is_wanted { note_file(entry.path().into_os_string().into_vec()) } else { Ok(()) }
        });
    }
    found.sort();
    found.dedup();
    (found, is_whole)
}

/// Whether a path is one of these or lies beneath one.
fn is_in(trees: &BTreeMap<Vec<u8>, Kind>, path: &[u8]) -> bool {
    trees.contains_key(path) || is_beneath_one(trees, path)
}

fn is_beneath_one(trees: &BTreeMap<Vec<u8>, Kind>, path: &[u8]) -> bool {
    let slashes = (0..path.len()).filter(|&at| path[at] == b'/');
    let mut above = slashes.map(|at| if at == 0 { &b"/"[..] } else { &path[..at] });
    path != b"/" && above.any(|above| trees.contains_key(above))
}

/// What is there of the allows that would pass one of these denies; none lies beneath another.
fn allowed_trees<'a>(policy: &Policy, rules: impl Iterator<Item = &'a Which>) -> BTreeMap<Vec<u8>, Kind> {
    let denied: BTreeSet<Which> = rules.copied().collect();
    let denied = denied.iter().fold(AccessSet::EMPTY, |set, which| set.union(rule_of(policy, *which).access));
    let allows = policy.fs_allow.iter().chain(policy.exec_allow.iter().flatten());
    let mut all = BTreeMap::<Vec<u8>, Kind>::new();
    for rule in allows.filter(|rule| passes(denied, rule.access)) {
        let Found { there, .. } = look_up(rule);
        all.extend(there);
    }
    let mut trees = all.clone();
    trees.retain(|path, _| !is_beneath_one(&all, path));
    // What the kernel makes up has no names of files on a disk.
    trees.retain(|path, _| !is_at_or_beneath(path, b"/proc") && !is_at_or_beneath(path, b"/sys"));
    trees
}

/// One mount, as far as it tells which paths are one place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    device: Vec<u8>,
    root: Vec<u8>,
    point: Vec<u8>,
}

fn read_mounts(text: &[u8]) -> Vec<Mount> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let device = fields.next()?.to_vec();
        Some(Mount { device, root: unescape(fields.next()?), point: unescape(fields.next()?) })
    };
    text.split(|&byte| byte == b'\n').filter_map(mount).collect()
}

/// Where something is mounted, from `mountinfo`.
pub(super) fn mount_points(text: &[u8]) -> Vec<Vec<u8>> {
    read_mounts(text).into_iter().map(|mount| mount.point).collect()
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|digits| first == b'\\' && digits.iter().all(u8::is_ascii_digit));
        bytes.push(match digits {
            Some(digits) => digits.iter().fold(0u8, |value, digit| value.wrapping_mul(8) | (digit & 7)),
            None => first,
        });
        rest = if digits.is_some() { &tail[3..] } else { tail };
    }
    bytes
}

/// `path` without `above`: empty, or what begins with a slash. `None` when it does not lie there.
fn tail<'a>(path: &'a [u8], above: &[u8]) -> Option<&'a [u8]> {
    match above {
        b"/" if path == b"/" => Some(b""),
        b"/" => Some(path),
        _ => path.strip_prefix(above).filter(|rest| rest.is_empty() || rest.starts_with(b"/")),
    }
}

fn join(above: &[u8], tail: &[u8]) -> Vec<u8> {
    let above = if above == b"/" { b"" } else { above };
    let path = [above, tail].concat();
    if path.is_empty() { b"/".to_vec() } else { path }
}

/// The paths at which mounts show the same place as `path`, or a part of what is beneath it: that path, and the path
/// beneath `path` that it is the same as.
fn same_places(mounts: &[Mount], path: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    // The last of those at one point is the one that is seen.
    let over = mounts.iter().filter(|mount| is_at_or_beneath(path, &mount.point) || mount.point == b"/");
    let Some(mount) = over.max_by_key(|mount| mount.point.len()) else { return Vec::new() };
    let Some(inside) = tail(path, &mount.point).map(|rest| join(&mount.root, rest)) else {
        return Vec::new();
    };
    let mut places = Vec::new();
    for other in mounts.iter().filter(|other| other.device == mount.device && **other != *mount) {
        if let Some(rest) = tail(&inside, &other.root) {
            places.push((join(&other.point, rest), path.to_vec()));
        } else if let Some(rest) = tail(&other.root, &inside) {
            places.push((other.point.clone(), join(path, rest)));
        }
    }
    places.retain(|(place, same)| place != same);
    places
}

/// Whether both lead to one place: by what is there, or by what is there above both.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let id = |path: &[u8]| fs::metadata(OsStr::from_bytes(path)).ok().map(|meta| (meta.dev(), meta.ino()));
    let (mut one, mut other) = (one.to_vec(), other.to_vec());
    loop {
        match (id(&one), id(&other)) {
            (None, None) => {}
            (one, other) => return one == other,
        }
        for path in [&mut one, &mut other] {
            let Some(at) = path.iter().rposition(|&byte| byte == b'/').filter(|at| *at > 0) else {
                return false;
            };
            path.truncate(at);
        }
    }
}

/// For each deny beyond so many of each list, what it means at the other places where a mount shows what it speaks
/// about, and an allow leads.
fn mounted_elsewhere(policy: &Policy, mounts: &[Mount], known: (usize, usize)) -> Vec<(Which, Pattern)> {
    let allows = || policy.fs_allow.iter().chain(policy.exec_allow.iter().flatten());
    let is_allowed = |place: &[u8]| {
        let leads =
            |pattern: &Pattern| pattern.covers(place) || is_at_or_beneath(&pattern.literal_prefix(), place);
        allows().any(|rule| rule.patterns.iter().any(leads))
    };
    let mut more = Vec::new();
    let is_known = |(list, at): Which| at < if list == List::Fs { known.0 } else { known.1 };
    for (which, rule) in denies(policy).filter(|(which, _)| !is_known(*which)) {
        for pattern in &rule.patterns {
            let prefix = pattern.literal_prefix();
            for (place, same) in same_places(mounts, &prefix) {
                let translated = if same == prefix {
                    Some(pattern.with_prefix(&place))
                } else {
                    shown_part(pattern, &same, &place)
                };
                let Some(translated) = translated else { continue };
                let is_new =
                    !rule.patterns.iter().any(|known| known.covers(&place) && pattern.as_literal().is_some());
                if is_new && is_allowed(&place) && is_same(&place, &same) {
                    more.push((which, translated));
                }
            }
        }
    }
    more.sort();
    more.dedup();
    more
}

/// What of a pattern speaks about `place`, where what is seen at `same`, beneath its literal names, is mounted.
fn shown_part(pattern: &Pattern, same: &[u8], place: &[u8]) -> Option<Pattern> {
    if pattern.covers(same) {
        return Some(Pattern::literal(place));
    }
    let rest: Vec<Part> =
        pattern.parts().iter().skip_while(|part| matches!(part, Part::Literal(_))).cloned().collect();
    let is_any = rest.first() == Some(&Part::AnyDepth);
    is_any.then(|| Pattern::from_parts([Pattern::literal(place).parts(), &rest].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::load::{Context, NoFiles, load_bytes};

    fn mounts() -> Vec<Mount> {
        read_mounts(
            b"21 1 8:1 / / rw - ext4 /dev/a rw\n22 21 8:1 /real/w /mnt/w rw - ext4 /dev/a rw\n23 21 8:2 / /other rw - ext4 /dev/b rw\n24 21 8:1 /real/w/deep /with\\040space rw shared:1 - ext4 /dev/a rw\n",
        )
    }

    #[test]
    fn a_place_that_is_mounted_elsewhere_has_its_names_there() {
        let places = |path: &str| -> Vec<(String, String)> {
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            let places = same_places(&mounts(), path.as_bytes()).into_iter();
            places.map(|(place, same)| (text(place), text(same))).collect()
        };
        let pair = |place: &str, same: &str| (place.to_owned(), same.to_owned());
        assert_eq!(places("/real/w/x"), [pair("/mnt/w/x", "/real/w/x")]);
        assert_eq!(places("/mnt/w/x"), [pair("/real/w/x", "/mnt/w/x")]);
        assert_eq!(
            places("/real/w/deep/x"),
            [pair("/mnt/w/deep/x", "/real/w/deep/x"), pair("/with space/x", "/real/w/deep/x")]
        );
        // A mount that shows a part of what is denied.
        assert_eq!(places("/real"), [pair("/mnt/w", "/real/w"), pair("/with space", "/real/w/deep")]);
        assert_eq!(places("/other/x"), []);
    }

    #[test]
    fn a_hard_link_inside_an_allow_is_denied_by_the_same_rule() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        for name in ["w/deep", "secrets"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("secrets/key"), "secret").unwrap();
        fs::write(root.join("w/alone"), "").unwrap();
        fs::hard_link(root.join("secrets/key"), root.join("w/deep/copy")).unwrap();
        let root = root.to_str().unwrap();
        let text = format!(
            "api_version: assay/v1\nbase: none\nfs:\n  allow: [{{path: {root}/w, access: [read]}}]\n  deny: [{root}/secrets, {{path: {root}/w/alone, access: [write]}}]\n"
        );
        let mut policy = load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).unwrap();
        assert_eq!(deny_other_names(&mut policy), BTreeSet::new());
        assert_eq!(policy.fs_deny.len(), 3);
        let added = policy.fs_deny.last().unwrap();
        assert_eq!(added.patterns, [Pattern::literal(format!("{root}/w/deep/copy").as_bytes())]);
        assert_eq!(added.access, AccessSet::ALL);
        assert!(added.text.starts_with(&format!("{root}/secrets (by its other name")), "{}", added.text);
    }
}
