//! The process that writes the artifacts of a run whose observer was killed.
//!
//! A copy of the observer, made just before the command starts: it has the kernel half, the ring, the directories of the
//! artifacts and everything that is known of the run, and reads nothing for as long as the observer lives. What the
//! observer read it finds in the [`Spool`](super::spool::Spool), what it had not read in the ring. It is in a session of
//! its own and outside the run's group; the command can end it no more than it can end the watchdog.

use std::io::{self, Read as _, Write as _};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, Signal, WaitOptions};

use super::outcome::ChildEnd;
use super::{descriptors, fork, signals};

/// Says that an heir has written everything, the status file too.
const DONE: u8 = b'w';

/// Our end of a process that stands by.
#[derive(Debug)]
pub struct Heir {
    pid: Pid,
    stream: UnixStream,
}

/// Which of the two a process is after the split.
#[derive(Debug)]
pub enum Side {
    /// The observer, as before.
    Observer(Heir),
    /// The copy.
    Heir(Vigil),
}

/// The copy's view of the process it was made from.
#[derive(Debug)]
pub struct Vigil {
    observer: UnixStream,
    watchdog: Option<UnixStream>,
}

impl Heir {
    /// Splits this process. `watchdog` is where the copy tells that it is there and when it is done; the copy closes
    /// `others`, by whose end others are to notice that the observer is gone.
    pub fn split(mut watchdog: Option<UnixStream>, others: &[RawFd]) -> io::Result<Side> {
        let (ours, theirs) = UnixStream::pair()?;
        if let Some(pid) = fork::fork()? {
            return Ok(Side::Observer(Self { pid, stream: ours }));
        }
        drop(ours);
        descriptors::close_inherited(others);
        descriptors::let_go_of_stdio();
        descriptors::let_go_of_stderr();
        // Nothing but SIGKILL ends it before its time.
        signals::ignore_all().ok();
        rustix::process::setsid().ok();
        rustix::thread::set_name(c"assay-heir").ok();
        if let Some(line) = &mut watchdog {
            line.write_all(&std::process::id().to_le_bytes()).ok();
        }
        Ok(Side::Heir(Vigil { observer: theirs, watchdog }))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Tells it how the command ended, which only its parent process can know.
    pub fn tell(&self, child: ChildEnd) {
        let (kind, value) = match child {
            ChildEnd::Exited(code) => (0, code),
            ChildEnd::Signalled(number) => (1, number as u8),
            ChildEnd::TimedOut => (2, 0),
        };
        // It may have been killed; then there is nobody to tell.
        (&self.stream).write_all(&[kind, value]).ok();
    }
}

impl Drop for Heir {
    /// The run is over and written: nothing is left to inherit. It is killed and not asked, for it may have been stopped.
    fn drop(&mut self) {
        // Then we are about to end without having written anything, and it is wanted.
        if std::thread::panicking() {
            return;
        }
        rustix::process::kill_process(self.pid, Signal::KILL).ok();
        while let Err(rustix::io::Errno::INTR) =
            rustix::process::waitpid(Some(self.pid), WaitOptions::empty())
        {}
    }
}

impl Vigil {
    /// Returns when the observer is dead. How the command had ended, as far as that was known.
    pub fn keep(&mut self) -> Option<ChildEnd> {
        let mut told = None;
        let mut word = [0u8; 2];
        while self.observer.read_exact(&mut word).is_ok() {
            told = match word {
                [0, code] => Some(ChildEnd::Exited(code)),
                [1, number] => Some(ChildEnd::Signalled(i32::from(number))),
                _ => Some(ChildEnd::TimedOut),
            };
        }
        told
    }

    /// Tells the watchdog that nothing is left for it to say, and ends this process.
    pub fn done(mut self) -> ! {
        if let Some(line) = &mut self.watchdog {
            line.write_all(&[DONE]).ok();
        }
        fork::end()
    }
}

/// The watchdog's view: whether there was an heir and it has written everything. One that takes longer than `patience`
/// is ended.
pub fn wait_for(mut line: UnixStream, patience: std::time::Duration) -> bool {
    let mut pid = [0u8; 4];
    if line.read_exact(&mut pid).is_err() {
        return false;
    }
    line.set_read_timeout(Some(patience)).ok();
    let mut word = [0u8; 1];
    match line.read_exact(&mut word) {
        Ok(()) => word[0] == DONE,
        Err(error) => {
            // Its end of the line is open, so it is there, and the number is its.
            if let (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, Some(pid)) =
                (error.kind(), Pid::from_raw(i32::from_le_bytes(pid)))
            {
                rustix::process::kill_process(pid, Signal::KILL).ok();
            }
            false
        }
    }
}
