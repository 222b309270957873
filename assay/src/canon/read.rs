//! Reads one strict JSON text into a [`Value`], or says what is wrong and where.
//!
//! Pure. Refused, beyond what JSON itself refuses: a byte order mark, a key that occurs twice in its object, a
//! lone surrogate, a number with a fraction or an exponent, an integer beyond ±(2^53−1), nesting deeper than
//! [`MAX_DEPTH`], anything after the value. White space and other spellings of the same value are accepted, and told
//! from the canonical text while they are read.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;

use super::value::{Integer, MAX_INTEGER, Object, Value, key_order};
use super::write::plain_len;

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 64;

/// What was wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read JSON at byte {offset}: {fault}")]
pub struct ReadError {
    /// Byte offset from the start of the text.
    pub offset: usize,
    /// What was wrong there.
    pub fault: Fault,
}

impl ReadError {
    /// Line and column, both from 1; the column counts bytes.
    pub fn position(&self, text: &[u8]) -> (usize, usize) {
        let before = &text[..self.offset.min(text.len())];
        let line = before.split(|byte| *byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        (line, column)
    }
}

/// A kind of fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It begins with U+FEFF.
    ByteOrderMark,
    /// Not UTF-8.
    Encoding,
    /// A byte that JSON does not have here.
    Syntax,
    /// The text ended early.
    End,
    /// Something after the value.
    Trailing,
    /// An unescaped control character in a string.
    Control,
    /// A `\u` escape of half a surrogate pair.
    LoneSurrogate,
    /// A key for the second time in one object.
    DuplicateKey(String),
    /// A number with a fraction or an exponent, or minus zero.
    Float,
    /// An integer beyond ±(2^53−1).
    IntegerRange,
    /// Nested deeper than [`MAX_DEPTH`].
    Depth,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByteOrderMark => f.write_str("it begins with a byte order mark"),
            Self::Encoding => f.write_str("not UTF-8"),
            Self::Syntax => f.write_str("not JSON"),
            Self::End => f.write_str("it ends too early"),
            Self::Trailing => f.write_str("something follows the value"),
            Self::Control => f.write_str("an unescaped control character in a string"),
            Self::LoneSurrogate => f.write_str("half a surrogate pair"),
            // The key may be hostile: `escape_debug` shows what it is made of.
            Self::DuplicateKey(key) => write!(f, "the key \"{}\" occurs twice", key.escape_debug()),
            Self::Float => f.write_str("a number that is not a plain integer"),
            Self::IntegerRange => write!(f, "an integer beyond \u{b1}{MAX_INTEGER}"),
            Self::Depth => write!(f, "nested deeper than {MAX_DEPTH}"),
        }
    }
}

/// Reads exactly one value.
pub fn parse(bytes: &[u8]) -> Result<Value, ReadError> {
    let mut value = Value::Null;
    parse_over(&mut value, bytes, "")?;
    Ok(value)
}

/// What is known of a text beside the value that it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spelling {
    /// Whether writing the value gives just these bytes.
    pub is_canonical: bool,
    /// Where the value of the member stands that was asked for, when the text is an object and has it.
    pub member: Option<Range<usize>>,
}

/// Reads exactly one value in the place of another one, whose strings and lists are used again: of a million texts that are
/// alike, hardly any takes new memory. After an error the value is any.
pub fn parse_over(value: &mut Value, bytes: &[u8], member: &str) -> Result<Spelling, ReadError> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(ReadError { offset: 0, fault: Fault::ByteOrderMark });
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| ReadError { offset: error.valid_up_to(), fault: Fault::Encoding })?;
    let spelling = Spelling { is_canonical: true, member: None };
    let mut reader = Reader { text, at: 0, depth: 0, member, spelling };
    reader.skip_space();
    reader.value(value)?;
    reader.skip_space();
    if reader.at < text.len() {
        return reader.fail(Fault::Trailing);
    }
    Ok(reader.spelling)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    member: &'a str,
    spelling: Spelling,
}

impl Reader<'_> {
    fn fail<T>(&self, fault: Fault) -> Result<T, ReadError> {
        Err(ReadError { offset: self.at, fault })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
            self.spelling.is_canonical = false;
        }
    }

    fn unexpected<T>(&self) -> Result<T, ReadError> {
        self.fail(if self.at < self.text.len() { Fault::Syntax } else { Fault::End })
    }

    fn expect(&mut self, byte: u8) -> Result<(), ReadError> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            self.unexpected()
        }
    }

    fn value(&mut self, value: &mut Value) -> Result<(), ReadError> {
        *value = match self.peek() {
            Some(b'{') => return self.object(value),
            Some(b'[') => return self.array(value),
            Some(b'"') => {
                if let Value::String(text) = value {
                    return self.string(text);
                }
                let mut text = String::new();
                self.string(&mut text)?;
                Value::String(text)
            }
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal("true", Value::Bool(true))?,
            Some(b'f') => self.literal("false", Value::Bool(false))?,
            Some(b'n') => self.literal("null", Value::Null)?,
            _ => return self.unexpected(),
        };
        Ok(())
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, ReadError> {
        for byte in word.bytes() {
            self.expect(byte)?;
        }
        Ok(value)
    }

    fn enter(&mut self) -> Result<(), ReadError> {
        if self.depth == MAX_DEPTH {
            return self.fail(Fault::Depth);
        }
        self.depth += 1;
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// After an element: true when another follows.
    fn continues(&mut self, end: u8) -> Result<bool, ReadError> {
        self.skip_space();
        if self.peek() == Some(end) {
            self.at += 1;
            self.depth -= 1;
            return Ok(false);
        }
        self.expect(b',')?;
        self.skip_space();
        Ok(true)
    }

    fn is_empty(&mut self, end: u8) -> bool {
        let is_empty = self.peek() == Some(end);
        if is_empty {
            self.at += 1;
            self.depth -= 1;
        }
        is_empty
    }

    fn array(&mut self, value: &mut Value) -> Result<(), ReadError> {
        self.enter()?;
        let mut elements = match std::mem::replace(value, Value::Null) {
            Value::Array(elements) => elements,
            _ => Vec::new(),
        };
        let mut filled = 0;
        let mut goes_on = !self.is_empty(b']');
        while goes_on {
            if filled == elements.len() {
                elements.push(Value::Null);
            }
            self.value(&mut elements[filled])?;
            filled += 1;
            goes_on = self.continues(b']')?;
        }
        elements.truncate(filled);
        *value = Value::Array(elements);
        Ok(())
    }

    fn object(&mut self, value: &mut Value) -> Result<(), ReadError> {
        self.enter()?;
        let mut members = match std::mem::replace(value, Value::Null) {
            Value::Object(object) => object.into_vec(),
            _ => Vec::new(),
        };
        let mut filled = 0;
        // Where the keys stand, from the first on that does not come behind the one before it.
        let mut places = Vec::new();
        let mut goes_on = !self.is_empty(b'}');
        while goes_on {
            let place = self.at;
            if filled == members.len() {
                members.push((String::new(), Value::Null));
            }
            let (before, rest) = members.split_at_mut(filled);
            let (key, member) = &mut rest[0];
            self.string(key)?;
            let is_behind = before.last().is_none_or(|(last, _)| key_order(last, key) == Ordering::Less);
            if !(is_behind && places.is_empty()) {
                places.push(place);
            }
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            let start = self.at;
            self.value(member)?;
            if self.depth == 1 && key == self.member {
                self.spelling.member = Some(start..self.at);
            }
            filled += 1;
            goes_on = self.continues(b'}')?;
        }
        members.truncate(filled);
        *value = Value::Object(if places.is_empty() {
            Object::from_ordered(members)
        } else {
            self.spelling.is_canonical = false;
            // Sorted once, at the end: a text of many keys in disorder would take the square of its length.
            let first = filled - places.len();
            Object::from_members(members).map_err(|(at, key)| ReadError {
                offset: places[at - first],
                fault: Fault::DuplicateKey(key),
            })?
        });
        Ok(())
    }

    fn number(&mut self) -> Result<Value, ReadError> {
        let start = self.at;
        let is_negative = self.peek() == Some(b'-');
        if is_negative {
            self.at += 1;
        }
        let digits_at = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        let digits = &self.text[digits_at..self.at];
        if digits.is_empty() {
            return self.unexpected();
        }
        let fault = if digits.len() > 1 && digits.starts_with('0') {
            Fault::Syntax
        } else if matches!(self.peek(), Some(b'.' | b'e' | b'E')) || (is_negative && digits == "0") {
            Fault::Float
        } else {
            match digits.parse().ok().and_then(Integer::new) {
                Some(integer) if is_negative => {
                    return Ok(Value::Integer(
                        Integer::new(-integer.value()).expect("the range is symmetric"),
                    ));
                }
                Some(integer) => return Ok(Value::Integer(integer)),
                None => Fault::IntegerRange,
            }
        };
        Err(ReadError { offset: start, fault })
    }

    fn string(&mut self, out: &mut String) -> Result<(), ReadError> {
        self.expect(b'"')?;
        out.clear();
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let plain = plain_len(rest);
            out.push_str(&self.text[self.at..self.at + plain]);
            self.at += plain;
            match rest.get(plain) {
                None => return self.fail(Fault::End),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return self.fail(Fault::Control),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ReadError> {
        let start = self.at;
        self.at += 1;
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => {
                self.spelling.is_canonical = false;
                '/'
            }
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let digits = self.at;
                let high = self.hex4()?;
                // Only a control that has no shorter escape is written so, in lower case.
                let is_shortest = high < 0x20 && !matches!(high, 0x08..=0x0a | 0x0c | 0x0d);
                if !is_shortest || self.text[digits..self.at].bytes().any(|digit| digit.is_ascii_uppercase())
                {
                    self.spelling.is_canonical = false;
                }
                return self.finish_unicode(start, high);
            }
            _ => return self.unexpected(),
        };
        self.at += 1;
        Ok(c)
    }

    fn finish_unicode(&mut self, start: usize, high: u16) -> Result<char, ReadError> {
        let lone = ReadError { offset: start, fault: Fault::LoneSurrogate };
        if let Some(c) = char::from_u32(high.into()) {
            return Ok(c);
        }
        if !self.text[self.at..].starts_with("\\u") {
            return Err(lone);
        }
        self.at += 2;
        let low = self.hex4()?;
        match char::decode_utf16([high, low]).next() {
            Some(Ok(c)) => Ok(c),
            _ => Err(lone),
        }
    }

    fn hex4(&mut self) -> Result<u16, ReadError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = match self.peek() {
                Some(byte @ b'0'..=b'9') => byte - b'0',
                Some(byte @ b'a'..=b'f') => byte - b'a' + 10,
                Some(byte @ b'A'..=b'F') => byte - b'A' + 10,
                _ => return self.unexpected(),
            };
            unit = unit << 4 | u16::from(digit);
            self.at += 1;
        }
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::write::to_string;
    use super::*;

    fn check(text: &[u8], expect: &str) {
        match parse(text) {
            Ok(value) => assert_eq!(to_string(&value), expect),
            Err(error) => assert_eq!(format!("{}: {}", error.offset, error.fault), expect),
        }
    }

    #[test]
    fn what_json_allows_is_read() {
        check(b" { \"b\" : [ 1 , -2 ] , \"a\" : \"\\u00e9\\/\" }\r\n", "{\"a\":\"\u{e9}/\",\"b\":[1,-2]}");
        check(b"\"\\ud83d\\ude00\"", "\"\u{1f600}\"");
        check(b"9007199254740991", "9007199254740991");
        check(b"-9007199254740991", "-9007199254740991");
        check(b"{}", "{}");
        check(b"[]", "[]");
    }

    #[test]
    fn a_key_twice_is_refused_at_any_depth() {
        check(b"{\"a\":1,\"a\":1}", "7: the key \"a\" occurs twice");
        check(b"[{\"x\":[{\"b\":0,\"\\u0062\":0}]}]", "14: the key \"b\" occurs twice");
        check(b"{\"a\":{\"a\":1}}", "{\"a\":{\"a\":1}}");
    }

    #[test]
    fn many_keys_in_disorder_do_not_take_the_square_of_their_number() {
        let keys: Vec<String> = (0..100_000).rev().map(|n| format!("\"{n:06}\":0")).collect();
        let start = std::time::Instant::now();
        let value = parse(format!("{{{}}}", keys.join(",")).as_bytes()).unwrap();
        assert_eq!(value.as_object().unwrap().len(), 100_000);
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }

    #[test]
    fn surrogates_come_in_pairs() {
        check(b"\"\\ud83d\"", "1: half a surrogate pair");
        check(b"\"\\ude00\\ud83d\"", "1: half a surrogate pair");
        check(b"\"\\ud83dx\"", "1: half a surrogate pair");
        check(b"\"\\ud83d\\u0041\"", "1: half a surrogate pair");
    }

    #[test]
    fn a_byte_order_mark_and_foreign_bytes_are_refused() {
        check(b"\xef\xbb\xbf{}", "0: it begins with a byte order mark");
        check(b"\"\xff\"", "1: not UTF-8");
        check(b"\"\xed\xa0\x80\"", "1: not UTF-8");
        check(b"\"a\x01\"", "2: an unescaped control character in a string");
    }

    #[test]
    fn only_exact_integers_are_numbers() {
        for float in ["1.0", "1e3", "1E3", "-0", "0.5", "-0.0"] {
            check(float.as_bytes(), "0: a number that is not a plain integer");
        }
        for huge in ["9007199254740992", "-9007199254740992", "18446744073709551616", &"9".repeat(400)] {
            check(huge.as_bytes(), "0: an integer beyond \u{b1}9007199254740991");
        }
        for broken in ["01", "-01"] {
            check(broken.as_bytes(), "0: not JSON");
        }
        check(b"-", "1: it ends too early");
        check(b"+1", "0: not JSON");
        check(b"NaN", "0: not JSON");
    }

    #[test]
    fn depth_is_counted_and_cannot_overflow_the_stack() {
        let deep = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        assert!(parse(&deep(MAX_DEPTH)).is_ok());
        check(&deep(MAX_DEPTH + 1), "64: nested deeper than 64");
        check(&vec![b'['; 1 << 20], "64: nested deeper than 64");
        let flat = format!("[{}0]", "[],".repeat(1000));
        assert!(parse(flat.as_bytes()).is_ok(), "depth is left again");
    }

    #[test]
    fn one_text_is_one_value() {
        check(b"{} {}", "3: something follows the value");
        check(b"", "0: it ends too early");
        check(b"{\"a\":1,}", "7: not JSON");
        check(b"[1,]", "3: not JSON");
        check(b"{'a':1}", "1: not JSON");
        check(b"tru", "3: it ends too early");
        check(b"\"a", "2: it ends too early");
        let error = parse(b"{\n  \"a\": 1,\n  \"a\": 2}").unwrap_err();
        assert_eq!(error.position(b"{\n  \"a\": 1,\n  \"a\": 2}"), (3, 3));
    }

    /// Whether a text is canonical, and where its member is, against its value written again.
    fn check_spelling(text: &[u8]) {
        match (parse(text), parse_over(&mut Value::Null, text, "a")) {
            (Err(error), over) => assert_eq!(over, Err(error)),
            (Ok(fresh), over) => {
                let spelling = over.unwrap();
                assert_eq!(
                    spelling.is_canonical,
                    to_string(&fresh).as_bytes() == text,
                    "{}",
                    text.escape_ascii()
                );
                let member = spelling.member.map(|range| parse(&text[range]).unwrap());
                assert_eq!(member.as_ref(), fresh.as_object().and_then(|object| object.get("a")));
            }
        }
    }

    #[test]
    fn a_text_is_canonical_when_writing_its_value_gives_the_same() {
        for text in [
            r#"{"a":1,"b":[true,null,-7]}"#,
            r#"{"b":1,"a":2}"#,
            r#"{"x":{"b":0,"a":0},"a":[]}"#,
            r#"{"b":{"a":1}}"#,
            r#"{"a": 1}"#,
            r#" {"a":1}"#,
            r#"{"a":1} "#,
            "[1, 2]",
            r#""\/""#,
            r#""/""#,
            r#""\u0000\u001f\u000b""#,
            r#""\u001F""#,
            r#""\u000a""#,
            r#""\n\t\r\b\f\"\\""#,
            r#""\u007f""#,
            r#""\u00e9""#,
            r#""\ud83d\ude00""#,
            r#""\u0022""#,
            "{\"\u{fb33}\":1,\"\u{1f600}\":2}",
            "{\"\u{1f600}\":2,\"\u{fb33}\":1}",
            r#"{"a\u0041":1}"#,
        ] {
            check_spelling(text.as_bytes());
        }
        for high in 0..=0xff {
            check_spelling(format!("\"\\u{high:04x}\"").as_bytes());
            check_spelling(format!("\"\\u{high:04X}\"").as_bytes());
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_known_for_canonical_or_not(text in "[\\[\\]{}\",:0-9ab\\\\uF. -]{0,24}") {
            check_spelling(text.as_bytes());
            check_spelling(format!("{{\"a\":{text}}}").as_bytes());
            check_spelling(format!("{{\"b\":\"{text}\",\"a\":7}}").as_bytes());
        }

        #[test]
        fn no_bytes_make_it_panic_and_what_it_accepts_others_accept(bytes: Vec<u8>) {
            if parse(&bytes).is_ok() {
                proptest::prop_assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
            }
        }

        #[test]
        fn near_json_is_read_as_others_read_it(text in "[\\[\\]{}\",:0-9a\\\\u. -]{0,24}") {
            if let Ok(value) = parse(text.as_bytes()) {
                let other: serde_json::Value = serde_json::from_str(&text).unwrap();
                let ours: serde_json::Value = serde_json::from_str(&to_string(&value)).unwrap();
                proptest::prop_assert_eq!(ours, other);
            }
        }
    }
}
