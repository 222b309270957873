//! Writes a [`Value`] as canonical JSON (RFC 8785): sorted keys, no white space, the shortest escapes.
//!
//! Pure. One value has exactly one text.

use super::value::Value;

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
        Value::Object(object) => {
            out.push('{');
            for (at, (key, member)) in object.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                append_string(key, out);
                out.push(':');
                append(member, out);
            }
            out.push('}');
        }
    }
}

/// Appends one string with its quotes.
pub fn append_string(text: &str, out: &mut String) {
    use std::fmt::Write as _;
    out.push('"');
    let mut rest = text;
    // Only these bytes need an escape, and none of them occurs inside a longer UTF-8 sequence.
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            0x0c => out.push_str("\\f"),
            b'\r' => out.push_str("\\r"),
            control => write!(out, "\\u{control:04x}").expect("writing to a String cannot fail"),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::read::parse;
    use super::super::value::{Integer, MAX_INTEGER, Object};
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

    pub(crate) fn any_value() -> impl Strategy<Value = Value> {
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

    proptest! {
        #[test]
        fn what_was_written_is_read_back(value in any_value()) {
            prop_assert_eq!(parse(to_string(&value).as_bytes()).unwrap(), value);
        }

        #[test]
        fn an_independent_canonicaliser_agrees(value in any_value()) {
            let text = to_string(&value);
            let other: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(serde_json_canonicalizer::to_string(&other).unwrap(), text);
        }
    }
}
