//! Where a run connected, with numbers: attempts as its calls tell them, bytes as the kernel half counted them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use assay_common::traffic::TrafficTally;

use super::acts::{EACCES, EALREADY, ENETDOWN, ENETUNREACH, EPERM, is_of_the_way, is_under_way};
use super::effect::HostFrom;
use super::hosts::Hosts;
use super::paths::PathId;
use super::peers::Peers;
use crate::observe::observation::{CallResult, Endpoint as End, NetAct, NetOp};
use crate::observe::traffic::Traffic;

/// The most ends whose attempts are counted by themselves.
const MOST: usize = 10_000;

const EISCONN: i32 = 106;

/// Where a socket act went.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetPlace {
    /// Address and port.
    Inet(IpAddr, u16),
    /// A socket's path.
    Path(PathId),
    /// An abstract name.
    Abstract(Vec<u8>),
    /// None that is told.
    None,
    /// It could not be read.
    Unreadable,
}

/// One end of the run's connections, true of this run only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Endpoint {
    /// `tcp`, `udp` …
    pub proto: String,
    /// What the addresses are called.
    pub host: Option<String>,
    /// How that is known.
    pub host_from: Option<HostFrom>,
    /// The addresses; none where the run served.
    pub addresses: BTreeSet<IpAddr>,
    /// The port; where the run served, its own.
    pub port: u16,
    /// Whether others connected to the run here.
    pub is_served: bool,
    /// Connections that were made, and of other protocols than TCP calls that went through; `None` where the run served.
    pub connections: Option<u64>,
    /// Attempts that came to nothing.
    pub failed: u64,
    /// Attempts that were refused with EACCES or EPERM, whoever refused.
    pub blocked: u64,
    /// Bytes behind TCP's or UDP's header, out and in; `None` where nobody counted them.
    pub bytes: Option<(u64, u64)>,
}

/// What calls tell of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Attempts {
    /// They went through, or are under way.
    done: u64,
    /// They failed once they were on their way.
    failed_later: u64,
    /// They failed at once.
    failed_at_once: u64,
    blocked: u64,
}

/// Attempts so far, and what was counted besides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Endpoints {
    attempts: BTreeMap<(&'static str, IpAddr, u16), Attempts>,
    /// Attempts at ends beyond [`MOST`].
    pub untold: u64,
    /// What the kernel half counted; `None` where it did not.
    pub measured: Option<Traffic>,
    /// Who was at the other end.
    pub peers: Peers,
}

impl Endpoints {
    /// Takes note of an act.
    pub fn see(&mut self, act: &NetAct, result: CallResult) {
        let (NetOp::Connect | NetOp::Send, End::Inet(address)) = (act.op, &act.endpoint) else { return };
        // The same attempt, asked about again.
        if let CallResult::Errno(EISCONN | EALREADY) = result {
            return;
        }
        let key = (act.proto, address.ip().to_canonical(), address.port());
        if self.attempts.len() >= MOST && !self.attempts.contains_key(&key) {
            self.untold += 1;
            return;
        }
        let attempts = self.attempts.entry(key).or_default();
        let is_connect = act.op == NetOp::Connect;
        let count = match result {
            CallResult::Ok => &mut attempts.done,
            CallResult::Errno(EACCES | EPERM) => &mut attempts.blocked,
            CallResult::Errno(errno) if is_connect && is_under_way(errno) => &mut attempts.done,
            // No way was found, so nothing was sent.
            CallResult::Errno(ENETDOWN | ENETUNREACH) => &mut attempts.failed_at_once,
            // A connection of TCP ends so once its beginning was sent: the kernel half has counted it.
            CallResult::Errno(errno) if is_of_the_way(errno) => &mut attempts.failed_later,
            CallResult::Errno(_) => &mut attempts.failed_at_once,
        };
        *count += 1;
    }

    /// The ends in order: by name first, then by address.
    pub fn told(&self, hosts: &Hosts) -> Vec<Endpoint> {
        let mut ends: BTreeMap<_, Endpoint> = BTreeMap::new();
        for (proto, address, port) in self.keys() {
            let one = self.one(proto, address, port);
            let host = hosts.of(address, port);
            let given = host.as_ref().filter(|host| host.is_given).map(|host| host.text.clone());
            let is_nameless = given.is_none();
            let place = if is_nameless { Some(address) } else { None };
            let end = ends.entry((is_nameless, given, place, port, proto)).or_insert_with(|| Endpoint {
                proto: proto.into(),
                port,
                connections: Some(0),
                host: host.as_ref().map(|host| host.text.clone()),
                host_from: host.map(|host| host.from),
                bytes: one.bytes.map(|_| (0, 0)),
                ..Endpoint::default()
            });
            end.addresses.insert(address);
            end.connections = Some(end.connections.unwrap_or(0) + one.connections.unwrap_or(0));
            end.failed += one.failed;
            end.blocked += one.blocked;
            // What is not known of one is not known of all.
            end.bytes = end.bytes.zip(one.bytes).map(|(all, one)| (all.0 + one.0, all.1 + one.1));
        }
        let served = self.measured.iter().flat_map(|traffic| &traffic.served).map(|(port, tally)| Endpoint {
            proto: "tcp".into(),
            port: *port,
            is_served: true,
            bytes: Some((tally.bytes_out, tally.bytes_in)),
            ..Endpoint::default()
        });
        ends.into_values().chain(served).collect()
    }

    /// All ends that somebody knows of.
    fn keys(&self) -> BTreeSet<(&'static str, IpAddr, u16)> {
        let counted = self.measured.iter().flat_map(|traffic| traffic.others.keys().copied());
        // What the kernel half calls TCP a program may call by another name.
        let is_new = |(proto, address, port): &(&str, IpAddr, u16)| {
            *proto != "tcp" || !self.attempts.contains_key(&("mptcp", *address, *port))
        };
        self.attempts.keys().copied().chain(counted.filter(is_new)).collect()
    }

    fn one(&self, proto: &'static str, address: IpAddr, port: u16) -> Endpoint {
        let seen = self.attempts.get(&(proto, address, port)).copied().unwrap_or_default();
        let is_stream = matches!(proto, "tcp" | "mptcp");
        let counted = self.measured.as_ref().and_then(|traffic| {
            let wire = if is_stream { "tcp" } else { proto };
            let known = traffic.others.get(&(wire, address, port)).copied();
            let nothing = traffic.is_whole() && (is_stream || wire == "udp");
            known.or_else(|| nothing.then(TrafficTally::default))
        });
        let (connections, failed) = match counted {
            Some(tally) if is_stream => {
                let unanswered = tally.begun.saturating_sub(tally.made);
                (tally.made, unanswered.max(seen.failed_later) + seen.failed_at_once)
            }
            Some(_) | None => (seen.done, seen.failed_later + seen.failed_at_once),
        };
        Endpoint {
            connections: Some(connections),
            failed,
            blocked: seen.blocked,
            bytes: counted.map(|tally| (tally.bytes_out, tally.bytes_in)),
            ..Endpoint::default()
        }
    }
}

#[cfg(test)]
mod tests;
