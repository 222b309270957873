//! The shape of the command line, nothing else: each command's flags and work are in the file named after it.

use std::ffi::OsString;

use clap::{FromArgMatches as _, Parser, Subcommand};

use crate::exit::Exit;

pub mod daemon;
pub mod doctor;
pub mod env;
pub mod evidence;
pub mod failure;
pub mod generate;
pub mod help;
pub mod output;
pub mod pager;
pub mod policy;
pub mod profile;
pub mod report;
pub mod runs;
pub mod sandbox;
pub mod schemas;

use output::{Color, Output, Verbosity};

/// Run any command and keep an independent record of what it really did.
#[derive(Debug, Parser)]
#[command(name = "assay", version, arg_required_else_help = true, disable_help_subcommand = true)]
struct Cli {
    /// Say less: errors only.
    #[arg(long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more about what is being done.
    #[arg(long, global = true)]
    verbose: bool,
    /// When to colour: also off with `NO_COLOR`.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command, record what it did, hold it to a policy.
    Sandbox(Box<sandbox::Args>),
    /// Check, read and compare evidence bundles.
    #[command(subcommand)]
    Evidence(evidence::Command),
    /// Make a report of a bundle, for a person.
    ///
    /// Exits 0, or 2 when the bundle could not be read, is not good, or holds no record of a run.
    Report(report::Args),
    /// List, check and export the runs in a spool.
    #[command(subcommand)]
    Runs(runs::Command),
    /// Merge and compare profiles.
    #[command(subcommand)]
    Profile(profile::Command),
    /// Check a policy and what it means here.
    #[command(subcommand)]
    Policy(policy::Command),
    /// What this host can observe and enforce, and how to get the rest.
    Doctor(doctor::Args),
    /// Observe the runs of ordinary users, and keep their records.
    Daemon(daemon::Args),
    /// Print completions for a shell.
    Completions(generate::CompletionsArgs),
    /// Write the man pages into a directory.
    Man(generate::ManArgs),
    /// Print `docs/cli.md`.
    #[command(hide = true)]
    Reference,
    /// Write `docs/formats/schema`.
    #[command(hide = true)]
    Schemas(schemas::Args),
}

/// Runs the command line of this process.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args = help::without_help_word(args.into_iter().collect());
    let matches = help::command_for(&args).try_get_matches_from(&args);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let exit = output::usage(&error);
            if let Some(hint) = help::hint(&error, &args) {
                Output::new(Verbosity::Normal, Color::Auto).hint(&hint);
            }
            return exit;
        }
    };
    let verbosity = match (cli.quiet, cli.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    };
    let out = Output::new(verbosity, cli.color);
    match cli.command {
        Command::Sandbox(args) => sandbox::run(*args, &out),
        Command::Evidence(command) => evidence::run(command, &out),
        Command::Report(args) => report::run(&args, &out),
        Command::Runs(command) => runs::run(command, &out),
        Command::Profile(command) => profile::run(command, &out),
        Command::Policy(command) => policy::run(command, &out),
        Command::Doctor(args) => doctor::run(args, &out),
        Command::Daemon(args) => daemon::run(args, &out),
        Command::Completions(args) => generate::completions(&args, &out),
        Command::Man(args) => generate::man(&args, &out),
        Command::Reference => generate::reference(&out),
        Command::Schemas(args) => schemas::run(&args, &out),
    }
}
