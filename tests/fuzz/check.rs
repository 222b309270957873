//! What must hold for any bytes: one function a target. `target.rs` gives one of them to libFuzzer; `tests/it/mutations.rs`
//! runs them all, on the corpus that fuzzing left and on changes of its own.

use std::collections::BTreeSet;
use std::io::Write as _;

use assay::canon::digest::Digest;
use assay::canon::value::Value;
use assay::canon::{read, write, yaml};
use assay::evidence::diff::{Outline, Picker, changes, lacking};
use assay::evidence::gate::{Gate, Terms};
use assay::evidence::integrity::Limits;
use assay::evidence::lint::Linter;
use assay::evidence::lint::settings::{self, Settings};
use assay::evidence::retold::Retelling;
use assay::evidence::statement::Draft;
use assay::evidence::verify::{Verified, verify};
use assay::evidence::{archive, dsse, wire};
use assay::observe::event::Packet;
use assay::observe::greeting::read_greeting;
use assay::observe::names::{NameTable, Read};
use assay::observe::quic::Hellos;
use assay::policy::load::{Context, NoFiles, load_bytes};
use assay::policy::{Request, judge, rule::Access};
use assay::profile::wire as profile_wire;
use assay::report;
use assay::report::basis::Basis;
use assay::report::show::Head;
use assay::report::text::Paint;
use assay::served::ask::Ask;
use assay::served::message::{self, ToClient, ToWorker};
use assay::served::wire::Frame;

const WHOLE: &str = "a Vec takes everything";

/// A target: its name, and what must hold.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("archive", |bytes| {
        archive(bytes);
    }),
    ("tar", tar),
    ("members", lines),
    ("forged", |bytes| {
        forged(bytes);
    }),
    ("json", json),
    ("yaml", yaml),
    ("policy", policy),
    ("settings", settings),
    ("envelope", envelope),
    ("answer", answer),
    ("greeting", greeting),
    ("quic", quic),
    ("line", line),
];

/// Any bytes as JSON: what is read is written and read again as the same; a text that is canonical is known as such; and
/// it is the same in the place of another value, here that of the first half of the bytes.
pub fn json(bytes: &[u8]) {
    let read = read::parse(bytes);
    let mut over = read::parse(&bytes[..bytes.len() / 2]).unwrap_or(Value::Null);
    let spelling = read::parse_over(&mut over, bytes, "data");
    assert_eq!(read.as_ref().err(), spelling.as_ref().err());
    if let (Ok(value), Ok(spelling)) = (read, spelling) {
        assert_eq!(over, value);
        assert_eq!(spelling.is_canonical, write::to_string(&value).as_bytes() == bytes);
        let text = write::to_string(&value);
        assert_eq!(read::parse(text.as_bytes()).as_ref(), Ok(&value));
        assert_eq!(read::parse(report::json::to_text(&value).as_bytes()), Ok(value));
    }
}

/// Any bytes as the first of a connection: what is read is a plain name, and a part of them gives no other.
pub fn greeting(bytes: &[u8]) {
    let Some(read) = read_greeting(bytes) else { return };
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    assert!(read.0.len() <= 253 && read.0.split('.').all(|label| !label.is_empty()), "{read:?}");
    assert!(read.0.bytes().all(is_plain), "{read:?}");
    for len in [bytes.len() / 2, bytes.len() - 1] {
        let part = read_greeting(&bytes[..len]);
        assert!(part.is_none() || part.as_ref() == Some(&read), "{part:?} {read:?}");
    }
}

/// Any bytes as what the two ends of a served run say: the header up to a line feed, then the body. What is read as a request
/// is packed and read again as the same, and names nothing that cannot be; of what both ends say likewise.
pub fn line(bytes: &[u8]) {
    let (header, body) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    let frame = |header: &[u8]| Frame { header: header.to_vec(), ..Frame::default() };
    if let Ok(said) = message::read::<ToClient>(&frame(header)) {
        let again = message::write(&said).expect("it is no larger");
        assert_eq!(message::read::<ToClient>(&frame(&again)).ok(), Some(said));
    }
    let Ok(said) = message::read::<ToWorker>(&frame(header)) else { return };
    let again = message::write(&said).expect("it is no larger");
    assert_eq!(message::read::<ToWorker>(&frame(&again)).ok().as_ref(), Some(&said));
    let ToWorker::Ask(header) = said else { return };
    let Ok(ask) = Ask::unpack(&header, body) else { return };
    assert!(!ask.command.is_empty());
    assert!(ask.command.iter().chain(&ask.environment).all(|name| !name.contains(&0)));
    assert!(ask.descriptors.iter().all(|number| *number >= 0));
    let (header, body) = ask.pack();
    assert_eq!(Ask::unpack(&header, &body).ok(), Some(ask));
}

/// Any bytes as a client's first datagram of QUIC, as what such a packet holds, and as a message in one piece or several, in
/// any order: what is read is a plain name, and the same in pieces as in one.
pub fn quic(bytes: &[u8]) {
    let remote = ([10, 0, 0, 1], 443).into();
    let frame = |at: usize, part: &[u8]| {
        let number = |number: usize| (0x8000_0000 | number as u32).to_be_bytes();
        [&[6][..], &number(at), &number(part.len()), part].concat()
    };
    let read = |frames: &[u8]| Hellos::default().read_frames(1, remote, b"id", frames);
    let in_one = read(&frame(0, bytes));
    for name in [Hellos::default().read(1, remote, bytes), read(bytes), in_one.clone()].into_iter().flatten()
    {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        assert!(name.len() <= 253 && name.split('.').all(|label| !label.is_empty()), "{name:?}");
        assert!(name.bytes().all(is_plain), "{name:?}");
    }
    let len = bytes.len() / 5 + 1;
    let mut hellos = Hellos::default();
    let mut in_pieces = BTreeSet::new();
    for (index, part) in bytes.chunks(len).enumerate().collect::<Vec<_>>().into_iter().rev() {
        in_pieces.extend(hellos.read_frames(1, remote, b"id", &frame(index * len, part)));
    }
    assert_eq!(in_pieces, in_one.into_iter().collect());
}

/// Any bytes as the answer of a name server: what is read is a plain name with a few addresses, and the same over TCP in
/// segments as over UDP.
pub fn answer(bytes: &[u8]) {
    let named =
        |read: Read| read.names.into_iter().map(|named| (named.host, named.address)).collect::<BTreeSet<_>>();
    let packet = |is_tcp, sequence, payload: &[u8]| Packet {
        remote: ([10, 0, 0, 53], 53).into(),
        is_out: false,
        cookie: 1,
        is_tcp,
        is_home: true,
        sequence,
        payload: payload.to_vec(),
        is_cut: false,
    };
    let told = named(NameTable::default().read(&packet(false, 0, bytes)));
    for (host, _) in &told {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.\\".contains(&byte);
        assert!(!host.is_empty() && host.len() <= 4 * 255 && host.bytes().all(is_plain), "{host:?}");
    }
    let hosts: BTreeSet<&String> = told.iter().map(|(host, _)| host).collect();
    assert!(hosts.len() <= 1 && told.len() <= bytes.len() / 10, "{told:?}");
    if let Ok(len) = u16::try_from(bytes.len()) {
        let framed = [&len.to_be_bytes()[..], bytes].concat();
        let (mut table, mut in_segments) = (NameTable::default(), BTreeSet::new());
        for (index, segment) in framed.chunks(framed.len() / 5 + 1).enumerate() {
            let at = index * (framed.len() / 5 + 1);
            in_segments.extend(named(table.read(&packet(true, (at as u32).wrapping_sub(9), segment))));
        }
        assert_eq!(in_segments, told);
    }
}

/// Any bytes as an archive: a verdict, never a panic; what is good can be told by every reader. True when it was good.
pub fn archive(bytes: &[u8]) -> bool {
    match verify(bytes, Limits::FORMAT, |_, _| {}) {
        Ok(verified) => {
            tell(bytes, &verified);
            true
        }
        Err(failure) => {
            assert!(is_harmless(&failure.to_string()), "{failure}");
            false
        }
    }
}

/// Any bytes as what a gzip stream that is whole holds.
pub fn tar(bytes: &[u8]) {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all(bytes).expect(WHOLE);
    archive(&gzip.finish().expect(WHOLE));
}

/// Any bytes as both members: the first line is the manifest.
pub fn lines(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    members(&bytes[..at], bytes.get(at + 1..).unwrap_or_default());
}

/// Any lines of JSON as what a careful forger says: numbers, hashes and manifest are made right, so that the readers
/// behind the verifier are reached. True when they were.
pub fn forged(bytes: &[u8]) -> bool {
    let events: Vec<Value> =
        bytes.split(|byte| *byte == b'\n').filter_map(|line| read::parse(line).ok()).collect();
    let (manifest, events) = healed(events);
    members(&manifest, &events)
}

/// Numbers, hashes and the manifest made right.
fn healed(events: Vec<Value>) -> (Vec<u8>, Vec<u8>) {
    const RUN: &str = "sandbox_0123456789abcdef";
    let (mut lines, mut roots, mut count) = (Vec::new(), Vec::new(), 0);
    for event in events {
        let Value::Object(mut event) = event else { continue };
        event.set("assayseq", Value::count(count));
        event.set("assayrunid", RUN);
        event.set("id", format!("{RUN}:{count}"));
        event.set("assayproducer", "assay");
        event.set("assayproducerversion", "0.1.0");
        let mut content = assay::canon::value::Object::new();
        for key in ["data", "datacontenttype", "specversion", "subject", "type"] {
            content.set_some(key, event.get(key).cloned());
        }
        let hash = Digest::of(write::to_string(&content.into()).as_bytes()).to_string();
        roots.extend_from_slice(format!("{hash}\n").as_bytes());
        event.set("assaycontenthash", hash);
        lines.extend_from_slice(write::to_string(&event.into()).as_bytes());
        lines.push(b'\n');
        count += 1;
    }
    let manifest = assay::evidence::manifest::to_json(&assay::evidence::manifest::Facts {
        producer: "assay",
        producer_version: "0.1.0",
        run_id: RUN,
        event_count: count,
        run_root: Digest::of(&roots),
        events_sha256: Digest::of(&lines),
        events_bytes: lines.len() as u64,
    });
    (manifest, lines)
}

/// Any bytes as the two members of an archive that is whole.
pub fn members(manifest: &[u8], events: &[u8]) -> bool {
    let bundle = archive::write(Vec::new(), manifest, events.len() as u64, |out| out.write_all(events));
    archive(&bundle.expect(WHOLE))
}

/// Any text as the YAML of an evidence profile, or of a profile: what is read is written and read again as the same.
pub fn yaml(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(value) = yaml::read(&text) {
        match yaml::read(&yaml::write(&[("root", &value)])) {
            Ok(again) => assert_eq!(again.as_object().and_then(|object| object.get("root")), Some(&value)),
            // The mapping that is written around it is one level more than is read.
            Err(error) => assert!(depth(&value) == yaml::MAX_DEPTH, "{error}"),
        }
    }
    if let Ok(evidence) = wire::read(&text) {
        let text = wire::write(&evidence, profile_wire::Format::Yaml);
        assert_eq!(wire::read(&text).as_ref().map(|again| &again.identity), Ok(&evidence.identity));
    }
    if let Err(error) = profile_wire::parse(&text) {
        assert!(!error.to_string().is_empty());
    }
}

/// How deep lists and mappings nest in it.
fn depth(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(elements) => elements.iter().map(depth).max(),
        Value::Object(object) => object.iter().map(|(_, member)| depth(member)).max(),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::String(_) => return 0,
    };
    1 + deepest.unwrap_or(0)
}

/// Any bytes as a policy: a policy or problems with their places; and what is valid can be judged by.
pub fn policy(bytes: &[u8]) {
    match load_bytes(b"fuzz.yaml", bytes, &Context::symbolic(), &NoFiles) {
        Ok(policy) => {
            judge(&policy, Request::File(Access::Write, b"/${WORKDIR}/a/b"));
            judge(&policy, Request::Move(b"/${WORKDIR}/a"));
            judge(&policy, Request::Exec(b"/usr/bin/true"));
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            assert!(problems.iter().all(|problem| problem.place.line > 0 && problem.place.column > 0));
        }
    }
}

/// Any bytes as an envelope.
pub fn envelope(bytes: &[u8]) {
    if let Ok(envelope) = dsse::from_json(bytes) {
        assert_eq!(dsse::from_json(dsse::to_json(&envelope).as_bytes()), Ok(envelope));
    }
}

/// Any text as a project's settings.
pub fn settings(bytes: &[u8]) {
    if let Err(problems) = settings::parse("p.yaml", bytes) {
        assert!(!problems.is_empty());
    }
}

/// Every reader on a good bundle; nothing they print for a person can act on a terminal.
fn tell(bytes: &[u8], verified: &Verified) {
    let settings = Settings::default();
    let (mut linter, mut gate, mut head) =
        (Linter::new(&settings), Gate::new(Terms::default()), Head::default());
    let (mut outline, mut draft, mut shown) = (Outline::default(), Draft::default(), Vec::new());
    let mut retelling = Retelling::new();
    verify(bytes, Limits::FORMAT, |manifest, event| {
        linter.event(manifest, event);
        gate.event(manifest, event);
        head.add(event);
        outline.add(event);
        draft.add(event);
        retelling.add(event);
        report::show::line(&mut shown, event, Paint::Plain).expect(WHOLE);
    })
    .expect("it was good before");
    let findings = linter.finish(verified);
    let mut picker = Picker::of_second();
    verify(bytes, Limits::FORMAT, |_, event| picker.add(event)).expect("it was good before");
    let mut nothing = Outline::default();
    lacking(&mut nothing, &mut outline);
    let different = changes(&nothing, &outline, Vec::new(), picker.finish());
    let manifest = &verified.manifest;
    head.write(&mut shown, verified, Paint::Plain).expect(WHOLE);
    report::text::lint(&mut shown, &findings, verified, Paint::Plain).expect(WHOLE);
    report::diff::text(&mut shown, &different, manifest, manifest, Paint::Plain).expect(WHOLE);
    report::diff::markdown(&mut shown, &different, manifest, manifest).expect(WHOLE);
    report::diff::json(&mut shown, &different, manifest, manifest).expect(WHOLE);
    report::gate::text(&mut shown, &gate.finish(), verified, Paint::Plain).expect(WHOLE);
    for value in [report::json::lint(&findings, verified), report::sarif::lint(&findings, "bundle", "0")] {
        shown.extend_from_slice(report::json::to_text(&value).as_bytes());
    }
    if let Ok((evidence, facts)) = retelling.finish(verified) {
        let basis = Basis::Bundle(&facts);
        report::plain::write(&mut shown, &evidence, basis, Paint::Plain).expect(WHOLE);
        report::markdown::write(&mut shown, &evidence, basis).expect(WHOLE);
        let mut page = Vec::new();
        report::html::write(&mut page, &evidence, basis).expect(WHOLE);
        assert_page(&String::from_utf8(page).expect("text is UTF-8"));
    }
    read::parse(&draft.finish(verified, "bundle")).expect("a statement is strict JSON");
    let shown = String::from_utf8(shown).expect("text is UTF-8");
    assert!(is_harmless(&shown), "{}", shown.escape_debug());
}

/// What a page is made of is ours: two scripts, no other element that loads or runs anything, and data that is JSON.
fn assert_page(page: &str) {
    assert!(is_harmless(page), "{}", page.escape_debug());
    let (before, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").expect("data");
    let (data, after) = rest.split_once("</script>").expect("its end");
    read::parse(data.as_bytes()).expect("data is JSON");
    for word in ["<script", "<img", "<iframe", "<style", "javascript:\"", "<!--"] {
        let ours = usize::from(word == "<style");
        let (_, body) = before.split_once("<style>").expect("our style");
        assert_eq!(body.matches(word).count() + ours, ours, "{word}: {before}");
    }
    assert_eq!(after.matches("<script>").count(), 1);
}

fn is_harmless(text: &str) -> bool {
    !text.contains(|c: char| {
        (c.is_control() && c != '\n') || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}
