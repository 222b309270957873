//! Finds a compiler, a linker and an object copier that can make the kernel half, or says what is missing.
//!
//! In: this machine. Out: a [`Toolchain`], or an error that names the command which installs what is not there. Looks
//! and asks for versions only; installing is [`setup`], and only when asked.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::step::{self, command, output};

/// The linker's version: another one may order or optimise differently, and the object would not be the same.
const LINKER_VERSION: &str = "0.13.0";
/// Debian's LLVM that matches Debian's `rustc-web`.
const LLVM: &str = "22";
/// Debian's packages for all of it.
const DEBIAN: [&str; 8] = [
    "rustc-web",
    "rust-web-src",
    "llvm-22-dev",
    "llvm-22",
    "libpolly-22-dev",
    "zlib1g-dev",
    "libzstd-dev",
    "libxml2-dev",
];

/// What makes the object.
#[derive(Debug)]
pub struct Toolchain {
    /// The compiler.
    pub rustc: PathBuf,
    /// The cargo that drives it.
    pub cargo: PathBuf,
    /// Where its libraries are.
    pub sysroot: PathBuf,
    /// What `rustc --version` says.
    pub compiler: String,
    /// What `bpf-linker --version` says.
    pub linker: String,
    /// Where the linker is.
    pub bpf_linker: PathBuf,
    /// Where LLVM's object copier is.
    pub objcopy: PathBuf,
}

impl Toolchain {
    /// The toolchain of this machine; the one with the `recorded` compiler if there are several.
    pub fn find(recorded: Option<&str>) -> Result<Self> {
        let (bpf_linker, linker) = find_linker()?;
        let objcopy = find_objcopy()?;
        let mut found: Vec<Self> = compilers()
            .into_iter()
            .filter_map(|(rustc, cargo)| {
                let (compiler, sysroot) = describe(&rustc)?;
                Some(Self {
                    rustc,
                    cargo,
                    sysroot,
                    compiler,
                    linker: linker.clone(),
                    bpf_linker: bpf_linker.clone(),
                    objcopy: objcopy.clone(),
                })
            })
            .collect();
        if found.is_empty() {
            bail!(
                "no compiler with its library sources was found, which the kernel half needs to build `core`\n\
                 on Debian:  apt-get install --no-install-recommends rustc-web rust-web-src\n\
                 elsewhere:  rustup toolchain install nightly --component rust-src\n\
                 or let `cargo xtask ebpf setup` do it"
            );
        }
        let wanted = found.iter().position(|one| Some(one.compiler.as_str()) == recorded).unwrap_or(0);
        Ok(found.swap_remove(wanted))
    }
}

/// Compilers that could do, each with the cargo that fits it, best first.
fn compilers() -> Vec<(PathBuf, PathBuf)> {
    let mut pairs = Vec::new();
    let debian = Path::new("/usr/bin/rustc");
    if debian.exists() {
        // Debian's compiler comes without cargo; any cargo drives it.
        pairs.push((debian.to_path_buf(), step::find("cargo").unwrap_or_else(|| "cargo".into())));
    }
    let which = |tool| output(command("rustup").args(["which", "--toolchain", "nightly", tool]));
    if let (Ok(rustc), Ok(cargo)) = (which("rustc"), which("cargo")) {
        pairs.push((rustc.into(), cargo.into()));
    }
    pairs
}

/// Version and sysroot, if the compiler knows the target and its library sources are there.
fn describe(rustc: &Path) -> Option<(String, PathBuf)> {
    let ask = |args: &[&str]| output(plain(rustc).args(args)).ok();
    let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?);
    if !library(&sysroot).join("core/src/lib.rs").exists() {
        return None;
    }
    let targets = ask(&["--print", "target-list"])?;
    targets.lines().any(|target| target == crate::ebpf::TARGET).then_some(())?;
    Some((ask(&["--version"])?, sysroot))
}

/// Where the sources of `core` lie.
pub fn library(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib/src/rust/library")
}

/// A command on which what the outer cargo or shell set has no influence.
pub fn plain(program: &Path) -> Command {
    let mut command = command(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let decides =
            ["CARGO_BUILD_", "CARGO_PROFILE_", "CARGO_TARGET_", "CARGO_ENCODED_", "RUST", "CARGO_PKG_"]
                .iter()
                .any(|prefix| text.starts_with(prefix));
        if decides && text != "RUSTUP_HOME" || matches!(text.as_ref(), "CARGO" | "CARGO_MANIFEST_DIR") {
            command.env_remove(&name);
        }
    }
    command
}

fn find_linker() -> Result<(PathBuf, String)> {
    let path = step::find("bpf-linker").with_context(|| {
        format!(
            "find bpf-linker: install it with\n  LLVM_PREFIX=/usr/lib/llvm-{LLVM} LLVM_SYS_221_PREFIX=/usr/lib/llvm-{LLVM} \
             cargo install bpf-linker --version {LINKER_VERSION} --no-default-features --features llvm-{LLVM}\n\
             or let `cargo xtask ebpf setup` do it"
        )
    })?;
    let version = output(command(&path).arg("--version"))?;
    Ok((path, version))
}

fn find_objcopy() -> Result<PathBuf> {
    let folders =
        ["22", "23", "21", "20", "19"].map(|version| format!("/usr/lib/llvm-{version}/bin/llvm-objcopy"));
    folders
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
        .or_else(|| step::find("llvm-objcopy"))
        .with_context(|| format!("find llvm-objcopy: on Debian, `apt-get install llvm-{LLVM}`"))
}

/// Installs what is missing, where this machine has the means; otherwise names it.
pub fn setup() -> Result<()> {
    let needs_compiler = !compilers().iter().any(|(rustc, _)| describe(rustc).is_some());
    let needs_linker = find_linker().is_err();
    let needs_objcopy = find_objcopy().is_err();
    if needs_compiler || needs_linker || needs_objcopy {
        if step::find("apt-get").is_some() && step::is_root() {
            step::run(
                command("apt-get").args(["install", "-y", "-q", "--no-install-recommends"]).args(DEBIAN),
            )?;
        } else if needs_compiler && step::find("rustup").is_some() {
            step::run(command("rustup").args([
                "toolchain",
                "install",
                "nightly",
                "--component",
                "rust-src",
            ]))?;
        }
    }
    if needs_linker {
        let prefix = format!("/usr/lib/llvm-{LLVM}");
        let mut install = plain(&step::find("cargo").unwrap_or_else(|| "cargo".into()));
        install.args(["install", "bpf-linker", "--locked", "--version", LINKER_VERSION]);
        if Path::new(&prefix).exists() {
            install.args(["--no-default-features", "--features", &format!("llvm-{LLVM}")]);
            install.env("LLVM_PREFIX", &prefix).env("LLVM_SYS_221_PREFIX", &prefix);
        }
        step::run(&mut install)?;
    }
    let toolchain = Toolchain::find(None)?;
    println!("compiler  {} ({})", toolchain.compiler, toolchain.rustc.display());
    println!("linker    {} ({})", toolchain.linker, toolchain.bpf_linker.display());
    println!("objcopy   {}", toolchain.objcopy.display());
    Ok(())
}
