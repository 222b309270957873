//! Real programs that do what observers stumble over: namespaces, work trees, rings, removal of whole trees.

use std::collections::BTreeSet;
use std::process::Command;

use crate::harness::sandbox::{ASSAY, text};
use crate::needs::{Need, are_met};
use crate::stage::{Played, Stage};

fn stage(test: &str, programs: &[&'static str]) -> Option<Stage> {
    let name = format!("inside::{test}");
    let needs: Vec<Need> = programs.iter().map(|program| Need::Program(program)).collect();
    if !are_met(&name, &needs) {
        return None;
    }
    Stage::new(&name)
}

/// What was told of this stage, without what was asked for.
fn told(stage: &Stage, played: &Played) -> BTreeSet<String> {
    let shown = |line: &serde_json::Value| {
        let mut line = line.clone();
        line.as_object_mut().expect("an object").remove("requested");
        line.as_object_mut().expect("an object").remove("requested_to");
        stage.shown(&line)
    };
    played.trace.iter().map(shown).filter(|line| line.contains('$')).collect()
}

fn shell(stage: &Stage, script: &str) -> Played {
    let played = stage.run(&["bash", "-ec", script]);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}{}", played.stdout, played.stderr);
    assert_eq!(played.lost, 0);
    played
}

#[test]
fn a_bind_mount_in_a_namespace_of_its_own_is_the_tree_the_program_sees() {
    let Some(stage) =
        stage("a_bind_mount_in_a_namespace_of_its_own_is_the_tree_the_program_sees", &["unshare", "mount"])
    else {
        return;
    };
    let stage = stage.option(&["--keep-caps", "SYS_ADMIN"]);
    stage.dir("real").dir("seen").file("real/f", "f");
    let inner =
        "mount --bind real seen; cat seen/f; echo x > seen/new; mv seen/new seen/moved; rm seen/moved";
    let played = shell(&stage, &format!("unshare -m sh -ec '{inner}'"));
    let told = told(&stage, &played);
    for line in [
        "open $/seen/f [read] = ok",
        "open $/seen/new [write create] = ok",
        "rename $/seen/new -> $/seen/moved = ok",
        "unlink $/seen/moved = ok",
    ] {
        assert!(told.contains(line), "{line}: {told:#?}");
    }
    assert!(!told.iter().any(|line| line.contains("$/real/")), "{told:#?}");
}

#[test]
fn a_sandbox_inside_is_seen_through() {
    let Some(stage) = stage("a_sandbox_inside_is_seen_through", &["bwrap"]) else { return };
    let stage = stage.option(&["--keep-caps", "SYS_ADMIN,SYS_CHROOT,NET_ADMIN,SETPCAP"]);
    stage.dir("w").file("w/f", "f");
    let script = format!(
        "bwrap --ro-bind / / --bind {0} /mnt --chdir /mnt sh -ec 'cat f; echo x > made; mv made moved; rm moved'",
        stage.at("w")
    );
    let played = shell(&stage, &script);
    let lines: Vec<String> = played.trace.iter().map(|line| stage.shown(line)).collect();
    for line in [
        "open /mnt/f < f [read] = ok",
        "open /mnt/made < made [write create] = ok",
        "rename /mnt/made -> /mnt/moved < made << moved = ok",
        "unlink /mnt/moved < moved = ok",
    ] {
        assert!(lines.iter().any(|told| told == line), "{line}: {lines:#?}");
    }
    assert!(!lines.iter().any(|line| line.contains("/newroot/newroot") || line.contains("/oldroot/oldroot")));
}

/// The command runs `assay` itself. It may not observe, for the right to is dropped; what its own command does is told.
#[test]
fn a_second_assay_inside_is_seen_through() {
    let Some(stage) = stage("a_second_assay_inside_is_seen_through", &[]) else { return };
    let inner = format!("{ASSAY} sandbox -- sh -ec 'echo x > made; mv made moved' 2> said");
    let played = stage.run(&["bash", "-c", &inner]);
    let told = told(&stage, &played);
    let said = std::fs::read_to_string(stage.path("said")).expect("what it said");
    for line in ["open $/made [write create] = ok", "rename $/made -> $/moved = ok"] {
        assert!(told.contains(line), "{line}: {told:#?}; {said}");
    }
    // Nor does one that is asked for a record pretend to have one.
    let asked = format!("{ASSAY} sandbox --trace inner -- touch never");
    let played = stage.run(&["bash", "-c", &asked]);
    assert_eq!(played.outcome["child"]["exit_code"], 2, "{}", played.stderr);
    assert!(!stage.path("never").exists());
    stage.check_coverage(&played);
}

/// What others do later is theirs; that it was left for them to do is told, and a reviewer is shown it.
#[test]
fn a_job_left_for_others_is_told_and_flagged() {
    let Some(stage) = stage("a_job_left_for_others_is_told_and_flagged", &["unshare", "mount"]) else {
        return;
    };
    // The host's own spools stay as they are.
    let stage = stage.before(
        "exec unshare -m bash -ec 'mount -t tmpfs none /var/spool; mkdir -p /var/spool/cron/crontabs /var/spool/cron/atjobs; exec \"$0\" \"$@\"' \"$0\" \"$@\"",
    );
    let places = ["/var/spool/cron/crontabs/somebody", "/var/spool/cron/atjobs/a0000101dead"];
    let script = places.map(|place| format!("echo '* * * * * true' > {place}")).join("; ");
    let played = shell(&stage, &script);
    let bundle = stage.artifact("bundle.tar.gz");
    let output = Command::new(ASSAY).args(["evidence", "lint"]).arg(&bundle).output().expect("assay");
    let said = text(&output.stdout);
    let told: Vec<String> = played.trace.iter().map(|line| stage.shown(line)).collect();
    for place in places {
        let made = format!("open {place} [write create] = ok");
        assert!(told.contains(&made), "{made}: {told:#?}");
        assert!(said.contains(place.rsplit_once('/').expect("a folder").0), "{place}: {said}");
    }
    stage.check_coverage(&played);
}

#[test]
fn a_work_tree_beside_the_repository_is_told_where_it_lies() {
    let Some(stage) = stage("a_work_tree_beside_the_repository_is_told_where_it_lies", &["git"]) else {
        return;
    };
    let script = "
        export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q repo; cd repo; git config extensions.worktreeConfig true
        echo 1 > a; git add a; git commit -qm 1; git worktree add -q ../tree; cd ../tree; echo 2 > b; git add b; git commit -qm 2";
    let played = shell(&stage, script);
    let told = told(&stage, &played);
    for line in [
        "open $/repo/.git/worktrees/tree/index.lock [read write create] = ok",
        "rename $/repo/.git/worktrees/tree/index.lock -> $/repo/.git/worktrees/tree/index = ok",
        "open $/tree/b [write create] = ok",
        "open $/tree/.git [write create] = ok",
    ] {
        assert!(told.contains(line), "{line}: {told:#?}");
    }
    stage.check_coverage(&played);
}

#[test]
fn the_removal_of_a_tree_is_told_name_by_name() {
    let Some(stage) = stage("the_removal_of_a_tree_is_told_name_by_name", &["rm"]) else { return };
    let mut expected = BTreeSet::new();
    for folder in 0..20 {
        stage.dir(&format!("t/{folder}/deep"));
        expected.insert(format!("rmdir $/t/{folder}/deep = ok"));
        expected.insert(format!("rmdir $/t/{folder} = ok"));
        for file in 0..10 {
            stage.file(&format!("t/{folder}/deep/{file}"), "");
            expected.insert(format!("unlink $/t/{folder}/deep/{file} = ok"));
        }
    }
    expected.insert("rmdir $/t = ok".to_owned());
    let played = shell(&stage, "rm -rf t");
    let told: BTreeSet<String> = told(&stage, &played)
        .into_iter()
        .filter(|line| line.starts_with("unlink") || line.starts_with("rmdir"))
        .collect();
    assert_eq!(told, expected);
    assert!(!stage.path("t").exists());
    stage.check_coverage(&played);
}

/// libuv hands file operations to a ring when it is told to; whichever way each takes, it is told.
#[test]
fn files_of_a_node_program_with_a_ring_are_told() {
    let Some(stage) = stage("files_of_a_node_program_with_a_ring_are_told", &["node"]) else { return };
    let script = "
        const fs = require('fs').promises;
        (async () => {
            await fs.writeFile('made', 'x'); await fs.rename('made', 'moved'); await fs.readFile('moved');
            await fs.mkdir('d'); await fs.symlink('moved', 'l'); await fs.link('moved', 'hard');
            await fs.unlink('moved');
        })()";
    let mut assay = stage.command(&["node", "-e", script]);
    assay.env("UV_USE_IO_URING", "1");
    let played = stage.finish(assay);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    let told = told(&stage, &played);
    for line in [
        "open $/made [write create] = ok",
        "rename $/made -> $/moved = ok",
        "open $/moved [read] = ok",
        "mkdir $/d = ok",
        "symlink $/l -> moved = ok",
        "link $/moved -> $/hard = ok",
        "unlink $/moved = ok",
    ] {
        assert!(told.contains(line), "{line}: {told:#?}");
    }
    assert_eq!(played.lost, 0);
    // Otherwise it would show nothing about rings.
    let counters = &played.evidence["observed"]["counters"];
    assert!(counters["filtered.io-uring-submitted"].as_u64() > Some(0), "it used no ring: {counters}");
}
