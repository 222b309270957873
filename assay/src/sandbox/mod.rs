//! One run: from a checked request to a decision, with everything cleaned up behind it.
//!
//! Prints nothing itself; what is to be said while it lasts goes through [`Notices`].

use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

pub mod apart;
pub mod artifact;
pub mod as_user;
pub mod assemble;
pub mod beginning;
pub mod behalf;
pub mod caller;
pub mod capabilities;
pub mod cgroup;
pub mod child;
pub mod counting;
pub mod descendants;
pub mod descriptors;
pub mod duration;
pub mod ended;
pub mod environment;
pub mod exec;
pub mod fork;
pub mod given;
pub mod heir;
pub mod hold;
pub mod host_facts;
mod in_the_way;
pub mod inherit;
pub mod inheritance;
pub mod inherited;
pub mod interpreter;
pub mod lag;
pub mod launcher;
pub mod members;
pub mod namespace;
pub mod notice;
pub mod outcome;
pub mod parts;
pub mod program_digest;
pub mod record;
pub mod recorder;
pub mod reexec;
pub mod request;
pub mod scratch;
pub mod signals;
pub mod sources;
pub mod spec;
pub mod spool;
pub mod stage;
pub mod start;
pub mod status;
pub mod streamed;
pub mod targets;
pub mod tmpdir;
pub mod ungranted;
pub mod user;
pub mod watchdog;
pub mod withheld;
pub mod writing;

use crate::evidence::{Component, Degradation, Evidence};
use crate::profile::name::Name;
use crate::profile::redact::find_in_argv;
use crate::profile::secrets::Secrets;

use artifact::Written;
use assemble::Tally;
use beginning::Beginning;
use caller::Caller;
use cgroup::Group;
use child::{Launch, LaunchError, Running, Signals};
use descendants::Fate;
use environment::Environment;
use heir::Heir;
use hold::Hold;
use inherit::Estate;
use members::Members;
use notice::Notices;
use outcome::{ChildEnd, Decision, Ending, NotStarted};
use recorder::{Ended, ObserverEnd, Places, Recorded, Recorder, Targets};
use request::{Mode, SandboxRequest, Timeout, Workdir};
use signals::SignalQueue;
use stage::Stage;

/// A run that is over.
#[derive(Debug, Default)]
pub struct Finished {
    /// What is to be decided on.
    pub ending: Ending,
    /// What it comes to.
    pub decision: Decision,
    /// How the command ended; `None` when it did not start.
    pub child: Option<ChildEnd>,
    /// Artifacts in their places.
    pub written: Vec<(&'static str, Written)>,
    /// What it did, in a few numbers; `None` when nothing was observed.
    pub tally: Option<Tally>,
    /// What was asked of the sandbox and not kept.
    pub degradations: Vec<Degradation>,
    /// The record, where there is one.
    pub evidence: Option<Box<Evidence>>,
    /// The longest that a record waited to be read, in microseconds.
    pub lag_us: u64,
    /// What was told before the command started and is among the reasons.
    pub told_before: Vec<String>,
}

/// Where the artifacts will be, with a warning for each that cannot be there; and what is to be filled in until
/// [`conclude`].
pub fn begin(
    request: &SandboxRequest,
    caller: &Caller,
    notices: &dyn Notices,
) -> (Targets, Ending, Finished) {
    let targets = Targets::prepare(request, caller);
    let told_before: Vec<String> = targets.failures().map(ToString::to_string).collect();
    for failure in &told_before {
        notices.warning(failure);
    }
    let ending = Ending {
        is_fail_closed: request.is_fail_closed,
        is_dry_run: request.mode == Mode::DryRun,
        ..Ending::default()
    };
    (targets, ending, Finished { told_before, ..Finished::default() })
}

/// Runs the command, and decides what the run comes to.
pub fn run(request: &SandboxRequest, caller: &Caller, notices: &dyn Notices) -> Finished {
    apart::set_apart();
    let (targets, mut ending, mut finished) = begin(request, caller, notices);
    // Kept until all is written.
    let mut heir = None;
    match live(request, caller, &targets, &mut heir, notices) {
        Ok(Lived { child, failures, recorded }) => {
            ending.child = Some(child);
            ending.failures = failures;
            ending.unwritten = recorded.unwritten;
            ending.losses = recorded.losses;
            ending.unauthorised = recorded.unauthorised;
            ending.denied = recorded.denied;
            // Apart, so that many of one kind do not hide the other.
            tell_sentences(&recorded.sentences, notices);
            tell_sentences(&recorded.launch, notices);
            finished.written = recorded.written;
            finished.tally = recorded.tally;
            finished.degradations = recorded.degradations;
            finished.evidence = recorded.evidence;
            finished.lag_us = recorded.lag_us;
        }
        Err(not_started) => ending.not_started = Some(not_started),
    }
    conclude(request, &targets, ending, finished)
}

/// Decides what a run comes to, and writes the status file where it was asked for.
pub fn conclude(
    request: &SandboxRequest,
    targets: &Targets,
    mut ending: Ending,
    mut finished: Finished,
) -> Finished {
    if !request.wants_record() {
        ending.losses.clear();
    }
    let decide = |ending: &Ending| {
        let mut decision = outcome::decide(ending);
        decision.reasons = without_secrets(request, &decision.reasons);
        decision
    };
    finished.decision = decide(&ending);
    finished.child = ending.child;
    if let Some(target) = targets.of("status") {
        let bytes =
            status::render(ending.child, &finished.decision, &finished.written, Some(&finished.degradations));
        let written = match target {
            Ok(target) => {
                target.write(request.owner, |out| out.write_all(&bytes)).map(drop).map_err(|e| e.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(text) = written {
            ending.unwritten.push(text);
            finished.decision = decide(&ending);
        }
    }
    finished.ending = ending;
    finished
}

/// The reasons as they may be printed and kept: one can name the command, and a secret may stand in its arguments.
fn without_secrets(request: &SandboxRequest, reasons: &[String]) -> Vec<String> {
    let argv: Vec<Vec<u8>> = request.command.iter().map(|word| word.as_encoded_bytes().to_vec()).collect();
    let mut secrets = Secrets::default();
    for (word, found) in argv.iter().zip(find_in_argv(&argv)) {
        secrets.learn(word, &found);
    }
    reasons.iter().map(|reason| secrets.hide(reason)).collect()
}

/// More sentences than this are only counted.
const MAX_SENTENCES: usize = 25;

/// What the policy stopped or did not authorise, and what would allow it.
fn tell_sentences(sentences: &[String], notices: &dyn Notices) {
    sentences.iter().take(MAX_SENTENCES).for_each(|sentence| notices.note(sentence));
    if sentences.len() > MAX_SENTENCES {
        notices.note(&format!("and {} more", sentences.len() - MAX_SENTENCES));
    }
}

/// What was prepared, for who asks.
fn tell_preparations(
    group: Option<&Group>,
    places: &Places,
    environment: &Environment,
    notices: &dyn Notices,
) {
    match group {
        Some(group) => notices.detail(&format!("control group: {}", group.directory().display())),
        None => notices.detail("control group: none"),
    }
    if let Some(tmpdir) = &places.tmpdir {
        notices.detail(&format!("private TMPDIR: {}", tmpdir.display()));
    }
    for name in &environment.removed {
        notices.detail(&format!("removed from the environment: {}", Name::from_bytes(name)));
    }
}

/// What names of the run are relative to.
fn places_of(
    request: &SandboxRequest,
    caller: &Caller,
    environment: &Environment,
    stage: &Stage,
) -> Result<Places, NotStarted> {
    // What they lead to is told, also where a client may not go.
    let _as_client = start::look_as(request, caller)?;
    let mut places = Places {
        workdir: match &request.workdir {
            Workdir::At(path) => std::fs::canonicalize(path).ok(),
            Workdir::Inherited => std::env::current_dir().ok(),
        },
        home: environment.value(b"HOME").map(PathBuf::from),
        tmpdir: stage.tmpdir().map(PathBuf::from),
        caller_tmpdir: caller.tmpdir(),
        runtime_dir: caller.runtime_dir(start::uid_of_child(request)),
        ..Places::default()
    };
    let group = stage.group().map_or(Path::new(""), Group::directory);
    places.roots = host_facts::roots(request, &places, group);
    Ok(places)
}

/// A run that started.
struct Lived {
    child: ChildEnd,
    failures: Vec<String>,
    recorded: Recorded,
}

/// The life of a run.
fn live(
    request: &SandboxRequest,
    caller: &Caller,
    targets: &Targets,
    heir: &mut Option<Heir>,
    notices: &dyn Notices,
) -> Result<Lived, NotStarted> {
    let queue = SignalQueue::take_over()
        .map_err(|error| NotStarted::Failed(format!("take over signals: {error}")))?;
    let mut degradations = start::asked_degradations(request, notices)?;
    // Who serves a client has what observes it.
    let beginning = caller.client().is_none().then(|| Beginning::of(request.wants_second_witness));

    let mut stage = Stage::set_up(
        caller,
        start::tmpdir_bases(request, caller).as_deref(),
        &scratch::bases(request, caller),
        start::owner_of_child(request),
        start::last_words(request, caller),
    )?;
    start::refuse_without_group(request, &stage)?;
    let (group, members) = (stage.group().ok().cloned(), stage.members()?);
    if group.is_none() {
        degradations.push(start::degradation(Component::Launch, "no-control-group"));
    }
    let mut environment = start::make_environment(request, caller, stage.tmpdir(), &[]);

    let places = places_of(request, caller, &environment, &stage)?;

    let launch = Launch::begin(caller, group.as_ref(), request.mode != Mode::DryRun);
    let can_mount = launch.as_ref().ok().and_then(Launch::can_mount);
    let mut hold = Hold::prepare(request, caller, &places, &environment, &stage, can_mount, notices)
        .map_err(|refused| start::with_obstacle(refused, request, caller, &stage))?;
    degradations.extend(hold.degradations().cloned());
    if !hold.env_allow().is_empty() {
        // Only now is it known what the policy lets stay; nothing that it was read by can change by it.
        environment = start::make_environment(request, caller, stage.tmpdir(), hold.env_allow());
    }

    tell_preparations(group.as_ref(), &places, &environment, notices);

    // The launcher prepares itself while the observer is armed, and then waits for the word.
    let spec = start::launch_spec(request, caller, &environment, group.as_ref(), hold.confinement());
    let launch = launch.and_then(|launch| launch.instruct(&spec, group.as_ref()));
    let mut recorder = start::arm(request, caller, &stage, targets, &hold, beginning, notices)?;
    hold.hold_names(group.as_ref(), recorder.as_ref().and_then(Recorder::addresses))?;
    if recorder.as_ref().is_some_and(Recorder::is_tracing) {
        stage.announce_trace();
    }
    let started_at = (SystemTime::now(), Instant::now());
    let started = start::outcome_of(
        launch.and_then(|mut launch| {
            let unheld = launch.wait_ready()?;
            let unheld: Vec<_> = unheld.into_iter().map(start::to_degradation).collect();
            start::refuse_unheld(request, &unheld)?;
            degradations.extend(unheld);
            stage.wait_ready().map_err(|why| LaunchError::Elsewhere(why.texts().join("; ")))?;
            if let Some(recorder) = &mut recorder {
                recorder.expect_start_of(launch.pid(), request, caller, &places, hold.barriers());
            }
            if request.artifacts.has_record() && group.is_some() {
                let line = stage.take_line(launch.line());
                let estate = Estate {
                    request,
                    targets,
                    stage: &stage,
                    recorder: &mut recorder,
                    pid: launch.pid(),
                    degradations: &degradations,
                    env_removed: &environment.removed,
                    places: &places,
                    started_at,
                    hold: &hold,
                };
                *heir = inherit::leave(line, &caller.passed_on, estate, notices);
            }
            start::deliver_early(&launch, caller, &queue);
            launch.go(heir.as_ref().map(Heir::pid))
        }),
        request,
        || interpreter::missing_interpreter(request, &environment, &places),
    )?;
    // What the command closes must not stay open here.
    descriptors::close_inherited(&caller.passed_on);
    descriptors::let_go_of_stdio();

    let mut failures = Vec::new();
    let (child, fate) = attend(
        &Attended { request, caller, members: &members, heir: heir.as_ref() },
        started,
        recorder.as_mut(),
        queue,
        &mut failures,
    );
    let duration = started_at.1.elapsed();

    if !stage.was_watched() {
        degradations.push(start::degradation(Component::Launch, "watchdog-killed"));
    }
    hold.release();
    stage.clear().iter().for_each(|text| notices.warning(text));
    start::sort(&mut degradations);
    let ended = Ended {
        request,
        pid: started.unwrap_or(0),
        child,
        descendants: fate,
        degradations,
        env_removed: environment.removed,
        places,
        started_at: started_at.0,
        duration,
        hold: &hold,
        observer: ObserverEnd::Lived,
        untaken: None,
    };
    Ok(Lived { child, failures, recorded: recorder::finish(recorder, &ended, targets) })
}

/// What is attended to while the command runs.
struct Attended<'a> {
    request: &'a SandboxRequest,
    caller: &'a Caller,
    members: &'a Members,
    heir: Option<&'a Heir>,
}

/// Stays with the command until it and what it left behind are settled, and takes the record meanwhile.
fn attend(
    attended: &Attended,
    started: Result<u32, ChildEnd>,
    recorder: Option<&mut Recorder>,
    queue: SignalQueue,
    failures: &mut Vec<String>,
) -> (ChildEnd, Fate) {
    let Attended { request, caller, members, heir } = *attended;
    let timeout = match request.timeout {
        Timeout::Never => None,
        Timeout::After(duration) => Some(duration),
    };
    let (mut stopped, mut cut_short) = (None, None);
    let attended = tokio::runtime::Builder::new_current_thread().enable_all().build().and_then(|runtime| {
        if let Ok(pid) = started {
            members.expect_command(pid);
        }
        runtime.block_on(async {
            let signals = Signals::new(queue)?;
            let living = async {
                let child = match started {
                    Ok(pid) => {
                        let running = Running { pid, members, signals: &signals };
                        match caller.client() {
                            None => running.wait(timeout).await?,
                            Some(client) => {
                                let (end, why) = running.wait_for_word(client, timeout).await?;
                                cut_short = why;
                                end
                            }
                        }
                    }
                    Err(end) => end,
                };
                if let Some(heir) = heir {
                    heir.tell(child);
                }
                Ok((child, descendants::settle(members, request.descendants, &signals).await))
            };
            let recording = async {
                if let Some(recorder) = recorder {
                    stopped = Some(recorder.pump().await);
                }
                std::future::pending().await
            };
            tokio::select! {
                lived = living => lived,
                never = recording => never,
            }
        })
    });
    failures.extend(cut_short.map(str::to_owned));
    failures.extend(stopped.map(|reason| format!("observe the run: {reason}")));
    attended.unwrap_or_else(|error| {
        // We can no longer tell when it ends, so it ends now.
        failures.push(format!("wait for the command: {error}"));
        let pid = started.unwrap_or(0);
        if pid != 0 {
            drop(signals::send(pid, libc::SIGKILL));
        }
        members.kill();
        (ChildEnd::Signalled(libc::SIGKILL), Fate::Killed)
    })
}
