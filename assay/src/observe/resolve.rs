//! Event + process table → observation: what an act was, on what, and how it ended. Pure.

use std::collections::BTreeSet;

use assay_common::calls::Op;
use assay_common::record::{FMODE_CREATED, FileFacts};

use super::beyond::{beyond, beyond_file, is_plain_socket, is_readable_mapping, kinds_of, namespaces};
use super::endpoint::{self, endpoint};
use super::event::{Call, Event, EventKind, Exec, PathArg, ReadState};
use super::gaps::gaps;
use super::loss::Kind;
use super::observation::{
    Access, Act, CallResult, Endpoint, ExecAct, FileAct, FileKind, FileOp, NetAct, NetOp, PairAct, PairOp,
    PathRef, PathState, Peer,
};
use super::path::{chain_path, path_of};
use super::process::ProcessTable;

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// An act of the run.
    Act {
        /// What it was.
        act: Act,
        /// How it ended.
        result: CallResult,
        /// What about it could not be seen: the kind, a stable word, and detail for a person.
        gaps: Vec<(Kind, &'static str, String)>,
    },
    /// No act, with the reason it is counted under.
    Nothing(&'static str),
}

/// Resolves one event. `sees_uring`: requests to an `io_uring` are records of their own.
pub fn resolve(event: &Event, processes: &ProcessTable, sees_uring: bool) -> Resolved {
    match &event.kind {
        EventKind::Call(call) => resolve_call(call, processes, sees_uring),
        // `uring` turns both into a call.
        EventKind::UringSubmit { .. } | EventKind::UringComplete { .. } => Resolved::Nothing("io-uring-half"),
        // The pipeline asks `names` about them.
        EventKind::Packet(_) | EventKind::Sources { .. } => Resolved::Nothing("packet"),
        // It is held against the acts, and is none.
        EventKind::Witness(_) => Resolved::Nothing("witness"),
        EventKind::Exec(exec) => resolve_exec(exec),
        EventKind::Fork { pid, tid } if event.is_outside => Resolved::Act {
            act: Act::Fork { child_pid: *pid, child_tid: *tid },
            result: CallResult::Ok,
            gaps: Kind::ALL.map(|kind| (kind, "left-cgroup", "born into another group".to_owned())).to_vec(),
        },
        EventKind::Fork { pid, tid } => done(Act::Fork { child_pid: *pid, child_tid: *tid }, CallResult::Ok),
        EventKind::Exit { status } => done(Act::Exit { status: *status }, CallResult::Ok),
        EventKind::Leave { pid, .. } => {
            let act = blind("left-cgroup", format!("process {pid}").as_bytes());
            let gaps = gaps(&act, CallResult::Ok);
            Resolved::Act { act, result: CallResult::Ok, gaps }
        }
    }
}

fn done(act: Act, result: CallResult) -> Resolved {
    Resolved::Act { act, result, gaps: Vec::new() }
}

fn result_of(ret: i64) -> CallResult {
    if ret < 0 { CallResult::Errno(-ret as i32) } else { CallResult::Ok }
}

/// The call was interrupted, and will be made again or was never finished (`ERESTARTSYS` and its kin).
fn is_restart(ret: i64) -> bool {
    (-516..=-512).contains(&ret)
}

fn resolve_call(call: &Call, processes: &ProcessTable, sees_uring: bool) -> Resolved {
    // A connection that was interrupted goes on in the kernel.
    if is_restart(call.ret) && call.op != Op::Connect {
        return Resolved::Nothing("restarted");
    }
    let mut act = match call.op {
        Op::Open => open(call),
        Op::Rename | Op::Link | Op::Symlink => pair(call),
        Op::Exec => failed_exec(call),
        Op::Connect | Op::Bind | Op::Listen | Op::Send | Op::Socket => match net(call) {
            Ok(act) => act,
            Err(reason) => return Resolved::Nothing(reason),
        },
        // Its requests are told one by one.
        Op::IoUring if sees_uring => return Resolved::Nothing("io-uring-setup"),
        Op::IoUring => blind("io-uring", b""),
        Op::Beyond => {
            let (means, detail, is_done) = beyond(call);
            let result = if is_done { CallResult::Ok } else { result_of(call.ret) };
            let act = blind(means, detail.as_bytes());
            let gaps = gaps(&act, result);
            return Resolved::Act { act, result, gaps };
        }
        Op::Namespaces => Act::Namespaces(namespaces(call)),
        // It can be made writable later, by a call that names no file.
        Op::Write if is_readable_mapping(call) => {
            blind("shared-mapping", &path_of(&call.a, call.file.as_ref()).bytes)
        }
        Op::OtherProcess => {
            let target = call.args[usize::from(call.nr == 101 || call.nr == 26)] as u32;
            if processes.is_alive(target) {
                return Resolved::Nothing("own-process");
            }
            blind("other-process", format!("process {target}").as_bytes())
        }
        _ => match file_op(call) {
            Some(op) => file(call, op),
            None => return Resolved::Nothing("no-act"),
        },
    };
    if let Act::File(file) = &mut act
        && file.op == FileOp::Unlink
        && call.args[2] & AT_REMOVEDIR != 0
        && is_at_form(call)
    {
        file.op = FileOp::Rmdir;
    }
    let result = result_of(call.ret);
    let mut gaps = gaps(&act, result);
    if let (Act::File(file), CallResult::Ok) = (&act, result)
        && file.access.contains(&Access::Write)
        && let Some((means, detail)) = beyond_file(&file.path.bytes, |pid| processes.is_alive(pid))
    {
        gaps.extend(kinds_of(means).iter().map(|kind| (*kind, means, detail.clone())));
    }
    Resolved::Act { act, result, gaps }
}

const AT_REMOVEDIR: u64 = 0x200;

/// `unlinkat`, by either entry.
fn is_at_form(call: &Call) -> bool {
    call.nr == if call.is_compat { 301 } else { 263 }
}

fn blind(means: &'static str, detail: &[u8]) -> Act {
    Act::Blind { means, detail: detail.to_vec() }
}

fn file_op(call: &Call) -> Option<FileOp> {
    Some(match call.op {
        Op::Open => FileOp::Open,
        Op::Unlink => FileOp::Unlink,
        Op::Rmdir => FileOp::Rmdir,
        Op::Mkdir => FileOp::Mkdir,
        Op::Mknod => FileOp::Mknod,
        Op::Truncate => FileOp::Truncate,
        Op::Chmod => FileOp::Chmod,
        Op::Chown => FileOp::Chown,
        Op::Utime => FileOp::Utime,
        Op::Setxattr => FileOp::Setxattr,
        Op::Removexattr => FileOp::Removexattr,
        Op::Mount => FileOp::Mount,
        Op::Umount => FileOp::Umount,
        Op::PivotRoot => FileOp::PivotRoot,
        Op::Chdir => FileOp::Chdir,
        Op::Chroot => FileOp::Chroot,
        Op::Write => FileOp::Write,
        Op::Receive => FileOp::Receive,
        // Acts of another shape.
        Op::Rename
        | Op::Link
        | Op::Symlink
        | Op::Exec
        | Op::Connect
        | Op::Bind
        | Op::Listen
        | Op::Send
        | Op::Socket
        | Op::IoUring
        | Op::OtherProcess
        | Op::Namespaces
        | Op::Beyond => return None,
    })
}

fn file(call: &Call, op: FileOp) -> Act {
    Act::File(FileAct {
        op,
        path: path_of(&call.a, call.file.as_ref()),
        requested: requested(&call.a),
        access: match op {
            FileOp::Write => BTreeSet::from([Access::Write]),
            FileOp::Receive => call.file.as_ref().map(access_of).unwrap_or_default(),
            _ => BTreeSet::new(),
        },
        kind: call.file.as_ref().map_or(FileKind::Unknown, |file| kind_of(file.mode)),
        is_path_only: false,
        is_private: op == FileOp::Mkdir && is_private(call),
    })
}

/// What an open file allows.
fn access_of(file: &FileFacts) -> BTreeSet<Access> {
    const FMODE_READ: u32 = 1;
    const FMODE_WRITE: u32 = 2;
    let bits = [(FMODE_READ, Access::Read), (FMODE_WRITE, Access::Write)];
    bits.into_iter().filter(|(bit, _)| file.f_mode & bit != 0).map(|(_, access)| access).collect()
}

fn requested(arg: &PathArg) -> Option<Vec<u8>> {
    arg.requested.as_ref().filter(|text| text.state == ReadState::Whole).map(|text| text.bytes.clone())
}

fn kind_of(mode: u32) -> FileKind {
    match mode & 0o170_000 {
        0o100_000 => FileKind::Regular,
        0o040_000 => FileKind::Directory,
        0o120_000 => FileKind::Symlink,
        0o010_000 => FileKind::Fifo,
        0o140_000 => FileKind::Socket,
        0o020_000 => FileKind::CharDevice,
        0o060_000 => FileKind::BlockDevice,
        _ => FileKind::Unknown,
    }
}

fn open(call: &Call) -> Act {
    const O_ACCMODE: u64 = 3;
    const O_CREAT: u64 = 0o100;
    const O_EXCL: u64 = 0o200;
    const O_TRUNC: u64 = 0o1000;
    const O_APPEND: u64 = 0o2000;
    const O_DIRECTORY: u64 = 0o200_000;
    const O_PATH: u64 = 0o10_000_000;
    let name = assay_common::calls::row_of(call.nr, call.is_compat).map_or("", |row| row.name);
    let flags = match name {
        "creat" => 1 | O_CREAT | O_TRUNC,
        "open" => call.args[1],
        _ => call.args[2],
    };
    let is_path_only = flags & O_PATH != 0;
    let there = call.a.late.as_ref().and_then(|late| late.there);
    let mut access = BTreeSet::new();
    if !is_path_only {
        match flags & O_ACCMODE {
            0 => drop(access.insert(Access::Read)),
            1 => drop(access.insert(Access::Write)),
            // 3 is for ioctl only, and wants both permissions.
            _ => access.extend([Access::Read, Access::Write]),
        }
        // A file that is there was not to be made, whoever refused, and whoever of us found it.
        let has_made = match &call.file {
            Some(file) => file.f_mode & FMODE_CREATED != 0,
            None => flags & O_CREAT != 0 && call.ret < 0 && there.is_none(),
        };
        if has_made {
            access.insert(Access::Create);
        } else if flags & O_TRUNC != 0 {
            access.insert(Access::Truncate);
        }
        if flags & O_APPEND != 0 {
            access.insert(Access::Append);
        }
    }
    // A handle leads somewhere only once it is opened: of one that was refused there is no name that anybody could know.
    let path = if name == "open_by_handle_at" && call.ret < 0 {
        PathRef { bytes: b"handle:".to_vec(), state: PathState::Nameless }
    } else {
        path_of(&call.a, call.file.as_ref())
    };
    Act::File(FileAct {
        op: FileOp::Open,
        path,
        requested: requested(&call.a),
        access,
        kind: match call.file.as_ref().map(|file| file.mode).or(there).map(kind_of) {
            Some(kind) if kind != FileKind::Unknown => kind,
            _ if flags & O_DIRECTORY != 0 => FileKind::Directory,
            _ => FileKind::Unknown,
        },
        is_path_only,
        is_private: flags & O_CREAT != 0 && flags & O_EXCL != 0 && is_private(call),
    })
}

/// Whether the mode asked for serves the owner alone. Where it is not among the arguments (openat2, a request to a ring)
/// that is not known, and nothing is concluded.
fn is_private(call: &Call) -> bool {
    let name = assay_common::calls::row_of(call.nr, call.is_compat).map_or("", |row| row.name);
    let mode = match name {
        "creat" | "mkdir" => call.args[1],
        "open" | "mkdirat" => call.args[2],
        "openat" => call.args[3],
        _ => return false,
    };
    matches!(mode & 0o777, 0o600 | 0o700)
}

fn pair(call: &Call) -> Act {
    const RENAME_EXCHANGE: u64 = 2;
    let op = match call.op {
        Op::Link => PairOp::Link,
        Op::Symlink => PairOp::Symlink,
        _ => PairOp::Rename,
    };
    let to = if op == PairOp::Symlink {
        match &call.b.requested {
            Some(text) if text.state == ReadState::Whole => PathRef::literal(text.bytes.clone()),
            _ => PathRef::unreadable(),
        }
    } else {
        path_of(&call.b, None)
    };
    let is_renameat2 = call.nr == if call.is_compat { 353 } else { 316 };
    let mut path = path_of(&call.a, None);
    // A file made without a name is given one here; see `path::chain_path`.
    if op == PairOp::Link
        && let Some(slash) = path.bytes.iter().rposition(|&byte| byte == b'/')
        && path.bytes[slash + 1..]
            .strip_prefix(b"#")
            .is_some_and(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit))
        && requested(&call.a).is_none_or(|text| {
            text.is_empty() || text.starts_with(b"/proc/") || text.starts_with(b"/dev/fd/")
        })
    {
        path.bytes.truncate(slash + 1);
        path.bytes.extend_from_slice(b"#unnamed");
        path.state = PathState::Nameless;
    }
    Act::Pair(PairAct {
        op,
        path,
        to,
        requested: (requested(&call.a), requested(&call.b)),
        is_exchange: is_renameat2 && call.args[4] & RENAME_EXCHANGE != 0,
    })
}

fn failed_exec(call: &Call) -> Act {
    Act::Exec(ExecAct {
        path: path_of(&call.a, None),
        requested: requested(&call.a),
        interpreter: None,
        argv: Vec::new(),
        is_argv_cut: false,
        is_privileged: false,
    })
}

fn resolve_exec(exec: &Exec) -> Resolved {
    let image =
        exec.image.as_ref().map_or_else(PathRef::unreadable, |chain| chain_path(chain, exec.file.as_ref()));
    let (path, interpreter) =
        if exec.is_script { (path_of(&exec.a, None), Some(image)) } else { (image, None) };
    let (argv, is_cut) = match &exec.argv {
        Some(area) => (split_arguments(&area.bytes), area.state != ReadState::Whole),
        None => (Vec::new(), true),
    };
    let nested =
        if exec.is_script { nested_scripts(&argv, requested(&exec.a).as_deref()) } else { Vec::new() };
    let is_privileged = exec.file.as_ref().is_some_and(|file| file.mode & 0o6000 != 0);
    let act = Act::Exec(ExecAct {
        path,
        requested: requested(&exec.a),
        interpreter,
        argv,
        is_argv_cut: is_cut,
        is_privileged,
    });
    let mut gaps = gaps(&act, CallResult::Ok);
    gaps.extend(nested.into_iter().map(|name| (Kind::Exec, "nested-script", name)));
    Resolved::Act { act, result: CallResult::Ok, gaps }
}

/// Scripts between a script and the program that runs it. The kernel opened and closed them on its way; they are known
/// only as words it put into the arguments, between its interpreter and the script, beside each script's one option.
fn nested_scripts(argv: &[Vec<u8>], script: Option<&[u8]>) -> Vec<String> {
    let Some(end) = script.and_then(|script| argv.iter().position(|word| word == script)) else {
        return Vec::new();
    };
    argv[..end]
        .iter()
        .skip(1)
        .filter(|word| word.contains(&b'/') && !word.starts_with(b"-"))
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

fn split_arguments(area: &[u8]) -> Vec<Vec<u8>> {
    let area = area.strip_suffix(b"\0").unwrap_or(area);
    if area.is_empty() {
        return Vec::new();
    }
    area.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect()
}

fn net(call: &Call) -> Result<Act, &'static str> {
    const EPERM: i64 = 1;
    const EACCES: i64 = 13;
    if call.op == Op::Socket {
        if is_plain_socket(call) {
            return Err("plain-socket");
        }
        let proto = endpoint::proto(call.args[0] as u16, call.args[1] as u16, call.args[2] as u16);
        return Ok(Act::Net(NetAct {
            op: NetOp::Socket,
            proto,
            endpoint: Endpoint::None,
            is_ephemeral: false,
            peer: None,
        }));
    }
    // Not a socket: the call failed for that.
    let Some(socket) = &call.socket else { return Err("not-a-socket") };
    let proto = endpoint::proto(socket.family, socket.kind, socket.protocol);
    let op = match call.op {
        Op::Connect => NetOp::Connect,
        Op::Bind => NetOp::Bind,
        Op::Listen => NetOp::Listen,
        _ => NetOp::Send,
    };
    if op == NetOp::Listen {
        // A UNIX socket's file is known better than by the name it was bound with.
        let endpoint = match &call.a.chain {
            Some(_) => Endpoint::UnixPath(path_of(&call.a, None)),
            None => endpoint::local(socket, call.unix_name.as_ref()),
        };
        return Ok(Act::Net(NetAct {
            op,
            proto,
            endpoint,
            is_ephemeral: socket.is_port_chosen != 0,
            peer: None,
        }));
    }
    let mut end = match &call.address {
        Some(address)
            if endpoint::family_of(address) == Some(endpoint::AF_UNSPEC) && op == NetOp::Connect =>
        {
            return Err("disconnect");
        }
        // What lies where a request to a ring keeps its address is not always one; its family gives it away.
        Some(address) if op == NetOp::Bind && endpoint::family_of(address) != Some(socket.family) => {
            if call.ret >= 0 {
                endpoint::local(socket, call.unix_name.as_ref())
            } else {
                Endpoint::Unreadable
            }
        }
        Some(address) => endpoint(address, &call.a),
        // It was called without one, and failed for that; one that was refused had one, which is out of reach.
        None if call.ret < 0 && call.ret != -EPERM && call.ret != -EACCES => return Err("no-address"),
        None if call.ret < 0 => Endpoint::Unreadable,
        // A request's, where this kernel keeps it out of reach: what it was bound to is known all the same.
        None if op == NetOp::Bind => endpoint::local(socket, call.unix_name.as_ref()),
        None => Endpoint::Unreadable,
    };
    let mut is_ephemeral = false;
    if op == NetOp::Bind && call.ret >= 0 {
        match &mut end {
            // The kernel has chosen the port, and what it holds is what it took. Where others keep their end is not known.
            Endpoint::Inet(at) => {
                is_ephemeral = at.port() == 0 || socket.is_port_chosen != 0;
                if proto == "tcp" || proto == "udp" {
                    end = endpoint::local(socket, None);
                } else if is_ephemeral {
                    at.set_port(socket.local_port);
                }
            }
            Endpoint::None => end = endpoint::local(socket, call.unix_name.as_ref()),
            Endpoint::UnixPath(_) | Endpoint::UnixAbstract(_) | Endpoint::Unreadable => {}
        }
    }
    // An abstract name that is bound, or that is at the other end.
    if call.ret >= 0
        && op != NetOp::Send
        && let Some(name) = &call.unix_name
        && let held @ Endpoint::UnixAbstract(_) = endpoint::local(socket, Some(name))
    {
        end = held;
    }
    Ok(Act::Net(NetAct { op, proto, endpoint: end, is_ephemeral, peer: peer(call) }))
}

/// Who is at the other end of a UNIX connection that was made.
fn peer(call: &Call) -> Option<Box<Peer>> {
    let facts = call.peer?;
    let is_alive = facts.is_alive != 0;
    let image = call.peer_image.as_ref().map(|chain| chain_path(chain, None));
    Some(Box::new(Peer {
        process: (facts.pid != 0).then_some((facts.pid, facts.uid)),
        program: image.filter(PathRef::is_trustworthy),
        comm: is_alive.then(|| facts.comm.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()),
    }))
}

#[cfg(test)]
mod tests;
