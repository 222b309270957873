//! Names are bytes; a [`Name`] is the one text form of them that every artifact uses. Pure.
//!
//! Kept as they are: bytes that are valid UTF-8, except C0 and C1 controls, U+007F, U+2028, U+2029, U+FEFF and
//! the bidirectional controls. All else is `\xNN` byte by byte; a backslash is `\\`; a literal `${` that is part
//! of a name is `\x24{`, so that `${WORKDIR}` in a `Name` is always ours.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

/// The escaped text form of a name. Two names are equal exactly when their bytes are. The text is shared: one name
/// stands in many places of a run's record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Escapes raw bytes; nothing in them is taken for a variable.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut out = String::with_capacity(bytes.len());
        escape_into(bytes, &mut out);
        Self(out.into())
    }

    /// Takes text that is already in this form, for example `${WORKDIR}/src` built by the canonicaliser or read
    /// from an artifact.
    pub fn from_canonical(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Appends the escaped form of `bytes` to `out`.
pub fn escape_into(bytes: &[u8], out: &mut String) {
    // Most names are plain, and there are many.
    let is_plain = bytes.iter().all(|&byte| matches!(byte, b' '..=b'~') && byte != b'\\' && byte != b'$');
    if is_plain && let Ok(text) = std::str::from_utf8(bytes) {
        out.push_str(text);
        return;
    }
    for chunk in bytes.utf8_chunks() {
        let mut chars = chunk.valid().chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' => out.push_str("\\\\"),
                '$' if chars.peek() == Some(&'{') => out.push_str("\\x24"),
                c if must_escape(c) => {
                    let mut buffer = [0u8; 4];
                    push_hex(c.encode_utf8(&mut buffer).as_bytes(), out);
                }
                c => out.push(c),
            }
        }
        push_hex(chunk.invalid(), out);
    }
}

/// Text from outside, made harmless to print: what a name would not keep is escaped, and backslashes stay as they
/// are, since they mostly stand for something that was escaped before. What a CI service would take for a command in a
/// log (`::error::`, `##vso[…]`) is escaped as well: what is printed may be what a hostile run named its files.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let is_command = text.trim_start().starts_with("::") && text.parse::<std::net::Ipv6Addr>().is_err();
    if !(is_command || text.contains(must_escape) || text.contains("##")) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    let mut is_leading = is_command;
    for c in text.chars() {
        let is_mark = (c == '#' && before == '#') || (c == ':' && is_leading);
        if is_mark || must_escape(c) {
            push_hex(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut out);
        } else {
            out.push(c);
        }
        is_leading &= c.is_whitespace();
        before = c;
    }
    Cow::Owned(out)
}

fn push_hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        write!(out, "\\x{byte:02x}").expect("writing to a String cannot fail");
    }
}

/// Whether a name never holds this character as it is.
pub fn must_escape(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}'
        | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The bytes behind an escaped text, or `None` when it is not in this form (a stray backslash, an unescaped control).
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let tail = &rest.as_bytes()[at + 1..];
        match tail.first()? {
            b'\\' => {
                out.push(b'\\');
                rest = &rest[at + 2..];
            }
            b'x' => {
                let hex = rest.get(at + 2..at + 4)?;
                out.push(u8::from_str_radix(hex, 16).ok()?);
                rest = &rest[at + 4..];
            }
            _ => return None,
        }
    }
    out.extend_from_slice(rest.as_bytes());
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], text: &str) {
        assert_eq!(Name::from_bytes(bytes).as_str(), text);
        assert_eq!(unescape(text).as_deref(), Some(bytes));
    }

    #[test]
    fn ordinary_names_stay_as_they_are() {
        check(b"/usr/bin/git", "/usr/bin/git");
        check("/h\u{f6}me/\u{1f980}".as_bytes(), "/h\u{f6}me/\u{1f980}");
    }

    #[test]
    fn controls_and_foreign_bytes_are_written_out() {
        check(b"a\nb\x1b[31m\xff\\", "a\\x0ab\\x1b[31m\\xff\\\\");
        check("\u{202e}x\u{2028}\u{feff}".as_bytes(), "\\xe2\\x80\\xaex\\xe2\\x80\\xa8\\xef\\xbb\\xbf");
        check("\u{85}".as_bytes(), "\\xc2\\x85");
    }

    #[test]
    fn a_literal_variable_is_not_a_variable() {
        check(b"/tmp/${HOME}/$x", "/tmp/\\x24{HOME}/$x");
    }

    #[test]
    fn text_from_outside_is_made_harmless() {
        assert_eq!(harmless("/a\\x0a/b"), "/a\\x0a/b");
        assert_eq!(harmless("x\u{1b}[2J\n\u{9b}\u{202e}y"), "x\\x1b[2J\\x0a\\xc2\\x9b\\xe2\\x80\\xaey");
    }

    proptest::proptest! {
        #[test]
        fn every_byte_string_comes_back(bytes: Vec<u8>) {
            let name = Name::from_bytes(&bytes);
            proptest::prop_assert_eq!(unescape(name.as_str()), Some(bytes));
        }
    }
}
