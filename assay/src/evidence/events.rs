//! Evidence → events (`CloudEvents` 1.0), one canonical line each, with content hashes and the run root. Pure.
//!
//! `data` holds what the identity holds, and the programs' digests; whatever else is true of one run only is an
//! extension attribute, which the content hash does not cover.

use std::borrow::Cow;
use std::collections::btree_map;
use std::iter::Peekable;
use std::ops::Range;

use sha2::{Digest as _, Sha256};

use crate::canon::digest::Digest;
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::timestamp::Timestamp;
use crate::evidence::{CANONICALIZER, EffectFacts, Evidence, identity, peer};
use crate::observe::loss::Kind;
use crate::profile::effect::{Effect, NetEffect, NetEffectOp, Port, bracketed};

mod composer;

use composer::Composer;

/// The types of events, in the order they are written.
pub mod kind {
    /// The first: what was run.
    pub const STARTED: &str = "assay.profile.started";
    /// One for each effect on files.
    pub const FS: &str = "assay.fs.access";
    /// One for each program.
    pub const EXEC: &str = "assay.process.exec";
    /// One for each effect on the network.
    pub const NET: &str = "assay.net.connect";
    /// One for each degradation.
    pub const DEGRADED: &str = "assay.sandbox.degraded";
    /// How it ended, and what the record cannot vouch for.
    pub const SUMMARY: &str = "assay.sandbox.summary";
    /// The last.
    pub const FINISHED: &str = "assay.profile.finished";
    /// All of them.
    pub const ALL: [&str; 7] = [STARTED, FS, EXEC, NET, DEGRADED, SUMMARY, FINISHED];
}

/// The `source` of our events.
pub const SOURCE: &str = "urn:assay:sandbox";
/// The `specversion` of every event.
pub const SPEC_VERSION: &str = "1.0";
/// The `datacontenttype` of every event.
pub const CONTENT_TYPE: &str = "application/json";

/// Who writes the events, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emission {
    /// The `time` of every event.
    pub time: Timestamp,
    /// The producer's name.
    pub producer: String,
    /// Its version.
    pub version: String,
    /// The commit it was built from, or `unknown`.
    pub git: String,
    /// True with `SOURCE_DATE_EPOCH`: whatever varies between two runs of one behaviour (durations, counts of
    /// repetitions) is left out, so that they give the same bytes.
    pub is_reproducible: bool,
}

/// One event as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Canonical JSON and a line feed.
    pub bytes: String,
    /// The content hash.
    pub content_hash: Digest,
}

/// Feeds each event of the evidence to `visit`, in order.
pub fn for_each<E>(
    evidence: &Evidence,
    run_id: &str,
    emission: &Emission,
    mut visit: impl FnMut(&Line) -> Result<(), E>,
) -> Result<(), E> {
    let mut effects: Vec<&Effect> = evidence.identity.effects.iter().collect();
    // Files, then programs, then the network: the order of their kinds.
    effects.sort_unstable();
    effects.dedup();
    let mut degradations: Vec<_> = evidence.identity.degradations.iter().collect();
    degradations.sort_unstable();
    degradations.dedup();

    let mut composer = Composer::new(run_id, emission);
    visit(composer.compose(&started(evidence)))?;
    let mut draft = Draft { kind: kind::FS, subject: None, data: String::new(), extensions: Vec::new() };
    let mut known = Known::of(evidence);
    for effect in &effects {
        draft_effect(&mut draft, evidence, effect, known.of_next(effect), emission.is_reproducible);
        visit(composer.compose(&draft))?;
    }
    for degradation in &degradations {
        visit(composer.compose(&Draft {
            kind: kind::DEGRADED,
            subject: degradation.detail.as_deref().map(Cow::Borrowed),
            data: canonical(identity::degradation_object(degradation)),
            extensions: Vec::new(),
        }))?;
    }
    visit(composer.compose(&summary(evidence, &effects, degradations.len(), emission.is_reproducible)))?;
    visit(composer.compose(&Draft {
        kind: kind::FINISHED,
        subject: None,
        data: canonical(Object::from([(
            "outcome",
            identity::outcome_object(&evidence.identity.outcome).into(),
        )])),
        extensions: Vec::new(),
    }))
}

struct Draft<'a> {
    kind: &'static str,
    subject: Option<Cow<'a, str>>,
    /// Canonical JSON.
    data: String,
    extensions: Vec<(&'static str, Value)>,
}

fn started(evidence: &Evidence) -> Draft<'static> {
    let command = evidence.identity.command.iter().map(|word| Value::from(word.as_str())).collect::<Vec<_>>();
    let data = Object::from([("canonicalizer", CANONICALIZER.into()), ("command", command.into())]);
    let observed = &evidence.observed;
    let mut extensions = Vec::new();
    if !observed.mode.is_empty() {
        extensions.push(("assaymode", observed.mode.as_str().into()));
    }
    if let Some(digest) = &observed.policy_digest {
        extensions.push(("assaypolicydigest", digest.to_string().into()));
    }
    for (extension, key) in [("assaykernel", "kernel"), ("assayarch", "arch")] {
        if let Some(fact) = observed.host.get(key) {
            extensions.push((extension, fact.as_str().into()));
        }
    }
    if let Some(object) = observed.versions.get("observer_object") {
        extensions.push(("assayobserver", object.as_str().into()));
    }
    Draft { kind: kind::STARTED, subject: None, data: canonical(data), extensions }
}

/// The facts of effects that are asked for in order.
struct Known<'a> {
    facts: Peekable<btree_map::Iter<'a, Effect, EffectFacts>>,
}

impl<'a> Known<'a> {
    fn of(evidence: &'a Evidence) -> Self {
        Self { facts: evidence.observed.effects.iter().peekable() }
    }

    /// Those of an effect behind the one that was asked for before.
    fn of_next(&mut self, effect: &Effect) -> Option<&'a EffectFacts> {
        // Mostly it is the next, and one name in memory.
        while let Some((known, facts)) = self.facts.peek() {
            if *known == effect {
                return Some(facts);
            }
            if *known > effect {
                return None;
            }
            self.facts.next();
        }
        None
    }
}

/// Writes the draft of an effect over the one of another.
fn draft_effect<'a>(
    draft: &mut Draft<'a>,
    evidence: &Evidence,
    effect: &'a Effect,
    facts: Option<&EffectFacts>,
    is_reproducible: bool,
) {
    let extensions = &mut draft.extensions;
    extensions.clear();
    if let Some(facts) = facts {
        if let Some(is_authorised) = facts.is_authorised {
            extensions.push(("assayauthorised", is_authorised.into()));
        }
        if let Some(denied_by) = facts.denied_by {
            extensions.push(("assaydeniedby", denied_by.into()));
        }
        if !is_reproducible {
            extensions.push(("assayhits", Value::count(facts.hits)));
            if !facts.addresses.is_empty() {
                let list: Vec<String> = facts.addresses.iter().map(ToString::to_string).collect();
                extensions.push(("assayaddresses", list.join(" ").as_str().into()));
            }
            if !facts.asked.is_empty() {
                let list: Vec<&str> = facts.asked.iter().map(String::as_str).collect();
                extensions.push(("assayasked", list.join(" ").as_str().into()));
            }
            if !facts.peers.is_empty() {
                extensions.push(("assaypeers", peer::text(&facts.peers).as_str().into()));
            }
        }
    }
    let mut flat = identity::flat(effect);
    let digest = match effect {
        Effect::Exec(effect) => evidence.observed.programs.get(effect.path.as_str()),
        Effect::Fs(_) | Effect::Net(_) => None,
    };
    let sha256 = digest.and_then(|digest| digest.as_ref().ok()).map(Digest::to_string);
    flat.text_if("sha256", sha256.as_deref());
    if let Some(Err(why)) = digest {
        extensions.push(("assaydigesterror", why.as_str().into()));
    }
    draft.data.clear();
    flat.append(&mut draft.data);
    let (kind, subject) = match effect {
        Effect::Fs(effect) => (kind::FS, effect.path.as_str().into()),
        Effect::Exec(effect) => (kind::EXEC, effect.path.as_str().into()),
        Effect::Net(effect) => (kind::NET, endpoint(effect).into()),
    };
    (draft.kind, draft.subject) = (kind, Some(subject));
}

fn canonical(object: Object) -> String {
    write::to_string(&object.into())
}

/// An endpoint for a person: `example.com:443`, `[::1]:80`, `unix:/run/x.sock`, or the protocol alone.
pub fn endpoint(effect: &NetEffect) -> String {
    let port = match effect.port {
        None => String::new(),
        Some(Port::Number(number)) => format!(":{number}"),
        Some(Port::Ephemeral) => ":ephemeral".to_owned(),
    };
    match (effect.op, &effect.host, &effect.address) {
        (NetEffectOp::Use, ..) | (_, None, None) => format!("{}{port}", effect.proto),
        // Beside an address, a name is only claimed.
        (_, Some(host), None) => format!("{host}{port}"),
        (_, _, Some(address)) if effect.proto == "unix" => format!("unix:{address}"),
        (_, _, Some(address)) => format!("{}{port}", bracketed(address.as_str())),
    }
}

fn summary(
    evidence: &Evidence,
    effects: &[&Effect],
    degradations: usize,
    is_reproducible: bool,
) -> Draft<'static> {
    let (mut fs, mut exec, mut net) = (0, 0, 0);
    for effect in effects {
        match effect {
            Effect::Fs(_) => fs += 1,
            Effect::Exec(_) => exec += 1,
            Effect::Net(_) => net += 1,
        }
    }
    let counts = Object::from([
        ("degradations", Value::count(degradations as u64)),
        ("exec", Value::count(exec)),
        ("fs", Value::count(fs)),
        ("net", Value::count(net)),
    ]);
    let data = Object::from([
        ("counts", counts.into()),
        ("outcome", identity::outcome_object(&evidence.identity.outcome).into()),
    ]);
    let (observed, ledger) = (&evidence.observed, &evidence.coverage.ledger);
    let mut extensions: Vec<(&'static str, Value)> = Vec::new();
    for (extension, kind) in
        [("assaycoveragefs", Kind::Fs), ("assaycoverageexec", Kind::Exec), ("assaycoveragenet", Kind::Net)]
    {
        extensions.push((extension, ledger.completeness(kind).as_str().into()));
    }
    extensions.push(("assaylost", Value::count(ledger.total_lost())));
    let mut gaps: Vec<Value> = ledger
        .gaps
        .iter()
        .map(|gap| {
            let mut object =
                Object::from([("kind", gap.kind.as_str().into()), ("reason", gap.reason.as_str().into())]);
            if !is_reproducible {
                object.set("detail", gap.detail.as_str());
            }
            object.into()
        })
        .collect();
    gaps.dedup();
    if !gaps.is_empty() {
        // An extension attribute is a string, a number or a truth value: the list is JSON text.
        extensions.push(("assaygaps", write::to_string(&gaps.into()).into()));
    }
    if !observed.not_governed.is_empty() {
        let list: Vec<Value> = observed.not_governed.iter().map(|one| one.as_str().into()).collect();
        extensions.push(("assaynotgoverned", write::to_string(&list.into()).into()));
    }
    for (extension, text) in
        [("assaydescendants", &observed.descendants), ("assayverdict", &observed.verdict)]
    {
        if !text.is_empty() {
            extensions.push((extension, text.as_str().into()));
        }
    }
    if !is_reproducible {
        if !observed.started_at.is_empty() {
            extensions.push(("assaystartedat", observed.started_at.as_str().into()));
        }
        extensions.push(("assaydurationms", Value::count(observed.duration_ms)));
    }
    Draft { kind: kind::SUMMARY, subject: None, data: canonical(data), extensions }
}

/// The part of an event that its content hash covers, as canonical JSON, in memory that is used again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// The text.
    pub text: String,
    data: Range<usize>,
}

impl Content {
    /// Begins another one: `append` adds the canonical JSON of its data.
    pub fn begin(&mut self, append: impl FnOnce(&mut String)) {
        self.text.clear();
        self.text.push_str("{\"data\":");
        let start = self.text.len();
        append(&mut self.text);
        self.data = start..self.text.len();
    }

    /// Ends it, so that the text is whole.
    pub fn end(&mut self, content_type: &str, spec_version: &str, subject: Option<&str>, kind: &str) {
        self.text.truncate(self.data.end);
        let mut append = |key: &str, value: &str| {
            self.text.push_str(key);
            write::append_string(value, &mut self.text);
        };
        append(",\"datacontenttype\":", content_type);
        append(",\"specversion\":", spec_version);
        if let Some(subject) = subject {
            append(",\"subject\":", subject);
        }
        append(",\"type\":", kind);
        self.text.push('}');
    }

    /// The canonical JSON of the data.
    pub fn data(&self) -> &str {
        &self.text[self.data.clone()]
    }
}

/// Gathers content hashes into the run root.
#[derive(Debug, Clone, Default)]
pub struct RunRoot(Sha256);

impl RunRoot {
    /// Adds the next event's content hash.
    pub fn add(&mut self, content_hash: &Digest) {
        self.0.update(content_hash.text().as_str());
        self.0.update(b"\n");
    }

    /// The run root of what was added.
    pub fn finish(self) -> Digest {
        Digest::from_raw(self.0.finalize().into())
    }
}
