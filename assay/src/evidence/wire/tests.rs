use proptest::prelude::*;

use super::*;
use crate::evidence::{Actor, Component, Degradation, Identity, Outcome, Refusal, samples};
use crate::profile::effect::{EffectResult, FsOp};
use crate::profile::name::Name;

fn full() -> Evidence {
    let degradation = Degradation {
        component: Component::Fs,
        reason: "landlock-absent".into(),
        detail: Some("~/.ssh".into()),
    };
    let mut effects = samples::harmless();
    effects.sort();
    let mut evidence = samples::evidence(effects, vec![degradation]);
    evidence.observed.folded =
        vec![Fold { rule: "pid".into(), from: "/tmp/x.7".into(), to: Name::from_canonical("/tmp/x.${PID}") }];
    evidence.observed.programs.insert("/gone".into(), Err("it is no longer there".into()));
    evidence.observed.processes = vec![
        ProcessFacts {
            pid: 7,
            ppid: 0,
            programs: vec![vec!["a".into(), "- b: #c".into()], vec![]],
            status: Some(256),
            began_us: Some(0),
            ended_us: Some(1500),
        },
        ProcessFacts { pid: 8, ppid: 7, programs: vec![], status: None, ..ProcessFacts::default() },
    ];
    evidence.observed.counters =
        BTreeMap::from([("observations".into(), u64::MAX), ("failed.ENOENT".into(), 3)]);
    evidence.observed.endpoints = samples::endpoints();
    evidence.observed.not_governed = vec!["attr".into()];
    evidence.observed.env_removed = vec!["GITHUB_TOKEN".into()];
    evidence.observed.roots = BTreeMap::from([("HOME".into(), "/home/u".into())]);
    let ledger = &mut evidence.coverage.ledger;
    ledger.lost.insert("open".into(), 3);
    ledger.undecoded.insert("short".into(), 1);
    ledger.admit(Kind::Net, "io-uring", "2 times");
    evidence
}

#[test]
fn both_texts_come_back_whole() {
    let evidence = full();
    for format in [Format::Yaml, Format::Json] {
        let text = write(&evidence, format);
        assert_eq!(read(&text).unwrap_or_else(|error| panic!("{error}\n{text}")), evidence);
        assert_eq!(write(&read(&text).unwrap(), format), text);
    }
    let unobserved =
        Evidence { coverage: Coverage { ledger: LossLedger::unobserved("no rights") }, ..full() };
    assert_eq!(read(&write(&unobserved, Format::Yaml)).unwrap(), unobserved);
}

#[test]
fn the_yaml_reads_as_the_contract_shows_it() {
    let text = write(&full(), Format::Yaml);
    let head: Vec<&str> = text.lines().take(4).collect();
    assert_eq!(head[0], "schema: assay.evidence-profile/v1");
    assert!(head[1].starts_with("run_id: sandbox_"), "{text}");
    assert!(head[2].starts_with("digest: \"sha256:"), "{text}");
    assert_eq!(head[3], "identity:");
    for line in [
        "  canonicalizer: assay-canon/1",
        "  command: [make, test]",
        "  outcome: {exit_code: 0}",
        "      - {path: /usr/bin/make, result: ok}",
        "      - {op: read, path: \"${WORKDIR}/Makefile\", result: ok}",
        "  fs: partial",
    ] {
        assert!(text.lines().any(|there| there == line), "{line}\n{text}");
    }
}

#[test]
fn what_does_not_fit_is_refused_by_its_place() {
    let text = write(&full(), Format::Yaml);
    let check = |from: &str, to: &str, want: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let error = read(&changed).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    };
    check("assay.evidence-profile/v1", "assay.evidence-profile/v2", "schema");
    check("op: create", "op: craete", "effects.fs[1].op");
    check("exit_code: 0", "exit_code: 1", "digest");
    check("run_id: sandbox_", "run_id: sandbox_0", "run_id");
    check("  fs: partial", "  fs: complete", "coverage.fs");
    check("mode: default", "mode: default\n  extra: 1", "observed.extra");
    check("duration_ms: 1234", "duration_ms: x", "observed.duration_ms");
    check("mode: default", "", "observed.mode");
}

proptest! {
    #[test]
    fn hostile_names_come_back(path in prop::collection::vec(any::<u8>(), 1..60), word: String) {
        let name = Name::from_bytes(&path);
        let effect = samples::fs(FsOp::Read, name.as_str(), Some(&word), EffectResult::Denied);
        let mut evidence = samples::evidence(vec![effect], Vec::new());
        evidence.identity = Identity { command: vec![word.clone(), name.to_string()], outcome: Outcome::Signal("SIGKILL".into()), ..evidence.identity };
        for facts in evidence.observed.effects.values_mut() {
            facts.by = Some(Actor { pid: 7, program: Some(name.to_string()), comm: word.clone() }.into());
            facts.refused =
                Some(Refusal { rule: Some(word.clone()), at: Some(name.to_string()), remedy: word.clone() }.into());
        }
        evidence.observed.programs.insert(word.clone(), Err(word.clone()));
        evidence.observed.roots.insert(word.clone(), name.to_string());
        for format in [Format::Yaml, Format::Json] {
            let text = write(&evidence, format);
            prop_assert_eq!(read(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?, evidence.clone());
        }
    }
}
