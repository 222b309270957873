//! Secrets in arguments, addresses and names: where they stand. Pure.
//!
//! Nothing is written or hashed before it went through here. A secret is found by the flag, header, URL or
//! assignment it stands in, or by its own shape. What replaces them is in [`super::secrets`]. The work grows with
//! the length of the text and no faster, whatever the text: it is a program's argument, and may be hostile.

use std::ops::Range;

use super::volatile::find;

mod arguments;
mod found;
mod names;
mod rules;
mod scan;
mod urls;
mod values;

use arguments::{Words, commands};
pub(super) use found::Found;
use rules::{KEY_SHAPES, KeyShape};
use scan::{Bare, run};
use urls::urls;
use values::{assignments, headers, sql};

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

/// The secrets of a text that is not an argument list: shapes, URLs, headers, assignments.
pub fn find_in_text(text: &[u8]) -> Vec<Secret> {
    found_in_text(text).into_secrets()
}

fn found_in_text(text: &[u8]) -> Found {
    let mut found = Found::default();
    if text.iter().any(|byte| matches!(byte, b'=' | b':')) {
        let bare = Bare::new(text);
        private_keys(text, &mut found);
        headers(text, &bare, &mut found);
        urls(text, &bare, &mut found);
        assignments(text, &bare, &mut found);
    } else {
        private_keys(text, &mut found);
    }
    sql(text, &mut found);
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

#[cfg(test)]
mod tests;
