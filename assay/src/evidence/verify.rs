//! Reads a bundle and believes nothing: every check of the format, in one pass.
//!
//! Each event is handed on as soon as it was checked by itself; what was handed on counts only when the whole is
//! found good. Every other reader here (lint, diff, show, gate, attest) goes through [`verify`].

use std::io::Read;

use crate::canon::digest::Digest;
use crate::canon::value::{Object, Value};
use crate::canon::{read, write};
use crate::evidence::archive::{ArchiveFacts, ArchiveReader};
use crate::evidence::events::{CONTENT_TYPE, RunRoot, SPEC_VERSION, content};
use crate::evidence::integrity::{Code, Failure, Limits, shown};
use crate::evidence::manifest::{self, EVENTS, MANIFEST, Manifest};
use crate::evidence::timestamp::Timestamp;

/// A bundle that was found good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Its manifest.
    pub manifest: Manifest,
    /// What the archive as such was like.
    pub archive: ArchiveFacts,
}

/// One event that was found good by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its place, from 0.
    pub sequence: u64,
    /// The whole of it.
    pub object: Object,
    /// The hash of its content.
    pub content_hash: Digest,
}

impl Event {
    /// Its type.
    pub fn kind(&self) -> &str {
        self.object.str("type").unwrap_or_default()
    }

    /// Its subject.
    pub fn subject(&self) -> Option<&str> {
        self.object.str("subject")
    }

    /// Its data, when that is an object.
    pub fn data(&self) -> Option<&Object> {
        self.object.get("data").and_then(Value::as_object)
    }
}

/// Checks the bundle that `input` holds, handing each event to `visit`.
pub fn verify(
    input: impl Read,
    limits: Limits,
    mut visit: impl FnMut(&Manifest, &Event),
) -> Result<Verified, Failure> {
    let mut archive = ArchiveReader::new(input, limits);
    let bytes = archive.read_manifest()?;
    let manifest = manifest::from_json(&bytes)?;
    let is_manifest_canonical = write::to_string(&Value::Object(manifest.object.clone())).as_bytes() == bytes;
    if manifest.event_count > limits.events {
        return Err(Failure::new(Code::EventLimit, format!("{MANIFEST} says {}", manifest.event_count)));
    }
    let mut root = RunRoot::default();
    let mut line = Vec::new();
    let mut sequence = 0;
    while archive.read_line(&mut line)? {
        if sequence == limits.events {
            return Err(Failure::new(Code::EventLimit, format!("more than {sequence} lines")));
        }
        let event = event(&line, sequence, &manifest)?;
        // It was found to be the content's.
        root.add(event.object.str("assaycontenthash").unwrap_or_default());
        visit(&manifest, &event);
        sequence += 1;
    }
    let facts = archive.finish()?;
    if sequence != manifest.event_count {
        let detail = format!("{MANIFEST} says {}, there are {sequence}", manifest.event_count);
        return Err(Failure::new(Code::EventCount, detail));
    }
    if facts.events_bytes != manifest.events_bytes {
        let detail =
            format!("{MANIFEST} says {} bytes, there are {}", manifest.events_bytes, facts.events_bytes);
        return Err(Failure::new(Code::FileSize, detail));
    }
    if facts.events_sha256 != manifest.events_sha256 {
        return Err(Failure::new(Code::FileHash, format!("{EVENTS} has {}", facts.events_sha256)));
    }
    let root = root.finish();
    if root != manifest.run_root {
        return Err(Failure::new(Code::RunRoot, format!("the events give {root}")));
    }
    // Last, so that a text that is wrong in what it says is told for that.
    if !is_manifest_canonical {
        return Err(Failure::new(Code::NotCanonical, MANIFEST));
    }
    Ok(Verified { manifest, archive: facts })
}

/// Reads a bundle again that was verified before: hands on the events that `is_wanted` by their place, without checking
/// them once more. What was handed on counts only when the digest that comes back is the one of the first reading.
pub fn reread(
    input: impl Read,
    limits: Limits,
    mut is_wanted: impl FnMut(u64) -> bool,
    mut visit: impl FnMut(&Event),
) -> Result<Digest, Failure> {
    let mut archive = ArchiveReader::new(input, limits);
    archive.read_manifest()?;
    let mut line = Vec::new();
    let mut sequence = 0;
    while archive.read_line(&mut line)? {
        if is_wanted(sequence) {
            let place = || format!("{EVENTS} line {}", sequence + 1);
            let value = read::parse(&line).map_err(|error| Failure::json(&place(), &error))?;
            let Value::Object(object) = value else {
                return Err(Failure::new(Code::Event, format!("{}: not an object", place())));
            };
            let content_hash = object.str("assaycontenthash").and_then(|text| text.parse().ok());
            let content_hash = content_hash.unwrap_or_else(|| Digest::from_raw([0; 32]));
            visit(&Event { sequence, object, content_hash });
        }
        sequence += 1;
    }
    Ok(archive.finish()?.sha256)
}

fn event(line: &[u8], sequence: u64, manifest: &Manifest) -> Result<Event, Failure> {
    let place = || format!("{EVENTS} line {}", sequence + 1);
    let wrong = |code, what: String| Failure::new(code, format!("{}: {what}", place()));
    let value = read::parse(line).map_err(|error| Failure::json(&place(), &error))?;
    let is_canonical = write::to_string(&value).as_bytes() == line;
    let Value::Object(object) = value else {
        return Err(wrong(Code::Event, "not an object".into()));
    };
    let lacks = |key: &str, form: &str| wrong(Code::Event, format!("{key}: absent, or not {form}"));
    let text = |key: &str| object.str(key).ok_or_else(|| lacks(key, "a string"));

    let spec_version = text("specversion")?;
    if spec_version != SPEC_VERSION {
        return Err(wrong(Code::Event, format!("specversion is `{}`", shown(spec_version.as_bytes()))));
    }
    let kind = text("type")?;
    let content_type = text("datacontenttype")?;
    if content_type != CONTENT_TYPE {
        return Err(wrong(Code::Event, format!("datacontenttype is `{}`", shown(content_type.as_bytes()))));
    }
    if kind.is_empty() || text("source")?.is_empty() {
        return Err(wrong(Code::Event, "type or source is empty".into()));
    }
    if Timestamp::parse(text("time")?).is_none() {
        return Err(lacks("time", "RFC 3339 in UTC"));
    }
    text("assaygit")?;
    for (key, expected) in
        [("assayproducer", &manifest.producer), ("assayproducerversion", &manifest.producer_version)]
    {
        let found = text(key)?;
        if found != expected {
            return Err(wrong(Code::Producer, format!("{key} is `{}`", shown(found.as_bytes()))));
        }
    }
    for key in ["assaypii", "assaysecrets"] {
        object.get(key).and_then(Value::as_bool).ok_or_else(|| lacks(key, "true or false"))?;
    }
    let subject = match object.get("subject") {
        None => None,
        Some(Value::String(subject)) => Some(subject.as_str()),
        Some(_) => return Err(lacks("subject", "a string")),
    };
    let data = object.get("data").ok_or_else(|| lacks("data", "there"))?;

    let run_id = text("assayrunid")?;
    if run_id != manifest.run_id {
        return Err(wrong(Code::RunId, format!("`{}`", shown(run_id.as_bytes()))));
    }
    match object.get("assayseq") {
        Some(Value::Integer(found)) if u64::try_from(found.value()) == Ok(sequence) => {}
        Some(Value::Integer(found)) => {
            return Err(wrong(Code::Sequence, format!("{} in the place of {sequence}", found.value())));
        }
        _ => return Err(lacks("assayseq", "an integer")),
    }
    let id = text("id")?;
    if id.strip_prefix(run_id).and_then(|rest| rest.strip_prefix(':')) != Some(sequence.to_string().as_str())
    {
        return Err(wrong(Code::EventId, format!("`{}`", shown(id.as_bytes()))));
    }
    let content = content(&write::to_string(data), content_type, spec_version, subject, kind);
    let content_hash = Digest::of(content.as_bytes());
    if text("assaycontenthash")?.parse() != Ok(content_hash) {
        return Err(wrong(Code::ContentHash, format!("the content gives {content_hash}")));
    }
    if !is_canonical {
        return Err(wrong(Code::NotCanonical, "the same value has another text in RFC 8785".into()));
    }
    Ok(Event { sequence, object, content_hash })
}

#[cfg(test)]
mod tests;
