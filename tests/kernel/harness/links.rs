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

/// Where a process stands: both as seen from the root of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What `/` means for it.
    pub root: Vec<u8>,
    /// Its working directory.
    pub cwd: Vec<u8>,
}

impl Place {
    /// A process without a root of its own.
    pub fn at(cwd: &[u8]) -> Self {
        Self { root: b"/".to_vec(), cwd: cwd.to_vec() }
    }
}

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

    /// Where `path` leads for a process that stands at `place`.
    pub fn resolve(&self, place: &Place, path: &[u8], last: Last) -> Vec<u8> {
        let mut budget = 40;
        let root = forward(&place.root);
        let mut todo: Vec<Vec<u8>> = components(path);
        let mut done = if path.starts_with(b"/") { root.clone() } else { forward(&place.cwd) };
        // A slash at the end asks for the folder, so the link before it is followed.
        let last = if path.ends_with(b"/") { Last::Followed } else { last };
        while let Some(name) = todo.pop() {
            if name == b".." {
                up(&mut done, &root);
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
                    done.clone_from(&root);
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

/// `path` for a process that stands at `place`, with `.` and `..` folded as text.
pub fn lexical(place: &Place, path: &[u8]) -> Vec<u8> {
    let root = forward(&place.root);
    let mut done = if path.starts_with(b"/") { root.clone() } else { forward(&place.cwd) };
    for name in forward(path) {
        if name == b".." {
            up(&mut done, &root);
        } else {
            done.push(name);
        }
    }
    joined(&done)
}

/// One folder up, but not out of the root.
fn up(done: &mut Vec<Vec<u8>>, root: &[Vec<u8>]) {
    if done != root {
        done.pop();
    }
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
        assert_eq!(lexical(&Place::at(b"/a/b"), b"../c/./d//e"), b"/a/c/d/e");
        assert_eq!(lexical(&Place::at(b"/a"), b"/x/../.."), b"/");
    }

    #[test]
    fn links_are_followed_where_they_lie() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("its name");
        std::fs::create_dir(real.join("d")).expect("a folder in it");
        std::os::unix::fs::symlink("d", real.join("to-d")).expect("a link");
        let from = real.as_os_str().as_bytes();
        let place = Place::at(from);
        let at = |name: &str| [from, b"/", name.as_bytes()].concat();
        let links = Links::default();
        assert_eq!(links.resolve(&place, b"to-d/x", Last::Meant), at("d/x"));
        assert_eq!(links.resolve(&place, b"to-d", Last::Meant), at("to-d"));
        assert_eq!(links.resolve(&place, b"to-d", Last::Followed), at("d"));
        assert_eq!(links.resolve(&place, b"to-d/", Last::Meant), at("d"));
        assert_eq!(links.resolve(&place, b"to-d/../y", Last::Meant), at("y"));
    }

    #[test]
    fn a_link_that_is_gone_is_remembered() {
        let mut links = Links::default();
        links.made(b"/not-there/l", b"/etc");
        assert_eq!(links.resolve(&Place::at(b"/not-there"), b"l/x", Last::Meant), b"/etc/x");
    }

    #[test]
    fn a_root_is_where_absolute_paths_begin_and_nothing_leads_out_of_it() {
        let place = Place { root: b"/not-there/r".to_vec(), cwd: b"/not-there/r/d".to_vec() };
        assert_eq!(lexical(&place, b"../../../x"), b"/not-there/r/x");
        let mut links = Links::default();
        links.made(b"/not-there/r/l", b"/etc/../..");
        assert_eq!(links.resolve(&place, b"/l/x", Last::Meant), b"/not-there/r/x");
        assert_eq!(links.resolve(&place, b"y", Last::Meant), b"/not-there/r/d/y");
    }
}
