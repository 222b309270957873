//! Reports for the tests here, made through the library's public face.

use std::collections::BTreeMap;
use std::path::PathBuf;

use assay::canon::digest::Digest;
use assay::evidence::{
    Actor, Component, Coverage, Degradation, EffectFacts, Endpoint, Evidence, Identity, Observed, Outcome,
    ProcessFacts, Refusal,
};
use assay::observe::loss::Kind;
use assay::profile::effect::{
    Effect, EffectResult, ExecEffect, FsEffect, FsOp, HostFrom, NetEffect, NetEffectOp, Port,
};
use assay::profile::name::Name;
use assay::report::basis::Basis;
use assay::report::html;

pub fn fs(op: FsOp, path: &str, result: EffectResult) -> Effect {
    Effect::Fs(FsEffect { op, path: Name::from_canonical(path), to: None, result })
}

pub fn exec(path: &str) -> Effect {
    Effect::Exec(ExecEffect { path: Name::from_canonical(path), result: EffectResult::Ok })
}

pub fn connect(host: &str, result: EffectResult) -> Effect {
    Effect::net(NetEffect {
        op: NetEffectOp::Connect,
        proto: "tcp".into(),
        host: Some(host.into()),
        host_from: Some(HostFrom::Dns),
        address: None,
        port: Some(Port::Number(443)),
        result,
    })
}

/// A run that did a bit of everything; these names stand wherever a name can stand.
pub fn evidence(names: &[&str], more: Vec<Effect>) -> Evidence {
    let mut effects = vec![
        fs(FsOp::Read, "${WORKDIR}/Makefile", EffectResult::Ok),
        fs(FsOp::Create, "${WORKDIR}/out/a.o", EffectResult::Ok),
        fs(FsOp::Write, "${HOME}/.bashrc", EffectResult::Denied),
        fs(FsOp::Create, "/srv/outside", EffectResult::Ok),
        exec("/usr/bin/make"),
        connect("api.example.test", EffectResult::Ok),
        connect("collect.example.test", EffectResult::Denied),
    ];
    for name in names {
        effects.extend([
            fs(FsOp::Write, name, EffectResult::Ok),
            fs(FsOp::Read, name, EffectResult::Denied),
            exec(name),
        ]);
        effects.push(connect(name, EffectResult::Ok));
    }
    effects.extend(more);
    effects.sort();
    effects.dedup();
    let text = |at: usize| names.get(at % names.len().max(1)).copied().unwrap_or("make").to_owned();
    let facts = |effect: &Effect| {
        let is_denied = effect.result() == EffectResult::Denied;
        let refused = Refusal { rule: Some(text(0)), at: Some(text(1)), remedy: text(2) };
        EffectFacts {
            hits: 3,
            denied_by: is_denied.then_some("policy"),
            is_authorised: Some(!is_denied),
            by: is_denied.then(|| Actor { pid: 7, program: Some(text(3)), comm: text(4) }.into()),
            refused: is_denied.then(|| refused.into()),
            addresses: ["192.0.2.1".parse().expect("an address")].into(),
            ..EffectFacts::default()
        }
    };
    let process = |pid, ppid, began_us| ProcessFacts {
        pid,
        ppid,
        programs: vec![vec![text(5), text(6)]],
        status: Some(0),
        began_us: Some(began_us),
        ended_us: Some(900_000),
    };
    let observed = Observed {
        started_at: "2026-01-02T03:04:05Z".into(),
        duration_ms: 1234,
        effects: effects.iter().map(|effect| (effect.clone(), facts(effect))).collect(),
        endpoints: vec![Endpoint {
            proto: "tcp".into(),
            host: Some(text(7)),
            port: 443,
            connections: Some(2),
            bytes: Some((100, 2000)),
            ..Endpoint::default()
        }],
        programs: BTreeMap::from([("/usr/bin/make".into(), Ok(Digest::of(b"make")))]),
        processes: vec![process(7, 0, 0), process(8, 7, 100_000), process(9, 8, 200_000)],
        host: BTreeMap::from([("kernel".into(), text(8))]),
        roots: BTreeMap::from([("WORKDIR".into(), text(9))]),
        counters: BTreeMap::from([("observations".into(), 99)]),
        env_removed: vec![text(10)],
        mode: "default".into(),
        verdict: "denied".into(),
        descendants: "none".into(),
        ..Observed::default()
    };
    let degradation = |detail: String| Degradation {
        component: Component::Fs,
        reason: "deny-symlink-name".into(),
        detail: Some(detail),
    };
    let identity = Identity {
        command: vec![text(11), text(12)],
        effects,
        outcome: Outcome::ExitCode(0),
        degradations: vec![degradation(text(13))],
    };
    let mut coverage = Coverage::default();
    coverage.ledger.admit(Kind::Net, "io-uring", text(14));
    Evidence { identity, observed, coverage }
}

/// The report of it, in a file.
pub fn file(evidence: &Evidence) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.html");
    let mut out = Vec::new();
    html::write(&mut out, evidence, Basis::Run).expect("a report");
    std::fs::write(&path, out).expect("a file");
    (directory, path)
}
