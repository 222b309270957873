//! Closes what writers left that died: runs that are in the chain are put in their place, others are recorded as lost,
//! with what files there are.

use std::collections::BTreeMap;

use super::begun::{self, Writer};
use super::chain::Walk;
use super::directory::{Directory, Synced};
use super::entry::{Body, Files, Lost, is_file_name};
use super::error::SpoolError;
use super::staging::is_leftover;
use super::store::Spool;
use crate::evidence::integrity::Limits;
use crate::evidence::timestamp::Timestamp;
use crate::evidence::verify::verify;

/// What was found and closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// The run was in the chain; its directory is in its place now.
    Settled {
        /// The place of its entry.
        seq: u64,
    },
    /// The run is in the chain now, as lost.
    Lost {
        /// The place of its entry.
        seq: u64,
        /// What the entry says.
        lost: Box<Lost>,
    },
    /// The run had not begun: a directory with nothing in it was removed.
    Removed {
        /// What it was called.
        directory: String,
    },
}

impl Spool {
    /// Closes what is in `open` and has no writer any more. Calling it again, or twice at once, changes nothing more.
    pub fn recover(
        &self,
        now: Timestamp,
        is_alive: &dyn Fn(&Writer) -> bool,
    ) -> Result<Vec<Recovered>, SpoolError> {
        let inner = &self.inner;
        // Nobody begins a run meanwhile, and nobody commits one.
        let _lock = inner.open.lock().map_err(|error| self.failed("lock `open`", error))?;
        let names = inner.open.names().map_err(|error| self.failed("read `open`", error))?;
        // What has another name is not ours, and no run; `assay runs verify` tells it.
        let mut left: BTreeMap<String, Option<u64>> =
            names.into_iter().flatten().filter(|name| is_file_name(name)).map(|name| (name, None)).collect();
        if left.is_empty() {
            return Ok(Vec::new());
        }
        let chain = self.lock_chain()?;
        let failed = |error| self.failed("read the chain", error);
        let mut lines = chain.lines(0).map_err(failed)?;
        let mut walk = Walk::new(None);
        while let Some(line) = lines.read().map_err(failed)? {
            let entry = walk.add(&line);
            if let Some((entry, (directory, _))) =
                entry.as_ref().and_then(|entry| Some((entry, entry.body.place()?)))
                && let Some(place) = left.get_mut(directory)
            {
                *place = Some(entry.seq);
            }
        }
        let mut recovered = Vec::new();
        for (name, seq) in left {
            // One that cannot be opened, or is no directory, keeps nobody from closing the others.
            let Ok(directory) = inner.open.open_directory(&name) else { continue };
            if let Some(seq) = seq {
                self.settle(&name)?;
                recovered.push(Recovered::Settled { seq });
                continue;
            }
            let begun = directory.read(begun::FILE, begun::MOST_BYTES).ok();
            let begun = begun.and_then(|bytes| begun::from_json(&bytes));
            if begun.as_ref().is_some_and(|begun| is_alive(&begun.writer)) {
                continue;
            }
            let (files, not_whole) = take_stock(&directory);
            if begun.is_none() && files.is_empty() {
                inner.open.remove(&name).map_err(|error| self.failed(&format!("remove {name}"), error))?;
                recovered.push(Recovered::Removed { directory: name });
                continue;
            }
            let lost = Box::new(Lost { begun, directory: name.clone(), files, not_whole });
            let head = self.append(&chain, Body::Lost(lost.clone()), now)?;
            self.settle(&name)?;
            recovered.push(Recovered::Lost { seq: head.seq, lost });
        }
        drop(chain);
        self.sync_places()?;
        Ok(recovered)
    }
}

/// The files that are there, on the disk, and those of them that are no whole ones. What cannot be read, or has a name that
/// no file of a run has, is left where it is: verifying tells it.
fn take_stock(directory: &Directory) -> (Files, Vec<String>) {
    let (mut files, mut not_whole) = (Files::new(), Vec::new());
    for name in directory.names().unwrap_or_default().into_iter().flatten() {
        if is_leftover(&name) {
            drop(directory.remove(&name));
        }
        if !is_file_name(&name) {
            continue;
        }
        let Ok(facts) = directory.measure(&name, Synced::Yes) else { continue };
        if !is_whole(directory, &name, facts.bytes) {
            not_whole.push(name.clone());
        }
        files.insert(name, facts);
    }
    drop(directory.sync());
    (files, not_whole)
}

/// Whether a file is a whole one of its kind, as far as its kind can tell. Artifacts are renamed into their place once they
/// are whole, but not waited for: after the power went one may be empty. Streams are cut where their writer was.
fn is_whole(directory: &Directory, name: &str, bytes: u64) -> bool {
    let open = || directory.open_file(name, rustix::fs::OFlags::RDONLY).ok();
    if bytes == 0 {
        return false;
    }
    if name == begun::FILE {
        let read = directory.read(name, begun::MOST_BYTES).ok();
        return read.and_then(|bytes| begun::from_json(&bytes)).is_some();
    }
    if name.ends_with(".tar.gz") {
        return open().is_some_and(|file| verify(file, Limits::FORMAT, |_, _| {}).is_ok());
    }
    if name.ends_with(".ndjson") {
        use std::os::unix::fs::FileExt as _;
        let mut last = [0];
        let read = open().is_some_and(|file| file.read_exact_at(&mut last, bytes - 1).is_ok());
        return read && last == *b"\n";
    }
    true
}

#[cfg(test)]
mod tests;
