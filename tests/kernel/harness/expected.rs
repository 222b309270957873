//! What a trace must hold, worked out from what strace saw.
//!
//! In: the events of a listing and the folder the command started in. Out: one [`Expected`] a call. Knows of every
//! process where it stands and of every socket what it is; asks the file system where links lead.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex};

use super::links::Last::{self, Followed, Meant};
use super::links::{Links, Place, lexical};
use super::strace::{Call, Event, Outcome, leads_to, string};

/// The calls strace is asked for. `?` marks what an older strace does not know.
pub const CALLS: &str = "open,creat,openat,openat2,unlink,unlinkat,rmdir,rename,renameat,renameat2,mkdir,mkdirat,\
    mknod,mknodat,link,linkat,symlink,symlinkat,truncate,ftruncate,chmod,fchmod,fchmodat,?fchmodat2,chown,lchown,\
    fchown,fchownat,utime,utimes,futimesat,utimensat,setxattr,lsetxattr,fsetxattr,removexattr,lremovexattr,\
    fremovexattr,mount,umount2,pivot_root,chdir,fchdir,chroot,execve,execveat,socket,connect,bind,listen,sendto,\
    sendmsg,sendmmsg,clone,clone3,fork,vfork";

/// One call that a trace must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Line of the listing.
    pub line: usize,
    /// The thread.
    pub tid: u32,
    /// The trace's word.
    pub op: &'static str,
    /// The paths that would be right. One for a call that succeeded; empty where none can be told from outside.
    pub path: Vec<Vec<u8>>,
    /// Likewise, for the second name.
    pub to: Vec<Vec<u8>>,
    /// What an open was for.
    pub access: Option<BTreeSet<&'static str>>,
    /// A started script's interpreter.
    pub interpreter: Option<Vec<u8>>,
    /// The socket's protocol.
    pub proto: Option<String>,
    /// The other end, where there is one.
    pub endpoint: Endpoint,
    /// `ok` or the errno's name.
    pub result: String,
}

/// Where a socket call went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// There is none, or it cannot be told from outside.
    Any,
    /// This address; port 0 was asked for, so any port is right.
    Inet(SocketAddr),
    /// A path.
    Path(Vec<Vec<u8>>),
    /// An abstract name.
    Abstract(Vec<u8>),
}

/// What all calls of a listing should leave in a trace.
pub fn expected(events: &[Event], start: &[u8]) -> Result<Vec<Expected>, String> {
    let mut world = World::new(start);
    // A link is followed also where it is gone by now.
    for event in events {
        if let Event::Call(call) = event
            && call.name.starts_with("symlink")
            && call.outcome == Outcome::Value(0, None)
        {
            world.learn_link(call, start);
        }
    }
    let mut all = Vec::new();
    let parents = parents(events);
    for event in events {
        match event {
            Event::Exit(tid) => {
                world.places.remove(tid);
            }
            Event::Call(call) => {
                world.meet(call.tid, &parents);
                all.extend(
                    world
                        .call(call)
                        .ok_or_else(|| format!("line {}: not understood: {call:?}", call.line))?,
                );
            }
        }
    }
    Ok(all)
}

/// Every thread that appears, in a listing.
pub fn threads(events: &[Event]) -> BTreeSet<u32> {
    let of = |event: &Event| match event {
        Event::Call(call) => call.tid,
        Event::Exit(tid) => *tid,
    };
    events.iter().map(of).collect()
}

/// Child → the thread that made it.
fn parents(events: &[Event]) -> HashMap<u32, u32> {
    let mut parents = HashMap::new();
    for event in events {
        if let Event::Call(Call { tid, name, outcome: Outcome::Value(child, _), .. }) = event
            && is_fork(name)
        {
            parents.entry(*child as u32).or_insert(*tid);
        }
    }
    parents
}

fn is_fork(name: &str) -> bool {
    matches!(name, "clone" | "clone3" | "fork" | "vfork")
}

/// Threads that share a root and a working directory share the cell.
type Cell = Arc<Mutex<Place>>;

struct World {
    start: Place,
    places: HashMap<u32, Cell>,
    links: Links,
    /// Thread and descriptor → what it was opened on last.
    opened: HashMap<(u32, i64), Vec<u8>>,
    /// Inode → family and type.
    sockets: HashMap<Vec<u8>, (String, String, String)>,
    /// Inode → where it was bound.
    bound: HashMap<Vec<u8>, Endpoint>,
}

impl World {
    fn new(start: &[u8]) -> Self {
        Self {
            start: Place::at(start),
            places: HashMap::new(),
            links: Links::default(),
            opened: HashMap::new(),
            sockets: HashMap::new(),
            bound: HashMap::new(),
        }
    }

    fn learn_link(&mut self, call: &Call, start: &[u8]) {
        let (text, folder, link) = match call.args.as_slice() {
            [text, link] => (string(text), Some(start.to_vec()), string(link)),
            [text, folder, link] => (string(text), leads_to(folder), string(link)),
            _ => return,
        };
        if let (Some(text), Some(folder), Some(link)) = (text, folder, link) {
            self.links.made(&lexical(&Place::at(&folder), &link), &text);
        }
    }

    /// A thread we have not met stands where its parent stands.
    fn meet(&mut self, tid: u32, parents: &HashMap<u32, u32>) {
        if !self.places.contains_key(&tid) {
            let place = parents.get(&tid).and_then(|parent| self.places.get(parent)).map(now);
            self.places.insert(tid, cell(place.unwrap_or_else(|| self.start.clone())));
        }
    }

    fn here(&self, tid: u32) -> Place {
        self.places.get(&tid).map_or_else(|| self.start.clone(), now)
    }

    /// `None` when the call is not understood; no expectation when nothing of it belongs into a trace.
    fn call(&mut self, call: &Call) -> Option<Vec<Expected>> {
        // What was killed or restarted by the kernel has no result to compare.
        if call.outcome == Outcome::Never {
            return Some(Vec::new());
        }
        if is_fork(&call.name) {
            self.fork(call);
            return Some(Vec::new());
        }
        let args = &call.args;
        let flag = |at: usize, word: &str| args.get(at).is_some_and(|arg| arg.contains(word));
        let unless = |at: usize| if flag(at, "AT_SYMLINK_NOFOLLOW") { Last::Meant } else { Last::Followed };
        let one = |expected: Expected| Some(vec![expected]);
        match call.name.as_str() {
            "open" => one(self.open(call, None, 0, 1)),
            "creat" => one(self.open(call, None, 0, 0)),
            "openat" | "openat2" => one(self.open(call, Some(0), 1, 2)),
            "unlink" => one(self.named(call, "unlink", None, 0, Meant)),
            "rmdir" => one(self.named(call, "rmdir", None, 0, Meant)),
            "unlinkat" if flag(2, "AT_REMOVEDIR") => one(self.named(call, "rmdir", Some(0), 1, Meant)),
            "unlinkat" => one(self.named(call, "unlink", Some(0), 1, Meant)),
            "mkdir" => one(self.named(call, "mkdir", None, 0, Meant)),
            "mkdirat" => one(self.named(call, "mkdir", Some(0), 1, Meant)),
            "mknod" => one(self.named(call, "mknod", None, 0, Meant)),
            "mknodat" => one(self.named(call, "mknod", Some(0), 1, Meant)),
            "rename" => one(self.pair(call, "rename", (None, 0), (None, 1), Meant)),
            "renameat" | "renameat2" => one(self.pair(call, "rename", (Some(0), 1), (Some(2), 3), Meant)),
            "link" => one(self.pair(call, "link", (None, 0), (None, 1), Meant)),
            "linkat" => {
                let last = if flag(4, "AT_SYMLINK_FOLLOW") { Followed } else { Meant };
                one(self.pair(call, "link", (Some(0), 1), (Some(2), 3), last))
            }
            "symlink" => one(self.symlink(call, None, 1)),
            "symlinkat" => one(self.symlink(call, Some(1), 2)),
            "truncate" => one(self.named(call, "truncate", None, 0, Followed)),
            "chmod" => one(self.named(call, "chmod", None, 0, Followed)),
            "fchmodat" => one(self.named(call, "chmod", Some(0), 1, Followed)),
            "fchmodat2" => one(self.named(call, "chmod", Some(0), 1, unless(3))),
            "chown" => one(self.named(call, "chown", None, 0, Followed)),
            "lchown" => one(self.named(call, "chown", None, 0, Meant)),
            "fchownat" => one(self.named(call, "chown", Some(0), 1, unless(4))),
            "utime" | "utimes" => one(self.named(call, "utimens", None, 0, Followed)),
            "futimesat" => one(self.named(call, "utimens", Some(0), 1, Followed)),
            "utimensat" => one(self.named(call, "utimens", Some(0), 1, unless(3))),
            "setxattr" => one(self.named(call, "setxattr", None, 0, Followed)),
            "lsetxattr" => one(self.named(call, "setxattr", None, 0, Meant)),
            "removexattr" => one(self.named(call, "removexattr", None, 0, Followed)),
            "lremovexattr" => one(self.named(call, "removexattr", None, 0, Meant)),
            "mount" => one(self.named(call, "mount", None, 1, Followed)),
            "umount2" => one(self.named(call, "umount", None, 0, Followed)),
            "pivot_root" => one(self.named(call, "pivot_root", None, 0, Followed)),
            "chroot" => one(self.chroot(call)),
            "ftruncate" => one(through(call, "truncate")),
            "fchmod" => one(through(call, "chmod")),
            "fchown" => one(through(call, "chown")),
            "fsetxattr" => one(through(call, "setxattr")),
            "fremovexattr" => one(through(call, "removexattr")),
            "chdir" | "fchdir" => one(self.chdir(call)),
            "execve" => one(self.exec(call, None, 0, Followed)),
            "execveat" => one(self.exec(call, Some(0), 1, unless(4))),
            "socket" => Some(self.socket(call)),
            "connect" => one(self.net(call, "connect", call.args.get(1))),
            "bind" => one(self.net(call, "bind", call.args.get(1))),
            "listen" => one(self.net(call, "listen", None)),
            "sendto" | "sendmsg" | "sendmmsg" => Some(self.send(call)),
            _ => None,
        }
    }

    fn fork(&mut self, call: &Call) {
        let Outcome::Value(child, _) = call.outcome else { return };
        let shares = call.args.iter().any(|arg| arg.contains("CLONE_FS"));
        if let Some(place) = self.places.get(&call.tid).cloned() {
            // A child that has already been seen stands where it stands, unless it shares the cell.
            let new = if shares { place } else { cell(now(&place)) };
            if shares {
                self.places.insert(child as u32, new);
            } else {
                self.places.entry(child as u32).or_insert(new);
            }
        }
    }

    /// Where the paths of this call start.
    fn place(&mut self, call: &Call, at: Option<usize>) -> Place {
        let here = self.here(call.tid);
        let Some(arg) = at.and_then(|at| call.args.get(at)) else { return here };
        let Some(folder) = leads_to(arg) else { return here };
        if arg.starts_with("AT_FDCWD") {
            // strace asked the kernel: that is better than what we have kept.
            self.stand(call.tid, |place| place.cwd.clone_from(&folder));
        }
        Place { cwd: folder, ..here }
    }

    /// The paths that are right for the string `at`.
    fn paths(&mut self, call: &Call, folder: Option<usize>, at: usize, last: Last) -> Vec<Vec<u8>> {
        let from = self.place(call, folder);
        match call.args.get(at).and_then(|arg| string(arg)) {
            // `AT_EMPTY_PATH`, or the NULL of `utimensat`: the descriptor itself.
            Some(path) if path.is_empty() && is_ok(call) => vec![from.cwd],
            None if is_ok(call) => vec![from.cwd],
            // The kernel never saw a name.
            None => Vec::new(),
            Some(path) if path.is_empty() => Vec::new(),
            Some(path) if is_ok(call) => match self.through_own_descriptor(call.tid, &path) {
                Some(path) if last == Followed => vec![path],
                _ => vec![self.links.resolve(&from, &path, last)],
            },
            // Nothing was reached: the string is all there is, and where it would have led is as good.
            Some(path) => vec![
                lexical(&from, &path),
                self.links.resolve(&from, &path, last),
                self.links.resolve(&from, &path, Last::Meant),
                self.links.resolve(&from, &path, Last::Followed),
            ],
        }
    }

    /// `/proc/self/fd/N/…`, with what the descriptor leads to in its place.
    fn through_own_descriptor(&self, tid: u32, path: &[u8]) -> Option<Vec<u8>> {
        let rest = path.strip_prefix(b"/proc/self/fd/").or_else(|| path.strip_prefix(b"/dev/fd/"))?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        let mut whole = self.opened.get(&(tid, number))?.clone();
        whole.extend(&rest[digits..]);
        Some(whole)
    }

    fn named(
        &mut self,
        call: &Call,
        op: &'static str,
        folder: Option<usize>,
        at: usize,
        last: Last,
    ) -> Expected {
        Expected { path: self.paths(call, folder, at, last), ..plain(call, op) }
    }

    fn pair(
        &mut self,
        call: &Call,
        op: &'static str,
        old: (Option<usize>, usize),
        new: (Option<usize>, usize),
        last: Last,
    ) -> Expected {
        let path = self.paths(call, old.0, old.1, last);
        let to = self.paths(call, new.0, new.1, Last::Meant);
        Expected { path, to, ..plain(call, op) }
    }

    fn symlink(&mut self, call: &Call, folder: Option<usize>, at: usize) -> Expected {
        let text = call.args.first().and_then(|arg| string(arg));
        let path = self.paths(call, folder, at, Last::Meant);
        Expected { path, to: text.into_iter().collect(), ..plain(call, "symlink") }
    }

    fn chdir(&mut self, call: &Call) -> Expected {
        let expected = if call.name == "fchdir" {
            through(call, "chdir")
        } else {
            self.named(call, "chdir", None, 0, Last::Followed)
        };
        if let (true, Some(path)) = (is_ok(call), expected.path.first()) {
            self.stand(call.tid, |place| place.cwd.clone_from(path));
        }
        expected
    }

    fn chroot(&mut self, call: &Call) -> Expected {
        let expected = self.named(call, "chroot", None, 0, Last::Followed);
        if let (true, Some(path)) = (is_ok(call), expected.path.first()) {
            self.stand(call.tid, |place| place.root.clone_from(path));
        }
        expected
    }

    fn stand(&self, tid: u32, change: impl FnOnce(&mut Place)) {
        if let Some(cell) = self.places.get(&tid) {
            change(&mut cell.lock().expect("one thread"));
        }
    }

    fn open(&mut self, call: &Call, folder: Option<usize>, at: usize, flags: usize) -> Expected {
        let mut path = self.paths(call, folder, at, Last::Followed);
        if let Outcome::Value(number, Some(real)) = &call.outcome {
            path = vec![real.clone()];
            self.opened.insert((call.tid, *number), real.clone());
        }
        let flags = if call.name == "creat" {
            "O_WRONLY|O_TRUNC"
        } else {
            call.args.get(flags).map_or("", String::as_str)
        };
        let access = is_ok(call).then(|| access(flags));
        Expected { path, access, ..plain(call, "open") }
    }

    fn exec(&mut self, call: &Call, folder: Option<usize>, at: usize, last: Last) -> Expected {
        let path = self.paths(call, folder, at, last);
        let interpreter =
            path.first().filter(|_| is_ok(call)).and_then(|path| self.interpreter(call.tid, path));
        Expected { path, interpreter, ..plain(call, "exec") }
    }

    /// What the first line of a script names, links followed.
    fn interpreter(&self, tid: u32, path: &[u8]) -> Option<Vec<u8>> {
        let mut head = [0; 256];
        let read = File::open(OsStr::from_bytes(path)).ok()?.read(&mut head).ok()?;
        let line = head[..read].strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
        let name = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
        Some(self.links.resolve(&self.here(tid), name, Last::Followed))
    }

    fn socket(&mut self, call: &Call) -> Vec<Expected> {
        let [family, kind, protocol] = call.args.as_slice() else { return Vec::new() };
        if let Outcome::Value(_, Some(inode)) = &call.outcome {
            self.sockets.insert(inode.clone(), (family.clone(), kind.clone(), protocol.clone()));
        }
        let proto = proto(family, kind, protocol);
        // A socket that can be reached by an address alone is told when it is used.
        if matches!(proto.as_str(), "tcp" | "udp" | "unix") {
            return Vec::new();
        }
        vec![Expected { proto: Some(proto), ..plain(call, "socket") }]
    }

    fn net(&mut self, call: &Call, op: &'static str, address: Option<&String>) -> Expected {
        let inode = call.args.first().and_then(|arg| leads_to(arg)).unwrap_or_default();
        let known = self.sockets.get(&inode).map(|(family, kind, protocol)| proto(family, kind, protocol));
        let endpoint = match address {
            Some(address) => {
                self.endpoint(call, address, if op == "bind" { Last::Meant } else { Last::Followed })
            }
            None => self.bound.get(&inode).cloned().unwrap_or(Endpoint::Any),
        };
        if op == "bind" && is_ok(call) {
            self.bound.insert(inode, endpoint.clone());
        }
        Expected { proto: known, endpoint, ..plain(call, op) }
    }

    /// One expectation a message that names an address.
    fn send(&mut self, call: &Call) -> Vec<Expected> {
        let addresses: Vec<String> = match (call.name.as_str(), call.args.as_slice()) {
            ("sendto", [_, _, _, _, address, ..]) if address != "NULL" => vec![address.clone()],
            ("sendmsg" | "sendmmsg", [_, message, ..]) => {
                let named = message.split("msg_name=").skip(1).filter(|rest| !rest.starts_with("NULL"));
                named.map(|rest| rest.split("msg_namelen").next().unwrap_or_default().to_owned()).collect()
            }
            _ => Vec::new(),
        };
        let sent = match (&call.outcome, call.name.as_str()) {
            (Outcome::Value(count, _), "sendmmsg") => usize::try_from(*count).unwrap_or(0),
            _ => addresses.len(),
        };
        addresses.iter().take(sent.max(1)).map(|address| self.net(call, "send", Some(address))).collect()
    }

    fn endpoint(&mut self, call: &Call, text: &str, last: Last) -> Endpoint {
        let after = |key: &str| text.split_once(key).map(|(_, rest)| rest);
        let quoted = |rest: &str| rest.split('"').nth(1).map(str::to_owned);
        let port = after("_port=htons(").and_then(|rest| rest.split(')').next()?.parse::<u16>().ok());
        let ip = after("inet_addr(").and_then(quoted).or_else(|| after("inet_pton(").and_then(quoted));
        if let (Some(port), Some(ip)) = (port, ip.and_then(|ip| ip.parse::<IpAddr>().ok())) {
            return Endpoint::Inet(SocketAddr::new(ip.to_canonical(), port));
        }
        match after("sun_path=") {
            Some(rest) if rest.starts_with('@') => string(rest).map_or(Endpoint::Any, Endpoint::Abstract),
            Some(rest) => match string(rest) {
                Some(path) if is_ok(call) => {
                    Endpoint::Path(vec![self.links.resolve(&self.here(call.tid), &path, last)])
                }
                Some(path) => {
                    let here = self.here(call.tid);
                    Endpoint::Path(vec![lexical(&here, &path), self.links.resolve(&here, &path, last)])
                }
                None => Endpoint::Any,
            },
            None => Endpoint::Any,
        }
    }
}

/// A call on a descriptor.
fn through(call: &Call, op: &'static str) -> Expected {
    Expected {
        path: call.args.first().and_then(|arg| leads_to(arg)).into_iter().collect(),
        ..plain(call, op)
    }
}

fn plain(call: &Call, op: &'static str) -> Expected {
    let result = match &call.outcome {
        Outcome::Errno(errno) => errno.clone(),
        Outcome::Value(..) | Outcome::Never => "ok".to_owned(),
    };
    Expected {
        line: call.line,
        tid: call.tid,
        op,
        path: Vec::new(),
        to: Vec::new(),
        access: None,
        interpreter: None,
        proto: None,
        endpoint: Endpoint::Any,
        result,
    }
}

fn is_ok(call: &Call) -> bool {
    matches!(call.outcome, Outcome::Value(..))
}

fn cell(place: Place) -> Cell {
    Arc::new(Mutex::new(place))
}

fn now(cell: &Cell) -> Place {
    cell.lock().expect("one thread").clone()
}

/// The words for these flags, apart from `create`: only the kernel knows whether the call made the file.
fn access(flags: &str) -> BTreeSet<&'static str> {
    let has =
        |flag: &str| flags.split(|c: char| !c.is_ascii_uppercase() && c != '_').any(|word| word == flag);
    if has("O_PATH") {
        return BTreeSet::new();
    }
    let mut words = BTreeSet::new();
    if !has("O_WRONLY") {
        words.insert("read");
    }
    if has("O_WRONLY") || has("O_RDWR") {
        words.insert("write");
    }
    if has("O_TRUNC") {
        words.insert("truncate");
    }
    if has("O_APPEND") {
        words.insert("append");
    }
    words
}

fn proto(family: &str, kind: &str, protocol: &str) -> String {
    let is = |word: &str| kind.split('|').any(|part| part == word);
    match family {
        "AF_UNIX" => "unix".to_owned(),
        "AF_NETLINK" => match protocol.trim_start_matches("NETLINK_") {
            "ROUTE" => "netlink".to_owned(),
            other => format!("netlink-{}", other.to_ascii_lowercase().replace('_', "-")),
        },
        "AF_INET" | "AF_INET6" if is("SOCK_RAW") => "raw".to_owned(),
        "AF_INET" | "AF_INET6" if protocol.starts_with("IPPROTO_ICMP") => "icmp".to_owned(),
        "AF_INET" | "AF_INET6" if is("SOCK_STREAM") => "tcp".to_owned(),
        "AF_INET" | "AF_INET6" if is("SOCK_DGRAM") => "udp".to_owned(),
        other => other.trim_start_matches("AF_").to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests;
