//! Evidence → a bundle: the events twice, once to measure them and once to write them, so that memory does not
//! grow with their number.

use std::convert::Infallible;
use std::io::{self, Write};

use sha2::{Digest as _, Sha256};

use crate::canon::digest::Digest;
use crate::evidence::events::{Emission, RunRoot, for_each};
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

/// Writes the bundle of `evidence` to `out`, in one go from start to end.
pub fn write(evidence: &Evidence, emission: &Emission, out: impl Write) -> io::Result<Written> {
    let run_id = identity::run_id(&identity::digest(&evidence.identity));
    let (mut root, mut hash, mut event_count, mut events_bytes) = (RunRoot::default(), Sha256::new(), 0, 0);
    let measured: Result<(), Infallible> = for_each(evidence, &run_id, emission, |line| {
        root.add(&line.content_hash);
        hash.update(line.bytes.as_bytes());
        event_count += 1;
        events_bytes += line.bytes.len() as u64;
        Ok(())
    });
    let Ok(()) = measured;
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
    archive::write(out, &manifest, events_bytes, |out| {
        for_each(evidence, &run_id, emission, |line| out.write_all(line.bytes.as_bytes()))
    })?;
    Ok(Written { run_id, run_root, event_count })
}
