//! Secrets in addresses: passwords before the host, and parameters behind it. Pure.

use std::ops::Range;

use super::Found;
use super::found::{LEAST_TOKEN, end_of_user};
use super::names::is_secret_name;
use super::rules::{EXACT_PARAMETERS, SECRET_PATHS};
use super::scan::{Bare, LastBefore, Next, run};
use crate::profile::volatile::find;

fn is_url_end(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b'|' | 0)
}

/// The password in `scheme://user:password@host`, a token that stands alone before the `@`, and the values of query
/// parameters that hold secrets.
pub(super) fn urls(text: &[u8], bare: &Bare, found: &mut Found) {
    let mut url_end = Next::new(text, is_url_end);
    let mut question = Next::new(text, |byte| byte == b'?');
    let mut separator = Next::new(text, |byte| matches!(byte, b'&' | b';' | b'#'));
    let mut equals_sign = Next::new(text, |byte| byte == b'=');
    // Up to where the parameters were looked at, all but the first of an address inside an address.
    let mut done = 0;
    let mut slash = Next::new(text, |byte| byte == b'/');
    let mut question_or_hash = Next::new(text, |byte| matches!(byte, b'?' | b'#'));
    let mut last_sign = None;
    let mut from = 0;
    while let Some(at) = find(&text[from..], b"://").map(|at| from + at) {
        let start = at + 3;
        let end = url_end.after(start);
        from = start;
        let authority_end = start + run(&text[start..end], |byte| !matches!(byte, b'/' | b'?' | b'#'));
        if let Some(sign) = text[start..authority_end].iter().rposition(|&byte| byte == b'@') {
            user(text, start..start + sign, found);
        } else if let Some(colon) = no_port(&text[start..authority_end]) {
            // An unescaped `/`, `?` or `#`: what stands behind the colon is no port, and so a password up to the `@`.
            let last = last_sign.get_or_insert_with(|| LastBefore::new(text, b'@'));
            if let Some(sign) = last.before(end).filter(|sign| *sign > authority_end) {
                found.add_attached(text, start + colon + 1..sign, "url-password");
            }
        }
        for (path, is_bot) in SECRET_PATHS {
            if text[start..end].starts_with(path) {
                let secret = start + path.len();
                let stop = if *is_bot { slash.after(secret) } else { end }
                    .min(question_or_hash.after(secret))
                    .min(end);
                found.add_attached(text, secret..stop, "url-path");
            }
        }
        let mut parameter = question.after(authority_end).saturating_add(1);
        while parameter < end {
            let stop = separator.after(parameter).min(end);
            let equals = equals_sign.after(parameter);
            if equals < stop && is_secret_parameter(text, bare, parameter..equals) {
                found.add_attached(text, equals + 1..stop, "url-parameter");
            }
            parameter = if done == end { end } else { stop + 1 };
        }
        if question.after(authority_end) < end {
            done = end;
        }
    }
}

/// The user of an address, and the password behind it.
fn user(text: &[u8], range: Range<usize>, found: &mut Found) {
    let value = &text[range.clone()];
    match end_of_user(value, b":") {
        // As GitHub takes a token, and as many take one.
        Some(colon) if matches!(&value[colon + 1..], b"" | b"x-oauth-basic") => {
            let is_token = colon >= LEAST_TOKEN;
            found.add_attached(
                text,
                range.start..range.start + if is_token { colon } else { 0 },
                "url-password",
            );
        }
        Some(colon) => found.add_attached(text, range.start + colon + 1..range.end, "url-password"),
        None if value.len() >= LEAST_TOKEN => found.add_attached(text, range, "url-password"),
        None => {}
    }
}

/// The colon of an authority behind which no port stands, and nothing that stands for one.
fn no_port(authority: &[u8]) -> Option<usize> {
    let colon = authority.iter().position(|&byte| byte == b':').filter(|_| authority[0] != b'[')?;
    let rest = &authority[colon + 1..];
    let is_port = rest.iter().all(u8::is_ascii_digit) || matches!(rest[0], b'{' | b'<' | b'%' | b'$' | b'*');
    (!is_port).then_some(colon)
}

fn is_secret_parameter(text: &[u8], bare: &Bare, name: Range<usize>) -> bool {
    EXACT_PARAMETERS.contains(&bare.part(name.clone())) || is_secret_name(text, bare, name)
}
