//! The digest of a program that was started, taken when the run is over.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::canon::digest::Digest;

/// Larger programs than this are not read.
const LIMIT: u64 = 2 << 30;

/// SHA-256 of the regular file at this path, or why there is none.
pub fn of(path: &[u8]) -> Result<Digest, String> {
    if !path.starts_with(b"/") {
        return Err("it has no name in the file tree".into());
    }
    read(Path::new(OsStr::from_bytes(path))).map_err(|error| error.to_string())
}

fn read(path: &Path) -> io::Result<Digest> {
    // A name may have become a FIFO since; opening it must not wait.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?);
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file any more"));
    }
    if meta.len() > LIMIT {
        return Err(io::Error::other("it is longer than 2 GiB"));
    }
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
