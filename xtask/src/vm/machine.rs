//! The emulated machine: Debian's kernel, fetched once, and one boot of it.
//!
//! Out: what it printed on its serial console, and whether its tests passed. It has no disk and no network, and is gone
//! when it powers off.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};

use super::guest::VERDICT;
use super::variants::Variant;
use crate::step::{self, command, output, root, run};

/// Emulated, not accelerated: nested virtualisation may be there and not work. A machine that hangs is stopped after this.
const SECONDS: &str = "1700";

/// Debian's newest 6.1 kernel for clouds, fetched once.
pub fn kernel() -> Result<PathBuf> {
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

/// What a machine told.
#[derive(Debug)]
pub struct Told {
    /// The lines of its console, but the last.
    pub console: Vec<String>,
    /// Why it is a failure; `None` when the tests passed.
    pub failure: Option<String>,
}

/// Boots and waits for the power-off.
pub fn boot(kernel: &Path, initrd: &Path, variant: &Variant, filters: &[String]) -> Result<Told> {
    let mut qemu = command("timeout");
    qemu.args([
        "--foreground",
        "--kill-after=5",
        SECONDS,
        "qemu-system-x86_64",
        "-accel",
        "tcg",
        "-cpu",
        "max",
        "-smp",
        "2",
    ]);
    qemu.args(["-m", "2048", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot", "-kernel"]);
    qemu.arg(kernel).arg("-initrd").arg(initrd).args(["-append", &variant.command_line(filters)]);
    println!("$ {}", step::shown(&qemu));
    let mut machine =
        qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("start qemu-system-x86_64")?;
    let output = machine.stdout.take().expect("its output is ours");
    let (mut console, mut verdict) = (Vec::new(), None);
    let copy = root().join(format!("target/vm/{}.console", variant.name));
    let mut copy = fs::File::create(&copy).with_context(|| format!("create {}", copy.display()))?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("read the console")?;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches('\r');
        // For whoever looks on meanwhile.
        writeln!(copy, "{line}").context("write what the console says")?;
        if let Some((_, code)) = line.split_once(VERDICT) {
            verdict = Some(code.trim().to_owned());
        } else {
            console.push(line.to_owned());
        }
    }
    let status = machine.wait().context("wait for qemu-system-x86_64")?;
    let failure = match verdict.as_deref() {
        Some("0") => None,
        Some(code) => Some(format!("the tests failed (exit {code})")),
        None => Some(format!("the machine did not come to its end ({status})")),
    };
    Ok(Told { console, failure })
}

/// What is not installed here, and how to get it.
pub fn missing() -> Option<&'static str> {
    if step::find("qemu-system-x86_64").is_none() {
        return Some("no qemu-system-x86_64: apt-get install --no-install-recommends qemu-system-x86");
    }
    if step::find("busybox").is_none() {
        return Some("no busybox: apt-get install busybox-static");
    }
    if step::find("strip").is_none() {
        return Some("no strip: apt-get install binutils");
    }
    None
}
