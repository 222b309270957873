//! The places, the targets with their rules, and the acts; and which of them passes.

/// Where a run takes place. The scripts run in the scene's folder, in a mount namespace of their own.
pub struct Place {
    pub name: &'static str,
    /// Makes the folder that is to be filled, and `home`.
    pub before: &'static str,
    /// The folder that is filled; empty for the work directory.
    pub filled: &'static str,
    /// What is done when it is.
    pub after: &'static str,
    /// The work directory.
    pub workdir: &'static [u8],
    /// What `HOME` is.
    pub home: &'static str,
    /// What `TMPDIR` is, where `/tmp` would not do.
    pub tmpdir: Option<&'static str>,
    /// Another folder by which the same files are reached, and which is as open as the work directory.
    pub other: Option<&'static str>,
    /// Whether names that are not there can be held here.
    pub holds_missing: bool,
}

pub const DIRECTORY: Place = Place {
    name: "a directory",
    before: "mkdir w home",
    filled: "w",
    after: "",
    workdir: b"w",
    home: "home",
    tmpdir: None,
    other: None,
    holds_missing: true,
};

pub const PLACES: &[Place] = &[
    DIRECTORY,
    Place { name: "tmpfs", before: "mkdir w home; mount -t tmpfs none w", holds_missing: false, ..DIRECTORY },
    Place {
        name: "tmpfs with a place for temporary files",
        before: "mkdir t home; mount -t tmpfs none t; mkdir t/w t/tmp",
        filled: "t/w",
        workdir: b"t/w",
        tmpdir: Some("t/tmp"),
        ..DIRECTORY
    },
    Place {
        name: "tmpfs with a place for temporary files in the work directory",
        before: "mkdir w home; mount -t tmpfs none w; mkdir w/tmp",
        tmpdir: Some("w/tmp"),
        holds_missing: false,
        ..DIRECTORY
    },
    Place {
        name: "a directory with a place for temporary files in it",
        before: "mkdir w home w/tmp",
        tmpdir: Some("w/tmp"),
        ..DIRECTORY
    },
    Place {
        name: "an overlay whose files are beneath",
        before: "mkdir lower upper work w home",
        filled: "lower",
        after: "mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none w",
        holds_missing: false,
        ..DIRECTORY
    },
    Place {
        name: "an overlay whose files are above",
        before: "mkdir lower upper work w home; mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none w",
        holds_missing: false,
        ..DIRECTORY
    },
    Place {
        name: "an overlay with a place for temporary files",
        before: "mkdir lower upper work m home; mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none m; mkdir m/w m/tmp",
        filled: "m/w",
        workdir: b"m/w",
        tmpdir: Some("m/tmp"),
        holds_missing: false,
        ..DIRECTORY
    },
    Place {
        name: "a bind mount",
        before: "mkdir real w home",
        filled: "real",
        after: "mount --bind real w",
        other: Some("real"),
        holds_missing: false,
        ..DIRECTORY
    },
    Place {
        name: "a bind mount of its own tree",
        before: "mkdir w home",
        after: "mount --bind w w",
        holds_missing: false,
        ..DIRECTORY
    },
    Place {
        name: "a link",
        before: "mkdir real home; ln -s real w",
        filled: "real",
        other: Some("real"),
        ..DIRECTORY
    },
    Place { name: "a home that is a link", before: "mkdir w real-home; ln -s real-home home", ..DIRECTORY },
    Place {
        name: "a home that is reached by a link",
        before: "mkdir -p w users/me; ln -s users people",
        home: "people/me",
        ..DIRECTORY
    },
    Place { name: "a home on tmpfs", before: "mkdir w home; mount -t tmpfs none home", ..DIRECTORY },
    Place {
        name: "names that are not UTF-8",
        before: "mkdir \"$(printf 'w\\377\\376')\" \"$(printf 'h\\351')\"; ln -s \"$(printf 'h\\351')\" home",
        filled: "",
        workdir: b"w\xff\xfe",
        ..DIRECTORY
    },
];

/// What a rule does to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Open,
    DenyAll,
    DenyRead,
    DenyWrite,
    /// What lies in it now, and not the directory itself.
    DenyInside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    File,
    Directory,
    Missing,
}

use Rule::{DenyAll, DenyInside, DenyRead, DenyWrite, Open};
use Shape::{Directory, File, Missing};

/// A target: its name, which stands for itself in the rules, and how the rule spells it.
pub struct Target {
    pub rule: Rule,
    pub shape: Shape,
    /// `~` for one in the home.
    pub beneath: &'static str,
    pub spelled: &'static str,
}

const fn target(rule: Rule, shape: Shape, spelled: &'static str) -> Target {
    Target { rule, shape, beneath: "", spelled }
}

const fn at_home(rule: Rule, shape: Shape, spelled: &'static str) -> Target {
    Target { rule, shape, beneath: "~", spelled }
}

/// `@` is the target's name and `%` its beginning, `ROOT` the scene's folder, `WORK` the way from
/// there to the work directory and `LAST` the name of that.
pub const TARGETS: &[Target] = &[
    target(Open, File, ""),
    target(Open, Directory, ""),
    target(DenyAll, File, "@"),
    target(DenyAll, File, "./@"),
    target(DenyAll, File, "@/"),
    target(DenyAll, File, "${WORKDIR}//@"),
    target(DenyAll, File, "${WORKDIR}/./mine/../@"),
    target(DenyAll, File, "../LAST/@"),
    target(DenyAll, File, "ROOT/WORK/@"),
    target(DenyAll, File, "ROOT/elsewhere/../WORK/@"),
    target(DenyAll, File, "ROOT/way/WORK/@"),
    target(DenyAll, File, "ROOT/away/back/@"),
    target(DenyAll, File, "mine/out/../WORK/@"),
    target(DenyAll, File, "%\\x45"),
    target(DenyAll, File, "**/@"),
    target(DenyAll, File, "*@"),
    target(DenyAll, Directory, "@"),
    target(DenyAll, Directory, "@/"),
    target(DenyInside, Directory, "@/**"),
    target(DenyAll, Directory, "ROOT/way/WORK/@/"),
    target(DenyAll, Directory, "**/@/"),
    target(DenyRead, File, "@"),
    target(DenyRead, Directory, "@"),
    target(DenyWrite, File, "@"),
    target(DenyWrite, File, "./@/"),
    target(DenyWrite, File, "mine/out/../WORK/@"),
    target(DenyWrite, File, "ROOT/way/WORK/@"),
    target(DenyWrite, File, "**/@"),
    target(DenyWrite, Directory, "@"),
    target(DenyWrite, Directory, "${WORKDIR}/mine/../@/"),
    target(DenyWrite, Directory, "**/@/"),
    at_home(Open, File, ""),
    at_home(DenyAll, File, "~/open/@"),
    at_home(DenyAll, File, "${HOME}/open/@"),
    at_home(DenyAll, File, "~/open/x/../@"),
    at_home(DenyAll, File, "~/open/**/@"),
    at_home(DenyAll, Directory, "~/open/@/"),
    at_home(DenyWrite, File, "${HOME}//open/@"),
    at_home(DenyWrite, File, "~/open/%*"),
    at_home(DenyWrite, Directory, "~/open/@"),
];

/// Names that are not there.
pub const MISSING: &[Target] = &[
    target(Open, Missing, ""),
    target(DenyAll, Missing, "@"),
    target(DenyAll, Missing, "./@/"),
    target(DenyAll, Missing, "ROOT/way/WORK/@"),
    target(DenyAll, Missing, "mine/out/../WORK/@"),
    target(DenyWrite, Missing, "${WORKDIR}/mine/../@"),
    target(DenyWrite, Missing, "@/"),
];

/// An act on `$f`, with `$m` for a folder of one's own beside it, and whether it may be done where only reading is.
pub struct Act {
    pub name: &'static str,
    pub shape: Shape,
    pub script: &'static str,
    pub only_reads: bool,
}

const fn act(name: &'static str, shape: Shape, script: &'static str) -> Act {
    Act { name, shape, script, only_reads: false }
}

const fn look(name: &'static str, shape: Shape, script: &'static str) -> Act {
    Act { name, shape, script, only_reads: true }
}

/// What passes leaves things as they were.
pub const ACTS: &[Act] = &[
    look("read", File, "grep secret $f"),
    act("append", File, "echo more >> $f && echo secret > $f"),
    act("truncate", File, "echo secret > $f"),
    act("mode", File, "chmod 600 $f"),
    act("link", File, "ln $f $m/linked && cat $m/linked && rm $m/linked"),
    act("move onto", File, "echo secret > $m/own && mv $m/own $f"),
    act("move", File, "mv $f $m/moved && mv $m/moved $f"),
    act("remove", File, "rm $f && test ! -e $f && echo secret > $f"),
    look("list", Directory, "test \"$(ls $f)\" = in"),
    look("read in", Directory, "grep secret $f/in"),
    act("write in", Directory, "echo secret > $f/in"),
    act("make in", Directory, "echo x > $f/new && rm $f/new"),
    act("remove in", Directory, "rm $f/in && echo secret > $f/in"),
    act("move", Directory, "mv $f $m/moved && mv $m/moved $f"),
    act("move onto", Directory, "mkdir $m/own && mv $f $m/was && mv $m/own $f && rmdir $f && mv $m/was $f"),
    act("make", Missing, "echo x > $f && rm $f"),
    act("make directory", Missing, "mkdir $f && rmdir $f"),
    act("make link", Missing, "ln -s x $f && rm $f"),
    act("move onto", Missing, "echo x > $m/own && mv $m/own $f && rm $f"),
    act("link onto", Missing, "echo x > $m/own && ln $m/own $f && rm $f $m/own"),
];

impl Rule {
    /// The accesses that it denies.
    pub fn denied(self) -> Option<&'static str> {
        match self {
            Open => None,
            DenyAll | DenyInside => Some("[read, write, execute]"),
            DenyRead => Some("[read]"),
            DenyWrite => Some("[write]"),
        }
    }
}

impl Act {
    pub fn may(&self, rule: Rule) -> bool {
        match rule {
            Open => true,
            // What may not be read cannot be held apart from what may not be written.
            DenyAll | DenyRead => false,
            DenyWrite => self.only_reads,
            // A later name is a degradation.
            DenyInside => matches!(self.name, "list" | "make in"),
        }
    }
}
