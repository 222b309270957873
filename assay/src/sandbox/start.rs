//! From a request to a command that runs: what the launcher is told, and what its answers mean.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::as_user::AsUser;
use super::beginning::Beginning;
use super::caller::Caller;
use super::cgroup::{Group, GroupError};
use super::child::{self, Launch, LaunchError};
use super::descendants::Descendants;
use super::environment::{Environment, EnvironmentRequest};
use super::hold::Hold;
use super::notice::Notices;
use super::outcome::{ChildEnd, NotStarted};
use super::recorder::{Arming, Recorder, Targets, Unobservable};
use super::request::{Mode, RunAs, SandboxRequest, Workdir};
use super::signals::{self, SignalQueue};
use super::spec::{Ids, LastWords, LaunchSettings, LaunchSpec, Stage, Unheld};
use super::stage;
use super::user::User;
use super::{capabilities, outcome};
use crate::enforce::status::PROCESSES_VISIBLE;
use crate::evidence::{Component, Degradation};
use crate::profile::name::Name;

/// What of the request is a degradation by itself, unless all must be held.
pub fn asked_degradations(
    request: &SandboxRequest,
    notices: &dyn Notices,
) -> Result<Vec<Degradation>, NotStarted> {
    let mut degradations: Vec<Degradation> = capabilities::kept_names(request.kept_capabilities)
        .into_iter()
        .map(|name| Degradation {
            component: Component::Capabilities,
            reason: "kept-by-option".into(),
            detail: Some(name),
        })
        .collect();
    if request.environment == EnvironmentRequest::Passthrough {
        degradations.push(degradation(Component::Env, "passthrough"));
    }
    // In a dry run nothing is held anyway.
    if request.descendants == Descendants::Leave && request.mode != Mode::DryRun {
        refuse_leaving(request, notices)?;
        degradations.push(degradation(Component::Net, LEFT_UNHELD));
    }
    Ok(degradations)
}

/// What the control group's programs hold ends for processes that are left to run on. Landlock, mounts and the filter of
/// system calls go with them.
const LEFT_UNHELD: &str = "not-held-when-left";

/// Whoever wants all or nothing cannot leave processes behind.
fn refuse_leaving(request: &SandboxRequest, notices: &dyn Notices) -> Result<(), NotStarted> {
    const WHAT: &str =
        "what processes that are left to run on do on the network; `--descendants wait` or `kill` ends them";
    if request.is_fail_closed {
        return Err(NotStarted::Unenforceable(vec![format!(
            "--fail-closed, and this cannot be held: {WHAT}"
        )]));
    }
    match request.mode {
        Mode::Enforce => notices.warning(&format!("not held: {WHAT}")),
        Mode::Default | Mode::DryRun => notices.detail(&format!("not held: {WHAT}")),
    }
    Ok(())
}

/// In the order of every format, each once.
pub fn sort(degradations: &mut Vec<Degradation>) {
    degradations.sort();
    degradations.dedup();
}

/// A degradation that concerns the whole kind.
pub fn degradation(component: Component, reason: &str) -> Degradation {
    Degradation { component, reason: reason.into(), detail: None }
}

/// The user of a client; `None` where the run is our own.
pub fn client_of<'a>(request: &'a SandboxRequest, caller: &Caller) -> Option<&'a User> {
    match (&request.user, caller.client()) {
        (RunAs::User(user), Some(_)) => Some(user),
        _ => None,
    }
}

/// For as long as what it returns lives, files are looked at with the rights of a client's user.
pub fn look_as(request: &SandboxRequest, caller: &Caller) -> Result<Option<AsUser>, NotStarted> {
    client_of(request, caller)
        .map(AsUser::take_on)
        .transpose()
        .map_err(|error| NotStarted::Failed(format!("look at files as their user: {error}")))
}

/// The ids to give what the child owns, when they are not ours.
pub fn owner_of_child(request: &SandboxRequest) -> Option<(u32, u32)> {
    match &request.user {
        RunAs::Ourselves => None,
        RunAs::User(user) => Some((user.uid, user.gid)),
    }
}

/// Where the watchdog is to say what became of us.
pub fn last_words(request: &SandboxRequest, caller: &Caller) -> LastWords {
    // The watchdog leaves our directory.
    let absolute = |path: &Option<PathBuf>| path.as_ref().and_then(|path| std::path::absolute(path).ok());
    LastWords {
        status: absolute(&request.artifacts.status),
        // A client's is its own.
        trace: absolute(&request.artifacts.trace).filter(|_| caller.client().is_none()),
        owner: request.owner,
    }
}

/// Where a private `TMPDIR` may be, best first; `None` when the child is not to have one.
pub fn tmpdir_bases(request: &SandboxRequest, caller: &Caller) -> Option<Vec<PathBuf>> {
    if request.environment == EnvironmentRequest::Passthrough {
        return None;
    }
    let mut bases = vec![caller.tmpdir(), "/tmp".into(), "/var/tmp".into()];
    if caller.client().is_some() {
        // We make it with more rights than its owner has, so where it is is not for its owner to say.
        bases.remove(0);
        return Some(bases);
    }
    if owner_of_child(request).is_some() {
        // Ours may lie where another user cannot go.
        bases.rotate_left(1);
    }
    Some(bases)
}

/// Who the child runs as.
pub fn uid_of_child(request: &SandboxRequest) -> u32 {
    match &request.user {
        RunAs::Ourselves => rustix::process::getuid().as_raw(),
        RunAs::User(user) => user.uid,
    }
}

/// The child's environment, from its caller's. `allowed` are the names that the policy lets stay.
pub fn make_environment(
    request: &SandboxRequest,
    caller: &Caller,
    tmpdir: Option<&Path>,
    allowed: &[String],
) -> Environment {
    let mut asked = request.environment.clone();
    if let EnvironmentRequest::Scrub(scrubbing) = &mut asked {
        scrubbing.allow.extend(allowed.iter().map(Into::into));
    }
    let mut environment = Environment::scrub(caller.environment.clone(), &asked);
    // A client's is its own already.
    if let (RunAs::User(user), None) = (&request.user, caller.client()) {
        environment.set(b"HOME", user.home.as_bytes());
    }
    if let Some(tmpdir) = tmpdir {
        environment.set(b"TMPDIR", tmpdir.as_os_str().as_bytes());
    }
    environment
}

/// What the launcher is told.
pub fn launch_spec(
    request: &SandboxRequest,
    caller: &Caller,
    environment: &Environment,
    group: Option<&Group>,
    ruleset: Option<Vec<u8>>,
) -> LaunchSpec {
    let is_served = caller.client().is_some();
    LaunchSpec {
        argv: request.command.iter().cloned().map(std::os::unix::ffi::OsStringExt::into_vec).collect(),
        envp: environment.entries.clone(),
        // A client's child is put there.
        procs_file: group.filter(|_| !is_served).map(Group::procs_file),
        workdir: match &request.workdir {
            Workdir::Inherited => None,
            Workdir::At(path) => Some(path.clone()),
        },
        settings: LaunchSettings {
            ids: match &request.user {
                RunAs::Ourselves => None,
                // A client is that user.
                RunAs::User(_) if is_served => None,
                RunAs::User(user) => Some(Ids { uid: user.uid, gid: user.gid, groups: user.groups.clone() }),
            },
            dropped: capabilities::to_drop(request.kept_capabilities).bits(),
            has_no_new_privs: request.mode != Mode::DryRun,
            inherited: caller.inherited,
            is_served,
            ruleset,
        },
    }
}

/// Refuses a run that is to be recorded where there can be no record, before anything else is looked into.
pub fn refuse_without_group(request: &SandboxRequest, stage: &stage::Stage) -> Result<(), NotStarted> {
    match stage.group() {
        Err(error) if request.wants_record() && !request.allows_unobserved => Err(refusal(&no_group(error))),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn no_group(error: &GroupError) -> Unobservable {
    let hint = match error {
        GroupError::NotMounted => {
            "it need not be the only version: `mount -t cgroup2 none DIRECTORY`; `assay doctor` tells more"
        }
        GroupError::Make { .. } | GroupError::Read { .. } => {
            "run as root, or where a control group is delegated to you, such as `systemd-run --user --scope`"
        }
    };
    Unobservable { reason: error.to_string(), hint: hint.into() }
}

fn refusal(unobservable: &Unobservable) -> NotStarted {
    NotStarted::Refused(format!("{unobservable}; {}", unobservable.hint))
}

/// A refusal for what cannot be held names also what stands in the way of the record: all that is missing, at once.
pub fn with_obstacle(
    refused: NotStarted,
    request: &SandboxRequest,
    caller: &Caller,
    stage: &stage::Stage,
) -> NotStarted {
    // Who is served has an observer already.
    if request.allows_unobserved || caller.client().is_some() {
        return refused;
    }
    let NotStarted::Unenforceable(mut texts) = refused else { return refused };
    let obstacle = stage.group().map_err(no_group).and_then(Recorder::try_out).err();
    texts.extend(obstacle.iter().flat_map(|obstacle| refusal(obstacle).texts().to_vec()));
    NotStarted::Unenforceable(texts)
}

/// Arms the observer, or says what follows from there being none.
pub fn arm(
    request: &SandboxRequest,
    caller: &Caller,
    stage: &stage::Stage,
    targets: &Targets,
    hold: &Hold,
    beginning: Option<Beginning>,
    notices: &dyn Notices,
) -> Result<Option<Recorder>, NotStarted> {
    let armed = match stage.group() {
        Ok(group) => {
            let (names, hides) = (hold.names(), hold.hides());
            Recorder::arm(Arming { request, caller, group, targets, names, hides, beginning })
        }
        Err(error) => Err(no_group(error)),
    };
    match armed {
        Ok(recorder) => Ok(Some(recorder)),
        Err(unobservable) if request.wants_record() && !request.allows_unobserved => {
            Err(refusal(&unobservable))
        }
        Err(unobservable) => {
            notices.warning(&format!("nothing is recorded: {}", unobservable.reason));
            Ok(None)
        }
    }
}

/// How a launch comes out: the command runs, or a signal ended it before it could.
pub fn outcome_of<T>(
    result: Result<T, LaunchError>,
    request: &SandboxRequest,
    missing_interpreter: impl FnOnce() -> Option<Name>,
) -> Result<Result<T, ChildEnd>, NotStarted> {
    let error = match result {
        Ok(value) => return Ok(Ok(value)),
        Err(LaunchError::Ended(end @ ChildEnd::Signalled(_))) => return Ok(Err(end)),
        Err(error) => error,
    };
    let command = request.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Err(match error {
        LaunchError::Step { stage: Stage::Exec, errno, .. } => {
            let missing = if errno == libc::ENOENT { missing_interpreter() } else { None };
            let what = missing.as_ref().map(|name| format!("its interpreter `{name}`: ")).unwrap_or_default();
            let why = match errno {
                libc::ENOENT if missing.is_none() && !command.contains('/') => {
                    "; it is in no directory of PATH"
                }
                libc::EACCES => "; it is not executable, or the policy does not let it run",
                libc::ENOEXEC => "; it is no program of this machine, and has no `#!` line",
                _ => "",
            };
            let text = format!("start `{command}`: {what}{}{why}", io::Error::from_raw_os_error(errno));
            if errno == libc::ENOENT {
                outcome::NotStarted::NotFound(text)
            } else {
                outcome::NotStarted::NotExecutable(text)
            }
        }
        refused @ LaunchError::Unheld(_) => NotStarted::Refused(refused.to_string()),
        refused @ LaunchError::Step { stage: Stage::Ruleset, .. } if request.is_fail_closed => {
            NotStarted::Refused(refused.to_string())
        }
        LaunchError::Step { stage: Stage::Workdir, errno, .. } => {
            let directory = match &request.workdir {
                Workdir::At(path) => format!("{} (--workdir)", path.display()),
                Workdir::Inherited => "we were started in".into(),
            };
            let error = io::Error::from_raw_os_error(errno);
            NotStarted::Failed(format!("enter the directory {directory}: {error}"))
        }
        other => NotStarted::Failed(other.to_string()),
    })
}

/// A signal that came while we prepared meets the launcher, as it would have met the command.
pub fn deliver_early(launch: &Launch, caller: &Caller, queue: &SignalQueue) {
    while let Ok(Some(received)) = queue.next() {
        if child::would_end(&received, &caller.inherited) {
            // One that is gone already needs no signal.
            drop(signals::send(launch.pid(), received.number));
        }
    }
}

/// Where all must be held, what the launcher could not hold is the end of it.
pub fn refuse_unheld(request: &SandboxRequest, unheld: &[Degradation]) -> Result<(), LaunchError> {
    match unheld.first() {
        Some(first) if request.is_fail_closed && request.mode != Mode::DryRun => {
            Err(LaunchError::Unheld(first.explain()))
        }
        _ => Ok(()),
    }
}

/// What a launcher could not hold, as the evidence has it.
pub fn to_degradation(unheld: Unheld) -> Degradation {
    match unheld {
        Unheld::CgroupWritable => degradation(Component::Launch, "cgroup-writable"),
        Unheld::OtherProcessesVisible => Degradation::about(Component::Fs, PROCESSES_VISIBLE, "/proc"),
        Unheld::BoundingSetKept => degradation(Component::Capabilities, "bounding-set-kept"),
    }
}
