//! The rules, as data. A change here is a change of the architecture: `docs/architecture.md` says why each stands.

/// Lines a file may have, without tests.
pub const LINES: usize = 500;

/// File names that say nothing.
pub const FORBIDDEN_NAMES: &[&str] = &["utils", "helpers", "common", "types", "imp", "manager", "misc"];

/// Words that may stand in no Rust file, and why.
pub const FORBIDDEN_WORDS: &[(&str, &str)] = &[
    ("todo!(", "finish it, or say in the docs what is missing"),
    ("unimplemented!(", "finish it, or say in the docs what is missing"),
    ("dbg!(", "a trace of debugging"),
    (
        "#[ignore",
        "a test that does not run proves nothing; tests/kernel/needs.rs is for what a machine lacks",
    ),
    ("#[should_panic", "a test says what it expects"),
    ("#[allow(", "only `#[expect(lint, reason = \"…\")]`"),
];

/// Words that may stand only in tests, and why.
pub const TEST_WORDS: &[(&str, &str)] = &[
    (".unwrap()", "only in tests; `expect` states the reason it cannot fail"),
    ("anyhow::", "only in xtask; one error enum a module"),
    ("fn get_", "say what it does"),
    ("fn handle_", "say what it does"),
    ("fn do_", "say what it does"),
];

/// What a module of the userspace half may import from its own crate.
pub struct Imports {
    /// The module, with all beneath it that has no row of its own.
    pub module: &'static str,
    /// The modules.
    pub may_import: &'static [&'static str],
}

/// Who may import what. Arrows never point back.
pub const IMPORTS: &[Imports] = &[
    Imports { module: "canon", may_import: &[] },
    Imports { module: "exit", may_import: &[] },
    Imports { module: "host", may_import: &[] },
    Imports { module: "observe", may_import: &[] },
    Imports { module: "observe::kernel", may_import: &["observe", "host"] },
    // The trace writes names and hides secrets as every other artifact does.
    Imports {
        module: "observe::trace",
        may_import: &["observe", "profile::name", "profile::redact", "profile::secrets"],
    },
    Imports {
        module: "profile",
        may_import: &[
            "canon",
            "observe::errno",
            "observe::observation",
            "observe::loss",
            "observe::traffic",
            "enforce::status",
        ],
    },
    // A policy has a digest, which the evidence names.
    Imports { module: "policy", may_import: &["canon", "profile::acts", "profile::effect", "profile::name"] },
    Imports { module: "enforce", may_import: &["policy", "host", "profile::effect", "profile::name"] },
    Imports {
        module: "evidence",
        may_import: &["canon", "host", "observe::loss", "profile", "policy", "enforce::status"],
    },
    Imports {
        module: "report",
        may_import: &["evidence", "canon", "observe::loss", "profile", "policy", "enforce::status"],
    },
    Imports {
        module: "sandbox",
        may_import: &[
            "canon", "exit", "host", "observe", "profile", "policy", "enforce", "evidence", "report",
        ],
    },
    // What a worker does is passed in, so that the loop knows nothing of observing.
    Imports {
        module: "daemon",
        may_import: &["canon", "evidence::timestamp", "exit", "host", "sandbox", "spool"],
    },
    Imports { module: "spool", may_import: &["canon", "evidence", "observe::loss", "profile"] },
    // A client asks and a worker runs; neither prints.
    Imports {
        module: "served",
        may_import: &[
            "canon", "exit", "host", "observe", "profile", "policy", "enforce", "evidence", "report",
            "sandbox", "spool", "daemon",
        ],
    },
    Imports { module: "cli", may_import: &[""] },
    Imports { module: "", may_import: &[""] },
];

/// Outside crates that only these files may name.
pub const OUTSIDE: &[(&str, &[&str])] = &[
    ("aya", &["assay/src/observe/kernel/"]),
    ("aya_obj", &["assay/src/observe/kernel/object.rs"]),
    ("landlock", &["assay/src/enforce/landlock.rs", "assay/src/host/probe.rs"]),
    ("tar", &["assay/src/evidence/archive.rs", "assay/src/spool/export.rs"]),
    ("rusqlite", &["assay/src/spool/index.rs"]),
    ("flate2", &["assay/src/evidence/archive.rs", "assay/src/evidence/squeezed.rs"]),
    ("clap", &["assay/src/cli/"]),
    ("domain", &["assay/src/observe/dns.rs", "assay/src/observe/dns/"]),
    ("aes_gcm", &["assay/src/observe/quic.rs", "assay/src/observe/quic/"]),
    ("maud", &["assay/src/report/html/"]),
    ("hmac", &["assay/src/observe/quic.rs"]),
    ("serde_saphyr", &["assay/src/policy/", "assay/src/canon/yaml.rs"]),
];

/// Modules without I/O, clock and environment; then the files beneath them that have it.
pub const PURE: (&[&str], &[&str]) = (
    &[
        "assay/src/canon/",
        "assay/src/observe/",
        "assay/src/profile/",
        "assay/src/policy/",
        "assay/src/enforce/cgroup_code.rs",
        "assay/src/enforce/grant.rs",
        "assay/src/enforce/net_plan.rs",
        "assay/src/enforce/plan.rs",
        "assay/src/enforce/status.rs",
        "assay/src/evidence/",
        "assay/src/report/",
        "assay/src/daemon/counts.rs",
        "assay/src/daemon/hush.rs",
        "assay/src/daemon/limits.rs",
        "assay/src/daemon/log.rs",
        "assay/src/daemon/metrics.rs",
        "assay/src/daemon/report.rs",
        "assay/src/daemon/stopping.rs",
        "assay/src/spool/begun.rs",
        "assay/src/spool/chain.rs",
        "assay/src/spool/entry.rs",
        "assay/src/spool/entry/",
        "assay/src/spool/fault.rs",
        "assay/src/spool/lines.rs",
        "assay/src/spool/query.rs",
        "assay/src/spool/signed.rs",
        "assay/src/spool/told_names.rs",
    ],
    &["assay/src/observe/kernel/"],
);

/// What a pure module must not touch. `std::net` itself is not among them: an address is a value.
pub const COMPANIONS: &[&str] = &[
    "std::fs",
    "std::process",
    "std::env",
    "std::time",
    "std::thread",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::os::unix::net",
    "rustix::",
    "libc::",
    "tokio::",
];

/// The files that print.
pub const PRINTERS: &[&str] = &["assay/src/cli/output.rs"];

/// Files that may say `unsafe`: in the kernel half, where every helper call needs it; in the userspace half only where
/// neither rustix nor aya nor landlock has a safe wrapper.
pub const UNSAFE: &[&str] = &[
    "assay-ebpf/src/",
    // mmap of the kernel's own types.
    "assay/src/observe/kernel/btf_file.rs",
    // tokio wants a promise about the descriptor it watches.
    "assay/src/observe/kernel/ring.rs",
    // bpf(2) itself: aya's loader reads far more than is needed, and lacks an attach type.
    "assay/src/host/bpf_syscall.rs",
    // The ABI version of Landlock, mount_setattr and the seccomp filter: nobody wraps these.
    "assay/src/host/landlock_abi.rs",
    // fork without exec.
    "assay/src/sandbox/fork.rs",
    // setfsuid, which nobody wraps.
    "assay/src/sandbox/as_user.rs",
    // A socket option that rustix does not wrap.
    "assay/src/host/netns.rs",
    "assay/src/daemon/peer_options.rs",
    "assay/src/enforce/mount_attr.rs",
    "assay/src/enforce/syscall_filter.rs",
    // bpf(2) for bare instructions, and calls that no library makes, to be measured.
    "xtask/src/bench/bpf.rs",
    "xtask/src/bench/raw_calls.rs",
    // What the launcher does to itself, done between fork and exec of a test.
    "tests/kernel/confined.rs",
    // It begins before `main`.
    "tests/kernel/daemon/service.rs",
    // Raw system calls, by both entries and through a ring: what the watched program of the tests is for.
    "tests/kernel/actor",
    // execve, unshare, getpwnam_r; masks, dispositions and signalfd; what was open before main.
    // The watched program of the tests makes system calls that nothing wraps.
    "tests/kernel/actor.rs",
    "tests/kernel/actor/",
    "assay/src/sandbox/descriptors.rs",
    "assay/src/sandbox/exec.rs",
    "assay/src/sandbox/inherited.rs",
    "assay/src/sandbox/namespace.rs",
    "assay/src/sandbox/signals.rs",
    "assay/src/sandbox/user.rs",
];
