//! Files that were open before the run: writing to one is an effect, inheriting it is not.

use std::fs;
use std::process::Stdio;

use libc::{AT_FDCWD, O_RDONLY};

use crate::actor::{Act, Arg, Part, Step, act, call};
use crate::needs::{Need, are_met};
use crate::stage::Stage;

/// What is inherited: one file a means, numbers 20 and on, and one that is not touched.
const MEANS: [&str; 14] = [
    "write",
    "append",
    "pwrite",
    "writev",
    "pwritev",
    "pwritev2",
    "sendfile",
    "copy",
    "splice",
    "ftruncate",
    "fallocate",
    "mapped",
    "private",
    "quiet",
];

fn stage(test: &str) -> Option<Stage> {
    if !are_met(&format!("written::{test}"), &[Need::Program("bash")]) {
        return None;
    }
    let stage = Stage::new(&format!("written::{test}"))?;
    stage.file("source", "source");
    for name in MEANS {
        stage.file(name, "before");
    }
    let open = |(index, name): (usize, &&str)| {
        let how = if *name == "append" { ">>" } else { "<>" };
        format!("exec {}{how}{name}\n", 20 + index)
    };
    let script: String = MEANS.iter().enumerate().map(open).collect();
    Some(stage.before(&script))
}

fn fd(name: &str) -> Arg {
    let index = MEANS.iter().position(|known| *known == name).expect("one of the means");
    (20 + index as i64).into()
}

fn vector() -> Arg {
    Arg::At(vec![Part::To(vec![Part::Bytes(b"x".to_vec())]), Part::Word(1)])
}

fn source() -> Step {
    call(libc::SYS_openat, [AT_FDCWD.into(), "source".into(), O_RDONLY.into(), 0.into()]).keep(1)
}

#[test]
fn writes_are_told_once_a_file_however_they_are_made() {
    let Some(stage) = stage("writes_are_told_once_a_file_however_they_are_made") else { return };
    let slot = |name: &str| call(libc::SYS_dup, [fd(name)]).keep(9);
    let map = |shared: bool| act(Act::Map { fd: 9, shared });
    let played = stage.check(&[
        (call(libc::SYS_write, [fd("write"), "x".into(), 1.into()]), "write $/write"),
        (call(libc::SYS_write, [fd("write"), "x".into(), 1.into()]), ""),
        (call(libc::SYS_write, [fd("append"), "x".into(), 1.into()]), "write $/append"),
        (call(libc::SYS_pwrite64, [fd("pwrite"), "x".into(), 1.into(), 0.into()]), "write $/pwrite"),
        (call(libc::SYS_writev, [fd("writev"), vector(), 1.into()]), "write $/writev"),
        (call(libc::SYS_pwritev, [fd("pwritev"), vector(), 1.into(), 0.into(), 0.into()]), "write $/pwritev"),
        (
            call(libc::SYS_pwritev2, [fd("pwritev2"), vector(), 1.into(), 0.into(), 0.into(), 0.into()]),
            "write $/pwritev2",
        ),
        (source(), "open $/source < source [read]"),
        (call(libc::SYS_sendfile, [fd("sendfile"), Arg::Kept(1), 0.into(), 3.into()]), "write $/sendfile"),
        (
            call(
                libc::SYS_copy_file_range,
                [Arg::Kept(1), 0.into(), fd("copy"), 0.into(), 3.into(), 0.into()],
            ),
            "write $/copy",
        ),
        (call(libc::SYS_pipe2, [Arg::Desk(0), 0.into()]), ""),
        (act(Act::Take(0)).keep(2), ""),
        (act(Act::Take(4)).keep(3), ""),
        (call(libc::SYS_write, [Arg::Kept(3), "x".into(), 1.into()]), ""),
        (
            call(libc::SYS_splice, [Arg::Kept(2), 0.into(), fd("splice"), 0.into(), 1.into(), 0.into()]),
            "write $/splice",
        ),
        (call(libc::SYS_ftruncate, [fd("ftruncate"), 1.into()]), "truncate $/ftruncate"),
        (call(libc::SYS_fallocate, [fd("fallocate"), 0.into(), 0.into(), 64.into()]), "write $/fallocate"),
        (slot("mapped"), ""),
        (map(true), "write $/mapped"),
        (slot("private"), ""),
        (map(false), ""),
    ]);
    let effects = played.evidence["identity"]["effects"]["fs"].as_array().expect("a list").clone();
    let written: Vec<&str> = effects
        .iter()
        .filter(|effect| effect["op"] == "write")
        .filter_map(|effect| effect["path"].as_str()?.strip_prefix("${WORKDIR}/"))
        .collect();
    let mut expected = MEANS[..12].to_vec();
    expected.sort_unstable();
    assert_eq!(written, expected);
    assert_eq!(fs::read_to_string(stage.path("quiet")).expect("the file"), "before");
}

#[test]
fn output_into_a_file_of_the_caller_is_an_effect() {
    let Some(stage) = stage("output_into_a_file_of_the_caller_is_an_effect") else { return };
    let mut assay = stage.command(&["/bin/sh", "-c", "echo told; /bin/echo told again"]);
    let log = fs::File::create(stage.path("log")).expect("a file");
    // `finish` would take the output for itself.
    assay.stdout(log).stderr(Stdio::null());
    assert_eq!(assay.status().expect("assay").code(), Some(0));
    assert_eq!(fs::read_to_string(stage.path("log")).expect("the log"), "told\ntold again\n");
    let trace = fs::read_to_string(stage.artifact("trace")).expect("a trace");
    let lines: Vec<&str> = trace.lines().filter(|line| line.contains("\"op\":\"write\"")).collect();
    assert_eq!(lines.len(), 1, "{trace}");
    assert!(lines[0].contains(&stage.at("log")), "{trace}");
}

#[test]
fn a_file_that_is_only_inherited_is_no_effect() {
    let Some(stage) = stage("a_file_that_is_only_inherited_is_no_effect") else { return };
    let played = stage.run(&["/bin/true"]);
    let effects = played.evidence["identity"]["effects"]["fs"].to_string();
    assert!(!effects.contains("write") && !effects.contains("quiet"), "{effects}");
    stage.check_coverage(&played);
}
