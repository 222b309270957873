//! From packets, and from what the run reads, to names for addresses. Pure.
//!
//! A name server is one that the host's configuration names, whose answer arrived in the network namespace that the run
//! began in, and whose port the run has not bound itself; what any other says is only a claim.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use super::dns::{NoAnswer, read_answer};
use super::event::Packet;
use super::greeting::read_greeting;
use super::observation::{Act, CallResult, Endpoint, FileOp, NameSource, NamedAct, NetOp, Observation};
use super::quic::Hellos;

/// Connections to name servers that are followed; no packet tells their end.
const MAX_STREAMS: usize = 65_536;
/// Bytes of one connection that wait for the rest of their message: the longest message and its length.
const MAX_WAITING: usize = 2 + 65_535;
/// Bytes of all connections that wait.
const MAX_HELD: usize = 16 << 20;
/// Segments of one connection that wait for those before them.
const MAX_AHEAD: usize = 64;

/// Where name servers answer from.
const DOMAIN: u16 = 53;

/// The reason for an answer of which only a part is known.
pub const ANSWER_CUT: &str = "dns-answer-cut";

/// Its detail.
pub fn cut_at(server: IpAddr) -> String {
    format!("from {server}")
}

/// What is known of where names come from.
#[derive(Debug, Clone, Default)]
pub struct NameTable {
    nameservers: BTreeSet<IpAddr>,
    /// What `/etc/hosts` says; empty once the run has read it.
    hosts: Vec<(IpAddr, String)>,
    /// Addresses at which the run has bound the port of name servers.
    own_servers: BTreeSet<IpAddr>,
    streams: HashMap<u64, Stream>,
    /// Bytes that wait in all of them.
    held: usize,
    hellos: Hellos,
}

/// What a packet said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Read {
    /// Names for addresses.
    pub names: Vec<NamedAct>,
    /// What of it could not be read: a stable word and detail.
    pub gap: Option<(&'static str, String)>,
}

impl NameTable {
    /// Takes the host's configuration.
    pub fn learn(&mut self, resolv_conf: &[u8], hosts: &[u8]) {
        self.nameservers = nameservers(resolv_conf).into_iter().collect();
        self.hosts = read_hosts(hosts);
    }

    /// Reads a packet from a name server, or the first to any server.
    pub fn read(&mut self, packet: &Packet) -> Read {
        let mut read = Read::default();
        if packet.is_out {
            let greeting = if packet.is_tcp {
                read_greeting(&packet.payload)
            } else {
                let name = self.hellos.read(packet.cookie, packet.remote, &packet.payload);
                name.map(|name| (name, NameSource::Tls))
            };
            read.names.extend(greeting.map(|(host, from)| NamedAct {
                host,
                address: packet.remote.ip(),
                port: Some(packet.remote.port()),
                from,
            }));
            return read;
        }
        if packet.remote.port() != DOMAIN {
            return read;
        }
        let server = packet.remote.ip();
        let is_believed = packet.is_home && self.nameservers.contains(&server) && !self.is_own(server);
        let from = if is_believed { NameSource::Resolver } else { NameSource::OtherServer };
        let messages = if packet.is_tcp {
            self.reassemble(packet)
        } else if packet.is_cut {
            None
        } else {
            Some(vec![packet.payload.clone()])
        };
        let Some(messages) = messages else {
            read.gap = Some((ANSWER_CUT, cut_at(server)));
            return read;
        };
        for message in messages {
            match read_answer(&message) {
                Ok(answer) => read.names.extend(answer.addresses.iter().map(|address| NamedAct {
                    host: answer.host.clone(),
                    address: *address,
                    port: None,
                    from,
                })),
                // It names nothing for the program that reads it either.
                Err(NoAnswer::Malformed | NoAnswer::Other) => {}
            }
        }
        read
    }

    /// Servers whose answers over TCP ended in the middle: whatever they named is not known.
    pub fn unfinished(&self) -> BTreeSet<IpAddr> {
        self.streams.values().filter(|stream| stream.held() > 0).filter_map(|stream| stream.server).collect()
    }

    /// Whether the run may be this server itself.
    fn is_own(&self, server: IpAddr) -> bool {
        self.own_servers.iter().any(|own| *own == server || own.is_unspecified())
    }

    /// Takes note of an act: the names that follow from it.
    pub fn see(&mut self, observation: &Observation) -> Vec<NamedAct> {
        if observation.result != CallResult::Ok {
            return Vec::new();
        }
        match &observation.act {
            Act::File(file) if file.op == FileOp::Open && file.path.bytes == b"/etc/hosts" => {
                let from = NameSource::Hosts;
                std::mem::take(&mut self.hosts)
                    .into_iter()
                    .map(|(address, host)| NamedAct { host, address, port: None, from })
                    .collect()
            }
            Act::Net(net) if net.op == NetOp::Bind => {
                if let Endpoint::Inet(own) = net.endpoint
                    && own.port() == DOMAIN
                {
                    self.own_servers.insert(own.ip());
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// The messages that a segment completes; `None` when the stream cannot be followed any more.
    fn reassemble(&mut self, packet: &Packet) -> Option<Vec<Vec<u8>>> {
        if self.streams.len() >= MAX_STREAMS && !self.streams.contains_key(&packet.cookie) {
            // A connection that was forgotten could go on in the middle of a message, which may be of the run's making.
            return None;
        }
        let stream = self.streams.entry(packet.cookie).or_default();
        let before = stream.held();
        let messages = stream.add(packet).filter(|_| self.held <= MAX_HELD);
        if messages.is_none() {
            *stream = Stream { is_broken: true, ..Stream::default() };
        }
        self.held = self.held + stream.held() - before;
        messages
    }
}

/// What came of one connection so far.
#[derive(Debug, Clone, Default)]
struct Stream {
    server: Option<IpAddr>,
    next: Option<u32>,
    waiting: Vec<u8>,
    ahead: BTreeMap<u32, Vec<u8>>,
    is_broken: bool,
}

impl Stream {
    /// Bytes that wait here.
    fn held(&self) -> usize {
        self.waiting.len() + self.ahead.values().map(Vec::len).sum::<usize>()
    }

    fn add(&mut self, packet: &Packet) -> Option<Vec<Vec<u8>>> {
        if self.is_broken || packet.is_cut {
            return None;
        }
        self.server = Some(packet.remote.ip());
        let next = *self.next.get_or_insert(packet.sequence);
        if is_ahead(packet.sequence, next) {
            let known = self.ahead.entry(packet.sequence).or_default();
            if packet.payload.len() > known.len() {
                known.clone_from(&packet.payload);
            }
        } else {
            self.append_from(packet.sequence, &packet.payload);
        }
        // Whatever was cut otherwise the first time, each is taken as soon as nothing is missing before it.
        while let Some(next) = self.next
            && let Some(sequence) = self.ahead.keys().copied().find(|sequence| !is_ahead(*sequence, next))
            && let Some(payload) = self.ahead.remove(&sequence)
        {
            self.append_from(sequence, &payload);
        }
        (self.ahead.len() <= MAX_AHEAD && self.waiting.len() <= 2 * MAX_WAITING).then(|| self.take_messages())
    }

    /// Takes a segment that does not begin behind what is missing: what is new of it, for it may have been sent before.
    fn append_from(&mut self, sequence: u32, payload: &[u8]) {
        let Some(next) = self.next else { return };
        let bytes = payload.get(next.wrapping_sub(sequence) as usize..).unwrap_or_default();
        self.waiting.extend_from_slice(bytes);
        self.next = Some(next.wrapping_add(bytes.len() as u32));
    }

    fn take_messages(&mut self) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        let mut at = 0;
        while let Some(&[high, low]) = self.waiting.get(at..at + 2)
            && let Some(message) =
                self.waiting.get(at + 2..at + 2 + usize::from(u16::from_be_bytes([high, low])))
        {
            messages.push(message.to_vec());
            at += 2 + message.len();
        }
        self.waiting.drain(..at);
        messages
    }
}

/// Whether a segment begins behind the byte that is missing. Numbers wrap; what was there already is less than half of
/// them away.
fn is_ahead(sequence: u32, next: u32) -> bool {
    next.wrapping_sub(sequence) >= 1 << 31
}

/// The name servers of a `resolv.conf`; glibc takes the loopback when there are none.
pub fn nameservers(resolv_conf: &[u8]) -> Vec<IpAddr> {
    let text = String::from_utf8_lossy(resolv_conf);
    let mut servers: Vec<IpAddr> = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("nameserver"))
        .filter_map(|rest| rest.split_whitespace().next())
        // A scope (`fe80::1%eth0`) is no part of the address.
        .filter_map(|word| word.split('%').next()?.parse().ok())
        .collect();
    if servers.is_empty() {
        servers.push(IpAddr::from([127, 0, 0, 1]));
    }
    servers
}

/// The addresses of an `/etc/hosts` with their names. The loopback's own are left out: what it is called says nothing
/// about where a connection goes.
fn read_hosts(hosts: &[u8]) -> Vec<(IpAddr, String)> {
    let mut all = Vec::new();
    for line in String::from_utf8_lossy(hosts).lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { continue };
        let address = address.to_canonical();
        if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
            continue;
        }
        let is_plain = |word: &&str| {
            word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        };
        all.extend(
            words.filter(is_plain).map(|word| (address, word.trim_end_matches('.').to_ascii_lowercase())),
        );
    }
    all
}

/// The names that addresses were given so far, for who tells acts as they happen.
#[derive(Debug, Clone, Default)]
pub struct Given {
    names: HashMap<IpAddr, BTreeSet<String>>,
}

impl Given {
    /// Takes a name that was given, not one that is only claimed.
    pub fn learn(&mut self, named: &NamedAct) {
        if matches!(named.from, NameSource::Resolver | NameSource::Hosts) {
            self.names.entry(named.address).or_default().insert(named.host.clone());
        }
    }

    /// The names of an address, in order, with commas between them.
    pub fn of(&self, address: IpAddr) -> Option<String> {
        let names = self.names.get(&address.to_canonical())?;
        Some(names.iter().map(String::as_str).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests;
