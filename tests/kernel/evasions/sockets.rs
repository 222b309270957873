//! Other doors: sockets, and descriptors that come from others.

use std::net::SocketAddr;

use libc::{AF_INET, AF_INET6, AF_UNIX, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM};

use super::{ALL, Case, NET, Scene, Setting, admitted, nothing, step, told};
use crate::actor::{Arg, Part, Request, Step, call, compat};
use crate::network::{inet, unix};
use crate::uring::{request, ring};

/// Kept for what is taken from others.
pub const PTRACE: &str = "SYS_PTRACE";

/// `AF_VSOCK`.
const VSOCK: u32 = 40;

fn socket(family: i32, kind: i32) -> Step {
    call(libc::SYS_socket, [family.into(), kind.into(), 0.into()]).keep(1)
}

fn at(address: Vec<u8>) -> Arg {
    Arg::At(vec![Part::Bytes(address)])
}

fn connect(address: Vec<u8>) -> Step {
    let len = address.len() as i64;
    call(libc::SYS_connect, [Arg::Kept(1), at(address), len.into()])
}

fn bind(address: Vec<u8>) -> Step {
    let len = address.len() as i64;
    call(libc::SYS_bind, [Arg::Kept(1), at(address), len.into()])
}

fn sendto(flags: i32, address: Vec<u8>) -> Step {
    let len = address.len() as i64;
    call(libc::SYS_sendto, [Arg::Kept(1), "m".into(), 1.into(), flags.into(), at(address), len.into()])
}

/// `struct msghdr` for one byte to an address.
fn message(address: Vec<u8>) -> Vec<Part> {
    let len = address.len() as u64;
    let data = Part::To(vec![Part::To(vec![Part::Bytes(b"m".to_vec())]), Part::Word(1)]);
    let mut parts = vec![Part::To(vec![Part::Bytes(address)]), Part::Word(len), data, Part::Word(1)];
    parts.extend([Part::Word(0), Part::Word(0), Part::Word(0)]);
    parts
}

/// `struct msghdr` with room for a byte and a descriptor, by either entry.
fn room() -> Arg {
    Arg::At(vec![
        Part::Word(0),
        Part::Word(0),
        Part::To(vec![Part::To(vec![Part::Bytes(vec![0; 8])]), Part::Word(1)]),
        Part::Word(1),
        Part::To(vec![Part::Bytes(vec![0; 64])]),
        Part::Word(64),
        Part::Word(0),
    ])
}

fn own(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Connects to one who hands over a descriptor.
fn asked(s: &Scene, name: &str) -> [(Step, String); 2] {
    let path = s.at(&format!("{name}.giver"));
    [
        step(socket(AF_UNIX, SOCK_STREAM), ""),
        step(connect(unix(format!("{path}\0").as_bytes())), s.line(&format!("connect unix @/{name}.giver"))),
    ]
}

fn ring_address(opcode: u8, address: Vec<u8>) -> Step {
    let len = address.len() as i64;
    ring(Request { off: len.into(), ..request(opcode, Arg::Kept(1), at(address)) })
}

pub const CASES: &[Case] = &[
    told("connect by a request to an io_uring", "`connect`", &["connect tcp 127.0.0.1"], |s| {
        vec![
            step(socket(AF_INET, SOCK_STREAM), ""),
            step(ring_address(16, inet(s.tcp)), format!("connect tcp {}", s.tcp)),
        ]
    }),
    told("connect by a request that a kernel thread takes", "`connect`", &["connect tcp 127.0.0.1"], |s| {
        let address = inet(s.tcp);
        let len = address.len() as i64;
        let request = Request { off: len.into(), is_polled: true, ..request(16, Arg::Kept(1), at(address)) };
        vec![step(socket(AF_INET, SOCK_STREAM), ""), step(ring(request), format!("connect tcp {}", s.tcp))]
    }),
    told("send to an address by such a request", "`send`", &["send udp 127.0.0.1"], |s| {
        let request =
            Request { off: at(inet(s.udp)), len: 1.into(), file_index: 16, ..request(26, Arg::Kept(1), "m") };
        vec![step(socket(AF_INET, SOCK_DGRAM), ""), step(ring(request), format!("send udp {} = ok", s.udp))]
    }),
    told("sendmsg by such a request", "`send`", &["send udp 127.0.0.1"], |s| {
        let request = Request { len: 1.into(), ..request(9, Arg::Kept(1), Arg::At(message(inet(s.udp)))) };
        vec![step(socket(AF_INET, SOCK_DGRAM), ""), step(ring(request), format!("send udp {} = ok", s.udp))]
    }),
    told("bind by such a request", "`bind`", &["bind tcp 127.0.0.1"], |s| {
        vec![
            step(socket(AF_INET, SOCK_STREAM), ""),
            step(ring_address(56, inet(own(s.free[0]))), format!("bind tcp {} = ok", own(s.free[0]))),
        ]
    })
    .since(6, 11),
    told(
        "a socket of another family, made by such a request",
        "`connect netlink`",
        &["connect netlink"],
        |_| {
            // Its type and protocol.
            let request = Request { off: SOCK_RAW.into(), len: 0.into(), ..request(45, libc::AF_NETLINK, 0) };
            vec![step(ring(request), "socket netlink")]
        },
    ),
    told("connect by `int 0x80`'s socketcall", "`connect`", &["connect tcp 127.0.0.1"], |s| {
        let address = inet(s.tcp);
        let args = vec![Part::Word(85), Part::To(vec![Part::Bytes(address)]), Part::Word(16)];
        vec![
            step(socket(AF_INET, SOCK_STREAM), ""),
            step(call(libc::SYS_dup2, [Arg::Kept(1), 85.into()]), ""),
            step(compat(102, [3.into(), Arg::At(args)]), format!("connect tcp {}", s.tcp)),
        ]
    }),
    told("many messages in one call (`sendmmsg`)", "`send`, one each", &["send udp 127.0.0.1"], |s| {
        let mut list = message(inet(s.udp));
        list.push(Part::Word(0));
        let mut both = list.clone();
        both.extend(list);
        let line = format!("send udp {} = ok", s.udp);
        vec![
            step(socket(AF_INET, SOCK_DGRAM), ""),
            step(
                call(libc::SYS_sendmmsg, [Arg::Kept(1), Arg::At(both), 2.into(), 0.into()]),
                format!("{line}\n{line}"),
            ),
        ]
    }),
    told("send before connecting (TCP fast open)", "`send`", &["send tcp 127.0.0.1"], |s| {
        vec![
            step(socket(AF_INET, SOCK_STREAM), ""),
            step(sendto(libc::MSG_FASTOPEN, inet(s.tcp)), format!("send tcp {}", s.tcp)),
        ]
    }),
    told(
        "an IPv4 address in IPv6 clothes",
        "`connect` of the IPv4 address",
        &["connect tcp 127.0.0.1"],
        |s| {
            let mapped = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped(), s.tcp.port()));
            vec![
                step(socket(AF_INET6, SOCK_STREAM), ""),
                step(connect(inet(mapped)), format!("connect tcp {}", s.tcp)),
            ]
        },
    ),
    told("an abstract UNIX address", "`connect`, refused or not", &["connect unix @nobody-is-here"], |_| {
        vec![
            step(socket(AF_UNIX, SOCK_STREAM), ""),
            step(connect(unix(b"\0nobody-is-here")), "connect unix @nobody-is-here"),
        ]
    }),
    told(
        "a message to a UNIX socket by its path",
        "`send`",
        &["create @/dgram", "bind unix @/dgram", "send unix @/dgram"],
        |s| {
            let path = s.at("dgram") + "\0";
            vec![
                step(socket(AF_UNIX, SOCK_DGRAM), ""),
                step(bind(unix(path.as_bytes())), s.line("bind unix @/dgram")),
                step(sendto(0, unix(path.as_bytes())), s.line("send unix @/dgram")),
            ]
        },
    ),
    told(
        "a container engine's socket",
        "`connect`; flagged by `lint` and at the end of the run",
        &["connect unix @/docker.sock"],
        |s| {
            let path = s.at("docker.sock") + "\0";
            vec![
                step(socket(AF_UNIX, SOCK_STREAM), ""),
                step(connect(unix(path.as_bytes())), s.line("connect unix @/docker.sock")),
            ]
        },
    )
    .leaving(),
    told(
        "a message bus (`systemd-run`)",
        "`connect`; flagged at the end of the run",
        &["connect unix @/bus"],
        |s| {
            let path = s.at("bus") + "\0";
            vec![
                step(socket(AF_UNIX, SOCK_STREAM), ""),
                step(connect(unix(path.as_bytes())), s.line("connect unix @/bus")),
            ]
        },
    )
    .leaving(),
    told("an agent's socket", "`connect`", &["connect unix @/agent"], |s| {
        let path = s.at("agent") + "\0";
        vec![
            step(socket(AF_UNIX, SOCK_STREAM), ""),
            step(connect(unix(path.as_bytes())), s.line("connect unix @/agent")),
        ]
    })
    .leaving(),
    told("a raw IP socket", "`connect raw`, denied without CAP_NET_RAW", &["connect raw denied"], |_| {
        vec![step(call(libc::SYS_socket, [AF_INET.into(), SOCK_RAW.into(), 1.into()]), "socket raw")]
    }),
    told(
        "a packet socket",
        "`connect packet`, denied without CAP_NET_RAW",
        &["connect packet denied"],
        |_| {
            vec![step(
                call(libc::SYS_socket, [libc::AF_PACKET.into(), SOCK_RAW.into(), 0x300.into()]),
                "socket packet",
            )]
        },
    ),
    told("a netlink socket", "`connect netlink`", &["connect netlink"], |_| {
        vec![step(
            call(libc::SYS_socket, [libc::AF_NETLINK.into(), SOCK_RAW.into(), 0.into()]),
            "socket netlink",
        )]
    }),
    told(
        "a socket to the host of a virtual machine (vsock)",
        "`connect vsock`, whatever is done with it",
        &["connect vsock"],
        |_| {
            // This machine itself, and a port where nobody is.
            let address = |cid: u32| {
                [
                    [40u16, 0].map(u16::to_le_bytes).concat(),
                    [4_000_000_000, cid, 0].map(u32::to_le_bytes).concat(),
                ]
                .concat()
            };
            let kind = SOCK_STREAM | libc::SOCK_NONBLOCK;
            vec![
                step(socket(VSOCK as i32, kind), "socket vsock"),
                step(bind(address(u32::MAX)), "bind vsock"),
                step(connect(address(1)), "connect vsock"),
            ]
        },
    )
    .of_family(VSOCK),
    told(
        "a send over a connection, with and without another address",
        "`connect`, and `send` to the other",
        &["connect udp 127.0.0.1", "send udp 127.0.0.1"],
        |s| {
            let plain = [Arg::Kept(1), "m".into(), 1.into(), 0.into(), 0.into(), 0.into()];
            vec![
                step(socket(AF_INET, SOCK_DGRAM), ""),
                step(connect(inet(s.udp)), format!("connect udp {}", s.udp)),
                step(call(libc::SYS_sendto, plain), ""),
                step(sendto(0, inet(own(s.free[1]))), format!("send udp {}", own(s.free[1]))),
            ]
        },
    ),
    told("listen without a bind", "`listen`", &["listen tcp 0.0.0.0"], |_| {
        vec![
            step(socket(AF_INET, SOCK_STREAM), ""),
            step(call(libc::SYS_listen, [Arg::Kept(1), 1.into()]), "*"),
        ]
    }),
    told(
        "a file that somebody else opened, in a message",
        "`read`, `write`",
        &["connect unix @/file.giver", "read @/handed-file", "write @/handed-file"],
        |s| {
            let mut script = Vec::from(asked(s, "file"));
            script.push(step(
                call(libc::SYS_recvmsg, [Arg::Kept(1), room(), 0.into()]),
                s.line("recvmsg @/handed-file [read write]"),
            ));
            script
        },
    ),
    told(
        "such a file, received by a request to an io_uring",
        "`read`, `write`",
        &["connect unix @/file2.giver", "read @/handed-file2", "write @/handed-file2"],
        |s| {
            let mut script = Vec::from(asked(s, "file2"));
            let request = Request { len: 1.into(), ..request(10, Arg::Kept(1), room()) };
            script.push(step(ring(request), s.line("recvmsg @/handed-file2 [read write] = ok")));
            script
        },
    ),
    told(
        "such a file, received by a ring that `int 0x80` made",
        "`read`, `write`",
        &["connect unix @/file3.giver", "read @/handed-file3", "write @/handed-file3"],
        |s| {
            let mut script = Vec::from(asked(s, "file3"));
            let request = Request { len: 1.into(), is_compat: true, ..request(10, Arg::Kept(1), room()) };
            script.push(step(ring(request), s.line("recvmsg @/handed-file3 [read write] = ok")));
            script
        },
    ),
    admitted(
        "one end of a pair of sockets whose other end somebody else has",
        NET,
        "received-socket",
        &["connect unix @/pair.giver"],
        |s| {
            let mut script = Vec::from(asked(s, "pair"));
            script.push(step(call(libc::SYS_recvmsg, [Arg::Kept(1), room(), 0.into()]), ""));
            script
        },
    ),
    admitted(
        "a TCP connection that somebody else made, in a message",
        NET,
        "received-socket",
        &["connect unix @/tcp.giver"],
        |s| {
            let mut script = Vec::from(asked(s, "tcp"));
            script.push(step(call(libc::SYS_recvmsg, [Arg::Kept(1), room(), 0.into()]), ""));
            script
        },
    ),
    admitted(
        "a connection to a UNIX socket that somebody else made",
        NET,
        "received-socket",
        &["connect unix @/unix.giver"],
        |s| {
            let mut script = Vec::from(asked(s, "unix"));
            script.push(step(call(libc::SYS_recvmsg, [Arg::Kept(1), room(), 0.into()]), ""));
            script
        },
    ),
    nothing("take a descriptor of another process (`pidfd_getfd`)", "EPERM without CAP_SYS_PTRACE", |s| {
        vec![
            step(call(libc::SYS_pidfd_open, [s.victim.pid().into(), 0.into()]).keep(1), ""),
            step(call(libc::SYS_pidfd_getfd, [Arg::Kept(1), 1.into(), 0.into()]), ""),
        ]
    }),
    told(
        "take a descriptor of another process, with CAP_SYS_PTRACE",
        "`read` or `write` of its file",
        &[],
        |s| {
            vec![
                step(call(libc::SYS_pidfd_open, [s.victim.pid().into(), 0.into()]).keep(1), ""),
                step(
                    call(libc::SYS_pidfd_getfd, [Arg::Kept(1), 0.into(), 0.into()]),
                    "recvmsg /dev/null [read]",
                ),
            ]
        },
    )
    .with(Setting::Caps(PTRACE)),
    admitted("write another process's memory by `/proc/PID/mem`", ALL, "other-process", &[], |s| {
        let path = format!("/proc/{}/mem", s.mapped.pid());
        vec![step(super::doors::open(&path, libc::O_RDWR), format!("open {path} [read write]"))]
    })
    .leaving()
    .with(Setting::Caps(PTRACE)),
    admitted("write another process's memory (`process_vm_writev`)", ALL, "other-process", &[], |s| {
        let vector = |address: u64| Arg::At(vec![Part::Word(address), Part::Word(1)]);
        let local = Arg::At(vec![Part::To(vec![Part::Bytes(vec![0])]), Part::Word(1)]);
        let args =
            [s.victim.pid().into(), local, 1.into(), vector(stack_of(s.victim.pid())), 1.into(), 0.into()];
        vec![step(call(libc::SYS_process_vm_writev, args), "")]
    })
    .leaving()
    .with(Setting::Caps(PTRACE)),
    admitted("read another process's memory (`process_vm_readv`)", ALL, "other-process", &[], |s| {
        let vector = |address: u64| Arg::At(vec![Part::Word(address), Part::Word(1)]);
        let local = Arg::At(vec![Part::To(vec![Part::Bytes(vec![0])]), Part::Word(1)]);
        let target = s.read.pid();
        let args = [target.into(), local, 1.into(), vector(stack_of(target)), 1.into(), 0.into()];
        vec![step(call(libc::SYS_process_vm_readv, args), "")]
    })
    .leaving()
    .with(Setting::Caps(PTRACE)),
    admitted("take hold of another process (ptrace)", ALL, "other-process", &[], |s| {
        // PTRACE_SEIZE, and to let go.
        let seize = call(libc::SYS_ptrace, [0x4206.into(), s.other.pid().into(), 0.into(), 0.into()]);
        vec![step(seize, "")]
    })
    .leaving()
    .with(Setting::Caps(PTRACE)),
    nothing("take hold of another process without that right", "EPERM: the capability is dropped", |s| {
        let seize = call(libc::SYS_ptrace, [0x4206.into(), s.victim.pid().into(), 0.into(), 0.into()]);
        vec![step(seize, "")]
    })
    .leaving(),
];

/// The top of a process's stack, which it does not use.
fn stack_of(pid: i64) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its maps");
    let line = maps.lines().find(|line| line.ends_with("[stack]")).expect("a stack");
    let end = line.split(' ').next().and_then(|range| range.split('-').nth(1)).expect("a range");
    u64::from_str_radix(end, 16).expect("a number") - 8
}
