//! The worker of one run: forked from the daemon, it reads what a client asks, runs it as `assay sandbox` does for root,
//! keeps the record in the spool, and hands copies on.

use std::cell::RefCell;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use super::ask::Ask;
use super::message::{self, Level, Over, ToClient, ToWorker};
use super::policy_files::PolicyFiles;
use super::reserve::Reserve;
use super::wire::{Frame, Line, WireError};
use crate::host::mountinfo::{OwnGroup, read_own_group};
use crate::observe::kernel::programs::ProgramsError;
use crate::observe::kernel::{Observer, ObserverConfig};
use crate::policy::Files;
use crate::profile::name::Name;
use crate::sandbox::artifact::Owner;
use crate::sandbox::behalf::{self, ProcessIds};
use crate::sandbox::caller::{Caller, Client, Launched, Parent};
use crate::sandbox::cgroup::Group;
use crate::sandbox::notice::Notices;
use crate::sandbox::outcome::ChildEnd;
use crate::sandbox::request::{
    Artifacts, Format, PolicySource, ProfileFiles, Progress, RunAs, SandboxRequest, Workdir,
};
use crate::sandbox::spec::Answer;
use crate::sandbox::user::User;
use crate::sandbox::{self, Finished};

/// How long a client may take to say the next thing that it owes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who is at the other end, as the kernel says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its process, by our numbers.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
}

/// Gives the observer of one run.
pub type Observe = Box<dyn FnOnce(&ObserverConfig) -> Result<Observer, ProgramsError>>;

/// What a worker is given.
pub struct Assignment {
    /// The line to the client.
    pub line: UnixStream,
    /// Who is there.
    pub peer: Peer,
    /// The group beneath which those of the runs lie.
    pub groups: OwnGroup,
    /// Numbers kept free for the client's descriptors.
    pub reserve: Reserve,
    /// How long the client may take to ask.
    pub silence: Duration,
    /// Where the observer comes from.
    pub observe: Observe,
    /// Told the process that is to be the command, once it is there.
    pub on_launch: Box<dyn Fn(u32)>,
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assignment")
            .field("peer", &self.peer)
            .field("groups", &self.groups)
            .finish_non_exhaustive()
    }
}

/// Where a run's record is kept.
pub trait Keeper {
    /// Makes a directory for the artifacts of this run.
    fn begin(&mut self, peer: &Peer, request: &Ask) -> Result<PathBuf, String>;
    /// Keeps what lies there, whatever came of the run; the number and digest of the entry.
    fn keep(&mut self, request: &Ask, finished: &Finished) -> Result<(u64, String), String>;
}

/// Why there was no run.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The client is not one that can be served.
    #[error("{0}")]
    Client(String),
    /// What came over the line was no request.
    #[error("read the request: {0}")]
    Line(#[from] WireError),
    /// It went away, or said nothing.
    #[error("no request came")]
    Silent,
}

/// Serves one client from its request to its artifacts. What the run came to, or why there was none; the client was told
/// the same.
pub fn work(assignment: Assignment, keeper: &mut dyn Keeper) -> Result<Finished, Refusal> {
    let Assignment { line, peer, groups, reserve, silence, observe, on_launch } = assignment;
    let line = Rc::new(Line::new(line).map_err(WireError::from)?);
    match prepare(&line, &peer, reserve, silence) {
        Ok(prepared) => {
            let client = ServedClient {
                line: Rc::clone(&line),
                peer,
                groups,
                policy_files: prepared.ask.policy_files.clone(),
                streams: prepared.streams,
                observe: RefCell::new(Some(observe)),
                on_launch,
            };
            serve(client, &prepared.ask, prepared.passed_on, keeper)
        }
        Err(refusal) => {
            refuse(&line, &refusal);
            Err(refusal)
        }
    }
}

/// Tells a client that there is no run for it.
pub fn refuse(line: &Line, refusal: &dyn fmt::Display) {
    let refused = ToClient::Refused { reasons: vec![refusal.to_string()] };
    // Who is not there any more needs no answer.
    drop(message::write(&refused).and_then(|header| line.send(&header, &[], &[])));
}

/// A request that can be served, with this process standing where its client stands.
struct Prepared {
    ask: Ask,
    passed_on: Vec<i32>,
    streams: Vec<(String, OwnedFd)>,
}

fn prepare(line: &Line, peer: &Peer, reserve: Reserve, silence: Duration) -> Result<Prepared, Refusal> {
    refuse_elsewhere(peer)?;
    let frame = line.receive(Some(silence))?.ok_or(Refusal::Silent)?;
    let ToWorker::Ask(header) = message::read(&frame)? else {
        return Err(WireError::Wrong("it begins with something else than a request").into());
    };
    let Frame { body, fds, .. } = frame;
    let ask = Ask::unpack(&header, &body)?;
    if fds.len() != 1 + ask.descriptors.len() + ask.streams.len() {
        return Err(WireError::Wrong("its descriptors do not add up").into());
    }
    let mut fds = fds.into_iter();
    let here = fds.next().ok_or(WireError::Wrong("it has no directory"))?;
    rustix::process::fchdir(&here)
        .and_then(|()| rustix::process::getcwd(Vec::new()).map(drop))
        .map_err(|error| Refusal::Client(format!("stand in the client's directory: {error}")))?;
    let given: Vec<OwnedFd> = fds.by_ref().take(ask.descriptors.len()).collect();
    let streams: Vec<(String, OwnedFd)> = ask.streams.iter().map(|(name, _)| name.clone()).zip(fds).collect();
    for (name, fd) in &streams {
        let kind = rustix::fs::fstat(fd).map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode));
        if kind != Ok(rustix::fs::FileType::RegularFile) {
            return Err(Refusal::Client(format!("the file for the {name} is none")));
        }
    }
    let passed_on = reserve
        .adopt(&ask.descriptors, given)
        .map_err(|error| Refusal::Client(format!("take the command's descriptors: {error}")))?;
    Ok(Prepared { ask, passed_on, streams })
}

/// Paths, ids and processes mean the same to both only in the same namespaces; and a run is no client.
fn refuse_elsewhere(peer: &Peer) -> Result<(), Refusal> {
    let refused = |text: &str| Err(Refusal::Client(text.to_owned()));
    let of = |process: &str, what: &str| {
        fs::metadata(format!("/proc/{process}/{what}")).map(|m| (m.dev(), m.ino()))
    };
    let theirs = peer.pid.to_string();
    for (what, words) in [
        ("ns/mnt", "it has other mounts than the daemon; run it outside of a container"),
        ("ns/user", "it is in a user namespace of its own"),
        ("ns/pid", "it is in a pid namespace of its own"),
        ("root", "it has another root directory than the daemon"),
    ] {
        match (of(&theirs, what), of("self", what)) {
            (Ok(theirs), Ok(ours)) if theirs == ours => {}
            _ => return refused(words),
        }
    }
    if is_in_a_run(peer.pid) {
        return refused("it is itself in a run, which cannot ask for another one");
    }
    Ok(())
}

/// Whether a process is in the group of a run.
fn is_in_a_run(pid: u32) -> bool {
    let Ok(text) = fs::read(format!("/proc/{pid}/cgroup")) else { return true };
    // Who does not show in the hierarchy that the groups lie in cannot be told to be in none.
    read_own_group(&text).is_none_or(|path| path.components().any(|part| Group::is_name(part.as_os_str())))
}

fn serve(
    client: ServedClient,
    ask: &Ask,
    passed_on: Vec<i32>,
    keeper: &mut dyn Keeper,
) -> Result<Finished, Refusal> {
    let line = Rc::clone(&client.line);
    let staging = keeper.begin(&client.peer, ask).map_err(Refusal::Client);
    let staging = staging.inspect_err(|refusal| refuse(&line, refusal))?;
    let request = request_of(ask, &client.peer, &staging);
    let caller = Caller {
        environment: ask.environment.clone(),
        passed_on,
        inherited: ask.inherited,
        parent: Parent::Client(Box::new(client)),
    };
    let mut finished = sandbox::run(&request, &caller, &LineNotices { line: Rc::clone(&line) });
    let handed = hand_on(&mut finished);
    let kept = match keeper.keep(ask, &finished) {
        Ok(kept) => Some(kept),
        Err(why) => {
            finished.ending.unwritten.push(format!("keep the record: {why}"));
            None
        }
    };
    let streamed = finished.written.iter().filter(|(name, _)| matches!(*name, "trace" | "records"));
    let over = ToClient::Over(Box::new(Over {
        ending: finished.ending.clone(),
        tally: finished.tally.clone(),
        degradations: finished.degradations.clone(),
        artifacts: handed.iter().map(|(name, _)| (*name).to_owned()).collect(),
        streamed: streamed.map(|(name, written)| ((*name).to_owned(), written.sha256.to_string())).collect(),
        kept,
    }));
    let fds: Vec<BorrowedFd<'_>> = handed.iter().map(|(_, file)| file.as_fd()).collect();
    // A client that is gone has its record all the same: where it is kept.
    drop(message::write(&over).and_then(|header| line.send(&header, &[], &fds)));
    Ok(finished)
}

/// The artifacts as open files, which a client may read and nothing else.
fn hand_on(finished: &mut Finished) -> Vec<(&'static str, File)> {
    let mut handed = Vec::new();
    for (name, written) in &finished.written {
        if matches!(*name, "trace" | "records" | "status") {
            continue;
        }
        match File::open(&written.path) {
            Ok(file) => handed.push((*name, file)),
            Err(error) => finished.ending.unwritten.push(format!("hand on the {name}: {error}")),
        }
    }
    handed
}

/// The request as this process runs it: everything is written where it is kept.
fn request_of(ask: &Ask, peer: &Peer, staging: &Path) -> SandboxRequest {
    let ending = match ask.format {
        Format::Yaml => "yaml",
        Format::Json => "json",
    };
    let report = if ask.is_report_html { "report.html" } else { "report.md" };
    let stream = |wanted: &str| {
        let found = ask.streams.iter().find(|(name, _)| name == wanted);
        found.map(|(_, path)| PathBuf::from(std::ffi::OsString::from_vec(path.clone())))
    };
    SandboxRequest {
        command: ask.command.iter().cloned().map(std::ffi::OsString::from_vec).collect(),
        mode: ask.mode,
        is_fail_closed: ask.is_fail_closed,
        wants_second_witness: false,
        allows_unobserved: ask.allows_unobserved,
        policy: match &ask.policy {
            None => PolicySource::Builtin,
            Some(path) => PolicySource::File(std::ffi::OsString::from_vec(path.clone()).into()),
        },
        artifacts: Artifacts {
            profile: Some(ProfileFiles {
                profile: staging.join(format!("profile.{ending}")),
                evidence: staging.join(format!("evidence.{ending}")),
                report: staging.join(report),
                format: ask.format,
            }),
            bundle: Some(staging.join("bundle.tar.gz")),
            trace: stream("trace"),
            records: stream("records"),
            status: None,
            epoch: ask.epoch,
        },
        environment: ask.scrubbing.clone(),
        workdir: match &ask.workdir {
            None => Workdir::Inherited,
            Some(path) => Workdir::At(std::ffi::OsString::from_vec(path.clone()).into()),
        },
        timeout: ask.timeout,
        user: RunAs::User(User {
            uid: peer.uid,
            gid: peer.gid,
            groups: peer.groups.clone(),
            home: std::ffi::OsString::new(),
        }),
        kept_capabilities: rustix::thread::CapabilitySet::empty(),
        descendants: ask.descendants,
        owner: Owner::Ourselves,
        progress: Progress::Never,
    }
}

/// Notices go to who asked.
struct LineNotices {
    line: Rc<Line>,
}

impl LineNotices {
    fn tell(&self, level: Level, text: &str) {
        let notice = ToClient::Notice { level, text: text.to_owned() };
        // One that cannot be told is not worth ending a run for.
        drop(message::write(&notice).and_then(|header| self.line.send(&header, &[], &[])));
    }
}

impl Notices for LineNotices {
    fn error(&self, text: &str) {
        self.tell(Level::Error, text);
    }

    fn problem(&self, text: &str) {
        self.tell(Level::Problem, text);
    }

    fn warning(&self, text: &str) {
        self.tell(Level::Warning, text);
    }

    fn hint(&self, text: &str) {
        self.tell(Level::Hint, text);
    }

    fn note(&self, text: &str) {
        self.tell(Level::Note, text);
    }

    fn detail(&self, text: &str) {
        self.tell(Level::Detail, text);
    }
}

/// The client, as the run sees it.
struct ServedClient {
    line: Rc<Line>,
    peer: Peer,
    groups: OwnGroup,
    policy_files: PolicyFiles,
    streams: Vec<(String, OwnedFd)>,
    observe: RefCell<Option<Observe>>,
    on_launch: Box<dyn Fn(u32)>,
}

impl fmt::Debug for ServedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedClient").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl ServedClient {
    fn next(&self) -> Result<Option<(ToWorker, Vec<OwnedFd>)>, WireError> {
        let Some(frame) = self.line.receive(Some(PATIENCE))? else { return Ok(None) };
        Ok(Some((message::read(&frame)?, frame.fds)))
    }

    /// Whether a process is the client's own child, of its user alone, and in no run.
    fn check(&self, pid: u32, pidfd: BorrowedFd<'_>) -> io::Result<ProcessIds> {
        let ids = ProcessIds::of(pid, pidfd)?;
        let is_own = |ids: &[u32], own: u32| ids.len() == 4 && ids.iter().all(|id| *id == own);
        if ids.parent != self.peer.pid
            || !is_own(&ids.uids, self.peer.uid)
            || !is_own(&ids.gids, self.peer.gid)
            || is_in_a_run(pid)
        {
            return Err(io::Error::other("the process it names is no child of its own"));
        }
        Ok(ids)
    }
}

impl Client for ServedClient {
    fn launch(&self, wants_namespace: bool, group: Option<&Group>) -> io::Result<Launched> {
        let directory = group.map(|group| Name::from_bytes(group.directory().as_os_str().as_bytes()));
        let group = directory.map(|name| name.as_str().to_owned()).unwrap_or_default();
        let header =
            message::write(&ToClient::Launch { wants_namespace, group }).map_err(io::Error::other)?;
        self.line.send(&header, &[], &[]).map_err(io::Error::other)?;
        let (answer, fds) =
            self.next().map_err(io::Error::other)?.ok_or_else(|| io::Error::other("the client is gone"))?;
        let fds: Result<[OwnedFd; 2], _> = fds.try_into();
        let (stream, pidfd) = match (answer, fds) {
            (ToWorker::Launched {}, Ok([stream, pidfd])) => (UnixStream::from(stream), pidfd),
            (ToWorker::NotLaunched { why }, _) => return Err(io::Error::other(message::sentence(&why))),
            _ => return Err(io::Error::other("the client does not answer as it should")),
        };
        stream.set_nonblocking(false)?;
        // A launcher that says nothing keeps its own run waiting, and not for ever.
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let pid = pid_of(pidfd.as_fd())?;
        let ids = self.check(pid, pidfd.as_fd())?;
        let mut launched = Launched { pid, pidfd, stream, has_namespace: false };
        if wants_namespace {
            match Answer::receive(&mut launched.stream)? {
                Some(Answer::Apart { is_done: true }) => {
                    behalf::map_ids(pid, &ids)?;
                    launched.has_namespace = true;
                }
                Some(Answer::Apart { is_done: false }) => {}
                _ => return Err(io::Error::other("the launcher does not answer as it should")),
            }
        }
        (self.on_launch)(pid);
        Ok(launched)
    }

    fn line(&self) -> io::Result<UnixStream> {
        self.line.stream().try_clone()
    }

    fn word(&self) -> io::Result<Option<ChildEnd>> {
        match self.next().map_err(io::Error::other)? {
            None => Ok(None),
            Some((ToWorker::Ended { end: end @ (ChildEnd::Exited(_) | ChildEnd::Signalled(1..=64)) }, _)) => {
                Ok(Some(end))
            }
            Some(_) => Err(io::Error::other("the client does not answer as it should")),
        }
    }

    fn observe(&self, config: &ObserverConfig) -> Result<Observer, ProgramsError> {
        match self.observe.borrow_mut().take() {
            Some(observe) => observe(config),
            None => Observer::start(config),
        }
    }

    fn groups(&self) -> &OwnGroup {
        &self.groups
    }

    fn policy_files(&self) -> &dyn Files {
        &self.policy_files
    }

    fn stream(&self, name: &str) -> Option<&OwnedFd> {
        self.streams.iter().find(|(known, _)| known == name).map(|(_, fd)| fd)
    }
}

/// The process that a pidfd is of, by our numbers; an error when it is no pidfd, or of a process that we do not see.
fn pid_of(pidfd: BorrowedFd<'_>) -> io::Result<u32> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:")).and_then(|pid| pid.trim().parse().ok());
    pid.filter(|pid| *pid > 0).ok_or_else(|| io::Error::other("what it sent is of no process"))
}
