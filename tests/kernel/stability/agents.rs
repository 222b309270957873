//! What coding agents do to files, in their ways, by programs of ours: what each way comes to, to the effect, and one run id
//! under other circumstances. Who logs what a program asks for does not see the file in some of them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Workload, check};

/// A project in which the files were there before, and what the ways need.
const PROJECT: &str = "mkdir project; for f in edited replaced in-place; do echo old > project/$f; done; chmod 640 project/replaced
echo 0 > \"$HOME/.agent.json\"
printf 'int agent(void) { return 0; }' > l.c; gcc -shared -fPIC -o libagent.so l.c; rm l.c
";

/// A repository whose index is younger than its files by more than git's doubt.
const REPOSITORY: &str = "cd project; git -c init.defaultBranch=main init -q; git add .
git -c user.name=a -c user.email=a@example.org commit -qm one; touch -d 2020-01-01 edited replaced in-place; git status -s; cd ..
";

/// What Node's promises do, by a ring where libuv is told to use one.
const RING: &str = "UV_USE_IO_URING=1 node -e \"
const fs = require('fs').promises, path = 'project/edited', beside = path + '.tmp.' + process.pid + '.' + require('crypto').randomBytes(6).toString('hex');
(async () => {
  const text = await fs.readFile(path, 'utf8');
  const file = await fs.open(beside, 'wx', 0o644);
  await file.writeFile(text.replace('old', 'new'));
  await file.sync();
  await file.close();
  await fs.rename(beside, path);
  await fs.writeFile('project/in-place', 'new');
  await fs.unlink('project/replaced');
})()\"";

/// What a run did in places of its own, what it ran, and where it went: a line each. The program and its library are ours.
fn done(evidence: &Value) -> BTreeSet<String> {
    let of = |kind: &str| evidence["identity"]["effects"][kind].as_array().expect("effects").clone();
    let word = |effect: &Value, key: &str| effect[key].as_str().unwrap_or_default().to_owned();
    let mut lines = BTreeSet::new();
    for effect in of("fs") {
        let path = word(&effect, "path");
        // What git reads of its own repository is git's.
        let is_gits = path.contains("/.git/") && !path.ends_with("/agent");
        let is_ours = ["${WORKDIR}/agents.py", "${WORKDIR}/libagent.so"].contains(&path.as_str());
        if path.starts_with("${") && !path.starts_with("${CGROUP") && !is_gits && !is_ours {
            let to = effect["to"].as_str().map(|to| format!(" -> {}", program(to))).unwrap_or_default();
            lines.insert(format!("{} {path}{to} = {}", word(&effect, "op"), word(&effect, "result")));
        }
    }
    for effect in of("exec") {
        lines.insert(format!("exec {} = {}", program(&word(&effect, "path")), word(&effect, "result")));
    }
    for effect in of("net") {
        let port = effect["port"].as_str().map(|port| format!(":{port}")).unwrap_or_default();
        let [op, proto, address, result] = ["op", "proto", "address", "result"].map(|key| word(&effect, key));
        lines.insert(format!("{op} {proto} {address}{port} = {result}"));
    }
    lines
}

/// A program without its place and the number of its version.
fn program(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    if name.starts_with("python3") { "python3".to_owned() } else { name.to_owned() }
}

/// Holds these ways to their promises, and to these effects and no others. Returns a run's evidence, where it could run.
fn come_to(
    name: &'static str,
    programs: &'static [&'static str],
    script: &'static str,
    effects: &str,
) -> Option<Value> {
    let before = format!("cat > agents.py <<'END'\n{}END\n{PROJECT}{REPOSITORY}", include_str!("agents.py"));
    let evidence = check(&Workload { name, programs, before, script, may_vary: &[] })?;
    let shell = "exec dash = ok".to_owned();
    let wanted: BTreeSet<String> =
        effects.lines().map(|line| format!("{} = ok", line.trim())).chain([shell]).collect();
    let told = done(&evidence);
    let missing: Vec<_> = wanted.difference(&told).collect();
    let beyond: Vec<_> = told.difference(&wanted).collect();
    assert!(missing.is_empty() && beyond.is_empty(), "missing: {missing:#?}, not scripted: {beyond:#?}");
    Some(evidence)
}

#[test]
fn edits_by_whatever_name_are_writes_of_the_file() {
    come_to(
        "agent_edits",
        &["git"],
        "/usr/bin/python3 -SI agents.py edit_through_a_directory make_through_a_directory replace_and_keep_the_mode write_in_place",
        "exec python3
        read ${WORKDIR}/project/edited
        write ${WORKDIR}/project/edited
        attr ${WORKDIR}/project/edited
        create ${WORKDIR}/project/made/
        write ${WORKDIR}/project/made/a
        attr ${WORKDIR}/project/made/a
        write ${WORKDIR}/project/replaced
        attr ${WORKDIR}/project/replaced
        write ${WORKDIR}/project/in-place",
    );
}

#[test]
fn an_agents_own_files_are_told_by_what_they_are() {
    come_to(
        "agent_state",
        &["git", "bash"],
        "/usr/bin/python3 -SI agents.py own_settings a_shell_for_each_command a_socket_of_its_own",
        "exec python3
        exec bash
        exec cat
        read ${HOME}/.agent.json
        write ${HOME}/.agent.json
        read ${WORKDIR}/project/edited
        create ${WORKDIR}/project/by-shell
        create ${TMPDIR}/agent-${RANDOM}-cwd
        read ${TMPDIR}/agent-${RANDOM}-cwd
        delete ${TMPDIR}/agent-${RANDOM}-cwd
        create ${TMPDIR}/agent-${PID}.sock
        bind unix ${TMPDIR}/agent-${PID}.sock
        listen unix ${TMPDIR}/agent-${PID}.sock
        connect unix ${TMPDIR}/agent-${PID}.sock
        delete ${TMPDIR}/agent-${PID}.sock",
    );
}

#[test]
fn a_program_that_starts_itself_is_told_by_its_file() {
    let evidence = come_to(
        "agent_itself",
        &["git"],
        "/usr/bin/python3 -SI agents.py itself_once_more links_to_itself_on_the_path a_library_out_of_itself",
        "exec python3
        create ${HOME}/.agent/
        create ${HOME}/.agent/tmp/
        create ${HOME}/.agent/tmp/arg0/
        create ${HOME}/.agent/tmp/arg0/codex-${RANDOM}/
        create ${HOME}/.agent/tmp/arg0/codex-${RANDOM}/.lock
        read ${HOME}/.agent/tmp/arg0/codex-${RANDOM}/.lock
        symlink ${HOME}/.agent/tmp/arg0/codex-${RANDOM}/apply_patch -> python3
        symlink ${HOME}/.agent/tmp/arg0/codex-${RANDOM}/applypatch -> python3
        delete ${HOME}/.agent/tmp/arg0/codex-${RANDOM}/apply_patch
        delete ${HOME}/.agent/tmp/arg0/codex-${RANDOM}/applypatch
        delete ${HOME}/.agent/tmp/arg0/codex-${RANDOM}/.lock
        delete ${HOME}/.agent/tmp/arg0/codex-${RANDOM}
        create ${TMPDIR}/.${RANDOM}-00000000.so
        read ${TMPDIR}/.${RANDOM}-00000000.so",
    );
    let Some(evidence) = evidence else { return };
    // By the command, by /proc/self/exe, and by the link on the path.
    let programs = evidence["observed"]["effects"]["exec"].as_array().expect("effects");
    let python = programs.iter().find(|one| program(one["path"].as_str().unwrap_or_default()) == "python3");
    assert_eq!(python.expect("it ran")["hits"], 3, "{programs:#?}");
}

#[test]
fn a_database_and_its_log_are_told_by_name() {
    come_to(
        "agent_database",
        &["git"],
        "/usr/bin/python3 -SI agents.py a_database git_beside_git a_port_that_is_free",
        "exec python3
        exec git
        bind tcp ::1:ephemeral
        create ${HOME}/.agent/
        list ${HOME}/.agent
        create ${HOME}/.agent/state.sqlite
        read ${HOME}/.agent/state.sqlite
        write ${HOME}/.agent/state.sqlite
        create ${HOME}/.agent/state.sqlite-journal
        read ${HOME}/.agent/state.sqlite-journal
        delete ${HOME}/.agent/state.sqlite-journal
        create ${HOME}/.agent/state.sqlite-wal
        read ${HOME}/.agent/state.sqlite-wal
        delete ${HOME}/.agent/state.sqlite-wal
        create ${HOME}/.agent/state.sqlite-shm
        read ${HOME}/.agent/state.sqlite-shm
        write ${HOME}/.agent/state.sqlite-shm
        delete ${HOME}/.agent/state.sqlite-shm
        list ${WORKDIR}/project
        create ${WORKDIR}/project/.git/agent",
    );
}

#[test]
fn edits_by_a_ring_are_writes_of_the_file() {
    let evidence = come_to(
        "agent_ring",
        &["git", "node"],
        RING,
        "exec node
        read ${WORKDIR}/project/edited
        write ${WORKDIR}/project/edited
        write ${WORKDIR}/project/in-place
        delete ${WORKDIR}/project/replaced",
    );
    let Some(evidence) = evidence else { return };
    // Otherwise it would show nothing about rings.
    let counters = &evidence["observed"]["counters"];
    assert!(counters["filtered.io-uring-submitted"].as_u64() > Some(0), "it used no ring: {counters}");
}
