//! The manifest of a bundle <-> its canonical JSON. Pure.

use crate::canon::digest::Digest;
use crate::canon::value::{Object, Value};
use crate::canon::{read, write};
use crate::evidence::integrity::{Code, Failure};
use crate::evidence::version::SchemaVersion;

/// The name of the first member.
pub const MANIFEST: &str = "manifest.json";
/// The name of the second member.
pub const EVENTS: &str = "events.ndjson";

/// What `algorithms` says.
pub const CANON: &str = "jcs-rfc8785";
/// What `algorithms` says.
pub const HASH: &str = "sha256";
/// What `algorithms` says.
pub const ROOT: &str = "sha256(concat(content_hash + \"\\n\"))";

/// What the manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The version of the format.
    pub version: SchemaVersion,
    /// The program that wrote the bundle.
    pub producer: String,
    /// Its version.
    pub producer_version: String,
    /// The run.
    pub run_id: String,
    /// How many events there are.
    pub event_count: u64,
    /// The run root, which is also the bundle's id.
    pub run_root: Digest,
    /// The digest of the events, byte for byte.
    pub events_sha256: Digest,
    /// Their length.
    pub events_bytes: u64,
    /// Keys that the format does not have, kept for lint.
    pub unknown_keys: Vec<String>,
    /// The whole of it as it was read.
    pub object: Object,
}

impl Manifest {
    /// How much it holds, in bytes of canonical JSON.
    pub fn weight(&self) -> usize {
        write::to_string(&Value::Object(self.object.clone())).len()
    }
}

/// The facts a new manifest is made from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The program that writes the bundle.
    pub producer: &'a str,
    /// Its version.
    pub producer_version: &'a str,
    /// The run.
    pub run_id: &'a str,
    /// How many events there are.
    pub event_count: u64,
    /// The run root.
    pub run_root: Digest,
    /// The digest of the events.
    pub events_sha256: Digest,
    /// Their length.
    pub events_bytes: u64,
}

/// The canonical bytes of a manifest, without a line feed.
pub fn to_json(facts: &Facts<'_>) -> Vec<u8> {
    let text = |text: &str| Value::from(text);
    let events = Object::from([
        ("bytes", Value::count(facts.events_bytes)),
        ("path", text(EVENTS)),
        ("sha256", facts.events_sha256.to_string().into()),
    ]);
    let object = Object::from([
        (
            "algorithms",
            Object::from([("canon", text(CANON)), ("hash", text(HASH)), ("root", text(ROOT))]).into(),
        ),
        ("bundle_id", facts.run_root.to_string().into()),
        ("event_count", Value::count(facts.event_count)),
        ("files", Object::from([(EVENTS, events.into())]).into()),
        (
            "producer",
            Object::from([("name", text(facts.producer)), ("version", text(facts.producer_version))]).into(),
        ),
        ("run_id", text(facts.run_id)),
        ("run_root", facts.run_root.to_string().into()),
        ("schema_version", SchemaVersion::WRITTEN.number().into()),
    ]);
    write::to_string(&object.into()).into_bytes()
}

/// Reads a manifest, or says what is wrong with it.
pub fn from_json(bytes: &[u8]) -> Result<Manifest, Failure> {
    let value = read::parse(bytes).map_err(|error| Failure::json(MANIFEST, &error))?;
    let Value::Object(object) = value else {
        return Err(Failure::new(Code::Manifest, "not an object"));
    };
    let version = count(&object, "schema_version")?;
    let version = SchemaVersion::of(version)
        .ok_or_else(|| Failure::new(Code::Version, format!("schema_version is {version}")))?;
    check_algorithms(member(&object, "algorithms")?)?;
    let producer = member(&object, "producer")?;
    let files = member(&object, "files")?;
    if files.len() != 1 {
        return Err(Failure::new(Code::Manifest, "files: not exactly events.ndjson"));
    }
    let events = member(files, EVENTS)?;
    if text(events, "path")? != EVENTS {
        return Err(Failure::new(Code::Manifest, "path: not events.ndjson"));
    }
    let run_id = text(&object, "run_id")?;
    if run_id.is_empty() {
        return Err(Failure::new(Code::Manifest, "run_id: empty"));
    }
    let run_root = digest(&object, "run_root")?;
    if digest(&object, "bundle_id")? != run_root {
        return Err(Failure::new(Code::BundleId, "bundle_id and run_root differ"));
    }
    Ok(Manifest {
        version,
        producer: text(producer, "name")?.to_owned(),
        producer_version: text(producer, "version")?.to_owned(),
        run_id: run_id.to_owned(),
        event_count: count(&object, "event_count")?,
        run_root,
        events_sha256: digest(events, "sha256")?,
        events_bytes: count(events, "bytes")?,
        unknown_keys: unknown_keys(&object, producer, events),
        object,
    })
}

fn check_algorithms(algorithms: &Object) -> Result<(), Failure> {
    for (key, expected) in [("canon", CANON), ("hash", HASH), ("root", ROOT)] {
        if text(algorithms, key)? != expected {
            return Err(Failure::new(Code::Algorithms, format!("algorithms.{key}: not {expected}")));
        }
    }
    Ok(())
}

fn unknown_keys(object: &Object, producer: &Object, events: &Object) -> Vec<String> {
    const KNOWN: [&str; 8] = [
        "algorithms",
        "bundle_id",
        "event_count",
        "files",
        "producer",
        "run_id",
        "run_root",
        "schema_version",
    ];
    let outer = object.iter().map(|(key, _)| key).filter(|key| !KNOWN.contains(key));
    let producer = producer.iter().map(|(key, _)| key).filter(|key| !["name", "version"].contains(key));
    let events = events.iter().map(|(key, _)| key).filter(|key| !["bytes", "path", "sha256"].contains(key));
    outer.chain(producer).chain(events).map(str::to_owned).collect()
}

fn wrong(key: &str, form: &str) -> Failure {
    Failure::new(Code::Manifest, format!("{key}: absent, or not {form}"))
}

fn member<'a>(object: &'a Object, key: &str) -> Result<&'a Object, Failure> {
    object.get(key).and_then(Value::as_object).ok_or_else(|| wrong(key, "an object"))
}

fn text<'a>(object: &'a Object, key: &str) -> Result<&'a str, Failure> {
    object.str(key).ok_or_else(|| wrong(key, "a string"))
}

fn count(object: &Object, key: &str) -> Result<u64, Failure> {
    match object.get(key) {
        Some(value @ Value::Integer(_)) => value.as_count().ok_or_else(|| wrong(key, "a count")),
        _ => Err(wrong(key, "a count")),
    }
}

fn digest(object: &Object, key: &str) -> Result<Digest, Failure> {
    text(object, key)?.parse().map_err(|_| wrong(key, "sha256: and 64 lower-case hex digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts<'static> {
        Facts {
            producer: "assay",
            producer_version: "0.1.0",
            run_id: "sandbox_0123456789abcdef",
            event_count: 5,
            run_root: Digest::of(b"root"),
            events_sha256: Digest::of(b"events"),
            events_bytes: 2428,
        }
    }

    fn check(from: &str, to: &str, expect: &str) {
        let text = String::from_utf8(to_json(&facts())).unwrap();
        assert!(text.contains(from), "{from}");
        assert_eq!(from_json(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string(), expect);
    }

    #[test]
    fn what_was_written_is_read_back() {
        let manifest = from_json(&to_json(&facts())).unwrap();
        assert_eq!(manifest.run_id, "sandbox_0123456789abcdef");
        assert_eq!(manifest.event_count, 5);
        assert_eq!(manifest.run_root, Digest::of(b"root"));
        assert_eq!(manifest.events_sha256, Digest::of(b"events"));
        assert_eq!(manifest.events_bytes, 2428);
        assert!(manifest.unknown_keys.is_empty());
    }

    #[test]
    fn each_part_is_demanded() {
        check("\"schema_version\":1", "\"schema_version\":2", "integrity/version: schema_version is 2");
        check(
            "\"schema_version\":1",
            "\"x\":1",
            "integrity/manifest: schema_version: absent, or not a count",
        );
        check("jcs-rfc8785", "none", "integrity/algorithms: algorithms.canon: not jcs-rfc8785");
        check(
            "\"bundle_id\":\"sha256:4",
            "\"bundle_id\":\"sha256:5",
            "integrity/bundle-id: bundle_id and run_root differ",
        );
        check(
            "\"path\":\"events.ndjson\"",
            "\"path\":\"../x\"",
            "integrity/manifest: path: not events.ndjson",
        );
        check(
            "\"event_count\":5",
            "\"event_count\":-5",
            "integrity/manifest: event_count: absent, or not a count",
        );
        check(
            "\"event_count\":5",
            "\"event_count\":\"5\"",
            "integrity/manifest: event_count: absent, or not a count",
        );
        check(
            "\"run_id\":\"sandbox_0123456789abcdef\"",
            "\"run_id\":\"\"",
            "integrity/manifest: run_id: empty",
        );
        check(
            "{\"algorithms\"",
            "[{\"algorithms\"",
            "integrity/json-syntax: manifest.json, byte 538: it ends too early",
        );
    }

    #[test]
    fn a_key_it_does_not_know_is_kept_for_lint() {
        let text = String::from_utf8(to_json(&facts()))
            .unwrap()
            .replace("{\"algorithms\"", "{\"x\":1,\"algorithms\"");
        assert_eq!(from_json(text.as_bytes()).unwrap().unknown_keys, ["x"]);
    }
}
