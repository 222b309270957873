//! What differs is named, all of it and nothing else.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::profile::effect::{ExecEffect, FsEffect, FsOp, HostFrom, NetEffect, NetEffectOp};
use crate::profile::name::Name;

#[test]
fn profiles_differ_by_rule_and_access() {
    let profile = |fs: &[(&str, Grant)]| Profile {
        fs: fs.iter().map(|(path, grant)| ((*path).into(), [*grant].into())).collect(),
        ..Profile::default()
    };
    let (a, b) = (
        profile(&[("/a", Grant::Read), ("/b", Grant::Read)]),
        profile(&[("/b", Grant::Write), ("/c", Grant::Read)]),
    );
    let lines: Vec<String> = profiles(&a, &b).iter().map(Change::line).collect();
    assert_eq!(lines, ["- fs /a (read)", "~ fs /b (read, then write)", "+ fs /c (read)"]);
    assert_eq!(profiles(&a, &a), []);
}

#[test]
fn profiles_differ_by_what_they_deny_and_by_a_list_of_programs() {
    let a = Profile { deny: [("/s".into(), GrantSet::new())].into(), ..Profile::default() };
    let b = Profile {
        deny: [("/s".into(), [Grant::Write].into())].into(),
        exec: Some(BTreeSet::new()),
        ..a.clone()
    };
    let lines: Vec<String> = profiles(&a, &b).iter().map(Change::line).collect();
    assert_eq!(
        lines,
        ["~ fs deny /s (every access, then write)", "- exec programs (where `execute` is granted)"]
    );
    let lines: Vec<String> = profiles(&Profile { exec: Some(BTreeSet::new()), ..Profile::default() }, &b)
        .iter()
        .map(Change::line)
        .collect();
    assert_eq!(lines, ["+ fs deny /s (write)"]);
}

#[test]
fn effects_differ_by_operation_and_result() {
    let fs = |op, path: &str, result| {
        Effect::Fs(FsEffect { op, path: Name::from_canonical(path), to: None, result })
    };
    let a = [fs(FsOp::Read, "/a", EffectResult::Ok)];
    let b = [fs(FsOp::Read, "/a", EffectResult::Denied), fs(FsOp::Write, "/a", EffectResult::Ok)];
    let lines: Vec<String> = effects(&a, &b).iter().map(Change::line).collect();
    assert_eq!(lines, ["~ fs read /a (ok, then denied)", "+ fs write /a (ok)"]);
}

fn net(host: Option<(&str, HostFrom)>, address: Option<&str>, port: Option<Port>) -> Effect {
    Effect::net(NetEffect {
        op: NetEffectOp::Connect,
        proto: "tcp".into(),
        host: host.map(|(host, _)| host.to_owned()),
        host_from: host.map(|(_, from)| from),
        address: address.map(Name::from_canonical),
        port,
        result: EffectResult::Ok,
    })
}

#[test]
fn a_host_is_told_with_its_source_and_the_address_beside_it() {
    let port = Some(Port::Number(443));
    let a = [net(Some(("example.org", HostFrom::Sni)), Some("192.0.2.1"), port)];
    let b = [net(Some(("example.org", HostFrom::Sni)), Some("192.0.2.2"), port)];
    let c = [net(Some(("example.org", HostFrom::Dns)), None, port)];
    let lines = |a: &[Effect], b: &[Effect]| effects(a, b).iter().map(Change::line).collect::<Vec<_>>();
    let [first, second, third] = [
        "net connect tcp example.org (sni) 192.0.2.1 port 443 (ok)",
        "net connect tcp example.org (sni) 192.0.2.2 port 443 (ok)",
        "net connect tcp example.org (dns) port 443 (ok)",
    ];
    assert_eq!(lines(&a, &b), [format!("- {first}"), format!("+ {second}")]);
    assert_eq!(lines(&a, &c), [format!("+ {third}"), format!("- {first}")]);
}

/// Effects of few names, so that many are alike but for one thing.
fn effect() -> impl Strategy<Value = Effect> {
    let name = || select(vec!["/a", "/a -> /b", "/b", "/b -> /c", "/c"]).prop_map(Name::from_canonical);
    let result = || select(vec![EffectResult::Ok, EffectResult::Denied]);
    let files = (select(FsOp::ALL.to_vec()), name(), name(), result()).prop_map(|(op, path, to, result)| {
        let to = matches!(op, FsOp::Rename | FsOp::Link | FsOp::Symlink).then_some(to);
        Effect::Fs(FsEffect { op, path, to, result })
    });
    let programs = (name(), result()).prop_map(|(path, result)| Effect::Exec(ExecEffect { path, result }));
    let host = prop::option::of((select(vec!["a", "b"]), select(HostFrom::ALL.to_vec())));
    let address = prop::option::of(select(vec!["a", "192.0.2.1", "::1"]));
    let port = prop::option::of(select(vec![Port::Number(1), Port::Number(2), Port::Ephemeral]));
    let sockets = (host, address, port).prop_map(|(host, address, port)| net(host, address, port));
    prop_oneof![files, programs, sockets]
}

proptest! {
    #[test]
    fn two_runs_have_no_difference_exactly_if_they_have_the_same_effects(
        common in prop::collection::btree_set(effect(), 0..6),
        first in prop::collection::btree_set(effect(), 0..3),
        second in prop::collection::btree_set(effect(), 0..3),
    ) {
        let of = |more: &BTreeSet<Effect>| common.union(more).cloned().collect::<Vec<Effect>>();
        let (first, second) = (of(&first), of(&second));
        let differing: BTreeSet<Effect> = first
            .iter()
            .filter(|effect| !second.contains(effect))
            .chain(second.iter().filter(|effect| !first.contains(effect)))
            .map(allowed)
            .collect();
        let mut wanted: Vec<(Section, String)> = differing.iter().map(words).collect();
        wanted.sort();
        let told = effects(&first, &second).into_iter().map(|change| (change.section, change.text));
        prop_assert_eq!(told.collect::<Vec<_>>(), wanted);
    }
}
