//! Through descriptors that were open before the run.

use std::fmt::Write as _;

use libc::{O_RDONLY, O_WRONLY};

use super::doors::{open, openat};
use super::{Case, FS, Scene, Script, Setting, admitted, nothing, step, told};
use crate::actor::{Act, Arg, Part, Request, Step, act, call};
use crate::stage::Stage;
use crate::uring::{request, ring};

/// What is inherited, numbers 20 and on: one file for each means.
const FILES: [&str; 23] = [
    "write",
    "pwrite",
    "writev",
    "pwritev",
    "pwritev2",
    "sendfile",
    "copy",
    "splice",
    "ftruncate",
    "fallocate",
    "mapped",
    "later",
    "aio",
    "ring",
    "clone",
    "chmod",
    "again",
    "folder",
    "quiet",
    "late-ring",
    "passed",
    "append",
    "aio-many",
];

/// A stage whose run inherits them.
pub fn open_before(stage: Stage) -> Stage {
    let door = stage.path("door");
    let mut script = String::new();
    for (index, name) in FILES.iter().enumerate() {
        let number = 20 + index;
        let path = door.join(format!("given-{name}"));
        if *name == "folder" {
            std::fs::create_dir(&path).expect("a folder");
            std::fs::write(path.join("f"), "content").expect("a file");
        } else {
            std::fs::write(&path, "content").expect("a file");
        }
        let how = match *name {
            "again" | "folder" => "<",
            "append" => ">>",
            _ => "<>",
        };
        writeln!(script, "exec {number}{how}door/given-{name}").expect("a String takes all");
    }
    stage.before(&script)
}

fn fd(name: &str) -> i32 {
    20 + FILES.iter().position(|known| *known == name).expect("one of the files") as i32
}

fn written(name: &str) -> String {
    format!("write $/door/given-{name}")
}

fn vector() -> Arg {
    Arg::At(vec![Part::To(vec![Part::Bytes(b"x".to_vec())]), Part::Word(1)])
}

/// `io_setup`, then one `IOCB_CMD_PWRITE`, told by `line`.
pub fn aio(fd: &Arg, line: &str) -> Script {
    let number = match *fd {
        Arg::Kept(slot) => {
            // A descriptor's number has to be known here.
            return vec![
                step(call(libc::SYS_dup2, [Arg::Kept(slot), 88.into()]), ""),
                step(act(Act::Put(0, vec![0; 8])), ""),
                step(call(libc::SYS_io_setup, [1.into(), context()]), ""),
                step(act(Act::TakeLong(0)).keep(9), ""),
                step(submit(88), line),
            ];
        }
        Arg::Num(number) => number,
        Arg::At(_) | Arg::Desk(_) => unreachable!("no descriptor"),
    };
    vec![
        step(act(Act::Put(0, vec![0; 8])), ""),
        step(call(libc::SYS_io_setup, [1.into(), context()]), ""),
        step(act(Act::TakeLong(0)).keep(9), ""),
        step(submit(number as u32), line),
    ]
}

fn context() -> Arg {
    Arg::Desk(0)
}

fn submit(fd: u32) -> Step {
    const PWRITE: u16 = 1;
    let mut head = [0u8; 24];
    head[16..18].copy_from_slice(&PWRITE.to_le_bytes());
    head[20..24].copy_from_slice(&fd.to_le_bytes());
    let request = vec![
        Part::Bytes(head.to_vec()),
        Part::To(vec![Part::Bytes(b"x".to_vec())]),
        Part::Word(1),
        Part::Bytes(vec![0; 24]),
    ];
    call(libc::SYS_io_submit, [Arg::Kept(9), 1.into(), Arg::At(vec![Part::To(request)])])
}

/// `io_setup` for so many.
fn queue(len: i64) -> [(Step, String); 3] {
    [
        step(act(Act::Put(0, vec![0; 8])), ""),
        step(call(libc::SYS_io_setup, [len.into(), context()]), ""),
        step(act(Act::TakeLong(0)).keep(9), ""),
    ]
}

/// `struct iocb` for writing nothing.
fn empty_request(fd: u32) -> Vec<u8> {
    const PWRITE: u16 = 1;
    let mut request = vec![0u8; 64];
    request[16..18].copy_from_slice(&PWRITE.to_le_bytes());
    request[20..24].copy_from_slice(&fd.to_le_bytes());
    request
}

fn source(s: &Scene) -> (Step, String) {
    step(open(&s.at("f"), O_RDONLY).keep(1), s.line("open @/f [read]"))
}

const fn given(case: Case) -> Case {
    case.with(Setting::Given)
}

pub const CASES: &[Case] = &[
    given(told("write", "`write`", &["write @/given-write"], |_| {
        vec![step(call(libc::SYS_write, [fd("write").into(), "x".into(), 1.into()]), written("write"))]
    })),
    given(told("pwrite", "`write`", &["write @/given-pwrite"], |_| {
        vec![step(
            call(libc::SYS_pwrite64, [fd("pwrite").into(), "x".into(), 1.into(), 0.into()]),
            written("pwrite"),
        )]
    })),
    given(told("writev", "`write`", &["write @/given-writev"], |_| {
        vec![step(call(libc::SYS_writev, [fd("writev").into(), vector(), 1.into()]), written("writev"))]
    })),
    given(told("pwritev", "`write`", &["write @/given-pwritev"], |_| {
        let args = [fd("pwritev").into(), vector(), 1.into(), 0.into(), 0.into()];
        vec![step(call(libc::SYS_pwritev, args), written("pwritev"))]
    })),
    given(told("pwritev2", "`write`", &["write @/given-pwritev2"], |_| {
        let args = [fd("pwritev2").into(), vector(), 1.into(), 0.into(), 0.into(), 0.into()];
        vec![step(call(libc::SYS_pwritev2, args), written("pwritev2"))]
    })),
    given(told("append", "`write`", &["write @/given-append"], |_| {
        vec![step(call(libc::SYS_write, [fd("append").into(), "x".into(), 1.into()]), written("append"))]
    })),
    given(told("sendfile", "`write`", &["write @/given-sendfile", "read @/f"], |s| {
        let args = [fd("sendfile").into(), Arg::Kept(1), 0.into(), 3.into()];
        vec![source(s), step(call(libc::SYS_sendfile, args), written("sendfile"))]
    })),
    given(told("copy_file_range", "`write`", &["write @/given-copy", "read @/f"], |s| {
        let args = [Arg::Kept(1), 0.into(), fd("copy").into(), 0.into(), 3.into(), 0.into()];
        vec![source(s), step(call(libc::SYS_copy_file_range, args), written("copy"))]
    })),
    given(told("splice", "`write`", &["write @/given-splice"], |_| {
        let args = [Arg::Kept(2), 0.into(), fd("splice").into(), 0.into(), 1.into(), 0.into()];
        vec![
            step(call(libc::SYS_pipe2, [Arg::Desk(0), 0.into()]), ""),
            step(act(Act::Take(0)).keep(2), ""),
            step(act(Act::Take(4)).keep(3), ""),
            step(call(libc::SYS_write, [Arg::Kept(3), "x".into(), 1.into()]), ""),
            step(call(libc::SYS_splice, args), written("splice")),
        ]
    })),
    given(told("ftruncate", "`write`", &["write @/given-ftruncate"], |_| {
        let args = [fd("ftruncate").into(), 1.into()];
        vec![step(call(libc::SYS_ftruncate, args), "truncate $/door/given-ftruncate")]
    })),
    given(told("fallocate", "`write`", &["write @/given-fallocate"], |_| {
        let args = [fd("fallocate").into(), 0.into(), 0.into(), 64.into()];
        vec![step(call(libc::SYS_fallocate, args), written("fallocate"))]
    })),
    given(told("stores into a shared mapping", "`write`", &["write @/given-mapped"], |_| {
        vec![
            step(call(libc::SYS_dup, [fd("mapped").into()]).keep(4), ""),
            step(act(Act::Map { fd: 4, shared: true }), written("mapped")),
        ]
    })),
    given(admitted(
        "stores into a mapping that was for reading when it was made",
        FS,
        "shared-mapping",
        &[],
        |_| {
            vec![
                step(call(libc::SYS_dup, [fd("later").into()]).keep(4), ""),
                step(act(Act::WriteLater(4)), ""),
            ]
        },
    )),
    given(told("AIO (`io_submit`)", "`write`", &["write @/given-aio"], |_| {
        aio(&fd("aio").into(), &written("aio"))
    })),
    given(admitted(
        "more requests in one `io_submit` than are looked at",
        FS,
        "call-unread",
        &["write @/given-aio-many"],
        |_| {
            const ALL: i64 = 4097;
            let mut script = Vec::from(queue(ALL));
            script.push(step(act(Act::Put(64, empty_request(fd("aio-many") as u32))), ""));
            let list = Arg::At(vec![Part::Desk(64); ALL as usize]);
            script.push(step(call(libc::SYS_io_submit, [Arg::Kept(9), ALL.into(), list]), "*"));
            script
        },
    )),
    given(told("a write requested of an io_uring", "`write`", &["write @/given-ring"], |_| {
        let request = Request { len: 1.into(), ..request(23, fd("ring"), "m") };
        vec![step(ring(request), written("ring") + " = ok")]
    })),
    given(nothing(
        "FICLONE where the filesystem has no such thing",
        "EOPNOTSUPP; elsewhere a `write`",
        |s| {
            let args = [fd("clone").into(), 0x4004_9409.into(), Arg::Kept(1)];
            vec![source(s), step(call(libc::SYS_ioctl, args), "")]
        },
    )),
    given(told("chmod by descriptor", "`attr`", &["attr @/given-chmod"], |_| {
        let args = [fd("chmod").into(), 0o600.into()];
        vec![step(call(libc::SYS_fchmod, args), "chmod $/door/given-chmod")]
    })),
    given(told(
        "open it again for writing, by `/proc/self/fd/N`",
        "`write`",
        &["write @/given-again"],
        |_| {
            let path = format!("/proc/self/fd/{}", fd("again"));
            let line = format!("open $/door/given-again < {path} [write]");
            vec![step(open(&path, O_WRONLY), line)]
        },
    )),
    given(told(
        "relative to a folder",
        "`read`, `delete`",
        &["read @/given-folder/f", "delete @/given-folder/f"],
        |_| {
            let folder = fd("folder");
            vec![
                step(openat(folder, "f", O_RDONLY), "open $/door/given-folder/f < f [read]"),
                step(
                    call(libc::SYS_unlinkat, [folder.into(), "f".into(), 0.into()]),
                    "unlink $/door/given-folder/f < f",
                ),
            ]
        },
    )),
    given(told("by a child of a child", "`write`", &["write @/given-passed"], |_| {
        let write = call(libc::SYS_write, [fd("passed").into(), "x".into(), 1.into()]);
        let line = written("passed") + " = ok";
        vec![step(act(Act::Fork(vec![act(Act::Fork(vec![write]))])), line)]
    })),
    given(nothing("having a file open and not touching it", "no effect", |_| {
        vec![step(call(libc::SYS_lseek, [fd("quiet").into(), 0.into(), 0.into()]), "")]
    })),
];
