//! Writes an initramfs: files → one `newc` archive, as the kernel unpacks it.
//!
//! Out: bytes. Copies programs together with the libraries they need; needs no root and no `cpio`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::step::{command, output};

/// What is to be unpacked, by its path without the leading slash.
#[derive(Debug, Default)]
pub struct Initramfs {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    mode: u32,
    /// When it was changed: a compiled module is of the source that has its time.
    time: u32,
    bytes: Vec<u8>,
}

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
const LINK: u32 = 0o120_777;

impl Initramfs {
    /// A folder.
    pub fn folder(&mut self, path: &str) {
        self.add(path, DIRECTORY, 0, Vec::new());
    }

    /// A file that is made here.
    pub fn text(&mut self, path: &str, text: &str) {
        self.add(path, if text.starts_with("#!") { PROGRAM } else { FILE }, 0, text.as_bytes().to_vec());
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &str, to: &str) {
        self.add(path, LINK, 0, to.as_bytes().to_vec());
    }

    /// A link in the root of this machine (`/bin` → `usr/bin`), where it is one.
    pub fn root_link(&mut self, name: &str) {
        match fs::read_link(Path::new("/").join(name)) {
            Ok(to) => self.link(name, &to.to_string_lossy()),
            Err(_) => self.folder(name),
        }
    }

    /// A program of this machine, under its own path, with the libraries it needs.
    pub fn program(&mut self, path: &Path) -> Result<()> {
        self.program_as(path, path)
    }

    /// A program that lies elsewhere than it shall.
    pub fn program_as(&mut self, from: &Path, path: &Path) -> Result<()> {
        self.copy(from, path)?;
        // A static program, or a script, needs none, and `ldd` says so by failing.
        let libraries = output(command("ldd").arg(path)).unwrap_or_default();
        for word in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
            self.copy(Path::new(word), Path::new(word))?;
        }
        Ok(())
    }

    /// A file of this machine, under its own path.
    pub fn file(&mut self, path: &Path) -> Result<()> {
        self.copy(path, path)
    }

    fn copy(&mut self, from: &Path, path: &Path) -> Result<()> {
        let facts = fs::metadata(from).with_context(|| format!("look at {}", from.display()))?;
        let bytes = fs::read(from).with_context(|| format!("read {}", from.display()))?;
        // `/lib/x` lies in `usr/lib` where `/lib` is a link; a name that is a link itself keeps its name.
        let folder = path.parent().context("a program lies in a folder")?;
        let folder = folder.canonicalize().with_context(|| format!("look up {}", folder.display()))?;
        let name = folder.join(path.file_name().context("a program has a name")?);
        let time = facts.mtime().try_into().unwrap_or(0);
        self.add(&name.to_string_lossy(), PROGRAM, time, bytes);
        Ok(())
    }

    fn add(&mut self, path: &str, mode: u32, time: u32, bytes: Vec<u8>) {
        let path = path.trim_start_matches('/');
        let mut parent = Path::new(path).parent();
        while let Some(folder) = parent.filter(|folder| !folder.as_os_str().is_empty()) {
            let folder_name = folder.to_string_lossy().into_owned();
            self.entries.entry(folder_name).or_insert(Entry { mode: DIRECTORY, time: 0, bytes: Vec::new() });
            parent = folder.parent();
        }
        self.entries.insert(path.to_owned(), Entry { mode, time, bytes });
    }

    /// The archive.
    pub fn archive(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // A folder sorts before what lies in it, which is the order the kernel needs.
        for (number, (path, entry)) in self.entries.iter().enumerate() {
            member(&mut out, number + 1, path, entry);
        }
        member(&mut out, 0, "TRAILER!!!", &Entry { mode: 0, time: 0, bytes: Vec::new() });
        out
    }
}

fn member(out: &mut Vec<u8>, number: usize, path: &str, entry: &Entry) {
    let Entry { mode, time, bytes } = entry;
    let links = 1;
    let (owner, device) = (0, 0);
    let header = format!(
        "070701{number:08x}{mode:08x}{owner:08x}{owner:08x}{links:08x}{time:08x}{:08x}{device:08x}{device:08x}\
         {device:08x}{device:08x}{:08x}{:08x}",
        bytes.len(),
        path.len() + 1,
        0
    );
    out.extend(header.as_bytes());
    out.extend(path.as_bytes());
    out.push(0);
    pad(out);
    out.extend(bytes);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    while !out.len().is_multiple_of(4) {
        out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_what_cpio_reads() {
        let mut initramfs = Initramfs::default();
        initramfs.text("/a/b/file", "hello\n");
        initramfs.link("/a/link", "b/file");
        let archive = initramfs.archive();
        assert_eq!(archive.len() % 4, 0);
        let names: Vec<&str> = initramfs.entries.keys().map(String::as_str).collect();
        assert_eq!(names, ["a", "a/b", "a/b/file", "a/link"]);
        // The first header: magic, inode 1, a directory with mode 755, a name of two bytes with its NUL.
        let text = String::from_utf8_lossy(&archive);
        assert!(text.starts_with("07070100000001000041ed"), "{text}");
        assert_eq!(&text[94..102], "00000002");
        assert!(text.contains("hello\n"));
        assert!(text.trim_end_matches('\0').ends_with("TRAILER!!!"));
    }
}
