//! A `.deb` and a binary that depends on nothing, made and tried.
//!
//! In: this checkout. Out: `target/debian/*.deb`, and `target/static/…/assay`. What is tried is tried in a Debian of its own
//! and in an empty folder; of this machine only the kernel, its groups and its package mirror take part.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::step::{self, command, output, root, run};

mod licences;
mod tried;

/// What makes the package. Its last release is of this year, its tree is of its own, and nothing of it is in what we ship.
const CARGO_DEB: &str = "3.8.0";
/// Debian's packages that making and trying it take.
const DEBIAN: [&str; 6] = ["lintian", "mmdebstrap", "dpkg-dev", "man-db", "binutils", "bubblewrap"];
/// Programs by which it is seen whether they are there.
const PROGRAMS: [&str; 7] =
    ["cargo-deb", "lintian", "mmdebstrap", "dpkg-shlibdeps", "man", "readelf", "bwrap"];
/// The shells whose completions are packaged, and the name that each looks for.
const SHELLS: [(&str, &str); 3] = [("bash", "assay.bash"), ("zsh", "_assay"), ("fish", "assay.fish")];

/// What to do.
#[derive(Debug, Clone, Copy, clap::Subcommand)]
pub enum Command {
    /// Install what the other commands take.
    Setup,
    /// Make the package.
    Deb,
    /// Make a binary that needs no library.
    Static,
    /// Make both, complain as Debian does, and try both where nothing else is.
    Check,
}

/// Runs it.
pub fn execute(what: Command) -> Result<()> {
    match what {
        Command::Setup => setup(),
        Command::Deb => deb().map(drop),
        Command::Static => build_static().map(drop),
        Command::Check => check(),
    }
}

/// What of it all is not on this machine; `None` when nothing is missing.
pub fn missing() -> Option<String> {
    let missing: Vec<&str> = PROGRAMS.into_iter().filter(|program| step::find(program).is_none()).collect();
    (!missing.is_empty())
        .then(|| format!("{}: not installed; `cargo xtask package setup` installs it", missing.join(", ")))
}

fn setup() -> Result<()> {
    if step::find("apt-get").is_some() && PROGRAMS.iter().any(|program| step::find(program).is_none()) {
        let mut apt = command("apt-get");
        apt.args(["install", "-y", "-q", "--no-install-recommends"]).args(DEBIAN);
        run(apt.env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    if step::find("cargo-deb").is_none() {
        // Without its reader of xz, which wants a C library: packages are packed with Debian's own.
        let options = ["--locked", "--no-default-features", "--version", CARGO_DEB];
        run(command("cargo").args(["install", "cargo-deb"]).args(options))?;
    }
    missing().map_or(Ok(()), |missing| bail!("{missing}"))
}

/// The folder for what goes into the package beside the program.
fn parts() -> PathBuf {
    root().join("target/package")
}

/// Makes the package; where it lies.
fn deb() -> Result<PathBuf> {
    run(command("cargo").args(["build", "--release", "--locked", "--package", "assay"]))?;
    let program = root().join("target/release/assay");
    let parts = parts();
    // Nothing of an earlier version may be packed.
    if parts.exists() {
        fs::remove_dir_all(&parts).with_context(|| format!("remove {}", parts.display()))?;
    }
    fs::create_dir_all(&parts).with_context(|| format!("create {}", parts.display()))?;
    run(command(&program).arg("man").arg(parts.join("man")))?;
    for (shell, name) in SHELLS {
        let text = output(command(&program).args(["completions", shell]))?;
        fs::write(parts.join(name), text + "\n").with_context(|| format!("write {name}"))?;
    }
    let committed = output(command("git").args(["log", "-1", "--format=%ct"]))?;
    let date = output(command("git").args(["log", "-1", "--format=%cD"]))?;
    fs::write(parts.join("changelog"), changelog(&date)?).context("write the changelog")?;
    fs::write(parts.join("copyright"), licences::copyright()?).context("write the copyright")?;
    fs::write(parts.join("linked-in.txt"), licences::linked_in()?).context("write the licences")?;

    let folder = root().join("target/debian");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let mut cargo = command("cargo");
    cargo.args(["deb", "--package", "assay", "--no-build", "--locked", "--output"]).arg(&folder);
    // The same commit is the same package.
    run(cargo.env("SOURCE_DATE_EPOCH", committed))?;
    let name = format!("assay_{}-1_amd64.deb", version()?);
    let package = folder.join(name);
    if !package.is_file() {
        bail!("cargo deb left no {}", package.display());
    }
    println!("{}", package.display());
    Ok(package)
}

fn version() -> Result<String> {
    let id = output(command("cargo").args(["pkgid", "--package", "assay"]))?;
    let version = id.rsplit(['#', '@']).next().context("find the version in what `cargo pkgid` says")?;
    Ok(version.to_owned())
}

/// Debian's changelog: one entry, that of the version which is packed. What is new is in the changelog of the project.
fn changelog(date: &str) -> Result<String> {
    let manifest = fs::read_to_string(root().join("assay/Cargo.toml")).context("read assay/Cargo.toml")?;
    let maintainer = manifest.lines().find_map(|line| line.strip_prefix("maintainer = "));
    let maintainer = maintainer.context("find `maintainer` in assay/Cargo.toml")?.trim_matches('"');
    let version = version()?;
    Ok(format!(
        "assay ({version}-1) unstable; urgency=medium\n\n  * What is new: /usr/share/doc/assay/changelog.gz\n\n -- {maintainer}  {date}\n"
    ))
}

/// Makes the program with all libraries in it; where it lies.
fn build_static() -> Result<PathBuf> {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    let folder = root().join("target/static");
    let mut cargo = command("cargo");
    cargo.args(["build", "--release", "--locked", "--package", "assay", "--target", TARGET, "--target-dir"]);
    run(cargo.arg(&folder).env("RUSTFLAGS", "-Ctarget-feature=+crt-static -Crelocation-model=static"))?;
    let program = folder.join(TARGET).join("release/assay");
    let headers =
        output(command("readelf").args(["--program-headers", "--dynamic", "--wide"]).arg(&program))?;
    for word in ["INTERP", "(NEEDED)"] {
        if headers.contains(word) {
            bail!("{} is not static: it has {word}", program.display());
        }
    }
    println!("{}", program.display());
    Ok(program)
}

fn check() -> Result<()> {
    if let Some(missing) = missing() {
        bail!("{missing}");
    }
    if !step::is_root() {
        bail!("trying the package makes mounts and observes: run as root");
    }
    let package = deb()?;
    tried::complain(&package)?;
    tried::in_a_debian_of_its_own(&package)?;
    tried::in_an_empty_folder(&build_static()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The manifest's lists of what is packed.
    const MANIFEST: &str = include_str!("../../assay/Cargo.toml");

    #[test]
    fn every_page_and_every_shell_is_in_the_package() {
        let mut folders = vec![root().join("docs")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                    continue;
                }
                let path = entry.path();
                let inside = path.strip_prefix(root()).unwrap();
                let ending = path.extension().unwrap().to_str().unwrap();
                let line = format!(
                    "[\"../{0}/*.{ending}\", \"usr/share/doc/assay/{0}/\", \"644\"]",
                    inside.parent().unwrap().display()
                );
                assert!(MANIFEST.contains(&line), "assay/Cargo.toml has no {line}");
            }
        }
        for (_, name) in SHELLS {
            assert!(MANIFEST.contains(&format!("\"../target/package/{name}\"")), "{name}");
        }
    }

    #[test]
    fn the_changelog_of_debian_is_of_the_version_and_names_whom_the_manifest_names() {
        let text = changelog("Tue, 1 Dec 2026 00:00:00 +0000").unwrap();
        let first = text.lines().next().unwrap();
        assert!(first.starts_with(&format!("assay ({}-1) ", version().unwrap())), "{text}");
        assert!(text.ends_with(">  Tue, 1 Dec 2026 00:00:00 +0000\n") && text.contains("\n -- "), "{text}");
    }
}
