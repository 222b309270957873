//! Where the artifacts of a run will be.

use std::fs::File;
use std::path::PathBuf;

use super::artifact::{ArtifactError, Owner, Target};
use super::caller::Caller;
use super::request::SandboxRequest;
use super::streamed::Stream;

/// Where the artifacts of a run will be, with their directories held open since before the command started.
#[derive(Debug)]
pub struct Targets {
    named: Vec<(&'static str, Result<Target, ArtifactError>)>,
    given: Vec<(&'static str, PathBuf, File)>,
    /// Who owns them.
    pub owner: Owner,
}

impl Targets {
    /// Opens the directories.
    pub fn prepare(request: &SandboxRequest, caller: &Caller) -> Self {
        let mut targets = Self { named: Vec::new(), given: Vec::new(), owner: request.owner };
        for (name, path) in request.artifacts.files() {
            match caller.client().and_then(|client| client.stream(name)) {
                None => targets.named.push((name, Target::prepare(path))),
                Some(fd) => match fd.try_clone() {
                    Ok(fd) => targets.given.push((name, path.to_owned(), File::from(fd))),
                    Err(source) => {
                        let error = ArtifactError { path: path.to_owned(), source };
                        targets.named.push((name, Err(error)));
                    }
                },
            }
        }
        targets
    }

    /// What is written while the run lasts, begun anew; `None` where it was not asked for or cannot be.
    pub fn stream(&self, name: &str) -> Option<Stream> {
        if let Some((_, path, file)) = self.given.iter().find(|(known, ..)| *known == name) {
            return Some(Stream::over(path, file.try_clone()));
        }
        let target = self.of(name)?.as_ref().ok()?;
        Some(Stream::open(target, self.owner))
    }

    /// The target of that name, where the artifact was asked for.
    pub fn of(&self, name: &str) -> Option<&Result<Target, ArtifactError>> {
        self.named.iter().find(|(known, _)| *known == name).map(|(_, target)| target)
    }

    /// Those that can not be written as it looks now.
    pub fn failures(&self) -> impl Iterator<Item = &ArtifactError> {
        self.named.iter().filter_map(|(_, target)| target.as_ref().err())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &Result<Target, ArtifactError>)> {
        self.named.iter().map(|(name, target)| (*name, target))
    }

    /// Every artifact but the status file, which comes after all others.
    pub fn of_the_record(&self) -> impl Iterator<Item = (&'static str, &Result<Target, ArtifactError>)> {
        self.named.iter().filter(|(name, _)| *name != "status").map(|(name, target)| (*name, target))
    }
}
