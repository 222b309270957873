//! What the machine holds: programs of this one with their libraries, and an `/init` that hides what a variant is without,
//! runs the tests, and tells what it saw.
//!
//! Out: one initramfs for all variants; which one it is stands on the kernel's command line.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::initramfs::Initramfs;
use crate::step::{self, command, root, run};

/// The programs the tests run, with their libraries.
const PROGRAMS: &[&str] = &[
    "strace",
    "sh",
    "cat",
    "cp",
    "mv",
    "ln",
    "rm",
    "mkdir",
    "rmdir",
    "touch",
    "truncate",
    "chmod",
    "chown",
    "mkfifo",
    "install",
    "ls",
    "sort",
    "tee",
    "awk",
    "sed",
    "grep",
    "wc",
    "tr",
    "find",
    "tar",
    "gzip",
    "env",
    "cmp",
    "sleep",
    "true",
    "false",
    "sqlite3",
    "ssh-keygen",
    "rsync",
    "id",
    "head",
    "tail",
    "printf",
    "readlink",
    "dd",
    "kill",
    "stat",
    "test",
    "unshare",
    "mount",
    "umount",
    "unlink",
    "mknod",
    "echo",
    "setsid",
    "bash",
    "chroot",
];

/// The word before the exit code of the tests, on the console.
pub const VERDICT: &str = "assay-vm-exit:";
/// The word before a line about what was seen.
pub const SEEN: &str = "assay-vm-seen:";
/// The word before a line about a test that could not run.
pub const NOT_RUN: &str = "not run: ";

/// The policy of the page's rows: a directory to work in, something denied in it, something denied outside, one address.
const POLICY: &str = "api_version: assay/v1\n\
    fs:\n  allow: [{path: '${WORKDIR}', access: [read, write]}]\n  deny: [kept]\n\
    exec: {deny: [/usr/bin/sudo]}\n\
    net: {allow: ['127.0.0.1:80']}\n";

/// `/init`, after the lines that name its programs and words: `b` for busybox, `assay`, `tests`, `package`, `verdict`, `seen`,
/// `not_run`.
const INIT: &str = r#"
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
option() {
  for word in $($b cat /proc/cmdline); do
    case $word in $1=*) echo "${word#*=}" | $b tr , ' ';; esac
  done
}
without=$(option assay.without)
is_without() { case " $without " in *" $1 "*) return 0;; esac; return 1; }
is_without securityfs || $b mount -t securityfs security /sys/kernel/security
is_without tracefs || $b mount -t tracefs trace /sys/kernel/tracing
! is_without btf || $b mount -t tmpfs none /sys/kernel/btf
if is_without cgroup2; then
  $b mount -t tmpfs none /sys/fs/cgroup
  for one in memory pids cpu freezer; do
    $b mkdir /sys/fs/cgroup/$one && $b mount -t cgroup -o $one cgroup /sys/fs/cgroup/$one
  done
else
  $b mount -t cgroup2 cgroup /sys/fs/cgroup
fi
$b ip link set lo up
$b ln -s /proc/self/fd /dev/fd
$b mkdir /dev/shm && $b mount -t tmpfs none /dev/shm
export HOME=/root RUST_BACKTRACE=0 ASSAY_NOT_RUN=/not-run

say() { $b sed "s/^/$seen $1: /"; }
try() {
  what=$1; shift
  $assay sandbox --policy /policy.yaml "$@" -- true </dev/null >/tmp/out 2>&1
  echo "$? $($b grep -m1 ^error: /tmp/out)" | say $what
}
cd /tmp/work
$assay doctor | say doctor
try record --enforce --profile /tmp/record.yaml
try unobserved --enforce --profile /tmp/seen.yaml --allow-unobserved
try fail-closed --fail-closed
$b sed -n '/^coverage:/,$p' /tmp/seen.evidence.yaml | $b grep -E '^  (fs|exec|net):' | say coverage
$b grep -o 'reason: [a-z0-9-]*' /tmp/seen.evidence.yaml | $b sort -u | say not-held

cd $package && $b setsid $tests $(option assay.tests)
code=$?
[ ! -e /not-run ] || $b sed "s/^/$not_run/" /not-run
echo "$verdict $code"
$b poweroff -f
"#;

/// The initramfs for these tests.
pub fn initramfs(tests: &Path) -> Result<Initramfs> {
    let mut all = Initramfs::default();
    for folder in ["proc", "sys", "dev", "tmp", "tmp/work/kept", "run", "root", "var/tmp"] {
        all.folder(folder);
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        all.root_link(name);
    }
    // The tests name the binary by where cargo built it. What is for debuggers is left out: it is most of the bytes.
    let assay = root().join("target/debug/assay");
    for program in [tests, &assay] {
        let stripped = root().join("target/vm/stripped");
        run(command("strip").args(["--strip-debug", "-o"]).arg(&stripped).arg(program))?;
        all.program_as(&stripped, program)?;
    }
    let busybox = step::find("busybox").context("find busybox")?;
    all.program(&busybox)?;
    for name in PROGRAMS {
        if let Some(path) = step::find(name) {
            all.program(&path)?;
        }
    }
    all.text(
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    );
    all.text("etc/group", "root:x:0:\ndaemon:x:1:\nnogroup:x:65534:\n");
    all.text("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n");
    all.text("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n");
    all.text("policy.yaml", POLICY);
    let package = root().join("assay");
    all.folder(&package.to_string_lossy());
    let path = std::env::var("PATH").unwrap_or_default();
    let busybox = busybox.display();
    all.text(
        "init",
        &format!(
            "#!{busybox} sh\n\
             b={busybox} assay={} tests={} package={}\n\
             verdict='{VERDICT}' seen='{SEEN}' not_run='{NOT_RUN}'\n\
             export PATH={path}:/usr/bin:/bin\n\
             {INIT}",
            assay.display(),
            tests.display(),
            package.display(),
        ),
    );
    Ok(all)
}
