//! What is written without ever being a [`Value`] as a whole: long lists of small things, one after the other. Pure.

use std::io;

use super::value::{Integer, Object, Value};
use super::write;

/// A string, a count or a truth value that lies elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar<'a> {
    /// A string.
    Text(&'a str),
    /// As [`Value::count`] has it.
    Count(u64),
    /// `true`, `false`
    Bool(bool),
}

impl Scalar<'_> {
    /// The same as a value.
    pub fn to_value(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Count(count) => Value::count(count),
            Self::Bool(value) => value.into(),
        }
    }

    /// Appends the canonical text.
    pub fn append(self, out: &mut String) {
        match self {
            Self::Text(text) => write::append_string(text, out),
            Self::Count(count) => match i64::try_from(count).ok().and_then(Integer::new) {
                Some(_) => append_digits(count, out),
                None => write::append(&Value::count(count), out),
            },
            Self::Bool(value) => out.push_str(if value { "true" } else { "false" }),
        }
    }
}

fn append_digits(mut number: u64, out: &mut String) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.push_str(std::str::from_utf8(&digits[at..]).expect("digits are ASCII"));
}

/// The most members of a [`Flat`].
const MOST: usize = 12;

/// An object of a few scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flat<'a> {
    members: [(&'static str, Scalar<'a>); MOST],
    len: usize,
}

impl Default for Flat<'_> {
    fn default() -> Self {
        Self { members: [("", Scalar::Bool(false)); MOST], len: 0 }
    }
}

impl<'a> Flat<'a> {
    /// Adds a member, whose key the object does not have. Keys are ASCII.
    pub fn set(&mut self, key: &'static str, value: Scalar<'a>) {
        let at = self.members[..self.len].partition_point(|(known, _)| *known < key);
        self.members.copy_within(at..self.len, at + 1);
        self.members[at] = (key, value);
        self.len += 1;
    }

    /// Adds a member that is a string.
    pub fn text(&mut self, key: &'static str, text: &'a str) {
        self.set(key, Scalar::Text(text));
    }

    /// Adds a member unless there is none.
    pub fn text_if(&mut self, key: &'static str, text: Option<&'a str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    /// The members in canonical order.
    pub fn members(&self) -> &[(&'static str, Scalar<'a>)] {
        &self.members[..self.len]
    }

    /// The same as an object.
    pub fn to_object(&self) -> Object {
        let mut object = Object::new();
        for (key, value) in self.members() {
            object.set(key, value.to_value());
        }
        object
    }

    /// Appends the canonical text.
    pub fn append(&self, out: &mut String) {
        for (at, (key, value)) in self.members().iter().enumerate() {
            out.push(if at == 0 { '{' } else { ',' });
            out.push('"');
            out.push_str(key);
            out.push_str("\":");
            value.append(out);
        }
        out.push_str(if self.len == 0 { "{}" } else { "}" });
    }
}

/// A value, or something longer that is made while it is written.
pub enum Node<'a> {
    /// A value.
    Value(Value),
    /// A list of objects.
    List(Box<dyn Iterator<Item = Item<'a>> + 'a>),
    /// An object with members of which one at least is no scalar, in canonical order.
    Map(Vec<(String, Node<'a>)>),
}

impl Node<'_> {
    /// An object with these members too, all in canonical order. Keys are ASCII.
    pub fn with(object: Object, nodes: Vec<(&'static str, Self)>) -> Self {
        let mut members: Vec<(String, Self)> =
            object.into_members().map(|(key, value)| (key, Self::Value(value))).collect();
        members.extend(nodes.into_iter().map(|(key, node)| (key.to_owned(), node)));
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self::Map(members)
    }
}

/// One of a list.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, and a box for each is what it is there to save"
)]
pub enum Item<'a> {
    /// An object of a few scalars.
    Flat(Flat<'a>),
    /// Any object.
    Object(Object),
}

/// Text on its way out, in portions.
pub struct Portions<'a> {
    /// What comes next.
    pub text: String,
    out: &'a mut dyn io::Write,
}

/// How much is written at once.
const PORTION: usize = 1 << 16;

impl<'a> Portions<'a> {
    /// Nothing yet.
    pub fn new(out: &'a mut dyn io::Write) -> Self {
        Self { text: String::with_capacity(PORTION * 2), out }
    }

    /// Writes it out where it has become long.
    pub fn pass(&mut self) -> io::Result<()> {
        if self.text.len() < PORTION { Ok(()) } else { self.end() }
    }

    /// Writes all of it out.
    pub fn end(&mut self) -> io::Result<()> {
        self.out.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_object_is_written_as_its_value_is() {
        let mut flat = Flat::default();
        assert_eq!(flat.to_object(), Object::new());
        let check = |flat: &Flat| {
            let mut text = String::new();
            flat.append(&mut text);
            assert_eq!(text, write::to_string(&flat.to_object().into()));
        };
        check(&flat);
        flat.text("b", "x\n\"y");
        flat.set("c", Scalar::Count(0));
        flat.set("a", Scalar::Bool(true));
        flat.set("ab", Scalar::Count((1 << 53) - 1));
        flat.set("z", Scalar::Count(1 << 53));
        check(&flat);
    }
}
