//! Denies inside an allow, held by the launched child's own mount namespace.
//!
//! Takes [`Hold`]s; changes nothing that anybody outside the child can see. A path that may not be written is
//! bound onto itself read-only, one that may not be run without execution, one that may not be read is masked. The
//! directories above it, up to the writable tree it lies in, are bound onto themselves: a mount point can be
//! neither moved nor removed. A denied name that is a symbolic link is held too, by what it leads to. Landlock, applied afterwards, refuses every change of mounts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
};
use serde::{Deserialize, Serialize};

use super::mount_attr::{NO_DEVICES, NO_EXECUTION, READ_ONLY, set_recursively};
use super::placeholders::{self, Placeholders};
use crate::profile::name::Name;

/// One denied path that is to be held by a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// The denied path, links resolved. It exists.
    #[serde(with = "super::grant::path_text")]
    pub path: Vec<u8>,
    /// What to do with it.
    pub means: Means,
    /// The directories that are pinned for it, outermost first.
    #[serde(with = "super::grant::path_list")]
    pub pins: Vec<Vec<u8>>,
    /// Whether the run could make it, were it not there, and must not.
    pub is_makeable: bool,
    /// Set when the path is a symbolic link whose own name is to be held, with what is shown in its place.
    pub link: Option<Shown>,
}

/// What is seen in the place of a link that is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// A device that cannot be opened.
    Nothing,
    /// The file that the link leads to, by its own path.
    File(#[serde(with = "super::grant::path_text")] Vec<u8>),
}

/// What is done with a denied path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// Bound onto itself without writing.
    ReadOnly,
    /// Bound onto itself without execution.
    NoExecution,
    /// Bound onto itself with neither.
    ReadOnlyNoExecution,
    /// A directory hidden by an empty one.
    MaskDirectory,
    /// Anything else hidden by a device that cannot be opened.
    MaskFile,
}

impl Means {
    /// What holds both on one path.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        use Means::{MaskDirectory, MaskFile, ReadOnly, ReadOnlyNoExecution};
        match (self, other) {
            (MaskDirectory, _) | (_, MaskDirectory) => MaskDirectory,
            (MaskFile, _) | (_, MaskFile) => MaskFile,
            (ReadOnlyNoExecution, _) | (_, ReadOnlyNoExecution) => ReadOnlyNoExecution,
            (one, other) if one == other => one,
            (ReadOnly, _) | (_, ReadOnly) => ReadOnlyNoExecution,
            (one, _) => one,
        }
    }
}

/// Why a path could not be held.
#[derive(Debug, thiserror::Error)]
#[error("hold {path} by a mount: {source}")]
pub struct MountError {
    /// The path.
    pub path: String,
    /// Why.
    pub source: io::Error,
}

/// Holds all of them. Needs a mount namespace of this process's own, and the right to mount. On an error some may
/// be held and some not: the caller must not start the command.
pub fn hold(holds: &[Hold], placeholders: &[Placeholders], scratch: &[u8]) -> Result<(), MountError> {
    if holds.is_empty() {
        return Ok(());
    }
    let at = |path: &[u8]| {
        let path = Name::from_bytes(path).to_string();
        move |source: io::Error| MountError { path, source }
    };
    // What we do must not arrive on the host; what the host does may arrive here.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(|errno| at(b"/")(errno.into()))?;
    let here = std::env::current_dir();
    placeholders::place(placeholders, scratch)?;
    // In this order a directory comes before what is beneath it.
    let mut pins = BTreeMap::<&Vec<u8>, bool>::new();
    for hold in holds {
        for pin in &hold.pins {
            *pins.entry(pin).or_default() |= hold.is_makeable;
        }
    }
    // What is gone since it was looked for, and is nothing when the run makes it again, needs not be held.
    for (path, is_makeable) in pins {
        let path_os = OsStr::from_bytes(path);
        match mount_bind_recursive(path_os, path_os) {
            Err(_) if !is_makeable && is_gone(path) => {}
            done => done.map_err(|errno| at(path)(errno.into()))?,
        }
    }
    for hold in holds {
        match hold_one(hold) {
            Err(_) if !hold.is_makeable && is_gone(&hold.path) => {}
            done => done.map_err(at(&hold.path))?,
        }
    }
    // The directory we stand in is still the one beneath the new mounts; going there by name leads onto them.
    if let Ok(here) = here {
        std::env::set_current_dir(&here).map_err(at(here.as_os_str().as_bytes()))?;
    }
    Ok(())
}

fn is_gone(path: &[u8]) -> bool {
    let found = std::fs::symlink_metadata(OsStr::from_bytes(path));
    found.is_err_and(|error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}

fn hold_one(hold: &Hold) -> io::Result<()> {
    let path = OsStr::from_bytes(&hold.path);
    if let Some(shown) = &hold.link {
        return hold_link(path, shown, hold.means);
    }
    match hold.means {
        Means::ReadOnly | Means::NoExecution | Means::ReadOnlyNoExecution => {
            mount_bind_recursive(path, path)?;
            set_recursively(path, options_of(hold.means))
        }
        Means::MaskDirectory => {
            let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            mount("assay", path, "tmpfs", flags, c"size=4k,nr_inodes=2,mode=000")?;
            Ok(())
        }
        Means::MaskFile => {
            // On a mount without devices, opening one is EACCES, for root too.
            mount_bind("/dev/null", path)?;
            set_recursively(path, READ_ONLY | NO_DEVICES | NO_EXECUTION)
        }
    }
}

/// Mounts onto the link itself: where a link is a mount point, the kernel goes onto the mount instead of following it.
fn hold_link(path: &OsStr, shown: &Shown, means: Means) -> io::Result<()> {
    let open = |path: &OsStr| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
    };
    let named = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let link = open(path)?;
    if FileType::from_raw_mode(rustix::fs::fstat(&link)?.st_mode) != FileType::Symlink {
        return Err(io::Error::other("it was a link when it was looked at, and is none now"));
    }
    let Shown::File(source) = shown else {
        mount_bind("/dev/null", named(&link).as_str())?;
        return set_recursively(path, READ_ONLY | NO_DEVICES | NO_EXECUTION);
    };
    // The policy was asked about this very path. Somebody who puts a link into it meanwhile shows nothing else.
    let file = open(OsStr::from_bytes(source))?;
    let is_file = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) == FileType::RegularFile;
    if !is_file || std::fs::read_link(named(&file))?.as_os_str().as_bytes() != source.as_slice() {
        return Err(io::Error::other("the file it leads to is another than when it was looked at"));
    }
    mount_bind(named(&file).as_str(), named(&link).as_str())?;
    set_recursively(path, options_of(means))
}

/// The mount options of what is bound onto itself.
fn options_of(means: Means) -> u64 {
    match means {
        Means::ReadOnly => READ_ONLY,
        Means::NoExecution => NO_EXECUTION,
        Means::ReadOnlyNoExecution | Means::MaskDirectory | Means::MaskFile => READ_ONLY | NO_EXECUTION,
    }
}
