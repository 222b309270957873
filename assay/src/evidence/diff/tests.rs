use std::ops::ControlFlow;

use super::*;
use crate::canon::digest::Digest;
use crate::evidence::integrity::Limits;
use crate::evidence::samples::{self, connect, evidence, exec, fs, harmless};
use crate::evidence::verify::{reread, verify};
use crate::evidence::{Component, Degradation, Evidence, Outcome};
use crate::profile::effect::EffectResult::{Denied, Ok as Done};
use crate::profile::effect::{Effect, FsOp, NetEffect, Port};

fn diff_bundles(a: &[u8], b: &[u8]) -> Vec<Change> {
    let outline = |bundle: &[u8]| {
        let mut outline = Outline::default();
        verify(bundle, Limits::FORMAT, |_, event| outline.add(event)).unwrap();
        outline
    };
    let (mut first, mut second) = (outline(a), outline(b));
    let (of_first, of_second) = lacking(&mut first, &mut second);
    let pick = |bundle: &[u8], lacking: &Lacking, mut picker: Picker| {
        reread(
            bundle,
            Limits::FORMAT,
            |place| lacking.has(place),
            |event| {
                picker.add(event);
                ControlFlow::Continue(())
            },
        )
        .unwrap();
        picker.finish()
    };
    let removed = pick(a, &of_first, Picker::of_first());
    let added = pick(b, &of_second, Picker::of_second());
    changes(&first, &second, removed, added)
}

fn diff(a: &Evidence, b: &Evidence) -> Vec<(&'static str, &'static str, String, String, Option<Aspect>)> {
    diff_bundles(&samples::bundle(a), &samples::bundle(b))
        .into_iter()
        .map(|change| {
            (change.word(), change.kind.as_str(), change.op().into(), change.subject().into(), change.aspect)
        })
        .collect()
}

fn one(
    word: &'static str,
    kind: &'static str,
    op: &str,
    subject: &str,
    aspect: Option<Aspect>,
) -> Vec<(&'static str, &'static str, String, String, Option<Aspect>)> {
    vec![(word, kind, op.to_owned(), subject.to_owned(), aspect)]
}

#[test]
fn one_behaviour_is_no_difference_whatever_else_varies() {
    let a = evidence(harmless(), Vec::new());
    let mut b = a.clone();
    b.observed.duration_ms += 1;
    b.observed.effects.values_mut().for_each(|facts| facts.hits += 1);
    assert_eq!(diff(&a, &b), []);
}

#[test]
fn each_mutation_is_named_exactly() {
    let base = || evidence(harmless(), Vec::new());
    let replaced = |at: usize, effect: Effect| {
        let mut effects = harmless();
        effects[at] = effect;
        evidence(effects, Vec::new())
    };
    let more = |effect: Effect| {
        let mut effects = harmless();
        effects.push(effect);
        evidence(effects, Vec::new())
    };
    let check = |b: &Evidence, expect: Vec<_>| assert_eq!(diff(&base(), b), expect);

    check(&more(fs(FsOp::Read, "/etc/hosts", None, Done)), one("added", "fs", "read", "/etc/hosts", None));
    check(&more(exec("/usr/bin/curl")), one("added", "exec", "exec", "/usr/bin/curl", None));
    check(&more(connect("unix", "@bus", None)), one("added", "net", "connect", "unix:@bus", None));
    check(
        &replaced(0, fs(FsOp::Write, "${WORKDIR}/Makefile", None, Done)),
        one("changed", "fs", "read", "${WORKDIR}/Makefile", Some(Aspect::Operation)),
    );
    check(
        &replaced(0, fs(FsOp::Read, "${WORKDIR}/Makefile", None, Denied)),
        one("changed", "fs", "read", "${WORKDIR}/Makefile", Some(Aspect::Result)),
    );
    let Effect::Net(net) = connect("tcp", "127.0.0.1", Some(8080)) else { unreachable!() };
    check(
        &replaced(4, Effect::net(NetEffect { result: Denied, ..*net.clone() })),
        one("changed", "net", "connect", "127.0.0.1:8080", Some(Aspect::Result)),
    );
    let other_port = Effect::net(NetEffect { port: Some(Port::Number(81)), ..*net });
    assert_eq!(diff(&base(), &replaced(4, other_port)).len(), 2, "another port is another place");
    let mut other = base();
    other.observed.programs.insert("/usr/bin/make".into(), Ok(Digest::of(b"another")));
    check(&other, one("changed", "exec", "exec", "/usr/bin/make", Some(Aspect::Digest)));
    let mut other = base();
    other.identity.outcome = Outcome::Signal("SIGKILL".into());
    check(&other, one("changed", "outcome", "", "", Some(Aspect::Value)));
    let mut other = base();
    other.identity.command.push("-j2".into());
    check(&other, one("changed", "command", "", "", Some(Aspect::Value)));
    let mut other = base();
    other.identity.degradations.push(Degradation {
        component: Component::Net,
        reason: "no-bpf".into(),
        detail: Some("198.51.100.7".into()),
    });
    check(&other, one("added", "degradation", "net", "198.51.100.7", None));
    let mut other = base();
    other.coverage.ledger.admit(CoverageKind::Fs, "io-uring", "1 ring");
    check(&other, one("changed", "coverage", "", "fs", Some(Aspect::Value)));
    for at in 0..harmless().len() {
        let mut fewer = harmless();
        fewer.remove(at);
        let changes = diff(&base(), &evidence(fewer, Vec::new()));
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!(changes[0].0, "removed");
    }
}

#[test]
fn the_other_way_round_is_the_other_way_round() {
    let a = evidence(harmless(), Vec::new());
    let mut effects = harmless();
    effects.push(exec("/usr/bin/curl"));
    let b = evidence(effects, Vec::new());
    assert_eq!(diff(&b, &a), one("removed", "exec", "exec", "/usr/bin/curl", None));
}

#[test]
fn a_bundle_made_to_keep_a_reader_busy_does_not() {
    // The same event thousands of times, which only another program writes.
    let many = |op: &'static str, count: usize| -> Vec<Change> {
        let data = Object::from([("op", op.into()), ("path", "/x".into()), ("result", "ok".into())]);
        let told = Told::new(&data.into(), op, "/x");
        let sides = if op == "read" { Sides::Before(told) } else { Sides::After(told) };
        vec![Change { kind: Kind::Fs, aspect: None, sides }; count]
    };
    let start = std::time::Instant::now();
    let changes = pair(many("read", 20_000), many("write", 20_000));
    assert_eq!(changes.len(), 20_000);
    assert!(changes.iter().all(|change| change.aspect == Some(Aspect::Operation)));
    // Trying each with each would take minutes.
    assert!(start.elapsed().as_secs() < 30);
}
