//! What is done for a launcher that is a client's child, and that it has no right to do: its place in the run's group,
//! the ids of its user namespace, the mounts in its mount namespace.
//!
//! Everything here is about a process that another user has in hand. It is named by a pidfd; its user namespace maps
//! that user's own ids and nobody else's, so that what it is able to do there it can do to itself alone; and mounts are
//! made by a copy of this process that has entered its mount namespace with that user's rights to files.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::as_user::AsUser;
use super::caller::Launched;
use super::cgroup::Group;
use super::child::LaunchError;
use super::launcher::make_mounts;
use super::spec::{LaunchSpec, Stage, Unheld};
use super::{fork, namespace};
use crate::enforce::Confinement;

/// Ids of a process, as `/proc/PID/status` tells them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessIds {
    /// Its parent.
    pub parent: u32,
    /// User ids: real, effective, saved, of files.
    pub uids: Vec<u32>,
    /// Group ids, likewise.
    pub gids: Vec<u32>,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl ProcessIds {
    /// Reads them of a process that the pidfd says is still there after that.
    pub fn of(pid: u32, pidfd: BorrowedFd<'_>) -> io::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
        if has_ended(pidfd)? {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(Self::parse(&text))
    }

    /// Reads that text. Pure.
    pub fn parse(status: &str) -> Self {
        let numbers = |name: &str| -> Vec<u32> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        Self {
            parent: numbers("PPid:").first().copied().unwrap_or(0),
            uids: numbers("Uid:"),
            gids: numbers("Gid:"),
            groups: numbers("Groups:"),
        }
    }
}

/// Whether the process has ended.
pub fn has_ended(pidfd: BorrowedFd<'_>) -> io::Result<bool> {
    is_readable(pidfd)
}

/// Whether there is something to read now.
pub fn is_readable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    Ok(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}

/// Maps the ids of a user into the namespace of its process: its own, each onto itself, and no others. With others it
/// could act as them outside.
pub fn map_ids(launched_pid: u32, ids: &ProcessIds) -> io::Result<()> {
    let write = |file: &str, text: &str| fs::write(format!("/proc/{launched_pid}/{file}"), text);
    // A group can take rights away as well as give them: it keeps those it has.
    write("setgroups", "deny")?;
    write("gid_map", &map_of(ids.gids.iter().chain(&ids.groups)))?;
    write("uid_map", &map_of(ids.uids.iter()))
}

/// The most ranges that a map may have: `UID_GID_MAP_MAX_EXTENTS` in `include/linux/user_namespace.h`.
const MOST_RANGES: usize = 340;

fn map_of<'a>(ids: impl Iterator<Item = &'a u32>) -> String {
    let ids: BTreeSet<u32> = ids.copied().collect();
    let lines: Vec<String> = ids.iter().take(MOST_RANGES).map(|id| format!("{id} {id} 1\n")).collect();
    lines.concat()
}

/// Puts the launcher into the run's group, and makes its mounts. What could not be made and need not be.
pub fn prepare(
    launched: &Launched,
    spec: &LaunchSpec,
    group: Option<&Group>,
) -> Result<Vec<Unheld>, LaunchError> {
    let failed = |stage: Stage, error: &io::Error| LaunchError::Step {
        stage,
        errno: error.raw_os_error().unwrap_or(libc::EIO),
        detail: error.raw_os_error().is_none().then(|| error.to_string()),
    };
    if let Some(group) = group {
        fs::write(group.procs_file(), launched.pid.to_string())
            .and_then(|()| {
                if group.is_member(launched.pid) && !has_ended(launched.pidfd.as_fd())? {
                    Ok(())
                } else {
                    Err(io::Error::from_raw_os_error(libc::ESRCH))
                }
            })
            .map_err(|error| failed(Stage::Group, &error))?;
    }
    if !launched.has_namespace {
        // A group that its user does not own cannot be left by it, nor can another's be joined.
        return Ok(Vec::new());
    }
    let confinement = spec.settings.ruleset.as_deref().map(Confinement::from_bytes).transpose();
    let confinement =
        confinement.map_err(|error| failed(Stage::Ruleset, &io::Error::other(error.to_string())))?;
    let confinement = confinement.unwrap_or_default();
    mount_there(launched, &confinement).map_err(|error| failed(Stage::Ruleset, &error))
}

/// A copy of this process makes the mounts where the launcher is, and says how far it came.
fn mount_there(launched: &Launched, confinement: &Confinement) -> io::Result<Vec<Unheld>> {
    let ids = ProcessIds::of(launched.pid, launched.pidfd.as_fd())?;
    let (Some(&uid), Some(&gid)) = (ids.uids.get(1), ids.gids.get(1)) else {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    };
    let answer = fork::ask_a_copy_for(|| {
        let tried = namespace::enter_mounts(launched.pidfd.as_fd()).map_err(io::Error::from).and_then(|()| {
            let _user = AsUser::take_on_ids(uid, gid, &ids.groups)?;
            make_mounts(confinement, true, || Ok(())).map_err(|_| io::Error::other("a mount was refused"))
        });
        match tried {
            Ok(unheld) => unheld.iter().fold(HELD, |told, one| told | bit_of(*one)),
            Err(_) => FAILED,
        }
    })?;
    if answer & HELD == 0 {
        return Err(io::Error::other("its mounts could not be made for it"));
    }
    let all = [Unheld::CgroupWritable, Unheld::OtherProcessesVisible, Unheld::BoundingSetKept];
    Ok(all.into_iter().filter(|one| answer & bit_of(*one) != 0).collect())
}

/// The exit status of the copy: whether all that must be was made, and what need not be and was not.
const FAILED: u8 = 1;
const HELD: u8 = 2;

fn bit_of(unheld: Unheld) -> u8 {
    match unheld {
        Unheld::CgroupWritable => 4,
        Unheld::OtherProcessesVisible => 8,
        Unheld::BoundingSetKept => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_mapped_onto_themselves() {
        let status = "Name:\ta b\nPPid:\t7\nUid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\nGroups:\t27 100 \n";
        let ids = ProcessIds::parse(status);
        assert_eq!((ids.parent, &ids.uids[..], &ids.groups[..]), (7, &[1000; 4][..], &[27, 100][..]));
        assert_eq!(map_of(ids.uids.iter()), "1000 1000 1\n");
        assert_eq!(map_of(ids.gids.iter().chain(&ids.groups)), "27 27 1\n100 100 1\n");
        assert_eq!(ProcessIds::parse("Uid:\tx\n"), ProcessIds::default());
    }

    #[test]
    fn a_process_that_ended_is_noticed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        let ids = ProcessIds::of(child.id(), pidfd.as_fd()).unwrap();
        assert_eq!(ids.parent, std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_ended(pidfd.as_fd()).unwrap());
    }
}
