//! What the kernel half counted of packets, read at the end of a run.

use assay_common::names;
use assay_common::traffic::{TrafficEnd, TrafficTally};
use aya::maps::{Array, HashMap};
use zerocopy::transmute;

use super::object::Loaded;
use crate::observe::traffic::Traffic;

const END: usize = size_of::<TrafficEnd>();
const TALLY: usize = size_of::<TrafficTally>();

/// Reads the maps; the reason where that cannot be.
pub(super) fn read(loaded: &Loaded) -> Result<Traffic, String> {
    let map = |name: &str| loaded.maps.get(name).ok_or_else(|| format!("the object has no `{name}`"));
    let counted: HashMap<_, [u8; END], [u8; TALLY]> =
        HashMap::try_from(map(names::TRAFFIC)?).map_err(|error| error.to_string())?;
    let beyond: Array<_, [u8; TALLY]> =
        Array::try_from(map(names::BEYOND)?).map_err(|error| error.to_string())?;
    let mut ends = Vec::new();
    for one in &counted {
        let (end, tally) = one.map_err(|error| error.to_string())?;
        let (end, tally): (TrafficEnd, TrafficTally) = (transmute!(end), transmute!(tally));
        ends.push((end, tally));
    }
    let beyond = beyond.get(&0, 0).map_err(|error| error.to_string())?;
    Ok(Traffic::of(ends, transmute!(beyond)))
}
