//! Where the artifacts of a run will be.

use super::artifact::{ArtifactError, Owner, Target};
use super::request::SandboxRequest;

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

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &Result<Target, ArtifactError>)> {
        self.targets.iter().map(|(name, target)| (*name, target))
    }

    /// Every artifact but the status file, which comes after all others.
    pub fn of_the_record(&self) -> impl Iterator<Item = (&'static str, &Result<Target, ArtifactError>)> {
        self.targets.iter().filter(|(name, _)| *name != "status").map(|(name, target)| (*name, target))
    }
}
