//! A policy with names is held as the run's own name server answers: what is allowed works at the first try, and there is
//! no way around.

use std::collections::BTreeSet;

use assay::profile::effect::{Effect, EffectResult, NetEffect, Port};

use crate::harness::net::{Network, Ran, SERVER};
use crate::harness::sandbox::text;
use crate::needs::{Need, are_met};

fn is_possible(test: &str) -> bool {
    let programs = ["dnsmasq", "ip", "ss", "python3", "curl"].map(Need::Program);
    let kernel = [Need::Root, Need::Btf, Need::CgroupV2, Need::NetnsInPackets];
    are_met(&format!("by_name::{test}"), &[&kernel[..], &programs].concat())
}

/// Connections and sends, as `HOST-OR-ADDRESS:PORT`, that ended so. Those by which glibc sorts addresses are left out.
fn ended(ran: &Ran, result: EffectResult) -> BTreeSet<String> {
    let text = |net: &NetEffect| {
        let host = net.host.as_deref().filter(|_| net.address.is_none());
        let address = net.address.as_ref().map(assay::profile::name::Name::as_str);
        let port = net.port.map(|port| format!("{port:?}")).unwrap_or_default();
        format!("{} {}", host.or(address).unwrap_or("?"), port.replace("Number(", "").replace(')', ""))
    };
    let effects = ran.evidence.identity.effects.iter();
    effects
        .filter_map(|effect| match effect {
            Effect::Net(net)
                if net.result == result && net.proto == "tcp" && net.port != Some(Port::Number(53)) =>
            {
                Some(text(net))
            }
            _ => None,
        })
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Runs the script; each of its lines tells whether it went well.
fn outcomes(network: &Network, net: &str, lines: &[&str]) -> (Vec<bool>, Ran) {
    let script: String =
        lines.iter().map(|line| format!("if {line}; then echo yes; else echo no; fi\n")).collect();
    let ran = network.run(&["--enforce", "--policy", &network.policy(net)], &["sh", "-c", &script]);
    let told = text(&ran.output.stdout);
    let outcomes: Vec<bool> = told.lines().map(|line| line == "yes").collect();
    assert_eq!(outcomes.len(), lines.len(), "{told}{}", text(&ran.output.stderr));
    (outcomes, ran)
}

/// Fetches the page.
fn curl(url: &str) -> String {
    format!("curl -sS --max-time 5 -o /dev/null {url}")
}

#[test]
fn what_is_allowed_by_name_works_at_the_first_try_and_nothing_else_does() {
    if !is_possible("what_is_allowed_by_name_works_at_the_first_try_and_nothing_else_does") {
        return;
    }
    let mut network = Network::with(&[
        "api.test,10.9.0.1",
        "api.test,10.9.0.2",
        "six.test,fd09::1",
        "a.b.wild.test,10.9.0.3",
        "wild.test,10.9.0.4",
        "badwild.test,10.9.0.4",
        "real.else,10.9.0.5",
    ]);
    network.names.push("--cname=alias.test,real.else".into());
    let lines = [
        curl("http://API.test/"),
        curl("-4 http://10.9.0.2/"),
        curl("http://six.test/"),
        curl("http://A.b.wild.test/"),
        curl("http://alias.test/"),
        curl("http://wild.test/"),
        curl("http://badwild.test/"),
        curl("http://api.test:8080/"),
        curl("http://10.9.0.53/"),
        curl("--resolve api.test:80:10.9.0.4 http://api.test/"),
    ];
    let net = "{allow: ['api.test:80', 'six.test:80', '*.wild.test:80', 'alias.test:1-100']}";
    for resolv_conf in [
        format!("nameserver {}\n", SERVER[0]),
        format!("nameserver {}\noptions use-vc\n", SERVER[0]),
        format!("nameserver {}\noptions edns0\n", SERVER[1]),
    ] {
        network.resolv_conf.clone_from(&resolv_conf);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (outcomes, ran) = outcomes(&network, net, &lines);
        let want = [true, true, true, true, true, false, false, false, false, false];
        assert_eq!(outcomes, want, "{resolv_conf}{}", text(&ran.output.stderr));
        let reached = ["a.b.wild.test 80", "alias.test 80", "api.test 80", "six.test 80"];
        assert_eq!(ended(&ran, EffectResult::Ok), set(&reached), "{resolv_conf}");
        assert_eq!(
            ended(&ran, EffectResult::Denied),
            set(&["10.9.0.53 80", "api.test 8080", "badwild.test,wild.test 80"]),
            "{resolv_conf}"
        );
        assert_eq!(ran.evidence.identity.degradations, [], "{resolv_conf}");
        assert!(ran.evidence.observed.effects.values().all(|facts| facts.denied_by != Some("system")));
    }
}

#[test]
fn a_name_is_not_bound_to_this_host_or_its_link() {
    if !is_possible("a_name_is_not_bound_to_this_host_or_its_link") {
        return;
    }
    let network = Network::with(&[
        "a.evil.test,127.0.0.1",
        "b.evil.test,169.254.169.254",
        "c.evil.test,::1",
        "d.evil.test,::ffff:127.0.0.1",
        "e.evil.test,0.0.0.0",
        "good.evil.test,10.9.0.1",
    ]);
    let lines = ["a", "b", "c", "d", "e", "good"].map(|name| curl(&format!("http://{name}.evil.test/")));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (outcomes, ran) = outcomes(&network, "{allow: ['*.evil.test:*']}", &lines);
    assert_eq!(outcomes, [false, false, false, false, false, true], "{}", text(&ran.output.stderr));
}

/// An address of the link is reached by nobody who does not say which link, so that the client says it.
#[test]
fn a_name_is_not_bound_to_an_ipv6_address_of_the_link() {
    if !is_possible("a_name_is_not_bound_to_an_ipv6_address_of_the_link") {
        return;
    }
    let mut network = Network::with(&["link.evil.test,fe80::7"]);
    network.servers += "ip -6 addr add fe80::7/64 dev lo nodad\n";
    let client = "python3 -c 'import socket
place = socket.getaddrinfo(\"link.evil.test\", 80, socket.AF_INET6, socket.SOCK_STREAM)[0][4]
socket.socket(socket.AF_INET6).connect((place[0], 80, 0, socket.if_nametoindex(\"lo\")))'";
    for (net, is_reached) in
        [("{allow: ['*.evil.test:*']}", false), ("{allow: ['*.evil.test:*', '[fe80::7]:80']}", true)]
    {
        let (outcomes, ran) = outcomes(&network, net, &[client]);
        assert_eq!(outcomes, [is_reached], "{net}: {}", text(&ran.output.stderr));
    }
}

#[test]
fn a_denied_name_is_denied_wherever_it_is_known_to_be() {
    if !is_possible("a_denied_name_is_denied_wherever_it_is_known_to_be") {
        return;
    }
    let network = Network::with(&[
        "good.test,10.9.0.1",
        "bad.test,10.9.0.1",
        "bad.test,10.9.0.2",
        "x.bad.test,10.9.0.3",
    ]);
    // Denied names are looked up at the start, so that the first connection of all is refused already.
    let lines = [
        curl("http://10.9.0.1/"),
        curl("http://good.test/"),
        curl("http://bad.test/"),
        curl("http://10.9.0.2/"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (outcomes, _) = outcomes(&network, "{allow: ['*:*'], deny: ['bad.test']}", &lines);
    assert_eq!(outcomes, [false, false, false, false]);
    // A pattern is denied from the answer on.
    let lines = [
        curl("http://10.9.0.3/"),
        curl("http://x.bad.test/"),
        curl("http://10.9.0.3/"),
        curl("http://10.9.0.4/"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (outcomes, ran) = self::outcomes(&network, "{allow: ['*:*'], deny: ['*.bad.test']}", &lines);
    assert_eq!(outcomes, [true, false, false, true], "{}", text(&ran.output.stderr));
}

#[test]
fn nobody_takes_the_place_of_the_name_server() {
    if !is_possible("nobody_takes_the_place_of_the_name_server") {
        return;
    }
    const LIAR: &str = r"
import socket, sys
address = sys.argv[1]
family = socket.AF_INET6 if ':' in address else socket.AF_INET
server = socket.socket(family, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind((address, 53))
client = socket.socket(family, socket.SOCK_DGRAM)
client.connect((sys.argv[2], 53))
client.send(b'\0\7\1\0\0\1\0\0\0\0\0\0\3api\4test\0\0\1\0\1')
data, peer = server.recvfrom(512)
server.sendto(data[:2] + b'\x81\x80\0\1\0\1\0\0\0\0' + data[12:] + b'\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\x09\0\4', peer)
client.recv(512)
";
    const TUNNEL: &str = r"
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'secret', (sys.argv[1], int(sys.argv[2])))
";
    const CONNECTED: &str = r"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('10.9.0.4', 53)); s.send(b'secret')
";
    let network = Network::with(&["api.test,10.9.0.1"]);
    for (name, script) in [("liar", LIAR), ("tunnel", TUNNEL), ("connected", CONNECTED)] {
        std::fs::write(network.folder().join(name), script).expect("a script");
    }
    // In a namespace of its own the liar has the server's address, and tells the truth to nobody outside.
    let elsewhere = "ip link set lo up; ip addr add 10.9.0.53/32 dev lo; python3 liar 10.9.0.53 10.9.0.53";
    let lines = [
        "python3 liar 10.9.0.53 10.9.0.53".to_owned(),
        "python3 liar 0.0.0.0 10.9.0.53".to_owned(),
        "python3 liar :: fd09::53".to_owned(),
        // Another server that lies, at an address that may be reached.
        "python3 liar 127.0.0.9 127.0.0.9".to_owned(),
        format!("unshare --user --map-root-user --net sh -ec '{elsewhere}'"),
        curl("http://10.9.0.4/"),
        "python3 tunnel 10.9.0.4 53".to_owned(),
        "python3 tunnel 10.9.0.53 54".to_owned(),
        "python3 connected".to_owned(),
        curl("http://api.test/"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (outcomes, ran) = outcomes(&network, "{allow: ['api.test:80', '127.0.0.0/8:*']}", &lines);
    let is_elsewhere_possible = outcomes[4];
    let want = [false, false, false, true, is_elsewhere_possible, false, false, false, false, true];
    assert_eq!(outcomes, want, "{}", text(&ran.output.stderr));
}

#[test]
fn names_of_the_hosts_file_are_allowed_from_the_start() {
    if !is_possible("names_of_the_hosts_file_are_allowed_from_the_start") {
        return;
    }
    let mut network = Network::with(&["other.test,10.9.0.1"]);
    network.hosts += "10.9.0.2 db.filed.test db\n";
    let lines = [curl("http://db.filed.test/"), curl("http://10.9.0.2/"), curl("http://other.test/")];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (outcomes, ran) = outcomes(&network, "{allow: ['*.filed.test:80']}", &lines);
    assert_eq!(outcomes, [true, true, false], "{}", text(&ran.output.stderr));
}

#[test]
fn an_address_is_allowed_for_as_long_as_its_answer_and_a_minute() {
    if !is_possible("an_address_is_allowed_for_as_long_as_its_answer_and_a_minute") {
        return;
    }
    // It holds for two seconds.
    let network = Network::with(&["short.test,10.9.0.1,2"]);
    let lines = [
        curl("http://short.test/"),
        "sleep 50".into(),
        curl("http://10.9.0.1/"),
        "sleep 13".into(),
        curl("http://10.9.0.1/"),
        curl("http://short.test/"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (outcomes, ran) = outcomes(&network, "{allow: ['short.test:80']}", &lines);
    assert_eq!(outcomes, [true, true, true, true, false, true], "{}", text(&ran.output.stderr));
}

#[test]
fn a_message_within_a_message_allows_nothing() {
    if !is_possible("a_message_within_a_message_allows_nothing") {
        return;
    }
    // The name server tells the truth: a text that whoever owns a name wrote, and which a segment begins with. It looks
    // like an answer that gives the allowed name another address. Asked for that name itself, it does give that address.
    const SERVER: &str = r"
import socket, time
forged = b'\0\7\x81\x80\0\1\0\1\0\0\0\0\3api\4test\0\0\1\0\1' + b'\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\x09\0\4'
framed = len(forged).to_bytes(2, 'big') + forged
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(('10.9.0.2', 53))
server.listen()
while True:
    peer, _ = server.accept()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if b'text' in peer.recv(512):
        size = len(framed)
        head = b'\0\7\x81\x80\0\1\0\1\0\0\0\0\4text\4test\0\0\x10\0\1'
        head += b'\xc0\x0c\0\x10\0\1\0\0\0\x3c' + (size + 1).to_bytes(2, 'big') + bytes([size])
        peer.send((len(head) + size).to_bytes(2, 'big') + head)
        time.sleep(0.3)
        peer.send(framed)
    else:
        peer.send(framed)
    peer.close()
";
    const CLIENT: &str = r"
import socket, sys, time
for attempt in range(100):
    try:
        client = socket.create_connection(('10.9.0.2', 53))
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
name = sys.argv[1].encode()
ask = b'\0\7\1\0\0\1\0\0\0\0\0\0' + bytes([len(name)]) + name + b'\4test\0\0\1\0\1'
client.send(len(ask).to_bytes(2, 'big') + ask)
got = b''
while chunk := client.recv(4096):
    got += chunk
assert b'\x0a\x09\0\4' in got
";
    let mut network = Network::with(&["other.test,10.9.0.1"]);
    network.resolv_conf = "nameserver 10.9.0.2\n".into();
    network.servers += "python3 server >/dev/null 2>&1 &\nended=\"$ended $!\"\n";
    for (name, script) in [("server", SERVER), ("client", CLIENT)] {
        std::fs::write(network.folder().join(name), script).expect("a script");
    }
    let fetch = curl("http://10.9.0.4/");
    let lines = ["python3 client text", &fetch, "python3 client api", &fetch];
    let (outcomes, ran) = outcomes(&network, "{allow: ['api.test:80']}", &lines);
    assert_eq!(outcomes, [true, false, true, true], "{}", text(&ran.output.stderr));
}

/// Answers about denied names that the kernel half does not read whole are not delivered, by whatever means they come.
#[test]
fn what_may_be_an_answer_about_a_denied_name_is_read_whole_or_not_delivered() {
    if !is_possible("what_may_be_an_answer_about_a_denied_name_is_read_whole_or_not_delivered") {
        return;
    }
    // Answers as the first label says: cut at a byte and with the last byte of an address behind it, with many records
    // before the address, or plainly, with 10.9.0.4.
    const SERVER: &str = r"
import socket, threading, time
def answer(ask):
    end = 12
    while ask[end]:
        end += 1 + ask[end]
    question, label = ask[12:end + 5], ask[13:13 + ask[12]]
    record = b'\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4'
    many = 300 if label == b'many' else 0
    last = int(label.split(b'-')[1]) if b'-' in label else 4
    records = (record + b'\x0a\x09\0\5') * many + record + b'\x0a\x09\0' + bytes([last])
    return label, ask[:2] + b'\x81\x80\0\1' + (many + 1).to_bytes(2, 'big') + b'\0\0\0\0' + question + records
def stream():
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(('10.9.0.2', 53)); server.listen()
    while True:
        peer, _ = server.accept()
        threading.Thread(target=serve, args=(peer,)).start()
def serve(peer):
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    label, said = answer(peer.recv(512)[2:])
    framed = len(said).to_bytes(2, 'big') + said
    at = int(label[3:].split(b'-')[0]) if label.startswith(b'cut') else len(framed)
    for part in [framed[:at], framed[at:]]:
        peer.send(part)
        time.sleep(0.2)
    time.sleep(2)
    peer.close()
threading.Thread(target=stream).start()
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind(('10.9.0.2', 53))
while True:
    ask, peer = server.recvfrom(512)
    server.sendto(answer(ask)[1], peer)
";
    // Whether the whole answer came.
    const CLIENT: &str = r"
import socket, sys
how, labels = sys.argv[1], sys.argv[2].encode('latin-1').split(b'/')
ask = b'\0\7\1\0\0\1\0\0\0\0\0\0' + b''.join(bytes([len(label)]) + label for label in labels) + b'\0\0\1\0\1'
if how == 'udp':
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); client.settimeout(1.5)
    client.sendto(ask, ('10.9.0.2', 53))
else:
    client = socket.create_connection(('10.9.0.2', 53)); client.settimeout(1.5)
    client.send(len(ask).to_bytes(2, 'big') + ask)
got = b''
try:
    while not got.endswith(b'\x0a\x09\0' + bytes([int(sys.argv[3])])):
        got += client.recv(8192) or sys.exit(1)
except TimeoutError:
    sys.exit(1)
";
    let mut network = Network::with(&["other.test,10.9.0.1"]);
    network.resolv_conf = "nameserver 10.9.0.2\n".into();
    network.servers += "python3 server >/dev/null 2>&1 &\nended=\"$ended $!\"\n\
        for try in $(seq 100); do ss -Hltn 'src 10.9.0.2:53' | grep -q . && break; sleep 0.05; done\n";
    for (name, script) in [("server", SERVER), ("client", CLIENT)] {
        std::fs::write(network.folder().join(name), script).expect("a script");
    }
    let ask = |how: &str, name: &str, last: u8| format!("python3 client {how} '{name}' {last}");
    let fetch = |last: u8| curl(&format!("http://10.9.0.{last}/"));
    let net = "{allow: ['*:*'], deny: ['*.bad.test']}";
    let run = |lines: &[String]| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        outcomes(&network, net, &lines).0
    };
    // Two that can never be read, then such as are of no rule.
    let unread = ["many", "a b", "a.b"];
    let mut lines: Vec<String> = unread.map(|name| ask("udp", &format!("{name}/bad/test"), 4)).into();
    lines.push(fetch(4));
    lines.extend(unread.map(|name| ask("udp", &format!("{name}/good/test"), 4)));
    lines.push(ask("tcp", "cut40-4/good/test", 4));
    lines.push(fetch(4));
    lines.push(ask("tcp", "plain/bad/test", 4));
    lines.push(fetch(4));
    assert_eq!(run(&lines), [false, false, false, true, true, true, true, true, true, true, false]);
    // A part is not delivered; when it is sent again it comes with the rest, and is read.
    let cuts = [(1, 1), (6, 3), (20, 5), (40, 53)];
    let lines: Vec<String> = cuts
        .iter()
        .flat_map(|(at, last)| [ask("tcp", &format!("cut{at}-{last}/bad/test"), *last), fetch(*last)])
        .collect();
    for (pair, line) in run(&lines).chunks(2).zip(lines.chunks(2)) {
        assert!(pair != [true, true], "{line:?}: delivered and not noted");
    }
}

/// A server that gives another address each time, for no time at all; the one with `dual` in its name has one of each kind.
const ROTATES: &str = r"
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind(('10.9.0.2', 53))
turns = 0
while True:
    ask, peer = server.recvfrom(512)
    end = 12
    while ask[end]: end += 1 + ask[end]
    kind = ask[end + 2]
    record = b'\xc0\x0c\0' + bytes([kind]) + b'\0\1\0\0\0\0\0'
    if kind == 1:
        record += b'\4\x0a\x09\0' + bytes([[1, 3, 4][turns % 3] if b'rotates' in ask else 5])
        turns += b'rotates' in ask
    elif b'dual' in ask:
        record += b'\x10\xfd\x09' + bytes(13) + b'\5'
    else:
        record = b''
    server.sendto(ask[:2] + b'\x81\x80\0\1\0' + bytes([bool(record)]) + b'\0\0\0\0' + ask[12:end + 5] + record, peer)
";

#[test]
fn answers_that_change_each_time_are_followed_and_open_nothing_ahead() {
    if !is_possible("answers_that_change_each_time_are_followed_and_open_nothing_ahead") {
        return;
    }
    let mut network = Network::with(&["other.test,10.9.0.1"]);
    network.resolv_conf = "nameserver 10.9.0.2\n".into();
    network.servers += "python3 rotates >/dev/null 2>&1 &\nended=\"$ended $!\"\n\
        for try in $(seq 100); do ss -Hlun 'src 10.9.0.2:53' | grep -q . && break; sleep 0.05; done\n";
    std::fs::write(network.folder().join("rotates"), ROTATES).expect("a script");
    let lines = [
        curl("-4 http://rotates.test/"),
        // What the next answer will give is not allowed by the last.
        curl("http://10.9.0.3/"),
        curl("-4 http://rotates.test/"),
        curl("http://10.9.0.3/"),
        curl("http://10.9.0.4/"),
        curl("-4 http://rotates.test/"),
        curl("-4 http://rotates.test/"),
        // Both kinds of address, whichever is preferred.
        curl("-6 http://dual.test/"),
        curl("-4 http://dual.test/"),
        curl("'http://[fd09::5]/'"),
        curl("'http://[fd09::4]/'"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (outcomes, ran) = outcomes(&network, "{allow: ['rotates.test:80', 'dual.test:80']}", &lines);
    let want = [true, false, true, true, false, true, true, true, true, true, false];
    assert_eq!(outcomes, want, "{}", text(&ran.output.stderr));
    let reached = ended(&ran, EffectResult::Ok);
    assert_eq!(reached, set(&["dual.test 80", "rotates.test 80"]), "{reached:?}");
}

#[test]
fn an_alias_of_a_denied_name_is_denied() {
    if !is_possible("an_alias_of_a_denied_name_is_denied") {
        return;
    }
    let mut network = Network::with(&["bad.else,10.9.0.1", "good.else,10.9.0.2"]);
    network.names.push("--cname=alias.test,bad.else --cname=fine.test,good.else".into());
    let lines = [
        curl("http://alias.test/"),
        curl("http://fine.test/"),
        curl("http://10.9.0.1/"),
        curl("http://bad.else/"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let net = "{allow: ['alias.test:80', 'fine.test:80'], deny: ['bad.else']}";
    let (outcomes, ran) = outcomes(&network, net, &lines);
    assert_eq!(outcomes, [false, true, false, false], "{}", text(&ran.output.stderr));
}

/// A proxy that connects to whatever it is asked for.
const PROXY: &str = r"
import socket, threading
def serve(peer):
    line = peer.recv(4096).split(b' ')[1].decode()
    host, port = line.rsplit(':', 1)
    there = socket.create_connection((host, int(port)))
    peer.sendall(b'HTTP/1.1 200 OK\r\n\r\n')
    def copy(source, to):
        while data := source.recv(65536): to.sendall(data)
        to.shutdown(socket.SHUT_WR)
    threading.Thread(target=copy, args=(there, peer)).start()
    copy(peer, there)
server = socket.create_server(('', 3128))
while True: threading.Thread(target=serve, args=(server.accept()[0],)).start()
";

/// A proxy is an end like any other: what it does for whoever asks happens outside the run, and the record ends at it.
#[test]
fn a_proxy_is_reached_where_it_is_allowed_and_told_as_the_end() {
    if !is_possible("a_proxy_is_reached_where_it_is_allowed_and_told_as_the_end") {
        return;
    }
    let mut network = Network::with(&["api.test,10.9.0.1", "proxy.test,10.9.0.2", "bad.test,10.9.0.4"]);
    network.servers += "python3 proxy >/dev/null 2>&1 &\nended=\"$ended $!\"\n\
        for try in $(seq 100); do ss -Hltn sport = 3128 | grep -q . && break; sleep 0.05; done\n";
    std::fs::write(network.folder().join("proxy"), PROXY).expect("a script");
    let through = |proxy: &str| curl(&format!("--proxytunnel -x http://{proxy}:3128 http://10.9.0.4/"));
    let lines = [through("10.9.0.3"), through("api.test"), through("bad.test"), through("proxy.test")];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let net = "{allow: ['api.test:80', 'proxy.test:3128'], deny: ['bad.test']}";
    let (outcomes, ran) = outcomes(&network, net, &lines);
    assert_eq!(outcomes, [false, false, false, true], "{}", text(&ran.output.stderr));
    assert_eq!(ended(&ran, EffectResult::Ok), set(&["proxy.test 3128"]));
    let refused = ["10.9.0.3 3128", "api.test 3128", "bad.test 3128"];
    assert_eq!(ended(&ran, EffectResult::Denied), set(&refused));
}

/// Calls that name an address without being a connect, or a second one on a socket that has one.
const OTHER_CALLS: &str = r"
import socket, sys
how = sys.argv[1]
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
tcp = socket.socket()
if how == 'fast-open':
    tcp.sendto(b'GET / HTTP/1.0\r\n\r\n', 0x20000000, ('10.9.0.4', 80))
elif how == 'again':
    tcp.connect(('10.9.0.1', 80))
    # AF_UNSPEC takes the connection away.
    import ctypes
    assert ctypes.CDLL(None).connect(tcp.fileno(), bytes(16), 16) == 0
    tcp.connect(('10.9.0.4', 80))
elif how == 'beside':
    udp.connect(('10.9.0.1', 80)); udp.sendto(b'secret', ('10.9.0.4', 80))
elif how == 'message':
    udp.sendmsg([b'secret'], [], 0, ('10.9.0.4', 80))
elif how == 'mapped':
    socket.socket(socket.AF_INET6).connect(('::ffff:10.9.0.4', 80))
elif how == 'reuse':
    # The port of a connection that stands, for another one.
    for host in ['10.9.0.1', '10.9.0.4']:
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind(('0.0.0.0', 45045)); one.connect((host, 80))
elif how == 'allowed':
    tcp.connect(('10.9.0.1', 80)); udp.connect(('10.9.0.1', 80)); udp.send(b'x')
";

#[test]
fn no_other_call_reaches_an_address_that_no_name_allows() {
    if !is_possible("no_other_call_reaches_an_address_that_no_name_allows") {
        return;
    }
    let network = Network::with(&["api.test,10.9.0.1"]);
    std::fs::write(network.folder().join("calls"), OTHER_CALLS).expect("a script");
    let calls = ["fast-open", "again", "beside", "message", "mapped", "reuse", "allowed"];
    let mut lines = vec![curl("http://api.test/")];
    lines.extend(calls.map(|how| format!("python3 calls {how}")));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (outcomes, ran) = outcomes(&network, "{allow: ['api.test:80']}", &lines);
    let want = [true, false, false, false, false, false, false, true];
    assert_eq!(outcomes, want, "{}", text(&ran.output.stderr));
    // That each of them was refused, and did not fail for another reason.
    let errors = text(&ran.output.stderr);
    assert_eq!(errors.matches("PermissionError").count(), 6, "{errors}");
}

/// What 0006 does not hold, and says so: a question carries data to the name server, and on to whoever has the name. That the
/// name server was spoken to is told.
#[test]
fn data_in_questions_passes_and_the_name_server_is_told() {
    if !is_possible("data_in_questions_passes_and_the_name_server_is_told") {
        return;
    }
    let network = Network::with(&["api.test,10.9.0.1"]);
    let data = "c2VjcmV0.elsewhere.test";
    let look_up = format!("getent ahosts {data}");
    let (outcomes, ran) =
        outcomes(&network, "{allow: ['api.test:80']}", &[&look_up, &curl("http://api.test/")]);
    assert_eq!(outcomes, [false, true], "{}", text(&ran.output.stderr));
    let log = std::fs::read_to_string(network.folder().join("log")).expect("the server's log");
    assert!(log.to_ascii_lowercase().contains(&data.to_ascii_lowercase()), "{log}");
    let is_told = ran.evidence.identity.effects.iter().any(|effect| {
        matches!(effect, Effect::Net(net) if net.port == Some(Port::Number(53))
            && net.result == EffectResult::Ok
            && net.address.as_ref().is_some_and(|address| address.as_str() == SERVER[0]))
    });
    assert!(is_told, "{:?}", ran.evidence.identity.effects);
}
