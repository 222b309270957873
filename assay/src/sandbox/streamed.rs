//! An artifact that is written while the run lasts: buffered, hashed as it goes, its first error kept for the end.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::artifact::{Owner, Target, Written};
use super::recorder::{Recorded, Targets};
use crate::canon::digest::Digest;

/// A file that grows.
#[derive(Debug)]
pub struct Stream {
    path: PathBuf,
    /// Given to us open: where it lies is for its giver to know.
    is_given: bool,
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
        Self { path: target.path().to_path_buf(), is_given: false, state, hasher: Sha256::new() }
    }

    /// Begins this file anew, which its giver calls by that path.
    pub fn over(path: &Path, file: io::Result<File>) -> Self {
        let state = file
            .and_then(|file| {
                file.set_len(0)?;
                Ok(BufWriter::with_capacity(1 << 18, file))
            })
            .map_err(|error| format!("write {}: {error}", path.display()));
        Self { path: path.to_path_buf(), is_given: true, state, hasher: Sha256::new() }
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
            let failed = Err(format!("write {}: {error}", self.path.display()));
            // Dropped with what it holds, it would try again.
            drop(std::mem::replace(&mut self.state, failed).map(BufWriter::into_parts));
        }
    }

    /// Ends it, and tells where it is or why it is not whole. The command may have been able to reach it: what was
    /// changed is said to be, and what was only taken away is put back.
    pub fn close(mut self, name: &'static str, targets: &Targets, recorded: &mut Recorded) {
        self.flush();
        let sha256 = Digest::from_raw(self.hasher.finalize().into());
        let kept = self.state.and_then(|out| {
            let failed = |error: &dyn std::fmt::Display| format!("write {}: {error}", self.path.display());
            let mut file = out.into_inner().map_err(|error| failed(&error))?;
            if hash_of(&mut file).map_err(|error| failed(&error))? != sha256 {
                return Err(failed(&"somebody else changed it while the run lasted"));
            }
            if self.is_given || is_in_place(&file, &self.path) {
                return Ok(());
            }
            let Some(Ok(target)) = targets.of(name) else {
                return Err(failed(&"somebody took it away while the run lasted"));
            };
            let again = target.write(targets.owner, |out| {
                file.rewind()?;
                io::copy(&mut file, out).map(drop)
            });
            again.map(drop).map_err(|error| error.to_string())
        });
        match kept {
            Ok(()) => recorded.written.push((name, Written { path: self.path, sha256 })),
            Err(reason) => recorded.unwritten.push(reason),
        }
    }
}

/// The digest of what is in the file now.
fn hash_of(file: &mut File) -> io::Result<Digest> {
    file.rewind()?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(Digest::from_raw(hasher.finalize().into()));
        }
        hasher.update(&buffer[..count]);
    }
}

/// Whether the path still leads to this very file.
fn is_in_place(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), std::fs::symlink_metadata(path)) else { return false };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}
