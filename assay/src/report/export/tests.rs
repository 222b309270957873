//! What a hostile bundle can do to the lines, whose hashes are right and whose every attribute may be anything.

use std::collections::BTreeMap;

use super::{Format, Head, Run, jsonl};
use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::evidence::integrity::Limits;
use crate::evidence::verify::verify;
use crate::evidence::{Component, Degradation, Outcome, Peer, samples};
use crate::profile::effect::{Effect, HostFrom, NetEffect, NetEffectOp, Port};

/// The lines of a bundle.
fn lines(bundle: &[u8], format: Format) -> Vec<String> {
    let (mut head, mut events) = (Head::default(), Vec::new());
    let verified = verify(bundle, Limits::FORMAT, |_, event| {
        head.add(event);
        events.push(event.clone());
    })
    .unwrap();
    let archive = &verified.archive.sha256;
    let run = Run { manifest: &verified.manifest, archive, head: &head, host: Some("host") };
    let mut lines = vec![format.run(&run)];
    lines.extend(events.iter().filter_map(|event| format.event(&run, event)));
    lines
}

fn everything() -> crate::evidence::Evidence {
    // Of files, the one with two names is enough.
    let mut effects = samples::harmless().split_off(2);
    effects.push(samples::exec("/bin/gone"));
    effects.push(Effect::net(NetEffect {
        op: NetEffectOp::Bind,
        proto: "tcp".into(),
        host: Some("a.test".into()),
        host_from: Some(HostFrom::Sni),
        address: None,
        port: Some(Port::Ephemeral),
        result: crate::profile::effect::EffectResult::Denied,
    }));
    let degradation =
        Degradation { component: Component::Fs, reason: "not-held".into(), detail: Some("/a".into()) };
    let mut evidence = samples::evidence(effects, vec![degradation]);
    for facts in evidence.observed.effects.values_mut() {
        facts.addresses = ["10.0.0.1".parse().unwrap()].into();
        facts.asked = ["b.test".into()].into();
        facts.denied_by = Some("policy");
        let program = Some("/usr/bin/dockerd".into());
        facts.peers = [Peer { process: Some((7, 0)), program, comm: Some("dockerd".into()) }].into();
    }
    evidence.observed.programs.insert("/bin/gone".into(), Err("it was gone".into()));
    evidence.observed.versions.insert("observer_object".into(), "sha256:0".into());
    evidence.observed.not_governed = vec!["attr".into()];
    evidence.coverage.ledger.admit(crate::observe::loss::Kind::Net, "names-not-seen", "x");
    evidence
}

/// Values that no attribute is meant to have, or that are hostile where it is a text.
fn odd() -> Vec<Value> {
    vec![
        Value::Null,
        true.into(),
        Value::count(7),
        Value::count(u64::MAX),
        "\u{2028}\n\r\0\u{1b}[2J\u{202e}\u{9b}\"},{\\ ##vso[x]".into(),
        "[1,{}]".into(),
        "[\"a\"]".into(),
        "[{\"kind\":1}]".into(),
        Value::Array(vec!["x".into()]),
        Object::from([("x", Value::Null)]).into(),
    ]
}

/// Bundles in which one member after the other, of the events and of their data, is something odd, or is missing.
fn bundles() -> Vec<Vec<u8>> {
    let objects = samples::objects(&everything());
    // What `verify` itself demands of an event.
    let is_checked = |key: &str| {
        key.starts_with("assayprod")
            || matches!(
                key,
                "specversion"
                    | "type"
                    | "source"
                    | "id"
                    | "time"
                    | "datacontenttype"
                    | "assayrunid"
                    | "assayseq"
            )
            || matches!(key, "assaygit" | "assaypii" | "assaysecrets" | "assaycontenthash" | "subject")
    };
    let mut bundles = vec![samples::pack(objects.clone()), samples::pack(objects[..1].to_vec())];
    for (at, event) in objects.iter().enumerate() {
        let mut put = |change: &dyn Fn(&mut Object)| {
            let mut objects = objects.clone();
            change(&mut objects[at]);
            bundles.push(samples::pack(objects));
        };
        put(&|event| drop(event.remove("subject")));
        put(&|event| event.set("type", "com.example\u{2028}\u{202e}"));
        for (key, _) in event.iter().filter(|(key, _)| !is_checked(key) && *key != "data") {
            put(&|event| drop(event.remove(key)));
        }
        for value in odd() {
            for (key, _) in event.iter().filter(|(key, _)| !is_checked(key)) {
                put(&|event| event.set(key, value.clone()));
            }
            let data = event.get("data").and_then(Value::as_object).unwrap().clone();
            for (key, _) in data.iter() {
                put(&|event| {
                    let mut data = data.clone();
                    data.set(key, value.clone());
                    event.set("data", data);
                });
            }
        }
    }
    let mut killed = everything();
    killed.identity.outcome = Outcome::Signal("SIGKILL".into());
    bundles.push(samples::bundle(&killed));
    // Twice what should be there once, in any order.
    bundles.push(samples::pack([&objects[..], &objects[..]].concat()));
    bundles.push(samples::pack(objects.iter().rev().cloned().collect()));
    bundles
}

/// What a reader would end a line at, or a terminal act on.
fn is_on_its_line(line: &str) -> bool {
    !line.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202e}' | '\u{feff}'))
        && !line.contains("##")
}

#[test]
fn whatever_a_bundle_holds_each_line_is_one_line_of_json() {
    for bundle in bundles() {
        for line in Format::ALL.into_iter().flat_map(|format| lines(&bundle, format)) {
            assert!(is_on_its_line(&line), "{line}");
            assert!(read::parse(line.as_bytes()).is_ok_and(|value| value.as_object().is_some()), "{line}");
        }
    }
}

#[test]
fn a_column_has_one_type_whatever_a_bundle_holds() {
    let shape = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Integer(_) => "number",
        Value::String(_) => "text",
        Value::Array(elements) if elements.iter().all(|one| one.as_str().is_some()) => "texts",
        Value::Array(elements) if elements.iter().all(|one| one.as_object().is_some()) => "objects",
        Value::Array(_) => "mixed",
        Value::Object(_) => "object",
    };
    let mut shapes: BTreeMap<String, &str> = BTreeMap::new();
    for bundle in bundles() {
        for (at, line) in lines(&bundle, Format::Jsonl).iter().enumerate() {
            let value = read::parse(line.as_bytes()).unwrap();
            let row = value.as_object().unwrap();
            if at == 0 {
                let keys: Vec<&str> = row.iter().map(|(key, _)| key).collect();
                assert_eq!(keys, jsonl::COLUMNS, "the first line has every column");
            }
            for (key, value) in row.iter().filter(|(_, value)| **value != Value::Null) {
                assert!(jsonl::COLUMNS.contains(&key), "{key}");
                // An empty list is of any type.
                if value.as_array().is_some_and(<[Value]>::is_empty) {
                    continue;
                }
                let known = *shapes.entry(key.to_owned()).or_insert_with(|| shape(value));
                assert_eq!(known, shape(value), "{key}: {line}");
            }
        }
    }
    assert_eq!(shapes.len(), jsonl::COLUMNS.len(), "a column that was never filled: {shapes:?}");
}

/// The page names every column.
#[test]
fn the_guide_has_a_row_for_every_column() {
    let guide = include_str!("../../../../docs/guides/export.md");
    let table = guide.split("| column |").nth(1).unwrap().split("\n\n").next().unwrap();
    let named: Vec<&str> = table
        .lines()
        .skip(2)
        .flat_map(|row| row.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2))
        .collect();
    let mut sorted = named.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, jsonl::COLUMNS);
}

/// A second event of a kind that should be there once is not lost, and does not speak for the run.
#[test]
fn what_should_be_there_once_speaks_for_the_run_once() {
    let mut objects = samples::objects(&everything());
    let mut summary = objects[objects.len() - 2].clone();
    summary.set("assayverdict", "forged");
    objects.push(summary);
    let lines = lines(&samples::pack(objects), Format::Jsonl);
    assert!(lines[0].contains("\"verdict\":\"ok\""), "{}", lines[0]);
    let last = lines.last().unwrap();
    assert!(last.contains("\"kind\":\"other\"") && last.contains("assay.sandbox.summary"), "{last}");
}
