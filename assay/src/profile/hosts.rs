//! Which names the addresses of a run have, and what each name is worth. Pure; the order of learning does not matter.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::effect::HostFrom;
use crate::observe::observation::{NameSource, NamedAct};

/// The most names kept; what a run asks beyond it stays with its addresses.
const MAX_NAMES: usize = 1_000_000;

/// The most names that clients may ask for at one place and still say what it is: a run can ask for any number, and one line
/// would hold them all.
const MOST_ASKED: usize = 100;

/// Names by address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hosts {
    names: BTreeMap<IpAddr, BTreeSet<(NameSource, String)>>,
    /// Names that were asked for at one port of an address.
    asked: BTreeMap<SocketAddr, BTreeSet<(NameSource, String)>>,
    count: usize,
}

/// What an address is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The names in order, with commas between them.
    pub text: String,
    /// Where they are known from.
    pub from: HostFrom,
    /// Whether the run's own resolver gave them; else they are only claimed.
    pub is_given: bool,
}

impl Hosts {
    /// Takes a name.
    pub fn learn(&mut self, named: &NamedAct) {
        if self.count < MAX_NAMES {
            let known = match named.port {
                None => self.names.entry(named.address).or_default(),
                Some(port) => self.asked.entry(SocketAddr::new(named.address, port)).or_default(),
            };
            self.count += usize::from(known.insert((named.from, named.host.clone())));
        }
    }

    /// All names of an address from the best source that gave any. An address that no name may stand for keeps its place
    /// beside them: a reader has to see that it is the host's own, or the metadata service's. So does one of which the
    /// client alone says what it is called.
    pub fn of(&self, address: IpAddr, port: u16) -> Option<Host> {
        let names = self.names.get(&address);
        let asked = self.asked.get(&SocketAddr::new(address, port)).filter(|names| names.len() <= MOST_ASKED);
        let sources = [
            (names, NameSource::Resolver, HostFrom::Dns, true),
            (names, NameSource::Hosts, HostFrom::Hosts, true),
            (names, NameSource::OtherServer, HostFrom::Dns, false),
            (asked, NameSource::Tls, HostFrom::Sni, false),
            (asked, NameSource::Http, HostFrom::Http, false),
        ];
        sources.into_iter().find_map(|(names, source, from, is_given)| {
            let names = names?;
            let of_it: Vec<&str> =
                names.iter().filter(|(known, _)| *known == source).map(|(_, name)| name.as_str()).collect();
            let is_given = is_given && !is_near(address);
            (!of_it.is_empty()).then(|| Host { text: of_it.join(","), from, is_given })
        })
    }

    /// The names that clients asked for there, other than those of `known`; the first hundred.
    pub fn asked_beside(&self, known: &Host, address: IpAddr, port: u16) -> BTreeSet<String> {
        let asked = self.asked.get(&SocketAddr::new(address, port));
        let names = asked.into_iter().flatten().map(|(_, name)| name);
        names
            .filter(|name| !known.text.split(',').any(|one| one == **name))
            .take(MOST_ASKED)
            .cloned()
            .collect()
    }
}

/// This host, the link, or many: what a name that is asked for has no business to be.
fn is_near(address: IpAddr) -> bool {
    let is_link = match address {
        IpAddr::V4(address) => {
            address.is_link_local() || address.octets()[0] == 0 || address.octets()[0] >= 224
        }
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    is_link || address.is_loopback() || address.is_unspecified() || address.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(host: &str, address: &str, from: NameSource) -> NamedAct {
        NamedAct { host: host.into(), address: address.parse().unwrap(), port: None, from }
    }

    #[test]
    fn an_address_has_all_the_names_that_its_best_source_gave() {
        let mut names = [
            named("b.test", "10.0.0.1", NameSource::Resolver),
            named("a.test", "10.0.0.1", NameSource::Resolver),
            named("a.test", "10.0.0.1", NameSource::Resolver),
            named("lie.test", "10.0.0.1", NameSource::OtherServer),
            named("file.test", "10.0.0.1", NameSource::Hosts),
            named("lie.test", "10.0.0.2", NameSource::OtherServer),
        ];
        for _ in 0..names.len() {
            names.rotate_left(1);
            let mut hosts = Hosts::default();
            for name in &names {
                hosts.learn(name);
            }
            let host = hosts.of("10.0.0.1".parse().unwrap(), 443).unwrap();
            assert_eq!(
                (host.text.as_str(), host.from, host.is_given),
                ("a.test,b.test", HostFrom::Dns, true)
            );
            let host = hosts.of("10.0.0.2".parse().unwrap(), 443).unwrap();
            assert_eq!((host.text.as_str(), host.from, host.is_given), ("lie.test", HostFrom::Dns, false));
            assert_eq!(hosts.of("10.0.0.3".parse().unwrap(), 443), None);
        }
    }

    #[test]
    fn what_is_asked_for_is_known_at_its_port_and_up_to_a_hundred_names() {
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        let asked = |host: &str, from| NamedAct { host: host.into(), address, port: Some(443), from };
        let mut hosts = Hosts::default();
        for number in 0..MOST_ASKED {
            hosts.learn(&asked(&format!("n{number:03}.test"), NameSource::Tls));
        }
        let host = hosts.of(address, 443).unwrap();
        assert_eq!((host.text.split(',').count(), host.from, host.is_given), (100, HostFrom::Sni, false));
        assert_eq!(hosts.of(address, 80), None);
        hosts.learn(&asked("more.test", NameSource::Http));
        assert_eq!(hosts.of(address, 443), None);
        hosts.learn(&named("a.test", "10.0.0.1", NameSource::Resolver));
        let given = hosts.of(address, 443).unwrap();
        assert_eq!((given.text.as_str(), given.is_given), ("a.test", true));
        let beside = hosts.asked_beside(&given, address, 443);
        assert_eq!((beside.len(), beside.first().map(String::as_str)), (100, Some("n000.test")));
    }

    #[test]
    fn no_name_hides_an_address_of_this_host_or_its_link() {
        for (address, is_given) in [
            ("127.0.0.9", false),
            ("0.0.0.1", false),
            ("169.254.169.254", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::1", false),
            ("::", false),
            ("fe80::1", false),
            ("ff02::1", false),
            ("10.0.0.1", true),
            ("fd00::1", true),
        ] {
            let mut hosts = Hosts::default();
            hosts.learn(&named("a.test", address, NameSource::Resolver));
            let host = hosts.of(address.parse().unwrap(), 443).unwrap();
            assert_eq!((host.text.as_str(), host.is_given), ("a.test", is_given), "{address}");
        }
    }
}
