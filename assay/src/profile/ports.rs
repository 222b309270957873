//! Ports that the kernel chose for the run, known from the run's own binds and listens. Pure.

use std::collections::HashSet;

use super::acts::ActClass;
use super::canonical::{Canonicalizer, NetFact, NetPlace};
use super::effect::EffectResult;

/// Which ports the run has from the kernel's choice.
pub(super) struct Ports<'a> {
    run: &'a Canonicalizer,
    /// Protocols on which the run bound a port of the kernel's choice.
    chosen: HashSet<&'static str>,
    /// Ports bound by number.
    bound: HashSet<(&'static str, u16)>,
    /// Ports listened on.
    listened: HashSet<(&'static str, u16)>,
}

impl<'a> Ports<'a> {
    /// What the run's binds and listens say.
    pub(super) fn of(run: &'a Canonicalizer) -> Self {
        let mut ports = Self { run, chosen: HashSet::new(), bound: HashSet::new(), listened: HashSet::new() };
        for fact in run.sockets.keys().filter(|fact| fact.result == EffectResult::Ok) {
            let NetPlace::Inet(_, port) = fact.place else { continue };
            match (fact.class, port) {
                (ActClass::Bind, 0) => {
                    ports.chosen.insert(fact.proto);
                }
                (ActClass::Bind, port) => {
                    ports.bound.insert((fact.proto, port));
                }
                (ActClass::Listen, port) => {
                    ports.listened.insert((fact.proto, port));
                }
                _ => {}
            }
        }
        ports
    }

    /// Whether the port of this act is one of the kernel's choice.
    pub(super) fn is_ephemeral(&self, fact: &NetFact) -> bool {
        let NetPlace::Inet(address, port) = fact.place else { return false };
        let proto = fact.proto;
        let is_in_range = self.run.context.ephemeral_ports.contains(&port);
        let is_local = address.is_loopback() || address.is_unspecified();
        match fact.class {
            ActClass::Bind | ActClass::Listen if port == 0 => true,
            // Listened on without having been bound by number: the kernel chose it. Bound by number after the kernel
            // was asked for one: the run asked for a free port, and used it later.
            ActClass::Bind | ActClass::Listen => self.is_chosen(proto, port, is_in_range),
            ActClass::Connect | ActClass::Send => {
                let is_ours = self.listened.contains(&(proto, port)) || self.bound.contains(&(proto, port));
                if is_ours {
                    return is_local && self.is_chosen(proto, port, is_in_range);
                }
                // A datagram socket does not listen: its port is known only to the run.
                let is_datagram = proto == "udp" && (!self.bound.is_empty() || self.chosen.contains(proto));
                let is_answer = is_datagram && is_local && is_in_range;
                is_answer && !self.is_named(port)
            }
            _ => false,
        }
    }

    fn is_chosen(&self, proto: &'static str, port: u16, is_in_range: bool) -> bool {
        if self.is_named(port) {
            return false;
        }
        if !self.bound.contains(&(proto, port)) {
            return self.listened.contains(&(proto, port));
        }
        is_in_range && self.chosen.contains(proto)
    }

    /// Whether the command's arguments name the port.
    fn is_named(&self, port: u16) -> bool {
        let text = port.to_string();
        self.run.context.command.iter().any(|argument| {
            argument.split(|byte| !byte.is_ascii_digit()).any(|digits| digits == text.as_bytes())
        })
    }
}
