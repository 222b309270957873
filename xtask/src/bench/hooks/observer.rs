//! The real observer: `assay sandbox`, with a measured process as its command.
//!
//! This crate must build when the observer does not, so it runs the program instead of linking the library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::super::actor::{Actor, Job};
use crate::step::{command, root, run};

/// The program that observes.
pub struct Observer {
    program: PathBuf,
    trace: PathBuf,
    processor: usize,
}

/// What one run's trace told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    /// Opens of the file that the measured process opens.
    pub opens: u64,
    /// Records lost, by its own account.
    pub lost: u64,
}

impl Observer {
    /// Builds it, for measured processes on this processor.
    pub fn build(processor: usize) -> Result<Self> {
        run(command("cargo").args(["build", "--quiet", "--package", "assay"]))?;
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let trace = std::env::temp_dir().join(format!("assay-bench-{}.trace", std::process::id()));
        Ok(Self { program: target.join("debug/assay"), trace, processor })
    }

    /// Starts a measured process as its command, and waits until that is observed.
    pub fn start(&self) -> Result<Actor> {
        let mut command = Command::new(&self.program);
        command.args(["--quiet", "sandbox", "--dry-run", "--env-passthrough", "--trace"]);
        command.arg(&self.trace).arg("--").arg(std::env::current_exe()?);
        let mut actor = Actor::start_by(command, self.processor)?;
        // It answers only after its own start, and that is the first thing recorded.
        actor.run(Job::Getppid, 1).context("run a command under `assay sandbox`")?;
        Ok(actor)
    }

    /// Ends the run; what its trace told.
    pub fn finish(&self, actor: Actor) -> Result<Told> {
        drop(actor);
        let text = fs::read_to_string(&self.trace)
            .with_context(|| format!("read the trace {}", self.trace.display()))?;
        fs::remove_file(&self.trace)?;
        told(&text, &std::env::current_exe()?)
    }
}

fn told(trace: &str, file: &Path) -> Result<Told> {
    let path = format!("\"path\":\"{}\"", file.display());
    let opens =
        trace.lines().filter(|line| line.contains("\"op\":\"open\"") && line.contains(&path)).count() as u64;
    let end = trace.lines().last().unwrap_or_default();
    let lost = end
        .split_once("\"lost\":")
        .and_then(|(_, rest)| rest.trim_end_matches('}').parse().ok())
        .with_context(|| format!("the last line of the trace is {end:?}"))?;
    Ok(Told { opens, lost })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_opens_of_the_file_count() {
        let trace = r#"{"seq":0,"op":"exec","path":"/b/x","result":"ok"}
{"seq":1,"op":"open","path":"/b/x","access":["read"],"result":"ok"}
{"seq":2,"op":"open","path":"/b/x.so","access":["read"],"result":"ok"}
{"end":true,"events":3,"lost":2}
"#;
        assert_eq!(told(trace, Path::new("/b/x")).unwrap(), Told { opens: 1, lost: 2 });
        assert!(told("", Path::new("/b/x")).is_err());
    }
}
