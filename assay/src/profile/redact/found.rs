//! The secrets found in one text: what overlaps is one, and what only refers to a secret is none. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Secret;
use crate::profile::effort::looked_at;
use crate::profile::volatile::find;

/// A user of fewer characters is a name, and no token.
pub(super) const LEAST_TOKEN: usize = 20;

/// Secrets of one text, without overlap: of two that do, all is one.
#[derive(Debug, Default)]
pub(in crate::profile) struct Found(BTreeMap<usize, (usize, &'static str)>);

impl Found {
    /// Those found before.
    pub(in crate::profile) fn from_secrets(secrets: &[Secret]) -> Self {
        Self(secrets.iter().map(|secret| (secret.range.start, (secret.range.end, secret.rule))).collect())
    }

    /// Adds one that is not empty. What it overlaps becomes a part of it: no piece of either may stay.
    pub(in crate::profile) fn add(&mut self, mut range: Range<usize>, rule: &'static str) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &(end, _))) = self.0.range(..range.end).next_back()
            && end > range.start
        {
            if start <= range.start && end >= range.end {
                return;
            }
            looked_at(1);
            self.0.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.0.insert(range.start, (range.end, rule));
    }

    /// Adds what is attached to its name, unless it only refers to a secret.
    pub(super) fn add_attached(&mut self, text: &[u8], range: Range<usize>, rule: &'static str) {
        if !refers(&text[range.clone()], true) {
            self.add(range, rule);
        }
    }

    /// Adds a whole value, in place of whatever was found inside it. What only refers to a secret (`$TOKEN`, `@file`,
    /// `env:NAME`, nothing) stays, and so does the user of `user:password`.
    pub(super) fn add_value(&mut self, text: &[u8], mut range: Range<usize>, rule: &'static str) {
        let value = &text[range.clone()];
        let is_attached = range.start > 0 && text[range.start - 1] == b'=';
        let is_reference = refers(value.trim_ascii_start(), is_attached)
            // A file of cookies, not the cookies.
            || (rule == "cookie-flag" && !value.contains(&b'='));
        if is_reference {
            return;
        }
        if value.starts_with(b"pass:") {
            range.start += b"pass:".len();
        }
        match (rule, end_of_user(value, b":%,")) {
            // A token as the user, and nothing behind it.
            ("credential-flag", Some(colon)) if colon + 1 == value.len() && colon >= LEAST_TOKEN => {
                range.end -= 1;
            }
            ("credential-flag" | "certificate-flag", Some(colon)) => range.start += colon + 1,
            // What stands before the host of a proxy, and behind the name of a certificate.
            ("proxy-flag", Some(colon)) if find(value, b"://").is_none() => {
                let Some(sign) = value.iter().rposition(|&byte| byte == b'@') else { return };
                range = range.start + (colon + 1).min(sign)..range.start + sign;
            }
            ("literal-flag", _) => {
                let Some(sign) = value.iter().position(|&byte| byte == b'=') else { return };
                range.start += sign + 1;
            }
            // A name without a password, which is asked for.
            ("credential-flag", None) if value.len() < LEAST_TOKEN => return,
            ("proxy-flag" | "certificate-flag", _) => return,
            _ => {}
        }
        // What stands behind the scheme or the user may be a reference too.
        if text[range.clone()].first() == Some(&b'$') && refers(&text[range.clone()], true) {
            return;
        }
        // It is told under this rule, even where another found the same.
        while let Some((&start, &(end, _))) = self.0.range(range.clone()).next_back()
            && end <= range.end
        {
            self.0.remove(&start);
        }
        self.add(range, rule);
    }

    /// All of them, in order.
    pub(in crate::profile) fn into_secrets(self) -> Vec<Secret> {
        self.0.into_iter().map(|(start, (end, rule))| Secret { range: start..end, rule }).collect()
    }
}

/// Whether a value only says where the secret is: nothing, `$NAME` and what may follow it, `@FILE`, `-`, `env:NAME`,
/// `file:NAME`, `fd:3`, `id=NAME` as builders of images take it; or is the next option, unless it is attached by a `=`. A password may begin with any of these.
fn refers(value: &[u8], is_attached: bool) -> bool {
    match value {
        [] | [b'-'] | [b'$', b'{' | b'(', ..] => true,
        [b'-', ..] => !is_attached,
        [b'$', name @ ..] => {
            let len = name.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
            // `$1` is an argument; `$6$salt$…` is a hash, and `$3cret` a password.
            let is_digit = name.first().is_some_and(u8::is_ascii_digit);
            match name.get(len) {
                _ if is_digit && len > 1 => false,
                None => len > 0,
                Some(b'$') => !is_digit,
                Some(byte) => len > 0 && b"/:.,\"' \t\n)}]&|;<>\\".contains(byte),
            }
        }
        // Decided by how it begins: what is behind may be a secret of its own, which is gone when this is read again.
        [b'@', file @ ..] => {
            let is_name = |byte: &&u8| byte.is_ascii_alphabetic() || b"_-~".contains(*byte);
            let len = file.iter().take_while(is_name).count();
            matches!(file.get(len), None | Some(b'/' | b'.' | b'$'))
        }
        value => [&b"env:"[..], b"file:", b"fd:", b"id=", b"src=", b"source=", b"type="]
            .iter()
            .any(|kind| value.starts_with(kind)),
    }
}

/// Where the user of `user:password` ends, by the first of some marks. Within `${…}` nothing does.
pub(super) fn end_of_user(value: &[u8], marks: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < value.len() {
        if value[at..].starts_with(b"${") {
            at += value[at..].iter().position(|&byte| byte == b'}')?;
        } else if marks.contains(&value[at]) {
            return Some(at);
        }
        at += 1;
    }
    None
}
