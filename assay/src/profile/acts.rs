//! From act to effect, and the access it needs: one table of data, and the one question asked of it. Pure.
//!
//! [`TABLE`] is the table of the contract; the canonicaliser, the policy check and the documentation read this one.
//! An act that stands in no row has no effect: it is in the trace, and nowhere else.

use crate::observe::observation::{Access, CallResult, FileAct, FileKind, FileOp, NetOp, PairOp};

use super::effect::{EffectResult, FsOp, NetEffectOp};

/// The authority an effect needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// The `read` access of a path.
    Read,
    /// The `write` access of a path.
    Write,
    /// The `execute` access of a path.
    Execute,
    /// A rule of `net`.
    NetRule,
    /// What the base grants (netlink route), or nothing at all (other families).
    Base,
    /// Nothing grants it.
    Never,
}

/// What an effect is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectKind {
    /// On files.
    Fs(FsOp),
    /// A program start.
    Exec,
    /// On sockets.
    Net(NetEffectOp),
}

/// Which name of a two-name act an effect or a need is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// `path`.
    Path,
    /// `to`.
    To,
}

/// One row: this kind of act has this effect, which needs this at `path` and at `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The kind of act.
    pub act: ActClass,
    /// What it is called in the identity.
    pub effect: EffectKind,
    /// What it needs at `path` (or of the endpoint, or of the program).
    pub path: &'static [Need],
    /// What it needs at `to`, for acts with two names.
    pub to: &'static [Need],
}

/// The kinds of acts that have an effect. One act can be of several: `O_RDWR` is a read and a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActClass {
    /// open of anything but a directory, for reading.
    OpenRead,
    /// open of something that was there, for writing or with `O_TRUNC`.
    OpenWrite,
    /// open that made the file.
    OpenCreate,
    /// open of a directory for reading.
    OpenList,
    /// truncate, ftruncate, fallocate.
    Truncate,
    /// A write through a descriptor that was open before the run.
    InheritedWrite,
    /// mkdir.
    Mkdir,
    /// mknod.
    Mknod,
    /// bind of a UNIX socket to a path: the name it makes.
    BindPath,
    /// unlink, rmdir.
    Delete,
    /// rename; an exchange is two.
    Rename,
    /// A hard link.
    Link,
    /// A symbolic link.
    Symlink,
    /// chmod, chown, utimens, xattr.
    Attr,
    /// mount, umount, `pivot_root`, `move_mount`.
    Mount,
    /// The start of a program, a script or a script's interpreter.
    Exec,
    /// connect.
    Connect,
    /// bind to an address (of a UNIX socket: beside [`ActClass::BindPath`]).
    Bind,
    /// listen.
    Listen,
    /// An unconnected send to an address.
    Send,
    /// A socket of a family that is told by `proto` alone.
    OtherFamily,
}

const READ: &[Need] = &[Need::Read];
const WRITE: &[Need] = &[Need::Write];
const NONE: &[Need] = &[];

const fn fs(act: ActClass, op: FsOp, path: &'static [Need], to: &'static [Need]) -> Row {
    Row { act, effect: EffectKind::Fs(op), path, to }
}

const fn net(act: ActClass, op: NetEffectOp, need: &'static [Need]) -> Row {
    Row { act, effect: EffectKind::Net(op), path: need, to: NONE }
}

/// The table.
pub const TABLE: &[Row] = &[
    fs(ActClass::OpenRead, FsOp::Read, READ, NONE),
    fs(ActClass::OpenWrite, FsOp::Write, WRITE, NONE),
    fs(ActClass::Truncate, FsOp::Write, WRITE, NONE),
    fs(ActClass::InheritedWrite, FsOp::Write, WRITE, NONE),
    fs(ActClass::OpenCreate, FsOp::Create, WRITE, NONE),
    fs(ActClass::Mkdir, FsOp::Create, WRITE, NONE),
    fs(ActClass::Mknod, FsOp::Create, WRITE, NONE),
    fs(ActClass::BindPath, FsOp::Create, WRITE, NONE),
    fs(ActClass::OpenList, FsOp::List, READ, NONE),
    fs(ActClass::Delete, FsOp::Delete, WRITE, NONE),
    fs(ActClass::Rename, FsOp::Rename, WRITE, WRITE),
    fs(ActClass::Link, FsOp::Link, &[Need::Read, Need::Write], WRITE),
    // `to` is the link's text: it is not followed by making the link.
    fs(ActClass::Symlink, FsOp::Symlink, WRITE, NONE),
    fs(ActClass::Attr, FsOp::Attr, WRITE, NONE),
    fs(ActClass::Mount, FsOp::Mount, &[Need::Never], NONE),
    Row { act: ActClass::Exec, effect: EffectKind::Exec, path: &[Need::Execute], to: NONE },
    net(ActClass::Connect, NetEffectOp::Connect, &[Need::NetRule]),
    net(ActClass::Bind, NetEffectOp::Bind, &[Need::NetRule]),
    net(ActClass::Listen, NetEffectOp::Listen, &[Need::NetRule]),
    net(ActClass::Send, NetEffectOp::Send, &[Need::NetRule]),
    net(ActClass::OtherFamily, NetEffectOp::Use, &[Need::Base]),
];

/// The row of `class`.
pub fn row(class: ActClass) -> &'static Row {
    TABLE.iter().find(|row| row.act == class).expect("every class has a row, which a test holds")
}

/// What an effect of this kind needs at `side`. Every row with one effect agrees, which a test holds.
pub fn needs(effect: EffectKind, side: Side) -> &'static [Need] {
    TABLE.iter().find(|row| row.effect == effect).map_or(NONE, |row| match side {
        Side::Path => row.path,
        Side::To => row.to,
    })
}

/// The classes of an act on one file. None: it has no effect.
///
/// An open that made the file is a create; `O_RDWR` adds the read it asked for, as for a file that was there. Its
/// write and truncation are part of the create.
pub fn classes_of_file(act: &FileAct) -> Classes {
    let mut classes = Classes::default();
    match act.op {
        FileOp::Open | FileOp::Receive => {
            let asks = |access| act.access.contains(&access);
            if act.is_path_only {
                return classes;
            }
            if asks(Access::Read) {
                classes.push(if act.kind == FileKind::Directory {
                    ActClass::OpenList
                } else {
                    ActClass::OpenRead
                });
            }
            if asks(Access::Create) {
                classes.push(ActClass::OpenCreate);
            } else if asks(Access::Write) || asks(Access::Truncate) || asks(Access::Append) {
                classes.push(ActClass::OpenWrite);
            }
        }
        FileOp::Unlink | FileOp::Rmdir => classes.push(ActClass::Delete),
        FileOp::Mkdir => classes.push(ActClass::Mkdir),
        FileOp::Mknod => classes.push(ActClass::Mknod),
        FileOp::Truncate => classes.push(ActClass::Truncate),
        FileOp::Chmod | FileOp::Chown | FileOp::Utime | FileOp::Setxattr | FileOp::Removexattr => {
            classes.push(ActClass::Attr);
        }
        FileOp::Mount | FileOp::Umount | FileOp::PivotRoot => classes.push(ActClass::Mount),
        FileOp::Write => classes.push(ActClass::InheritedWrite),
        FileOp::Chdir | FileOp::Chroot => {}
    }
    classes
}

/// The class of an act on two names.
pub fn class_of_pair(op: PairOp) -> ActClass {
    match op {
        PairOp::Rename => ActClass::Rename,
        PairOp::Link => ActClass::Link,
        PairOp::Symlink => ActClass::Symlink,
    }
}

/// The class of an act on a socket.
pub fn class_of_net(op: NetOp) -> ActClass {
    match op {
        NetOp::Connect => ActClass::Connect,
        NetOp::Bind => ActClass::Bind,
        NetOp::Listen => ActClass::Listen,
        NetOp::Send => ActClass::Send,
        NetOp::Socket => ActClass::OtherFamily,
    }
}

/// At most two classes, without allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Classes([Option<ActClass>; 2]);

impl Classes {
    fn push(&mut self, class: ActClass) {
        let free = self.0.iter_mut().find(|slot| slot.is_none());
        *free.expect("an open is at most a read and a write") = Some(class);
    }

    /// The classes.
    pub fn iter(self) -> impl Iterator<Item = ActClass> {
        self.0.into_iter().flatten()
    }
}

/// How an act counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It has this effect.
    Effect(EffectResult),
    /// It failed for a reason that is nobody's refusal: in the trace and the counters only.
    Failed(i32),
}

pub(super) const EPERM: i32 = 1;
const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
pub(super) const EACCES: i32 = 13;
const EROFS: i32 = 30;
pub(super) const ENETDOWN: i32 = 100;
pub(super) const ENETUNREACH: i32 = 101;
const ENETRESET: i32 = 102;
const ECONNRESET: i32 = 104;
const ETIMEDOUT: i32 = 110;
pub(super) const ECONNREFUSED: i32 = 111;
const EHOSTDOWN: i32 = 112;
const EHOSTUNREACH: i32 = 113;
pub(super) const EALREADY: i32 = 114;
pub(super) const EINPROGRESS: i32 = 115;
// The kernel's own: a call that a signal interrupted and that goes on or is made again.
const ERESTART: std::ops::RangeInclusive<i32> = 512..=516;

/// How an act with this result counts, before what the sandbox itself put in the way is asked about.
pub fn ending(class: ActClass, result: CallResult) -> Ending {
    match result {
        CallResult::Ok => Ending::Effect(EffectResult::Ok),
        CallResult::Errno(EACCES | EPERM | EROFS) => Ending::Effect(EffectResult::Denied),
        CallResult::Errno(errno) if was_done(class, errno) => Ending::Effect(EffectResult::Ok),
        CallResult::Errno(errno) => Ending::Failed(errno),
    }
}

/// A connection or send that is under way, or that the peer or the way to it refused, was made.
fn was_done(class: ActClass, errno: i32) -> bool {
    let is_connect = class == ActClass::Connect;
    let is_send = class == ActClass::Send;
    (is_connect || is_send) && is_of_the_way(errno) || is_connect && is_under_way(errno)
}

/// Whether the peer, or the way to it, answered a socket call so.
pub(super) fn is_of_the_way(errno: i32) -> bool {
    matches!(
        errno,
        ENETDOWN | ENETUNREACH | ENETRESET | ECONNRESET | ETIMEDOUT | ECONNREFUSED | EHOSTDOWN | EHOSTUNREACH
    )
}

/// Whether a `connect` that ends so goes on.
pub(super) fn is_under_way(errno: i32) -> bool {
    matches!(errno, EINPROGRESS | EALREADY | EAGAIN | EINTR) || ERESTART.contains(&errno)
}

/// The result of an effect of this class, when the act's call ended like this; `None` when it has none.
pub fn effect_result(class: ActClass, result: CallResult) -> Option<EffectResult> {
    match ending(class, result) {
        Ending::Effect(result) => Some(result),
        Ending::Failed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::observe::observation::PathRef;

    fn open(access: &[Access], kind: FileKind) -> Vec<ActClass> {
        let act = FileAct {
            op: FileOp::Open,
            path: PathRef::resolved("/x"),
            requested: None,
            access: access.iter().copied().collect(),
            kind,
            is_path_only: false,
            is_private: false,
        };
        classes_of_file(&act).iter().collect()
    }

    #[test]
    fn every_class_has_one_row_and_equal_effects_need_the_same() {
        let classes: BTreeSet<_> = TABLE.iter().map(|row| row.act).collect();
        assert_eq!(classes.len(), TABLE.len());
        assert_eq!(TABLE.len(), ActClass::OtherFamily as usize + 1);
        for row in TABLE {
            assert_eq!(needs(row.effect, Side::Path), row.path, "{row:?}");
            assert_eq!(needs(row.effect, Side::To), row.to, "{row:?}");
        }
        for op in FsOp::ALL {
            assert!(!needs(EffectKind::Fs(op), Side::Path).is_empty(), "{op:?}");
        }
    }

    #[test]
    fn opens_are_told_by_what_they_asked_for() {
        use Access::{Append, Create, Execute, Read, Truncate, Write};
        let file = FileKind::Regular;
        assert_eq!(open(&[Read], file), [ActClass::OpenRead]);
        assert_eq!(open(&[Read], FileKind::Directory), [ActClass::OpenList]);
        assert_eq!(open(&[Write], file), [ActClass::OpenWrite]);
        assert_eq!(open(&[Read, Truncate], file), [ActClass::OpenRead, ActClass::OpenWrite]);
        assert_eq!(open(&[Read, Write, Append], file), [ActClass::OpenRead, ActClass::OpenWrite]);
        assert_eq!(open(&[Write, Create, Truncate], file), [ActClass::OpenCreate]);
        assert_eq!(open(&[Read, Write, Create], file), [ActClass::OpenRead, ActClass::OpenCreate]);
        assert_eq!(open(&[Execute], file), []);
        assert_eq!(open(&[], file), []);
    }

    #[test]
    fn refusals_are_denied_and_connections_under_way_were_made() {
        let check = |class, errno, want| {
            assert_eq!(ending(class, CallResult::Errno(errno)), want, "{class:?} {errno}");
        };
        for errno in [EACCES, EPERM, EROFS] {
            check(ActClass::OpenRead, errno, Ending::Effect(EffectResult::Denied));
            check(ActClass::Connect, errno, Ending::Effect(EffectResult::Denied));
            check(ActClass::Exec, errno, Ending::Effect(EffectResult::Denied));
        }
        for errno in [EINPROGRESS, ECONNREFUSED, ENETUNREACH, ETIMEDOUT, EINTR, EHOSTUNREACH, 512, 516] {
            check(ActClass::Connect, errno, Ending::Effect(EffectResult::Ok));
            check(ActClass::OpenRead, errno, Ending::Failed(errno));
        }
        check(ActClass::Send, ECONNREFUSED, Ending::Effect(EffectResult::Ok));
        check(ActClass::Send, EAGAIN, Ending::Failed(EAGAIN));
        check(ActClass::Bind, 98, Ending::Failed(98));
        check(ActClass::OpenRead, 2, Ending::Failed(2));
    }
}
