//! Every exit code of the program, its meaning and its number.
//!
//! The child's own code passes through untouched; what we decided is told apart from it in the evidence and in
//! the status file, never by the number alone.

use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// A command of ours succeeded, or `diff` found nothing.
    Success,
    /// `lint`, `diff` or `gate` found something.
    Found,
    /// Refused before the command started: usage, bad policy, unenforceable with `--fail-closed`; or, outside
    /// `sandbox`, input that could not be read or believed.
    Refused,
    /// The command ran, but the record is not whole.
    Incomplete,
    /// `--dry-run` saw an action that the policy does not authorise.
    Unauthorised,
    /// `--timeout` passed.
    TimedOut,
    /// Our own failure, before or after the start.
    Failed,
    /// The command was found but could not be executed, or the policy forbids it.
    NotExecutable,
    /// The command was not found.
    NotFound,
    /// The child's own code, 0 to 255.
    Child(u8),
    /// The child was ended by this signal; reported as 128+N.
    ChildSignal(u8),
}

impl Exit {
    /// The number the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Found => 1,
            Self::Refused => 2,
            Self::Incomplete => 3,
            Self::Unauthorised => 4,
            Self::TimedOut => 124,
            Self::Failed => 125,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            Self::Child(code) => code,
            Self::ChildSignal(signal) => 128u8.wrapping_add(signal),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
