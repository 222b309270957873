//! Socket facts and addresses → protocol names and [`Endpoint`]s. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use assay_common::record::SockFacts;

use super::event::{Bytes, PathArg, ReadState};
use super::observation::Endpoint;
use super::path::path_of;

/// `AF_UNSPEC`: as an address to connect to, it takes the connection away.
pub const AF_UNSPEC: u16 = 0;
/// `AF_UNIX`.
pub const AF_UNIX: u16 = 1;
/// `AF_INET`.
pub const AF_INET: u16 = 2;
/// `AF_INET6`.
pub const AF_INET6: u16 = 10;
const AF_NETLINK: u16 = 16;

/// The protocol of a socket by family, type and protocol number.
pub fn proto(family: u16, kind: u16, protocol: u16) -> &'static str {
    const STREAM: u16 = 1;
    const DGRAM: u16 = 2;
    const RAW: u16 = 3;
    match (family, kind & 0xf, protocol) {
        (AF_INET | AF_INET6, RAW, _) => "raw",
        (AF_INET | AF_INET6, _, 1 | 58) => "icmp",
        (AF_INET | AF_INET6, _, 132) => "sctp",
        (AF_INET | AF_INET6, _, 262) => "mptcp",
        (AF_INET | AF_INET6, _, 33) => "dccp",
        (AF_INET | AF_INET6, _, 136) => "udplite",
        (AF_INET | AF_INET6, STREAM, _) => "tcp",
        (AF_INET | AF_INET6, DGRAM, _) => "udp",
        (AF_INET | AF_INET6, _, _) => "inet-other",
        (AF_UNIX, _, _) => "unix",
        (15, _, _) => "key",
        (AF_NETLINK, _, 0) => "netlink",
        (AF_NETLINK, _, _) => netlink_proto(protocol),
        (17, _, _) => "packet",
        (21, _, _) => "rds",
        (29, _, _) => "can",
        (30, _, _) => "tipc",
        (31, _, _) => "bluetooth",
        (38, _, _) => "alg",
        (40, _, _) => "vsock",
        (41, _, _) => "kcm",
        (42, _, _) => "qipcrtr",
        (43, _, _) => "smc",
        (44, _, _) => "xdp",
        _ => "family-other",
    }
}

/// Netlink but for routes, which `netlink` by itself is: `include/uapi/linux/netlink.h`.
fn netlink_proto(protocol: u16) -> &'static str {
    match protocol {
        2 => "netlink-usersock",
        4 => "netlink-sock-diag",
        5 => "netlink-nflog",
        6 => "netlink-xfrm",
        7 => "netlink-selinux",
        8 => "netlink-iscsi",
        9 => "netlink-audit",
        10 => "netlink-fib-lookup",
        11 => "netlink-connector",
        12 => "netlink-netfilter",
        15 => "netlink-kobject-uevent",
        16 => "netlink-generic",
        18 => "netlink-scsitransport",
        20 => "netlink-rdma",
        21 => "netlink-crypto",
        22 => "netlink-smc",
        _ => "netlink-other",
    }
}

/// The family an address states.
pub fn family_of(address: &Bytes) -> Option<u16> {
    Some(u16::from_ne_bytes(address.bytes.get(..2)?.try_into().ok()?))
}

/// The end an address names. `path` is what became of a UNIX path.
pub fn endpoint(address: &Bytes, path: &PathArg) -> Endpoint {
    if address.state == ReadState::Unreadable {
        return Endpoint::Unreadable;
    }
    match family_of(address) {
        Some(AF_INET | AF_INET6) => inet(&address.bytes).map_or(Endpoint::Unreadable, Endpoint::Inet),
        Some(AF_UNIX) => unix(&address.bytes[2..], path),
        Some(_) => Endpoint::None,
        None => Endpoint::Unreadable,
    }
}

/// An IP address and port; a mapped one as what it maps.
fn inet(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip = if family == AF_INET {
        IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?))
    } else {
        unmapped(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?))
    };
    Some(SocketAddr::new(ip, port))
}

fn unmapped(ip: Ipv6Addr) -> IpAddr {
    ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)
}

/// What follows the family in a UNIX address.
fn unix(name: &[u8], path: &PathArg) -> Endpoint {
    match name.first() {
        None => Endpoint::None,
        // An abstract name is all of its bytes, NULs included.
        Some(0) => Endpoint::UnixAbstract(name[1..].to_vec()),
        Some(_) => Endpoint::UnixPath(path_of(path, None)),
    }
}

/// A socket's own end, from the kernel's facts.
pub fn local(socket: &SockFacts, unix_name: Option<&Bytes>) -> Endpoint {
    match socket.family {
        AF_INET => {
            Endpoint::Inet(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(socket.local4)), socket.local_port))
        }
        AF_INET6 => {
            Endpoint::Inet(SocketAddr::new(unmapped(Ipv6Addr::from(socket.local6)), socket.local_port))
        }
        AF_UNIX => match unix_name.filter(|name| name.state == ReadState::Whole) {
            Some(name) => unix_own(name.bytes.get(2..).unwrap_or_default()),
            None => Endpoint::None,
        },
        _ => Endpoint::None,
    }
}

/// The kernel keeps the name it was bound with: as text, its directory is no longer known.
fn unix_own(name: &[u8]) -> Endpoint {
    use super::observation::{PathRef, PathState};
    match name.split_first() {
        None => Endpoint::None,
        Some((0, rest)) => Endpoint::UnixAbstract(rest.to_vec()),
        Some(_) => {
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            let state = if name[0] == b'/' { PathState::Lexical } else { PathState::Literal };
            Endpoint::UnixPath(PathRef { bytes: name[..end].to_vec(), state })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> Bytes {
        Bytes { bytes: bytes.to_vec(), state: ReadState::Whole }
    }

    #[test]
    fn a_mapped_address_is_told_as_what_it_maps() {
        let mut bytes = vec![10, 0, 0, 80, 0, 0, 0, 0];
        bytes.extend("::ffff:127.0.0.1".parse::<Ipv6Addr>().unwrap().octets());
        bytes.extend([0; 4]);
        assert_eq!(
            endpoint(&whole(&bytes), &PathArg::default()),
            Endpoint::Inet("127.0.0.1:80".parse().unwrap())
        );
    }

    #[test]
    fn short_addresses_are_unreadable() {
        assert_eq!(endpoint(&whole(&[2, 0, 0, 80, 127]), &PathArg::default()), Endpoint::Unreadable);
        assert_eq!(endpoint(&whole(&[2]), &PathArg::default()), Endpoint::Unreadable);
    }

    #[test]
    fn an_abstract_name_keeps_its_bytes() {
        assert_eq!(
            endpoint(&whole(b"\x01\0\0a\0b"), &PathArg::default()),
            Endpoint::UnixAbstract(b"a\0b".to_vec())
        );
        assert_eq!(endpoint(&whole(b"\x01\0"), &PathArg::default()), Endpoint::None);
    }
}
