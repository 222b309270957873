//! The numbers that stand for secrets in one artifact: `${REDACTED:n}`. Pure.
//!
//! One secret has one number, counted from 1 by first occurrence; a secret found once is replaced wherever else it
//! occurs.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::rc::Rc;

use super::prefixes::Prefixes;
use super::redact::{Found, Secret};

/// The secrets of one artifact and their numbers.
///
/// While texts are built a secret is a mark that no text can contain; [`Secrets::number`] gives the numbers in the
/// order the texts are shown to it, and [`Secrets::write`] puts them in.
#[derive(Debug, Default)]
pub struct Secrets {
    values: Vec<Rc<[u8]>>,
    /// Sorted, so that what begins with something stands together.
    index: BTreeMap<Rc<[u8]>, usize>,
    numbers: HashMap<usize, usize>,
    counts: BTreeMap<&'static str, u64>,
    /// Those that are looked for in every other text.
    learned: Prefixes,
    /// A bit for each byte that one of them begins with.
    first: [u64; 4],
}

/// Begins and ends a mark. `Name` text never contains them: controls are written out.
const MARK_START: char = '\u{1}';
const MARK_END: char = '\u{2}';
/// A shorter value would be found by chance.
const MIN_LEARNED: usize = 8;

impl Secrets {
    /// Counts and learns the secrets of one text; [`Secrets::mark`] is then told where they are.
    pub fn learn(&mut self, text: &[u8], secrets: &[Secret]) {
        for secret in secrets {
            let index = self.intern(&text[secret.range.clone()]);
            self.look_for(index);
            *self.counts.entry(secret.rule).or_default() += 1;
        }
    }

    fn intern(&mut self, value: &[u8]) -> usize {
        if let Some(&known) = self.index.get(value) {
            return known;
        }
        let value: Rc<[u8]> = value.into();
        self.values.push(Rc::clone(&value));
        self.index.insert(value, self.values.len() - 1);
        self.values.len() - 1
    }

    fn look_for(&mut self, index: usize) {
        let value = &self.values[index];
        if value.len() >= MIN_LEARNED {
            self.first[usize::from(value[0] >> 6)] |= 1 << (value[0] & 63);
            self.learned.add(value);
        }
    }

    /// Whether nothing secret was found so far.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A text of the observer's own about a name of the run, without the secrets in it.
    pub fn hide(&mut self, text: &str) -> String {
        let name = super::name::unescape(text);
        let bytes = name.as_deref().unwrap_or(text.as_bytes());
        let mut found = super::redact::find_key_shapes(bytes);
        self.add_learned(bytes, &mut found);
        if found.is_empty() {
            return text.to_owned();
        }
        let mut marked = String::new();
        self.mark(bytes, &found, &mut marked, super::name::escape_into);
        self.write(&marked)
    }

    /// Whether a secret that was found begins so.
    pub fn has_beginning(&self, text: &[u8]) -> bool {
        let from = (Bound::Included(text), Bound::Unbounded);
        self.index.range::<[u8], _>(from).next().is_some_and(|(value, _)| value.starts_with(text))
    }

    /// Whether a secret is marked in `text`.
    pub fn has_mark(text: &str) -> bool {
        text.contains(MARK_START)
    }

    /// Adds to `secrets` the places where something learned elsewhere stands in `text`.
    pub fn add_learned(&self, text: &[u8], secrets: &mut Vec<Secret>) {
        if self.learned.is_empty() {
            return;
        }
        let mut found = None;
        for (at, byte) in text.iter().enumerate() {
            if self.first[usize::from(byte >> 6)] >> (byte & 63) & 1 == 0 {
                continue;
            }
            if let Some(len) = self.learned.longest_of(&text[at..]) {
                found.get_or_insert_with(|| Found::from_secrets(secrets)).add(at..at + len, "learned");
            }
        }
        if let Some(found) = found {
            *secrets = found.into_secrets();
        }
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
        let values = marks(text).into_iter().map(|index| &*self.values[index]).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// However many there are, and however they begin: none is forgotten, and nothing else is hidden.
    #[test]
    fn every_secret_is_looked_for() {
        let mut secrets = Secrets::default();
        let longer = (0..300).map(|len| format!("hunter22{}", "a".repeat(len)));
        let values: Vec<String> = longer.chain((0..3_000).map(|n| format!("correct-{n}-horse"))).collect();
        for value in &values {
            secrets.learn(value.as_bytes(), &[Secret { range: 0..value.len(), rule: "test" }]);
            secrets.learn(value.as_bytes(), &[Secret { range: 0..value.len(), rule: "test" }]);
        }
        for value in &values {
            let text = secrets.hide(&format!("a/{value}/b"));
            assert!(text.starts_with("a/${REDACTED:") && text.ends_with("}/b"), "{value}: {text}");
            assert!(secrets.has_beginning(&value.as_bytes()[..8]), "{value}");
            assert!(secrets.has_beginning(value.as_bytes()), "{value}");
        }
        for other in ["a/correct-/b", "a/hunter2a/b", "a/correct-3001-horse/b"] {
            assert_eq!(secrets.hide(other), other);
        }
        assert!(!secrets.has_beginning(b"correct-horse"));
        assert!(!secrets.has_beginning(b"correct-1-horsepower"));
        assert_eq!(secrets.counts()["test"], 6_600);
    }
}
