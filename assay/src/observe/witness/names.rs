//! An act of either side → the hooks it passes and the name it is compared by. Pure.

use assay_common::calls::Op;
use assay_common::hooks::Hook;
use assay_common::record::FileFacts;

use super::{Told, Witnesses};
use crate::observe::endpoint::{self, AF_INET, AF_INET6, AF_UNIX, AF_UNSPEC};
use crate::observe::event::{Bytes, Call, Chain, Event, EventKind, PathArg, Witness};
use crate::observe::observation::{Access, Act, CallResult, Endpoint, FileAct, FileOp, PairAct, PairOp};
use crate::observe::observation::{PathRef, PathState};
use crate::observe::path::{chain_path, path_of};

/// The name of what passed a hook; `None` where there is none to compare by.
pub(super) fn of_witness(event: &Event, witness: &Witness) -> Option<Vec<u8>> {
    match witness.hook {
        Hook::Connect | Hook::Bind | Hook::Send => {
            let address = witness.address.as_ref()?;
            // It takes the connection away.
            let is_undone = endpoint::family_of(address) == Some(AF_UNSPEC) && witness.hook == Hook::Connect;
            address_name(address).filter(|_| !is_undone)
        }
        Hook::Listen => Some(listening(witness.family, event.pid)),
        Hook::Rename => two(&chain_name(witness.a.as_ref()?, None)?, &chain_name(witness.b.as_ref()?, None)?),
        Hook::Link => two(
            &chain_name(witness.a.as_ref()?, witness.file.as_ref())?,
            &chain_name(witness.b.as_ref()?, None)?,
        ),
        // The name is about to be made, and says nothing of a file that has it.
        Hook::Mkdir | Hook::Mknod | Hook::Symlink | Hook::Unlink | Hook::Rmdir => {
            chain_name(witness.a.as_ref()?, None)
        }
        Hook::Open | Hook::Truncate | Hook::Chmod | Hook::Chown | Hook::Exec => {
            chain_name(witness.a.as_ref()?, witness.file.as_ref())
        }
    }
}

fn chain_name(chain: &Chain, file: Option<&FileFacts>) -> Option<Vec<u8>> {
    let path = chain_path(chain, file);
    (!matches!(path.state, PathState::Cut | PathState::Unreadable)).then_some(path.bytes)
}

#[expect(clippy::unnecessary_wraps, reason = "beside others that may have none")]
fn two(from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    Some([from, b"\0", to].concat())
}

fn listening(family: u16, pid: u32) -> Vec<u8> {
    format!("family {family} by process {pid}").into_bytes()
}

/// An address by itself: both have it as the program passed it.
fn address_name(address: &Bytes) -> Option<Vec<u8>> {
    match endpoint::endpoint(address, &PathArg::default()) {
        Endpoint::Inet(address) => Some(address.to_string().into_bytes()),
        Endpoint::UnixAbstract(name) => Some([b"@", &name[..]].concat()),
        Endpoint::UnixPath(_) => {
            let text = address.bytes.get(2..)?;
            Some(text.split(|&byte| byte == 0).next().unwrap_or_default().to_vec())
        }
        Endpoint::None => Some(format!("family {}", endpoint::family_of(address)?).into_bytes()),
        Endpoint::Unreadable => None,
    }
}

impl Witnesses {
    /// An act of the run was told.
    pub fn see_act(&mut self, event: &Event, act: &Act, result: CallResult) {
        let of = Source { event, result };
        match act {
            Act::File(file) => self.see_file(&of, file),
            Act::Pair(pair) => self.see_pair(&of, pair),
            Act::Exec(exec) => {
                for path in std::iter::once(&exec.path).chain(&exec.interpreter) {
                    self.see_path(&of, Hook::Exec, path, of.is_done());
                }
            }
            Act::Net(net) => {
                self.see_socket(event);
                // A bind to a path makes it.
                if let Endpoint::UnixPath(path) = &net.endpoint {
                    self.see_path(&of, Hook::Mknod, path, false);
                }
            }
            Act::Fork { .. } | Act::Exit { .. } | Act::Named(_) | Act::Namespaces(_) | Act::Blind { .. } => {}
        }
    }

    /// An event was none, or is told when it is made again. A hook may have been passed on the way there.
    pub fn see_no_act(&mut self, event: &Event) {
        let EventKind::Call(call) = &event.kind else { return };
        self.see_socket(event);
        let hook = match call.op {
            Op::Open => Hook::Open,
            Op::Exec => Hook::Exec,
            _ => return,
        };
        self.fail(hook, event.pid, &path_of(&call.a, call.file.as_ref()).bytes);
    }

    /// The end of this act was not seen: it is told as done and may not have been.
    pub fn presume(&mut self, event: &Event) {
        let EventKind::Call(call) = &event.kind else { return };
        self.presumed.extend(match call.op {
            Op::Open => Some(Hook::Open),
            Op::Unlink => Some(Hook::Unlink).filter(|_| call.args[2] == 0).or(Some(Hook::Rmdir)),
            Op::Mkdir => Some(Hook::Mkdir),
            Op::Rename => Some(Hook::Rename),
            Op::Link => Some(Hook::Link),
            Op::Symlink => Some(Hook::Symlink),
            Op::Truncate => Some(Hook::Truncate),
            Op::Connect => Some(Hook::Connect),
            Op::Bind => Some(Hook::Bind),
            Op::Listen => Some(Hook::Listen),
            Op::Send => Some(Hook::Send),
            _ => None,
        });
    }

    fn see_file(&mut self, of: &Source<'_>, file: &FileAct) {
        let hook = match file.op {
            FileOp::Open if file.is_path_only => return,
            FileOp::Open => Hook::Open,
            FileOp::Unlink => Hook::Unlink,
            FileOp::Rmdir => Hook::Rmdir,
            FileOp::Mkdir => Hook::Mkdir,
            FileOp::Mknod => Hook::Mknod,
            FileOp::Truncate => Hook::Truncate,
            FileOp::Chmod => Hook::Chmod,
            FileOp::Chown => Hook::Chown,
            FileOp::Utime
            | FileOp::Setxattr
            | FileOp::Removexattr
            | FileOp::Mount
            | FileOp::Umount
            | FileOp::PivotRoot
            | FileOp::Chdir
            | FileOp::Chroot
            | FileOp::Write
            | FileOp::Receive => return,
        };
        self.see_path(of, hook, &file.path, of.is_done());
        if file.op == FileOp::Open {
            // To make a file, and to cut it, is part of opening it. Whether it was there already may change in between.
            self.see_path(of, Hook::Mknod, &file.path, false);
            if file.access.contains(&Access::Truncate) || file.access.contains(&Access::Create) {
                self.see_path(of, Hook::Truncate, &file.path, false);
            }
            if let Some(facts) = of.file().filter(|_| of.is_done()) {
                self.opened.insert((facts.dev, facts.ino));
            }
        }
    }

    fn see_pair(&mut self, of: &Source<'_>, pair: &PairAct) {
        match pair.op {
            PairOp::Symlink => self.see_path(of, Hook::Symlink, &pair.path, of.is_done()),
            PairOp::Link => self.see_paths(of, Hook::Link, &pair.path, &pair.to, of.is_done()),
            PairOp::Rename => {
                self.see_paths(of, Hook::Rename, &pair.path, &pair.to, of.is_done());
                if pair.is_exchange {
                    // Older kernels pass the hook twice.
                    self.see_paths(of, Hook::Rename, &pair.to, &pair.path, false);
                }
            }
        }
    }

    fn see_path(&mut self, of: &Source<'_>, hook: Hook, path: &PathRef, is_done: bool) {
        if !path.is_trustworthy() {
            self.without_name.insert(hook);
        } else if path.state == PathState::Lexical {
            self.see_failed(of, hook, path);
        }
        let file = of.file().map_or((0, 0), |facts| (facts.dev, facts.ino));
        let told = Told { is_done: is_done && path.is_trustworthy(), file };
        self.tell(hook, path.bytes.clone(), told);
    }

    fn see_paths(&mut self, of: &Source<'_>, hook: Hook, from: &PathRef, to: &PathRef, is_done: bool) {
        let is_whole = from.is_trustworthy() && to.is_trustworthy();
        if !is_whole {
            self.without_name.insert(hook);
        } else if to.state == PathState::Lexical || from.state == PathState::Lexical {
            self.see_failed(of, hook, to);
        }
        let told = Told { is_done: is_done && is_whole, file: (0, 0) };
        self.tell(hook, [&from.bytes[..], b"\0", &to.bytes].concat(), told);
    }

    fn see_failed(&mut self, of: &Source<'_>, hook: Hook, path: &PathRef) {
        const ENOENT: i32 = 2;
        const ENOTDIR: i32 = 20;
        // These fail on the way, before a hook.
        if !matches!(of.result, CallResult::Ok | CallResult::Errno(ENOENT | ENOTDIR)) {
            self.fail(hook, of.event.pid, &path.bytes);
        }
    }

    /// Calls on sockets are compared by what was passed to them.
    fn see_socket(&mut self, event: &Event) {
        let EventKind::Call(call) = &event.kind else { return };
        let hook = match call.op {
            Op::Connect => Hook::Connect,
            Op::Bind => Hook::Bind,
            Op::Listen => Hook::Listen,
            Op::Send => Hook::Send,
            _ => return,
        };
        let family = call.socket.map(|socket| socket.family);
        if hook == Hook::Listen {
            if let Some(family) = family {
                let told = Told { is_done: call.ret >= 0, file: (0, 0) };
                self.tell(hook, listening(family, event.pid), told);
            }
            return;
        }
        let Some(name) = call.address.as_ref().and_then(address_name) else {
            self.without_name.insert(hook);
            return;
        };
        let told = Told { is_done: call.ret >= 0 && passes(hook, call, family), file: (0, 0) };
        self.tell(hook, name, told);
    }
}

/// Whether such a call that succeeds has passed the hook, and the second witness tells of it.
fn passes(hook: Hook, call: &Call, family: Option<u16>) -> bool {
    match hook {
        Hook::Connect => call.address.as_ref().and_then(endpoint::family_of) != Some(AF_UNSPEC),
        // Messages of other families are not told: their addresses are none that anybody compares.
        Hook::Send => matches!(family, Some(AF_UNIX | AF_INET | AF_INET6)),
        _ => true,
    }
}

struct Source<'a> {
    event: &'a Event,
    result: CallResult,
}

impl Source<'_> {
    fn is_done(&self) -> bool {
        self.result == CallResult::Ok
    }

    fn file(&self) -> Option<FileFacts> {
        match &self.event.kind {
            EventKind::Call(call) => call.file,
            _ => None,
        }
    }
}
