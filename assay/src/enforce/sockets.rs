//! Which UNIX sockets with a path there are. Reads only.
//!
//! Those that somebody in this network namespace has bound, by the kernel's own list, and those that lie where
//! services put them, whoever bound them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Where services and sessions put sockets, and how deep.
const PLACES: [(&str, usize); 3] = [("/run", 4), ("/var/run", 4), ("/tmp", 2)];
/// The most directory entries looked at.
const MAX_ENTRIES: usize = 10_000;

/// The paths of all of them, links resolved, sorted.
pub fn find() -> Vec<Vec<u8>> {
    let mut found = BTreeSet::new();
    for path in bound(&fs::read("/proc/net/unix").unwrap_or_default()) {
        add(Path::new(OsStr::from_bytes(&path)), &mut found);
    }
    let mut budget = MAX_ENTRIES;
    for (place, depth) in PLACES {
        walk(Path::new(place), depth, &mut budget, &mut found);
    }
    found.into_iter().collect()
}

/// The absolute paths in the kernel's list: the eighth column, to the end of the line.
fn bound(list: &[u8]) -> Vec<Vec<u8>> {
    list.split(|&byte| byte == b'\n')
        .filter_map(|line| {
            let at = line.windows(2).position(|two| two == b" /")?;
            Some(line[at + 1..].to_vec())
        })
        .collect()
}

fn add(path: &Path, found: &mut BTreeSet<Vec<u8>>) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if let (true, Ok(real)) = (is_socket, fs::canonicalize(path)) {
        found.insert(real.into_os_string().into_vec());
    }
}

fn walk(directory: &Path, depth: usize, budget: &mut usize, found: &mut BTreeSet<Vec<u8>>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Some(left) = budget.checked_sub(1) else { return };
        *budget = left;
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_socket() {
            add(&entry.path(), found);
        } else if kind.is_dir() && depth > 1 {
            walk(&entry.path(), depth - 1, budget, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_is_read_with_spaces_in_names() {
        let list = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
ffff: 00000002 00000000 00010000 0001 01 12 /run/a b.sock\n\
ffff: 00000002 00000000 00010000 0001 01 13 @abstract /x\n\
ffff: 00000003 00000000 00000000 0001 03 14\n\
ffff: 00000002 00000000 00010000 0001 01 15 relative\n";
        let paths = bound(list);
        assert!(paths.contains(&b"/run/a b.sock".to_vec()), "{paths:?}");
        assert_eq!(paths.iter().filter(|path| path.ends_with(b"relative")).count(), 0);
    }

    #[test]
    fn a_socket_that_is_bound_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(directory.path()).unwrap().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(find().contains(&path.into_os_string().into_vec()));
    }
}
