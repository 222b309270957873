//! Forms of strings, each told twice: as a test, and as the regular expression that JSON Schema wants. Pure.

/// The form of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `sha256:` and 64 lower-case hex digits.
    Digest,
    /// 64 lower-case hex digits.
    Hex,
    /// `sandbox_` and 16 lower-case hex digits.
    RunId,
    /// A moment in UTC to the second, as RFC 3339 has it.
    Moment,
    /// How many of how many: `2/3`.
    Share,
    /// A count beyond 2^53−1 in decimal digits.
    LargeCount,
}

/// What stands at one place of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// These characters, one after the other.
    Literal(&'static str),
    /// From so many to so many decimal digits.
    Digits(usize, usize),
    /// So many lower-case hex digits.
    HexDigits(usize),
    /// A decimal digit that is not zero.
    NotZero,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 6] =
        [Self::Digest, Self::Hex, Self::RunId, Self::Moment, Self::Share, Self::LargeCount];

    fn parts(self) -> &'static [Part] {
        use Part::{Digits, HexDigits, Literal, NotZero};
        match self {
            Self::Digest => &[Literal("sha256:"), HexDigits(64)],
            Self::Hex => &[HexDigits(64)],
            Self::RunId => &[Literal("sandbox_"), HexDigits(16)],
            Self::Moment => &[
                Digits(4, 4),
                Literal("-"),
                Digits(2, 2),
                Literal("-"),
                Digits(2, 2),
                Literal("T"),
                Digits(2, 2),
                Literal(":"),
                Digits(2, 2),
                Literal(":"),
                Digits(2, 2),
                Literal("Z"),
            ],
            Self::Share => &[Digits(1, 9), Literal("/"), Digits(1, 9)],
            Self::LargeCount => &[NotZero, Digits(15, 19)],
        }
    }

    /// Whether a text has it.
    pub fn has(self, text: &str) -> bool {
        let mut rest = text;
        for part in self.parts() {
            // No part can begin with what the one before may still take, so that taking all of it is right.
            let length = match part {
                Part::Literal(literal) => {
                    if !rest.starts_with(literal) {
                        return false;
                    }
                    literal.len()
                }
                Part::Digits(least, most) => match run(rest, |c| c.is_ascii_digit()).min(*most) {
                    length if length < *least => return false,
                    length => length,
                },
                Part::HexDigits(count) => {
                    let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
                    if run(rest, is_hex) < *count {
                        return false;
                    }
                    *count
                }
                Part::NotZero => {
                    if !rest.starts_with(|c| matches!(c, '1'..='9')) {
                        return false;
                    }
                    1
                }
            };
            rest = &rest[length..];
        }
        rest.is_empty()
    }

    /// As a regular expression.
    pub fn pattern(self) -> String {
        let parts = self.parts().iter().map(|part| match part {
            Part::Literal(literal) => (*literal).to_owned(),
            Part::Digits(least, most) if least == most => format!("[0-9]{{{least}}}"),
            Part::Digits(least, most) => format!("[0-9]{{{least},{most}}}"),
            Part::HexDigits(count) => format!("[0-9a-f]{{{count}}}"),
            Part::NotZero => "[1-9]".to_owned(),
        });
        format!("^{}$", parts.collect::<String>())
    }

    /// What it is, for a person.
    pub fn name(self) -> &'static str {
        match self {
            Self::Digest => "a digest",
            Self::Hex => "64 lower-case hex digits",
            Self::RunId => "a run id",
            Self::Moment => "a moment in UTC",
            Self::Share => "how many of how many",
            Self::LargeCount => "a large count",
        }
    }
}

/// How many characters from the start are so; they are ASCII.
fn run(text: &str, is_so: impl Fn(char) -> bool) -> usize {
    text.chars().take_while(|c| is_so(*c)).count()
}
