//! Sets this process apart from a command that runs as the same user, so that the command cannot lower its limits.
//!
//! `prlimit` on another process asks for equal ids, all six of them, or for `CAP_SYS_RESOURCE`, which a command does not
//! have. Another saved group is enough, and changes nothing else: it is neither used for any check of files nor passed
//! on by `execve`, which sets it anew.

use rustix::process::Gid;

/// A group that no process of ours has: `nogroup` on most systems, and whatever it is elsewhere, nobody acts by it.
const APART: u32 = 65_534;

/// Changes the saved group. Only root can, and only root's commands need it: others are told apart by their ids already,
/// or are an ordinary user's own.
pub fn set_apart() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Without the right to, the limits stay within the command's reach, as they were.
    rustix::thread::set_thread_res_gid(None, None, Gid::from_raw(APART)).ok();
}
