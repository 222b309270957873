//! The tables of the network: where it connected, by name first, then by address; and how much went there. Pure.

use std::io::{self, Write};

use super::{cell, shortened, table, times};
use crate::evidence::{EffectFacts, Evidence, events};
use crate::profile::effect::{Effect, NetEffect};

pub(super) fn network(out: &mut dyn Write, evidence: &Evidence) -> io::Result<()> {
    writeln!(out, "\n## Network\n")?;
    let mut told: Vec<(&NetEffect, &EffectFacts)> = evidence
        .observed
        .effects
        .iter()
        .filter_map(|(effect, facts)| match effect {
            Effect::Net(net) => Some((net.as_ref(), facts)),
            _ => None,
        })
        .collect();
    // By name first, then by address.
    told.sort_by_key(|(net, _)| (net.host.is_none() || net.address.is_some(), &net.host));
    let rows: Vec<Vec<String>> = told
        .into_iter()
        .map(|(net, facts)| {
            let addresses: Vec<String> = facts.addresses.iter().map(ToString::to_string).collect();
            vec![
                net.op.as_str().to_owned(),
                cell(&net.proto),
                cell(&events::endpoint(net)),
                name_of(net, facts),
                addresses.join(", "),
                net.result.as_str().to_owned(),
                times(facts.hits),
            ]
        })
        .collect();
    if rows.is_empty() {
        return writeln!(out, "None.");
    }
    table(out, &["what", "protocol", "endpoint", "name", "addresses", "result", "times"], rows.into_iter())
}

/// How often it connected to each end, and how much went there and came from there.
pub(super) fn traffic(out: &mut dyn Write, evidence: &Evidence) -> io::Result<()> {
    let ends = &evidence.observed.endpoints;
    if ends.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## Traffic\n")?;
    let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let rows: Vec<Vec<String>> = ends
        .iter()
        .map(|end| {
            let addresses: Vec<String> = end.addresses.iter().map(ToString::to_string).collect();
            let place = match &end.host {
                _ if end.is_served => "others, to this port".to_owned(),
                Some(host) => cell(host),
                None => String::new(),
            };
            vec![
                place,
                shortened(&addresses.join(", "), 1000),
                cell(&end.proto),
                end.port.to_string(),
                number(end.connections),
                end.failed.to_string(),
                end.blocked.to_string(),
                number(end.bytes.map(|(out, _)| out)),
                number(end.bytes.map(|(_, into)| into)),
            ]
        })
        .collect();
    let head = [
        "name",
        "addresses",
        "protocol",
        "port",
        "connections",
        "failed",
        "blocked",
        "bytes out",
        "bytes in",
    ];
    table(out, &head, rows.into_iter())
}

/// Where its name is from, or which name was only claimed for its address; and what it was asked for besides.
fn name_of(net: &NetEffect, facts: &EffectFacts) -> String {
    let name = match (&net.host, net.host_from, &net.address) {
        (Some(_), Some(from), None) => format!("by {}", from.as_str()),
        (Some(host), Some(from), Some(_)) => format!("{} claimed by {}", cell(host), from.as_str()),
        _ => String::new(),
    };
    let asked: Vec<String> = facts.asked.iter().map(|name| cell(name)).collect();
    let asked = (!asked.is_empty()).then(|| format!("asked for {}", asked.join(", ")));
    let peers: Vec<String> = facts.peers.iter().map(|peer| cell(&peer.to_string())).collect();
    let peers = (!peers.is_empty()).then(|| format!("answered by {}", peers.join(", ")));
    [Some(name).filter(|name| !name.is_empty()), asked, peers]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}
