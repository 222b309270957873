//! Names that are the hash of what they hold, as git's objects are, and the directories that spread them. Pure.

use super::fold_rule::FoldRule;
use super::name::escape_into;
use super::roots::parent;
use super::volatile::{FoldedName, is_hash};

/// What is known about the place of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// A component above ends in `.git`.
    pub is_in_git: bool,
    /// The run made it.
    pub is_made: bool,
    /// Something named by a hash lies in it.
    pub is_spread: bool,
}

/// Names inside a git object store, and the directories that spread hashes: `ab/cdef…`.
pub fn fold_content_address(path: &[u8], name: &[u8], store: Store) -> Option<FoldedName> {
    let whole = |rule| Some(FoldedName { text: "${HASH}".into(), rules: vec![rule] });
    let is_hex = |text: &[u8]| text.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte));
    let mut names_above = parent(path).rsplit(|&byte| byte == b'/');
    let above_1 = names_above.next().unwrap_or_default();
    let above_2 = names_above.next().unwrap_or_default();
    let is_store = |name: &[u8]| {
        name == b"objects" || name.starts_with(b"tmp_objdir-") || name.starts_with(b"incoming-")
    };
    if is_hex(name) {
        let is_object =
            matches!(name.len(), 38 | 62) && above_1.len() == 2 && is_hex(above_1) && is_store(above_2);
        let is_spread = store.is_spread;
        let is_store_directory = name.len() == 2 && is_store(above_1) && (store.is_in_git || is_spread);
        if is_object || is_store_directory {
            return whole(FoldRule::GitObject);
        }
        if is_spread && store.is_made {
            return whole(FoldRule::Hash);
        }
    }
    // rustc's incremental directories: the crate's name, and twelve or thirteen digits of base 36.
    if above_1 == b"incremental"
        && store.is_made
        && let Some(dash) = name.iter().rposition(|&byte| byte == b'-')
        && matches!(name.len() - dash, 12..=15)
        && name[dash + 1..].iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    {
        let mut text = String::new();
        escape_into(&name[..=dash], &mut text);
        text.push_str("${HASH}");
        return Some(FoldedName { text, rules: vec![FoldRule::Hash] });
    }
    let hash = name.strip_prefix(b"pack-")?;
    let len = hash.iter().position(|&byte| byte == b'.').unwrap_or(hash.len());
    let is_pack = above_1 == b"pack" && is_store(above_2) && matches!(len, 40 | 64) && is_hex(&hash[..len]);
    is_pack.then(|| {
        let mut text = String::from("pack-${HASH}");
        escape_into(&hash[len..], &mut text);
        FoldedName { text, rules: vec![FoldRule::GitObject] }
    })
}

/// The fewest digits of a hash whose names are spread over directories.
const SHORTEST_HASH: usize = 28;

/// The directories of one or two hexadecimal digits directly above a component that is a hash.
pub fn fan_out_of(path: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let is_hex = |name: &[u8]| name.iter().all(u8::is_ascii_hexdigit);
    let mut start = 0;
    while start < path.len() {
        let end = memchr::memchr(b'/', &path[start..]).map_or(path.len(), |slash| start + slash);
        let name = &path[start..end];
        if name.len() < SHORTEST_HASH {
            start = end + 1;
            continue;
        }
        let hash = name.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if hash >= SHORTEST_HASH
            && is_hash(&name[..hash])
            && (hash == name.len() || !name[hash].is_ascii_alphanumeric())
        {
            let mut above = parent(&path[..end]);
            loop {
                let name = above.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                if !(1..=2).contains(&name.len()) || !is_hex(name) {
                    break;
                }
                found.push(above);
                above = parent(above);
            }
        }
        start = end + 1;
    }
    found
}
