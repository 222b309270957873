//! A run in progress: its directory is written into by whoever makes the artifacts, and then committed.
//!
//! The order of a commit is such that it can stop anywhere. The files are on the disk before the entry that names them is
//! written; the entry is on the disk before the directory is moved. So a run is in the chain wholly or not at all, and
//! [`recover`](super::recover) finds in `open` what to finish.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::begun::{self, Begin};
use super::chain::Head;
use super::directory::{Directory, Synced};
use super::entry::{Body, Files, Run, Summary, is_file_name};
use super::error::SpoolError;
use super::store::{OPEN, RUNS, Spool};
use crate::canon::digest::Digest;
use crate::evidence::timestamp::Timestamp;

/// A run in progress.
#[derive(Debug)]
pub struct Staging {
    spool: Spool,
    begin: Begin,
    name: String,
    path: PathBuf,
    directory: Directory,
    /// The entry, once it was written.
    written: Option<Head>,
}

/// A run that is in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The place of its entry.
    pub seq: u64,
    /// Of the entry's line.
    pub sha256: Digest,
    /// Where its files are.
    pub directory: PathBuf,
    /// Why the host's key did not sign the line, where it should have. The next signature vouches for it too.
    pub unsigned: Option<String>,
}

/// What a commit has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The files are on the disk.
    FilesSynced,
    /// No other process appends.
    Locked,
    /// The entry is written.
    Written,
    /// The entry is on the disk.
    Synced,
    /// The host's key, where there is one, signed it.
    Signed,
    /// The directory is where it stays.
    Settled,
    /// That is on the disk.
    Done,
}

#[cfg(test)]
impl Step {
    pub(super) const ALL: [Self; 7] = [
        Self::FilesSynced,
        Self::Locked,
        Self::Written,
        Self::Synced,
        Self::Signed,
        Self::Settled,
        Self::Done,
    ];
}

impl Spool {
    /// Begins a run.
    pub fn begin(&self, begin: &Begin) -> Result<Staging, SpoolError> {
        let inner = &self.inner;
        let begin = begin.clone().bounded();
        // Until the lock goes nobody takes a directory that has no note yet for one that was left.
        let _lock = inner.open.lock().map_err(|error| self.failed("lock `open`", error))?;
        let name =
            self.make_staging(&begin).map_err(|error| self.failed("make a directory in `open`", error))?;
        let made = inner.open.open_directory(&name).and_then(|directory| {
            directory.write_new(begun::FILE, begun::to_json(&begin).as_bytes())?;
            Ok(directory)
        });
        match made {
            Ok(directory) => {
                let path = inner.path.join(OPEN).join(&name);
                Ok(Staging { spool: self.clone(), begin, name, path, directory, written: None })
            }
            Err(error) => {
                drop(inner.open.remove(&name));
                Err(self.failed(&format!("write {name}/{}", begun::FILE), error))
            }
        }
    }

    /// A new directory, called by when the run began and who writes it: a name that no run has or had.
    fn make_staging(&self, begin: &Begin) -> io::Result<String> {
        let moment: String = begin.time.to_string().chars().filter(char::is_ascii_alphanumeric).collect();
        for attempt in 0..10_000u32 {
            let name = format!("{moment}-{}-{attempt}", begin.writer.pid);
            if self.inner.runs.stat(&name)?.is_none() && self.inner.open.make_directory(&name)? {
                return Ok(name);
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Staging {
    /// Where the files of the run are to be written: names of ASCII letters, digits, `.`, `_` and `-`.
    pub fn directory(&self) -> &Path {
        &self.path
    }

    /// The name of that directory, which it keeps.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts the run into the chain. After an error nothing is lost: it can be called again, or be left to
    /// [`Spool::recover`].
    pub fn commit(&mut self, summary: Summary, now: Timestamp) -> Result<Committed, SpoolError> {
        self.commit_by_steps(summary, now, &mut |_| Ok(()))
    }

    /// The same, with somebody who may stop it behind each step, as a crash would.
    pub(super) fn commit_by_steps(
        &mut self,
        summary: Summary,
        now: Timestamp,
        behind: &mut dyn FnMut(Step) -> Result<(), SpoolError>,
    ) -> Result<Committed, SpoolError> {
        let spool = self.spool.clone();
        let files = self.measure()?;
        behind(Step::FilesSynced)?;
        let chain = spool.lock_chain()?;
        behind(Step::Locked)?;
        let head = if let Some(head) = self.written {
            head
        } else {
            self.refuse_taken()?;
            let run = Run {
                user: self.begin.user.clone(),
                begun_at: self.begin.time,
                directory: self.name.clone(),
                files,
                summary: summary.bounded(),
            };
            *self.written.insert(spool.write(&chain, Body::Run(Box::new(run)), now)?)
        };
        behind(Step::Written)?;
        chain.sync().map_err(|error| spool.failed("write the chain", error))?;
        behind(Step::Synced)?;
        let unsigned = spool.sign(head).err().map(|error| error.to_string());
        behind(Step::Signed)?;
        if self.is_in_open()? {
            spool.settle(&self.name)?;
        }
        behind(Step::Settled)?;
        drop(chain);
        spool.sync_places()?;
        behind(Step::Done)?;
        let directory = spool.inner.path.join(RUNS).join(&self.name);
        Ok(Committed { seq: head.seq, sha256: head.sha256, directory, unsigned })
    }

    /// Removes it: nothing of the run is kept, and the chain says nothing of it.
    pub fn discard(self) -> Result<(), SpoolError> {
        let inner = &self.spool.inner;
        let _lock = inner.open.lock().map_err(|error| self.spool.failed("lock `open`", error))?;
        inner
            .open
            .remove(&self.name)
            .map_err(|error| self.spool.failed(&format!("remove {}", self.name), error))
    }

    /// What lies in the directory, once all of it is on the disk.
    fn measure(&self) -> Result<Files, SpoolError> {
        let failed = |name: &str, error| self.spool.failed(&format!("read {}/{name}", self.name), error);
        let mut files = Files::new();
        for name in self.directory.names().map_err(|error| failed("", error))? {
            let name = match name {
                Ok(name) if is_leftover(&name) => {
                    self.directory.remove(&name).map_err(|error| failed(&name, error))?;
                    continue;
                }
                Ok(name) if is_file_name(&name) => name,
                Ok(name) => return Err(self.foreign(crate::evidence::integrity::shown(name.as_bytes()))),
                Err(escaped) => return Err(self.foreign(escaped)),
            };
            let facts = self.directory.measure(&name, Synced::Yes).map_err(|error| failed(&name, error))?;
            files.insert(name, facts);
        }
        self.directory.sync().map_err(|error| failed("", error))?;
        Ok(files)
    }

    fn foreign(&self, name: String) -> SpoolError {
        SpoolError::Foreign { directory: self.name.clone(), name, spool: self.spool.inner.path.clone() }
    }

    fn refuse_taken(&self) -> Result<(), SpoolError> {
        if self.is_in_open()? {
            return Ok(());
        }
        Err(SpoolError::Taken { directory: self.name.clone(), spool: self.spool.inner.path.clone() })
    }

    /// Whether what has our name in `open` is the directory that we hold.
    fn is_in_open(&self) -> Result<bool, SpoolError> {
        let look = || {
            let (ours, named) = (self.directory.own_stat()?, self.spool.inner.open.stat(&self.name)?);
            Ok(named.is_some_and(|named| {
                FileType::from_raw_mode(named.st_mode) == FileType::Directory
                    && (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)
            }))
        };
        look().map_err(|error| self.spool.failed(&format!("look at {}", self.name), error))
    }
}

/// What a writer of artifacts, or we, had not yet renamed when it was stopped.
pub(super) fn is_leftover(name: &str) -> bool {
    name.starts_with('.') && name.strip_suffix(".tmp").is_some()
}
