//! The person's pager, on a terminal and nowhere else.

use std::io::{self, IsTerminal as _};
use std::process::{Child, Command, Stdio};

use crate::cli::output::Output;
use crate::profile::name::harmless;

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
    /// bundle. A name that leads to no program is said, and what was to be shown goes to stdout.
    pub fn start(self, out: &Output) -> Option<Child> {
        if self == Self::Never || !io::stdout().is_terminal() {
            return None;
        }
        let mut command = match std::env::var("PAGER") {
            Ok(pager) if pager.trim().is_empty() || pager.trim() == "cat" => return None,
            Ok(pager) if !is_there(&pager) => {
                out.warning(&format!("PAGER: no program `{}`", harmless(pager.trim())));
                return None;
            }
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

/// Whether the shell knows what the line begins with. A line that begins with a setting is the shell's to judge.
fn is_there(pager: &str) -> bool {
    let Some(first) = pager.split_whitespace().next() else { return false };
    let mut ask = Command::new("/bin/sh");
    ask.args(["-c", "command -v -- \"$0\"", first]).stdout(Stdio::null()).stderr(Stdio::null());
    first.contains(['=', '"', '\'', '$', '(']) || ask.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pager_that_is_not_there_is_known_before_anything_is_shown() {
        assert!(!is_there("no-such-pager -R") && !is_there(" "));
        assert!(is_there("cat -u") && is_there(" /bin/cat") && is_there("LESS=R less"));
    }
}
