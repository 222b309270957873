//! Leaving the run, its tree, or its kernel's view of names.

use libc::{
    AT_FDCWD, CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER,
    CLONE_NEWUTS, O_CREAT, O_RDONLY, O_WRONLY,
};

use super::doors::{forked, open, openat};
use super::{ALL, Case, FS, Setting, admitted, nothing, step, told};
use crate::actor::{Act, Arg, Part, Step, act, call};
use crate::harness::sandbox::cgroup_roots;

/// Kept for what root may do with mounts.
pub const MOUNTS: &str = "SYS_ADMIN,SYS_CHROOT";

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
const OPEN_TREE_CLONE: i64 = 1;
const OWN: i32 = CLONE_NEWUSER | CLONE_NEWNS;

fn unshare(kinds: i32) -> Step {
    call(libc::SYS_unshare, [kinds.into()])
}

fn mount(what: &str, place: &str, kind: &str, flags: u64, data: Arg) -> Step {
    call(libc::SYS_mount, [what.into(), place.into(), kind.into(), (flags as i64).into(), data])
}

fn create(path: &str) -> Step {
    open(path, O_WRONLY | O_CREAT)
}

fn root_group() -> String {
    cgroup_roots()[0].to_str().expect("a plain name").to_owned()
}

/// Those of a process that does this in namespaces of its own.
fn apart(kinds: i32, mut steps: Vec<Step>) -> Step {
    steps.insert(0, unshare(kinds));
    forked(steps)
}

pub const CASES: &[Case] = &[
    told("a session of its own, and a child of a child", "as any other process", &["create @/far"], |s| {
        let inner = forked(vec![create(&s.at("far"))]);
        vec![step(forked(vec![call(libc::SYS_setsid, []), inner]), s.line("open @/far [write create] = ok"))]
    })
    .leaving(),
    told("a child by clone3", "as any other process", &["create @/cloned"], |s| {
        vec![step(
            act(Act::Clone { flags: 0, group: None, steps: vec![create(&s.at("cloned"))] }),
            s.line("open @/cloned [write create] = ok"),
        )]
    })
    .leaving(),
    admitted(
        "a child born into another control group",
        ALL,
        "left-cgroup",
        &["create @/born-outside"],
        |s| {
            let root = root_group();
            let steps = vec![create(&s.at("born-outside"))];
            vec![
                step(open(&root, O_RDONLY).keep(1), format!("open {root} [read]")),
                step(
                    act(Act::Clone { flags: CLONE_INTO_CGROUP, group: Some(1), steps }),
                    s.line("open @/born-outside [write create] = ok"),
                ),
            ]
        },
    )
    .leaving(),
    told(
        "moving itself to another control group",
        "`write` of its `cgroup.procs`, denied: it is read-only",
        &[],
        |_| {
            let path = format!("{}/cgroup.procs", root_group());
            vec![step(open(&path, O_WRONLY), format!("open {path} [write] = EROFS"))]
        },
    )
    .leaving(),
    told(
        "a bind mount in namespaces of its own",
        "`mount`, then acts by the names it sees",
        &["mount @/d", "create @/d/inside"],
        |s| {
            let steps = vec![
                mount("none", "/", "none", libc::MS_REC | libc::MS_PRIVATE, 0.into()),
                mount(&s.at(""), &s.at("d"), "none", libc::MS_BIND, 0.into()),
                create(&s.at("d/inside")),
            ];
            let lines =
                "unshare [mnt user] = ok\nmount / = ok\nmount @/d = ok\nopen @/d/inside [write create] = ok";
            vec![step(apart(OWN, steps), s.line(lines))]
        },
    )
    .leaving(),
    told(
        "a tmpfs in a namespace of its own",
        "`mount`, then acts by the names it sees",
        &["mount @/d", "create @/d/in-memory"],
        |s| {
            let steps = vec![
                mount("none", "/", "none", libc::MS_REC | libc::MS_PRIVATE, 0.into()),
                mount("none", &s.at("d"), "tmpfs", 0, 0.into()),
                create(&s.at("d/in-memory")),
            ];
            let lines =
                "unshare [mnt] = ok\nmount / = ok\nmount @/d = ok\nopen @/d/in-memory [write create] = ok";
            vec![step(apart(CLONE_NEWNS, steps), s.line(lines))]
        },
    )
    .leaving()
    .with(Setting::Caps(MOUNTS)),
    told("attributes of a mount (`mount_setattr`)", "`mount`", &["mount @/d"], |s| {
        let set = Arg::At(vec![Part::Bytes([1u64, 0, 0, 0].map(u64::to_le_bytes).concat())]);
        let steps = vec![
            mount("none", &s.at("d"), "tmpfs", 0, 0.into()),
            call(libc::SYS_mount_setattr, [AT_FDCWD.into(), (&s.at("d")).into(), 0.into(), set, 32.into()]),
        ];
        vec![step(apart(OWN, steps), s.line("unshare [mnt user] = ok\nmount @/d = ok\nmount @/d = ok"))]
    })
    .leaving(),
    admitted("mount options changed in place (`fsconfig`)", FS, "remount", &["mount @/d"], |s| {
        let pick = call(libc::SYS_fspick, [AT_FDCWD.into(), (&s.at("d")).into(), 0.into()]);
        let change = call(libc::SYS_fsconfig, [Arg::Kept(7), 7.into(), 0.into(), 0.into(), 0.into()]);
        let steps = vec![mount("none", &s.at("d"), "tmpfs", 0, 0.into()), pick.keep(7), change];
        vec![step(apart(OWN, steps), s.line("unshare [mnt user] = ok\nmount @/d = ok"))]
    })
    .leaving(),
    told("a root of its own (chroot)", "acts by the names of the host's tree", &["create @/d/rooted"], |s| {
        let steps = vec![call(libc::SYS_chroot, [(&s.at("d")).into()]), create("/rooted")];
        let lines = "unshare [user] = ok\nchroot @/d = ok\nopen @/d/rooted < /rooted [write create] = ok";
        vec![step(apart(CLONE_NEWUSER, steps), s.line(lines))]
    })
    .leaving(),
    told(
        "process, network, message, name and group namespaces of its own",
        "`unshare` in the trace, then as any other process",
        &["create @/apart"],
        |s| {
            let kinds =
                CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
            vec![step(
                apart(kinds, vec![forked(vec![create(&s.at("apart"))])]),
                s.line("unshare [cgroup ipc net pid user uts] = ok\nopen @/apart [write create] = ok"),
            )]
        },
    )
    .leaving(),
    told(
        "a child born into namespaces of its own (clone3)",
        "`clone` in the trace, then as any other process",
        &["create @/born-apart"],
        |s| {
            let flags = (CLONE_NEWUSER | CLONE_NEWUTS) as u64;
            let steps = vec![create(&s.at("born-apart"))];
            let lines = "*\nclone [user uts] = ok\nopen @/born-apart [write create] = ok";
            vec![step(act(Act::Clone { flags, group: None, steps }), s.line(lines))]
        },
    )
    .leaving(),
    admitted("through a mount that is in no tree (`open_tree`)", FS, "detached-mount", &[], |s| {
        let clone = call(libc::SYS_open_tree, [AT_FDCWD.into(), (&s.at("d")).into(), OPEN_TREE_CLONE.into()]);
        vec![step(apart(OWN, vec![clone.keep(7), openat(Arg::Kept(7), "detached", O_WRONLY | O_CREAT)]), "*")]
    })
    .leaving(),
    nothing("entering a mount namespace (`setns`)", "EPERM: the capability is dropped", |_| {
        vec![
            step(open("/proc/self/ns/mnt", O_RDONLY).keep(1), "*"),
            step(call(libc::SYS_setns, [Arg::Kept(1), CLONE_NEWNS.into()]), "setns [mnt]"),
        ]
    })
    .leaving(),
    admitted("entering a mount namespace, with CAP_SYS_ADMIN", ALL, "other-namespace", &[], |_| {
        let enter = call(libc::SYS_setns, [Arg::Kept(1), CLONE_NEWNS.into()]);
        vec![step(forked(vec![open("/proc/self/ns/mnt", O_RDONLY).keep(1), enter]), "*\nsetns [mnt] = ok")]
    })
    .leaving()
    .with(Setting::Caps(MOUNTS)),
    told(
        "an overlay",
        "`mount`, then acts by the names it sees",
        &["mount @/over", "create @/over/new", "create @/over/", "create @/up/", "create @/moving/"],
        |s| {
            let dir = |name: &str| call(libc::SYS_mkdir, [(&s.at(name)).into(), 0o755.into()]);
            let data = format!("lowerdir={},upperdir={},workdir={}", s.at("d"), s.at("up"), s.at("moving"));
            let steps = vec![
                mount("none", "/", "none", libc::MS_REC | libc::MS_PRIVATE, 0.into()),
                mount("overlay", &s.at("over"), "overlay", 0, (&data).into()),
                create(&s.at("over/new")),
            ];
            let lines =
                "unshare [mnt] = ok\nmount / = ok\nmount @/over = ok\nopen @/over/new [write create] = ok";
            vec![
                step(dir("over"), s.line("mkdir @/over")),
                step(dir("up"), s.line("mkdir @/up")),
                step(dir("moving"), s.line("mkdir @/moving")),
                step(apart(CLONE_NEWNS, steps), s.line(lines)),
            ]
        },
    )
    .leaving()
    .with(Setting::Caps(MOUNTS)),
    admitted(
        "having the kernel write of every process that ends (`acct`)",
        FS,
        "process-accounting",
        &[],
        |_| {
            // Turns it off, in a namespace of processes of its own: the host's goes on.
            let off = call(libc::SYS_acct, [0.into()]);
            vec![step(apart(CLONE_NEWPID, vec![forked(vec![off])]), "unshare [pid] = ok")]
        },
    )
    .leaving()
    .with(Setting::Caps(MOUNTS)),
    admitted("having the kernel start a maker of keys (`request_key`)", ALL, "request-key", &[], |_| {
        let args = ["user".into(), "assay-no-such-key".into(), "how".into(), 0.into()];
        vec![step(call(libc::SYS_request_key, args), "")]
    })
    .leaving(),
    admitted("typing on the terminal of whoever called (`TIOCSTI`)", ALL, "terminal-input", &[], |_| {
        let unlock = call(libc::SYS_ioctl, [Arg::Kept(7), 0x4004_5431.into(), Arg::Desk(0)]);
        let peer = call(libc::SYS_ioctl, [Arg::Kept(7), 0x5441.into(), libc::O_RDWR.into()]);
        let kind = call(libc::SYS_ioctl, [Arg::Kept(8), 0x5412.into(), "x".into()]);
        let steps = vec![
            call(libc::SYS_setsid, []),
            open("/dev/ptmx", libc::O_RDWR | libc::O_NOCTTY).keep(7),
            act(Act::Put(0, vec![0; 4])),
            unlock,
            peer.keep(8),
            kind,
        ];
        vec![step(forked(steps), "*")]
    })
    .leaving(),
    admitted("dying with a core dump, which the kernel writes", FS, "core-dump", &[], |s| {
        let limit = Arg::At(vec![Part::Bytes([u64::MAX; 2].map(u64::to_le_bytes).concat())]);
        let steps = vec![
            call(libc::SYS_chdir, [(&s.at("d")).into()]),
            call(libc::SYS_prlimit64, [0.into(), 4.into(), limit, 0.into()]),
            call(libc::SYS_getpid, []).keep(7),
            call(libc::SYS_kill, [Arg::Kept(7), libc::SIGSEGV.into()]),
        ];
        vec![step(forked(steps), s.line("chdir @/d = ok"))]
    })
    .leaving(),
];
