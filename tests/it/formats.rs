//! Every file that a run leaves follows its schema in docs/formats/schema, hostile names included.

use std::collections::BTreeMap;

use assay::evidence::wire::{self, Format};
use assay::evidence::{Coverage, Evidence, Observed, Outcome};
use assay::observe::loss::Kind;
use assay::observe::observation::{
    Access, Act, CallResult, Endpoint, ExecAct, FileAct, FileKind, FileOp, NetAct, NetOp, Observation,
    PairAct, PairOp, PathRef, PathState,
};
use assay::observe::trace::TraceWriter;
use assay::profile::canonical::{CanonContext, Canonicalizer, RunEnd};
use assay::profile::roots::Roots;
use assay::profile::suggest::{comments, suggest};
use serde_json::Value;

use crate::schema;

fn evidence_schema() -> Value {
    parse(include_str!("../../docs/formats/schema/evidence-profile.v1.schema.json"))
}

fn profile_schema() -> Value {
    parse(include_str!("../../docs/formats/schema/profile.v1.schema.json"))
}

fn trace_schema() -> Value {
    parse(include_str!("../../docs/formats/schema/trace-line.v1.schema.json"))
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

const NONE: [&str; 0] = [];

/// Names that have broken formats before.
fn hostile() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        "plain",
        "new\nline",
        "\x1b[31mred\x1b[0m",
        "${HOME}",
        "back\\slash\\x41",
        "- a: [b, {c: d}]",
        "| cell | `code` <b> #",
        "'single' \"double\"",
        "yes",
        "~",
        "\u{202e}gnp.exe",
        "\u{2028}\u{2029}\u{feff}\u{85}",
        "caf\u{e9}\u{1f980}",
        "*?[glob]**",
        " leading and trailing ",
        "-rf",
    ]
    .iter()
    .map(|name| name.as_bytes().to_vec())
    .collect();
    names.push(b"\xff\xfe\x80invalid\xc3(".to_vec());
    names.push((1..=255u8).filter(|byte| *byte != b'/').collect());
    names.push(vec![b'n'; 4000]);
    names
}

/// One act of each kind on each name.
#[expect(clippy::too_many_lines, reason = "a list, an act an entry")]
fn observations() -> Vec<Observation> {
    let mut all = Vec::new();
    let mut act = |act: Act, result: CallResult| {
        let seq = all.len() as u64;
        all.push(Observation {
            seq,
            t_ns: seq,
            pid: 70,
            tid: 70,
            ppid: 1,
            comm: b"\xffx\n".to_vec(),
            act,
            result,
        });
    };
    let ops = [
        FileOp::Open,
        FileOp::Unlink,
        FileOp::Rmdir,
        FileOp::Mkdir,
        FileOp::Mknod,
        FileOp::Truncate,
        FileOp::Chmod,
        FileOp::Chown,
        FileOp::Utime,
        FileOp::Setxattr,
        FileOp::Removexattr,
        FileOp::Mount,
        FileOp::Umount,
        FileOp::PivotRoot,
        FileOp::Chdir,
        FileOp::Chroot,
        FileOp::Write,
        FileOp::Receive,
    ];
    let states = [
        PathState::Resolved,
        PathState::LookedUpLate,
        PathState::Unverified,
        PathState::Lexical,
        PathState::Nameless,
        PathState::Cut,
        PathState::Unreadable,
    ];
    for (at, name) in hostile().into_iter().enumerate() {
        let path = [b"/srv/w/".as_slice(), &name].concat();
        for (turn, op) in ops.into_iter().enumerate() {
            let file = FileAct {
                op,
                path: PathRef { bytes: path.clone(), state: states[(at + turn) % states.len()] },
                requested: Some(name.clone()),
                access: [Access::Read, Access::Write, Access::Create, Access::Truncate, Access::Append]
                    .into(),
                kind: FileKind::Regular,
                is_path_only: turn == 1,
                is_private: false,
            };
            act(
                Act::File(file),
                if turn % 2 == 0 { CallResult::Ok } else { CallResult::Errno([2, 13, 9999][turn % 3]) },
            );
        }
        for op in [PairOp::Rename, PairOp::Link, PairOp::Symlink] {
            let to = [path.as_slice(), b"2"].concat();
            let to =
                if op == PairOp::Symlink { PathRef::literal(name.clone()) } else { PathRef::resolved(to) };
            let pair = PairAct {
                op,
                path: PathRef::resolved(path.clone()),
                to,
                requested: (Some(name.clone()), Some(name.clone())),
                is_exchange: op == PairOp::Rename,
            };
            act(Act::Pair(pair), CallResult::Ok);
        }
        let exec = ExecAct {
            path: PathRef::resolved(path.clone()),
            requested: Some(name.clone()),
            interpreter: Some(PathRef::resolved("/usr/bin/bash")),
            argv: vec![name.clone(), [b"--password=", name.as_slice()].concat()],
            is_argv_cut: true,
            is_privileged: false,
        };
        act(Act::Exec(exec), CallResult::Ok);
        let endpoints = [
            Endpoint::UnixPath(PathRef::resolved(path)),
            Endpoint::UnixAbstract(name),
            Endpoint::Inet("[2001:db8::1]:443".parse().expect("an address")),
            Endpoint::None,
            Endpoint::Unreadable,
        ];
        for endpoint in endpoints {
            for op in [NetOp::Connect, NetOp::Bind, NetOp::Listen, NetOp::Send, NetOp::Socket] {
                let proto = match (&endpoint, op) {
                    (Endpoint::UnixPath(_) | Endpoint::UnixAbstract(_), _) => "unix",
                    (Endpoint::None, _) | (_, NetOp::Socket) => "netlink",
                    _ => "tcp",
                };
                let net = NetAct {
                    op,
                    proto,
                    endpoint: endpoint.clone(),
                    is_ephemeral: op == NetOp::Bind,
                    peer: None,
                };
                act(Act::Net(net), CallResult::Ok);
            }
        }
    }
    act(Act::Fork { child_pid: 71, child_tid: 71 }, CallResult::Ok);
    act(Act::Exit { status: 256 }, CallResult::Ok);
    all
}

fn evidence() -> Evidence {
    let roots =
        Roots { workdir: vec![b"/srv/w".to_vec()], home: vec![b"/home/\xffu".to_vec()], ..Roots::default() };
    let mut canonicalizer = Canonicalizer::new(CanonContext::new(roots, hostile(), 70));
    for observation in observations() {
        canonicalizer.observe(&observation);
    }
    let canonical = canonicalizer.finish(RunEnd {
        outcome: Outcome::Signal("SIGKILL".into()),
        degradations: Vec::new(),
        ended_at: None,
    });
    let mut coverage = Coverage::default();
    coverage.ledger.gaps = canonical.gaps;
    coverage.ledger.lost = BTreeMap::from([("open".to_owned(), 1)]);
    coverage.ledger.admit(Kind::Net, "io-uring", "2 times");
    let programs =
        canonical.programs.keys().map(|name| (name.clone(), Err("not read in a test".to_owned()))).collect();
    let observed = Observed {
        started_at: "2026-01-02T03:04:05Z".into(),
        counters: canonical.counters,
        effects: canonical.facts,
        folded: canonical.folded,
        programs,
        processes: canonical.processes,
        roots: canonical.roots,
        ..Observed::default()
    };
    Evidence { identity: canonical.identity, observed, coverage }
}

#[test]
fn the_evidence_profile_follows_its_schema_and_comes_back() {
    let evidence = evidence();
    assert!(evidence.identity.effects.len() > 200, "{}", evidence.identity.effects.len());
    let json = wire::write(&evidence, Format::Json);
    let yaml = wire::write(&evidence, Format::Yaml);
    for text in [&json, &yaml] {
        assert_eq!(wire::read(text).expect("it reads what it wrote"), evidence);
    }
    let value = parse(&json);
    assert_eq!(schema::complaints(&evidence_schema(), &value), NONE);
    let from_yaml: Value = serde_saphyr::from_str(&yaml).expect("another reader takes the YAML");
    assert_eq!(from_yaml, value);
    let mut broken = value;
    broken["observed"]["extra"] = Value::Bool(true);
    broken["identity"]["effects"]["fs"][0]["op"] = Value::String("raed".into());
    assert!(schema::complaints(&evidence_schema(), &broken).len() >= 2, "the check can fail");
}

#[test]
fn the_profile_follows_its_schema_and_loads_as_a_policy() {
    let evidence = evidence();
    let profile = suggest(&evidence.identity.effects, &evidence.observed.folded, &[]);
    let comments = comments(&profile, &evidence.identity.command, "sandbox_0", &evidence.identity.effects);
    let json = profile.write(&comments, Format::Json);
    let yaml = profile.write(&comments, Format::Yaml);
    assert_eq!(schema::complaints(&profile_schema(), &parse(&json)), NONE);
    let from_yaml: Value = serde_saphyr::from_str(&yaml).expect("another reader takes the YAML");
    assert_eq!(from_yaml, parse(&json));
    let context = assay::policy::load::Context::symbolic();
    for text in [json, yaml] {
        let loaded =
            assay::policy::load::load_bytes(b"p", text.as_bytes(), &context, &assay::policy::load::NoFiles);
        assert!(loaded.is_ok(), "{loaded:?}");
    }
    assert!(
        !schema::complaints(&profile_schema(), &parse(r#"{"api_version":"assay/v2","fs":{"deny":[]}}"#))
            .is_empty()
    );
}

#[test]
fn every_line_of_a_trace_follows_its_schema() {
    let mut writer = TraceWriter::new(&hostile());
    let mut text = String::new();
    for observation in observations() {
        writer.line(&observation, &mut text);
    }
    text.push_str(&writer.end(3));
    let schema = trace_schema();
    for line in text.lines() {
        assert_eq!(schema::complaints(&schema, &parse(line)), NONE, "{line}");
    }
    assert_eq!(text.lines().count() as u64, writer.events() + 1);
    assert!(!schema::complaints(&schema, &parse(r#"{"end":true,"events":1}"#)).is_empty());
}
