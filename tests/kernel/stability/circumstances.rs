//! Where and when a run happens: another directory, home, temporary and runtime directory, user, host name, clock, time zone, process
//! id, processor, load and neighbourhood each turn.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::formats::{Format, check_lines};
use crate::harness::sandbox::{ASSAY, every_file, text};

/// What the sandbox and its command are started beneath: mounts and a host name of their own, a user that only they
/// know, the compiler where every user can read it, and the next process id.
const SURROUNDINGS: &str = "mount --make-rprivate /
hostname \"$1\"
mount --bind \"$2/passwd\" /etc/passwd
mount --bind \"$2/group\" /etc/group
mount -t tmpfs tools /mnt
mkdir /mnt/rust
mount --bind \"$3\" /mnt/rust
touch /mnt/clock.so
mount --bind \"$4\" /mnt/clock.so
{ echo \"$5\" > /proc/sys/kernel/ns_last_pid; } 2> /dev/null || true
shift 5
exec \"$@\"";

/// Hours by which the clocks of the programs (and of the sandbox) are ahead.
const AHEAD: [u32; 10] = [0, 5, 9, 26, 70, 163, 17, 11, 49, 3];
const NEXT_PID: [u32; 10] = [900, 9_990, 31_000, 4_321, 20_000, 1_500, 12_345, 27_182, 6_666, 16_384];

static NEXT_USER: AtomicU32 = AtomicU32::new(0);

/// One turn's circumstances. They end with it.
pub struct Circumstances {
    /// Where everything of this turn lies.
    pub base: tempfile::TempDir,
    work: PathBuf,
    /// The home of who runs it.
    pub home: PathBuf,
    tmp: PathBuf,
    runtime: PathBuf,
    user: String,
    id: u32,
    turn: usize,
    /// Other people's files, where temporary files are made.
    _crowd: Vec<tempfile::TempPath>,
    load: Option<Child>,
}

impl Drop for Circumstances {
    fn drop(&mut self) {
        if let Some(load) = &mut self.load {
            // It is a child of ours, and has nothing to lose.
            drop(load.kill());
            drop(load.wait());
        }
    }
}

/// What a run left.
pub struct Record {
    /// The evidence profile.
    pub evidence: Value,
    /// The status file.
    pub status: Value,
    /// The profile's bytes.
    pub profile: Vec<u8>,
    /// The report.
    pub report: String,
    /// The bundle's run root.
    pub run_root: String,
    /// Where the evidence lies.
    pub written: PathBuf,
    /// Where the trace lies.
    pub trace: PathBuf,
    /// Its error output, and the sandbox's.
    pub told: String,
}

impl Circumstances {
    /// Those of this turn.
    pub fn new(turn: usize) -> Self {
        let base = tempfile::Builder::new()
            .prefix(["a", "stable", "q"][turn % 3])
            .tempdir_in(["/var/tmp", "/srv"][turn / 3 % 2])
            .expect("a folder");
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let at = |name: &str| base.path().join(name);
        let work = at(["w", "deep/er/work", "other-name", "x/y"][turn % 4]);
        let home = at(["home", "people/of/home", "h", "ho me"][turn / 2 % 4]);
        let tmp = at(["tmp", "t/m/p"][turn % 2]);
        // No `/run/user/ID`: gpg looks for that by itself, so that its behaviour would be another.
        let runtime = at(["run", "run/user/7", "r"][turn % 3]);
        let user = ["ada", "grace-h", "u12345", "edsger", "barbara"][turn % 5].to_owned();
        // Nobody else's: what the user's other processes are is seen by some programs.
        let id = 23_000 + NEXT_USER.fetch_add(1, Ordering::Relaxed);
        for folder in [&work, &home, &tmp, &runtime] {
            fs::create_dir_all(folder).expect("a folder");
            chown(folder, Some(id), Some(id)).expect("we are root");
        }
        let add = |file: &str, line: String| {
            let known = fs::read_to_string(Path::new("/etc").join(file)).expect("a list of names");
            fs::write(at(file), format!("{known}{line}\n")).expect("a list of names");
        };
        add("passwd", format!("{user}:x:{id}:{id}:,,,:{}:/bin/sh", home.display()));
        add("group", format!("{user}:x:{id}:"));
        let crowd = if turn % 2 == 1 {
            [Path::new("/tmp"), &tmp].into_iter().flat_map(crowd_in).collect()
        } else {
            Vec::new()
        };
        let load = (turn % 4 == 1).then(|| {
            // It ends by itself, should the test be killed.
            let mut busy = Command::new("sh");
            busy.args(["-c", "ulimit -t 300; while :; do :; done"]).stdin(Stdio::null());
            busy.spawn().expect("a shell")
        });
        Self { work, home, tmp, runtime, user, id, turn, _crowd: crowd, load, base }
    }

    /// The name of the user with the id (`NAME:ID`), and that of the host.
    pub fn who(&self) -> (String, String) {
        (format!("{}:{}", self.user, self.id), format!("host{}x", self.turn))
    }

    /// The command, beneath this turn's surroundings.
    fn beneath(&self, inner: &[&str]) -> Command {
        let mut line: Vec<&str> = Vec::new();
        if self.turn % 3 == 2 {
            line.extend(["taskset", "-c", "0"]);
        }
        line.extend(["unshare", "--uts", "--mount", "sh", "-ec", SURROUNDINGS, "sh"]);
        let (_, host) = self.who();
        let base = self.base.path().to_string_lossy().into_owned();
        let next = NEXT_PID[self.turn % NEXT_PID.len()].to_string();
        line.extend([host.as_str(), &base, sysroot(), clock(), &next]);
        line.extend(inner);
        let mut command = Command::new(line[0]);
        command
            .args(&line[1..])
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", "/mnt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LANG", "C.UTF-8")
            .env("HOME", &self.home)
            .env("USER", &self.user)
            .env("LOGNAME", &self.user)
            .env("TMPDIR", &self.tmp)
            .env("XDG_RUNTIME_DIR", &self.runtime)
            .env("TZ", format!("X{:+}", self.turn as i32 * 5 % 23 - 11))
            .stdin(Stdio::null());
        command
    }

    /// Runs what has to be there before the command, as the same user.
    pub fn prepare(&self, before: &str) {
        let user = format!("--reuid={}", self.user);
        let group = format!("--regid={}", self.user);
        let mut shell = self.beneath(&["setpriv", &user, &group, "--clear-groups", "sh", "-ec", before]);
        let output = shell.output().expect("a shell");
        assert!(output.status.success(), "{before}: {}", text(&output.stderr));
    }

    /// Runs the script in the sandbox.
    pub fn record(&self, options: &[&str], script: &str) -> Record {
        let at = |name: &str| self.base.path().join(name).to_string_lossy().into_owned();
        let (profile, trace, status) = (at("run.json"), at("trace"), at("status"));
        let (bundle, report) = (at("bundle"), at("report.md"));
        let every_file = every_file().to_string_lossy().into_owned();
        let mut line = vec!["env"];
        let ahead = format!("SECONDS_AHEAD={}", AHEAD[self.turn % AHEAD.len()] * 3600);
        line.extend(["LD_PRELOAD=/mnt/clock.so", &ahead]);
        line.extend([ASSAY, "--quiet", "sandbox", "--user", &self.user, "--profile-format", "json"]);
        line.extend(["--profile", &profile, "--trace", &trace, "--status-file", &status]);
        line.extend(["--bundle", &bundle, "--profile-report", &report]);
        if !options.contains(&"--policy") {
            line.extend(["--policy", &every_file]);
        }
        line.extend(options);
        line.extend(["--", "sh", "-ec", script]);
        let output = self.beneath(&line).output().expect("assay runs");
        let bytes = |path: &str| {
            fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}\n{}", text(&output.stderr)))
        };
        let read = |path: &str| serde_json::from_slice::<Value>(&bytes(path)).expect("JSON");
        let shown = Command::new(ASSAY).args(["evidence", "show", "--format", "json", &bundle]).output();
        let shown = shown.expect("assay runs");
        assert!(shown.status.success(), "{}{}", text(&shown.stderr), text(&output.stderr));
        let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        let (status, evidence) = (read(&status), read(&at("run.evidence.json")));
        Format::Evidence.check(&evidence);
        Format::Status.check(&status);
        Format::Profile.check(&read(&profile));
        Format::Manifest.check(&shown["manifest"]);
        check_lines(&trace);
        let told = text(&output.stderr);
        Record {
            evidence,
            status,
            profile: bytes(&profile),
            report: text(&bytes(&report)),
            run_root: shown["manifest"]["run_root"].as_str().expect("a run root").to_owned(),
            written: PathBuf::from(at("run.evidence.json")),
            trace: PathBuf::from(trace),
            told,
        }
    }
}

/// Files that others left in a place for temporary files, called as temporary files are.
fn crowd_in(place: &Path) -> impl Iterator<Item = tempfile::TempPath> {
    (0..60).map(move |number| {
        let prefix = ["tmp", "cc", "pip-", "node-compile-", "ssh-", "sh-thd."][number % 6];
        let file = tempfile::Builder::new().prefix(prefix).tempfile_in(place).expect("a file");
        chown(file.path(), Some(12_345), Some(12_345)).expect("we are root");
        file.into_temp_path()
    })
}

/// Shows programs a clock that runs ahead, by seconds in the environment. What the kernel writes (the times of files)
/// keeps the host's.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static time_t ahead(void) {
    static time_t known = -1;
    if (known < 0) { const char *text = getenv("SECONDS_AHEAD"); known = text ? atol(text) : 0; }
    return known;
}
int clock_gettime(clockid_t clock, struct timespec *out) {
    long result = syscall(SYS_clock_gettime, clock, out);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) out->tv_sec += ahead();
    return (int)result;
}
int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec; out->tv_usec = now.tv_nsec / 1000;
    return 0;
}
int timespec_get(struct timespec *out, int base) { return clock_gettime(CLOCK_REALTIME, out) ? 0 : base; }
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"#;

/// The library of [`CLOCK`], made once.
fn clock() -> &'static str {
    static LIBRARY: OnceLock<String> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        // One for each text, renamed into its place: another process of these tests must not change it under a run.
        let digest = assay::canon::digest::Digest::of(CLOCK.as_bytes()).hex();
        let library = folder.join(format!("assay-clock-{}.so", &digest[..16]));
        let beside = tempfile::tempdir_in(&folder).expect("a folder");
        let (source, made) = (beside.path().join("clock.c"), beside.path().join("clock.so"));
        fs::write(&source, CLOCK).expect("a source");
        let mut compiler = Command::new("gcc");
        compiler.args(["-O2", "-shared", "-fPIC", "-o"]).args([&made, &source]);
        assert!(compiler.status().expect("a compiler").success(), "the clock compiles");
        fs::rename(&made, &library).expect("a place for it");
        library.to_string_lossy().into_owned()
    })
}

/// Where the compiler lies.
fn sysroot() -> &'static str {
    static SYSROOT: OnceLock<String> = OnceLock::new();
    SYSROOT.get_or_init(|| {
        let asked = Command::new("rustc").args(["--print", "sysroot"]).output();
        let place =
            asked.ok().filter(|output: &Output| output.status.success()).map(|output| text(&output.stdout));
        place.map_or_else(|| "/usr".to_owned(), |place| place.trim().to_owned())
    })
}
