//! Evidence → events (`CloudEvents` 1.0), one canonical line each, with content hashes and the run root. Pure.
//!
//! `data` holds what the identity holds, and the programs' digests; whatever else is true of one run only is an
//! extension attribute, which the content hash does not cover.

use sha2::{Digest as _, Sha256};

use crate::canon::digest::Digest;
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::timestamp::Timestamp;
use crate::evidence::{CANONICALIZER, Evidence, identity};
use crate::observe::loss::Kind;
use crate::profile::effect::{Effect, NetEffect, NetEffectOp, Port};

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
    /// The content hash, as it stands in the line.
    pub content_hash: String,
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
    visit(composer.compose(started(evidence)))?;
    for effect in &effects {
        visit(composer.compose(effect_draft(evidence, effect, emission.is_reproducible)))?;
    }
    for degradation in &degradations {
        visit(composer.compose(Draft {
            kind: kind::DEGRADED,
            subject: degradation.detail.clone(),
            data: identity::degradation_object(degradation),
            extensions: Vec::new(),
        }))?;
    }
    visit(composer.compose(summary(evidence, &effects, degradations.len(), emission.is_reproducible)))?;
    visit(composer.compose(Draft {
        kind: kind::FINISHED,
        subject: None,
        data: Object::from([("outcome", identity::outcome_object(&evidence.identity.outcome).into())]),
        extensions: Vec::new(),
    }))
}

struct Draft {
    kind: &'static str,
    subject: Option<String>,
    data: Object,
    extensions: Vec<(&'static str, Value)>,
}

fn started(evidence: &Evidence) -> Draft {
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
    Draft { kind: kind::STARTED, subject: None, data, extensions }
}

fn effect_draft(evidence: &Evidence, effect: &Effect, is_reproducible: bool) -> Draft {
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
        }
    }
    match effect {
        Effect::Fs(effect) => Draft {
            kind: kind::FS,
            subject: Some(effect.path.as_str().to_owned()),
            data: identity::fs_object(effect),
            extensions,
        },
        Effect::Exec(effect) => {
            let mut data = identity::exec_object(effect);
            match evidence.observed.programs.get(effect.path.as_str()) {
                Some(Ok(digest)) => data.set("sha256", digest.to_string()),
                Some(Err(why)) => extensions.push(("assaydigesterror", why.as_str().into())),
                None => {}
            }
            Draft { kind: kind::EXEC, subject: Some(effect.path.as_str().to_owned()), data, extensions }
        }
        Effect::Net(effect) => Draft {
            kind: kind::NET,
            subject: Some(endpoint(effect)),
            data: identity::net_object(effect),
            extensions,
        },
    }
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
        (_, Some(host), _) => format!("{host}{port}"),
        (_, None, Some(address)) if effect.proto == "unix" => format!("unix:{address}"),
        (_, None, Some(address)) if address.as_str().contains(':') => format!("[{address}]{port}"),
        (_, None, Some(address)) => format!("{address}{port}"),
    }
}

fn summary(evidence: &Evidence, effects: &[&Effect], degradations: usize, is_reproducible: bool) -> Draft {
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
    Draft { kind: kind::SUMMARY, subject: None, data, extensions }
}

/// The part of an event that its content hash covers, as canonical JSON.
pub fn content(
    data: &str,
    content_type: &str,
    spec_version: &str,
    subject: Option<&str>,
    kind: &str,
) -> String {
    let mut out = String::with_capacity(data.len() + 160);
    out.push_str("{\"data\":");
    out.push_str(data);
    out.push_str(",\"datacontenttype\":");
    write::append_string(content_type, &mut out);
    out.push_str(",\"specversion\":");
    write::append_string(spec_version, &mut out);
    if let Some(subject) = subject {
        out.push_str(",\"subject\":");
        write::append_string(subject, &mut out);
    }
    out.push_str(",\"type\":");
    write::append_string(kind, &mut out);
    out.push('}');
    out
}

/// Composes lines of one run; keeps what they have in common.
struct Composer<'a> {
    run_id: &'a str,
    common: Vec<(&'static str, String)>,
    sequence: u64,
    members: Vec<(&'static str, String)>,
    line: Line,
}

impl<'a> Composer<'a> {
    fn new(run_id: &'a str, emission: &Emission) -> Self {
        let text = |text: &str| write::to_string(&text.into());
        let common = vec![
            ("assaygit", text(&emission.git)),
            ("assaypii", "false".to_owned()),
            ("assayproducer", text(&emission.producer)),
            ("assayproducerversion", text(&emission.version)),
            ("assayrunid", text(run_id)),
            ("assaysecrets", "false".to_owned()),
            ("datacontenttype", text(CONTENT_TYPE)),
            ("source", text(SOURCE)),
            ("specversion", text(SPEC_VERSION)),
            ("time", text(&emission.time.to_string())),
        ];
        let line = Line { bytes: String::new(), content_hash: String::new() };
        Self { run_id, common, sequence: 0, members: Vec::new(), line }
    }

    fn compose(&mut self, draft: Draft) -> &Line {
        let data = write::to_string(&Value::Object(draft.data));
        let content = content(&data, CONTENT_TYPE, SPEC_VERSION, draft.subject.as_deref(), draft.kind);
        self.line.content_hash = Digest::of(content.as_bytes()).to_string();

        let mut own = vec![
            ("assaycontenthash", quoted(&self.line.content_hash)),
            ("assayseq", self.sequence.to_string()),
            ("data", data),
            ("id", quoted(&format!("{}:{}", self.run_id, self.sequence))),
            ("type", quoted(draft.kind)),
        ];
        own.extend(draft.subject.map(|subject| ("subject", quoted(&subject))));
        own.extend(draft.extensions.into_iter().map(|(key, value)| (key, write::to_string(&value))));
        self.members.clear();
        self.members.append(&mut own);
        self.members.extend(self.common.iter().cloned());
        // Attribute names are ASCII, where the order of bytes is that of RFC 8785.
        self.members.sort_unstable_by_key(|(key, _)| *key);

        let bytes = &mut self.line.bytes;
        bytes.clear();
        for (at, (key, value)) in self.members.iter().enumerate() {
            bytes.push(if at == 0 { '{' } else { ',' });
            bytes.push('"');
            bytes.push_str(key);
            bytes.push_str("\":");
            bytes.push_str(value);
        }
        bytes.push_str("}\n");
        self.sequence += 1;
        &self.line
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write::append_string(text, &mut out);
    out
}

/// Gathers content hashes into the run root.
#[derive(Debug, Clone, Default)]
pub struct RunRoot(Sha256);

impl RunRoot {
    /// Adds the next event's content hash.
    pub fn add(&mut self, content_hash: &str) {
        self.0.update(content_hash.as_bytes());
        self.0.update(b"\n");
    }

    /// The run root of what was added.
    pub fn finish(self) -> Digest {
        Digest::from_raw(self.0.finalize().into())
    }
}
