//! Starts `assay sandbox` and looks at what it leaves on the host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program under test.
pub const ASSAY: &str = env!("CARGO_BIN_EXE_assay");

/// `assay --quiet sandbox` with these options and this command, apart from our environment's own peculiarities. Held to
/// a policy that allows every file, unless the options name another.
pub fn sandbox(options: &[&str], command: &[&str]) -> Command {
    let mut assay = Command::new(ASSAY);
    assay.args(["--quiet", "sandbox"]).args(options);
    if !options.contains(&"--policy") {
        assay.arg("--policy").arg(every_file());
    }
    assay.arg("--").args(command);
    assay.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
    assay
}

/// A policy that allows every file, so that what is tested is the launch and not the policy.
pub fn every_file() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        // In the machine of `cargo xtask vm` the first is not there.
        let built = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let folder = if built.is_dir() { built } else { std::env::temp_dir() };
        let path = folder.join(format!("assay-every-file-{}.yaml", std::process::id()));
        let policy = "api_version: assay/v1\nfs:\n  allow: [{path: /, access: [read, write, execute]}]\n";
        fs::write(&path, policy).expect("a place for a policy");
        path
    })
}

/// Runs it to its end.
pub fn run(options: &[&str], command: &[&str]) -> Output {
    sandbox(options, command).output().expect("assay runs")
}

/// What it printed, when it ended well.
pub fn stdout_of(options: &[&str], command: &[&str]) -> String {
    text(&successful(run(options, command)).stdout)
}

/// The output, if it ended with 0.
pub fn successful(output: Output) -> Output {
    assert!(output.status.success(), "{}: {}{}", output.status, text(&output.stdout), text(&output.stderr));
    output
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The value in a file.
pub fn json(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Waits until something is so.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A sandbox that runs beside the test. It ends with the test, also when that fails.
pub struct Running(Option<Child>);

impl Running {
    /// Starts it.
    pub fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().expect("assay")))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("it was not waited for").id()
    }

    /// How it ended.
    pub fn wait(&mut self) -> ExitStatus {
        self.0.as_mut().expect("it was not waited for").wait().expect("it is ours")
    }

    /// How it ended, and what it printed.
    pub fn output(mut self) -> Output {
        self.0.take().expect("it was not waited for").wait_with_output().expect("assay")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // One that has ended is as good.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Whether process `pid` runs; one that is dead and not waited for does not.
pub fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// The directories of runs' groups that process `maker` made.
pub fn groups_of(maker: u32) -> Vec<PathBuf> {
    let is_its = |name: &str| name.starts_with("assay-") && !is_of_service(name);
    made_by(maker, &is_its)
}

/// The directories beneath which service `maker` has the groups of its runs.
pub fn groups_of_service(maker: u32) -> Vec<PathBuf> {
    made_by(maker, &is_of_service)
}

fn is_of_service(name: &str) -> bool {
    name.starts_with("assay-runs-")
}

fn made_by(maker: u32, is_of_kind: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
    let part = format!("-{maker}-");
    let mut found = Vec::new();
    for root in cgroup_roots() {
        find(&root, &|name| name.contains(&part) && is_of_kind(name), &mut found);
    }
    found
}

fn find(directory: &Path, is_it: &dyn Fn(&str) -> bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if is_it(&name) {
                found.push(entry.path());
            } else {
                find(&entry.path(), is_it, found);
            }
        }
    }
}

/// Where control groups of version 2 are mounted.
pub fn cgroup_roots() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    mounts
        .lines()
        .filter(|line| line.contains(" - cgroup2 "))
        .filter_map(|line| line.split(' ').nth(4).map(PathBuf::from))
        .collect()
}

/// Processes whose parent is `parent`.
pub fn children_of(parent: u32) -> Vec<u32> {
    let read = |pid: u32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent_of = |pid: u32| read(pid).rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok();
    let pids = fs::read_dir("/proc").expect("proc").flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}
