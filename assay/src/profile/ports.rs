//! Ports that the kernel chose for the run, known from the run's own binds and listens. Pure.

use std::collections::HashSet;

use super::acts::ActClass;
use super::canonical::{Canonicalizer, NetFact, NetPlace};
use super::effect::EffectResult;

/// Which ports the run has from the kernel's choice.
pub(super) struct Ports<'a> {
    run: &'a Canonicalizer,
    /// Ports the kernel chose: asked for as port 0, or listened on without having been bound.
    chosen: HashSet<(&'static str, u16)>,
    /// Ports bound by number.
    bound: HashSet<(&'static str, u16)>,
}

impl<'a> Ports<'a> {
    /// What the run's binds and listens say.
    pub(super) fn of(run: &'a Canonicalizer) -> Self {
        let mut ports = Self { run, chosen: HashSet::new(), bound: HashSet::new() };
        let mut listened = HashSet::new();
        for fact in run.sockets.keys().filter(|fact| fact.result == EffectResult::Ok) {
            let NetPlace::Inet(_, port) = fact.place else { continue };
            let key = (fact.proto, port);
            match fact.class {
                ActClass::Bind if fact.is_ephemeral => ports.chosen.insert(key),
                ActClass::Bind => ports.bound.insert(key),
                ActClass::Listen => listened.insert(key),
                _ => continue,
            };
        }
        ports.chosen.extend(listened.difference(&ports.bound));
        ports
    }

    /// Whether the port of this act is one of the kernel's choice.
    ///
    /// A port that the run was given once stays the kernel's choice when the run binds it by number later, as tests
    /// do that look for a free port.
    pub(super) fn is_ephemeral(&self, fact: &NetFact) -> bool {
        let NetPlace::Inet(address, port) = fact.place else { return false };
        let key = (fact.proto, port);
        let is_local = address.is_loopback() || address.is_unspecified();
        match fact.class {
            ActClass::Bind if fact.is_ephemeral || port == 0 => true,
            ActClass::Bind | ActClass::Listen => self.chosen.contains(&key),
            ActClass::Connect | ActClass::Send if self.chosen.contains(&key) => is_local,
            // The answer of a datagram server goes to a port that nobody bound: the client's socket got it when it
            // sent first.
            ActClass::Send => {
                let is_server = self.bound.iter().chain(&self.chosen).any(|(proto, _)| *proto == fact.proto);
                let is_in_range = self.run.context.ephemeral_ports.contains(&port);
                is_server && is_local && is_in_range && !self.bound.contains(&key) && !self.is_named(port)
            }
            _ => false,
        }
    }

    /// Whether the command's arguments name the port.
    fn is_named(&self, port: u16) -> bool {
        let text = port.to_string();
        let mut arguments = self.run.context.command.iter();
        arguments.any(|argument| {
            argument.split(|byte| !byte.is_ascii_digit()).any(|digits| digits == text.as_bytes())
        })
    }
}
