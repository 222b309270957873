//! Other doors to the same act: files and programs.

use libc::{AT_EMPTY_PATH, AT_FDCWD, O_CREAT, O_PATH, O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY};

use super::{Case, EXEC, FS, Scene, Script, Setting, admitted, nothing, step, told};
use crate::actor::{Act, Arg, Part, Request, Step, act, call, compat};
use crate::stage::tiny_program;
use crate::uring::{open as ring_open, request, ring};

/// Kept for what a handle leads to.
pub const HANDLES: &str = "DAC_READ_SEARCH";

/// `openat2`'s `struct open_how`.
fn how(flags: i32, resolve: u64) -> Arg {
    Arg::At(vec![Part::Bytes([flags as u64, 0, resolve].map(u64::to_le_bytes).concat())])
}

pub fn open(path: &str, flags: i32) -> Step {
    call(libc::SYS_openat, [AT_FDCWD.into(), path.into(), flags.into(), 0o644.into()])
}

pub fn openat(dir: impl Into<Arg>, path: &str, flags: i32) -> Step {
    call(libc::SYS_openat, [dir.into(), path.into(), flags.into(), 0o644.into()])
}

pub fn forked(steps: Vec<Step>) -> Step {
    act(Act::Fork(steps))
}

pub fn execve(path: &str) -> Step {
    let argv = Arg::At(vec![Part::To(vec![Part::Bytes(b"a\0".to_vec())]), Part::Word(0)]);
    call(libc::SYS_execve, [path.into(), argv, 0.into()])
}

fn execveat(fd: i32) -> Step {
    let argv = Arg::At(vec![Part::To(vec![Part::Bytes(b"a\0".to_vec())]), Part::Word(0)]);
    call(libc::SYS_execveat, [fd.into(), "".into(), argv, 0.into(), AT_EMPTY_PATH.into()])
}

fn polled(request: Request) -> Step {
    ring(Request { is_polled: true, ..request })
}

/// A request that turns one name into another.
fn ring_pair(opcode: u8, one: &str, other: &str) -> Request {
    Request { off: other.into(), len: AT_FDCWD.into(), ..request(opcode, AT_FDCWD, one) }
}

/// A request that makes a ring's own descriptor number from a path.
fn read_of(scene: &Scene, name: &str, by: &str) -> Script {
    let asked = by.replace(&scene.at(""), "@/");
    vec![step(open(by, O_RDONLY), scene.line(&format!("open @/{name} < {asked} [read]")))]
}

/// Two steps that put a directory or file at a fixed number.
fn at_number(from: u8, number: i32) -> (Step, String) {
    step(call(libc::SYS_dup2, [Arg::Kept(from), number.into()]), "")
}

pub const CASES: &[Case] = &[
    told("open a file by a request to an io_uring", "`read`", &["read @/f"], |s| {
        vec![step(ring(ring_open(&s.at("f"), O_RDONLY)), s.line("open @/f [read]"))]
    }),
    told("make a file by such a request", "`create`", &["create @/ring-new"], |s| {
        vec![step(
            ring(ring_open(&s.at("ring-new"), O_WRONLY | O_CREAT)),
            s.line("open @/ring-new [write create]"),
        )]
    }),
    told("openat2 by such a request", "`write`", &["write @/g"], |s| {
        let request = Request { off: how(O_WRONLY, 0), len: 24.into(), ..request(28, AT_FDCWD, &*s.at("g")) };
        vec![step(ring(request), s.line("open @/g [write]"))]
    }),
    told("unlink by such a request", "`delete`", &["delete @/ring-a"], |s| {
        vec![step(ring(request(36, AT_FDCWD, &*s.at("ring-a"))), s.line("unlink @/ring-a"))]
    }),
    told("rename by such a request", "`rename`", &["rename @/ring-b -> @/ring-moved"], |s| {
        vec![step(
            ring(ring_pair(35, &s.at("ring-b"), &s.at("ring-moved"))),
            s.line("rename @/ring-b -> @/ring-moved"),
        )]
    }),
    told("mkdir by such a request", "`create`", &["create @/ring-dir/"], |s| {
        let request = Request { len: 0o755.into(), ..request(37, AT_FDCWD, &*s.at("ring-dir")) };
        vec![step(ring(request), s.line("mkdir @/ring-dir"))]
    }),
    told("symlink by such a request", "`symlink`", &["symlink @/ring-link -> any where"], |s| {
        let request = Request { off: (&s.at("ring-link")).into(), ..request(38, AT_FDCWD, "any where") };
        vec![step(ring(request), s.line("symlink @/ring-link -> any where"))]
    }),
    told("hard link by such a request", "`link`", &["link @/h -> @/ring-hard"], |s| {
        vec![step(ring(ring_pair(39, &s.at("h"), &s.at("ring-hard"))), s.line("link @/h -> @/ring-hard"))]
    }),
    told("set an attribute by such a request", "`attr`", &["attr @/i"], |s| {
        let request = Request {
            off: "v".into(),
            len: 1.into(),
            addr3: (&s.at("i")).into(),
            ..request(42, 0, "user.x")
        };
        vec![step(ring(request), s.line("setxattr @/i"))]
    }),
    told("open by a request that a kernel thread takes (SQPOLL)", "`read`", &["read @/ring-c"], |s| {
        vec![step(polled(ring_open(&s.at("ring-c"), O_RDONLY)), s.line("open @/ring-c [read]"))]
    }),
    told("unlink by a request that a kernel thread takes", "`delete`", &["delete @/ring-d"], |s| {
        vec![step(polled(request(36, AT_FDCWD, &*s.at("ring-d"))), s.line("unlink @/ring-d"))]
    }),
    admitted(
        "a request that is told to be silent about success",
        FS,
        "io-uring-no-completion",
        &["create @/quiet/"],
        |s| {
            let request =
                Request { len: 0o755.into(), is_silent: true, ..request(37, AT_FDCWD, &*s.at("quiet")) };
            vec![step(ring(request), "")]
        },
    ),
    told("open by `int 0x80`", "`read`", &["read @/j"], |s| {
        vec![step(compat(5, [(&s.at("j")).into(), O_RDONLY.into(), 0.into()]), s.line("open @/j [read]"))]
    }),
    told("unlink by `int 0x80`", "`delete`", &["delete @/k"], |s| {
        vec![step(compat(10, [(&s.at("k")).into()]), s.line("unlink @/k"))]
    }),
    told("rename by `int 0x80`", "`rename`", &["rename @/old-a -> @/new-a"], |s| {
        vec![step(
            compat(38, [(&s.at("old-a")).into(), (&s.at("new-a")).into()]),
            s.line("rename @/old-a -> @/new-a"),
        )]
    }),
    nothing("open by an x32 call", "refused by a kernel without x32; another admits `x32-call`", |s| {
        let nr = 0x4000_0000 + libc::SYS_openat;
        vec![step(call(nr, [AT_FDCWD.into(), (&s.at("f")).into(), O_RDONLY.into(), 0.into()]), "")]
    }),
    told("open by a call whose number has bits above the 32nd", "`read`", &["read @/l"], |s| {
        let nr = libc::SYS_openat | 1 << 32;
        vec![step(
            call(nr, [AT_FDCWD.into(), (&s.at("l")).into(), O_RDONLY.into(), 0.into()]),
            s.line("open @/l [read]"),
        )]
    }),
    told("openat2 that takes a folder for the root", "`read`", &["read @/l", "list @"], |s| {
        vec![
            step(open(&s.at("."), O_RDONLY).keep(1), s.line("open @ < @/. [read]")),
            step(
                call(libc::SYS_openat2, [Arg::Kept(1), "/l".into(), how(O_RDONLY, 0x10), 24.into()]),
                s.line("open @/l < /l [read]"),
            ),
        ]
    }),
    told("O_PATH, then again by `/proc/self/fd/N` for writing", "`write`", &["write @/m"], |s| {
        vec![
            step(open(&s.at("m"), O_PATH).keep(1), s.line("open @/m path_only")),
            at_number(1, 81),
            step(open("/proc/self/fd/81", O_WRONLY), s.line("open @/m < /proc/self/fd/81 [write]")),
        ]
    }),
    told("by `/proc/self/root`", "`read`", &["read @/n"], |s| {
        read_of(s, "n", &format!("/proc/self/root{}", s.at("n")))
    }),
    told("unlink by `/proc/self/root`", "`delete`", &["delete @/o"], |s| {
        let name = format!("/proc/self/root{}", s.at("o"));
        vec![step(call(libc::SYS_unlink, [(&name).into()]), s.line("unlink @/o < /proc/self/root@/o"))]
    }),
    told("relative to a descriptor's `/dev/fd/N`", "`delete`", &["delete @/p"], |s| {
        vec![
            step(open(&s.at(""), O_PATH).keep(1), s.line("open @ < @/ path_only")),
            at_number(1, 82),
            step(call(libc::SYS_unlink, ["/dev/fd/82/p".into()]), s.line("unlink @/p < /dev/fd/82/p")),
        ]
    }),
    told(
        "write by a hard link made before",
        "`link`, `write`",
        &["link @/q -> @/alias", "write @/alias"],
        |s| {
            vec![
                step(
                    call(libc::SYS_link, [(&s.at("q")).into(), (&s.at("alias")).into()]),
                    s.line("link @/q -> @/alias"),
                ),
                step(open(&s.at("alias"), O_WRONLY), s.line("open @/alias [write]")),
            ]
        },
    ),
    told("write through a symbolic link", "`write` of where it leads", &["write @/f"], |s| {
        vec![step(open(&s.at("link"), O_WRONLY), s.line("open @/f < @/link [write]"))]
    }),
    told("rename onto a file instead of writing it", "`rename`", &["rename @/old-b -> @/old-c"], |s| {
        vec![step(
            call(libc::SYS_rename, [(&s.at("old-b")).into(), (&s.at("old-c")).into()]),
            s.line("rename @/old-b -> @/old-c"),
        )]
    }),
    told(
        "exchange two names",
        "two `rename`",
        &["rename @/ex-a -> @/ex-b", "rename @/ex-b -> @/ex-a"],
        |s| {
            let [one, other] = ["ex-a", "ex-b"].map(|name| Arg::from(&s.at(name)));
            vec![step(
                call(libc::SYS_renameat2, [AT_FDCWD.into(), one, AT_FDCWD.into(), other, 2.into()]),
                s.line("rename @/ex-a -> @/ex-b exchange"),
            )]
        },
    ),
    told(
        "a file without a name (O_TMPFILE), then a name for it",
        "`write unnamed:`, and `link` to its name",
        &["read unnamed:@/", "write unnamed:@/", "link unnamed:@/ -> @/named"],
        |s| {
            vec![
                step(
                    open(&s.at(""), O_RDWR | O_TMPFILE).keep(1),
                    s.line("open @/#unnamed #nameless < @/ [read write]"),
                ),
                step(
                    call(
                        libc::SYS_linkat,
                        [
                            Arg::Kept(1),
                            "".into(),
                            AT_FDCWD.into(),
                            (&s.at("named")).into(),
                            AT_EMPTY_PATH.into(),
                        ],
                    ),
                    s.line("link @/#unnamed #nameless -> @/named < ''"),
                ),
            ]
        },
    ),
    told(
        "open_by_handle_at without CAP_DAC_READ_SEARCH",
        "`read handle:`, denied: the capability is dropped",
        &["read handle: denied"],
        |s| {
            vec![
                step(act(Act::Put(0, 128u32.to_le_bytes().to_vec())), ""),
                step(
                    call(
                        libc::SYS_name_to_handle_at,
                        [AT_FDCWD.into(), (&s.at("f")).into(), Arg::Desk(0), Arg::Desk(512), 0.into()],
                    ),
                    "",
                ),
                step(
                    call(libc::SYS_open_by_handle_at, [AT_FDCWD.into(), Arg::Desk(0), O_RDONLY.into()]),
                    "open handle: #nameless [read]",
                ),
            ]
        },
    ),
    told("open_by_handle_at", "`read`, by where the file lies", &["read @/f", "list @"], |s| {
        vec![
            step(open(&s.at(""), O_RDONLY).keep(1), s.line("open @ < @/ [read]")),
            step(act(Act::Put(0, 128u32.to_le_bytes().to_vec())), ""),
            step(
                call(
                    libc::SYS_name_to_handle_at,
                    [AT_FDCWD.into(), (&s.at("f")).into(), Arg::Desk(0), Arg::Desk(512), 0.into()],
                ),
                "",
            ),
            step(
                call(libc::SYS_open_by_handle_at, [Arg::Kept(1), Arg::Desk(0), O_RDONLY.into()]),
                s.line("open @/f [read]"),
            ),
        ]
    })
    .with(Setting::Caps(HANDLES)),
    told("truncate by name", "`write`", &["write @/r"], |s| {
        vec![step(call(libc::SYS_truncate, [(&s.at("r")).into(), 1.into()]), s.line("truncate @/r"))]
    }),
    told("truncate by an open for reading", "`read`, `write`", &["read @/s", "write @/s"], |s| {
        vec![step(open(&s.at("s"), O_RDONLY | O_TRUNC), s.line("open @/s [read truncate]"))]
    }),
    told("open for ioctl only (access mode 3)", "`read`, `write`", &["read @/t", "write @/t"], |s| {
        vec![step(open(&s.at("t"), 3), s.line("open @/t [read write]"))]
    }),
    told(
        "stores into a mapping of a file opened in the run",
        "`write`, at the open",
        &["read @/u", "write @/u"],
        |s| {
            vec![
                step(open(&s.at("u"), O_RDWR).keep(1), s.line("open @/u [read write]")),
                step(act(Act::Map { fd: 1, shared: true }), ""),
            ]
        },
    ),
    told("AIO through a descriptor opened in the run", "`write`, at the open", &["write @/v"], |s| {
        let mut script = vec![step(open(&s.at("v"), O_WRONLY).keep(1), s.line("open @/v [write]"))];
        script.extend(super::given::aio(&Arg::Kept(1), ""));
        script
    }),
    told("change attributes by ioctl (`chattr`)", "`attr`", &["read @/w", "attr @/w"], |s| {
        vec![
            step(open(&s.at("w"), O_RDONLY).keep(1), s.line("open @/w [read]")),
            step(act(Act::Put(0, 0x40u64.to_le_bytes().to_vec())), ""),
            step(
                call(libc::SYS_ioctl, [Arg::Kept(1), 0x4008_6602.into(), Arg::Desk(0)]),
                s.line("setxattr @/w"),
            ),
        ]
    }),
    told("times through a descriptor", "`attr`", &["read @/x", "attr @/x"], |s| {
        vec![
            step(open(&s.at("x"), O_RDONLY).keep(1), s.line("open @/x [read]")),
            step(
                call(libc::SYS_utimensat, [Arg::Kept(1), 0.into(), 0.into(), 0.into()]),
                s.line("utimens @/x"),
            ),
        ]
    }),
    told("make a FIFO", "`create`", &["create @/fifo"], |s| {
        vec![step(
            call(libc::SYS_mknod, [(&s.at("fifo")).into(), 0o010_644.into(), 0.into()]),
            s.line("mknod @/fifo"),
        )]
    }),
    told(
        "run a file without a name (memfd) by execveat",
        "`exec memfd:image`",
        &["exec memfd:image"],
        |_| {
            let image = Arg::At(vec![Part::Bytes(tiny_program())]);
            let length = tiny_program().len() as i64;
            vec![
                step(call(libc::SYS_memfd_create, ["image".into(), 0.into()]).keep(1), ""),
                step(call(libc::SYS_write, [Arg::Kept(1), image, length.into()]), ""),
                at_number(1, 83),
                step(forked(vec![execveat(83)]), "exec memfd:image #nameless < /dev/fd/83 = ok"),
            ]
        },
    ),
    told("run it by `/proc/self/fd/N`", "`exec memfd:image`", &["exec memfd:image"], |_| {
        vec![step(
            forked(vec![execve("/proc/self/fd/83")]),
            "exec memfd:image #nameless < /proc/self/fd/83 = ok",
        )]
    }),
    told(
        "run a program that was deleted, by its descriptor",
        "`exec deleted:`",
        &["read @/gone", "delete @/gone", "exec deleted:@/gone"],
        |s| {
            vec![
                step(open(&s.at("gone"), O_RDONLY).keep(1), s.line("open @/gone [read]")),
                at_number(1, 84),
                step(call(libc::SYS_unlink, [(&s.at("gone")).into()]), s.line("unlink @/gone")),
                step(forked(vec![execveat(84)]), s.line("exec @/gone (deleted) #nameless < /dev/fd/84 = ok")),
            ]
        },
    ),
    told("run by a thread that is not the first", "`exec`", &["exec @/thread"], |s| {
        vec![step(
            forked(vec![act(Act::Thread(vec![execve(&s.at("thread"))]))]),
            s.line("exec @/thread = ok"),
        )]
    }),
    told("run by a child that shares memory (vfork)", "`exec`", &["exec @/spawned"], |s| {
        vec![step(act(Act::Spawn(s.at("spawned").into_bytes())), s.line("exec @/spawned = ok"))]
    }),
    told(
        "run a script",
        "`exec` of the script and of its interpreter",
        &["exec @/script", "exec @/script-by"],
        |s| vec![step(forked(vec![execve(&s.at("script"))]), s.line("exec @/script by @/script-by = ok"))],
    ),
    admitted("run a script by a script", EXEC, "nested-script", &["exec @/outer", "exec @/script-by"], |s| {
        vec![step(forked(vec![execve(&s.at("outer"))]), s.line("exec @/outer by @/script-by = ok"))]
    }),
    told("run a file by the loader (`ld.so FILE`)", "`exec` of the loader, `read` of the file", &[], |_| {
        let (loader, file) = ("/lib64/ld-linux-x86-64.so.2", crate::stage::program());
        let real = std::fs::canonicalize(loader).expect("a loader");
        let words = [loader, &file, crate::actor::FLAG, "no script"];
        let words = words.iter().map(|word| Part::To(vec![Part::Bytes(format!("{word}\0").into_bytes())]));
        let argv = Arg::At(words.chain([Part::Word(0)]).collect());
        // It prints nothing of its own: the actor's own words would follow ours.
        let quiet = call(libc::SYS_close, [1.into()]);
        let run = call(libc::SYS_execve, [loader.into(), argv, 0.into()]);
        let lines = format!("*\nexec {} < {loader} = ok\nopen {file} [read] = ok", real.display());
        vec![step(forked(vec![quiet, run]), lines)]
    }),
];
