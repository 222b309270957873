//! The checks of the fuzz targets on a stable compiler: seeds, and what becomes of them by a great many small changes,
//! some of which heal every hash so that they reach the readers behind the verifier.
//!
//! A second for each target, or `ASSAY_FUZZ_SECONDS`; and every input that `cargo xtask fuzz` left in `tests/fixtures/fuzz`.

use std::time::{Duration, Instant};

use assay::canon::digest::Digest;
use serde_json::{Value, json};

use crate::sample::{evidence, harmless, of};

#[path = "../fuzz/check.rs"]
mod check;
#[path = "../fuzz/corpus.rs"]
mod corpus;

const MANIFEST: &[u8] = include_bytes!("../fixtures/bundles/independent.manifest.json");
const EVENTS: &[u8] = include_bytes!("../fixtures/bundles/independent.events.ndjson");

/// Pieces that have meant something to some reader.
const PIECES: &[&str] = &[
    "\"",
    "\\",
    "\\u",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "true",
    "-0",
    "1.5",
    "1e9",
    "9007199254740992",
    "\u{feff}",
    "\u{1b}[31m",
    "\u{202e}",
    "\u{9b}",
    "\0",
    "\n",
    "\r\n",
    "../",
    "//",
    "/",
    "${WORKDIR}",
    "${HOME}/.ssh/id_rsa",
    "sha256:",
    "assay.fs.access",
    "assay.sandbox.summary",
    "\"data\":{}",
    "\"a\":1,\"a\":1",
    "lint:",
    "- {",
    "&a [*a]",
    "`",
    "``` ",
    "|",
    "<script>",
    "](x)",
    "\u{e9}",
    "\u{1f980}",
];

/// Numbers that look thrown; a failure tells the seed it began with.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % sides.max(1)
    }

    fn piece(&mut self) -> &'static str {
        PIECES[self.throw(PIECES.len())]
    }
}

fn mutated(dice: &mut Dice, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=dice.throw(4) {
        let (at, to) = (dice.throw(bytes.len() + 1), dice.throw(bytes.len() + 1));
        let (from, end) = (at.min(to), at.max(to));
        match dice.throw(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.throw(8),
            1 => drop(bytes.splice(at..at, dice.piece().bytes())),
            2 => drop(bytes.drain(from..end.min(from + 40))),
            3 => {
                let copy = bytes[from..end.min(from + 200)].to_vec();
                drop(bytes.splice(at..at, copy));
            }
            4 => bytes.truncate(at),
            5 if at < bytes.len() => bytes[at] = u8::try_from(dice.throw(256)).unwrap(),
            _ => drop(bytes.splice(from..end.min(from + 3), dice.piece().bytes())),
        }
    }
    bytes
}

/// Runs `check` on changed seeds until its time is over.
fn until_over(seeds: &[Vec<u8>], mut check: impl FnMut(&mut Dice, &[u8])) -> u64 {
    let seconds = std::env::var("ASSAY_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let start = Instant::now();
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|text| text.parse().ok());
    let first = 0x2545_f491_4f6c_dd1d ^ seed.unwrap_or_else(|| u64::from(std::process::id()));
    // Shown when the test fails.
    println!("the dice begin with {first:#x}");
    let mut dice = Dice(first);
    let mut runs = 0;
    while start.elapsed() < Duration::from_secs(seconds) {
        let seed = &seeds[dice.throw(seeds.len())];
        check(&mut dice, seed);
        runs += 1;
    }
    println!("{runs} inputs");
    assert!(runs > 10, "hardly anything was tried");
    runs
}

fn lines() -> Vec<Vec<u8>> {
    EVENTS.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

#[test]
fn what_fuzzing_left_does_no_harm() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/fuzz");
    for (target, check) in check::TARGETS {
        let inputs = corpus::read(&folder, target).unwrap();
        assert!(!inputs.is_empty(), "{target}: nothing was kept");
        for input in inputs {
            println!("{target}: {}", input.escape_ascii());
            check(&input);
        }
    }
}

#[test]
fn any_text_as_yaml_or_a_policy() {
    let profile =
        assay::evidence::wire::write(&evidence(harmless(), Vec::new()), assay::profile::wire::Format::Yaml);
    let policy = b"api_version: assay/v1\nfs:\n  allow:\n    - {path: '~/x', access: [read]}\nnet: {allow: ['[::1]:*']}\n";
    until_over(&[profile.into_bytes(), policy.to_vec()], |dice, seed| {
        let bytes = mutated(dice, seed);
        check::yaml(&bytes);
        check::policy(&bytes);
    });
}

#[test]
fn any_bytes_as_json() {
    let mut seeds = lines();
    seeds.push(MANIFEST.to_vec());
    seeds.push(br#"{"\u20ac":[null,-1,"\ud83d\ude00\\\"\/\b"],"a":{"a":{}}}"#.to_vec());
    until_over(&seeds, |dice, seed| check::json(&mutated(dice, seed)));
}

#[test]
fn any_bytes_as_an_archive() {
    let seeds = [of(harmless()), of(Vec::new())];
    until_over(&seeds, |dice, seed| {
        check::archive(&mutated(dice, seed));
    });
}

#[test]
fn any_bytes_as_the_members_of_an_archive() {
    until_over(&[EVENTS.to_vec()], |dice, seed| {
        if dice.throw(2) == 0 {
            check::members(&mutated(dice, MANIFEST), seed);
        } else {
            check::members(MANIFEST, &mutated(dice, seed));
        }
    });
}

#[test]
fn any_bytes_as_an_envelope() {
    let seed = br#"{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"keyid":"x","sig":"-_8="}]}"#;
    until_over(&[seed.to_vec()], |dice, seed| check::envelope(&mutated(dice, seed)));
}

#[test]
fn any_bytes_as_an_answer_of_a_name_server() {
    // An address through another name, and one of the other family.
    let mut seed = b"\0\x07\x81\x80\0\x01\0\x03\0\0\0\0\x01a\x04test\0\0\x01\0\x01".to_vec();
    seed.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01b\xc0\x0e");
    seed.extend(b"\xc0\x24\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x01");
    seed.extend(b"\xc0\x24\0\x1c\0\x01\0\0\0\x3c\0\x10\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09");
    assert!(assay::observe::dns::read_answer(&seed).is_ok_and(|answer| answer.addresses.len() == 2));
    until_over(&[seed], |dice, seed| check::answer(&mutated(dice, seed)));
}

#[test]
fn any_bytes_as_a_client_greets() {
    let seeds = [
        b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".to_vec(),
        b"\x16\x03\x01\0\x40\x01\0\0\x3c\x03\x03................................\0\0\x02\x13\x01\x01\0\0\x11\0\0\0\x0d\0\x0b\0\0\x08name.test"
            .to_vec(),
    ];
    assert!(seeds.iter().all(|seed| assay::observe::greeting::read_greeting(seed).is_some()));
    until_over(&seeds, |dice, seed| check::greeting(&mutated(dice, seed)));
}

#[test]
fn any_bytes_as_a_client_of_quic_begins() {
    // Packets, what they hold, and the message in that.
    let mut seeds: Vec<Vec<u8>> = include_str!("../fixtures/quic.hex")
        .lines()
        .map(|line| {
            let digits = line.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
        })
        .collect();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/fuzz");
    let frames = corpus::read(&folder, "quic").unwrap().swap_remove(0);
    seeds.push(frames[4..].to_vec());
    seeds.push(frames);
    until_over(&seeds, |dice, seed| check::quic(&mutated(dice, seed)));
}

#[test]
fn any_bytes_as_what_the_ends_of_a_served_run_say() {
    let ask = r#"{"kind":"ask","command":[2,1],"environment":[3],"descriptors":[0,7],"inherited":{"ignored":0,"blocked":1,"closed":0},
        "mode":"dry-run","is_fail_closed":false,"allows_unobserved":true,"scrubbing":{"is_strict":true,"strips_exec":false,
        "has_safe_path":false,"allow":[2]},"workdir":2,"timeout_ms":5,"descendants":"kill","format":"json","is_report_html":true,
        "wants_profile":true,"epoch":1,"streams":[["trace",1]],"policy":1,"policy_files":[{"path":1,"content":2,"is_readable":false}]}"#
        .replace(['\n', ' '], "");
    let over = r#"{"kind":"over","ending":{"child":{"exited":3},"not_started":null,"failures":[],"unwritten":[],"losses":["x"],"is_fail_closed":false,
        "is_dry_run":false,"unauthorised":0,"denied":1},"tally":null,"degradations":[{"component":"fs","reason":"r","detail":"d"}],
        "artifacts":["bundle"],"streamed":[["trace","sha256:0"]],"kept":[3,"sha256:0"]}"#
        .replace(['\n', ' '], "");
    let seeds = [
        format!("{ask}\nshxA=bX_/wtppno").into_bytes(),
        over.into_bytes(),
        br#"{"kind":"ended","end":{"signalled":9}}"#.to_vec(),
    ];
    for seed in &seeds {
        check::line(seed);
    }
    let (header, body) = seeds[0].split_at(seeds[0].iter().position(|byte| *byte == b'\n').unwrap());
    let frame = assay::served::wire::Frame { header: header.to_vec(), ..Default::default() };
    let said = assay::served::message::read::<assay::served::message::ToWorker>(&frame).unwrap();
    let assay::served::message::ToWorker::Ask(header) = said else { panic!("{said:?}") };
    assert!(assay::served::ask::Ask::unpack(&header, &body[1..]).is_ok());
    until_over(&seeds, |dice, seed| check::line(&mutated(dice, seed)));
}

#[test]
fn any_bytes_as_settings() {
    let seed = "api_version: assay/v1\nlint:\n  levels: {denied: warn}\n  ignore:\n    - {rule: denied, subject: 'x*', reason: y}\n";
    until_over(&[seed.as_bytes().to_vec()], |dice, seed| check::settings(&mutated(dice, seed)));
}

/// Changes one value somewhere inside.
fn change(dice: &mut Dice, value: &mut Value) {
    match value {
        Value::Object(object) if !object.is_empty() && dice.throw(4) > 0 => {
            let at = dice.throw(object.len());
            let key = object.keys().nth(at).unwrap().clone();
            match dice.throw(8) {
                0 => drop(object.remove(&key)),
                1 => drop(object.insert(dice.piece().to_owned(), json!(dice.piece()))),
                _ => change(dice, object.get_mut(&key).unwrap()),
            }
        }
        Value::Array(list) if !list.is_empty() && dice.throw(3) > 0 => {
            let at = dice.throw(list.len());
            change(dice, &mut list[at]);
        }
        Value::String(text) if dice.throw(3) > 0 => {
            let at = (0..=text.len())
                .filter(|at| text.is_char_boundary(*at))
                .nth(dice.throw(text.chars().count() + 1));
            text.insert_str(at.unwrap(), dice.piece());
        }
        value => {
            *value = match dice.throw(6) {
                0 => json!(null),
                1 => json!(dice.throw(1000)),
                2 => json!([dice.piece()]),
                3 => json!({ dice.piece(): dice.piece() }),
                4 => json!(dice.throw(2) == 0),
                _ => json!(dice.piece()),
            };
        }
    }
}

fn canonical(value: &Value) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).unwrap()
}

fn digest(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

/// Numbers, hashes and the manifest made right again, by another canonicaliser than ours.
fn healed(mut events: Vec<Value>) -> (Vec<u8>, Vec<u8>) {
    let (mut bytes, mut roots) = (Vec::new(), Vec::new());
    for (at, event) in events.iter_mut().enumerate() {
        let Some(event) = event.as_object_mut() else { continue };
        event.insert("assayseq".into(), json!(at));
        event.insert("assayrunid".into(), json!("sandbox_0123456789abcdef"));
        event.insert("id".into(), json!(format!("sandbox_0123456789abcdef:{at}")));
        let kept = ["data", "datacontenttype", "specversion", "subject", "type"];
        let content: serde_json::Map<String, Value> =
            kept.iter().filter_map(|key| Some(((*key).to_owned(), event.get(*key)?.clone()))).collect();
        let hash = digest(&canonical(&Value::Object(content)));
        roots.extend_from_slice(hash.as_bytes());
        roots.push(b'\n');
        event.insert("assaycontenthash".into(), json!(hash));
        bytes.extend_from_slice(&canonical(&Value::Object(event.clone())));
        bytes.push(b'\n');
    }
    let mut manifest: Value = serde_json::from_slice(MANIFEST).unwrap();
    manifest["event_count"] = json!(roots.len() / 72);
    manifest["run_root"] = json!(digest(&roots));
    manifest["bundle_id"] = json!(digest(&roots));
    manifest["files"]["events.ndjson"] =
        json!({"path": "events.ndjson", "bytes": bytes.len(), "sha256": digest(&bytes)});
    manifest["producer"] = json!({"name": "assay", "version": "0.1.0"});
    (canonical(&manifest), bytes)
}

#[test]
fn what_a_careful_forger_writes_is_told_by_every_reader_without_harm() {
    let mut events: Vec<Value> = Vec::new();
    let bundle = of(harmless());
    assay::evidence::verify::verify(&*bundle, assay::evidence::integrity::Limits::FORMAT, |_, event| {
        let text = assay::canon::write::to_string(&assay::canon::value::Value::Object(event.object.clone()));
        events.push(serde_json::from_str(&text).unwrap());
    })
    .unwrap();
    let mut good = 0u64;
    let runs = until_over(&[Vec::new()], |dice, _| {
        let mut changed = events.clone();
        for _ in 0..=dice.throw(4) {
            let at = dice.throw(changed.len());
            match dice.throw(10) {
                0 => drop(changed.remove(at)),
                1 => changed.insert(at, changed[at].clone()),
                2 => {
                    let to = dice.throw(changed.len());
                    changed.swap(at, to);
                }
                _ => change(dice, &mut changed[at]),
            }
            if changed.is_empty() {
                return;
            }
        }
        let (manifest, events) = healed(changed);
        good += u64::from(check::members(&manifest, &events));
    });
    assert!(good * 4 > runs, "{good} of {runs} passed the verifier: the readers behind it were hardly tried");
}
