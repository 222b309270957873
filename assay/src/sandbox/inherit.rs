//! What an heir does when the observer is dead: ends the run, takes the record over, and writes what was asked for.

use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::time::{Instant, SystemTime};

use super::descendants::Fate;
use super::heir::{Heir, Side, Vigil};
use super::hold::Hold;
use super::notice::Notices;
use super::outcome::ChildEnd;
use super::recorder::{self, Ended, ObserverEnd, Places, Recorder, Targets};
use super::request::SandboxRequest;
use super::stage::Stage;
use super::{fork, start, status, watchdog};
use crate::evidence::{Component, Degradation};

/// Everything that is known of a run before its command starts.
#[derive(Debug)]
pub struct Estate<'a> {
    /// The run as asked for.
    pub request: &'a SandboxRequest,
    /// Where the artifacts go.
    pub targets: &'a Targets,
    /// What it made on the host.
    pub stage: &'a Stage,
    /// The record, empty yet.
    pub recorder: &'a mut Option<Recorder>,
    /// The process that becomes the command.
    pub pid: u32,
    /// What was asked and not kept by the launch.
    pub degradations: &'a [Degradation],
    /// Names of the environment variables that were removed.
    pub env_removed: &'a [Vec<u8>],
    /// What names are relative to.
    pub places: &'a Places,
    /// When it started.
    pub started_at: (SystemTime, Instant),
    /// What it is held to.
    pub hold: &'a Hold,
}

/// Said where the artifacts are there.
const WRITTEN: &str = "the record goes as far as the observer was alive, and is marked so";

/// Leaves an heir, which holds neither these lines to others nor what the command was given. Without one the run goes on,
/// and its caller knows what that costs.
pub fn leave(
    (line, others): (Option<UnixStream>, Vec<RawFd>),
    passed_on: &[RawFd],
    estate: Estate,
    notices: &dyn Notices,
) -> Option<Heir> {
    let others: Vec<RawFd> = others.iter().chain(passed_on).copied().collect();
    let kept = estate.recorder.as_mut().map_or(Ok(()), Recorder::keep_spool);
    match kept.and_then(|()| Heir::split(line, &others)) {
        Ok(Side::Observer(heir)) => Some(heir),
        Ok(Side::Heir(vigil)) => inherit(vigil, estate),
        Err(error) => {
            notices.warning(&format!("if this process is killed there is no record: start an heir: {error}"));
            None
        }
    }
}

/// Stands by until the observer is dead, and goes on in its place.
fn inherit(mut vigil: Vigil, mut estate: Estate) -> ! {
    // Whoever waits for us then notices that we are gone without a word, and tells what can be told without us.
    let _copy = fork::EndsWhenDropped;
    let observer = std::os::unix::process::parent_id();
    let told = vigil.keep();
    let is_over = estate.stage.clear_for_heir();
    for (_, target) in estate.targets.all() {
        if let Ok(target) = target {
            target.remove_leftover(observer);
        }
    }
    write(&mut estate, told, is_over);
    vigil.done()
}

fn write(estate: &mut Estate, told: Option<ChildEnd>, is_over: bool) {
    let (request, targets) = (estate.request, estate.targets);
    let mut untaken = None;
    let mut taken = estate.recorder.take();
    if let Some(recorder) = &mut taken
        && let Err(error) = recorder.take_over(request, targets)
    {
        untaken = Some(format!("take over what the observer had read: {error}"));
    }
    let mut degradations = estate.degradations.to_vec();
    degradations.push(start::degradation(Component::Observer, "died"));
    start::sort(&mut degradations);
    let ended = Ended {
        request,
        pid: estate.pid,
        // What still ran was killed with its group.
        child: told.unwrap_or(ChildEnd::Signalled(libc::SIGKILL)),
        descendants: if is_over { Fate::Killed } else { Fate::Left },
        degradations,
        env_removed: estate.env_removed.to_vec(),
        places: estate.places.clone(),
        started_at: estate.started_at.0,
        duration: estate.started_at.1.elapsed(),
        hold: estate.hold,
        observer: ObserverEnd::Died,
        untaken,
    };
    let recorded = recorder::finish(taken, &ended, targets);
    let Some(Ok(target)) = targets.of("status") else { return };
    let mut decision = watchdog::killed(true, WRITTEN);
    decision.reasons.extend(ended.untaken.clone());
    decision.reasons.extend(recorded.unwritten);
    decision.reasons.extend(recorded.losses);
    let bytes = status::render(told, &decision, &recorded.written, Some(&recorded.degradations));
    // Nobody is left to tell that it could not be said.
    drop(target.write(request.owner, |out| out.write_all(&bytes)));
}
