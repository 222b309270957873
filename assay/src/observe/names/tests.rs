use std::net::SocketAddr;

use super::*;
use crate::observe::observation::{FileAct, FileKind, NetAct, PathRef};

const SERVER: &str = "10.0.0.53:53";

/// The answer that `a.test` is at 10.0.0.1.
fn message() -> Vec<u8> {
    let mut bytes = vec![0, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    bytes.extend(b"\x01a\x04test\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x01");
    bytes
}

fn udp(payload: &[u8]) -> Packet {
    Packet {
        is_out: false,
        remote: SERVER.parse::<SocketAddr>().unwrap(),
        cookie: 1,
        is_tcp: false,
        is_home: true,
        sequence: 0,
        payload: payload.to_vec(),
        is_cut: false,
    }
}

fn table() -> NameTable {
    let mut table = NameTable::default();
    table.learn(b"nameserver 10.0.0.53\n", b"127.0.0.1 localhost me\n10.0.0.9 db.test db # x\n::1 me\n");
    table
}

fn observation(act: Act) -> Observation {
    let result = CallResult::Ok;
    Observation { seq: 0, t_ns: 0, pid: 1, tid: 1, ppid: 0, comm: Vec::new(), act, result }
}

fn sources(read: &Read) -> Vec<NameSource> {
    read.names.iter().map(|named| named.from).collect()
}

#[test]
fn only_a_server_of_the_host_gives_names() {
    let mut table = table();
    assert_eq!(sources(&table.read(&udp(&message()))), [NameSource::Resolver]);
    let stranger = Packet { remote: "10.0.0.54:53".parse().unwrap(), ..udp(&message()) };
    assert_eq!(sources(&table.read(&stranger)), [NameSource::OtherServer]);
    let elsewhere = Packet { is_home: false, ..udp(&message()) };
    assert_eq!(sources(&table.read(&elsewhere)), [NameSource::OtherServer]);
    let no_server = Packet { remote: "10.0.0.53:5353".parse().unwrap(), ..udp(&message()) };
    assert_eq!(table.read(&no_server), Read::default());
}

#[test]
fn a_server_that_the_run_made_itself_is_not_believed() {
    for (own, is_believed) in [
        ("10.0.0.53:53", false),
        ("0.0.0.0:53", false),
        ("[::]:53", false),
        ("10.0.0.53:54", true),
        ("10.0.0.1:53", true),
    ] {
        let mut table = table();
        let endpoint = Endpoint::Inet(own.parse().unwrap());
        let bind = NetAct { op: NetOp::Bind, proto: "udp", endpoint, is_ephemeral: false, peer: None };
        assert!(table.see(&observation(Act::Net(bind))).is_empty());
        let want = if is_believed { NameSource::Resolver } else { NameSource::OtherServer };
        assert_eq!(sources(&table.read(&udp(&message()))), [want], "{own}");
    }
}

#[test]
fn names_of_the_hosts_file_come_when_it_is_read() {
    let mut table = table();
    let open = |path: &str| {
        observation(Act::File(FileAct {
            op: FileOp::Open,
            path: PathRef::resolved(path),
            requested: None,
            access: BTreeSet::new(),
            kind: FileKind::Regular,
            is_path_only: false,
            is_private: false,
        }))
    };
    assert!(table.see(&open("/etc/host.conf")).is_empty());
    let told = table.see(&open("/etc/hosts"));
    let names: Vec<_> = told.iter().map(|named| (named.host.as_str(), named.address.to_string())).collect();
    assert_eq!(names, [("db.test", "10.0.0.9".to_owned()), ("db", "10.0.0.9".to_owned())]);
}

#[test]
fn a_connections_messages_are_put_together_from_any_segments() {
    let framed = [&(message().len() as u16).to_be_bytes()[..], &message()].concat();
    let both = [framed.clone(), framed].concat();
    let start = u32::MAX - 20;
    let segment = |at: usize, end: usize| Packet {
        is_tcp: true,
        sequence: start.wrapping_add(at as u32),
        ..udp(&both[at..end.min(both.len())])
    };
    for size in 1..both.len() {
        let cuts: Vec<_> = (0..both.len()).step_by(size).collect();
        // In order, each sent again with a part of the next, and from the second on backwards.
        let in_order: Vec<_> = cuts.iter().map(|at| segment(*at, at + size)).collect();
        let again: Vec<_> = cuts.iter().map(|at| segment(*at, at + 2 * size)).collect();
        let mut backwards = in_order.clone();
        backwards[1..].reverse();
        // The later ones come first, then the first again with a part of each.
        let mut otherwise = again.clone();
        otherwise[1..].reverse();
        for segments in [in_order, again, backwards, otherwise] {
            if segments.len() > MAX_AHEAD {
                continue;
            }
            let mut table = table();
            let read: Vec<_> = segments.iter().map(|segment| table.read(segment)).collect();
            assert!(read.iter().all(|read| read.gap.is_none()));
            assert_eq!(read.iter().map(|read| read.names.len()).sum::<usize>(), 2, "segments of {size}");
            assert!(table.unfinished().is_empty(), "segments of {size}");
        }
    }
}

#[test]
fn what_is_cut_is_admitted() {
    let cut = Packet { is_cut: true, ..udp(&message()) };
    assert_eq!(table().read(&cut).gap.unwrap().0, "dns-answer-cut");
    let mut table = table();
    let cut = Packet { is_tcp: true, ..cut };
    assert!(table.read(&cut).gap.is_some());
    assert!(table.read(&Packet { is_cut: false, ..cut }).gap.is_some(), "and so is what follows");
}

#[test]
fn an_answer_that_ends_in_the_middle_is_admitted_at_the_end() {
    let framed = [&(message().len() as u16).to_be_bytes()[..], &message()].concat();
    let segment =
        |at: usize, end: usize| Packet { is_tcp: true, sequence: at as u32, ..udp(&framed[at..end]) };
    let server = BTreeSet::from(["10.0.0.53".parse::<IpAddr>().unwrap()]);
    for missing in 1..framed.len() - 1 {
        // One byte never comes; then the last never does.
        for segments in
            [vec![segment(0, missing), segment(missing + 1, framed.len())], vec![segment(0, missing)]]
        {
            let mut table = table();
            assert!(segments.iter().all(|segment| table.read(segment) == Read::default()));
            assert_eq!(table.unfinished(), server, "without byte {missing}");
        }
    }
}

#[test]
fn the_lists_of_the_host_are_read_as_its_resolver_reads_them() {
    let text = b"# x\nnameserver 192.0.2.1\n nameserver\tfe80::1%eth0 # y\nsearch a.b\nnameserver bad\n";
    assert_eq!(nameservers(text), ["192.0.2.1", "fe80::1"].map(|ip| ip.parse::<IpAddr>().unwrap()));
    assert_eq!(nameservers(b""), [IpAddr::from([127, 0, 0, 1])]);
}

#[test]
fn no_server_makes_us_hold_more_than_a_little() {
    let mut table = table();
    let mut has_gap = false;
    for cookie in 0..2_000 {
        // The beginning of a message that never ends.
        let payload = [&[0xff, 0xff][..], &[0; 16_000]].concat();
        has_gap |= table.read(&Packet { is_tcp: true, cookie, ..udp(&payload) }).gap.is_some();
    }
    assert!(has_gap && table.held <= MAX_HELD + 16_002, "{}", table.held);
    assert_eq!(table.held, table.streams.values().map(Stream::held).sum::<usize>());
    assert_eq!(sources(&table.read(&udp(&message()))), [NameSource::Resolver], "datagrams are still read");
}
