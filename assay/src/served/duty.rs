//! What a worker of the service does, from its assignment to its report.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use super::keeping::{SpoolKeeper, counts_of};
use super::reserve::Reserve;
use super::wire::Line;
use super::worker::{self, Observe, Peer};
use crate::daemon::report::{Over, Report, Tally};
use crate::daemon::worker::Assignment;
use crate::exit::Exit;

/// Serves the run of one connection.
pub fn work(observe: Observe, reserve: Reserve, assignment: Assignment) -> Exit {
    let Assignment { line, peer, groups_parent, spool, report, bounds, slot: _ } = assignment;
    if bounds.spool_bytes == 0 {
        refuse(&line, "its user has no room left in the spool; `assay runs gc` makes some");
        drop(report.report(&Report::Refused { reason: "no room left in the spool".into() }));
        return Exit::Refused;
    }
    let began = Instant::now();
    let mut keeper = SpoolKeeper::new(spool);
    let report = Rc::new(report);
    let started = Rc::clone(&report);
    let result = worker::work(
        worker::Assignment {
            line,
            peer: Peer { pid: peer.pid, uid: peer.uid, gid: peer.gid, groups: peer.groups },
            groups: groups_parent,
            reserve,
            silence: bounds.silence,
            observe,
            // The service may be gone by now; then nobody counts it. As below.
            on_launch: Box::new(move |pid| drop(started.report(&Report::Started { pid }))),
        },
        &mut keeper,
    );
    match result {
        Ok(finished) => {
            let (records, lost) = counts_of(finished.evidence.as_deref());
            let over = Over {
                run_id: finished.tally.as_ref().map(|tally| tally.run_id.clone()),
                verdict: finished.decision.verdict,
                tally: Tally { records, lost, lag_us: finished.lag_us },
                bytes: keeper.committed.as_ref().map_or(0, |kept| bytes_in(&kept.directory)),
                ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                seq: keeper.committed.as_ref().map(|kept| kept.seq),
            };
            drop(report.report(&Report::Finished(over)));
            Exit::Success
        }
        Err(refusal) => {
            drop(report.report(&Report::Refused { reason: refusal.to_string() }));
            Exit::Refused
        }
    }
}

/// Tells who connected that it is not served.
pub fn refuse(line: &UnixStream, why: &str) {
    if let Ok(line) = line.try_clone().and_then(Line::new) {
        worker::refuse(&line, &why);
    }
}

fn bytes_in(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}
