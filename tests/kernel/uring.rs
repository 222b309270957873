//! Requests to an `io_uring`: acts that are no system calls, told like those.

use std::net::{SocketAddr, TcpListener, UdpSocket};

use libc::{AF_INET, AT_FDCWD, O_CREAT, O_RDONLY, O_RDWR, O_WRONLY, SOCK_DGRAM, SOCK_STREAM};

use crate::actor::{Act, Arg, Part, Request, Step, act, call};
use crate::network::{inet, unix};
use crate::stage::Stage;

const SENDMSG: u8 = 9;
const WRITE: u8 = 23;
const CONNECT: u8 = 16;
const OPENAT: u8 = 18;
const SEND: u8 = 26;
const OPENAT2: u8 = 28;
const RENAMEAT: u8 = 35;
const UNLINKAT: u8 = 36;
const MKDIRAT: u8 = 37;
const SYMLINKAT: u8 = 38;
const LINKAT: u8 = 39;
const FSETXATTR: u8 = 41;
const SETXATTR: u8 = 42;
const FTRUNCATE: u8 = 55;
const BIND: u8 = 56;
const LISTEN: u8 = 57;

fn stage(test: &str) -> Option<Stage> {
    let stage = Stage::new(&format!("uring::{test}"))?;
    stage.dir("real").dir("other").file("real/f", "content").link("link", "real");
    Some(stage)
}

pub fn request(opcode: u8, fd: impl Into<Arg>, addr: impl Into<Arg>) -> Request {
    Request {
        opcode,
        fd: fd.into(),
        addr: addr.into(),
        off: 0.into(),
        len: 0.into(),
        addr3: 0.into(),
        flags: 0,
        is_polled: false,
        is_silent: false,
        is_compat: false,
        file_index: 0,
        ioprio: 0,
    }
}

pub fn ring(request: Request) -> Step {
    act(Act::Ring(request))
}

pub fn open(path: &str, flags: i32) -> Request {
    Request { flags: flags as u32, len: 0o644.into(), ..request(OPENAT, AT_FDCWD, path) }
}

fn rename(old: &str, new: &str, flags: u32) -> Request {
    Request { off: new.into(), len: AT_FDCWD.into(), flags, ..request(RENAMEAT, AT_FDCWD, old) }
}

fn socket(kind: i32) -> Step {
    call(libc::SYS_socket, [AF_INET.into(), kind.into(), 0.into()]).keep(1)
}

fn addressed(opcode: u8, address: Vec<u8>) -> Request {
    let len = address.len() as i64;
    let to = Arg::At(vec![Part::Bytes(address)]);
    Request { off: len.into(), ..request(opcode, Arg::Kept(1), to) }
}

#[test]
fn requests_on_names_are_told_like_calls() {
    let Some(stage) = stage("requests_on_names_are_told_like_calls") else { return };
    let how = Arg::At(vec![Part::Bytes([O_RDWR as u64, 0, 0].map(u64::to_le_bytes).concat())]);
    let linkat = |old: &str, new: &str| Request {
        off: new.into(),
        len: AT_FDCWD.into(),
        ..request(LINKAT, AT_FDCWD, old)
    };
    let xattr =
        |opcode: u8, fd: Arg| Request { fd, off: "v".into(), len: 1.into(), ..request(opcode, 0, "user.x") };
    stage.check(&[
        (ring(open("link/f", O_RDONLY)), "open $/real/f < link/f [read]"),
        (ring(open("link/made", O_WRONLY | O_CREAT)), "open $/real/made < link/made [write create]"),
        (ring(open("link/none", O_RDONLY)), "open $/real/none #looked-up-late < link/none [read] = ENOENT"),
        (
            ring(Request { off: how, len: 24.into(), ..request(OPENAT2, AT_FDCWD, "link/f") }),
            "open $/real/f < link/f [read write]",
        ),
        (
            ring(Request { len: 0o755.into(), ..request(MKDIRAT, AT_FDCWD, "link/d") }),
            "mkdir $/real/d < link/d",
        ),
        (
            ring(Request { off: "link/s".into(), ..request(SYMLINKAT, AT_FDCWD, "no where") }),
            "symlink $/real/s -> no where < link/s",
        ),
        (ring(linkat("link/f", "other/l")), "link $/real/f -> $/other/l < link/f << other/l"),
        (ring(rename("other/l", "link/m", 0)), "rename $/other/l -> $/real/m < other/l << link/m"),
        (ring(rename("real/m", "other", 2)), "rename $/real/m -> $/other < real/m << other exchange"),
        (ring(rename("real/m", "other", 2)), "rename $/real/m -> $/other < real/m << other exchange"),
        (ring(request(UNLINKAT, AT_FDCWD, "link/m")), "unlink $/real/m < link/m"),
        (
            ring(Request { flags: libc::AT_REMOVEDIR as u32, ..request(UNLINKAT, AT_FDCWD, "link/d") }),
            "rmdir $/real/d < link/d",
        ),
        (
            call(libc::SYS_openat, [AT_FDCWD.into(), "link".into(), O_RDONLY.into(), 0.into()]).keep(2),
            "open $/real < link [read]",
        ),
        (call(libc::SYS_chdir, ["other".into()]), "chdir $/other < other"),
        (
            ring(Request { flags: O_RDWR as u32, ..request(OPENAT, Arg::Kept(2), "f") }).keep(3),
            "open $/real/f < f [read write]",
        ),
        (ring(Request { off: 3.into(), ..request(FTRUNCATE, Arg::Kept(3), 0) }), "truncate $/real/f"),
        (ring(xattr(FSETXATTR, Arg::Kept(3))), "setxattr $/real/f"),
        (
            ring(Request { addr3: "../link/f".into(), ..xattr(SETXATTR, 0.into()) }),
            "setxattr $/real/f < ../link/f",
        ),
    ]);
}

#[test]
fn requests_to_sockets_are_told_like_calls() {
    let Some(stage) = stage("requests_to_sockets_are_told_like_calls") else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a receiver");
    let at = listener.local_addr().expect("its address");
    let to = receiver.local_addr().expect("its address");
    let own = crate::network::free_port();
    let refused = SocketAddr::from(([127, 0, 0, 1], 1));
    let _engine = std::os::unix::net::UnixListener::bind(stage.path("real/docker.sock")).expect("a listener");
    let name = Arg::At(vec![Part::Bytes(inet(to))]);
    let message = Arg::At(vec![
        Part::To(vec![Part::Bytes(inet(to))]),
        Part::Word(16),
        Part::To(vec![Part::To(vec![Part::Bytes(b"m".to_vec())]), Part::Word(1)]),
        Part::Word(1),
        Part::Word(0),
        Part::Word(0),
        Part::Word(0),
    ]);
    let script = [
        (socket(SOCK_STREAM), String::new()),
        (ring(addressed(CONNECT, inet(at))), format!("connect tcp {at}")),
        (socket(SOCK_STREAM), String::new()),
        (ring(addressed(CONNECT, inet(refused))), "connect tcp 127.0.0.1:1 = ECONNREFUSED".to_owned()),
        (socket(SOCK_STREAM), String::new()),
        (
            ring(addressed(BIND, inet(SocketAddr::from(([127, 0, 0, 1], own))))),
            format!("bind tcp 127.0.0.1:{own} = ok"),
        ),
        (socket(SOCK_DGRAM), String::new()),
        (
            ring(Request { off: name, len: 1.into(), file_index: 16, ..request(SEND, Arg::Kept(1), "m") }),
            format!("send udp {to} = ok"),
        ),
        (
            ring(Request { len: 1.into(), ..request(SENDMSG, Arg::Kept(1), message) }),
            format!("send udp {to} = ok"),
        ),
        (call(libc::SYS_socket, [libc::AF_UNIX.into(), SOCK_STREAM.into(), 0.into()]).keep(1), String::new()),
        (
            ring(addressed(CONNECT, unix(b"link/docker.sock\0"))),
            "connect unix $/real/docker.sock = ok".to_owned(),
        ),
    ];
    let script: Vec<(Step, &str)> = script.iter().map(|(step, line)| (step.clone(), line.as_str())).collect();
    stage.check(&script);
}

#[test]
fn listening_by_request_is_told() {
    let Some(stage) = stage("listening_by_request_is_told") else { return };
    let played = stage
        .play(&[socket(SOCK_STREAM), ring(Request { len: 1.into(), ..request(LISTEN, Arg::Kept(1), 0) })]);
    let lines = played.act();
    assert_eq!((lines.len(), lines[0]["op"].as_str()), (1, Some("listen")), "{lines:?}");
    assert!(lines[0]["port"].as_u64().expect("the port the kernel chose") > 0);
}

#[test]
fn a_thread_of_the_kernel_acts_for_the_process() {
    let Some(stage) = stage("a_thread_of_the_kernel_acts_for_the_process") else { return };
    let polled = |request: Request| ring(Request { is_polled: true, ..request });
    let played = stage.check(&[
        (polled(open("link/f", O_RDONLY)), "open $/real/f < link/f [read]"),
        (polled(open("link/polled", O_WRONLY | O_CREAT)), "open $/real/polled < link/polled [write create]"),
        (
            polled(rename("link/polled", "other/p", 0)),
            "rename $/real/polled -> $/other/p < link/polled << other/p",
        ),
        (polled(request(UNLINKAT, AT_FDCWD, "other/p")), "unlink $/other/p < other/p"),
    ]);
    let lines = played.act();
    assert!(lines.iter().all(|line| line["pid"] == lines[0]["pid"]));
}

/// There is no completion to tell what came of it: it is told as done, and that it is not known.
#[test]
fn a_request_that_is_silent_about_success_is_told_and_admitted() {
    let Some(stage) = stage("a_request_that_is_silent_about_success_is_told_and_admitted") else { return };
    let stage = stage.partial("fs", "io-uring-no-completion");
    let silent = |request: Request| ring(Request { is_silent: true, ..request });
    let played = stage.play(&[
        silent(Request { len: 0o755.into(), ..request(MKDIRAT, AT_FDCWD, "link/quiet") }),
        // A failure is completed as ever. (Not so for all: an unlink that fails is silent too.)
        silent(open("link/none", O_RDONLY)),
        silent(request(UNLINKAT, AT_FDCWD, "link/f")),
    ]);
    assert!(stage.path("real/quiet").is_dir() && !stage.path("real/f").exists());
    assert_eq!(played.told.returns, [0, -2, 0]);
    let mut told: Vec<String> =
        played.trace.iter().map(|line| stage.shown(line)).filter(|line| line.contains('$')).collect();
    told.sort();
    assert_eq!(
        told,
        [
            "mkdir $/real/quiet < link/quiet = ok",
            "open $/real/none #looked-up-late < link/none [read] = ENOENT",
            "unlink $/real/f < link/f = ok",
        ]
    );
    stage.check_coverage(&played);
}

/// A file that was open before the run, written by a request: an effect, or the record says that it may lack one.
#[test]
fn a_write_by_request_through_an_inherited_descriptor_is_not_hidden() {
    let Some(stage) = stage("a_write_by_request_through_an_inherited_descriptor_is_not_hidden") else {
        return;
    };
    let stage = stage.before("exec 9>>log");
    let played = stage.play(&[ring(Request { len: 1.into(), off: (-1).into(), ..request(WRITE, 9, "m") })]);
    assert_eq!(played.told.returns, [1]);
    let effects = played.evidence["identity"]["effects"]["fs"].to_string();
    let is_told = effects.contains(r#"{"op":"write","path":"${WORKDIR}/log","result":"ok"}"#);
    assert!(is_told || played.evidence["coverage"]["fs"] == "partial", "{effects}");
}

/// Where the kernel keeps the address out of reach, what was refused is not known, and the record says so.
#[test]
fn a_refused_request_is_told_or_admitted() {
    let Some(stage) = stage("a_refused_request_is_told_or_admitted") else { return };
    let stranger = || Arg::from(65534);
    let low = SocketAddr::from(([127, 0, 0, 1], 80));
    let played = stage.play(&[
        call(libc::SYS_setresuid, [stranger(), stranger(), stranger()]),
        socket(SOCK_STREAM),
        ring(addressed(BIND, inet(low))),
    ]);
    assert_eq!(played.told.returns[2], -13);
    let told: Vec<String> = played.act().iter().map(|line| stage.shown(line)).collect();
    let is_told = told == ["bind tcp 127.0.0.1:80 = EACCES"];
    let is_admitted =
        told == ["bind tcp #unreadable = EACCES"] && played.evidence["coverage"]["net"] == "partial";
    assert!(is_told || is_admitted, "{told:?}: {}", played.evidence["coverage"]);
}
