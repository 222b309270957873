//! The group beneath which every run has its own: made at the start beneath ours, swept of what dead workers left, and
//! removed at the end.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::mountinfo::{self, OwnGroup};
use crate::sandbox::cgroup::{self, Group, GroupError};

/// Its name.
const NAME: &str = "assay-runs";
/// How long what was killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes it, or finds it made by a service before us, and ends what dead workers left in it.
pub fn make() -> Result<OwnGroup, GroupError> {
    let read = |path: &'static str| std::fs::read(path).map_err(|source| GroupError::Read { path, source });
    let own = mountinfo::read_own_group(&read("/proc/self/cgroup")?).ok_or(GroupError::NotMounted)?;
    let mounts = mountinfo::read_mounts(&read("/proc/self/mountinfo")?);
    let mut failure = GroupError::NotMounted;
    for parent in mountinfo::find_own_group(&mounts, &own) {
        if !parent.directory.join("cgroup.procs").exists() {
            continue;
        }
        let directory = parent.directory.join(NAME);
        match std::fs::create_dir(&directory) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                failure = GroupError::Make { parent: parent.directory, source };
            }
            _ => {
                let runs = OwnGroup { directory, level: parent.level + 1 };
                sweep(&runs.directory)?;
                return Ok(runs);
            }
        }
    }
    Err(failure)
}

/// Makes it again, if another service that shared it has removed it.
pub fn keep(runs: &Path) {
    // What it comes to shows when a worker makes its group.
    drop(std::fs::create_dir(runs));
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
