//! A JSON value that cannot hold what canonical JSON must not: no float, no integer beyond ±(2^53−1), no
//! duplicate key. Pure.

use std::cmp::Ordering;

/// The largest integer every JSON reader keeps exactly: 2^53−1.
pub const MAX_INTEGER: i64 = (1 << 53) - 1;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// An integer within ±(2^53−1).
    Integer(Integer),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object.
    Object(Object),
}

/// An integer within ±(2^53−1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Integer(i64);

impl Integer {
    /// The integer, or `None` when it is out of range.
    pub fn new(value: i64) -> Option<Self> {
        (-MAX_INTEGER..=MAX_INTEGER).contains(&value).then_some(Self(value))
    }

    /// Its value.
    pub fn value(self) -> i64 {
        self.0
    }
}

impl Value {
    /// A count: an integer, or beyond 2^53−1 its decimal digits as a string, so that no reader rounds it.
    pub fn count(count: u64) -> Self {
        match i64::try_from(count).ok().and_then(Integer::new) {
            Some(integer) => Self::Integer(integer),
            None => Self::String(count.to_string()),
        }
    }

    /// The string, when it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, when it is one and not negative; also reads what [`Value::count`] wrote.
    pub fn as_count(&self) -> Option<u64> {
        match self {
            Self::Integer(integer) => u64::try_from(integer.0).ok(),
            Self::String(text) => {
                let count: u64 = text.parse().ok()?;
                (count > MAX_INTEGER as u64 && count.to_string() == *text).then_some(count)
            }
            _ => None,
        }
    }

    /// The truth value, when it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The object, when it is one.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The elements, when it is an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u16> for Value {
    fn from(value: u16) -> Self {
        Self::Integer(Integer(value.into()))
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl From<Vec<Value>> for Value {
    fn from(elements: Vec<Value>) -> Self {
        Self::Array(elements)
    }
}

/// An object: its members are always in canonical order and no key occurs twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Object(Vec<(String, Value)>);

impl Object {
    /// An empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a member, replacing what the key had.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        match self.place(key) {
            Ok(at) => self.0[at].1 = value.into(),
            Err(at) => self.0.insert(at, (key.to_owned(), value.into())),
        }
    }

    /// Sets a member unless the value is `None`.
    pub fn set_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }

    /// An object of these members, in whatever order they came; or the first that has a key for the second time, by
    /// its place and its key.
    pub fn from_members(members: Vec<(String, Value)>) -> Result<Self, (usize, String)> {
        let is_in_order = members.windows(2).all(|pair| key_order(&pair[0].0, &pair[1].0) == Ordering::Less);
        if is_in_order {
            return Ok(Self(members));
        }
        let mut numbered: Vec<(usize, (String, Value))> = members.into_iter().enumerate().collect();
        // Stable: of two equal keys the second stays behind the first.
        numbered.sort_by(|(_, (a, _)), (_, (b, _))| key_order(a, b));
        let second =
            numbered.windows(2).filter(|pair| pair[0].1.0 == pair[1].1.0).map(|pair| pair[1].0).min();
        match second {
            Some(place) => {
                let key = numbered.into_iter().find(|(at, _)| *at == place).map(|(_, (key, _))| key);
                Err((place, key.unwrap_or_default()))
            }
            None => Ok(Self(numbered.into_iter().map(|(_, member)| member).collect())),
        }
    }

    /// An object of members that are in order, no key twice.
    pub(super) fn from_ordered(members: Vec<(String, Value)>) -> Self {
        debug_assert!(members.windows(2).all(|pair| key_order(&pair[0].0, &pair[1].0) == Ordering::Less));
        Self(members)
    }

    /// The members as they lie here.
    pub(super) fn into_vec(self) -> Vec<(String, Value)> {
        self.0
    }

    /// Adds a member; false, and nothing changed, when the key is there already. For objects of a few members; of many
    /// in disorder, [`Self::from_members`] makes one faster.
    pub fn insert(&mut self, key: String, value: Value) -> bool {
        match self.place(&key) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, (key, value));
                true
            }
        }
    }

    /// Whether the key is there.
    pub fn contains(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// The member of this key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.find(key).map(|at| &self.0[at].1)
    }

    /// The member of this key, when it is a string.
    pub fn str(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// Takes the member of this key out.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.find(key).map(|at| self.0.remove(at).1)
    }

    /// The members in canonical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The members in canonical order, taken out.
    pub fn into_members(self) -> impl Iterator<Item = (String, Value)> {
        self.0.into_iter()
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Of a few members, each is looked at: whether two texts are equal is mostly told by their lengths, which one comes
    /// first is not.
    fn find(&self, key: &str) -> Option<usize> {
        const FEW: usize = 32;
        if self.0.len() <= FEW {
            return self.0.iter().position(|(at, _)| at == key);
        }
        self.place(key).ok()
    }

    fn place(&self, key: &str) -> Result<usize, usize> {
        // Keys mostly come in order, from our own writer and from canonical bytes alike.
        match self.0.last() {
            None => Err(0),
            Some((last, _)) => match key_order(last, key) {
                Ordering::Less => Err(self.0.len()),
                Ordering::Equal => Ok(self.0.len() - 1),
                Ordering::Greater => self.0.binary_search_by(|(at, _)| key_order(at, key)),
            },
        }
    }
}

impl<const N: usize> From<[(&str, Value); N]> for Object {
    fn from(members: [(&str, Value); N]) -> Self {
        let mut object = Self::new();
        for (key, value) in members {
            object.set(key, value);
        }
        object
    }
}

/// RFC 8785, 3.2.3: keys are ordered by their UTF-16 code units. That differs from the order of UTF-8 bytes only
/// where a surrogate pair meets U+E000 to U+FFFF.
pub(super) fn key_order(a: &str, b: &str) -> Ordering {
    // Up to the first byte that differs they are the same text; there, ASCII in either settles it.
    let (x, y) = (a.as_bytes(), b.as_bytes());
    match x.iter().zip(y).position(|(x, y)| x != y) {
        None => x.len().cmp(&y.len()),
        Some(at) if x[at].is_ascii() || y[at].is_ascii() => x[at].cmp(&y[at]),
        Some(_) => a.encode_utf16().cmp(b.encode_utf16()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_outside_the_exact_range_is_a_string() {
        assert_eq!(Integer::new(MAX_INTEGER + 1), None);
        assert_eq!(Value::count(MAX_INTEGER as u64).as_count(), Some(MAX_INTEGER as u64));
        assert_eq!(Value::count(u64::MAX), Value::String("18446744073709551615".into()));
        assert_eq!(Value::count(u64::MAX).as_count(), Some(u64::MAX));
        assert_eq!(Value::from("7").as_count(), None, "a small count is never a string");
    }

    #[test]
    fn keys_are_compared_as_utf_16() {
        let keys = [
            "",
            "a",
            "ab",
            "b",
            "\u{7f}",
            "\u{80}",
            "\u{d7ff}",
            "\u{e000}",
            "\u{ffff}",
            "\u{10000}",
            "a\u{fb33}",
            "a\u{1f600}",
        ];
        for a in keys {
            for b in keys {
                assert_eq!(key_order(a, b), a.encode_utf16().cmp(b.encode_utf16()), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn members_are_in_utf_16_order_however_they_came() {
        let keys = ["\u{fb33}", "\u{1f600}", "\u{20ac}", "\r", "1", "\u{80}", "\u{f6}"];
        let members =
            |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), Value::Null)).collect::<Vec<_>>();
        let mut object = Object::from_members(members(&keys)).unwrap();
        let keys: Vec<_> = object.iter().map(|(key, _)| key).collect();
        // The order RFC 8785 gives in its own example.
        assert_eq!(keys, ["\r", "1", "\u{80}", "\u{f6}", "\u{20ac}", "\u{1f600}", "\u{fb33}"]);
        let again = Object::from_members(members(&["b", "a", "c", "a", "b"]));
        assert_eq!(again, Err((3, "a".to_owned())), "a second key is refused");
        assert_eq!(object.remove("1"), Some(Value::Null));
        assert_eq!(object.len(), 6);
    }

    #[test]
    fn a_member_is_found_among_few_and_among_many() {
        for count in [0, 1, 5, 31, 32, 33, 34, 100] {
            let mut object = Object::new();
            for n in 0..count {
                object.set(&format!("{n:03}"), Value::count(n));
            }
            for n in 0..count {
                assert_eq!(object.get(&format!("{n:03}")), Some(&Value::count(n)));
            }
            assert!(!object.contains("0000") && !object.contains(&format!("{count:03}")));
        }
    }
}
