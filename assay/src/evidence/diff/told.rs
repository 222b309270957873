//! One event's data, as small as it can be kept: a difference may be as large as the bundles. Pure.

use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Range;

use super::{Aspect, Kind};
use crate::canon::read;
use crate::canon::value::{Object, Value};
use crate::canon::write;

/// A part of [`Told::text`]. A line of a bundle is far shorter than what these numbers hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Span {
    from: u32,
    to: u32,
}

impl Span {
    fn new(range: Range<usize>) -> Self {
        let number = |at: usize| u32::try_from(at).expect("a line is shorter than 4 GiB");
        Self { from: number(range.start), to: number(range.end) }
    }

    fn range(self) -> Range<usize> {
        self.from as usize..self.to as usize
    }
}

/// What one bundle says in one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The canonical JSON of `data`, then whatever of operation and subject does not stand in it.
    text: Box<str>,
    data: u32,
    op: Span,
    subject: Span,
    /// The members of these keys, with the comma that belongs to them.
    op_member: Span,
    result_member: Span,
    digest_member: Span,
}

impl Told {
    /// Keeps `data`, with the operation and the name it is told by.
    pub fn new(data: &Value, op: &str, subject: &str) -> Self {
        let mut text = String::new();
        let (mut op_at, mut subject_at) = (None, None);
        let mut members = [Span::default(); 3];
        if let Value::Object(object) = data {
            text.push('{');
            for (at, (key, value)) in object.iter().enumerate() {
                let start = text.len();
                if at > 0 {
                    text.push(',');
                }
                write::append_string(key, &mut text);
                text.push(':');
                let value_at = text.len() + 1;
                write::append(value, &mut text);
                if let Some(place) = ["op", "result", "sha256"].iter().position(|name| *name == key) {
                    members[place] = Span::new(start..text.len());
                }
                // Between its quotes, unless something had to be escaped.
                let stands_there = |word: &str| text.get(value_at..value_at + word.len()) == Some(word);
                if key == "op" && value.as_str() == Some(op) && stands_there(op) {
                    op_at = Some(Span::new(value_at..value_at + op.len()));
                }
                if key == "path" && value.as_str() == Some(subject) && stands_there(subject) {
                    subject_at = Some(Span::new(value_at..value_at + subject.len()));
                }
            }
            text.push('}');
        } else {
            write::append(data, &mut text);
        }
        let data = Span::new(0..text.len()).to;
        let mut append = |word: &str| {
            let start = text.len();
            text.push_str(word);
            Span::new(start..text.len())
        };
        let op = op_at.unwrap_or_else(|| append(op));
        let subject = subject_at.unwrap_or_else(|| append(subject));
        let [op_member, result_member, digest_member] = members;
        Self { text: text.into_boxed_str(), data, op, subject, op_member, result_member, digest_member }
    }

    /// The operation; empty where there is none.
    pub fn op(&self) -> &str {
        &self.text[self.op.range()]
    }

    /// The name, endpoint or component.
    pub fn subject(&self) -> &str {
        &self.text[self.subject.range()]
    }

    /// The canonical JSON of `data`.
    pub fn json(&self) -> &str {
        &self.text[..self.data as usize]
    }

    /// `data` itself.
    pub fn data(&self) -> Value {
        read::parse(self.json().as_bytes()).expect("it was written from a value")
    }

    /// `data`, when it is an object.
    pub fn object(&self) -> Object {
        match self.data() {
            Value::Object(object) => object,
            _ => Object::new(),
        }
    }

    /// What two halves of one change have in common, in pieces; `None` when the aspect does not apply.
    pub(super) fn common(&self, kind: Kind, aspect: Aspect) -> Option<impl Iterator<Item = &str> + Clone> {
        let (cut, is_there) = match (aspect, kind) {
            (Aspect::Digest, Kind::Exec) => ([self.digest_member, Span::default()], true),
            (Aspect::Result, Kind::Fs | Kind::Exec | Kind::Net) => {
                ([self.result_member, self.digest_member], self.result_member != Span::default())
            }
            (Aspect::Operation, Kind::Fs) => {
                ([self.op_member, Span::default()], self.op_member != Span::default())
            }
            _ => return None,
        };
        // Keys are in order, so `result` stands before `sha256`.
        let [first, second] = cut.map(Span::range);
        let json = self.json();
        let (middle, rest) = if second.is_empty() {
            (first.end..first.end, first.end)
        } else {
            (first.end..second.start, second.end)
        };
        let pieces = [&json[..first.start], &json[middle], &json[rest..]];
        is_there.then(|| pieces.into_iter())
    }

    /// A number that is the same for the same pieces, and hardly ever otherwise.
    pub(super) fn common_hash(&self, kind: Kind, aspect: Aspect) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        self.common(kind, aspect)?.for_each(|piece| hasher.write(piece.as_bytes()));
        Some(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(json: &str, op: &str, subject: &str) -> Told {
        Told::new(&read::parse(json.as_bytes()).unwrap(), op, subject)
    }

    #[test]
    fn words_come_back_whether_they_stand_in_the_data_or_not() {
        for (json, op, subject) in [
            (r#"{"op":"read","path":"/x","result":"ok"}"#, "read", "/x"),
            (r#"{"op":"read","path":"/\\x5c\"","result":"ok"}"#, "read", "/\\x5c\""),
            (r#"{"address":"::1","op":"connect","port":1}"#, "connect", "[::1]:1"),
            (r#"{"op":["read"],"path":{"read":"/x"}}"#, "", "/x"),
            ("null", "a.type", "\u{1f980}"),
            ("[]", "", ""),
        ] {
            let told = told(json, op, subject);
            assert_eq!((told.op(), told.subject(), told.json()), (op, subject, json));
            assert_eq!(told.data(), read::parse(json.as_bytes()).unwrap());
        }
    }

    #[test]
    fn halves_have_in_common_what_the_aspect_leaves() {
        let common = |json: &str, kind, aspect| {
            told(json, "", "").common(kind, aspect).map(Iterator::collect::<String>)
        };
        let exec = r#"{"path":"/x","result":"ok","sha256":"sha256:00"}"#;
        assert_eq!(common(exec, Kind::Exec, Aspect::Digest).unwrap(), r#"{"path":"/x","result":"ok"}"#);
        assert_eq!(common(exec, Kind::Exec, Aspect::Result).unwrap(), r#"{"path":"/x"}"#);
        assert_eq!(common(exec, Kind::Exec, Aspect::Operation), None);
        assert_eq!(common(r#"{"path":"/x"}"#, Kind::Exec, Aspect::Digest).unwrap(), r#"{"path":"/x"}"#);
        assert_eq!(common(r#"{"path":"/x"}"#, Kind::Exec, Aspect::Result), None);
        let file = r#"{"op":"read","path":"\"op\":\"read\"","result":"ok"}"#;
        let file = file.replace("\"\\\"op\\\":\\\"read\\\"\"", r#""/\"op\"""#);
        let read = common(&file, Kind::Fs, Aspect::Operation).unwrap();
        assert_eq!(read, common(&file.replace("read", "write"), Kind::Fs, Aspect::Operation).unwrap());
        assert_ne!(read, common(&file.replace("ok", "denied"), Kind::Fs, Aspect::Operation).unwrap());
        assert_eq!(common("[]", Kind::Fs, Aspect::Operation), None);
        assert_eq!(common(&file, Kind::Other, Aspect::Operation), None);
    }
}
