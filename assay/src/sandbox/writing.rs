//! Writes the artifacts that are made when the run is over, each whole or not at all.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::artifact::{ArtifactError, Written};
use super::recorder::{Ended, ObserverEnd, Recorded, Targets};
use crate::canon::digest::Digest;
use crate::enforce::status::brief;
use crate::evidence::Evidence;
use crate::evidence::bundle;
use crate::evidence::events::Emission;
use crate::evidence::{identity, wire};
use crate::policy::builtin;
use crate::profile::suggest;
use crate::profile::suggest::protect::Protected;
use crate::report::basis::Basis;
use crate::report::{html, markdown};

/// The artifacts, in the order in which they are told.
const TOLD: [&str; 4] = ["evidence", "profile", "report", "bundle"];
/// The same, those that take longest first.
const BEGUN: [&str; 4] = ["bundle", "profile", "evidence", "report"];

/// Writes what was asked for; tells what is in place and what is not. What comes back is the digest of the identity.
pub fn write(evidence: &Evidence, ended: &Ended, targets: &Targets, recorded: &mut Recorded) -> Digest {
    // Whoever needs it first computes it, once for all of them.
    let known = OnceLock::new();
    let digest = || known.get_or_init(|| identity::digest(&evidence.identity));
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(name) = BEGUN.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(written) = write_one(name, evidence, &digest, ended, targets) {
                done.lock().unwrap_or_else(PoisonError::into_inner).push((*name, written));
            }
        }
    };
    std::thread::scope(|scope| {
        // There may be no second thread to be had: then one writes all of them.
        let other = std::thread::Builder::new().spawn_scoped(scope, work);
        work();
        // What it could not make is missed below.
        other.map(std::thread::ScopedJoinHandle::join).ok()
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    for name in TOLD {
        match done.iter().position(|(known, _)| *known == name) {
            Some(at) => keep(name, done.swap_remove(at).1, recorded),
            None if matches!(targets.of(name), Some(Ok(_))) => {
                recorded.unwritten.push(format!("write the {name}: it could not be made"));
            }
            None => {}
        }
    }
    *digest()
}

/// Writes one of them, if it was asked for.
fn write_one<'a>(
    name: &str,
    evidence: &Evidence,
    digest: &dyn Fn() -> &'a Digest,
    ended: &Ended,
    targets: &Targets,
) -> Option<Result<Written, ArtifactError>> {
    let target = targets.of(name)?.as_ref().ok()?;
    let format = ended.request.artifacts.profile.as_ref().map(|profile| profile.format);
    Some(match (name, format) {
        ("bundle", _) => {
            let emission = emission(ended.request.artifacts.epoch);
            target
                .write(targets.owner, |out| bundle::write_known(evidence, digest(), &emission, out).map(drop))
        }
        ("evidence", Some(format)) => {
            target.write(targets.owner, |out| wire::write_to(out, evidence, digest(), format))
        }
        ("profile", Some(format)) => {
            let identity = &evidence.identity;
            let policy = suggest::suggest(&identity.effects, &evidence.observed.folded, &protected(evidence));
            let run_id = identity::run_id(digest());
            let mut comments = suggest::comments(&policy, &identity.command, &run_id, &identity.effects);
            comments.notes = caveats(evidence, ended);
            let text = policy.write(&comments, format);
            target.write(targets.owner, |out| out.write_all(text.as_bytes()))
        }
        ("report", _) => {
            target.write(targets.owner, |out| report(out, evidence, Basis::Known(digest()), target.path()))
        }
        _ => return None,
    })
}

/// The report as its name asks for it.
fn report(out: &mut dyn Write, evidence: &Evidence, basis: Basis<'_>, path: &Path) -> io::Result<()> {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    match ending.as_deref() {
        Some("html" | "htm") => html::write(out, evidence, basis),
        Some(_) | None => markdown::write(out, evidence, basis),
    }
}

/// What a reader of the profile alone must know. Only what follows from the identity, or is so of every run like it.
fn caveats(evidence: &Evidence, ended: &Ended) -> Vec<String> {
    let mut lines = Vec::new();
    if evidence.coverage.ledger.is_unobserved {
        lines
            .push("nothing was observed: that it allows nothing says nothing of what the run did".to_owned());
    }
    if ended.observer == ObserverEnd::Died {
        lines.push(
            "NOT WHOLE: the observer was killed during the run; this allows what it had seen until then"
                .to_owned(),
        );
    }
    match evidence.identity.degradations.len() {
        0 => {}
        1 => lines.push("1 degradation of the run is in its evidence:".to_owned()),
        many => lines.push(format!("{many} degradations of the run are in its evidence:")),
    }
    lines.extend(brief(&evidence.identity.degradations).into_iter().map(|line| format!("  {line}")));
    lines
}

/// The trace of a run that nobody observed.
pub fn write_unobserved_trace(targets: &Targets, recorded: &mut Recorded) {
    const LINE: &[u8] = b"{\"end\":false,\"reason\":\"not observed\"}\n";
    if let Some(Ok(target)) = targets.of("trace") {
        keep("trace", target.write(targets.owner, |out| out.write_all(LINE)), recorded);
    }
}

/// What a profile suggested for this run does not open.
pub fn protected(evidence: &Evidence) -> Vec<Protected> {
    let roots = &evidence.observed.roots;
    let paths = builtin::denied_paths().into_iter();
    paths.map(|(path, is_write_only)| Protected::new(path, is_write_only, roots)).collect()
}

fn keep(name: &'static str, written: Result<Written, ArtifactError>, recorded: &mut Recorded) {
    match written {
        Ok(written) => recorded.written.push((name, written)),
        Err(error) => recorded.unwritten.push(error.to_string()),
    }
}

/// How the bundle's events are stamped: now, or at `SOURCE_DATE_EPOCH`.
fn emission(epoch: Option<u64>) -> Emission {
    let time = match epoch {
        Some(seconds) => std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds),
        None => std::time::SystemTime::now(),
    };
    Emission {
        time: super::host_facts::timestamp(time),
        producer: "assay".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        git: "unknown".into(),
        is_reproducible: epoch.is_some(),
    }
}
