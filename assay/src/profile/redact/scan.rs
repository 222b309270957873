//! Searches that start again and again in one text, and look at no byte twice. Pure.

use std::ops::Range;

use super::rules::NAME_ENDS;
use crate::profile::effort::looked_at;

/// Where the next byte of some kind is, for a search that starts again and again further on: no byte is looked at
/// twice.
pub struct Next<'a, F> {
    text: &'a [u8],
    is_it: F,
    from: usize,
    at: usize,
}

impl<'a, F: Fn(u8) -> bool> Next<'a, F> {
    /// A search in `text` for the bytes that are it.
    pub fn new(text: &'a [u8], is_it: F) -> Self {
        Self { text, is_it, from: usize::MAX, at: 0 }
    }

    /// The first at `from` or later; the end of the text if there is none.
    pub fn after(&mut self, from: usize) -> usize {
        if from < self.from || from > self.at {
            let rest = self.text.get(from..).unwrap_or_default();
            let distance = rest.iter().position(|&byte| (self.is_it)(byte)).unwrap_or(rest.len());
            looked_at(distance + 1);
            (self.from, self.at) = (from, from + distance);
        }
        self.at
    }
}

/// Where the last of one byte is before a place, for every place at once.
pub struct LastBefore(Vec<usize>);

impl LastBefore {
    /// Of the whole text.
    pub fn new(text: &[u8], wanted: u8) -> Self {
        looked_at(text.len());
        Self(text.iter().enumerate().filter(|(_, byte)| **byte == wanted).map(|(at, _)| at).collect())
    }

    /// The last before `end`.
    pub fn before(&self, end: usize) -> Option<usize> {
        self.0.partition_point(|at| *at < end).checked_sub(1).map(|last| self.0[last])
    }
}

/// How many of the first bytes are it.
pub fn run(text: &[u8], is_it: impl Fn(u8) -> bool) -> usize {
    let len = text.iter().take_while(|byte| is_it(**byte)).count();
    looked_at(len + 1);
    len
}

/// Where the last bytes begin that are it.
pub fn last_run(text: &[u8], is_it: impl Fn(u8) -> bool) -> usize {
    let start = text.iter().rposition(|byte| !is_it(*byte)).map_or(0, |before| before + 1);
    looked_at(text.len() - start + 1);
    start
}

/// A text without separators, in lower case, and how much of it lies before each place of the text: the bare form of
/// any part of it at once.
pub struct Bare {
    letters: Vec<u8>,
    before: Vec<usize>,
}

impl Bare {
    /// Of the whole text.
    pub fn new(text: &[u8]) -> Self {
        let mut letters = Vec::with_capacity(text.len());
        let mut before = Vec::with_capacity(text.len() + 1);
        for byte in text {
            before.push(letters.len());
            if byte.is_ascii_alphanumeric() {
                letters.push(byte.to_ascii_lowercase());
            }
        }
        before.push(letters.len());
        Self { letters, before }
    }

    /// Of one part.
    pub fn part(&self, range: Range<usize>) -> &[u8] {
        &self.letters[self.before[range.start]..self.before[range.end]]
    }

    /// Whether a name there ends as the names of secrets do.
    pub fn ends_as_secret(&self, range: Range<usize>) -> bool {
        let name = self.part(range);
        NAME_ENDS.iter().any(|end| name.ends_with(end.as_bytes()))
    }
}
