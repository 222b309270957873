//! Every environment variable that we read, once.

use std::ffi::OsString;

/// The user who called `sudo`.
pub const SUDO_UID: &str = "SUDO_UID";
/// The group of the user who called `sudo`.
pub const SUDO_GID: &str = "SUDO_GID";
/// Where the caller puts temporary files; the private directory of the child is made there.
pub const TMPDIR: &str = "TMPDIR";
/// Set to anything, it turns colour off.
pub const NO_COLOR: &str = "NO_COLOR";
/// The one time that artifacts carry, for byte-identical archives.
pub const SOURCE_DATE_EPOCH: &str = "SOURCE_DATE_EPOCH";

/// The value of a variable; an empty one counts as none.
pub fn read(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
