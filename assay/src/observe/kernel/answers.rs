//! Has the addresses noted that name servers give to names of some classes, before the run gets the answer.

use std::fs::File;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use assay_common::limits::HOST_LEN;
use assay_common::names::{self, PROGRAMS, Place};
use aya::maps::lpm_trie::Key;
use aya::maps::{HashMap, LpmTrie};

use super::object::Loaded;
use crate::host::bpf_syscall;

/// Which names, and whose answers count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamesWanted {
    /// The end of the names of each class, backwards, a whole name with a NUL behind it. Classes count from 1.
    pub ends: Vec<Vec<u8>>,
    /// Of each class whether its names are denied at some port.
    pub denies: Vec<bool>,
    /// The name servers.
    pub servers: Vec<IpAddr>,
}

/// Fills the maps and attaches the program to the group, until what comes back is closed. The reason, where that cannot be.
pub(super) fn note(loaded: &Loaded, group: &File, wanted: &NamesWanted) -> Result<OwnedFd, String> {
    let map = loaded.aya_map(names::CLASSES).map_err(|error| error.to_string())?;
    let mut classes: LpmTrie<_, [u8; HOST_LEN], u32> = LpmTrie::try_from(map).map_err(|e| e.to_string())?;
    for (index, (end, denies)) in wanted.ends.iter().zip(&wanted.denies).enumerate() {
        let mut data = [0; HOST_LEN];
        data.get_mut(..end.len()).ok_or("a name is too long")?.copy_from_slice(end);
        let class = (index as u32 + 1) | if *denies { names::CLASS_DENIES } else { 0 };
        classes.insert(&Key::new(end.len() as u32 * 8, data), class, 0).map_err(|e| e.to_string())?;
    }
    let map = loaded.aya_map(names::SERVERS).map_err(|error| error.to_string())?;
    let mut servers: HashMap<_, [u8; 16], u32> = HashMap::try_from(map).map_err(|e| e.to_string())?;
    let kind = if wanted.denies.contains(&true) { names::SERVER_DENIES } else { names::SERVER_PLAIN };
    for server in &wanted.servers {
        servers.insert(mapped(*server).octets(), kind, 0).map_err(|e| e.to_string())?;
    }
    let program =
        PROGRAMS.into_iter().find(|program| program.place == Place::AnswerIn).ok_or("there is no program")?;
    let fd = loaded.programs.get(program.name).ok_or_else(|| {
        loaded
            .refused
            .get(program.name)
            .map_or_else(|| "its program is not there".to_owned(), ToString::to_string)
    })?;
    bpf_syscall::link_cgroup(fd.as_fd(), group.as_fd(), bpf_syscall::INGRESS)
        .map_err(|error| format!("attach to the group: {error}"))
}

/// The map of what was noted.
pub(super) fn addresses(loaded: &Loaded) -> Option<BorrowedFd<'_>> {
    loaded.map(names::ADDRESSES).ok()
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
