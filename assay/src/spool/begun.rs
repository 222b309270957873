//! What is noted when a run begins, for who finds it without its writer: `begun.json` <-> [`Begin`]. Pure.

use super::entry::wire::{moment, read_user, strings, user_object};
use super::entry::{User, keep};
use crate::canon::shape::{Form, Shape, always, list};
use crate::canon::value::{Object, Value};
use crate::canon::{read, write};
use crate::evidence::timestamp::Timestamp;

/// The name of the file.
pub const FILE: &str = "begun.json";

/// The version of the file.
pub const SCHEMA: &str = "assay.spool-begun/v1";

/// No such file is longer.
pub const MOST_BYTES: u64 = 1 << 20;

/// A run that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// Whose it is.
    pub user: User,
    /// The words of its command, secrets redacted.
    pub command: Vec<String>,
    /// When it began.
    pub time: Timestamp,
    /// The process that will commit it.
    pub writer: Writer,
}

/// A process, so that another one that has its number later is not taken for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// Its number.
    pub pid: u32,
    /// When it was started, in clock ticks since the host booted.
    pub started: u64,
    /// Which boot that was.
    pub boot: String,
}

impl Begin {
    /// The same with a command that has room in a line.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        keep(&mut self.command, String::len);
        self
    }
}

/// The object of `begun.json`.
pub fn to_object(begin: &Begin) -> Object {
    let writer = &begin.writer;
    Object::from([
        ("schema", SCHEMA.into()),
        ("user", user_object(&begin.user).into()),
        ("command", begin.command.iter().map(|word| word.as_str().into()).collect::<Vec<Value>>().into()),
        ("time", begin.time.to_string().into()),
        (
            "writer",
            Object::from([
                ("pid", Value::count(writer.pid.into())),
                ("started", Value::count(writer.started)),
                ("boot", writer.boot.as_str().into()),
            ])
            .into(),
        ),
    ])
}

/// The bytes of `begun.json`.
pub fn to_json(begin: &Begin) -> String {
    write::to_string(&to_object(begin).into()) + "\n"
}

/// Reads `begun.json`.
pub fn from_json(bytes: &[u8]) -> Option<Begin> {
    let value = read::parse(bytes).ok()?;
    from_object(value.as_object()?)
}

/// Reads its object; whatever is not as the format has it is none.
pub fn from_object(object: &Object) -> Option<Begin> {
    shape().check(&Value::Object(object.clone())).ok()?;
    let writer = object.get("writer")?.as_object()?;
    Some(Begin {
        user: read_user(object)?,
        command: strings(object, "command"),
        time: moment(object, "time").ok()?,
        writer: Writer {
            pid: u32::try_from(writer.get("pid")?.as_count()?).ok()?,
            started: writer.get("started")?.as_count()?,
            boot: writer.str("boot")?.to_owned(),
        },
    })
}

/// What it holds.
pub fn shape() -> Shape {
    let number = Shape::Between(0, i64::from(u32::MAX));
    let user = Shape::Object(vec![
        always("uid", number.clone(), "user id"),
        crate::canon::shape::sometimes("name", Shape::Text, "the user's name, where the host has one"),
    ]);
    let writer = Shape::Object(vec![
        always("pid", number, "its number"),
        always("started", Shape::Count, "when it was started, in clock ticks since the host booted"),
        always("boot", Shape::Text, "which boot that was"),
    ]);
    Shape::Object(vec![
        always("schema", Shape::Word(vec![SCHEMA]), "the version of the file"),
        always("user", user, "whose run it is"),
        always("command", list(Shape::Text), "its words, secrets redacted"),
        always("time", Shape::Form(Form::Moment), "when it began"),
        always("writer", writer, "the process that was to write the record"),
    ])
}
