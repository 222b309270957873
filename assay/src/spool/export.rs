//! Copies files of runs out of the spool: only what is as the chain names it.

use std::io::{self, Read, Write};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::entry::{BUNDLE, Body, Entry, FileFacts};
use super::store::Spool;
use crate::canon::digest::Digest;

/// Why a file was not copied.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run has no such file.
    #[error("run {0} has no bundle")]
    Absent(u64),
    /// It could not be read or written.
    #[error("copy the bundle of run {seq}: {source}")]
    Io {
        /// The place of the run's entry.
        seq: u64,
        /// Why.
        source: io::Error,
    },
    /// It is another one than the chain names.
    #[error("copy the bundle of run {seq}: it is not the file that its entry names")]
    Changed {
        /// The place of the run's entry.
        seq: u64,
    },
}

/// What the bundle of a run is called outside.
pub fn outside_name(entry: &Entry) -> String {
    let what = match &entry.body {
        Body::Run(run) => run.summary.run_id.as_deref().unwrap_or("unobserved"),
        Body::Lost(_) => "lost",
        Body::Begun | Body::BegunAnew { .. } | Body::Collected(_) | Body::Torn(_) => entry.body.kind(),
    };
    format!("{}-{what}.tar.gz", entry.seq)
}

impl Spool {
    /// Copies the bundle of a run. After an error that says that it was changed, what was written is not to be used.
    pub fn copy_bundle(&self, entry: &Entry, out: &mut dyn Write) -> Result<(), ExportError> {
        let seq = entry.seq;
        let failed = |source| ExportError::Io { seq, source };
        let (mut bundle, facts) = self.open_bundle(entry)?;
        let (mut hasher, mut bytes) = (Sha256::new(), 0u64);
        let mut block = vec![0; 1 << 16];
        loop {
            let count = bundle.read(&mut block).map_err(failed)?;
            if count == 0 {
                break;
            }
            bytes += count as u64;
            if bytes > facts.bytes {
                return Err(ExportError::Changed { seq });
            }
            hasher.update(&block[..count]);
            out.write_all(&block[..count]).map_err(failed)?;
        }
        let found = FileFacts { sha256: Digest::from_raw(hasher.finalize().into()), bytes };
        if found == facts { Ok(()) } else { Err(ExportError::Changed { seq }) }
    }

    fn open_bundle(&self, entry: &Entry) -> Result<(std::fs::File, FileFacts), ExportError> {
        let seq = entry.seq;
        let (directory, files) = entry.body.place().ok_or(ExportError::Absent(seq))?;
        let facts = *files.get(BUNDLE).ok_or(ExportError::Absent(seq))?;
        let inner = &self.inner;
        let opened = inner.runs.open_directory(directory).or_else(|_| inner.open.open_directory(directory));
        let file = opened.and_then(|directory| directory.open_file(BUNDLE, OFlags::RDONLY));
        Ok((file.map_err(|source| ExportError::Io { seq, source })?, facts))
    }
}

/// An archive of bundles, written as it grows.
pub struct Archive<W: Write> {
    tar: tar::Builder<W>,
}

impl<W: Write> Archive<W> {
    /// An empty one.
    pub fn new(out: W) -> Self {
        Self { tar: tar::Builder::new(out) }
    }

    /// Adds the bundle of a run.
    pub fn add(&mut self, spool: &Spool, entry: &Entry) -> Result<(), ExportError> {
        // What is wrong with it is to be known before its first byte is in the archive. A bundle has a bound.
        let mut bytes = Vec::new();
        spool.copy_bundle(entry, &mut bytes)?;
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(entry.time.seconds().unsigned_abs());
        header.set_entry_type(tar::EntryType::Regular);
        let added = self.tar.append_data(&mut header, outside_name(entry), bytes.as_slice());
        added.map_err(|source| ExportError::Io { seq: entry.seq, source })
    }

    /// Ends it.
    pub fn finish(mut self) -> io::Result<()> {
        self.tar.finish()
    }
}
