//! A [`Value`] as JSON for people too: indented, small things on one line. Pure.

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
