//! The command as a process: started, sent the signals that are meant for it, stopped and continued with us,
//! ended when its time is over.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::behalf;
use super::caller::{Caller, Client, Launched};
use super::cgroup::Group;
use super::inherited::Inherited;
use super::launcher::GO;
use super::members::Members;
use super::outcome::ChildEnd;
use super::reexec::{self, Role};
use super::signals::{self, Received, SignalQueue};
use super::spec::{Answer, LaunchSpec, Stage, Unheld};

/// Between SIGTERM and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(2);

/// Said of a run whose client went away.
const CLIENT_GONE: &str = "the client went away; the command was ended";
/// Said of a run that the service did not wait for.
const SERVICE_STOPPED: &str = "the service was told to stop; the command was ended";

/// Why the command did not start.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A step failed.
    #[error("{}: {}", stage.attempt(), detail.clone().unwrap_or_else(|| io::Error::from_raw_os_error(*errno).to_string()))]
    Step {
        /// Which.
        stage: Stage,
        /// With which error.
        errno: i32,
        /// More words.
        detail: Option<String>,
    },
    /// A signal or its own exit ended the launcher first.
    #[error("start the command: its launcher ended first")]
    Ended(ChildEnd),
    /// It could not hold all, and all must be held.
    #[error("--fail-closed, and this cannot be held: {0}")]
    Unheld(String),
    /// Another part of the preparation failed meanwhile.
    #[error("{0}")]
    Elsewhere(String),
    /// The launcher could not be started or spoken to.
    #[error("start the launcher: {0}")]
    Helper(#[from] io::Error),
}

/// A launcher that has not yet become the command.
#[derive(Debug)]
pub struct Launch<'a> {
    pid: u32,
    stream: UnixStream,
    /// Whose child it is, where it is not ours.
    client: Option<(&'a dyn Client, Launched)>,
    /// What could not be done for it.
    unheld: Vec<Unheld>,
    /// It became the command, or its end was waited for.
    is_settled: bool,
}

impl<'a> Launch<'a> {
    /// Starts the launcher, which then waits to be told what to do. `holds`: whether it is to hold anything by mounts.
    pub fn begin(caller: &'a Caller, group: Option<&Group>, holds: bool) -> Result<Self, LaunchError> {
        if let Some(client) = caller.client() {
            let launched = client.launch(holds, group)?;
            let stream = launched.stream.try_clone()?;
            return Ok(Self {
                pid: launched.pid,
                stream,
                client: Some((client, launched)),
                unheld: Vec::new(),
                is_settled: false,
            });
        }
        let (process, stream) = reexec::spawn(Role::Launcher)?;
        Ok(Self { pid: process.id(), stream, client: None, unheld: Vec::new(), is_settled: false })
    }

    /// Whether mounts can be made for it; `None` where that follows from our own rights.
    pub fn can_mount(&self) -> Option<bool> {
        self.client.as_ref().map(|(_, launched)| launched.has_namespace)
    }

    /// Tells it what to do. For a client's, does first what that has no right to.
    pub fn instruct(mut self, spec: &LaunchSpec, group: Option<&Group>) -> Result<Self, LaunchError> {
        if let Some((_, launched)) = &self.client {
            self.unheld = behalf::prepare(launched, spec, group)?;
        }
        match spec.send(&mut self.stream) {
            Ok(()) => Ok(self),
            Err(_) => Err(self.explain_end()),
        }
    }

    /// The process that will be the command.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What an heir must not hold: by its end the launcher notices that nobody will say the word.
    pub fn line(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Waits until all is done but the start. Tells what could not be held.
    pub fn wait_ready(&mut self) -> Result<Vec<Unheld>, LaunchError> {
        match Answer::receive(&mut self.stream)? {
            Some(Answer::Ready { unheld }) => Ok([std::mem::take(&mut self.unheld), unheld].concat()),
            Some(Answer::Failed { stage, errno, detail }) => Err(self.failed(stage, errno, detail)),
            Some(Answer::Starting | Answer::Apart { .. }) => {
                Err(LaunchError::Helper(io::Error::from(io::ErrorKind::InvalidData)))
            }
            None => Err(self.explain_end()),
        }
    }

    /// Says the word, and returns when the command runs. `heir` is a process that the command must leave alone.
    pub fn go(mut self, heir: Option<u32>) -> Result<u32, LaunchError> {
        let word = [&[GO][..], &heir.unwrap_or(0).to_le_bytes()].concat();
        if self.stream.write_all(&word).is_err() {
            return Err(self.explain_end());
        }
        let mut is_starting = false;
        loop {
            match Answer::receive(&mut self.stream)? {
                Some(Answer::Starting) => is_starting = true,
                Some(Answer::Failed { stage, errno, detail }) => {
                    return Err(self.failed(stage, errno, detail));
                }
                Some(Answer::Ready { .. } | Answer::Apart { .. }) => {
                    return Err(LaunchError::Helper(io::Error::from(io::ErrorKind::InvalidData)));
                }
                // `execve` closed its end.
                None if is_starting => {
                    self.is_settled = true;
                    return Ok(self.pid);
                }
                None => return Err(self.explain_end()),
            }
        }
    }

    fn failed(&mut self, stage: Stage, errno: i32, detail: Option<String>) -> LaunchError {
        drop(self.wait());
        LaunchError::Step { stage, errno, detail }
    }

    fn explain_end(&mut self) -> LaunchError {
        match self.wait() {
            Ok(end) => LaunchError::Ended(end),
            Err(error) => LaunchError::Helper(error),
        }
    }

    fn wait(&mut self) -> io::Result<ChildEnd> {
        self.is_settled = true;
        match &self.client {
            None => wait_for(self.pid),
            Some((client, _)) => match client.word()? {
                Some(end) => Ok(end),
                None => Err(io::Error::other("the client is gone")),
            },
        }
    }
}

impl Drop for Launch<'_> {
    /// Given up before the start.
    fn drop(&mut self) {
        if !self.is_settled {
            drop(signals::send(self.pid, libc::SIGKILL));
            // A client waits for its own.
            if self.client.is_none() {
                drop(self.wait());
            }
        }
    }
}

/// The signals of this process under tokio.
#[derive(Debug)]
pub struct Signals {
    queue: AsyncFd<SignalQueue>,
}

impl Signals {
    /// Takes the queue into the current runtime.
    pub fn new(queue: SignalQueue) -> io::Result<Self> {
        Ok(Self { queue: queue.watch()? })
    }

    /// Waits until some have arrived, and returns them.
    pub async fn receive(&self) -> io::Result<Vec<Received>> {
        let mut guard = self.queue.readable().await?;
        let mut all = Vec::new();
        while let Some(received) = self.queue.get_ref().next()? {
            all.push(received);
        }
        guard.clear_ready();
        Ok(all)
    }
}

/// The running command.
#[derive(Debug)]
pub struct Running<'a> {
    /// Its process.
    pub pid: u32,
    /// All processes of the run.
    pub members: &'a Members,
    /// Where our signals arrive.
    pub signals: &'a Signals,
}

impl Running<'_> {
    /// Waits for its end, or makes one when `timeout` is over.
    pub async fn wait(&self, timeout: Option<Duration>) -> io::Result<ChildEnd> {
        let mut deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut is_timed_out = false;
        loop {
            if let Some(end) = self.poll(timeout.is_some())? {
                return Ok(if is_timed_out { ChildEnd::TimedOut } else { end });
            }
            let over = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                received = self.signals.receive() => {
                    for received in received? {
                        self.pass_on(received)?;
                    }
                }
                () = over => {
                    if is_timed_out {
                        self.end_all(libc::SIGKILL)?;
                        deadline = None;
                    } else {
                        self.end_all(libc::SIGTERM)?;
                        // One that is stopped must run to end.
                        self.end_all(libc::SIGCONT)?;
                        is_timed_out = true;
                        deadline = Some(Instant::now() + GRACE);
                    }
                }
            }
        }
    }

    /// The same of a client's child, of whose end it sends word; and why it was ended before its time. A client that is
    /// gone has its command ended, and so has the service that is told to stop.
    pub async fn wait_for_word(
        &self,
        client: &dyn Client,
        timeout: Option<Duration>,
    ) -> io::Result<(ChildEnd, Option<&'static str>)> {
        let line = tokio::net::UnixStream::from_std(client.line()?)?;
        let mut deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut is_timed_out = false;
        let mut cut_short = None;
        loop {
            let over = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                readable = line.readable() => {
                    readable?;
                    // Asked of the kernel: what tokio keeps may be older.
                    if !behalf::is_readable(client.line()?.as_fd())? {
                        line.try_io(tokio::io::Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into())).ok();
                        continue;
                    }
                    return match client.word() {
                        Ok(Some(_)) if is_timed_out => Ok((ChildEnd::TimedOut, None)),
                        Ok(Some(end)) => Ok((end, cut_short)),
                        Ok(None) | Err(_) => {
                            self.end_all(libc::SIGKILL)?;
                            Ok((ChildEnd::Signalled(libc::SIGKILL), Some(CLIENT_GONE)))
                        }
                    };
                }
                received = self.signals.receive() => {
                    if received?.iter().any(|one| one.number == libc::SIGTERM) && cut_short.is_none() {
                        cut_short = Some(SERVICE_STOPPED);
                        self.end_all(libc::SIGTERM)?;
                        self.end_all(libc::SIGCONT)?;
                        deadline = Some(Instant::now() + GRACE);
                    }
                }
                () = over => {
                    let is_last = is_timed_out || cut_short.is_some();
                    self.end_all(if is_last { libc::SIGKILL } else { libc::SIGTERM })?;
                    // One that is stopped must run to end.
                    self.end_all(libc::SIGCONT)?;
                    deadline = (!is_last).then(|| Instant::now() + GRACE);
                    is_timed_out |= cut_short.is_none();
                }
            }
        }
    }

    fn end_all(&self, number: i32) -> io::Result<()> {
        if number == libc::SIGKILL {
            self.members.kill();
        } else {
            self.members.signal(number);
        }
        // Also one that left the group.
        signals::send(self.pid, number)
    }

    /// The command's end, if it has ended. Stops with it, if it has stopped.
    pub fn poll(&self, has_deadline: bool) -> io::Result<Option<ChildEnd>> {
        loop {
            let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
            let Some(status) = rustix::process::waitid(WaitId::Pid(to_pid(self.pid)), options)? else {
                return Ok(None);
            };
            if let Some(code) = status.exit_status() {
                return Ok(Some(ChildEnd::Exited(code as u8)));
            }
            if let Some(number) = status.terminating_signal() {
                return Ok(Some(ChildEnd::Signalled(number)));
            }
            // Stopped ourselves we could not tell that its time is over. A terminal's stop is meant for us both.
            if !has_deadline || status.stopping_signal() != Some(libc::SIGSTOP) {
                self.stop_with_it()?;
            }
        }
    }

    /// What started us sees us stop, as it would see the command stop without us; and when it lets us go on,
    /// the command goes on.
    fn stop_with_it(&self) -> io::Result<()> {
        // Nobody would ever continue us when we are orphaned; and without us nobody would have continued the command.
        // And it may have been continued since: then we would stop alone.
        if is_orphaned() || !is_stopped(self.pid) {
            return Ok(());
        }
        signals::send(std::process::id(), libc::SIGSTOP)?;
        // Here we have been continued. A shell continues the whole job, and then the command is running already.
        self.continue_if_stopped()
    }

    fn continue_if_stopped(&self) -> io::Result<()> {
        if is_stopped(self.pid) { signals::send(self.pid, libc::SIGCONT) } else { Ok(()) }
    }

    /// Does with a signal that reached us what it was meant for.
    pub fn pass_on(&self, received: Received) -> io::Result<()> {
        match received.number {
            libc::SIGCHLD => {
                self.members.reap();
                Ok(())
            }
            libc::SIGCONT => self.continue_if_stopped(),
            // A terminal that hangs up tells only the leader of its session, which without us would be the command.
            libc::SIGHUP if !received.was_sent && is_session_leader() => {
                signals::send(self.pid, libc::SIGHUP)
            }
            // What the terminal sends, it sends to the command as well: they are in one foreground group.
            _ if !received.was_sent => Ok(()),
            // A program that signals its whole process group has reached itself already.
            _ if self.members.has(received.sender) => Ok(()),
            number => signals::send(self.pid, number),
        }
    }
}

/// Whether a signal that arrived before the command ran would have ended it.
pub fn would_end(received: &Received, inherited: &Inherited) -> bool {
    matches!(received.number, libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM)
        && !inherited.is_ignored(received.number)
}

fn wait_for(pid: u32) -> io::Result<ChildEnd> {
    loop {
        match rustix::process::waitid(WaitId::Pid(to_pid(pid)), WaitIdOptions::EXITED) {
            Err(rustix::io::Errno::INTR) | Ok(None) => {}
            Err(error) => return Err(error.into()),
            Ok(Some(status)) => {
                let signalled = status.terminating_signal().map(ChildEnd::Signalled);
                return Ok(signalled.unwrap_or(ChildEnd::Exited(status.exit_status().unwrap_or(0) as u8)));
            }
        }
    }
}

fn to_pid(pid: u32) -> Pid {
    Pid::from_raw(pid as i32).expect("a process that we started has a positive id")
}

fn is_session_leader() -> bool {
    session_of("self").is_some_and(|session| u32::try_from(session) == Ok(std::process::id()))
}

/// Whether what started us is in no position to continue us: it has ended, or is in another session.
fn is_orphaned() -> bool {
    let Some(parent) = rustix::process::getppid() else { return true };
    match (session_of(&parent.as_raw_nonzero().to_string()), session_of("self")) {
        (Some(theirs), Some(ours)) => theirs != ours,
        _ => true,
    }
}

/// The session of a process: 0 when its leader is outside of our pid namespace, as after `docker exec`, for which
/// `getsid` has no value in rustix's types.
fn session_of(process: &str) -> Option<i32> {
    // The state, the parent and the group come before it.
    after_name(process)?.get(3)?.parse().ok()
}

fn is_stopped(pid: u32) -> bool {
    after_name(&pid.to_string()).is_some_and(|fields| fields.first().is_some_and(|state| state == "T"))
}

/// The fields of `/proc/PID/stat` that follow the name, which stands in parentheses and may hold anything.
fn after_name(process: &str) -> Option<Vec<String>> {
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
}
