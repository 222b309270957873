//! The binary: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    assay::cli::run(std::env::args_os()).into()
}
