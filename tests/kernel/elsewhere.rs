//! Names that a service of the host's looks up for the run: the connection is told by its address, the record says why it has
//! no name, and a policy by name does not let it pass.

use assay::evidence::elsewhere::REASON;
use assay::observe::loss::{Completeness, Kind};
use assay::profile::effect::{EffectResult, Port};

use crate::harness::net::{Network, Ran};
use crate::harness::sandbox::text;
use crate::named::connections;
use crate::needs::{Need, are_met, unpacked};

const NSCD: &str = "usr/sbin/nscd";
const RESOLVED: &str = "lib/systemd/systemd-resolved";
const CLIENT: &str = "import socket; socket.create_connection(('api.test', 80)).close()";

fn is_possible(test: &str, service: Need) -> bool {
    let mut needs = vec![Need::Root, Need::Btf, Need::CgroupV2, Need::NetnsInPackets, service];
    needs.extend(["dnsmasq", "ip", "ss", "python3"].map(Need::Program));
    are_met(&format!("elsewhere::{test}"), &needs)
}

/// A network of its own whose `/run` is its own too.
fn network(service: &str) -> Network {
    let mut network = Network::with(&["api.test,10.9.0.1"]);
    network.servers += "mount -t tmpfs none /run\n";
    network.servers += service;
    network
}

/// nscd, which keeps nothing and shares no memory.
fn nscd() -> Network {
    let program = unpacked(NSCD).expect("it is needed").display().to_string();
    network(&format!(
        "mkdir /run/nscd\n\
         printf '%s\n' 'server-user root' 'enable-cache hosts yes' 'persistent hosts no' 'shared hosts no' \
         'enable-cache passwd no' 'enable-cache group no' 'enable-cache services no' 'enable-cache netgroup no' > nscd.conf\n\
         {program} -F -f $PWD/nscd.conf >/dev/null 2>&1 &\nended=\"$ended $!\"\n\
         for try in $(seq 200); do [ -S /run/nscd/socket ] && break; sleep 0.05; done\n"
    ))
}

/// systemd-resolved, without a bus, with this network's name server. It wants a user of its own, and a link that leads further
/// than to this host.
fn resolved() -> Network {
    let program = unpacked(RESOLVED).expect("it is needed").display().to_string();
    network(&format!(
        "ip link add name v0 type veth peer name v1; ip link set v0 up; ip link set v1 up; ip addr add 10.8.0.2/24 dev v0\n\
         mkdir -p /run/systemd/resolve; mount -t tmpfs none /etc/systemd\n\
         printf '%s\n' '[Resolve]' 'DNS=10.9.0.53' 'FallbackDNS=' 'LLMNR=no' 'MulticastDNS=no' 'DNSStubListener=no' \
         'DNSSEC=no' > /etc/systemd/resolved.conf\n\
         grep -v ^systemd-resolve: /etc/passwd > users; echo 'systemd-resolve:x:0:0::/:/bin/false' >> users\n\
         mount --bind users /etc/passwd\n\
         echo 'hosts: resolve [!UNAVAIL=return] dns' > switch; mount --bind switch /etc/nsswitch.conf\n\
         LD_LIBRARY_PATH={} {program} >resolved.log 2>&1 &\nended=\"$ended $!\"\n\
         for try in $(seq 200); do [ -S /run/systemd/resolve/io.systemd.Resolve ] && break; sleep 0.05; done\n",
        libraries().join("systemd").display()
    ))
}

/// Where the packages' libraries are.
fn libraries() -> std::path::PathBuf {
    unpacked("usr/lib/x86_64-linux-gnu").expect("they are unpacked with it")
}

/// Runs the client, and says what became of its connection.
fn connect(network: &Network, options: &[&str], is_reached: bool) -> Ran {
    let path = format!("LD_LIBRARY_PATH={}", libraries().display());
    let ran = network.run(options, &["env", &path, "/usr/bin/python3", "-c", CLIENT]);
    // The service asked for the name; the address is known from nowhere else.
    assert!(ran.given.values().flatten().any(|name| name == "api.test"), "{:?}", ran.given);
    let found = connections(&ran.evidence);
    let found: Vec<_> = found.iter().filter(|(net, _)| net.port == Some(Port::Number(80))).collect();
    let [(net, _)] = found[..] else { panic!("{found:?} {}", text(&ran.output.stderr)) };
    assert_eq!((net.host.as_deref(), net.host_from), (None, None), "{net:?}");
    assert_eq!(net.address.as_ref().map(assay::profile::name::Name::as_str), Some("10.9.0.1"), "{net:?}");
    assert_eq!(net.result == EffectResult::Ok, is_reached, "{net:?} {}", text(&ran.output.stderr));
    ran
}

fn check(network: &Network, socket: &str) {
    let is_admitted = |ran: &Ran| {
        let ledger = &ran.evidence.coverage.ledger;
        let told: Vec<&str> =
            ledger.gaps.iter().filter(|gap| gap.reason == REASON).map(|gap| gap.detail.as_str()).collect();
        assert_eq!(told, [format!("unix:{socket}")], "{:?}", ledger.gaps);
        assert_eq!(ledger.completeness(Kind::Net), Completeness::Partial);
        assert_eq!(ledger.completeness(Kind::Fs), Completeness::Complete, "{:?}", ledger.gaps);
    };
    is_admitted(&connect(network, &["--dry-run"], true));
    // A name is held by what the run's own name server answers; who asks elsewhere is refused.
    let by_name = network.policy(&format!("{{allow: ['10.9.0.53:53', 'api.test:80', 'unix:{socket}']}}"));
    is_admitted(&connect(network, &["--enforce", "--policy", &by_name], false));
}

#[test]
fn what_nscd_looked_up_is_admitted_and_allows_nothing() {
    if is_possible("what_nscd_looked_up_is_admitted_and_allows_nothing", Need::Unpacked(NSCD)) {
        check(&nscd(), "/run/nscd/socket");
    }
}

#[test]
fn what_systemd_resolved_looked_up_is_admitted_and_allows_nothing() {
    if is_possible("what_systemd_resolved_looked_up_is_admitted_and_allows_nothing", Need::Unpacked(RESOLVED))
    {
        check(&resolved(), "/run/systemd/resolve/io.systemd.Resolve");
    }
}
