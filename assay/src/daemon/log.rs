//! What the service has to say, as values: a sentence, how grave it is, and fields for who reads by program. Pure.

/// How grave it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something went wrong.
    Error,
    /// Something to act on.
    Warning,
    /// A fact.
    Note,
    /// A detail.
    Detail,
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// How grave it is.
    pub level: Level,
    /// One line.
    pub text: String,
    /// The same for programs, by names of the journal's form.
    pub fields: Vec<(&'static str, String)>,
}

impl Entry {
    /// An entry without fields.
    pub fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, text: text.into(), fields: Vec::new() }
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }
}

/// Where entries go.
pub trait Log {
    /// Says it. That it could not be said is told nobody.
    fn log(&self, entry: &Entry);

    /// Says a fact without fields.
    fn note(&self, text: &str) {
        self.log(&Entry::new(Level::Note, text));
    }

    /// Says something to act on, without fields.
    fn warning(&self, text: &str) {
        self.log(&Entry::new(Level::Warning, text));
    }
}
