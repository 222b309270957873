//! The spool as the service sees it: what each user has in it, how long its chain is, and what dead writers left.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::evidence::timestamp::Timestamp;
use crate::spool::recover::Recovered;
use crate::spool::{Spool, SpoolError, Writer};

/// So long what a user has is not asked for again.
const FRESH: Duration = Duration::from_secs(2);
/// So many users are remembered.
const MOST: usize = 1024;

/// The spool, open.
#[derive(Debug)]
pub struct Store {
    spool: Spool,
    known: BTreeMap<u32, (Duration, u64)>,
}

impl Store {
    /// Opens the spool, and makes it if it is not there.
    pub fn open(path: &Path, now: Timestamp) -> Result<Self, SpoolError> {
        Ok(Self { spool: Spool::create(path, now)?, known: BTreeMap::new() })
    }

    /// Closes what dead writers left. A line for each run. Of the processes `kept` something may still write, though they
    /// are dead: an heir.
    pub fn recover(&self, now: Timestamp, kept: &[u32]) -> Result<Vec<String>, SpoolError> {
        let is_alive = |writer: &Writer| kept.contains(&writer.pid) || writer.is_alive();
        let recovered = self.spool.recover(now, &is_alive)?;
        Ok(recovered.iter().map(line_about).collect())
    }

    /// How many entries its chain has.
    pub fn entries(&self) -> Result<u64, SpoolError> {
        let head = self.spool.walk(None, |_, _| {})?.head;
        Ok(head.map_or(0, |head| head.seq.saturating_add(1)))
    }

    /// How many bytes user `uid` has in it, as it was a moment before `now` at most.
    pub fn bytes_of(&mut self, uid: u32, now: Duration) -> Result<u64, SpoolError> {
        if let Some((at, bytes)) = self.known.get(&uid)
            && now.saturating_sub(*at) < FRESH
        {
            return Ok(*bytes);
        }
        let usage = self.spool.usage(uid)?;
        let bytes = usage.bytes.saturating_add(usage.open_bytes);
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(uid, (now, bytes));
        Ok(bytes)
    }

    /// What is known of users is asked for again.
    pub fn forget(&mut self) {
        self.known.clear();
    }
}

fn line_about(recovered: &Recovered) -> String {
    match recovered {
        Recovered::Settled { seq } => format!("entry {seq} of the spool: its files are in their place now"),
        Recovered::Lost { seq, lost } => {
            let whose = lost.begun.as_ref().map_or_else(
                || "a run of nobody knows whom".to_owned(),
                |begun| format!("a run of user {}", begun.user.uid),
            );
            format!(
                "entry {seq} of the spool: {whose} whose writer died is recorded as lost, with {} files",
                lost.files.len()
            )
        }
        Recovered::Removed { directory } => {
            format!("the spool: {directory} was removed, a run that had not begun")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::{Begin, User};

    const NOW: i64 = 1_700_000_000;

    #[test]
    fn what_a_user_has_is_known_for_a_moment_and_what_the_dead_left_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("spool");
        let now = Timestamp::new(NOW).unwrap();
        let mut store = Store::open(&path, now).unwrap();
        assert_eq!(store.entries().unwrap(), 1);
        assert_eq!(store.bytes_of(7, Duration::ZERO).unwrap(), 0);

        let mut dead = Writer::ourselves().unwrap();
        dead.boot = "another".into();
        let begin = Begin {
            user: User { uid: 7, name: None },
            command: vec!["true".into()],
            time: now,
            writer: dead,
        };
        let staging = Spool::open(&path).unwrap().begin(&begin).unwrap();
        std::fs::write(staging.directory().join("trace.ndjson"), vec![b'\n'; 5000]).unwrap();
        assert_eq!(store.bytes_of(7, Duration::from_millis(1999)).unwrap(), 0);
        assert!(store.bytes_of(7, Duration::from_secs(2)).unwrap() > 5000);

        let writer = begin.writer.pid;
        assert!(store.recover(now, &[writer]).unwrap().is_empty());
        let lines = store.recover(now, &[]).unwrap();
        assert_eq!(
            lines,
            ["entry 1 of the spool: a run of user 7 whose writer died is recorded as lost, with 2 files"]
        );
        assert_eq!(store.entries().unwrap(), 2);
        assert!(store.recover(now, &[]).unwrap().is_empty());
    }
}
