//! Secrets in addresses: passwords before the host, and parameters behind it. Pure.

use std::ops::Range;

use super::Found;
use super::scan::{Bare, Next, run};
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
    let mut from = 0;
    while let Some(at) = find(&text[from..], b"://").map(|at| from + at) {
        let start = at + 3;
        let end = url_end.after(start);
        from = start;
        let authority_end = start + run(&text[start..end], |byte| !matches!(byte, b'/' | b'?' | b'#'));
        // A password may hold an unescaped `/`, but then nothing can tell; an `@` in it can be told.
        if let Some(sign) = text[start..authority_end].iter().rposition(|&byte| byte == b'@')
            && text[start] != b'$'
        {
            let user_end = start + sign;
            match text[start..user_end].iter().position(|&byte| byte == b':') {
                Some(colon) if text.get(start + colon + 1) != Some(&b'$') => {
                    found.add(start + colon + 1..user_end, "url-password");
                }
                None if sign >= 20 => found.add(start..user_end, "url-password"),
                _ => {}
            }
        }
        let mut parameter = question.after(authority_end).saturating_add(1);
        while parameter < end {
            let stop = separator.after(parameter).min(end);
            let equals = equals_sign.after(parameter);
            if equals < stop && is_secret_name(bare, parameter..equals) && text.get(equals + 1) != Some(&b'$')
            {
                found.add(equals + 1..stop, "url-parameter");
            }
            parameter = if done == end { end } else { stop + 1 };
        }
        if question.after(authority_end) < end {
            done = end;
        }
    }
}

fn is_secret_name(bare: &Bare, name: Range<usize>) -> bool {
    matches!(bare.part(name.clone()), b"key" | b"sig" | b"auth" | b"pass") || bare.ends_as_secret(name)
}
