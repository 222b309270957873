//! A verified bundle → an in-toto Statement about it, unsigned, and back: does a statement speak of this bundle. Pure.
//!
//! The predicate is the runtime-trace type of in-toto: programs and connections in full up to a limit, files not, since
//! the predicate wants digests that nobody took; the bundle named by the subject has them all.

use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::canon::write;
use crate::evidence::verify::{Event, Verified};
use crate::evidence::view::{Content, View};

/// The type of the statement.
pub const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// The type of the predicate.
pub const PREDICATE: &str = "https://in-toto.io/attestation/runtime-trace/v0.1";
/// The type of the monitor.
pub const MONITOR: &str = "urn:assay:sandbox";
/// The type of what was monitored.
pub const PROCESS: &str = "urn:assay:command";

/// How many programs, and how many connections, are told one by one.
pub const MOST: usize = 10_000;

/// Gathers what a statement holds while the bundle is read.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    process: Vec<Value>,
    network: Vec<Value>,
    omitted: u64,
    started: Option<Object>,
    summary: Option<Object>,
}

impl Draft {
    /// Takes one event in.
    pub fn add(&mut self, event: &Event) {
        let view = View::new(event);
        let (list, entry) = match view.content {
            Content::Started => {
                self.started.get_or_insert_with(|| event.object.clone());
                return;
            }
            Content::Summary => {
                self.summary.get_or_insert_with(|| event.object.clone());
                return;
            }
            Content::Exec { path } => {
                let digest = event.data().and_then(|data| data.str("sha256"));
                let mut entry =
                    Object::from([("processBinary", path.into()), ("eventType", "process".into())]);
                let hex = digest.and_then(|digest| digest.strip_prefix("sha256:"));
                entry.set_some("digest", hex.map(|hex| Object::from([("sha256", hex.into())])));
                (&mut self.process, entry)
            }
            Content::Net { op, proto, host, address, port } => {
                let mut entry = Object::from([("operation", op.into()), ("protocol", proto.into())]);
                entry.set_some("hostname", host);
                entry.set_some("port", port.map(Value::count));
                let is_ip = address.is_some_and(|address| address.parse::<std::net::IpAddr>().is_ok());
                entry.set_some(if is_ip { "ip" } else { "address" }, address);
                (&mut self.network, entry)
            }
            _ => return,
        };
        if list.len() == MOST {
            self.omitted += 1;
            return;
        }
        let mut entry = entry;
        entry.set("result", if view.is_denied() { "denied" } else { "ok" });
        list.push(entry.into());
    }

    /// The statement about the bundle of this name, as canonical JSON.
    pub fn finish(self, verified: &Verified, name: &str) -> Vec<u8> {
        let manifest = &verified.manifest;
        let summary = self.summary.unwrap_or_default();
        let started = self.started.unwrap_or_default();
        let coverage = ["fs", "exec", "net"]
            .map(|kind| (kind, summary.str(&format!("assaycoverage{kind}")).unwrap_or("unstated").into()));
        let mut run = Object::from([
            ("coverage", Object::from(coverage).into()),
            ("event_count", Value::count(manifest.event_count)),
            ("lost", summary.get("assaylost").cloned().unwrap_or(Value::Null)),
            ("run_id", manifest.run_id.as_str().into()),
            ("run_root", manifest.run_root.to_string().into()),
        ]);
        run.set_some("verdict", summary.str("assayverdict"));
        run.set_some("gaps", summary.str("assaygaps").and_then(|gaps| read::parse(gaps.as_bytes()).ok()));
        let outcome = summary.get("data").and_then(Value::as_object).and_then(|data| data.get("outcome"));
        run.set_some("outcome", outcome.cloned());
        if self.omitted > 0 {
            run.set("omitted", Value::count(self.omitted));
        }
        let mut monitor =
            Object::from([("type", MONITOR.into()), ("version", manifest.producer_version.as_str().into())]);
        let policy = started.str("assaypolicydigest");
        let mode = started.str("assaymode");
        if policy.is_some() || mode.is_some() {
            let mut trace_policy = Object::new();
            trace_policy.set_some("mode", mode);
            trace_policy.set_some("policyDigest", policy);
            monitor.set("tracePolicy", trace_policy);
        }
        let host = started.str("assaykernel").map_or_else(
            || "urn:assay:host:unknown".to_owned(),
            |kernel| format!("urn:assay:host:linux-{}", kernel.replace(|c: char| !c.is_ascii_graphic(), "-")),
        );
        let mut predicate = Object::from([
            ("assay", run.into()),
            ("monitor", monitor.into()),
            (
                "monitorLog",
                Object::from([("network", self.network.into()), ("process", self.process.into())]).into(),
            ),
            (
                "monitoredProcess",
                Object::from([
                    ("event", manifest.run_id.as_str().into()),
                    ("hostID", host.into()),
                    ("type", PROCESS.into()),
                ])
                .into(),
            ),
        ]);
        if let Some(started_at) = summary.str("assaystartedat") {
            predicate.set("metadata", Object::from([("buildStartedOn", started_at.into())]));
        }
        let digest = Object::from([("sha256", verified.archive.sha256.hex().into())]);
        let subject = Object::from([("digest", digest.into()), ("name", name.into())]);
        let statement = Object::from([
            ("_type", STATEMENT.into()),
            ("predicate", predicate.into()),
            ("predicateType", PREDICATE.into()),
            ("subject", vec![subject.into()].into()),
        ]);
        write::to_string(&statement.into()).into_bytes()
    }
}

/// Why a statement does not speak of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// It is not strict JSON.
    #[error("read the statement: {0}")]
    Json(#[from] read::ReadError),
    /// It lacks something.
    #[error("read the statement: {0}: absent, or not of the right form")]
    Form(&'static str),
    /// It is about something else.
    #[error("check the statement: {0} is not that of the bundle")]
    Other(&'static str),
}

/// Whether a statement speaks of this bundle: its digest is among the subjects, and run id and run root, where they
/// are said, are its own.
pub fn check(payload: &[u8], verified: &Verified) -> Result<(), StatementError> {
    let value = read::parse(payload)?;
    let statement = value.as_object().ok_or(StatementError::Form("the statement"))?;
    if statement.str("_type") != Some(STATEMENT) {
        return Err(StatementError::Form("_type"));
    }
    if statement.str("predicateType") != Some(PREDICATE) {
        return Err(StatementError::Form("predicateType"));
    }
    let subjects =
        statement.get("subject").and_then(Value::as_array).ok_or(StatementError::Form("subject"))?;
    let digest = verified.archive.sha256.hex();
    let is_about = subjects.iter().any(|subject| {
        let digests =
            subject.as_object().and_then(|subject| subject.get("digest")).and_then(Value::as_object);
        digests.and_then(|digests| digests.str("sha256")) == Some(digest.as_str())
    });
    if !is_about {
        return Err(StatementError::Other("the subject's digest"));
    }
    let predicate =
        statement.get("predicate").and_then(Value::as_object).ok_or(StatementError::Form("predicate"))?;
    let run =
        predicate.get("assay").and_then(Value::as_object).ok_or(StatementError::Form("predicate.assay"))?;
    if run.str("run_id") != Some(&verified.manifest.run_id) {
        return Err(StatementError::Other("the run id"));
    }
    if run.str("run_root") != Some(verified.manifest.run_root.to_string().as_str()) {
        return Err(StatementError::Other("the run root"));
    }
    Ok(())
}
