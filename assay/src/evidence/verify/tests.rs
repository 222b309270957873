use super::*;
use crate::evidence::{archive, bundle, samples};
use crate::profile::effect::{EffectResult, FsOp};

const VECTOR_MANIFEST: &[u8] = include_bytes!("../../../../tests/fixtures/bundles/independent.manifest.json");
const VECTOR_EVENTS: &[u8] = include_bytes!("../../../../tests/fixtures/bundles/independent.events.ndjson");

fn pack(manifest: &[u8], events: &[u8]) -> Vec<u8> {
    archive::write(Vec::new(), manifest, events.len() as u64, |out| out.write_all(events)).unwrap()
}

fn check(bundle: &[u8]) -> Result<Verified, Failure> {
    verify(bundle, Limits::FORMAT, |_, _| {})
}

#[test]
fn a_bundle_that_another_program_wrote_is_good() {
    let mut kinds = Vec::new();
    let verified = verify(&*pack(VECTOR_MANIFEST, VECTOR_EVENTS), Limits::FORMAT, |_, event| {
        kinds.push(event.kind().to_owned());
    })
    .unwrap();
    assert_eq!(verified.manifest.producer, "ours");
    assert!(!verified.archive.is_restamped);
    assert_eq!(
        kinds,
        [
            "assay.profile.started",
            "assay.sandbox.fs",
            "assay.sandbox.exec",
            "assay.net.connect",
            "assay.profile.finished"
        ]
    );
}

#[test]
fn our_own_manifest_has_the_bytes_of_the_independent_one() {
    let manifest = manifest::from_json(VECTOR_MANIFEST).unwrap();
    let facts = manifest::Facts {
        producer: &manifest.producer,
        producer_version: &manifest.producer_version,
        run_id: &manifest.run_id,
        event_count: manifest.event_count,
        run_root: manifest.run_root,
        events_sha256: manifest.events_sha256,
        events_bytes: manifest.events_bytes,
    };
    assert_eq!(manifest::to_json(&facts), VECTOR_MANIFEST);
}

#[test]
fn what_was_written_is_found_good_and_canonical() {
    let evidence = samples::evidence(samples::harmless(), Vec::new());
    let mut out = Vec::new();
    let written = bundle::write(&evidence, &samples::emission(), &mut out).unwrap();
    let mut lines = Vec::new();
    let verified = verify(&*out, Limits::FORMAT, |_, event| {
        lines.push((event.kind().to_owned(), event.subject().map(str::to_owned)));
    })
    .unwrap();
    assert_eq!(verified.manifest.run_root, written.run_root);
    assert_eq!(verified.manifest.run_id, written.run_id);
    assert_eq!(verified.manifest.event_count, 8);
    assert_eq!(verified.archive.sha256, Digest::of(&out));
    let subject = |text: &str| Some(text.to_owned());
    assert_eq!(
        lines,
        [
            ("assay.profile.started".to_owned(), None),
            ("assay.fs.access".to_owned(), subject("${WORKDIR}/Makefile")),
            ("assay.fs.access".to_owned(), subject("${WORKDIR}/out/a.o")),
            ("assay.fs.access".to_owned(), subject("${WORKDIR}/out/a.o")),
            ("assay.process.exec".to_owned(), subject("/usr/bin/make")),
            ("assay.net.connect".to_owned(), subject("127.0.0.1:8080")),
            ("assay.sandbox.summary".to_owned(), None),
            ("assay.profile.finished".to_owned(), None),
        ]
    );
    // gzip: no name, no time, packed the fastest way, an unknown system.
    assert_eq!(out[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255]);
}

#[test]
fn two_runs_with_one_run_id_have_one_run_root_and_with_a_source_date_the_same_bytes() {
    let one = samples::evidence(samples::harmless(), Vec::new());
    let mut other = one.clone();
    other.observed.duration_ms = 99;
    other.observed.started_at = "2027-01-01T00:00:00Z".into();
    for facts in other.observed.effects.values_mut() {
        facts.hits += 7;
    }
    let written = |evidence, emission: &_| {
        let mut out = Vec::new();
        (bundle::write(evidence, emission, &mut out).unwrap(), out)
    };
    let mut emission = samples::emission();
    let (first, first_bytes) = written(&one, &emission);
    let (second, second_bytes) = written(&other, &emission);
    assert_eq!(first, second);
    assert_ne!(first_bytes, second_bytes, "what varies is told when it may be");
    emission.is_reproducible = true;
    let (first, first_bytes) = written(&one, &emission);
    let (second, second_bytes) = written(&other, &emission);
    assert_eq!(first, second);
    assert_eq!(first_bytes, second_bytes);
}

#[test]
fn one_effect_or_program_digest_more_is_another_root() {
    let one = samples::evidence(samples::harmless(), Vec::new());
    let root = |evidence: &_| {
        let mut out = Vec::new();
        bundle::write(evidence, &samples::emission(), &mut out).unwrap().run_root
    };
    let mut more = samples::harmless();
    more.push(samples::fs(FsOp::Read, "/etc/hosts", None, EffectResult::Ok));
    assert_ne!(root(&samples::evidence(more, Vec::new())), root(&one));
    let mut other = one.clone();
    other.observed.programs.insert("/usr/bin/make".into(), Ok(Digest::of(b"another make")));
    assert_ne!(root(&other), root(&one));
}

/// Changes the events, and heals every hash that a forger could heal except those named by `expect`.
fn forged(edit: impl Fn(&mut Vec<Object>), is_rehashed: bool, expect: Code) {
    let mut events: Vec<Object> = VECTOR_EVENTS
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| read::parse(line).unwrap().as_object().unwrap().clone())
        .collect();
    edit(&mut events);
    let mut root = RunRoot::default();
    let mut bytes = Vec::new();
    for event in &mut events {
        if is_rehashed {
            event.set("assaycontenthash", samples::content_hash(event).to_string());
        }
        root.add(
            &event.str("assaycontenthash").and_then(|text| text.parse().ok()).unwrap_or(Digest::of(b"")),
        );
        bytes.extend_from_slice(write::to_string(&Value::Object(event.clone())).as_bytes());
        bytes.push(b'\n');
    }
    let manifest = manifest::to_json(&manifest::Facts {
        producer: "ours",
        producer_version: "0.1.0",
        run_id: "sandbox_0123456789abcdef",
        event_count: events.len() as u64,
        run_root: root.finish(),
        events_sha256: Digest::of(&bytes),
        events_bytes: bytes.len() as u64,
    });
    assert_eq!(check(&pack(&manifest, &bytes)).unwrap_err().code, expect);
}

#[test]
fn a_forger_who_heals_the_outer_hashes_is_still_found() {
    let set =
        |key: &'static str, value: Value| move |events: &mut Vec<Object>| events[1].set(key, value.clone());
    forged(set("subject", "/etc/shadow".into()), false, Code::ContentHash);
    forged(set("type", "assay.other".into()), false, Code::ContentHash);
    forged(set("data", Object::new().into()), false, Code::ContentHash);
    forged(set("subject", 1u16.into()), true, Code::Event);
    forged(set("assayrunid", "sandbox_fedcba9876543210".into()), true, Code::RunId);
    forged(set("assayseq", 2u16.into()), true, Code::Sequence);
    forged(set("assayseq", "1".into()), true, Code::Event);
    forged(set("id", "sandbox_0123456789abcdef:01".into()), true, Code::EventId);
    forged(set("specversion", "0.3".into()), true, Code::Event);
    forged(set("datacontenttype", "text/plain".into()), true, Code::Event);
    forged(set("time", "yesterday".into()), true, Code::Event);
    forged(set("assaypii", "no".into()), true, Code::Event);
    forged(
        |events| {
            events[1].remove("data");
        },
        true,
        Code::Event,
    );
    forged(|events| events.swap(1, 2), true, Code::Sequence);
    forged(
        |events| {
            events.remove(2);
        },
        true,
        Code::Sequence,
    );
}

#[test]
fn each_hash_and_number_of_the_manifest_counts() {
    let with = |from: &str, to: &str| {
        let text = String::from_utf8(VECTOR_MANIFEST.to_vec()).unwrap();
        assert!(text.contains(from), "{from}");
        check(&pack(text.replace(from, to).as_bytes(), VECTOR_EVENTS)).unwrap_err().code
    };
    assert_eq!(with("\"event_count\":5", "\"event_count\":4"), Code::EventCount);
    assert_eq!(with("\"event_count\":5", "\"event_count\":3000000"), Code::EventLimit);
    assert_eq!(with("\"bytes\":2428", "\"bytes\":2427"), Code::FileSize);
    assert_eq!(with("97870789", "97870780"), Code::FileHash);
    assert_eq!(with("7f2804be", "7f2804bf"), Code::RunRoot);
    assert_eq!(with("sandbox_0123456789abcdef", "sandbox_0123456789abcdee"), Code::RunId);
}

#[test]
fn only_the_canonical_text_of_a_value_is_a_member() {
    let manifest = String::from_utf8(VECTOR_MANIFEST.to_vec()).unwrap();
    let odd = [format!("{manifest}\n"), format!(" {manifest}"), manifest.replacen(',', ", ", 1)];
    for manifest in odd {
        let failure = check(&pack(manifest.as_bytes(), VECTOR_EVENTS)).unwrap_err();
        assert_eq!(failure.code, Code::NotCanonical, "{manifest:?}");
    }
    // The events' own digest made right again: a line that says the same is still another text.
    let events = String::from_utf8(VECTOR_EVENTS.to_vec()).unwrap();
    let odd = [
        events.replace('\n', "\r\n"),
        events.replacen(',', ", ", 1),
        events.replacen('{', "{ ", 1),
        events.replacen("\"type\"", "\"\\u0074ype\"", 1),
    ];
    for events in odd {
        assert_ne!(events.as_bytes(), VECTOR_EVENTS);
        let text = manifest
            .replace(&Digest::of(VECTOR_EVENTS).to_string(), &Digest::of(events.as_bytes()).to_string())
            .replace(&format!("\"bytes\":{}", VECTOR_EVENTS.len()), &format!("\"bytes\":{}", events.len()));
        let failure = check(&pack(text.as_bytes(), events.as_bytes())).unwrap_err();
        assert_eq!(failure.code, Code::NotCanonical, "{events:?}");
    }
    // Another compression of the same members is as good.
    let mut tar = Vec::new();
    flate2::read::GzDecoder::new(&*pack(VECTOR_MANIFEST, VECTOR_EVENTS)).read_to_end(&mut tar).unwrap();
    let mut again = flate2::GzBuilder::new().mtime(7).write(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut again, &tar).unwrap();
    assert!(check(&again.finish().unwrap()).is_ok());
}

#[test]
fn limits_hold_before_they_are_passed() {
    let bundle = pack(VECTOR_MANIFEST, VECTOR_EVENTS);
    let with = |limits: Limits| verify(&*bundle, limits, |_, _| {}).map_err(|failure| failure.code).err();
    let format = Limits::FORMAT;
    assert_eq!(with(Limits { archive_bytes: bundle.len() as u64, ..format }), None);
    assert_eq!(with(Limits { archive_bytes: bundle.len() as u64 - 1, ..format }), Some(Code::ArchiveLimit));
    assert_eq!(with(Limits { decoded_bytes: 512 * 11, ..format }), None);
    assert_eq!(with(Limits { decoded_bytes: 512 * 11 - 1, ..format }), Some(Code::DecodedLimit));
    assert_eq!(with(Limits { decoded_bytes: 1000, ..format }), Some(Code::DecodedLimit));
    let longest = VECTOR_EVENTS.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap();
    let longest = longest.max(VECTOR_MANIFEST.len());
    assert_eq!(with(Limits { line_bytes: longest, ..format }), None);
    assert_eq!(with(Limits { line_bytes: longest - 1, ..format }), Some(Code::LineLimit));
    assert_eq!(with(Limits { events: 5, ..format }), None);
    assert_eq!(with(Limits { events: 4, ..format }), Some(Code::EventLimit));
}

#[test]
fn what_long_lines_leave_behind_does_not_add_up() {
    const KEYS: usize = 200;
    let line = |long: usize| {
        let members = (0..KEYS).map(|n| {
            let text = if n == long { "x".repeat(100_000) } else { String::new() };
            (format!("k{n:03}"), Value::String(text))
        });
        write::to_string(&Object::from_members(members.collect()).unwrap().into())
    };
    let mut event = nothing();
    for n in 0..=KEYS {
        read_object(line(n).as_bytes(), &mut event).unwrap();
    }
    let kept = event.object.iter().map(|(_, value)| match value {
        Value::String(text) => text.capacity(),
        _ => 0,
    });
    assert!(kept.sum::<usize>() <= 200_000);
}
