//! Where a path begins: at a root, at a name that the kernel numbers, in a place for temporary files, or at `/`. Pure.

use std::borrow::Cow;

use super::fold_rule::FoldRule;
use super::processes::ProcessTable;
use super::roots::{RootTable, RootVar, is_beneath};

/// Where a walk down a path begins.
#[derive(Debug)]
pub(super) struct Start {
    /// How much of the path it stands for.
    pub(super) end: usize,
    /// What that is called.
    pub(super) text: Cow<'static, str>,
    /// The rules that made it so.
    pub(super) rules: &'static [FoldRule],
    /// It ends with the run.
    pub(super) is_gone: bool,
    /// It is a place for temporary files.
    pub(super) is_in_temp: bool,
}

/// Takes roots and the names the kernel numbers off the front of a path.
pub(super) fn start_of(path: &[u8], roots: &RootTable, processes: &ProcessTable) -> Start {
    let literal = |end: usize, text: Cow<'static, str>, rules: &'static [FoldRule]| Start {
        end,
        text,
        rules,
        is_gone: false,
        is_in_temp: false,
    };
    if let Some((end, text)) = proc_start(path, processes) {
        return literal(end, text.into(), &[FoldRule::ProcPid]);
    }
    if let Some(rest) = path.strip_prefix(b"/dev/pts/")
        && !rest.is_empty()
        && rest.iter().all(u8::is_ascii_digit)
    {
        return literal(path.len(), "/dev/pts/${PTS}".into(), &[FoldRule::Terminal]);
    }
    if let Some(rooted) = roots.split(path) {
        let rules: &[FoldRule] = match rooted.var {
            var if var.is_cgroup() => &[FoldRule::Cgroup],
            _ if rooted.is_primary => &[],
            _ => &[FoldRule::RootAlias],
        };
        return Start {
            is_gone: rooted.var == RootVar::Tmpdir,
            is_in_temp: rooted.var.is_temporary(),
            ..literal(path.len() - rooted.rest.len(), rooted.var.as_str().into(), rules)
        };
    }
    for directory in ["/tmp", "/var/tmp", "/dev/shm"] {
        if is_beneath(path, directory.as_bytes()) {
            return Start { is_in_temp: true, ..literal(directory.len(), directory.into(), &[]) };
        }
    }
    literal(0, "".into(), &[])
}

/// Whether every path directly in a directory begins where the directory itself does.
pub(super) fn is_plain(directory: &[u8], roots: &RootTable) -> bool {
    let is_numbered = ["/proc", "/dev"].iter().any(|place| is_beneath(directory, place));
    let is_root = |(var, root): (RootVar, &[u8])| {
        is_beneath(root, directory) || (var.is_cgroup() && is_beneath(directory, root))
    };
    // The places for temporary files are no deeper than that.
    let is_deep =
        directory.iter().position(|&byte| byte == b'/') < directory.iter().rposition(|&byte| byte == b'/');
    is_deep && !is_numbered && !roots.all().any(is_root)
}

/// `/proc/<pid>`, `/proc/<pid>/task/<tid>` and `/proc/<pid>/map_files/<addresses>`.
fn proc_start(path: &[u8], processes: &ProcessTable) -> Option<(usize, String)> {
    let rest = path.strip_prefix(b"/proc/")?;
    let mut parts = rest.split(|&byte| byte == b'/');
    let first = parts.next()?;
    let task_name = |name: &[u8]| match name {
        b"self" | b"thread-self" => Some("${PID}"),
        _ if !name.is_empty() && name.iter().all(u8::is_ascii_digit) => {
            let id = std::str::from_utf8(name).ok().and_then(|text| text.parse().ok());
            Some(if id.is_some_and(|id| processes.is_task(id)) { "${PID}" } else { "${OTHER_PID}" })
        }
        _ => None,
    };
    let mut text = format!("/proc/{}", task_name(first)?);
    let mut end = "/proc/".len() + first.len();
    let second = parts.next();
    let third = parts.next();
    match (second, third) {
        (Some(b"task"), Some(task)) if task_name(task).is_some() => {
            let name = if task_name(task) == Some("${PID}") { "${TID}" } else { "${OTHER_TID}" };
            text.push_str("/task/");
            text.push_str(name);
            end += "/task/".len() + task.len();
        }
        (Some(b"map_files"), Some(addresses)) if !addresses.is_empty() => {
            text.push_str("/map_files/${ADDRESS}");
            end += "/map_files/".len() + addresses.len();
        }
        _ => {}
    }
    Some((end, text))
}
