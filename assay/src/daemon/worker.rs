//! What the service gives the process of one connection, and what that process owes it.
//!
//! A worker is a copy of the service, made by `fork`, with one thread and every signal blocked. It holds its connection, the
//! programs, and its end of the pipe for reports, nothing of other runs and not the listening socket. It goes on when the
//! service dies. From the service it gets signals:
//!
//! * SIGTERM: end the run by its group, write what there is of the record, say so in it, report, and exit.
//! * SIGKILL: never but when it took too long over that.
//!
//! Its place is free again when it has been waited for **and** every copy of its end of the pipe is closed, so that an heir
//! of its observer, which has a copy, keeps it. A place that becomes free without [`Report::Finished`] or
//! [`Report::Refused`] is taken for one whose worker died: the groups it made are ended and its record is recovered.

use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::OFlags;

use super::metrics::ProgramTime;
use super::peer::Peer;
use super::report::{MOST_BYTES, Report};
use crate::exit::Exit;
use crate::host::mountinfo::OwnGroup;

/// The work of one connection.
#[derive(Debug)]
pub struct Assignment {
    /// The connection.
    pub line: UnixStream,
    /// Who connected, and may.
    pub peer: Peer,
    /// The run's place in the kernel half, which no other living worker of this service has.
    pub slot: u32,
    /// Beneath it the run's group is made.
    pub groups_parent: OwnGroup,
    /// Where the spool lies.
    pub spool: PathBuf,
    /// Where to report.
    pub report: Reporter,
    /// What it must keep to.
    pub bounds: Bounds,
}

/// What a worker must keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// So long it waits for a request.
    pub silence: Duration,
    /// So many bytes its user has left in the spool.
    pub spool_bytes: u64,
}

/// What the service is given: the programs it loaded, and what is done with connections.
#[derive(Debug)]
pub struct Served<S> {
    /// Loaded once; each worker has a copy.
    pub shared: S,
    /// How many places the kernel half has.
    pub slots: u32,
    /// What a worker does.
    pub work: fn(S, Assignment) -> Exit,
    /// Makes a place as new, when nothing is left of the worker that had it. A place with which that fails is not given again.
    pub clear: fn(&mut S, u32) -> Result<(), String>,
    /// Tells one line to who connected and is not served. It must not block.
    pub refuse: fn(&UnixStream, &str),
    /// How much the programs ran; nothing where the kernel does not measure it.
    pub times: fn(&S) -> Vec<ProgramTime>,
}

/// Our end of the pipe to the service.
#[derive(Debug)]
pub struct Reporter(PipeWriter);

impl Reporter {
    /// A pipe, of which neither end ever blocks.
    pub fn pair() -> io::Result<(PipeReader, Self)> {
        let (ours, theirs) = io::pipe()?;
        rustix::fs::fcntl_setfl(&ours, OFlags::NONBLOCK)?;
        rustix::fs::fcntl_setfl(&theirs, OFlags::NONBLOCK)?;
        Ok((ours, Self(theirs)))
    }

    /// Reports. An error is no reason to stop: the service may be gone, or, with [`io::ErrorKind::WouldBlock`], not get round
    /// to reading; [`Report::Progress`] may be dropped then, anything else tried again.
    pub fn report(&self, report: &Report) -> io::Result<()> {
        let line = report.to_line();
        debug_assert!(line.len() <= MOST_BYTES, "each part of a report has a bound");
        // Whole or not at all, up to PIPE_BUF.
        (&self.0).write_all(line.as_bytes())
    }
}
