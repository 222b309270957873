use super::*;
use crate::canon::read;

/// The identity as one value, made without what writes it piece by piece.
fn to_object(identity: &Identity) -> Object {
    let mut lists = Object::from([
        ("exec", Value::Array(Vec::new())),
        ("fs", Value::Array(Vec::new())),
        ("net", Value::Array(Vec::new())),
    ]);
    let mut effects: Vec<&Effect> = identity.effects.iter().collect();
    effects.sort();
    effects.dedup();
    for effect in effects {
        let (list, object) = match effect {
            Effect::Fs(effect) => ("fs", fs_object(effect)),
            Effect::Exec(effect) => ("exec", exec_object(effect)),
            Effect::Net(effect) => ("net", net_object(effect)),
        };
        let mut all = lists.get(list).and_then(Value::as_array).unwrap().to_vec();
        all.push(object.into());
        lists.set(list, all);
    }
    let mut object = frame(identity);
    object.set("effects", lists);
    object
}

fn sample() -> Identity {
    let fs = |op, path: &str, to: Option<&str>, result| {
        Effect::Fs(FsEffect {
            op,
            path: Name::from_canonical(path),
            to: to.map(Name::from_canonical),
            result,
        })
    };
    let net = |op, proto: &str, address: Option<&str>, port| {
        Effect::net(NetEffect {
            op,
            proto: proto.into(),
            host: None,
            host_from: None,
            address: address.map(Name::from_canonical),
            port,
            result: EffectResult::Ok,
        })
    };
    Identity {
        command: vec!["git".into(), "clone".into(), "${WORKDIR}/src".into()],
        effects: vec![
            fs(FsOp::Read, "/etc/shadow", None, EffectResult::Denied),
            fs(FsOp::Rename, "${WORKDIR}/a\\x0a", Some("${WORKDIR}/b"), EffectResult::Ok),
            Effect::Exec(ExecEffect { path: Name::from_canonical("/usr/bin/git"), result: EffectResult::Ok }),
            net(NetEffectOp::Connect, "tcp", Some("127.0.0.1"), Some(Port::Number(80))),
            net(NetEffectOp::Bind, "udp", Some("::1"), Some(Port::Ephemeral)),
            net(NetEffectOp::Connect, "unix", Some("@bus"), None),
            Effect::net(NetEffect {
                op: NetEffectOp::Connect,
                proto: "tcp".into(),
                host: Some("example.com".into()),
                host_from: Some(HostFrom::Dns),
                address: None,
                port: Some(Port::Number(443)),
                result: EffectResult::Denied,
            }),
            net(NetEffectOp::Use, "netlink", None, None),
        ],
        outcome: Outcome::ExitCode(0),
        degradations: vec![Degradation {
            component: Component::Fs,
            reason: "deny-inside-allow".into(),
            detail: Some("${WORKDIR}/.git/hooks".into()),
        }],
    }
}

#[test]
fn the_bytes_are_these() {
    let text = String::from_utf8(to_json(&sample())).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"canonicalizer":"assay-canon/1","command":["git","clone","${WORKDIR}/src"],"#,
            r#""degradations":[{"component":"fs","detail":"${WORKDIR}/.git/hooks","reason":"deny-inside-allow"}],"#,
            r#""effects":{"exec":[{"path":"/usr/bin/git","result":"ok"}],"#,
            r#""fs":[{"op":"read","path":"/etc/shadow","result":"denied"},"#,
            r#"{"op":"rename","path":"${WORKDIR}/a\\x0a","result":"ok","to":"${WORKDIR}/b"}],"#,
            r#""net":[{"address":"127.0.0.1","op":"connect","port":80,"proto":"tcp","result":"ok"},"#,
            r#"{"host":"example.com","host_from":"dns","op":"connect","port":443,"proto":"tcp","result":"denied"},"#,
            r#"{"address":"@bus","op":"connect","proto":"unix","result":"ok"},"#,
            r#"{"address":"::1","op":"bind","port":"ephemeral","proto":"udp","result":"ok"},"#,
            r#"{"op":"connect","proto":"netlink","result":"ok"}]},"outcome":{"exit_code":0}}"#,
        )
    );
    assert_eq!(run_id(&digest(&sample())), format!("sandbox_{}", &Digest::of(text.as_bytes()).hex()[..16]));
}

#[test]
fn the_pieces_are_the_whole() {
    let mut identity = sample();
    for _ in 0..2 {
        let whole = write::to_string(&Value::Object(to_object(&identity))).into_bytes();
        assert_eq!(to_json(&identity), whole);
        assert_eq!(digest(&identity), Digest::of(&whole));
        identity.effects.clear();
        identity.degradations.clear();
    }
}

#[test]
fn what_was_written_is_read_back() {
    let mut identity = sample();
    let Value::Object(object) = read::parse(&to_json(&identity)).unwrap() else { panic!("not an object") };
    identity.effects.sort();
    assert_eq!(from_object(&object).unwrap(), identity);
    for outcome in [Outcome::Signal("SIGKILL".into()), Outcome::Timeout, Outcome::ExitCode(255)] {
        identity.outcome = outcome;
        assert_eq!(from_object(&to_object(&identity)).unwrap(), identity);
    }
}

#[test]
fn order_and_repetition_do_not_matter() {
    let one = sample();
    let mut other = sample();
    other.effects.reverse();
    other.effects.extend(one.effects.clone());
    assert_eq!(digest(&one), digest(&other));
}

#[test]
fn one_effect_less_is_another_run() {
    let whole = digest(&sample());
    for at in 0..sample().effects.len() {
        let mut less = sample();
        less.effects.remove(at);
        assert_ne!(digest(&less), whole);
    }
    let mut other = sample();
    other.outcome = Outcome::ExitCode(1);
    assert_ne!(digest(&other), whole);
}

#[test]
fn what_the_format_does_not_have_is_refused_with_its_place() {
    let refused = |from: &str, to: &str| {
        let text = String::from_utf8(to_json(&sample())).unwrap();
        assert!(text.contains(from), "{from}");
        let Ok(Value::Object(object)) = read::parse(text.replacen(from, to, 1).as_bytes()) else {
            panic!("not an object")
        };
        from_object(&object).unwrap_err().to_string()
    };
    assert_eq!(
        refused("assay-canon/1", "other/9"),
        "read the identity: canonicalizer: \"other/9\" is not known here"
    );
    assert_eq!(
        refused(r#""op":"rename""#, r#""op":"move""#),
        "read the identity: effects.fs[1].op: not an operation on files"
    );
    assert_eq!(
        refused(r#""port":443"#, r#""port":70000"#),
        "read the identity: effects.net[1].port: neither a port nor \"ephemeral\""
    );
    assert_eq!(
        refused(r#"{"exit_code":0}"#, r#"{"exit_code":0,"signal":"SIGKILL"}"#),
        "read the identity: outcome: none of {exit_code}, {signal}, {timeout: true}"
    );
    assert_eq!(refused(r#""detail":"#, r#""x":"#), "read the identity: degradations[0]: unknown key \"x\"");
}
