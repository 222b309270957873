//! The sentences of the log that are about a user or a worker. Pure.

use super::crew::Life;
use super::limits::Had;
use super::log::{Entry, Level};
use super::report::{Over, ReportError};

/// Whom a line is about.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The worker's process.
    pub worker: u32,
    /// The user.
    pub uid: u32,
}

impl About {
    fn entry(self, level: Level, text: String) -> Entry {
        Entry::new(level, text)
            .with("ASSAY_UID", self.uid.to_string())
            .with("ASSAY_WORKER", self.worker.to_string())
    }

    /// Its command runs.
    pub fn started(self, pid: u32) -> Entry {
        self.entry(Level::Detail, format!("a run of user {} started, process {pid}", self.uid))
            .with("ASSAY_PID", pid.to_string())
    }

    /// Its run is over.
    pub fn finished(self, over: &Over) -> Entry {
        let id = over.run_id.as_deref().unwrap_or("without an id");
        let text = format!(
            "a run of user {} ended: {}, {id}, {} ms, {} records, {} lost",
            self.uid,
            over.verdict.as_str(),
            over.ms,
            over.tally.records,
            over.tally.lost
        );
        let entry = self
            .entry(Level::Note, text)
            .with("ASSAY_VERDICT", over.verdict.as_str())
            .with("ASSAY_RECORDS", over.tally.records.to_string())
            .with("ASSAY_LOST", over.tally.lost.to_string());
        match &over.run_id {
            Some(id) => entry.with("ASSAY_RUN_ID", id),
            None => entry,
        }
    }

    /// No run came of its connection.
    pub fn refused(self, reason: &str) -> Entry {
        self.entry(Level::Note, format!("user {} is not served: {reason}", self.uid))
    }

    /// It reported what is no report.
    pub fn unbelieved(self, error: &ReportError) -> Entry {
        self.entry(Level::Warning, format!("worker {} of user {}: {error}", self.worker, self.uid))
    }

    /// It ended without saying what came of its connection.
    pub fn died(self, life: Life, had: Had) -> Entry {
        let how = match life {
            Life::Killed(number) => format!("was ended by signal {number}"),
            Life::Exited(code) => format!("ended with code {code}"),
            Life::Living => "is gone".to_owned(),
        };
        let what = match had {
            Had::Waited => "before it started a run",
            Had::Run => "before its run was recorded",
        };
        self.entry(Level::Warning, format!("worker {} of user {} {how} {what}", self.worker, self.uid))
    }
}

/// Somebody connected and gets no worker, as `before` times since it was said last.
pub fn refused(uid: u32, word: &'static str, why: &str, before: u64) -> Entry {
    let more = if before == 0 { String::new() } else { format!(", as {before} times before") };
    Entry::new(Level::Note, format!("user {uid} is not served: {why}{more}"))
        .with("ASSAY_UID", uid.to_string())
        .with("ASSAY_REFUSED", word)
}
