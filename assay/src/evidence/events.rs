//! Evidence → events (`CloudEvents` 1.0), one canonical line each, with content hashes and the run root. Pure.
//!
//! `data` holds what the identity holds, and the programs' digests; whatever else is true of one run only is an
//! extension attribute, which the content hash does not cover.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use sha2::{Digest as _, Sha256};

use crate::canon::digest::Digest;
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::timestamp::Timestamp;
use crate::evidence::{CANONICALIZER, Evidence, identity, peer};
use crate::observe::loss::Kind;
use crate::profile::effect::{Effect, NetEffect, NetEffectOp, Port, bracketed};

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
    for effect in &effects {
        visit(composer.compose(&effect_draft(evidence, effect, emission.is_reproducible)))?;
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

fn effect_draft<'a>(evidence: &Evidence, effect: &'a Effect, is_reproducible: bool) -> Draft<'a> {
    let mut extensions = Vec::new();
    if let Some(facts) = evidence.observed.effects.get(effect) {
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
    let mut data = String::with_capacity(160);
    flat.append(&mut data);
    let (kind, subject) = match effect {
        Effect::Fs(effect) => (kind::FS, effect.path.as_str().into()),
        Effect::Exec(effect) => (kind::EXEC, effect.path.as_str().into()),
        Effect::Net(effect) => (kind::NET, endpoint(effect).into()),
    };
    Draft { kind, subject: Some(subject), data, extensions }
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

/// Composes lines of one run; keeps what they have in common, and the memory they are made in.
struct Composer<'a> {
    run_id: &'a str,
    /// Attributes and where their values stand in `values`: first those of every line, then those of this one.
    members: Vec<(&'static str, Range<usize>)>,
    values: String,
    common_members: Vec<(&'static str, Range<usize>)>,
    common_bytes: usize,
    content: Content,
    sequence: u64,
    line: Line,
}

impl<'a> Composer<'a> {
    fn new(run_id: &'a str, emission: &Emission) -> Self {
        let mut composer = Self {
            run_id,
            members: Vec::new(),
            values: String::new(),
            common_members: Vec::new(),
            common_bytes: 0,
            content: Content::default(),
            sequence: 0,
            line: Line { bytes: String::new(), content_hash: Digest::from_raw([0; 32]) },
        };
        let time = emission.time.to_string();
        for (key, text) in [
            ("assaygit", emission.git.as_str()),
            ("assayproducer", &emission.producer),
            ("assayproducerversion", &emission.version),
            ("assayrunid", run_id),
            ("datacontenttype", CONTENT_TYPE),
            ("source", SOURCE),
            ("specversion", SPEC_VERSION),
            ("time", &time),
        ] {
            composer.member(key, |out| write::append_string(text, out));
        }
        for key in ["assaypii", "assaysecrets"] {
            composer.member(key, |out| out.push_str("false"));
        }
        composer.common_members.clone_from(&composer.members);
        composer.common_bytes = composer.values.len();
        composer
    }

    fn member(&mut self, key: &'static str, append: impl FnOnce(&mut String)) {
        let start = self.values.len();
        append(&mut self.values);
        self.members.push((key, start..self.values.len()));
    }

    fn compose(&mut self, draft: &Draft<'_>) -> &Line {
        let subject = draft.subject.as_deref();
        self.content.begin(|out| out.push_str(&draft.data));
        self.content.end(CONTENT_TYPE, SPEC_VERSION, subject, draft.kind);
        self.line.content_hash = Digest::of(self.content.text.as_bytes());

        self.members.clone_from(&self.common_members);
        self.values.truncate(self.common_bytes);
        let (run_id, sequence, hash) = (self.run_id, self.sequence, self.line.content_hash.text());
        self.member("assaycontenthash", |out| write::append_string(hash.as_str(), out));
        self.member("assayseq", |out| append_number(sequence, out));
        self.member("data", |out| out.push_str(&draft.data));
        self.member("id", |out| {
            write::append_string(run_id, out);
            out.pop();
            out.push(':');
            append_number(sequence, out);
            out.push('"');
        });
        self.member("type", |out| write::append_string(draft.kind, out));
        if let Some(subject) = subject {
            self.member("subject", |out| write::append_string(subject, out));
        }
        for (key, value) in &draft.extensions {
            self.member(key, |out| write::append(value, out));
        }
        // Attribute names are ASCII, where the order of bytes is that of RFC 8785.
        self.members.sort_unstable_by_key(|(key, _)| *key);

        let bytes = &mut self.line.bytes;
        bytes.clear();
        for (at, (key, value)) in self.members.iter().enumerate() {
            bytes.push_str(if at == 0 { "{\"" } else { ",\"" });
            bytes.push_str(key);
            bytes.push_str("\":");
            bytes.push_str(&self.values[value.clone()]);
        }
        bytes.push_str("}\n");
        self.sequence += 1;
        &self.line
    }
}

fn append_number(number: u64, out: &mut String) {
    write!(out, "{number}").expect("writing to a String cannot fail");
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
