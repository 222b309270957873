use super::*;
use crate::canon::read;

fn shape() -> Shape {
    Shape::Object(vec![
        always("id", Shape::Form(Form::Digest), "the digest"),
        sometimes("kinds", set(Shape::Word(vec!["a", "b"])), ""),
        sometimes("more", list(Shape::Object(vec![always("n", Shape::Between(0, 9), "")])), ""),
        sometimes("counts", map(Shape::Count), ""),
        sometimes(
            "end",
            Shape::OneOf(vec![Shape::Null, Shape::Object(vec![always("code", Shape::Truth, "")])]),
            "",
        ),
    ])
}

fn check(members: &str, expect: &str) {
    let id = format!("sha256:{}", "0".repeat(64));
    let text = format!("{{\"id\":\"{id}\"{members}}}");
    let value = read::parse(text.as_bytes()).unwrap();
    let found = shape().check(&value).err().map(|mismatch| mismatch.to_string());
    assert_eq!(found.as_deref().unwrap_or(""), expect, "{text}");
}

#[test]
fn what_does_not_fit_is_told_by_its_place() {
    check("", "");
    check(r#","kinds":["a","b"]"#, "");
    check(r#","kinds":["a","c"]"#, "kinds[1]: not one of a, b");
    check(r#","kinds":["a","a"]"#, "kinds: an element twice");
    check(r#","kinds":"a""#, "kinds: not a list");
    check(r#","more":[{"n":1},{"n":10}]"#, "more[1].n: not an integer from 0 to 9");
    check(r#","more":[{}]"#, "more[0].n: missing");
    check(r#","more":[{"n":1,"m\u001b":1}]"#, "more[0].m\\u{1b}: not a key of the format");
    check(r#","counts":{"x":18446744073709551615}"#.replace("18446744073709551615", "\"18446744073709551615\"").as_str(), "");
    check(r#","counts":{"x":-1}"#, "counts.x: not a count");
    check(r#","counts":{"x":"7"}"#, "counts.x: not a count");
    check(r#","end":null"#, "");
    check(r#","end":{"code":1}"#, "end.code: not true or false");
    check(r#","end":1"#, "end: not null or a mapping");
    assert_eq!(shape().check(&Value::Null).unwrap_err().to_string(), "not a mapping");
}

#[test]
fn a_form_has_what_its_expression_says() {
    let zeros = "0".repeat(64);
    let rows: [(Form, &[&str], &[&str]); 6] = [
        (Form::Digest, &[&format!("sha256:{zeros}")], &[&zeros, &format!("sha256:{zeros}0"), "sha256:"]),
        (Form::Hex, &[&zeros], &[&zeros[1..], &zeros.replace('0', "A"), &format!("{zeros}0")]),
        (Form::RunId, &["sandbox_0123456789abcdef"], &["sandbox_0123456789abcdeF", "sandbox_", "x"]),
        (Form::Moment, &["2026-01-02T03:04:05Z"], &["2026-01-02T03:04:05", "2026-1-02T03:04:05Z", "Z"]),
        (Form::Share, &["2/13", "0/1"], &["2/", "/2", "2/13/", "1234567890/1", "a/1"]),
        (Form::LargeCount, &["18446744073709551615"], &["7", "0844674407370955161", "184467440737095516150"]),
    ];
    for ((form, good, bad), listed) in rows.into_iter().zip(Form::ALL) {
        assert_eq!(form, listed);
        assert!(good.iter().all(|text| form.has(text)), "{form:?}");
        for text in bad.iter().chain(&[""]) {
            assert!(!form.has(text), "{form:?}: {text}");
        }
        assert!(form.pattern().starts_with('^') && form.pattern().ends_with('$'));
    }
}

#[test]
fn the_schema_says_what_the_shape_says() {
    let text = schema(
        "A thing",
        &Shape::Object(vec![always("id", Shape::Filled, "what"), sometimes("n", Shape::Count, "")]),
    );
    let value = read::parse(text.trim().as_bytes()).unwrap();
    let wanted = r#"{
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A thing", "type": "object",
        "additionalProperties": false, "required": ["id"],
        "properties": {
            "id": {"type": "string", "minLength": 1, "description": "what"},
            "n": {"oneOf": [
                {"type": "integer", "minimum": 0, "maximum": 9007199254740991},
                {"type": "string", "pattern": "^[1-9][0-9]{15,19}$"}
            ]}
        }
    }"#;
    assert_eq!(value, read::parse(wanted.as_bytes()).unwrap(), "{text}");
}
