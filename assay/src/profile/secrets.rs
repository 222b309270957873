//! The numbers that stand for secrets in one artifact: `${REDACTED:n}`. Pure.
//!
//! One secret has one number, counted from 1 by first occurrence; a secret found once is replaced wherever else it
//! occurs.

use std::collections::{BTreeMap, HashMap};

use super::redact::{Found, Secret};
use super::volatile::find;

/// The secrets of one artifact and their numbers.
///
/// While texts are built a secret is a mark that no text can contain; [`Secrets::number`] gives the numbers in the
/// order the texts are shown to it, and [`Secrets::write`] puts them in.
#[derive(Debug, Default)]
pub struct Secrets {
    values: Vec<Vec<u8>>,
    index: HashMap<Vec<u8>, usize>,
    numbers: HashMap<usize, usize>,
    counts: BTreeMap<&'static str, u64>,
}

/// Begins and ends a mark. `Name` text never contains them: controls are written out.
const MARK_START: char = '\u{1}';
const MARK_END: char = '\u{2}';
/// How many different secrets are looked for in every other text.
const MAX_LEARNED: usize = 64;
/// A shorter value would be found by chance.
const MIN_LEARNED: usize = 8;

impl Secrets {
    /// Counts and learns the secrets of one text; [`Secrets::mark`] is then told where they are.
    pub fn learn(&mut self, text: &[u8], secrets: &[Secret]) {
        for secret in secrets {
            self.intern(&text[secret.range.clone()]);
            *self.counts.entry(secret.rule).or_default() += 1;
        }
    }

    fn intern(&mut self, value: &[u8]) -> usize {
        if let Some(&known) = self.index.get(value) {
            return known;
        }
        self.values.push(value.to_vec());
        self.index.insert(value.to_vec(), self.values.len() - 1);
        self.values.len() - 1
    }

    /// Whether nothing secret was found so far.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Adds to `secrets` the places where something learned elsewhere stands in `text`.
    pub fn add_learned(&self, text: &[u8], secrets: &mut Vec<Secret>) {
        let mut found = Found::from_secrets(secrets);
        for value in self.values.iter().filter(|value| value.len() >= MIN_LEARNED).take(MAX_LEARNED) {
            let mut from = 0;
            while let Some(at) = find(&text[from..], value).map(|at| from + at) {
                found.add(at..at + value.len(), "learned");
                from = at + value.len();
            }
        }
        *secrets = found.into_secrets();
    }

    /// Writes `text` with marks for its secrets; `plain` writes what lies between them.
    pub fn mark(
        &mut self,
        text: &[u8],
        secrets: &[Secret],
        out: &mut String,
        mut plain: impl FnMut(&[u8], &mut String),
    ) {
        let mut from = 0;
        for secret in secrets {
            plain(&text[from..secret.range.start], out);
            let index = self.intern(&text[secret.range.clone()]);
            out.push(MARK_START);
            out.push_str(&index.to_string());
            out.push(MARK_END);
            from = secret.range.end;
        }
        plain(&text[from..], out);
    }

    /// Counts `n` replacements by `rule` that [`Secrets::learn`] did not see.
    pub fn count(&mut self, rule: &'static str, n: u64) {
        *self.counts.entry(rule).or_default() += n;
    }

    /// Gives numbers to the secrets of `text` that have none yet.
    pub fn number(&mut self, text: &str) {
        for index in marks(text) {
            let next = self.numbers.len() + 1;
            self.numbers.entry(index).or_insert(next);
        }
    }

    /// The key by which texts with marks sort before there are numbers: all secrets look alike, and where only they
    /// differ their own bytes decide.
    pub fn sort_key(&self, text: &str) -> (String, Vec<&[u8]>) {
        if !text.contains(MARK_START) {
            return (text.to_owned(), Vec::new());
        }
        let values = marks(text).into_iter().map(|index| self.values[index].as_slice()).collect();
        (replace_marks(text, |_, out| out.push_str("${REDACTED}")), values)
    }

    /// `text` with `${REDACTED:n}` for every mark.
    pub fn write(&mut self, text: &str) -> String {
        if !text.contains(MARK_START) {
            return text.to_owned();
        }
        self.number(text);
        let numbers = &self.numbers;
        replace_marks(text, |index, out| {
            out.push_str("${REDACTED:");
            out.push_str(&numbers[&index].to_string());
            out.push('}');
        })
    }

    /// How many were replaced, by rule.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }
}

fn marks(text: &str) -> Vec<usize> {
    text.split(MARK_START)
        .skip(1)
        .filter_map(|rest| rest.split(MARK_END).next().and_then(|index| index.parse().ok()))
        .collect()
}

fn replace_marks(text: &str, mut with: impl FnMut(usize, &mut String)) -> String {
    let mut pieces = text.split(MARK_START);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (index, rest) = piece.split_once(MARK_END).unwrap_or((piece, ""));
        if let Ok(index) = index.parse() {
            with(index, &mut out);
        }
        out.push_str(rest);
    }
    out
}
