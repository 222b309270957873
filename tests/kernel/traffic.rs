//! What the evidence counts of each end of the run's connections, held against what the other ends counted themselves.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use assay::evidence::{Endpoint, Evidence};
use assay::observe::loss::Kind;

use crate::harness::net::{Network, Ran};
use crate::harness::sandbox::{cgroup_roots, text};
use crate::needs::{Need, are_met};

/// Servers at every address: of a protocol of lines over TCP at 7001 (a line says how many bytes follow, and how many are
/// wanted back), of echoes over UDP at 7002, and of HTTP at 80 that takes what is posted. Each writes down what the kernel
/// says that its socket received and sent: `PROTO ADDRESS PORT received sent`.
const SERVERS: &str = r"
import http.server, socket, socketserver, struct, sys, threading
log = open(sys.argv[1] + '/counted', 'a', buffering=1)
def plain(address): return address.removeprefix('::ffff:')
def note(sock):
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    received, = struct.unpack_from('Q', info, 128)
    sent, = struct.unpack_from('Q', info, 200)
    address, port = sock.getsockname()[:2]
    log.write('tcp %s %s %s %s\n' % (plain(address), port, received, sent))
class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            there, back = map(int, line.split())
            self.rfile.read(there)
            self.wfile.write(b'y' * back)
        note(self.connection)
class Http(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200); self.send_header('Content-Length', '70000'); self.end_headers()
        self.wfile.write(b'z' * 70000)
    def finish(self):
        super().finish()
        self.connection.recv(1)
        note(self.connection)
    def log_message(self, *_): pass
class Server(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6
    allow_reuse_address = True
    def handle_error(self, *_): pass
def datagrams(address):
    sock = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((address, 7002))
    while True:
        data, peer = sock.recvfrom(65536)
        log.write('udp %s 7002 %s %s\n' % (address, len(data), 2 * len(data)))
        sock.sendto(data * 2, peer)
for address in ['10.9.0.1', 'fd09::1', '10.9.0.4']:
    threading.Thread(target=datagrams, args=(address,), daemon=True).start()
threading.Thread(target=Server(('::', 7001), Lines).serve_forever, daemon=True).start()
Server(('::', 80), Http).serve_forever()
";

/// A client of these, which says what the kernel says that its own sockets sent.
const CLIENT: &str = r"
import errno, socket, struct, sys
def lines(host, *asked):
    with socket.create_connection((host, 7001)) as sock:
        for there, back in asked:
            sock.sendall(b'%d %d\n' % (there, back) + b'x' * there)
            while back: back -= len(sock.recv(min(back, 1 << 16)))
        sock.shutdown(socket.SHUT_WR); assert sock.recv(1) == b''
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
        print('sent', host, *struct.unpack_from('Q', info, 200))
def refused(host, port, is_blocking, kind=socket.SOCK_STREAM):
    sock = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, kind)
    sock.setblocking(is_blocking)
    try:
        sock.connect((host, port)) if kind == socket.SOCK_STREAM else sock.sendto(b'x', (host, port))
    except OSError as error: pass
    else: sys.exit('%s was not refused' % host)
    if not is_blocking:
        import select
        select.select([], [sock], [])
def echo(host, *sizes):
    sock = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_DGRAM)
    for size in sizes:
        sock.sendto(b'u' * size, (host, 7002)); assert len(sock.recv(65536)) == 2 * size
lines('api.test', (1000, 2000), (300000, 5)); lines('api.test', (0, 900000))
lines('10.9.0.4', (7, 7)); lines('fd09::1', (40000, 50000))
echo('10.9.0.1', 1, 500, 30000); echo('fd09::1', 1200)
connected = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); connected.connect(('10.9.0.4', 7002))
for _ in range(3): connected.send(b'c' * 100); assert len(connected.recv(300)) == 200
odd = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); odd.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b'\1\1\1\0')
for size in (1, 1000): odd.sendto(b'o' * size, ('10.9.0.4', 7002)); assert len(odd.recv(3000)) == 2 * size
refused('10.9.0.4', 9, True); refused('10.9.0.4', 9, False); refused('fd09::1', 9, False)
refused('10.9.0.5', 7001, True); refused('10.9.0.5', 7001, False)
refused('10.9.0.5', 7002, True, socket.SOCK_DGRAM); refused('fd09::5', 7001, True)
";

fn is_possible(test: &str, programs: &[&'static str]) -> bool {
    let mut needs = vec![Need::Root, Need::Btf, Need::CgroupV2];
    needs.extend(
        ["dnsmasq", "ip", "ss", "python3"].iter().chain(programs).map(|program| Need::Program(program)),
    );
    are_met(&format!("traffic::{test}"), &needs)
}

fn network(records: &[&str]) -> Network {
    let mut network = Network::with(records);
    let folder = network.folder().display().to_string();
    fs::write(network.folder().join("servers.py"), SERVERS).expect("a file");
    fs::write(network.folder().join("client.py"), CLIENT).expect("a file");
    network.servers = format!(
        "python3 {folder}/servers.py {folder} >{folder}/servers.log 2>&1 &\nended=\"$ended $!\"\n\
         for try in $(seq 200); do [ $(ss -Hlun sport = 7002 | wc -l) = 3 ] && break; sleep 0.05; done\n"
    );
    network
}

/// What the servers counted: protocol, address and port → received, sent.
fn counted(network: &Network) -> BTreeMap<(String, String, u16), (u64, u64)> {
    let mut counted: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for line in fs::read_to_string(network.folder().join("counted")).expect("the servers' log").lines() {
        let [proto, address, port, received, sent] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let all = counted.entry((proto.into(), address.into(), port.parse().expect("a port"))).or_default();
        *all = (all.0 + number(received), all.1 + number(sent));
    }
    counted
}

/// The end at this port, by its name or one address.
fn end<'a>(evidence: &'a Evidence, proto: &str, place: &str, port: u16) -> &'a Endpoint {
    let is_it = |end: &&Endpoint| {
        let is_named = end.host.as_deref() == Some(place);
        let is_there = end.addresses.iter().any(|address| address.to_string() == place);
        end.proto == proto && end.port == port && (is_named || is_there)
    };
    let found: Vec<&Endpoint> = evidence.observed.endpoints.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{proto} {place} {port}: {:?}", evidence.observed.endpoints);
    found[0]
}

fn numbers(end: &Endpoint) -> (Option<u64>, u64, u64) {
    (end.connections, end.failed, end.blocked)
}

/// What the client's sockets sent, what was sent again included, by whom it asked for.
fn sent(ran: &Ran) -> BTreeMap<String, u64> {
    let mut sent: BTreeMap<String, u64> = BTreeMap::new();
    for line in text(&ran.output.stdout).lines() {
        let [_, host, bytes] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        *sent.entry(host.into()).or_default() += bytes.parse::<u64>().expect("a number");
    }
    sent
}

#[test]
fn bytes_and_attempts_are_what_both_ends_counted() {
    if !is_possible("bytes_and_attempts_are_what_both_ends_counted", &[]) {
        return;
    }
    let network = network(&["api.test,10.9.0.1"]);
    let net = "{allow: ['10.9.0.53:53', '10.9.0.1:*', '10.9.0.4:*', '[fd09::1]:*']}";
    let policy = network.policy(net);
    let ran = network.run(&["--enforce", "--policy", &policy], &["python3", "client.py"]);
    assert_eq!(ran.output.status.code(), Some(0), "{}", text(&ran.output.stderr));
    let (counted, sent) = (counted(&network), sent(&ran));
    let served = |proto: &str, address: &str, port| counted[&(proto.to_owned(), address.to_owned(), port)];
    // Where the kernel does not say whose packet it is, an answer is a claim, and the address stays; both find it.
    for (place, host, address, connections) in [
        ("10.9.0.1", "api.test", "10.9.0.1", 2),
        ("10.9.0.4", "10.9.0.4", "10.9.0.4", 1),
        ("fd09::1", "fd09::1", "fd09::1", 1),
    ] {
        let end = end(&ran.evidence, "tcp", place, 7001);
        assert_eq!(numbers(end), (Some(connections), 0, 0), "{end:?}");
        // The server says what arrived of its own; the sockets of both say what they sent, and how often.
        let (received, from_server) = served("tcp", address, 7001);
        assert_eq!(end.bytes, Some((sent[host], from_server)), "{end:?}");
        // The end of a stream counts as a byte to who receives it.
        assert!(received <= sent[host] + connections, "{end:?}: {received}");
    }
    assert_eq!(end(&ran.evidence, "tcp", "10.9.0.1", 7001).host.as_deref(), Some("api.test"));
    for (address, sends) in [("10.9.0.1", 3), ("fd09::1", 1), ("10.9.0.4", 3)] {
        let end = end(&ran.evidence, "udp", address, 7002);
        assert_eq!(numbers(end), (Some(sends), 0, 0), "{end:?}");
        assert_eq!(end.bytes, Some(served("udp", address, 7002)), "{end:?}");
    }
    // Refused by the other end, whether the call waited for it or not.
    for (address, failed) in [("10.9.0.4", 2), ("fd09::1", 1)] {
        let end = end(&ran.evidence, "tcp", address, 9);
        assert_eq!((numbers(end), end.bytes), ((Some(0), failed, 0), Some((0, 0))), "{end:?}");
    }
    // Refused by the policy.
    for (proto, address, port, blocked) in
        [("tcp", "10.9.0.5", 7001, 2), ("udp", "10.9.0.5", 7002, 1), ("tcp", "fd09::5", 7001, 1)]
    {
        let end = end(&ran.evidence, proto, address, port);
        assert_eq!((numbers(end), end.bytes), ((Some(0), 0, blocked), Some((0, 0))), "{end:?}");
    }
    let report = fs::read_to_string(network.folder().join("run.yaml.report.md")).expect("a report");
    assert!(report.contains("| `api.test` | 10.9.0.1 | `tcp` | 7001 | 2 | 0 | 0 | "), "{report}");
    let resolver = end(&ran.evidence, "udp", "10.9.0.53", 53);
    let (out, into) = resolver.bytes.expect("they are counted");
    assert!(out > 20 && into > out, "{resolver:?}");
}

const REAL: &str = "head -c 400000 /dev/zero > posted
curl -sS -o /dev/null --data-binary @posted http://10.9.0.1/
curl -sS -o /dev/null --data-binary @posted 'http://[fd09::1]/'
curl -sS -o /dev/null --max-time 20 http://10.9.0.2:9/ || true
(echo '100000 60'; head -c 100000 /dev/zero; sleep 0.1) | openssl s_client -quiet -no_ign_eof -connect 10.9.0.3:443 >/dev/null 2>&1
";

#[test]
fn real_clients_are_counted_as_their_servers_count() {
    if !is_possible("real_clients_are_counted_as_their_servers_count", &["curl", "openssl"]) {
        return;
    }
    let mut network = network(&[]);
    let folder = network.folder().display().to_string();
    let tls = format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x \
         -keyout {folder}/key.pem -out {folder}/cert.pem 2>/dev/null\n\
         mkfifo {folder}/held; sleep 1000 > {folder}/held & ended=\"$ended $!\"\n\
         openssl s_server -quiet -accept 10.9.0.3:443 -cert {folder}/cert.pem -key {folder}/key.pem <{folder}/held \
         >{folder}/received 2>/dev/null &\nended=\"$ended $!\"\n\
         for try in $(seq 200); do ss -Hltn sport = 443 | grep -q . && break; sleep 0.05; done\n"
    );
    network.servers += &tls;
    let ran = network.run(&["--dry-run"], &["sh", "-ec", REAL]);
    assert_eq!(ran.output.status.code(), Some(4), "{}", text(&ran.output.stderr));
    let counted = counted(&network);
    for address in ["10.9.0.1", "fd09::1"] {
        let end = end(&ran.evidence, "tcp", address, 80);
        assert_eq!(numbers(end), (Some(1), 0, 0), "{end:?}");
        let (received, from_server) = counted[&("tcp".to_owned(), address.to_owned(), 80)];
        let (out, into) = end.bytes.expect("they are counted");
        assert_eq!(into, from_server, "{end:?}");
        // What was sent again is counted again.
        assert!(received >= 400_000 && received <= out + 1 && out <= 2 * received, "{end:?}: {received}");
    }
    let refused = end(&ran.evidence, "tcp", "10.9.0.2", 9);
    assert_eq!(numbers(refused), (Some(0), 1, 0), "{refused:?}");
    let tls = end(&ran.evidence, "tcp", "10.9.0.3", 443);
    assert_eq!(numbers(tls), (Some(1), 0, 0), "{tls:?}");
    let (out, _) = tls.bytes.expect("they are counted");
    // Besides the bytes themselves: a greeting, and some 22 bytes for each record of at most 16 KiB.
    assert!((100_010..110_000).contains(&out) || out > 200_000, "{tls:?}");
}

/// A server under us, and a client that is not.
const SERVES: &str = r"
import socket
server = socket.create_server(('10.9.0.1', 7100))
open('ready', 'w').close()
for _ in range(2):
    sock, _ = server.accept()
    while data := sock.recv(65536): pass
    sock.sendall(b'a' * 12345); sock.close()
";

#[test]
fn what_the_run_serves_is_counted_by_its_own_port() {
    if !is_possible("what_the_run_serves_is_counted_by_its_own_port", &[]) {
        return;
    }
    let mut network = network(&[]);
    let client = r"
import os, socket, time
while not os.path.exists('ready'): time.sleep(0.02)
for _ in range(2):
    sock = socket.create_connection(('10.9.0.1', 7100)); sock.sendall(b'b' * 50000); sock.shutdown(socket.SHUT_WR)
    while sock.recv(65536): pass
";
    fs::write(network.folder().join("outside.py"), client).expect("a file");
    network.servers += "python3 outside.py & ended=\"$ended $!\"\n";
    let ran = network.run(&["--dry-run"], &["python3", "-c", SERVES]);
    assert!(matches!(ran.output.status.code(), Some(0 | 4)), "{}", text(&ran.output.stderr));
    let served: Vec<&Endpoint> = ran.evidence.observed.endpoints.iter().filter(|end| end.is_served).collect();
    let [served] = served[..] else { panic!("{:?}", ran.evidence.observed.endpoints) };
    assert_eq!((served.port, &*served.proto, served.connections), (7100, "tcp", None), "{served:?}");
    let (out, into) = served.bytes.expect("they are counted");
    // What was sent again is counted again.
    assert!((24_690..49_380).contains(&out) && (100_000..200_000).contains(&into), "{served:?}");
}

#[test]
fn what_has_no_room_is_counted_together() {
    if !is_possible("what_has_no_room_is_counted_together", &[]) {
        return;
    }
    const MANY: u64 = 4400;
    let script = format!(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in range(10000, {}): s.sendto(b'12345', ('10.9.0.2', port))",
        10_000 + MANY
    );
    let network = network(&[]);
    let ran = network.run(&["--dry-run"], &["python3", "-c", &script]);
    let observed = &ran.evidence.observed;
    let beyond = observed.counters["traffic_beyond.bytes_out"];
    let told: u64 = observed.endpoints.iter().filter_map(|end| end.bytes.map(|(out, _)| out)).sum();
    assert_eq!((told + beyond, beyond), (5 * MANY, 5 * (MANY - 4096)));
    assert_eq!(observed.endpoints.len() as u64, MANY);
    let without = observed.endpoints.iter().filter(|end| end.bytes.is_none()).count() as u64;
    assert_eq!(without, MANY - 4096);
}

/// A program at the packets that come into a group, put there so that no other may stand at those of a group beneath it.
const EXCLUSIVE: &str = r"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def bpf(command, fields):
    buffer = ctypes.create_string_buffer(fields.ljust(128, b'\0'), 128)
    result = libc.syscall(321, command, buffer, 128)
    if result < 0: sys.exit(os.strerror(ctypes.get_errno()))
    return result
# All of them pass: r0 = 1; exit.
code = ctypes.create_string_buffer(struct.pack('<BBhiBBhi', 0xb7, 0, 0, 1, 0x95, 0, 0, 0), 16)
words = ctypes.create_string_buffer(b'GPL')
program = bpf(5, struct.pack('<IIQQ', 8, 2, ctypes.addressof(code), ctypes.addressof(words)))
bpf(8, struct.pack('<IIII', os.open(sys.argv[1], os.O_RDONLY), program, 0, 0))
";

/// A control group that goes with the test, and the program in it with the group.
struct Group(PathBuf);

impl Group {
    fn make() -> Self {
        let root = cgroup_roots().into_iter().next().expect("a hierarchy");
        let group = Self(root.join(format!("assay-test-traffic-{}", std::process::id())));
        fs::create_dir(&group.0).expect("a group");
        group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What dies in it needs a moment.
        (0..500).find(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            fs::remove_dir(&self.0).is_ok()
        });
    }
}

/// Somebody above us holds the place of the programs that see packets.
#[test]
fn bytes_that_nobody_could_count_are_missing_and_named() {
    if !is_possible("bytes_that_nobody_could_count_are_missing_and_named", &[]) {
        return;
    }
    let group = Group::make();
    let mut network = network(&["api.test,10.9.0.1"]);
    fs::write(network.folder().join("exclusive.py"), EXCLUSIVE).expect("a script");
    let place = group.0.display();
    let taken = format!("python3 exclusive.py {place}\necho $$ > {place}/cgroup.procs\n");
    network.servers += &taken;
    let ran = network.run(&["--dry-run"], &["python3", "client.py"]);
    assert_eq!(ran.output.status.code(), Some(4), "{}", text(&ran.output.stderr));
    let why = "attach to the group: Operation not permitted (os error 1)";
    let gaps = &ran.evidence.coverage.ledger.gaps;
    let of = |reason: &str| {
        let found = gaps.iter().filter(|gap| gap.reason == reason);
        found.map(|gap| (gap.kind, gap.detail.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(of("bytes-not-counted"), [(Kind::Net, why)], "{gaps:?}");
    assert_eq!(of("names-not-seen"), [(Kind::Net, why)], "{gaps:?}");
    // The ends are told by what the calls said, and none of them with a number of bytes that nobody counted.
    let ends = &ran.evidence.observed.endpoints;
    assert!(ends.iter().all(|end| end.bytes.is_none() && !end.is_served), "{ends:?}");
    assert_eq!(numbers(end(&ran.evidence, "tcp", "10.9.0.1", 7001)), (Some(2), 0, 0));
    assert_eq!(numbers(end(&ran.evidence, "tcp", "10.9.0.4", 9)), (Some(1), 1, 0));
    assert_eq!(numbers(end(&ran.evidence, "udp", "10.9.0.1", 7002)), (Some(3), 0, 0));
    let counters = &ran.evidence.observed.counters;
    assert!(!counters.keys().any(|key| key.starts_with("traffic_beyond")), "{counters:?}");
    let report = fs::read_to_string(network.folder().join("run.yaml.report.md")).expect("a report");
    assert!(report.contains("bytes-not-counted"), "{report}");
    assert!(report.contains("| 10.9.0.1 | `tcp` | 7001 | 2 | 0 | 0 |  |  |"), "{report}");
}
