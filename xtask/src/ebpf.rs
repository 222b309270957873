//! Builds the kernel half into the object that is checked in, and checks that it still is what its sources make.
//!
//! In: the sources of `assay-ebpf` and `assay-common`. Out: `assay/bpf/assay.bpf.o` and the record beside it. The bytes
//! depend on the sources, the compiler and the linker, and on nothing else of this machine: not on a folder, a user or
//! the environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::sources::{self, OBJECT, RECORD};
use crate::step::{self, output, root, run};
use crate::toolchain::{self, Toolchain, plain};

/// The target triple of the kernel half.
pub const TARGET: &str = "bpfel-unknown-none";

/// Exit code of `verify` when this machine cannot tell: its compiler or linker is not the recorded one.
const CANNOT_TELL: u8 = 3;

/// Everything that decides what the compiler makes, the same on every machine. Recorded beside the object.
const RUSTFLAGS: [&str; 6] = [
    "-Cdebuginfo=2",
    "-Clinker=bpf-linker",
    "-Clink-arg=--btf",
    "--cfg",
    "bpf_target_arch=\"x86_64\"",
    "-Cpanic=abort",
];
/// The profile, given on the command line so that the workspace's own profiles stay about the userspace half.
const PROFILE: [&str; 7] = [
    "profile.release.opt-level=3",
    "profile.release.debug=2",
    "profile.release.lto=true",
    "profile.release.codegen-units=1",
    "profile.release.panic=\"abort\"",
    "profile.release.strip=\"none\"",
    "profile.release.incremental=false",
];

/// What to do with the object.
#[derive(Debug, Clone, Copy, clap::Subcommand)]
pub enum Command {
    /// Build it and write it, with its record, into the tree.
    Build,
    /// Build it aside and compare; exit 3 when this machine's compiler or linker is not the recorded one.
    Verify,
    /// Install the compiler and the linker it needs, or say what is missing.
    Setup,
}

/// Runs it.
pub fn execute(what: Command) -> Result<ExitCode> {
    match what {
        Command::Build => build().map(|()| ExitCode::SUCCESS),
        Command::Verify => verify(),
        Command::Setup => toolchain::setup().map(|()| ExitCode::SUCCESS),
    }
}

fn build() -> Result<()> {
    let toolchain = Toolchain::find(None)?;
    let object = compile(&toolchain, &root().join("target/bpf"))?;
    let record = record(&toolchain, &object)?;
    fs::create_dir_all(root().join(OBJECT).parent().expect("the object lies in a folder"))?;
    fs::write(root().join(OBJECT), &object).with_context(|| format!("write {OBJECT}"))?;
    fs::write(root().join(RECORD), record).with_context(|| format!("write {RECORD}"))?;
    println!("{OBJECT}: {} bytes, {}", object.len(), sources::digest_of(&object));
    Ok(())
}

fn verify() -> Result<ExitCode> {
    let record = fs::read_to_string(root().join(RECORD)).with_context(|| format!("read {RECORD}"))?;
    let recorded = |key| sources::recorded(&record, key).with_context(|| format!("find `{key}` in {RECORD}"));
    let object = fs::read(root().join(OBJECT)).with_context(|| format!("read {OBJECT}"))?;

    // Both of these need no compiler, and are wrong on every machine if they are wrong on one.
    if sources::digest_of(&object) != recorded("object")? {
        bail!("{OBJECT} is not the object that {RECORD} describes; run `cargo xtask ebpf build`");
    }
    if sources::digest(&root())? != recorded("sources")? {
        bail!("the sources have moved on since {OBJECT} was built; run `cargo xtask ebpf build`");
    }

    let toolchain = Toolchain::find(Some(recorded("compiler")?))?;
    for (what, ours) in [("compiler", &toolchain.compiler), ("linker", &toolchain.linker)] {
        let theirs = recorded(what)?;
        if theirs != ours {
            println!(
                "cannot tell: the object was made by {theirs}, this machine has {ours}\n\
                 its own digest and the digest of its sources are as recorded"
            );
            return Ok(ExitCode::from(CANNOT_TELL));
        }
    }
    let aside = root().join("target").join(format!("bpf-verify-{}", std::process::id()));
    let built = compile(&toolchain, &aside);
    fs::remove_dir_all(&aside).with_context(|| format!("remove {}", aside.display()))?;
    let built = built?;
    if built != object {
        let first = built
            .iter()
            .zip(&object)
            .position(|(new, old)| new != old)
            .unwrap_or(built.len().min(object.len()));
        bail!(
            "{OBJECT} is not what its sources make with the recorded compiler: {} bytes here, {} there, first \
             difference at byte {first}; run `cargo xtask ebpf build`",
            built.len(),
            object.len()
        );
    }
    println!("{OBJECT}: byte for byte what its sources make ({})", toolchain.compiler);
    Ok(ExitCode::SUCCESS)
}

/// The stripped object.
fn compile(toolchain: &Toolchain, target: &Path) -> Result<Vec<u8>> {
    let mut cargo = plain(&toolchain.cargo);
    cargo.args([
        "build",
        "--locked",
        "--release",
        "-Zbuild-std=core",
        "--package",
        "assay-ebpf",
        "--bin",
        "assay-ebpf",
    ]);
    cargo.args(["--target", TARGET, "--target-dir"]).arg(target);
    for setting in PROFILE {
        cargo.args(["--config", setting]);
    }
    cargo.env("RUSTC", &toolchain.rustc);
    // `-Z` on a compiler that is not a nightly one: for `core` alone, which has no stable way to be built.
    cargo.env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rustflags(toolchain, target)?.join("\x1f"));
    run(&mut cargo)?;

    let linked = target.join(TARGET).join("release/assay-ebpf");
    let stripped = target.join("assay.bpf.o");
    // Debug sections only: BTF is what the loader and the verifier's messages live on.
    output(step::command(&toolchain.objcopy).arg("--strip-debug").arg(&linked).arg(&stripped))?;
    fs::read(&stripped).with_context(|| format!("read {}", stripped.display()))
}

/// The flags, with every folder of this machine written as a word.
fn rustflags(toolchain: &Toolchain, target: &Path) -> Result<Vec<String>> {
    let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(
        || {
            Ok(PathBuf::from(std::env::var_os("HOME").context("find cargo's home: HOME is not set")?)
                .join(".cargo"))
        },
        |home| anyhow::Ok(PathBuf::from(home)),
    )?;
    let mut flags: Vec<String> = RUSTFLAGS.map(str::to_owned).into();
    // Crates lie in a folder named after where they came from, which is another one behind a mirror.
    let sources = fs::read_dir(cargo_home.join("registry/src")).into_iter().flatten().flatten();
    let sources: Vec<PathBuf> = sources.map(|entry| entry.path()).collect();
    // The last one that fits wins, so the narrowest comes last.
    let folders = [(root(), "/assay"), (cargo_home, "/cargo")]
        .into_iter()
        .chain(sources.into_iter().map(|folder| (folder, "/crates")))
        .chain([
            (toolchain::library(&toolchain.sysroot), "/rust/library"),
            (target.to_path_buf(), "/target"),
        ]);
    for (folder, word) in folders {
        flags.push(format!("--remap-path-prefix={}={word}", folder.display()));
    }
    Ok(flags)
}

fn record(toolchain: &Toolchain, object: &[u8]) -> Result<String> {
    let flags: Vec<String> =
        RUSTFLAGS.iter().chain(&PROFILE).map(|flag| format!("\"{}\"", flag.replace('"', "\\\""))).collect();
    Ok(format!(
        "# Written by `cargo xtask ebpf build` together with the object; checked by `cargo xtask ebpf verify` and by\n\
         # the test `freshness`.\n\
         object = \"{}\"\nsources = \"{}\"\ncompiler = \"{}\"\nlinker = \"{}\"\ntarget = \"{TARGET}\"\nflags = [{}]\n",
        sources::digest_of(object),
        sources::digest(&root())?,
        toolchain.compiler,
        toolchain.linker,
        flags.join(", ")
    ))
}
