//! What the run opened and connected itself, by which descriptors that come in messages are told from those of others.
//! Pure.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use assay_common::calls::Op;
use assay_common::record::SockFacts;

use super::endpoint::{AF_INET, AF_INET6, AF_UNIX};
use super::event::{Call, Event, EventKind};
use super::loss::{Kind, LossLedger};
use super::process::ProcessTable;

/// What a socket is known again by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SocketKey {
    /// Protocol, and its own address and port.
    Local(u16, IpAddr, u16),
    /// The name at the other end, as the kernel has it.
    Peer(Vec<u8>),
}

/// What is the run's own.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// (device, inode) → how the run opened it: `FMODE_READ`, `FMODE_WRITE`.
    opened: HashMap<(u32, u64), u32>,
    sockets: HashSet<SocketKey>,
}

impl Own {
    /// Remembers what the run opened, and tells whether a descriptor that came in a message is of a file it opened that
    /// way itself: passing one on among its own processes is no act. So is what is no file of a tree.
    pub fn is_own_file(&mut self, event: &Event, ledger: &mut LossLedger) -> bool {
        const FMODE_BOTH: u32 = 3;
        const S_IFMT: u32 = 0o170_000;
        const FILES: [u32; 4] = [0o100_000, 0o040_000, 0o020_000, 0o060_000];
        let Some(call) = done(event).filter(|call| matches!(call.op, Op::Open | Op::Receive)) else {
            return false;
        };
        let Some(file) = &call.file else {
            if call.op == Op::Receive {
                // Another thread has closed it before it could be looked at.
                for kind in Kind::ALL {
                    ledger.admit(kind, "received-unknown", "a descriptor");
                }
            }
            return call.op == Op::Receive;
        };
        let key = (file.dev, file.ino);
        let how = file.f_mode & FMODE_BOTH;
        if call.op == Op::Open {
            *self.opened.entry(key).or_default() |= how;
            return false;
        }
        let is_file = FILES.contains(&(file.mode & S_IFMT));
        !is_file || how & !self.opened.get(&key).copied().unwrap_or(0) == 0
    }

    /// Remembers the run's own sockets, and tells whether this is one that came in a message. One that somebody else
    /// made reaches where no call of the run's went: the record then says so.
    pub fn is_received_socket(
        &mut self,
        event: &Event,
        processes: &ProcessTable,
        ledger: &mut LossLedger,
    ) -> bool {
        let Some(call) = done(event) else { return false };
        let Some(socket) = &call.socket else { return false };
        if call.op != Op::Receive {
            self.sockets.extend(key_of(call, socket));
            return false;
        }
        let key = key_of(call, socket);
        let is_known = key.as_ref().is_some_and(|key| self.is_known(key));
        let process = call.args[5] as u32;
        let (is_foreign, detail) = match socket.family {
            AF_INET | AF_INET6 => {
                (key.is_some() && !is_known, format!("an IP socket at port {}", socket.local_port))
            }
            AF_UNIX => match key {
                // The kernel keeps whose the other end is: of a listener, of a pair, and of who connected.
                _ if process != 0 && processes.contains(process) => (false, String::new()),
                Some(SocketKey::Peer(name)) => (!is_known, String::from_utf8_lossy(&name).into_owned()),
                _ => (process != 0, format!("a UNIX socket of process {process}")),
            },
            family => (true, format!("a socket of family {family}")),
        };
        if is_foreign {
            ledger.admit(Kind::Net, "received-socket", detail);
        }
        true
    }

    /// Whether the run has made a socket of this key, or bound its port at every address.
    fn is_known(&self, key: &SocketKey) -> bool {
        if self.sockets.contains(key) {
            return true;
        }
        let SocketKey::Local(protocol, _, port) = key else { return false };
        [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)]
            .into_iter()
            .any(|every| self.sockets.contains(&SocketKey::Local(*protocol, every, *port)))
    }
}

/// The call that an event tells the end of, if it did something.
fn done(event: &Event) -> Option<&Call> {
    const EINPROGRESS: i64 = 115;
    match &event.kind {
        EventKind::Call(call) | EventKind::UringComplete { call, .. } => {
            let is_under_way = call.op == Op::Connect && call.ret == -EINPROGRESS;
            (call.ret >= 0 || is_under_way).then_some(call)
        }
        _ => None,
    }
}

/// What a socket is known again by; `None` where it is not to be told from others.
fn key_of(call: &Call, socket: &SockFacts) -> Option<SocketKey> {
    let local = |address: IpAddr| {
        (socket.local_port != 0).then_some(SocketKey::Local(socket.protocol, address, socket.local_port))
    };
    match socket.family {
        AF_INET => local(Ipv4Addr::from(socket.local4).into()),
        AF_INET6 => local(IpAddr::from(socket.local6).to_canonical()),
        // Only a connection leads to a name that somebody else may have.
        AF_UNIX if matches!(call.op, Op::Connect | Op::Receive) => {
            call.unix_name.as_ref().map(|name| SocketKey::Peer(unix_name(&name.bytes).to_vec()))
        }
        _ => None,
    }
}

/// A UNIX address without its family and the NULs behind a path.
fn unix_name(address: &[u8]) -> &[u8] {
    let name = address.get(2..).unwrap_or_default();
    match name.iter().position(|&byte| byte == 0) {
        Some(0) | None => name,
        Some(end) => &name[..end],
    }
}

#[cfg(test)]
mod tests;
