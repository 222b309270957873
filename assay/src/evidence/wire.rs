//! The evidence profile <-> YAML and JSON: `run.profile.evidence.yaml`. Pure.
//!
//! One value, two texts; the digest is over the canonical JSON of `identity` in both. Reading is strict: a key that
//! is not in the format, another type, a digest that does not fit are errors that name the place.

use std::collections::{BTreeMap, BTreeSet};

use crate::canon::digest::Digest;
use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::canon::{indented, yaml};
use crate::observe::loss::{Gap, Kind, LossLedger};
use crate::profile::effect::Effect;
pub use crate::profile::wire::Format;

use super::identity::{self, IdentityError};
use super::{Coverage, EffectFacts, Evidence, Fold, Observed, ProcessFacts};

/// Name and version of the format.
pub const SCHEMA: &str = "assay.evidence-profile/v1";

/// Writes the evidence profile.
pub fn write(evidence: &Evidence, format: Format) -> String {
    let identity = Value::Object(identity::to_object(&evidence.identity));
    let digest = identity::digest(&evidence.identity);
    let members: [(&str, Value); 6] = [
        ("schema", SCHEMA.into()),
        ("run_id", identity::run_id(&digest).into()),
        ("digest", digest.to_string().into()),
        ("identity", identity),
        ("coverage", coverage(&evidence.coverage).into()),
        ("observed", observed(&evidence.observed, &evidence.coverage.ledger).into()),
    ];
    let members: Vec<(&str, &Value)> = members.iter().map(|(key, value)| (*key, value)).collect();
    match format {
        Format::Yaml => yaml::write(&members),
        Format::Json => indented::write(&members),
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

const RECORDS_LOST: &str = "records-lost";
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
    object.set("effects", effects(&observed.effects));
    object.set(
        "folded",
        list(&observed.folded, |fold| {
            Object::from([
                ("rule", fold.rule.as_str().into()),
                ("from", fold.from.as_str().into()),
                ("to", fold.to.as_str().into()),
            ])
            .into()
        }),
    );
    let mut programs = Object::new();
    for (name, digest) in &observed.programs {
        let value: Value = match digest {
            Ok(digest) => digest.to_string().into(),
            Err(reason) => Object::from([("unread", reason.as_str().into())]).into(),
        };
        programs.set(name, value);
    }
    object.set("programs", programs);
    object.set("processes", list(&observed.processes, process));
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

/// The effects with their facts, in the lists of `identity.effects`.
fn effects(facts: &BTreeMap<Effect, EffectFacts>) -> Object {
    let (mut fs, mut exec, mut net) = (Vec::new(), Vec::new(), Vec::new());
    for (effect, facts) in facts {
        let (mut object, list) = match effect {
            Effect::Fs(effect) => (identity::fs_object(effect), &mut fs),
            Effect::Exec(effect) => (identity::exec_object(effect), &mut exec),
            Effect::Net(effect) => (identity::net_object(effect), &mut net),
        };
        object.set("hits", Value::count(facts.hits));
        object.set_some("denied_by", facts.denied_by);
        object.set_some("authorised", facts.is_authorised);
        list.push(Value::Object(object));
    }
    Object::from([("exec", exec.into()), ("fs", fs.into()), ("net", net.into())])
}

fn process(process: &ProcessFacts) -> Value {
    let mut object = Object::new();
    object.set("pid", Value::count(process.pid.into()));
    object.set("ppid", Value::count(process.ppid.into()));
    object.set_some("status", process.status.map(|status| Value::count(u64::from(status as u32))));
    object.set("programs", list(&process.programs, |argv| list(argv, |text| text.as_str().into())));
    Value::Object(object)
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
    reader.only(&["schema", "run_id", "digest", "identity", "coverage", "observed"])?;
    if reader.text("schema")? != SCHEMA {
        return Err(wrong("schema", &format!("not {SCHEMA}, the only version there is")));
    }
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
    coverage.only(&["fs", "exec", "net", "reasons"])?;
    let mut ledger = LossLedger { is_unobserved: observed.flag("is_unobserved")?, ..LossLedger::default() };
    for (name, count) in observed.counts("lost")? {
        match name.strip_prefix(UNDECODED) {
            Some(reason) => ledger.undecoded.insert(reason.to_owned(), count),
            None => ledger.lost.insert(name, count),
        };
    }
    for reason in coverage.objects("reasons")? {
        reason.only(&["kind", "reason", "detail"])?;
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
    reader.only(&[
        "started_at",
        "duration_ms",
        "mode",
        "verdict",
        "descendants",
        "is_unobserved",
        "policy_digest",
        "counters",
        "lost",
        "effects",
        "folded",
        "programs",
        "processes",
        "host",
        "versions",
        "roots",
        "not_governed",
        "env_removed",
    ])?;
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
                unread.only(&["unread"])?;
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
        effects: read_effects(&reader.object("effects")?)?,
        folded: reader
            .objects("folded")?
            .iter()
            .map(|fold| {
                fold.only(&["rule", "from", "to"])?;
                let text = |key| fold.text(key).map(str::to_owned);
                Ok(Fold { rule: text("rule")?, from: text("from")?, to: text("to")? })
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

fn read_effects(reader: &Reader<'_>) -> Result<BTreeMap<Effect, EffectFacts>, WireError> {
    reader.only(&["exec", "fs", "net"])?;
    let mut effects = BTreeMap::new();
    for list in ["fs", "exec", "net"] {
        for one in reader.objects(list)? {
            let mut object = one.object.clone();
            let denied_by = match object.remove("denied_by") {
                None => None,
                Some(word) => Some(
                    ["policy", "launch", "system"]
                        .into_iter()
                        .find(|known| word.as_str() == Some(known))
                        .ok_or_else(|| wrong(&one.at("denied_by"), "not policy, launch or system"))?,
                ),
            };
            let is_authorised = match object.remove("authorised") {
                None => None,
                Some(value) => {
                    Some(value.as_bool().ok_or_else(|| wrong(&one.at("authorised"), "not true or false"))?)
                }
            };
            let facts = EffectFacts { hits: one.count("hits")?, denied_by, is_authorised };
            object.remove("hits");
            let effect = match list {
                "fs" => Effect::Fs(identity::fs_effect(&object, &one.place)?),
                "exec" => Effect::Exec(identity::exec_effect(&object, &one.place)?),
                _ => Effect::Net(identity::net_effect(&object, &one.place)?),
            };
            effects.insert(effect, facts);
        }
    }
    Ok(effects)
}

fn read_process(reader: &Reader<'_>) -> Result<ProcessFacts, WireError> {
    reader.only(&["pid", "ppid", "status", "programs"])?;
    let number = |key| {
        reader
            .count(key)
            .and_then(|count| u32::try_from(count).map_err(|_| wrong(&reader.at(key), "too large")))
    };
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

    fn only(&self, keys: &[&str]) -> Result<(), WireError> {
        let known: BTreeSet<&str> = keys.iter().copied().collect();
        match self.object.iter().find(|(key, _)| !known.contains(key)) {
            Some((key, _)) => {
                Err(wrong(&self.at(&key.escape_debug().to_string()), "not a key of the format"))
            }
            None => Ok(()),
        }
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
