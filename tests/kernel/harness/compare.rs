//! Holds a trace against what strace saw of the same execution.
//!
//! Pure. Every expected call takes one line of the trace; what is left over on either side is a complaint.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt::Write as _;

use super::expected::{Endpoint, Expected};
use super::trace::{Seen, Trace};

/// Lines of a trace that strace was not asked for, so that it cannot confirm them.
const NOT_ASKED: [&str; 9] =
    ["write", "fork", "exit", "io_uring_setup", "pidfd_getfd", "other_process", "unshare", "setns", "clone"];

/// What came of it.
#[derive(Debug, Default)]
pub struct Tally {
    /// Calls strace saw.
    pub expected: usize,
    /// Of these, told in the trace as they were.
    pub matched: usize,
    /// Lines of the trace about the same threads.
    pub seen: usize,
    /// Lines about things strace was not asked for, by operation.
    pub not_asked: BTreeMap<String, usize>,
    /// strace's own acts.
    pub strace: usize,
    /// Lost, by the trace's own account.
    pub lost: u64,
    /// Calls that are not in the trace as they were.
    pub missing: Vec<String>,
    /// Lines that no call explains.
    pub extra: Vec<String>,
}

/// Compares.
pub fn compare(trace: &Trace, expected: &[Expected], threads: &BTreeSet<u32>) -> Tally {
    let mut tally = Tally { expected: expected.len(), lost: trace.lost, ..Tally::default() };
    let mut lines: HashMap<(u32, &str), VecDeque<&Seen>> = HashMap::new();
    for line in &trace.lines {
        if NOT_ASKED.contains(&line.op.as_str()) {
            *tally.not_asked.entry(line.op.clone()).or_default() += 1;
        } else {
            lines.entry((line.tid, line.op.as_str())).or_default().push_back(line);
        }
    }
    for call in expected {
        let of_its_kind = lines.entry((call.tid, call.op)).or_default();
        if let Some(at) = of_its_kind.iter().position(|line| is_told_by(call, line)) {
            of_its_kind.remove(at);
            tally.matched += 1;
        } else {
            tally.missing.push(format!("{call:?}"));
        }
    }
    let mut left: Vec<&Seen> = lines.into_values().flatten().collect();
    left.sort_by_key(|line| line.seq);
    for line in left {
        // Before it becomes the command, the child of strace is strace.
        if line.comm == "strace" || (!threads.contains(&line.tid) && line.op == "exec" && is_strace(line)) {
            tally.strace += 1;
        } else {
            tally.extra.push(format!("{line:?}"));
        }
    }
    tally.seen = tally.matched + tally.extra.len();
    tally.missing.iter_mut().chain(&mut tally.extra).for_each(make_readable);
    tally
}

fn is_strace(line: &Seen) -> bool {
    line.path.as_deref().is_some_and(|path| path.ends_with(b"/strace"))
}

/// Whether this line tells this call, as it was.
fn is_told_by(call: &Expected, line: &Seen) -> bool {
    let one_of = |right: &[Vec<u8>], told: &Option<Vec<u8>>| {
        right.is_empty() || told.as_ref().is_some_and(|told| right.iter().any(|path| is_same(path, told)))
    };
    // Only the kernel knows whether the call made the file; where it did, there was nothing to truncate.
    let is_new = line.access.contains("create");
    let told: Vec<&str> = line.access.iter().map(String::as_str).filter(|word| *word != "create").collect();
    let is_access = |right: &BTreeSet<&'static str>| {
        right.iter().copied().filter(|word| !(is_new && *word == "truncate")).eq(told.iter().copied())
    };
    call.result == line.result
        && one_of(&call.path, &line.path)
        && one_of(&call.to, &line.to)
        && call.access.as_ref().is_none_or(is_access)
        && call.proto.as_ref().is_none_or(|proto| line.proto.as_ref() == Some(proto))
        && (call.interpreter.is_none() || call.interpreter == line.interpreter)
        && is_endpoint(&call.endpoint, line)
}

/// A slash at the end says the same folder; a pipe, and a file that never had a name, are told without their number,
/// which is another one in every run.
fn is_same(right: &[u8], told: &[u8]) -> bool {
    right == told
        || (told.len() > 1 && told.strip_suffix(b"/") == Some(right))
        || is_unnamed(right, told)
        || is_deleted(right, told)
        || (told.ends_with(b":") && right.strip_prefix(told).is_some_and(|number| number.starts_with(b"[")))
}

/// What strace reads in `/proc` says of a removed folder that it is; `memfd:name` is a file that never had one.
fn is_deleted(right: &[u8], told: &[u8]) -> bool {
    let text = String::from_utf8_lossy(right);
    let text = text.strip_suffix(" (deleted)").unwrap_or(&text).replace(" (deleted)/", "/");
    let text = text.strip_prefix('/').filter(|name| name.starts_with("memfd:")).unwrap_or(&text);
    text.len() < right.len() && text.as_bytes() == told
}

fn is_unnamed(right: &[u8], told: &[u8]) -> bool {
    let Some(folder) = told.strip_suffix(b"#unnamed") else { return false };
    let Some(number) = right.strip_prefix(folder).and_then(|rest| rest.strip_prefix(b"#")) else {
        return false;
    };
    let number = number.strip_suffix(b" (deleted)").unwrap_or(number);
    number.iter().all(u8::is_ascii_digit)
}

fn is_endpoint(right: &Endpoint, line: &Seen) -> bool {
    let told = line.address.as_ref().or(line.path.as_ref());
    match right {
        Endpoint::Any => true,
        Endpoint::Inet(address) => {
            let port = u64::from(address.port());
            told.is_some_and(|told| *told == address.ip().to_string().into_bytes())
                && (port == 0 || line.port == Some(port))
        }
        Endpoint::Path(paths) => told.is_some_and(|told| paths.contains(told)),
        Endpoint::Abstract(name) => told.is_some_and(|told| told.strip_prefix(b"@") == Some(name)),
    }
}

/// Lists of byte values, as `Debug` writes them, become text.
fn make_readable(line: &mut String) {
    let mut out = String::with_capacity(line.len());
    let mut rest = line.as_str();
    while let Some(start) = rest.find('[') {
        let Some(end) = rest[start..].find(']').map(|end| start + end) else { break };
        let list = &rest[start + 1..end];
        let bytes: Option<Vec<u8>> = list.split(", ").map(|byte| byte.parse().ok()).collect();
        out.push_str(&rest[..start]);
        if let Some(bytes) = bytes {
            // Writing to a String cannot fail.
            let _ = write!(out, "{:?}", String::from_utf8_lossy(&bytes));
            rest = &rest[end + 1..];
        } else {
            out.push('[');
            rest = &rest[start + 1..];
        }
    }
    out.push_str(rest);
    *line = out;
}

#[cfg(test)]
mod tests {
    use super::super::{expected, strace, trace};
    use super::*;

    const LISTING: &str = "7 execve(\"/not-there/x\", [\"x\"], 0x1 /* 1 var */) = 0\n\
        7 openat(AT_FDCWD</w>, \"a\", O_RDONLY) = 3</w/a>\n\
        7 unlink(\"b\") = -1 EACCES (Permission denied)\n";

    fn check(lines: &[&str], matched: usize, missing: usize, extra: usize) {
        let text: String = lines
            .iter()
            .enumerate()
            .map(|(seq, line)| format!("{{\"seq\":{seq},{line}}}\n"))
            .chain([format!("{{\"end\":true,\"events\":{},\"lost\":0}}\n", lines.len())])
            .collect();
        let events = strace::events(LISTING).expect("a listing");
        let right = expected::expected(&events, b"/w").expect("calls that are understood");
        let trace = trace::read(&text).expect("a trace");
        let tally = compare(&trace, &right, &expected::threads(&events));
        assert_eq!(
            (tally.matched, tally.missing.len(), tally.extra.len()),
            (matched, missing, extra),
            "{tally:?}"
        );
    }

    const STRACE: &str = r#""tid":6,"comm":"strace","op":"exec","path":"/usr/bin/strace","result":"ok""#;
    const EXEC: &str = r#""tid":7,"comm":"x","op":"exec","path":"/not-there/x","result":"ok""#;
    const OPEN: &str = r#""tid":7,"comm":"x","op":"open","path":"/w/a","access":["read"],"result":"ok""#;
    const UNLINK: &str = r#""tid":7,"comm":"x","op":"unlink","path":"/w/b","result":"EACCES""#;

    #[test]
    fn a_whole_record_matches() {
        check(&[STRACE, EXEC, OPEN, UNLINK], 3, 0, 0);
    }

    #[test]
    fn a_call_that_is_not_there_is_missing() {
        check(&[EXEC, UNLINK], 2, 1, 0);
    }

    #[test]
    fn a_line_too_many_is_extra() {
        check(&[EXEC, OPEN, OPEN, UNLINK], 3, 0, 1);
        check(
            &[EXEC, OPEN, UNLINK, r#""tid":9,"comm":"y","op":"unlink","path":"/w/b","result":"ok""#],
            3,
            0,
            1,
        );
    }

    #[test]
    fn a_new_file_has_nothing_to_truncate() {
        let call = Expected {
            line: 1,
            tid: 7,
            op: "open",
            path: vec![b"/w/a".to_vec()],
            to: Vec::new(),
            access: Some(BTreeSet::from(["truncate", "write"])),
            interpreter: None,
            proto: None,
            endpoint: Endpoint::Any,
            result: "ok".into(),
        };
        let line = |words: &[&str]| Seen {
            path: Some(b"/w/a".to_vec()),
            access: words.iter().map(ToString::to_string).collect(),
            result: "ok".into(),
            ..Seen::default()
        };
        assert!(is_told_by(&call, &line(&["create", "write"])));
        assert!(is_told_by(&call, &line(&["truncate", "write"])));
        assert!(!is_told_by(&call, &line(&["write"])));
    }

    #[test]
    fn another_path_access_or_result_is_both() {
        check(&[EXEC, &OPEN.replace("/w/a", "/w/link"), UNLINK], 2, 1, 1);
        check(&[EXEC, &OPEN.replace("read", "write"), UNLINK], 2, 1, 1);
        check(&[EXEC, OPEN, &UNLINK.replace("EACCES", "ok")], 2, 1, 1);
    }
}
