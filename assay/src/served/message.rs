//! What the two ends of a served run say to each other.

use serde::{Deserialize, Serialize};

use super::ask::AskHeader;
use super::wire::{Frame, WireError};
use crate::enforce::status::Degradation;
use crate::sandbox::assemble::Tally;
use crate::sandbox::outcome::{ChildEnd, Ending};

/// From the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum ToWorker {
    /// What is wanted. First of all, and once.
    Ask(Box<AskHeader>),
    /// The launcher is there. Descriptors: the line to it, its pidfd.
    Launched {},
    /// It could not be started.
    NotLaunched {
        /// Why.
        why: String,
    },
    /// The client's child has ended: the launcher, or what it became.
    Ended {
        /// How.
        end: ChildEnd,
    },
}

/// To the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum ToClient {
    /// There will be no run: a sentence each.
    Refused {
        /// Why.
        reasons: Vec<String>,
    },
    /// To be told at once.
    Notice {
        /// How it is told.
        level: Level,
        /// One fact.
        text: String,
    },
    /// Start the launcher.
    Launch {
        /// In namespaces of its own, if it can.
        wants_namespace: bool,
        /// Name of the run's group, by which its members are known.
        group: String,
    },
    /// The run is over. Descriptors: the artifacts, in their order.
    Over(Box<Over>),
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Over {
    /// What is to be decided on; what the client cannot write comes besides.
    pub ending: Ending,
    /// The run in a few numbers.
    pub tally: Option<Tally>,
    /// What was asked of the sandbox and not kept.
    pub degradations: Vec<Degradation>,
    /// What was made, by name; each comes as an open file.
    pub artifacts: Vec<String>,
    /// What was written through a file that the client gave: its name, the digest of its bytes.
    pub streamed: Vec<(String, String)>,
    /// Where the record was kept: the number of its entry, and the entry's digest.
    pub kept: Option<(u64, String)>,
}

/// How a notice is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Something went wrong.
    Error,
    /// A complaint with its own place.
    Problem,
    /// Something to act on.
    Warning,
    /// What to do about the line before.
    Hint,
    /// A fact.
    Note,
    /// A fact for who asks for more.
    Detail,
}

/// Longer sentences are cut: one is a line for a person.
const MAX_TEXT: usize = 16 << 10;

/// A sentence from the other end.
pub fn sentence(text: &str) -> &str {
    let end = (0..=MAX_TEXT.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The header of a message.
pub fn write<T: Serialize>(message: &T) -> Result<Vec<u8>, WireError> {
    Ok(serde_json::to_vec(message)?)
}

/// Reads the header of a frame.
pub fn read<T: for<'a> Deserialize<'a>>(frame: &Frame) -> Result<T, WireError> {
    Ok(serde_json::from_slice(&frame.header)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(header: &str) -> Frame {
        Frame { header: header.into(), ..Frame::default() }
    }

    #[test]
    fn only_what_is_known_is_read() {
        let ended: ToWorker = read(&frame(r#"{"kind":"ended","end":{"exited":3}}"#)).unwrap();
        assert_eq!(ended, ToWorker::Ended { end: ChildEnd::Exited(3) });
        for wrong in [
            "",
            "{}",
            r#"{"kind":"ended"}"#,
            r#"{"kind":"ended","end":{"exited":300}}"#,
            r#"{"kind":"ended","end":{"exited":3},"more":1}"#,
            r#"{"kind":"root-shell"}"#,
            r#"{"kind":"launched"} x"#,
        ] {
            assert!(read::<ToWorker>(&frame(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_sentence_is_cut_between_characters() {
        let long = "é".repeat(MAX_TEXT);
        assert_eq!(sentence(&long).len(), MAX_TEXT);
        assert_eq!(sentence(&format!("x{long}")).len(), MAX_TEXT - 1);
        assert_eq!(sentence("short"), "short");
    }
}
