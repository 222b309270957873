//! Names that a service of the host's looked up for the run. Pure.
//!
//! Who asks such a service sends no packet to a name server: that is the service's, which nobody observes. What it answers is
//! not read either: it may lie in memory that it shares, and whoever listens there can say what he likes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Evidence;
use crate::observe::loss::Kind;
use crate::profile::effect::{Effect, EffectResult, NetEffect, NetEffectOp, Port};

/// Sockets at which a service looks names up for whoever asks it: nscd, systemd-resolved (also by the system's bus), avahi,
/// sssd.
const NAME_SERVICES: [&str; 8] = [
    "/run/nscd/socket",
    "/var/run/nscd/socket",
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/dbus/system_bus_socket",
    "/var/run/dbus/system_bus_socket",
    "/run/avahi-daemon/socket",
    "/var/run/avahi-daemon/socket",
    "/var/lib/sss/pipes/nss",
];

/// Why coverage of the network is partial then.
pub const REASON: &str = "names-asked-elsewhere";

impl Evidence {
    /// Admits that an address may have been found by a name that is not told: where the run has used such a service, and an
    /// address that no name server of the run's gave it.
    pub fn admit_names_asked_elsewhere(&mut self) {
        let nets = self.identity.effects.iter().filter_map(|effect| match effect {
            Effect::Net(net) if matches!(net.op, NetEffectOp::Connect | NetEffectOp::Send) => Some(&**net),
            _ => None,
        });
        let (mut services, mut has_unnamed) = (BTreeSet::new(), false);
        for net in nets {
            services.extend(service(net));
            has_unnamed |= is_unnamed(net);
        }
        if has_unnamed {
            for service in services {
                self.coverage.ledger.admit(Kind::Net, REASON, &service);
            }
        }
    }
}

/// The socket of such a service, where it answered.
fn service(net: &NetEffect) -> Option<String> {
    let address = net.address.as_ref()?.as_str();
    let is_service =
        net.proto == "unix" && net.result == EffectResult::Ok && NAME_SERVICES.contains(&address);
    is_service.then(|| format!("unix:{address}"))
}

/// Whether it goes to an address that may have a name, and is told by that address.
fn is_unnamed(net: &NetEffect) -> bool {
    let Some(ip) = net.address.as_ref().and_then(|address| address.as_str().parse::<IpAddr>().ok()) else {
        return false;
    };
    // A name server has no name before it was asked.
    !ip.to_canonical().is_loopback() && net.port != Some(Port::Number(53))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::samples;
    use crate::observe::loss::Completeness;

    fn check(effects: Vec<Effect>, want: &[&str]) {
        let mut evidence = samples::evidence(effects, Vec::new());
        evidence.admit_names_asked_elsewhere();
        let ledger = &evidence.coverage.ledger;
        let told: Vec<&str> = ledger.gaps.iter().map(|gap| gap.detail.as_str()).collect();
        assert_eq!(told, want);
        let is_whole = ledger.completeness(Kind::Net) == Completeness::Complete;
        assert_eq!(is_whole, want.is_empty());
        assert_eq!(ledger.completeness(Kind::Fs), Completeness::Complete);
    }

    #[test]
    fn a_service_and_an_address_without_a_name_together_are_admitted() {
        let nscd = || samples::connect("unix", "/run/nscd/socket", None);
        let resolved = || samples::connect("unix", "/run/systemd/resolve/io.systemd.Resolve", None);
        let address = || samples::connect("tcp", "203.0.113.7", Some(443));
        check(vec![nscd(), address()], &["unix:/run/nscd/socket"]);
        check(
            vec![nscd(), resolved(), samples::connect("udp", "2001:db8::1", Some(443))],
            &["unix:/run/nscd/socket", "unix:/run/systemd/resolve/io.systemd.Resolve"],
        );
        // Neither alone says anything: programs ask nscd for users, and others for no name at all.
        check(vec![nscd(), resolved()], &[]);
        check(vec![address(), samples::connect("unix", "/run/docker.sock", None)], &[]);
    }

    #[test]
    fn what_has_its_name_or_none_to_have_is_not_in_doubt() {
        let nscd = || samples::connect("unix", "/run/nscd/socket", None);
        for (address, port) in
            [("127.0.0.53", 443), ("::1", 80), ("::ffff:127.0.0.1", 80), ("192.0.2.53", 53)]
        {
            check(vec![nscd(), samples::connect("tcp", address, Some(port))], &[]);
        }
        let mut named = samples::connect("tcp", "203.0.113.7", Some(443));
        if let Effect::Net(net) = &mut named {
            (net.host, net.address) = (Some("api.test".into()), None);
        }
        check(vec![nscd(), named], &[]);
        let mut refused = nscd();
        if let Effect::Net(net) = &mut refused {
            net.result = EffectResult::Denied;
        }
        check(vec![refused, samples::connect("tcp", "203.0.113.7", Some(443))], &[]);
    }
}
