//! Secrets in arguments, addresses and names: where they stand. Pure.
//!
//! Nothing is written or hashed before it went through here. A secret is found by the flag, header, URL or
//! assignment it stands in, or by its own shape. What replaces them is in [`super::secrets`]. The work grows with
//! the length of the text and no faster, whatever the text: it is a program's argument, and may be hostile.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use super::effort::looked_at;
use super::volatile::find;

mod found;
mod rules;
mod scan;
mod urls;

pub(super) use found::Found;
use rules::{
    CURL_SWITCHES, FLAG_ENDS, FLAG_OTHERS, FLAGS, HEADERS, KEY_SHAPES, KeyShape, PROGRAM_FLAGS, SETTINGS,
};
use scan::{Bare, Next, last_run, run};
use urls::urls;

/// One secret inside a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Where it stands.
    pub range: Range<usize>,
    /// The rule that found it.
    pub rule: &'static str,
}

/// The secrets of each argument, in order and without overlap.
pub fn find_in_argv(argv: &[Vec<u8>]) -> Vec<Vec<Secret>> {
    let mut words = Words::default();
    argv.iter()
        .enumerate()
        .map(|(position, argument)| {
            let mut found = found_in_text(argument);
            words.take(argument, 0..argument.len(), position == 0, &mut found);
            if position > 0 && argument.iter().any(u8::is_ascii_whitespace) {
                commands(argument, &mut found);
            }
            found.into_secrets()
        })
        .collect()
}

/// The words of a command, one after the other, and what the last ones mean for the next.
#[derive(Default)]
struct Words {
    /// A bit for each row of [`PROGRAM_FLAGS`] whose program was named. It need not come first: `env`, `timeout 5`.
    rows: u32,
    is_curl: bool,
    is_after_login: bool,
    is_after_set: bool,
    /// The next word is the value of a flag.
    is_value: Option<&'static str>,
}

impl Words {
    fn take(&mut self, text: &[u8], range: Range<usize>, is_program: bool, found: &mut Found) {
        let word = &text[range.clone()];
        looked_at(word.len());
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
            self.is_after_login |= word == b"login";
            if self.is_after_set && ends_as_secret(word) {
                self.is_value = Some("secret-setting");
            }
            self.is_after_set |= SETTINGS.contains(&word);
            let name = word.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            self.rows |= ROWS.get(name).copied().unwrap_or_default();
            self.is_curl |= name == b"curl";
            return;
        }
        match self.flag(word) {
            Flag::Glued(start, rule) => found.add_value(text, range.start + start..range.end, rule),
            Flag::Next(rule) => self.is_value = Some(rule),
            Flag::No => {}
        }
    }

    fn flag(&mut self, word: &[u8]) -> Flag {
        for (bit, row) in PROGRAM_FLAGS.iter().enumerate() {
            if self.rows >> bit & 1 == 0 || (row.after.is_some() && !self.is_after_login) {
                continue;
            }
            if row.is_next && word == row.flag {
                // A password is asked for once: what follows `sshpass -p X` has a `-p` of its own.
                self.rows &= !(u32::from(row.rule == "secret-flag") << bit);
                return Flag::Next(row.rule);
            }
            let is_long = row.flag.starts_with(b"--");
            if let Some(rest) = word.strip_prefix(row.flag)
                && row.is_glued
                && rest.len() > usize::from(is_long)
                && (!is_long || rest[0] == b'=')
            {
                return Flag::Glued(row.flag.len() + usize::from(is_long), row.rule);
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
        let name = bare(&word[..end]);
        if !FLAGS.contains(&name.as_str()) && !is_secret_flag(&word[..end], &name) {
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
const LONGEST_FLAG: usize = 128;

const _: () = assert!(PROGRAM_FLAGS.len() <= 32, "a bit each");

/// The bits of each program.
static ROWS: LazyLock<BTreeMap<&[u8], u32>> = LazyLock::new(|| {
    let mut rows = BTreeMap::new();
    for (bit, row) in PROGRAM_FLAGS.iter().enumerate() {
        for program in row.programs {
            *rows.entry(*program).or_default() |= 1 << bit;
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
fn commands(text: &[u8], found: &mut Found) {
    let is_end = |byte: u8| matches!(byte, b';' | b'|' | b'&' | b'(' | b')' | b'`' | b'\n');
    let mut word_end =
        Next::new(text, |byte| byte.is_ascii_whitespace() || is_end(byte) || matches!(byte, b'"' | b'\''));
    let mut quotes = [b'"', b'\''].map(|quote| Next::new(text, move |byte| byte == quote));
    let mut closing = |quote: u8, from: usize| quotes[usize::from(quote == b'\'')].after(from);
    let mut words = Words::default();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        looked_at(1);
        if is_end(byte) {
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
            } else {
                words.take(text, at..end, false, found);
                at = end;
            }
        }
    }
}

/// Whether a long flag ends as those of secrets do: `--registry-token`, and not `--max-token`.
fn is_secret_flag(flag: &[u8], bare: &str) -> bool {
    let Some(words) = flag.strip_prefix(b"--") else { return false };
    let is_word = |byte: &u8| matches!(byte, b'-' | b'_' | b'.');
    FLAG_ENDS.iter().any(|end| bare.ends_with(end))
        && words.iter().any(is_word)
        && !words.split(is_word).any(|word| FLAG_OTHERS.iter().any(|other| other.as_bytes() == word))
}

/// Whether a word is a name of a secret, as in `aws configure set NAME VALUE`.
fn ends_as_secret(word: &[u8]) -> bool {
    let is_name = word.len() <= LONGEST_FLAG
        && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:@".contains(byte));
    is_name && Bare::new(word).ends_as_secret(0..word.len()) && !word.ends_with(b"/")
}

/// A name without separators, in lower case.
fn bare(name: &[u8]) -> String {
    name.iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect()
}

/// The secrets of a text that is not an argument list: shapes, URLs, headers, assignments.
pub fn find_in_text(text: &[u8]) -> Vec<Secret> {
    found_in_text(text).into_secrets()
}

fn found_in_text(text: &[u8]) -> Found {
    let mut found = Found::default();
    if text.iter().any(|byte| matches!(byte, b'=' | b':')) {
        let bare = Bare::new(text);
        private_keys(text, &mut found);
        headers(text, &mut found);
        urls(text, &bare, &mut found);
        assignments(text, &bare, &mut found);
    } else {
        private_keys(text, &mut found);
    }
    key_shapes(text, &mut found);
    found
}

/// The known key shapes of a text alone: what is looked for in names and addresses.
pub fn find_key_shapes(text: &[u8]) -> Vec<Secret> {
    let mut found = Found::default();
    key_shapes(text, &mut found);
    found.into_secrets()
}

/// The secrets of a name, which may be no more than the first fifteen bytes of one.
pub fn find_in_name(text: &[u8]) -> Vec<Secret> {
    if text.len() == 15 && begins_like_a_key(text) {
        return vec![Secret { range: 0..text.len(), rule: "key-shape" }];
    }
    find_key_shapes(text)
}

/// Whether a text could be the first part of a key of known shape.
pub fn begins_like_a_key(text: &[u8]) -> bool {
    KEY_SHAPES.iter().any(|shape| {
        let rest = text.strip_prefix(shape.prefix).filter(|_| shape.prefix.len() >= 4);
        rest.is_some_and(|rest| run_len(shape, rest) == rest.len() && rest.iter().any(u8::is_ascii_digit))
    })
}

/// The shapes that begin with a byte, a bit each: most positions of most texts are done with by one look.
const BEGINNING: [u128; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < KEY_SHAPES.len() {
        table[KEY_SHAPES[at].prefix[0] as usize] |= 1 << at;
        at += 1;
    }
    table
};

const _: () = assert!(KEY_SHAPES.len() <= 128, "a bit each");

fn key_shapes(text: &[u8], found: &mut Found) {
    // Where the run of characters ends in which a shape was looked for in vain: what begins later in the same run is
    // only shorter. Without this, a long text of beginnings takes the square of its length.
    let mut in_vain = [0; KEY_SHAPES.len()];
    let mut at = 0;
    while at < text.len() {
        let is_start = at == 0 || !text[at - 1].is_ascii_alphanumeric();
        let mut shapes = if is_start { BEGINNING[usize::from(text[at])] } else { 0 };
        let mut hit = None;
        while shapes != 0 {
            let number = shapes.trailing_zeros() as usize;
            shapes &= shapes - 1;
            let shape = &KEY_SHAPES[number];
            if at < in_vain[number] || !text[at..].starts_with(shape.prefix) {
                continue;
            }
            let len = shape.prefix.len() + run_len(shape, &text[at + shape.prefix.len()..]);
            if is_key(shape, &text[at + shape.prefix.len()..at + len]) {
                hit = Some(len);
                break;
            }
            in_vain[number] = at + len;
        }
        if let Some(len) = hit {
            found.add(at..at + len, "key-shape");
            at += len;
        } else {
            at += 1;
        }
    }
}

fn run_len(shape: &KeyShape, rest: &[u8]) -> usize {
    run(rest, |byte| byte.is_ascii_alphanumeric() || shape.extra.contains(&byte))
}

fn is_key(shape: &KeyShape, run: &[u8]) -> bool {
    let has_digit_or_upper = run.iter().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    let has_it = match shape.prefix {
        // A JSON web token has its dots.
        b"eyJ" => run.contains(&b'.'),
        // Names of packages begin so too (`sk-learn-contrib-2020`): a part of it is long and has digits and letters.
        b"sk-" => run.split(|byte| matches!(byte, b'-' | b'_')).any(|part| {
            part.len() >= 16
                && part.iter().any(u8::is_ascii_digit)
                && part.iter().any(u8::is_ascii_alphabetic)
        }),
        // Beginnings that are words: hexadecimal digits or nothing but letters and digits of both cases follow.
        b"dapi" => run.iter().all(u8::is_ascii_hexdigit),
        b"cio" => {
            run.len() == shape.least
                && run.iter().any(u8::is_ascii_digit)
                && run.iter().any(u8::is_ascii_uppercase)
        }
        _ => true,
    };
    run.len() >= shape.least && has_digit_or_upper && has_it
}

fn private_keys(text: &[u8], found: &mut Found) {
    let mut from = 0;
    while let Some(begin) = find(&text[from..], b"-----BEGIN ").map(|at| from + at) {
        let rest = &text[begin..];
        let header = rest
            .iter()
            .take(80)
            .position(|&byte| byte == b'\n' || byte == b'\\')
            .unwrap_or(rest.len().min(80));
        if find(&rest[..header], b"PRIVATE KEY").is_none() {
            from = begin + 11;
            continue;
        }
        let end = find(rest, b"-----END ").map_or(text.len(), |end| {
            let tail = &rest[end + 9..];
            begin + end + 9 + find(tail, b"-----").map_or(tail.len(), |dashes| dashes + 5)
        });
        found.add(begin..end, "private-key");
        from = end;
    }
}

/// `Header: value` up to the end of the line or the quote.
fn headers(text: &[u8], found: &mut Found) {
    let mut value_end = Next::new(text, |byte| matches!(byte, b'\r' | b'\n' | b'"' | b'\''));
    for colon in (0..text.len()).filter(|&at| text[at] == b':') {
        let start = last_run(&text[..colon], |byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let name = &text[start..colon];
        let is_header = |name: &[u8]| HEADERS.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()));
        let glued = name.strip_prefix(b"-H").or_else(|| name.strip_prefix(b"-h"));
        if !is_header(name) && !glued.is_some_and(is_header) {
            continue;
        }
        let mut value = colon + 1 + run(&text[colon + 1..], |byte| byte == b' ');
        let end = value_end.after(value);
        // The scheme says nothing secret.
        for scheme in ["bearer ", "basic ", "token ", "digest ", "apikey ", "negotiate "] {
            if text[value..end].len() > scheme.len()
                && text[value..value + scheme.len()].eq_ignore_ascii_case(scheme.as_bytes())
            {
                value += scheme.len();
            }
        }
        if text.get(value) != Some(&b'$') {
            found.add(value..end, "header");
        }
    }
}

/// `NAME_TOKEN=value` of the environment and `"password": "value"` of JSON.
fn assignments(text: &[u8], bare: &Bare, found: &mut Found) {
    let mut quoted_end = [b'"', b'\''].map(|quote| Next::new(text, move |byte| byte == quote));
    let mut plain_end = Next::new(text, |byte| {
        byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b';' | b'&' | b'|' | b')')
    });
    for sign in (1..text.len()).filter(|&at| matches!(text[at], b'=' | b':')) {
        let is_json = text[sign] == b':';
        let mut name_end = sign;
        if is_json {
            name_end = last_run(&text[..name_end], |byte| byte == b' ');
            // Only a quoted key: `password: x` in prose is not an assignment.
            if name_end == 0 || !matches!(text[name_end - 1], b'"' | b'\'') {
                continue;
            }
            name_end -= 1;
        }
        let name_start = last_run(&text[..name_end], |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
        });
        let name = &text[name_start..name_end];
        // A flag is judged as a flag, with its own list.
        let is_name = name.first().is_some_and(|byte| *byte != b'-');
        if !is_name || !bare.ends_as_secret(name_start..name_end) {
            continue;
        }
        let mut value = sign + 1;
        if is_json {
            value += run(&text[value..], |byte| byte == b' ');
        }
        let quote = text.get(value).copied().filter(|byte| matches!(byte, b'"' | b'\''));
        if quote.is_some() {
            value += 1;
        } else if is_json {
            continue;
        }
        let end = match quote {
            Some(b'"') => quoted_end[0].after(value),
            Some(_) => quoted_end[1].after(value),
            None => plain_end.after(value),
        };
        if !matches!(text.get(value), None | Some(b'$' | b'@')) {
            found.add(value..end, "assignment");
        }
    }
}

#[cfg(test)]
mod tests;
