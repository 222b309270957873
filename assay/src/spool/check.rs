//! Holds a spool to its chain: every line, every file, every bundle. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use rustix::fs::OFlags;

use super::chain::{Head, Walk};
use super::directory::{Directory, Synced, lock_for_reading};
use super::entry::{BUNDLE, Body, Entry, Files};
use super::error::SpoolError;
use super::fault::{Code, Fault};
use super::store::Spool;
use crate::canon::digest::Digest;
use crate::evidence::integrity::{Limits, shown};
use crate::evidence::signature::PublicKey;
use crate::evidence::verify::verify;

/// What came of it.
#[derive(Debug, Default)]
pub struct Check {
    /// The last entry.
    pub head: Option<Head>,
    /// How many entries there are.
    pub entries: u64,
    /// How many of them tell a run.
    pub runs: u64,
    /// How many runs were collected.
    pub collected: u64,
    /// How many files were read.
    pub files: u64,
    /// How many bundles were verified.
    pub bundles: u64,
    /// How many signatures of the keys there are.
    pub signatures: u64,
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// What is worth saying, and is not wrong.
    pub notes: Vec<String>,
}

/// A run whose files are to be there.
struct Expected {
    seq: u64,
    directory: String,
    files: Files,
    not_whole: Vec<String>,
    run_id: Option<String>,
}

/// What the chain says, all of it at one moment.
#[derive(Default)]
struct Said {
    runs: Vec<Expected>,
    /// The digest of each line, by the place of its entry.
    lines: BTreeMap<u64, Digest>,
    collected: BTreeSet<u64>,
    lost: u64,
    /// What lies among the runs, and among those in progress.
    among_runs: Vec<Result<String, String>>,
    in_progress: Vec<Result<String, String>>,
}

impl Spool {
    /// Checks it. A line that was noted as the last one must be in the chain, where one is given.
    /// Where keys are given, the host's signatures must vouch for the chain.
    pub fn check(&self, noted: Option<Digest>, keys: &[PublicKey]) -> Result<Check, SpoolError> {
        let mut check = Check::default();
        let (said, end) = self.listen(noted, &mut check)?;
        if !keys.is_empty() {
            let (signatures, faults) = self.check_signatures(keys, &said.lines)?;
            check.signatures = signatures.good;
            check.faults.extend(faults);
            if signatures.others > 0 {
                check
                    .notes
                    .push(format!("{} lines of signatures are of none of the keys", signatures.others));
            }
        }
        let by_name: BTreeMap<&str, &Expected> =
            said.runs.iter().map(|run| (run.directory.as_str(), run)).collect();
        let of_runs = check.faults.len();
        for run in said.runs.iter().filter(|run| !said.collected.contains(&run.seq)) {
            self.check_run(run, &mut check);
        }
        let mut left_over = 0;
        for name in &said.among_runs {
            let known = name.as_ref().ok().and_then(|name| by_name.get(name.as_str()));
            if let Some(run) = known {
                left_over += u64::from(said.collected.contains(&run.seq));
            } else {
                let name = name.as_ref().map_or_else(Clone::clone, |name| shown(name.as_bytes()));
                check.faults.push(Fault::new(Code::RunExtra, format!("runs/{name}")));
            }
        }
        self.forgive_collected(end, of_runs, &mut check)?;
        let note = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let unsettled =
            said.in_progress.iter().flatten().filter(|name| by_name.contains_key(name.as_str())).count()
                as u64;
        check
            .notes
            .extend(note(said.lost, "runs were lost: their writers died, and the records are not whole"));
        check.notes.extend(note(
            said.in_progress.len() as u64 - unsettled,
            "runs are in progress, or were left by a writer that died",
        ));
        check.notes.extend(note(unsettled, "runs are in the chain and not yet moved from `open`"));
        check.notes.extend(note(
            left_over,
            "runs were collected and their directories are still there; the next collection removes them",
        ));
        check.faults.sort();
        Ok(check)
    }

    /// Goes through the chain while nobody appends, and lists the directories as they are then. Says how far it came.
    fn listen(&self, noted: Option<Digest>, check: &mut Check) -> Result<(Said, u64), SpoolError> {
        let mut said = Said::default();
        let mut walk = Walk::new(noted);
        let mut end = 0;
        let chain = self.chain_from(0)?;
        let list =
            |directory: &Directory| directory.names().map_err(|error| self.failed("list a directory", error));
        if let Some((_, mut lines)) = chain {
            lock_for_reading(lines.input().get_ref())
                .map_err(|error| self.failed("lock the chain", error))?;
            while let Some(line) = lines.read().map_err(|error| self.failed("read the chain", error))? {
                end = line.offset + line.length + u64::from(line.is_ended);
                if let Some(entry) = walk.add(&line) {
                    said.lines.insert(entry.seq, line.sha256);
                    said.add(entry);
                }
            }
            said.among_runs = list(&self.inner.runs)?;
        } else {
            said.among_runs = list(&self.inner.runs)?;
        }
        said.in_progress = list(&self.inner.open)?;
        let walked = walk.finish();
        check.head = walked.head;
        check.entries = walked.entries;
        check.runs = said.runs.len() as u64;
        check.collected = said.runs.iter().filter(|run| said.collected.contains(&run.seq)).count() as u64;
        check.faults = walked.faults;
        if !walked.torn.is_empty() {
            let count = walked.torn.len();
            check
                .notes
                .push(format!("{count} writers were stopped half way through a line; an entry tells each"));
        }
        Ok((said, end))
    }

    fn check_run(&self, run: &Expected, check: &mut Check) {
        let inner = &self.inner;
        let opened = inner.runs.open_directory(&run.directory).or_else(|error| {
            // It is in the chain before it is moved.
            inner.open.open_directory(&run.directory).map_err(|_| error)
        });
        let directory = match opened {
            Ok(directory) => directory,
            Err(error) => {
                let detail = format!("runs/{}: {error}", run.directory);
                return check.faults.push(Fault::of(Code::RunMissing, run.seq, detail));
            }
        };
        let place = |name: &str| format!("runs/{}/{name}", run.directory);
        for (name, expected) in &run.files {
            check.files += 1;
            let found = match directory.measure(name, Synced::No) {
                Ok(found) => found,
                Err(error) => {
                    let is_gone = error.kind() == std::io::ErrorKind::NotFound;
                    let code = if is_gone { Code::FileMissing } else { Code::FileChanged };
                    check.faults.push(Fault::of(code, run.seq, format!("{}: {error}", place(name))));
                    continue;
                }
            };
            if found != *expected {
                let still = if name == BUNDLE { told_of_bundle(&directory) } else { String::new() };
                let detail = format!(
                    "{}: {} of {} bytes, the entry names {} of {}{still}",
                    place(name),
                    found.sha256,
                    found.bytes,
                    expected.sha256,
                    expected.bytes
                );
                check.faults.push(Fault::of(Code::FileChanged, run.seq, detail));
            } else if name == BUNDLE && !run.not_whole.contains(name) {
                check.bundles += 1;
                check.faults.extend(bundle_fault(&directory, run, &place(name)));
            }
        }
        match directory.names() {
            Err(error) => {
                check.faults.push(Fault::of(Code::RunMissing, run.seq, format!("{}: {error}", place(""))));
            }
            Ok(names) => {
                for name in names {
                    let is_known = name.as_ref().is_ok_and(|name| run.files.contains_key(name));
                    if !is_known {
                        let name = name.as_ref().map_or_else(Clone::clone, |name| shown(name.as_bytes()));
                        check.faults.push(Fault::of(Code::FileExtra, run.seq, place(&name)));
                    }
                }
            }
        }
    }

    /// Runs that were collected while they were checked are not missing.
    fn forgive_collected(&self, from: u64, first: usize, check: &mut Check) -> Result<(), SpoolError> {
        if check.faults.len() == first {
            return Ok(());
        }
        let Some((_, mut lines)) = self.chain_from(from)? else { return Ok(()) };
        let mut walk = Walk::new(None);
        let mut collected = BTreeSet::new();
        while let Some(line) = lines.read().map_err(|error| self.failed("read the chain", error))? {
            if let Some(Entry { body: Body::Collected(one), .. }) = walk.add(&line) {
                collected.extend(one.runs);
            }
        }
        let is_of_a_run = |fault: &Fault| fault.seq.is_some_and(|seq| collected.contains(&seq));
        let of_runs = check.faults.split_off(first);
        check.faults.extend(of_runs.into_iter().filter(|fault| !is_of_a_run(fault)));
        Ok(())
    }
}

impl Said {
    fn add(&mut self, entry: Entry) {
        let seq = entry.seq;
        match entry.body {
            Body::Run(run) => self.runs.push(Expected {
                seq,
                directory: run.directory,
                files: run.files,
                not_whole: Vec::new(),
                run_id: run.summary.run_id,
            }),
            Body::Lost(lost) => {
                self.lost += 1;
                self.runs.push(Expected {
                    seq,
                    directory: lost.directory,
                    files: lost.files,
                    not_whole: lost.not_whole,
                    run_id: None,
                });
            }
            Body::Collected(collected) => self.collected.extend(collected.runs),
            Body::Begun | Body::BegunAnew { .. } | Body::Torn(_) => {}
        }
    }
}

fn bundle_fault(directory: &Directory, run: &Expected, place: &str) -> Option<Fault> {
    let fault = |code, detail: String| Some(Fault::of(code, run.seq, format!("{place}: {detail}")));
    let file = match directory.open_file(BUNDLE, OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) => return fault(Code::FileMissing, error.to_string()),
    };
    match (verify(file, Limits::FORMAT, |_, _| {}), &run.run_id) {
        (Err(failure), _) => fault(Code::Bundle, failure.to_string()),
        (Ok(verified), Some(run_id)) if verified.manifest.run_id != *run_id => fault(
            Code::RunId,
            format!("{}, the entry says {run_id}", shown(verified.manifest.run_id.as_bytes())),
        ),
        (Ok(_), _) => None,
    }
}

/// What a bundle is that is not the one of its entry, for a person: packed anew, or of another run.
fn told_of_bundle(directory: &Directory) -> String {
    let Ok(file) = directory.open_file(BUNDLE, OFlags::RDONLY) else { return String::new() };
    match verify(file, Limits::FORMAT, |_, _| {}) {
        Ok(verified) => {
            format!("; what is there is a good bundle of {}", shown(verified.manifest.run_id.as_bytes()))
        }
        Err(failure) => format!("; what is there is no good bundle: {}", failure.code),
    }
}
