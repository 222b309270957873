//! A [`Value`] as JSON for people too: indented, small things on one line. Pure.

use std::io;

use super::node::{Item, Node, Portions, Scalar};
use super::value::Value;
use super::write;
use super::yaml::quoted;

/// A JSON object whose members, and members of members, each have a line.
pub fn write(members: &[(&str, &Value)]) -> String {
    let mut out = String::from("{\n");
    for (position, (key, value)) in members.iter().enumerate() {
        out.push_str("  ");
        quoted(key, &mut out);
        out.push_str(": ");
        json(value, 1, &mut out);
        out.push_str(if position + 1 < members.len() { ",\n" } else { "\n" });
    }
    out.push_str("}\n");
    out
}

/// The same, made while it is written.
pub fn write_nodes(members: Vec<(String, Node<'_>)>, out: &mut dyn io::Write) -> io::Result<()> {
    let mut out = Portions::new(out);
    map(members, 0, &mut out)?;
    out.text.push('\n');
    out.end()
}

fn map(members: Vec<(String, Node<'_>)>, depth: usize, out: &mut Portions<'_>) -> io::Result<()> {
    out.text.push('{');
    for (position, (key, node)) in members.into_iter().enumerate() {
        begin(position, depth, &mut out.text);
        quoted(&key, &mut out.text);
        out.text.push_str(": ");
        match node {
            Node::Value(value) => json(&value, depth + 1, &mut out.text),
            Node::Map(members) => map(members, depth + 1, out)?,
            Node::List(items) => list(items, depth + 1, out)?,
        }
        out.pass()?;
    }
    end(depth, '}', &mut out.text);
    Ok(())
}

fn list<'a>(items: impl Iterator<Item = Item<'a>>, depth: usize, out: &mut Portions<'_>) -> io::Result<()> {
    out.text.push('[');
    let mut is_empty = true;
    for (position, item) in items.enumerate() {
        is_empty = false;
        begin(position, depth, &mut out.text);
        match item {
            Item::Flat(flat) => {
                out.text.push('{');
                for (position, (key, value)) in flat.members().iter().enumerate() {
                    out.text.push_str(if position > 0 { ", " } else { "" });
                    quoted(key, &mut out.text);
                    out.text.push_str(": ");
                    match value {
                        Scalar::Text(text) => quoted(text, &mut out.text),
                        Scalar::Count(_) | Scalar::Bool(_) => value.append(&mut out.text),
                    }
                }
                out.text.push('}');
            }
            Item::Object(object) => json(&Value::Object(object), depth + 1, &mut out.text),
        }
        out.pass()?;
    }
    if is_empty {
        out.text.push(']');
    } else {
        end(depth, ']', &mut out.text);
    }
    Ok(())
}

fn begin(position: usize, depth: usize, out: &mut String) {
    out.push_str(if position > 0 { ",\n" } else { "\n" });
    out.push_str(&"  ".repeat(depth + 1));
}

fn end(depth: usize, bracket: char, out: &mut String) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
    out.push(bracket);
}

fn json(value: &Value, depth: usize, out: &mut String) {
    let is_leaf = |value: &Value| !matches!(value, Value::Array(_) | Value::Object(_));
    let close = |bracket: char, out: &mut String| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
        out.push(bracket);
    };
    match value {
        Value::Object(object)
            if !object.is_empty() && (depth < 3 || !object.iter().all(|(_, value)| is_leaf(value))) =>
        {
            out.push('{');
            for (position, (key, value)) in object.iter().enumerate() {
                out.push_str(if position > 0 { ",\n" } else { "\n" });
                out.push_str(&"  ".repeat(depth + 1));
                quoted(key, out);
                out.push_str(": ");
                json(value, depth + 1, out);
            }
            close('}', out);
        }
        Value::Array(elements) if !elements.iter().all(is_leaf) => {
            out.push('[');
            for (position, value) in elements.iter().enumerate() {
                out.push_str(if position > 0 { ",\n" } else { "\n" });
                out.push_str(&"  ".repeat(depth + 1));
                json(value, depth + 1, out);
            }
            close(']', out);
        }
        _ => compact(value, out),
    }
}

/// On one line. Strings are written so that a reader of YAML takes them too.
fn compact(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => quoted(text, out),
        Value::Array(elements) => {
            out.push('[');
            for (position, element) in elements.iter().enumerate() {
                out.push_str(if position > 0 { ", " } else { "" });
                compact(element, out);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (position, (key, member)) in object.iter().enumerate() {
                out.push_str(if position > 0 { ", " } else { "" });
                quoted(key, out);
                out.push_str(": ");
                compact(member, out);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) => write::append(value, out),
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    #[test]
    fn it_is_the_same_value() {
        let text = r#"{"a":{"b":[{"x":1,"y":[1,2]},"\":[,",{}],"c":{"d":{"e":1}}},"z":[]}"#;
        let value = read::parse(text.as_bytes()).unwrap();
        let object = value.as_object().unwrap();
        let members: Vec<(&str, &Value)> = object.iter().collect();
        let written = super::write(&members);
        assert_eq!(read::parse(written.trim().as_bytes()).unwrap(), value, "{written}");
        assert!(written.lines().count() > 5, "{written}");
    }
}
