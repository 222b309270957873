//! `observed.endpoints`: where the run connected, with numbers. Pure.

use super::super::Endpoint;
use super::{Reader, WireError, wrong};
use crate::canon::node::Item;
use crate::canon::value::{Object, Value};
use crate::profile::effect::HostFrom;

/// One end.
pub(super) fn item(end: &Endpoint) -> Item<'_> {
    let mut object = Object::new();
    object.set("proto", end.proto.as_str());
    object.set_some("host", end.host.as_deref());
    object.set_some("host_from", end.host_from.map(HostFrom::as_str));
    if end.is_served {
        object.set("served", true);
    } else {
        let addresses = end.addresses.iter().map(|address| address.to_string().as_str().into());
        object.set("addresses", Value::Array(addresses.collect()));
        object.set("failed", Value::count(end.failed));
        object.set("blocked", Value::count(end.blocked));
    }
    object.set("port", Value::count(end.port.into()));
    object.set_some("connections", end.connections.map(Value::count));
    object.set_some("bytes_out", end.bytes.map(|(out, _)| Value::count(out)));
    object.set_some("bytes_in", end.bytes.map(|(_, into)| Value::count(into)));
    Item::Object(object)
}

/// Reads them back; none where they are not told.
pub(super) fn read(observed: &Reader<'_>) -> Result<Vec<Endpoint>, WireError> {
    if !observed.object.contains("endpoints") {
        return Ok(Vec::new());
    }
    observed.objects("endpoints")?.iter().map(read_one).collect()
}

fn read_one(reader: &Reader<'_>) -> Result<Endpoint, WireError> {
    let text = |key| reader.object.get(key).map(|_| reader.text(key)).transpose();
    let count = |key| reader.object.get(key).map(|_| reader.count(key)).transpose();
    let host_from = match text("host_from")? {
        None => None,
        Some(word) => Some(
            HostFrom::ALL
                .into_iter()
                .find(|known| known.as_str() == word)
                .ok_or_else(|| wrong(&reader.at("host_from"), "not a source of host names"))?,
        ),
    };
    let addresses =
        if reader.object.contains("addresses") { reader.strings("addresses")? } else { Vec::new() };
    let addresses = addresses
        .iter()
        .map(|address| address.parse().map_err(|_| wrong(&reader.at("addresses"), "not a list of addresses")))
        .collect::<Result<_, _>>()?;
    Ok(Endpoint {
        proto: reader.text("proto")?.to_owned(),
        host: text("host")?.map(str::to_owned),
        host_from,
        addresses,
        port: u16::try_from(reader.count("port")?).map_err(|_| wrong(&reader.at("port"), "too large"))?,
        is_served: reader.object.contains("served"),
        connections: count("connections")?,
        failed: count("failed")?.unwrap_or(0),
        blocked: count("blocked")?.unwrap_or(0),
        bytes: count("bytes_out")?.zip(count("bytes_in")?),
    })
}
