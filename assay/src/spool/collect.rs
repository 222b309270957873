//! Removes the files of old runs. Their entries stay, and another entry says which were removed and why; it is on the disk
//! before the first file goes.

use std::collections::{BTreeMap, BTreeSet};

use super::append::LockedChain;
use super::chain::Walk;
use super::entry::{Body, Collected, MOST_COLLECTED, Why};
use super::error::SpoolError;
use super::store::Spool;
use crate::evidence::timestamp::Timestamp;

/// A run whose files go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Old {
    /// The place of its entry.
    pub seq: u64,
    /// The name of its directory.
    pub directory: String,
    /// The bytes of its files.
    pub bytes: u64,
    /// When its entry was written.
    pub time: Timestamp,
}

/// What is, or would be, collected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collection {
    /// The runs, the oldest first.
    pub runs: Vec<Old>,
    /// How many runs stay.
    pub kept: u64,
    /// And how many bytes they have.
    pub kept_bytes: u64,
    /// Directories that were to go already, and were still there.
    pub left_over: Vec<String>,
}

impl Collection {
    /// The bytes of what goes.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().fold(0, |sum, run| sum.saturating_add(run.bytes))
    }
}

/// Seconds of a day.
const DAY: u64 = 86_400;

impl Spool {
    /// What would be collected.
    pub fn plan_collection(&self, why: Why, now: Timestamp) -> Result<Collection, SpoolError> {
        self.choose(&self.lock_chain()?, why, now)
    }

    /// Collects it.
    pub fn collect(&self, why: Why, now: Timestamp) -> Result<Collection, SpoolError> {
        let chain = self.lock_chain()?;
        let collection = self.choose(&chain, why, now)?;
        for runs in collection.runs.chunks(MOST_COLLECTED) {
            let bytes = runs.iter().fold(0u64, |sum, run| sum.saturating_add(run.bytes));
            let runs = runs.iter().map(|run| run.seq).collect();
            self.append(&chain, Body::Collected(Collected { runs, bytes, why }), now)?;
        }
        drop(chain);
        let runs = collection.runs.iter().map(|run| &run.directory);
        for directory in runs.chain(&collection.left_over) {
            let removed = self.inner.runs.remove(directory);
            removed.map_err(|error| self.failed(&format!("remove runs/{directory}"), error))?;
        }
        self.sync_places()?;
        Ok(collection)
    }

    fn choose(&self, chain: &LockedChain, why: Why, now: Timestamp) -> Result<Collection, SpoolError> {
        let mut runs: BTreeMap<u64, Old> = BTreeMap::new();
        let mut gone = BTreeSet::new();
        let failed = |error| self.failed("read the chain", error);
        let mut walk = Walk::new(None);
        let mut lines = chain.lines(0).map_err(failed)?;
        while let Some(line) = lines.read().map_err(failed)? {
            let Some(entry) = walk.add(&line) else { continue };
            if let Some((directory, files)) = entry.body.place() {
                let bytes = files.values().fold(0u64, |sum, file| sum.saturating_add(file.bytes));
                let old = Old { seq: entry.seq, directory: directory.to_owned(), bytes, time: entry.time };
                runs.insert(entry.seq, old);
            } else if let Body::Collected(collected) = &entry.body {
                gone.extend(
                    collected.runs.iter().filter_map(|seq| runs.remove(seq)).map(|run| run.directory),
                );
            }
        }
        let named: BTreeSet<&str> = runs.values().map(|run| run.directory.as_str()).collect();
        let mut collection = Collection::default();
        for name in
            self.inner.runs.names().map_err(|error| self.failed("list `runs`", error))?.into_iter().flatten()
        {
            // One that another entry names as well is not left over.
            if gone.contains(&name) && !named.contains(name.as_str()) {
                collection.left_over.push(name);
            }
        }
        let mut newer_bytes = 0u64;
        for run in runs.into_values().rev() {
            newer_bytes = newer_bytes.saturating_add(run.bytes);
            let is_old = match why {
                Why::KeepDays(days) => {
                    let age = u64::try_from(now.seconds() - run.time.seconds()).unwrap_or(0);
                    age >= days.saturating_mul(DAY)
                }
                Why::MaxBytes(most) => newer_bytes > most,
            };
            if is_old {
                collection.runs.push(run);
            } else {
                collection.kept += 1;
                collection.kept_bytes = collection.kept_bytes.saturating_add(run.bytes);
            }
        }
        collection.runs.reverse();
        Ok(collection)
    }
}
