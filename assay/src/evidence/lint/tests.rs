//! Each rule has a good and a bad example here; a rule without them fails.

use super::*;
use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::integrity::Limits;
use crate::evidence::samples::{self, connect, evidence, exec, fs, harmless, pack};
use crate::evidence::verify::verify;
use crate::evidence::{Component, Degradation, EffectFacts, Evidence};
use crate::observe::loss::{Kind, LossLedger};
use crate::profile::effect::EffectResult::{Denied, Ok as Done};
use crate::profile::effect::{Effect, FsOp, HostFrom, NetEffect, NetEffectOp, Port};
use crate::profile::effort::counting::check_growth;

fn lint_with(bundle: &[u8], settings: &Settings) -> Report {
    let mut linter = Linter::new(settings);
    let verified = verify(bundle, Limits::FORMAT, |manifest, event| linter.event(manifest, event)).unwrap();
    linter.finish(&verified)
}

fn lint(bundle: &[u8]) -> Report {
    lint_with(bundle, &Settings::default())
}

fn of(effects: Vec<Effect>) -> Vec<u8> {
    samples::bundle(&evidence(effects, Vec::new()))
}

/// The harmless effects and one more.
fn with(effect: Effect) -> Vec<u8> {
    let mut effects = harmless();
    effects.push(effect);
    of(effects)
}

fn read_of(path: &str) -> Effect {
    fs(FsOp::Read, path, None, Done)
}

fn write_of(path: &str) -> Effect {
    fs(FsOp::Write, path, None, Done)
}

fn degraded(component: Component, detail: Option<&str>) -> Vec<u8> {
    let degradation =
        Degradation { component, reason: "landlock-absent".into(), detail: detail.map(str::to_owned) };
    samples::bundle(&evidence(harmless(), vec![degradation]))
}

fn changed(edit: impl FnOnce(&mut Evidence)) -> Vec<u8> {
    let mut evidence = evidence(harmless(), Vec::new());
    edit(&mut evidence);
    samples::bundle(&evidence)
}

fn forged(edit: impl FnOnce(&mut Vec<Object>)) -> Vec<u8> {
    let mut objects = samples::objects(&evidence(harmless(), Vec::new()));
    edit(&mut objects);
    pack(objects)
}

fn ledger(edit: impl FnOnce(&mut LossLedger)) -> Vec<u8> {
    changed(|evidence| edit(&mut evidence.coverage.ledger))
}

fn named(host: &str, address: Option<&str>) -> Effect {
    Effect::net(NetEffect {
        op: NetEffectOp::Connect,
        proto: "tcp".into(),
        host: Some(host.into()),
        host_from: Some(HostFrom::Dns),
        address: address.map(crate::profile::name::Name::from_canonical),
        port: Some(Port::Number(443)),
        result: Done,
    })
}

fn with_manifest_key() -> Vec<u8> {
    let objects = samples::objects(&evidence(harmless(), Vec::new()));
    let lines: Vec<String> =
        objects.iter().map(|event| write::to_string(&Value::Object(event.clone())) + "\n").collect();
    let run_id = objects[0].str("assayrunid").unwrap().to_owned();
    samples::pack_lines(&run_id, &objects, &lines, |manifest| {
        let mut object = read::parse(&manifest).unwrap().as_object().unwrap().clone();
        object.set("note", "trust me");
        write::to_string(&object.into()).into_bytes()
    })
}

/// A connection to a host that was asked for this name.
fn asked(host: &str, name: &str) -> Vec<u8> {
    changed(|evidence| {
        let effect = named(host, None);
        let asked = [name.to_owned()].into();
        let facts = EffectFacts { hits: 1, asked, ..EffectFacts::default() };
        evidence.observed.effects.insert(effect.clone(), facts);
        evidence.identity.effects.push(effect);
    })
}

/// Those about names that stand for addresses, or beside them.
fn examples_of_names() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    vec![
        (
            "egress-plain-address",
            with(named("example.com", None)),
            with(named("only-claimed.example.com", Some("203.0.113.7"))),
        ),
        (
            "other-name-asked",
            asked("example.com", "example.com"),
            asked("example.com", "elsewhere.example.org"),
        ),
        (
            "cloud-metadata",
            with(named("example.com", None)),
            changed(|evidence| {
                let effect = named("rebound.example.com", None);
                let addresses = ["100.100.100.200".parse().unwrap()].into();
                evidence
                    .observed
                    .effects
                    .insert(effect.clone(), EffectFacts { hits: 1, addresses, ..EffectFacts::default() });
                evidence.identity.effects.push(effect);
            }),
        ),
    ]
}

/// Rule, a bundle it must not complain about though it is near, and one it must.
fn examples() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let fine = || of(harmless());
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
    let deletions = |count: usize| {
        of((0..count).map(|n| fs(FsOp::Delete, &format!("${{WORKDIR}}/old/{n}"), None, Done)).collect())
    };
    vec![
        ("containment-absent", degraded(Component::Fs, Some("/x")), degraded(Component::Fs, None)),
        ("containment-degraded", degraded(Component::Net, None), degraded(Component::Fs, Some("/x"))),
        ("not-contained", fine(), changed(|evidence| evidence.observed.mode = "dry-run".into())),
        ("coverage-none", fine(), ledger(|ledger| *ledger = LossLedger::unobserved("no rights"))),
        ("coverage-partial", fine(), ledger(|ledger| ledger.admit(Kind::Fs, "io-uring", "1 ring"))),
        (
            "coverage-unstated",
            fine(),
            forged(|events| {
                let summary =
                    events.iter_mut().find(|event| event.str("type") == Some("assay.sandbox.summary"));
                summary.unwrap().remove("assaycoveragenet");
            }),
        ),
        ("events-lost", fine(), ledger(|ledger| ledger.lost = [("open".into(), 3)].into())),
        ("record-incomplete", fine(), forged(|events| drop(events.pop()))),
        ("counts-differ", fine(), forged(|events| drop(events.remove(1)))),
        ("run-id-differs", fine(), forged(|events| drop(events.remove(1)))),
        (
            "protected-config-written",
            with(fs(FsOp::Create, "${WORKDIR}/.git/hooks/pre-commit.sample", None, Done)),
            with(fs(FsOp::Rename, "${WORKDIR}/x", Some("${WORKDIR}/.git/hooks/pre-commit"), Done)),
        ),
        (
            "git-config-written",
            with(read_of("${WORKDIR}/.git/config")),
            with(write_of("${WORKDIR}/.git/config")),
        ),
        (
            "credential-read",
            with(read_of("${HOME}/.ssh/known_hosts")),
            with(read_of("${HOME}/.ssh/id_ed25519")),
        ),
        ("secret-file-read", with(read_of("${WORKDIR}/environment")), with(read_of("${WORKDIR}/.env"))),
        ("exec-from-memory", fine(), with(exec("memfd:x"))),
        (
            "exec-of-written",
            with(exec("${WORKDIR}/out/other")),
            of(vec![fs(FsOp::Create, "${WORKDIR}/a.out", None, Done), exec("${WORKDIR}/a.out")]),
        ),
        ("exec-from-temp", fine(), with(exec("/tmp/x/y"))),
        ("exec-from-workdir", fine(), with(exec("${WORKDIR}/run.sh"))),
        ("set-id-program", with(exec("${WORKDIR}/sudo")), with(exec("/usr/bin/sudo"))),
        (
            "root-socket",
            with(connect("unix", "/run/nscd/socket", None)),
            with(connect("unix", "/var/run/docker.sock", None)),
        ),
        (
            "cloud-metadata",
            with(connect("tcp", "169.254.1.1", Some(80))),
            with(connect("tcp", "169.254.169.254", Some(80))),
        ),
        (
            "egress-plain-address",
            with(named("example.com", None)),
            with(connect("tcp", "203.0.113.7", Some(443))),
        ),
        ("many-deletions", deletions(99), deletions(100)),
        (
            "unauthorised",
            fine(),
            changed(|evidence| {
                let effect = evidence.identity.effects[0].clone();
                evidence.observed.effects.get_mut(&effect).unwrap().is_authorised = Some(false);
            }),
        ),
        ("denied", fine(), with(fs(FsOp::Read, "/srv/x", None, Denied))),
        (
            "secret-in-text",
            with(read_of("${WORKDIR}/ghp_short")),
            with(read_of(&format!("${{WORKDIR}}/{secret}"))),
        ),
        (
            "argv-unredacted",
            changed(|evidence| evidence.identity.command = vec!["x".into(), "--token=${REDACTED:1}".into()]),
            changed(|evidence| evidence.identity.command = vec!["x".into(), "--token=hunter2hunter2".into()]),
        ),
        ("marked-sensitive", fine(), forged(|events| events[2].set("assaypii", true))),
        ("clock-odd", fine(), forged(|events| events[2].set("time", "2026-01-01T00:00:00Z"))),
        ("order-odd", fine(), forged(|events| events.swap(1, 2))),
        ("unknown-event-type", fine(), forged(|events| events[2].set("type", "assay.other.thing"))),
        (
            "malformed-data",
            fine(),
            forged(|events| events[2].set("data", Object::from([("hits", Value::count(1))]))),
        ),
        ("unknown-manifest-key", fine(), with_manifest_key()),
    ]
}

#[test]
fn each_rule_complains_about_its_bad_example_and_not_about_its_good_one() {
    let examples = [examples(), examples_of_names()].concat();
    for (rule, good, bad) in &examples {
        let has = |report: &Report| report.findings.iter().any(|finding| finding.rule == *rule);
        assert!(!has(&lint(good)), "{rule} complains about its good example: {:?}", lint(good).findings);
        assert!(has(&lint(bad)), "{rule} misses its bad example: {:?}", lint(bad).findings);
    }
    for rule in RULES {
        // Packing again needs tar and gzip, which the tests of the archive have.
        let is_elsewhere = rule.id == "packed-again";
        assert!(
            is_elsewhere || examples.iter().any(|(id, ..)| *id == rule.id),
            "{} has no examples",
            rule.id
        );
    }
}

#[test]
fn rules_are_told_apart_and_explained() {
    for (at, rule) in RULES.iter().enumerate() {
        assert!(RULES[..at].iter().all(|other| other.id != rule.id), "{} twice", rule.id);
        assert!(rule.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", rule.id);
        for text in [rule.title, rule.why, rule.advice] {
            assert!(!text.is_empty() && !text.contains('\n'), "{}", rule.id);
        }
    }
}

#[test]
fn a_harmless_run_has_nothing_to_see() {
    assert_eq!(lint(&of(harmless())), Report::default());
}

#[test]
fn what_was_denied_is_milder_and_still_told() {
    let report = lint(&with(fs(FsOp::Read, "/etc/shadow", None, Denied)));
    let told: Vec<_> = report.findings.iter().map(|finding| (finding.rule, finding.level)).collect();
    assert_eq!(told, [("credential-read", Level::Warn), ("denied", Level::Info)]);
    assert_eq!(report.worst(), Some(Level::Warn));
}

#[test]
fn a_flood_of_findings_is_counted() {
    let effects = (0..500).map(|n| read_of(&format!("${{HOME}}/.ssh/key{n:03}"))).collect();
    let report = lint(&of(effects));
    assert_eq!(report.findings.len(), MOST_PER_RULE);
    assert_eq!(report.more, [("credential-read", Level::Error, 300)]);
    assert_eq!(report.worst(), Some(Level::Error));
}

#[test]
fn a_project_sets_levels_and_ignores_with_reasons() {
    let settings = settings::parse(
        "p.yaml",
        b"lint: {levels: {exec-from-workdir: error, denied: off}, \
         ignore: [{rule: credential-read, subject: '${HOME}/.npmrc', reason: it holds no token}]}",
    )
    .unwrap();
    let mut effects = harmless();
    effects.extend([
        read_of("${HOME}/.npmrc"),
        read_of("${HOME}/.netrc"),
        exec("${WORKDIR}/x"),
        fs(FsOp::Read, "/srv", None, Denied),
    ]);
    let report = lint_with(&of(effects), &settings);
    let told: Vec<_> = report.findings.iter().map(|finding| (finding.rule, &*finding.subject)).collect();
    assert_eq!(told, [("credential-read", "${HOME}/.netrc"), ("exec-from-workdir", "${WORKDIR}/x")]);
    assert_eq!(report.ignored.len(), 1);
    assert_eq!(report.ignored[0].1, "it holds no token");
}

#[test]
fn lines_made_to_keep_a_reader_busy_do_not() {
    let long = |piece: &str, len: usize| piece.repeat(len / piece.len());
    let settings =
        settings::parse("p.yaml", b"lint: {ignore: [{rule: clock-odd, subject: '*a*b*c', reason: x}]}")
            .unwrap();
    for piece in [
        "x/CLAUDE.md/",
        "CLAUDE.md/",
        ".git/",
        "../",
        "//",
        "a.kdbx/",
        "sk-",
        "sk-A",
        "eyJ-",
        "-----BEGIN ",
        "*",
    ] {
        check_growth(piece, |len| {
            let bundle = with(write_of(&long(piece, len)));
            lint(&bundle);
            lint_with(&bundle, &settings);
        });
    }
    for word in ["--token", "-p", "a=b", "sk-aaaa", "x", "--password=x"] {
        check_growth(word, |len| {
            lint(&changed(|evidence| {
                evidence.identity.command = vec![word.to_owned(); len / (word.len() + 3)];
            }));
            lint(&changed(|evidence| evidence.identity.command = vec!["curl".into(), long(word, len)]));
        });
    }
}
