//! A package and a static program, tried where nothing else of this machine is.
//!
//! In: files. Out: nothing, or an error that says what was not as it should be. Mounts are made in a namespace that ends with
//! the trial; what is left is a cached Debian in `target/package-debian.tar`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};

use crate::step::{self, command, root, run};

/// The oldest Debian that is supported.
const SUITE: &str = "bookworm";

/// What lintian says that is not so, or not about us, and why.
const OVERRIDES: [(&str, &str); 1] =
    [("initial-upload-closes-no-bugs", "no bug of Debian's asks for this package")];

/// Complains as Debian does: any error or warning that has no reason to stand is one here.
pub fn complain(package: &Path) -> Result<()> {
    let tags = OVERRIDES.map(|(tag, _)| tag).join(",");
    let mut lintian = command("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--suppress-tags", &tags]).arg(package);
    run(&mut lintian)
}

/// Installs the package in a Debian that has nothing but what every Debian has, and runs it there.
pub fn in_a_debian_of_its_own(package: &Path) -> Result<()> {
    let debian = root().join("target/package-debian.tar");
    if !debian.is_file() {
        let half = debian.with_extension("half");
        run(command("mmdebstrap").args(["--variant=minbase", "--format=tar", "--quiet", SUITE]).arg(&half))?;
        fs::rename(&half, &debian).with_context(|| format!("move {}", half.display()))?;
    }
    let folder = Folder::new("debian")?;
    run(command("tar").args(["--extract", "--file"]).arg(&debian).arg("--directory").arg(&folder.0))?;
    fs::copy(package, folder.0.join("assay.deb")).context("copy the package")?;
    // A package that asks for more than is there would be refused; nothing is fetched.
    let script = "exec 2>&1
dpkg --install /assay.deb
dpkg --verify assay
cd /root
assay --version
test -e /usr/share/bash-completion/completions/assay
test -e /usr/share/zsh/vendor-completions/_assay
test -e /usr/share/fish/vendor_completions.d/assay.fish
test -e /usr/share/man/man1/assay-sandbox.1.gz
assay doctor
mkdir work
cd work
assay sandbox --dry-run --profile ../run.yaml --bundle ../run.tar.gz -- sh -c 'cat /etc/hostname > made'
assay sandbox --enforce --policy ../run.yaml -- sh -c 'cat /etc/hostname > made'
assay evidence verify ../run.tar.gz
grep -q 'path: /etc/hostname' ../run.evidence.yaml
grep -q 'path: .*{WORKDIR}/made' ../run.evidence.yaml
cat ../run.yaml.report.md
dpkg --purge assay
test ! -e /usr/share/doc/assay
test ! -e /usr/bin/assay";
    let told = within(&folder.0, &["/bin/sh", "-ec", script])?;
    for line in ["this host can observe", "files, programs and network are complete"] {
        if !told.contains(line) {
            bail!("in a Debian of its own, nothing said `{line}`:\n{told}");
        }
    }
    println!("{told}");
    Ok(())
}

/// Runs the program where there is no library, no shell and no other program: only what the kernel shows.
pub fn in_an_empty_folder(program: &Path) -> Result<()> {
    let folder = Folder::new("empty")?;
    fs::create_dir(folder.0.join("tmp")).context("make a folder")?;
    fs::copy(program, folder.0.join("assay")).context("copy the program")?;
    let told = within(&folder.0, &["/assay", "doctor"])?;
    if !told.contains("this host can observe") {
        bail!("with nothing beside it, the doctor says:\n{told}");
    }
    // Names of users are asked of files alone here.
    fs::create_dir(folder.0.join("etc")).context("make a folder")?;
    fs::write(folder.0.join("etc/passwd"), "other:x:4242:4242::/tmp:/assay\n").context("write a user")?;
    fs::write(folder.0.join("policy.yaml"), "api_version: assay/v1\nfs: {allow: [/assay]}\n")
        .context("write a policy")?;
    let options = ["/assay", "sandbox", "--enforce", "--fail-closed", "--policy", "/policy.yaml"];
    let ran = ["--user", "other", "--profile", "/run.yaml", "--workdir", "/tmp", "--", "/assay", "--version"];
    let ran = [&options[..], &ran].concat();
    println!("{}", within(&folder.0, &ran)?);
    let evidence = fs::read_to_string(folder.0.join("run.evidence.yaml")).context("read the evidence")?;
    if !evidence.contains("path: /assay") {
        bail!("the evidence does not name the program that ran:\n{evidence}");
    }
    Ok(())
}

/// Runs a command whose root is this folder, with what the kernel shows mounted for it alone; what it says.
///
/// Not by `chroot`: the kernel goes on naming what is in one by the tree outside, and so does a record (`docs/limits.md`).
fn within(folder: &Path, words: &[&str]) -> Result<String> {
    let mut bwrap = command("bwrap");
    bwrap.args(["--cap-add", "ALL", "--bind"]).arg(folder).arg("/");
    bwrap.args([
        "--dev-bind",
        "/dev",
        "/dev",
        "--bind",
        "/proc",
        "/proc",
        "--bind",
        "/sys",
        "/sys",
        "--clearenv",
    ]);
    for (name, value) in [
        ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/root"),
        ("TMPDIR", "/tmp"),
        ("LC_ALL", "C.UTF-8"),
    ] {
        bwrap.args(["--setenv", name, value]);
    }
    bwrap.args(words);
    println!("$ {}", step::shown(&bwrap));
    let ran = bwrap.stdin(Stdio::null()).output().context("start bwrap")?;
    let told = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        bail!("it failed ({}):\n{told}", ran.status);
    }
    Ok(told)
}

/// A folder that is gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self> {
        let path = root().join(format!("target/package-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed lies beneath `target`, and is in nobody's way.
        drop(fs::remove_dir_all(&self.0));
    }
}
