//! Blinding the observer: what can be played in one run with others. The rest has tests of its own; see `table`.

use libc::{O_CREAT, O_RDONLY, O_WRONLY};

use super::doors::open;
use super::{ALL, Case, Setting, admitted, nothing, step, told};
use crate::actor::{Act, Arg, act, call};

pub const CASES: &[Case] = &[
    told(
        "a string in memory that nobody has touched yet",
        "as any other",
        &["read @/name", "delete @/by-name", "create @/by-name"],
        |s| {
            vec![
                step(open(&s.at("by-name"), O_WRONLY | O_CREAT), s.line("open @/by-name [write create]")),
                step(open(&s.at("name"), O_RDONLY).keep(1), s.line("open @/name [read]")),
                step(act(Act::FromFile { nr: libc::SYS_unlink, fd: 1 }), s.line("unlink @/by-name")),
            ]
        },
    )
    .blinding(),
    told(
        "a name that is there only while the kernel reads it (`userfaultfd`), with CAP_SYS_PTRACE",
        "as any other",
        &["create @/brought", "delete @/brought"],
        |s| {
            let name = s.at("brought").into_bytes();
            vec![
                step(open(&s.at("brought"), O_WRONLY | O_CREAT), s.line("open @/brought [write create]")),
                step(act(Act::Brought { nr: libc::SYS_unlink, name }), s.line("unlink @/brought")),
            ]
        },
    )
    .blinding()
    .with(Setting::Caps(super::sockets::PTRACE)),
    told("another name for itself (`PR_SET_NAME`)", "as any other", &["read @/y"], |s| {
        vec![
            step(call(libc::SYS_prctl, [libc::PR_SET_NAME.into(), "assay".into()]), ""),
            step(open(&s.at("y"), O_RDONLY), s.line("open @/y [read]")),
        ]
    })
    .blinding(),
    told(
        "a name of every byte",
        "`create`, byte for byte",
        &["create @/\\x01\\x09\\x0a\\x1b[31m\\xff\\\\"],
        |s| {
            let mut path = s.at("").into_bytes();
            path.extend(b"\x01\t\n\x1b[31m\xff\\");
            vec![step(
                call(
                    libc::SYS_openat,
                    [
                        libc::AT_FDCWD.into(),
                        path.as_slice().into(),
                        (O_WRONLY | O_CREAT).into(),
                        0o644.into(),
                    ],
                ),
                s.line("open @/\\x01\\x09\\x0a\\x1b[31m\\xff\\\\ [write create]"),
            )]
        },
    )
    .blinding(),
    nothing("reading or writing the observer's maps (`bpf`)", "EPERM: the capability is dropped", |_| {
        // BPF_MAP_GET_NEXT_ID
        vec![step(call(libc::SYS_bpf, [12.into(), Arg::Desk(0), 16.into()]), "")]
    })
    .blinding(),
    nothing(
        "taking hold of the observer's links, detaching or pinning them (`bpf`)",
        "EPERM: the capability is dropped",
        |_| {
            // BPF_LINK_GET_NEXT_ID, BPF_LINK_GET_FD_BY_ID, BPF_LINK_DETACH, BPF_OBJ_PIN, BPF_MAP_FREEZE.
            [31, 30, 34, 6, 22]
                .into_iter()
                .map(|command: i64| step(call(libc::SYS_bpf, [command.into(), Arg::Desk(0), 24.into()]), ""))
                .collect()
        },
    )
    .blinding(),
    admitted("listing the host's programs (`bpf`), with CAP_SYS_ADMIN", ALL, "bpf-call", &[], |_| {
        // BPF_PROG_GET_NEXT_ID: there are at least the observer's.
        vec![
            step(act(Act::Put(0, vec![0; 16])), ""),
            step(call(libc::SYS_bpf, [11.into(), Arg::Desk(0), 16.into()]), ""),
        ]
    })
    .blinding()
    .with(Setting::Caps(super::leaving::MOUNTS)),
    nothing(
        "tracing the kernel (`perf_event_open` of a tracepoint)",
        "EACCES: the capability is dropped",
        |_| {
            let attributes = [2u32, 128].map(u32::to_le_bytes).concat();
            vec![
                step(act(Act::Put(0, [attributes, vec![0; 120]].concat())), ""),
                step(
                    call(
                        libc::SYS_perf_event_open,
                        [Arg::Desk(0), (-1).into(), 0.into(), (-1).into(), 0.into()],
                    ),
                    "",
                ),
            ]
        },
    )
    .blinding(),
    nothing("loading a module", "EPERM: the capability is dropped", |_| {
        vec![step(call(libc::SYS_init_module, [Arg::Desk(0), 0.into(), "".into()]), "")]
    })
    .blinding(),
];
