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
            "minLength" => {
                if value.as_str().is_some_and(|text| (text.len() as u64) < wanted.as_u64().unwrap()) {
                    complain("too short".into());
                }
            }
            "pattern" => {
                if value.as_str().is_some_and(|text| !matches(wanted.as_str().unwrap(), text)) {
                    complain(format!("{value} is not of the form {wanted}"));
                }
            }
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

/// As much of regular expressions as our schemas use: the whole text, character by character, each once or so many times.
fn matches(pattern: &str, text: &str) -> bool {
    let inner = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
    let mut rest = inner.unwrap_or_else(|| panic!("{pattern}: is not about the whole text"));
    let mut text = text;
    while let Some(first) = rest.chars().next() {
        assert!(!"(|)\\.*+?".contains(first), "{pattern}: `{first}` is not written here");
        let class = match rest.strip_prefix('[') {
            Some(after) => after.split_once(']').expect("a class ends"),
            None => rest.split_at(first.len_utf8()),
        };
        let is_in = |c: char| {
            let letters: Vec<char> = class.0.chars().collect();
            match letters.as_slice() {
                [one] => *one == c,
                _ => class_has(&letters, c),
            }
        };
        let (least, most, after) = match class.1.strip_prefix('{') {
            None => (1, 1, class.1),
            Some(counted) => {
                let (counts, after) = counted.split_once('}').expect("a count ends");
                let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
                (least.parse().unwrap(), most.parse().unwrap(), after)
            }
        };
        let taken = text.chars().take(most).take_while(|c| is_in(*c)).map(char::len_utf8);
        let (count, bytes) = taken.fold((0, 0), |(count, bytes), length| (count + 1, bytes + length));
        if count < least {
            return false;
        }
        (text, rest) = (&text[bytes..], after);
    }
    text.is_empty()
}

/// Ranges only, as in `0-9a-f`, and single characters before them.
fn class_has(letters: &[char], c: char) -> bool {
    match letters {
        [from, '-', to, rest @ ..] => (*from..=*to).contains(&c) || class_has(rest, c),
        [one, rest @ ..] => *one == c || class_has(rest, c),
        [] => false,
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
