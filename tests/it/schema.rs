//! As much of JSON Schema as the SARIF schema uses. A keyword it does not know is a panic, never a pass.

use serde_json::Value;

/// Every complaint about `value`.
pub fn complaints(schema: &Value, value: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    check(schema, schema, value, "$", &mut complaints);
    complaints
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, complaints: &mut Vec<String>) {
    let mut complain = |text: String| complaints.push(format!("{at}: {text}"));
    for (keyword, wanted) in schema.as_object().unwrap() {
        match keyword.as_str() {
            // Words for people; and what `descend` looks at.
            "$schema"
            | "$id"
            | "title"
            | "description"
            | "default"
            | "definitions"
            | "items"
            | "properties"
            | "additionalProperties"
            | "anyOf"
            | "oneOf" => {}
            "$ref" => {
                let pointer = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                check(root, root.pointer(pointer).unwrap(), value, at, complaints);
                return;
            }
            "type" => {
                let types: Vec<&str> = match wanted {
                    Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
                    one => vec![one.as_str().unwrap()],
                };
                if !types.iter().any(|name| is_of(value, name)) {
                    complain(format!("not {types:?}"));
                }
            }
            "enum" => {
                if !wanted.as_array().unwrap().contains(value) {
                    complain(format!("{value} is not among {wanted}"));
                }
            }
            "required" => {
                for key in wanted.as_array().unwrap().iter().filter_map(Value::as_str) {
                    if value.is_object() && value.get(key).is_none() {
                        complain(format!("{key} is missing"));
                    }
                }
            }
            "minimum" | "maximum" => {
                let (Some(number), Some(bound)) = (value.as_i64(), wanted.as_i64()) else { continue };
                if (keyword == "minimum" && number < bound) || (keyword == "maximum" && number > bound) {
                    complain(format!("{number} is beyond {keyword} {bound}"));
                }
            }
            "minItems" => {
                if value.as_array().is_some_and(|list| (list.len() as u64) < wanted.as_u64().unwrap()) {
                    complain("too few items".into());
                }
            }
            "uniqueItems" => {
                let list = value.as_array().map_or(&[][..], Vec::as_slice);
                if list.iter().enumerate().any(|(at, item)| list[..at].contains(item)) {
                    complain("an item twice".into());
                }
            }
            "format" => {
                let text = value.as_str().unwrap_or_default();
                let is_uri = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c);
                match wanted.as_str().unwrap() {
                    "uri" | "uri-reference" if text.chars().all(is_uri) => {}
                    other => complain(format!("{text} is no {other}")),
                }
            }
            "pattern" => panic!("{at}: patterns are not written here, and {value} needs one"),
            other => panic!("the schema has `{other}`, which is not written here"),
        }
    }
    descend(root, schema, value, at, complaints);
}

fn descend(root: &Value, schema: &Value, value: &Value, at: &str, complaints: &mut Vec<String>) {
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        for (index, item) in list.iter().enumerate() {
            check(root, items, item, &format!("{at}[{index}]"), complaints);
        }
    }
    if let Some(object) = value.as_object() {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (key, member) in object {
            let at = format!("{at}.{key}");
            match (properties.and_then(|properties| properties.get(key)), schema.get("additionalProperties"))
            {
                (Some(schema), _) | (None, Some(schema @ Value::Object(_))) => {
                    check(root, schema, member, &at, complaints);
                }
                (None, Some(Value::Bool(false))) => complaints.push(format!("{at}: not in the schema")),
                (None, _) => {}
            }
        }
    }
    for (keyword, least, most) in [("anyOf", 1, usize::MAX), ("oneOf", 1, 1)] {
        if let Some(choices) = schema.get(keyword).and_then(Value::as_array) {
            let fitting = choices.iter().filter(|choice| {
                let mut inner = Vec::new();
                check(root, choice, value, at, &mut inner);
                inner.is_empty()
            });
            let fitting = fitting.count();
            if fitting < least || fitting > most {
                complaints.push(format!("{at}: fits {fitting} of {keyword}"));
            }
        }
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the schema has type `{other}`"),
    }
}
