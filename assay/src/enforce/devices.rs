//! Block devices: by one that holds a file system every file of it is read and written past all names. Reads only.
//!
//! Whoever denies a file and allows a directory of devices means no way around the deny: each block device that an
//! allow leads to gets a deny, with the text and place of a rule that denies files. One that an allow names is left.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileTypeExt as _;

use rustix::fs::Access as Openable;

use super::split::is_at_or_beneath;
use super::survey::look_up;
use super::walk::walk;
use crate::policy::pattern::Pattern;
use crate::policy::rule::{Access, AccessSet, PathRule, Policy};

/// Where the host has them.
const DEVICES: &[u8] = b"/dev";
/// The most entries looked at.
const MAX: usize = 10_000;

/// Adds a deny for each block device that an allow leads to and does not name, where something is denied. What comes back
/// is the directory of which not all could be looked at, where an allow leads to it.
pub(super) fn deny_block_devices(policy: &mut Policy) -> Option<Vec<u8>> {
    deny_those_in(DEVICES, MAX, policy)
}

fn deny_those_in(devices: &[u8], max: usize, policy: &mut Policy) -> Option<Vec<u8>> {
    let rule = policy.fs_deny.first().cloned()?;
    let is_led_to = |path: &[u8]| {
        let leads = |pattern: &Pattern| pattern.covers(path);
        policy.fs_allow.iter().any(|rule| rule.patterns.iter().any(leads))
    };
    let mut nodes = Vec::new();
    let is_whole = walk(devices, &mut { max }, &mut |_, entry| {
        let path = entry.path().into_os_string().into_vec();
        if entry.file_type()?.is_block_device() && is_led_to(&path) && is_openable(&path) {
            nodes.push(path);
        }
        Ok(())
    });
    let unsearched = (!is_whole && is_led_to(devices)).then(|| devices.to_vec());
    nodes.sort();
    let is_about = |rule: &&PathRule| {
        rule.patterns.iter().any(|pattern| is_at_or_beneath(&pattern.literal_prefix(), devices))
    };
    let about = policy.fs_allow.iter().filter(is_about);
    let named: Vec<Vec<u8>> = about.flat_map(|rule| look_up(rule).there.into_keys()).collect();
    for node in nodes {
        let is_denied = |rule: &PathRule| {
            let is_all = rule.access.has(Access::Read) && rule.access.has(Access::Write);
            is_all && rule.patterns.iter().any(|pattern| pattern.covers(&node))
        };
        if named.contains(&node) || policy.fs_deny.iter().any(is_denied) {
            continue;
        }
        let name = policy.spell(&node);
        policy.fs_deny.push(PathRule {
            text: format!("{} (by the block device {name})", rule.text),
            patterns: vec![Pattern::literal(&node)],
            access: AccessSet::ALL,
            ..rule.clone()
        });
    }
    unsearched
}

fn is_openable(path: &[u8]) -> bool {
    let may = |access| rustix::fs::access(OsStr::from_bytes(path), access).is_ok();
    may(Openable::READ_OK) || may(Openable::WRITE_OK)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;
    use crate::policy::load::{Context, NoFiles, load_bytes};

    /// A directory of devices of which not all was looked at is no reason to hold less in silence.
    #[test]
    fn what_could_not_be_looked_at_is_told_where_an_allow_leads_to_it() {
        let devices = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(devices.path().join(name), "").unwrap();
        }
        let path = devices.path().as_os_str().as_bytes();
        let unsearched = |rules: &str, max: usize| {
            let text = format!("api_version: assay/v1\nbase: none\nfs: {{{rules}}}\n");
            let mut policy =
                load_bytes(b"p", text.as_bytes(), &Context::for_tests(), &NoFiles).expect("a valid policy");
            deny_those_in(path, max, &mut policy)
        };
        assert_eq!(unsearched("allow: [/], deny: [/secret]", 2), Some(path.to_vec()));
        assert_eq!(unsearched("allow: [/], deny: [/secret]", 3), None);
        assert_eq!(unsearched("allow: [/usr], deny: [/secret]", 2), None);
        assert_eq!(unsearched("allow: [/]", 2), None);
    }
}
