//! An entry <-> the canonical JSON of its line. Pure. Reading is strict: whatever is not as the format has it is no entry.

use std::collections::BTreeMap;

use super::{
    Body, Collected, Coverage, Entry, FileFacts, Files, Lost, MOST_BYTES, Run, SCHEMA, Summary, Torn, User,
    Why, is_file_name, kinds,
};
use crate::canon::digest::Digest;
use crate::canon::read;
use crate::canon::shape::{Form, Shape};
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::identity;
use crate::evidence::timestamp::Timestamp;
use crate::observe::loss::{Completeness, Kind};
use crate::spool::begun;

/// Why a line is no entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is longer than [`MOST_BYTES`].
    #[error("longer than {MOST_BYTES} bytes")]
    Length,
    /// It is not strict JSON.
    #[error("{0}")]
    Json(#[from] read::ReadError),
    /// The same value has another text.
    #[error("not the canonical JSON of its value")]
    NotCanonical,
    /// It is of another version.
    #[error("of another version than {SCHEMA}")]
    Version,
    /// It is not what an entry holds.
    #[error("{0}")]
    Form(String),
}

/// The line of an entry, without its line feed.
pub fn to_line(entry: &Entry) -> String {
    write::to_string(&to_object(entry).into())
}

/// The object of an entry.
pub fn to_object(entry: &Entry) -> Object {
    let mut object = Object::from([
        ("schema", SCHEMA.into()),
        ("kind", entry.body.kind().into()),
        ("seq", Value::count(entry.seq)),
        ("prev", entry.prev.to_string().into()),
        ("time", entry.time.to_string().into()),
    ]);
    match &entry.body {
        Body::Begun => {}
        Body::BegunAnew { found } => object.set("found", Value::count(*found)),
        Body::Run(run) => set_run(&mut object, run),
        Body::Lost(lost) => {
            object.set_some("begun", lost.begun.as_ref().map(begun::to_object));
            object.set("directory", lost.directory.as_str());
            object.set("files", files_object(&lost.files));
            object.set("not_whole", texts(&lost.not_whole));
        }
        Body::Collected(collected) => {
            object.set("runs", collected.runs.iter().map(|seq| Value::count(*seq)).collect::<Vec<_>>());
            object.set("bytes", Value::count(collected.bytes));
            let (key, count) = match collected.why {
                Why::KeepDays(days) => ("keep_days", days),
                Why::MaxBytes(bytes) => ("max_bytes", bytes),
            };
            object.set("why", Object::from([(key, Value::count(count))]));
        }
        Body::Torn(torn) => {
            object.set("sha256", torn.sha256.to_string());
            object.set("bytes", Value::count(torn.bytes));
        }
    }
    object
}

fn set_run(object: &mut Object, run: &Run) {
    let summary = &run.summary;
    object.set("user", user_object(&run.user));
    object.set("begun_at", run.begun_at.to_string());
    object.set("directory", run.directory.as_str());
    object.set("files", files_object(&run.files));
    object.set_some("run_id", summary.run_id.as_deref());
    object.set_some("digest", summary.digest.map(|digest| digest.to_string()));
    object.set("command", texts(&summary.command));
    object.set_some("workdir", summary.workdir.as_deref());
    object.set("mode", summary.mode.as_str());
    object.set_some("policy_digest", summary.policy_digest.map(|digest| digest.to_string()));
    object.set(
        "outcome",
        summary.outcome.as_ref().map_or(Value::Null, |outcome| identity::outcome_object(outcome).into()),
    );
    object.set("exit_code", u16::from(summary.exit_code));
    object.set("verdict", summary.verdict.as_str());
    object.set("reasons", texts(&summary.reasons));
    let degradations = summary.degradations.iter().map(|one| identity::degradation_object(one).into());
    object.set("degradations", degradations.collect::<Vec<Value>>());
    object.set_some(
        "coverage",
        summary.coverage.map(|words| {
            let mut coverage = Object::new();
            for (kind, word) in Kind::ALL.into_iter().zip(words) {
                coverage.set(kind.as_str(), word.as_str());
            }
            coverage
        }),
    );
    object.set("counts", counts_object(&summary.counts));
    object.set("duration_ms", Value::count(summary.duration_ms));
    if !summary.left_out.is_empty() {
        object.set("left_out", counts_object(&summary.left_out));
    }
}

/// `{uid, name?}`
pub fn user_object(user: &User) -> Object {
    let mut object = Object::from([("uid", Value::count(user.uid.into()))]);
    object.set_some("name", user.name.as_deref());
    object
}

fn texts(list: &[String]) -> Vec<Value> {
    list.iter().map(|text| text.as_str().into()).collect()
}

fn counts_object(counts: &BTreeMap<String, u64>) -> Object {
    let mut object = Object::new();
    for (name, count) in counts {
        object.set(name, Value::count(*count));
    }
    object
}

fn files_object(files: &Files) -> Object {
    let mut object = Object::new();
    for (name, facts) in files {
        let file = [("sha256", facts.sha256.to_string().into()), ("bytes", Value::count(facts.bytes))];
        object.set(name, Object::from(file));
    }
    object
}

/// Reads lines; the shapes that it holds them to are made once.
#[derive(Debug)]
pub struct LineReader {
    kinds: [(&'static str, Shape); 6],
}

impl Default for LineReader {
    fn default() -> Self {
        Self { kinds: kinds() }
    }
}

impl LineReader {
    /// Reads a line, without its line feed.
    pub fn read(&self, line: &[u8]) -> Result<Entry, LineError> {
        if line.len() > MOST_BYTES {
            return Err(LineError::Length);
        }
        let mut value = Value::Null;
        let spelling = read::parse_over(&mut value, line, "")?;
        let object = value.as_object().ok_or_else(|| LineError::Form("not a mapping".into()))?;
        if object.str("schema").is_some_and(|schema| schema != SCHEMA) {
            return Err(LineError::Version);
        }
        let kind = object.str("kind").unwrap_or_default();
        let shape = self.kinds.iter().find(|(known, _)| *known == kind).map(|(_, shape)| shape);
        let shape = shape.ok_or_else(|| LineError::Form("kind: not one of the format".into()))?;
        shape.check(&value).map_err(|mismatch| LineError::Form(mismatch.to_string()))?;
        if !spelling.is_canonical {
            return Err(LineError::NotCanonical);
        }
        read_object(object).map_err(|key| LineError::Form(format!("{key}: not of the right form")))
    }
}

/// Takes an object apart that has the shape of an entry; the error is the key that still is not right.
fn read_object(object: &Object) -> Result<Entry, &'static str> {
    let body = match object.str("kind").unwrap_or_default() {
        "begun" => Body::Begun,
        "begun-anew" => Body::BegunAnew { found: count(object, "found")? },
        "run" => Body::Run(Box::new(read_run(object)?)),
        "lost" => Body::Lost(Box::new(read_lost(object)?)),
        "collected" => Body::Collected(read_collected(object)?),
        "torn" => Body::Torn(Torn { sha256: digest(object, "sha256")?, bytes: count(object, "bytes")? }),
        _ => return Err("kind"),
    };
    Ok(Entry {
        seq: count(object, "seq")?,
        prev: digest(object, "prev")?,
        time: moment(object, "time")?,
        body,
    })
}

fn read_run(object: &Object) -> Result<Run, &'static str> {
    let text = |key: &'static str| object.str(key).map(str::to_owned);
    let some_digest = |key: &'static str| object.contains(key).then(|| digest(object, key)).transpose();
    let outcome = match object.get("outcome") {
        Some(Value::Object(outcome)) => Some(identity::outcome(outcome, "").map_err(|_| "outcome")?),
        _ => None,
    };
    let degradations = list(object, "degradations").iter().map(|one| {
        let one = one.as_object().ok_or("degradations")?;
        identity::degradation(one, "").map_err(|_| "degradations")
    });
    let summary = Summary {
        run_id: text("run_id"),
        digest: some_digest("digest")?,
        command: strings(object, "command"),
        workdir: text("workdir"),
        mode: text("mode").ok_or("mode")?,
        policy_digest: some_digest("policy_digest")?,
        outcome,
        exit_code: u8::try_from(count(object, "exit_code")?).map_err(|_| "exit_code")?,
        verdict: text("verdict").ok_or("verdict")?,
        reasons: strings(object, "reasons"),
        degradations: degradations.collect::<Result<_, _>>()?,
        coverage: object.get("coverage").and_then(Value::as_object).map(read_coverage).transpose()?,
        counts: counts(object, "counts"),
        duration_ms: count(object, "duration_ms")?,
        left_out: counts(object, "left_out"),
    };
    Ok(Run {
        user: read_user(object).ok_or("user")?,
        begun_at: moment(object, "begun_at")?,
        directory: read_directory(object)?,
        files: read_files(object)?,
        summary,
    })
}

fn read_lost(object: &Object) -> Result<Lost, &'static str> {
    let files = read_files(object)?;
    let not_whole = strings(object, "not_whole");
    if not_whole.iter().any(|name| !files.contains_key(name)) {
        return Err("not_whole");
    }
    let begun = object.get("begun").and_then(Value::as_object);
    let begun = begun.map(|begun| begun::from_object(begun).ok_or("begun")).transpose()?;
    Ok(Lost { begun, directory: read_directory(object)?, files, not_whole })
}

fn read_collected(object: &Object) -> Result<Collected, &'static str> {
    let runs: Option<Vec<u64>> = list(object, "runs").iter().map(Value::as_count).collect();
    let runs = runs.filter(|runs| runs.windows(2).all(|pair| pair[0] < pair[1])).ok_or("runs")?;
    let why = object.get("why").and_then(Value::as_object).ok_or("why")?;
    let why = match (why.get("keep_days"), why.get("max_bytes")) {
        (Some(days), None) => Why::KeepDays(days.as_count().ok_or("why")?),
        (None, Some(bytes)) => Why::MaxBytes(bytes.as_count().ok_or("why")?),
        (Some(_), Some(_)) | (None, None) => return Err("why"),
    };
    Ok(Collected { runs, bytes: count(object, "bytes")?, why })
}

fn read_coverage(object: &Object) -> Result<Coverage, &'static str> {
    let mut coverage = [Completeness::None; 3];
    for (place, kind) in coverage.iter_mut().zip(Kind::ALL) {
        let words = [Completeness::Complete, Completeness::Partial, Completeness::None];
        let word = words.into_iter().find(|word| object.str(kind.as_str()) == Some(word.as_str()));
        *place = word.ok_or("coverage")?;
    }
    Ok(coverage)
}

/// The user of an object that has one.
pub fn read_user(object: &Object) -> Option<User> {
    let user = object.get("user")?.as_object()?;
    let uid = u32::try_from(user.get("uid")?.as_count()?).ok()?;
    Some(User { uid, name: user.str("name").map(str::to_owned) })
}

/// A name that leads nowhere but to a directory of ours.
fn read_directory(object: &Object) -> Result<String, &'static str> {
    object.str("directory").filter(|name| is_file_name(name)).map(str::to_owned).ok_or("directory")
}

fn read_files(object: &Object) -> Result<Files, &'static str> {
    let members = object.get("files").and_then(Value::as_object).ok_or("files")?;
    let files = members.iter().map(|(name, file)| {
        let file = file.as_object().filter(|_| is_file_name(name)).ok_or("files")?;
        Ok((name.to_owned(), FileFacts { sha256: digest(file, "sha256")?, bytes: count(file, "bytes")? }))
    });
    files.collect()
}

fn digest(object: &Object, key: &'static str) -> Result<Digest, &'static str> {
    object.str(key).and_then(|text| text.parse().ok()).ok_or(key)
}

fn count(object: &Object, key: &'static str) -> Result<u64, &'static str> {
    object.get(key).and_then(Value::as_count).ok_or(key)
}

/// A moment as it is written here, to the second.
pub(in crate::spool) fn moment(object: &Object, key: &'static str) -> Result<Timestamp, &'static str> {
    object.str(key).filter(|text| Form::Moment.has(text)).and_then(Timestamp::parse).ok_or(key)
}

fn list<'a>(object: &'a Object, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).unwrap_or_default()
}

/// The strings of a list that its shape says is one of strings.
pub(in crate::spool) fn strings(object: &Object, key: &str) -> Vec<String> {
    list(object, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn counts(object: &Object, key: &str) -> BTreeMap<String, u64> {
    let members = object.get(key).and_then(Value::as_object);
    let members = members.into_iter().flat_map(Object::iter);
    members.filter_map(|(name, count)| Some((name.to_owned(), count.as_count()?))).collect()
}
