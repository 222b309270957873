//! What is told to who reads the metrics: the counts, and what is asked of the kernel when somebody reads.

use std::path::Path;

use super::Service;
use crate::daemon::crew::{Life, Worker};
use crate::daemon::metrics::{self, Snapshot};
use crate::daemon::report::Tally;
use crate::daemon::scrape::Who;

impl<S> Service<'_, S> {
    pub(super) fn answer(&mut self, who: Who) {
        let Some(mut scrapes) = self.scrapes.take() else { return };
        scrapes.advance(who, self.now(), || self.page());
        self.scrapes = Some(scrapes);
    }

    fn page(&self) -> String {
        let living = || self.crew.iter().filter(|worker| worker.life == Life::Living).map(Worker::number);
        let live = self.crew.iter().fold(Tally::default(), |sum, worker| Tally {
            records: sum.records.saturating_add(worker.tally.records),
            lost: sum.lost.saturating_add(worker.tally.lost),
            lag_us: sum.lag_us.max(worker.tally.lag_us),
        });
        metrics::page(&Snapshot {
            version: env!("CARGO_PKG_VERSION"),
            started: self.started,
            load: self.load,
            running: self.accounts.running(),
            waiting: self.accounts.waiting(),
            counts: &self.counts,
            live,
            own_memory: resident("self"),
            // One that ended while it was asked has none.
            workers_memory: Some(living().filter_map(|pid| resident(&pid.to_string())).sum()),
            spool_free: free(&self.plan.spool),
            programs: (self.served.times)(&self.served.shared),
        })
    }
}

/// Bytes of a process that are in memory.
fn resident(pid: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Bytes that are free on the filesystem of a directory.
fn free(directory: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(directory).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_is_asked_for_has_an_answer() {
        assert!(resident("self").is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(resident("0"), None);
        assert!(free(Path::new("/")).is_some());
        assert_eq!(free(Path::new("/no/such/directory")), None);
    }
}
