//! The client of a served run: asks, starts the launcher, is the command's parent, and puts the artifacts in their places.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::ask::Ask;
use super::message::{self, Level, Over, ToClient, ToWorker, sentence};
use super::policy_files::PolicyFiles;
use super::wire::{Line, WireError};
use crate::canon::digest::Digest;
use crate::policy::Context;
use crate::profile::name::unescape;
use crate::sandbox::artifact::Written;
use crate::sandbox::behalf::is_readable;
use crate::sandbox::caller::Caller;
use crate::sandbox::cgroup::Group;
use crate::sandbox::child::{Running, Signals, would_end};
use crate::sandbox::members::Members;
use crate::sandbox::notice::Notices;
use crate::sandbox::outcome::{ChildEnd, Ending, NotStarted};
use crate::sandbox::recorder::Targets;
use crate::sandbox::reexec::{self, Role};
use crate::sandbox::request::{PolicySource, SandboxRequest};
use crate::sandbox::signals::SignalQueue;
use crate::sandbox::{Finished, begin, conclude, descriptors};

/// The names that artifacts of a run have.
const ARTIFACTS: [&str; 4] = ["profile", "evidence", "report", "bundle"];
/// Those of files that are written while it lasts.
const STREAMS: [&str; 2] = ["trace", "records"];

/// Why a run could not be served.
#[derive(Debug, thiserror::Error)]
pub enum Unserved {
    /// Nobody listens there.
    #[error("ask the daemon at {}: {source}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The kernel's words.
        source: io::Error,
    },
    /// The line broke, or what came over it was no answer.
    #[error("ask the daemon: {0}")]
    Line(#[from] WireError),
    /// It does not serve this run.
    #[error("the daemon does not serve this run: {}", .0.join("; "))]
    Refused(Vec<String>),
}

/// Connects.
pub fn connect(socket: &Path) -> Result<UnixStream, Unserved> {
    UnixStream::connect(socket).map_err(|source| Unserved::Connect { path: socket.to_owned(), source })
}

/// Runs the command with whoever is at the other end of the stream.
pub fn run(request: &SandboxRequest, caller: &Caller, stream: UnixStream, notices: &dyn Notices) -> Finished {
    let (targets, mut ending, mut finished) = begin(request, caller, notices);
    let mut session = Session { request, notices, child: None, group: None, has_ended: false };
    let answer = session.ask(stream, caller, &targets);
    match answer {
        Ok((over, files)) => {
            let Over { ending: theirs, tally, degradations, artifacts, streamed, kept } = *over;
            ending = theirs;
            finished.tally = tally;
            finished.degradations = degradations;
            if let Some((number, _)) = kept {
                notices.detail(&format!("kept by the daemon as entry {number}"));
            }
            place(&artifacts, files, &targets, &mut finished, &mut ending);
            for (name, digest) in streamed {
                take_streamed(&name, &digest, &targets, &mut finished, &mut ending);
            }
        }
        Err(why) if session.child.is_none() => {
            ending.not_started = Some(match why {
                Unserved::Refused(_) => NotStarted::Refused(why.to_string()),
                Unserved::Connect { .. } | Unserved::Line(_) => NotStarted::Failed(why.to_string()),
            });
        }
        Err(why) => {
            session.end_child();
            ending.child = Some(ChildEnd::Signalled(libc::SIGKILL));
            ending.failures = vec![format!("{why}; the command was ended")];
        }
    }
    conclude(request, &targets, ending, finished)
}

struct Session<'a> {
    request: &'a SandboxRequest,
    notices: &'a dyn Notices,
    child: Option<u32>,
    group: Option<Members>,
    has_ended: bool,
}

impl Session<'_> {
    fn ask(
        &mut self,
        stream: UnixStream,
        caller: &Caller,
        targets: &Targets,
    ) -> Result<(Box<Over>, Vec<OwnedFd>), Unserved> {
        let queue = SignalQueue::take_over().map_err(WireError::from)?;
        let line = Line::new(stream).map_err(WireError::from)?;
        if let Err(error) = self.send_ask(&line, caller, targets) {
            // Who is not served may have been told so, and the line closed, before all was said.
            return Err(refusal_on(&line).unwrap_or(error));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(WireError::from)?.block_on(self.attend(&line, queue, caller))
    }

    fn send_ask(&self, line: &Line, caller: &Caller, targets: &Targets) -> Result<(), Unserved> {
        let open_standard = (0..3).filter(|number| caller.inherited.closed & (1 << number) == 0);
        let passed: Vec<i32> = open_standard.chain(caller.passed_on.iter().copied()).collect();
        let files = match &self.request.policy {
            PolicySource::Builtin => PolicyFiles::default(),
            PolicySource::File(path) => PolicyFiles::gather(path.as_os_str().as_bytes(), &context(caller)),
        };
        let ask = Ask::of(self.request, caller.environment.clone(), passed.clone(), caller.inherited, files);
        let here = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let here = rustix::fs::open(".", here, rustix::fs::Mode::empty()).map_err(io::Error::from);
        let here = here.map_err(WireError::from)?;
        let mut opened = Vec::new();
        for name in STREAMS {
            if let Some(Ok(target)) = targets.of(name) {
                let file = target.stream(targets.owner).map_err(|error| WireError::from(error.source))?;
                opened.push((name, file));
            }
        }
        // One whose place cannot be had is told at the end.
        let ask = Ask {
            streams: ask
                .streams
                .into_iter()
                .filter(|(name, _)| opened.iter().any(|(open, _)| open == name))
                .collect(),
            ..ask
        };
        let given = descriptors::borrow_all(&passed);
        let mut fds: Vec<BorrowedFd<'_>> = vec![here.as_fd()];
        fds.extend(given);
        fds.extend(ask.streams.iter().filter_map(|(name, _)| {
            opened.iter().find(|(open, _)| open == name).map(|(_, file)| file.as_fd())
        }));
        let (header, body) = ask.pack();
        let header = message::write(&ToWorker::Ask(Box::new(header)))?;
        Ok(line.send(&header, &body, &fds)?)
    }

    async fn attend(
        &mut self,
        line: &Line,
        queue: SignalQueue,
        caller: &Caller,
    ) -> Result<(Box<Over>, Vec<OwnedFd>), Unserved> {
        let signals = Signals::new(queue).map_err(WireError::from)?;
        let stream = line.stream().try_clone().and_then(tokio::net::UnixStream::from_std);
        let stream = stream.map_err(WireError::from)?;
        loop {
            tokio::select! {
                readable = stream.readable() => {
                    readable.map_err(WireError::from)?;
                    // What tokio keeps may be older than what was read since; only then is it forgotten.
                    let has_input = || if is_readable(line.stream().as_fd())? { Ok(()) } else { Err(io::Error::from(io::ErrorKind::WouldBlock)) };
                    if stream.try_io(tokio::io::Interest::READABLE, has_input).is_err() {
                        continue;
                    }
                    let Some(frame) = line.receive(None)? else {
                        return Err(WireError::from(io::Error::other("it went away")).into());
                    };
                    match message::read::<ToClient>(&frame)? {
                        ToClient::Refused { reasons } => {
                            return Err(refused(&reasons));
                        }
                        ToClient::Notice { level, text } => tell(self.notices, level, sentence(&text)),
                        ToClient::Launch { wants_namespace, group } => {
                            self.launch(line, wants_namespace, &group, caller)?;
                        }
                        ToClient::Over(over) => return Ok((over, frame.fds)),
                    }
                }
                received = signals.receive() => {
                    let received = received.map_err(WireError::from)?;
                    let (Some(pid), Some(members)) = (self.child, &self.group) else {
                        if let Some(fatal) = received.iter().find(|one| would_end(one, &caller.inherited)) {
                            let words = format!("signal {} came before the command started", fatal.number);
                            return Err(WireError::from(io::Error::other(words)).into());
                        }
                        continue;
                    };
                    let running = Running { pid, members, signals: &signals };
                    for one in received {
                        if !self.has_ended {
                            running.pass_on(one).map_err(WireError::from)?;
                        }
                    }
                }
            }
            if let (Some(pid), Some(members), false) = (self.child, &self.group, self.has_ended) {
                let running = Running { pid, members, signals: &signals };
                if let Some(end) = running.poll(false).map_err(WireError::from)? {
                    self.has_ended = true;
                    line.send(&message::write(&ToWorker::Ended { end })?, &[], &[])?;
                }
            }
        }
    }

    /// Starts the launcher and hands over its line.
    fn launch(
        &mut self,
        line: &Line,
        wants_namespace: bool,
        group: &str,
        caller: &Caller,
    ) -> Result<(), Unserved> {
        if self.child.is_some() {
            return Err(WireError::Wrong("it wants two launchers").into());
        }
        let role = if wants_namespace { Role::LauncherApart } else { Role::Launcher };
        let started = reexec::spawn(role).and_then(|(process, stream)| {
            let pid = Pid::from_raw(process.id() as i32).ok_or(io::ErrorKind::InvalidData)?;
            Ok((process.id(), stream, pidfd_open(pid, PidfdFlags::empty())?))
        });
        match started {
            Ok((pid, stream, pidfd)) => {
                self.child = Some(pid);
                let directory = unescape(group).ok_or(WireError::Wrong("its group has no name"))?;
                self.group = Some(Members::Group(Group::adopt(PathBuf::from(std::ffi::OsStr::from_bytes(
                    &directory,
                )))));
                let fds = [stream.as_fd(), pidfd.as_fd()];
                line.send(&message::write(&ToWorker::Launched {})?, &[], &fds)?;
                // What the command closes must not stay open here.
                descriptors::close_inherited(&caller.passed_on);
                descriptors::let_go_of_stdio();
                Ok(())
            }
            Err(error) => {
                let why = error.to_string();
                Ok(line.send(&message::write(&ToWorker::NotLaunched { why })?, &[], &[])?)
            }
        }
    }

    /// The other end is gone, and with it whoever observes. Its watchdog ends the run; this is the part that is ours.
    fn end_child(&mut self) {
        let Some(pid) = self.child.filter(|_| !self.has_ended) else { return };
        if let Some(pid) = Pid::from_raw(pid as i32) {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
            rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).ok();
        }
    }
}

/// The refusal that waits on a line which takes nothing any more.
fn refusal_on(line: &Line) -> Option<Unserved> {
    let frame = line.receive(Some(Duration::ZERO)).ok()??;
    match message::read(&frame).ok()? {
        ToClient::Refused { reasons } => Some(refused(&reasons)),
        _ => None,
    }
}

fn refused(reasons: &[String]) -> Unserved {
    Unserved::Refused(reasons.iter().map(|why| sentence(why).to_owned()).collect())
}

/// What a policy that extends others may name them by.
fn context(caller: &Caller) -> Context {
    let bytes = |path: PathBuf| path.into_os_string().into_encoded_bytes();
    Context {
        home: caller.variable("HOME").filter(|home| home.is_absolute()).map(bytes),
        workdir: std::env::current_dir().map(bytes).unwrap_or_default(),
        caller_tmpdir: bytes(caller.tmpdir()),
        runtime_dir: bytes(caller.runtime_dir(rustix::process::getuid().as_raw())),
        ..Context::symbolic()
    }
}

fn tell(notices: &dyn Notices, level: Level, text: &str) {
    match level {
        Level::Error => notices.error(text),
        Level::Problem => notices.problem(text),
        Level::Warning => notices.warning(text),
        Level::Hint => notices.hint(text),
        Level::Note => notices.note(text),
        Level::Detail => notices.detail(text),
    }
}

/// Copies what was asked for to where it was asked for.
fn place(
    names: &[String],
    files: Vec<OwnedFd>,
    targets: &Targets,
    finished: &mut Finished,
    ending: &mut Ending,
) {
    let mut files: Vec<(&String, File)> = names.iter().zip(files.into_iter().map(File::from)).collect();
    for name in ARTIFACTS {
        let Some(target) = targets.of(name) else { continue };
        let file = files.iter_mut().find(|(known, _)| *known == name).map(|(_, file)| file);
        let written = match (target, file) {
            (Err(error), _) => Err(error.to_string()),
            (Ok(target), Some(file)) => target
                .write(targets.owner, |out| io::copy(file, out).map(drop))
                .map_err(|error| error.to_string()),
            // What did not start has none, and what could not be made was told.
            (Ok(_), None) => continue,
        };
        match written {
            Ok(written) => finished.written.push((name, written)),
            Err(why) => ending.unwritten.push(why),
        }
    }
    for name in STREAMS {
        if let Some(Err(error)) = targets.of(name) {
            ending.unwritten.push(error.to_string());
        }
    }
}

fn take_streamed(name: &str, digest: &str, targets: &Targets, finished: &mut Finished, ending: &mut Ending) {
    let Some(name) = STREAMS.into_iter().find(|known| *known == name) else { return };
    let Some(Ok(target)) = targets.of(name) else { return };
    match digest.parse::<Digest>() {
        Ok(sha256) => {
            finished.written.push((name, Written { path: target.path().to_owned(), sha256 }));
        }
        Err(_) => ending.unwritten.push(format!("write {}: its digest is none", target.path().display())),
    }
}
