//! Goes through the lines of a chain and says what is wrong with it. Pure.
//!
//! Each entry names the one before by the digest of its line. Bytes that are no entry are good only where the next entry
//! tells them as torn.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use super::entry::wire::{LineError, LineReader};
use super::entry::{Body, Entry, Torn};
use super::fault::{Code, Fault};
use super::lines::Line;
use crate::canon::digest::Digest;

/// What the first entry names as the one before.
pub fn nothing() -> Digest {
    Digest::of(b"")
}

/// An entry, and the digest of its line: what the next one names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its place.
    pub seq: u64,
    /// Of its line.
    pub sha256: Digest,
}

/// On the way through a chain.
#[derive(Debug)]
pub struct Walk {
    reader: LineReader,
    wanted: Option<Digest>,
    head: Option<Head>,
    region: Option<Region>,
    torn: Vec<Torn>,
    seqs: Vec<u64>,
    /// Where a place does not follow: the one before, where there is one, and the one there.
    jumps: Vec<(Option<u64>, u64)>,
    faults: Vec<Fault>,
}

/// Bytes that are no entry.
#[derive(Debug)]
struct Region {
    hasher: Sha256,
    bytes: u64,
    offset: u64,
    is_ended: bool,
    /// Whether all of its bytes were there to be hashed.
    is_hashed: bool,
    why: LineError,
}

/// A chain that was gone through.
#[derive(Debug)]
pub struct Walked {
    /// Its last entry.
    pub head: Option<Head>,
    /// How many entries it has.
    pub entries: u64,
    /// Writers that were stopped half way, each closed by the next.
    pub torn: Vec<Torn>,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

impl Walk {
    /// A way through a chain that must have this line, where one is wanted.
    pub fn new(wanted: Option<Digest>) -> Self {
        Self {
            reader: LineReader::default(),
            wanted,
            head: None,
            region: None,
            torn: Vec::new(),
            seqs: Vec::new(),
            jumps: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// The last entry so far.
    pub fn head(&self) -> Option<Head> {
        self.head
    }

    /// What stands behind the last entry and is none, so far, with the line feed that ends it.
    pub fn torn_end(&self) -> Option<Torn> {
        self.region.as_ref().map(|region| {
            let mut hasher = region.hasher.clone();
            hasher.update(if region.is_ended { b"".as_slice() } else { b"\n" });
            let sha256 = Digest::from_raw(hasher.finalize().into());
            Torn { sha256, bytes: region.bytes + u64::from(!region.is_ended) }
        })
    }

    /// Takes the next line. What is no whole entry is none.
    pub fn add(&mut self, line: &Line<'_>) -> Option<Entry> {
        // An entry that only lacks its line feed is whole: no beginning of an entry is one.
        let entry = match self.reader.read(line.bytes) {
            Ok(entry) => entry,
            Err(why) => return self.extend(line, why),
        };
        self.close_region(&entry);
        self.hold_to_the_one_before(&entry);
        self.seqs.push(entry.seq);
        self.head = Some(Head { seq: entry.seq, sha256: line.sha256 });
        if self.wanted == Some(line.sha256) {
            self.wanted = None;
        }
        Some(entry)
    }

    fn extend(&mut self, line: &Line<'_>, why: LineError) -> Option<Entry> {
        let region = self.region.get_or_insert_with(|| Region {
            hasher: Sha256::new(),
            bytes: 0,
            offset: line.offset,
            is_ended: false,
            is_hashed: true,
            why,
        });
        // No writer of ours leaves a line as long as that behind: no entry can tell it as torn.
        region.is_hashed &= line.bytes.len() as u64 == line.length;
        region.is_ended = line.is_ended;
        region.hasher.update(line.bytes);
        region.hasher.update(if line.is_ended { b"\n".as_slice() } else { b"" });
        region.bytes += line.length + u64::from(line.is_ended);
        None
    }

    fn close_region(&mut self, entry: &Entry) {
        let Some(region) = self.region.take() else {
            if let Body::Torn(torn) = &entry.body {
                let detail = format!("it tells {} torn bytes, and there are none", torn.bytes);
                self.faults.push(Fault::of(Code::Line, entry.seq, detail));
            }
            return;
        };
        let there = region.torn();
        if region.is_hashed && matches!(&entry.body, Body::Torn(torn) if *torn == there) {
            self.torn.push(there);
        } else {
            let detail =
                format!("{} bytes at byte {} are no entry: {}", there.bytes, region.offset, region.why);
            self.faults.push(Fault::new(Code::Line, detail));
        }
    }

    fn hold_to_the_one_before(&mut self, entry: &Entry) {
        match self.head {
            None if entry.seq == 0 => {
                match &entry.body {
                    Body::Begun => {}
                    Body::BegunAnew { found } => {
                        let detail = format!("{found} directories of runs were there already");
                        self.faults.push(Fault::of(Code::BegunAnew, 0, detail));
                    }
                    Body::Run(_) | Body::Lost(_) | Body::Collected(_) | Body::Torn(_) => {
                        let detail = format!("the first entry says {}", entry.body.kind());
                        self.faults.push(Fault::of(Code::Begin, 0, detail));
                    }
                }
                if entry.prev != nothing() {
                    self.faults.push(Fault::of(Code::Begin, 0, "the first entry names one before it"));
                }
            }
            None => self.jumps.push((None, entry.seq)),
            Some(head) if Some(entry.seq) == head.seq.checked_add(1) => {
                if entry.prev != head.sha256 {
                    let detail =
                        format!("entry {} names {}, the line is {}", entry.seq, entry.prev, head.sha256);
                    self.faults.push(Fault::of(Code::Edited, head.seq, detail));
                }
            }
            Some(head) => self.jumps.push((Some(head.seq), entry.seq)),
        }
    }

    /// What came of it.
    pub fn finish(mut self) -> Walked {
        if let Some(region) = &self.region {
            let detail = format!("{} bytes at byte {}: {}", region.bytes, region.offset, region.why);
            self.faults.push(Fault::new(Code::Torn, detail));
        }
        if self.seqs.is_empty() {
            self.faults.push(Fault::new(Code::Missing, "no entry is there"));
        }
        let there: BTreeSet<u64> =
            if self.jumps.is_empty() { BTreeSet::new() } else { self.seqs.iter().copied().collect() };
        for (before, seq) in std::mem::take(&mut self.jumps) {
            let first = before.map_or(0, |before| before.saturating_add(1));
            let place = before
                .map_or_else(|| "at the beginning".to_owned(), |before| format!("behind entry {before}"));
            let fault = if seq < first {
                Fault::of(Code::Reordered, seq, format!("it stands {place}"))
            } else if (first..seq).all(|gone| there.contains(&gone)) {
                Fault::of(
                    Code::Reordered,
                    seq,
                    format!("it stands {place}, and those between stand elsewhere"),
                )
            } else {
                let code = if before.is_none() { Code::Begin } else { Code::Deleted };
                Fault::of(
                    code,
                    seq,
                    format!("it stands {place}: entries {first} to {} are not there", seq - 1),
                )
            };
            self.faults.push(fault);
        }
        if let Some(wanted) = self.wanted {
            self.faults.push(Fault::new(Code::RolledBack, format!("no line has {wanted}")));
        }
        Walked { head: self.head, entries: self.seqs.len() as u64, torn: self.torn, faults: self.faults }
    }
}

impl Region {
    fn torn(&self) -> Torn {
        Torn { sha256: Digest::from_raw(self.hasher.clone().finalize().into()), bytes: self.bytes }
    }
}

#[cfg(test)]
mod tests;
