//! `/proc/self/mountinfo` and `/proc/self/cgroup`, read. Pure: bytes in, values out.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// What of the filesystem is mounted: `/` for all of it.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
    /// Options of this mount, such as `rw`, `nosuid`, `relatime`.
    pub options: Vec<String>,
    /// Filesystem type.
    pub kind: String,
}

impl Mount {
    /// Whether it shows control groups, of either version.
    pub fn is_cgroup(&self) -> bool {
        self.kind == "cgroup2" || self.kind == "cgroup"
    }
}

/// Reads `mountinfo`. A line that is not as the kernel writes it is left out: it names no mount that could be used.
pub fn read_mounts(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(read_mount).collect()
}

fn read_mount(line: &[u8]) -> Option<Mount> {
    // 36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw
    let mut fields = line.split(|byte| *byte == b' ');
    let root = unescape(fields.nth(3)?);
    let point = unescape(fields.next()?);
    let options = String::from_utf8_lossy(fields.next()?).split(',').map(str::to_owned).collect();
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mount { root, point, options, kind: String::from_utf8_lossy(kind).into_owned() })
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|digits| *first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        if let Some(digits) = octal {
            bytes.push(digits.iter().fold(0u8, |value, digit| value.wrapping_mul(8) | (digit - b'0')));
            rest = &tail[3..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Our own group in the version 2 hierarchy, from `/proc/self/cgroup`, relative to our cgroup namespace.
pub fn read_own_group(text: &[u8]) -> Option<PathBuf> {
    text.split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"0::"))
        .map(|path| PathBuf::from(OsString::from_vec(path.to_vec())))
}

/// Where a version 2 hierarchy shows our own group, and how deep that group lies in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnGroup {
    /// Its directory.
    pub directory: PathBuf,
    /// 0 for the root group.
    pub level: u32,
}

/// Every directory that should be our own group; later mounts hide earlier ones, so the last is the best.
pub fn find_own_group(mounts: &[Mount], own: &Path) -> Vec<OwnGroup> {
    if own.components().any(|part| part == Component::ParentDir) {
        // Our group lies outside our cgroup namespace: no mount here can show it.
        return Vec::new();
    }
    let level = own.components().filter(|part| matches!(part, Component::Normal(_))).count() as u32;
    let shown = |mount: &Mount| {
        let beneath = own.strip_prefix(&mount.root).ok()?;
        let directory =
            if beneath.as_os_str().is_empty() { mount.point.clone() } else { mount.point.join(beneath) };
        Some(OwnGroup { directory, level })
    };
    mounts.iter().rev().filter(|mount| mount.kind == "cgroup2").filter_map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mountinfo: &str, own: &str, expect: Option<(&str, u32)>) {
        let own = read_own_group(own.as_bytes()).expect("a version 2 line");
        let found = find_own_group(&read_mounts(mountinfo.as_bytes()), &own);
        let found = found.first().map(|group| (group.directory.to_str().unwrap(), group.level));
        assert_eq!(found, expect, "{mountinfo}");
    }

    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_own_group_is_found_wherever_it_is_mounted() {
        check(HYBRID, "4:memory:/a\n0::/\n", Some(("/sys/fs/cgroup/unified", 0)));
        check(HYBRID, "0::/user.slice/s.scope\n", Some(("/sys/fs/cgroup/unified/user.slice/s.scope", 2)));
        let container = "1 0 0:1 /docker/x /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n";
        check(container, "0::/docker/x\n", Some(("/sys/fs/cgroup", 2)));
        check(container, "0::/docker/x/y\n", Some(("/sys/fs/cgroup/y", 3)));
        check(container, "0::/docker/xy\n", None);
        check(HYBRID, "0::/../outside\n", None);
        check(
            "1 0 0:1 / /with\\040space rw shared:1 master:2 - cgroup2 none rw\n",
            "0::/\n",
            Some(("/with space", 0)),
        );
        check("", "0::/\n", None);
        check("garbage\n1 2 3\n\u{0}\n", "0::/\n", None);
    }

    #[test]
    fn options_are_those_of_the_mount_and_not_of_the_filesystem() {
        let mounts = read_mounts(b"1 0 0:1 / /c ro,nosuid,relatime shared:9 - cgroup2 none rw,nsdelegate\n");
        assert_eq!(mounts[0].options, ["ro", "nosuid", "relatime"]);
        assert!(mounts[0].is_cgroup());
    }
}
