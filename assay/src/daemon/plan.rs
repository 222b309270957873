//! What the service is told, and why there may be none.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::activation::{ActivationError, Passed};
use super::entrance::EntranceError;
use super::limits::Limits;
use super::scrape::{Place, ScrapeError};
use crate::sandbox::cgroup::GroupError;
use crate::sandbox::user::UserError;
use crate::spool::SpoolError;

/// What the service is told.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where to listen.
    pub socket: PathBuf,
    /// Where the spool lies.
    pub spool: PathBuf,
    /// Whose members may connect.
    pub group: String,
    /// What one may take.
    pub limits: Limits,
    /// How long runs are waited for when it is told to stop.
    pub drain: Duration,
    /// Where metrics are to be had, if anywhere.
    pub metrics: Option<Place>,
    /// What a service manager says it passed.
    pub passed: Passed,
    /// `NOTIFY_SOCKET`
    pub notify: Option<OsString>,
    /// How often the manager wants to hear of us.
    pub alive_every: Option<Duration>,
}

/// Why there is no service.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Not root.
    #[error("serve: only root can load the programs and see other users' processes")]
    NotRoot,
    /// The socket.
    #[error(transparent)]
    Entrance(#[from] EntranceError),
    /// The socket of the metrics.
    #[error(transparent)]
    Metrics(#[from] ScrapeError),
    /// The socket that was passed.
    #[error(transparent)]
    Activation(#[from] ActivationError),
    /// The group whose members may.
    #[error(transparent)]
    Group(#[from] UserError),
    /// The control group of the runs.
    #[error(transparent)]
    Runs(#[from] GroupError),
    /// The spool.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The kernel half.
    #[error("{0}")]
    Load(String),
    /// What a loop takes.
    #[error("{action}: {source}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

pub(super) fn failed(action: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::Io { action, source }
}
