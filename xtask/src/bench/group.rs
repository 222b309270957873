//! A control group of our own, for the process that plays the run.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use rustix::process::Pid;

/// The group. Removed when dropped; empty by then.
pub struct Group {
    path: PathBuf,
    /// What the kernel calls it.
    pub id: u64,
    /// Groups above it.
    pub level: u32,
}

impl Group {
    /// Makes one right below the root of the v2 hierarchy, wherever that is mounted.
    pub fn new() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let (root, mount) = mounts
            .lines()
            .filter(|line| line.contains(" - cgroup2 "))
            .find_map(|line| {
                let mut fields = line.split(' ').skip(3);
                Some((fields.next()?, fields.next()?))
            })
            .context("find a cgroup v2 hierarchy in /proc/self/mountinfo")?;
        let above = root.split('/').filter(|name| !name.is_empty()).count();
        let path = PathBuf::from(mount).join(format!("assay-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("make the group {}", path.display()))?;
        let id = fs::metadata(&path)?.ino();
        Ok(Self { path, id, level: above as u32 + 1 })
    }

    /// Its directory.
    pub fn open(&self) -> Result<fs::File> {
        fs::File::open(&self.path).with_context(|| format!("open {}", self.path.display()))
    }

    /// Moves a process into it.
    pub fn admit(&self, pid: Pid) -> Result<()> {
        let file = self.path.join("cgroup.procs");
        fs::write(&file, pid.as_raw_nonzero().to_string())
            .with_context(|| format!("write {}", file.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.path) {
            eprintln!("remove the group {}: {error}", self.path.display());
        }
    }
}
