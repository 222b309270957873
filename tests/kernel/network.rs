//! Calls on sockets: which end, however the address is given.

use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};

use libc::{AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM};

use crate::actor::{Arg, Part, Step, call};
use crate::stage::Stage;

fn stage(test: &str) -> Option<Stage> {
    let stage = Stage::new(&format!("network::{test}"))?;
    stage.dir("real").link("link", "real");
    Some(stage)
}

pub fn socket(family: i32, kind: i32, protocol: i32) -> Step {
    call(libc::SYS_socket, [family.into(), kind.into(), protocol.into()])
}

/// `struct sockaddr_in` or `sockaddr_in6`.
pub fn inet(address: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::new();
    match address {
        SocketAddr::V4(address) => {
            bytes.extend((AF_INET as u16).to_ne_bytes());
            bytes.extend(address.port().to_be_bytes());
            bytes.extend(address.ip().octets());
            bytes.extend([0; 8]);
        }
        SocketAddr::V6(address) => {
            bytes.extend((AF_INET6 as u16).to_ne_bytes());
            bytes.extend(address.port().to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(address.ip().octets());
            bytes.extend(address.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// `struct sockaddr_un`, as long as the name is.
pub fn unix(name: &[u8]) -> Vec<u8> {
    [&(AF_UNIX as u16).to_ne_bytes()[..], name].concat()
}

/// `struct sockaddr_nl`.
pub fn netlink() -> Vec<u8> {
    [&(AF_NETLINK as u16).to_ne_bytes()[..], &[0; 10]].concat()
}

pub fn at(bytes: Vec<u8>) -> Arg {
    Arg::At(vec![Part::Bytes(bytes)])
}

pub fn addressed(nr: i64, slot: u8, address: Vec<u8>) -> Step {
    let len = address.len() as i64;
    call(nr, [Arg::Kept(slot), at(address), len.into()])
}

pub fn connect(slot: u8, address: Vec<u8>) -> Step {
    addressed(libc::SYS_connect, slot, address)
}

pub fn bind(slot: u8, address: Vec<u8>) -> Step {
    addressed(libc::SYS_bind, slot, address)
}

pub fn listen(slot: u8) -> Step {
    call(libc::SYS_listen, [Arg::Kept(slot), 1.into()])
}

pub fn sendto(slot: u8, address: Vec<u8>) -> Step {
    let len = address.len() as i64;
    call(libc::SYS_sendto, [Arg::Kept(slot), "m".into(), 1.into(), 0.into(), at(address), len.into()])
}

/// `struct msghdr` for one byte to this address.
pub fn message(address: Vec<u8>) -> Vec<Part> {
    let len = address.len() as u64;
    vec![
        Part::To(vec![Part::Bytes(address)]),
        Part::Word(len),
        Part::To(vec![Part::To(vec![Part::Bytes(b"m".to_vec())]), Part::Word(1)]),
        Part::Word(1),
        Part::Word(0),
        Part::Word(0),
        Part::Word(0),
    ]
}

fn v4(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn mapped(port: u16) -> SocketAddr {
    (std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port).into()
}

/// A port where nobody listens.
pub fn free_port() -> u16 {
    TcpListener::bind(v4(0)).and_then(|listener| listener.local_addr()).expect("a port").port()
}

#[test]
fn connections_are_told_by_address_and_port() {
    let Some(stage) = stage("connections_are_told_by_address_and_port") else { return };
    let listener = TcpListener::bind("[::]:0").expect("a listener for both families");
    let port = listener.local_addr().expect("its address").port();
    let closed = free_port();
    let nonblocking = SOCK_STREAM | libc::SOCK_NONBLOCK;
    let script = [
        (socket(AF_INET, SOCK_STREAM, 0).keep(1), String::new()),
        (connect(1, inet(v4(port))), format!("connect tcp 127.0.0.1:{port}")),
        (connect(1, inet(v4(port))), format!("connect tcp 127.0.0.1:{port} = EISCONN")),
        (socket(AF_INET, SOCK_STREAM, 0).keep(1), String::new()),
        (
            connect(1, inet(SocketAddr::from(([127, 0, 0, 2], port)))),
            format!("connect tcp 127.0.0.2:{port} = ok"),
        ),
        (socket(AF_INET6, SOCK_STREAM, 0).keep(1), String::new()),
        (connect(1, inet((Ipv6Addr::LOCALHOST, port).into())), format!("connect tcp ::1:{port} = ok")),
        (socket(AF_INET6, SOCK_STREAM, 0).keep(1), String::new()),
        (connect(1, inet(mapped(port))), format!("connect tcp 127.0.0.1:{port} = ok")),
        (socket(AF_INET, SOCK_STREAM, 0).keep(1), String::new()),
        (connect(1, inet(v4(closed))), format!("connect tcp 127.0.0.1:{closed} = ECONNREFUSED")),
        (socket(AF_INET, nonblocking, 0).keep(1), String::new()),
        (connect(1, inet(v4(port))), format!("connect tcp 127.0.0.1:{port} = EINPROGRESS")),
        (socket(AF_INET, SOCK_DGRAM, 0).keep(1), String::new()),
        (connect(1, inet(v4(53))), "connect udp 127.0.0.1:53 = ok".to_owned()),
        // Taking a connection away leads nowhere.
        (connect(1, vec![0; 16]), String::new()),
        (connect(1, vec![2, 0, 0]), "connect udp #unreadable = EINVAL".to_owned()),
        (
            call(libc::SYS_connect, [Arg::Kept(1), 8.into(), 16.into()]),
            "connect udp #unreadable = EFAULT".to_owned(),
        ),
    ];
    let script: Vec<(Step, &str)> = script.iter().map(|(step, line)| (step.clone(), line.as_str())).collect();
    stage.check(&script);
}

#[test]
fn own_ends_are_told_as_the_kernel_chose_them() {
    let Some(stage) = stage("own_ends_are_told_as_the_kernel_chose_them") else { return };
    let port = free_port();
    let taken = TcpListener::bind(v4(0)).expect("a listener");
    let busy = taken.local_addr().expect("its address").port();
    let script = [
        (socket(AF_INET, SOCK_STREAM, 0).keep(1), String::new()),
        (bind(1, inet(v4(0))), "bind tcp 127.0.0.1:? ephemeral".to_owned()),
        (socket(AF_INET, SOCK_STREAM, 0).keep(1), String::new()),
        (bind(1, inet(v4(port))), format!("bind tcp 127.0.0.1:{port} = ok")),
        (listen(1), format!("listen tcp 127.0.0.1:{port} = ok")),
        (socket(AF_INET, SOCK_STREAM, 0).keep(1), String::new()),
        (bind(1, inet(v4(busy))), format!("bind tcp 127.0.0.1:{busy} = EADDRINUSE")),
        (socket(AF_INET6, SOCK_DGRAM, 0).keep(1), String::new()),
        (bind(1, inet((Ipv6Addr::LOCALHOST, 0).into())), "bind udp ::1:? ephemeral = ok".to_owned()),
        (socket(AF_INET6, SOCK_STREAM, 0).keep(1), String::new()),
        (bind(1, inet(mapped(0))), "bind tcp 127.0.0.1:? ephemeral = ok".to_owned()),
    ];
    let script: Vec<(Step, &str)> = script.iter().map(|(step, line)| (step.clone(), line.as_str())).collect();
    let played = stage.check(&script);
    for line in played.act().iter().filter(|line| line["ephemeral"] == true) {
        assert!(line["port"].as_u64().expect("a port") > 1023, "{line}");
    }
}

#[test]
fn every_message_is_told_with_its_address() {
    let Some(stage) = stage("every_message_is_told_with_its_address") else { return };
    let receiver = UdpSocket::bind(v4(0)).expect("a receiver");
    let port = receiver.local_addr().expect("its address").port();
    let (second, third) = (SocketAddr::from(([127, 0, 0, 2], 9)), SocketAddr::from(([127, 0, 0, 3], 9)));
    let several: Vec<Part> = [v4(port), second, third]
        .into_iter()
        .flat_map(|address| [message(inet(address)), vec![Part::Word(0)]].concat())
        .collect();
    let script = [
        (socket(AF_INET, SOCK_DGRAM, 0).keep(1), String::new()),
        (sendto(1, inet(v4(port))), format!("send udp 127.0.0.1:{port} = ok")),
        (
            call(libc::SYS_sendmsg, [Arg::Kept(1), Arg::At(message(inet(second))), 0.into()]),
            "send udp 127.0.0.2:9 = ok".to_owned(),
        ),
        (
            call(libc::SYS_sendmmsg, [Arg::Kept(1), Arg::At(several), 3.into(), 0.into()]),
            format!("send udp 127.0.0.1:{port} = ok\nsend udp 127.0.0.2:9 = ok\nsend udp 127.0.0.3:9 = ok"),
        ),
        (
            sendto(1, inet(SocketAddr::from(([255, 255, 255, 255], 9)))),
            "send udp 255.255.255.255:9 = EACCES".to_owned(),
        ),
        // Connected, and without an address: that is not news.
        (connect(1, inet(v4(port))), format!("connect udp 127.0.0.1:{port} = ok")),
        (
            call(libc::SYS_sendto, [Arg::Kept(1), "m".into(), 1.into(), 0.into(), 0.into(), 0.into()]),
            String::new(),
        ),
        (socket(AF_INET6, SOCK_DGRAM, 0).keep(1), String::new()),
        (sendto(1, inet(mapped(port))), format!("send udp 127.0.0.1:{port} = ok")),
        // With data in the first packet, a connection is made without `connect`.
        (socket(AF_INET, SOCK_STREAM, 0).keep(1), String::new()),
        (
            call(
                libc::SYS_sendto,
                [Arg::Kept(1), "m".into(), 1.into(), libc::MSG_FASTOPEN.into(), at(inet(v4(9))), 16.into()],
            ),
            "send tcp 127.0.0.1:9".to_owned(),
        ),
    ];
    let script: Vec<(Step, &str)> = script.iter().map(|(step, line)| (step.clone(), line.as_str())).collect();
    stage.check(&script);
}

#[test]
fn unix_sockets_are_told_by_where_they_lie() {
    let Some(stage) = stage("unix_sockets_are_told_by_where_they_lie") else { return };
    let _engine = UnixListener::bind(stage.path("real/docker.sock")).expect("a listener");
    drop(UnixListener::bind(stage.path("real/dead")).expect("a listener"));
    let _inbox = UnixDatagram::bind(stage.path("real/inbox")).expect("a receiver");
    stage.link("to-engine", "link/docker.sock");
    let absolute = unix(stage.at("link/docker.sock").as_bytes());
    let stream = || socket(AF_UNIX, SOCK_STREAM, 0).keep(1);
    let played = stage.check(&[
        (stream(), ""),
        (connect(1, absolute), "connect unix $/real/docker.sock = ok"),
        (stream(), ""),
        (connect(1, unix(b"to-engine\0")), "connect unix $/real/docker.sock = ok"),
        (stream(), ""),
        (connect(1, unix(b"link/dead")), "connect unix $/real/dead = ECONNREFUSED"),
        (stream(), ""),
        (connect(1, unix(b"link/none\0")), "connect unix $/link/none #lexical = ENOENT"),
        (connect(1, unix(b"\0assay-no\xffbody\0x")), "connect unix @assay-no\\xffbody\\x00x = ECONNREFUSED"),
        (bind(1, unix(b"link/own\0")), "bind unix $/real/own = ok"),
        (listen(1), "listen unix $/real/own = ok"),
        (stream(), ""),
        (bind(1, unix(b"link/own\0")), "bind unix $/real/own = EADDRINUSE"),
        (bind(1, unix(b"\0assay-own")), "bind unix @assay-own = ok"),
        (listen(1), "listen unix @assay-own = ok"),
        (socket(AF_UNIX, SOCK_DGRAM, 0).keep(1), ""),
        (sendto(1, unix(b"link/inbox\0")), "send unix $/real/inbox = ok"),
        (
            call(libc::SYS_sendmsg, [Arg::Kept(1), Arg::At(message(unix(b"link/inbox\0"))), 0.into()]),
            "send unix $/real/inbox = ok",
        ),
        (call(libc::SYS_socketpair, [AF_UNIX.into(), SOCK_STREAM.into(), 0.into(), Arg::Desk(0)]), ""),
    ]);
    let effects = played.evidence["identity"]["effects"].to_string();
    assert!(effects.contains("docker.sock"), "{effects}");
}

/// An int with bits above it.
fn wide(number: i32) -> Arg {
    Arg::Num(i64::from(number) | 1 << 32)
}

#[test]
fn other_families_are_told_by_their_name() {
    let Some(stage) = stage("other_families_are_told_by_their_name") else { return };
    stage.check(&[
        (socket(AF_NETLINK, SOCK_RAW, 0).keep(1), "socket netlink"),
        (bind(1, netlink()), "bind netlink"),
        (sendto(1, netlink()), "send netlink"),
        (socket(AF_PACKET, SOCK_RAW, 0), "socket packet"),
        (socket(AF_VSOCK, SOCK_STREAM, 0), "socket vsock"),
        (socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0), "socket alg"),
        (socket(AF_INET, SOCK_RAW, 1), "socket raw"),
        (socket(AF_INET6, SOCK_RAW, 58), "socket raw"),
        (socket(AF_INET, SOCK_DGRAM, 1), "socket icmp"),
        (socket(AF_INET, SOCK_STREAM, 262), "socket mptcp"),
        (socket(AF_NETLINK, SOCK_RAW, 9), "socket netlink-audit"),
        (socket(77, SOCK_STREAM, 0), "socket family-other"),
        // The kernel takes ints, whatever stands in the other halves of the registers.
        (call(libc::SYS_socket, [AF_INET.into(), SOCK_STREAM.into(), wide(132)]), "socket sctp"),
        (call(libc::SYS_socket, [wide(AF_INET), SOCK_STREAM.into(), 132.into()]), "socket sctp"),
        (call(libc::SYS_socket, [wide(AF_INET), wide(SOCK_STREAM), wide(0)]), ""),
        (call(libc::SYS_socket, [wide(AF_NETLINK), wide(SOCK_RAW), wide(0)]), "socket netlink"),
        (connect(200, netlink()), ""),
    ]);
}
