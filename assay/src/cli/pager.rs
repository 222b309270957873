//! The person's pager, on a terminal and nowhere else.

use std::io::{self, IsTerminal as _};
use std::process::{Child, Command, Stdio};

/// When to use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Pager {
    /// When stdout is a terminal.
    Auto,
    /// Not at all.
    Never,
}

impl Pager {
    /// Starts it, when it is wanted and there is one. Its name comes from the person's environment, never from a
    /// bundle.
    pub fn start(self) -> Option<Child> {
        if self == Self::Never || !io::stdout().is_terminal() {
            return None;
        }
        let mut command = match std::env::var("PAGER") {
            Ok(pager) if pager.trim().is_empty() || pager.trim() == "cat" => return None,
            Ok(pager) => {
                let mut command = Command::new("/bin/sh");
                command.arg("-c").arg(pager);
                command
            }
            Err(_) => Command::new("less"),
        };
        if std::env::var_os("LESS").is_none() {
            // Quit when it fits on the screen, colours as they are, the screen as it was.
            command.env("LESS", "FRX");
        }
        command.stdin(Stdio::piped()).spawn().ok()
    }
}
