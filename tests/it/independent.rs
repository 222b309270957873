//! A verifier that was written from `docs/formats/bundle.md` alone, in another language, against ours: on good bundles,
//! and on damaged ones by the hundred, both say the same.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use assay::evidence::integrity::Limits;
use assay::evidence::verify::verify;

use crate::damaged::{self, gzip, pack};
use crate::sample::{exec, harmless, of};

const MANIFEST: &[u8] = include_bytes!("../fixtures/bundles/independent.manifest.json");
const EVENTS: &[u8] = include_bytes!("../fixtures/bundles/independent.events.ndjson");

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let members: Vec<Vec<u8>> =
        members.iter().map(|(name, bytes)| damaged::member(name.as_bytes(), bytes, |_| {})).collect();
    damaged::tar(&members)
}

fn with(text: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1).into_bytes()
}

/// Numbers that look thrown and are the same each time.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % sides
    }
}

fn samples() -> Vec<Vec<u8>> {
    let mut more = harmless();
    more.push(exec("/tmp/\\x1b[2J\u{f6}\u{1f980}\"\\\\"));
    let mut bundles = vec![
        pack(MANIFEST, EVENTS),
        of(harmless()),
        of(more),
        of(Vec::new()),
        pack(MANIFEST, b""),
        pack(b"", EVENTS),
        gzip(&tar(&[("events.ndjson", EVENTS), ("manifest.json", MANIFEST)])),
        gzip(&tar(&[("manifest.json", MANIFEST)])),
        gzip(&tar(&[("manifest.json", MANIFEST), ("events.ndjson", EVENTS), ("x", b"x")])),
        gzip(&tar(&[("manifest.json", MANIFEST), ("a/events.ndjson", EVENTS)])),
        gzip(b""),
        Vec::new(),
        [pack(MANIFEST, EVENTS), gzip(b"")].concat(),
        [pack(MANIFEST, EVENTS), b"x".to_vec()].concat(),
        pack(&with(MANIFEST, ":1}", ": 1 }\n"), EVENTS),
        pack(&with(MANIFEST, "\"event_count\":5", "\"event_count\":5,\"event_count\":5"), EVENTS),
        pack(&with(MANIFEST, "\"event_count\":5", "\"event_count\":5.0"), EVENTS),
        pack(&with(MANIFEST, "\"event_count\":5", "\"event_count\":9007199254740992"), EVENTS),
        pack(&with(MANIFEST, "\"event_count\":5", "\"event_count\":true"), EVENTS),
        pack(&with(MANIFEST, "\"event_count\":5", "\"event_count\":3000000"), EVENTS),
        pack(&with(MANIFEST, "\"schema_version\":1", "\"schema_version\":2"), EVENTS),
        pack(&with(MANIFEST, "\"ours\"", "\"ou\\ud800\""), EVENTS),
        pack(&with(MANIFEST, "\"ours\"", "\"theirs\""), EVENTS),
        pack(&[b"\xef\xbb\xbf", MANIFEST].concat(), EVENTS),
    ];
    for (from, to) in [
        ("\"assaysecrets\":false,\"assayseq\":1", "\"assaysecrets\":0,\"assayseq\":1"),
        ("\"assayseq\":1", "\"assayseq\":7"),
        ("\"assayseq\":1", "\"assayseq\":\"1\""),
        ("abcdef:1\"", "abcdef:2\""),
        ("f67bc35f", "f67bc35e"),
        ("/tmp/x", "/tmp/y"),
        ("2026-01-02T03:04:05Z", "2026-02-30T03:04:05Z"),
        ("\"specversion\":\"1.0\"", "\"specversion\":\"1.1\""),
        ("\"source\":\"urn:ours:sandbox\",", ""),
        ("\n", "\r\n"),
        ("\n", "\n\n"),
    ] {
        bundles.push(pack(MANIFEST, &with(EVENTS, from, to)));
    }
    for depth in [62, 63, 64, 65] {
        let deep = format!("\"data\":{}{},\"x\":{{", "[".repeat(depth), "]".repeat(depth));
        bundles.push(pack(MANIFEST, &with(EVENTS, "\"data\":{", &deep)));
    }
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (whole, packed) =
        (tar(&[("manifest.json", MANIFEST), ("events.ndjson", EVENTS)]), pack(MANIFEST, EVENTS));
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..=dice.throw(3) {
            let at = dice.throw(bytes.len());
            bytes[at] = u8::try_from(dice.throw(256)).unwrap();
        }
        bundles.push(gzip(&bytes));
        bundles.push(gzip(&whole[..dice.throw(whole.len())]));
        let mut bytes = packed.clone();
        let at = dice.throw(bytes.len());
        bytes[at] ^= 1 << dice.throw(8);
        bundles.push(bytes);
        bundles.push(packed[..dice.throw(packed.len())].to_vec());
    }
    bundles
}

#[test]
fn a_verifier_written_from_the_page_says_what_ours_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut python = Command::new("python3")
        .arg(root.join("tests/it/bundle_verifier.py"))
        .arg("--many")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let mut stdin = python.stdin.take().unwrap();
    let reading = std::thread::spawn(move || python.wait_with_output().unwrap());
    let mut ours = Vec::new();
    let mut ask = |what: String, bundle: &[u8]| {
        stdin.write_all(&(bundle.len() as u64).to_be_bytes()).unwrap();
        stdin.write_all(bundle).unwrap();
        let verdict = verify(bundle, Limits::FORMAT, |_, _| {}).map_err(|failure| failure.code.as_str());
        ours.push((what, verdict.map_or_else(|code| code, |_| "good")));
    };
    for (at, bundle) in samples().iter().enumerate() {
        ask(format!("sample {at}"), bundle);
    }
    damaged::all(&mut |damaged| ask(damaged.what, &damaged.bundle));
    drop(stdin);
    let text = String::from_utf8(reading.join().unwrap().stdout).unwrap();
    let theirs: Vec<&str> = text.lines().map(|line| line.split('\t').nth(1).unwrap()).collect();
    assert_eq!(theirs.len(), ours.len());
    let pairs: Vec<(&str, &str, &str)> =
        ours.iter().zip(&theirs).map(|((what, ours), theirs)| (what.as_str(), *ours, *theirs)).collect();
    let disagree: Vec<_> =
        pairs.iter().filter(|(_, ours, theirs)| (*ours == "good") != (*theirs == "good")).collect();
    assert!(disagree.is_empty(), "{disagree:#?}");
    assert!(pairs.iter().filter(|(_, ours, _)| *ours == "good").count() >= 4);
    // A verifier that reads the archive whole sees its end before its content; and a byte that is not UTF-8 may be
    // met after another fault. That is all that may differ, and only there.
    let is_explained = |ours: &str, theirs: &str| {
        let is_about_archive = |code: &str| {
            matches!(code, "integrity/gzip" | "integrity/tar" | "integrity/trailing" | "integrity/line-end")
        };
        is_about_archive(theirs) || is_about_archive(ours) || theirs == "integrity/json-encoding"
    };
    let unexplained: Vec<_> =
        pairs.iter().filter(|(_, ours, theirs)| ours != theirs && !is_explained(ours, theirs)).collect();
    assert!(unexplained.is_empty(), "{unexplained:#?}");
}
