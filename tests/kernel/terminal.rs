//! The command on a real terminal: Ctrl-C, Ctrl-Z, resize, full-screen programs, a window that is closed.

use std::fs;

use crate::harness::sandbox::{ASSAY, every_file, groups_of, is_running, wait_until};
use crate::harness::tmux::Terminal;
use crate::needs::{Need, are_met};

/// A terminal with a shell in it, where `run` is `assay sandbox --`.
fn shell(test: &'static str, programs: &[&'static str]) -> Option<Terminal> {
    let mut needs = vec![Need::Root, Need::CgroupV2, Need::Program("tmux")];
    needs.extend(programs.iter().map(|program| Need::Program(program)));
    if !are_met(&format!("terminal::{test}"), &needs) {
        return None;
    }
    let terminal = Terminal::open(test, "");
    terminal.enter(&format!(
        "unset SUDO_UID; PS1='ready$ '; run() {{ {ASSAY} --quiet sandbox --policy {} -- \"$@\"; }}; clear",
        every_file().display()
    ));
    terminal.wait_for("a prompt", |screen| screen.trim() == "ready$");
    Some(terminal)
}

#[test]
fn control_c_interrupts_the_command_once() {
    let Some(terminal) = shell("control_c_interrupts_the_command_once", &[]) else { return };
    terminal.enter("run sleep 60; echo code $?");
    terminal.wait_for("the command", |screen| screen.contains("code $?"));
    // Whenever it comes, even before the command runs, it ends as without us. One that comes before the shell has given
    // the terminal to the job is lost to the command, also without us, so the key is pressed again.
    // An interactive shell drops the rest of the line after a command that died of it; ours exits with 130.
    terminal.press_until("C-c", "its end", |screen| {
        screen.contains("code 130") || screen.matches("ready$").count() > 1
    });

    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    let counting =
        "n=0; trap 'n=$((n+1))' INT; echo started; for i in {1..40}; do sleep 0.05; done; echo total $n";
    fs::write(&script, counting).expect("a file");
    terminal.enter(&format!("clear; run bash {}", script.display()));
    terminal.wait_for_line("started");
    terminal.press("C-c");
    // The terminal itself shows `^C` before it.
    terminal.wait_for("the count", |screen| screen.contains("total"));
    assert!(terminal.screen().contains("total 1\n"), "{}", terminal.screen());
}

#[test]
fn control_z_stops_both_and_fg_and_bg_continue_both() {
    let Some(terminal) = shell("control_z_stops_both_and_fg_and_bg_continue_both", &["perl"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let go = folder.path().join("go");
    // One process, for a shell that starts another by vfork cannot stop while the other, stopped itself, has not run its
    // program: then nobody sees a stopped job, with us or without.
    terminal.enter(&format!(
        "run perl -e '$| = 1; print \"started\\n\"; select(undef, undef, undef, 0.02) until -e \"{}\"; exit 7'; echo code $?",
        go.display()
    ));
    terminal.wait_for_line("started");
    terminal.press("C-z");
    terminal.wait_for("a stopped job", |screen| screen.contains("Stopped"));
    terminal.enter("clear; jobs");
    terminal.wait_for("the job", |screen| screen.contains("[1]+") && screen.contains("Stopped"));
    terminal.enter("clear; bg");
    terminal.wait_for("the job going on", |screen| screen.contains("[1]+") && screen.contains('&'));
    terminal.enter("clear; jobs");
    terminal.wait_for("the job", |screen| screen.contains("Running"));
    terminal.enter("clear; fg");
    // A key that comes before this would stop `clear`, and with it the rest of the line.
    terminal.wait_for("the job", |screen| screen.contains("sandbox --policy") && !screen.contains("Running"));
    terminal.press_until("C-z", "a stopped job", |screen| screen.contains("Stopped"));
    fs::write(&go, "").expect("a file");
    terminal.enter("clear; fg; echo code $?");
    terminal.wait_for_line("code 7");
}

#[test]
fn a_shell_inside_has_job_control_of_its_own() {
    let Some(terminal) = shell("a_shell_inside_has_job_control_of_its_own", &[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let start = folder.path().join("start");
    fs::write(&start, "PS1='inner$ '").expect("a file");
    terminal.enter(&format!("run bash --noprofile --rcfile {} -i; echo code $?", start.display()));
    terminal.wait_for("the inner shell", |screen| screen.trim_end().ends_with("inner$"));
    terminal.enter("clear; sh -c 'echo asleep; exec sleep 60'");
    terminal.wait_for_line("asleep");
    terminal.press("C-z");
    let has_prompt = |screen: &str| screen.trim_end().ends_with("inner$");
    terminal.wait_for("a stopped job", |screen| screen.contains("[1]+  Stopped") && has_prompt(screen));
    terminal.enter("clear; fg");
    terminal.wait_for("the job", |screen| {
        screen.trim_end().ends_with("sleep 60'") && !screen.contains("Stopped")
    });
    terminal.press_until("C-c", "the prompt", has_prompt);
    terminal.enter("exit 3");
    terminal.wait_for_line("code 3");
    // The terminal is the outer shell's again.
    terminal.enter("clear; stty size; run true; echo after $?");
    terminal.wait_for_line("after 0");
}

#[test]
fn a_new_size_reaches_the_command() {
    let Some(terminal) = shell("a_new_size_reaches_the_command", &[]) else { return };
    terminal.enter("clear; run bash -c 'trap \"stty size\" WINCH; stty size; while :; do sleep 0.02; done'");
    terminal.wait_for_line("30 100");
    terminal.resize(90, 20);
    terminal.wait_for_line("20 90");
    terminal.press("C-c");
}

#[test]
fn an_editor_works_and_can_be_suspended() {
    let Some(terminal) = shell("an_editor_works_and_can_be_suspended", &["vim"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    terminal.enter(&format!("clear; run vim -u NONE -N {}; echo code $?", file.display()));
    terminal.wait_for("vim", |screen| screen.contains("\n~"));
    terminal.write("ihello from vim");
    terminal.press("Escape");
    terminal.wait_for("the text", |screen| screen.starts_with("hello from vim"));
    terminal.press("C-z");
    terminal.wait_for("the shell", |screen| screen.contains("Stopped"));
    terminal.enter("clear; fg");
    terminal.wait_for("vim", |screen| screen.starts_with("hello from vim") && screen.contains("\n~"));
    terminal.resize(80, 24);
    terminal.wait_for("the new size", |screen| screen.matches("\n~").count() >= 20);
    terminal.enter(":wq");
    terminal.wait_for("the prompt", |screen| screen.contains("ready$") && !screen.contains("\n~"));
    assert_eq!(fs::read_to_string(&file).expect("the file"), "hello from vim\n");
}

#[test]
fn a_pager_and_a_monitor_work() {
    let Some(terminal) = shell("a_pager_and_a_monitor_work", &["less", "top"]) else { return };
    terminal.enter("clear; seq 1000 > /tmp/assay-pager-$$; run less /tmp/assay-pager-$$; echo code $?; rm /tmp/assay-pager-$$");
    terminal.wait_for("less", |screen| screen.starts_with("1\n2\n") && screen.contains("29\n"));
    terminal.press("G");
    terminal.wait_for("its end", |screen| screen.contains("1000\n(END)"));
    terminal.press("q");
    terminal.wait_for_line("code 0");
    terminal.enter("clear; run top -d 0.2; echo code $?");
    terminal.wait_for("top", |screen| screen.contains("PID USER") && screen.contains("top - "));
    terminal.press("q");
    terminal.wait_for("its end", |screen| screen.contains("code 0"));
}

/// The window's own command is the leader of its session; closing the window tells only the leader.
#[test]
fn closing_the_window_hangs_up_the_command() {
    if !are_met(
        "terminal::closing_the_window_hangs_up_the_command",
        &[Need::Root, Need::CgroupV2, Need::Program("tmux")],
    ) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (pid, status) = (folder.path().join("pid"), folder.path().join("status"));
    let command = format!(
        "exec {ASSAY} --quiet sandbox --policy {2} --status-file {0} -- sh -c 'echo $$ $PPID > {1}.new; mv {1}.new {1}; while :; do sleep 0.02; done'",
        status.display(),
        pid.display(),
        every_file().display()
    );
    let terminal = Terminal::open("closing", &command);
    wait_until("the command runs", || pid.exists());
    let ids = fs::read_to_string(&pid).expect("ids");
    let ids: Vec<u32> = ids.split_whitespace().map(|id| id.parse().expect("an id")).collect();
    terminal.close();
    wait_until("both end", || ids.iter().all(|id| !is_running(*id)));
    wait_until("the status is told", || status.exists());
    let told = fs::read_to_string(&status).expect("a status file");
    assert!(told.contains(r#""child":{"signal":"SIGHUP"}"#), "{told}");
    assert!(groups_of(ids[1]).is_empty());
}

#[test]
fn a_summary_comes_after_the_commands_own_lines_and_only_when_wanted() {
    let test = "a_summary_comes_after_the_commands_own_lines_and_only_when_wanted";
    let Some(terminal) = shell(test, &[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("t");
    let shown = |options: &str, over: &str| {
        let policy = every_file().display();
        let command = format!("{ASSAY} sandbox {options} --policy {policy} --trace {}", trace.display());
        terminal.enter(&format!("clear; {command} -- sh -c 'echo one; echo two'; echo {over}"));
        terminal.wait_for_line(over);
        terminal.screen()
    };
    let screen = shown("", "over-1");
    let at = |text: &str| screen.find(text).unwrap_or_else(|| panic!("no `{text}` in\n{screen}"));
    let told =
        ["one\ntwo\nnote: ok: the command exited with 0\nnote: run sandbox_", "note: 0 names written\n"];
    let more = ["note: 1 program started\nnote: 0 connections\n", "note: trace: "];
    let places: Vec<usize> = told.into_iter().chain(more).map(at).collect();
    assert!(places.is_sorted(), "{screen}");
    let screen = shown("--progress never", "over-2");
    assert!(!screen.contains("note: ") && screen.contains("one\ntwo\nover-2"), "{screen}");
}
