//! Boots Debian's 6.1 kernel in QEMU and runs the kernel tests in it: the paths that this machine's own kernel refuses.
//!
//! In: the test binary. Out: what it printed on the serial console, and its exit code. The machine has no disk and no
//! network, and is gone when it powers off.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};

use crate::initramfs::Initramfs;
use crate::step::{self, command, output, root, run};

/// A way to boot.
struct Variant {
    name: &'static str,
    what: &'static str,
    /// Which security modules the kernel starts with.
    lsm: &'static str,
    /// The tests that this way to boot is for; all of them, emulated, take long.
    filters: &'static [&'static str],
}

const VARIANTS: [Variant; 2] = [
    Variant {
        name: "bpf-lsm",
        what: "Linux 6.1, Landlock and BPF LSM programs",
        lsm: "landlock,bpf",
        filters: &["load::", "oracle::", "enforce::", "confined::"],
    },
    Variant {
        name: "no-landlock",
        what: "Linux 6.1 without Landlock",
        lsm: "bpf",
        filters: &["load::", "oracle::find_delete", "degraded::"],
    },
];

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

/// The word before the exit code, on the console.
const VERDICT: &str = "assay-vm-exit:";
/// Emulated, not accelerated: nested virtualisation may be there and not work. A machine that hangs is stopped after this.
const SECONDS: &str = "900";

/// Boots each variant, or the one with this name, and runs the tests whose names hold one of the `filters`; without
/// any, those that depend on the kernel.
pub fn execute(variant: Option<&str>, filters: &[String]) -> Result<()> {
    let chosen: Vec<&Variant> =
        VARIANTS.iter().filter(|one| variant.is_none_or(|name| one.name == name)).collect();
    if chosen.is_empty() {
        bail!("no variant of that name; there are {}", VARIANTS.map(|one| one.name).join(", "));
    }
    if let Some(missing) = missing() {
        bail!("{missing}");
    }
    let kernel = kernel()?;
    let tests = crate::kernel::build()?;
    let folder = root().join("target/vm");
    let initrd = folder.join("initramfs");
    for one in chosen {
        let filters = if filters.is_empty() { one.filters.join(" ") } else { filters.join(" ") };
        let archive = initramfs(&tests, &filters)?.archive();
        fs::write(&initrd, archive).with_context(|| format!("write {}", initrd.display()))?;
        println!("{}: {}", one.name, one.what);
        boot(&kernel, &initrd, one)
            .with_context(|| format!("to see it again: cargo xtask vm {} -- {}", one.name, filters))?;
    }
    Ok(())
}

/// What is not installed here, and how to get it.
pub fn missing() -> Option<&'static str> {
    if step::find("qemu-system-x86_64").is_none() {
        return Some("no qemu-system-x86_64: apt-get install --no-install-recommends qemu-system-x86");
    }
    if step::find("busybox").is_none() {
        return Some("no busybox: apt-get install busybox-static");
    }
    None
}

/// Debian's newest 6.1 kernel for clouds, fetched once.
fn kernel() -> Result<PathBuf> {
    let folder = root().join("target/vm");
    let unpacked = folder.join("kernel");
    if let Some(kernel) = image(&unpacked) {
        return Ok(kernel);
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let names = output(command("apt-cache").args([
        "search",
        "--names-only",
        r"^linux-image-6\.1\.0-[0-9]+-cloud-amd64-unsigned$",
    ]))?;
    let number =
        |name: &str| name.split('-').nth(3).and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
    let newest =
        names.lines().filter_map(|line| line.split(' ').next()).max_by_key(|name| number(name)).context(
            "find a 6.1 kernel among the packages: apt-get update, or add Debian 12 to the sources",
        )?;
    run(command("apt-get").args(["download", newest]).current_dir(&folder))?;
    let package = fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("find the package that was fetched")?;
    run(command("dpkg").arg("-x").arg(&package).arg(&unpacked))?;
    image(&unpacked).with_context(|| format!("find a kernel in {}", package.display()))
}

fn image(unpacked: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(unpacked.join("boot")).ok()?;
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-")))
}

fn initramfs(tests: &Path, filters: &str) -> Result<Initramfs> {
    let mut all = Initramfs::default();
    for folder in ["proc", "sys", "dev", "tmp", "run", "root", "var/tmp", "sys/fs/cgroup"] {
        all.folder(folder);
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        all.root_link(name);
    }
    // The tests name the binary by where cargo built it.
    let assay = root().join("target/debug/assay");
    for program in [tests, &assay] {
        all.program(program)?;
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
    let path = std::env::var("PATH").unwrap_or_default();
    let (busybox, tests) = (busybox.display(), tests.display());
    let package = root().join("assay");
    all.folder(&package.to_string_lossy());
    all.text(
        "init",
        &format!(
            "#!{busybox} sh\n\
             {busybox} mount -t proc proc /proc\n\
             {busybox} mount -t sysfs sys /sys\n\
             {busybox} mount -t devtmpfs dev /dev\n\
             {busybox} mount -t cgroup2 cgroup /sys/fs/cgroup\n\
             {busybox} mount -t securityfs security /sys/kernel/security\n\
             {busybox} ip link set lo up\n\
             {busybox} ln -s /proc/self/fd /dev/fd\n\
             export PATH={path}:/usr/bin:/bin HOME=/root RUST_BACKTRACE=0 ASSAY_NOT_RUN=/not-run\n\
             echo \"kernel $({busybox} uname -r), security modules $({busybox} cat /sys/kernel/security/lsm)\"\n\
             cd {} && {busybox} setsid {tests} {}\n\
             code=$?\n\
             [ ! -e /not-run ] || {busybox} sed 's/^/not run: /' /not-run\n\
             echo \"{VERDICT} $code\"\n\
             {busybox} poweroff -f\n",
            package.display(),
            filters
        ),
    );
    Ok(all)
}

/// Boots and waits for the power-off.
fn boot(kernel: &Path, initrd: &Path, variant: &Variant) -> Result<()> {
    let mut qemu = command("timeout");
    qemu.args(["--kill-after=5", SECONDS, "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max"]);
    qemu.args([
        "-smp",
        "2",
        "-m",
        "2048",
        "-nodefaults",
        "-display",
        "none",
        "-serial",
        "stdio",
        "-no-reboot",
        "-kernel",
    ]);
    qemu.arg(kernel).arg("-initrd").arg(initrd).arg("-append");
    qemu.arg(format!("console=ttyS0 quiet panic=-1 assay.vm lsm={}", variant.lsm));
    println!("$ {}", step::shown(&qemu));
    let mut machine =
        qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("start qemu-system-x86_64")?;
    let console = machine.stdout.take().expect("its output is ours");
    let mut verdict = None;
    for line in BufReader::new(console).split(b'\n') {
        let line = line.context("read the console")?;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches('\r');
        if let Some((_, code)) = line.split_once(VERDICT) {
            verdict = Some(code.trim().to_owned());
        } else {
            println!("  {line}");
        }
    }
    let status = machine.wait().context("wait for qemu-system-x86_64")?;
    match verdict.as_deref() {
        Some("0") => Ok(()),
        Some(code) => bail!("the tests failed in {} (exit {code})", variant.name),
        None => bail!("{} did not come to its end ({status})", variant.name),
    }
}
