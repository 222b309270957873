//! Holds a [`NetTable`] on a run's cgroup, and only there: programs on connect, send, bind and socket.
//!
//! The programs stay for as long as [`Held`] lives: whoever holds the run must keep it until the last process of
//! the run is gone.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use super::cgroup_code::{Call, Family, MAX_ENTRIES, program, socket_program};
use super::net_plan::NetTable;
use crate::host::bpf_syscall::{PROG_TYPE_CGROUP_SOCK, PROG_TYPE_CGROUP_SOCK_ADDR, link_cgroup, prog_load};

// `enum bpf_attach_type` in include/uapi/linux/bpf.h.
const SOCK_CREATE: u32 = 2;
const BIND4: u32 = 8;
const BIND6: u32 = 9;
const CONNECT4: u32 = 10;
const CONNECT6: u32 = 11;
const SENDMSG4: u32 = 14;
const SENDMSG6: u32 = 15;

/// The programs on the cgroup. Dropped, they are gone.
#[derive(Debug)]
pub struct Held {
    _links: Vec<OwnedFd>,
}

/// Why the programs could not be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    /// The kernel refused one.
    #[error("attach the network program `{name}` to the run's cgroup: {source}")]
    Refused {
        /// Which.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Nobody reads answers of name servers.
    #[error("hold the names of the policy: answers of name servers cannot be read here")]
    NoAddresses,
    /// The policy has more network rules than a program can hold.
    #[error("hold the network rules: there are {0}, the limit is {MAX_ENTRIES}")]
    TooMany(usize),
}

/// Attaches the programs to the cgroup whose directory `cgroup` is.
///
/// `addresses` is the map of addresses by classes of names; a table that has such classes needs it.
pub fn hold(
    table: &NetTable,
    cgroup: BorrowedFd<'_>,
    addresses: Option<BorrowedFd<'_>>,
) -> Result<Held, HoldError> {
    if !table.names.is_empty() && addresses.is_none() {
        return Err(HoldError::NoAddresses);
    }
    let addresses = addresses.map(|map| map.as_raw_fd());
    let by_name = table.names.iter().map(|class| 1 + class.allow.len() + class.deny.len());
    let entries = table.allow.len() + table.deny.len() + table.nameservers.len() + 2 * by_name.sum::<usize>();
    if entries > MAX_ENTRIES {
        return Err(HoldError::TooMany(entries));
    }
    let mut links =
        vec![attach("assay_socket", PROG_TYPE_CGROUP_SOCK, SOCK_CREATE, &socket_program(), cgroup)?];
    let hooks = [
        ("assay_connect4", CONNECT4, Family::V4, Call::Reach),
        ("assay_connect6", CONNECT6, Family::V6, Call::Reach),
        ("assay_send4", SENDMSG4, Family::V4, Call::Reach),
        ("assay_send6", SENDMSG6, Family::V6, Call::Reach),
        ("assay_bind4", BIND4, Family::V4, Call::Bind),
        ("assay_bind6", BIND6, Family::V6, Call::Bind),
    ];
    for (name, attach_type, family, call) in hooks {
        let code = program(table, family, call, addresses);
        links.push(attach(name, PROG_TYPE_CGROUP_SOCK_ADDR, attach_type, &code, cgroup)?);
    }
    Ok(Held { _links: links })
}

/// Whether this host lets such programs be loaded. Attaches nothing.
pub fn is_possible() -> bool {
    let table = NetTable::default();
    let address = program(&table, Family::V6, Call::Reach, None);
    prog_load(PROG_TYPE_CGROUP_SOCK_ADDR, CONNECT6, "assay_trial", &address).is_ok()
        && prog_load(PROG_TYPE_CGROUP_SOCK, SOCK_CREATE, "assay_trial", &socket_program()).is_ok()
}

fn attach(
    name: &'static str,
    prog_type: u32,
    attach_type: u32,
    code: &[u64],
    cgroup: BorrowedFd<'_>,
) -> Result<OwnedFd, HoldError> {
    let refused = |source| HoldError::Refused { name, source };
    let program = prog_load(prog_type, attach_type, name, code).map_err(refused)?;
    link_cgroup(program.as_fd(), cgroup, attach_type).map_err(refused)
}
