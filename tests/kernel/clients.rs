//! Real clients of other kinds are told by the names that the name server's own log has.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use assay::profile::effect::{HostFrom, Port};

use crate::harness::net::Network;
use crate::harness::sandbox::text;
use crate::named::{agrees, connections};
use crate::needs::{Need, are_met, python};

fn is_possible(test: &str, more: &[Need]) -> bool {
    let mut needs = vec![Need::Root, Need::Btf, Need::CgroupV2, Need::NetnsInPackets];
    needs.extend(["dnsmasq", "ip", "ss", "python3", "openssl"].map(Need::Program));
    needs.extend(more);
    are_met(&format!("clients::{test}"), &needs)
}

/// Runs a client that finds these names, and none else.
fn check(network: &Network, command: &[&str], names: &[&str]) {
    let ran = network.run(&["--dry-run"], command);
    assert_eq!(ran.output.status.code(), Some(4), "{}", text(&ran.output.stderr));
    let want: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(agrees(&ran), want, "{}", text(&ran.output.stderr));
}

#[test]
fn requests_of_python_are_named() {
    if !is_possible("requests_of_python_are_named", &[Need::PythonPackages]) {
        return;
    }
    let network = crate::greeted::network(&["requests.test,10.9.0.1", "plain.test,fd09::2"]);
    let script = "import requests, urllib3; urllib3.disable_warnings()
with requests.Session() as session:
    for url in ('https://requests.test/', 'http://plain.test/', 'https://requests.test/again'):
        assert session.get(url, verify=False, timeout=30).status_code == 404, url";
    let python = python().expect("it is needed");
    check(&network, &[&python.to_string_lossy(), "-c", script], &["requests.test", "plain.test"]);
}

const JAVA: &str = r#"
import java.net.*;
import java.net.http.*;
class Client {
    public static void main(String[] args) throws Exception {
        var client = HttpClient.newHttpClient();
        var request = HttpRequest.newBuilder(URI.create("http://java.test/")).build();
        if (client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode() != 404) System.exit(9);
        var old = (HttpURLConnection) new URL("http://older.test/").openConnection();
        if (old.getResponseCode() != 404) System.exit(9);
        try (var socket = new Socket("socket.test", 443)) { socket.getOutputStream().write(1); }
    }
}
"#;

#[test]
fn clients_in_java_are_named() {
    if !is_possible("clients_in_java_are_named", &[Need::Program("java")]) {
        return;
    }
    let network = crate::greeted::network(&[
        "java.test,10.9.0.1",
        "older.test,fd09::1",
        "socket.test,10.9.0.2,fd09::2",
    ]);
    fs::write(network.folder().join("Client.java"), JAVA).expect("a file");
    check(&network, &["java", "Client.java"], &["java.test", "older.test", "socket.test"]);
}

const GO: &str = r#"
package main

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
)

func main() {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	answer, err := (&http.Client{Transport: transport}).Get("https://go.test/")
	if err != nil || answer.StatusCode != 404 {
		os.Exit(9)
	}
	stream, err := net.Dial("tcp", "both.test:80")
	if err != nil {
		os.Exit(9)
	}
	stream.Close()
}
"#;

/// Go's programs ask name servers themselves, both families at once.
#[test]
fn a_static_program_of_go_is_named() {
    if !is_possible("a_static_program_of_go_is_named", &[Need::Program("go")]) {
        return;
    }
    let network = crate::greeted::network(&["go.test,10.9.0.1", "both.test,10.9.0.2,fd09::2"]);
    fs::write(network.folder().join("client.go"), GO).expect("a file");
    let built = Command::new("go")
        .args(["build", "-o", "client", "client.go"])
        .env("CGO_ENABLED", "0")
        .env("GOCACHE", network.folder().join("cache"))
        .env("GOFLAGS", "-mod=mod")
        .current_dir(network.folder())
        .output()
        .expect("go runs");
    assert!(built.status.success(), "{}", text(&built.stderr));
    check(&network, &["./client"], &["go.test", "both.test"]);
}

/// Answers what it is sent, and writes down the names that it was greeted by.
const QUIC_SERVER: &str = r"
import asyncio, sys
import aioquic.tls
from aioquic.asyncio import serve
from aioquic.quic.configuration import QuicConfiguration
folder = sys.argv[1]
log = open(folder + '/greeted', 'a', buffering=1)
pull = aioquic.tls.pull_client_hello
def noted(buffer):
    hello = pull(buffer)
    log.write('%s\n' % (hello.server_name or 'none'))
    return hello
aioquic.tls.pull_client_hello = noted
def echo(reader, writer):
    async def reply():
        writer.write(await reader.read()); writer.write_eof()
    asyncio.ensure_future(reply())
async def main():
    configuration = QuicConfiguration(is_client=False, alpn_protocols=['echo'])
    configuration.load_cert_chain(folder + '/cert.pem', folder + '/key.pem')
    for address in ('10.9.0.2', '10.9.0.3', 'fd09::2'):
        await serve(address, 443, configuration=configuration, stream_handler=echo)
    await asyncio.Future()
asyncio.run(main())
";

const QUIC_CLIENT: &str = r"
import asyncio, ssl, sys
from aioquic.asyncio import connect
from aioquic.quic.configuration import QuicConfiguration
async def main():
    for word in sys.argv[1:]:
        place, _, name = word.partition('=')
        configuration = QuicConfiguration(alpn_protocols=['echo'], verify_mode=ssl.CERT_NONE, server_name=name or None)
        async with connect(place, 443, configuration=configuration) as client:
            reader, writer = await client.create_stream()
            writer.write(b'hello'); writer.write_eof()
            assert await reader.read() == b'hello'
asyncio.run(asyncio.wait_for(main(), 60))
";

#[test]
fn a_client_of_quic_is_named_by_the_name_server_or_by_its_greeting() {
    let test = "a_client_of_quic_is_named_by_the_name_server_or_by_its_greeting";
    if !is_possible(test, &[Need::PythonPackages]) {
        return;
    }
    let mut network = crate::greeted::network(&["quic.test,10.9.0.2", "six.test,fd09::2"]);
    let folder = network.folder().display().to_string();
    let python = python().expect("it is needed").display().to_string();
    fs::write(network.folder().join("quic_server.py"), QUIC_SERVER).expect("a file");
    fs::write(network.folder().join("quic_client.py"), QUIC_CLIENT).expect("a file");
    let server = format!(
        "{python} {folder}/quic_server.py {folder} >{folder}/quic.log 2>&1 &\nended=\"$ended $!\"\n\
         for try in $(seq 400); do [ $(ss -Hlun sport = 443 | wc -l) = 3 ] && break; sleep 0.05; done\n"
    );
    network.servers += &server;
    let places = ["quic.test", "six.test", "10.9.0.3=hidden.test", "10.9.0.2=other.test"];
    let ran = network.run(&["--dry-run"], &[&[&*python, "quic_client.py"], &places[..]].concat());
    assert_eq!(ran.output.status.code(), Some(4), "{}", text(&ran.output.stderr));
    let greeted = fs::read_to_string(network.folder().join("greeted")).expect("the server's log");
    let greeted: BTreeSet<&str> = greeted.lines().collect();
    assert_eq!(greeted, BTreeSet::from(["quic.test", "six.test", "hidden.test", "other.test"]));
    let mut told = Vec::new();
    for (net, _) in connections(&ran.evidence).iter().filter(|(net, _)| net.port == Some(Port::Number(443))) {
        assert_eq!(net.proto, "udp");
        let address = net.address.as_ref().map(|address| address.as_str().to_owned());
        told.push((net.host.clone().unwrap_or_default(), net.host_from, address));
    }
    told.sort();
    told.dedup();
    // What is asked for at an address without a name is a claim, and beside one that has a name it is told besides.
    let hidden = ("hidden.test".to_owned(), Some(HostFrom::Sni), Some("10.9.0.3".to_owned()));
    let named = |name: &str| (name.to_owned(), Some(HostFrom::Dns), None);
    assert_eq!(told, [hidden, named("quic.test"), named("six.test")]);
    let asked: BTreeSet<&String> =
        ran.evidence.observed.effects.values().flat_map(|facts| &facts.asked).collect();
    assert_eq!(asked, BTreeSet::from([&"other.test".to_owned()]));
}
