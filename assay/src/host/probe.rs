//! Reads the facts of [`Host`] off the running system. Restricts nothing, changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use landlock::{AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, Scope};
use rustix::process::{Resource, getrlimit};

use super::bpf_syscall::{MAP_TYPE_ARRAY, PROG_TYPE_RAW_TRACEPOINT, map_create, prog_load};
use super::landlock_abi::landlock_abi;
use super::mountinfo::{find_own_group, read_mounts, read_own_group};
use super::{BootLoader, BpfTrial, Fact, Host, Landlock, Presence, Right};

/// Establishes every fact.
pub fn probe() -> Host {
    let uname = rustix::system::uname();
    let mounts = fs::read_to_string("/proc/self/mountinfo");
    let own_group = probe_own_group(&mounts, &fs::read("/proc/self/cgroup"));
    let memlock = getrlimit(Resource::Memlock);
    Host {
        kernel: uname.release().to_string_lossy().into_owned(),
        arch: uname.machine().to_string_lossy().into_owned(),
        uid: rustix::process::geteuid().as_raw(),
        capabilities: probe_capabilities(),
        btf: probe_readable("/sys/kernel/btf/vmlinux"),
        tracefs: mount_point(&mounts, "tracefs"),
        cgroup2: mount_point(&mounts, "cgroup2"),
        cgroup2_writable: probe_cgroup2_writable(&own_group),
        own_group,
        boot_loader: probe_boot_loader(),
        program: fs::read_link("/proc/self/exe").ok().map(|path| path.to_string_lossy().into_owned()),
        lsms: probe_lsms(),
        landlock: probe_landlock(),
        bpf: Fact::Known(probe_bpf()),
        unprivileged_bpf_disabled: read_number("/proc/sys/kernel/unprivileged_bpf_disabled"),
        lockdown: probe_lockdown(),
        memlock: (memlock.current, memlock.maximum),
        container_hints: probe_container(&mounts),
        initial_namespaces: probe_namespaces(),
        user_namespaces: probe_user_namespaces(),
    }
}

/// What Landlock offers: each right asked alone, with a ruleset that is made and thrown away.
pub fn probe_landlock() -> Landlock {
    let presence = match landlock_abi() {
        Ok(abi) => Presence::Available(abi),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            Presence::Absent("it is built in but not enabled at boot".into())
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            Presence::Absent("the kernel has none, or system calls to it are filtered".into())
        }
        Err(error) => Presence::Absent(error.to_string()),
    };
    let rights = Right::ALL.into_iter().map(|right| (right, has_right(right))).collect();
    Landlock { presence, rights }
}

fn has_right(right: Right) -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = if let Some(access) = access_fs(right) {
        ruleset.handle_access(access)
    } else if let Some(access) = access_net(right) {
        ruleset.handle_access(access)
    } else if let Some(scope) = scope(right) {
        ruleset.scope(scope)
    } else {
        return false;
    };
    ruleset.and_then(Ruleset::create).is_ok()
}

/// The landlock crate's word for a file right.
pub fn access_fs(right: Right) -> Option<AccessFs> {
    Some(match right {
        Right::Execute => AccessFs::Execute,
        Right::WriteFile => AccessFs::WriteFile,
        Right::ReadFile => AccessFs::ReadFile,
        Right::ReadDir => AccessFs::ReadDir,
        Right::RemoveDir => AccessFs::RemoveDir,
        Right::RemoveFile => AccessFs::RemoveFile,
        Right::MakeChar => AccessFs::MakeChar,
        Right::MakeDir => AccessFs::MakeDir,
        Right::MakeReg => AccessFs::MakeReg,
        Right::MakeSock => AccessFs::MakeSock,
        Right::MakeFifo => AccessFs::MakeFifo,
        Right::MakeBlock => AccessFs::MakeBlock,
        Right::MakeSym => AccessFs::MakeSym,
        Right::Refer => AccessFs::Refer,
        Right::Truncate => AccessFs::Truncate,
        Right::IoctlDev => AccessFs::IoctlDev,
        Right::ResolveUnix => AccessFs::ResolveUnix,
        Right::BindTcp
        | Right::ConnectTcp
        | Right::BindUdp
        | Right::ConnectSendUdp
        | Right::ScopeAbstractUnix
        | Right::ScopeSignal => return None,
    })
}

/// The landlock crate's word for a network right.
pub fn access_net(right: Right) -> Option<AccessNet> {
    match right {
        Right::BindTcp => Some(AccessNet::BindTcp),
        Right::ConnectTcp => Some(AccessNet::ConnectTcp),
        Right::BindUdp => Some(AccessNet::BindUdp),
        Right::ConnectSendUdp => Some(AccessNet::ConnectSendUdp),
        _ => None,
    }
}

/// The landlock crate's word for a scope.
pub fn scope(right: Right) -> Option<Scope> {
    match right {
        Right::ScopeAbstractUnix => Some(Scope::AbstractUnixSocket),
        Right::ScopeSignal => Some(Scope::Signal),
        _ => None,
    }
}

/// Names of capabilities by number.
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

fn probe_capabilities() -> Fact<Vec<String>> {
    let status = match fs::read_to_string("/proc/self/status") {
        Ok(status) => status,
        Err(error) => return Fact::Unknown(format!("/proc/self/status: {error}")),
    };
    let Some(mask) = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
    else {
        return Fact::Unknown("/proc/self/status has no CapEff".into());
    };
    let name = |bit: usize| CAPABILITIES.get(bit).map_or_else(|| bit.to_string(), |name| (*name).to_owned());
    Fact::Known((0..64).filter(|bit| mask >> bit & 1 == 1).map(name).collect())
}

fn probe_readable(path: &str) -> Fact<bool> {
    match fs::File::open(path) {
        Ok(_) => Fact::Known(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Fact::Known(false),
        Err(error) => Fact::Unknown(format!("{path}: {error}")),
    }
}

/// Where a file system of this type is mounted: the first such line of mountinfo.
fn mount_point(mounts: &io::Result<String>, fs_type: &str) -> Fact<Option<String>> {
    match mounts {
        Ok(mounts) => Fact::Known(mount_points(mounts, fs_type).next()),
        Err(error) => Fact::Unknown(format!("/proc/self/mountinfo: {error}")),
    }
}

fn mount_points<'a>(mounts: &'a str, fs_type: &'a str) -> impl Iterator<Item = String> + 'a {
    mounts.lines().filter_map(move |line| {
        // Optional fields end with a lone `-`; the type is the word after it.
        let (front, back) = line.split_once(" - ")?;
        (back.split(' ').next()? == fs_type).then(|| unescape_mount(front.split(' ').nth(4).unwrap_or("")))
    })
}

/// mountinfo writes space, tab, newline and backslash as `\NNN` in octal.
fn unescape_mount(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

fn probe_own_group(mounts: &io::Result<String>, groups: &io::Result<Vec<u8>>) -> Fact<Option<String>> {
    let (mounts, groups) = match (mounts, groups) {
        (Ok(mounts), Ok(groups)) => (mounts, groups),
        (Err(error), _) => return Fact::Unknown(format!("/proc/self/mountinfo: {error}")),
        (_, Err(error)) => return Fact::Unknown(format!("/proc/self/cgroup: {error}")),
    };
    let shown = read_own_group(groups).map(|own| find_own_group(&read_mounts(mounts.as_bytes()), &own));
    let mut shown = shown.into_iter().flatten().map(|group| group.directory);
    // One mount may hide another; a group that is there has the file.
    let found = shown.find(|directory| directory.join("cgroup.procs").exists());
    Fact::Known(found.map(|directory| directory.to_string_lossy().into_owned()))
}

fn probe_cgroup2_writable(group: &Fact<Option<String>>) -> Fact<bool> {
    let group = match group {
        Fact::Known(Some(group)) => group,
        Fact::Known(None) => return Fact::Known(false),
        Fact::Unknown(reason) => return Fact::Unknown(reason.clone()),
    };
    // Moving a process needs the right to write to the file of the group that is above both.
    for path in [group.clone(), format!("{group}/cgroup.procs")] {
        match rustix::fs::access(&path, rustix::fs::Access::WRITE_OK) {
            Ok(()) => {}
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS | rustix::io::Errno::PERM) => {
                return Fact::Known(false);
            }
            Err(error) => return Fact::Unknown(format!("{path}: {error}")),
        }
    }
    Fact::Known(true)
}

fn probe_boot_loader() -> Option<BootLoader> {
    let is_there = |name: &str| {
        ["/usr/sbin", "/sbin"].iter().any(|folder| fs::metadata(format!("{folder}/{name}")).is_ok())
    };
    if is_there("grubby") {
        Some(BootLoader::Grubby)
    } else if is_there("update-grub") {
        Some(BootLoader::UpdateGrub)
    } else {
        None
    }
}

pub(super) fn probe_lsms() -> Fact<Vec<String>> {
    match fs::read_to_string("/sys/kernel/security/lsm") {
        Ok(list) => {
            Fact::Known(list.trim().split(',').filter(|name| !name.is_empty()).map(Into::into).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Fact::Unknown("securityfs is not mounted".into())
        }
        Err(error) => Fact::Unknown(format!("/sys/kernel/security/lsm: {error}")),
    }
}

fn probe_bpf() -> BpfTrial {
    if let Err(error) = map_create(MAP_TYPE_ARRAY, 1) {
        return BpfTrial::Refused(format!("making a map: {error}"));
    }
    // r0 = 0; exit
    let nothing = [0xb7, 0x95];
    match prog_load(PROG_TYPE_RAW_TRACEPOINT, 0, "assay_trial", &nothing) {
        Ok(_) => BpfTrial::Usable,
        Err(error) => BpfTrial::Refused(format!("loading a tracing program: {error}")),
    }
}

fn read_number(path: &str) -> Fact<u32> {
    match fs::read_to_string(path) {
        Ok(text) => match text.trim().parse() {
            Ok(number) => Fact::Known(number),
            Err(_) => Fact::Unknown(format!("{path}: not a number")),
        },
        Err(error) => Fact::Unknown(format!("{path}: {error}")),
    }
}

fn probe_lockdown() -> Fact<String> {
    match fs::read_to_string("/sys/kernel/security/lockdown") {
        Ok(text) => match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
            Some((mode, _)) => Fact::Known(mode.to_owned()),
            None => Fact::Unknown("/sys/kernel/security/lockdown has an unknown form".into()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Fact::Unknown("securityfs is not mounted".into())
        }
        Err(error) => Fact::Unknown(format!("/sys/kernel/security/lockdown: {error}")),
    }
}

fn probe_container(mounts: &io::Result<String>) -> Vec<String> {
    let mut hints = Vec::new();
    for file in ["/.dockerenv", "/run/.containerenv"] {
        if fs::symlink_metadata(file).is_ok() {
            hints.push(format!("{file} is there"));
        }
    }
    if std::env::var_os("container").is_some_and(|value| !value.is_empty()) {
        hints.push("the variable `container` is set".into());
    }
    if let Ok(mounts) = mounts {
        let root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/"));
        if root.is_some_and(|line| line.contains(" - overlay ")) {
            hints.push("the root is an overlay".into());
        }
    }
    if let Ok(groups) = fs::read_to_string("/proc/1/cgroup") {
        let names = ["docker", "kubepods", "containerd", "libpod", "lxc"];
        if let Some(name) = names.iter().find(|name| groups.contains(*name)) {
            hints.push(format!("process 1 is in a cgroup named for {name}"));
        }
    }
    hints
}

/// Inode numbers the kernel gives its initial namespaces (`include/linux/proc_ns.h`; the others have none fixed).
const INITIAL: [(&str, u64); 4] =
    [("user", 0xEFFF_FFFD), ("pid", 0xEFFF_FFFC), ("cgroup", 0xEFFF_FFFB), ("uts", 0xEFFF_FFFE)];

fn probe_namespaces() -> BTreeMap<String, Fact<bool>> {
    INITIAL
        .into_iter()
        .map(|(name, inode)| {
            let path = format!("/proc/self/ns/{name}");
            let fact = match fs::read_link(&path) {
                Ok(link) => Fact::Known(link.to_string_lossy() == format!("{name}:[{inode}]")),
                Err(error) => Fact::Unknown(format!("{path}: {error}")),
            };
            (name.to_owned(), fact)
        })
        .collect()
}

fn probe_user_namespaces() -> Fact<bool> {
    if let Fact::Known(0) = read_number("/proc/sys/user/max_user_namespaces") {
        return Fact::Known(false);
    }
    if let Fact::Known(0) = read_number("/proc/sys/kernel/unprivileged_userns_clone") {
        return Fact::Known(false);
    }
    if let Fact::Known(1) = read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") {
        return Fact::Known(false);
    }
    probe_readable("/proc/self/ns/user")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
25 30 0:23 / /sys rw,nosuid - sysfs sysfs rw
34 25 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro
35 34 0:29 / /sys/fs/cgroup/unified rw,nosuid shared:9 master:2 - cgroup2 cgroup2 rw
36 34 0:30 / /mnt/a\\040b\\134c rw - cgroup2 cgroup2 rw
";

    #[test]
    fn cgroup2_is_found_where_it_is_mounted() {
        let found: Vec<_> = mount_points(HYBRID, "cgroup2").collect();
        assert_eq!(found, ["/sys/fs/cgroup/unified", "/mnt/a b\\c"]);
        assert_eq!(mount_points(HYBRID, "tracefs").next(), None);
        let none = probe_own_group(&Ok(HYBRID.into()), &Ok(b"1:name=systemd:/a\n".to_vec()));
        assert_eq!(none, Fact::Known(None));
    }

    #[test]
    fn what_could_not_be_read_is_not_a_no() {
        let refused = Err(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(matches!(mount_point(&refused, "cgroup2"), Fact::Unknown(_)));
        assert!(matches!(probe_own_group(&refused, &Ok(Vec::new())), Fact::Unknown(_)));
        assert!(matches!(probe_cgroup2_writable(&Fact::Unknown("x".into())), Fact::Unknown(_)));
    }

    #[test]
    fn the_rights_of_this_kernel_are_those_of_its_abi() {
        let here = probe_landlock();
        let abi = landlock_abi().unwrap_or(0);
        for right in Right::ALL {
            // The crate knows up to ABI 10; a newer kernel has no less.
            assert_eq!(here.has(right), right.since() <= abi, "{}", right.as_str());
        }
    }
}
