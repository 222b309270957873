//! Names of every length and of any bytes, and trees of any depth: whole, or marked as cut.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use libc::{AT_FDCWD, O_CREAT, O_RDONLY, O_WRONLY};

use crate::actor::{Step, call};
use crate::stage::Stage;

fn stage(test: &str) -> Option<Stage> {
    Stage::new(&format!("names::{test}"))
}

fn create(path: impl AsRef<[u8]>) -> Step {
    call(libc::SYS_openat, [AT_FDCWD.into(), path.as_ref().into(), (O_WRONLY | O_CREAT).into(), 0o644.into()])
}

/// A path of exactly this many bytes, through directories that are there.
fn path_of(stage: &Stage, length: usize) -> String {
    let mut path = stage.at("");
    let mut left = length - path.len();
    while left > 251 {
        let name = "d".repeat((left - 2).min(250));
        left -= name.len() + 1;
        path.push_str(&name);
        path.push('/');
    }
    path.push_str(&"f".repeat(left));
    assert_eq!(path.len(), length);
    path
}

#[test]
fn paths_are_told_whole_up_to_the_longest_there_is() {
    let Some(stage) = stage("paths_are_told_whole_up_to_the_longest_there_is") else { return };
    let lengths = [148, 255, 256, 257, 523, 3_900, 4_095];
    let paths: Vec<String> = lengths.iter().map(|length| path_of(&stage, *length)).collect();
    for path in &paths {
        fs::create_dir_all(std::path::Path::new(path).parent().expect("a parent")).expect("folders");
    }
    let mut script = Vec::new();
    for path in &paths {
        let shown = path.replace(&stage.at(""), "$/");
        script.push((create(path), format!("open {shown} [write create] = ok")));
        script.push((call(libc::SYS_chmod, [path.into(), 0o600.into()]), format!("chmod {shown} = ok")));
        script.push((call(libc::SYS_unlink, [path.into()]), format!("unlink {shown} = ok")));
    }
    // One byte more is refused by the kernel, and nobody knows where it would have led.
    let longer = format!("{}f", paths[6]);
    script.push((create(&longer), "open / #unreadable [write create] = ENAMETOOLONG".to_owned()));
    let script: Vec<(Step, &str)> = script.iter().map(|(step, line)| (step.clone(), line.as_str())).collect();
    stage.check(&script);
}

#[test]
fn a_name_may_be_as_long_as_names_can_be() {
    let Some(stage) = stage("a_name_may_be_as_long_as_names_can_be") else { return };
    let name = "n".repeat(255);
    let longer = "n".repeat(256);
    let script = [
        (call(libc::SYS_mkdir, [(&name).into(), 0o755.into()]), format!("mkdir $/{name} < {name} = ok")),
        (
            create(format!("{name}/{name}")),
            format!("open $/{name}/{name} < {name}/{name} [write create] = ok"),
        ),
        (call(libc::SYS_symlink, [(&name).into(), "l".into()]), format!("symlink $/l -> {name} < l = ok")),
        (
            call(libc::SYS_unlink, [(&format!("l/{name}")).into()]),
            format!("unlink $/{name}/{name} #looked-up-late < l/{name} = ok"),
        ),
        (create(&longer), format!("open $/{longer} #lexical < {longer} [write create] = ENAMETOOLONG")),
    ];
    let script: Vec<(Step, &str)> = script.iter().map(|(step, line)| (step.clone(), line.as_str())).collect();
    stage.check(&script);
}

/// Down so many directories, each made in the one before.
fn descend(depth: usize, name: &str) -> Vec<(Step, String)> {
    let mut script = Vec::new();
    let mut path = String::from("$");
    for _ in 0..depth {
        path = format!("{path}/{name}");
        script.push((
            call(libc::SYS_mkdir, [name.into(), 0o755.into()]),
            format!("mkdir {path} < {name} = ok"),
        ));
        script.push((call(libc::SYS_chdir, [name.into()]), format!("chdir {path} < {name} = ok")));
    }
    script.push((create("f"), format!("open {path}/f < f [write create] = ok")));
    script.push((
        call(libc::SYS_rename, ["f".into(), "g".into()]),
        format!("rename {path}/f -> {path}/g < f << g = ok"),
    ));
    script.push((call(libc::SYS_unlink, ["g".into()]), format!("unlink {path}/g < g = ok")));
    script
}

#[test]
fn trees_of_forty_two_hundred_and_three_hundred_directories_are_told_whole() {
    for (depth, name) in [(40, "d"), (200, "dir"), (300, "directory-of-34-bytes-directory-of")] {
        let Some(stage) = stage("trees_are_told_whole") else { return };
        let script = descend(depth, name);
        let script: Vec<(Step, &str)> =
            script.iter().map(|(step, line)| (step.clone(), line.as_str())).collect();
        stage.check(&script);
    }
}

/// 100 × 200 bytes are more than a record holds: the part nearest the file, and a mark.
#[test]
fn a_path_that_is_longer_than_any_record_says_so() {
    let Some(stage) = stage("a_path_that_is_longer_than_any_record_says_so") else { return };
    let stage = stage.partial("fs", "path-cut");
    let name = "d".repeat(200);
    let steps: Vec<Step> = descend(100, &name).into_iter().map(|(step, _)| step).collect();
    let played = stage.play(&steps);
    let lines = played.act();
    let last = &lines[lines.len() - 3];
    let path = last["path"].as_str().expect("a path");
    assert_eq!((last["op"].as_str(), last["path_state"].as_str()), (Some("open"), Some("cut")), "{last}");
    assert!(path.ends_with(&format!("{name}/f")) && !path.contains("assay-stage"), "{path}");
    assert_eq!(played.lost, 0);
    stage.check_coverage(&played);
}

#[test]
fn names_may_have_any_bytes() {
    let Some(stage) = stage("names_may_have_any_bytes") else { return };
    let every: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
    let hostile: [&[u8]; 6] =
        [&every, b"a\nb", b"\x1b[2J", b"\\x41", b"${HOME}", "\u{202e}gpj.exe\u{feff}".as_bytes()];
    let steps: Vec<Step> = hostile.iter().map(create).collect();
    let played = stage.play(&steps);
    let told: Vec<Vec<u8>> = played
        .act()
        .iter()
        .map(|line| {
            let text = line["path"].as_str().expect("a path");
            assert!(!text.chars().any(char::is_control), "{text:?}");
            assay::profile::name::unescape(text).expect("a name in its text form")
        })
        .collect();
    let expected: Vec<Vec<u8>> = hostile
        .iter()
        .map(|name| stage.path("").join(OsStr::from_bytes(name)).into_os_string().into_encoded_bytes())
        .collect();
    assert_eq!(told, expected);
    stage.check_coverage(&played);
}

#[test]
fn names_go_where_links_and_dots_lead() {
    let Some(stage) = stage("names_go_where_links_and_dots_lead") else { return };
    stage.dir("a/b/c").file("a/secret", "").link("to-c", "a/b/c").link("a/b/absolute", &stage.at("a"));
    let mut inside = "to-c/".to_owned();
    inside.push_str(&"../c/".repeat(100));
    inside.push_str("../../secret");
    for link in 0..39 {
        stage.link(&format!("chain-{link}"), &format!("chain-{}", link + 1));
    }
    stage.link("chain-39", "a/secret").link("loop", "loop");
    let root = format!("/proc/self/root{}", stage.at("a/secret"));
    let open = |path: &str| call(libc::SYS_openat, [AT_FDCWD.into(), path.into(), O_RDONLY.into(), 0.into()]);
    let link_and_text = format!("open $/a/secret < {inside} [read] = ok");
    let by_root = format!("open $/a/secret < {} [read] = ok", root.replace(&stage.at(""), "$/"));
    let remove_by_root = format!("chmod $/a/secret < {} = ok", root.replace(&stage.at(""), "$/"));
    stage.check(&[
        (open(&inside), &link_and_text),
        (open("to-c/../../secret"), "open $/a/secret < to-c/../../secret [read] = ok"),
        (
            open("a/b/absolute/b/absolute/secret"),
            "open $/a/secret < a/b/absolute/b/absolute/secret [read] = ok",
        ),
        (open(&root), &by_root),
        (call(libc::SYS_chmod, [(&root).into(), 0o600.into()]), &remove_by_root),
        (open("/proc/self/cwd/a/secret"), "open $/a/secret < /proc/self/cwd/a/secret [read] = ok"),
        (
            call(libc::SYS_chmod, ["/proc/self/cwd/a/secret".into(), 0o644.into()]),
            "chmod $/a/secret < /proc/self/cwd/a/secret = ok",
        ),
        // As many links as the kernel follows, one after the other.
        (open("chain-0"), "open $/a/secret < chain-0 [read] = ok"),
        (call(libc::SYS_chmod, ["chain-0".into(), 0o600.into()]), "chmod $/a/secret < chain-0 = ok"),
        (open("loop"), "open $/loop #lexical < loop [read] = ELOOP"),
        (call(libc::SYS_chmod, ["//".into(), 0o755.into()]), "chmod / < // = ok"),
        (open("/../../.././etc/passwd"), "open /etc/passwd < /../../.././etc/passwd [read] = ok"),
    ]);
}

/// A directory with more names than the observer looks through: the name is found all the same.
#[test]
fn a_crowded_directory_hides_nothing() {
    let Some(stage) = stage("a_crowded_directory_hides_nothing") else { return };
    stage.dir("crowd").file("crowd/first", "");
    for number in 0..9_000 {
        stage.file(&format!("crowd/{number}"), "");
    }
    let played = stage.check(&[
        (call(libc::SYS_unlink, ["crowd/17".into()]), "unlink $/crowd/17 < crowd/17 = ok"),
        (call(libc::SYS_mkdir, ["crowd/d".into(), 0o755.into()]), "mkdir $/crowd/d < crowd/d = ok"),
    ]);
    assert_eq!(played.lost, 0);
    let followed = stage.play(&[call(libc::SYS_chmod, ["crowd/first".into(), 0o600.into()])]);
    assert_eq!(followed.act()[0]["path"], stage.at("crowd/first"));
}

#[test]
fn both_names_of_a_call_may_stand_in_one_place() {
    let Some(stage) = Stage::new("names::both_names_of_a_call_may_stand_in_one_place") else { return };
    stage.file("f", "");
    let script = "import ctypes; name = ctypes.create_string_buffer(b'f'); \
                  raise SystemExit(ctypes.CDLL(None).rename(name, name))";
    let played = stage.run(&["python3", "-c", script]);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    let told: Vec<String> = played.trace.iter().map(|line| stage.shown(line)).collect();
    assert!(told.contains(&"rename $/f -> $/f < f << f = ok".to_owned()), "{told:#?}");
    stage.check_coverage(&played);
}
