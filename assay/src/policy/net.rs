//! Rules about the network: text → [`NetRule`], and whether a rule speaks about an endpoint. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::path::{Context, parse_path};
use super::pattern::Pattern;
use super::problem::{Complaint, Place};

/// A rule of `net.allow` or `net.deny`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetRule {
    /// As it is written in the policy.
    pub text: String,
    /// Where it is written.
    pub place: Place,
    /// Whom it concerns.
    pub target: Target,
    /// Which ports.
    pub ports: Ports,
}

/// Whom a rule concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Every IP address.
    Any,
    /// The addresses of this name, lower case; `*.` in front stands for any names below.
    Host(String),
    /// These addresses.
    Net(IpNet),
    /// UNIX sockets at these paths.
    UnixPath(Vec<Pattern>),
    /// The abstract UNIX socket of this name, without the `@`; a trailing `*` stands for any end.
    UnixAbstract(Vec<u8>),
}

/// Ports from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports {
    /// The lowest.
    pub low: u16,
    /// The highest.
    pub high: u16,
}

impl Ports {
    /// Every port.
    pub const ANY: Self = Self { low: 0, high: u16::MAX };

    /// Whether it is every port.
    pub fn is_any(self) -> bool {
        self == Self::ANY
    }

    /// Whether `port` is one of them.
    pub fn contains(self, port: u16) -> bool {
        (self.low..=self.high).contains(&port)
    }
}

/// An address and how many of its leading bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpNet {
    /// The address; the bits that do not count are zero. Never a v4-mapped one.
    pub address: IpAddr,
    /// How many bits count.
    pub prefix: u8,
}

impl IpNet {
    /// One address; a v4-mapped one is the v4 address.
    pub fn single(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Whether `address` is in it.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(address)) => {
                (net.to_bits() ^ address.to_bits()).checked_shr(32 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            (IpAddr::V6(net), IpAddr::V6(address)) => {
                (net.to_bits() ^ address.to_bits()).checked_shr(128 - u32::from(self.prefix)).unwrap_or(0)
                    == 0
            }
            _ => false,
        }
    }

    /// Whether a socket bound to `wildcard`, to every address of this host, is bound to one of these. Which addresses
    /// a host has can change; the loopback ones are known to be its own.
    pub fn is_bound_by(self, wildcard: IpAddr) -> bool {
        let is_loopback = match self.address {
            IpAddr::V4(address) => address.is_loopback() || self.contains(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            IpAddr::V6(_) => self.contains(IpAddr::V6(Ipv6Addr::LOCALHOST)),
        };
        // Bound to `::`, a socket takes IPv4 as well.
        wildcard.is_unspecified() && is_loopback && (wildcard.is_ipv6() || self.address.is_ipv4())
    }
}

impl NetRule {
    /// Whether it speaks about this IP endpoint; `host` is the name the run's resolver gave for it, or several with
    /// commas between them.
    pub fn applies(&self, address: Option<IpAddr>, host: Option<&str>, port: Option<u16>) -> bool {
        let is_target = match &self.target {
            Target::Any => true,
            Target::Host(name) if name == "localhost" => {
                host == Some("localhost")
                    || address.is_some_and(|address| LOCALHOST.contains(&address.to_canonical()))
            }
            Target::Host(name) => host.is_some_and(|host| is_host_match(name, host)),
            Target::Net(net) => address.is_some_and(|address| net.contains(address)),
            Target::UnixPath(_) | Target::UnixAbstract(_) => false,
        };
        is_target && port.map_or(self.ports.is_any(), |port| self.ports.contains(port))
    }

    /// Whether it speaks about the UNIX socket at `path`.
    pub fn applies_to_unix_path(&self, path: &[u8]) -> bool {
        matches!(&self.target, Target::UnixPath(patterns) if patterns.iter().any(|p| p.covers(path)))
    }

    /// Whether it speaks about the abstract UNIX socket `name`.
    pub fn applies_to_unix_abstract(&self, name: &[u8]) -> bool {
        match &self.target {
            Target::UnixAbstract(want) => match want.strip_suffix(b"*") {
                Some(start) => name.starts_with(start),
                None => want == name,
            },
            _ => false,
        }
    }
}

/// What `localhost` stands for.
pub const LOCALHOST: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Whether one of the names, between commas, is what a rule says.
fn is_host_match(name: &str, hosts: &str) -> bool {
    hosts.split(',').any(|host| is_one_match(name, host))
}

fn is_one_match(name: &str, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    match name.strip_prefix('*') {
        Some(end) => host.len() > end.len() && host.ends_with(end),
        None => host == name,
    }
}

/// Parses the text of a rule.
pub fn parse(text: &str, context: &Context) -> Result<(Target, Ports), Complaint> {
    if let Some(socket) = text.strip_prefix("unix:") {
        if let Some(name) = socket.strip_prefix('@') {
            let name = crate::profile::name::unescape(name)
                .filter(|name| !name.is_empty())
                .ok_or_else(|| (format!("bad address `{text}`"), Some("write `unix:@NAME`".to_owned())))?;
            return Ok((Target::UnixAbstract(name), Ports::ANY));
        }
        let pattern = parse_path(socket, context)?;
        return Ok((Target::UnixPath(vec![pattern]), Ports::ANY));
    }
    let bad = |hint: &str| (format!("bad address `{text}`"), Some(hint.to_owned()));
    if text.contains("://") {
        let host = text.split("://").nth(1).unwrap_or("").split('/').next().unwrap_or("");
        let port = if text.starts_with("http:") { 80 } else { 443 };
        let host = if host.is_empty() { "HOST" } else { host };
        let end = if host.contains(':') { host.to_owned() } else { format!("{host}:{port}") };
        return Err(bad(&format!("a rule is HOST:PORT, not a URL; did you mean `{end}`?")));
    }
    let (host, ports) = split_port(text).map_err(|hint| bad(&hint))?;
    let ports = match ports {
        Some(ports) => parse_ports(ports).map_err(|hint| bad(&hint))?,
        None => Ports::ANY,
    };
    let target = parse_target(host).map_err(|hint| bad(&hint))?;
    Ok((target, ports))
}

/// Splits `host:ports`, `[v6]:ports`, and either without ports.
fn split_port(text: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((inside, after)) = rest.split_once(']') else {
            return Err("the `[` is not closed".into());
        };
        if inside.parse::<Ipv4Addr>().is_ok() {
            return Err(format!("brackets are for IPv6; write `{inside}{after}`"));
        }
        // `[fd00::]/8` is another way to write `[fd00::/8]`.
        return match after.split_once(':') {
            Some(("", ports)) => Ok((inside, Some(ports))),
            None if after.is_empty() => Ok((inside, None)),
            _ => Err(format!("after `]` comes `:PORT`; a prefix goes inside: `[{inside}/N]:PORT`")),
        };
    }
    let bare = text.split('/').next().unwrap_or(text);
    if bare.parse::<Ipv6Addr>().is_ok() {
        // `::1:80` is an address, and hardly ever meant as one.
        if let Some((address, port)) = text.rsplit_once(':')
            && address.parse::<Ipv6Addr>().is_ok()
            && parse_ports(port).is_ok()
        {
            return Err(format!(
                "an IPv6 address with a port is written `[{address}]:{port}`; the address `{text}` is `[{text}]`"
            ));
        }
        return Ok((text, None));
    }
    if text.matches(':').count() > 1 {
        return Err("an IPv6 address with a port is written `[ADDRESS]:PORT`".into());
    }
    Ok(match text.split_once(':') {
        Some((host, ports)) => (host, Some(ports)),
        None => (text, None),
    })
}

fn parse_ports(text: &str) -> Result<Ports, String> {
    if text == "*" {
        return Ok(Ports::ANY);
    }
    let one = |word: &str| {
        word.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| word.parse::<u16>().ok())
            .flatten()
            .ok_or_else(|| "a port is a number from 0 to 65535, a range `LOW-HIGH`, or `*`".to_owned())
    };
    let (low, high) = match text.split_once('-') {
        Some((low, high)) => (one(low)?, one(high)?),
        None => (one(text)?, one(text)?),
    };
    if low > high {
        return Err(format!("the range is empty; did you mean `{high}-{low}`?"));
    }
    Ok(Ports { low, high })
}

fn parse_target(host: &str) -> Result<Target, String> {
    if host == "*" {
        return Ok(Target::Any);
    }
    if let Some((address, prefix)) = host.split_once('/') {
        let address: IpAddr =
            address.parse().map_err(|_| "before `/` stands an address, as in `10.0.0.0/8`".to_owned())?;
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let prefix: u8 = prefix
            .parse()
            .ok()
            .filter(|prefix| *prefix <= bits)
            .ok_or_else(|| format!("after `/` stands a number from 0 to {bits}"))?;
        return net(address, prefix).map(Target::Net);
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(Target::Net(IpNet::single(address)));
    }
    if host.is_empty() {
        return Err("write a host, an address, or `*`, before the port".into());
    }
    if host.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err("an IPv4 address has four numbers from 0 to 255".into());
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let labels = name.strip_prefix("*.").unwrap_or(&name);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if labels.len() > 253 || !labels.split('.').all(is_label) {
        return Err("a host is letters, digits, `-` and `.`; a leading `*.` stands for any name below".into());
    }
    Ok(Target::Host(name))
}

/// A network with its host bits checked to be zero. A v4-mapped one becomes the v4 network.
fn net(address: IpAddr, prefix: u8) -> Result<IpNet, String> {
    let (masked, address, prefix) = match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            (IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask)), address, prefix)
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) if prefix >= 96 => return net(IpAddr::V4(v4), prefix - 96),
            _ => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                (IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask)), address, prefix)
            }
        },
    };
    if masked != address {
        return Err(format!("the address has bits beyond the prefix; did you mean `{masked}/{prefix}`?"));
    }
    Ok(IpNet { address, prefix })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> NetRule {
        let (target, ports) = parse(text, &Context::for_tests()).expect(text);
        let place = Place { file: "p".into(), line: 1, column: 1 };
        NetRule { text: text.into(), place, target, ports }
    }

    fn check(text: &str, yes: &[(&str, u16)], no: &[(&str, u16)]) {
        for (cases, want) in [(yes, true), (no, false)] {
            for (address, port) in cases {
                let address = Some(address.parse().unwrap());
                assert_eq!(rule(text).applies(address, None, Some(*port)), want, "{text} {address:?}:{port}");
            }
        }
    }

    #[test]
    fn rules_apply_to_what_they_say() {
        check("*", &[("1.2.3.4", 1), ("::1", 2)], &[]);
        check("*:443", &[("1.2.3.4", 443)], &[("1.2.3.4", 80)]);
        check("10.0.0.0/8:5432", &[("10.255.0.1", 5432), ("::ffff:10.0.0.1", 5432)], &[("11.0.0.1", 5432)]);
        check("127.0.0.1:*", &[("127.0.0.1", 1), ("::ffff:127.0.0.1", 1)], &[("127.0.0.2", 1), ("::1", 1)]);
        check("[::1]:80", &[("::1", 80)], &[("::1", 81), ("127.0.0.1", 80)]);
        check("::1", &[("::1", 80)], &[("::2", 80)]);
        check("[fd00::/8]:53-60", &[("fd12::1", 53), ("fd12::1", 60)], &[("fd12::1", 61), ("fe80::1", 53)]);
        check("0.0.0.0/0", &[("1.2.3.4", 0)], &[("::1", 0)]);
        check("[::ffff:10.0.0.0/104]:1", &[("10.1.1.1", 1)], &[("11.1.1.1", 1)]);
        check("169.254.169.254", &[("169.254.169.254", 80)], &[("169.254.169.253", 80)]);
        check("localhost:80", &[("127.0.0.1", 80), ("::1", 80)], &[("127.0.0.2", 80)]);
    }

    #[test]
    fn names_apply_to_what_the_resolver_said() {
        let address = Some("192.0.2.7".parse().unwrap());
        assert!(rule("api.example.com:443").applies(address, Some("API.example.com."), Some(443)));
        assert!(!rule("api.example.com:443").applies(address, None, Some(443)));
        assert!(rule("*.example.com").applies(address, Some("a.b.example.com"), Some(1)));
        assert!(rule("*.example.com").applies(address, Some("b.test,a.example.com"), Some(1)));
        assert!(!rule("*.example.com").applies(address, Some("example.com"), Some(1)));
        assert!(!rule("*.example.com").applies(address, Some("badexample.com"), Some(1)));
    }

    #[test]
    fn unix_sockets_have_their_own_rules() {
        assert!(rule("unix:/run/x.sock").applies_to_unix_path(b"/run/x.sock"));
        assert!(!rule("unix:/run/x.sock").applies_to_unix_path(b"/run/y.sock"));
        assert!(rule("unix:@a*").applies_to_unix_abstract(b"abc"));
        assert!(!rule("unix:@a").applies_to_unix_abstract(b"abc"));
    }
}
