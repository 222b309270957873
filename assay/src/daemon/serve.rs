//! The life of the service: claimed, loaded, listening, and then one loop over descriptors until it is told to stop.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

use super::activation::{self, ActivationError, Passed};
use super::crew::{Crew, Worker};
use super::entrance::{Claim, Entrance, EntranceError};
use super::groups;
use super::limits::{Accounts, Had, Limits};
use super::log::Log;
use super::notify::{Notifier, State};
use super::peer::Peer;
use super::report::Report;
use super::said::{self, About};
use super::stopping::{Step, Stopping};
use super::worker::{Assignment, Bounds, Reporter, Served};
use crate::host::mountinfo::OwnGroup;
use crate::sandbox::cgroup::GroupError;
use crate::sandbox::signals::SignalQueue;
use crate::sandbox::user::{self, UserError};
use crate::sandbox::{descriptors, fork};

/// So long a worker waits for a request.
const SILENCE: Duration = Duration::from_secs(10);
/// So many connections are taken before anything else is looked at again.
const AT_ONCE: usize = 8;
/// So long none is taken after the kernel refused one.
const PAUSE: Duration = Duration::from_millis(200);

/// What the service is told.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where to listen.
    pub socket: PathBuf,
    /// Where the spool lies.
    pub spool: PathBuf,
    /// Whose members may connect.
    pub group: String,
    /// What one may take.
    pub limits: Limits,
    /// How long runs are waited for when it is told to stop.
    pub drain: Duration,
    /// What a service manager says it passed.
    pub passed: Passed,
    /// `NOTIFY_SOCKET`
    pub notify: Option<OsString>,
    /// How often the manager wants to hear of us.
    pub alive_every: Option<Duration>,
}

/// Why there is no service.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Not root.
    #[error("serve: only root can load the programs and see other users' processes")]
    NotRoot,
    /// The socket.
    #[error(transparent)]
    Entrance(#[from] EntranceError),
    /// The socket that was passed.
    #[error(transparent)]
    Activation(#[from] ActivationError),
    /// The group whose members may.
    #[error(transparent)]
    Group(#[from] UserError),
    /// The control group of the runs.
    #[error(transparent)]
    Runs(#[from] GroupError),
    /// The kernel half or the spool.
    #[error("{0}")]
    Load(String),
    /// What a loop takes.
    #[error("{action}: {source}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::Io { action, source }
}

/// Serves until it is told to stop. `load` is asked once nobody else serves at that socket, before anybody can connect.
pub fn run<S>(
    plan: Plan,
    load: impl FnOnce() -> Result<Served<S>, String>,
    log: &dyn Log,
) -> Result<(), ServeError> {
    if !rustix::process::geteuid().is_root() {
        return Err(ServeError::NotRoot);
    }
    let listener = activation::take(&plan.passed, std::process::id())?;
    // What else was open came from who started us, and is no business of the runs.
    descriptors::close_all_but(listener.as_ref().map_or(2, std::os::fd::AsRawFd::as_raw_fd));
    let signals = SignalQueue::take_over().map_err(failed("take signals from a descriptor"))?;
    let mut claim = Claim::lay(&plan.socket)?;
    let group = user::parse_group(&plan.group)?;
    let notifier = Notifier::new(plan.notify.as_deref()).map_err(failed("reach the service manager"))?;
    if let Some(before) = claim.before() {
        groups::sweep(before)?;
    }
    let runs = groups::make()?;
    claim.sign(std::process::id(), &runs.directory)?;
    let served = load().map_err(ServeError::Load)?;
    let entrance = match listener {
        Some(listener) => Entrance::passed(claim, listener)?,
        None => Entrance::make(claim, group)?,
    };
    log.note(&format!("listening at {}, for root and members of `{}`", plan.socket.display(), plan.group));
    let service = Service {
        entrance,
        signals,
        crew: Crew::default(),
        accounts: Accounts::default(),
        notifier,
        served,
        group,
        runs,
        stopping: Stopping::serving(plan.drain),
        began: Instant::now(),
        paused_until: None,
        alive_due: plan.alive_every,
        plan,
        log,
    };
    service.serve()
}

struct Service<'a, S> {
    plan: Plan,
    served: Served<S>,
    entrance: Entrance,
    signals: SignalQueue,
    notifier: Notifier,
    log: &'a dyn Log,
    group: u32,
    runs: OwnGroup,
    crew: Crew,
    accounts: Accounts,
    stopping: Stopping,
    /// What every other time here is counted from.
    began: Instant,
    paused_until: Option<Duration>,
    alive_due: Option<Duration>,
}

/// What is ready to be read.
#[derive(Debug, Default)]
struct Ready {
    signals: bool,
    entrance: bool,
    slots: Vec<u32>,
}

impl<S> Service<'_, S> {
    fn serve(mut self) -> Result<(), ServeError> {
        self.notifier.tell(State::Ready(&self.status()));
        while self.stopping.step() != Step::Over {
            let ready = self.wait().map_err(failed("wait for something to do"))?;
            if ready.signals {
                self.read_signals().map_err(failed("read signals"))?;
            }
            for slot in ready.slots {
                self.read_reports(slot);
            }
            self.crew.reap();
            self.settle();
            for _ in 0..if ready.entrance { AT_ONCE } else { 0 } {
                let Some(line) = self.accept() else { break };
                let Some((assignment, pipe)) = self.admit(line) else { continue };
                let (uid, slot) = (assignment.peer.uid, assignment.slot);
                match fork::fork() {
                    Ok(None) => self.become_worker(assignment, pipe),
                    Ok(Some(pid)) => self.crew.enter(Worker::new(pid, uid, slot, pipe)),
                    Err(error) => {
                        self.accounts.end(uid, Had::Waited);
                        self.log.warning(&format!("user {uid} is not served: make a worker: {error}"));
                        (self.served.refuse)(&assignment.line, "the service could not make a worker");
                    }
                }
            }
            self.move_on();
        }
        self.leave();
        Ok(())
    }

    /// Waits until there is something to do.
    fn wait(&self) -> io::Result<Ready> {
        let now = self.now();
        let is_open = self.paused_until.is_none_or(|until| now >= until);
        let mut polled = vec![PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN)];
        let slots: Vec<u32> = self.crew.pipes().map(|(slot, _)| slot).collect();
        polled.extend(self.crew.pipes().map(|(_, pipe)| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
        if is_open {
            polled.push(PollFd::from_borrowed_fd(self.entrance.as_fd(), PollFlags::IN));
        }
        let due = [self.stopping.due(), self.alive_due, self.paused_until.filter(|_| !is_open)];
        let timeout = due.into_iter().flatten().min().map(|due| {
            // A moment more, so that it is due when we wake.
            let rest = due.saturating_sub(now) + Duration::from_millis(1);
            Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() }
        });
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_ready = |polled: &PollFd<'_>| !polled.revents().is_empty();
        Ok(Ready {
            signals: is_ready(&polled[0]),
            entrance: is_open && polled.last().is_some_and(is_ready),
            slots: slots
                .into_iter()
                .zip(&polled[1..])
                .filter(|(_, fd)| is_ready(fd))
                .map(|(slot, _)| slot)
                .collect(),
        })
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
                Ok(Report::Progress(tally)) => worker.tally = tally,
                Ok(Report::Finished(over)) => {
                    worker.is_accounted = true;
                    worker.tally = over.tally;
                    self.log.log(&about.finished(&over));
                }
                Ok(Report::Refused { reason }) => {
                    worker.is_accounted = true;
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
            if !worker.is_accounted {
                let about = About { worker: worker.number(), uid: worker.uid };
                self.log.log(&about.died(worker.life, worker.had));
                if let Err(error) = groups::sweep(&self.runs.directory) {
                    self.log.warning(&format!("what it left may go on: {error}"));
                }
            }
        }
        self.notifier.tell(State::Status(&self.status()));
    }

    fn accept(&mut self) -> Option<UnixStream> {
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
    fn admit(&mut self, line: UnixStream) -> Option<(Assignment, io::PipeReader)> {
        let peer = match Peer::of(&line) {
            Ok(peer) => peer,
            Err(error) => {
                self.log.warning(&format!("somebody is not served: ask who it is: {error}"));
                return self.refuse(&line, "the service could not find out who you are");
            }
        };
        let uid = peer.uid;
        if !peer.may(self.group) {
            self.log.log(&said::refused(uid, "stranger", "not a member of the group"));
            return self.refuse(&line, &format!("you are not a member of the group `{}`", self.plan.group));
        }
        if self.stopping.step() != Step::Serving {
            return self.refuse(&line, "the service is stopping");
        }
        if let Err(over) = self.accounts.admit(uid, self.now(), 0, &self.plan.limits) {
            self.log.log(&said::refused(uid, over.word(), &over.to_string()));
            return self.refuse(&line, &over.to_string());
        }
        let pipe = Reporter::pair();
        let (Some(slot), Ok((pipe, report))) = (self.crew.free_slot(self.served.slots), pipe) else {
            self.accounts.end(uid, Had::Waited);
            self.log.log(&said::refused(uid, "places", "no place or no descriptor is left"));
            return self.refuse(&line, "the service has no place left");
        };
        groups::keep(&self.runs.directory);
        let bounds = Bounds { silence: SILENCE, spool_bytes: self.plan.limits.spool_bytes_per_user };
        let groups_parent = self.runs.clone();
        let spool = self.plan.spool.clone();
        Some((Assignment { line, peer, slot, groups_parent, spool, report, bounds }, pipe))
    }

    fn refuse<T>(&self, line: &UnixStream, why: &str) -> Option<T> {
        // Who does not read is not waited for.
        if line.set_nonblocking(true).is_ok() {
            (self.served.refuse)(line, why);
        }
        None
    }

    /// In the copy: lets go of all that is not the connection's, and does the work.
    fn become_worker(self, assignment: Assignment, pipe: io::PipeReader) -> ! {
        // Should the work panic.
        let _ends = fork::EndsWhenDropped;
        let Self { served, entrance, signals, crew, notifier, .. } = self;
        drop((entrance, signals, crew, notifier, pipe));
        // A terminal's signals are for the service, which passes on what it means for a run.
        rustix::process::setsid().ok();
        rustix::thread::set_name(c"assay-worker").ok();
        let exit = (served.work)(served.shared, assignment);
        fork::end_with(exit.code())
    }

    /// Does what the time asks for.
    fn move_on(&mut self) {
        let now = self.now();
        if self.paused_until.is_some_and(|until| now >= until) {
            self.paused_until = None;
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
                    "stopping: ending {left} runs, whose records are written as far as they go"
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
