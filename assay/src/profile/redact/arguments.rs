//! Secrets by where they stand in a command: behind a flag, or as a word that the program takes for one. Pure.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use super::Found;
use super::names::{is_property, is_secret_flag, is_setting};
use super::rules::{CURL_SWITCHES, PLACES, PROGRAM_FLAGS, Places, ProgramFlag, SETTINGS};
use super::scan::Next;
use crate::profile::effort::looked_at;

/// The words of a command, one after the other, and what the last ones mean for the next.
#[derive(Default)]
pub struct Words {
    /// A bit for each row of [`PROGRAM_FLAGS`] whose program was named. It need not come first: `env`, `timeout 5`.
    rows: u64,
    /// A bit for each row of [`PROGRAM_FLAGS`] whose word was seen.
    after: u64,
    is_curl: bool,
    is_after_set: bool,
    /// The next word is the value of a flag.
    is_value: Option<&'static str>,
    /// The program that takes a secret as one of its words, how many words it was given so far, and the letters of its flags.
    places: Option<(&'static Places, usize, Vec<u8>)>,
}

impl Words {
    /// The next word.
    pub fn take(&mut self, text: &[u8], range: Range<usize>, is_program: bool, found: &mut Found) {
        let word = &text[range.clone()];
        looked_at(word.len());
        if self.is_at_its_place(word) {
            self.is_value = None;
            found.add_value(text, range, "secret-flag");
            return;
        }
        if let Some(rule) = self.is_value.take() {
            let is_flag = word.first() == Some(&b'-') && word.len() > 1;
            if !is_flag {
                found.add_value(text, range, rule);
                return;
            }
            // `gh secret set NAME --body VALUE`: it comes after the flag. Otherwise there was none: this is a flag like any
            // other, with a value of its own perhaps.
            if rule == "secret-setting" {
                self.is_value = Some(rule);
                return;
            }
        }
        if word.first() != Some(&b'-') || is_program {
            self.take_plain(word);
            return;
        }
        match self.flag(word) {
            Flag::Glued(start, rule) => found.add_value(text, range.start + start..range.end, rule),
            Flag::Next(rule) => self.is_value = Some(rule),
            Flag::No => {}
        }
    }

    /// Whether a word stands where the program takes a secret.
    fn is_at_its_place(&mut self, word: &[u8]) -> bool {
        let Some((row, words, letters)) = &mut self.places else { return false };
        if word.first() == Some(&b'-') {
            letters.extend(word.iter().filter(|byte| byte.is_ascii_lowercase()).take(LONGEST_FLAG));
            return false;
        }
        *words += 1;
        row.iter()
            .any(|(needed, place)| place == words && needed.iter().all(|letter| letters.contains(letter)))
    }

    /// A word that is no flag: a program, what it is told to do, or what it does it to.
    fn take_plain(&mut self, word: &[u8]) {
        let is_word = self.active().any(|row| !row.flag.starts_with(b"-") && row.flag == word);
        if is_word {
            self.is_value = Some("secret-flag");
        } else if self.is_after_set && is_setting(word) {
            self.is_value = Some("secret-setting");
        }
        self.is_after_set |= SETTINGS.contains(&word);
        self.after |= AFTER.get(word).copied().unwrap_or_default();
        let name = word.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        self.rows |= ROWS.get(name).copied().unwrap_or_default();
        self.is_curl |= name == b"curl";
        if let Some((_, row)) = PLACES.iter().find(|(program, _)| *program == name) {
            self.places = Some((row, 0, Vec::new()));
        }
    }

    /// The rows that may apply to what comes.
    fn active(&self) -> impl Iterator<Item = &'static ProgramFlag> {
        let (rows, after) = (self.rows, self.after);
        let rows = PROGRAM_FLAGS.iter().enumerate().filter(move |(bit, _)| rows >> bit & 1 == 1);
        rows.filter(move |(bit, row)| row.after.is_none() || after >> bit & 1 == 1).map(|(_, row)| row)
    }

    /// The rule of a flag whose value is glued to it, where `word` ends before a quote: `-p'…'`.
    fn glued(&self, word: &[u8]) -> Option<&'static str> {
        self.active().find(|row| row.is_glued && !row.is_next && row.flag == word).map(|row| row.rule)
    }

    fn flag(&mut self, word: &[u8]) -> Flag {
        for (bit, row) in PROGRAM_FLAGS.iter().enumerate() {
            if self.rows >> bit & 1 == 0 || (row.after.is_some() && self.after >> bit & 1 == 0) {
                continue;
            }
            if row.is_next && word == row.flag {
                // A password is asked for once: what follows `sshpass -p X` has a `-p` of its own.
                self.rows &= !(u64::from(row.rule == "secret-flag") << bit);
                return Flag::Next(row.rule);
            }
            let is_long = row.flag.starts_with(b"--");
            if let Some(rest) = word.strip_prefix(row.flag)
                && row.is_glued
                && rest.len() > usize::from(is_long)
                && (!is_long || rest[0] == b'=')
            {
                // The programs of these rows take `-p=X` as they take `-pX`.
                let has_sign = is_long || (row.after.is_some() && rest[0] == b'=');
                return Flag::Glued(row.flag.len() + usize::from(has_sign), row.rule);
            }
        }
        if self.is_curl {
            let switches = word[1..].iter().take_while(|byte| CURL_SWITCHES.contains(byte)).count();
            if switches > 0 && matches!(word.get(switches + 1), Some(b'u' | b'U')) {
                let is_last = word.len() == switches + 2;
                return if is_last {
                    Flag::Next("credential-flag")
                } else {
                    Flag::Glued(switches + 2, "credential-flag")
                };
            }
        }
        let end = word.iter().position(|&byte| byte == b'=').unwrap_or(word.len());
        if !(SHORTEST_FLAG..=LONGEST_FLAG).contains(&end) {
            return Flag::No;
        }
        let is_property = || end < word.len() && is_property(&word[..end], &word[end + 1..]);
        if !is_secret_flag(&word[..end], end < word.len()) && !is_property() {
            Flag::No
        } else if end < word.len() {
            Flag::Glued(end + 1, "secret-flag")
        } else {
            Flag::Next("secret-flag")
        }
    }
}

/// No flag with its dashes is shorter, or longer.
const SHORTEST_FLAG: usize = 5;
pub(super) const LONGEST_FLAG: usize = 128;

const _: () = assert!(PROGRAM_FLAGS.len() <= 64, "a bit each");

/// The bits of each program.
static ROWS: LazyLock<BTreeMap<&[u8], u64>> = LazyLock::new(|| {
    let mut rows = BTreeMap::new();
    for (bit, row) in PROGRAM_FLAGS.iter().enumerate() {
        for program in row.programs {
            *rows.entry(*program).or_default() |= 1 << bit;
        }
    }
    rows
});

/// The bits of each word that must have come before.
static AFTER: LazyLock<BTreeMap<&[u8], u64>> = LazyLock::new(|| {
    let mut rows = BTreeMap::new();
    for (bit, row) in PROGRAM_FLAGS.iter().enumerate() {
        for word in row.after.into_iter().flatten() {
            *rows.entry(*word).or_default() |= 1 << bit;
        }
    }
    rows
});

enum Flag {
    Glued(usize, &'static str),
    Next(&'static str),
    No,
}

/// The commands inside one argument, as in `sh -c 'curl -u me:pass …; mysql -pX'`: words and quotes as shells have
/// them, near enough to know a flag from its value.
pub fn commands(text: &[u8], found: &mut Found) {
    let is_end = |byte: u8| matches!(byte, b';' | b'|' | b'&' | b'(' | b')' | b'`' | b'\n');
    let mut word_end =
        Next::new(text, |byte| byte.is_ascii_whitespace() || is_end(byte) || matches!(byte, b'"' | b'\''));
    let mut quotes = [b'"', b'\''].map(|quote| Next::new(text, move |byte| byte == quote));
    let mut closing = |quote: u8, from: usize| quotes[usize::from(quote == b'\'')].after(from);
    let mut words = Words::default();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        looked_at(1);
        if byte == b'\\' && text.get(at + 1) == Some(&b'\n') {
            // The command goes on in the next line.
            at += 2;
        } else if is_end(byte) {
            words = Words::default();
            at += 1;
        } else if matches!(byte, b'"' | b'\'') && words.is_value.is_some() {
            let end = closing(byte, at + 1);
            words.take(text, at + 1..end, false, found);
            at = end + 1;
        } else if byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'') {
            at += 1;
        } else {
            let end = word_end.after(at);
            let quote = text.get(end).copied().filter(|byte| matches!(byte, b'"' | b'\''));
            if let Some(quote) = quote
                && text[end - 1] == b'='
                && matches!(words.flag(&text[at..end - 1]), Flag::Next(_))
            {
                words.take(text, at..end - 1, false, found);
                let close = closing(quote, end + 1);
                words.take(text, end + 1..close, false, found);
                at = close + 1;
            } else if let Some(rule) = words.glued(&text[at..end]).filter(|_| quote.is_some()) {
                words.is_value = Some(rule);
                at = end;
            } else {
                words.take(text, at..end, false, found);
                at = end;
            }
        }
    }
}
