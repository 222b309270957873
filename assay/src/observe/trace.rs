//! One observation → one line of the trace: NDJSON, a JSON object and LF. Pure.
//!
//! Names are in their text form, secrets are replaced, and a hostile name cannot end the line. Secrets are numbered
//! in the order of the trace.

use std::fmt::Write as _;

use assay_common::calls::NAMESPACES;

use crate::profile::name::Name;
use crate::profile::redact::{Secret, begins_like_a_key, find_in_argv, find_key_shapes};
use crate::profile::secrets::Secrets;

use super::errno::errno_name;
use super::names::Given;
use super::observation::{
    Access, Act, CallResult, Endpoint, ExecAct, FileAct, FileOp, NamespaceOp, NetAct, NetOp, Observation,
    PairAct, PairOp, PathRef, PathState, Peer,
};

/// The length of a `comm` that was cut, or may have been.
const CUT_COMM: usize = 15;

/// Writes the lines of one trace.
#[derive(Debug, Default)]
pub struct TraceWriter {
    secrets: Secrets,
    names: Given,
    events: u64,
}

impl TraceWriter {
    /// A writer for a run of `command`, whose secrets are known from the first line on.
    pub fn new(command: &[Vec<u8>]) -> Self {
        let mut secrets = Secrets::default();
        let found = find_in_argv(command);
        for (text, found) in command.iter().zip(&found) {
            secrets.learn(text, found);
        }
        Self { secrets, names: Given::default(), events: 0 }
    }

    /// Appends the line of `observation` to `out`. Process births and ends, and notes of the observer about itself,
    /// are no calls of the run's and have no line.
    pub fn line(&mut self, observation: &Observation, out: &mut String) {
        let op = match &observation.act {
            Act::File(act) => file_op(act.op),
            Act::Pair(act) => pair_op(act.op),
            Act::Exec(_) => EXEC,
            Act::Net(act) => net_op(act.op),
            Act::Namespaces(act) => namespace_op(act.op),
            Act::Named(named) => {
                self.names.learn(named);
                return;
            }
            Act::Fork { .. } | Act::Exit { .. } | Act::Blind { .. } => return,
        };
        self.events += 1;
        let Observation { seq, t_ns, pid, tid, ppid, .. } = observation;
        // Writing to a String cannot fail.
        let _ = write!(out, r#"{{"seq":{seq},"t_ns":{t_ns},"pid":{pid},"tid":{tid},"ppid":{ppid}"#);
        self.comm(&observation.comm, out);
        let _ = write!(out, r#","op":"{op}""#);
        match &observation.act {
            Act::File(act) => self.file(act, out),
            Act::Pair(act) => self.pair(act, out),
            Act::Exec(act) => self.exec(act, out),
            Act::Net(act) => self.net(act, out),
            Act::Namespaces(act) => {
                let kinds: Vec<String> = act.kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
                let _ = write!(out, r#","namespaces":[{}]"#, kinds.join(","));
            }
            Act::Fork { .. } | Act::Exit { .. } | Act::Blind { .. } | Act::Named(_) => {}
        }
        match observation.result {
            CallResult::Ok => out.push_str(",\"result\":\"ok\"}\n"),
            CallResult::Errno(errno) => {
                let _ = writeln!(out, r#","result":"{}"}}"#, errno_name(errno));
            }
        }
    }

    /// The last line.
    pub fn end(&self, lost: u64) -> String {
        format!("{{\"end\":true,\"events\":{},\"lost\":{lost}}}\n", self.events)
    }

    /// How many lines were written.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn file(&mut self, act: &FileAct, out: &mut String) {
        self.path("path", &act.path, out);
        self.requested("requested", act.requested.as_deref(), &act.path, out);
        if matches!(act.op, FileOp::Open | FileOp::Receive) {
            out.push_str(",\"access\":[");
            for (position, access) in act.access.iter().enumerate() {
                let comma = if position > 0 { "," } else { "" };
                let _ = write!(out, r#"{comma}"{}""#, access_word(*access));
            }
            out.push(']');
            if act.is_path_only {
                out.push_str(",\"path_only\":true");
            }
        }
    }

    fn pair(&mut self, act: &PairAct, out: &mut String) {
        self.path("path", &act.path, out);
        self.path("to", &act.to, out);
        self.requested("requested", act.requested.0.as_deref(), &act.path, out);
        self.requested("requested_to", act.requested.1.as_deref(), &act.to, out);
        if act.is_exchange {
            out.push_str(",\"exchange\":true");
        }
    }

    fn exec(&mut self, act: &ExecAct, out: &mut String) {
        self.path("path", &act.path, out);
        self.requested("requested", act.requested.as_deref(), &act.path, out);
        if let Some(interpreter) = &act.interpreter {
            self.path("interpreter", interpreter, out);
        }
        out.push_str(",\"argv\":[");
        let found = find_in_argv(&act.argv);
        for (position, (argument, mut found)) in act.argv.iter().zip(found).enumerate() {
            if position > 0 {
                out.push(',');
            }
            self.secrets.learn(argument, &found);
            self.secrets.add_learned(argument, &mut found);
            self.quoted(argument, &found, out);
        }
        out.push(']');
        if act.is_argv_cut {
            out.push_str(",\"argv_cut\":true");
        }
    }

    fn net(&mut self, act: &NetAct, out: &mut String) {
        let _ = write!(out, r#","proto":"{}""#, act.proto);
        match &act.endpoint {
            Endpoint::Inet(address) => {
                let _ =
                    write!(out, r#","address":"{}","port":{}"#, address.ip().to_canonical(), address.port());
                if let (NetOp::Connect | NetOp::Send, Some(host)) = (act.op, self.names.of(address.ip())) {
                    out.push_str(",\"host\":");
                    push_json(&host, out);
                }
            }
            Endpoint::UnixPath(path) => self.path("address", path, out),
            Endpoint::UnixAbstract(name) => {
                let mut address = b"@".to_vec();
                address.extend_from_slice(name);
                self.text("address", &address, out);
            }
            Endpoint::None => {}
            Endpoint::Unreadable => out.push_str(",\"address_state\":\"unreadable\""),
        }
        if act.is_ephemeral {
            out.push_str(",\"ephemeral\":true");
        }
        if let Some(peer) = &act.peer {
            self.peer(peer, out);
        }
    }

    fn peer(&mut self, peer: &Peer, out: &mut String) {
        let mut members = String::new();
        if let Some((pid, uid)) = peer.process {
            let _ = write!(members, r#","pid":{pid},"uid":{uid}"#);
        }
        if let Some(program) = &peer.program {
            self.path("program", program, &mut members);
        }
        if let Some(comm) = &peer.comm {
            self.comm(comm, &mut members);
        }
        let _ = write!(out, r#","peer":{{{}}}"#, members.strip_prefix(',').unwrap_or_default());
    }

    /// `"key": "path"`, and its state where it is not simply what the kernel resolved.
    fn path(&mut self, key: &str, path: &PathRef, out: &mut String) {
        if path.state != PathState::Unreadable || !path.bytes.is_empty() {
            self.text(key, &path.bytes, out);
        }
        let state = match path.state {
            PathState::Resolved | PathState::Literal => return,
            PathState::LookedUpLate => "looked-up-late",
            PathState::Unverified => "unverified",
            PathState::Lexical => "lexical",
            PathState::Nameless => "nameless",
            PathState::Cut => "cut",
            PathState::Unreadable => "unreadable",
        };
        let _ = write!(out, r#","{key}_state":"{state}""#);
    }

    fn requested(&mut self, key: &str, requested: Option<&[u8]>, path: &PathRef, out: &mut String) {
        if let Some(requested) = requested.filter(|requested| *requested != path.bytes) {
            self.text(key, requested, out);
        }
    }

    fn text(&mut self, key: &str, text: &[u8], out: &mut String) {
        let mut found = find_key_shapes(text);
        self.secrets.add_learned(text, &mut found);
        let _ = write!(out, r#","{key}":"#);
        self.quoted(text, &found, out);
    }

    /// The kernel keeps fifteen bytes of a program's name: enough of a key to be a part of one, and too few to show it.
    fn comm(&mut self, comm: &[u8], out: &mut String) {
        if comm.len() >= CUT_COMM && (begins_like_a_key(comm) || self.secrets.has_beginning(comm)) {
            out.push_str(",\"comm\":");
            let whole = [Secret { range: 0..comm.len(), rule: "key-shape" }];
            self.quoted(comm, &whole, out);
        } else {
            self.text("comm", comm, out);
        }
    }

    fn quoted(&mut self, text: &[u8], found: &[Secret], out: &mut String) {
        if found.is_empty() {
            push_json(Name::from_bytes(text).as_str(), out);
            return;
        }
        let mut marked = String::new();
        self.secrets.mark(text, found, &mut marked, crate::profile::name::escape_into);
        push_json(&self.secrets.write(&marked), out);
    }
}

/// A JSON string. Names have no controls left, so that only the quote and the backslash are special.
fn push_json(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The word of a program start.
const EXEC: &str = "exec";

/// Every word that `op` can be.
pub fn words() -> Vec<&'static str> {
    let files = FileOp::ALL.into_iter().map(file_op);
    let pairs = PairOp::ALL.into_iter().map(pair_op);
    let nets = NetOp::ALL.into_iter().map(net_op);
    let namespaces = NamespaceOp::ALL.into_iter().map(namespace_op);
    files.chain(pairs).chain([EXEC]).chain(nets).chain(namespaces).collect()
}

/// The word of an open's access.
pub fn access_word(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
        Access::Create => "create",
        Access::Truncate => "truncate",
        Access::Append => "append",
        Access::Execute => "execute",
    }
}

/// The word of a call on one file.
pub fn file_op(op: FileOp) -> &'static str {
    match op {
        FileOp::Open => "open",
        FileOp::Unlink => "unlink",
        FileOp::Rmdir => "rmdir",
        FileOp::Mkdir => "mkdir",
        FileOp::Mknod => "mknod",
        FileOp::Truncate => "truncate",
        FileOp::Chmod => "chmod",
        FileOp::Chown => "chown",
        FileOp::Utime => "utimens",
        FileOp::Setxattr => "setxattr",
        FileOp::Removexattr => "removexattr",
        FileOp::Mount => "mount",
        FileOp::Umount => "umount",
        FileOp::PivotRoot => "pivot_root",
        FileOp::Chdir => "chdir",
        FileOp::Chroot => "chroot",
        FileOp::Write => "write",
        FileOp::Receive => "recvmsg",
    }
}

/// The word of a call on two names.
pub fn pair_op(op: PairOp) -> &'static str {
    match op {
        PairOp::Rename => "rename",
        PairOp::Link => "link",
        PairOp::Symlink => "symlink",
    }
}

/// The kinds of namespaces.
pub fn namespace_words() -> Vec<&'static str> {
    NAMESPACES.map(|(_, name)| name).into()
}

/// The word of a call that makes or enters namespaces.
fn namespace_op(op: NamespaceOp) -> &'static str {
    match op {
        NamespaceOp::Unshare => "unshare",
        NamespaceOp::Setns => "setns",
        NamespaceOp::Clone => "clone",
    }
}

/// The word of a call on a socket.
pub fn net_op(op: NetOp) -> &'static str {
    match op {
        NetOp::Connect => "connect",
        NetOp::Bind => "bind",
        NetOp::Listen => "listen",
        NetOp::Send => "send",
        NetOp::Socket => "socket",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::observation::{FileKind, NamespaceAct};

    fn observation(act: Act, result: CallResult) -> Observation {
        Observation { seq: 3, t_ns: 5, pid: 7, tid: 8, ppid: 1, comm: b"a\"b\n".to_vec(), act, result }
    }

    fn check(act: Act, result: CallResult, want: &str) {
        let mut out = String::new();
        TraceWriter::new(&[]).line(&observation(act, result), &mut out);
        let head = r#"{"seq":3,"t_ns":5,"pid":7,"tid":8,"ppid":1,"comm":"a\"b\\x0a","#;
        assert_eq!(out.strip_prefix(head), Some(format!("{want}\n").as_str()));
        serde_json::from_str::<serde_json::Value>(&out).unwrap();
    }

    #[test]
    fn an_open_tells_where_it_went_and_what_was_asked() {
        let act = FileAct {
            op: FileOp::Open,
            path: PathRef::resolved("/usr/share/x"),
            requested: Some(b"x".to_vec()),
            access: [Access::Write, Access::Read].into(),
            kind: FileKind::Regular,
            is_path_only: false,
            is_private: false,
        };
        check(
            Act::File(act.clone()),
            CallResult::Ok,
            r#""op":"open","path":"/usr/share/x","requested":"x","access":["read","write"],"result":"ok"}"#,
        );
        let same = FileAct {
            requested: Some(b"/usr/share/x".to_vec()),
            access: [].into(),
            is_path_only: true,
            ..act
        };
        check(
            Act::File(same),
            CallResult::Errno(13),
            r#""op":"open","path":"/usr/share/x","access":[],"path_only":true,"result":"EACCES"}"#,
        );
    }

    #[test]
    fn a_program_start_is_one_line_without_its_secrets() {
        let act = ExecAct {
            path: PathRef::resolved("/w/s.sh"),
            requested: Some(b"./s.sh".to_vec()),
            interpreter: Some(PathRef::resolved("/usr/bin/bash")),
            argv: vec![b"/bin/sh".to_vec(), b"./s.sh".to_vec(), b"--password=hunter2".to_vec()],
            is_argv_cut: false,
            is_privileged: false,
        };
        let want = r#""op":"exec","path":"/w/s.sh","requested":"./s.sh","interpreter":"/usr/bin/bash","argv":["/bin/sh","./s.sh","--password=${REDACTED:1}"],"result":"ok"}"#;
        check(Act::Exec(act), CallResult::Ok, want);
    }

    #[test]
    fn namespaces_are_told_by_their_kinds() {
        let act = NamespaceAct { op: NamespaceOp::Unshare, kinds: vec!["mnt", "user"] };
        check(
            Act::Namespaces(act),
            CallResult::Errno(1),
            r#""op":"unshare","namespaces":["mnt","user"],"result":"EPERM"}"#,
        );
        let act = NamespaceAct { op: NamespaceOp::Setns, kinds: Vec::new() };
        check(Act::Namespaces(act), CallResult::Ok, r#""op":"setns","namespaces":[],"result":"ok"}"#);
    }

    #[test]
    fn a_connection_tells_address_and_port() {
        let net = |endpoint| {
            Act::Net(NetAct { op: NetOp::Connect, proto: "tcp", endpoint, is_ephemeral: false, peer: None })
        };
        check(
            net(Endpoint::Inet("[::ffff:127.0.0.1]:80".parse().unwrap())),
            CallResult::Errno(115),
            r#""op":"connect","proto":"tcp","address":"127.0.0.1","port":80,"result":"EINPROGRESS"}"#,
        );
        check(
            net(Endpoint::UnixAbstract(b"x\0".to_vec())),
            CallResult::Errno(9999),
            r#""op":"connect","proto":"tcp","address":"@x\\x00","result":"E9999"}"#,
        );
        let of_socket = |peer: Peer| {
            let endpoint = Endpoint::UnixPath(PathRef::resolved("/run/s"));
            let peer = Some(Box::new(peer));
            Act::Net(NetAct { op: NetOp::Connect, proto: "unix", endpoint, is_ephemeral: false, peer })
        };
        check(
            of_socket(Peer {
                process: Some((9, 0)),
                program: Some(PathRef::resolved("/usr/bin/dockerd")),
                comm: Some(b"docker\"d".to_vec()),
            }),
            CallResult::Ok,
            r#""op":"connect","proto":"unix","address":"/run/s","peer":{"pid":9,"uid":0,"program":"/usr/bin/dockerd","comm":"docker\"d"},"result":"ok"}"#,
        );
        check(
            of_socket(Peer { process: None, program: None, comm: None }),
            CallResult::Ok,
            r#""op":"connect","proto":"unix","address":"/run/s","peer":{},"result":"ok"}"#,
        );
        check(
            net(Endpoint::Unreadable),
            CallResult::Ok,
            r#""op":"connect","proto":"tcp","address_state":"unreadable","result":"ok"}"#,
        );
    }

    proptest::proptest! {
        #[test]
        fn any_name_stays_on_its_line(bytes: Vec<u8>) {
            let act = Act::Pair(PairAct {
                op: PairOp::Symlink,
                path: PathRef::resolved(bytes.clone()),
                to: PathRef::literal(bytes.clone()),
                requested: (Some(bytes.clone()), None),
                is_exchange: false,
            });
            let mut out = String::new();
            TraceWriter::new(&[]).line(&observation(act, CallResult::Ok), &mut out);
            proptest::prop_assert_eq!(out.matches('\n').count(), 1);
            let line: serde_json::Value = serde_json::from_str(&out).unwrap();
            let path = line["path"].as_str().unwrap();
            if find_key_shapes(&bytes).is_empty() {
                proptest::prop_assert_eq!(crate::profile::name::unescape(path), Some(bytes));
            }
        }
    }
}
