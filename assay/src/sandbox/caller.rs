//! Who asked for a run: what the run takes from that process, and from nowhere else.
//!
//! That process is this one, or a client whose run is served here: then the command is the client's child, and this
//! process has the rights.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::cgroup::Group;
use super::descriptors;
use super::inherited::Inherited;
use super::outcome::ChildEnd;
use crate::host::mountinfo::OwnGroup;
use crate::observe::kernel::programs::ProgramsError;
use crate::observe::kernel::{Observer, ObserverConfig};
use crate::policy::Files;

/// The process that asked.
#[derive(Debug)]
pub struct Caller {
    /// Its environment, entry by entry, as the kernel keeps it.
    pub environment: Vec<Vec<u8>>,
    /// Descriptors above stderr that it passes on, by their numbers here.
    pub passed_on: Vec<RawFd>,
    /// Its signals and what of its standard streams is closed.
    pub inherited: Inherited,
    /// Whose child the command will be.
    pub parent: Parent,
}

/// Whose child the command will be.
#[derive(Debug)]
pub enum Parent {
    /// This process's.
    Ourselves,
    /// A client's.
    Client(Box<dyn Client>),
}

/// A process whose run is served here.
pub trait Client: Debug {
    /// Has it start the launcher, in a user and mount namespace of its own where that is wanted and can be had.
    /// The group is where it will be put.
    fn launch(&self, wants_namespace: bool, group: Option<&Group>) -> io::Result<Launched>;
    /// Becomes readable when there is a word to take; it does not block.
    fn line(&self) -> io::Result<UnixStream>;
    /// The next word: how its child ended. `None`: the client is gone.
    fn word(&self) -> io::Result<Option<ChildEnd>>;
    /// The observer, for this run alone. Once only.
    fn observe(&self, config: &ObserverConfig) -> Result<Observer, ProgramsError>;
    /// The group beneath which those of served runs lie.
    fn groups(&self) -> &OwnGroup;
    /// The files that its policy is read from, as it sent them.
    fn policy_files(&self) -> &dyn Files;
    /// The file that it gives for the trace, or for raw records.
    fn stream(&self, name: &str) -> Option<&OwnedFd>;
}

/// A launcher that a client started.
#[derive(Debug)]
pub struct Launched {
    /// Its process, by our numbers.
    pub pid: u32,
    /// The same, for good.
    pub pidfd: OwnedFd,
    /// The line to it.
    pub stream: UnixStream,
    /// Whether it is in a mount namespace of its own.
    pub has_namespace: bool,
}

impl Caller {
    /// This process. To be asked first of all: whatever is open now came from our own caller.
    pub fn ourselves() -> Self {
        Self {
            passed_on: descriptors::open_above_stderr(),
            environment: own_entries(),
            inherited: Inherited::of_this_process(),
            parent: Parent::Ourselves,
        }
    }

    /// The client, where the run is served.
    pub fn client(&self) -> Option<&dyn Client> {
        match &self.parent {
            Parent::Ourselves => None,
            Parent::Client(client) => Some(client.as_ref()),
        }
    }

    /// Its directory for temporary files.
    pub fn tmpdir(&self) -> PathBuf {
        self.variable("TMPDIR").filter(|path| path.is_absolute()).unwrap_or_else(|| "/tmp".into())
    }

    /// The user's runtime directory: where `XDG_RUNTIME_DIR` says, whether or not the child is told, or where a login makes
    /// one. A value that is no place of its own (`/`, a relative path) says nothing.
    pub fn runtime_dir(&self, uid: u32) -> PathBuf {
        self.variable("XDG_RUNTIME_DIR")
            .filter(|path| path.is_absolute() && path.file_name().is_some())
            .unwrap_or_else(|| format!("/run/user/{uid}").into())
    }

    /// The value of the first variable of that name, as a path.
    pub fn variable(&self, name: &str) -> Option<PathBuf> {
        let value = |entry: &Vec<u8>| {
            entry.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"=")).map(<[u8]>::to_vec)
        };
        self.environment.iter().find_map(value).map(|bytes| OsString::from_vec(bytes).into())
    }
}

/// Our environment byte for byte: what the kernel put there, which nothing in this process changes.
fn own_entries() -> Vec<Vec<u8>> {
    if let Ok(bytes) = std::fs::read("/proc/self/environ") {
        let mut entries: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        // Every entry ends in a NUL, so after the last one there is nothing.
        entries.pop();
        return entries;
    }
    std::env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_first_of_a_name_counts_and_only_a_place_is_one() {
        let caller = |entries: &[&str]| Caller {
            environment: entries.iter().map(|entry| entry.as_bytes().to_vec()).collect(),
            passed_on: Vec::new(),
            inherited: Inherited { ignored: 0, blocked: 0, closed: 0 },
            parent: Parent::Ourselves,
        };
        assert_eq!(caller(&["TMPDIRS=/x", "TMPDIR=/a", "TMPDIR=/b"]).tmpdir(), Path::new("/a"));
        assert_eq!(caller(&["TMPDIR=a"]).tmpdir(), Path::new("/tmp"));
        assert_eq!(caller(&["XDG_RUNTIME_DIR=/r"]).runtime_dir(7), Path::new("/r"));
        for wrong in ["XDG_RUNTIME_DIR=/", "XDG_RUNTIME_DIR=r", "XDG_RUNTIME_DIR="] {
            assert_eq!(caller(&[wrong]).runtime_dir(7), Path::new("/run/user/7"), "{wrong}");
        }
    }
}
