//! What a format holds, as data. A reader holds a value to its shape before it reads it, and the format's JSON Schema
//! is made of the same shape, so that neither can say what the other does not. Pure.

use super::value::{Object, Value};

mod form;
mod schema;
#[cfg(test)]
mod tests;

pub use form::Form;
pub use schema::schema;

/// What a value may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Whatever it is.
    Anything,
    /// `null`
    Null,
    /// A string.
    Text,
    /// A string that is not empty.
    Filled,
    /// A string of a certain form.
    Form(Form),
    /// One of these strings.
    Word(Vec<&'static str>),
    /// This value and no other.
    Exactly(Value),
    /// An integer from the first to the second, both included.
    Between(i64, i64),
    /// An integer that is not negative, or beyond 2^53−1 its decimal digits.
    Count,
    /// `true` or `false`.
    Truth,
    /// An array.
    List(Box<Shape>, Members),
    /// An object with these keys and no others.
    Object(Vec<Field>),
    /// An object with any keys.
    Map(Box<Shape>),
    /// One of these.
    OneOf(Vec<Shape>),
}

/// What the elements of an array are among each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    /// Nothing is said.
    Any,
    /// No two are equal.
    Distinct,
    /// There is one at least.
    Some,
    /// There is one at least, and no two are equal.
    SomeDistinct,
}

impl Members {
    fn are_some(self) -> bool {
        matches!(self, Self::Some | Self::SomeDistinct)
    }

    fn are_distinct(self) -> bool {
        matches!(self, Self::Distinct | Self::SomeDistinct)
    }
}

/// A key of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    key: &'static str,
    presence: Presence,
    about: &'static str,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Always,
    Sometimes,
}

/// A key that is always there.
pub fn always(key: &'static str, shape: Shape, about: &'static str) -> Field {
    Field { key, presence: Presence::Always, about, shape }
}

/// A key that may be missing.
pub fn sometimes(key: &'static str, shape: Shape, about: &'static str) -> Field {
    Field { key, presence: Presence::Sometimes, about, shape }
}

/// A list, about whose elements among each other nothing is said.
pub fn list(of: Shape) -> Shape {
    Shape::List(Box::new(of), Members::Any)
}

/// A list without repetitions.
pub fn set(of: Shape) -> Shape {
    Shape::List(Box::new(of), Members::Distinct)
}

/// An object with any keys, whose values are all of one shape.
pub fn map(of: Shape) -> Shape {
    Shape::Map(Box::new(of))
}

/// The value or `null`.
pub fn or_null(shape: Shape) -> Shape {
    Shape::OneOf(vec![Shape::Null, shape])
}

/// Where a value is not of its shape, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Where, as `observed.effects.fs[3].op`; empty for the value as a whole.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let separator = if self.place.is_empty() { "" } else { ": " };
        write!(f, "{}{separator}{}", self.place, self.problem)
    }
}

impl Mismatch {
    fn here(problem: impl Into<String>) -> Self {
        Self { place: String::new(), problem: problem.into() }
    }

    fn beneath(mut self, key: &str) -> Self {
        let separator = if self.place.is_empty() || self.place.starts_with('[') { "" } else { "." };
        self.place = format!("{key}{separator}{}", self.place);
        self
    }
}

impl Shape {
    /// The shape of an object with these fields added.
    ///
    /// # Panics
    /// When it is not an object's.
    #[must_use]
    pub fn and(mut self, more: impl IntoIterator<Item = Field>) -> Self {
        let Self::Object(fields) = &mut self else { panic!("only an object has fields") };
        fields.extend(more);
        self
    }

    /// Says where a value is not of this shape, if it is not.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        let is_met = match self {
            Self::Anything => true,
            Self::Null => *value == Value::Null,
            Self::Text => value.as_str().is_some(),
            Self::Filled => value.as_str().is_some_and(|text| !text.is_empty()),
            Self::Form(form) => value.as_str().is_some_and(|text| form.has(text)),
            Self::Word(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Self::Exactly(wanted) => value == wanted,
            Self::Between(least, most) => {
                matches!(value, Value::Integer(found) if (*least..=*most).contains(&found.value()))
            }
            Self::Count => match value {
                Value::Integer(found) => found.value() >= 0,
                Value::String(text) => Form::LargeCount.has(text),
                _ => false,
            },
            Self::Truth => value.as_bool().is_some(),
            Self::List(of, members) => return check_list(value, of, *members),
            Self::Object(fields) => return check_object(value, fields),
            Self::Map(of) => {
                let Value::Object(object) = value else { return Err(Mismatch::here("not a mapping")) };
                for (key, value) in object.iter() {
                    of.check(value).map_err(|mismatch| mismatch.beneath(&shown(key)))?;
                }
                true
            }
            Self::OneOf(shapes) => return check_any(value, shapes),
        };
        if is_met { Ok(()) } else { Err(Mismatch::here(format!("not {}", self.name()))) }
    }

    /// What it is, for a person.
    fn name(&self) -> String {
        match self {
            Self::Anything => "anything".into(),
            Self::Null => "null".into(),
            Self::Text => "a string".into(),
            Self::Filled => "a string that is not empty".into(),
            Self::Form(form) => form.name().into(),
            Self::Word(words) => match words.as_slice() {
                [one] => format!("`{one}`"),
                words => format!("one of {}", words.join(", ")),
            },
            Self::Exactly(value) => super::write::to_string(value),
            Self::Between(least, most) => format!("an integer from {least} to {most}"),
            Self::Count => "a count".into(),
            Self::Truth => "true or false".into(),
            Self::List(..) => "a list".into(),
            Self::Object(_) | Self::Map(_) => "a mapping".into(),
            Self::OneOf(shapes) => {
                let names: Vec<String> = shapes.iter().map(Self::name).collect();
                names.join(" or ")
            }
        }
    }
}

fn check_list(value: &Value, of: &Shape, members: Members) -> Result<(), Mismatch> {
    let Value::Array(elements) = value else { return Err(Mismatch::here("not a list")) };
    if members.are_some() && elements.is_empty() {
        return Err(Mismatch::here("empty"));
    }
    for (at, element) in elements.iter().enumerate() {
        of.check(element).map_err(|mismatch| mismatch.beneath(&format!("[{at}]")))?;
    }
    if members.are_distinct() {
        // Lists can be long, so that not each is compared with each.
        let mut texts: Vec<String> = elements.iter().map(super::write::to_string).collect();
        texts.sort_unstable();
        if texts.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Mismatch::here("an element twice"));
        }
    }
    Ok(())
}

fn check_object(value: &Value, fields: &[Field]) -> Result<(), Mismatch> {
    let Value::Object(object) = value else { return Err(Mismatch::here("not a mapping")) };
    for (key, member) in object.iter() {
        let Some(field) = fields.iter().find(|field| field.key == key) else {
            return Err(Mismatch::here("not a key of the format").beneath(&shown(key)));
        };
        field.shape.check(member).map_err(|mismatch| mismatch.beneath(key))?;
    }
    match missing(object, fields) {
        Some(field) => Err(Mismatch::here("missing").beneath(field.key)),
        None => Ok(()),
    }
}

fn missing<'a>(object: &Object, fields: &'a [Field]) -> Option<&'a Field> {
    fields.iter().find(|field| field.presence == Presence::Always && !object.contains(field.key))
}

/// The complaint of the shape that was meant, as far as that can be told: the one whose type the value has.
fn check_any(value: &Value, shapes: &[Shape]) -> Result<(), Mismatch> {
    let mut complaint = None;
    for shape in shapes {
        match shape.check(value) {
            Ok(()) => return Ok(()),
            Err(mismatch) if !mismatch.place.is_empty() => complaint = complaint.or(Some(mismatch)),
            Err(_) => {}
        }
    }
    let names: Vec<String> = shapes.iter().map(Shape::name).collect();
    Err(complaint.unwrap_or_else(|| Mismatch::here(format!("not {}", names.join(" or ")))))
}

/// A key of a stranger's, harmless to print.
fn shown(key: &str) -> String {
    key.escape_debug().to_string()
}
