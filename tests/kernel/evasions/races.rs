//! What needs a run of its own: names that change under the observer's eyes, and a connection that was made before.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;

use crate::actor::{Act, act};
use crate::needs::{Need, are_met};
use crate::stage::Stage;

/// Each open is told by the file it led to, whatever the string was a moment later.
#[test]
fn a_name_that_another_thread_changes_is_told_by_its_file() {
    let test = "evasions::races::a_name_that_another_thread_changes_is_told_by_its_file";
    let Some(stage) = Stage::new(test) else { return };
    stage.file("race-a", "").file("race-b", "");
    let number = fs::metadata(stage.path("race-a")).expect("a file").ino();
    let times = 20_000;
    let flip = Act::Flip { times, name: stage.at("race-a").into_bytes(), letters: (b'a', b'b'), number };
    let played = stage.play(&[act(flip)]);
    let opens = |name: &str| {
        let path = stage.at(name);
        let is_open = |line: &&serde_json::Value| line["op"] == "open" && line["path"] == path.as_str();
        played.act().iter().filter(is_open).count() as i64
    };
    let (a, b) = (opens("race-a"), opens("race-b"));
    assert_eq!((a, a + b), (played.told.returns[0], times as i64));
    assert!(a > 0 && b > 0, "nothing raced: {a} and {b}");
    stage.check_coverage(&played);
}

#[test]
fn a_work_directory_that_moves_is_told() {
    let Some(stage) = Stage::new("evasions::races::a_work_directory_that_moves_is_told") else { return };
    let moved = stage.path("").parent().expect("a folder above").join("moved");
    let script = format!(
        "mv \"$PWD\" {0} && cd {0} && echo x > f && cd .. && mv {0} {1}",
        moved.display(),
        stage.path("").components().as_path().display()
    );
    let played = stage.run(&["sh", "-c", &script]);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    let told: Vec<String> = played.trace.iter().map(|line| stage.shown(line)).collect();
    let made = format!("open {}/f < f [write create] = ok", moved.display());
    assert!(told.contains(&made), "{told:#?}");
    assert!(
        told.iter().any(|line| line.starts_with(&format!("rename $ -> {}", moved.display()))),
        "{told:#?}"
    );
    stage.check_coverage(&played);
}

/// What is sent over a connection that was made before the run goes where no call of the run's went.
#[test]
fn a_connection_that_was_made_before_is_admitted() {
    let test = "evasions::races::a_connection_that_was_made_before_is_admitted";
    if !are_met(test, &[Need::Program("bash")]) {
        return;
    }
    let Some(stage) = Stage::new(test) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let at = listener.local_addr().expect("its address");
    let stage =
        stage.before(&format!("exec 9<>/dev/tcp/127.0.0.1/{}", at.port())).partial("net", "inherited-socket");
    let played = stage.run(&["sh", "-c", "echo carried out >&9"]);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    let detail = format!("descriptor 9, connected to {at}");
    assert!(
        played.evidence["coverage"]["reasons"].to_string().contains(&detail),
        "{}",
        played.evidence["coverage"]
    );
    stage.check_coverage(&played);
}
