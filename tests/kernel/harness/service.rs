//! A service of the test's own: `assay daemon` with a socket and a spool that go with it, and users who may and may not.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::sandbox::{ASSAY, text, wait_until};

/// Whose members may connect.
pub const GROUP: u32 = 61_000;
/// The first user; others follow.
pub const USER: u32 = 61_001;

/// The service; ended with the test, also when that fails.
pub struct Service {
    folder: tempfile::TempDir,
    process: Option<Child>,
}

impl Service {
    /// Starts one with these options besides.
    pub fn start(options: &[&str]) -> Self {
        // Where nobody but root can put anything in its way.
        let folder = tempfile::Builder::new().prefix("assay-test-").tempdir_in("/run").expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        copy_program(Path::new(ASSAY), &folder.path().join("assay"));
        let mut service = Self { folder, process: None };
        service.start_again(options);
        service
    }

    /// Starts the process, after another one's end.
    pub fn start_again(&mut self, options: &[&str]) {
        let mut daemon = Command::new(self.path("assay"));
        daemon.arg("daemon").args(["--group", &GROUP.to_string(), "--drain", "2s"]);
        daemon.arg("--socket").arg(self.socket()).arg("--spool").arg(self.spool()).args(options);
        let log = fs::File::options().create(true).append(true).open(self.path("log")).expect("a log");
        daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        daemon.env_remove("NOTIFY_SOCKET").env_remove("LISTEN_FDS").env_remove("JOURNAL_STREAM");
        let before = self.log().matches("listening").count();
        self.process = Some(daemon.spawn().expect("a daemon"));
        let listens = || self.log().matches("listening").count() > before;
        wait_until("the service listens", || listens() || self.log().contains("error:"));
        assert!(!self.log().contains("error:"), "{}", self.log());
    }

    /// A path of the service's.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.path("assay.sock")
    }

    /// Where it keeps records.
    pub fn spool(&self) -> PathBuf {
        self.path("spool")
    }

    /// What it said.
    pub fn log(&self) -> String {
        text(&fs::read(self.path("log")).unwrap_or_default())
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("it runs").id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.id() as i32).expect("an id"), signal).expect("it is there");
    }

    /// Waits for its end; its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        self.process.take().expect("it runs").wait().expect("it is ours").code()
    }

    /// A folder of this user's.
    pub fn home(&self, uid: u32) -> PathBuf {
        let home = self.path(&format!("home-{uid}"));
        if !home.exists() {
            for folder in [home.clone(), home.join("w")] {
                fs::create_dir(&folder).expect("a folder");
                chown(&folder, Some(uid), Some(GROUP)).expect("a folder given away");
            }
        }
        home
    }

    /// The program, with this user's ids and nothing else of root's.
    pub fn as_user(&self, uid: u32, gid: u32, arguments: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string(), "--clear-groups", "--"]);
        command.arg(self.path("assay")).args(arguments).current_dir(self.home(uid).join("w"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home(uid)).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// `assay sandbox` of a user who may, with this service.
    pub fn sandbox(&self, uid: u32, options: &[&str], command: &[&str]) -> Command {
        let socket = self.socket().to_string_lossy().into_owned();
        let start = ["sandbox", "--daemon", &socket];
        let arguments = [&start, options, &["--"], command].concat();
        self.as_user(uid, GROUP, &arguments)
    }

    /// The entries of the chain, the first left out.
    pub fn entries(&self) -> Vec<Value> {
        let chain = fs::read_to_string(self.spool().join("chain.ndjson")).expect("a chain");
        chain.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The directory of an entry's run.
    pub fn kept(&self, entry: &Value) -> PathBuf {
        self.spool().join("runs").join(entry["directory"].as_str().expect("a directory"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It ends its runs, and removes what it made.
            kill_process(Pid::from_raw(process.id() as i32).expect("an id"), Signal::TERM).ok();
            drop(process.wait());
        }
    }
}

/// Copies a program by a process of its own: what this one has open for writing, a child of another test has too for a moment,
/// and then it cannot be started.
pub fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().expect("cp").success(), "{}", to.display());
}

/// What `assay evidence verify` says of a bundle: whether it is good.
pub fn is_good(bundle: &Path) -> bool {
    let verify = Command::new(ASSAY).args(["evidence", "verify"]).arg(bundle).output().expect("assay");
    verify.status.success()
}
