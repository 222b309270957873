//! What is known about a run when it is over, apart from its record.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::descendants::Fate;
use super::hold::Hold;
use super::outcome::ChildEnd;
use super::request::SandboxRequest;
use crate::evidence::Degradation;
use crate::profile::roots::Roots;

/// What names of the run are relative to, as the command sees it.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Where the command starts, as far as it has a name.
    pub workdir: Option<PathBuf>,
    /// The child's home, as its environment has it.
    pub home: Option<PathBuf>,
    /// The private directory.
    pub tmpdir: Option<PathBuf>,
    /// The caller's directory for temporary files.
    pub caller_tmpdir: PathBuf,
    /// The user's runtime directory.
    pub runtime_dir: PathBuf,
    /// All of these and more, as they are spelled.
    pub roots: Roots,
}

/// What is known about a run when it is over.
#[derive(Debug)]
pub struct Ended<'a> {
    /// The run as asked for.
    pub request: &'a SandboxRequest,
    /// The process that was the command; 0 when it never started.
    pub pid: u32,
    /// How the command ended.
    pub child: ChildEnd,
    /// What became of the processes that outlived it.
    pub descendants: Fate,
    /// What was asked and not kept by the launch; sorted.
    pub degradations: Vec<Degradation>,
    /// Names of the environment variables that were removed.
    pub env_removed: Vec<Vec<u8>>,
    /// What names are relative to; the private directory is gone by now.
    pub places: Places,
    /// When it started.
    pub started_at: SystemTime,
    /// From then until the end of the last descendant.
    pub duration: Duration,
    /// What it is held to.
    pub hold: &'a Hold,
    /// Whether it was observed to its end.
    pub observer: ObserverEnd,
    /// Why an heir could not take over what the observer had read.
    pub untaken: Option<String>,
}

/// What became of the process that observed a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObserverEnd {
    /// It saw the end of the run.
    Lived,
    /// It was killed before that, and its heir tells what it had seen.
    Died,
}
