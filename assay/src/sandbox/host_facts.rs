//! Facts about this host and this run that the record needs: places, names, versions. Read once; "could not tell" is
//! an absent value.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::recorder::Places;
use super::request::SandboxRequest;
use super::start;
use crate::canon::digest::Digest;
use crate::evidence::timestamp::Timestamp;
use crate::observe::kernel::programs::object;
use crate::profile::roots::{CgroupPlace, Roots};

/// Seconds since 1970.
pub fn now_seconds() -> Option<u64> {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// A moment as the artifacts write it. A clock before 1970 or beyond the year 9999 is told as 1970.
pub fn timestamp(time: SystemTime) -> Timestamp {
    time.duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| Timestamp::new(i64::try_from(since.as_secs()).ok()?))
        .unwrap_or_else(|| Timestamp::new(0).expect("1970 is a time"))
}

/// The ports the kernel chooses from.
pub fn ephemeral_ports() -> Option<RangeInclusive<u16>> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut numbers = text.split_whitespace().map(|number| number.parse::<u16>().ok());
    Some(numbers.next()??..=numbers.next()??)
}

/// What names are relative to: each place as resolved, then as given where that differs.
pub fn roots(request: &SandboxRequest, places: &Places, group: &Path) -> Roots {
    let uid = start::uid_of_child(request);
    Roots {
        workdir: spellings(places.workdir.as_deref()),
        home: spellings(places.home.as_deref()),
        tmpdir: spellings(places.tmpdir.as_deref()),
        caller_tmpdir: spellings(Some(&places.caller_tmpdir)),
        runtime_dir: spellings(Some(&places.runtime_dir)),
        cgroups: cgroup_places(group),
        user: user_name(uid),
        uid: Some(uid),
        hostname: hostname(),
    }
}

fn spellings(path: Option<&Path>) -> Vec<Vec<u8>> {
    let Some(path) = path else { return Vec::new() };
    let given = path.as_os_str().as_bytes().to_vec();
    let mut all: Vec<Vec<u8>> = std::fs::canonicalize(path)
        .ok()
        .map(|real| real.as_os_str().as_bytes().to_vec())
        .into_iter()
        .collect();
    if !all.contains(&given) {
        all.push(given);
    }
    all
}

/// The run's group, and the groups of the older hierarchies that it is in because we are.
fn cgroup_places(group: &Path) -> Vec<CgroupPlace> {
    let mut places = Vec::new();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (Some(root), Some(mount), Some(kind)) = (left.get(3), left.get(4), right.first()) else {
            continue;
        };
        if *kind == "cgroup2" && group.starts_with(mount) {
            places.push(CgroupPlace {
                mount: mount.as_bytes().to_vec(),
                group: group.as_os_str().as_bytes().to_vec(),
            });
        } else if *kind == "cgroup" {
            let options = right.get(2).copied().unwrap_or_default();
            if let Some(path) = own_group(&own, options) {
                // As this mount shows it: a mount of a part of the hierarchy hides the rest.
                let path = if *root == "/" { path } else { path.strip_prefix(root).unwrap_or(path) };
                let group = PathBuf::from(mount).join(path.trim_start_matches('/'));
                places.push(CgroupPlace {
                    mount: mount.as_bytes().to_vec(),
                    group: group.as_os_str().as_bytes().to_vec(),
                });
            }
        }
    }
    places
}

/// Our group in the hierarchy that was mounted with these options.
fn own_group<'a>(own: &'a str, options: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_this = !controllers.is_empty()
            && controllers.split(',').all(|name| options.split(',').any(|option| option == name));
        is_this.then_some(path)
    })
}

/// The name of a user in `/etc/passwd`.
pub fn user_name(uid: u32) -> Option<Vec<u8>> {
    let passwd = std::fs::read("/etc/passwd").ok()?;
    passwd.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        let name = fields.next()?;
        let id = fields.nth(1)?;
        (id == uid.to_string().as_bytes()).then(|| name.to_vec())
    })
}

fn hostname() -> Option<Vec<u8>> {
    let name = std::fs::read("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim_ascii();
    (!name.is_empty() && name != b"(none)").then(|| name.to_vec())
}

/// `observed.host`.
pub fn host() -> BTreeMap<String, String> {
    let uname = rustix::system::uname();
    BTreeMap::from([
        ("kernel".to_owned(), uname.release().to_string_lossy().into_owned()),
        ("arch".to_owned(), uname.machine().to_string_lossy().into_owned()),
    ])
}

/// `observed.versions`.
pub fn versions() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("assay".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("observer_object".to_owned(), Digest::of(object()).to_string()),
    ])
}
