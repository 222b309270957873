//! One complaint about a policy, with the place it is about. Pure.

use std::fmt;

use crate::profile::name::harmless;

/// What is wrong, where, and what to write instead. Prints as `FILE:LINE:COL: message; hint`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

/// A place in a policy file. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file as it was named, `builtin:minimal`, or `base:system`.
    pub file: String,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// What is wrong with a piece of text, and what to write instead; whoever read it knows the place.
pub type Complaint = (String, Option<String>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it quotes may be a stranger's, and must stay one line.
        write!(f, "{}: {}", self.place, harmless(&self.message))?;
        match &self.hint {
            Some(hint) => write!(f, "; {}", harmless(hint)),
            None => Ok(()),
        }
    }
}

/// The word of `known` that `word` was most likely meant to be, if any is near enough.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // A long word is never near, and comparing it would cost its square.
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}
