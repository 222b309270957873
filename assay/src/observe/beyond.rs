//! Calls after which something acts where no probe follows, and those that matter only with certain arguments. Pure.

use assay_common::calls;

use super::endpoint::{AF_INET, AF_INET6, AF_UNIX};
use super::event::Call;
use super::loss::Kind;
use super::observation::{NamespaceAct, NamespaceOp};

/// The means by which something acts where no probe follows, detail for a person, and whether that is so even where the
/// call itself failed.
pub fn beyond(call: &Call) -> (&'static str, String, bool) {
    if call.nr == calls::X32_CALL {
        return ("x32-call", String::new(), true);
    }
    let name = calls::row_of(call.nr, call.is_compat).map_or("", |row| row.name);
    match name {
        "ioctl" => ("terminal-input", String::new(), false),
        "acct" => ("process-accounting", String::new(), false),
        // Whoever makes keys was asked before it was known that there is none.
        "request_key" => ("request-key", String::new(), true),
        "fsconfig" => ("remount", String::new(), false),
        "bpf" => ("bpf-call", String::new(), false),
        "init_module" | "finit_module" => ("kernel-module", String::new(), false),
        "kexec_load" | "kexec_file_load" => ("other-kernel", String::new(), false),
        "iopl" | "ioperm" => ("raw-ports", String::new(), false),
        "swapon" => ("swap-file", String::new(), false),
        _ => ("io-uring-request", format!("operation {}", call.args[0]), false),
    }
}

/// What a file that was opened for writing stands for, where that is more than a file: another process, or the kernel.
/// The means, and detail for a person.
pub fn beyond_file(path: &[u8], is_own: impl Fn(u32) -> bool) -> Option<(&'static str, String)> {
    if [&b"/dev/mem"[..], b"/dev/kmem", b"/dev/port"].contains(&path) {
        return Some(("raw-memory", String::from_utf8_lossy(path).into_owned()));
    }
    let parts: Vec<&[u8]> = path.strip_prefix(b"/proc/")?.split(|byte| *byte == b'/').collect();
    let ([id, b"mem"] | [id, b"task", _, b"mem"]) = parts.as_slice() else { return None };
    let process: u32 = std::str::from_utf8(id).ok()?.parse().ok()?;
    (!is_own(process)).then(|| ("other-process", format!("process {process}")))
}

/// What a call makes or enters of namespaces.
pub fn namespaces(call: &Call) -> NamespaceAct {
    let name = calls::row_of(call.nr, call.is_compat).map_or("", |row| row.name);
    let op = match name {
        "unshare" => NamespaceOp::Unshare,
        "setns" => NamespaceOp::Setns,
        _ => NamespaceOp::Clone,
    };
    let flags = call.args[0];
    let known = calls::NAMESPACES.iter().filter(|(flag, _)| flags != u64::MAX && flags & flag != 0);
    let mut kinds: Vec<&str> = known.map(|(_, name)| *name).collect();
    kinds.sort_unstable();
    NamespaceAct { op, kinds }
}

/// A shared mapping of a file that was open before the run, which cannot be written yet.
pub fn is_readable_mapping(call: &Call) -> bool {
    const PROT_WRITE: u64 = 2;
    let name = calls::row_of(call.nr, call.is_compat).map_or("", |row| row.name);
    matches!(name, "mmap" | "mmap2") && call.args[2] & PROT_WRITE == 0
}

/// The kinds in which something is not seen because of these means.
pub fn kinds_of(means: &str) -> &'static [Kind] {
    match means {
        "shared-mapping" | "process-accounting" | "remount" | "swap-file" => &[Kind::Fs],
        _ => &Kind::ALL,
    }
}

/// A socket whose every use is told by calls of its own. A request to a ring does not tell them apart.
pub fn is_plain_socket(call: &Call) -> bool {
    const SOCK_RAW: u64 = 3;
    const EPERM: i64 = 1;
    const EACCES: i64 = 13;
    /// The family's own, TCP, UDP.
    const PROTOCOLS: [u64; 3] = [0, 6, 17];
    // Ints: what stands in the other halves of the registers means nothing.
    let [family, kind, protocol] = [0, 1, 2].map(|at| call.args[at] & 0xffff_ffff);
    let is_inet = [AF_INET, AF_INET6].iter().any(|plain| family == u64::from(*plain));
    let is_plain_inet = is_inet && kind & 0xf != SOCK_RAW && PROTOCOLS.contains(&protocol);
    let is_refused = matches!(-call.ret, EPERM | EACCES);
    (family == u64::from(AF_UNIX) || is_plain_inet) && !is_refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_the_runs_is_more_than_a_file() {
        let means = |path: &str| beyond_file(path.as_bytes(), |pid| pid == 7).map(|(means, _)| means);
        for path in ["/proc/8/mem", "/proc/8/task/7/mem", "/proc/8/task/9/mem", "/proc/1/mem"] {
            assert_eq!(means(path), Some("other-process"), "{path}");
        }
        assert_eq!(["/dev/mem", "/dev/port"].map(means), [Some("raw-memory"); 2]);
        for path in [
            "/proc/7/mem",
            "/proc/7/task/8/mem",
            "/proc/8/maps",
            "/proc/8/fd/mem",
            "/proc/x/mem",
            "/proc/mem",
            "/w/proc/8/mem",
            "/dev/memory",
        ] {
            assert_eq!(means(path), None, "{path}");
        }
    }
}
