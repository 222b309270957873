//! Who is at the other end: what the kernel tells of the process that connected, and whether it may.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, PidfdFlags};

use super::peer_options;
use crate::sandbox::cgroup;

/// A process that connected, as it was then.
#[derive(Debug)]
pub struct Peer {
    /// Its number, in our pid namespace.
    pub pid: u32,
    /// The process itself, whoever has its number later.
    pub pidfd: OwnedFd,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
}

impl Peer {
    /// Asks the kernel.
    pub fn of(line: &UnixStream) -> io::Result<Self> {
        let told = rustix::net::sockopt::socket_peercred(line)?;
        let (uid, gid) = (told.uid.as_raw(), told.gid.as_raw());
        let groups = peer_options::groups(line)?;
        let pidfd = match peer_options::pidfd(line)? {
            Some(pidfd) => pidfd,
            None => open(told.pid, uid)?,
        };
        Ok(Self { pid: told.pid.as_raw_nonzero().get() as u32, pidfd, uid, gid, groups })
    }

    /// Whether it may use the service.
    pub fn may(&self, group: u32) -> bool {
        may(self.uid, self.gid, &self.groups, group)
    }
}

/// Root may, and whoever is in the group.
fn may(uid: u32, gid: u32, groups: &[u32], group: u32) -> bool {
    uid == 0 || gid == group || groups.contains(&group)
}

/// The process by its number, for kernels before 6.5: it must be the user's who connected, and stay the same process while it
/// is looked at. One of the same user that was given the number between connecting and now is not told apart.
fn open(pid: Pid, uid: u32) -> io::Result<OwnedFd> {
    let number = pid.as_raw_nonzero().get() as u32;
    let gone = || io::Error::other("the process that connected is gone");
    let before = cgroup::start_time(number).ok_or_else(gone)?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let owner = std::fs::metadata(format!("/proc/{number}"))?.uid();
    // A process that is not dumpable belongs to root in /proc.
    let is_same =
        cgroup::start_time(number) == Some(before) && (owner == uid || owner == 0) && is_alive(&pidfd);
    if is_same { Ok(pidfd) } else { Err(gone()) }
}

fn is_alive(pidfd: &OwnedFd) -> bool {
    let mut ended = [rustix::event::PollFd::from_borrowed_fd(pidfd.as_fd(), rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut ended, Some(&now)) == Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_members_of_the_group_may_and_nobody_else() {
        for (uid, gid, groups, expect) in [
            (0, 0, &[][..], true),
            (0, 5, &[][..], true),
            (1000, 42, &[][..], true),
            (1000, 1000, &[4, 42][..], true),
            (1000, 1000, &[4, 24, 420][..], false),
            (42, 1000, &[][..], false),
            // Its group is root's, which is not being root.
            (1000, 0, &[0][..], false),
        ] {
            assert_eq!(may(uid, gid, groups, 42), expect, "{uid} {gid} {groups:?}");
        }
    }

    #[test]
    fn the_kernel_tells_who_connected() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let peer = Peer::of(&ours).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.gid, rustix::process::getegid().as_raw());
        let groups = rustix::process::getgroups().unwrap();
        assert_eq!(peer.groups, groups.iter().map(|group| group.as_raw()).collect::<Vec<_>>());
        assert!(is_alive(&peer.pidfd));
        drop(theirs);
    }

    #[test]
    fn without_the_kernels_word_the_process_is_found_by_its_number_and_its_user() {
        let own = rustix::process::getpid();
        let uid = rustix::process::geteuid().as_raw();
        assert!(is_alive(&open(own, uid).unwrap()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        child.wait().unwrap();
        assert!(open(pid, uid).is_err());
    }
}
