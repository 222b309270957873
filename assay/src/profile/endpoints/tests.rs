use super::super::acts::{ECONNREFUSED, EINPROGRESS};
use super::*;
use crate::observe::observation::{NameSource, NamedAct};

const EINVAL: i32 = 22;

fn act(op: NetOp, proto: &'static str, end: &str) -> NetAct {
    NetAct { op, proto, endpoint: End::Inet(end.parse().unwrap()), is_ephemeral: false, peer: None }
}

fn see(endpoints: &mut Endpoints, proto: &'static str, end: &str, results: &[CallResult]) {
    let op = if proto == "udp" { NetOp::Send } else { NetOp::Connect };
    for result in results {
        endpoints.see(&act(op, proto, end), *result);
    }
}

fn tally(bytes_out: u64, bytes_in: u64, begun: u64, made: u64) -> TrafficTally {
    TrafficTally { bytes_out, bytes_in, begun, made }
}

fn hosts(given: &[(&str, &str, NameSource)]) -> Hosts {
    let mut hosts = Hosts::default();
    for (host, address, from) in given {
        let named =
            NamedAct { host: (*host).into(), address: address.parse().unwrap(), port: None, from: *from };
        hosts.learn(&named);
    }
    hosts
}

/// As `HOST-OR-ADDRESS:PORT/PROTO connections failed blocked out in`.
fn told(endpoints: &Endpoints, hosts: &Hosts) -> Vec<String> {
    let number = |number: Option<u64>| number.map_or("?".to_owned(), |number| number.to_string());
    let line = |end: &Endpoint| {
        let addresses: Vec<String> = end.addresses.iter().map(ToString::to_string).collect();
        let host = end.host.clone().map(|host| format!("{host}=")).unwrap_or_default();
        format!(
            "{host}{}:{}/{} {} {} {} {} {}",
            addresses.join("+"),
            end.port,
            end.proto,
            number(end.connections),
            end.failed,
            end.blocked,
            number(end.bytes.map(|(out, _)| out)),
            number(end.bytes.map(|(_, into)| into)),
        )
    };
    endpoints.told(hosts).iter().map(line).collect()
}

const RESULTS: [CallResult; 7] = [
    CallResult::Ok,
    CallResult::Errno(EINPROGRESS),
    CallResult::Errno(EALREADY),
    CallResult::Errno(EISCONN),
    CallResult::Errno(ECONNREFUSED),
    CallResult::Errno(EINVAL),
    CallResult::Errno(EPERM),
];

#[test]
fn without_the_kernels_counts_calls_are_what_is_told() {
    let mut endpoints = Endpoints::default();
    see(&mut endpoints, "tcp", "10.0.0.1:443", &RESULTS);
    assert_eq!(told(&endpoints, &Hosts::default()), ["10.0.0.1:443/tcp 2 2 1 ? ?"]);
}

#[test]
fn what_was_under_way_is_known_by_what_was_answered() {
    let mut endpoints = Endpoints::default();
    see(&mut endpoints, "tcp", "10.0.0.1:443", &RESULTS);
    see(&mut endpoints, "sctp", "10.0.0.1:9", &[CallResult::Ok]);
    see(&mut endpoints, "udp", "10.0.0.1:53", &[CallResult::Ok, CallResult::Ok]);
    see(&mut endpoints, "tcp", "10.0.0.2:1", &[CallResult::Errno(EPERM)]);
    see(&mut endpoints, "mptcp", "10.0.0.4:1", &[CallResult::Ok]);
    let address = |text: &str| text.parse().unwrap();
    endpoints.measured = Some(Traffic {
        others: BTreeMap::from([
            (("tcp", address("10.0.0.1"), 443), tally(100, 7, 3, 1)),
            (("udp", address("10.0.0.1"), 53), tally(40, 60, 0, 0)),
            // A call that nobody saw.
            (("tcp", address("10.0.0.3"), 5), tally(1, 2, 1, 1)),
            (("tcp", address("10.0.0.4"), 1), tally(8, 9, 1, 1)),
        ]),
        served: BTreeMap::from([(80, tally(5, 6, 0, 0))]),
        beyond: TrafficTally::default(),
    });
    let lines = [
        "10.0.0.1:9/sctp 1 0 0 ? ?",
        "10.0.0.1:53/udp 2 0 0 40 60",
        // One was answered; of three that began two were not, and one failed before it began.
        "10.0.0.1:443/tcp 1 3 1 100 7",
        "10.0.0.2:1/tcp 0 0 1 0 0",
        "10.0.0.3:5/tcp 1 0 0 1 2",
        "10.0.0.4:1/mptcp 1 0 0 8 9",
        ":80/tcp ? 0 0 5 6",
    ];
    assert_eq!(told(&endpoints, &Hosts::default()), lines);
}

#[test]
fn one_name_is_one_end_whatever_its_addresses() {
    let mut endpoints = Endpoints::default();
    for end in ["10.0.0.1:443", "10.0.0.2:443", "[fd00::1]:443", "10.0.0.1:80", "10.0.0.9:443"] {
        see(&mut endpoints, "tcp", end, &[CallResult::Ok]);
    }
    let hosts = hosts(&[
        ("api.test", "10.0.0.1", NameSource::Resolver),
        ("api.test", "10.0.0.2", NameSource::Resolver),
        ("api.test", "fd00::1", NameSource::Resolver),
        ("lie.test", "10.0.0.9", NameSource::OtherServer),
    ]);
    let lines = [
        "api.test=10.0.0.1:80/tcp 1 0 0 ? ?",
        "api.test=10.0.0.1+10.0.0.2+fd00::1:443/tcp 3 0 0 ? ?",
        "lie.test=10.0.0.9:443/tcp 1 0 0 ? ?",
    ];
    assert_eq!(told(&endpoints, &hosts), lines);
}

#[test]
fn an_end_that_had_no_room_has_no_bytes_rather_than_none() {
    let mut endpoints = Endpoints::default();
    see(&mut endpoints, "tcp", "10.0.0.1:443", &[CallResult::Ok]);
    endpoints.measured = Some(Traffic { beyond: tally(1, 1, 1, 0), ..Traffic::default() });
    assert_eq!(told(&endpoints, &Hosts::default()), ["10.0.0.1:443/tcp 1 0 0 ? ?"]);
    endpoints.measured = Some(Traffic::default());
    assert_eq!(told(&endpoints, &Hosts::default()), ["10.0.0.1:443/tcp 0 0 0 0 0"]);
}

#[test]
fn more_ends_than_are_kept_are_counted() {
    let mut endpoints = Endpoints::default();
    for number in 0..MOST + 5 {
        let end = format!("10.0.{}.{}:1", number / 256, number % 256);
        see(&mut endpoints, "tcp", &end, &[CallResult::Ok]);
    }
    assert_eq!((endpoints.told(&Hosts::default()).len(), endpoints.untold), (MOST, 5));
}
