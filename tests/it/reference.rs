//! The pages about the command line and its exit codes say what the program says.

use std::process::{Command, Output};

use assay::exit::Exit;

fn assay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_assay"))
        .args(arguments)
        .env("COLUMNS", "100")
        .output()
        .expect("start assay")
}

fn stdout(arguments: &[&str]) -> String {
    let output = assay(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_reference_is_what_the_program_prints() {
    let printed = stdout(&["reference"]);
    assert_eq!(include_str!("../../docs/cli.md"), printed, "run `assay reference > docs/cli.md`");
    for command in [
        "sandbox",
        "evidence gate",
        "report",
        "profile merge",
        "policy check",
        "doctor",
        "completions",
        "man",
    ] {
        assert!(printed.contains(&format!("\n## `assay {command}`\n")), "{command}: {printed}");
    }
}

#[test]
fn every_exit_code_of_ours_has_a_row() {
    let page = include_str!("../../docs/exit-codes.md");
    let ours = [
        Exit::Success,
        Exit::Found,
        Exit::Refused,
        Exit::Incomplete,
        Exit::Unauthorised,
        Exit::TimedOut,
        Exit::Failed,
        Exit::NotExecutable,
        Exit::NotFound,
    ];
    for exit in ours {
        assert!(page.contains(&format!("\n| {} |", exit.code())), "{exit:?}");
    }
}

/// The lines of a help, as a terminal of 80 columns shows them.
fn help(words: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_assay"))
        .args(words)
        .env("COLUMNS", "80")
        .output()
        .expect("start assay");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text").lines().map(ToOwned::to_owned).collect()
}

/// Each command that has no commands of its own, as it is typed.
fn commands() -> Vec<Vec<String>> {
    let headings =
        include_str!("../../docs/cli.md").lines().filter_map(|line| line.strip_prefix("## `assay"));
    let all: Vec<Vec<String>> = headings
        .map(|rest| rest.trim_end_matches('`').split_whitespace().map(ToOwned::to_owned).collect())
        .collect();
    assert!(all.len() > 12, "{all:?}");
    all
}

/// A screen is 24 lines of 80 columns; that of a run, which has more to say, is 40.
#[test]
fn the_short_help_of_every_command_fits_a_screen() {
    for command in commands() {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["-h"]).collect();
        let lines = help(&words);
        let limit = if command == ["sandbox"] { 40 } else { 24 };
        assert!(lines.len() <= limit, "{words:?}: {} lines:\n{}", lines.len(), lines.join("\n"));
        // A usage is one line, however long it is.
        let fits = |line: &String| line.chars().count() <= 80 || line.starts_with("Usage: ");
        assert!(lines.iter().all(fits), "{words:?}:\n{}", lines.join("\n"));
    }
}

#[test]
fn the_long_help_has_all_and_ends_with_examples() {
    let help = help(&["sandbox", "--help"]).join("\n");
    let reference =
        include_str!("../../docs/cli.md").split("\n## ").find(|one| one.starts_with("`assay sandbox`"));
    let options = reference.expect("a section").lines().filter_map(|line| line.strip_prefix("* `--"));
    let mut count = 0;
    for option in options {
        let name = option.split([' ', '`']).next().expect("a name");
        assert!(help.contains(&format!("--{name}")), "{name}: {help}");
        count += 1;
    }
    assert!(count > 20, "{count}");
    let examples = help.split_once("\nExamples:\n").expect("examples").1;
    assert!(examples.lines().count() >= 3 && !examples.contains("\n\n"), "{help}");
    for words in [["evidence", "gate"], ["profile", "merge"], ["policy", "check"]] {
        let help = stdout(&[words[0], words[1], "--help"]);
        assert!(help.contains("\nExamples:\n  assay "), "{help}");
        assert_eq!(help, stdout(&["help", words[0], words[1]]));
    }
}

#[test]
fn an_option_that_means_nothing_alone_is_a_usage_error() {
    for option in [["--profile-format", "json"], ["--profile-report", "r.md"], ["--bundle", "b.tgz"]] {
        let output = assay(&["sandbox", option[0], option[1], "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{option:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--profile <FILE>"), "{output:?}");
    }
}
