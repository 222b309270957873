//! Connections are told by the names that the run's name server gave, as the server's own log says.

use std::collections::BTreeSet;

use assay::evidence::{Evidence, identity};
use assay::observe::loss::{Completeness, Kind};
use assay::profile::effect::{Effect, HostFrom, NetEffect, NetEffectOp, Port};

use crate::harness::net::{Network, Ran, SERVER};
use crate::harness::sandbox::text;
use crate::needs::{Need, are_met};

pub fn is_possible(test: &str, programs: &[&'static str]) -> bool {
    let mut needs = vec![Need::Root, Need::Btf, Need::CgroupV2, Need::NetnsInPackets];
    needs.extend(
        ["dnsmasq", "ip", "ss", "python3"].iter().chain(programs).map(|program| Need::Program(program)),
    );
    are_met(&format!("named::{test}"), &needs)
}

/// Connections by TCP and sends and connections by UDP, but not those to the name server itself.
pub fn connections(evidence: &Evidence) -> Vec<(&NetEffect, BTreeSet<String>)> {
    evidence
        .observed
        .effects
        .iter()
        .filter_map(|(effect, facts)| match effect {
            Effect::Net(net)
                if matches!(net.op, NetEffectOp::Connect | NetEffectOp::Send)
                    && matches!(net.proto.as_str(), "tcp" | "udp")
                    && net.port != Some(Port::Number(53)) =>
            {
                Some((net.as_ref(), facts.addresses.iter().map(ToString::to_string).collect()))
            }
            _ => None,
        })
        .collect()
}

/// Every connection has the names of the server's log and no other; which hosts there were.
pub fn agrees(ran: &Ran) -> BTreeSet<String> {
    let mut hosts = BTreeSet::new();
    for (net, addresses) in connections(&ran.evidence) {
        let host = net.host.clone().unwrap_or_else(|| panic!("{net:?} has no name"));
        assert_eq!((net.host_from, &net.address), (Some(HostFrom::Dns), &None), "{net:?}");
        assert!(!addresses.is_empty(), "{net:?}");
        for address in &addresses {
            let given = &ran.given[&address.parse().expect("an address")];
            let given: Vec<&str> = given.iter().map(String::as_str).collect();
            assert_eq!(given.join(","), host, "{address}");
        }
        hosts.extend(host.split(',').map(str::to_owned));
    }
    assert_eq!(
        ran.evidence.coverage.ledger.completeness(Kind::Net),
        Completeness::Complete,
        "{:?}",
        ran.evidence.coverage
    );
    hosts
}

const CLIENTS: &str = r#"
curl -sS -o /dev/null http://curl.test/
curl -sS -o /dev/null http://six.test/
python3 -c 'import urllib.request as r; r.urlopen("http://python.test/").read()'
git ls-remote -q http://git.test/none.git 2>/dev/null || true
curl -sS -o /dev/null http://Alias.test/
"#;

const RECORDS: [&str; 5] = [
    "curl.test,10.9.0.1",
    "six.test,fd09::1",
    "python.test,10.9.0.2,fd09::2",
    "git.test,10.9.0.3",
    "real.test,10.9.0.4",
];

fn check_clients(resolv_conf: &str) {
    let mut network = Network::with(&RECORDS);
    network.names.push("--cname=alias.test,real.test".into());
    network.resolv_conf = resolv_conf.into();
    let mut ran = network.run(&["--dry-run"], &["sh", "-ec", CLIENTS]);
    assert_eq!(ran.output.status.code(), Some(4), "{}", text(&ran.output.stderr));
    // The server's log has the address beside the other name; what was asked for is this one.
    ran.given.insert("10.9.0.4".parse().expect("an address"), BTreeSet::from(["alias.test".to_owned()]));
    let hosts = agrees(&ran);
    let want = ["alias.test", "curl.test", "git.test", "python.test", "six.test"].map(str::to_owned);
    assert_eq!(hosts, BTreeSet::from(want));
}

#[test]
fn clients_are_named_as_the_servers_log_says() {
    if is_possible("clients_are_named_as_the_servers_log_says", &["curl", "git"]) {
        check_clients(&format!("nameserver {}\n", SERVER[0]));
    }
}

#[test]
fn clients_are_named_over_tcp_and_over_ipv6() {
    if is_possible("clients_are_named_over_tcp_and_over_ipv6", &["curl", "git"]) {
        check_clients(&format!("nameserver {}\noptions use-vc\n", SERVER[0]));
        check_clients(&format!("nameserver {}\noptions edns0\n", SERVER[1]));
    }
}

/// Each in its own way: over TLS, by a resolver of its own making over UDP and TCP, and by what languages bring along.
const MORE_CLIENTS: &str = r#"
curl -sSk -o /dev/null https://curl.test/
curl -sSk --http1.1 -o /dev/null https://curl.test/again https://second.test/
git -c http.sslVerify=false ls-remote -q https://git.test/none.git 2>/dev/null || true
python3 -c '
import ssl, urllib.error, urllib.request
try: urllib.request.urlopen("https://python.test/", context=ssl._create_unverified_context())
except urllib.error.HTTPError: pass'
NODE_TLS_REJECT_UNAUTHORIZED=0 node -e 'fetch("https://node.test/").catch(e => { console.error(e); process.exit(9) })' 2>/dev/null
perl -MHTTP::Tiny -e 'exit(HTTP::Tiny->new->get("http://perl.test/")->{status} == 404 ? 0 : 9)'
python3 -c '
import socket, struct
def question(name, kind):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return b"\7\7\1\0\0\1\0\0\0\0\0\0" + labels + b"\0" + struct.pack(">HH", kind, 1)
def answered(message, kind):
    length = 4 if kind == 1 else 16
    return socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, message[-length:])
server = ("10.9.0.53", 53)
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asked.sendto(question("own.test", 1), server)
socket.create_connection((answered(asked.recv(512), 1), 80)).close()
asked = socket.create_connection(server)
message = question("stream.test", 28)
asked.sendall(struct.pack(">H", len(message)) + message)
received = b""
while len(received) < 2 or len(received) < 2 + struct.unpack(">H", received[:2])[0]:
    received += asked.recv(512)
socket.create_connection((answered(received, 28), 443)).close()'
"#;

#[test]
fn clients_of_every_kind_are_named_as_the_servers_log_says() {
    let programs = ["curl", "git", "node", "perl", "openssl"];
    if !is_possible("clients_of_every_kind_are_named_as_the_servers_log_says", &programs) {
        return;
    }
    let network = crate::greeted::network(&[
        "curl.test,10.9.0.1",
        "second.test,fd09::1",
        "git.test,10.9.0.2",
        "python.test,fd09::2",
        "node.test,10.9.0.3",
        "perl.test,10.9.0.4",
        "own.test,10.9.0.5",
        "stream.test,fd09::5",
    ]);
    let ran = network.run(&["--dry-run"], &["sh", "-ec", MORE_CLIENTS]);
    assert_eq!(ran.output.status.code(), Some(4), "{}", text(&ran.output.stderr));
    let want = ["curl", "second", "git", "python", "node", "perl", "own", "stream"];
    assert_eq!(agrees(&ran), want.iter().map(|name| format!("{name}.test")).collect());
    // The servers were asked for the same names: nothing else was asked for anywhere.
    assert!(ran.evidence.observed.effects.values().all(|facts| facts.asked.is_empty()));
}

#[test]
fn a_program_with_its_own_resolver_is_named() {
    if !is_possible("a_program_with_its_own_resolver_is_named", &["node"]) {
        return;
    }
    let network = Network::with(&["node.test,10.9.0.1", "lookup.test,10.9.0.2"]);
    // The first asks by node's own resolver, the second by glibc's in another thread.
    let script = r"
        const net = require('net'), dns = require('dns');
        const dial = (host) => new Promise((done, fail) => net.connect(80, host, function() { this.end(); done(); }).on('error', fail));
        dns.promises.resolve4('node.test').then(([a]) => dial(a)).then(() => dial('lookup.test')).catch(e => { console.error(e); process.exit(9); });
    ";
    let ran = network.run(&["--dry-run"], &["node", "-e", script]);
    assert_eq!(ran.output.status.code(), Some(4), "{}", text(&ran.output.stderr));
    assert_eq!(agrees(&ran), BTreeSet::from(["lookup.test".to_owned(), "node.test".to_owned()]));
}

#[test]
fn another_address_of_the_name_is_the_same_run() {
    if !is_possible("another_address_of_the_name_is_the_same_run", &["curl"]) {
        return;
    }
    let ids: BTreeSet<String> = ["10.9.0.1", "10.9.0.2", "10.9.0.4"]
        .iter()
        .map(|address| {
            let network = Network::with(&[&format!("api.test,{address}")]);
            let ran = network.run(&["--dry-run"], &["curl", "-sS", "-o", "/dev/null", "http://api.test/"]);
            assert_eq!(agrees(&ran), BTreeSet::from(["api.test".to_owned()]));
            let is_told =
                connections(&ran.evidence).iter().any(|(_, addresses)| addresses.contains(*address));
            assert!(is_told, "{address} stays in what was observed");
            identity::run_id(&identity::digest(&ran.evidence.identity))
        })
        .collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
}

#[test]
fn what_only_claims_to_be_the_name_server_names_nothing_away() {
    if !is_possible("what_only_claims_to_be_the_name_server_names_nothing_away", &[]) {
        return;
    }
    // Answers whatever it is asked with 10.9.0.3.
    const LIAR: &str = r"
import socket, sys, threading, subprocess
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind((sys.argv[1], 53))
def lie():
    data, peer = server.recvfrom(512)
    server.sendto(data[:2] + b'\x81\x80\0\1\0\1\0\0\0\0' + data[12:] + b'\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\x09\0\3', peer)
threading.Thread(target=lie).start()
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.sendto(b'\0\7\1\0\0\1\0\0\0\0\0\0\4bank\4test\0\0\1\0\1', (sys.argv[1], 53))
client.recvfrom(512)
socket.create_connection(('10.9.0.3', 80)).close()
";
    let elsewhere = "ip link set lo up; ip addr add 10.9.0.53/32 dev lo; ip addr add 10.9.0.3/32 dev lo; \
         python3 -m http.server 80 --bind 10.9.0.3 >/dev/null 2>&1 & \
         for t in $(seq 100); do ss -Hltn sport = 80 | grep -q . && break; sleep 0.05; done; python3 -c \"$LIAR\" 10.9.0.53; kill $!";
    let network = Network::with(&["bank.test,10.9.0.1"]);
    for script in [
        // A server of the run's own on another address, and one in another network namespace at the right one.
        "python3 -c \"$LIAR\" 127.0.0.9".to_owned(),
        format!("unshare --user --map-root-user --net sh -ec '{elsewhere}'"),
    ] {
        let ran = network.run(&["--dry-run"], &["env", &format!("LIAR={LIAR}"), "sh", "-ec", &script]);
        let claimed: Vec<_> = connections(&ran.evidence)
            .into_iter()
            .map(|(net, _)| net)
            .filter(|net| net.port == Some(Port::Number(80)))
            .collect();
        let [net] = claimed[..] else { panic!("{claimed:?} {}", text(&ran.output.stderr)) };
        assert_eq!(
            net.address.as_ref().map(assay::profile::name::Name::as_str),
            Some("10.9.0.3"),
            "{script}"
        );
        assert_eq!(
            (net.host.as_deref(), net.host_from),
            (Some("bank.test"), Some(HostFrom::Dns)),
            "{script}"
        );
        assert!(ran.profile.contains("10.9.0.3:80") && !ran.profile.contains("bank.test"), "{}", ran.profile);
    }
}

#[test]
fn names_of_the_hosts_file_are_told_as_such() {
    if !is_possible("names_of_the_hosts_file_are_told_as_such", &["curl"]) {
        return;
    }
    let mut network = Network::with(&["other.test,10.9.0.1"]);
    network.hosts += "10.9.0.2 filed.test filed\n";
    let ran = network.run(&["--dry-run"], &["curl", "-sS", "-o", "/dev/null", "http://filed.test/"]);
    let [(net, addresses)] = &connections(&ran.evidence)[..] else {
        panic!("{:?}", ran.evidence.identity.effects)
    };
    assert_eq!((net.host.as_deref(), net.host_from), (Some("filed,filed.test"), Some(HostFrom::Hosts)));
    assert_eq!((&net.address, addresses), (&None, &BTreeSet::from(["10.9.0.2".to_owned()])));
}
