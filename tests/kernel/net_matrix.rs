//! Every way to reach or take an endpoint × every kind of rule: blocked or not, as the policy says, or admitted.

mod recorded;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::process::{Command, Stdio};

use libc::{AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM};
use serde_json::Value;

use crate::actor::{Arg, Step, call};
use crate::formats::Format;
use crate::harness::sandbox::{sandbox, text};
use crate::matrix::ways::{SENT, sent_to_oneself};
use crate::network::{at, bind, connect, inet, listen, message, netlink, sendto, socket, unix};
use crate::stage::{command_of, program, result_of};
use crate::uring::{request, ring};
use crate::{actor, needs};
use recorded::{As, Refused};

const NEEDS: &[needs::Need] = &[needs::Need::Root, needs::Need::Btf, needs::Need::CgroupV2];

const IORING_SENDMSG: u8 = 9;
const IORING_CONNECT: u8 = 16;
const EPERM: i64 = -1;
const EACCES: i64 = -13;
const ECONNREFUSED: i64 = -111;
/// EPROTONOSUPPORT, ESOCKTNOSUPPORT, EAFNOSUPPORT: this kernel has no such sockets at all.
const NOT_HERE: [i64; 3] = [-93, -94, -97];

/// What the policy says to a cell, and where it is admitted if it is not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Passes,
    Blocked,
    /// Not authorised, and named by this text in `not_governed` or in the degradations where it passes.
    BlockedOr(&'static str),
    /// As before, of a socket with a path where somebody listens: being refused there is a mask of ours.
    HiddenOr(&'static str),
}

use Want::{Blocked, BlockedOr, HiddenOr, Passes};

/// One thing to try: the last step decides.
struct Cell {
    name: String,
    steps: Vec<Step>,
    want: Want,
    told: As,
}

struct Matrix {
    cells: Vec<Cell>,
}

impl Matrix {
    fn add(&mut self, name: impl Into<String>, want: Want, told: As, steps: impl Into<Vec<Step>>) {
        self.cells.push(Cell { name: name.into(), steps: steps.into(), want, told });
    }

    /// Plays all of it in one run; each cell must be as the policy says, or admitted.
    fn play(&self, folder: &std::path::Path, policy: &str) -> Value {
        self.play_given(folder, policy, Stdio::null())
    }

    /// Plays it again with each line in the policy that was told to allow what was refused: then that passes, and what
    /// is refused by a deny, or whatever the policy says, stays so.
    fn play_with_what_was_told(mut self, folder: &std::path::Path, policy: &str, evidence: &Value) {
        let effects = evidence["observed"]["effects"]["net"].as_array().expect("effects").iter();
        let (mut files, mut ends) = (BTreeSet::new(), BTreeSet::new());
        let mut opened = BTreeSet::new();
        for effect in effects.filter(|effect| effect["result"] == "denied") {
            let remedy = effect["refused"]["remedy"].as_str().unwrap_or_else(|| panic!("{effect:#}"));
            let is_line = ["fs.allow: - ", "net.allow: - "].into_iter().zip([&mut files, &mut ends]).any(
                |(list, lines)| match remedy.strip_prefix(list) {
                    Some(line) => {
                        lines.insert(line.to_owned());
                        true
                    }
                    None => false,
                },
            );
            let word = |key: &str| effect[key].as_str().unwrap_or_default().to_owned();
            if is_line {
                opened.insert((word("op"), word("proto"), word("address")));
            }
        }
        for cell in &mut self.cells {
            let As { op, proto, address } = &cell.told;
            if opened.contains(&((*op).into(), (*proto).into(), address.clone())) {
                cell.want = Passes;
            }
        }
        for (op, proto, part) in [
            ("connect", "tcp", "127.0.0."),
            ("connect", "udp", "192.0.2."),
            ("send", "udp", "2001:db8:"),
            ("bind", "tcp", "127.0.0.1"),
            ("connect", "unix", "/closed"),
            ("connect", "unix", "@assay-net-matrix-"),
            ("bind", "unix", "/new"),
        ] {
            let mut all = opened.iter();
            assert!(
                all.any(|one| one.0 == op && one.1 == proto && one.2.contains(part)),
                "{op} {proto} {part}: {opened:#?}"
            );
        }
        let more = |list: &str, lines: BTreeSet<String>| {
            format!("{list}allow: [{}, ", lines.into_iter().collect::<Vec<_>>().join(", "))
        };
        let policy = policy.replacen("fs: {allow: [", &more("fs: {", files), 1);
        self.play(folder, &policy.replacen("  allow: [", &more("  ", ends), 1));
    }

    /// As [`play`](Self::play), with something open for the command as its descriptor 0.
    fn play_given(&self, folder: &std::path::Path, policy: &str, given: Stdio) -> Value {
        let steps: Vec<Step> = self.cells.iter().flat_map(|cell| cell.steps.iter().cloned()).collect();
        let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
        std::fs::write(folder.join("policy.yaml"), policy).expect("a policy");
        let (policy, profile, status) = (at("policy.yaml"), at("run.json"), at("status"));
        let trace = at("trace");
        let options = ["--enforce", "--policy", &policy, "--profile", &profile, "--profile-format", "json"];
        let options = [&options[..], &["--status-file", &status, "--trace", &trace]].concat();

        let command = command_of(&steps);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let mut assay = sandbox(&options, &command);
        let output = assay.stdin(given).current_dir(folder.join("w")).output().expect("assay runs");
        let told: actor::Told = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
        let read = |name: &str| -> Value {
            serde_json::from_slice(&std::fs::read(folder.join(name)).expect("an artifact")).expect("JSON")
        };
        let (evidence, status) = (read("run.evidence.json"), read("status"));
        Format::Evidence.check(&evidence);
        Format::Status.check(&status);
        Format::Profile.check(&read("run.json"));
        let admitted =
            format!("{} {}", evidence["observed"]["not_governed"], evidence["identity"]["degradations"]);
        let trace = std::fs::read_to_string(folder.join("trace")).expect("a trace");
        let refused = Refused::read(&evidence, &trace);
        let mut blocked = BTreeMap::<&As, BTreeMap<String, u64>>::new();
        let (mut wrong, mut index, mut passed) = (Vec::new(), 0, 0);
        for Cell { name, steps, want, told: told_as } in &self.cells {
            index += steps.iter().map(|step| actor::count(std::slice::from_ref(step))).sum::<usize>();
            let returned = told.returns[index - 1];
            let is_hidden = matches!(want, HiddenOr(_)) && returned == ECONNREFUSED;
            let is_blocked = matches!(returned, EPERM | EACCES) || NOT_HERE.contains(&returned) || is_hidden;
            // What this kernel does not have is refused by nobody.
            if is_blocked && !NOT_HERE.contains(&returned) {
                *blocked.entry(told_as).or_default().entry(result_of(returned)).or_default() += 1;
            }
            let is_right = match want {
                Passes => !is_blocked,
                Blocked => is_blocked,
                BlockedOr(reason) | HiddenOr(reason) => {
                    passed += usize::from(!is_blocked);
                    is_blocked || admitted.contains(reason)
                }
            };
            if *want == Passes && refused.unauthorised.contains(told_as) {
                wrong.push(format!("{name}: is allowed, and told as not authorised"));
            }
            if !is_right {
                wrong.push(format!("{name}: {want:?}, got {returned}"));
            }
        }
        wrong.extend(blocked.iter().filter_map(|(told, cells)| {
            refused.misses(told, cells).map(|missing| format!("{told:?}: {missing}"))
        }));
        assert!(wrong.is_empty(), "{wrong:#?}\n{admitted}");
        let verdict = if passed > 0 { "unauthorised" } else { "denied" };
        assert_eq!(status["verdict"], verdict, "{status:#}");
        evidence
    }
}

fn address(text: &str, port: u16) -> SocketAddr {
    SocketAddr::new(text.parse::<IpAddr>().expect("an address"), port)
}

fn family(address: SocketAddr) -> i32 {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

fn tcp(end: SocketAddr) -> Step {
    // A blocked connect must not wait for anybody.
    socket(family(end), SOCK_STREAM | libc::SOCK_NONBLOCK, 0).keep(1)
}

fn udp(end: SocketAddr) -> Step {
    socket(family(end), SOCK_DGRAM, 0).keep(1)
}

fn sendmsg(end: SocketAddr) -> Step {
    call(libc::SYS_sendmsg, [Arg::Kept(1), Arg::At(message(inet(end))), 0.into()])
}

/// `struct mmsghdr` is a `msghdr` and a count.
fn sendmmsg(end: SocketAddr) -> Step {
    let mut parts = message(inet(end));
    parts.push(actor::Part::Word(0));
    call(libc::SYS_sendmmsg, [Arg::Kept(1), Arg::At(parts), 1.into(), 0.into()])
}

fn fast_open(end: SocketAddr) -> Step {
    let bytes = inet(end);
    let len = bytes.len() as i64;
    let flags = i64::from(libc::MSG_FASTOPEN);
    call(libc::SYS_sendto, [Arg::Kept(1), "m".into(), 1.into(), flags.into(), at(bytes), len.into()])
}

fn send() -> Step {
    call(libc::SYS_sendto, [Arg::Kept(1), "m".into(), 1.into(), 0.into(), 0.into(), 0.into()])
}

fn ring_connect(end: SocketAddr) -> Step {
    let bytes = inet(end);
    let len = bytes.len() as i64;
    ring(actor::Request { off: len.into(), ..request(IORING_CONNECT, Arg::Kept(1), at(bytes)) })
}

fn ring_sendmsg(end: SocketAddr) -> Step {
    let message = Arg::At(message(inet(end)));
    ring(actor::Request { len: 1.into(), ..request(IORING_SENDMSG, Arg::Kept(1), message) })
}

/// Every way to reach an endpoint.
fn reach(matrix: &mut Matrix, end: SocketAddr, want: Want) {
    let ways: [(&'static str, &'static str, &str, Vec<Step>); 8] = [
        ("connect", "tcp", "", vec![tcp(end), connect(1, inet(end))]),
        ("send", "tcp", "with MSG_FASTOPEN", vec![tcp(end), fast_open(end)]),
        ("connect", "tcp", "by io_uring", vec![tcp(end), ring_connect(end)]),
        ("connect", "udp", "", vec![udp(end), connect(1, inet(end))]),
        ("send", "udp", "to", vec![udp(end), sendto(1, inet(end))]),
        ("send", "udp", "msg", vec![udp(end), sendmsg(end)]),
        ("send", "udp", "mmsg", vec![udp(end), sendmmsg(end)]),
        ("send", "udp", "msg by io_uring", vec![udp(end), ring_sendmsg(end)]),
    ];
    for (op, proto, how, steps) in ways {
        matrix.add(format!("{proto} {op} {how} {end}"), want, As::inet(op, proto, end), steps);
    }
}

/// Every way to take an endpoint.
fn take(matrix: &mut Matrix, end: SocketAddr, want: Want) {
    matrix.add(format!("tcp bind {end}"), want, As::inet("bind", "tcp", end), [tcp(end), bind(1, inet(end))]);
    matrix.add(format!("udp bind {end}"), want, As::inet("bind", "udp", end), [udp(end), bind(1, inet(end))]);
}

/// Set where this test runs in a network of its own.
const INSIDE: &str = "ASSAY_TEST_NETWORK";

/// In a network of its own, in which addresses that are nobody's are this host's: nothing goes out.
#[test]
fn each_way_to_each_endpoint_is_as_the_policy_says() {
    const NAME: &str = "net_matrix::each_way_to_each_endpoint_is_as_the_policy_says";
    let needed = [NEEDS, &[needs::Need::Program("ip"), needs::Need::Program("unshare")]].concat();
    if !needs::are_met(NAME, &needed) {
        return;
    }
    if std::env::var_os(INSIDE).is_none() {
        let this = std::env::current_exe().expect("this program");
        let mut inside = Command::new("unshare");
        inside.arg("--net").arg(this).args(["--exact", NAME, "--nocapture"]).env(INSIDE, "1");
        let output = inside.output().expect("a network namespace");
        let told = text(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{told}{}", text(&output.stderr));
        return;
    }
    for words in [
        "link set lo up",
        "addr add 192.0.2.1/32 dev lo",
        "addr add 169.254.169.254/32 dev lo",
        "addr add 2001:db8::1/128 dev lo nodad",
    ] {
        let status = Command::new("ip").args(words.split(' ')).status().expect("ip");
        assert!(status.success(), "ip {words}");
    }
    try_each_way_to_each_endpoint();
}

#[expect(clippy::too_many_lines, reason = "one table")]
fn try_each_way_to_each_endpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["w", "outside"] {
        std::fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    // Somebody listens everywhere, so that nothing but the policy can be in the way.
    let streams = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).expect("a listener");
    let p = streams.local_addr().expect("an address").port();
    let _datagrams = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, p)).expect("a socket");
    let other = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).expect("a listener");
    let q = other.local_addr().expect("an address").port();
    let _others = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, q)).expect("a socket");
    let _open = UnixListener::bind(folder.path().join("outside/open")).expect("a socket");
    let _closed = UnixListener::bind(folder.path().join("outside/closed")).expect("a socket");
    let name = format!("assay-net-matrix-{}", std::process::id());
    let abstract_name = UnixAddr::from_abstract_name(&name).expect("a name");
    let _abstract = UnixListener::bind_addr(&abstract_name).expect("an abstract socket");
    let mine = std::path::Path::new(&program()).parent().expect("a folder").to_owned();
    let outside = folder.path().join("outside").canonicalize().expect("a path");

    let policy = format!(
        "api_version: assay/v1
fs: {{allow: [{{path: '${{WORKDIR}}', access: [read, write]}}, '{}']}}
net:
  allow: ['127.0.0.1:{p}', '127.0.0.16/28:*', '127.0.1.1:{}-{}', '[::1]:*', 'unix:{}/open']
  deny: ['127.0.0.20', '127.0.0.17:{p}', '169.254.169.254']
",
        mine.display(),
        p,
        p.saturating_add(1),
        outside.display()
    );
    let mut matrix = Matrix { cells: Vec::new() };
    for (text, port, want) in [
        ("127.0.0.1", p, Passes),
        ("127.0.0.1", q, Blocked),
        ("127.0.0.2", p, Blocked),
        // A network with exceptions.
        ("127.0.0.18", q, Passes),
        ("127.0.0.20", q, Blocked),
        ("127.0.0.20", p, Blocked),
        ("127.0.0.17", p, Blocked),
        ("127.0.0.17", q, Passes),
        ("127.0.0.32", p, Blocked),
        // A range of ports.
        ("127.0.1.1", p, Passes),
        ("127.0.1.1", p - 1, Blocked),
        // The other family, and IPv4 in its clothes.
        ("::1", q, Passes),
        ("::ffff:127.0.0.1", p, Passes),
        ("::ffff:127.0.0.1", q, Blocked),
        ("::ffff:127.0.0.2", p, Blocked),
        ("::ffff:127.0.0.20", q, Blocked),
        ("::ffff:127.0.0.18", q, Passes),
        // To the kernel, this host.
        ("0.0.0.0", p, Passes),
        ("0.0.0.0", q, Blocked),
        ("::", q, Passes),
        ("169.254.169.254", 80, Blocked),
        ("::ffff:169.254.169.254", 80, Blocked),
        ("fe80::1", 80, Blocked),
        ("2001:db8::1", 443, Blocked),
        ("192.0.2.1", 53, Blocked),
    ] {
        reach(&mut matrix, address(text, port), want);
    }
    for (text, port, want) in [
        ("127.0.0.1", p, Passes),
        ("127.0.0.1", 0, Blocked),
        ("127.0.0.18", 0, Passes),
        ("127.0.0.18", 80, Passes),
        ("127.0.0.20", 0, Blocked),
        ("127.0.0.17", p, Blocked),
        ("0.0.0.0", 0, Blocked),
        ("0.0.0.0", p, Blocked),
        ("::", 0, Blocked),
        ("::1", 0, Passes),
        ("::1", 80, Passes),
        ("::ffff:127.0.0.18", 0, Passes),
        ("::ffff:127.0.0.1", 0, Blocked),
    ] {
        take(&mut matrix, address(text, port), want);
    }
    let (good, bad) = (address("127.0.0.1", p), address("127.0.0.2", p));
    let unconnect = || connect(1, vec![0; 16]);
    matrix.add(
        "a connected send",
        Passes,
        As::inet("send", "udp", good),
        [udp(good), connect(1, inet(good)), send()],
    );
    matrix.add(
        "a send elsewhere from a connected socket",
        Blocked,
        As::inet("send", "udp", bad),
        [udp(good), connect(1, inet(good)), sendto(1, inet(bad))],
    );
    matrix.add(
        "a send elsewhere after AF_UNSPEC",
        Blocked,
        As::inet("send", "udp", bad),
        [udp(good), connect(1, inet(good)), unconnect(), sendto(1, inet(bad))],
    );
    matrix.add(
        "a connection elsewhere after AF_UNSPEC",
        Blocked,
        As::inet("connect", "udp", bad),
        [udp(good), connect(1, inet(good)), unconnect(), connect(1, inet(bad))],
    );
    matrix.add(
        "listening without a bind",
        BlockedOr("listening on a port that the kernel chooses"),
        As { op: "listen", proto: "tcp", address: "0.0.0.0".into() },
        [tcp(good), listen(1)],
    );
    matrix.add(
        "listening where it was bound",
        Passes,
        As::inet("listen", "tcp", address("127.0.0.18", 0)),
        [tcp(good), bind(1, inet(address("127.0.0.18", 0))), listen(1)],
    );

    // A socket of the run's own is held whoever it was passed by.
    let passed = |made: Step, last: Step| -> Vec<Step> {
        let sent = call(libc::SYS_dup3, [Arg::Kept(1), SENT.into(), 0.into()]);
        [vec![made, sent], sent_to_oneself().to_vec(), vec![last]].concat()
    };
    for (end, want) in [(good, Passes), (bad, Blocked)] {
        matrix.add(
            format!("connect of a passed socket {end}"),
            want,
            As::inet("connect", "tcp", end),
            passed(tcp(end), connect(4, inet(end))),
        );
        let told = As::inet("send", "udp", end);
        matrix.add(
            format!("send by a passed socket {end}"),
            want,
            told,
            passed(udp(end), sendto(4, inet(end))),
        );
    }

    let path = |name: &str| unix(format!("{}/{name}\0", outside.display()).as_bytes());
    let at_path = |op, name: &str| As::unix(op, outside.join(name).to_str().expect("text"));
    let stream = || socket(AF_UNIX, SOCK_STREAM, 0).keep(1);
    matrix.add(
        "a socket that is allowed by path",
        Passes,
        at_path("connect", "open"),
        [stream(), connect(1, path("open"))],
    );
    let closed = at_path("connect", "closed");
    matrix.add(
        "a socket that is not",
        HiddenOr("unix-not-held"),
        closed,
        [stream(), connect(1, path("closed"))],
    );
    matrix.add(
        "a socket outside that is made",
        BlockedOr("\"component\":\"fs\",\"reason\":\"landlock-absent\""),
        at_path("bind", "new"),
        [stream(), bind(1, path("new"))],
    );
    matrix.add(
        "one's own socket beneath a writable path",
        Passes,
        As::unix("connect", "${WORKDIR}/own"),
        [
            stream(),
            bind(1, unix(b"own\0")),
            listen(1),
            socket(AF_UNIX, SOCK_STREAM, 0).keep(2),
            connect(2, unix(b"own\0")),
        ],
    );
    let pair = call(libc::SYS_socketpair, [AF_UNIX.into(), SOCK_STREAM.into(), 0.into(), Arg::Desk(0)]);
    matrix.add("socketpair", Passes, As::family("unix"), [pair]);
    let abstract_end = unix(format!("\0{name}").as_bytes());
    matrix.add(
        "an abstract socket of outside",
        BlockedOr("abstract-unix-not-held"),
        As::unix("connect", format!("@{name}")),
        [stream(), connect(1, abstract_end)],
    );
    matrix.add(
        "an abstract socket of one's own",
        BlockedOr("abstract sockets among the run's own processes"),
        As::unix("bind", format!("@{name}-own")),
        [stream(), bind(1, unix(format!("\0{name}-own").as_bytes()))],
    );

    matrix.add(
        "netlink route",
        Passes,
        As::family("netlink"),
        [socket(AF_NETLINK, SOCK_RAW, 0).keep(1), bind(1, netlink())],
    );
    for (name, proto, family, kind, protocol) in [
        ("netlink audit", "netlink-audit", AF_NETLINK, SOCK_RAW, 9),
        ("packet", "packet", AF_PACKET, SOCK_RAW, 0x0300),
        ("vsock", "vsock", AF_VSOCK, SOCK_STREAM, 0),
        ("raw icmp", "raw", AF_INET, SOCK_RAW, 1),
        ("raw icmp v6", "raw", AF_INET6, SOCK_RAW, 58),
        ("ping", "icmp", AF_INET, SOCK_DGRAM, 1),
        ("mptcp", "mptcp", AF_INET, SOCK_STREAM, 262),
        ("sctp", "sctp", AF_INET, SOCK_STREAM, 132),
        ("bluetooth", "bluetooth", libc::AF_BLUETOOTH, SOCK_RAW, 1),
        ("alg", "alg", libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
    ] {
        matrix.add(name, Blocked, As::family(proto), [socket(family, kind, protocol)]);
    }
    let evidence = matrix.play(folder.path(), &policy);
    matrix.play_with_what_was_told(folder.path(), &policy, &evidence);
}

/// A work directory, and one listener on every address.
struct One {
    folder: tempfile::TempDir,
    /// The listener's port.
    p: u16,
    /// Where the program of the cells lies.
    mine: std::path::PathBuf,
    _streams: TcpListener,
}

impl One {
    fn new(test: &str) -> Option<Self> {
        if !needs::are_met(test, NEEDS) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("w")).expect("a folder");
        let streams = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).expect("a listener");
        let p = streams.local_addr().expect("an address").port();
        let mine = std::path::Path::new(&program()).parent().expect("a folder").to_owned();
        Some(Self { folder, p, mine, _streams: streams })
    }
}

#[test]
fn localhost_by_name_is_both_its_addresses_and_nothing_else() {
    let Some(One { folder, p, mine, _streams }) =
        One::new("net_matrix::localhost_by_name_is_both_its_addresses_and_nothing_else")
    else {
        return;
    };
    let policy = format!(
        "api_version: assay/v1\nfs: {{allow: ['{}']}}\nnet: {{allow: ['localhost:{p}']}}\n",
        mine.display()
    );
    let mut matrix = Matrix { cells: Vec::new() };
    for (text, want) in [
        ("127.0.0.1", Passes),
        ("::1", Passes),
        ("::ffff:127.0.0.1", Passes),
        ("127.0.0.2", Blocked),
        ("::2", Blocked),
    ] {
        reach(&mut matrix, address(text, p), want);
    }
    matrix.play(folder.path(), &policy);
}

/// What a socket that was made before the run does is not the run's network; the record says so.
#[test]
fn a_socket_that_was_given_is_as_the_policy_says_or_admitted() {
    let Some(One { folder, p, mine, _streams }) =
        One::new("net_matrix::a_socket_that_was_given_is_as_the_policy_says_or_admitted")
    else {
        return;
    };
    let policy = format!(
        "api_version: assay/v1\nfs: {{allow: ['{}']}}\nnet: {{allow: ['127.0.0.1:{p}']}}\n",
        mine.display()
    );
    let (good, bad) = (address("127.0.0.1", p), address("127.0.0.2", p));
    let given = || call(libc::SYS_dup, [0.into()]).keep(1);
    let unheld = BlockedOr("descriptors the command was given");
    let refused = |matrix: &mut Matrix| {
        matrix.add("one's own", Blocked, As::inet("send", "udp", bad), [udp(bad), sendto(1, inet(bad))]);
    };

    let mut matrix = Matrix { cells: Vec::new() };
    let told = |op, end| As::inet(op, "udp", end);
    matrix.add("send where it may", Passes, told("send", good), [given(), sendto(1, inet(good))]);
    matrix.add("send elsewhere", unheld, told("send", bad), [given(), sendto(1, inet(bad))]);
    matrix.add("sendmsg elsewhere", unheld, told("send", bad), [given(), sendmsg(bad)]);
    matrix.add("connect elsewhere", unheld, told("connect", bad), [given(), connect(1, inet(bad))]);
    refused(&mut matrix);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    matrix.play_given(folder.path(), &policy, std::os::fd::OwnedFd::from(socket).into());

    for (end, want) in [(good, Passes), (bad, unheld)] {
        let mut matrix = Matrix { cells: Vec::new() };
        matrix.add(
            format!("connect {end}"),
            want,
            As::inet("connect", "tcp", end),
            [given(), connect(1, inet(end))],
        );
        refused(&mut matrix);
        let kind = rustix::net::SocketType::STREAM;
        let socket = rustix::net::socket(rustix::net::AddressFamily::INET, kind, None).expect("a socket");
        matrix.play_given(folder.path(), &policy, socket.into());
    }
}

#[test]
fn a_rule_for_port_0_lets_the_kernel_choose_and_nobody_else() {
    let Some(One { folder, p, mine, _streams }) =
        One::new("net_matrix::a_rule_for_port_0_lets_the_kernel_choose_and_nobody_else")
    else {
        return;
    };
    let policy = format!(
        "api_version: assay/v1\nfs: {{allow: ['{}']}}\nnet: {{allow: ['127.0.0.1:0']}}\n",
        mine.display()
    );
    let mut matrix = Matrix { cells: Vec::new() };
    for (text, port, want) in [
        ("127.0.0.1", 0, Passes),
        ("127.0.0.1", p, Blocked),
        ("127.0.0.1", 1, Blocked),
        ("127.0.0.2", 0, Blocked),
        ("::1", 0, Blocked),
    ] {
        take(&mut matrix, address(text, port), want);
    }
    reach(&mut matrix, address("127.0.0.1", p), Blocked);
    matrix.play(folder.path(), &policy);
}

#[test]
fn no_network_is_no_network() {
    let Some(One { folder, p, mine, _streams }) = One::new("net_matrix::no_network_is_no_network") else {
        return;
    };
    let policy = format!("api_version: assay/v1\nfs: {{allow: ['{}']}}\n", mine.display());
    let mut matrix = Matrix { cells: Vec::new() };
    for text in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "192.0.2.1"] {
        reach(&mut matrix, address(text, p), Blocked);
        take(&mut matrix, address(text, 0), Blocked);
    }
    matrix.play(folder.path(), &policy);
}
