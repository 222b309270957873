//! The life of the service: claimed, loaded, listening, and then one loop over descriptors until it is told to stop.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

use super::counts::Counts;
use super::crew::{Crew, Worker};
use super::entrance::{Claim, Entrance};
use super::hush::Hush;
use super::limits::{Accounts, Had};
use super::log::Log;
use super::notify::{Notifier, State};
use super::plan::{Plan, ServeError, failed};
use super::report::Report;
use super::said::About;
use super::scrape::{Scrapes, Who};
use super::stopping::{Step, Stopping};
use super::store::Store;
use super::worker::Served;
use super::{activation, groups};
use crate::host::mountinfo::OwnGroup;
use crate::sandbox::signals::SignalQueue;
use crate::sandbox::{descriptors, fork, host_facts, user};
use crate::spool::SpoolError;

mod admit;
mod told;

/// So many connections are taken before anything else is looked at again.
const AT_ONCE: usize = 8;

/// Serves until it is told to stop. `load` is asked once nobody else serves at that socket, before anybody can connect; it is
/// told beneath which group the runs will have theirs.
pub fn run<S>(
    plan: Plan,
    load: impl FnOnce(&OwnGroup) -> Result<Served<S>, String>,
    log: &dyn Log,
) -> Result<(), ServeError> {
    if !rustix::process::geteuid().is_root() {
        return Err(ServeError::NotRoot);
    }
    let listener = activation::take(&plan.passed, std::process::id())?;
    // What else was open came from who started us, and is no business of the runs.
    descriptors::close_all_but(listener.as_ref().map_or(2, AsRawFd::as_raw_fd));
    let signals = SignalQueue::take_over().map_err(failed("take signals from a descriptor"))?;
    let mut claim = Claim::lay(&plan.socket)?;
    let group = user::parse_group(&plan.group)?;
    let notifier = Notifier::new(plan.notify.as_deref()).map_err(failed("reach the service manager"))?;
    if let Some(before) = claim.before() {
        groups::clean(before);
    }
    let runs = groups::make()?;
    claim.sign(std::process::id(), &runs.directory)?;
    let store = open_store(&plan.spool, log)?;
    let began = Instant::now();
    let served = load(&runs).map_err(ServeError::Load)?;
    let load = began.elapsed();
    let scrapes = plan.metrics.as_ref().map(|place| Scrapes::listen(place, group)).transpose()?;
    let entrance = match listener {
        Some(listener) => Entrance::passed(claim, listener)?,
        None => Entrance::make(claim, group)?,
    };
    log.note(&format!("listening at {}, for root and members of `{}`", plan.socket.display(), plan.group));
    let counts = Counts { entries: store.entries()?, ..Counts::default() };
    let service = Service {
        entrance,
        store,
        scrapes,
        signals,
        crew: Crew::new(served.slots),
        accounts: Accounts::default(),
        counts,
        hush: Hush::default(),
        notifier,
        served,
        group,
        runs,
        load,
        started: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
        stopping: Stopping::serving(plan.drain),
        began: Instant::now(),
        paused_until: None,
        alive_due: plan.alive_every,
        plan,
        log,
    };
    service.serve()
}

/// Opens the spool, and closes what writers left that died.
fn open_store(path: &Path, log: &dyn Log) -> Result<Store, SpoolError> {
    let now = host_facts::timestamp(SystemTime::now());
    let store = Store::open(path, now)?;
    for line in store.recover(now, &[])? {
        log.note(&line);
    }
    Ok(store)
}

struct Service<'a, S> {
    plan: Plan,
    served: Served<S>,
    entrance: Entrance,
    scrapes: Option<Scrapes>,
    signals: SignalQueue,
    notifier: Notifier,
    log: &'a dyn Log,
    group: u32,
    runs: OwnGroup,
    crew: Crew,
    accounts: Accounts,
    counts: Counts,
    hush: Hush,
    store: Store,
    load: Duration,
    /// Since 1970.
    started: Duration,
    stopping: Stopping,
    /// What every other time here is counted from.
    began: Instant,
    paused_until: Option<Duration>,
    alive_due: Option<Duration>,
}

/// What a descriptor is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Signals,
    Entrance,
    /// The worker at this place.
    Worker(u32),
    Scrape(Who),
}

impl<S> Service<'_, S> {
    fn serve(mut self) -> Result<(), ServeError> {
        self.notifier.tell(State::Ready(&self.status()));
        while self.stopping.step() != Step::Over {
            let mut has_caller = false;
            for of in self.wait().map_err(failed("wait for something to do"))? {
                match of {
                    Of::Signals => self.read_signals().map_err(failed("read signals"))?,
                    Of::Worker(slot) => self.read_reports(slot),
                    Of::Scrape(who) => self.answer(who),
                    Of::Entrance => has_caller = true,
                }
            }
            self.crew.reap();
            self.settle();
            // Last, for in a worker that is made here nothing of the above may be half done.
            for _ in 0..if has_caller { AT_ONCE } else { 0 } {
                let Some(line) = self.accept() else { break };
                let Some((assignment, pipe)) = self.admit(line) else { continue };
                let (uid, slot) = (assignment.peer.uid, assignment.slot);
                match fork::fork() {
                    Ok(None) => self.become_worker(assignment, pipe),
                    Ok(Some(pid)) => self.crew.enter(Worker::new(pid, uid, slot, pipe)),
                    Err(error) => self.could_not_make_worker(&assignment, &error),
                }
            }
            self.move_on();
        }
        self.leave();
        Ok(())
    }

    /// Waits until there is something to do.
    fn wait(&self) -> io::Result<Vec<Of>> {
        let now = self.now();
        let is_open = self.paused_until.is_none_or(|until| now >= until);
        let mut waited: Vec<(Of, BorrowedFd<'_>, PollFlags)> =
            vec![(Of::Signals, self.signals.as_fd(), PollFlags::IN)];
        waited.extend(self.crew.pipes().map(|(slot, pipe)| (Of::Worker(slot), pipe, PollFlags::IN)));
        let scrapes = self.scrapes.iter().flat_map(Scrapes::waited);
        waited.extend(scrapes.map(|(who, fd, flags)| (Of::Scrape(who), fd, flags)));
        if is_open {
            waited.push((Of::Entrance, self.entrance.as_fd(), PollFlags::IN));
        }
        let due = [
            self.stopping.due(),
            self.alive_due,
            self.paused_until.filter(|_| !is_open),
            self.scrapes.as_ref().and_then(Scrapes::due),
        ];
        let timeout = due.into_iter().flatten().min().map(|due| {
            // A moment more, so that it is due when we wake.
            let rest = due.saturating_sub(now) + Duration::from_millis(1);
            Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() }
        });
        let mut polled: Vec<PollFd<'_>> =
            waited.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = waited.iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
        Ok(ready.map(|((of, ..), _)| *of).collect())
    }

    fn read_signals(&mut self) -> io::Result<()> {
        while let Some(received) = self.signals.next()? {
            match received.number {
                libc::SIGTERM | libc::SIGINT => {
                    let step = self.stopping.step();
                    self.stopping = self.stopping.hurried(self.now());
                    self.enter_step(step);
                }
                libc::SIGHUP => self.reload(),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads again what may have changed. Runs go on.
    fn reload(&mut self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
        self.notifier.tell(State::Reloading(now));
        self.store.forget();
        match user::parse_group(&self.plan.group) {
            Ok(group) => {
                self.group = group;
                if let Err(error) = self.entrance.give_to(group) {
                    self.log.warning(&error.to_string());
                }
                self.log
                    .note(&format!("reloaded: members of `{}` may connect, group {group}", self.plan.group));
            }
            // Who could connect still can.
            Err(error) => self.log.warning(&format!("not reloaded: {error}")),
        }
        self.notifier.tell(State::Ready(&self.status()));
    }

    fn read_reports(&mut self, slot: u32) {
        let Some((worker, reports)) = self.crew.read(slot) else { return };
        let about = About { worker: worker.number(), uid: worker.uid };
        for report in reports {
            match report {
                Ok(Report::Started { pid }) if worker.had == Had::Waited => {
                    worker.had = Had::Run;
                    self.accounts.start(about.uid);
                    self.log.log(&about.started(pid));
                }
                // Once is enough.
                Ok(Report::Started { .. }) => {}
                Ok(Report::Progress(tally)) => worker.tally = worker.tally.advanced(tally),
                Ok(Report::Finished(over)) => {
                    worker.is_accounted = true;
                    worker.tally = worker.tally.advanced(over.tally);
                    self.counts.end(&over);
                    self.log.log(&about.finished(&over));
                }
                Ok(Report::Refused { reason }) => {
                    worker.is_accounted = true;
                    self.counts.refuse("request");
                    self.log.log(&about.refused(&reason));
                }
                Err(error) => self.log.log(&about.unbelieved(&error)),
            }
        }
    }

    /// Closes the accounts of workers of whom nothing is left.
    fn settle(&mut self) {
        let over = self.crew.take_over();
        if over.is_empty() {
            return;
        }
        for worker in &over {
            self.accounts.end(worker.uid, worker.had);
            self.counts.settle(worker.tally);
            if !worker.is_accounted {
                self.counts.died += 1;
                let about = About { worker: worker.number(), uid: worker.uid };
                self.log.log(&about.died(worker.life, worker.had));
                self.close_what_it_left();
            }
            if let Err(error) = (self.served.clear)(&mut self.served.shared, worker.slot) {
                self.crew.give_up(worker.slot);
                self.log.warning(&format!("place {} is not used again: {error}", worker.slot));
            }
        }
        self.notifier.tell(State::Status(&self.status()));
    }

    /// Ends the run of a worker that died, and records it as lost.
    fn close_what_it_left(&self) {
        if let Err(error) = groups::sweep(&self.runs.directory) {
            self.log.warning(&format!("what it left may go on: {error}"));
        }
        let kept: Vec<u32> = self.crew.iter().map(Worker::number).collect();
        match self.store.recover(host_facts::timestamp(SystemTime::now()), &kept) {
            Ok(lines) => lines.iter().for_each(|line| self.log.note(line)),
            Err(error) => self.log.warning(&format!("its record is not closed: failed to {error}")),
        }
    }

    /// Does what the time asks for.
    fn move_on(&mut self) {
        let now = self.now();
        if self.paused_until.is_some_and(|until| now >= until) {
            self.paused_until = None;
        }
        if let Some(scrapes) = &mut self.scrapes {
            scrapes.expire(now);
        }
        if let (Some(due), Some(every)) = (self.alive_due, self.plan.alive_every)
            && now >= due
        {
            self.notifier.tell(State::Alive);
            self.alive_due = Some(now + every);
        }
        let step = self.stopping.step();
        self.stopping = self.stopping.advanced(now, self.crew.len());
        self.enter_step(step);
    }

    /// Does what a step of stopping begins with, if it is another than `before`.
    fn enter_step(&mut self, before: Step) {
        let step = self.stopping.step();
        if step == before {
            return;
        }
        let left = self.crew.len();
        match step {
            Step::Draining => {
                let most = self.plan.drain.as_secs();
                self.log.note(&format!("stopping: waiting for {left} connections, {most} s at most"));
                self.notifier.tell(State::Stopping(&self.status()));
            }
            Step::Ending => {
                self.log.note(&format!(
                    "stopping: ending the runs of {left} connections, whose records are written as far as they go"
                ));
                self.crew.signal(Signal::TERM);
            }
            Step::Killing => {
                self.log
                    .warning(&format!("stopping: {left} workers do not end, they and their runs are killed"));
                let workers: Vec<u32> = self.crew.iter().map(Worker::number).collect();
                if !groups::end(&self.runs.directory, &workers) {
                    self.log.warning("some processes of runs could not be killed");
                }
                self.crew.signal(Signal::KILL);
            }
            Step::Over if left > 0 => self.log.warning(&format!("{left} workers go on")),
            Step::Serving | Step::Over => {}
        }
    }

    fn leave(self) {
        self.entrance.close();
        if let Some(scrapes) = self.scrapes {
            scrapes.close();
        }
        groups::remove(&self.runs.directory);
        self.log.note("stopped");
    }

    fn status(&self) -> String {
        format!("{} runs, {} connections without a run", self.accounts.running(), self.accounts.waiting())
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}
