//! What can go wrong with a spool as a place.

use std::io;
use std::path::PathBuf;

/// Why something with the spool was not done.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// A system call failed.
    #[error("{attempt} in {}: {source}", spool.display())]
    Io {
        /// What was attempted, on what.
        attempt: String,
        /// The spool.
        spool: PathBuf,
        /// Why it was not done.
        source: io::Error,
    },
    /// The directory is not one whose contents only we and root decide.
    #[error("open the spool {}: {why}", spool.display())]
    NotOurs {
        /// The spool.
        spool: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Somebody closed the run in its writer's place.
    #[error("commit {directory} in {}: it was closed as lost, or removed", spool.display())]
    Taken {
        /// The name of the run's directory.
        directory: String,
        /// The spool.
        spool: PathBuf,
    },
    /// Something lies in the staging directory that is no file of a run.
    #[error("commit {directory} in {}: {name} is no file of a run", spool.display())]
    Foreign {
        /// The name of the run's directory.
        directory: String,
        /// What it is called, escaped.
        name: String,
        /// The spool.
        spool: PathBuf,
    },
    /// The entry would be longer than a line may be.
    #[error("append to the chain of {}: the entry has {bytes} bytes", spool.display())]
    Length {
        /// How many it has.
        bytes: usize,
        /// The spool.
        spool: PathBuf,
    },
}

impl SpoolError {
    /// Whether the disk, or the share of it that we may use, is full.
    pub fn is_full(&self) -> bool {
        let is_full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        matches!(self, Self::Io { source, .. } if is_full(source.kind()))
    }
}
