//! The table of the network: where it connected, by name first, then by address. Pure.

use std::io::{self, Write};

use super::{cell, table};
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
                facts.hits.to_string(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return writeln!(out, "None.");
    }
    table(out, &["what", "protocol", "endpoint", "name", "addresses", "result", "times"], &rows)
}

/// Where its name is from, or which name was only claimed for its address; and what it was asked for besides.
fn name_of(net: &NetEffect, facts: &EffectFacts) -> String {
    let name = match (&net.host, net.host_from, &net.address) {
        (Some(_), Some(from), None) => format!("by {}", from.as_str()),
        (Some(host), Some(from), Some(_)) => format!("{} claimed by {}", cell(host), from.as_str()),
        _ => String::new(),
    };
    if facts.asked.is_empty() {
        return name;
    }
    let asked: Vec<String> = facts.asked.iter().map(|name| cell(name)).collect();
    format!("{name}, asked for {}", asked.join(", "))
}
