//! The observer's programs, one by one: what the verifier went through, and what they took while a command ran.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::bpf::{self, Known};
use crate::step::{command, root, run};

/// What is run under the observer, `sh -c`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The command; without one, a mixture of opens, look-ups that fail, new names and processes.
    #[arg(default_value = MIXTURE)]
    script: String,
}

const MIXTURE: &str = "find /usr/include -name '*.h' | xargs grep -l main > /dev/null
for i in $(seq 200); do /bin/true; done
for i in $(seq 200); do echo > f$i; mv f$i g$i; rm g$i; done
python3 -c 'import json, asyncio, email.mime.text'";

/// Runs it and prints the table.
pub fn execute(options: &Options) -> Result<()> {
    run(command("cargo").args(["build", "--quiet", "--release", "--package", "assay"]))?;
    let place = std::env::temp_dir().join(format!("assay-bench-programs-{}", std::process::id()));
    fs::create_dir(&place)?;
    let result = measure(&options.script, &place);
    fs::remove_dir_all(&place)?;
    print_table(&result?);
    Ok(())
}

fn measure(script: &str, place: &Path) -> Result<Vec<Known>> {
    let _statistics = bpf::enable_statistics().context("let the kernel count")?;
    let others: Vec<Known> = bpf::programs()?;
    if others.iter().any(|program| program.name == "sys_exit") {
        bail!("somebody else is observing; their programs cannot be told from ours");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let done = place.join("done");
    // It stays until we have looked.
    let script = format!("{script}\n: > {0}; while [ -e {0} ]; do sleep 0.05; done", done.display());
    let mut assay = Command::new(target.join("release/assay"))
        .args(["--quiet", "sandbox", "--dry-run", "--profile"])
        .arg(place.join("p.yaml"))
        .args(["--", "sh", "-c", &script])
        .current_dir(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("run the observer")?;
    let until = Instant::now() + Duration::from_secs(300);
    while !done.exists() {
        if assay.try_wait()?.is_some() || Instant::now() > until {
            bail!("the command did not come to its end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut programs = bpf::programs()?;
    fs::remove_file(&done)?;
    assay.wait()?;
    programs.retain(|program| names().any(|name| name[..name.len().min(15)] == program.name));
    programs.sort_by(|one, other| other.nanoseconds.cmp(&one.nanoseconds).then(one.name.cmp(&other.name)));
    Ok(programs)
}

fn names() -> impl Iterator<Item = &'static str> {
    assay_common::names::PROGRAMS.iter().map(|program| program.name)
}

fn print_table(programs: &[Known]) {
    println!("| program | instructions | verified | runs | ns a run, statistics included |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for Known { name, instructions, verified, runs, nanoseconds } in programs {
        // Who goes on by a tail call is counted with who began.
        let each = if *runs == 0 { String::new() } else { (nanoseconds / runs).to_string() };
        println!("| `{name}` | {instructions} | {verified} | {runs} | {each} |");
    }
    let sum: u32 = programs.iter().map(|program| program.verified).sum();
    println!("| all | | {sum} | | |");
}
