//! Where the run connected, by name first, then by address; and how much went there. Pure.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::super::basis::Basis;
use super::{ROWS, more, name};
use crate::evidence::retold::Part;
use crate::evidence::{EffectFacts, Endpoint, Evidence, events};
use crate::profile::effect::{Effect, EffectResult, NetEffect};

/// The section.
pub(super) fn section(evidence: &Evidence, basis: Basis<'_>) -> Markup {
    let mut acts: Vec<(&NetEffect, &EffectFacts)> = evidence
        .observed
        .effects
        .iter()
        .filter_map(|(effect, facts)| match effect {
            Effect::Net(net) => Some((net.as_ref(), facts)),
            Effect::Fs(_) | Effect::Exec(_) => None,
        })
        .collect();
    acts.sort_by_key(|(net, _)| (net.host.is_none() || net.address.is_some(), &net.host));
    let ends = &evidence.observed.endpoints;
    html! {
        section #network aria-labelledby="network-title" {
            h2 #network-title { "Where it connected" }
            @if acts.is_empty() {
                p { "No connection was made or tried, and no socket was bound" @if evidence.coverage.ledger.is_unobserved { ", as far as is known: nothing was observed" } "." }
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Sockets" {
                    table {
                        caption { "Sockets, by name, then by address" }
                        thead { tr {
                            th scope="col" { "What" }
                            th scope="col" { "Endpoint" }
                            th scope="col" { "Known by" }
                            th scope="col" { "Addresses" }
                            th scope="col" { "Result" }
                            th.number scope="col" { "Times" }
                        } }
                        tbody { @for (net, facts) in acts.iter().take(ROWS) { (act(net, facts)) } }
                    }
                }
                (more(acts.len(), ROWS))
            }
            @if !basis.has(Part::Traffic) {
                p.quiet { "How many connections each had and how many bytes went there, a bundle does not tell." }
            } @else if !ends.is_empty() {
                div.scroll tabindex="0" role="region" aria-label="Traffic" {
                    table {
                        caption { "Connections and bytes, by endpoint" }
                        thead { tr {
                            th scope="col" { "Name" }
                            th scope="col" { "Addresses" }
                            th scope="col" { "Port" }
                            th.number scope="col" { "Connections" }
                            th.number scope="col" { "Failed" }
                            th.number scope="col" { "Blocked" }
                            th.number scope="col" { "Bytes out" }
                            th.number scope="col" { "Bytes in" }
                        } }
                        tbody { @for end in ends.iter().take(ROWS) { (traffic(end)) } }
                    }
                }
                (more(ends.len(), ROWS))
            }
        }
    }
}

fn act(net: &NetEffect, facts: &EffectFacts) -> Markup {
    let known = name_of(net, facts);
    html! {
        tr {
            td { (net.op.as_str()) " " span.quiet { (super::shortened(&net.proto, 40)) } }
            td { (name(&events::endpoint(net))) }
            td { @if !known.is_empty() { (super::shortened(&known, 1000)) } }
            td { (addresses(&facts.addresses)) }
            td { (super::page::result(net.result, facts)) }
            td.number { (super::page::times(facts.hits)) }
        }
    }
}

fn traffic(end: &Endpoint) -> Markup {
    let number = |number: Option<u64>| html! { td.number { @if let Some(number) = number { (number) } @else { span.quiet { "not counted" } } } };
    html! {
        tr {
            td {
                @match (&end.host, end.is_served) {
                    (_, true) => { "others, to this port" }
                    (Some(host), false) => { (name(host)) }
                    (None, false) => { span.quiet { "no name" } }
                }
            }
            td { (addresses(&end.addresses)) }
            td { (super::shortened(&end.proto, 40)) " " (end.port) }
            @if end.is_served { td.number { span.quiet { "not told" } } } @else { (number(end.connections)) }
            td.number { (end.failed) }
            td.number { (end.blocked) }
            (number(end.bytes.map(|(out, _)| out)))
            (number(end.bytes.map(|(_, into)| into)))
        }
    }
}

fn addresses(addresses: &BTreeSet<std::net::IpAddr>) -> Markup {
    html! { @for (at, address) in addresses.iter().take(16).enumerate() { @if at > 0 { ", " } (address) } @if addresses.len() > 16 { " …" } }
}

/// Where its name is from, or which name was only claimed for its address; what it was asked for besides, and who
/// answered.
pub(super) fn name_of(net: &NetEffect, facts: &EffectFacts) -> String {
    let name = match (&net.host, net.host_from, &net.address) {
        (Some(_), Some(from), None) => Some(format!("named by {}", from.as_str())),
        (Some(host), Some(from), Some(_)) => Some(format!("{host} claimed by {}", from.as_str())),
        _ => None,
    };
    let asked: Vec<&str> = facts.asked.iter().map(String::as_str).collect();
    let asked = (!asked.is_empty()).then(|| format!("asked for {}", asked.join(", ")));
    let peers: Vec<String> = facts.peers.iter().map(ToString::to_string).collect();
    let peers = (!peers.is_empty()).then(|| format!("answered by {}", peers.join(", ")));
    [name, asked, peers].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Whether any act went through.
pub(super) fn reached(evidence: &Evidence) -> usize {
    let effects = evidence.identity.effects.iter();
    effects.filter(|effect| matches!(effect, Effect::Net(net) if net.result == EffectResult::Ok)).count()
}
