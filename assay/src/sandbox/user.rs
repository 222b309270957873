//! As whom the child runs, and who owns the artifacts: names and numbers → ids, groups, home.
//!
//! Asks the C library, so that directory services count as well as `/etc/passwd`. Changes nothing.
#![expect(unsafe_code, reason = "getpwnam_r and getgrouplist have no safe wrapper")]

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt as _;

/// Ids, groups and home of the child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// All supplementary groups.
    pub groups: Vec<u32>,
    /// Its `HOME`; `/` when no directory service knows the user, as in a container.
    pub home: OsString,
}

/// Why a user could not be found.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// No such name.
    #[error("find user `{0}`: there is none of that name")]
    Unknown(String),
    /// No such group.
    #[error("find group `{0}`: there is none of that name")]
    UnknownGroup(String),
    /// A variable that `sudo` sets holds something else.
    #[error("read {variable}: `{value}` is no id")]
    NotAnId {
        /// Which variable.
        variable: &'static str,
        /// What it holds.
        value: String,
    },
    /// The look-up failed.
    #[error("look up user `{name}`: {source}")]
    LookUp {
        /// Name or number.
        name: String,
        /// What the C library said.
        source: io::Error,
    },
}

/// `NAME`, `UID`, and either with `:GROUP`, as `docker run --user` reads it.
pub fn parse(text: &str) -> Result<User, UserError> {
    let (name, group) = match text.split_once(':') {
        Some((name, group)) => (name, Some(group)),
        None => (text, None),
    };
    let entry = match read_id(name) {
        Some(uid) => Entry::of_uid(uid)?.unwrap_or_else(|| Entry::unknown(uid)),
        None => Entry::of_name(name)?.ok_or_else(|| UserError::Unknown(name.to_owned()))?,
    };
    match group {
        None => Ok(entry.into_user(None)),
        Some(group) => {
            let gid = parse_group(group)?;
            // As `docker run`: a group that is named replaces all groups.
            Ok(User { uid: entry.uid, gid, groups: vec![gid], home: entry.home })
        }
    }
}

/// The user who called `sudo`, from the values of `SUDO_UID` and `SUDO_GID`. `None` when root called it.
pub fn invoking(uid: &str, gid: Option<&str>) -> Result<Option<User>, UserError> {
    let id = |variable, value: &str| {
        read_id(value).ok_or_else(|| UserError::NotAnId { variable, value: value.to_owned() })
    };
    let uid = id("SUDO_UID", uid)?;
    let gid = gid.map(|gid| id("SUDO_GID", gid)).transpose()?;
    if uid == 0 {
        return Ok(None);
    }
    let entry = Entry::of_uid(uid)?.unwrap_or_else(|| Entry::unknown(gid.unwrap_or(uid)).with_uid(uid));
    Ok(Some(entry.into_user(gid)))
}

/// The group of this name or number.
pub fn parse_group(text: &str) -> Result<u32, UserError> {
    read_id(text).map_or_else(|| gid_of_group(text), Ok)
}

/// The highest number means "leave it as it is" to the kernel, so it is nobody's id.
fn read_id(text: &str) -> Option<u32> {
    text.parse().ok().filter(|id| *id != u32::MAX)
}

struct Entry {
    name: Option<CString>,
    uid: u32,
    gid: u32,
    home: OsString,
}

impl Entry {
    fn unknown(id: u32) -> Self {
        // A container runtime gives group 0 here; on a host that would be root's.
        Self { name: None, uid: id, gid: id, home: "/".into() }
    }

    fn with_uid(self, uid: u32) -> Self {
        Self { uid, ..self }
    }

    fn of_uid(uid: u32) -> Result<Option<Self>, UserError> {
        Self::look_up(&uid.to_string(), |entry, buffer, result| {
            // SAFETY: all pointers are valid for the call and the length is that of the buffer.
            unsafe { libc::getpwuid_r(uid, entry, buffer.as_mut_ptr().cast(), buffer.len(), result) }
        })
    }

    fn of_name(name: &str) -> Result<Option<Self>, UserError> {
        let Ok(text) = CString::new(name) else { return Ok(None) };
        Self::look_up(name, |entry, buffer, result| {
            // SAFETY: all pointers are valid for the call and the length is that of the buffer.
            unsafe {
                libc::getpwnam_r(text.as_ptr(), entry, buffer.as_mut_ptr().cast(), buffer.len(), result)
            }
        })
    }

    fn look_up(
        name: &str,
        call: impl Fn(*mut libc::passwd, &mut [u8], *mut *mut libc::passwd) -> i32,
    ) -> Result<Option<Self>, UserError> {
        let mut buffer = vec![0u8; 1024];
        loop {
            // SAFETY: an all-zero `passwd` is a valid value of that plain C struct.
            let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
            let mut result = std::ptr::null_mut();
            match call(&raw mut entry, &mut buffer, &raw mut result) {
                libc::ERANGE if buffer.len() < 1 << 20 => buffer = vec![0u8; buffer.len() * 4],
                libc::EINTR => {}
                0 if result.is_null() => return Ok(None),
                0 => {
                    return Ok(Some(Self {
                        name: Some(copy(entry.pw_name)),
                        uid: entry.pw_uid,
                        gid: entry.pw_gid,
                        home: OsString::from_vec(copy(entry.pw_dir).into_bytes()),
                    }));
                }
                // The words of getpwnam(3) for "not found".
                libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
                errno => {
                    let source = io::Error::from_raw_os_error(errno);
                    return Err(UserError::LookUp { name: name.to_owned(), source });
                }
            }
        }
    }

    fn into_user(self, gid: Option<u32>) -> User {
        let gid = gid.unwrap_or(self.gid);
        let groups = self.name.as_ref().map_or_else(|| vec![gid], |name| groups_of(name, gid));
        User { uid: self.uid, gid, groups, home: self.home }
    }
}

/// Copies a string that the C library wrote into our buffer.
fn copy(text: *const libc::c_char) -> CString {
    if text.is_null() {
        return CString::default();
    }
    // SAFETY: not null, and getpwnam_r ends what it writes with a NUL inside the buffer, which still lives.
    unsafe { CStr::from_ptr(text) }.to_owned()
}

fn groups_of(name: &CStr, gid: u32) -> Vec<u32> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut count = groups.len() as i32;
        // SAFETY: `groups` holds `count` ids; the call writes no more than that.
        let result = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        if result >= 0 {
            groups.truncate(count as usize);
            return groups;
        }
        // NGROUPS_MAX bounds what the kernel takes.
        if groups.len() > 65536 {
            return vec![gid];
        }
        groups = vec![0u32; (count as usize).max(groups.len() * 2)];
    }
}

fn gid_of_group(group: &str) -> Result<u32, UserError> {
    let unknown = || UserError::UnknownGroup(group.to_owned());
    let text = CString::new(group).map_err(|_| unknown())?;
    let mut buffer = vec![0u8; 1024];
    loop {
        // SAFETY: an all-zero `group` is a valid value of that plain C struct.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut result = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call and the length is that of the buffer.
        let errno = unsafe {
            libc::getgrnam_r(
                text.as_ptr(),
                &raw mut entry,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut result,
            )
        };
        match errno {
            libc::ERANGE if buffer.len() < 1 << 22 => buffer = vec![0u8; buffer.len() * 4],
            libc::EINTR => {}
            0 if !result.is_null() => return Ok(entry.gr_gid),
            _ => return Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_name_is_a_user_whose_group_is_its_number() {
        let user = parse("4242424").unwrap();
        assert_eq!((user.uid, user.gid, user.groups.as_slice()), (4_242_424, 4_242_424, &[4_242_424][..]));
        assert_eq!(user.home, "/");
        let user = parse("4242424:17").unwrap();
        assert_eq!((user.uid, user.gid, user.groups.as_slice()), (4_242_424, 17, &[17][..]));
    }

    #[test]
    fn root_is_known_by_name_and_by_number() {
        assert_eq!(parse("root").unwrap(), parse("0").unwrap());
        assert_eq!(parse("root:root").unwrap().groups, [0]);
    }

    #[test]
    fn what_is_no_user_is_an_error_that_names_it() {
        for wrong in ["", "no such user", "-1", "nul\0", "4294967295", "4294967296"] {
            assert!(matches!(parse(wrong), Err(UserError::Unknown(_))), "{wrong:?}");
        }
        assert!(matches!(parse("root:no such group"), Err(UserError::UnknownGroup(_))));
    }

    #[test]
    fn sudo_by_root_changes_nobody_and_a_bad_id_is_refused() {
        assert!(invoking("0", Some("0")).unwrap().is_none());
        assert!(invoking("x", None).is_err());
        assert_eq!(invoking("4242424", Some("17")).unwrap().unwrap().gid, 17);
    }
}
