//! Looks a path up shortly after the call, where the kernel half could not follow it: a link whose text lies in the
//! page cache, one of `/proc`'s own links, a name no longer cached.
//!
//! Adds what it finds to the record, so that replay sees the same. A path it cannot find either stays as it is, and
//! is admitted downstream.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use assay_common::calls::{COMPAT, Follow, NATIVE, Op};
use assay_common::kind::{RecordKind, SectionTag, chain_state, walk_state};
use assay_common::record::{Header, Section, flags};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// Looks up in the mount namespace of one run.
#[derive(Debug)]
pub struct LateLook {
    root: OwnedFd,
}

/// Kinds of record that hold paths.
const KINDS: [u16; 3] = [RecordKind::Call as u16, RecordKind::Exec as u16, RecordKind::UringSubmit as u16];

/// A path the kernel half did not finish.
struct Unfinished {
    late: SectionTag,
    base: Vec<u8>,
    rest: Vec<u8>,
    is_name: bool,
}

impl LateLook {
    /// For the namespace of this process, which must be alive.
    pub fn of_process(pid: u32) -> std::io::Result<Self> {
        Ok(Self { root: File::open(format!("/proc/{pid}/root"))?.into() })
    }

    /// Whether a record has a path that a look might finish. Most have none.
    pub fn is_wanted(&self, record: &[u8]) -> bool {
        let Ok((header, mut sections)) = Header::read_from_prefix(record) else { return false };
        if !KINDS.contains(&header.kind) {
            return false;
        }
        while let Ok((section, after)) = Section::read_from_prefix(sections) {
            if is_chain(section) && ends_early(section) {
                return true;
            }
            let len = (section.len as usize).next_multiple_of(8);
            sections = after.get(len..).unwrap_or_default();
        }
        false
    }

    /// Adds to a record what a look finds.
    pub fn annotate(&self, record: &mut Vec<u8>) {
        let Ok((header, sections)) = Header::read_from_prefix(record) else { return };
        for unfinished in unfinished(&header, sections) {
            let Some(found) = self.look(&header, &unfinished) else { continue };
            record.resize(record.len().next_multiple_of(8), 0);
            let section = Section { tag: unfinished.late as u16, state: 0, aux: 0, len: found.len() as u32 };
            record.extend_from_slice(section.as_bytes());
            record.extend_from_slice(&found);
            let size = (record.len() as u32).to_ne_bytes();
            record[..4].copy_from_slice(&size);
        }
    }

    fn look(&self, header: &Header, path: &Unfinished) -> Option<Vec<u8>> {
        let mut whole = path.base.clone();
        whole.push(b'/');
        whole.extend_from_slice(&path.rest);
        let whole = self.without_proc_links(header, &whole);
        if !path.is_name
            && let Some(found) = self.resolve(&whole)
        {
            return Some(found);
        }
        // The name itself, or one that is gone again, or not made yet: the directory is what can be looked up.
        let trimmed = whole.iter().rposition(|&byte| byte != b'/').map_or(&whole[..0], |end| &whole[..=end]);
        let slash = trimmed.iter().rposition(|&byte| byte == b'/')?;
        let Some(mut found) = self.resolve(&trimmed[..=slash]) else {
            let is_refused = header.ret == -i64::from(libc::EACCES);
            return is_refused.then(|| self.beyond_what_is_there(trimmed)).flatten();
        };
        if found != b"/" {
            found.push(b'/');
        }
        found.extend_from_slice(&trimmed[slash + 1..]);
        Some(found)
    }

    /// For a call that was refused on its way: what lies there as far as something does, and beyond it the names that
    /// were asked for. Where nothing lies there is no link that could lead elsewhere.
    fn beyond_what_is_there(&self, path: &[u8]) -> Option<Vec<u8>> {
        let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
        let prefix = |count: usize| [b"/".as_slice(), &names[..count].join(&b'/')].concat();
        let mut count = names.len();
        let mut found = loop {
            if let Some(found) = self.resolve(&prefix(count)) {
                break found;
            }
            count = count.checked_sub(1)?;
        };
        for (index, name) in names[count..].iter().enumerate() {
            if matches!(*name, b"." | b"..") {
                return None;
            }
            if !found.ends_with(b"/") {
                found.push(b'/');
            }
            found.extend_from_slice(name);
            // A link that leads nowhere is there all the same, and nobody followed it.
            if index == 0 && !self.is_absent(&found) {
                return None;
            }
        }
        Some(found)
    }

    /// Whether nothing has this name, which is that of a directory's entry without a link on the way.
    fn is_absent(&self, path: &[u8]) -> bool {
        let stat = rustix::fs::statat(&self.root, OsStr::from_bytes(&path[1..]), AtFlags::SYMLINK_NOFOLLOW);
        matches!(stat, Err(Errno::NOENT | Errno::NOTDIR))
    }

    /// Replaces `/proc/self/…`, and a task's own `cwd`, `root` and `fd/N` links, which lead elsewhere for us.
    fn without_proc_links(&self, header: &Header, path: &[u8]) -> Vec<u8> {
        let mut names: Vec<Vec<u8>> =
            path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
        if names.first().is_none_or(|name| name != b"proc") || names.len() < 2 {
            return path.to_vec();
        }
        if names[1] == b"self" {
            names[1] = header.pid.to_string().into_bytes();
        } else if names[1] == b"thread-self" {
            names[1] = header.pid.to_string().into_bytes();
            names.splice(2..2, [b"task".to_vec(), header.tid.to_string().into_bytes()]);
        }
        let link_len = match names.get(2).map(Vec::as_slice) {
            Some(b"cwd" | b"root" | b"exe") => 3,
            Some(b"fd") if names.len() > 3 => 4,
            _ => return absolute(&names),
        };
        let link = absolute(&names[..link_len]);
        let Ok(text) = rustix::fs::readlinkat(&self.root, OsStr::from_bytes(&link[1..]), Vec::new()) else {
            return absolute(&names);
        };
        let mut whole = text.into_bytes();
        if whole.first() != Some(&b'/') {
            return absolute(&names);
        }
        for name in &names[link_len..] {
            whole.push(b'/');
            whole.extend_from_slice(name);
        }
        whole
    }

    /// The resolved path of what lies there now.
    fn resolve(&self, path: &[u8]) -> Option<Vec<u8>> {
        let path = OsStr::from_bytes(path);
        let found = openat2(
            self.root.as_fd(),
            path,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT,
        )
        .ok()?;
        let name = std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()?;
        let name = name.into_os_string().into_vec();
        name.starts_with(b"/").then_some(name)
    }
}

fn absolute(names: &[Vec<u8>]) -> Vec<u8> {
    names.iter().flat_map(|name| std::iter::once(&b'/').chain(name)).copied().collect()
}

/// The paths of a record that ended before they should.
fn unfinished(header: &Header, mut sections: &[u8]) -> Vec<Unfinished> {
    let mut found: Vec<Unfinished> = Vec::new();
    let mut rests: [Option<Vec<u8>>; 2] = [None, None];
    let mut bases: [Option<Vec<u8>>; 2] = [None, None];
    while let Ok((section, after)) = Section::read_from_prefix(sections) {
        let Some(content) = after.get(..section.len as usize) else { break };
        let index =
            usize::from(section.tag == SectionTag::ChainB as u16 || section.tag == SectionTag::RestB as u16);
        let is_rest = section.tag == SectionTag::RestA as u16 || section.tag == SectionTag::RestB as u16;
        if is_chain(section) && ends_early(section) {
            bases[index] = Some(join(content));
        } else if is_rest {
            rests[index] = Some(content.to_vec());
        }
        sections = after.get(content.len().next_multiple_of(8)..).unwrap_or_default();
    }
    for (index, late) in [SectionTag::LateA, SectionTag::LateB].into_iter().enumerate() {
        if let (Some(base), Some(rest)) = (bases[index].take(), rests[index].take()) {
            found.push(Unfinished { late, base, rest, is_name: index == 1 || is_name(header) });
        }
    }
    found
}

fn is_chain(section: Section) -> bool {
    section.tag == SectionTag::ChainA as u16 || section.tag == SectionTag::ChainB as u16
}

fn ends_early(section: Section) -> bool {
    let is_placed = section.state == chain_state::ROOT || section.state == chain_state::FOREIGN;
    is_placed && section.aux >= walk_state::NOT_CACHED
}

/// Names come leaf first.
fn join(content: &[u8]) -> Vec<u8> {
    let names = content.strip_suffix(b"\0").unwrap_or(content);
    let mut path = Vec::with_capacity(content.len());
    for name in names.rsplit(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    path
}

/// Whether the first path's last name is the call's own: made, removed, or not followed.
fn is_name(header: &Header) -> bool {
    if header.kind == RecordKind::Exec as u16 {
        return false;
    }
    if header.op == Op::Bind as u16 || header.op == Op::Open as u16 && header.ret < 0 {
        return header.op == Op::Bind as u16;
    }
    let table = if header.flags & flags::COMPAT == 0 { &NATIVE } else { &COMPAT };
    table.get(header.nr as usize).is_some_and(|call| {
        call.follow == Follow::Name as u8
            || call.follow == Follow::Link as u8
            || call.follow == Follow::IfFlag as u8
    })
}
