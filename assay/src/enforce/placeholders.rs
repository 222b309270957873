//! Denied names that do not exist yet, held by placeholders that only the command sees.
//!
//! The directory in which such a name could be made becomes the upper layer of an overlay, in the command's own
//! mount namespace; the lower layer holds an empty file of that name, which is then held like any denied path.
//! Everything else the command does there happens in the directory itself. Nothing appears in it for anybody else.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use serde::{Deserialize, Serialize};

use super::mounts::MountError;
use crate::profile::name::Name;

/// Placeholders in one directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placeholders {
    /// The directory, which exists.
    #[serde(with = "super::grant::path_text")]
    pub directory: Vec<u8>,
    /// The names, relative to it; what lies above a name is a directory.
    #[serde(with = "super::grant::path_list")]
    pub names: Vec<Vec<u8>>,
}

/// Groups missing paths by the directory that exists above them.
pub fn group(missing: BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<Placeholders> {
    let mut groups = BTreeMap::<Vec<u8>, Vec<Vec<u8>>>::new();
    for (path, directory) in missing {
        let name = &path[directory.len()..];
        let name = name.strip_prefix(b"/").unwrap_or(name).to_vec();
        groups.entry(directory).or_default().push(name);
    }
    groups.into_iter().map(|(directory, names)| Placeholders { directory, names }).collect()
}

/// Puts them in place. `scratch` is an empty directory on the file system of all the directories; what is made in
/// it is for the caller to remove when the run is over.
pub fn place(all: &[Placeholders], scratch: &[u8]) -> Result<(), MountError> {
    // All are opened before the first is covered: an overlay cannot be the upper layer of another.
    let mut opened = Vec::new();
    for placeholders in all {
        opened.push(
            open(OsStr::from_bytes(&placeholders.directory)).map_err(|e| at(&placeholders.directory, e))?,
        );
    }
    for (index, (placeholders, upper)) in all.iter().zip(&opened).enumerate() {
        let scratch = Path::new(OsStr::from_bytes(scratch)).join(index.to_string());
        cover(placeholders, upper, &scratch).map_err(|error| at(&placeholders.directory, error))?;
    }
    Ok(())
}

/// Whether the kernel takes this directory for one in which placeholders are shown, by doing it: in a mount namespace
/// that is thrown away.
pub fn try_one(directory: &[u8], scratch: &[u8]) -> Result<(), MountError> {
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", propagation).map_err(|errno| at(b"/", errno.into()))?;
    place(&[Placeholders { directory: directory.to_vec(), names: Vec::new() }], scratch)
}

fn at(path: &[u8], source: io::Error) -> MountError {
    MountError { path: Name::from_bytes(path).to_string(), source }
}

fn open(path: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn cover(placeholders: &Placeholders, upper: &OwnedFd, scratch: &Path) -> io::Result<()> {
    let (lower, work) = (scratch.join("lower"), scratch.join("work"));
    let mut private = fs::DirBuilder::new();
    private.mode(0o700);
    for directory in [scratch, &lower, &work] {
        private.create(directory)?;
    }
    let work = open(work.as_os_str())?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("assay", &lower, "tmpfs", flags, c"mode=755,size=1m")?;
    for name in &placeholders.names {
        let path = lower.join(OsStr::from_bytes(name));
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        // One denied name may lie beneath another: then the outer one is a directory already.
        if !path.exists() {
            fs::File::create(path)?;
        }
    }
    let lower = open(lower.as_os_str())?;
    let layer = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let options = format!("lowerdir={},upperdir={},workdir={}", layer(&lower), layer(upper), layer(&work));
    let options = std::ffi::CString::new(options)?;
    mount(
        "assay",
        OsStr::from_bytes(&placeholders.directory),
        "overlay",
        MountFlags::empty(),
        options.as_c_str(),
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_grouped_by_the_directory_that_exists() {
        let missing = ["/w/.vscode", "/w/a/b/cd"].map(|path| (path.as_bytes().to_vec(), b"/w".to_vec()));
        let groups = group(missing.into());
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].names, [b".vscode".to_vec(), b"a/b/cd".to_vec()]);
        assert_eq!(group([(b"/x".to_vec(), b"/".to_vec())].into())[0].names, [b"x".to_vec()]);
    }
}
