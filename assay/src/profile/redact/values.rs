//! Secrets by the name in front of them: headers, assignments, members of JSON, statements of SQL. Pure.

use super::Found;
use super::names::{is_plainly_secret, is_secret_name};
use super::rules::{HEADERS, PLACE_NAMES, PLAIN_VALUES};
use super::scan::{Bare, Next, last_run, run};
use crate::profile::effort::looked_at;
use crate::profile::volatile::find;

/// `Header: value` up to the end of the line or the quote.
pub fn headers(text: &[u8], bare: &Bare, found: &mut Found) {
    let mut value_end = Next::new(text, |byte| matches!(byte, b'\r' | b'\n' | b'"' | b'\''));
    for colon in (0..text.len()).filter(|&at| text[at] == b':') {
        let start = last_run(&text[..colon], |byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_header(text, bare, start, colon) {
            continue;
        }
        let mut value = colon + 1 + run(&text[colon + 1..], |byte| byte == b' ');
        // As shells and tools take it: `Authorization:"Bearer …"`.
        value += usize::from(matches!(text.get(value), Some(b'"' | b'\'')));
        let end = value_end.after(value);
        // The scheme says nothing secret.
        for scheme in ["bearer ", "basic ", "token ", "digest ", "apikey ", "negotiate "] {
            if text[value..end].len() > scheme.len()
                && text[value..value + scheme.len()].eq_ignore_ascii_case(scheme.as_bytes())
            {
                value += scheme.len();
            }
        }
        found.add_attached(text, value..end, "header");
    }
}

/// One of those that are known, or one of several words of which the last says so, with a blank behind its colon or an
/// `X-` in front: `my-secret:latest` is an image.
fn is_header(text: &[u8], bare: &Bare, start: usize, colon: usize) -> bool {
    let name = &text[start..colon];
    let is_known = |name: &[u8]| HEADERS.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()));
    let glued = name.strip_prefix(b"-H").or_else(|| name.strip_prefix(b"-h"));
    if is_known(name) || glued.is_some_and(is_known) {
        return true;
    }
    let own = glued.unwrap_or(name);
    let is_several =
        own.iter().skip(1).any(|&byte| byte == b'-') && own.first().is_some_and(u8::is_ascii_alphabetic);
    let is_own = own.len() > 2 && own[..2].eq_ignore_ascii_case(b"x-");
    let is_apart = glued.is_some() || is_own || text.get(colon + 1) == Some(&b' ');
    let is_address = start > 0 && matches!(text[start - 1], b'/' | b'@');
    is_several && is_apart && !is_address && is_plainly_secret(bare, start..colon)
}

/// `NAME_TOKEN=value` of the environment, `"password": "value"` of JSON, `password = "value"` of programs, and
/// `password: value` as a line of several.
pub fn assignments(text: &[u8], bare: &Bare, found: &mut Found) {
    let mut quoted_end = [b'"', b'\''].map(|quote| Next::new(text, move |byte| byte == quote));
    let mut plain_end = Next::new(text, |byte| {
        byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b';' | b'&' | b'|' | b')')
    });
    let has_lines = text.contains(&b'\n');
    for sign in (1..text.len()).filter(|&at| matches!(text[at], b'=' | b':')) {
        let key = Key::before(text, sign);
        let name = key.start..key.end;
        // A flag is judged as a flag, with its own list.
        let is_name = text[name.clone()].first().is_some_and(|byte| *byte != b'-');
        if !is_name || !is_secret_name(text, bare, name.clone()) {
            continue;
        }
        let is_colon = text[sign] == b':';
        let mut value = sign + 1;
        if is_colon || key.is_quoted || key.is_apart {
            value += usize::from(!is_colon && text.get(value) == Some(&b'>'));
            value += run(&text[value..], |byte| byte == b' ');
        }
        // A quote inside a quote has marks before it; Python has letters before some.
        let is_prefixed = key.is_apart
            && matches!(text.get(value), Some(b'b' | b'f' | b'r' | b'u'))
            && matches!(text.get(value + 1), Some(b'"' | b'\''));
        value += usize::from(is_prefixed);
        let marks = run(&text[value..], |byte| byte == b'\\');
        let quote = text.get(value + marks).copied().filter(|byte| matches!(byte, b'"' | b'\''));
        if let Some(quote) = quote {
            if !key.is_quoted && (is_colon || key.is_apart) && !is_plainly_secret(bare, name) {
                continue;
            }
            let start = value + marks + 1;
            let ends = &mut quoted_end[usize::from(quote == b'\'')];
            let end = closing(text, ends, start, marks);
            found.add_attached(text, start..end, "assignment");
        } else if PLACE_NAMES.contains(&&text[name.clone()]) && text.get(value) == Some(&b'/') {
            // The shell's directory, and no password of a connection.
        } else if !is_colon && !key.is_apart {
            found.add_attached(text, value..plain_end.after(value), "assignment");
        } else if is_colon && has_lines && !key.is_quoted && is_plainly_secret(bare, name) {
            line(text, key.start, value, found);
        }
    }
}

/// The name before a sign.
struct Key {
    start: usize,
    end: usize,
    is_quoted: bool,
    /// Blanks lie between name and sign.
    is_apart: bool,
}

impl Key {
    fn before(text: &[u8], sign: usize) -> Self {
        // Go's `:=`.
        let sign = sign - usize::from(text[sign] == b'=' && text[sign - 1] == b':');
        let mut end = last_run(&text[..sign], |byte| byte == b' ');
        let is_apart = end < sign;
        // A member of a table: `environ["API_KEY"] = …`.
        end -= usize::from(end > 1 && text[end - 1] == b']' && matches!(text[end - 2], b'"' | b'\''));
        let is_quoted = end > 0 && matches!(text[end - 1], b'"' | b'\'');
        if is_quoted {
            end = last_run(&text[..end - 1], |byte| byte == b'\\');
        }
        let start =
            last_run(&text[..end], |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
        Self { start, end, is_quoted, is_apart }
    }
}

/// Where the quote ends that has so many marks before it; one inside it has more.
fn closing<F: Fn(u8) -> bool>(text: &[u8], ends: &mut Next<'_, F>, start: usize, marks: usize) -> usize {
    let mut end = ends.after(start);
    while end < text.len() {
        let before = end - last_run(&text[start..end], |byte| byte == b'\\') - start;
        let is_inside = if marks == 0 { before % 2 == 1 } else { before > marks };
        if !is_inside {
            return end - marks.min(before);
        }
        end = ends.after(end + 1);
    }
    end
}

/// `name: value` as a line of several: one word that is no other value.
fn line(text: &[u8], start: usize, value: usize, found: &mut Found) {
    let before = last_run(&text[..start], |byte| matches!(byte, b' ' | b'\t' | b'-'));
    let end = value + run(&text[value..], |byte| !byte.is_ascii_whitespace());
    let after = end + run(&text[end..], |byte| matches!(byte, b' ' | b'\t' | b'\r'));
    let is_line = (before == 0 || text[before - 1] == b'\n') && matches!(text.get(after), None | Some(b'\n'));
    let word = &text[value..end];
    let is_other =
        matches!(word.first(), None | Some(b'|' | b'>' | b'[' | b'{' | b'&' | b'*' | b'!' | b'#' | b'<'))
            || PLAIN_VALUES.iter().any(|one| word.eq_ignore_ascii_case(one.as_bytes()));
    if is_line && !is_other {
        found.add_attached(text, value..end, "assignment");
    }
}

/// So far back a statement of SQL says what the text in quotes is.
const STATEMENT: usize = 128;

/// The text behind `IDENTIFIED BY`, and behind `PASSWORD` of a user or a role.
pub fn sql(text: &[u8], found: &mut Found) {
    let mut quoted_end = [b'"', b'\''].map(|quote| Next::new(text, move |byte| byte == quote));
    for start in (0..text.len()).filter(|&at| matches!(text[at], b'"' | b'\'')) {
        let window = &text[start.saturating_sub(STATEMENT)..start];
        let before = window.trim_ascii_end().strip_suffix(b"(").unwrap_or(window).trim_ascii_end();
        let word = before.len() - before.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (lead, word) = before.split_at(word);
        looked_at(1);
        let is_password = word.eq_ignore_ascii_case(b"password");
        if !is_password && !word.eq_ignore_ascii_case(b"by") {
            continue;
        }
        looked_at(STATEMENT);
        let lead = lead.to_ascii_lowercase();
        let needed: &[&[u8]] = if is_password { &[b"user ", b"role "] } else { &[b"identified "] };
        if needed.iter().any(|needed| find(&lead, needed).is_some()) {
            let ends = &mut quoted_end[usize::from(text[start] == b'\'')];
            found.add_attached(text, start + 1..ends.after(start + 1), "assignment");
        }
    }
}
