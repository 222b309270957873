use super::*;
use crate::canon::digest::Digest;
use crate::evidence::Evidence;
use crate::evidence::integrity::Limits;
use crate::evidence::samples::{self, connect, evidence, exec, fs, harmless};
use crate::evidence::verify::verify;
use crate::policy::Context;
use crate::policy::load::{NoFiles, load_bytes};
use crate::profile::effect::EffectResult::{Denied, Ok as Done};
use crate::profile::effect::FsOp;

const POLICY: &str = "api_version: assay/v1\nfs:\n  allow:\n    - {path: '${WORKDIR}', access: [read, write, execute]}\n  \
                      deny: ['${WORKDIR}/secret']\nnet: {allow: ['127.0.0.1:8080']}\n";

fn policy(text: &str) -> Policy {
    load_bytes(b"p.yaml", text.as_bytes(), &Context::symbolic(), &NoFiles).unwrap()
}

fn judge(bundle: &[u8], terms: Terms<'_>) -> Vec<(&'static str, String)> {
    let mut gate = Gate::new(terms);
    verify(bundle, Limits::FORMAT, |manifest, event| gate.event(manifest, event)).unwrap();
    gate.finish().reasons.into_iter().map(|reason| (reason.code, reason.subject)).collect()
}

fn by_policy(evidence: &Evidence) -> Vec<(&'static str, String)> {
    let policy = policy(POLICY);
    judge(&samples::bundle(evidence), Terms { policy: Some(&policy), ..Terms::default() })
}

fn with(effect: crate::profile::effect::Effect) -> Evidence {
    let mut effects = harmless();
    effects.push(effect);
    evidence(effects, Vec::new())
}

fn reason(code: &'static str, subject: &str) -> Vec<(&'static str, String)> {
    vec![(code, subject.to_owned())]
}

#[test]
fn what_the_policy_allows_passes_and_what_it_does_not_is_named() {
    assert_eq!(by_policy(&evidence(harmless(), Vec::new())), []);
    assert_eq!(
        by_policy(&with(fs(FsOp::Write, "/etc/hosts", None, Done))),
        reason("not-allowed", "/etc/hosts")
    );
    assert_eq!(
        by_policy(&with(fs(FsOp::Read, "${WORKDIR}/secret/x", None, Done))),
        reason("not-allowed", "${WORKDIR}/secret/x")
    );
    assert_eq!(
        by_policy(&with(connect("tcp", "192.0.2.1", Some(80)))),
        reason("not-allowed", "192.0.2.1:80")
    );
    assert_eq!(by_policy(&with(exec("/srv/x"))), reason("not-allowed", "/srv/x"));
}

#[test]
fn what_was_tried_and_refused_by_policy_fails_and_what_the_system_refused_is_a_note() {
    let effect = fs(FsOp::Read, "/srv/x", None, Denied);
    assert_eq!(by_policy(&with(effect.clone())), reason("tried", "/srv/x"));
    let mut refused = with(effect.clone());
    refused.observed.effects.get_mut(&effect).unwrap().denied_by = Some("system");
    assert_eq!(by_policy(&refused), []);
}

#[test]
fn what_vouches_for_nothing_does_not_pass() {
    assert_eq!(by_policy(&evidence(Vec::new(), Vec::new())), reason("claims-nothing", ""));
    let mut partial = evidence(harmless(), Vec::new());
    partial.coverage.ledger.admit(Kind::Net, "io-uring", "1 ring");
    assert_eq!(by_policy(&partial), reason("coverage", "net"));
    let mut lost = evidence(harmless(), Vec::new());
    lost.coverage.ledger.lost.insert("open".into(), 2);
    let reasons = by_policy(&lost);
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    let policy = policy(POLICY);
    let terms = Terms { policy: Some(&policy), partial: Partial::Accepted, ..Terms::default() };
    assert_eq!(judge(&samples::bundle(&lost), terms), []);
}

#[test]
fn a_record_that_was_tampered_with_before_it_was_sealed_does_not_pass() {
    let policy = policy(POLICY);
    let terms = Terms { policy: Some(&policy), ..Terms::default() };
    let forged = |edit: &dyn Fn(&mut Vec<crate::canon::value::Object>)| {
        let mut objects = samples::objects(&evidence(harmless(), Vec::new()));
        edit(&mut objects);
        let codes: Vec<_> = judge(&samples::pack(objects), terms).into_iter().map(|(code, _)| code).collect();
        codes
    };
    assert_eq!(forged(&|_| ()), [""; 0]);
    assert_eq!(forged(&|events| drop(events.remove(1))), ["counts-differ", "run-id-differs"]);
    assert_eq!(
        forged(&|events| events[1].set("type", "assay.x")),
        ["unknown-event", "counts-differ", "run-id-differs"]
    );
    assert_eq!(forged(&|events| events[1].set("data", "x")), ["malformed"]);
    assert_eq!(forged(&|events| drop(events.pop())), ["incomplete"]);
    assert!(forged(&|events| drop(events.remove(events.len() - 2))).contains(&"incomplete"));
}

#[test]
fn a_run_is_within_a_baseline_or_the_rest_is_named() {
    let baseline_of = |evidence: &Evidence| {
        let mut baseline = Baseline::default();
        verify(&*samples::bundle(evidence), Limits::FORMAT, |_, event| baseline.add(event)).unwrap();
        baseline.finish();
        baseline
    };
    let within = |run: &Evidence, baseline: &Evidence| {
        let baseline = baseline_of(baseline);
        judge(&samples::bundle(run), Terms { baseline: Some(&baseline), ..Terms::default() })
    };
    let base = evidence(harmless(), Vec::new());
    let more = with(exec("/usr/bin/curl"));
    assert_eq!(within(&base, &base), []);
    assert_eq!(within(&base, &more), [], "less is within");
    assert_eq!(within(&more, &base), reason("beyond-baseline", "/usr/bin/curl"));
    let mut other = base.clone();
    other.observed.programs.insert("/usr/bin/make".into(), Ok(Digest::of(b"another")));
    assert_eq!(within(&other, &base), reason("beyond-baseline", "/usr/bin/make"));
    let mut other = base.clone();
    other.identity.command.push("-j2".into());
    assert_eq!(within(&other, &base), reason("beyond-baseline", ""));
    let mut other = base.clone();
    other.identity.degradations.push(crate::evidence::Degradation {
        component: crate::evidence::Component::Net,
        reason: "no-bpf".into(),
        detail: None,
    });
    assert_eq!(within(&other, &base), reason("beyond-baseline", ""));
}
