//! The binary: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = assay::sandbox::reexec::run(std::env::args_os()) {
        return code;
    }
    assay::cli::run(std::env::args_os()).into()
}
