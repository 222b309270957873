//! Reads a bundle and believes nothing: every check of the format, in one pass.
//!
//! Each event is handed on as soon as it was checked by itself; what was handed on counts only when the whole is
//! found good. Every other reader here (lint, diff, show, gate, attest) goes through [`verify`].

use std::io::Read;
use std::ops::ControlFlow;

use crate::canon::digest::Digest;
use crate::canon::value::{Object, Value};
use crate::canon::{read, write};
use crate::evidence::archive::{ArchiveFacts, ArchiveReader};
use crate::evidence::events::{CONTENT_TYPE, Content, RunRoot, SPEC_VERSION};
use crate::evidence::halves::Half;
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
    /// What the hash is of.
    content: Content,
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

    /// Half of its content hash.
    pub fn half_hash(&self) -> Half {
        Half::of(&self.content_hash)
    }

    /// Its data, when that is an object.
    pub fn data(&self) -> Option<&Object> {
        self.object.get("data").and_then(Value::as_object)
    }

    /// The canonical JSON of its data.
    pub fn data_json(&self) -> &str {
        self.content.data()
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
    let (mut line, mut event) = (Vec::new(), nothing());
    let mut sequence = 0;
    while archive.read_line(&mut line)? {
        if sequence == limits.events {
            return Err(Failure::new(Code::EventLimit, format!("more than {sequence} lines")));
        }
        event.sequence = sequence;
        read_event(&line, &manifest, &mut event)?;
        root.add(&event.content_hash);
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
/// them once more. What was handed on counts only when the digest that comes back is the one of the first reading; there
/// is none when `visit` had enough before the end.
pub fn reread(
    input: impl Read,
    limits: Limits,
    mut is_wanted: impl FnMut(u64) -> bool,
    mut visit: impl FnMut(&Event) -> ControlFlow<()>,
) -> Result<Option<Digest>, Failure> {
    let mut archive = ArchiveReader::new(input, limits);
    archive.read_manifest()?;
    let (mut line, mut event) = (Vec::new(), nothing());
    let mut sequence = 0;
    while archive.read_line(&mut line)? {
        if is_wanted(sequence) {
            event.sequence = sequence;
            read_object(&line, &mut event)?;
            let content_hash = event.object.str("assaycontenthash").and_then(|text| text.parse().ok());
            event.content_hash = content_hash.unwrap_or_else(|| Digest::from_raw([0; 32]));
            if visit(&event).is_break() {
                return Ok(None);
            }
        }
        sequence += 1;
    }
    Ok(Some(archive.finish()?.sha256))
}

/// An event in whose place others are read.
fn nothing() -> Event {
    Event {
        sequence: 0,
        object: Object::new(),
        content_hash: Digest::from_raw([0; 32]),
        content: Content::default(),
    }
}

fn place(event: &Event) -> String {
    format!("{EVENTS} line {}", event.sequence + 1)
}

/// A longer line begins with new memory: what long strings leave behind, each in another part of an event, must not add up.
const MOST_BYTES_KEPT: usize = 4096;

/// Reads the object and its data in the place of the ones before; true when the line is its canonical text.
fn read_object(line: &[u8], event: &mut Event) -> Result<bool, Failure> {
    let object = std::mem::take(&mut event.object);
    let mut value = if line.len() <= MOST_BYTES_KEPT { Value::Object(object) } else { Value::Null };
    let spelling =
        read::parse_over(&mut value, line, "data").map_err(|error| Failure::json(&place(event), &error))?;
    let Value::Object(object) = value else {
        return Err(Failure::new(Code::Event, format!("{}: not an object", place(event))));
    };
    match spelling.member.and_then(|range| std::str::from_utf8(&line[range]).ok()) {
        Some(data) if spelling.is_canonical => event.content.begin(|text| text.push_str(data)),
        _ => {
            let data = object.get("data").unwrap_or(&Value::Null);
            event.content.begin(|text| write::append(data, text));
        }
    }
    event.object = object;
    Ok(spelling.is_canonical)
}

fn read_event(line: &[u8], manifest: &Manifest, event: &mut Event) -> Result<(), Failure> {
    let is_canonical = read_object(line, event)?;
    let (object, sequence) = (&event.object, event.sequence);
    let wrong = |code, what: String| Failure::new(code, format!("{EVENTS} line {}: {what}", sequence + 1));
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
    object.get("data").ok_or_else(|| lacks("data", "there"))?;

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
    event.content.end(content_type, spec_version, subject, kind);
    let content_hash = Digest::of(event.content.text.as_bytes());
    // Each digest has one text.
    if text("assaycontenthash")? != content_hash.text().as_str() {
        return Err(wrong(Code::ContentHash, format!("the content gives {content_hash}")));
    }
    if !is_canonical {
        return Err(wrong(Code::NotCanonical, "the same value has another text in RFC 8785".into()));
    }
    event.content_hash = content_hash;
    Ok(())
}

#[cfg(test)]
mod tests;
