//! Every developer command of assay: `cargo xtask --help`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod again;
mod agents;
mod bench;
mod book;
mod browser;
mod check;
mod ebpf;
mod fuzz;
mod initramfs;
mod kernel;
mod oracle;
mod package;
mod python;
mod schema;
mod setup;
mod sources;
mod step;
mod tidy;
mod toolchain;
mod unpacked;
mod vm;

/// Every developer command of assay.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Installs what is missing, then checks all: the test command of the README.
    Ci,
    /// All that CI runs, in its order.
    Check,
    /// Installs the Debian packages and tools that the tests use.
    Setup,
    /// The tests, kernel tests included.
    Test,
    /// The kernel half: build the object, check it, install what it takes.
    #[command(subcommand)]
    Ebpf(ebpf::Command),
    /// The kernel tests: built as you, run as root.
    Kernel {
        /// Only tests whose names hold one of these.
        filters: Vec<String>,
    },
    /// The kernel tests on Debian's 6.1 kernel in QEMU, booted in several ways.
    Vm(vm::Options),
    /// The HTML report in a headless Chromium.
    Browser(browser::Options),
    /// Run real coding agents, offline, and write the table in docs/agents.md.
    Agents(agents::Options),
    /// Hold traces against strace's, and write the table in docs/oracle.md.
    Oracle,
    /// Write docs/formats/schema anew, from the formats as the program has them.
    Schema,
    /// A Debian package and a static program: made, and tried where nothing else is.
    #[command(subcommand)]
    Package(package::Command),
    /// The pages as a book, with mdbook.
    Book,
    /// Fuzz what reads foreign bytes, and keep what was learned as tests.
    Fuzz(fuzz::Options),
    /// Measurements behind the decisions.
    #[command(subcommand)]
    Bench(bench::Command),
    /// The rules of architecture and style that a program can check.
    Tidy,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Ebpf(what) => ebpf::execute(what),
        Command::Ci => setup::execute().and_then(|()| check::check()).map(|()| ExitCode::SUCCESS),
        Command::Setup => setup::execute().map(|()| ExitCode::SUCCESS),
        Command::Check => check::check().map(|()| ExitCode::SUCCESS),
        Command::Test => check::test().map(|()| ExitCode::SUCCESS),
        Command::Kernel { filters } => kernel::execute(&filters, &[]).map(|_| ExitCode::SUCCESS),
        Command::Vm(options) => vm::execute(&options).map(|_| ExitCode::SUCCESS),
        Command::Browser(options) => browser::execute(&options).map(|()| ExitCode::SUCCESS),
        Command::Agents(options) => agents::execute(&options).map(|()| ExitCode::SUCCESS),
        Command::Oracle => oracle::execute().map(|()| ExitCode::SUCCESS),
        Command::Schema => schema::execute().map(|()| ExitCode::SUCCESS),
        Command::Package(what) => package::execute(what).map(|()| ExitCode::SUCCESS),
        Command::Book => book::execute().map(|()| ExitCode::SUCCESS),
        Command::Fuzz(options) => fuzz::execute(&options).map(|()| ExitCode::SUCCESS),
        Command::Bench(what) => bench::execute(&what).map(|()| ExitCode::SUCCESS),
        Command::Tidy => tidy::execute().map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
