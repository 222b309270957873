//! Secrets of every shape and form are in no artifact, and what only looks like one stays.

use std::collections::BTreeMap;

use assay::evidence::events::Emission;
use assay::evidence::timestamp::Timestamp;
use assay::evidence::wire::{self, Format};
use assay::evidence::{Coverage, Evidence, Observed, Outcome, events, identity};
use assay::observe::observation::{
    Access, Act, CallResult, Endpoint, ExecAct, FileAct, FileKind, FileOp, NetAct, NetOp, Observation,
    PairAct, PairOp, PathRef, PathState,
};
use assay::observe::trace::TraceWriter;
use assay::profile::canonical::{CanonContext, Canonicalizer, RunEnd};
use assay::profile::redact::find_in_argv;
use assay::profile::roots::Roots;
use assay::profile::secrets::Secrets;
use assay::profile::suggest::{comments, suggest};
use proptest::prelude::*;

#[path = "../fixtures/secrets.rs"]
mod corpus;

use corpus::{COMMANDS, HARMLESS, plain, secrets};

/// More commands, one a line of `secrets.txt`, which no test runs.
fn forms() -> Vec<Vec<String>> {
    let lines = include_str!("../fixtures/secrets.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split('\t').map(|argument| argument.replace("\\n", "\n")).collect()).collect()
}

/// All commands, an argument a text.
fn all_commands() -> Vec<Vec<String>> {
    let rows = COMMANDS.iter().map(|row| row.iter().map(|text| (*text).to_owned()).collect());
    rows.chain(forms()).collect()
}

/// Each command's arguments as they are given.
fn commands() -> Vec<Vec<Vec<u8>>> {
    all_commands().iter().map(|row| row.iter().map(|text| plain(text).into_bytes()).collect()).collect()
}

#[test]
fn what_is_secret_is_found_and_nothing_else() {
    for (row, argv) in all_commands().iter().zip(commands()) {
        let marked: Vec<String> = argv
            .iter()
            .zip(find_in_argv(&argv))
            .map(|(text, found)| {
                let mut out = text.clone();
                for secret in found.iter().rev() {
                    out.splice(secret.range.end..secret.range.end, "\u{bb}".bytes());
                    out.splice(secret.range.start..secret.range.start, "\u{ab}".bytes());
                }
                String::from_utf8(out).expect("UTF-8")
            })
            .collect();
        let want: Vec<String> = row.iter().map(|text| text.replace('\u{a7}', "")).collect();
        assert_eq!(marked, want);
    }
    for text in HARMLESS {
        let argv = [b"x".to_vec(), text.as_bytes().to_vec()];
        assert!(find_in_argv(&argv)[1].is_empty(), "{text}");
    }
}

/// A run that starts every command, and uses names and sockets with keys in them; every artifact of it.
#[expect(clippy::too_many_lines, reason = "a list, an act or an artifact an entry")]
fn artifacts() -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let mut act = |act: Act, errno: i32| {
        let result = if errno == 0 { CallResult::Ok } else { CallResult::Errno(errno) };
        let seq = all.len() as u64;
        let comm = b"x".to_vec();
        all.push(Observation { seq, t_ns: seq, pid: 70, tid: 70, ppid: 1, comm, act, result });
    };
    let exec = |path: Vec<u8>, argv: Vec<Vec<u8>>| {
        Act::Exec(ExecAct {
            path: PathRef::resolved(path),
            requested: None,
            interpreter: None,
            argv,
            is_argv_cut: false,
            is_privileged: false,
        })
    };
    for argv in commands() {
        act(exec([b"/usr/bin/", argv[0].as_slice()].concat(), argv), 0);
    }
    let harmless = HARMLESS.iter().map(|text| text.as_bytes().to_vec());
    act(exec(b"/usr/bin/x".to_vec(), std::iter::once(b"x".to_vec()).chain(harmless).collect()), 0);
    // Keys of known shape in names, and values of flags that are long enough to be looked for.
    for name in names() {
        let path = [b"/srv/w/", name.as_slice(), b"/f"].concat();
        let file = |op, path: Vec<u8>, state| {
            Act::File(FileAct {
                op,
                path: PathRef { bytes: path, state },
                requested: Some(name.clone()),
                access: [Access::Read].into(),
                kind: FileKind::Regular,
                is_path_only: false,
                is_private: false,
            })
        };
        for state in [PathState::Resolved, PathState::Cut, PathState::Unverified, PathState::Nameless] {
            act(file(FileOp::Open, path.clone(), state), 0);
        }
        act(file(FileOp::Mkdir, path.clone(), PathState::Resolved), 13);
        // A part of the name that would fold does not take the key along.
        let temporary =
            [b"/tmp/".as_slice(), &name, b"-f81d4fae-7dec-11d0-a765-00a0c91e6bf6.1234567"].concat();
        act(file(FileOp::Mkdir, temporary.clone(), PathState::Resolved), 0);
        act(file(FileOp::Rmdir, temporary, PathState::Resolved), 0);
        let pair = |op, to| {
            let requested = (Some(name.clone()), Some(name.clone()));
            Act::Pair(PairAct {
                op,
                path: PathRef::resolved(path.clone()),
                to,
                requested,
                is_exchange: false,
            })
        };
        act(pair(PairOp::Rename, PathRef::resolved([path.as_slice(), b"2"].concat())), 0);
        act(pair(PairOp::Symlink, PathRef::literal(name.clone())), 0);
        act(exec(path.clone(), vec![path.clone()]), 0);
        for endpoint in [Endpoint::UnixPath(PathRef::resolved(path)), Endpoint::UnixAbstract(name)] {
            act(
                Act::Net(NetAct {
                    op: NetOp::Connect,
                    proto: "unix",
                    endpoint,
                    is_ephemeral: false,
                    peer: None,
                }),
                0,
            );
        }
    }

    let command: Vec<Vec<u8>> = commands().concat();
    let mut trace = TraceWriter::new(&command);
    let mut lines = String::new();
    let roots = Roots { workdir: vec![b"/srv/w".to_vec()], ..Roots::default() };
    let mut canonicalizer = Canonicalizer::new(CanonContext::new(roots, command, 70));
    for observation in &all {
        trace.line(observation, &mut lines);
        canonicalizer.observe(observation);
    }
    let outcome = Outcome::ExitCode(0);
    let canonical = canonicalizer.finish(RunEnd { outcome, degradations: Vec::new(), ended_at: None });
    assert!(!canonical.gaps.is_empty());
    let mut coverage = Coverage::default();
    coverage.ledger.gaps = canonical.gaps;
    let why = || Err("not read in a test".to_owned());
    let observed = Observed {
        counters: canonical.counters,
        effects: canonical.facts,
        folded: canonical.folded,
        programs: canonical.programs.keys().map(|name| (name.clone(), why())).collect(),
        processes: canonical.processes,
        roots: canonical.roots,
        ..Observed::default()
    };
    let evidence = Evidence { identity: canonical.identity, observed, coverage };
    let run_id = identity::run_id(&identity::digest(&evidence.identity));
    let profile = suggest(&evidence.identity.effects, &evidence.observed.folded, &[]);
    let comments = comments(&profile, &evidence.identity.command, &run_id, &evidence.identity.effects);
    let mut report = Vec::new();
    assay::report::markdown::write(&mut report, &evidence, assay::report::basis::Basis::Run)
        .expect("a report");
    let mut bundle = String::new();
    let emission = Emission {
        time: Timestamp::new(0).expect("a moment"),
        producer: "assay".into(),
        version: "0".into(),
        git: "unknown".into(),
        is_reproducible: false,
    };
    let told: Result<(), std::convert::Infallible> =
        events::for_each(&evidence, &run_id, &emission, |line| {
            bundle.push_str(&line.bytes);
            Ok(())
        });
    let Ok(()) = told;
    vec![
        ("trace", lines),
        ("evidence", wire::write(&evidence, Format::Yaml)),
        ("evidence as JSON", wire::write(&evidence, Format::Json)),
        ("profile", profile.write(&comments, Format::Yaml)),
        ("profile as JSON", profile.write(&comments, Format::Json)),
        ("report", String::from_utf8(report).expect("UTF-8")),
        ("bundle", bundle),
    ]
}

/// Secrets that are looked for in names too.
fn names() -> Vec<Vec<u8>> {
    let all = all_commands().into_iter().flatten().flat_map(|text| secrets(&text));
    let names: Vec<Vec<u8>> = all
        .filter(|secret| secret.len() >= 8 && !secret.contains(['/', '\n']))
        .map(String::into_bytes)
        .collect();
    assert!(names.len() > 60, "{}", names.len());
    names
}

#[test]
fn no_artifact_has_a_secret() {
    let artifacts = artifacts();
    for (name, text) in &artifacts {
        for secret in all_commands().into_iter().flatten().flat_map(|text| secrets(&text)) {
            // Short ones could stand somewhere by chance.
            let escaped = assay::profile::name::Name::from_bytes(secret.as_bytes()).as_str().to_owned();
            for form in [secret.replace('\\', "\\\\"), escaped, secret] {
                assert!(form.len() < 5 || !text.contains(&form), "{name} has {form}");
            }
        }
        // A profile grants directories, and has no comment in JSON.
        assert!(text.contains("REDACTED:") || *name == "profile as JSON", "{name}");
    }
    let of = |name: &str| &artifacts.iter().find(|(known, _)| *known == name).expect("it").1;
    let evidence = wire::read(of("evidence as JSON")).expect("it reads");
    let told: Vec<&str> = evidence
        .observed
        .processes
        .iter()
        .flat_map(|one| one.programs.iter().flatten())
        .map(String::as_str)
        .collect();
    for text in HARMLESS {
        let name = assay::profile::name::Name::from_bytes(text.as_bytes());
        assert!(told.contains(&name.as_str()), "{text} is gone");
    }
    // Counted by the rules that found them.
    for rule in [
        "key-shape",
        "header",
        "url-password",
        "url-parameter",
        "url-path",
        "proxy-flag",
        "certificate-flag",
        "literal-flag",
        "secret-flag",
        "credential-flag",
        "cookie-flag",
        "secret-setting",
        "assignment",
        "private-key",
    ] {
        let counter = format!("secrets_redacted.{rule}");
        assert!(evidence.observed.counters.get(&counter).is_some_and(|count| *count > 0), "{counter}");
    }
}

/// Arguments with their secrets replaced.
fn redacted(argv: &[Vec<u8>]) -> Vec<String> {
    let found = find_in_argv(argv);
    let mut secrets = Secrets::default();
    for (text, found) in argv.iter().zip(&found) {
        secrets.learn(text, found);
    }
    let marked: Vec<String> = argv
        .iter()
        .zip(found)
        .map(|(text, mut found)| {
            let mut out = String::new();
            secrets.add_learned(text, &mut found);
            secrets.mark(text, &found, &mut out, |plain, out| out.push_str(&String::from_utf8_lossy(plain)));
            out
        })
        .collect();
    marked.iter().map(|text| secrets.write(text)).collect()
}

fn any_argument() -> impl Strategy<Value = String> {
    let all: Vec<String> = all_commands()
        .into_iter()
        .flatten()
        .map(|text| plain(&text))
        .chain(HARMLESS.iter().map(|text| (*text).to_owned()))
        .collect();
    let one = prop::sample::select(all);
    let joined = prop::collection::vec(one.clone(), 1..4);
    let glue = prop::sample::select(vec![" ", ",", "'", "\"", "=", ":", "; ", "@", "/", "\n", "?", "&"]);
    prop_oneof![one, (joined, glue).prop_map(|(parts, glue)| parts.join(glue))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_was_redacted_has_nothing_left_to_redact(argv in prop::collection::vec(any_argument(), 1..6)) {
        let argv: Vec<Vec<u8>> = argv.into_iter().map(String::into_bytes).collect();
        let once = redacted(&argv);
        let again: Vec<Vec<u8>> = once.iter().map(|text| text.clone().into_bytes()).collect();
        prop_assert_eq!(redacted(&again), once);
    }

    #[test]
    fn one_secret_has_one_number_from_one_on(values in prop::collection::vec("[a-z]{8,9}[0-9]{2}", 1..6), picks in prop::collection::vec(any::<prop::sample::Index>(), 1..20)) {
        let mut argv = vec![b"x".to_vec()];
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut want = vec!["x".to_owned()];
        for pick in picks {
            let value = pick.get(&values);
            let next = numbers.len() + 1;
            let number = *numbers.entry(value).or_insert(next);
            argv.push(format!("--token={value}").into_bytes());
            want.push(format!("--token=${{REDACTED:{number}}}"));
        }
        prop_assert_eq!(redacted(&argv), want);
    }
}
