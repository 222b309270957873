//! The run's own control group: made beneath ours, filled by the launcher, emptied and removed at the end.
//!
//! Its name tells who made it, so that a later run finds and removes the groups of makers that died.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::signals;
use crate::host::mountinfo::{self, OwnGroup};

const PREFIX: &str = "assay-";
/// Inode of the initial cgroup namespace: `PROC_CGROUP_INIT_INO` in `include/linux/proc_ns.h`.
const INITIAL_NAMESPACE: u64 = 0xEFFF_FFFB;
/// How deep nested groups are followed; the kernel's own bound is `cgroup.max.depth`, unlimited by default.
const MAX_DEPTH: u32 = 256;

/// Why there is no group for the run.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// No version 2 hierarchy shows our own group.
    #[error("find our control group: no cgroup version 2 mount shows it")]
    NotMounted,
    /// The kernel refused it.
    #[error("make a control group beneath {}: {source}", parent.display())]
    Make {
        /// Our own group.
        parent: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// `/proc` did not tell.
    #[error("read {path}: {source}")]
    Read {
        /// The file.
        path: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The run's group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    directory: PathBuf,
    id: u64,
    level: u32,
    is_level_absolute: bool,
}

impl Group {
    /// Makes an empty group for one run of this process.
    pub fn create() -> Result<Self, GroupError> {
        let read =
            |path: &'static str| std::fs::read(path).map_err(|source| GroupError::Read { path, source });
        let own = mountinfo::read_own_group(&read("/proc/self/cgroup")?).ok_or(GroupError::NotMounted)?;
        let mounts = mountinfo::read_mounts(&read("/proc/self/mountinfo")?);
        let maker = Maker::of_this_process()
            .map_err(|source| GroupError::Read { path: "/proc/self/stat", source })?;
        let mut failure = GroupError::NotMounted;
        for parent in mountinfo::find_own_group(&mounts, &own) {
            if !parent.directory.join("cgroup.procs").exists() {
                continue;
            }
            remove_stale(&parent.directory, &maker);
            match Self::create_beneath(&parent, &maker) {
                Ok(group) => return Ok(group),
                Err(source) => failure = GroupError::Make { parent: parent.directory, source },
            }
        }
        Err(failure)
    }

    /// The same, beneath another group than ours.
    pub fn create_in(parent: &OwnGroup) -> Result<Self, GroupError> {
        let maker = Maker::of_this_process()
            .map_err(|source| GroupError::Read { path: "/proc/self/stat", source })?;
        Self::create_beneath(parent, &maker)
            .map_err(|source| GroupError::Make { parent: parent.directory.clone(), source })
    }

    fn create_beneath(parent: &OwnGroup, maker: &Maker) -> io::Result<Self> {
        // A process may run several sandboxes; each gets the first free number.
        for number in 0..u32::MAX {
            let directory = parent.directory.join(format!("{PREFIX}{maker}-{number}"));
            match std::fs::create_dir(&directory) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            let id = std::fs::metadata(&directory)?.ino();
            let is_level_absolute =
                std::fs::metadata("/proc/self/ns/cgroup").is_ok_and(|file| file.ino() == INITIAL_NAMESPACE);
            return Ok(Self { directory, id, level: parent.level + 1, is_level_absolute });
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    /// Whether a group of this name is that of a run.
    pub fn is_name(name: &std::ffi::OsStr) -> bool {
        name.to_str().and_then(read_maker).is_some()
    }

    /// The group at `directory`, made by another process.
    pub fn adopt(directory: PathBuf) -> Self {
        Self { directory, id: 0, level: 0, is_level_absolute: false }
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The kernel's number for it, which `bpf_get_current_cgroup_id` gives.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How deep it lies beneath the root of our cgroup namespace.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Whether [`level`](Self::level) counts from the root of the whole hierarchy, as the kernel's helpers do.
    pub fn is_level_absolute(&self) -> bool {
        self.is_level_absolute
    }

    /// Where a process writes `0` to join.
    pub fn procs_file(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// Whether a process lives in it or in a group beneath it.
    pub fn is_populated(&self) -> bool {
        match std::fs::read_to_string(self.directory.join("cgroup.events")) {
            Ok(text) => text.lines().any(|line| line == "populated 1"),
            Err(_) => false,
        }
    }

    /// The processes in it and in the groups beneath it.
    pub fn members(&self) -> Vec<u32> {
        let mut members = Vec::new();
        self.each_group(&mut |directory| {
            // Read by hand: a group in threaded mode answers EOPNOTSUPP, and a removed one ENODEV.
            let mut text = String::new();
            if let Ok(mut file) = std::fs::File::open(directory.join("cgroup.procs"))
                && file.read_to_string(&mut text).is_ok()
            {
                // 0 stands for a process of another pid namespace.
                members
                    .extend(text.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid != 0));
            }
        });
        members.sort_unstable();
        members.dedup();
        members
    }

    /// Whether process `pid` is in it or in a group beneath it.
    pub fn is_member(&self, pid: u32) -> bool {
        let Some(name) = self.directory.file_name() else { return false };
        let Ok(text) = std::fs::read(format!("/proc/{pid}/cgroup")) else { return false };
        mountinfo::read_own_group(&text)
            .is_some_and(|path| path.components().any(|part| part.as_os_str() == name))
    }

    /// Sends signal `number` to every member.
    pub fn signal(&self, number: i32) {
        for pid in self.members() {
            // One that may not be signalled is left for `kill`, which asks nobody.
            drop(signals::send(pid, number));
        }
    }

    /// Kills everything in it and beneath it.
    pub fn kill(&self) {
        // Before 5.14 there is no cgroup.kill; then until nobody is left, as the forks of the killed may be.
        if std::fs::write(self.directory.join("cgroup.kill"), "1").is_err() {
            self.signal(libc::SIGKILL);
        }
    }

    /// Kills and waits until nobody is left, or until `patience` is over. True when it is empty.
    pub fn kill_and_wait(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_micros(200);
        loop {
            self.kill();
            if !self.is_populated() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Moves every member to the group above, where nothing of ours holds them. True when it is empty.
    pub fn release(&self) -> bool {
        let Some(above) = self.directory.parent().map(|parent| parent.join("cgroup.procs")) else {
            return false;
        };
        // New members appear while the old ones fork; each round moves all there are.
        for _ in 0..1000 {
            let members = self.members();
            if members.is_empty() && !self.is_populated() {
                return true;
            }
            for pid in members {
                // One that ended meanwhile is no loss.
                drop(std::fs::write(&above, pid.to_string()));
            }
        }
        false
    }

    /// Removes it and the groups beneath it. A group that is gone is not an error.
    pub fn remove(&self) -> io::Result<()> {
        let mut groups = Vec::new();
        self.each_group(&mut |directory| groups.push(directory.to_owned()));
        // Deepest first: a group is listed before those beneath it.
        for directory in groups.iter().rev() {
            match std::fs::remove_dir(directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn each_group(&self, visit: &mut dyn FnMut(&Path)) {
        visit_groups(&self.directory, MAX_DEPTH, visit);
    }
}

fn visit_groups(directory: &Path, depth: u32, visit: &mut dyn FnMut(&Path)) {
    visit(directory);
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    if depth == 0 {
        return;
    }
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        visit_groups(&entry.path(), depth - 1, visit);
    }
}

/// Who made a group: a process id, the pid namespace it counts in, and when it started, so that a reused id is
/// told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Maker {
    namespace: u64,
    pid: u32,
    started: u64,
}

impl Maker {
    fn of_this_process() -> io::Result<Self> {
        let pid = std::process::id();
        let started = start_time(pid).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Self { namespace: std::fs::metadata("/proc/self/ns/pid")?.ino(), pid, started })
    }

    fn is_alive(&self) -> bool {
        // One that ended and was not waited for makes nothing any more.
        matches!(state_and_start(self.pid), Some((state, started)) if started == self.started && !b"ZX".contains(&state))
    }
}

impl std::fmt::Display for Maker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{}", self.namespace, self.pid, self.started)
    }
}

fn read_maker(name: &str) -> Option<Maker> {
    let (mark, number) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    number.parse::<u32>().ok()?;
    read_mark(mark)
}

fn read_mark(mark: &str) -> Option<Maker> {
    let mut numbers = mark.split('-');
    let namespace = numbers.next()?.parse().ok()?;
    let pid = numbers.next()?.parse().ok()?;
    let started = numbers.next()?.parse().ok()?;
    numbers.next().is_none().then_some(Maker { namespace, pid, started })
}

/// What tells this process in the name of a group of its making.
pub fn own_mark() -> io::Result<String> {
    Ok(Maker::of_this_process()?.to_string())
}

/// Whether it tells a process that is known to be dead. One of another pid namespace cannot be asked.
pub fn is_mark_of_the_dead(mark: &str) -> bool {
    let own = Maker::of_this_process();
    let is_dead = |own: Maker| {
        read_mark(mark).is_some_and(|other| other.namespace == own.namespace && !other.is_alive())
    };
    own.is_ok_and(is_dead)
}

/// Which process made the group of this name; `None` for a group that is none of ours.
pub fn pid_of_maker(name: &str) -> Option<u32> {
    read_maker(name).map(|maker| maker.pid)
}

/// When process `pid` started, in clock ticks since boot.
pub fn start_time(pid: u32) -> Option<u64> {
    state_and_start(pid).map(|(_, started)| started)
}

fn state_and_start(pid: u32) -> Option<(u8, u64)> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; the fields after the last one do not.
    let after = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let fields = stat.get(after..)?;
    let started = std::str::from_utf8(fields).ok()?.split(' ').nth(19)?.parse().ok()?;
    Some((*fields.first()?, started))
}

/// Kills and removes the groups beneath `parent` whose makers died.
pub fn sweep(parent: &Path) -> io::Result<()> {
    remove_stale(parent, &Maker::of_this_process()?);
    Ok(())
}

/// Kills and removes the groups of makers that died. What cannot be removed now, a later run tries again.
fn remove_stale(parent: &Path, maker: &Maker) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let Some(other) = entry.file_name().to_str().and_then(read_maker) else { continue };
        // A process of another pid namespace cannot be asked whether it lives.
        if other.namespace != maker.namespace || other.is_alive() {
            continue;
        }
        let group = Group::adopt(entry.path());
        if group.kill_and_wait(Duration::from_secs(1)) {
            drop(group.remove());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_maker_and_other_names_do_not() {
        let maker = Maker { namespace: 4_026_531_836, pid: 77, started: 123_456 };
        assert_eq!(read_maker(&format!("{PREFIX}{maker}-0")), Some(maker.clone()));
        assert_eq!(pid_of_maker(&format!("{PREFIX}{maker}-12")), Some(77));
        for other in
            ["assay-", "assay-1-2-3", "assay-1-2-3-4-5", "assay-1-2-3-x", "other-1-2-3-4", "assay-1--2-3-4"]
        {
            assert_eq!(read_maker(other), None, "{other}");
        }
    }

    #[test]
    fn this_process_is_alive_and_one_with_its_id_from_earlier_is_not() {
        let maker = Maker::of_this_process().unwrap();
        assert!(maker.is_alive());
        assert!(!is_mark_of_the_dead(&own_mark().unwrap()));
        let earlier = Maker { started: maker.started - 1, ..maker.clone() };
        assert!(!earlier.is_alive() && is_mark_of_the_dead(&earlier.to_string()));
        let elsewhere = Maker { namespace: maker.namespace + 1, ..earlier };
        assert!(!is_mark_of_the_dead(&elsewhere.to_string()) && !is_mark_of_the_dead("1-2"));
    }

    #[test]
    fn who_ended_is_dead_before_anybody_waited() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let maker = Maker { pid: child.id(), started: start_time(child.id()).unwrap(), namespace: 0 };
        assert!(maker.is_alive());
        child.kill().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while maker.is_alive() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(!maker.is_alive() && start_time(maker.pid) == Some(maker.started));
        child.wait().unwrap();
    }
}
