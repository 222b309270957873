//! The group beneath which every run has its own: made at the start beneath ours, swept of what dead workers left, and
//! removed at the end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::mountinfo::{self, OwnGroup};
use crate::sandbox::cgroup::{self, Group, GroupError};

/// How its name begins; who made it follows.
const PREFIX: &str = "assay-runs-";
/// How long what was killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes it. What services that are dead left beside it is ended and removed, unless a worker of theirs goes on.
pub fn make() -> Result<OwnGroup, GroupError> {
    let read = |path: &'static str| std::fs::read(path).map_err(|source| GroupError::Read { path, source });
    let own = mountinfo::read_own_group(&read("/proc/self/cgroup")?).ok_or(GroupError::NotMounted)?;
    let mounts = mountinfo::read_mounts(&read("/proc/self/mountinfo")?);
    let mark = cgroup::own_mark().map_err(|source| GroupError::Read { path: "/proc/self/stat", source })?;
    let mut failure = GroupError::NotMounted;
    for parent in mountinfo::find_own_group(&mounts, &own) {
        if !parent.directory.join("cgroup.procs").exists() {
            continue;
        }
        for entry in std::fs::read_dir(&parent.directory).into_iter().flatten().flatten() {
            clean(&entry.path());
        }
        let directory = parent.directory.join(format!("{PREFIX}{mark}"));
        match std::fs::create_dir(&directory) {
            Ok(()) => return Ok(OwnGroup { directory, level: parent.level + 1 }),
            Err(source) => failure = GroupError::Make { parent: parent.directory, source },
        }
    }
    Err(failure)
}

/// Ends what dead workers left beneath a group that a dead service made, and removes it where nothing is left.
pub fn clean(runs: &Path) {
    let mark = runs.file_name().and_then(|name| name.to_str()?.strip_prefix(PREFIX));
    if mark.is_some_and(cgroup::is_mark_of_the_dead) && sweep(runs).is_ok() {
        remove(runs);
    }
}

/// Ends what dead workers left beneath it.
pub fn sweep(runs: &Path) -> Result<(), GroupError> {
    cgroup::sweep(runs).map_err(|source| GroupError::Read { path: "/proc/self/stat", source })
}

/// Ends the runs of these workers. True when nothing of them is left.
pub fn end(runs: &Path, workers: &[u32]) -> bool {
    groups_of(runs, workers).into_iter().all(|directory| Group::adopt(directory).kill_and_wait(PATIENCE))
}

/// Removes it, if nothing is in it.
pub fn remove(runs: &Path) {
    // Runs that go on keep it, and who starts next sweeps it.
    drop(std::fs::remove_dir(runs));
}

fn groups_of(runs: &Path, workers: &[u32]) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(runs) else { return Vec::new() };
    let is_theirs = |name: &str| cgroup::pid_of_maker(name).is_some_and(|pid| workers.contains(&pid));
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_theirs))
        .map(|entry| entry.path())
        .collect()
}
