//! Programs: by name, by descriptor, without a name, by a script; and those that do not start.

use std::process::Command;

use libc::{AT_EMPTY_PATH, AT_FDCWD, O_CLOEXEC, O_PATH, O_RDONLY};

use crate::actor::{Act, Arg, Part, Step, act, call};
use crate::needs::{Need, are_met};
use crate::stage::{Stage, tiny_program};

fn stage(test: &str) -> Option<Stage> {
    let stage = Stage::new(&format!("exec::{test}"))?;
    stage.dir("bin").dir("other").program("bin/tiny").link("link", "bin").link("bin/alias", "tiny");
    Some(stage)
}

/// One argument, `name`.
fn argv(name: &str) -> Arg {
    let text = [name.as_bytes(), b"\0"].concat();
    Arg::At(vec![Part::To(vec![Part::Bytes(text)]), Part::Word(0)])
}

fn execve(path: &str) -> Step {
    call(libc::SYS_execve, [path.into(), argv("tiny"), 0.into()])
}

fn execveat(dir: impl Into<Arg>, path: &str, flags: i32) -> Step {
    call(libc::SYS_execveat, [dir.into(), path.into(), argv("tiny"), 0.into(), flags.into()])
}

/// In a process of its own.
fn forked(step: Step) -> Step {
    act(Act::Fork(vec![step]))
}

fn open(path: &str, flags: i32) -> Step {
    call(libc::SYS_openat, [AT_FDCWD.into(), path.into(), flags.into(), 0.into()])
}

#[test]
fn programs_are_told_by_the_file_that_was_started() {
    let Some(stage) = stage("programs_are_told_by_the_file_that_was_started") else { return };
    let played = stage.check(&[
        (forked(execve("bin/tiny")), "exec $/bin/tiny < bin/tiny = ok"),
        (forked(execve("link/../other/../link/alias")), "exec $/bin/tiny < link/../other/../link/alias = ok"),
        (open("link", O_PATH | O_CLOEXEC).keep(1), "open $/bin < link path_only"),
        (call(libc::SYS_dup2, [Arg::Kept(1), 70.into()]), ""),
        (call(libc::SYS_chdir, ["other".into()]), "chdir $/other < other"),
        // The kernel itself writes so what `execveat` was given.
        (forked(execveat(70, "tiny", 0)), "exec $/bin/tiny < /dev/fd/70/tiny = ok"),
        (
            forked(execveat(Arg::Kept(1), "alias", libc::AT_SYMLINK_NOFOLLOW)),
            "exec $/bin/alias #lexical < alias = ELOOP",
        ),
        (open("../bin/tiny", O_PATH | O_CLOEXEC).keep(2), "open $/bin/tiny < ../bin/tiny path_only"),
        (call(libc::SYS_dup2, [Arg::Kept(2), 71.into()]), ""),
        (forked(execveat(71, "", AT_EMPTY_PATH)), "exec $/bin/tiny < /dev/fd/71 = ok"),
        (call(libc::SYS_dup2, [Arg::Kept(2), 60.into()]), ""),
        (forked(execve("/proc/self/fd/60")), "exec $/bin/tiny < /proc/self/fd/60 = ok"),
        // Renamed while the descriptor was open.
        (
            call(libc::SYS_rename, ["../bin/tiny".into(), "../bin/moved".into()]),
            "rename $/bin/tiny -> $/bin/moved < ../bin/tiny << ../bin/moved",
        ),
        (forked(execveat(71, "", AT_EMPTY_PATH)), "exec $/bin/moved < /dev/fd/71 = ok"),
    ]);
    let effects = played.evidence["identity"]["effects"]["exec"].to_string();
    assert!(effects.contains("bin/moved") && !effects.contains("\"path\":\"\""), "{effects}");
}

#[test]
fn an_image_without_a_name_is_told_as_one() {
    let Some(stage) = stage("an_image_without_a_name_is_told_as_one") else { return };
    let image = Arg::At(vec![Part::Bytes(tiny_program())]);
    let length = tiny_program().len() as i64;
    stage.check(&[
        (call(libc::SYS_memfd_create, ["image".into(), 0.into()]).keep(1), ""),
        (call(libc::SYS_write, [Arg::Kept(1), image, length.into()]), ""),
        (call(libc::SYS_dup2, [Arg::Kept(1), 61.into()]), ""),
        (forked(execveat(61, "", AT_EMPTY_PATH)), "exec memfd:image #nameless < /dev/fd/61 = ok"),
        (forked(execve("/proc/self/fd/61")), "exec memfd:image #nameless < /proc/self/fd/61 = ok"),
        (open("bin/tiny", O_RDONLY).keep(2), "open $/bin/tiny < bin/tiny [read]"),
        (call(libc::SYS_dup2, [Arg::Kept(2), 71.into()]), ""),
        (call(libc::SYS_unlink, ["bin/tiny".into()]), "unlink $/bin/tiny < bin/tiny"),
        (forked(execveat(71, "", AT_EMPTY_PATH)), "exec $/bin/tiny (deleted) #nameless < /dev/fd/71 = ok"),
    ]);
}

#[test]
fn a_script_is_told_with_its_interpreter() {
    let Some(stage) = stage("a_script_is_told_with_its_interpreter") else { return };
    let head = format!("#!{} one two\n", stage.at("link/alias"));
    stage.file("script", &head).mode("script", 0o755).link("other/to-script", "../script");
    let relative = "#!bin/alias\n";
    stage.file("relative", relative).mode("relative", 0o755);
    let played = stage.check(&[
        (forked(execve("script")), "exec $/script < script by $/bin/tiny = ok"),
        (forked(execve("other/to-script")), "exec $/script < other/to-script by $/bin/tiny = ok"),
        (forked(execve("relative")), "exec $/relative < relative by $/bin/tiny = ok"),
        (open("script", O_RDONLY).keep(1), "open $/script < script [read]"),
        (call(libc::SYS_dup2, [Arg::Kept(1), 62.into()]), ""),
        (forked(execve("/proc/self/fd/62")), "exec $/script < /proc/self/fd/62 by $/bin/tiny = ok"),
        (forked(execveat(62, "", AT_EMPTY_PATH)), "exec $/script < /dev/fd/62 by $/bin/tiny = ok"),
    ]);
    // Two effects: the script and what ran it.
    let effects = played.evidence["identity"]["effects"]["exec"].to_string();
    assert!(effects.contains("${WORKDIR}/script") && effects.contains("${WORKDIR}/bin/tiny"), "{effects}");
}

#[test]
fn a_script_run_by_a_script_names_every_interpreter() {
    let Some(stage) = stage("a_script_run_by_a_script_names_every_interpreter") else { return };
    stage.file("inner", &format!("#!{}\n", stage.at("bin/tiny"))).mode("inner", 0o755);
    stage.file("outer", &format!("#!{}\n", stage.at("inner"))).mode("outer", 0o755);
    let played = stage.play(&[forked(execve("outer"))]);
    let effects = played.evidence["identity"]["effects"]["exec"].to_string();
    for name in ["outer", "inner", "bin/tiny"] {
        let is_told = effects.contains(&format!("${{WORKDIR}}/{name}\""));
        assert!(is_told || played.evidence["coverage"]["exec"] == "partial", "{name}: {effects}");
    }
}

#[test]
fn what_does_not_start_is_no_program_that_ran() {
    let Some(stage) = stage("what_does_not_start_is_no_program_that_ran") else { return };
    stage.file("plain", "true\n").mode("plain", 0o755).file("closed", "").mode("closed", 0o644);
    stage.file("lost", "#!/no/such/interpreter\n").mode("lost", 0o755);
    let played = stage.check(&[
        (forked(execve("bin/none")), "exec $/bin/none #lexical < bin/none = ENOENT"),
        (forked(execve("plain")), "exec $/plain #lexical < plain = ENOEXEC"),
        (forked(execve("closed")), "exec $/closed < closed = EACCES"),
        (forked(execve("bin")), "exec $/bin < bin = EACCES"),
        (forked(execve("lost")), "exec $/lost #lexical < lost = ENOENT"),
        (forked(execve("plain/x")), "exec $/plain/x #lexical < plain/x = ENOTDIR"),
    ]);
    let effects = &played.evidence["identity"]["effects"]["exec"];
    let names: Vec<String> = effects
        .as_array()
        .expect("a list")
        .iter()
        .map(|effect| {
            format!(
                "{} {}",
                effect["path"].as_str().unwrap_or_default(),
                effect["result"].as_str().unwrap_or_default()
            )
        })
        .filter(|name| name.starts_with("${WORKDIR}"))
        .collect();
    assert_eq!(names, ["${WORKDIR}/bin denied", "${WORKDIR}/closed denied"]);
}

/// A shell runs it all the same, and that is another program.
#[test]
fn a_script_without_an_interpreter_is_run_by_the_shell() {
    let Some(stage) = stage("a_script_without_an_interpreter_is_run_by_the_shell") else { return };
    stage.file("plain", "echo done\n").mode("plain", 0o755);
    let played = stage.run(&["/bin/sh", "-c", "./plain; true"]);
    assert_eq!(played.stdout, "done\n", "{}", played.stderr);
    let execs: Vec<String> =
        played.trace.iter().filter(|line| line["op"] == "exec").map(|line| stage.shown(line)).collect();
    assert!(execs.contains(&"exec $/plain #lexical < ./plain = ENOEXEC".to_owned()), "{execs:#?}");
    let reads = played.trace.iter().filter(|line| line["op"] == "open" && line["path"] == stage.at("plain"));
    assert!(reads.count() > 0, "no shell read it");
}

#[test]
fn looking_along_path_is_not_running() {
    if !are_met("exec::looking_along_path_is_not_running", &[Need::Program("bash"), Need::Program("env")]) {
        return;
    }
    let Some(stage) = stage("looking_along_path_is_not_running") else { return };
    let mut folders: Vec<String> = (0..10).map(|number| stage.at(&format!("p{number}"))).collect();
    for folder in &folders[..5] {
        std::fs::create_dir(folder).expect("a folder");
    }
    folders.extend(["/usr/bin".to_owned(), "/bin".to_owned()]);
    assert_eq!(folders.len(), 12);
    let mut assay = stage.command(&["/usr/bin/env", "bash", "-c", "true"]);
    assay.env("PATH", folders.join(":"));
    let played = stage.finish(assay);
    let programs: Vec<&str> = played
        .events_of("assay.process.exec")
        .iter()
        .map(|event| event["subject"].as_str().expect("a path"))
        .collect();
    assert_eq!(programs, ["/usr/bin/bash", "/usr/bin/env"], "{}", played.stderr);
    let lookups = played.trace.iter().filter(|line| line["op"] == "exec" && line["result"] == "ENOENT");
    assert_eq!(lookups.count(), 10);
}

/// The first program and what its loader opens are told: nothing is missed at the start.
#[test]
fn nothing_is_missed_at_the_start() {
    if !are_met("exec::nothing_is_missed_at_the_start", &[Need::Program("ldd")]) {
        return;
    }
    let Some(stage) = stage("nothing_is_missed_at_the_start") else { return };
    for _ in 0..10 {
        let played = stage.run(&["/bin/true"]);
        let told: Vec<String> = played.trace.iter().map(|line| stage.shown(line)).collect();
        let ldd = Command::new("ldd").arg("/bin/true").output().expect("ldd");
        let listed = String::from_utf8_lossy(&ldd.stdout).into_owned();
        let library = listed.split_whitespace().find(|word| word.contains("/libc.so")).expect("a C library");
        let real = std::fs::canonicalize(library).expect("its name").display().to_string();
        let asked = if real == library { String::new() } else { format!(" < {library}") };
        let program = std::fs::canonicalize("/bin/true").expect("its name").display().to_string();
        let name = if program == "/bin/true" { "" } else { " < /bin/true" };
        assert_eq!(
            told,
            [
                format!("exec {program}{name} = ok"),
                "open /etc/ld.so.cache [read] = ok".to_owned(),
                format!("open {real}{asked} [read] = ok"),
            ]
        );
        assert_eq!((played.lost, played.status.code()), (0, Some(0)));
        stage.check_coverage(&played);
    }
}

#[test]
fn a_thread_that_starts_a_program_is_its_process() {
    let Some(stage) = stage("a_thread_that_starts_a_program_is_its_process") else { return };
    let step = act(Act::Fork(vec![act(Act::Thread(vec![open("bin", O_RDONLY), execve("bin/tiny")]))]));
    let played = stage.check(&[(step, "open $/bin < bin [read] = ok\nexec $/bin/tiny < bin/tiny = ok")]);
    let lines = played.act();
    let (thread, program) = (&lines[0], &lines[1]);
    assert_ne!(thread["tid"], thread["pid"]);
    assert_eq!((&program["tid"], &program["pid"]), (&thread["pid"], &thread["pid"]));
}

#[test]
fn arguments_are_told_and_long_ones_say_that_they_are_cut() {
    let Some(stage) = stage("arguments_are_told_and_long_ones_say_that_they_are_cut") else { return };
    let long = "x".repeat(100_000);
    let args = ["a b", "", "\u{1}\n", long.as_str()];
    let played = stage.run(&[&["/bin/true"][..], &args].concat());
    let line = &played.trace[0];
    assert_eq!(line["argv"][1], "a b");
    assert_eq!(line["argv"][2], "");
    assert_eq!(line["argv"][3], "\\x01\\x0a");
    assert_eq!(line["argv_cut"], true);
    assert_eq!(played.trace.len(), 3, "{:?}", played.trace);
}
