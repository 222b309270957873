//! Damaged bundles by the ten thousand, each with what was done to it and the codes that are right for that. Ours must
//! refuse every one of them with such a code; `independent.rs` asks a second verifier about the same ones.

mod archive;
mod content;

use std::io::Write as _;

use assay::canon::digest::Digest;
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};

const MANIFEST: &[u8] = include_bytes!("../fixtures/bundles/independent.manifest.json");
const EVENTS: &[u8] = include_bytes!("../fixtures/bundles/independent.events.ndjson");

/// Codes without `integrity/`; none means any.
type Codes = &'static [&'static str];

/// One of them.
pub struct Damaged {
    /// What was done.
    pub what: String,
    /// The bytes.
    pub bundle: Vec<u8>,
    /// The codes, without `integrity/`, of which one must be given.
    pub codes: Codes,
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// One member with its filling; `edit` may do anything to its header before the sum is taken.
pub fn member(name: &[u8], bytes: &[u8], edit: impl FnOnce(&mut [u8; 512])) -> Vec<u8> {
    let mut header = [0; 512];
    header[..name.len().min(100)].copy_from_slice(&name[..name.len().min(100)]);
    header[100..108].copy_from_slice(b"0000644\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", bytes.len()).as_bytes());
    header[136..148].copy_from_slice(b"00000000000\0");
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    edit(&mut header);
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut out = header.to_vec();
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

fn plain(name: &str, bytes: &[u8]) -> Vec<u8> {
    member(name.as_bytes(), bytes, |_| {})
}

pub fn tar(members: &[Vec<u8>]) -> Vec<u8> {
    let mut out = members.concat();
    out.resize(out.len() + 1024, 0);
    out
}

pub fn pack(manifest: &[u8], events: &[u8]) -> Vec<u8> {
    gzip(&tar(&[plain("manifest.json", manifest), plain("events.ndjson", events)]))
}

fn digest(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

/// A bundle of these lines whose manifest is right about them: what is wrong inside is left to be found.
pub fn sealed(lines: &[Vec<u8>]) -> Vec<u8> {
    let bytes: Vec<u8> = lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect();
    let mut roots = String::new();
    for line in lines {
        // As a forger finds it: the text between the quotes.
        let text = String::from_utf8_lossy(line).into_owned();
        let hash = text.split("\"assaycontenthash\":\"").nth(1).and_then(|rest| rest.get(..71)).unwrap_or("");
        roots.push_str(hash);
        roots.push('\n');
    }
    let mut manifest: Value = serde_json::from_slice(MANIFEST).unwrap();
    manifest["event_count"] = json!(lines.len());
    manifest["run_root"] = json!(digest(roots.as_bytes()));
    manifest["bundle_id"] = json!(digest(roots.as_bytes()));
    manifest["files"]["events.ndjson"]["bytes"] = json!(bytes.len());
    manifest["files"]["events.ndjson"]["sha256"] = json!(digest(&bytes));
    pack(&serde_json_canonicalizer::to_vec(&manifest).unwrap(), &bytes)
}

pub fn lines() -> Vec<Vec<u8>> {
    EVENTS.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

fn of_line(at: usize, line: Vec<u8>) -> Vec<u8> {
    let mut lines = lines();
    lines[at] = line;
    sealed(&lines)
}

/// Feeds each to `visit`.
pub fn all(visit: &mut dyn FnMut(Damaged)) {
    let mut put = |what: String, bundle: Vec<u8>, codes: Codes| {
        visit(Damaged { what, bundle, codes });
    };
    archive::flipped(&mut put);
    archive::cut(&mut put);
    archive::members(&mut put);
    archive::sizes(&mut put);
    archive::extended(&mut put);
    archive::streams(&mut put);
    archive::bombs(&mut put);
    content::tokens(&mut put);
    content::texts(&mut put);
    content::attributes(&mut put);
    content::order(&mut put);
    content::manifests(&mut put);
}

type Put<'a> = dyn FnMut(String, Vec<u8>, Codes) + 'a;

const ANY: &[&str] = &[];
const OF_TAR: &[&str] = &["tar"];
const OF_MANIFEST: &[&str] = &[
    "json-bom",
    "json-encoding",
    "json-syntax",
    "json-duplicate-key",
    "json-surrogate",
    "json-float",
    "json-integer",
    "json-depth",
    "version",
    "manifest",
    "algorithms",
    "bundle-id",
    "run-id",
    "producer",
    "event-count",
    "file-size",
    "file-hash",
    "run-root",
    "event-limit",
    "not-canonical",
];
const OF_EVENTS: &[&str] = &[
    "json-bom",
    "json-encoding",
    "json-syntax",
    "json-duplicate-key",
    "json-surrogate",
    "json-float",
    "json-integer",
    "json-depth",
    "event",
    "producer",
    "run-id",
    "sequence",
    "event-id",
    "content-hash",
    "not-canonical",
    "file-hash",
    "line-end",
];

fn replaced(text: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1).into_bytes()
}

/// Ours on each: refused, with a right code.
#[test]
fn every_damaged_bundle_is_refused_with_the_right_code() {
    use assay::evidence::integrity::Limits;
    use assay::evidence::verify::verify;
    let (mut count, mut wrong, mut taken) = (0, Vec::new(), Vec::new());
    all(&mut |damaged| {
        count += 1;
        match verify(&*damaged.bundle, Limits::FORMAT, |_, _| {}) {
            Ok(_) => taken.push(damaged.what),
            Err(failure) => {
                let code = failure.code.as_str().trim_start_matches("integrity/");
                if !(damaged.codes.is_empty() || damaged.codes.contains(&code)) {
                    wrong.push(format!("{}: {code}, not {:?}", damaged.what, damaged.codes));
                }
            }
        }
    });
    assert!(
        taken.is_empty() && wrong.is_empty(),
        "taken for good: {taken:#?}\nwith another code: {wrong:#?}"
    );
    assert!(count > 10_000, "{count}");
}

/// Runs each command of a list, and says how it ended, its peak memory in KiB, and what it wrote to both streams.
const WATCH: &str = "\
import json, os, sys, tempfile
told = []
for words in json.load(sys.stdin):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        streams = [(os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_DUP2, err.fileno(), 2)]
        child = os.posix_spawn(words[0], words, os.environ, file_actions=streams)
        _, status, used = os.wait4(child, 0)
        out.seek(0)
        err.seek(0)
        told.append([os.waitstatus_to_exitcode(status), used.ru_maxrss, out.read().decode(), err.read().decode()])
json.dump(told, sys.stdout)
";

/// Some of each class, before every reader: exit 2, the code on stderr, nothing of the bundle told, little memory.
#[test]
fn no_reader_believes_a_damaged_bundle_or_takes_much_memory_for_it() {
    use std::collections::BTreeMap;
    use std::process::{Command, Stdio};

    let dir = crate::sample::Dir::new();
    dir.put("good", pack(MANIFEST, EVENTS));
    dir.put("p.yaml", "api_version: assay/v1\n");
    let mut picked: BTreeMap<Codes, usize> = BTreeMap::new();
    let mut names = Vec::new();
    all(&mut |damaged| {
        let seen = picked.entry(damaged.codes).or_default();
        *seen += 1;
        let is_large =
            damaged.bundle.len() > 100_000 || damaged.what.contains("2 MiB") || damaged.what.contains("000");
        if *seen <= 1 || (is_large && names.len() < 40) {
            let path = dir.put(&format!("{}.tar.gz", names.len()), &damaged.bundle);
            names.push((damaged.what, path.to_str().unwrap().to_owned()));
        }
    });
    assert!(picked.len() > 20 && names.len() > 30, "{} classes, {} bundles", picked.len(), names.len());
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (good, policy) = (file("good"), file("p.yaml"));
    let mut asked = Vec::new();
    for (what, bundle) in &names {
        for words in [
            vec!["verify", bundle],
            vec!["lint", "--no-config", bundle],
            vec!["lint", "--no-config", bundle, "--format", "sarif"],
            vec!["show", bundle],
            vec!["show", bundle, "--format", "json"],
            vec!["export", bundle, "--format", "jsonl"],
            vec!["gate", bundle, "--policy", &policy],
            vec!["gate", &good, "--baseline", bundle],
            vec!["diff", &good, bundle],
            vec!["diff", bundle, &good, "--format", "json"],
            vec!["attest", bundle, "--unsigned"],
            vec!["report", bundle],
            vec!["report", bundle, "--format", "html"],
        ] {
            let under = if words[0] == "report" { "report" } else { "evidence" };
            let words: Vec<String> = [env!("CARGO_BIN_EXE_assay"), under]
                .into_iter()
                .chain(words.into_iter().skip_while(|word| *word == "report"))
                .map(str::to_owned)
                .collect();
            asked.push((what, words));
        }
    }
    let list: Vec<&Vec<String>> = asked.iter().map(|(_, words)| words).collect();
    let mut python = Command::new("python3")
        .args(["-c", WATCH])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    python.stdin.take().unwrap().write_all(&serde_json::to_vec(&list).unwrap()).unwrap();
    let told: Vec<(i32, u64, String, String)> =
        serde_json::from_slice(&python.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(told.len(), asked.len());
    for ((what, words), (status, kib, stdout, stderr)) in asked.iter().zip(told) {
        let place = format!("{what}: {:?}: {stdout}{stderr}", &words[2..]);
        assert_eq!(status, 2, "{place}");
        assert!(stderr.contains("integrity/") && stderr.lines().count() < 5, "{place}");
        assert!(stdout.is_empty() || (words[2] == "verify" && stdout.starts_with("not good: ")), "{place}");
        assert!(kib < 64 << 10, "{kib} KiB: {place}");
    }
}
