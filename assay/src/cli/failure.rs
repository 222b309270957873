//! Error → message, hint, exit code: what a person reads when a run did not start.

use crate::cli::output::Output;
use crate::exit::Exit;

/// What is wrong with what was asked, and how to ask it right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub text: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Refusal {
    /// A refusal that explains itself.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), hint: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Says it, and ends as refused.
    pub fn tell(&self, out: &Output) -> Exit {
        out.error(&self.text);
        if let Some(hint) = &self.hint {
            out.hint(hint);
        }
        Exit::Refused
    }
}
