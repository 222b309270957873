//! The seam between a run and its record: armed before the command starts, pumped while it runs, finished at its
//! end.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::artifact::{ArtifactError, Owner, Target, Written};
use super::cgroup::Group;
use super::descendants::Fate;
use super::outcome::ChildEnd;
use super::request::SandboxRequest;
use crate::evidence::Degradation;

/// Nothing can be observed here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("observe the run: {reason}")]
pub struct Unobservable {
    /// What is missing.
    pub reason: String,
    /// How to get it.
    pub hint: String,
}

/// Where the artifacts of a run will be, with their directories held open since before the command started.
#[derive(Debug)]
pub struct Targets {
    targets: Vec<(&'static str, Result<Target, ArtifactError>)>,
    /// Who owns them.
    pub owner: Owner,
}

impl Targets {
    /// Opens the directories.
    pub fn prepare(request: &SandboxRequest) -> Self {
        let files = request.artifacts.files().into_iter();
        Self {
            targets: files.map(|(name, path)| (name, Target::prepare(path))).collect(),
            owner: request.owner,
        }
    }

    /// The target of that name, where the artifact was asked for.
    pub fn of(&self, name: &str) -> Option<&Result<Target, ArtifactError>> {
        self.targets.iter().find(|(known, _)| *known == name).map(|(_, target)| target)
    }

    /// Those that can not be written as it looks now.
    pub fn failures(&self) -> impl Iterator<Item = &ArtifactError> {
        self.targets.iter().filter_map(|(_, target)| target.as_ref().err())
    }

    /// Every artifact but the status file, which comes after all others.
    pub fn of_the_record(&self) -> impl Iterator<Item = (&'static str, &Result<Target, ArtifactError>)> {
        self.targets.iter().filter(|(name, _)| *name != "status").map(|(name, target)| (*name, target))
    }
}

/// What a recorder needs to know before the command starts.
#[derive(Debug)]
pub struct Arming<'a> {
    /// The run as asked for.
    pub request: &'a SandboxRequest,
    /// The run's group.
    pub group: &'a Group,
    /// Where streamed artifacts go.
    pub targets: &'a Targets,
}

/// What is known about a run when it is over.
#[derive(Debug)]
pub struct Ended<'a> {
    /// The run as asked for.
    pub request: &'a SandboxRequest,
    /// The process that was the command.
    pub pid: u32,
    /// How the command ended.
    pub child: ChildEnd,
    /// What became of the processes that outlived it.
    pub descendants: Fate,
    /// What was asked and not kept by the launch; sorted.
    pub degradations: Vec<Degradation>,
    /// Names of the environment variables that were removed.
    pub env_removed: Vec<Vec<u8>>,
    /// The private directory, which is gone by now.
    pub tmpdir: Option<PathBuf>,
    /// The caller's directory for temporary files.
    pub caller_tmpdir: PathBuf,
    /// The child's home, as its environment had it.
    pub home: Option<PathBuf>,
    /// Where the command started, as far as it has a name.
    pub workdir: Option<PathBuf>,
    /// When it started.
    pub started_at: SystemTime,
    /// From then until the end of the last descendant.
    pub duration: Duration,
}

/// What the record comes to.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Artifacts in their places.
    pub written: Vec<(&'static str, Written)>,
    /// Sentences about those that are not.
    pub unwritten: Vec<String>,
    /// Why the record is not whole.
    pub losses: Vec<String>,
    /// Effects that the policy does not authorise and nothing stopped.
    pub unauthorised: u64,
    /// Effects that the policy denied.
    pub denied: u64,
}

/// A record in the making. This build has no observer, so there is no value of it: every run is an unobserved one.
#[derive(Debug)]
pub enum Recorder {}

impl Recorder {
    /// Loads and arms the observer for the run's group.
    pub fn arm(_: &Arming) -> Result<Self, Unobservable> {
        Err(Unobservable {
            reason: "this build has no observer".into(),
            hint: "use a build of assay with its observer".into(),
        })
    }

    /// Tells the process that is about to become the command.
    pub fn expect_start_of(&mut self, _pid: u32) {
        match *self {}
    }

    /// Takes what was observed, for as long as it is polled. Returns only when the observer fails, with the reason.
    pub fn pump(&mut self) -> impl Future<Output = String> {
        match *self {}
        #[expect(unreachable_code, reason = "there is no value of this type")]
        std::future::pending()
    }
}

/// Writes every artifact that was asked for.
pub fn finish(recorder: Option<Recorder>, _ended: &Ended, targets: &Targets) -> Recorded {
    if let Some(recorder) = recorder {
        match recorder {}
    }
    let unwritten = |(name, target): (&str, &Result<Target, ArtifactError>)| match target {
        Ok(target) => format!("write {}: this build makes no {name}", target.path().display()),
        Err(error) => error.to_string(),
    };
    Recorded { unwritten: targets.of_the_record().map(unwritten).collect(), ..Recorded::default() }
}
