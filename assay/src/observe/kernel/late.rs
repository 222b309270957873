//! Looks a path up shortly after the call, where the kernel half could not follow it: a link whose text lies in the
//! page cache, one of `/proc`'s own links, a name no longer cached.
//!
//! Adds what it finds to the record, so that replay sees the same. A path it cannot find either stays as it is, and
//! is admitted downstream. Of a call that failed it follows the links that the call met, for what they lead to may be
//! hidden from the command; their names are added too, because they may have been changed meanwhile.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use assay_common::calls::{COMPAT, Follow, NATIVE, Op};
use assay_common::kind::{RecordKind, SectionTag, chain_state, late_state, walk_state};
use assay_common::record::{Header, Section, flags};
use assay_common::result::is_told_by_result;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::observe::path::join;

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
    /// The rest begins with a link.
    is_at_link: bool,
}

/// What a look found.
struct Found {
    path: Vec<u8>,
    state: u8,
    links: Vec<Vec<u8>>,
    /// The kind of what lies there under the whole path; `None` where nothing was seen to.
    kind: Option<FileType>,
}

impl Found {
    fn at(path: Vec<u8>) -> Self {
        Self { path, state: late_state::FOUND, links: Vec::new(), kind: None }
    }

    /// As the record has it.
    fn aux(&self) -> u8 {
        self.kind.map_or(0, |kind| (kind.as_raw_mode() >> 12) as u8)
    }
}

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

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
            add(record, unfinished.late, found.state, found.aux(), &found.path);
            if !found.links.is_empty() {
                let now = clock_gettime(ClockId::Monotonic);
                let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
                let mut content = now.to_ne_bytes().to_vec();
                for link in &found.links {
                    content.extend_from_slice(link);
                    content.push(0);
                }
                let aux = u8::from(unfinished.late == SectionTag::LateB);
                add(record, SectionTag::Followed, 0, aux, &content);
            }
        }
    }

    fn look(&self, header: &Header, path: &Unfinished) -> Option<Found> {
        if !is_told_by_result(header.ret) {
            return Some(self.led(header, path));
        }
        let mut whole = path.base.clone();
        whole.push(b'/');
        whole.extend_from_slice(&path.rest);
        let whole = self.without_proc_links(header, &whole);
        if !path.is_name
            && let Some((found, kind)) = self.resolve_kind(&whole)
        {
            return Some(Found { kind: Some(kind), ..Found::at(found) });
        }
        // What links lead to may be gone, or hidden from the command.
        let led = self.led(header, path);
        if !led.links.is_empty() {
            return Some(led);
        }
        // The name itself, or one that is gone again, or not made yet: the directory is what can be looked up.
        let trimmed = whole.iter().rposition(|&byte| byte != b'/').map_or(&whole[..0], |end| &whole[..=end]);
        let slash = trimmed.iter().rposition(|&byte| byte == b'/')?;
        let Some(mut found) = self.resolve(&trimmed[..=slash]) else {
            let is_refused = header.ret == -i64::from(libc::EACCES);
            return is_refused.then(|| self.beyond_what_is_there(trimmed)).flatten().map(Found::at);
        };
        if found != b"/" {
            found.push(b'/');
        }
        found.extend_from_slice(&trimmed[slash + 1..]);
        Some(Found::at(found))
    }

    /// Follows what is left of a path name by name, as far as there is something, and then as text.
    fn led(&self, header: &Header, path: &Unfinished) -> Found {
        let mut found = Found::at(path.base.clone());
        let mut names = names_of(&path.rest);
        let mut is_first = true;
        while let Some(name) = names.pop_front() {
            match name.as_slice() {
                b"." => continue,
                b".." => {
                    found.path = join(&found.path, b"..");
                    continue;
                }
                _ => {}
            }
            let here = join(&found.path, &name);
            let is_own = names.is_empty() && path.is_name && !is_first;
            let text = if is_own { Ok(None) } else { self.text_of(header, &here) };
            match text {
                Ok(Some(text)) => {
                    found.links.push(here);
                    if found.links.len() > MAX_LINKS {
                        break;
                    }
                    if text.starts_with(b"/") {
                        found.path = b"/".to_vec();
                    }
                    let rest = std::mem::replace(&mut names, names_of(&text));
                    names.extend(rest);
                }
                Ok(None) => found.path = here,
                Err(()) => {
                    let is_gone = is_first && path.is_at_link && leads_elsewhere(&here);
                    if is_gone || is_of_process(&here) && !names.is_empty() {
                        found.state = late_state::GONE;
                    }
                    let rest = names.make_contiguous().join(&b'/');
                    found.path = join(&here, &rest);
                    break;
                }
            }
            is_first = false;
        }
        // `/proc/self` and its like are as good a name as what they lead to.
        if found.state == late_state::FOUND && !found.links.iter().any(|link| leads_elsewhere(link)) {
            return Found {
                path: join(&path.base, &path.rest),
                state: late_state::TEXT,
                ..Found::at(Vec::new())
            };
        }
        found
    }

    /// What the link of this name says; `None` for anything else that is there.
    fn text_of(&self, header: &Header, path: &[u8]) -> Result<Option<Vec<u8>>, ()> {
        match path {
            b"/proc/self" => return Ok(Some(header.pid.to_string().into_bytes())),
            b"/proc/thread-self" => {
                return Ok(Some(format!("{}/task/{}", header.pid, header.tid).into_bytes()));
            }
            _ => {}
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        let found = openat2(self.root.as_fd(), OsStr::from_bytes(path), flags, Mode::empty(), resolve);
        let Ok(found) = found else { return Err(()) };
        let stat = rustix::fs::fstat(&found).map_err(drop)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(None);
        }
        let text = rustix::fs::readlinkat(&found, "", Vec::new()).map_err(drop)?.into_bytes();
        // `pipe:[1]` and its like lead to no name.
        let is_name = !is_of_process(path) || text.starts_with(b"/");
        if is_name { Ok(Some(text)) } else { Err(()) }
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
        self.resolve_kind(path).map(|(path, _)| path)
    }

    /// The same, and what kind of file it is.
    fn resolve_kind(&self, path: &[u8]) -> Option<(Vec<u8>, FileType)> {
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
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&found).ok()?.st_mode);
        name.starts_with(b"/").then_some((name, kind))
    }
}

fn absolute(names: &[Vec<u8>]) -> Vec<u8> {
    names.iter().flat_map(|name| std::iter::once(&b'/').chain(name)).copied().collect()
}

/// Whether this is the name of a link that `/proc` has for what a process has open, or where it is.
fn is_of_process(path: &[u8]) -> bool {
    let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    let [b"", b"proc", _, rest @ ..] = names.as_slice() else { return false };
    let rest = if let [b"task", _, rest @ ..] = rest { rest } else { rest };
    matches!(rest, [b"cwd" | b"root" | b"exe"] | [b"fd" | b"map_files", _])
}

/// Whether a link leads out of `/proc`.
fn leads_elsewhere(link: &[u8]) -> bool {
    !link.starts_with(b"/proc/") || is_of_process(link)
}

fn names_of(text: &[u8]) -> VecDeque<Vec<u8>> {
    text.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}

fn add(record: &mut Vec<u8>, tag: SectionTag, state: u8, aux: u8, content: &[u8]) {
    record.resize(record.len().next_multiple_of(8), 0);
    let section = Section { tag: tag as u16, state, aux, len: content.len() as u32 };
    record.extend_from_slice(section.as_bytes());
    record.extend_from_slice(content);
    let size = (record.len() as u32).to_ne_bytes();
    record[..4].copy_from_slice(&size);
}

/// The paths of a record that ended before they should.
fn unfinished(header: &Header, mut sections: &[u8]) -> Vec<Unfinished> {
    let mut found: Vec<Unfinished> = Vec::new();
    let mut rests: [Option<Vec<u8>>; 2] = [None, None];
    let mut bases: [Option<(Vec<u8>, bool)>; 2] = [None, None];
    while let Ok((section, after)) = Section::read_from_prefix(sections) {
        let Some(content) = after.get(..section.len as usize) else { break };
        let index =
            usize::from(section.tag == SectionTag::ChainB as u16 || section.tag == SectionTag::RestB as u16);
        let is_rest = section.tag == SectionTag::RestA as u16 || section.tag == SectionTag::RestB as u16;
        if is_chain(section) && ends_early(section) {
            bases[index] = Some((base_of(content), section.aux == walk_state::LINK));
        } else if is_rest {
            rests[index] = Some(content.to_vec());
        }
        sections = after.get(content.len().next_multiple_of(8)..).unwrap_or_default();
    }
    for (index, late) in [SectionTag::LateA, SectionTag::LateB].into_iter().enumerate() {
        if let (Some((base, is_at_link)), Some(rest)) = (bases[index].take(), rests[index].take()) {
            let is_name = index == 1 || is_name(header);
            found.push(Unfinished { late, base, rest, is_name, is_at_link });
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
fn base_of(content: &[u8]) -> Vec<u8> {
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
    let Some(call) = table.get(header.nr as usize) else { return false };
    let flags = header.args.get(usize::from(call.flags)).copied().unwrap_or(0);
    let has = |flag: i32| flags & flag as u64 != 0;
    let is = |follow: Follow| call.follow == follow as u8;
    is(Follow::Name)
        || is(Follow::Link)
        || is(Follow::IfFlag) && !has(libc::AT_SYMLINK_FOLLOW)
        || is(Follow::UnlessFlag) && has(libc::AT_SYMLINK_NOFOLLOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::decode::decode;
    use crate::observe::event::{Call, EventKind, LateWorth};
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// What a look makes of an `open` that ended so; the walk stopped at a link, in `base`.
    fn look(base: &Path, rest: &str, errno: i32) -> Call {
        let mut header = Header::of_no_task(RecordKind::Call, 0, 1, 1);
        (header.op, header.nr, header.ret) = (Op::Open as u16, 257, i64::from(errno));
        (header.pid, header.tid) = (std::process::id(), std::process::id());
        let mut record = header.as_bytes().to_vec();
        let names: Vec<&[u8]> = base.iter().skip(1).map(std::os::unix::ffi::OsStrExt::as_bytes).collect();
        let chain: Vec<u8> = names.iter().rev().flat_map(|name| [*name, b"\0"].concat()).collect();
        add(&mut record, SectionTag::ChainA, chain_state::ROOT, walk_state::LINK, &chain);
        add(&mut record, SectionTag::RestA, 0, 0, rest.as_bytes());
        let late = LateLook::of_process(std::process::id()).unwrap();
        assert!(late.is_wanted(&record));
        late.annotate(&mut record);
        let EventKind::Call(call) = decode(&record).unwrap().kind else { panic!("a call") };
        call
    }

    fn check(base: &Path, rest: &str, expect: &str, worth: LateWorth, links: &[&str]) {
        let call = look(base, rest, -libc::ENOENT);
        let text = |path: &str| base.join(path).into_os_string().into_vec();
        let late = call.a.late.expect(rest);
        assert_eq!((late.bytes, late.worth), (text(expect), worth), "{rest}");
        let followed = call.a.followed.map(|followed| followed.links).unwrap_or_default();
        assert_eq!(followed, links.iter().map(|link| text(link)).collect::<Vec<_>>(), "{rest}");
    }

    #[test]
    fn a_call_that_found_nothing_is_told_by_what_links_lead_to() {
        let folder = tempfile::tempdir().unwrap();
        let base = &folder.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("d")).unwrap();
        symlink(base.join("d"), base.join("absolute")).unwrap();
        symlink("absolute/gone/x", base.join("chain")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        let found = LateWorth::Found;
        check(base, "absolute/x/y", "d/x/y", found, &["absolute"]);
        check(base, "./absolute/../absolute/x", "d/x", found, &["absolute", "absolute"]);
        check(base, "chain", "d/gone/x", found, &["chain", "absolute"]);
        check(base, "chain/../z", "d/gone/z", found, &["chain", "absolute"]);
        check(base, "chain/.", "d/gone/x", found, &["chain", "absolute"]);
        check(base, "d/x", "d/x", LateWorth::Text, &[]);
        assert_eq!(look(base, "loop", -libc::ELOOP).a.followed.unwrap().links.len(), MAX_LINKS + 1);
    }

    #[test]
    fn what_a_refused_call_would_have_met_is_known_by_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let base = &folder.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("d")).unwrap();
        std::fs::write(base.join("d/f"), "").unwrap();
        let there = |rest: &str| look(base, rest, -libc::EACCES).a.late.expect(rest).there;
        assert_eq!(there("d/f"), Some(libc::S_IFREG));
        assert_eq!(there("d"), Some(libc::S_IFDIR));
        assert_eq!(there("d/absent"), None);
        assert_eq!(there("absent/x"), None);
        assert_eq!(look(base, "d/f", -libc::ENOENT).a.late.expect("a look").there, None, "nobody met it");
    }

    #[test]
    fn a_link_that_is_gone_is_admitted() {
        let folder = tempfile::tempdir().unwrap();
        check(&folder.path().canonicalize().unwrap(), "gone/x", "gone/x", LateWorth::Gone, &[]);
    }

    #[test]
    fn names_that_proc_has_for_a_process_are_text_unless_they_lead_out_of_it() {
        let proc = Path::new("/proc");
        check(proc, "self/absent", "self/absent", LateWorth::Text, &[]);
        check(proc, "net/absent/x", "net/absent/x", LateWorth::Text, &[]);
        check(proc, "self/fd/99999", "self/fd/99999", LateWorth::Text, &[]);
        let call = look(proc, "self/root/absent", -libc::ENOENT);
        assert_eq!(
            call.a.late.map(|late| (late.bytes, late.worth)),
            Some((b"/absent".to_vec(), LateWorth::Found))
        );
    }
}
