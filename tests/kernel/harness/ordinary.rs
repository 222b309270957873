//! A user without any rights, who has a folder and a copy of the program under test in it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::sandbox::ASSAY;

/// The id of the user and of their only group.
pub const ID: u32 = 65_534;

/// The user's folder; it is gone with this.
pub struct Ordinary {
    folder: tempfile::TempDir,
}

impl Ordinary {
    /// With nothing in the folder but the program.
    pub fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        chown(folder.path(), Some(ID), Some(ID)).expect("a folder given away");
        fs::copy(ASSAY, folder.path().join("assay")).expect("a copy that the user may run");
        Self { folder }
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As [`path`](Self::path), as text.
    pub fn at(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// Makes a file of theirs.
    pub fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("a file");
        chown(&path, Some(ID), Some(ID)).expect("a file given away");
        path
    }

    /// Makes a directory of theirs.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a directory");
        chown(&path, Some(ID), Some(ID)).expect("a directory given away");
        path
    }

    /// `assay` with these arguments in the folder, as the user: without a capability, and with none to be had.
    pub fn assay(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        let id = ID.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        command.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
        command.arg(self.path("assay")).args(arguments).current_dir(self.folder.path());
        command.env("TMPDIR", "/tmp").env("HOME", self.folder.path()).env("LC_ALL", "C");
        command.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
        command
    }
}
