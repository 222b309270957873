//! The spool as a place: its directory is opened, checked and held open; the parts that write and read are beside it.

use std::fs::{DirBuilder, File};
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{OFlags, Stat};

use super::append::{AppendError, CHAIN, LockedChain};
use super::chain::{Head, Walk, Walked};
use super::directory::Directory;
use super::entry::wire::LineReader;
use super::entry::{Body, Entry, MOST_BYTES};
use super::error::SpoolError;
use super::lines::{Line, Lines};
use super::usage::Accounts;
use crate::canon::digest::Digest;
use crate::evidence::timestamp::Timestamp;

/// The directory of runs in progress.
pub const OPEN: &str = "open";
/// The directory of runs that ended.
pub const RUNS: &str = "runs";

/// The lines of a chain that is only read.
pub(super) type ChainLines = Lines<BufReader<File>>;

/// A spool.
#[derive(Debug, Clone)]
pub struct Spool {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    /// Where it is, for messages and for who writes into a staging directory.
    pub(super) path: PathBuf,
    pub(super) root: Directory,
    pub(super) open: Directory,
    pub(super) runs: Directory,
    pub(super) accounts: Mutex<Accounts>,
}

impl Spool {
    /// Opens a spool, and makes what of it is not there; its parent must be. The time is for the chain's first entry.
    pub fn create(path: &Path, now: Timestamp) -> Result<Self, SpoolError> {
        let failed =
            |attempt: &str, source| SpoolError::Io { attempt: attempt.into(), spool: path.into(), source };
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("make the directory", error));
            }
            Ok(()) | Err(_) => {}
        }
        let root = open_root(path)?;
        for name in [OPEN, RUNS] {
            root.make_directory(name).map_err(|error| failed(&format!("make {name}"), error))?;
        }
        drop(root);
        let spool = Self::open(path)?;
        // One that cannot be used is told now, not after the first run.
        spool.host_key()?;
        let chain = spool.lock_chain()?;
        if chain.is_empty().map_err(|error| spool.failed("read the chain", error))? {
            let found = spool.count_runs().map_err(|error| spool.failed("read runs", error))?;
            let body = if found == 0 { Body::Begun } else { Body::BegunAnew { found } };
            spool.append(&chain, body, now)?;
            spool.inner.root.sync().map_err(|error| spool.failed("write the directory", error))?;
        }
        Ok(spool)
    }

    /// Opens a spool that is there.
    pub fn open(path: &Path) -> Result<Self, SpoolError> {
        let failed =
            |attempt: &str, source| SpoolError::Io { attempt: attempt.into(), spool: path.into(), source };
        let root = open_root(path)?;
        let open = root.open_directory(OPEN).map_err(|error| failed("open the directory `open`", error))?;
        let runs = root.open_directory(RUNS).map_err(|error| failed("open the directory `runs`", error))?;
        for (name, directory) in [(OPEN, &open), (RUNS, &runs)] {
            let stat = directory.own_stat().map_err(|error| failed("look at a directory", error))?;
            refuse_of_others(&stat, &path.join(name))?;
        }
        let accounts = Mutex::new(Accounts::default());
        Ok(Self { inner: Arc::new(Inner { path: path.to_owned(), root, open, runs, accounts }) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Goes through the chain from its beginning, handing on every line with its entry, where it is one. A line that is
    /// wanted must be among them.
    pub fn walk(
        &self,
        wanted: Option<Digest>,
        mut visit: impl FnMut(&Line<'_>, Option<Entry>),
    ) -> Result<Walked, SpoolError> {
        let mut walk = Walk::new(wanted);
        if let Some((_, mut lines)) = self.chain_from(0)? {
            while let Some(line) = lines.read().map_err(|error| self.failed("read the chain", error))? {
                let entry = walk.add(&line);
                visit(&line, entry);
            }
        }
        Ok(walk.finish())
    }

    /// The chain for reading from this place on, and what it is; nothing where there is none.
    pub(super) fn chain_from(&self, offset: u64) -> Result<Option<(Stat, ChainLines)>, SpoolError> {
        let failed = |error| self.failed("open the chain", error);
        let mut file = match self.inner.root.open_file(CHAIN, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let stat = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        Ok(Some((stat, Lines::new(BufReader::with_capacity(1 << 16, file), offset))))
    }

    /// A reader of single entries; nothing where there is no chain.
    pub(super) fn entry_reader(&self) -> Result<Option<EntryReader>, SpoolError> {
        match self.inner.root.open_file(CHAIN, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("open the chain", error)),
            Ok(file) => Ok(Some(EntryReader { file, lines: LineReader::default() })),
        }
    }

    pub(super) fn lock_chain(&self) -> Result<LockedChain, SpoolError> {
        LockedChain::lock(&self.inner.root).map_err(|error| self.failed("lock the chain", error))
    }

    /// Writes an entry and waits for the disk.
    pub(super) fn append(&self, chain: &LockedChain, body: Body, now: Timestamp) -> Result<Head, SpoolError> {
        let head = self.write(chain, body, now)?;
        chain.sync().map_err(|error| self.failed("write the chain", error))?;
        self.sign(head)?;
        Ok(head)
    }

    /// Writes an entry; who calls waits for the disk.
    pub(super) fn write(&self, chain: &LockedChain, body: Body, now: Timestamp) -> Result<Head, SpoolError> {
        chain.write(body, now, || self.count_runs()).map_err(|error| match error {
            AppendError::Io(error) => self.failed("append to the chain", error),
            AppendError::Length(bytes) => SpoolError::Length { bytes, spool: self.inner.path.clone() },
        })
    }

    fn count_runs(&self) -> io::Result<u64> {
        Ok(self.inner.runs.names()?.len() as u64)
    }

    /// Puts the directory of a run where those that ended are.
    pub(super) fn settle(&self, directory: &str) -> Result<(), SpoolError> {
        let inner = &self.inner;
        let moved = inner.open.rename(directory, &inner.runs, directory);
        moved.map_err(|error| self.failed(&format!("move {directory} to `{RUNS}`"), error))
    }

    /// Where the files of a run are, or were.
    pub fn directory_of(&self, entry: &Entry) -> PathBuf {
        let name = entry.body.place().map(|(directory, _)| directory).unwrap_or_default();
        // It is in the chain before it is moved.
        let is_in_open = || matches!(self.inner.open.stat(name), Ok(Some(_)));
        let is_moved = matches!(self.inner.runs.stat(name), Ok(Some(_))) || !is_in_open();
        self.inner.path.join(if is_moved { RUNS } else { OPEN }).join(name)
    }

    /// Waits until it is on the disk which directories are where.
    pub(super) fn sync_places(&self) -> Result<(), SpoolError> {
        let synced = self.inner.runs.sync().and_then(|()| self.inner.open.sync());
        synced.map_err(|error| self.failed("write a directory", error))
    }

    pub(super) fn failed(&self, attempt: &str, source: io::Error) -> SpoolError {
        SpoolError::Io { attempt: attempt.into(), spool: self.inner.path.clone(), source }
    }
}

/// Reads single entries of a chain.
#[derive(Debug)]
pub(super) struct EntryReader {
    file: File,
    lines: LineReader,
}

impl EntryReader {
    /// The entry of a line that begins here and has so many bytes, with its digest; nothing where there is no such line.
    pub(super) fn read(&self, offset: u64, length: usize) -> Option<(Entry, Digest)> {
        if length > MOST_BYTES {
            return None;
        }
        let mut line = vec![0; length];
        self.file.read_exact_at(&mut line, offset).ok()?;
        Some((self.lines.read(&line).ok()?, Digest::of(&line)))
    }
}

fn open_root(path: &Path) -> Result<Directory, SpoolError> {
    let failed = |source| SpoolError::Io { attempt: "open the directory".into(), spool: path.into(), source };
    let root = Directory::open(path).map_err(failed)?;
    refuse_of_others(&root.own_stat().map_err(failed)?, path)?;
    Ok(root)
}

/// A directory that another user owns or may write to holds whatever that user wants.
fn refuse_of_others(stat: &Stat, path: &Path) -> Result<(), SpoolError> {
    let refuse = |why: String| Err(SpoolError::NotOurs { spool: path.into(), why });
    let ourselves = rustix::process::geteuid().as_raw();
    if stat.st_uid != ourselves && stat.st_uid != 0 {
        return refuse(format!("it belongs to user {}, and we are {ourselves}", stat.st_uid));
    }
    if stat.st_mode & 0o022 != 0 {
        return refuse(format!("others may write to it (mode {:04o})", stat.st_mode & 0o7777));
    }
    Ok(())
}
