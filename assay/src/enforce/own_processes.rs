//! The command's own `/proc`: in its mount namespace, a view that shows of processes only those it may look into.
//!
//! By Landlock that is the run's own. Process ids stay those of the host, so nothing else about `/proc` changes; what
//! the host has mounted beneath it stays as it is.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount,
    open_tree,
};

use super::other_names::mount_points;
use super::split::is_beneath;

const PROC: &str = "/proc";

/// Puts it in place. Needs a mount namespace of this process's own, and the right to mount.
pub fn show_only_own() -> io::Result<()> {
    // Somebody else's numbers in there would say that it shows another namespace of processes than ours.
    if std::fs::read_link("/proc/self")?.as_os_str() != std::process::id().to_string().as_str() {
        return Err(io::Error::other("/proc shows another namespace of processes"));
    }
    // What we do must not arrive on the host.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let points = mount_points(&std::fs::read("/proc/self/mountinfo")?);
    let mut inside: Vec<_> = points.into_iter().filter(|point| is_beneath(point, PROC.as_bytes())).collect();
    inside.sort();
    inside.dedup();
    let all = inside.clone();
    inside.retain(|point| !all.iter().any(|above| is_beneath(point, above)));
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let mut kept = Vec::new();
    for point in &inside {
        kept.push(open_tree(CWD, OsStr::from_bytes(point), flags)?);
    }
    mount("proc", PROC, "proc", options_of(PROC)?, c"hidepid=4")?;
    for (point, tree) in inside.iter().zip(kept) {
        move_mount(tree, "", CWD, OsStr::from_bytes(point), MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    }
    Ok(())
}

/// The options that the mount there has.
fn options_of(path: &str) -> io::Result<MountFlags> {
    use rustix::fs::StatVfsMountFlags as Has;
    let has = rustix::fs::statvfs(path)?.f_flag;
    let pairs = [
        (Has::RDONLY, MountFlags::RDONLY),
        (Has::NOSUID, MountFlags::NOSUID),
        (Has::NODEV, MountFlags::NODEV),
        (Has::NOEXEC, MountFlags::NOEXEC),
        (Has::NOATIME, MountFlags::NOATIME),
        (Has::RELATIME, MountFlags::RELATIME),
    ];
    let set = pairs.iter().filter(|(flag, _)| has.contains(*flag));
    Ok(set.fold(MountFlags::empty(), |flags, (_, flag)| flags | *flag))
}
