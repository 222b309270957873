//! Writes the artifacts that are made when the run is over, each whole or not at all.

use super::recorder::{Ended, Recorded, Targets};
use crate::evidence::Evidence;
use crate::evidence::bundle;
use crate::evidence::events::Emission;

/// Writes what was asked for; tells what is in place and what is not.
pub fn write(evidence: &Evidence, ended: &Ended, targets: &Targets, recorded: &mut Recorded) {
    let _ = ended;
    if let Some(Ok(target)) = targets.of("bundle") {
        let emission = emission();
        let written = target.write(targets.owner, |out| bundle::write(evidence, &emission, out).map(drop));
        match written {
            Ok(written) => recorded.written.push(("bundle", written)),
            Err(error) => recorded.unwritten.push(error.to_string()),
        }
    }
}

/// How the bundle's events are stamped: now, or at `SOURCE_DATE_EPOCH`.
fn emission() -> Emission {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse::<u64>().ok());
    let time = match epoch {
        Some(seconds) => std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds),
        None => std::time::SystemTime::now(),
    };
    Emission {
        time: super::host_facts::timestamp(time),
        producer: "assay".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        git: "unknown".into(),
        is_reproducible: epoch.is_some(),
    }
}
