//! Who connected, whether they are served, and the worker that is made for them.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Service;
use crate::daemon::limits::Had;
use crate::daemon::peer::Peer;
use crate::daemon::said;
use crate::daemon::stopping::Step;
use crate::daemon::worker::{Assignment, Bounds, Reporter};
use crate::sandbox::fork;

/// So long a worker waits for a request.
const SILENCE: Duration = Duration::from_secs(10);
/// So long no connection is taken after the kernel refused one.
const PAUSE: Duration = Duration::from_millis(200);

impl<S> Service<'_, S> {
    pub(super) fn accept(&mut self) -> Option<UnixStream> {
        match self.entrance.accept() {
            Ok(line) => line,
            Err(error) => {
                // Most likely there are no descriptors left; it would be told again at once.
                self.log.warning(&format!("accept a connection: {error}"));
                self.paused_until = Some(self.now() + PAUSE);
                None
            }
        }
    }

    /// Decides whether who connected is served, and makes what a worker takes.
    pub(super) fn admit(&mut self, line: UnixStream) -> Option<(Assignment, io::PipeReader)> {
        let peer = match Peer::of(&line) {
            Ok(peer) => peer,
            Err(error) => {
                self.counts.refuse("unknown");
                self.log.warning(&format!("somebody is not served: ask who it is: {error}"));
                self.tell(&line, "the service could not find out who you are");
                return None;
            }
        };
        let uid = peer.uid;
        if !peer.may(self.group) {
            let why = format!("you are not a member of the group `{}`", self.plan.group);
            return self.refuse(&line, uid, "stranger", &why);
        }
        if self.stopping.step() != Step::Serving {
            return self.refuse(&line, uid, "stopping", "the service is stopping");
        }
        let now = self.now();
        let spooled = match self.store.bytes_of(uid, now) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.log.warning(&format!("user {uid} is not served: failed to {error}"));
                return self.refuse(&line, uid, "unreadable-spool", "the service cannot read its spool");
            }
        };
        if let Err(over) = self.accounts.admit(uid, now, spooled, &self.plan.limits) {
            return self.refuse(&line, uid, over.word(), &over.to_string());
        }
        let (Some(slot), Ok((pipe, report))) = (self.crew.free_slot(), Reporter::pair()) else {
            self.accounts.end(uid, Had::Waited);
            return self.refuse(&line, uid, "places", "the service has no place or no descriptor left");
        };
        let spool_bytes = self.plan.limits.spool_bytes_per_user.saturating_sub(spooled);
        let bounds = Bounds { silence: SILENCE, spool_bytes };
        let groups_parent = self.runs.clone();
        let spool = self.plan.spool.clone();
        Some((Assignment { line, peer, slot, groups_parent, spool, report, bounds }, pipe))
    }

    /// In the copy: lets go of all that is not the connection's, and does the work.
    pub(super) fn become_worker(self, assignment: Assignment, pipe: io::PipeReader) -> ! {
        // Should the work panic.
        let _ends = fork::EndsWhenDropped;
        let Self { served, entrance, scrapes, signals, crew, notifier, store, .. } = self;
        drop((entrance, scrapes, signals, crew, notifier, store, pipe));
        // A terminal's signals are for the service, which passes on what it means for a run.
        rustix::process::setsid().ok();
        rustix::thread::set_name(c"assay-worker").ok();
        let exit = (served.work)(served.shared, assignment);
        fork::end_with(exit.code())
    }

    pub(super) fn could_not_make_worker(&mut self, assignment: &Assignment, error: &io::Error) {
        let uid = assignment.peer.uid;
        self.accounts.end(uid, Had::Waited);
        self.log.warning(&format!("user {uid} is not served: make a worker: {error}"));
        self.counts.refuse("worker");
        self.tell(&assignment.line, "the service could not make a worker");
    }

    fn refuse<T>(&mut self, line: &UnixStream, uid: u32, word: &'static str, why: &str) -> Option<T> {
        self.counts.refuse(word);
        if let Some(before) = self.hush.admits(uid, word, self.now()) {
            self.log.log(&said::refused(uid, word, why, before));
        }
        self.tell(line, why);
        None
    }

    fn tell(&self, line: &UnixStream, why: &str) {
        // Who does not read is not waited for.
        if line.set_nonblocking(true).is_ok() {
            (self.served.refuse)(line, why);
        }
    }
}
