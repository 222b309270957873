//! A shape → JSON Schema (draft 2020-12). Pure.

use super::{Field, Members, Presence, Shape};
use crate::canon::indented;
use crate::canon::value::{MAX_INTEGER, Object, Value};

/// The schema of a format, as the file that stands in `docs/formats/schema`.
pub fn schema(title: &str, shape: &Shape) -> String {
    let mut object = of(shape);
    object.set("$schema", "https://json-schema.org/draft/2020-12/schema");
    object.set("title", title);
    indented::write(&object.iter().collect::<Vec<_>>())
}

fn of(shape: &Shape) -> Object {
    let kind = |name: &str| Object::from([("type", name.into())]);
    match shape {
        Shape::Anything => Object::new(),
        Shape::Null => kind("null"),
        Shape::Text => kind("string"),
        Shape::Filled => {
            let mut object = kind("string");
            object.set("minLength", 1_u16);
            object
        }
        Shape::Form(form) => {
            let mut object = kind("string");
            object.set("pattern", form.pattern());
            object
        }
        Shape::Word(words) => {
            Object::from([("enum", Value::Array(words.iter().map(|word| (*word).into()).collect()))])
        }
        Shape::Exactly(value) => Object::from([("enum", Value::Array(vec![value.clone()]))]),
        Shape::Between(least, most) => {
            let mut object = kind("integer");
            for (key, bound) in [("minimum", *least), ("maximum", *most)] {
                object.set(key, integer(bound));
            }
            object
        }
        Shape::Count => {
            of(&Shape::OneOf(vec![Shape::Between(0, MAX_INTEGER), Shape::Form(super::Form::LargeCount)]))
        }
        Shape::Truth => kind("boolean"),
        Shape::List(element, members) => list(element, *members),
        Shape::Object(fields) => fields_of(fields),
        Shape::Map(element) => {
            let mut object = kind("object");
            object.set("additionalProperties", of(element));
            object
        }
        Shape::OneOf(shapes) => {
            Object::from([("oneOf", Value::Array(shapes.iter().map(|one| of(one).into()).collect()))])
        }
    }
}

fn integer(number: i64) -> Value {
    Value::Integer(crate::canon::value::Integer::new(number).expect("bounds are within what JSON keeps"))
}

fn list(element: &Shape, members: Members) -> Object {
    let mut object = Object::from([("type", "array".into()), ("items", of(element).into())]);
    if members.are_some() {
        object.set("minItems", 1_u16);
    }
    if members.are_distinct() {
        object.set("uniqueItems", true);
    }
    object
}

fn fields_of(fields: &[Field]) -> Object {
    let mut properties = Object::new();
    for field in fields {
        let mut property = of(&field.shape);
        if !field.about.is_empty() {
            property.set("description", field.about);
        }
        properties.set(field.key, property);
    }
    let always = fields.iter().filter(|field| field.presence == Presence::Always);
    let required: Vec<Value> = always.map(|field| field.key.into()).collect();
    Object::from([
        ("type", "object".into()),
        ("additionalProperties", false.into()),
        ("properties", properties.into()),
        ("required", required.into()),
    ])
}
