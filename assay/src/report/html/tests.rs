use proptest::prelude::*;

use super::*;
use crate::canon::read;
use crate::canon::value::Value;
use crate::evidence::retold::{BundleFacts, Part};
use crate::evidence::{ProcessFacts, samples};
use crate::observe::loss::{Kind, LossLedger};
use crate::profile::effect::{EffectResult, FsOp};

fn report(evidence: &Evidence, basis: Basis<'_>) -> String {
    let mut out = Vec::new();
    write(&mut out, evidence, basis).unwrap();
    String::from_utf8(out).unwrap()
}

fn whole() -> Evidence {
    let mut evidence = samples::evidence(samples::harmless(), Vec::new());
    evidence.observed.endpoints = samples::endpoints();
    let process = |pid, ppid, began_us, ended_us| ProcessFacts {
        pid,
        ppid,
        programs: vec![vec!["make".into(), "test".into()]],
        status: Some(0),
        began_us: Some(began_us),
        ended_us: Some(ended_us),
    };
    evidence.observed.processes = vec![process(7, 0, 0, 2_000_000), process(8, 7, 500_000, 1_000_000)];
    evidence
}

fn has(text: &str, pieces: &[&str]) {
    for piece in pieces {
        assert!(text.contains(piece), "{piece}\n{text}");
    }
}

/// The data block, read as what it is.
fn data(text: &str) -> Value {
    let (_, rest) = text.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    let json: String = json.split('\n').collect();
    read::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{error}: {json}"))
}

#[test]
fn the_essentials_are_there_without_a_script() {
    let text = report(&whole(), Basis::Run);
    has(
        &text,
        &[
            "<h1 id=\"title\"><code>make test</code></h1>",
            "Nothing was denied and nothing was unauthorised.",
            "The record of it is complete.",
            "<h3>Network egress</h3>",
            "<h3>File writes</h3>",
            "<h3>Configuration protection</h3>",
            "<td>rename</td><td><code>${WORKDIR}/out/a.o</code></td><td><code>${WORKDIR}/out/b.o</code></td>",
            "<code>127.0.0.1:8080</code>",
            "<code>api.test</code>",
            "<rect x=\"250\" y=\"0\" width=\"250\" height=\"10\"></rect>",
            "<noscript>",
        ],
    );
    assert!(!text.contains(" class=\"finding"), "{text}");
}

#[test]
fn only_our_script_and_style_are_let_run_and_nothing_is_loaded() {
    let text = report(&whole(), Basis::Run);
    let hash = |of: &str| Base64::encode_string(&Sha256::digest(of.as_bytes()));
    let between = |from: &str, to: &str| text.split_once(from).unwrap().1.split_once(to).unwrap().0;
    let policy = between("http-equiv=\"Content-Security-Policy\" content=\"", "\"").replace("&#39;", "'");
    let (script, style) = (between("\n<script>", "</script>"), between("<style>", "</style>"));
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(policy.contains(&format!("script-src 'sha256-{}';", hash(script))), "{policy}");
    assert!(policy.contains(&format!("style-src 'sha256-{}';", hash(style))), "{policy}");
    assert!(policy.contains("require-trusted-types-for 'script'; trusted-types 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(script.contains("JSON.parse") && style.contains("color-scheme"));
    for word in
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "import("]
    {
        assert!(!script.contains(word), "{word}");
    }
    // The one address in it is the name of SVG, which nobody loads.
    let rest = text.replace("http://www.w3.org/2000/svg", "");
    for word in ["http://", "https://", " src=", "@import", "url(", " style=", " onclick"] {
        assert!(!rest.contains(word), "{word}");
    }
}

#[test]
fn all_effects_and_processes_are_in_the_data() {
    let evidence = whole();
    let value = data(&report(&evidence, Basis::Run));
    let data = value.as_object().unwrap();
    let list = |key: &str| data.get(key).and_then(Value::as_array).unwrap();
    assert_eq!(list("effects").len(), evidence.observed.effects.len());
    let text = format!("{:?}", list("effects"));
    has(&text, &["${WORKDIR}/Makefile", "127.0.0.1:8080", "/usr/bin/make"]);
    let ups: Vec<_> = list("processes")
        .iter()
        .map(|one| one.as_object().unwrap().get("up").and_then(Value::as_count))
        .collect();
    assert_eq!(ups, [None, Some(0)]);
}

#[test]
fn what_matters_is_said_in_words() {
    let effects = vec![
        samples::fs(FsOp::Write, "${HOME}/.bashrc", None, EffectResult::Denied),
        samples::fs(FsOp::Create, "/srv/x", None, EffectResult::Ok),
    ];
    let mut evidence = samples::evidence(effects, Vec::new());
    evidence.observed.verdict = "unauthorised".into();
    for (effect, facts) in &mut evidence.observed.effects {
        let is_denied = effect.result() == EffectResult::Denied;
        (facts.denied_by, facts.is_authorised) = (is_denied.then_some("policy"), Some(false));
    }
    evidence.coverage.ledger.admit(Kind::Fs, "io-uring", "3 times");
    let text = report(&evidence, Basis::Run);
    has(
        &text,
        &[
            "Something happened that the policy does not authorise.",
            "The record of it is not complete.",
            "denied by policy</span>",
            "not authorised</span>",
            "<code>io-uring</code> 3 times",
            "The record of this is partial: there may have been more.",
        ],
    );
    evidence.coverage.ledger = LossLedger::unobserved("no rights");
    let text = report(&evidence, Basis::Run);
    has(&text, &["Nothing of it was observed.", "This was not observed."]);
    assert!(!text.contains("The record of it is complete."));
}

#[test]
fn what_was_not_kept_is_told_in_words_by_what_it_was() {
    let of = |name: &str| crate::evidence::Degradation {
        component: crate::evidence::Component::Fs,
        reason: "deny-not-yet-existing".into(),
        detail: Some(name.into()),
    };
    let degradations = (0..20).map(|n| of(&format!("/a/<{n}>"))).collect();
    let text = report(&samples::evidence(samples::harmless(), degradations), Basis::Run);
    has(
        &text,
        &[
            "<p>fs: a denied name that does not exist yet and could be made:</p>",
            "<summary>12 more</summary>",
        ],
    );
    for n in 0..20 {
        has(&text, &[&format!("<li><code>/a/&lt;{n}&gt;</code></li>")]);
    }
}

#[test]
fn what_a_bundle_does_not_tell_is_not_shown_as_nothing() {
    let facts = BundleFacts {
        run_id: "sandbox_0123456789abcdef".into(),
        other_run_id: None,
        run_root: crate::canon::digest::Digest::of(b"root"),
        producer: ("assay".into(), "0.1.0".into()),
        event_count: 9,
        missing: [Part::Processes, Part::Traffic, Part::Hits, Part::Mode, Part::Duration].into(),
        unread: (0, Vec::new()),
    };
    let mut evidence = samples::evidence(samples::harmless(), Vec::new());
    evidence.observed.effects.values_mut().for_each(|facts| facts.hits = 0);
    let text = report(&evidence, Basis::Bundle(&facts));
    has(
        &text,
        &[
            "Report of a bundle",
            "What this bundle does not tell",
            "A bundle does not tell the process tree",
            "a bundle does not tell.",
            "mode not told",
            "Not told</p>",
            "<td class=\"number\">not told</td>",
            "The command exited with 0.",
        ],
    );
    for word in ["None was seen.", " ms.", ">Held"] {
        assert!(!text.contains(word), "{word}\n{text}");
    }
}

#[test]
fn a_run_larger_than_the_page_says_what_is_left_out() {
    let of = |n: usize| samples::fs(FsOp::Read, &format!("/a/{n}"), None, EffectResult::Ok);
    let mut effects: Vec<_> = (0..data::EFFECTS).map(of).collect();
    effects.push(samples::fs(FsOp::Write, "/z", None, EffectResult::Ok));
    let text = report(&samples::evidence(effects, Vec::new()), Basis::Run);
    has(&text, &["\n\"left_out\":1,\n", "left out first", "{\"k\":\"file\",\"o\":\"write\",\"n\":\"/z\""]);
}

proptest! {
    #[test]
    fn no_name_changes_the_markup_or_the_data(name in "[<>&\"'`/a-c!\\-\u{202e}\u{2028}\n\\\\]{0,40}", word: String) {
        let mut evidence = whole();
        let skeleton = |text: &str| -> Vec<String> {
            let outside = text.split_once("<body>").unwrap().1.split_once("<script").unwrap().0;
            outside.split('<').skip(1).map(|tag| tag.split('>').next().unwrap().to_owned()).collect()
        };
        let add = |evidence: &mut Evidence, name: &str| {
            let effects = vec![
                samples::fs(FsOp::Rename, name, Some(name), EffectResult::Ok),
                samples::connect(name, name, Some(1)),
                samples::exec(name),
            ];
            *evidence = Evidence { coverage: evidence.coverage.clone(), ..samples::evidence(effects, Vec::new()) };
            evidence.identity.command = vec![name.to_owned()];
            evidence.observed.host.insert("kernel".into(), name.to_owned());
            evidence.observed.processes = vec![ProcessFacts { pid: 7, programs: vec![vec![name.to_owned()]], ..ProcessFacts::default() }];
            evidence.coverage.ledger.admit(Kind::Net, "reason", name);
        };
        add(&mut evidence, "/plain");
        let plain = skeleton(&report(&evidence, Basis::Run));
        for name in [name, word] {
            let name = format!("/x{name}");
            let mut evidence = whole();
            add(&mut evidence, &name);
            let text = report(&evidence, Basis::Run);
            prop_assert_eq!(&skeleton(&text), &plain, "{}", name);
            let value = data(&text);
            let effects = value.as_object().unwrap().get("effects").unwrap().as_array().unwrap();
            let told: Vec<_> = effects.iter().map(|one| one.as_object().unwrap().str("n").unwrap()).collect();
            let harmless = harmless(&name);
            prop_assert!(told.iter().all(|told| told.starts_with(&*harmless) || told.contains(&*harmless)), "{:?} {:?}", told, harmless);
        }
    }
}
