//! What a run makes on the host, and the promise that it is gone afterwards: the group, the private directory,
//! and the watchdog that removes both should we not live to do it.

use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::caller::Caller;
use super::cgroup::{Group, GroupError};
use super::members::{Descent, Members};
use super::outcome::NotStarted;
use super::spec::{LastWords, WatchSpec};
use super::tmpdir;
use super::watchdog::Watchdog;

/// How long the last processes of a group may take to be gone once they were killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a run has made on the host. Dropped, it is cleared.
#[derive(Debug)]
pub struct Stage {
    group: Result<Group, GroupError>,
    tmpdir: Option<PathBuf>,
    scratch: Option<PathBuf>,
    watchdog: Option<Watchdog>,
    was_watched: bool,
}

impl Stage {
    /// Makes all of it. Without a group the run goes on, with less: see [`group`](Self::group).
    pub fn set_up(
        caller: &Caller,
        tmpdir_bases: Option<&[PathBuf]>,
        scratch_bases: &[PathBuf],
        owner: Option<(u32, u32)>,
        last_words: LastWords,
    ) -> Result<Self, NotStarted> {
        let mut stage = Self {
            group: make_group(caller),
            tmpdir: None,
            scratch: None,
            watchdog: None,
            was_watched: true,
        };
        // The watchdog learns the name first and the directory is made second, so that none is ever left behind.
        if let Some(bases) = tmpdir_bases {
            let chosen = tmpdir::choose(bases);
            stage.tmpdir =
                Some(chosen.map_err(|e| NotStarted::Failed(format!("make a private TMPDIR: {e}")))?);
        }
        // Without one, there are no placeholders.
        stage.scratch = tmpdir::choose(scratch_bases).ok();
        let spec = WatchSpec {
            group: stage.group.as_ref().ok().map(|group| group.directory().to_owned()),
            tmpdir: stage.tmpdir.clone(),
            scratch: stage.scratch.clone(),
            last_words,
        };
        let watchdog = Watchdog::spawn(&spec);
        stage.watchdog = Some(watchdog.map_err(|e| NotStarted::Failed(format!("start the watchdog: {e}")))?);
        if let Some(path) = &stage.tmpdir {
            let made = tmpdir::create(path, owner);
            made.map_err(|e| NotStarted::Failed(format!("make {}: {e}", path.display())))?;
        }
        stage.scratch = stage.scratch.take().filter(|path| tmpdir::create(path, None).is_ok());
        Ok(stage)
    }

    /// The run's group, or why there is none.
    pub fn group(&self) -> Result<&Group, &GroupError> {
        self.group.as_ref()
    }

    /// Where the processes of the run are found.
    pub fn members(&self) -> Result<Members, NotStarted> {
        if let Ok(group) = &self.group {
            return Ok(Members::Group(group.clone()));
        }
        let helpers = self.watchdog.iter().map(Watchdog::pid).collect();
        let descent = Descent::claim(helpers);
        descent
            .map(Members::Descent)
            .map_err(|error| NotStarted::Failed(format!("take in the orphans of the command: {error}")))
    }

    /// The child's private directory, unless it was not to have one.
    pub fn tmpdir(&self) -> Option<&Path> {
        self.tmpdir.as_deref()
    }

    /// An empty directory for what placeholders need, of no use to the child.
    pub fn scratch(&self) -> Option<&Path> {
        self.scratch.as_deref()
    }

    /// Waits until the watchdog stands.
    pub fn wait_ready(&mut self) -> Result<(), NotStarted> {
        match self.watchdog.as_mut().map_or(Ok(()), Watchdog::wait_ready) {
            Ok(()) => Ok(()),
            Err(error) => Err(NotStarted::Failed(format!("start the watchdog: {error}"))),
        }
    }

    /// Tells the watchdog that the trace is in its place.
    pub fn announce_trace(&mut self) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.announce_trace();
        }
    }

    /// The line from an heir to the watchdog, and what an heir must not hold: our lines to the others.
    pub fn take_line(&mut self, launcher: RawFd) -> (Option<UnixStream>, Vec<RawFd>) {
        match self.watchdog.as_mut().map(Watchdog::take_line) {
            Some((line, stream)) => (line, vec![launcher, stream]),
            None => (None, vec![launcher]),
        }
    }

    /// What an heir does in the place of the watchdog, should that be gone too: ends the run and removes what is left.
    /// True when nobody of the run is left, as far as a group can tell.
    pub fn clear_for_heir(&self) -> bool {
        let is_over = self.group.as_ref().is_ok_and(|group| group.kill_and_wait(PATIENCE));
        if let Ok(group) = &self.group {
            drop(group.remove());
        }
        for path in [&self.tmpdir, &self.scratch].into_iter().flatten() {
            drop(tmpdir::remove(path));
        }
        is_over
    }

    /// Whether the watchdog stood all the time.
    pub fn was_watched(&mut self) -> bool {
        if let Some(watchdog) = &mut self.watchdog {
            self.was_watched &= watchdog.is_alive();
        }
        self.was_watched
    }

    /// Removes all of it; a sentence for each thing that stays.
    pub fn clear(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        if let Ok(group) = &self.group {
            let directory = group.directory().display();
            if group.is_populated() && !group.kill_and_wait(PATIENCE) {
                left.push(format!("remove {directory}: processes in it do not end"));
            } else if let Err(error) = group.remove() {
                left.push(format!("remove {directory}: {error}"));
            }
        }
        for path in [self.tmpdir.take(), self.scratch.take()].into_iter().flatten() {
            let Err(error) = tmpdir::remove(&path) else { continue };
            left.push(format!("remove {}: {error}", path.display()));
        }
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss();
        }
        left
    }
}

fn make_group(caller: &Caller) -> Result<Group, GroupError> {
    match caller.client() {
        None => Group::create(),
        Some(client) => Group::create_in(client.groups()),
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // After `clear` there is nothing left to do; on the way out of a failure nobody is left to tell. In a panic the
        // watchdog clears, and sees to it that the status is written, as for an observer that was killed.
        if self.watchdog.is_some() && !std::thread::panicking() {
            self.clear();
        }
    }
}
