//! The kinds of access to a target, as steps of an actor.

use libc::{
    AF_UNIX, AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_PATH, O_RDONLY,
    O_RDWR, O_TRUNC, O_WRONLY, S_IFCHR, S_IFIFO, S_IFREG, SOCK_STREAM, SYS_bind, SYS_execve, SYS_execveat,
    SYS_fallocate, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_fremovexattr, SYS_fsetxattr,
    SYS_ftruncate, SYS_getdents64, SYS_ioctl, SYS_linkat, SYS_mkdirat, SYS_mknodat, SYS_name_to_handle_at,
    SYS_open_by_handle_at, SYS_openat, SYS_openat2, SYS_pread64, SYS_removexattr, SYS_renameat2,
    SYS_setxattr, SYS_socket, SYS_symlinkat, SYS_truncate, SYS_unlinkat, SYS_utimensat, SYS_write,
};

use super::ways::{Named, Place};
use crate::actor::{Act, Arg, Part, Request, Step, act, call, compat};

/// What an access needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Read,
    Write,
    ReadWrite,
    Execute,
    /// Write; but Landlock alone does not hold it.
    Attribute,
}

/// What lies at the target before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Text,
    Program,
    Script,
    /// A program that the loader of this system takes.
    Dynamic,
    Directory,
    /// Nothing: the access makes it.
    Missing,
}

/// A kind of access.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    pub needs: Needs,
    pub content: Content,
    /// It acts on the name and not on what the name leads to.
    pub is_of_name: bool,
    /// It needs a capability that no run keeps.
    pub is_withheld: bool,
    /// What comes of it is the exit of another program.
    pub by_status: bool,
    /// Its first step is a look, which has no effect.
    pub looks: bool,
    /// Not every file system knows it.
    pub is_optional: bool,
    pub steps: fn(&Place, &Named, &str) -> Vec<Step>,
}

const PLAIN: Kind = Kind {
    name: "",
    needs: Needs::Write,
    content: Content::Text,
    is_of_name: false,
    is_withheld: false,
    by_status: false,
    looks: false,
    is_optional: false,
    steps: read,
};
const NAME: Kind = Kind { is_of_name: true, ..PLAIN };
const MAKE: Kind = Kind { content: Content::Missing, ..NAME };
const ATTRIBUTE: Kind = Kind { needs: Needs::Attribute, ..PLAIN };
const EXTENDED: Kind = Kind { is_optional: true, ..ATTRIBUTE };

/// The attribute that is set.
const OWN: &str = "user.x";
/// The attribute that is there before, and is removed.
pub const GIVEN: &str = "user.given";

const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;
const FS_IOC_SETFLAGS: i64 = 0x4008_6602;
const FS_IOC_FSSETXATTR: i64 = 0x401c_5820;
const FS_NODUMP_FL: u64 = 0x40;
const FS_IMMUTABLE_FL: u64 = 0x10;
/// Of a file that has it, it cannot be taken.
const EXT4_EXTENTS_FL: u64 = 0x8_0000;
const FS_XFLAG_NODUMP: u64 = 0x80;

/// All of them.
pub const KINDS: &[Kind] = &[
    Kind { name: "read", needs: Needs::Read, ..PLAIN },
    Kind { name: "ring_read", needs: Needs::Read, steps: ring_read, ..PLAIN },
    Kind { name: "list", needs: Needs::Read, content: Content::Directory, steps: list, ..PLAIN },
    Kind { name: "write", steps: |_, named, _| open_and_write(named, O_WRONLY), ..PLAIN },
    Kind { name: "append", steps: |_, named, _| open_and_write(named, O_WRONLY | O_APPEND), ..PLAIN },
    Kind { name: "open_truncate", steps: |_, named, _| vec![open(named, O_WRONLY | O_TRUNC)], ..PLAIN },
    Kind {
        name: "truncate",
        steps: |_, named, _| vec![call(SYS_truncate, [named.alone().as_str().into(), 0.into()])],
        ..PLAIN
    },
    Kind {
        name: "truncate_open",
        steps: |_, named, _| vec![open(named, O_WRONLY), call(SYS_ftruncate, [Arg::Kept(10), 0.into()])],
        ..PLAIN
    },
    Kind { name: "allocate", steps: |_, named, _| allocate(named, 0, 100), is_optional: true, ..PLAIN },
    // What lies there becomes zeros, and the file as long as before.
    Kind { name: "punch", steps: |_, named, _| allocate(named, 3, 4), is_optional: true, ..PLAIN },
    Kind {
        name: "ring_allocate",
        steps: |_, named, _| vec![open(named, O_WRONLY), ring(17, Arg::Kept(10), 100, 0.into(), 0.into(), 0)],
        is_optional: true,
        ..PLAIN
    },
    Kind { name: "reopen", steps: reopen, looks: true, ..PLAIN },
    Kind { name: "openat2", steps: openat2, ..PLAIN },
    Kind { name: "ring_write", steps: ring_write, ..PLAIN },
    Kind { name: "compat_write", steps: compat_write, ..PLAIN },
    Kind { name: "map_writable", needs: Needs::ReadWrite, steps: map_writable, ..PLAIN },
    Kind { name: "by_handle", is_withheld: true, steps: by_handle, ..PLAIN },
    Kind { name: "create", steps: |_, named, _| open_and_write(named, O_WRONLY | O_CREAT | O_EXCL), ..MAKE },
    Kind {
        name: "make_directory",
        steps: |_, named, _| vec![call(SYS_mkdirat, [named.at.into(), path(named), 0o755.into()])],
        ..MAKE
    },
    Kind {
        name: "ring_make_directory",
        steps: |_, named, _| vec![ring(37, named.at, path(named), 0o755.into(), 0.into(), 0)],
        ..MAKE
    },
    Kind { name: "make_fifo", steps: |_, named, _| vec![make_node(named, S_IFIFO, 0)], ..MAKE },
    Kind { name: "make_file", steps: |_, named, _| vec![make_node(named, S_IFREG, 0)], ..MAKE },
    // The numbers of `/dev/null`.
    Kind {
        name: "make_device",
        is_withheld: true,
        steps: |_, named, _| vec![make_node(named, S_IFCHR, 0x103)],
        ..MAKE
    },
    // A device without numbers needs no capability; but an overlay refuses it to everybody.
    Kind {
        name: "make_whiteout",
        is_withheld: true,
        steps: |_, named, _| vec![make_node(named, S_IFCHR, 0)],
        ..MAKE
    },
    Kind {
        name: "make_link",
        steps: |_, named, _| vec![call(SYS_symlinkat, ["x".into(), named.at.into(), path(named)])],
        ..MAKE
    },
    Kind {
        name: "ring_make_link",
        steps: |_, named, _| vec![ring(38, named.at, "x", 0.into(), path(named), 0)],
        ..MAKE
    },
    Kind { name: "bind_socket", steps: bind_socket, ..MAKE },
    Kind { name: "move_in", steps: |place, named, name| move_onto(place, named, name, 0), ..MAKE },
    Kind { name: "move_directory_in", steps: move_directory_in, ..MAKE },
    Kind { name: "link_in", steps: link_in, ..MAKE },
    Kind { name: "ring_link_in", steps: ring_link_in, ..MAKE },
    Kind { name: "unnamed_in", steps: unnamed_in, ..MAKE },
    Kind { name: "move_onto", steps: |place, named, name| move_onto(place, named, name, 0), ..NAME },
    Kind { name: "exchange", steps: |place, named, name| move_onto(place, named, name, 2), ..NAME },
    Kind { name: "ring_move_onto", steps: ring_move_onto, ..NAME },
    Kind {
        name: "remove",
        steps: |_, named, _| vec![call(SYS_unlinkat, [named.at.into(), path(named), 0.into()])],
        ..NAME
    },
    Kind {
        name: "ring_remove",
        steps: |_, named, _| vec![ring(36, named.at, path(named), 0.into(), 0.into(), 0)],
        ..NAME
    },
    Kind { name: "remove_directory", content: Content::Directory, steps: remove_directory, ..NAME },
    Kind { name: "move_out", steps: move_out, ..NAME },
    Kind { name: "link_out", needs: Needs::ReadWrite, steps: link_out, ..NAME },
    Kind { name: "ring_link_out", needs: Needs::ReadWrite, steps: ring_link_out, ..NAME },
    Kind {
        name: "change_mode",
        steps: |_, named, _| vec![call(SYS_fchmodat, [named.at.into(), path(named), 0o600.into()])],
        ..ATTRIBUTE
    },
    Kind {
        name: "change_mode_open",
        steps: |_, named, _| opened(named, call(SYS_fchmod, [Arg::Kept(10), 0o600.into()])),
        ..ATTRIBUTE
    },
    Kind {
        name: "change_owner",
        steps: |place, named, _| {
            let owner = place.owner;
            vec![call(SYS_fchownat, [named.at.into(), path(named), owner.into(), owner.into(), 0.into()])]
        },
        ..ATTRIBUTE
    },
    Kind {
        name: "change_owner_open",
        steps: |place, named, _| {
            opened(named, call(SYS_fchown, [Arg::Kept(10), place.owner.into(), place.owner.into()]))
        },
        ..ATTRIBUTE
    },
    // By a descriptor that was opened for nothing.
    Kind { name: "change_owner_empty", steps: change_owner_empty, looks: true, ..ATTRIBUTE },
    Kind {
        name: "set_times",
        steps: |_, named, _| vec![call(SYS_utimensat, [named.at.into(), path(named), times(), 0.into()])],
        ..ATTRIBUTE
    },
    Kind {
        name: "set_times_open",
        steps: |_, named, _| opened(named, call(SYS_utimensat, [Arg::Kept(10), 0.into(), times(), 0.into()])),
        ..ATTRIBUTE
    },
    Kind {
        name: "set_attribute",
        steps: |_, named, _| {
            vec![call(
                SYS_setxattr,
                [named.alone().as_str().into(), OWN.into(), "y".into(), 1.into(), 0.into()],
            )]
        },
        ..EXTENDED
    },
    Kind {
        name: "set_attribute_open",
        steps: |_, named, _| {
            opened(named, call(SYS_fsetxattr, [Arg::Kept(10), OWN.into(), "y".into(), 1.into(), 0.into()]))
        },
        ..EXTENDED
    },
    Kind {
        name: "ring_set_attribute",
        steps: |_, named, _| vec![ring_attribute(42, 0, named.alone().as_str())],
        ..EXTENDED
    },
    Kind {
        name: "ring_attribute_open",
        steps: |_, named, _| opened(named, ring_attribute(41, Arg::Kept(10), 0)),
        ..EXTENDED
    },
    Kind {
        name: "drop_attribute",
        steps: |_, named, _| vec![call(SYS_removexattr, [named.alone().as_str().into(), GIVEN.into()])],
        ..EXTENDED
    },
    Kind {
        name: "drop_attribute_open",
        steps: |_, named, _| opened(named, call(SYS_fremovexattr, [Arg::Kept(10), GIVEN.into()])),
        ..EXTENDED
    },
    Kind {
        name: "set_attribute_at",
        steps: |_, named, _| {
            // The value, its length and flags.
            let value = Arg::At(vec![Part::To(vec![Part::Bytes(vec![b'y'])]), Part::Word(1)]);
            vec![call(SETXATTRAT, [named.at.into(), path(named), 0.into(), OWN.into(), value, 16.into()])]
        },
        ..EXTENDED
    },
    Kind {
        name: "drop_attribute_at",
        steps: |_, named, _| {
            vec![call(REMOVEXATTRAT, [named.at.into(), path(named), 0.into(), GIVEN.into()])]
        },
        ..EXTENDED
    },
    // What `chattr` sets: that it is not to be dumped, which its owner may say.
    Kind {
        name: "set_flags_at",
        steps: |_, named, _| {
            let flags = Arg::At(vec![Part::Word(FS_XFLAG_NODUMP), Part::Word(0), Part::Word(0)]);
            vec![call(FILE_SETATTR, [named.at.into(), path(named), flags, 24.into(), 0.into()])]
        },
        ..EXTENDED
    },
    Kind {
        name: "set_flags_open",
        steps: |_, named, _| opened(named, control(FS_IOC_SETFLAGS, vec![EXT4_EXTENTS_FL | FS_NODUMP_FL])),
        ..EXTENDED
    },
    Kind {
        name: "set_flags_more",
        steps: |_, named, _| opened(named, control(FS_IOC_FSSETXATTR, vec![FS_XFLAG_NODUMP, 0, 0, 0])),
        ..EXTENDED
    },
    Kind {
        name: "set_immutable",
        is_withheld: true,
        steps: |_, named, _| opened(named, control(FS_IOC_SETFLAGS, vec![EXT4_EXTENTS_FL | FS_IMMUTABLE_FL])),
        ..EXTENDED
    },
    Kind {
        name: "execute",
        needs: Needs::Execute,
        content: Content::Program,
        steps: |_, named, _| vec![execute(&named.alone(), &[])],
        ..PLAIN
    },
    Kind {
        name: "execute_descriptor",
        needs: Needs::Execute,
        content: Content::Program,
        steps: execute_descriptor,
        looks: true,
        ..PLAIN
    },
    Kind {
        name: "execute_script",
        needs: Needs::Execute,
        content: Content::Script,
        steps: |_, named, _| vec![execute(&named.alone(), &[])],
        ..PLAIN
    },
    Kind {
        name: "execute_by_loader",
        needs: Needs::Read,
        content: Content::Dynamic,
        by_status: true,
        steps: execute_by_loader,
        ..PLAIN
    },
];

/// A number for the kernel.
trait IntoI64 {
    fn into_i64(self) -> i64;
}

impl IntoI64 for u32 {
    fn into_i64(self) -> i64 {
        self.into()
    }
}

fn path(named: &Named) -> Arg {
    named.path.as_str().into()
}

fn open(named: &Named, flags: i32) -> Step {
    call(SYS_openat, [named.at.into(), path(named), flags.into(), 0o644.into()]).keep(10)
}

fn read(_: &Place, named: &Named, _: &str) -> Vec<Step> {
    vec![open(named, O_RDONLY), call(SYS_pread64, [Arg::Kept(10), Arg::Desk(128), 1.into(), 0.into()])]
}

fn list(_: &Place, named: &Named, _: &str) -> Vec<Step> {
    vec![
        open(named, O_RDONLY | O_DIRECTORY),
        call(SYS_getdents64, [Arg::Kept(10), Arg::Desk(1024), 4096.into()]),
    ]
}

fn make_node(named: &Named, kind: u32, device: i64) -> Step {
    let mode = (kind | 0o644).into_i64();
    call(SYS_mknodat, [named.at.into(), path(named), mode.into(), device.into()])
}

fn put(slot: u8) -> Step {
    call(SYS_write, [Arg::Kept(slot), "changed".into(), 7.into()])
}

fn open_and_write(named: &Named, flags: i32) -> Vec<Step> {
    vec![open(named, flags), put(10)]
}

/// For reading, and then this, of slot 10.
fn opened(named: &Named, then: Step) -> Vec<Step> {
    vec![open(named, O_RDONLY), then]
}

/// A request to what was opened, with these words.
fn control(request: i64, words: Vec<u64>) -> Step {
    let words = Arg::At(words.into_iter().map(Part::Word).collect());
    call(SYS_ioctl, [Arg::Kept(10), request.into(), words])
}

fn allocate(named: &Named, mode: i64, length: i64) -> Vec<Step> {
    vec![open(named, O_WRONLY), call(SYS_fallocate, [Arg::Kept(10), mode.into(), 0.into(), length.into()])]
}

fn times() -> Arg {
    Arg::At(vec![Part::Word(1), Part::Word(0), Part::Word(1), Part::Word(0)])
}

fn change_owner_empty(place: &Place, named: &Named, _: &str) -> Vec<Step> {
    let owner = place.owner;
    vec![
        open(named, O_PATH),
        call(SYS_fchownat, [Arg::Kept(10), "".into(), owner.into(), owner.into(), AT_EMPTY_PATH.into()]),
    ]
}

/// Sets an attribute, of a descriptor or of a path.
fn ring_attribute(opcode: u8, fd: impl Into<Arg>, path: impl Into<Arg>) -> Step {
    let Step { act: Act::Ring(request), keep } = ring(opcode, fd, OWN, 1.into(), "y".into(), 0) else {
        unreachable!("a request")
    };
    Step { act: Act::Ring(Request { addr3: path.into(), ..request }), keep }
}

fn reopen(_: &Place, named: &Named, _: &str) -> Vec<Step> {
    // Descriptor 50, so that its name in `/proc` is known beforehand.
    vec![
        open(named, O_PATH),
        call(libc::SYS_dup3, [Arg::Kept(10), 50.into(), 0.into()]),
        call(SYS_openat, [AT_FDCWD.into(), "/proc/self/fd/50".into(), O_WRONLY.into()]).keep(11),
        put(11),
    ]
}

fn openat2(_: &Place, named: &Named, _: &str) -> Vec<Step> {
    let how = Arg::At(vec![Part::Word(O_WRONLY as u64), Part::Word(0), Part::Word(0)]);
    vec![call(SYS_openat2, [named.at.into(), path(named), how, 24.into()]).keep(10), put(10)]
}

fn ring(opcode: u8, fd: impl Into<Arg>, addr: impl Into<Arg>, len: Arg, off: Arg, flags: u32) -> Step {
    act(Act::Ring(Request {
        opcode,
        fd: fd.into(),
        addr: addr.into(),
        off,
        len,
        addr3: 0.into(),
        flags,
        is_polled: false,
        is_silent: false,
        is_compat: false,
        file_index: 0,
        ioprio: 0,
    }))
}

fn ring_read(_: &Place, named: &Named, _: &str) -> Vec<Step> {
    vec![
        ring(18, named.at, path(named), 0.into(), 0.into(), O_RDONLY as u32).keep(10),
        call(SYS_pread64, [Arg::Kept(10), Arg::Desk(128), 1.into(), 0.into()]),
    ]
}

fn ring_write(_: &Place, named: &Named, _: &str) -> Vec<Step> {
    vec![ring(18, named.at, path(named), 0.into(), 0.into(), O_WRONLY as u32).keep(10), put(10)]
}

fn compat_write(_: &Place, named: &Named, _: &str) -> Vec<Step> {
    // 5 is `open` of the 32-bit entry.
    vec![compat(5, [named.alone().as_str().into(), O_WRONLY.into(), 0.into()]).keep(10), put(10)]
}

fn map_writable(_: &Place, named: &Named, _: &str) -> Vec<Step> {
    vec![open(named, O_RDWR), act(Act::Map { fd: 10, shared: true })]
}

fn by_handle(place: &Place, named: &Named, _: &str) -> Vec<Step> {
    vec![
        act(Act::Put(256, 128u32.to_le_bytes().to_vec())),
        call(SYS_name_to_handle_at, [named.at.into(), path(named), Arg::Desk(256), Arg::Desk(240), 0.into()]),
        call(SYS_openat, [AT_FDCWD.into(), place.mine.as_str().into(), (O_RDONLY | O_DIRECTORY).into()])
            .keep(11),
        call(SYS_open_by_handle_at, [Arg::Kept(11), Arg::Desk(256), O_WRONLY.into()]).keep(10),
        put(10),
    ]
}

fn bind_socket(_: &Place, named: &Named, _: &str) -> Vec<Step> {
    let path = named.alone();
    let address = [&1u16.to_le_bytes(), path.as_bytes(), &[0]].concat();
    let length = address.len() as i64;
    vec![
        call(SYS_socket, [AF_UNIX.into(), SOCK_STREAM.into(), 0.into()]).keep(10),
        call(SYS_bind, [Arg::Kept(10), Arg::At(vec![Part::Bytes(address)]), length.into()]),
    ]
}

/// A file of the command's own.
fn own(place: &Place, name: &str) -> (Vec<Step>, String) {
    let path = format!("{}/own-{name}", place.mine);
    let flags = O_WRONLY | O_CREAT;
    let make = call(SYS_openat, [AT_FDCWD.into(), path.as_str().into(), flags.into(), 0o644.into()]).keep(10);
    (vec![make, put(10)], path)
}

fn move_onto(place: &Place, named: &Named, name: &str, flags: i64) -> Vec<Step> {
    let (mut steps, own) = own(place, name);
    steps.push(call(
        SYS_renameat2,
        [AT_FDCWD.into(), own.as_str().into(), named.at.into(), path(named), flags.into()],
    ));
    steps
}

fn move_directory_in(place: &Place, named: &Named, name: &str) -> Vec<Step> {
    let own = format!("{}/own-{name}", place.mine);
    vec![
        call(SYS_mkdirat, [AT_FDCWD.into(), own.as_str().into(), 0o755.into()]),
        call(SYS_renameat2, [AT_FDCWD.into(), own.as_str().into(), named.at.into(), path(named), 0.into()]),
    ]
}

fn ring_move_onto(place: &Place, named: &Named, name: &str) -> Vec<Step> {
    let (mut steps, own) = own(place, name);
    steps.push(ring(35, AT_FDCWD, own.as_str(), named.at.into(), path(named), 0));
    steps
}

fn link_in(place: &Place, named: &Named, name: &str) -> Vec<Step> {
    let (mut steps, own) = own(place, name);
    steps.push(call(
        SYS_linkat,
        [AT_FDCWD.into(), own.as_str().into(), named.at.into(), path(named), 0.into()],
    ));
    steps
}

fn ring_link_in(place: &Place, named: &Named, name: &str) -> Vec<Step> {
    let (mut steps, own) = own(place, name);
    steps.push(ring(39, AT_FDCWD, own.as_str(), named.at.into(), path(named), 0));
    steps
}

/// A file made without a name that is given one.
fn unnamed_in(place: &Place, named: &Named, _: &str) -> Vec<Step> {
    let flags = libc::O_TMPFILE | O_RDWR;
    vec![
        call(SYS_openat, [AT_FDCWD.into(), place.mine.as_str().into(), flags.into(), 0o644.into()]).keep(10),
        call(libc::SYS_dup3, [Arg::Kept(10), 50.into(), 0.into()]),
        call(
            SYS_linkat,
            [
                AT_FDCWD.into(),
                "/proc/self/fd/50".into(),
                named.at.into(),
                path(named),
                libc::AT_SYMLINK_FOLLOW.into(),
            ],
        ),
    ]
}

fn remove_directory(_: &Place, named: &Named, _: &str) -> Vec<Step> {
    vec![call(SYS_unlinkat, [named.at.into(), path(named), AT_REMOVEDIR.into()])]
}

fn move_out(place: &Place, named: &Named, name: &str) -> Vec<Step> {
    let to = format!("{}/moved-{name}", place.mine);
    vec![call(SYS_renameat2, [named.at.into(), path(named), AT_FDCWD.into(), to.as_str().into(), 0.into()])]
}

fn link_out(place: &Place, named: &Named, name: &str) -> Vec<Step> {
    let to = format!("{}/linked-{name}", place.mine);
    let link = [named.at.into(), path(named), AT_FDCWD.into(), to.as_str().into(), 0.into()];
    written_by(call(SYS_linkat, link), &to)
}

fn ring_link_out(place: &Place, named: &Named, name: &str) -> Vec<Step> {
    let to = format!("{}/linked-{name}", place.mine);
    written_by(ring(39, named.at, path(named), AT_FDCWD.into(), to.as_str().into(), 0), &to)
}

fn written_by(link: Step, to: &str) -> Vec<Step> {
    vec![link, call(SYS_openat, [AT_FDCWD.into(), to.into(), O_WRONLY.into()]).keep(10), put(10)]
}

fn execute(path: &str, more: &[&str]) -> Step {
    let word = |text: &str| Part::To(vec![Part::Bytes([text.as_bytes(), b"\0"].concat())]);
    let mut argv = vec![word(path)];
    argv.extend(more.iter().map(|text| word(text)));
    argv.push(Part::Word(0));
    call(SYS_execve, [path.into(), Arg::At(argv), Arg::At(vec![Part::Word(0)])])
}

fn execute_descriptor(_: &Place, named: &Named, _: &str) -> Vec<Step> {
    let argv = Arg::At(vec![Part::To(vec![Part::Bytes(b"x\0".to_vec())]), Part::Word(0)]);
    vec![
        open(named, O_PATH),
        call(
            SYS_execveat,
            [Arg::Kept(10), "".into(), argv, Arg::At(vec![Part::Word(0)]), AT_EMPTY_PATH.into()],
        ),
    ]
}

/// The loader of this system.
pub const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

fn execute_by_loader(_: &Place, named: &Named, _: &str) -> Vec<Step> {
    vec![execute(LOADER, &[&named.alone()])]
}
