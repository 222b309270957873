//! Looks at files with another user's rights: for the work that is done in its name.
#![expect(unsafe_code, reason = "nothing wraps setfsuid and setfsgid")]

use std::io;

use rustix::process::Gid;

use super::user::User;

/// While it lives, this thread has the user's rights to files; all its other rights stay.
#[derive(Debug)]
pub struct AsUser {
    groups: Vec<Gid>,
    gid: u32,
}

impl AsUser {
    /// Takes them on. The capabilities over files go with the user id and come back with it.
    pub fn take_on(user: &User) -> io::Result<Self> {
        Self::take_on_ids(user.uid, user.gid, &user.groups)
    }

    /// The same, by ids.
    pub fn take_on_ids(uid: u32, gid: u32, groups: &[u32]) -> io::Result<Self> {
        let before = Self { groups: rustix::process::getgroups()?, gid: rustix::process::getegid().as_raw() };
        let groups: Vec<Gid> = groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        rustix::thread::set_thread_groups(&groups)?;
        // SAFETY: both calls take a number and touch no memory.
        unsafe {
            libc::setfsgid(gid);
            libc::setfsuid(uid);
        }
        // They do not say whether they failed, but what is set now.
        // SAFETY: as above; no process has this id, so that nothing is changed.
        let (set_uid, set_gid) = unsafe { (libc::setfsuid(u32::MAX), libc::setfsgid(u32::MAX)) };
        if (set_uid, set_gid) == (uid as i32, gid as i32) {
            Ok(before)
        } else {
            drop(before);
            Err(io::Error::from(io::ErrorKind::PermissionDenied))
        }
    }
}

impl Drop for AsUser {
    fn drop(&mut self) {
        // SAFETY: as above. The effective ids were not changed, so these are always allowed.
        unsafe {
            libc::setfsuid(rustix::process::geteuid().as_raw());
            libc::setfsgid(self.gid);
        }
        // It was ours a moment ago.
        rustix::thread::set_thread_groups(&self.groups).ok();
    }
}
