//! The 32-bit entry of a 64-bit kernel, which `int 0x80` reaches from any program.

use std::net::{TcpListener, UdpSocket};

use libc::{AF_INET, AT_FDCWD, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, SOCK_DGRAM, SOCK_STREAM};

use crate::actor::{Act, Arg, Part, Step, act, compat};
use crate::network::inet;
use crate::stage::Stage;

fn stage(test: &str) -> Option<Stage> {
    let stage = Stage::new(&format!("compat::{test}"))?;
    stage.dir("real/d").dir("other").file("real/f", "content").link("link", "real").program("real/tiny");
    Some(stage)
}

#[test]
fn calls_on_files_are_told_like_others() {
    let Some(stage) = stage("calls_on_files_are_told_like_others") else { return };
    let argv = Arg::At(vec![Part::To(vec![Part::Bytes(b"tiny\0".to_vec())]), Part::Word(0)]);
    let how = Arg::At(vec![Part::Bytes([O_RDWR as u64, 0, 0].map(u64::to_le_bytes).concat())]);
    let follow = libc::AT_SYMLINK_NOFOLLOW;
    let here = Arg::from(AT_FDCWD);
    stage.check(&[
        (compat(5, ["link/f".into(), O_RDONLY.into(), 0.into()]), "open $/real/f < link/f [read]"),
        (compat(8, ["link/new".into(), 0o644.into()]), "open $/real/new < link/new [write create]"),
        (
            compat(295, [here.clone(), "link/new".into(), (O_WRONLY | O_CREAT | O_TRUNC).into(), 0.into()])
                .keep(1),
            "open $/real/new < link/new [write truncate]",
        ),
        (compat(437, [here.clone(), "link/f".into(), how, 24.into()]), "open $/real/f < link/f [read write]"),
        (
            compat(5, ["link/none".into(), O_RDONLY.into(), 0.into()]),
            "open $/link/none #lexical < link/none [read] = ENOENT",
        ),
        (compat(9, ["link/f".into(), "other/l".into()]), "link $/real/f -> $/other/l < link/f << other/l"),
        (
            compat(303, [here.clone(), "link/f".into(), here.clone(), "other/k".into(), 0.into()]),
            "link $/real/f -> $/other/k < link/f << other/k",
        ),
        (compat(38, ["other/l".into(), "link/m".into()]), "rename $/other/l -> $/real/m < other/l << link/m"),
        (
            compat(302, [here.clone(), "link/m".into(), here.clone(), "other/l".into()]),
            "rename $/real/m -> $/other/l < link/m << other/l",
        ),
        (
            compat(353, [here.clone(), "link/f".into(), here.clone(), "other".into(), 2.into()]),
            "rename $/real/f -> $/other < link/f << other exchange",
        ),
        (
            compat(353, [here.clone(), "link/f".into(), here.clone(), "other".into(), 2.into()]),
            "rename $/real/f -> $/other < link/f << other exchange",
        ),
        (compat(10, ["other/l".into()]), "unlink $/other/l < other/l"),
        (compat(301, [here.clone(), "other/k".into(), 0.into()]), "unlink $/other/k < other/k"),
        (compat(39, ["link/e".into(), 0o755.into()]), "mkdir $/real/e < link/e"),
        (compat(40, ["link/e".into()]), "rmdir $/real/e < link/e"),
        (compat(296, [here.clone(), "link/e".into(), 0o755.into()]), "mkdir $/real/e < link/e"),
        (compat(301, [here.clone(), "link/e".into(), libc::AT_REMOVEDIR.into()]), "rmdir $/real/e < link/e"),
        (
            compat(14, ["link/p".into(), (libc::S_IFIFO as i32 | 0o600).into(), 0.into()]),
            "mknod $/real/p < link/p",
        ),
        (
            compat(297, [here.clone(), "link/q".into(), (libc::S_IFIFO as i32 | 0o600).into(), 0.into()]),
            "mknod $/real/q < link/q",
        ),
        (compat(83, ["text".into(), "link/s".into()]), "symlink $/real/s -> text < link/s"),
        (compat(304, ["text".into(), here.clone(), "link/t".into()]), "symlink $/real/t -> text < link/t"),
        (compat(15, ["link/f".into(), 0o600.into()]), "chmod $/real/f < link/f"),
        (compat(94, [Arg::Kept(1), 0o600.into()]), "chmod $/real/new"),
        (compat(306, [here.clone(), "link/f".into(), 0o600.into()]), "chmod $/real/f < link/f"),
        (compat(452, [here.clone(), "link/f".into(), 0o600.into(), 0.into()]), "chmod $/real/f < link/f"),
        (compat(182, ["link/f".into(), 0.into(), 0.into()]), "chown $/real/f < link/f"),
        (compat(16, ["link/s".into(), 0.into(), 0.into()]), "chown $/real/s < link/s"),
        (compat(95, [Arg::Kept(1), 0.into(), 0.into()]), "chown $/real/new"),
        (compat(212, ["link/f".into(), 0.into(), 0.into()]), "chown $/real/f < link/f"),
        (compat(198, ["link/s".into(), 0.into(), 0.into()]), "chown $/real/s < link/s"),
        (compat(207, [Arg::Kept(1), 0.into(), 0.into()]), "chown $/real/new"),
        (
            compat(298, [here.clone(), "link/s".into(), 0.into(), 0.into(), follow.into()]),
            "chown $/real/s < link/s",
        ),
        (compat(30, ["link/f".into(), 0.into()]), "utimens $/real/f < link/f"),
        (compat(271, ["link/f".into(), 0.into()]), "utimens $/real/f < link/f"),
        (compat(299, [here.clone(), "link/f".into(), 0.into()]), "utimens $/real/f < link/f"),
        (compat(320, [here.clone(), "link/f".into(), 0.into(), 0.into()]), "utimens $/real/f < link/f"),
        (compat(412, [here.clone(), "link/s".into(), 0.into(), follow.into()]), "utimens $/real/s < link/s"),
        (
            compat(226, ["link/f".into(), "user.x".into(), "v".into(), 1.into(), 0.into()]),
            "setxattr $/real/f < link/f",
        ),
        (compat(228, [Arg::Kept(1), "user.x".into(), "v".into(), 1.into(), 0.into()]), "setxattr $/real/new"),
        (compat(235, ["link/f".into(), "user.x".into()]), "removexattr $/real/f < link/f"),
        (compat(237, [Arg::Kept(1), "user.x".into()]), "removexattr $/real/new"),
        (compat(92, ["link/f".into(), 3.into()]), "truncate $/real/f < link/f"),
        (compat(193, ["link/f".into(), 3.into(), 0.into()]), "truncate $/real/f < link/f"),
        (compat(93, [Arg::Kept(1), 3.into()]), "truncate $/real/new"),
        (compat(194, [Arg::Kept(1), 3.into(), 0.into()]), "truncate $/real/new"),
        (compat(12, ["link/d".into()]), "chdir $/real/d < link/d"),
        (compat(5, ["../f".into(), O_RDONLY.into(), 0.into()]), "open $/real/f < ../f [read]"),
        (compat(12, ["../..".into()]), "chdir $ < ../.."),
        (
            act(Act::Fork(vec![compat(11, ["link/tiny".into(), argv, 0.into()])])),
            "exec $/real/tiny < link/tiny = ok",
        ),
        (
            compat(11, ["link/none".into(), 0.into(), 0.into()]),
            "exec $/link/none #lexical < link/none = ENOENT",
        ),
        (
            compat(358, [here, "link/none".into(), 0.into(), 0.into(), 0.into()]),
            "exec $/link/none #lexical < link/none = ENOENT",
        ),
    ]);
}

#[test]
fn calls_on_sockets_are_told_like_others() {
    let Some(stage) = stage("calls_on_sockets_are_told_like_others") else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a receiver");
    let at = listener.local_addr().expect("its address");
    let to = receiver.local_addr().expect("its address");
    let address = |of| Arg::At(vec![Part::Bytes(inet(of))]);
    let any = "127.0.0.1:0".parse().expect("an address");
    let message = || {
        vec![
            Part::To(vec![Part::Bytes(inet(to))]),
            Part::Word(16),
            Part::To(vec![Part::To(vec![Part::Bytes(b"m".to_vec())]), Part::Word(1)]),
            Part::Word(1),
            Part::Word(0),
            Part::Word(0),
            Part::Word(0),
        ]
    };
    let two = [message(), vec![Part::Word(0)], message(), vec![Part::Word(0)]].concat();
    let socket = |kind: i32| compat(359, [AF_INET.into(), kind.into(), 0.into()]).keep(1);
    // socketcall: its arguments lie in memory. The number of a descriptor cannot be put there: it is known.
    let by_number = |nr: i64, args: Vec<Part>| compat(102, [nr.into(), Arg::At(args)]);
    let word = |number: u64| Part::Word(number);
    let script = [
        (socket(SOCK_STREAM), String::new()),
        (compat(362, [Arg::Kept(1), address(at), 16.into()]), format!("connect tcp {at}")),
        (socket(SOCK_STREAM), String::new()),
        (compat(361, [Arg::Kept(1), address(any), 16.into()]), "bind tcp 127.0.0.1:? ephemeral".to_owned()),
        (socket(SOCK_DGRAM), String::new()),
        (
            compat(369, [Arg::Kept(1), "m".into(), 1.into(), 0.into(), address(to), 16.into()]),
            format!("send udp {to}"),
        ),
        (compat(370, [Arg::Kept(1), Arg::At(message()), 0.into()]), format!("send udp {to}")),
        (
            compat(345, [Arg::Kept(1), Arg::At(two), 2.into(), 0.into()]),
            format!("send udp {to} = ok\nsend udp {to} = ok"),
        ),
        (compat(63, [Arg::Kept(1), 80.into()]), String::new()),
        (
            by_number(3, vec![word(80), Part::To(vec![Part::Bytes(inet(to))]), word(16)]),
            format!("connect udp {to}"),
        ),
        (by_number(16, vec![word(80), Part::To(message()), word(0)]), format!("send udp {to}")),
        (by_number(1, vec![word(16), word(3), word(0)]), "socket netlink".to_owned()),
        (by_number(1, vec![word(2), word(1), word(0)]), String::new()),
    ];
    let script: Vec<(Step, &str)> = script.iter().map(|(step, line)| (step.clone(), line.as_str())).collect();
    stage.check(&script);
}

#[test]
fn what_is_rare_is_told_like_others() {
    let Some(stage) = stage("what_is_rare_is_told_like_others") else { return };
    let stage = stage.option(&["--keep-caps", "SYS_ADMIN,SYS_CHROOT,DAC_READ_SEARCH"]);
    stage.link("real/l", "f");
    let here = Arg::from(AT_FDCWD);
    let argv = Arg::At(vec![Part::To(vec![Part::Bytes(b"tiny\0".to_vec())]), Part::Word(0)]);
    let value = || {
        Arg::At(vec![
            Part::To(vec![Part::Bytes(b"v".to_vec())]),
            Part::Word(0),
            Part::Bytes(vec![1, 0, 0, 0, 0, 0, 0, 0]),
        ])
    };
    let private = i64::try_from(libc::MS_REC | libc::MS_PRIVATE).expect("small");
    stage.check(&[
        (compat(5, ["link".into(), O_RDONLY.into(), 0.into()]).keep(1), "open $/real < link [read]"),
        (compat(133, [Arg::Kept(1)]), "chdir $/real"),
        (compat(12, ["..".into()]), "chdir $ < .."),
        (
            compat(227, ["link/f".into(), "user.x".into(), "v".into(), 1.into(), 0.into()]),
            "setxattr $/real/f < link/f",
        ),
        (compat(236, ["link/f".into(), "user.x".into()]), "removexattr $/real/f < link/f"),
        (
            compat(463, [here.clone(), "link/l".into(), 0.into(), "user.y".into(), value(), 16.into()]),
            "setxattr $/real/f < link/l",
        ),
        (
            compat(466, [here.clone(), "link/l".into(), 0.into(), "user.y".into()]),
            "removexattr $/real/f < link/l",
        ),
        (
            act(Act::Fork(vec![compat(358, [here, "link/tiny".into(), argv, 0.into(), 0.into()])])),
            "exec $/real/tiny < link/tiny = ok",
        ),
        (act(Act::Put(0, 128u32.to_le_bytes().to_vec())), ""),
        (compat(341, [AT_FDCWD.into(), "link/f".into(), Arg::Desk(0), Arg::Desk(512), 0.into()]), ""),
        (compat(342, [Arg::Kept(1), Arg::Desk(0), O_RDWR.into()]), "open $/real/f [read write]"),
        (compat(310, [libc::CLONE_NEWNS.into()]), "unshare [mnt]"),
        (compat(21, ["none".into(), "/".into(), 0.into(), private.into(), 0.into()]), "mount /"),
        (
            compat(21, ["none".into(), "link/d".into(), "tmpfs".into(), 0.into(), 0.into()]),
            "mount $/real/d < link/d",
        ),
        (compat(52, ["link/d".into(), 0.into()]), "umount $/real/d < link/d"),
        (
            compat(21, ["none".into(), "link/d".into(), "tmpfs".into(), 0.into(), 0.into()]),
            "mount $/real/d < link/d",
        ),
        (compat(22, ["link/d".into()]), "umount $/real/d < link/d"),
        (compat(61, ["link".into()]), "chroot $/real < link"),
    ]);
}
