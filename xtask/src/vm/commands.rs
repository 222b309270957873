//! The commands that the oracle watches, as a second archive for a machine that has room for them.
//!
//! What belongs to each is asked of the command itself: its libraries, the headers and parts a compiler takes, the modules an
//! interpreter loads. `cargo` is left out: its compiler takes half a gigabyte.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::initramfs::Initramfs;
use crate::step::{self, command, output, root};

/// Commands of one file.
const PLAIN: &[&str] = &["make", "curl", "node", "as", "ld"];
/// A program that takes the header and everything the linker does.
const SOURCE: &str = "#include <stdio.h>\nint main(void){puts(\"x\");return 0;}\n";

/// The archive.
pub fn archive() -> Result<Initramfs> {
    let mut all = Initramfs::default();
    for path in PLAIN.iter().filter_map(|name| step::find(name)) {
        all.program(&path)?;
    }
    python(&mut all)?;
    git(&mut all)?;
    gcc(&mut all)?;
    Ok(all)
}

/// Debian's own, wherever another comes first on `PATH`: its modules lie beside it.
fn python(all: &mut Initramfs) -> Result<()> {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        return Ok(());
    }
    all.program(python)?;
    let ask = "import os, sys, sysconfig; print(os.path.realpath(sys.executable)); print(sysconfig.get_path('stdlib'))";
    let told = output(command("/usr/bin/python3").args(["-I", "-c", ask]))?;
    let [program, modules] = told.lines().collect::<Vec<_>>()[..] else {
        anyhow::bail!("python3 told of its program and modules: {told}");
    };
    all.program(Path::new(program))?;
    // What is for those who build an interpreter, and tests.
    let is_left_out = |name: &str| name.starts_with("config-") || name == "test" || name == "pydoc_data";
    let mut folders = vec![PathBuf::from(modules)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !is_left_out(&name) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|ending| ending == "so") {
                all.program(&path)?;
            } else if path.exists() {
                all.file(&path)?;
            }
        }
    }
    Ok(())
}

/// One program under the names by which it starts itself.
fn git(all: &mut Initramfs) -> Result<()> {
    let Some(git) = step::find("git") else { return Ok(()) };
    all.program(&git)?;
    let own = output(command("git").arg("--exec-path"))?;
    let own = Path::new(own.trim());
    all.folder(&own.to_string_lossy());
    for name in ["git", "git-upload-pack"] {
        all.link(&own.join(name).to_string_lossy(), &git.to_string_lossy());
    }
    Ok(())
}

/// The compiler, and what it says that it took for a small program.
fn gcc(all: &mut Initramfs) -> Result<()> {
    let Some(gcc) = step::find("gcc") else { return Ok(()) };
    all.program(&gcc)?;
    let folder = root().join("target/vm");
    let (source, built) = (folder.join("taken.c"), folder.join("taken"));
    fs::write(&source, SOURCE).with_context(|| format!("write {}", source.display()))?;
    // Optimising takes headers that building without does not.
    let headers = ["-O0", "-O1"].map(|level| output(command("gcc").arg("-M").arg(level).arg(&source)));
    let headers = headers.into_iter().collect::<Result<String>>()?;
    let parts = output(command("gcc").arg("-Wl,-t").arg("-o").arg(&built).arg(&source))?;
    let mut taken: BTreeSet<PathBuf> = headers
        .split_whitespace()
        .chain(parts.lines())
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect();
    for name in ["libgcc_s.so", "libgcc.a", "libc.so", "liblto_plugin.so"] {
        taken.insert(output(command("gcc").arg(format!("-print-file-name={name}")))?.trim().into());
    }
    for path in taken.iter().filter(|path| path.is_file() && !path.starts_with(&folder)) {
        all.file(path)?;
    }
    for name in ["cc1", "collect2", "lto-wrapper"] {
        let path = output(command("gcc").arg(format!("-print-prog-name={name}")))?;
        all.program(Path::new(path.trim()))?;
    }
    Ok(())
}
