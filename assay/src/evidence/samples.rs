//! Evidence for tests: small and whole, or as large as asked. Only compiled for tests.

use std::collections::BTreeMap;

use crate::canon::digest::Digest;
use crate::canon::value::{Object, Value};
use crate::canon::{read, write};
use crate::evidence::events::Emission;
use crate::evidence::timestamp::Timestamp;
use crate::evidence::{Coverage, Degradation, EffectFacts, Endpoint, Evidence, Identity, Observed, Outcome};
use crate::evidence::{archive, bundle, events, identity, manifest};
use crate::profile::effect::{
    Effect, EffectResult, ExecEffect, FsEffect, FsOp, HostFrom, NetEffect, NetEffectOp, Port,
};
use crate::profile::name::Name;

/// An effect on a file.
pub fn fs(op: FsOp, path: &str, to: Option<&str>, result: EffectResult) -> Effect {
    Effect::Fs(FsEffect { op, path: Name::from_canonical(path), to: to.map(Name::from_canonical), result })
}

/// A program.
pub fn exec(path: &str) -> Effect {
    Effect::Exec(ExecEffect { path: Name::from_canonical(path), result: EffectResult::Ok })
}

/// A connection by address.
pub fn connect(proto: &str, address: &str, port: Option<u16>) -> Effect {
    Effect::net(NetEffect {
        op: NetEffectOp::Connect,
        proto: proto.into(),
        host: None,
        host_from: None,
        address: Some(Name::from_canonical(address)),
        port: port.map(Port::Number),
        result: EffectResult::Ok,
    })
}

/// Evidence of these effects and degradations, complete, with a fact for each.
pub fn evidence(effects: Vec<Effect>, degradations: Vec<Degradation>) -> Evidence {
    let facts = EffectFacts { hits: 2, is_authorised: Some(true), ..EffectFacts::default() };
    let programs = effects.iter().filter_map(|effect| match effect {
        Effect::Exec(exec) => Some((exec.path.to_string(), Ok(Digest::of(exec.path.as_str().as_bytes())))),
        _ => None,
    });
    let observed = Observed {
        started_at: "2026-01-02T03:04:05Z".into(),
        duration_ms: 1234,
        effects: effects.iter().map(|effect| (effect.clone(), facts.clone())).collect(),
        programs: programs.collect(),
        host: BTreeMap::from([("kernel".into(), "6.18.0".into()), ("arch".into(), "x86_64".into())]),
        policy_digest: Some(Digest::of(b"policy")),
        mode: "default".into(),
        verdict: "ok".into(),
        descendants: "none".into(),
        ..Observed::default()
    };
    let command = vec!["make".into(), "test".into()];
    let identity = Identity { command, effects, outcome: Outcome::ExitCode(0), degradations };
    Evidence { identity, observed, coverage: Coverage::default() }
}

/// A few harmless effects of every kind.
pub fn harmless() -> Vec<Effect> {
    vec![
        fs(FsOp::Read, "${WORKDIR}/Makefile", None, EffectResult::Ok),
        fs(FsOp::Create, "${WORKDIR}/out/a.o", None, EffectResult::Ok),
        fs(FsOp::Rename, "${WORKDIR}/out/a.o", Some("${WORKDIR}/out/b.o"), EffectResult::Ok),
        exec("/usr/bin/make"),
        connect("tcp", "127.0.0.1", Some(8080)),
    ]
}

/// Ends of every kind.
pub fn endpoints() -> Vec<Endpoint> {
    let addresses = ["10.0.0.1", "fd00::1"].map(|address| address.parse().expect("an address"));
    vec![
        Endpoint {
            proto: "tcp".into(),
            host: Some("api.test".into()),
            host_from: Some(HostFrom::Dns),
            addresses: addresses.into(),
            port: 443,
            connections: Some(3),
            failed: 1,
            blocked: 2,
            bytes: Some((100, 200)),
            ..Endpoint::default()
        },
        Endpoint {
            proto: "sctp".into(),
            addresses: [addresses[0]].into(),
            port: 9,
            connections: Some(1),
            ..Endpoint::default()
        },
        Endpoint {
            proto: "tcp".into(),
            port: 80,
            is_served: true,
            bytes: Some((5, 6)),
            ..Endpoint::default()
        },
    ]
}

/// An emission at a fixed moment.
pub fn emission() -> Emission {
    Emission {
        time: Timestamp::new(1_767_323_045).expect("a moment of 2026"),
        producer: "assay".into(),
        version: "0.1.0".into(),
        git: "unknown".into(),
        is_reproducible: false,
    }
}

/// The bytes of its bundle.
pub fn bundle(evidence: &Evidence) -> Vec<u8> {
    let mut out = Vec::new();
    bundle::write(evidence, &emission(), &mut out).expect("a Vec takes everything");
    out
}

/// The events of a bundle, as objects to be changed.
pub fn objects(evidence: &Evidence) -> Vec<Object> {
    let run_id = identity::run_id(&identity::digest(&evidence.identity));
    let mut objects = Vec::new();
    let read: Result<(), std::convert::Infallible> =
        events::for_each(evidence, &run_id, &emission(), |line| {
            let value = read::parse(line.bytes.trim_end().as_bytes()).expect("we write what we read");
            objects.push(value.as_object().expect("an event is an object").clone());
            Ok(())
        });
    let Ok(()) = read;
    objects
}

/// The hash that an event of this content has.
pub fn content_hash(event: &Object) -> Digest {
    let mut content = Object::new();
    for key in ["data", "datacontenttype", "specversion", "subject", "type"] {
        content.set_some(key, event.get(key).cloned());
    }
    Digest::of(write::to_string(&content.into()).as_bytes())
}

/// Packs events anew: numbered, hashed and counted again, as a careful forger would.
pub fn pack(mut objects: Vec<Object>) -> Vec<u8> {
    let run_id = objects[0].str("assayrunid").expect("an event has a run id").to_owned();
    for (at, event) in objects.iter_mut().enumerate() {
        event.set("assaycontenthash", content_hash(event).to_string());
        event.set("assayseq", Value::count(at as u64));
        event.set("id", format!("{run_id}:{at}"));
    }
    let lines: Vec<String> =
        objects.iter().map(|event| write::to_string(&Value::Object(event.clone())) + "\n").collect();
    pack_lines(&run_id, &objects, &lines, |manifest| manifest)
}

/// Packs these lines, which are the text of these events, after `edit` changed the manifest.
pub fn pack_lines(
    run_id: &str,
    objects: &[Object],
    lines: &[String],
    edit: impl FnOnce(Vec<u8>) -> Vec<u8>,
) -> Vec<u8> {
    let mut root = events::RunRoot::default();
    for event in objects {
        root.add(&event.str("assaycontenthash").and_then(|text| text.parse().ok()).expect("it has a hash"));
    }
    let bytes = lines.concat();
    let manifest = edit(manifest::to_json(&manifest::Facts {
        producer: "assay",
        producer_version: "0.1.0",
        run_id,
        event_count: objects.len() as u64,
        run_root: root.finish(),
        events_sha256: Digest::of(bytes.as_bytes()),
        events_bytes: bytes.len() as u64,
    }));
    archive::write(Vec::new(), &manifest, bytes.len() as u64, |out| out.write_all(bytes.as_bytes()))
        .expect("a Vec takes everything")
}
