//! From what was recorded and how the run ended to its [`Evidence`]. Pure.

use std::collections::BTreeMap;

use super::capabilities;
use super::descendants::Fate;
use super::host_facts;
use super::inheritance::Inheritance;
use super::outcome::ChildEnd;
use super::recorder::{Ended, ObserverEnd, Record};
use super::withheld::Withheld;
use crate::canon::digest::Digest;
use crate::evidence::{Component, Coverage, Degradation, ENDED_COUNTER, Evidence, Observed, identity};
use crate::observe::kernel::counted::Counted;
use crate::observe::kernel::counted::Counters;
use crate::observe::kernel::programs::ProgramsError;
use crate::observe::loss::{Completeness, Kind, LossLedger};
use crate::observe::pipeline::Totals;
use crate::observe::witness::{self, Comparison, WitnessCounts};
use crate::profile::canonical::{CanonContext, Canonical, Canonicalizer, RunEnd};
use crate::profile::effect::{Effect, EffectResult, FsOp, NetEffectOp};
use crate::profile::name::Name;

/// The observer of the run was killed: what it had seen is told, and that it is not all.
pub const OBSERVER_DIED: &str = "observer-died";

/// Adds up what the pipeline and the kernel half counted.
pub fn record(
    totals: Totals,
    counters: Result<Counters, ProgramsError>,
    counted: Result<Counted, ProgramsError>,
    missing_fields: &[String],
) -> Record {
    let mut ledger = totals.ledger;
    let mut told = BTreeMap::from([
        ("records".to_owned(), totals.records),
        ("observations".to_owned(), totals.observations),
        ("counted".to_owned(), totals.repeated + totals.failures),
    ]);
    told.extend(totals.filtered.iter().map(|(reason, count)| (format!("filtered.{reason}"), *count)));
    match counters {
        Ok(counters) => {
            ledger.lost = counters
                .lost
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(hook, count)| ((*hook).to_owned(), *count))
                .collect();
            if counters.unkept > 0 {
                let detail = "a process that left the group may not have been noticed";
                admit_all(&mut ledger, "process-table-full", detail);
            }
            let seen: u64 = counters.seen.iter().map(|(_, count)| count).sum();
            // What the kernel half says it delivered has to arrive.
            if seen != totals.records {
                let detail = format!("{seen} records were sent and {} arrived", totals.records);
                admit_all(&mut ledger, "records-unaccounted", &detail);
            }
        }
        Err(error) => admit_all(&mut ledger, "losses-unknown", &error.to_string()),
    }
    let unknown = totals.unknown;
    if unknown > 0 {
        // What they are like was sent and did not arrive, or was not the command's.
        *ledger.lost.entry("open".to_owned()).or_default() += unknown;
    }
    match counted {
        // What the kernel half says it counted has to be there.
        Ok(counted) if counted.repeated != totals.repeated + unknown => {
            let detail = format!("{} acts were counted and {} told", counted.repeated, totals.repeated);
            admit_all(&mut ledger, "records-unaccounted", &detail);
        }
        Ok(_) => {}
        Err(error) => admit_all(&mut ledger, "losses-unknown", &error.to_string()),
    }
    for field in missing_fields.iter().filter(|field| field.starts_with("unix_")) {
        ledger.admit(Kind::Net, "kernel-field-missing", field);
    }
    if !totals.has_started {
        admit_all(&mut ledger, "start-not-seen", "the start of the command was not recorded");
    }
    Record { ledger, counters: told, second_witness: None }
}

/// Holds the second witness against the first, where there is one. After all that the first admits.
pub fn hear_second_witness(
    record: &mut Record,
    comparison: Option<&Comparison>,
    obstacle: Option<String>,
    counts: Result<WitnessCounts, ProgramsError>,
) {
    record.second_witness = Some(match comparison {
        Some(comparison) => {
            let counts = counts.map_err(|error| error.to_string());
            let (word, counters) = witness::judge(comparison, counts, &mut record.ledger);
            record.counters.extend(counters);
            word
        }
        None => format!("absent: {}", obstacle.unwrap_or_default()),
    });
}

/// Admits what the kernel did not call our programs for.
pub fn admit_skipped(ledger: &mut LossLedger, skipped: Result<u64, ProgramsError>) {
    match skipped {
        Ok(0) => {}
        Ok(times) => admit_all(ledger, "probes-skipped", &format!("{times} times, for any task of the host")),
        Err(error) => admit_all(ledger, "losses-unknown", &error.to_string()),
    }
}

/// Admits that whoever read the records was killed. What had not reached its heir is counted as unaccounted besides.
/// `untaken` says why that did not reach it which had been read.
pub fn admit_death(ledger: &mut LossLedger, untaken: Option<&str>) {
    admit_all(ledger, OBSERVER_DIED, "it was killed before the run was over, and the run was ended for that");
    if let Some(why) = untaken {
        admit_all(ledger, "record-not-taken-over", why);
    }
}

/// Admits what the command was given that reaches further than its calls show.
pub fn admit_inherited(ledger: &mut LossLedger, inherited: &Inheritance) {
    for (kinds, reason, detail) in &inherited.unseen {
        kinds.iter().for_each(|kind| ledger.admit(*kind, reason, detail.as_str()));
    }
}

/// Admits what processes do that were left to run on: nobody looks at it.
pub fn admit_left(ledger: &mut LossLedger, fate: Fate) {
    if fate == Fate::Left {
        admit_all(ledger, "left-running", "processes of the run were left to run on, and are not observed");
    }
}

fn admit_all(ledger: &mut LossLedger, reason: &str, detail: &str) {
    for kind in Kind::ALL {
        ledger.admit(kind, reason, detail);
    }
}

/// What the run comes to, with what the observer admits, whose details are the command's to choose.
pub fn finish(mut canonicalizer: Canonicalizer, record: &Record, ended: &Ended) -> Canonical {
    canonicalizer.take_gaps(&record.ledger.gaps);
    canonicalizer.finish(run_end(ended))
}

/// How the run ended, for the canonicaliser.
fn run_end(ended: &Ended) -> RunEnd {
    RunEnd {
        outcome: ended.child.to_outcome(),
        degradations: ended.degradations.clone(),
        ended_at: host_facts::now_seconds(),
    }
}

/// What can be said of a run that nobody observed: how it was called and how it ended.
pub fn without_observer(ended: &Ended) -> Option<Canonical> {
    use std::os::unix::ffi::OsStrExt as _;
    ended.request.artifacts.profile.as_ref()?;
    let command = ended.request.command.iter().map(|word| word.as_bytes().to_vec()).collect();
    let roots = ended.places.roots.clone();
    let canonicalizer = Canonicalizer::new(CanonContext::new(roots, command, ended.pid));
    let mut end = run_end(ended);
    end.degradations.push(Degradation {
        component: Component::Observer,
        reason: "not-observed".into(),
        detail: None,
    });
    Some(canonicalizer.finish(end))
}

/// All of it together, and what there is to say of the launch, a sentence each.
pub fn evidence(
    ended: &Ended,
    mut record: Record,
    canonical: Canonical,
    withheld: Option<Withheld>,
) -> (Evidence, Vec<String>) {
    if !record.ledger.is_unobserved {
        // They are among those of the canonicaliser, which hid what is secret in them.
        record.ledger.gaps.clear();
    }
    record.ledger.gaps.extend(canonical.gaps);
    let mut counters = canonical.counters;
    counters.extend(record.counters);
    let programs =
        canonical.programs.into_iter().map(|(name, path)| (name, super::program_digest::of(&path))).collect();
    let observed = Observed {
        started_at: host_facts::timestamp(ended.started_at).to_string(),
        duration_ms: u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX),
        counters,
        effects: canonical.facts,
        endpoints: canonical.endpoints,
        folded: canonical.folded,
        programs,
        processes: canonical.processes,
        host: {
            let mut host = host_facts::host();
            host.extend(record.second_witness.map(|word| ("second_witness".to_owned(), word)));
            host
        },
        versions: host_facts::versions(),
        policy_digest: None,
        mode: ended.request.mode.as_str().into(),
        not_governed: Vec::new(),
        env_removed: ended
            .env_removed
            .iter()
            .map(|name| Name::from_bytes(name).as_str().to_owned())
            .collect(),
        roots: canonical.roots,
        verdict: String::new(),
        descendants: ended.descendants.as_str().into(),
    };
    let mut evidence =
        Evidence { identity: canonical.identity, observed, coverage: Coverage { ledger: record.ledger } };
    ended.hold.judge(&mut evidence, &canonical.details);
    evidence.count_ends();
    evidence.admit_names_asked_elsewhere();
    let told = withheld
        .map(|withheld| withheld.attribute(&mut evidence, capabilities::of_program))
        .unwrap_or_default();
    evidence.observed.verdict = verdict(ended, &evidence).into();
    (evidence, told)
}

/// What we decided, as far as it is known before the artifacts are written.
fn verdict(ended: &Ended, evidence: &Evidence) -> &'static str {
    if ended.observer == ObserverEnd::Died {
        "failed"
    } else if unauthorised(evidence) > 0 {
        "unauthorised"
    } else if denied_by_policy(evidence) > 0 {
        "denied"
    } else if ended.request.is_fail_closed && evidence.coverage.ledger.total_lost() > 0 {
        "incomplete"
    } else {
        "ok"
    }
}

/// A run in a few numbers.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Its id.
    pub run_id: String,
    /// Changes to the file tree that happened, each name counted once an operation.
    pub written: usize,
    /// Programs, scripts and interpreters that started.
    pub programs: usize,
    /// Connections and sends to addresses that happened.
    pub connections: usize,
    /// Attempts to connect that came to nothing.
    pub failed: u64,
    /// Bytes sent and received; `None` where they were not counted.
    pub bytes: Option<(u64, u64)>,
    /// Effects that were denied, whoever denied them.
    pub denied: usize,
}

/// Counts, where this is the digest of the identity; `None` when nothing was observed.
pub fn tally(evidence: &Evidence, digest: &Digest) -> Option<Tally> {
    if evidence.coverage.ledger.is_unobserved {
        return None;
    }
    let effects = || evidence.identity.effects.iter();
    let happened = |is_one: fn(&Effect) -> bool| {
        effects().filter(|effect| effect.result() == EffectResult::Ok && is_one(effect)).count()
    };
    Some(Tally {
        run_id: identity::run_id(digest),
        written: happened(
            |effect| matches!(effect, Effect::Fs(fs) if !matches!(fs.op, FsOp::Read | FsOp::List)),
        ),
        programs: happened(|effect| matches!(effect, Effect::Exec(_))),
        connections: happened(
            |effect| matches!(effect, Effect::Net(net) if matches!(net.op, NetEffectOp::Connect | NetEffectOp::Send)),
        ),
        failed: evidence.observed.endpoints.iter().map(|end| end.failed).sum(),
        bytes: bytes(evidence),
        denied: effects().filter(|effect| effect.result() == EffectResult::Denied).count(),
    })
}

/// Bytes to and from all ends, those without room of their own included.
fn bytes(evidence: &Evidence) -> Option<(u64, u64)> {
    let beyond = |way: &str| evidence.observed.counters.get(way).copied().unwrap_or(0);
    let counted: Vec<(u64, u64)> = evidence.observed.endpoints.iter().filter_map(|end| end.bytes).collect();
    let sums = counted.iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    (!counted.is_empty())
        .then(|| (sums.0 + beyond("traffic_beyond.bytes_out"), sums.1 + beyond("traffic_beyond.bytes_in")))
}

/// Effects that the policy does not authorise and nothing stopped.
pub fn unauthorised(evidence: &Evidence) -> u64 {
    // What was refused did not happen, so nobody needed authority for it.
    let happened = |effect: &Effect| super::hold::result_of(effect) == EffectResult::Ok;
    let effects = evidence.observed.effects.iter();
    effects.filter(|(effect, facts)| happened(effect) && facts.is_authorised == Some(false)).count() as u64
}

/// Effects that the policy stopped.
pub fn denied_by_policy(evidence: &Evidence) -> u64 {
    evidence.observed.effects.values().filter(|facts| facts.denied_by == Some("policy")).count() as u64
}

/// Where work left the tree of the run, a sentence each.
pub fn departures(evidence: &Evidence) -> Vec<String> {
    let counters = evidence.observed.counters.keys();
    counters
        .filter_map(|name| name.strip_prefix(ENDED_COUNTER))
        .map(|address| {
            let peers: Vec<String> = evidence.peers_at(address).map(ToString::to_string).collect();
            let peers = if peers.is_empty() { String::new() } else { format!(" ({})", peers.join("; ")) };
            format!("observation ended here: {address}{peers} acts for whoever asks, and what it did for the command is not in the record")
        })
        .collect()
}

/// Why the record is not whole, a sentence each.
pub fn loss_sentences(ledger: &LossLedger) -> Vec<String> {
    if ledger.is_unobserved {
        return vec!["nothing was observed".into()];
    }
    let mut sentences: Vec<String> =
        ledger.lost.iter().map(|(hook, count)| format!("{count} records of `{hook}` were lost")).collect();
    sentences.extend(ledger.undecoded.iter().map(|(reason, count)| format!("{count} records: {reason}")));
    for kind in Kind::ALL.into_iter().filter(|kind| ledger.completeness(*kind) != Completeness::Complete) {
        let reasons: std::collections::BTreeSet<&str> =
            ledger.gaps.iter().filter(|gap| gap.kind == kind).map(|gap| gap.reason.as_str()).collect();
        if !reasons.is_empty() {
            let reasons: Vec<&str> = reasons.into_iter().collect();
            sentences.push(format!("{} is partial: {}", kind.as_str(), reasons.join(", ")));
        }
    }
    sentences
}

/// Whether the command itself came to an end that is worth a word.
pub fn end_words(child: ChildEnd) -> String {
    match child {
        ChildEnd::Exited(code) => format!("exited with {code}"),
        ChildEnd::Signalled(number) => format!("was ended by {}", super::signals::name_of(number)),
        ChildEnd::TimedOut => "timed out".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::pipeline::{Pipeline, Subject};

    #[test]
    fn what_an_heir_could_not_take_over_is_admitted_of_every_kind() {
        let admitted = |untaken: Option<&str>| {
            let mut ledger = LossLedger::default();
            admit_death(&mut ledger, untaken);
            assert!(Kind::ALL.iter().all(|kind| ledger.completeness(*kind) == Completeness::Partial));
            format!("{ledger:?}")
        };
        let told = admitted(Some("the spool cannot be read"));
        assert_eq!(told.matches("record-not-taken-over").count(), Kind::ALL.len(), "{told}");
        assert_eq!(told.matches("the spool cannot be read").count(), Kind::ALL.len(), "{told}");
        let told = admitted(None);
        assert_eq!(told.matches(OBSERVER_DIED).count(), Kind::ALL.len(), "{told}");
        assert!(!told.contains("record-not-taken-over"), "{told}");
    }

    #[test]
    fn processes_that_there_was_no_room_to_watch_are_admitted_of_every_kind() {
        for (unkept, kinds) in [(0, 0), (3, Kind::ALL.len())] {
            let counters = Counters { seen: Vec::new(), lost: Vec::new(), unkept };
            let subject = Subject { root_pid: 7, sees_uring: true, has_witness: false };
            let totals = Pipeline::new(subject).finish(|_| {});
            let record = record(totals, Ok(counters), Ok(Counted::default()), &[]);
            let told = format!("{:?}", record.ledger);
            assert_eq!(told.matches("process-table-full").count(), kinds, "{told}");
        }
    }

    #[test]
    fn what_the_kernel_passed_over_is_admitted_of_every_kind() {
        let admitted = |skipped| {
            let mut ledger = LossLedger::default();
            admit_skipped(&mut ledger, skipped);
            ledger
        };
        assert!(Kind::ALL.iter().all(|kind| admitted(Ok(0)).completeness(*kind) == Completeness::Complete));
        let unknown = ProgramsError::Map { map: "TAILS", reason: "gone".into() };
        for (skipped, reason, detail) in
            [(Ok(3), "probes-skipped", "3 times"), (Err(unknown), "losses-unknown", "gone")]
        {
            let ledger = admitted(skipped);
            assert!(Kind::ALL.iter().all(|kind| ledger.completeness(*kind) == Completeness::Partial));
            let told = format!("{ledger:?}");
            assert_eq!(told.matches(reason).count(), Kind::ALL.len(), "{told}");
            assert_eq!(told.matches(detail).count(), Kind::ALL.len(), "{told}");
        }
    }
}
