//! The command line's definition with its examples, and what of it the short help shows.
//!
//! In: what was typed. Out: a [`clap::Command`]; and what else to say to somebody who mistyped. Reads nothing, prints nothing.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _};

use super::Cli;

/// What each command is typed for, at the end of its `--help`. They are parsed by a test.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "evidence verify",
        "assay evidence verify run.tar.gz\nassay evidence verify run.tar.gz --attestation run.att.json --key ci.pub",
    ),
    ("evidence lint", "assay evidence lint run.tar.gz\nassay evidence lint --explain all"),
    ("evidence diff", "assay evidence diff last.tar.gz run.tar.gz"),
    (
        "evidence show",
        "assay evidence show run.tar.gz --kind net\nassay evidence show run.tar.gz --result denied",
    ),
    ("evidence gate", "assay evidence gate run.tar.gz --policy assay.yaml --baseline last-good.tar.gz"),
    ("evidence attest", "assay evidence attest run.tar.gz --key ci.key > run.att.json"),
    (
        "runs list",
        "assay runs list --since 7d --user ann\nassay runs list --path ${HOME}/.ssh --host example.org",
    ),
    ("runs show", "assay runs show 12"),
    (
        "runs verify",
        "assay runs verify\nassay runs verify --head sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ),
    ("runs export", "assay runs export 12 13 -o .\nassay runs export --verdict denied -o - > denied.tar"),
    ("runs gc", "assay runs gc --keep-days 90 --dry-run\nassay runs gc --max-bytes 20G"),
    ("profile merge", "assay profile merge run-1.yaml run-2.yaml run-3.yaml > all.yaml"),
    ("profile diff", "assay profile diff run-1.yaml run-2.yaml"),
    (
        "policy check",
        "assay policy check --builtin\nassay policy check assay.yaml --path ~/.ssh --connect example.org:443",
    ),
    ("daemon", "assay daemon\nassay daemon --metrics 127.0.0.1:9432 --max-runs-per-user 8"),
    ("doctor", "assay doctor\nassay doctor --fix-hints"),
    ("completions", "assay completions bash > ~/.local/share/bash-completion/completions/assay"),
    ("man", "assay man ~/.local/share/man/man1"),
];

/// Options of a run that its short help leaves out, so that it fits a screen.
const RARE: [&str; 18] = [
    "daemon",
    "trace",
    "profile_format",
    "profile_report",
    "keep_records",
    "second_witness",
    "status_file",
    "allow_unobserved",
    "keep_caps",
    "env_strip_exec",
    "env_allow",
    "env_safe_path",
    "env_passthrough",
    "descendants",
    "progress",
    // Of the whole program.
    "quiet",
    "verbose",
    "color",
];

/// At the end of a run's short help.
const MORE: &str = "`assay sandbox --help` lists all options.";

/// The whole command line.
pub fn command() -> Command {
    EXAMPLES.iter().fold(Cli::command(), |root, (path, examples)| {
        let indented = format!("\n{examples}").replace('\n', "\n  ");
        at(root, &path.split(' ').collect::<Vec<_>>(), &|one| {
            one.after_long_help(format!("Examples:{indented}"))
        })
    })
}

/// The command line for what was typed: `-h` of a run shows the options that most runs need.
pub fn command_for(args: &[OsString]) -> Command {
    let ours = args.iter().take_while(|arg| *arg != "--");
    let has = |word: &str| ours.clone().any(|arg| arg == word);
    if !(has("sandbox") && has("-h")) {
        return command();
    }
    let hide = |arg: clap::Arg| if RARE.contains(&arg.get_id().as_str()) { arg.hide(true) } else { arg };
    at(command().mut_args(hide), &["sandbox"], &|sandbox| {
        let sandbox = sandbox.mut_args(hide);
        let examples = sandbox.get_after_help().map(ToString::to_string).unwrap_or_default();
        sandbox.after_help(format!("{examples}\n\n{MORE}"))
    })
}

/// Changes the command of this path.
fn at(command: Command, path: &[&str], change: &dyn Fn(Command) -> Command) -> Command {
    match path {
        [] => change(command),
        [first, rest @ ..] => command.mut_subcommand(first, |below| at(below, rest, change)),
    }
}

/// What was typed, with `help COMMAND…` written as what it means.
pub fn without_help_word(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).map(OsString::as_os_str) == Some(OsStr::new("help")) {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// What else to say to somebody whose command line was not understood; `None` when clap's words are enough.
pub fn hint(error: &clap::Error, args: &[OsString]) -> Option<String> {
    let is_a_run = args
        .iter()
        .skip(1)
        .find(|arg| !arg.to_string_lossy().starts_with('-'))
        .is_some_and(|arg| arg == "sandbox");
    if !is_a_run || args.iter().any(|arg| arg == "--") {
        return None;
    }
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        // An option of ours that is mistyped has clap's own tip.
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) if !word.starts_with('-') => {
            Some(format!("the command stands behind `--`: assay sandbox [OPTIONS] -- {word} …"))
        }
        (ErrorKind::MissingRequiredArgument, _) => {
            Some("the command stands behind `--`: assay sandbox [OPTIONS] -- make test".into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_one_that_the_command_takes() {
        let root = command();
        for (path, examples) in EXAMPLES {
            for line in examples.lines() {
                let typed = line.split(" > ").next().unwrap_or_default();
                assert!(
                    typed.starts_with(&format!("assay {path} ")) || typed == format!("assay {path}"),
                    "{line}"
                );
                let taken = root.clone().try_get_matches_from(typed.split(' '));
                assert!(taken.is_ok(), "{line}: {}", taken.unwrap_err());
            }
        }
    }

    #[test]
    fn the_short_help_leaves_out_what_is_there_and_nothing_is_gone() {
        let names = |command: &Command| -> Vec<String> {
            let sandbox = command.find_subcommand("sandbox").unwrap();
            sandbox
                .get_arguments()
                .filter(|arg| !arg.is_hide_set())
                .map(|arg| arg.get_id().to_string())
                .collect()
        };
        let short = names(&command_for(&["assay".into(), "sandbox".into(), "-h".into()]));
        let all = names(&command());
        let left_out = RARE.iter().filter(|name| all.iter().any(|one| one == *name)).count();
        assert_eq!(left_out, RARE.len() - 3);
        assert_eq!(short.len(), all.len() - left_out);
        let behind: Vec<OsString> = ["assay", "sandbox", "--", "ls", "-h"].map(Into::into).into();
        assert_eq!(names(&command_for(&behind)), all);
    }

    #[test]
    fn a_forgotten_separator_is_told() {
        let told = |line: &str| {
            let args: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let error = command().try_get_matches_from(&args).unwrap_err();
            hint(&error, &args)
        };
        let of_true = "the command stands behind `--`: assay sandbox [OPTIONS] -- true …";
        assert_eq!(told("assay sandbox true").as_deref(), Some(of_true));
        assert_eq!(told("assay --quiet sandbox --dry-run true -x").as_deref(), Some(of_true));
        assert!(told("assay sandbox --dry-run").unwrap().contains("behind `--`"));
        assert_eq!(told("assay sandbox --polcy x"), None);
        assert_eq!(told("assay sandbox --"), None);
        assert_eq!(told("assay doctor true"), None);
    }

    #[test]
    fn help_is_a_word_for_the_option() {
        let check = |typed: &[&str], expect: &[&str]| {
            let args = without_help_word(typed.iter().map(Into::into).collect());
            assert_eq!(args, expect);
        };
        check(&["assay", "help"], &["assay", "--help"]);
        check(&["assay", "help", "evidence", "gate"], &["assay", "evidence", "gate", "--help"]);
        check(&["assay", "sandbox", "--", "help"], &["assay", "sandbox", "--", "help"]);
    }
}
