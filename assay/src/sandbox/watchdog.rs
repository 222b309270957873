//! The process that ends the run when the observer dies: no unobserved run goes on.
//!
//! It is outside the run's group, in a session of its own, holds nothing of the caller's open, and knows two
//! paths. When the stream closes without a word it kills the group, removes it and the private directory.

use std::io::{self, Read as _, Write as _};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitCode};
use std::time::Duration;

use super::cgroup::Group;
use super::reexec::{self, Role};
use super::spec::WatchSpec;
use super::{descriptors, signals, tmpdir};

/// Says "I am ready".
const READY: u8 = b'r';
/// Says "all is cleaned up, go".
const DISMISSED: u8 = b'd';
/// How long a process that was killed may take to be gone, for example in uninterruptible input or output.
const PATIENCE: Duration = Duration::from_secs(60);

/// Our end of a running watchdog.
#[derive(Debug)]
pub struct Watchdog {
    process: Child,
    stream: UnixStream,
}

impl Watchdog {
    /// Starts one. It is not ready before [`wait_ready`](Self::wait_ready) returns.
    pub fn spawn(spec: &WatchSpec) -> io::Result<Self> {
        let (process, mut stream) = reexec::spawn(Role::Watchdog)?;
        spec.send(&mut stream)?;
        Ok(Self { process, stream })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until it can no longer be ended by what ends us.
    pub fn wait_ready(&mut self) -> io::Result<()> {
        let mut word = [0u8; 1];
        self.stream.read_exact(&mut word)?;
        if word[0] == READY { Ok(()) } else { Err(io::Error::from(io::ErrorKind::InvalidData)) }
    }

    /// Whether it still runs. One that does not was killed by somebody.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Lets it go without cleaning up, and waits for its end.
    pub fn dismiss(mut self) {
        // It may have been killed; then there is nobody to tell.
        drop(self.stream.write_all(&[DISMISSED]));
        drop(self.process.wait());
    }
}

/// Runs this process as the watchdog.
pub fn run(number: RawFd) -> ExitCode {
    match watch(number) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn watch(number: RawFd) -> io::Result<()> {
    signals::ignore_all()?;
    descriptors::close_all_but(number);
    let mut stream = UnixStream::from(descriptors::take(number)?);
    // We were just forked, so we lead no group and this succeeds.
    rustix::process::setsid()?;
    std::env::set_current_dir("/")?;
    // A name for `ps`; without it the kernel shows `exe`.
    rustix::thread::set_name(c"assay-watchdog").ok();
    let spec = WatchSpec::receive(&mut stream)?;
    // Who is not there to read it has died already.
    drop(stream.write_all(&[READY]));

    let mut word = [0u8; 1];
    if stream.read_exact(&mut word).is_ok() && word[0] == DISMISSED {
        return Ok(());
    }
    if let Some(directory) = spec.group {
        let group = Group::adopt(directory);
        group.kill_and_wait(PATIENCE);
        drop(group.remove());
    }
    spec.tmpdir.map_or(Ok(()), |directory| tmpdir::remove(&directory))
}
