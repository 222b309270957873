//! The evidence profile <-> YAML and JSON: `run.profile.evidence.yaml`. Pure.
//!
//! One value, two texts; the digest is over the canonical JSON of `identity` in both. Reading is strict: a key that
//! is not in the format, another type, a digest that does not fit are errors that name the place.

mod endpoints;
mod facts;

use std::collections::BTreeMap;
use std::io;

use crate::canon::digest::Digest;
use crate::canon::node::{Flat, Item, Node};
use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::canon::{indented, yaml};
use crate::observe::loss::{Gap, Kind, LossLedger};
use crate::profile::effect::Effect;
use crate::profile::name::Name;
pub use crate::profile::wire::Format;

use super::identity::{self, IdentityError};
use super::{Coverage, Evidence, Fold, Observed, ProcessFacts, shapes};

/// Name and version of the format.
pub const SCHEMA: &str = "assay.evidence-profile/v1";

/// The evidence profile as one text.
pub fn write(evidence: &Evidence, format: Format) -> String {
    let mut out = Vec::new();
    write_to(&mut out, evidence, &identity::digest(&evidence.identity), format)
        .expect("writing to a Vec cannot fail");
    String::from_utf8(out).expect("it is made of strings")
}

/// Writes the evidence profile, whose identity has this digest, piece by piece: memory does not grow with the number of
/// effects.
pub fn write_to(
    out: &mut dyn io::Write,
    evidence: &Evidence,
    digest: &Digest,
    format: Format,
) -> io::Result<()> {
    let ledger = &evidence.coverage.ledger;
    let observed = Node::with(observed(&evidence.observed, ledger), lists_of(&evidence.observed));
    let members = vec![
        ("schema".to_owned(), Node::Value(SCHEMA.into())),
        ("run_id".to_owned(), Node::Value(identity::run_id(digest).into())),
        ("digest".to_owned(), Node::Value(digest.to_string().into())),
        ("identity".to_owned(), identity::node(&evidence.identity)),
        ("coverage".to_owned(), Node::Value(coverage(&evidence.coverage).into())),
        ("observed".to_owned(), observed),
    ];
    match format {
        Format::Yaml => yaml::write_nodes(members, out),
        Format::Json => indented::write_nodes(members, out),
    }
}

/// What of `observed` grows with the run.
fn lists_of(observed: &Observed) -> Vec<(&'static str, Node<'_>)> {
    let effects = ["exec", "fs", "net"].map(|name| {
        let items = observed.effects.iter().filter(move |(effect, _)| list_name(effect) == name);
        let items = items.map(|(effect, facts)| facts::item(effect, facts));
        (name.to_owned(), Node::List(Box::new(items)))
    });
    let folded = observed.folded.iter().map(|fold| {
        let mut flat = Flat::default();
        flat.text("rule", &fold.rule);
        flat.text("from", &fold.from);
        flat.text("to", fold.to.as_str());
        Item::Flat(flat)
    });
    vec![
        ("effects", Node::Map(effects.into())),
        ("endpoints", Node::List(Box::new(observed.endpoints.iter().map(endpoints::item)))),
        ("folded", Node::List(Box::new(folded))),
        ("processes", Node::List(Box::new(observed.processes.iter().map(|one| Item::Object(process(one)))))),
    ]
}

fn list_name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Fs(_) => "fs",
        Effect::Exec(_) => "exec",
        Effect::Net(_) => "net",
    }
}

fn coverage(coverage: &Coverage) -> Object {
    let ledger = &coverage.ledger;
    let mut object = Object::new();
    for kind in Kind::ALL {
        object.set(kind.as_str(), ledger.completeness(kind).as_str());
    }
    let mut reasons: Vec<Value> = Vec::new();
    let lost = ledger.lost.iter().map(|(hook, count)| (hook.clone(), *count));
    let undecoded = ledger.undecoded.iter().map(|(reason, count)| (format!("{UNDECODED}{reason}"), *count));
    for (hook, count) in lost.chain(undecoded) {
        let reason =
            Object::from([("reason", RECORDS_LOST.into()), ("detail", format!("{hook}: {count}").into())]);
        reasons.push(reason.into());
    }
    reasons.extend(ledger.gaps.iter().map(|gap| {
        Value::Object(Object::from([
            ("kind", gap.kind.as_str().into()),
            ("reason", gap.reason.as_str().into()),
            ("detail", gap.detail.as_str().into()),
        ]))
    }));
    object.set("reasons", reasons);
    object
}

/// Why every kind is partial when a record was lost.
pub(super) const RECORDS_LOST: &str = "records-lost";
const UNDECODED: &str = "undecoded.";

fn observed(observed: &Observed, ledger: &LossLedger) -> Object {
    let mut object = Object::new();
    object.set("started_at", observed.started_at.as_str());
    object.set("duration_ms", Value::count(observed.duration_ms));
    object.set("mode", observed.mode.as_str());
    object.set("verdict", observed.verdict.as_str());
    object.set("descendants", observed.descendants.as_str());
    object.set("is_unobserved", ledger.is_unobserved);
    object.set_some("policy_digest", observed.policy_digest.as_ref().map(Digest::to_string));
    object.set("counters", counts(&observed.counters));
    let mut lost = counts(&ledger.lost);
    for (reason, count) in &ledger.undecoded {
        lost.set(&format!("{UNDECODED}{reason}"), Value::count(*count));
    }
    object.set("lost", lost);
    let mut programs = Object::new();
    for (name, digest) in &observed.programs {
        let value: Value = match digest {
            Ok(digest) => digest.to_string().into(),
            Err(reason) => Object::from([("unread", reason.as_str().into())]).into(),
        };
        programs.set(name, value);
    }
    object.set("programs", programs);
    object.set("host", texts(&observed.host));
    object.set("versions", texts(&observed.versions));
    object.set("roots", texts(&observed.roots));
    object.set("not_governed", list(&observed.not_governed, |text| text.as_str().into()));
    object.set("env_removed", list(&observed.env_removed, |text| text.as_str().into()));
    object
}

fn list<T>(items: &[T], one: impl Fn(&T) -> Value) -> Value {
    Value::Array(items.iter().map(one).collect())
}

fn counts(counts: &BTreeMap<String, u64>) -> Object {
    let mut object = Object::new();
    for (name, count) in counts {
        object.set(name, Value::count(*count));
    }
    object
}

fn texts(texts: &BTreeMap<String, String>) -> Object {
    let mut object = Object::new();
    for (name, text) in texts {
        object.set(name, text.as_str());
    }
    object
}

fn process(process: &ProcessFacts) -> Object {
    let mut object = Object::new();
    object.set("pid", Value::count(process.pid.into()));
    object.set("ppid", Value::count(process.ppid.into()));
    object.set_some("status", process.status.map(|status| Value::count(u64::from(status as u32))));
    object.set_some("began_us", process.began_us.map(Value::count));
    object.set_some("ended_us", process.ended_us.map(Value::count));
    object.set("programs", list(&process.programs, |argv| list(argv, |text| text.as_str().into())));
    object
}

/// Why a text is not an evidence profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It is not YAML.
    #[error("read the evidence profile: {0}")]
    Yaml(#[from] yaml::YamlError),
    /// It is not JSON.
    #[error("read the evidence profile: {0}")]
    Json(String),
    /// Something in it is not what the format says.
    #[error("read the evidence profile: {place}: {problem}")]
    Content {
        /// Where, as `observed.counters`.
        place: String,
        /// What is wrong there.
        problem: String,
    },
    /// Its identity is not what the format says.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

fn wrong(place: &str, problem: &str) -> WireError {
    WireError::Content { place: place.into(), problem: problem.into() }
}

/// Whether a text claims to be an evidence profile: its `schema` says so.
pub fn claims_to_be(value: &Value) -> bool {
    value
        .as_object()
        .and_then(|object| object.str("schema"))
        .is_some_and(|schema| schema.starts_with("assay.evidence-profile/"))
}

/// The value of a text in either form. JSON that is read as JSON is held to JSON's own rules.
pub fn parse(text: &str) -> Result<Value, WireError> {
    if text.trim_start().starts_with('{') {
        read::parse(text.trim().as_bytes()).map_err(|error| WireError::Json(error.to_string()))
    } else {
        Ok(yaml::read(text)?)
    }
}

/// Reads an evidence profile of either form.
pub fn read(text: &str) -> Result<Evidence, WireError> {
    from_value(&parse(text)?)
}

/// Reads an evidence profile from its value.
pub fn from_value(value: &Value) -> Result<Evidence, WireError> {
    let root = value.as_object().ok_or_else(|| wrong("the text", "not a mapping"))?;
    let reader = Reader { object: root, place: String::new() };
    if reader.text("schema")? != SCHEMA {
        return Err(wrong("schema", &format!("not {SCHEMA}, the only version there is")));
    }
    shapes::evidence_profile().check(value).map_err(|mismatch| wrong(&mismatch.place, &mismatch.problem))?;
    let identity = identity::from_object(reader.object("identity")?.object)?;
    let digest = identity::digest(&identity);
    if reader.text("digest")? != digest.to_string() {
        return Err(wrong("digest", "not the digest of the identity"));
    }
    if reader.text("run_id")? != identity::run_id(&digest) {
        return Err(wrong("run_id", "does not follow from the digest"));
    }
    let observed = reader.object("observed")?;
    let ledger = ledger(&reader.object("coverage")?, &observed)?;
    Ok(Evidence { identity, observed: read_observed(&observed)?, coverage: Coverage { ledger } })
}

fn ledger(coverage: &Reader<'_>, observed: &Reader<'_>) -> Result<LossLedger, WireError> {
    let mut ledger = LossLedger { is_unobserved: observed.flag("is_unobserved")?, ..LossLedger::default() };
    for (name, count) in observed.counts("lost")? {
        match name.strip_prefix(UNDECODED) {
            Some(reason) => ledger.undecoded.insert(reason.to_owned(), count),
            None => ledger.lost.insert(name, count),
        };
    }
    for reason in coverage.objects("reasons")? {
        if !reason.object.contains("kind") && reason.text("reason")? == RECORDS_LOST {
            continue;
        }
        let kind = reason.text("kind")?;
        let kind = Kind::ALL
            .into_iter()
            .find(|known| known.as_str() == kind)
            .ok_or_else(|| wrong(&reason.at("kind"), "not a kind"))?;
        let (word, detail) = (reason.text("reason")?.to_owned(), reason.text("detail")?.to_owned());
        ledger.gaps.insert(Gap { kind, reason: word, detail });
    }
    for kind in Kind::ALL {
        if coverage.text(kind.as_str())? != ledger.completeness(kind).as_str() {
            return Err(wrong(&coverage.at(kind.as_str()), "does not follow from the reasons and losses"));
        }
    }
    Ok(ledger)
}

fn read_observed(reader: &Reader<'_>) -> Result<Observed, WireError> {
    let policy_digest = match reader.object.get("policy_digest") {
        None => None,
        Some(_) => Some(reader.digest("policy_digest", reader.text("policy_digest")?)?),
    };
    let mut programs = BTreeMap::new();
    for (name, value) in reader.object("programs")?.object.iter() {
        let place = reader.at("programs");
        let digest = match value {
            Value::String(text) => Ok(reader.digest("programs", text)?),
            Value::Object(object) => {
                let unread = Reader { object, place };
                Err(unread.text("unread")?.to_owned())
            }
            _ => return Err(wrong(&place, "neither a digest nor a reason")),
        };
        programs.insert(name.to_owned(), digest);
    }
    Ok(Observed {
        started_at: reader.text("started_at")?.to_owned(),
        duration_ms: reader.count("duration_ms")?,
        counters: reader.counts("counters")?,
        effects: facts::read(&reader.object("effects")?)?,
        endpoints: endpoints::read(reader)?,
        folded: reader
            .objects("folded")?
            .iter()
            .map(|fold| {
                Ok(Fold {
                    rule: fold.text("rule")?.to_owned().into(),
                    from: fold.text("from")?.to_owned(),
                    to: Name::from_canonical(fold.text("to")?),
                })
            })
            .collect::<Result<_, WireError>>()?,
        programs,
        processes: reader.objects("processes")?.iter().map(read_process).collect::<Result<_, _>>()?,
        host: reader.texts("host")?,
        versions: reader.texts("versions")?,
        policy_digest,
        mode: reader.text("mode")?.to_owned(),
        not_governed: reader.strings("not_governed")?,
        env_removed: reader.strings("env_removed")?,
        roots: reader.texts("roots")?,
        verdict: reader.text("verdict")?.to_owned(),
        descendants: reader.text("descendants")?.to_owned(),
    })
}

fn read_process(reader: &Reader<'_>) -> Result<ProcessFacts, WireError> {
    let number = |key| {
        reader
            .count(key)
            .and_then(|count| u32::try_from(count).map_err(|_| wrong(&reader.at(key), "too large")))
    };
    let moment = |key| reader.object.get(key).map(|_| reader.count(key)).transpose();
    let programs = reader
        .array("programs")?
        .iter()
        .map(|argv| {
            let words = argv
                .as_array()
                .map(|words| words.iter().map(|word| word.as_str().map(str::to_owned)).collect());
            words.flatten().ok_or_else(|| wrong(&reader.at("programs"), "not lists of strings"))
        })
        .collect::<Result<_, _>>()?;
    Ok(ProcessFacts {
        pid: number("pid")?,
        ppid: number("ppid")?,
        programs,
        status: if reader.object.contains("status") { Some(number("status")? as i32) } else { None },
        began_us: moment("began_us")?,
        ended_us: moment("ended_us")?,
    })
}

/// A mapping, and where it is.
struct Reader<'a> {
    object: &'a Object,
    place: String,
}

impl<'a> Reader<'a> {
    fn at(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    fn get(&self, key: &str) -> Result<&'a Value, WireError> {
        self.object.get(key).ok_or_else(|| wrong(&self.at(key), "missing"))
    }

    fn text(&self, key: &str) -> Result<&'a str, WireError> {
        self.get(key)?.as_str().ok_or_else(|| wrong(&self.at(key), "not a string"))
    }

    fn flag(&self, key: &str) -> Result<bool, WireError> {
        self.get(key)?.as_bool().ok_or_else(|| wrong(&self.at(key), "not true or false"))
    }

    fn count(&self, key: &str) -> Result<u64, WireError> {
        self.get(key)?.as_count().ok_or_else(|| wrong(&self.at(key), "not a count"))
    }

    fn digest(&self, key: &str, text: &str) -> Result<Digest, WireError> {
        text.parse().map_err(|_| wrong(&self.at(key), "not a digest"))
    }

    fn object(&self, key: &str) -> Result<Reader<'a>, WireError> {
        let object = self.get(key)?.as_object().ok_or_else(|| wrong(&self.at(key), "not a mapping"))?;
        Ok(Reader { object, place: self.at(key) })
    }

    fn array(&self, key: &str) -> Result<&'a [Value], WireError> {
        self.get(key)?.as_array().ok_or_else(|| wrong(&self.at(key), "not a list"))
    }

    fn objects(&self, key: &str) -> Result<Vec<Reader<'a>>, WireError> {
        self.array(key)?
            .iter()
            .enumerate()
            .map(|(at, value)| {
                let place = format!("{}[{at}]", self.at(key));
                let object = value.as_object().ok_or_else(|| wrong(&place, "not a mapping"))?;
                Ok(Reader { object, place })
            })
            .collect()
    }

    fn strings(&self, key: &str) -> Result<Vec<String>, WireError> {
        self.array(key)?
            .iter()
            .map(|value| value.as_str().map(str::to_owned).ok_or_else(|| wrong(&self.at(key), "not strings")))
            .collect()
    }

    fn counts(&self, key: &str) -> Result<BTreeMap<String, u64>, WireError> {
        let reader = self.object(key)?;
        reader.object.iter().map(|(name, _)| Ok((name.to_owned(), reader.count(name)?))).collect()
    }

    fn texts(&self, key: &str) -> Result<BTreeMap<String, String>, WireError> {
        let reader = self.object(key)?;
        reader.object.iter().map(|(name, _)| Ok((name.to_owned(), reader.text(name)?.to_owned()))).collect()
    }
}

#[cfg(test)]
mod tests;
