//! What a test needs of the machine: met, or proved absent and allowed to be.
//!
//! A test that cannot run here says so through [`are_met`], which leaves a line for `cargo xtask kernel` to count. What may
//! be absent where is in `not-run.toml`; anything else that is absent fails the test.

use std::fmt;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, Scope,
};

/// Where the lines about tests that could not run go.
const NOT_RUN: &str = "ASSAY_NOT_RUN";
/// What may be absent where.
const ALLOWED: &str = include_str!("not-run.toml");

/// Something a test needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The rights of root.
    Root,
    /// The kernel's own type information.
    Btf,
    /// LSM programs can be loaded.
    BpfLsm,
    /// A mounted cgroup v2 hierarchy.
    CgroupV2,
    /// Control groups that limit memory, of either version.
    MemoryLimits,
    /// Landlock with all rights of this version.
    LandlockAbi(i32),
    /// A kernel whose Landlock does not hold all of an ordinary policy, or that was booted without it.
    LimitedLandlock,
    /// A packet's program can tell its network namespace.
    NetnsInPackets,
    /// A kernel of this series, whose verifier counts as the one of the list does.
    Kernel(&'static str),
    /// A host where nothing can be observed.
    CannotObserve,
    /// A machine that `cargo xtask vm` has booted, which declares what it is.
    Booted,
    /// Devices that show a file as a disk.
    LoopDevices,
    /// A program on `PATH`.
    Program(&'static str),
    /// A coding agent, installed by `cargo xtask agents`.
    Agent(&'static str),
    /// The packages of `python-packages.txt`.
    PythonPackages,
    /// A file of Debian's packages that `cargo xtask setup` unpacks and does not install.
    Unpacked(&'static str),
}

impl fmt::Display for Need {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => out.write_str("root"),
            Self::Btf => out.write_str("btf"),
            Self::BpfLsm => out.write_str("bpf-lsm"),
            Self::CgroupV2 => out.write_str("cgroup-v2"),
            Self::MemoryLimits => out.write_str("memory-limits"),
            Self::LandlockAbi(version) => write!(out, "landlock-{version}"),
            Self::LimitedLandlock => out.write_str("limited-landlock"),
            Self::NetnsInPackets => out.write_str("netns-in-packets"),
            Self::Kernel(series) => write!(out, "kernel-{series}"),
            Self::CannotObserve => out.write_str("cannot-observe"),
            Self::Booted => out.write_str("booted"),
            Self::LoopDevices => out.write_str("loop-devices"),
            Self::Program(name) => write!(out, "program-{name}"),
            Self::Agent(name) => write!(out, "agent-{name}"),
            Self::PythonPackages => out.write_str("python-packages"),
            Self::Unpacked(path) => write!(out, "unpacked-{}", path.rsplit('/').next().unwrap_or(path)),
        }
    }
}

impl Need {
    /// Why it is not met; `None` when it is.
    fn proof(self) -> Option<String> {
        match self {
            Self::Root => {
                let id = rustix::process::geteuid();
                (!id.is_root()).then(|| format!("we are uid {}", id.as_raw()))
            }
            Self::Btf => {
                let path = "/sys/kernel/btf/vmlinux";
                fs::File::open(path).err().map(|error| format!("{path}: {error}"))
            }
            // Whether it loads is not enough: without `bpf` among the active ones, nothing calls it.
            Self::BpfLsm => assay::host::hook_programs::obstacle(),
            Self::CgroupV2 => {
                let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
                (!mounts.contains(" - cgroup2 ")).then(|| "no cgroup2 in /proc/self/mountinfo".to_owned())
            }
            Self::MemoryLimits => {
                memory_limits().is_none().then(|| "no hierarchy has the memory controller".to_owned())
            }
            Self::LandlockAbi(version) => landlock(version).err().map(|error| error.to_string()),
            Self::LimitedLandlock => {
                has_landlock(6).then(|| "this kernel's Landlock has all rights of version 6".to_owned())
            }
            Self::NetnsInPackets => (!assay::host::netns::is_told_to_packets())
                .then(|| "the kernel refused a trivial program that asks".to_owned()),
            Self::Kernel(series) => {
                let release = rustix::system::uname().release().to_string_lossy().into_owned();
                (!release.starts_with(&format!("{series}."))).then(|| format!("this is {release}"))
            }
            Self::CannotObserve => {
                crate::hosts::obstacle().is_none().then(|| "this host can observe".to_owned())
            }
            Self::LoopDevices => {
                let path = "/dev/loop-control";
                fs::File::open(path).err().map(|error| format!("{path}: {error}"))
            }
            Self::Booted => booted("vm").is_none().then(|| "nobody booted it for a test".to_owned()),
            Self::PythonPackages => {
                python().is_none().then(|| "`cargo xtask setup` did not install them".to_owned())
            }
            Self::Unpacked(path) => {
                unpacked(path).is_none().then(|| "`cargo xtask setup` did not unpack it".to_owned())
            }
            Self::Program(name) => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                let is_there = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
                (!is_there).then(|| "not on PATH".to_owned())
            }
            Self::Agent(name) => crate::agents::obstacle(name),
        }
    }
}

/// The caches in which what was installed for tests may lie: of whoever runs this, and of whoever ran `sudo`.
fn caches() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = |home: PathBuf| home.join(".cache");
    let invoker = || {
        let name = std::env::var("SUDO_USER").ok()?;
        let users = fs::read_to_string("/etc/passwd").ok()?;
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?.to_owned();
        Some(PathBuf::from(line.split(':').nth(5)?))
    };
    [variable("XDG_CACHE_HOME"), variable("HOME").map(home), invoker().map(home)]
        .into_iter()
        .flatten()
        .collect()
}

/// Python with the packages of `python-packages.txt`, where `xtask/src/python.rs` makes it.
pub fn python() -> Option<PathBuf> {
    let digest = assay::canon::digest::Digest::of(include_bytes!("python-packages.txt"));
    let places = caches().into_iter().map(|cache| cache.join("assay-test-python").join(&digest.hex()[..16]));
    places.filter(|place| place.join("whole").is_file()).map(|place| place.join("bin/python")).next()
}

/// A file of the packages that `xtask/src/unpacked.rs` unpacks, by its path there.
pub fn unpacked(path: &str) -> Option<PathBuf> {
    let places = caches().into_iter().map(|cache| cache.join("assay-test-debian"));
    places
        .filter(|place| place.join("whole").is_file())
        .map(|place| place.join(path))
        .find(|file| file.exists())
}

/// Where groups with limits of memory can be made, and the file that has such a limit.
pub fn memory_limits() -> Option<(PathBuf, &'static str)> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().find_map(|line| {
        let root = PathBuf::from(line.split(' ').nth(4)?);
        let (kind, options) = line.split_once(" - ")?.1.split_once(' ')?;
        let has = |file: &str| {
            fs::read_to_string(root.join(file))
                .is_ok_and(|list| list.split_whitespace().any(|one| one == "memory"))
        };
        match kind {
            "cgroup" if options.split([' ', ',']).any(|one| one == "memory") => {
                Some((root, "memory.limit_in_bytes"))
            }
            "cgroup2" if has("cgroup.subtree_control") => Some((root, "memory.max")),
            _ => None,
        }
    })
}

/// Whether this kernel's Landlock has all rights of this version.
pub fn has_landlock(version: i32) -> bool {
    landlock(version).is_ok()
}

/// Asks for every right of this version; makes a ruleset and restricts nothing.
fn landlock(version: i32) -> Result<(), landlock::RulesetError> {
    let abi = ABI::from(version);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if version >= 4 {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    if version >= 6 {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    ruleset.create().map(drop)
}

/// Whether the test can run. Where it cannot, and may not be able to, a line is left; where it should, this fails it.
pub fn are_met(test: &str, needs: &[Need]) -> bool {
    let kernel = kernel();
    let mut all = true;
    for need in needs {
        let Some(proof) = need.proof() else { continue };
        assert!(
            may_lack(&need.to_string(), &kernel),
            "{test} needs {need}, which kernel {kernel} should have: {proof}; tests/kernel/not-run.toml lists what may be absent"
        );
        let line = format!("{test}: needs {need}: {proof}\n");
        print!("not run: {line}");
        if let Some(path) = std::env::var_os(NOT_RUN) {
            let file = fs::OpenOptions::new().create(true).append(true).open(path);
            file.and_then(|mut file| file.write_all(line.as_bytes()))
                .expect("a place to count what did not run");
        }
        all = false;
    }
    all
}

/// What `cargo xtask vm` declared under this name when it booted this machine; `None` on any other.
pub fn booted(name: &str) -> Option<String> {
    let options = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let mut words = options.split_whitespace();
    words.find_map(|word| Some(word.strip_prefix(&format!("assay.{name}="))?.to_owned()))
}

/// The release of this kernel; in a machine of `cargo xtask vm`, which holds few programs, `vm` and its name stand before.
fn kernel() -> String {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    booted("vm").map_or_else(|| release.clone(), |name| format!("vm {name} {release}"))
}

/// Whether `not-run.toml` has an entry for this need and kernel.
fn may_lack(need: &str, kernel: &str) -> bool {
    let value = |entry: &str, key: &str| {
        let of = |line: &str| {
            Some(line.strip_prefix(key)?.trim().strip_prefix('=')?.trim().trim_matches('"').to_owned())
        };
        entry.lines().find_map(of).unwrap_or_default()
    };
    ALLOWED.split("[[may-lack]]").skip(1).any(|entry| {
        let release = value(entry, "kernel");
        value(entry, "need") == need && (release == "any" || kernel.starts_with(&release))
    })
}

#[test]
fn every_entry_of_the_list_has_a_need_a_kernel_and_a_reason() {
    for entry in ALLOWED.split("[[may-lack]]").skip(1) {
        for key in ["need", "kernel", "why"] {
            let has = entry
                .lines()
                .any(|line| line.starts_with(&format!("{key} = \"")) && line.len() > key.len() + 6);
            assert!(has, "an entry of not-run.toml has no `{key}`:{entry}");
        }
    }
    assert!(!may_lack("root", "6.18.0"));
    assert!(!may_lack("btf", "6.18.0"));
}
