//! Calls on names and files: each is told with the path that the kernel went to, however it was asked for.

use libc::{
    AT_FDCWD, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_PATH, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
};

use crate::actor::{Act, Arg, Part, Step, act, call};
use crate::stage::Stage;

/// Nobody in particular.
const STRANGER: u32 = 65534;

fn stage(test: &str) -> Option<Stage> {
    let stage = Stage::new(&format!("file::{test}"))?;
    stage.dir("real/deep").dir("other").file("real/f", "content").link("link", "real");
    Some(stage)
}

fn openat(dir: impl Into<Arg>, path: impl Into<Arg>, flags: i32) -> Step {
    call(libc::SYS_openat, [dir.into(), path.into(), flags.into(), 0o644.into()])
}

fn chdir(path: &str) -> Step {
    call(libc::SYS_chdir, [path.into()])
}

fn dir(path: &str) -> Step {
    openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY)
}

fn kept(slot: u8) -> Arg {
    Arg::Kept(slot)
}

/// Gives up every right, for good.
fn become_a_stranger() -> [(Step, &'static str); 2] {
    let id = i64::from(STRANGER);
    [
        (call(libc::SYS_setresgid, [id.into(), id.into(), id.into()]), ""),
        (call(libc::SYS_setresuid, [id.into(), id.into(), id.into()]), ""),
    ]
}

#[test]
fn opens_tell_what_for_and_where() {
    let Some(stage) = stage("opens_tell_what_for_and_where") else { return };
    let absolute = stage.at("link/f");
    let how = |flags: i32, resolve: u64| {
        Arg::At(vec![Part::Bytes([u64::from(flags as u32), 0, resolve].map(u64::to_le_bytes).concat())])
    };
    let openat2 = |path: &str, how: Arg| call(437, [AT_FDCWD.into(), path.into(), how, 24.into()]);
    stage.check(&[
        (openat(AT_FDCWD, "real/f", O_RDONLY), "open $/real/f < real/f [read]"),
        (openat(AT_FDCWD, &absolute, O_RDWR), "open $/real/f < $/link/f [read write]"),
        (
            openat(AT_FDCWD, "link/../link/./deep/../f", O_WRONLY | O_TRUNC),
            "open $/real/f < link/../link/./deep/../f [write truncate]",
        ),
        (
            openat(AT_FDCWD, "real/new", O_WRONLY | O_CREAT | O_EXCL),
            "open $/real/new < real/new [write create]",
        ),
        (
            openat(AT_FDCWD, "real/new", O_WRONLY | O_CREAT | O_EXCL),
            "open $/real/new #lexical < real/new [write create]",
        ),
        (
            openat(AT_FDCWD, "real/new", O_WRONLY | O_CREAT | O_APPEND),
            "open $/real/new < real/new [write append]",
        ),
        (openat(AT_FDCWD, "link", O_RDONLY | O_DIRECTORY), "open $/real < link [read]"),
        (openat(AT_FDCWD, "link", O_PATH | O_NOFOLLOW), "open $/link < link path_only"),
        (openat(AT_FDCWD, "link", O_RDONLY | O_NOFOLLOW), "open $/link #lexical < link [read]"),
        (openat(AT_FDCWD, "real/none/x", O_RDONLY), "open $/real/none/x #lexical < real/none/x [read]"),
        (openat(AT_FDCWD, "real/f/x", O_RDONLY), "open $/real/f/x #lexical < real/f/x [read]"),
        (openat(AT_FDCWD, "", O_RDONLY), "open $ #lexical < '' [read]"),
        (call(libc::SYS_open, ["real/f".into(), O_RDONLY.into()]), "open $/real/f < real/f [read]"),
        (
            call(libc::SYS_creat, ["link/made".into(), 0o600.into()]),
            "open $/real/made < link/made [write create]",
        ),
        (
            call(libc::SYS_creat, ["link/made".into(), 0o600.into()]),
            "open $/real/made < link/made [write truncate]",
        ),
        (openat2("link/f", how(O_RDWR, 0)), "open $/real/f < link/f [read write]"),
        // RESOLVE_NO_SYMLINKS
        (openat2("link/f", how(O_RDWR, 4)), "open $/link/f #lexical < link/f [read write]"),
        // RESOLVE_BENEATH
        (
            openat2("/etc/passwd", how(O_RDONLY, 8)), // It is refused for where it would have led.
            "open /etc/passwd [read]",
        ),
    ]);
}

#[test]
fn a_file_without_a_name_says_so() {
    let Some(stage) = stage("a_file_without_a_name_says_so") else { return };
    stage.check(&[
        (openat(AT_FDCWD, "real/f", O_RDWR).keep(1), "open $/real/f < real/f [read write]"),
        (call(libc::SYS_unlink, ["real/f".into()]), "unlink $/real/f < real/f"),
        (call(libc::SYS_ftruncate, [kept(1), 3.into()]), "truncate $/real/f (deleted) #nameless"),
        (call(libc::SYS_fchmod, [kept(1), 0o600.into()]), "chmod $/real/f (deleted) #nameless"),
        (
            openat(AT_FDCWD, "real", O_RDWR | libc::O_TMPFILE).keep(2),
            "open $/real/#unnamed #nameless < real [read write]",
        ),
        (call(libc::SYS_memfd_create, ["m".into(), 0.into()]).keep(3), ""),
        (call(libc::SYS_ftruncate, [kept(3), 3.into()]), "truncate memfd:m #nameless"),
        (call(libc::SYS_fchmod, [kept(3), 0o600.into()]), "chmod memfd:m #nameless"),
        (
            call(
                libc::SYS_linkat,
                [kept(2), "".into(), AT_FDCWD.into(), "real/named".into(), libc::AT_EMPTY_PATH.into()],
            ),
            "link $/real/#unnamed #nameless -> $/real/named < '' << real/named",
        ),
    ]);
}

#[test]
fn a_file_by_its_handle_is_where_it_lies() {
    let Some(stage) = stage("a_file_by_its_handle_is_where_it_lies") else { return };
    let stage = stage.option(&["--keep-caps", "DAC_READ_SEARCH"]);
    stage.check(&[
        (dir("real").keep(1), "open $/real < real [read]"),
        (act(Act::Put(0, 128u32.to_le_bytes().to_vec())), ""),
        (
            call(
                libc::SYS_name_to_handle_at,
                [AT_FDCWD.into(), "link/f".into(), Arg::Desk(0), Arg::Desk(512), 0.into()],
            ),
            "",
        ),
        (
            call(libc::SYS_open_by_handle_at, [kept(1), Arg::Desk(0), O_RDWR.into()]),
            "open $/real/f [read write]",
        ),
    ]);
}

#[test]
fn paths_start_in_the_directory_of_the_descriptor() {
    let Some(stage) = stage("paths_start_in_the_directory_of_the_descriptor") else { return };
    stage.file("other/f", "");
    stage.check(&[
        (dir("link").keep(1), "open $/real < link [read]"),
        (chdir("other"), "chdir $/other < other"),
        (openat(kept(1), "f", O_RDONLY), "open $/real/f < f [read]"),
        (openat(AT_FDCWD, "f", O_RDONLY), "open $/other/f < f [read]"),
        (openat(kept(1), "../other/f", O_RDONLY), "open $/other/f < ../other/f [read]"),
        (call(libc::SYS_fchmodat, [kept(1), "f".into(), 0o600.into()]), "chmod $/real/f < f"),
        (call(libc::SYS_mkdirat, [kept(1), "d".into(), 0o755.into()]), "mkdir $/real/d < d"),
        (call(libc::SYS_unlinkat, [kept(1), "d".into(), libc::AT_REMOVEDIR.into()]), "rmdir $/real/d < d"),
        // Renamed in between: the descriptor is what counts.
        (
            call(libc::SYS_rename, ["../real".into(), "../moved".into()]),
            "rename $/real -> $/moved < ../real << ../moved",
        ),
        (openat(kept(1), "f", O_RDWR), "open $/moved/f < f [read write]"),
        (call(libc::SYS_fchmodat, [kept(1), "f".into(), 0o644.into()]), "chmod $/moved/f < f"),
        (call(libc::SYS_unlinkat, [kept(1), "none".into(), 0.into()]), "unlink $/moved/none #lexical < none"),
        (call(libc::SYS_unlinkat, [kept(1), "f".into(), 0.into()]), "unlink $/moved/f < f"),
        (call(libc::SYS_fchdir, [kept(1)]), "chdir $/moved"),
        (openat(AT_FDCWD, "deep", O_RDONLY), "open $/moved/deep < deep [read]"),
        // A directory that is gone.
        (chdir("deep"), "chdir $/moved/deep < deep"),
        (call(libc::SYS_rmdir, ["../deep".into()]), "rmdir $/moved/deep < ../deep"),
        (openat(AT_FDCWD, "x", O_WRONLY | O_CREAT), "open $/moved/deep/x #lexical < x [write create]"),
        (openat(999, "x", O_RDONLY), "open #unreadable < x [read]"),
    ]);
}

#[test]
fn another_directory_on_the_same_number_is_another_directory() {
    let Some(stage) = stage("another_directory_on_the_same_number_is_another_directory") else { return };
    stage.file("other/g", "");
    let mut script = vec![
        (dir("real").keep(1), "open $/real < real [read]"),
        (dir("other").keep(2), "open $/other < other [read]"),
    ];
    for _ in 0..200 {
        script.push((call(libc::SYS_dup2, [kept(1), 50.into()]), ""));
        script.push((openat(50, "f", O_RDONLY).keep(3), "open $/real/f < f [read]"));
        script.push((call(libc::SYS_close, [kept(3)]), ""));
        script.push((call(libc::SYS_dup2, [kept(2), 50.into()]), ""));
        script.push((call(libc::SYS_unlinkat, [50.into(), "g".into(), 0.into()]), "unlink $/other/g < g"));
        script.push((openat(50, "g", O_CREAT | O_WRONLY).keep(3), "open $/other/g < g [write create]"));
        script.push((call(libc::SYS_close, [kept(3)]), ""));
    }
    stage.check(&script);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one script, a line a call")]
fn names_are_made_and_removed_where_their_directory_lies() {
    let Some(stage) = stage("names_are_made_and_removed_where_their_directory_lies") else { return };
    stage.check(&[
        (call(libc::SYS_mkdir, ["link/d".into(), 0o755.into()]), "mkdir $/real/d < link/d"),
        (call(libc::SYS_mkdir, ["link/d/".into(), 0o755.into()]), "mkdir $/link/d #lexical < link/d/"),
        (call(libc::SYS_mkdir, ["link/e//".into(), 0o755.into()]), "mkdir $/real/e < link/e//"),
        (
            call(libc::SYS_mknod, ["link/p".into(), (libc::S_IFIFO as i32 | 0o600).into(), 0.into()]),
            "mknod $/real/p < link/p",
        ),
        (
            call(
                libc::SYS_mknodat,
                [AT_FDCWD.into(), "link/q".into(), (libc::S_IFIFO as i32 | 0o600).into(), 0.into()],
            ),
            "mknod $/real/q < link/q",
        ),
        (
            call(libc::SYS_mknod, ["link/c".into(), (libc::S_IFCHR as i32 | 0o600).into(), 259.into()]),
            "mknod $/real/c < link/c",
        ),
        (
            call(libc::SYS_symlink, ["../no where".into(), "link/s".into()]),
            "symlink $/real/s -> ../no where < link/s",
        ),
        (
            call(libc::SYS_symlinkat, ["f".into(), AT_FDCWD.into(), "link/t".into()]),
            "symlink $/real/t -> f < link/t",
        ),
        (call(libc::SYS_symlink, ["f".into(), "link/t".into()]), "symlink $/link/t #lexical -> f < link/t"),
        (
            call(libc::SYS_link, ["link/f".into(), "other/l".into()]),
            "link $/real/f -> $/other/l < link/f << other/l",
        ),
        (
            call(libc::SYS_link, ["link/t".into(), "other/t".into()]),
            "link $/real/t -> $/other/t < link/t << other/t",
        ),
        (
            call(
                libc::SYS_linkat,
                [
                    AT_FDCWD.into(),
                    "link/t".into(),
                    AT_FDCWD.into(),
                    "other/u".into(),
                    libc::AT_SYMLINK_FOLLOW.into(),
                ],
            ),
            "link $/real/f -> $/other/u < link/t << other/u",
        ),
        (
            call(libc::SYS_link, ["link/f".into(), "other/l".into()]),
            "link $/link/f #lexical -> $/other/l #lexical < link/f << other/l",
        ),
        (
            call(libc::SYS_rename, ["link/t".into(), "other/v".into()]),
            "rename $/real/t -> $/other/v < link/t << other/v",
        ),
        (
            call(libc::SYS_renameat, [AT_FDCWD.into(), "link/p".into(), AT_FDCWD.into(), "other/q".into()]),
            "rename $/real/p -> $/other/q < link/p << other/q",
        ),
        (
            call(
                libc::SYS_renameat2,
                [AT_FDCWD.into(), "real/f".into(), AT_FDCWD.into(), "other".into(), 2.into()],
            ),
            "rename $/real/f -> $/other < real/f << other exchange",
        ),
        (
            call(
                libc::SYS_renameat2,
                [AT_FDCWD.into(), "real/f".into(), AT_FDCWD.into(), "other".into(), 2.into()],
            ),
            "rename $/real/f -> $/other < real/f << other exchange",
        ),
        (
            call(
                libc::SYS_renameat2,
                [AT_FDCWD.into(), "other/l".into(), AT_FDCWD.into(), "other/u".into(), 1.into()],
            ),
            "rename $/other/l #lexical -> $/other/u #lexical < other/l << other/u",
        ),
        (
            call(libc::SYS_rename, ["real/none".into(), "other/x".into()]),
            "rename $/real/none #lexical -> $/other/x #lexical < real/none << other/x",
        ),
        // Onto a file that is there.
        (
            call(libc::SYS_rename, ["other/v".into(), "link/f".into()]),
            "rename $/other/v -> $/real/f < other/v << link/f",
        ),
        (call(libc::SYS_unlink, ["link/s".into()]), "unlink $/real/s < link/s"),
        (call(libc::SYS_unlink, ["link".into()]), "unlink $/link < link"),
        (call(libc::SYS_rmdir, ["real/d/".into()]), "rmdir $/real/d < real/d/"),
        (call(libc::SYS_rmdir, ["real".into()]), "rmdir $/real #lexical < real"),
        (
            call(libc::SYS_unlinkat, [AT_FDCWD.into(), "real/e".into(), 0.into()]),
            "unlink $/real/e #lexical < real/e",
        ),
        (
            call(libc::SYS_unlinkat, [AT_FDCWD.into(), "real/e".into(), libc::AT_REMOVEDIR.into()]),
            "rmdir $/real/e < real/e",
        ),
    ]);
}

#[test]
fn attributes_are_changed_where_the_link_leads() {
    let Some(stage) = stage("attributes_are_changed_where_the_link_leads") else { return };
    stage.link("real/l", "f");
    let nofollow = libc::AT_SYMLINK_NOFOLLOW;
    let value = || Arg::from("v");
    let xattr = || Arg::from("user.x");
    let value_at = || {
        Arg::At(vec![Part::To(vec![Part::Bytes(b"v".to_vec())]), Part::Bytes(vec![1, 0, 0, 0, 0, 0, 0, 0])])
    };
    let uid = Arg::from(0);
    stage.check(&[
        (openat(AT_FDCWD, "link/f", O_RDWR).keep(1), "open $/real/f < link/f [read write]"),
        (call(libc::SYS_chmod, ["link/l".into(), 0o600.into()]), "chmod $/real/f < link/l"),
        (call(libc::SYS_fchmod, [kept(1), 0o600.into()]), "chmod $/real/f"),
        (
            call(libc::SYS_fchmodat, [AT_FDCWD.into(), "link/l".into(), 0o600.into()]),
            "chmod $/real/f < link/l",
        ),
        (call(452, [AT_FDCWD.into(), "link/l".into(), 0o600.into(), 0.into()]), "chmod $/real/f < link/l"),
        (
            call(452, [AT_FDCWD.into(), "link/f".into(), 0o600.into(), nofollow.into()]),
            "chmod $/real/f < link/f",
        ),
        (call(452, [kept(1), "".into(), 0o600.into(), libc::AT_EMPTY_PATH.into()]), "chmod $/real/f < ''"),
        (call(libc::SYS_chmod, ["link/none".into(), 0o600.into()]), "chmod $/link/none #lexical < link/none"),
        (call(libc::SYS_chown, ["link/l".into(), uid.clone(), uid.clone()]), "chown $/real/f < link/l"),
        (call(libc::SYS_lchown, ["link/l".into(), uid.clone(), uid.clone()]), "chown $/real/l < link/l"),
        (call(libc::SYS_fchown, [kept(1), uid.clone(), uid.clone()]), "chown $/real/f"),
        (
            call(libc::SYS_fchownat, [AT_FDCWD.into(), "link/l".into(), uid.clone(), uid.clone(), 0.into()]),
            "chown $/real/f < link/l",
        ),
        (
            call(
                libc::SYS_fchownat,
                [AT_FDCWD.into(), "link/l".into(), uid.clone(), uid.clone(), nofollow.into()],
            ),
            "chown $/real/l < link/l",
        ),
        (
            call(
                libc::SYS_fchownat,
                [kept(1), "".into(), uid.clone(), uid.clone(), libc::AT_EMPTY_PATH.into()],
            ),
            "chown $/real/f < ''",
        ),
        (call(libc::SYS_utime, ["link/l".into(), 0.into()]), "utimens $/real/f < link/l"),
        (call(libc::SYS_utimes, ["link/l".into(), 0.into()]), "utimens $/real/f < link/l"),
        (
            call(libc::SYS_futimesat, [AT_FDCWD.into(), "link/l".into(), 0.into()]),
            "utimens $/real/f < link/l",
        ),
        (
            call(libc::SYS_utimensat, [AT_FDCWD.into(), "link/l".into(), 0.into(), 0.into()]),
            "utimens $/real/f < link/l",
        ),
        (
            call(libc::SYS_utimensat, [AT_FDCWD.into(), "link/l".into(), 0.into(), nofollow.into()]),
            "utimens $/real/l < link/l",
        ),
        // What futimens(3) does.
        (call(libc::SYS_utimensat, [kept(1), 0.into(), 0.into(), 0.into()]), "utimens $/real/f"),
        (
            call(libc::SYS_setxattr, ["link/l".into(), xattr(), value(), 1.into(), 0.into()]),
            "setxattr $/real/f < link/l",
        ),
        (
            call(libc::SYS_lsetxattr, ["link/l".into(), xattr(), value(), 1.into(), 0.into()]),
            "setxattr $/real/l < link/l",
        ),
        (call(libc::SYS_fsetxattr, [kept(1), xattr(), value(), 1.into(), 0.into()]), "setxattr $/real/f"),
        (call(libc::SYS_removexattr, ["link/l".into(), xattr()]), "removexattr $/real/f < link/l"),
        (call(libc::SYS_lremovexattr, ["link/f".into(), xattr()]), "removexattr $/link/f #lexical < link/f"),
        (
            call(463, [AT_FDCWD.into(), "link/l".into(), 0.into(), xattr(), value_at(), 16.into()]),
            "setxattr $/real/f < link/l",
        ),
        (call(libc::SYS_fremovexattr, [kept(1), xattr()]), "removexattr $/real/f"),
        (
            call(463, [kept(1), "".into(), libc::AT_EMPTY_PATH.into(), xattr(), value_at(), 16.into()]),
            "setxattr $/real/f < ''",
        ),
        (call(466, [AT_FDCWD.into(), "link/l".into(), 0.into(), xattr()]), "removexattr $/real/f < link/l"),
        (
            call(466, [AT_FDCWD.into(), "link/l".into(), nofollow.into(), xattr()]),
            "removexattr $/real/l < link/l",
        ),
        (call(libc::SYS_truncate, ["link/l".into(), 3.into()]), "truncate $/real/f < link/l"),
        (call(libc::SYS_ftruncate, [kept(1), 0.into()]), "truncate $/real/f"),
        (call(libc::SYS_truncate, ["link".into(), 3.into()]), "truncate $/link #lexical < link"),
    ]);
}

#[test]
fn what_is_refused_is_told_with_where_it_would_have_gone() {
    let Some(stage) = stage("what_is_refused_is_told_with_where_it_would_have_gone") else { return };
    stage
        .dir("closed/in")
        .file("closed/f", "")
        .mode("closed", 0o700)
        .mode("real/f", 0o600)
        .dir("free")
        .owner("free", STRANGER);
    stage.file("free/mine", "").owner("free/mine", STRANGER).link("to-closed", "closed");
    let mut script = become_a_stranger().to_vec();
    script.extend([
        (openat(AT_FDCWD, "link/f", O_RDONLY), "open $/real/f < link/f [read]"),
        (openat(AT_FDCWD, "to-closed/f", O_RDONLY), "open $/closed/f < to-closed/f [read]"),
        (
            openat(AT_FDCWD, "link/x", O_WRONLY | O_CREAT),
            "open $/real/x #looked-up-late < link/x [write create]",
        ),
        (call(libc::SYS_unlink, ["link/f".into()]), "unlink $/real/f < link/f"),
        (call(libc::SYS_rmdir, ["link/deep".into()]), "rmdir $/real/deep < link/deep"),
        (call(libc::SYS_mkdir, ["link/d".into(), 0o755.into()]), "mkdir $/real/d < link/d"),
        (
            call(libc::SYS_mknod, ["link/p".into(), (libc::S_IFIFO as i32).into(), 0.into()]),
            "mknod $/real/p < link/p",
        ),
        (call(libc::SYS_symlink, ["f".into(), "link/s".into()]), "symlink $/real/s -> f < link/s"),
        (
            call(libc::SYS_link, ["link/f".into(), "free/l".into()]),
            "link $/real/f -> $/free/l < link/f << free/l",
        ),
        (
            call(libc::SYS_rename, ["free/mine".into(), "link/f".into()]),
            "rename $/free/mine -> $/real/f < free/mine << link/f",
        ),
        (
            call(libc::SYS_rename, ["link/f".into(), "free/l".into()]),
            "rename $/real/f -> $/free/l < link/f << free/l",
        ),
        (call(libc::SYS_chmod, ["link/f".into(), 0o666.into()]), "chmod $/real/f < link/f"),
        (call(libc::SYS_chown, ["link/f".into(), 0.into(), 0.into()]), "chown $/real/f < link/f"),
        (
            call(libc::SYS_utimensat, [AT_FDCWD.into(), "link/f".into(), 0.into(), 0.into()]),
            "utimens $/real/f < link/f",
        ),
        (
            call(libc::SYS_setxattr, ["link/f".into(), "user.x".into(), "v".into(), 1.into(), 0.into()]),
            "setxattr $/real/f < link/f",
        ),
        (call(libc::SYS_truncate, ["link/f".into(), 3.into()]), "truncate $/real/f < link/f"),
        (chdir("to-closed"), "chdir $/closed < to-closed"),
        (call(libc::SYS_chroot, ["link".into()]), "chroot $/real < link"),
        (
            call(libc::SYS_mount, ["none".into(), "link".into(), "tmpfs".into(), 0.into(), 0.into()]),
            "mount $/real < link",
        ),
        (call(libc::SYS_umount2, ["link".into(), 0.into()]), "umount $/real < link"),
        (call(libc::SYS_pivot_root, ["link".into(), "link".into()]), "pivot_root $/link #lexical < link"),
        (openat(AT_FDCWD, "free/mine", O_RDWR), "open $/free/mine < free/mine [read write]"),
    ]);
    stage.check(&script);
}
