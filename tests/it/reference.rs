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

/// In one layout, whichever form of the flag is used, and with examples at its end.
#[test]
fn the_help_of_a_run_fits_a_screen() {
    let help = stdout(&["sandbox", "--help"]);
    assert_eq!(help, stdout(&["sandbox", "-h"]));
    assert!(help.lines().count() <= 60, "{} lines:\n{help}", help.lines().count());
    assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
    let examples = help.split_once("\nExamples:\n").expect("examples").1;
    assert!(examples.lines().count() >= 3 && !examples.contains("\n\n"), "{help}");
}

#[test]
fn an_option_that_means_nothing_alone_is_a_usage_error() {
    for option in [["--profile-format", "json"], ["--profile-report", "r.md"], ["--bundle", "b.tgz"]] {
        let output = assay(&["sandbox", option[0], option[1], "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{option:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--profile <FILE>"), "{output:?}");
    }
}
