//! The ways of naming a target, as steps of an actor.

use libc::{
    AF_UNIX, AT_FDCWD, O_DIRECTORY, O_PATH, SOCK_STREAM, SYS_chdir, SYS_dup3, SYS_getpid, SYS_linkat,
    SYS_mkdirat, SYS_mount, SYS_openat, SYS_openat2, SYS_pidfd_getfd, SYS_pidfd_open, SYS_recvmsg,
    SYS_renameat2, SYS_sendmsg, SYS_socketpair, SYS_symlinkat,
};

use crate::actor::{Act, Arg, Part, Step, act, call};

/// A directory that was opened for the command before it was confined.
pub const GIVEN: i64 = 8;
/// The root directory, likewise.
pub const GIVEN_ROOT: i64 = 9;
/// Where a way puts the directory that it has opened.
const AT: i64 = 40;
/// A descriptor that travels.
pub const SENT: i64 = 41;

/// The two directories of a cell: that of the targets, and one in which the command may do anything.
#[derive(Debug, Clone)]
pub struct Place {
    pub target: String,
    pub mine: String,
    /// Whom the command may give its files to.
    pub owner: u32,
}

/// How a target is named: the steps before, and then a directory and a path.
#[derive(Debug, Clone)]
pub struct Named {
    pub before: Vec<Step>,
    pub at: i64,
    pub path: String,
}

impl Named {
    /// The path for a call that takes no directory.
    pub fn alone(&self) -> String {
        if self.at == i64::from(AT_FDCWD) {
            self.path.clone()
        } else {
            format!("/proc/self/fd/{}/{}", self.at, self.path)
        }
    }
}

/// A way, and what it takes.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    pub name: &'static str,
    /// It moves or links the target or what lies above it, which needs write there.
    pub writes: bool,
    /// It needs a target that is there.
    pub is_of_existing: bool,
    /// The name it gives is another one than the target's: what acts on names acts on that.
    pub is_other_name: bool,
    /// It comes from outside: what is beneath is given with it.
    pub is_given: bool,
    /// It needs a mount, which is never granted.
    pub mounts: bool,
    pub steps: fn(&Place, &str) -> Named,
}

const PLAIN: Way = Way {
    name: "",
    writes: false,
    is_of_existing: false,
    is_other_name: false,
    is_given: false,
    mounts: false,
    steps: direct,
};

/// All of them. Their names are parts of file names: a word such as the user's name would be folded in the record.
pub const WAYS: &[Way] = &[
    Way { name: "direct", ..PLAIN },
    Way { name: "dot_dot", steps: dot_dot, ..PLAIN },
    Way { name: "relative", steps: relative, ..PLAIN },
    Way { name: "link", steps: link, is_other_name: true, is_of_existing: true, ..PLAIN },
    Way { name: "linked_directory", steps: linked_directory, ..PLAIN },
    Way { name: "far_link", steps: far_link, is_other_name: true, is_of_existing: true, ..PLAIN },
    Way { name: "far_directory", steps: far_directory, ..PLAIN },
    Way { name: "descriptor", steps: descriptor, ..PLAIN },
    Way { name: "proc_descriptor", steps: proc_descriptor, ..PLAIN },
    Way {
        name: "proc_top",
        steps: |place, name| plain(vec![], format!("/proc/self/root{}/{name}", place.target)),
        ..PLAIN
    },
    Way {
        name: "proc_cwd",
        steps: |place, name| plain(vec![change(&place.target)], format!("/proc/self/cwd/{name}")),
        ..PLAIN
    },
    Way {
        name: "hard_link",
        steps: hard_link,
        writes: true,
        is_of_existing: true,
        is_other_name: true,
        ..PLAIN
    },
    Way { name: "old_hard_link", steps: old_hard_link, is_of_existing: true, is_other_name: true, ..PLAIN },
    Way {
        name: "moved_out",
        steps: moved_out,
        writes: true,
        is_of_existing: true,
        is_other_name: true,
        ..PLAIN
    },
    Way { name: "moved_parent", steps: moved_parent, writes: true, ..PLAIN },
    Way { name: "bind_mount", steps: bind_mount, mounts: true, ..PLAIN },
    Way { name: "beneath", steps: |place, name| resolved(place, name, 0x08), ..PLAIN },
    Way { name: "in_top", steps: |place, name| resolved(place, name, 0x10), ..PLAIN },
    Way { name: "no_symlinks", steps: |place, name| resolved(place, name, 0x04), ..PLAIN },
    Way { name: "no_magic_links", steps: |place, name| resolved(place, name, 0x02), ..PLAIN },
    Way { name: "no_other_mount", steps: |place, name| resolved(place, name, 0x01), ..PLAIN },
    Way { name: "passed", steps: passed, ..PLAIN },
    Way { name: "taken", steps: taken, ..PLAIN },
    Way { name: "given", steps: |_, name| at(GIVEN, vec![], name), is_given: true, ..PLAIN },
    Way {
        name: "given_top",
        steps: |place, name| at(GIVEN_ROOT, vec![], format!("{}/{name}", &place.target[1..])),
        is_given: true,
        ..PLAIN
    },
];

fn plain(before: Vec<Step>, path: String) -> Named {
    Named { before, at: AT_FDCWD.into(), path }
}

fn at(fd: i64, before: Vec<Step>, path: impl Into<String>) -> Named {
    Named { before, at: fd, path: path.into() }
}

fn change(directory: &str) -> Step {
    call(SYS_chdir, [directory.into()])
}

/// Opens a directory and puts it where the cell finds it.
fn opened(path: &str, to: i64) -> Vec<Step> {
    let flags = O_PATH | O_DIRECTORY;
    let open = call(SYS_openat, [AT_FDCWD.into(), path.into(), flags.into()]).keep(0);
    vec![open, call(SYS_dup3, [Arg::Kept(0), to.into(), 0.into()])]
}

fn direct(place: &Place, name: &str) -> Named {
    plain(vec![], format!("{}/{name}", place.target))
}

fn dot_dot(place: &Place, name: &str) -> Named {
    let up = "../".repeat(place.mine.matches('/').count());
    plain(vec![], format!("{}/{up}{}/{name}", place.mine, &place.target[1..]))
}

fn relative(place: &Place, name: &str) -> Named {
    // The loader takes a name without a slash for a library to look for.
    plain(vec![change(&place.target)], format!("./{name}"))
}

fn made_link(text: &str, link: &str) -> Step {
    call(SYS_symlinkat, [text.into(), AT_FDCWD.into(), link.into()])
}

fn link(place: &Place, name: &str) -> Named {
    let link = format!("{}/link-{name}", place.mine);
    plain(vec![made_link(&format!("{}/{name}", place.target), &link)], link)
}

fn linked_directory(place: &Place, name: &str) -> Named {
    let link = format!("{}/dir-{name}", place.mine);
    plain(vec![made_link(&place.target, &link)], format!("{link}/{name}"))
}

/// So many bytes that mean nothing: a text of more than 59 does not lie in the link's inode.
fn padding() -> String {
    "./".repeat(32)
}

/// The way up from a directory.
fn up(directory: &str) -> String {
    "../".repeat(directory.matches('/').count())
}

/// A link by a link, absolute and relative, with texts that the kernel does not keep in memory.
fn far_link(place: &Place, name: &str) -> Named {
    let (link, second) = (format!("{}/far-{name}", place.mine), format!("{}/more-{name}", place.mine));
    let text = format!("{}{}{}/{name}", up(&place.mine), padding(), &place.target[1..]);
    let to_second = format!("/{}{}", padding(), &second[1..]);
    plain(vec![made_link(&text, &second), made_link(&to_second, &link)], link)
}

fn far_directory(place: &Place, name: &str) -> Named {
    let link = format!("{}/far-{name}", place.mine);
    let text = format!("{}{}{}", padding(), up(&place.mine), &place.target[1..]);
    plain(vec![made_link(&text, &link)], format!("{link}/{name}"))
}

fn descriptor(place: &Place, name: &str) -> Named {
    at(AT, opened(&place.target, AT), name)
}

fn proc_descriptor(place: &Place, name: &str) -> Named {
    plain(opened(&place.target, AT), format!("/proc/self/fd/{AT}/{name}"))
}

fn hard_link(place: &Place, name: &str) -> Named {
    let other = format!("{}/hard-{name}", place.mine);
    let target = format!("{}/{name}", place.target);
    let make = call(
        SYS_linkat,
        [AT_FDCWD.into(), target.as_str().into(), AT_FDCWD.into(), other.as_str().into(), 0.into()],
    );
    plain(vec![make], other)
}

/// Made before the run, by the test.
fn old_hard_link(place: &Place, name: &str) -> Named {
    plain(vec![], format!("{}/old-{name}", place.mine))
}

fn moved(from: &str, to: &str) -> Step {
    call(SYS_renameat2, [AT_FDCWD.into(), from.into(), AT_FDCWD.into(), to.into(), 0.into()])
}

fn moved_out(place: &Place, name: &str) -> Named {
    let other = format!("{}/out-{name}", place.mine);
    plain(vec![moved(&format!("{}/{name}", place.target), &other)], other)
}

/// Where the directory of the targets is moved to.
pub fn away(place: &Place) -> String {
    format!("{}-away", place.target)
}

fn moved_parent(place: &Place, name: &str) -> Named {
    plain(vec![moved(&place.target, &away(place))], format!("{}/{name}", away(place)))
}

/// Puts the directory back.
pub fn back(place: &Place) -> Step {
    moved(&away(place), &place.target)
}

fn bind_mount(place: &Place, name: &str) -> Named {
    let point = format!("{}/bind-{name}", place.mine);
    let make = call(SYS_mkdirat, [AT_FDCWD.into(), point.as_str().into(), 0o755.into()]);
    let mount = call(
        SYS_mount,
        [place.target.as_str().into(), point.as_str().into(), 0.into(), 4096.into(), 0.into()],
    );
    plain(vec![make, mount], format!("{point}/{name}"))
}

/// By `openat2` with a `RESOLVE_` flag, from the root on for those that may not leave where they begin.
fn resolved(place: &Place, name: &str, resolve: u64) -> Named {
    let root = call(SYS_openat, [AT_FDCWD.into(), "/".into(), (O_PATH | O_DIRECTORY).into()]).keep(0);
    let how = Arg::At(vec![Part::Word((O_PATH | O_DIRECTORY) as u64), Part::Word(0), Part::Word(resolve)]);
    // Crossing no mount is about the way from the directory of the targets on; the root may be another one.
    let (from, path) = if resolve == 1 {
        (Arg::Num(AT_FDCWD.into()), place.target.clone())
    } else {
        (Arg::Kept(0), place.target[1..].to_owned())
    };
    let base = place.target.rsplit_once('/').expect("an absolute path").0;
    let mut before = vec![root];
    let (from, path) = if resolve == 1 {
        before.push(change(base));
        (from, path[base.len() + 1..].to_owned())
    } else {
        (from, path)
    };
    before.push(call(SYS_openat2, [from, path.as_str().into(), how, 24.into()]).keep(1));
    before.push(call(SYS_dup3, [Arg::Kept(1), AT.into(), 0.into()]));
    at(AT, before, name)
}

/// Through a socket, in a message.
fn passed(place: &Place, name: &str) -> Named {
    let mut before = opened(&place.target, SENT);
    before.extend(sent_to_oneself());
    before.push(call(SYS_dup3, [Arg::Kept(4), AT.into(), 0.into()]));
    at(AT, before, name)
}

/// Sends the descriptor that travels through a socket pair, and keeps what arrives in slot 4.
pub fn sent_to_oneself() -> [Step; 6] {
    let iov = || Part::To(vec![Part::To(vec![Part::Bytes(vec![b'x'])]), Part::Word(1)]);
    let message = |control: Part| {
        Arg::At(vec![
            Part::Word(0),
            Part::Word(0),
            iov(),
            Part::Word(1),
            control,
            Part::Word(24),
            Part::Word(0),
        ])
    };
    let number = |value: i32| value.to_le_bytes();
    let rights =
        [number(libc::SOL_SOCKET), number(libc::SCM_RIGHTS), number(SENT as i32), number(0)].concat();
    [
        call(SYS_socketpair, [AF_UNIX.into(), SOCK_STREAM.into(), 0.into(), Arg::Desk(0)]),
        act(Act::Take(0)).keep(2),
        act(Act::Take(4)).keep(3),
        call(
            SYS_sendmsg,
            [Arg::Kept(2), message(Part::To(vec![Part::Word(20), Part::Bytes(rights)])), 0.into()],
        ),
        call(SYS_recvmsg, [Arg::Kept(3), message(Part::Desk(16)), libc::MSG_DONTWAIT.into()]),
        act(Act::Take(32)).keep(4),
    ]
}

/// By `pidfd_getfd`, out of a process of the run.
fn taken(place: &Place, name: &str) -> Named {
    let mut before = opened(&place.target, SENT);
    before.extend([
        call(SYS_getpid, []).keep(2),
        call(SYS_pidfd_open, [Arg::Kept(2), 0.into()]).keep(3),
        call(SYS_pidfd_getfd, [Arg::Kept(3), SENT.into(), 0.into()]).keep(4),
        call(SYS_dup3, [Arg::Kept(4), AT.into(), 0.into()]),
    ]);
    at(AT, before, name)
}
