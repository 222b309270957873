//! Each act on a socket that no rule allows × the line that would allow it: put into the policy, it makes that act pass
//! and none beside it.

use crate::policy::check::{Denial, Verdict, judge_effect};
use crate::policy::load::{Context, NoFiles, load_bytes};
use crate::policy::rule::Policy;
use crate::profile::effect::{Effect, EffectResult, FsEffect, FsOp, NetEffect, NetEffectOp, Port};
use crate::profile::name::Name;

fn policy(lines: &[&str]) -> Policy {
    let (fs, net): (Vec<&str>, Vec<&str>) = lines.iter().partition(|line| line.starts_with("fs.allow: "));
    let list = |lines: &[&str]| {
        lines.iter().map(|line| line.split_once(": - ").expect("a list").1).collect::<Vec<_>>().join(", ")
    };
    let text =
        format!("api_version: assay/v1\nfs: {{allow: [{}]}}\nnet: {{allow: [{}]}}\n", list(&fs), list(&net));
    load_bytes(b"p.yaml", text.as_bytes(), &Context::for_tests(), &NoFiles)
        .unwrap_or_else(|problems| panic!("{problems:?}\n{text}"))
}

fn net(op: NetEffectOp, proto: &str, address: &str, port: Option<Port>) -> Effect {
    Effect::net(NetEffect {
        op,
        proto: proto.into(),
        host: None,
        host_from: None,
        address: Some(Name::from_canonical(address)),
        port,
        result: EffectResult::Denied,
    })
}

fn denial(policy: &Policy, effect: &Effect) -> Option<Denial> {
    match judge_effect(policy, effect, &[]) {
        Verdict::Denied(denial) => Some(denial),
        Verdict::Allowed { .. } => None,
    }
}

const ENDS: [&str; 6] = ["127.0.0.1", "127.0.0.2", "::1", "192.0.2.7", "0.0.0.0", "::"];
const PORTS: [Port; 5] =
    [Port::Number(0), Port::Number(1), Port::Number(443), Port::Number(65535), Port::Ephemeral];

/// Every act on an endpoint of the internet.
fn inet() -> Vec<Effect> {
    let mut acts = Vec::new();
    for proto in ["tcp", "udp", "mptcp"] {
        for op in NetEffectOp::NAMED {
            for end in ENDS {
                acts.extend(PORTS.map(|port| net(op, proto, end, Some(port))));
            }
        }
    }
    acts
}

/// Whether one rule has to allow both, as it speaks of an endpoint only: whatever the protocol, and whether it is
/// connected to or bound. To the unspecified address nobody connects but to this host.
fn is_one_rule(a: &Effect, b: &Effect) -> bool {
    let end = |effect: &Effect| {
        let Effect::Net(net) = effect else { panic!("{effect:?}") };
        let is_local = matches!(net.op, NetEffectOp::Bind | NetEffectOp::Listen);
        let address = match net.address.as_ref().expect("an address").as_str() {
            "0.0.0.0" if !is_local => "127.0.0.1",
            "::" if !is_local => "::1",
            address => address,
        };
        let port = match net.port {
            Some(Port::Ephemeral) if is_local => Some(Port::Number(0)),
            port => port,
        };
        (address.to_owned(), port)
    };
    end(a) == end(b)
}

#[test]
fn the_line_that_would_allow_an_act_on_an_endpoint_allows_it_and_no_other() {
    let nothing = policy(&["net.allow: - \"198.51.100.1:9\""]);
    let mut checked = 0;
    for act in inet() {
        let told = denial(&nothing, &act).expect("nothing allows it");
        let allowed = policy(&[&told.remedy]);
        assert_eq!(denial(&allowed, &act), None, "{act:?}: {}", told.remedy);
        // Somebody's port that the kernel chose has another number each time: no rule but one for every port has it.
        let Effect::Net(net) = &act else { panic!("{act:?}") };
        let is_any = net.port == Some(Port::Ephemeral) && !told.what.starts_with("bind");
        for other in inet().iter().filter(|other| !is_one_rule(&act, other) && !is_any) {
            assert!(denial(&allowed, other).is_some(), "{} for {act:?} allows {other:?}", told.remedy);
            checked += 1;
        }
    }
    assert!(checked > 50_000, "{checked}");
}

#[test]
fn a_bind_to_a_port_of_the_kernels_choice_needs_no_rule_for_all_ports() {
    let told = denial(&policy(&[]), &net(NetEffectOp::Bind, "tcp", "127.0.0.1", Some(Port::Ephemeral)));
    assert_eq!(told.expect("denied").remedy, "net.allow: - \"127.0.0.1:0\"");
}

#[test]
fn a_socket_that_is_made_is_allowed_where_its_name_is_made() {
    for path in ["/srv/app/s", "/w/s", "/home/u/x y/s", "/s"] {
        let made = Effect::Fs(FsEffect {
            op: FsOp::Create,
            path: Name::from_canonical(path),
            to: None,
            result: EffectResult::Denied,
        });
        let acts =
            [net(NetEffectOp::Bind, "unix", path, None), net(NetEffectOp::Listen, "unix", path, None), made];
        let told = denial(&policy(&[]), &acts[0]).expect("denied");
        if path == "/s" {
            assert!(told.remedy.contains("would open the whole host"), "{}", told.remedy);
            continue;
        }
        let allowed = policy(&[&told.remedy]);
        for act in &acts {
            assert_eq!(denial(&allowed, act), None, "{act:?}: {}", told.remedy);
        }
        let elsewhere = net(NetEffectOp::Bind, "unix", "/var/s", None);
        assert!(denial(&allowed, &elsewhere).is_some(), "{}", told.remedy);
    }
}

#[test]
fn a_socket_that_is_there_is_allowed_by_itself() {
    for (address, beside) in [("/run/x.sock", "/run/y.sock"), ("@x", "@xy"), ("/run/a b", "/run/a")] {
        for op in [NetEffectOp::Connect, NetEffectOp::Send] {
            let act = net(op, "unix", address, None);
            let told = denial(&policy(&[]), &act).expect("denied");
            let allowed = policy(&[&told.remedy]);
            assert_eq!(denial(&allowed, &act), None, "{}", told.remedy);
            assert!(denial(&allowed, &net(op, "unix", beside, None)).is_some(), "{}", told.remedy);
        }
    }
}

#[test]
fn a_socket_that_no_rule_grants_has_no_line_that_would_allow_it() {
    let everything = policy(&["net.allow: - \"*:*\""]);
    for proto in ["icmp", "raw", "sctp", "udplite", "dccp"] {
        for end in ENDS {
            let act = net(NetEffectOp::Send, proto, end, Some(Port::Number(0)));
            let told = denial(&everything, &act).expect("never granted");
            assert_eq!(told.remedy, "sockets of this kind are never granted");
        }
    }
}
