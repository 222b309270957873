//! The record of a served run on its way into the spool: a directory before the run, an entry of the chain after it.

use std::path::PathBuf;
use std::time::SystemTime;

use super::ask::Ask;
use super::worker::{Keeper, Peer};
use crate::evidence::Evidence;
use crate::profile::name::Name;
use crate::profile::redact::find_in_argv;
use crate::profile::secrets::Secrets;
use crate::sandbox::{Finished, host_facts};
use crate::spool::{Begin, Committed, Spool, SpoolError, Staging, Summary, User, Writer};

/// Keeps one run in a spool.
#[derive(Debug)]
pub struct SpoolKeeper {
    spool: PathBuf,
    staging: Option<Staging>,
    /// What is in the chain.
    pub committed: Option<Committed>,
}

impl SpoolKeeper {
    /// For the spool in this directory.
    pub fn new(spool: PathBuf) -> Self {
        Self { spool, staging: None, committed: None }
    }
}

impl Keeper for SpoolKeeper {
    fn begin(&mut self, peer: &Peer, request: &Ask) -> Result<PathBuf, String> {
        let begin = || -> Result<Staging, String> {
            let words = |error: SpoolError| error.to_string();
            let begin = Begin {
                user: User { uid: peer.uid, name: name_of(peer.uid) },
                command: shown(&request.command),
                time: host_facts::timestamp(SystemTime::now()),
                writer: Writer::ourselves().map_err(|error| error.to_string())?,
            };
            Spool::open(&self.spool).map_err(words)?.begin(&begin).map_err(words)
        };
        let staging = begin().map_err(|why| format!("keep a record: {why}"))?;
        Ok(self.staging.insert(staging).directory().to_owned())
    }

    fn keep(&mut self, request: &Ask, finished: &Finished) -> Result<(u64, String), String> {
        let staging = self.staging.as_mut().ok_or("there is no place for it")?;
        let summary = summary_of(request, finished);
        let now = host_facts::timestamp(SystemTime::now());
        let committed = staging.commit(summary, now).map_err(|error| error.to_string())?;
        let told = (committed.seq, committed.sha256.to_string());
        self.committed = Some(committed);
        Ok(told)
    }
}

/// What the chain says of a run. Pure.
fn summary_of(request: &Ask, finished: &Finished) -> Summary {
    let summary = match finished.evidence.as_deref() {
        Some(evidence) => Summary::of(evidence),
        None => Summary {
            command: shown(&request.command),
            mode: request.mode.as_str().to_owned(),
            outcome: finished.child.map(crate::sandbox::outcome::ChildEnd::to_outcome),
            ..Summary::default()
        },
    };
    let decision = &finished.decision;
    Summary {
        exit_code: decision.exit.code(),
        verdict: decision.verdict.as_str().to_owned(),
        reasons: decision.reasons.clone(),
        ..summary
    }
    .bounded()
}

/// How many records were read of a run, and how many were lost.
pub fn counts_of(evidence: Option<&Evidence>) -> (u64, u64) {
    let records = evidence.and_then(|evidence| evidence.observed.counters.get("records").copied());
    (records.unwrap_or(0), evidence.map_or(0, |evidence| evidence.coverage.ledger.total_lost()))
}

/// The words of a command as they may be kept.
fn shown(command: &[Vec<u8>]) -> Vec<String> {
    let found = find_in_argv(command);
    let mut secrets = Secrets::default();
    for (word, found) in command.iter().zip(&found) {
        secrets.learn(word, found);
    }
    command.iter().map(|word| secrets.hide(Name::from_bytes(word).as_str())).collect()
}

fn name_of(uid: u32) -> Option<String> {
    host_facts::user_name(uid).map(|name| Name::from_bytes(&name).as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_kept_without_its_secrets() {
        let command = [&b"curl"[..], b"--user", b"me:hunter2hunter2", b"https://x/\n"];
        let shown = shown(&command.map(<[u8]>::to_vec));
        assert_eq!((shown[0].as_str(), shown[3].as_str()), ("curl", "https://x/\\x0a"));
        assert!(!shown[2].contains("hunter2") && shown[2].contains("${REDACTED:"), "{shown:?}");
    }
}
