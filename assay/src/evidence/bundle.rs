//! Evidence → a bundle: the events twice, once to measure them and once to write them, so that memory does not
//! grow with their number. What no reader would take is not written.

use std::convert::Infallible;
use std::io::{self, Write};

use sha2::{Digest as _, Sha256};

use crate::canon::digest::Digest;
use crate::evidence::events::{Emission, RunRoot, for_each};
use crate::evidence::integrity::Limits;
use crate::evidence::manifest::{Facts, to_json};
use crate::evidence::{Evidence, archive, identity};

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The run.
    pub run_id: String,
    /// The run root, which is the bundle's id.
    pub run_root: Digest,
    /// How many events.
    pub event_count: u64,
}

/// Writes the bundle of `evidence` to `out`, in one go from start to end. One beyond the limits of the format is an error:
/// a file that every reader refuses is no evidence.
pub fn write(evidence: &Evidence, emission: &Emission, out: impl Write) -> io::Result<Written> {
    write_known(evidence, &identity::digest(&evidence.identity), emission, out)
}

/// The same, where the digest of the identity is known.
pub fn write_known(
    evidence: &Evidence,
    digest: &Digest,
    emission: &Emission,
    out: impl Write,
) -> io::Result<Written> {
    write_within(evidence, identity::run_id(digest), emission, out, Limits::FORMAT)
}

fn write_within(
    evidence: &Evidence,
    run_id: String,
    emission: &Emission,
    out: impl Write,
    limits: Limits,
) -> io::Result<Written> {
    let (mut root, mut hash, mut event_count, mut events_bytes) = (RunRoot::default(), Sha256::new(), 0, 0);
    let mut longest_line = 0;
    let measured: Result<(), Infallible> = for_each(evidence, &run_id, emission, |line| {
        root.add(&line.content_hash);
        hash.update(line.bytes.as_bytes());
        event_count += 1;
        events_bytes += line.bytes.len() as u64;
        longest_line = longest_line.max(line.bytes.len() - 1);
        Ok(())
    });
    let Ok(()) = measured;
    if event_count > limits.events {
        return Err(beyond(&format!("{event_count} events"), limits.events));
    }
    if longest_line > limits.line_bytes {
        return Err(beyond(&format!("an event of {longest_line} bytes"), limits.line_bytes as u64));
    }
    let run_root = root.finish();
    let manifest = to_json(&Facts {
        producer: &emission.producer,
        producer_version: &emission.version,
        run_id: &run_id,
        event_count,
        run_root,
        events_sha256: Digest::from_raw(hash.finalize().into()),
        events_bytes,
    });
    let decoded = archive::decoded_bytes(manifest.len() as u64, events_bytes);
    if decoded > limits.decoded_bytes {
        return Err(beyond(&format!("{decoded} bytes"), limits.decoded_bytes));
    }
    let out = Bounded { inner: out, left: limits.archive_bytes, limit: limits.archive_bytes };
    archive::write(out, &manifest, events_bytes, |out| {
        for_each(evidence, &run_id, emission, |line| out.write_all(line.bytes.as_bytes()))
    })?;
    Ok(Written { run_id, run_root, event_count })
}

fn beyond(what: &str, limit: u64) -> io::Error {
    io::Error::other(format!("{what} are more than a bundle may hold ({limit})"))
}

/// The archive's bytes, which must not be more than are read.
struct Bounded<W> {
    inner: W,
    left: u64,
    limit: u64,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(beyond("the archive's bytes", self.limit));
        }
        let count = self.inner.write(bytes)?;
        self.left -= count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::samples;
    use crate::evidence::verify::verify;

    #[test]
    fn what_is_written_is_read_and_what_would_not_be_is_not_written() {
        let evidence = samples::evidence(samples::harmless(), Vec::new());
        let within = |limits: Limits| {
            let mut out = Vec::new();
            let run_id = identity::run_id(&identity::digest(&evidence.identity));
            let written = write_within(&evidence, run_id, &samples::emission(), &mut out, limits);
            let is_read = verify(&*out, limits, |_, _| {}).is_ok();
            assert_eq!(written.is_ok(), is_read, "{limits:?}");
            written.map(|written| (out.len() as u64, written.event_count)).map_err(|error| error.to_string())
        };
        let (archive_bytes, events) = within(Limits::FORMAT).unwrap();
        let at = Limits { archive_bytes, events, ..Limits::FORMAT };
        assert!(within(at).is_ok());
        assert!(within(Limits { archive_bytes: archive_bytes - 1, ..at }).unwrap_err().contains("archive"));
        assert!(within(Limits { events: events - 1, ..at }).unwrap_err().contains("events"));
        // Both sides of the limit, wherever it lies for these events.
        let least = |is_within: &dyn Fn(u64) -> bool| {
            let sizes: Vec<u64> = (0..1 << 16).collect();
            sizes.partition_point(|size| !is_within(*size)) as u64
        };
        let decoded = least(&|size| within(Limits { decoded_bytes: size, ..at }).is_ok());
        let line = least(&|size| within(Limits { line_bytes: size as usize, ..at }).is_ok());
        assert!(decoded > 2048 && line > 100 && line < decoded && decoded < 65_535);
        assert!(within(Limits { decoded_bytes: decoded - 1, ..at }).unwrap_err().contains("bytes"));
        assert!(within(Limits { line_bytes: line as usize - 1, ..at }).unwrap_err().contains("an event of"));
    }
}
