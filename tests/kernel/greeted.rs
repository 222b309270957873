//! Connections that no name server named are told by what the client asked for, as the servers' own log says; and a name
//! that was only asked for takes no other's place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use assay::evidence::Evidence;
use assay::profile::effect::{Effect, HostFrom, NetEffect, NetEffectOp, Port};

use crate::harness::net::{Network, Ran};
use crate::harness::sandbox::{ASSAY, text};
use crate::needs::{Need, are_met};

/// Servers of TLS at 443 and of HTTP at 80 that write down at which of their addresses they were asked for which name.
const SERVERS: &str = r"
import http.server, socket, ssl, sys, threading
folder = sys.argv[1]
log = open(folder + '/asked', 'a', buffering=1)
def note(kind, sock, name):
    address = sock.getsockname()[0].removeprefix('::ffff:')
    log.write('%s %s %s\n' % (kind, address, name or 'none'))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if not isinstance(self.connection, ssl.SSLSocket):
            note('http', self.connection, self.headers.get('Host', ''))
        self.send_response(404); self.send_header('Content-Length', '0'); self.end_headers()
    def log_message(self, *_): pass
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    def handle_error(self, *_): pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder + '/cert.pem', folder + '/key.pem')
context.sni_callback = lambda sock, name, _: note('sni', sock, name)
secure = Server(('::', 443), Handler)
secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
plain = Server(('::', 80), Handler)
threading.Thread(target=secure.serve_forever, daemon=True).start()
plain.serve_forever()
";

fn is_possible(test: &str, programs: &[&'static str]) -> bool {
    let mut needs = vec![Need::Root, Need::Btf, Need::CgroupV2];
    let all = ["dnsmasq", "ip", "ss", "python3", "openssl"];
    needs.extend(all.iter().chain(programs).map(|program| Need::Program(program)));
    are_met(&format!("greeted::{test}"), &needs)
}

/// A network with these servers.
pub fn network(records: &[&str]) -> Network {
    let mut network = Network::with(records);
    let folder = network.folder().display().to_string();
    fs::write(network.folder().join("servers.py"), SERVERS).expect("a file");
    network.servers = format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x \
         -keyout {folder}/key.pem -out {folder}/cert.pem 2>/dev/null\n\
         python3 {folder}/servers.py {folder} >{folder}/servers.log 2>&1 &\nended=\"$ended $!\"\n"
    );
    network
}

/// What the servers were asked for: source and address → names.
fn asked(network: &Network) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut asked: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for line in fs::read_to_string(network.folder().join("asked")).expect("the servers' log").lines() {
        let [kind, address, name] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        asked.entry((kind.into(), address.into())).or_default().insert(name.into());
    }
    asked
}

fn connections(evidence: &Evidence) -> impl Iterator<Item = &NetEffect> {
    evidence.observed.effects.keys().filter_map(|effect| match effect {
        Effect::Net(net)
            if net.op == NetEffectOp::Connect
                && matches!(net.port, Some(Port::Number(80 | 443)))
                && net.proto == "tcp" =>
        {
            Some(net.as_ref())
        }
        _ => None,
    })
}

/// How each address was named, by the port of what listens there.
fn told(ran: &Ran) -> BTreeMap<(u16, String), (Option<String>, Option<HostFrom>)> {
    connections(&ran.evidence)
        .map(|net| {
            let Some(Port::Number(port)) = net.port else { unreachable!("asked for above") };
            let address = net.address.as_ref().map_or_else(String::new, ToString::to_string);
            ((port, address), (net.host.clone(), net.host_from))
        })
        .collect()
}

const CLIENTS: &str = r#"
curl -sSk -o /dev/null --resolve Curl.test:443:10.9.0.1 https://Curl.test/
curl -sSk -o /dev/null --resolve six.test:443:[fd09::1] https://six.test/
python3 -c '
import socket, ssl
context = ssl._create_unverified_context()
for name in ["python.test", "second.python.test"]:
  context.wrap_socket(socket.create_connection(("10.9.0.2", 443)), server_hostname=name).close()'
openssl s_client -connect 10.9.0.3:443 -servername openssl.test </dev/null >/dev/null 2>&1
node -e 'require("tls").connect({host: "10.9.0.4", port: 443, servername: "node.test", rejectUnauthorized: false}, function() { this.end() })'
git -c http.sslVerify=false -c http.curloptResolve=git.test:443:10.9.0.5 ls-remote -q https://git.test/none.git 2>/dev/null || true
curl -sSk -o /dev/null https://10.9.0.53/
curl -sS -o /dev/null --resolve web.test:80:10.9.0.1 http://web.test/
curl -sS -o /dev/null --resolve web.test:80:[fd09::2] http://web.test/
curl -sS -o /dev/null http://10.9.0.2/
curl -sS -o /dev/null -x http://10.9.0.3:80 http://proxied.test/
"#;

#[test]
fn connections_without_an_answer_are_named_as_the_servers_were_asked() {
    if !is_possible(
        "connections_without_an_answer_are_named_as_the_servers_were_asked",
        &["curl", "git", "node"],
    ) {
        return;
    }
    let network = network(&[]);
    let ran = network.run(&["--dry-run"], &["sh", "-ec", CLIENTS]);
    assert_eq!(ran.output.status.code(), Some(4), "{}", text(&ran.output.stderr));
    let asked = asked(&network);
    let mut told = told(&ran);
    // A request to a proxy is for somebody else.
    let proxied = told.remove(&(80, "10.9.0.3".into()));
    assert_eq!(proxied, Some((None, None)));
    assert_eq!(told.len(), 10, "{told:?}");
    for ((port, address), (host, from)) in &told {
        let (kind, source) = if *port == 443 { ("sni", HostFrom::Sni) } else { ("http", HostFrom::Http) };
        let names = &asked[&(kind.to_owned(), address.clone())];
        let want = names.iter().map(|name| name.to_ascii_lowercase()).collect::<Vec<_>>().join(",");
        // An address is no name.
        let is_named = want != "none" && want != *address;
        let want = is_named.then_some(want);
        assert_eq!((host, *from), (&want, is_named.then_some(source)), "{address}:{port}");
    }
    let named = told.values().filter(|(host, _)| host.is_some()).count();
    assert_eq!(named, 8, "{told:?}");
}

const DISAGREES: &str = r#"
import socket, ssl
context = ssl._create_unverified_context()
def ask(host, name):
  context.wrap_socket(socket.create_connection((host, 443)), server_hostname=name).close()
ask("front.test", "front.test"); ask("front.test", "hidden.test"); ask("other.test", "other.test")
"#;

/// A name that a client asks for takes the place of none that it was given, and what does not agree is told.
#[test]
fn a_name_that_is_only_asked_for_stands_beside_the_given_one() {
    if !is_possible("a_name_that_is_only_asked_for_stands_beside_the_given_one", &[]) {
        return;
    }
    let network = network(&["front.test,10.9.0.1", "other.test,10.9.0.2"]);
    let bundle = network.folder().join("run.tar.gz").display().to_string();
    let ran = network.run(&["--dry-run", "--bundle", &bundle], &["python3", "-c", DISAGREES]);
    assert_eq!(ran.output.status.code(), Some(4), "{}", text(&ran.output.stderr));
    let mut told: Vec<_> = ran
        .evidence
        .observed
        .effects
        .iter()
        .filter_map(|(effect, facts)| match effect {
            Effect::Net(net) if net.port == Some(Port::Number(443)) => {
                let asked: Vec<&str> = facts.asked.iter().map(String::as_str).collect();
                Some((net.host.clone(), net.host_from, net.address.clone(), asked))
            }
            _ => None,
        })
        .collect();
    told.sort();
    let given =
        |host: &str, asked: Vec<&'static str>| (Some(host.to_owned()), Some(HostFrom::Dns), None, asked);
    assert_eq!(told, [given("front.test", vec!["hidden.test"]), given("other.test", vec![])]);

    let lint = Command::new(ASSAY)
        .args(["evidence", "lint", &bundle, "--fail-on", "none"])
        .output()
        .expect("assay runs");
    let said = text(&lint.stdout);
    let found = said.matches("(asked for").collect::<Vec<_>>();
    assert!(said.contains("front.test (asked for hidden.test): connect") && found.len() == 1, "{said}");
    let report = fs::read_to_string(network.folder().join("run.yaml.report.md")).expect("a report");
    assert!(report.contains("by dns, asked for `hidden.test`"), "{report}");
}

/// Sends the packets of `quic.hex`, and one that looks like them.
const QUIC: &str = r"
import socket, sys
packets = [bytes.fromhex(line) for line in sys.argv[1].split()]
def send(address, *datagrams):
    made = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM)
    for datagram in datagrams:
        made.sendto(datagram, (address, 443))
send('10.9.0.1', packets[0])
send('fd09::2', packets[1])
send('10.9.0.3', packets[3], packets[2])
send('10.9.0.4', packets[0][:-1] + b'x', packets[2])
send('10.9.0.5', bytes(1300), packets[0][:1199])
connected = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
connected.connect(('10.9.0.53', 443))
connected.send(packets[0])
send(socket.getaddrinfo('given.test', 443)[0][4][0], packets[1])
";

/// The packets are the examples of RFC 9001 and RFC 9369, and the first once more in two: see `observe/quic/tests.rs`.
#[test]
fn connections_of_quic_are_named_by_their_first_packets() {
    if !is_possible("connections_of_quic_are_named_by_their_first_packets", &[]) {
        return;
    }
    let network = network(&["given.test,fd09::1"]);
    let packets = include_str!("../fixtures/quic.hex");
    let ran = network.run(&["--dry-run"], &["python3", "-c", QUIC, packets]);
    assert_eq!(ran.output.status.code(), Some(4), "{}", text(&ran.output.stderr));
    let told: BTreeSet<_> = ran
        .evidence
        .observed
        .effects
        .iter()
        .filter_map(|(effect, facts)| match effect {
            // glibc connects to what it was told, to sort addresses: to port 443 because the script says so.
            Effect::Net(net) if net.port == Some(Port::Number(443)) && net.proto == "udp" => {
                let asked = facts.asked.iter().cloned().collect::<Vec<_>>().join(",");
                let address = net.address.as_ref().map(ToString::to_string);
                Some((
                    net.host.clone().unwrap_or_default(),
                    net.host_from,
                    address.unwrap_or_default(),
                    asked,
                ))
            }
            _ => None,
        })
        .collect();
    let row = |host: &str, from, address: &str, asked: &str| {
        (host.to_owned(), from, address.to_owned(), asked.to_owned())
    };
    let want = BTreeSet::from([
        row("example.com", Some(HostFrom::Sni), "10.9.0.1", ""),
        row("example.com", Some(HostFrom::Sni), "fd09::2", ""),
        row("example.com", Some(HostFrom::Sni), "10.9.0.3", ""),
        row("", None, "10.9.0.4", ""),
        row("", None, "10.9.0.5", ""),
        row("example.com", Some(HostFrom::Sni), "10.9.0.53", ""),
        row("given.test", Some(HostFrom::Dns), "", "example.com"),
    ]);
    assert_eq!(told, want);
}
