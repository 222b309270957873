//! Writes a [`Value`] as canonical JSON (RFC 8785): sorted keys, no white space, the shortest escapes.
//!
//! Pure. One value has exactly one text.

use std::io;

use super::node::{Item, Node, Portions};
use super::value::{Object, Value};

/// The canonical text.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    append(value, &mut out);
    out
}

/// Appends the canonical text to `out`.
pub fn append(value: &Value, out: &mut String) {
    use std::fmt::Write as _;
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Integer(integer) => {
            write!(out, "{}", integer.value()).expect("writing to a String cannot fail");
        }
        Value::String(text) => append_string(text, out),
        Value::Array(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                append(element, out);
            }
            out.push(']');
        }
        Value::Object(object) => append_members(object.iter(), out),
    }
}

/// Appends an object as if it had not the member of this key.
pub fn append_without(object: &Object, key: &str, out: &mut String) {
    append_members(object.iter().filter(|(other, _)| *other != key), out);
}

fn append_members<'a>(members: impl Iterator<Item = (&'a str, &'a Value)>, out: &mut String) {
    out.push('{');
    for (at, (key, member)) in members.enumerate() {
        if at > 0 {
            out.push(',');
        }
        append_string(key, out);
        out.push(':');
        append(member, out);
    }
    out.push('}');
}

/// Appends one string with its quotes.
pub fn append_string(text: &str, out: &mut String) {
    use std::fmt::Write as _;
    out.push('"');
    let mut rest = text;
    // Only these bytes need an escape, and none of them occurs inside a longer UTF-8 sequence.
    loop {
        let at = plain_len(rest.as_bytes());
        out.push_str(&rest[..at]);
        match rest.as_bytes().get(at) {
            None => break,
            Some(b'"') => out.push_str("\\\""),
            Some(b'\\') => out.push_str("\\\\"),
            Some(0x08) => out.push_str("\\b"),
            Some(b'\t') => out.push_str("\\t"),
            Some(b'\n') => out.push_str("\\n"),
            Some(0x0c) => out.push_str("\\f"),
            Some(b'\r') => out.push_str("\\r"),
            Some(control) => write!(out, "\\u{control:04x}").expect("writing to a String cannot fail"),
        }
        rest = &rest[at + 1..];
    }
    out.push('"');
}

/// How many bytes a text begins with that a string of JSON holds as they are.
pub(super) fn plain_len(text: &[u8]) -> usize {
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let mut at = 0;
    // Sixteen at a time, without a branch for each, which compilers make one comparison of.
    for chunk in text.chunks_exact(16) {
        if chunk.iter().fold(false, |found, byte| found | is_special(byte)) {
            break;
        }
        at += 16;
    }
    at + text[at..].iter().position(is_special).unwrap_or(text.len() - at)
}

/// Writes the canonical text of what is made while it is written.
pub fn write_node(node: Node<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let mut out = Portions::new(out);
    append_node(node, &mut out)?;
    out.end()
}

fn append_node(node: Node<'_>, out: &mut Portions<'_>) -> io::Result<()> {
    match node {
        Node::Value(value) => append(&value, &mut out.text),
        Node::Map(members) => {
            out.text.push('{');
            for (at, (key, member)) in members.into_iter().enumerate() {
                out.text.push_str(if at > 0 { "," } else { "" });
                append_string(&key, &mut out.text);
                out.text.push(':');
                append_node(member, out)?;
            }
            out.text.push('}');
        }
        Node::List(items) => {
            out.text.push('[');
            for (at, item) in items.enumerate() {
                out.text.push_str(if at > 0 { "," } else { "" });
                match item {
                    Item::Flat(flat) => flat.append(&mut out.text),
                    Item::Object(object) => append(&Value::Object(object), &mut out.text),
                }
                out.pass()?;
            }
            out.text.push(']');
        }
    }
    out.pass()
}

#[cfg(test)]
mod tests {
    use super::super::read::{parse, parse_over};
    use super::super::value::{Integer, MAX_INTEGER};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_rfc_comes_out_as_it_says() {
        // RFC 8785, 3.2.2, without its floating-point numbers.
        let value = parse(
            br#"{"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"#,
        )
        .unwrap();
        assert_eq!(
            to_string(&value),
            "{\"literals\":[null,true,false],\"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            (-MAX_INTEGER..=MAX_INTEGER).prop_map(|n| Value::Integer(Integer::new(n).unwrap())),
            any::<String>().prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::vec((any::<String>(), inner), 0..6).prop_map(|members| {
                    let mut object = Object::new();
                    for (key, value) in members {
                        object.set(&key, value);
                    }
                    Value::Object(object)
                }),
            ]
        })
    }

    #[test]
    fn what_needs_an_escape_is_found_wherever_it_stands() {
        for length in 0..70 {
            let plain = "\u{e9}".repeat(length);
            assert_eq!(plain_len(plain.as_bytes()), plain.len());
            for at in 0..length {
                for special in [b'"', b'\\', 0, 0x1f] {
                    let mut text = vec![b'~'; length];
                    text[at] = special;
                    assert_eq!(plain_len(&text), at);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back(value in any_value()) {
            prop_assert_eq!(parse(to_string(&value).as_bytes()).unwrap(), value);
        }

        #[test]
        fn what_was_written_is_read_in_the_place_of_anything(mut before in any_value(), value in any_value()) {
            let text = to_string(&value);
            let spelling = parse_over(&mut before, text.as_bytes(), "").unwrap();
            prop_assert!(spelling.is_canonical);
            prop_assert_eq!(before, value);
        }

        #[test]
        fn an_independent_canonicaliser_agrees(value in any_value()) {
            let text = to_string(&value);
            let other: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(serde_json_canonicalizer::to_string(&other).unwrap(), text);
        }
    }
}
