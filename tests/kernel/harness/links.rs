//! Follows symbolic links as the kernel did, after the fact.
//!
//! In: a path and what the run did to links. Out: where it led. Looks at the file system; a component that is no longer
//! there is taken from the links the run made, else as it stands.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// The links a run made, by the path of the link.
#[derive(Debug, Default)]
pub struct Links(HashMap<Vec<u8>, Vec<u8>>);

/// What becomes of a link in the last component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Last {
    /// It is followed.
    Followed,
    /// It is meant itself.
    Meant,
}

impl Links {
    /// The run made this link.
    pub fn made(&mut self, link: &[u8], text: &[u8]) {
        self.0.insert(link.to_vec(), text.to_vec());
    }

    /// Where `path`, from the folder `from`, leads.
    pub fn resolve(&self, from: &[u8], path: &[u8], last: Last) -> Vec<u8> {
        let mut budget = 40;
        let mut todo: Vec<Vec<u8>> = components(path);
        let mut done: Vec<Vec<u8>> = if path.starts_with(b"/") { Vec::new() } else { forward(from) };
        // A slash at the end asks for the folder, so the link before it is followed.
        let last = if path.ends_with(b"/") { Last::Followed } else { last };
        while let Some(name) = todo.pop() {
            if name == b".." {
                done.pop();
                continue;
            }
            done.push(name);
            if todo.is_empty() && last == Last::Meant {
                continue;
            }
            let here = joined(&done);
            if let Some(text) = self.text(&here)
                && budget > 0
            {
                budget -= 1;
                done.pop();
                if text.starts_with(b"/") {
                    done.clear();
                }
                todo.extend(components(&text));
            }
        }
        joined(&done)
    }

    fn text(&self, link: &[u8]) -> Option<Vec<u8>> {
        let path = Path::new(OsStr::from_bytes(link));
        match std::fs::read_link(path) {
            // The links of /proc belong to whoever asks.
            Ok(_) if link.starts_with(b"/proc/") => None,
            Ok(text) => Some(text.into_os_string().into_vec()),
            Err(_) if path.symlink_metadata().is_err() => self.0.get(link).cloned(),
            Err(_) => None,
        }
    }
}

/// `path` from the folder `from`, with `.` and `..` folded as text.
pub fn lexical(from: &[u8], path: &[u8]) -> Vec<u8> {
    let mut done = if path.starts_with(b"/") { Vec::new() } else { forward(from) };
    for name in forward(path) {
        if name == b".." {
            done.pop();
        } else {
            done.push(name);
        }
    }
    joined(&done)
}

fn forward(path: &[u8]) -> Vec<Vec<u8>> {
    let is_step = |name: &&[u8]| !name.is_empty() && *name != b".";
    path.split(|&byte| byte == b'/').filter(is_step).map(<[u8]>::to_vec).collect()
}

/// In the order in which they are popped.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let mut names = forward(path);
    names.reverse();
    names
}

fn joined(names: &[Vec<u8>]) -> Vec<u8> {
    let mut path = Vec::new();
    for name in names {
        path.push(b'/');
        path.extend(name);
    }
    if path.is_empty() { b"/".to_vec() } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_folded() {
        assert_eq!(lexical(b"/a/b", b"../c/./d//e"), b"/a/c/d/e");
        assert_eq!(lexical(b"/a", b"/x/../.."), b"/");
    }

    #[test]
    fn links_are_followed_where_they_lie() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("its name");
        std::fs::create_dir(real.join("d")).expect("a folder in it");
        std::os::unix::fs::symlink("d", real.join("to-d")).expect("a link");
        let from = real.as_os_str().as_bytes();
        let at = |name: &str| [from, b"/", name.as_bytes()].concat();
        let links = Links::default();
        assert_eq!(links.resolve(from, b"to-d/x", Last::Meant), at("d/x"));
        assert_eq!(links.resolve(from, b"to-d", Last::Meant), at("to-d"));
        assert_eq!(links.resolve(from, b"to-d", Last::Followed), at("d"));
        assert_eq!(links.resolve(from, b"to-d/", Last::Meant), at("d"));
        assert_eq!(links.resolve(from, b"to-d/../y", Last::Meant), at("y"));
    }

    #[test]
    fn a_link_that_is_gone_is_remembered() {
        let mut links = Links::default();
        links.made(b"/not-there/l", b"/etc");
        assert_eq!(links.resolve(b"/not-there", b"l/x", Last::Meant), b"/etc/x");
    }
}
