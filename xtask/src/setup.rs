//! Installs what the tests use and a fresh Debian machine does not have, or says what is missing elsewhere.

use anyhow::{Result, bail};

use crate::step::{command, find, output, run};
use crate::{agents, browser, ebpf, python, unpacked};

/// Debian's packages, by what they are for. The README names the same ones; a test compares.
pub const PACKAGES: [(&str, &[&str]); 9] = [
    (
        "the kernel half: a compiler with its library sources, and the LLVM its linker is built on",
        &[
            "rustc-web",
            "rust-web-src",
            "llvm-22",
            "llvm-22-dev",
            "libpolly-22-dev",
            "zlib1g-dev",
            "libzstd-dev",
            "libxml2-dev",
        ],
    ),
    ("a network of a test's own", &["dnsmasq-base"]),
    ("a second kernel", &["qemu-system-x86", "busybox-static"]),
    (
        "what the oracle watches, and the witness",
        &[
            "strace",
            "git",
            "tar",
            "gzip",
            "gcc",
            "libc6-dev",
            "make",
            "python3",
            "python3-venv",
            "curl",
            "nodejs",
            "sqlite3",
            "openssh-client",
            "rsync",
            "bubblewrap",
        ],
    ),
    (
        "what runs again and again",
        &["python3-pytest", "gpg", "gpg-agent", "gpgconf", "perl", "patch", "zip", "unzip", "util-linux"],
    ),
    ("terminals, attributes, networks", &["tmux", "vim-tiny", "less", "procps", "attr", "iproute2"]),
    ("checking signatures and scripts from outside", &["openssl", "shellcheck"]),
    ("an ordinary user with capabilities", &["libcap2-bin"]),
    (
        "the report in a browser, whether it is valid, and its pictures",
        &["chromium-headless-shell", "python3-html5lib", "fonts-inter", "fonts-jetbrains-mono", "optipng"],
    ),
];

/// Installs what is missing.
pub fn execute() -> Result<()> {
    let wanted: Vec<&str> = PACKAGES.iter().flat_map(|(_, packages)| packages.iter().copied()).collect();
    if find("dpkg-query").is_none() || find("apt-get").is_none() {
        println!("this is not Debian: the tests use {}", wanted.join(", "));
        python::setup();
        return Ok(());
    }
    let missing: Vec<&str> = wanted.into_iter().filter(|package| !is_installed(package)).collect();
    if !missing.is_empty() {
        if !is_root() {
            bail!("these Debian packages are missing: {}\nrun as root, or install them", missing.join(" "));
        }
        run(command("apt-get").args(["update", "-q"]))?;
        run(command("apt-get")
            .args(["install", "-y", "-q", "--no-install-recommends"])
            .args(&missing)
            .env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    python::setup();
    browser::setup();
    unpacked::setup();
    ebpf::execute(ebpf::Command::Setup).map(drop)?;
    agents::install_for_ci()
}

fn is_installed(package: &str) -> bool {
    let asked = output(command("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", package]));
    asked.is_ok_and(|status| status.trim() == "installed")
}

fn is_root() -> bool {
    output(command("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_names_every_package() {
        let readme = include_str!("../../README.md");
        for package in PACKAGES.iter().flat_map(|(_, packages)| packages.iter()) {
            assert!(
                readme.split_whitespace().any(|word| word == *package),
                "README.md does not name `{package}`"
            );
        }
    }
}
