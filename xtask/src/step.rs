//! Runs other programs, and says which.
//!
//! In: a command. Out: its success, or an error that holds the line to type to see it fail again.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow, bail};

/// The root of this checkout.
pub fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies one folder below the root").to_path_buf()
}

/// A command that starts in the root of this checkout.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Prints the command, runs it with our own stdin, stdout and stderr, and fails if it does.
pub fn run(command: &mut Command) -> Result<()> {
    let line = shown(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// As [`run`], and what it wrote to stdout, a line each, which is printed as it comes. An error within says that it failed.
pub fn run_and_read(command: &mut Command) -> Result<(Result<()>, Vec<String>)> {
    let line = shown(command);
    println!("$ {line}");
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("start `{line}`"))?;
    let output = child.stdout.take().expect("its output is ours");
    let mut lines = Vec::new();
    for text in BufReader::new(output).split(b'\n') {
        let text = text.with_context(|| format!("read what `{line}` prints"))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        println!("{text}");
        lines.push(text);
    }
    let status = child.wait().with_context(|| format!("wait for `{line}`"))?;
    let outcome = if status.success() { Ok(()) } else { Err(anyhow!("`{line}` failed ({status})")) };
    Ok((outcome, lines))
}

/// Whether CI runs this, where nobody looks on and what is said of a commit must not depend on chance.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some()
}

/// What the command writes to stdout; fails if it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({})\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether a program of this name can be found, and where.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// Whether we are root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // Our own folder in /proc belongs to our effective user.
    std::fs::metadata("/proc/self").is_ok_and(|facts| facts.uid() == 0)
}

/// The command as it could be typed.
pub fn shown(command: &Command) -> String {
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| {
            Some(format!("{}={}", name.to_string_lossy(), quoted(&value?.to_string_lossy())))
        })
        .collect();
    words.push(quoted(&command.get_program().to_string_lossy()));
    words.extend(command.get_args().map(|word| quoted(&word.to_string_lossy())));
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        // The separator of CARGO_ENCODED_RUSTFLAGS cannot be typed as it is.
        let escaped = word.replace('\'', r"'\''").replace('\x1f', r"'$'\x1f''");
        format!("'{escaped}'")
    }
}
