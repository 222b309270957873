//! The host's key in a spool: signs what was appended, and its signatures are held against the chain.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use rustix::fs::OFlags;

use super::chain::Head;
use super::error::SpoolError;
use super::fault::{Code, Fault};
use super::lines::Lines;
use super::signed;
use super::store::Spool;
use crate::canon::digest::Digest;
use crate::evidence::signature::{PublicKey, SigningKey};

/// The name of the private key.
pub const KEY: &str = "host.key";
/// The name of the file of signatures.
pub const SIGNATURES: &str = "signatures.ndjson";

/// No key is longer.
const MOST_KEY_BYTES: u64 = 64 << 10;

impl Spool {
    /// The host's key, where there is one.
    pub(super) fn host_key(&self) -> Result<Option<SigningKey>, SpoolError> {
        let refuse = |why: String| SpoolError::NotOurs { spool: self.inner.path.join(KEY), why };
        let root = &self.inner.root;
        let file = match root.open_file(KEY, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| self.failed(&format!("open {KEY}"), error))?,
        };
        let stat =
            rustix::fs::fstat(&file).map_err(|error| self.failed(&format!("open {KEY}"), error.into()))?;
        if stat.st_mode & 0o077 != 0 {
            return Err(refuse(format!("others may read it (mode {:04o})", stat.st_mode & 0o7777)));
        }
        let mut pem = String::new();
        let read = file.take(MOST_KEY_BYTES).read_to_string(&mut pem);
        read.map_err(|error| self.failed(&format!("read {KEY}"), error))?;
        SigningKey::from_pem(&pem).map(Some).map_err(|error| refuse(error.to_string()))
    }

    /// Signs a line that is on the disk, where the host has a key; the chain is locked. What keeps it from that is told
    /// and undoes nothing: the signature of a later line vouches for this one as well.
    pub(super) fn sign(&self, head: Head) -> Result<(), SpoolError> {
        let Some(key) = self.host_key()? else { return Ok(()) };
        let append = || {
            let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
            let mut file = self.inner.root.open_file(SIGNATURES, flags)?;
            let mut line = signed::sign(head, &key) + "\n";
            if file.seek(SeekFrom::End(0))? > 0 {
                let mut last = [0];
                file.seek(SeekFrom::End(-1))?;
                file.read_exact(&mut last)?;
                if last != *b"\n" {
                    line.insert(0, '\n');
                }
            }
            file.write_all(line.as_bytes())?;
            file.sync_data()
        };
        append().map_err(|error| self.failed(&format!("append to {SIGNATURES}"), error))
    }

    /// Holds the signatures of these keys against the lines of the chain. Says how many there are; what is no signature
    /// of theirs is counted and passed over.
    pub(super) fn check_signatures(
        &self,
        keys: &[PublicKey],
        lines: &BTreeMap<u64, Digest>,
    ) -> Result<(Signatures, Vec<Fault>), SpoolError> {
        let mut signatures = Signatures::default();
        let mut faults = Vec::new();
        let mut newest = None;
        let failed = |error| self.failed(&format!("read {SIGNATURES}"), error);
        let file = match self.inner.root.open_file(SIGNATURES, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            file => Some(file.map_err(failed)?),
        };
        if let Some(file) = file {
            let mut read = Lines::new(io::BufReader::new(file), 0);
            while let Some(line) = read.read().map_err(failed)? {
                let Some(head) = signed::vouched_for(line.bytes, keys) else {
                    signatures.others += 1;
                    continue;
                };
                signatures.good += 1;
                newest = newest.max(Some(head.seq));
                if lines.get(&head.seq) != Some(&head.sha256) {
                    let detail =
                        format!("the host signed {} for it, and that line is not in the chain", head.sha256);
                    faults.push(Fault::of(Code::SignedLine, head.seq, detail));
                }
            }
        }
        let last = lines.keys().next_back().copied();
        if let Some(last) = last.filter(|last| newest.is_none_or(|newest| newest < *last)) {
            let first = newest.map_or(0, |newest| newest.saturating_add(1));
            faults.push(Fault::new(
                Code::Unsigned,
                format!("entries {first} to {last} are signed by none of the keys"),
            ));
        }
        Ok((signatures, faults))
    }
}

/// How many signatures there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signatures {
    /// By one of the keys.
    pub good: u64,
    /// Lines that are none of theirs.
    pub others: u64,
}
