//! An artifact that is written while the run lasts: buffered, hashed as it goes, its first error kept for the end.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use super::artifact::{Owner, Target, Written};
use super::recorder::Recorded;
use crate::canon::digest::Digest;

/// A file that grows.
#[derive(Debug)]
pub struct Stream {
    path: PathBuf,
    state: Result<BufWriter<File>, String>,
    hasher: Sha256,
}

impl Stream {
    /// Puts an empty file in place.
    pub fn open(target: &Target, owner: Owner) -> Self {
        let state = target
            .stream(owner)
            .map(|file| BufWriter::with_capacity(1 << 18, file))
            .map_err(|error| error.to_string());
        Self { path: target.path().to_path_buf(), state, hasher: Sha256::new() }
    }

    /// Appends. After an error nothing more is written.
    pub fn write(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.attempt(|out| out.write_all(bytes));
    }

    /// Shows what was written so far to who reads along.
    pub fn flush(&mut self) {
        self.attempt(io::Write::flush);
    }

    fn attempt(&mut self, act: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if let Ok(out) = &mut self.state
            && let Err(error) = act(out)
        {
            self.state = Err(format!("write {}: {error}", self.path.display()));
        }
    }

    /// Ends it, and tells where it is or why it is not whole.
    pub fn close(mut self, name: &'static str, recorded: &mut Recorded) {
        self.flush();
        match self.state {
            Ok(_) => {
                let sha256 = Digest::from_raw(self.hasher.finalize().into());
                recorded.written.push((name, Written { path: self.path, sha256 }));
            }
            Err(reason) => recorded.unwritten.push(reason),
        }
    }
}
