//! Completions, man pages and `docs/cli.md`, generated from the command line's own definition.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

use crate::cli::help;
use crate::cli::output::Output;
use crate::exit::Exit;

/// Flags of `assay completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// For which shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Flags of `assay man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Where the pages go; made when it is not there.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes a shell's completions to stdout.
pub fn completions(args: &CompletionsArgs, out: &Output) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut help::command(), "assay", &mut script);
    match out.result(&script) {
        Ok(()) => Exit::Success,
        Err(error) => {
            out.error(&format!("write the completions: {error}"));
            Exit::Refused
        }
    }
}

/// Writes one man page a command into a directory.
pub fn man(args: &ManArgs, out: &Output) -> Exit {
    match write_pages(&args.directory) {
        Ok(()) => Exit::Success,
        Err(error) => {
            out.error(&format!("write man pages to {}: {error}", args.directory.display()));
            Exit::Refused
        }
    }
}

fn write_pages(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(help::command(), directory)
}

/// Prints `docs/cli.md`.
pub fn reference(out: &Output) -> Exit {
    let mut text = String::from(
        "# Command line\n\nGenerated from the program by `assay reference > docs/cli.md`. Exit codes: `exit-codes.md`.\n",
    );
    let mut root = help::command();
    root.build();
    describe(&root, &mut text);
    match out.result(text.as_bytes()) {
        Ok(()) => Exit::Success,
        Err(error) => {
            out.error(&format!("write the reference: {error}"));
            Exit::Refused
        }
    }
}

/// One section a command, its subcommands after it.
fn describe(command: &Command, text: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let is_root = !name.contains(' ');
    // Writing to a String cannot fail, here and below.
    let _ = write!(text, "\n## `{name}`\n\n{}.\n\n    {usage}\n", about.trim_end_matches('.'));
    let mut headings: Vec<&str> = Vec::new();
    let arguments = || {
        command.get_arguments().filter(|argument| {
            let is_everywhere = argument.is_global_set() && !is_root;
            let is_clap_s_own = matches!(argument.get_id().as_str(), "help" | "version" | "_help");
            !is_everywhere && !is_clap_s_own && !argument.is_hide_set()
        })
    };
    for argument in arguments() {
        let heading = heading_of(argument);
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = write!(text, "\n{heading}:\n\n");
        for argument in arguments().filter(|argument| heading_of(argument) == heading) {
            text.push_str(&option(argument));
        }
    }
    if let Some(more) = command.get_after_help().or(command.get_after_long_help()) {
        let more = more.to_string().replace('\n', "\n    ");
        let _ = write!(text, "\n    {more}\n");
    }
    for subcommand in command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help") {
        describe(subcommand, text);
    }
}

fn heading_of(argument: &Arg) -> &str {
    argument.get_help_heading().unwrap_or(if argument.is_positional() { "Arguments" } else { "Options" })
}

/// One line an option: its form, what it does, what it may be.
fn option(argument: &Arg) -> String {
    let names: Vec<&str> = argument.get_value_names().unwrap_or_default().iter().map(AsRef::as_ref).collect();
    let takes_value = argument.get_action().takes_values();
    let value = if takes_value { format!("<{}>", names.join("> <")) } else { String::new() };
    let form = match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long} {value}"),
        (Some(short), None) => format!("-{short} {value}"),
        (None, Some(long)) => format!("--{long} {value}"),
        (None, None) => value,
    };
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut line = format!("* `{}`: {}", form.trim_end(), help.trim_end_matches('.'));
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| takes_value && !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !values.is_empty() {
        let _ = write!(line, "; one of {}", values.join(", "));
    }
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    if !defaults.is_empty() {
        let _ = write!(line, "; default {}", defaults.join(", "));
    }
    format!("{line}.\n")
}
