//! A [`Value`] <-> YAML text. Pure.
//!
//! Written so that equal values are equal bytes and any string comes back: what is not plainly a word is in double
//! quotes with JSON's escapes. Read strictly: one document, no anchors, aliases or tags, no duplicate key, bounded in
//! depth and number of nodes.

use std::fmt::Write as _;
use std::io;

use serde_saphyr::granit_parser::{Event, Options, Parser, ScalarStyle};

use super::node::{Item, Node, Portions, Scalar};
use super::value::{Integer, Object, Value};
use super::write::append_string;

/// The deepest nesting that is read.
pub const MAX_DEPTH: usize = 64;
/// The most nodes that are read.
const MAX_NODES: usize = 20_000_000;
/// The longest text that is read.
pub const MAX_BYTES: usize = 1 << 30;

/// Writes the members of a mapping in the order given, each in block style. Small things are on one line.
pub fn write(members: &[(&str, &Value)]) -> String {
    let mut out = String::new();
    for (key, value) in members {
        member(key, value, 0, &mut out);
    }
    out
}

/// The same, made while it is written.
pub fn write_nodes(members: Vec<(String, Node<'_>)>, out: &mut dyn io::Write) -> io::Result<()> {
    let mut out = Portions::new(out);
    for (key, node) in members {
        node_member(&key, node, 0, &mut out)?;
    }
    out.end()
}

fn node_member(key: &str, node: Node<'_>, depth: usize, out: &mut Portions<'_>) -> io::Result<()> {
    match node {
        Node::Value(value) => member(key, &value, depth, &mut out.text),
        Node::Map(members) => {
            indent(depth, &mut out.text);
            block_key(key, depth, &mut out.text);
            out.text.push('\n');
            for (key, node) in members {
                node_member(&key, node, depth + 1, out)?;
            }
        }
        Node::List(items) => {
            indent(depth, &mut out.text);
            block_key(key, depth, &mut out.text);
            let mut is_empty = true;
            for item in items {
                if std::mem::take(&mut is_empty) {
                    out.text.push('\n');
                }
                indent(depth + 1, &mut out.text);
                out.text.push('-');
                list_item(&item, depth + 1, &mut out.text);
                out.pass()?;
            }
            if is_empty {
                out.text.push_str(" []\n");
            }
        }
    }
    out.pass()
}

/// What follows the dash.
fn list_item(item: &Item<'_>, depth: usize, out: &mut String) {
    match item {
        Item::Flat(flat) if flat.members().len() <= FLOW_MEMBERS => {
            out.push_str(" {");
            for (position, (key, value)) in flat.members().iter().enumerate() {
                if position > 0 {
                    out.push_str(", ");
                }
                scalar(key, out);
                out.push_str(": ");
                match value {
                    Scalar::Text(text) => scalar(text, out),
                    Scalar::Count(_) | Scalar::Bool(_) => value.append(out),
                }
            }
            out.push_str("}\n");
        }
        Item::Flat(flat) => entries_after_dash(&flat.to_object(), depth, out),
        Item::Object(object) => {
            let value = Value::Object(object.clone());
            if is_small(&value) {
                nested(&value, depth, out);
            } else {
                entries_after_dash(object, depth, out);
            }
        }
    }
}

fn member(key: &str, value: &Value, depth: usize, out: &mut String) {
    indent(depth, out);
    block_key(key, depth, out);
    nested(value, depth, out);
}

/// The longest key that is written without a sign before it. YAML takes no longer one than 1024 characters for a key, and
/// some readers count its quotes and escapes too.
const LONGEST_PLAIN_KEY: usize = 1000;

/// A key and its colon.
fn block_key(key: &str, depth: usize, out: &mut String) {
    let start = out.len();
    scalar(key, out);
    if out.len() - start > LONGEST_PLAIN_KEY {
        out.insert_str(start, "? ");
        out.push('\n');
        indent(depth, out);
    }
    out.push(':');
}

/// The same within a line.
fn flow_key(key: &str, out: &mut String) {
    let start = out.len();
    scalar(key, out);
    if out.len() - start > LONGEST_PLAIN_KEY {
        out.insert_str(start, "? ");
        out.push(' ');
    }
    out.push_str(": ");
}

/// What follows `key:` or stands beneath `-`.
fn nested(value: &Value, depth: usize, out: &mut String) {
    if is_small(value) {
        out.push(' ');
        flow(value, out);
        out.push('\n');
        return;
    }
    out.push('\n');
    match value {
        Value::Array(elements) => {
            for element in elements {
                indent(depth + 1, out);
                out.push('-');
                if let Value::Object(object) = element
                    && !is_small(element)
                {
                    entries_after_dash(object, depth + 1, out);
                } else {
                    nested(element, depth + 1, out);
                }
            }
        }
        Value::Object(object) => {
            for (key, value) in object.iter() {
                member(key, value, depth + 1, out);
            }
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::String(_) => {}
    }
}

/// A mapping in a list: its first member beside the dash.
fn entries_after_dash(object: &Object, depth: usize, out: &mut String) {
    for (position, (key, value)) in object.iter().enumerate() {
        if position == 0 {
            out.push(' ');
        } else {
            indent(depth + 1, out);
        }
        block_key(key, depth + 1, out);
        nested(value, depth + 1, out);
    }
}

fn indent(depth: usize, out: &mut String) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

/// The most members of a mapping on one line.
const FLOW_MEMBERS: usize = 8;

/// Scalars, and short lists and mappings of scalars.
fn is_small(value: &Value) -> bool {
    let is_scalar = |value: &Value| !matches!(value, Value::Array(_) | Value::Object(_));
    match value {
        Value::Array(elements) => elements.len() <= 64 && elements.iter().all(is_scalar),
        Value::Object(object) => {
            object.is_empty()
                || (object.len() <= FLOW_MEMBERS && object.iter().all(|(_, value)| is_scalar(value)))
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::String(_) => true,
    }
}

fn flow(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Integer(integer) => {
            write!(out, "{}", integer.value()).expect("writing to a String cannot fail");
        }
        Value::String(text) => scalar(text, out),
        Value::Array(elements) => {
            out.push('[');
            for (position, element) in elements.iter().enumerate() {
                if position > 0 {
                    out.push_str(", ");
                }
                flow(element, out);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (position, (key, value)) in object.iter().enumerate() {
                if position > 0 {
                    out.push_str(", ");
                }
                flow_key(key, out);
                flow(value, out);
            }
            out.push('}');
        }
    }
}

/// A string: plain when nobody can take it for anything else, in double quotes otherwise.
pub fn scalar(text: &str, out: &mut String) {
    if is_plain(text) {
        out.push_str(text);
    } else {
        quoted(text, out);
    }
}

fn is_plain(text: &str) -> bool {
    let is_word_start = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'/' || *byte == b'_';
    text.len() <= 1024
        && text.as_bytes().first().is_some_and(is_word_start)
        && text.bytes().all(|byte| IS_WORD[usize::from(byte)])
        && !TAKEN.iter().any(|taken| taken.eq_ignore_ascii_case(text))
}

/// Older YAML takes more words for truth values than newer does.
const TAKEN: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// The bytes that a plain string is made of: a table, because every name of a run is asked about.
const IS_WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        let is_sign = matches!(byte, b'/' | b'.' | b'_' | b'-' | b'+' | b'@');
        table[byte as usize] = is_sign || byte.is_ascii_alphanumeric();
        byte += 1;
    }
    table
};

/// JSON's string, with what YAML does not print, what breaks its lines and what turns the order of its letters written
/// out too.
pub(super) fn quoted(text: &str, out: &mut String) {
    let is_unprintable = |c: char| {
        matches!(c,
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
            | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    // Of ASCII there is one, and most names are nothing else.
    let is_printable = text.is_ascii() && !text.as_bytes().contains(&0x7f);
    if is_printable || !text.contains(is_unprintable) {
        append_string(text, out);
        return;
    }
    let mut json = String::new();
    append_string(text, &mut json);
    for c in json.chars() {
        if is_unprintable(c) {
            write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a String cannot fail");
        } else {
            out.push(c);
        }
    }
}

/// Why a text is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {problem}")]
pub struct YamlError {
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: String,
}

/// A list or mapping that is being filled.
enum Open {
    List(Vec<Value>),
    Map(Object, Option<String>),
}

/// Reads the one document of `text`.
pub fn read(text: &str) -> Result<Value, YamlError> {
    let error = |line, column, problem: &str| YamlError { line, column, problem: problem.into() };
    if text.len() > MAX_BYTES {
        return Err(error(1, 1, "the text is too long"));
    }
    let mut options = Options::default();
    options.disallow_directives = true;
    let mut stack: Vec<Open> = Vec::new();
    let mut root = None;
    let mut documents = 0;
    for (nodes, next) in Parser::new_from_str_with_options(text, options).enumerate() {
        let (event, span) = next.map_err(|problem| {
            let mark = problem.marker();
            error(mark.line(), mark.col() + 1, &problem.info())
        })?;
        let fail = |problem: &str| error(span.start.line(), span.start.col() + 1, problem);
        if nodes > MAX_NODES {
            return Err(fail("too many nodes"));
        }
        let done = match event {
            Event::DocumentStart(..) => {
                documents += 1;
                if documents > 1 {
                    return Err(fail("a second document"));
                }
                continue;
            }
            Event::Scalar(_, _, anchor, tag) if anchor != 0 || tag.is_some() => {
                return Err(fail("an anchor or a tag"));
            }
            Event::SequenceStart(_, anchor, tag) | Event::MappingStart(_, anchor, tag)
                if anchor != 0 || tag.is_some() =>
            {
                return Err(fail("an anchor or a tag"));
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if stack.len() >= MAX_DEPTH {
                    return Err(fail("nested too deep"));
                }
                if let Some(Open::Map(_, None)) = stack.last() {
                    return Err(fail("a list or mapping as a key"));
                }
                let is_list = matches!(event, Event::SequenceStart(..));
                stack.push(if is_list { Open::List(Vec::new()) } else { Open::Map(Object::new(), None) });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match stack.pop() {
                Some(Open::List(elements)) => Value::Array(elements),
                Some(Open::Map(object, _)) => Value::Object(object),
                None => return Err(fail("an end without a beginning")),
            },
            Event::Scalar(text, style, ..) => {
                let is_key = matches!(stack.last(), Some(Open::Map(_, None)));
                if is_key {
                    if let Some(Open::Map(_, key)) = stack.last_mut() {
                        *key = Some(text.into_owned());
                    }
                    continue;
                }
                plain_value(text.into_owned(), style)
                    .ok_or_else(|| fail("a number that is not told exactly"))?
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => return Err(fail("an alias")),
            _ => continue,
        };
        match stack.last_mut() {
            None => root = Some(done),
            Some(Open::List(elements)) => elements.push(done),
            Some(Open::Map(object, key)) => {
                let key = key.take().ok_or_else(|| fail("a value without a key"))?;
                if object.contains(&key) {
                    return Err(fail(&format!("duplicate key `{}`", key.escape_debug())));
                }
                object.insert(key, done);
            }
        }
    }
    root.ok_or_else(|| error(1, 1, "the text is empty"))
}

/// What a scalar stands for; `None` for a float or an integer that no reader keeps exactly.
fn plain_value(text: String, style: ScalarStyle) -> Option<Value> {
    if style != ScalarStyle::Plain {
        return Some(Value::String(text));
    }
    match text.as_str() {
        "" | "~" | "null" => Some(Value::Null),
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => {
            let digits = text.strip_prefix('-').unwrap_or(&text);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                let is_float = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
                    && digits.parse::<f64>().is_ok();
                return (!is_float).then_some(Value::String(text));
            }
            text.parse().ok().and_then(Integer::new).map(Value::Integer)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<u32>().prop_map(|count| Value::count(count.into())),
            any::<String>().prop_map(Value::String),
            "[a-z0-9:# \\-\\[\\]{}!&*|>'\"%@`,?\\\\./$~\\n\\t]{0,12}".prop_map(Value::String),
            prop_oneof!["true", "No", "~", "-1", "0x1f", "1e3", ".inf", "2026-01-01", "- a", "a: b", "#c"]
                .prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                prop::collection::btree_map(any::<String>(), inner, 0..5).prop_map(|members| {
                    let mut object = Object::new();
                    for (key, value) in members {
                        object.insert(key, value);
                    }
                    Value::Object(object)
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in value()) {
            let text = write(&[("root", &value)]);
            let read = read(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            let object = read.as_object().unwrap();
            prop_assert_eq!(object.get("root"), Some(&value), "{}", text);
        }

        #[test]
        fn another_reader_reads_the_same(text: String) {
            let yaml = write(&[("root", &Value::String(text.clone()))]);
            let read: BTreeMap<String, String> = serde_saphyr::from_str(&yaml).unwrap();
            prop_assert_eq!(&read["root"], &text);
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = read(&text);
        }
    }

    #[test]
    fn a_key_of_any_length_is_read_back_wherever_it_stands() {
        let object = |key: &str, value: Value| Value::Object(Object::from([(key, value)]));
        for length in [1, 998, 1000, 1001, 1022, 1023, 1024, 1025, 4096, 50_000] {
            for letter in ["a", " ", "\u{e9}", "\"", "\u{85}"] {
                let key = letter.repeat(length);
                let long = Value::Array(vec![Value::Array(vec!["x".into()]), object(&key, "y".into())]);
                let value = Value::Array(vec![
                    object(&key, "z".into()),
                    object(&key, long.clone()),
                    Object::from([("a b", long.clone()), (&*key, long)]).into(),
                ]);
                let text = write(&[("root", &value), (&key, &value)]);
                let read = read(&text).unwrap_or_else(|error| panic!("{length} {letter:?}: {error}"));
                let read = read.as_object().unwrap();
                assert!(
                    read.get("root") == Some(&value) && read.get(&key) == Some(&value),
                    "{length} {letter:?}"
                );
                let text = write(&[("root", &object(&key, "z".into()))]);
                let other: BTreeMap<String, BTreeMap<String, String>> =
                    serde_saphyr::from_str(&text).unwrap();
                assert_eq!(other["root"][&key], "z");
            }
        }
    }

    #[test]
    fn what_is_not_strictly_one_value_is_refused() {
        for text in [
            "",
            "a: 1\na: 2",
            "a: &x 1\nb: *x",
            "a: !t 1",
            "a: 1\n---\nb: 2",
            "? [a]\n: b",
            "a: 1.5",
            "a: 99999999999999999999",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
        let deep = "[".repeat(100);
        assert!(read(&deep).is_err());
    }
}
