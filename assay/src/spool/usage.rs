//! What each user has in the spool, for limits. Read from the chain, of which only what is new is read again.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::begun;
use super::chain::Walk;
use super::entry::{Body, Entry, is_file_name};
use super::error::SpoolError;
use super::store::Spool;

/// What a user has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Runs that ended and whose files are there.
    pub runs: u64,
    /// The bytes of those files.
    pub bytes: u64,
    /// Runs in progress.
    pub open: u64,
    /// The bytes of their files so far.
    pub open_bytes: u64,
}

/// What the chain says of all users, up to a place in it.
#[derive(Debug, Default)]
pub struct Accounts {
    /// Which file it is, and how far it was read.
    chain: Option<(u64, u64)>,
    offset: u64,
    runs: BTreeMap<u64, (u32, u64)>,
    users: BTreeMap<u32, Usage>,
}

impl Spool {
    /// What this user has.
    pub fn usage(&self, uid: u32) -> Result<Usage, SpoolError> {
        // Whatever a thread left there that panicked is read again where it does not fit.
        let mut accounts = self.inner.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut accounts)?;
        let mut usage = accounts.users.get(&uid).copied().unwrap_or_default();
        drop(accounts);
        self.add_open(uid, &mut usage)?;
        Ok(usage)
    }

    fn refresh(&self, accounts: &mut Accounts) -> Result<(), SpoolError> {
        let Some((stat, mut lines)) = self.chain_from(accounts.offset)? else {
            *accounts = Accounts::default();
            return Ok(());
        };
        let chain = Some((stat.st_dev, stat.st_ino));
        if accounts.chain != chain || (stat.st_size as u64) < accounts.offset {
            *accounts = Accounts { chain, ..Accounts::default() };
            match self.chain_from(0)? {
                Some((_, from_start)) => lines = from_start,
                None => return Ok(()),
            }
        }
        let mut walk = Walk::new(None);
        while let Some(line) = lines.read().map_err(|error| self.failed("read the chain", error))? {
            // Half a line is read again when it is whole.
            if !line.is_ended {
                break;
            }
            let entry = walk.add(&line);
            accounts.offset = line.offset + line.length + 1;
            if let Some(entry) = entry {
                accounts.add(&entry);
            }
        }
        Ok(())
    }

    fn add_open(&self, uid: u32, usage: &mut Usage) -> Result<(), SpoolError> {
        let open = &self.inner.open;
        let names = open.names().map_err(|error| self.failed("read `open`", error))?;
        for name in names.into_iter().flatten().filter(|name| is_file_name(name)) {
            // One that is committed meanwhile is in the chain.
            let Ok(directory) = open.open_directory(&name) else { continue };
            let begun = directory.read(begun::FILE, begun::MOST_BYTES).ok();
            if begun.and_then(|bytes| begun::from_json(&bytes)).is_none_or(|begun| begun.user.uid != uid) {
                continue;
            }
            usage.open += 1;
            for name in directory.names().unwrap_or_default().into_iter().flatten() {
                if let Ok(Some(stat)) = directory.stat(&name) {
                    usage.open_bytes += stat.st_size.max(0) as u64;
                }
            }
        }
        Ok(())
    }
}

impl Accounts {
    fn add(&mut self, entry: &Entry) {
        if let Body::Collected(collected) = &entry.body {
            for (uid, bytes) in collected.runs.iter().filter_map(|seq| self.runs.remove(seq)) {
                let usage = self.users.entry(uid).or_default();
                usage.runs = usage.runs.saturating_sub(1);
                usage.bytes = usage.bytes.saturating_sub(bytes);
            }
        }
        let (Some(user), Some((_, files))) = (entry.body.user(), entry.body.place()) else { return };
        let bytes = files.values().fold(0u64, |sum, file| sum.saturating_add(file.bytes));
        if self.runs.insert(entry.seq, (user.uid, bytes)).is_none() {
            let usage = self.users.entry(user.uid).or_default();
            usage.runs += 1;
            usage.bytes = usage.bytes.saturating_add(bytes);
        }
    }
}
