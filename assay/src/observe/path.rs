//! What a record holds of a path → a [`PathRef`]: absolute, or with the reason why not. Pure.

use assay_common::record::FileFacts;

use super::event::{Chain, ChainEnd, LateWorth, PathArg, ReadState, WalkEnd};
use super::observation::{PathRef, PathState};

const S_IFMT: u32 = 0o170_000;

/// Where a path argument led.
pub fn path_of(arg: &PathArg, file: Option<&FileFacts>) -> PathRef {
    if let Some(late) = &arg.late {
        let state = match late.worth {
            LateWorth::Found => PathState::LookedUpLate,
            LateWorth::Text => PathState::Lexical,
            LateWorth::Gone => PathState::Unverified,
        };
        return PathRef { bytes: late.bytes.clone(), state };
    }
    let Some(chain) = &arg.chain else {
        return match &arg.requested {
            Some(text) if text.state == ReadState::Whole => {
                PathRef { bytes: text.bytes.clone(), state: PathState::Unverified }
            }
            _ => PathRef::unreadable(),
        };
    };
    let base = chain_path(chain, file);
    match (chain.walk, base.state) {
        (WalkEnd::Done, _) | (_, PathState::Cut | PathState::Unreadable) => base,
        (walk, state) => {
            let Some(rest) = arg.rest.as_ref().filter(|rest| rest.state == ReadState::Whole) else {
                return PathRef { state: PathState::Unreadable, ..base };
            };
            match walk {
                WalkEnd::Parent => PathRef { bytes: join(&base.bytes, &rest.bytes), state },
                WalkEnd::Start => {
                    PathRef { bytes: join(&base.bytes, &rest.bytes), state: PathState::Lexical }
                }
                WalkEnd::Done | WalkEnd::NotCached | WalkEnd::Link | WalkEnd::Limit | WalkEnd::Unreadable => {
                    PathRef { bytes: join(&base.bytes, &rest.bytes), state: PathState::Unverified }
                }
            }
        }
    }
}

/// A chain by itself, as of an open file.
pub fn chain_path(chain: &Chain, file: Option<&FileFacts>) -> PathRef {
    let is_unlinked = file.is_some_and(|facts| facts.is_unlinked != 0);
    let mut bytes = chain.path.clone();
    let state = match chain.end {
        ChainEnd::Root | ChainEnd::Foreign => PathState::Resolved,
        ChainEnd::Cut => PathState::Cut,
        ChainEnd::Unreadable => PathState::Unreadable,
        ChainEnd::Nameless => {
            bytes = nameless(&chain.path, file);
            return PathRef { bytes, state: PathState::Nameless };
        }
        ChainEnd::Detached => {
            bytes.splice(..0, *b"(detached)");
            PathState::Nameless
        }
    };
    if is_unlinked && state == PathState::Resolved {
        // The number the kernel gives an O_TMPFILE changes from run to run and names nothing.
        if let Some(slash) = bytes.iter().rposition(|&byte| byte == b'/')
            && is_tmpfile_name(&bytes[slash + 1..])
        {
            bytes.truncate(slash + 1);
            bytes.extend_from_slice(b"#unnamed");
        } else {
            bytes.extend_from_slice(b" (deleted)");
        }
        return PathRef { bytes, state: PathState::Nameless };
    }
    PathRef { bytes, state }
}

/// `#` and a number: how the kernel calls a file made with `O_TMPFILE`.
fn is_tmpfile_name(name: &[u8]) -> bool {
    name.split_first().is_some_and(|(first, rest)| {
        *first == b'#' && !rest.is_empty() && rest.iter().all(u8::is_ascii_digit)
    })
}

/// A file that is in no tree: by its own name (`memfd:x`), or by its type.
fn nameless(path: &[u8], file: Option<&FileFacts>) -> Vec<u8> {
    let name = path.strip_prefix(b"/").unwrap_or(path);
    if !name.is_empty() {
        return name.to_vec();
    }
    match file.map(|facts| facts.mode & S_IFMT) {
        Some(0o010_000) => b"pipe:".to_vec(),
        Some(0o140_000) => b"socket:".to_vec(),
        _ => b"anonymous:".to_vec(),
    }
}

/// Joins a directory and a relative or absolute-looking rest; `.`, `..` and repeated slashes are folded as text.
pub fn join(base: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = base.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
    for name in rest.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    let mut path = Vec::with_capacity(base.len() + rest.len() + 1);
    for name in &names {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if names.is_empty() {
        path.push(b'/');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::super::event::{Bytes, Late};
    use super::*;

    fn arg(path: &str, end: ChainEnd, walk: WalkEnd, rest: Option<&str>) -> PathArg {
        PathArg {
            requested: None,
            chain: Some(Chain { path: path.into(), end, walk }),
            rest: rest.map(|rest| Bytes { bytes: rest.into(), state: ReadState::Whole }),
            late: None,
            followed: None,
        }
    }

    fn check(arg: &PathArg, bytes: &str, state: PathState) {
        assert_eq!(path_of(arg, None), PathRef { bytes: bytes.into(), state });
    }

    #[test]
    fn a_walk_to_the_end_is_the_file() {
        check(
            &arg("/etc/locale.alias", ChainEnd::Root, WalkEnd::Done, None),
            "/etc/locale.alias",
            PathState::Resolved,
        );
    }

    #[test]
    fn the_last_name_is_the_calls_own() {
        check(&arg("/w/real", ChainEnd::Root, WalkEnd::Parent, Some("f")), "/w/real/f", PathState::Resolved);
        check(&arg("/", ChainEnd::Root, WalkEnd::Parent, Some("f/")), "/f", PathState::Resolved);
    }

    #[test]
    fn a_call_that_went_nowhere_is_told_as_text() {
        check(&arg("/w", ChainEnd::Root, WalkEnd::Start, Some("a/../b//c")), "/w/b/c", PathState::Lexical);
        check(&arg("/", ChainEnd::Root, WalkEnd::Start, Some("/../../x")), "/x", PathState::Lexical);
    }

    #[test]
    fn what_the_cache_did_not_know_is_not_vouched_for() {
        check(&arg("/w", ChainEnd::Root, WalkEnd::NotCached, Some("x/y")), "/w/x/y", PathState::Unverified);
        check(&arg("/w", ChainEnd::Cut, WalkEnd::Parent, Some("y")), "/w", PathState::Cut);
    }

    #[test]
    fn a_late_look_replaces_the_walk() {
        let mut arg = arg("/proc", ChainEnd::Root, WalkEnd::Link, Some("self/cwd/x"));
        let worths = [
            (LateWorth::Found, PathState::LookedUpLate),
            (LateWorth::Text, PathState::Lexical),
            (LateWorth::Gone, PathState::Unverified),
        ];
        for (worth, state) in worths {
            arg.late = Some(Late { bytes: b"/w/x".to_vec(), worth, there: None });
            check(&arg, "/w/x", state);
        }
    }

    #[test]
    fn files_without_a_name_say_what_they_are() {
        check(&arg("/memfd:x", ChainEnd::Nameless, WalkEnd::Done, None), "memfd:x", PathState::Nameless);
        let chain = Chain { path: b"/tmp/#17".to_vec(), end: ChainEnd::Root, walk: WalkEnd::Done };
        let facts =
            FileFacts { mode: 0, f_mode: 0, f_flags: 0, nlink: 0, dev: 0, is_unlinked: 1, magic: 0, ino: 0 };
        assert_eq!(chain_path(&chain, Some(&facts)).bytes, b"/tmp/#unnamed");
        let chain = Chain { path: b"/tmp/x".to_vec(), ..chain };
        assert_eq!(chain_path(&chain, Some(&facts)).bytes, b"/tmp/x (deleted)");
    }
}
