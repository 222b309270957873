//! stdout, stderr and colour: the only place that prints.
//!
//! stdout is the result; stderr is everything else, one fact a line. A closed pipe on stdout is success.

use std::io::{BufWriter, IsTerminal as _, Write};

use crate::cli::pager::Pager;
use crate::exit::Exit;
use crate::profile::name::must_escape;

/// How much to say on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// Errors, warnings, notes.
    Normal,
    /// All of it.
    Verbose,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal without `NO_COLOR`.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Where messages go.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    verbosity: Verbosity,
    color: Color,
}

impl Output {
    /// An output with these settings.
    pub fn new(verbosity: Verbosity, color: Color) -> Self {
        Self { verbosity, color }
    }

    /// Something went wrong. Always printed.
    pub fn error(&self, text: &str) {
        self.line("error", "31;1", text);
    }

    /// A complaint that begins with its own place (`FILE:LINE:COL:`), so without a word before it. Always printed.
    pub fn problem(&self, text: &str) {
        // A closed stderr leaves nobody to tell.
        drop(std::io::stderr().lock().write_all(format!("{}\n", shown(text)).as_bytes()));
    }

    /// Something to act on.
    pub fn warning(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.line("warning", "33;1", text);
        }
    }

    /// Whether warnings are told.
    pub fn tells_warnings(&self) -> bool {
        self.verbosity >= Verbosity::Normal
    }

    /// What to do about the line before.
    pub fn hint(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.line("hint", "36", text);
        }
    }

    /// A fact.
    pub fn note(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            self.line("note", "1", text);
        }
    }

    /// A detail.
    pub fn detail(&self, text: &str) {
        if self.verbosity >= Verbosity::Verbose {
            self.line("detail", "2", text);
        }
    }

    /// Writes the result to stdout.
    pub fn result(&self, bytes: &[u8]) -> std::io::Result<()> {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Lets `write` write the result to stdout, or through the pager on a terminal.
    pub fn result_with(
        &self,
        pager: Pager,
        write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let written = if let Some(mut child) = pager.start(self) {
            let mut stdin = BufWriter::new(child.stdin.take().expect("the pager was started with a pipe"));
            let written = write(&mut stdin).and_then(|()| stdin.flush());
            drop(stdin);
            written.and(child.wait().map(|_| ()))
        } else {
            let mut stdout = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
            write(&mut stdout).and_then(|()| stdout.flush())
        };
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Whether messages go to a terminal.
    pub fn is_read_by_a_person(&self) -> bool {
        std::io::stderr().is_terminal()
    }

    /// Whether to colour what goes to stdout.
    pub fn is_colored(&self) -> bool {
        self.wants_color(std::io::stdout().is_terminal())
    }

    fn wants_color(self, is_terminal: bool) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// One line on stderr. Controls in `text` are shown, not sent: names in it may be hostile.
    fn line(self, word: &str, style: &str, text: &str) {
        let mut stderr = std::io::stderr().lock();
        let shown = shown(text);
        let line = if self.wants_color(std::io::stderr().is_terminal()) {
            format!("\x1b[{style}m{word}\x1b[0m: {shown}\n")
        } else {
            format!("{word}: {shown}\n")
        };
        // A closed stderr leaves nobody to tell.
        drop(stderr.write_all(line.as_bytes()));
    }
}

/// Text in which what a terminal would act on is made visible.
fn shown(text: &str) -> String {
    text.chars().map(|c| if must_escape(c) && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// Prints what clap says: help and version to stdout, usage errors to stderr.
pub fn usage(error: &clap::Error) -> Exit {
    // A closed stdout or stderr leaves nobody to tell.
    drop(error.print());
    if error.use_stderr() { Exit::Refused } else { Exit::Success }
}
