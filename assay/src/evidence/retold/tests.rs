use std::io::Cursor;

use proptest::prelude::*;

use super::*;
use crate::evidence::integrity::Limits;
use crate::evidence::verify::verify;
use crate::evidence::{Component, Peer, bundle, events, samples};
use crate::observe::loss::{Completeness, LossLedger};
use crate::profile::effect::FsOp;
use crate::profile::name::Name;

fn retold(bytes: &[u8]) -> Result<(Evidence, BundleFacts), RetoldError> {
    let mut retelling = Retelling::new();
    let verified = verify(Cursor::new(bytes), Limits::FORMAT, |_, event| retelling.add(event)).unwrap();
    retelling.finish(&verified)
}

/// What a bundle holds of an evidence.
fn held_by_a_bundle(evidence: &Evidence) -> Evidence {
    let mut held = evidence.clone();
    let observed = &mut held.observed;
    for facts in observed.effects.values_mut() {
        (facts.by, facts.refused) = (None, None);
    }
    observed.counters.clear();
    observed.endpoints.clear();
    observed.processes.clear();
    observed.folded.clear();
    observed.env_removed.clear();
    observed.roots.clear();
    observed.versions = BTreeMap::from([("assay".into(), "0.1.0".into()), ("git".into(), "unknown".into())]);
    let ledger = &mut held.coverage.ledger;
    let lost = ledger.total_lost();
    (ledger.lost, ledger.undecoded) = (BTreeMap::new(), BTreeMap::new());
    ledger.lost.extend((lost > 0).then(|| ("records".to_owned(), lost)));
    held
}

#[test]
fn what_a_bundle_holds_is_told_as_it_was_and_the_rest_is_named() {
    let degradation = Degradation {
        component: Component::Fs,
        reason: "landlock-absent".into(),
        detail: Some("~/.ssh".into()),
    };
    let mut effects = samples::harmless();
    effects.push(samples::fs(FsOp::Read, "/etc/shadow", None, EffectResult::Denied));
    effects.sort();
    let mut evidence = samples::evidence(effects, vec![degradation]);
    evidence.observed.verdict = "denied".into();
    evidence.observed.not_governed = vec!["attr".into()];
    evidence.observed.programs.insert("/usr/bin/make".into(), Err("it is no longer there".into()));
    let ledger = &mut evidence.coverage.ledger;
    ledger.lost.insert("open".into(), 3);
    ledger.undecoded.insert("short".into(), 1);
    ledger.admit(Kind::Net, "io-uring", "2 times");
    for facts in evidence.observed.effects.values_mut() {
        facts.addresses = ["10.0.0.1".parse().unwrap()].into();
        facts.asked = ["a.test".to_owned()].into();
        let program = Some("/usr/bin/dockerd".to_owned());
        facts.peers = [Peer { process: Some((7, 0)), program, comm: Some("dockerd".into()) }].into();
    }
    for (effect, facts) in &mut evidence.observed.effects {
        facts.denied_by = (effect.result() == EffectResult::Denied).then_some("policy");
        if !matches!(effect, Effect::Net(_)) {
            (facts.addresses, facts.asked) = (BTreeSet::new(), BTreeSet::new());
            facts.peers = BTreeSet::new();
        }
    }
    let (again, facts) = retold(&samples::bundle(&evidence)).unwrap();
    assert_eq!(again, held_by_a_bundle(&evidence));
    assert_eq!(facts.run_id, identity::run_id(&identity::digest(&evidence.identity)));
    assert_eq!((facts.other_run_id, facts.unread), (None, (0, Vec::new())));
    assert_eq!(facts.missing, BTreeSet::from(Part::NEVER));
    let unobserved =
        Evidence { coverage: Coverage { ledger: LossLedger::unobserved("no rights") }, ..evidence };
    let (again, _) = retold(&samples::bundle(&unobserved)).unwrap();
    assert_eq!(again, held_by_a_bundle(&unobserved));
}

#[test]
fn what_a_reproducible_bundle_leaves_out_is_named_and_not_made_up() {
    let socket = samples::connect("unix", "/run/docker.sock", None);
    let evidence = samples::evidence([samples::harmless(), vec![socket]].concat(), Vec::new());
    let emission = events::Emission { is_reproducible: true, ..samples::emission() };
    let mut bytes = Vec::new();
    bundle::write(&evidence, &emission, &mut bytes).unwrap();
    let (again, facts) = retold(&bytes).unwrap();
    for part in [Part::Hits, Part::Duration, Part::Peers] {
        assert!(facts.missing.contains(&part), "{facts:?}");
    }
    assert!(again.observed.effects.values().all(|facts| facts.hits == 0));
    assert!(again.coverage.is_complete());
}

/// Changes the events of a good bundle, and packs them again as a careful forger would.
fn changed(change: impl FnOnce(&mut Vec<Object>)) -> Result<(Evidence, BundleFacts), RetoldError> {
    let mut objects = samples::objects(&samples::evidence(samples::harmless(), Vec::new()));
    change(&mut objects);
    retold(&samples::pack(objects))
}

fn words(evidence: &Evidence) -> [Completeness; 3] {
    Kind::ALL.map(|kind| evidence.coverage.ledger.completeness(kind))
}

#[test]
fn nothing_is_claimed_that_a_bundle_does_not_say() {
    use Completeness::{Complete, Partial};
    let of = |objects: &mut Vec<Object>, kind: &str| {
        objects.iter_mut().position(|object| object.str("type") == Some(kind)).unwrap()
    };
    // An event of a type that is not known may tell of anything.
    let (evidence, facts) = changed(|objects| {
        let at = of(objects, kind::NET);
        objects[at].set("type", "other.event");
    })
    .unwrap();
    assert_eq!(words(&evidence), [Partial; 3]);
    assert_eq!(facts.unread.1, [(5, "type other.event".to_owned())]);
    // One of a known type that cannot be read makes its kind partial.
    let (evidence, facts) = changed(|objects| {
        let at = of(objects, kind::EXEC);
        objects[at].set("data", Object::from([("path", "/x".into())]));
    })
    .unwrap();
    assert_eq!(words(&evidence), [Complete, Partial, Complete]);
    assert_eq!(facts.unread.0, 1);
    // One that was taken away is missed by its number, and the run id no longer follows.
    let (evidence, facts) = changed(|objects| {
        let at = of(objects, kind::FS);
        objects.remove(at);
    })
    .unwrap();
    assert_eq!(words(&evidence), [Partial, Complete, Complete]);
    assert!(facts.other_run_id.is_some());
    // Coverage that is not stated is not complete.
    let (evidence, _) = changed(|objects| {
        let at = of(objects, kind::SUMMARY);
        objects[at].remove("assaycoveragenet");
        objects[at].set("assaycoverageexec", "partial");
    })
    .unwrap();
    assert_eq!(words(&evidence), [Complete, Partial, Partial]);
    // An effect twice, and a second start.
    let (evidence, facts) = changed(|objects| {
        let at = of(objects, kind::NET);
        objects.push(objects[at].clone());
        objects.push(objects[0].clone());
    })
    .unwrap();
    assert_eq!((words(&evidence), facts.unread.0), ([Partial; 3], 2));
    // Who wrote the record says nothing of how it was held.
    let (_, facts) = changed(|objects| drop(objects[0].remove("assaymode"))).unwrap();
    assert!(facts.missing.contains(&Part::Mode));
}

#[test]
fn what_is_no_record_of_a_run_is_refused() {
    let started = changed(|objects| drop(objects.remove(0)));
    assert_eq!(started.unwrap_err(), RetoldError::Command);
    let ended = changed(|objects| {
        objects.retain(|object| ![Some(kind::SUMMARY), Some(kind::FINISHED)].contains(&object.str("type")));
    });
    assert_eq!(ended.unwrap_err(), RetoldError::Outcome);
}

proptest! {
    #[test]
    fn hostile_names_come_back(path in prop::collection::vec(any::<u8>(), 1..60), word: String) {
        let name = Name::from_bytes(&path);
        let effect = samples::fs(FsOp::Rename, name.as_str(), Some(&word), EffectResult::Denied);
        let mut evidence = samples::evidence(vec![effect], Vec::new());
        evidence.identity.command = vec![word.clone(), name.to_string()];
        let (again, _) = retold(&samples::bundle(&evidence)).unwrap();
        prop_assert_eq!(again, held_by_a_bundle(&evidence));
    }
}
