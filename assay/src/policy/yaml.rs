//! YAML text → a tree of nodes that know their place; every problem of the text itself. Pure.
//!
//! Stricter than YAML: one document, no anchors, aliases, tags or directives, no duplicate keys, bounded in size,
//! depth and number of nodes. What is refused is refused with its position.

use serde_saphyr::granit_parser::{Event, Options, Parser, ScalarStyle, Span};

use super::problem::{Place, Problem};

/// The largest policy file.
pub const MAX_BYTES: usize = 1 << 20;
/// The deepest nesting.
const MAX_DEPTH: usize = 16;
/// The most nodes in one file.
const MAX_NODES: usize = 100_000;

/// The keys that a policy has somewhere, but for the names of rules of `lint`.
const KEYS: [&str; 13] = [
    "api_version",
    "base",
    "extends",
    "fs",
    "net",
    "exec",
    "env",
    "lint",
    "notes",
    "allow",
    "deny",
    "path",
    "access",
];

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Line and column, from 1.
    pub at: (usize, usize),
    /// What it is.
    pub value: Value,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A string, quoted or plain.
    String(String),
    /// A plain scalar that YAML takes for something else: null, a boolean, a number. The text and its kind.
    Other(String, &'static str),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Line and column, from 1.
    pub at: (usize, usize),
    /// The key.
    pub name: String,
}

impl Value {
    /// What to call it in a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Other(_, kind) => kind,
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// Reads the one document of `bytes`; problems go to `problems`, positions under the name `file`.
pub fn read(file: &str, bytes: &[u8], problems: &mut Vec<Problem>) -> Option<Node> {
    let mut complain = |at: (usize, usize), message: String, hint: Option<&str>| {
        problems.push(Problem {
            place: Place { file: file.into(), line: at.0, column: at.1 },
            message,
            hint: hint.map(Into::into),
        });
    };
    if bytes.len() > MAX_BYTES {
        complain(
            (1, 1),
            format!("the file has {} bytes, the limit is {MAX_BYTES}", bytes.len()),
            Some(SMALLER),
        );
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let line = good.matches('\n').count() + 1;
            let column = good.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
            complain(
                (line, column),
                "the file is not UTF-8".into(),
                Some(r"write a byte of a name that is not UTF-8 as \xNN"),
            );
            return None;
        }
    };
    let mut builder =
        Builder { complain: &mut complain, stack: Vec::new(), root: None, nodes: 0, documents: 0 };
    let mut options = Options::default();
    options.disallow_directives = true;
    for next in Parser::new_from_str_with_options(text, options) {
        match next {
            Ok((event, span)) => {
                if !builder.take(event, &span) {
                    return None;
                }
            }
            Err(error) => {
                let mark = error.marker();
                complain((mark.line(), mark.col() + 1), format!("not YAML: {}", error.info()), Some(YAML));
                return None;
            }
        }
    }
    let root = builder.root.take();
    if root.is_none() {
        complain((1, 1), "the file is empty".into(), Some("begin with `api_version: assay/v1`"));
    }
    root
}

const SMALLER: &str = "name directories or patterns instead of each file";
const YAML: &str = "indent by spaces, close what is opened, and put text with `:`, `*` or `{` in quotes";

/// A list or mapping that is being filled.
enum Open {
    List((usize, usize), Vec<Node>),
    Map((usize, usize), Vec<(Key, Node)>, Option<Key>),
}

/// Takes the place, the complaint and what to do about it.
type Complain<'a> = dyn FnMut((usize, usize), String, Option<&str>) + 'a;

struct Builder<'a> {
    complain: &'a mut Complain<'a>,
    stack: Vec<Open>,
    root: Option<Node>,
    nodes: usize,
    documents: usize,
}

impl Builder<'_> {
    /// Takes one event; false when reading on makes no sense.
    fn take(&mut self, event: Event<'_>, span: &Span) -> bool {
        let at = (span.start.line(), span.start.col() + 1);
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            (self.complain)(at, format!("the file has more than {MAX_NODES} nodes"), Some(SMALLER));
            return false;
        }
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    (self.complain)(at, "a second document".into(), Some("a policy is one document"));
                    return false;
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                if !self.is_plain_node(at, anchor, tag.is_some()) {
                    return false;
                }
                // Of a value that is left out the parser makes a `~`, which in a list of paths is the home.
                let is_left_out = style == ScalarStyle::Plain && span.start == span.end;
                let text = if is_left_out { String::new() } else { text.into_owned() };
                let value = scalar(text, style);
                return self.add(Node { at, value });
            }
            Event::SequenceStart(_, anchor, tag) => {
                return self.is_plain_node(at, anchor, tag.is_some())
                    && self.open(Open::List(at, Vec::new()), at);
            }
            Event::MappingStart(_, anchor, tag) => {
                return self.is_plain_node(at, anchor, tag.is_some())
                    && self.open(Open::Map(at, Vec::new(), None), at);
            }
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(Open::List(at, items)) => return self.add(Node { at, value: Value::List(items) }),
                Some(Open::Map(at, entries, _)) => return self.add(Node { at, value: Value::Map(entries) }),
                None => {}
            },
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                (self.complain)(at, "an alias".into(), Some("write the value out; a policy has no aliases"));
                return false;
            }
            _ => {}
        }
        true
    }

    fn is_plain_node(&mut self, at: (usize, usize), anchor: usize, has_tag: bool) -> bool {
        if anchor != 0 {
            (self.complain)(at, "an anchor".into(), Some("write the value out; a policy has no anchors"));
        }
        if has_tag {
            (self.complain)(at, "a tag".into(), Some("remove it; a policy has no tags"));
        }
        anchor == 0 && !has_tag
    }

    fn open(&mut self, open: Open, at: (usize, usize)) -> bool {
        if self.stack.len() >= MAX_DEPTH {
            (self.complain)(
                at,
                format!("nested more than {MAX_DEPTH} deep"),
                Some("a policy needs no more than four levels"),
            );
            return false;
        }
        if let Some(Open::Map(_, _, None)) = self.stack.last() {
            (self.complain)(at, "a list or mapping as a key".into(), Some("a key is a word"));
            return false;
        }
        self.stack.push(open);
        true
    }

    fn add(&mut self, node: Node) -> bool {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, entries, key)) => {
                if let Some(key) = key.take() {
                    entries.push((key, node));
                    return true;
                }
                let (Value::String(name) | Value::Other(name, _)) = node.value else {
                    (self.complain)(node.at, "a list or mapping as a key".into(), Some("a key is a word"));
                    return false;
                };
                if let Some((first, _)) = entries.iter().find(|(seen, _)| seen.name == name) {
                    let hint = format!("it is first given at line {}; put all of it there", first.at.0);
                    // Of a file that may be anything nothing else is repeated.
                    let is_known = KEYS.contains(&name.as_str());
                    let what =
                        if is_known { format!("duplicate key `{name}`") } else { "duplicate key".to_owned() };
                    (self.complain)(node.at, what, Some(&hint));
                }
                *key = Some(Key { at: node.at, name });
            }
        }
        true
    }
}

/// What YAML 1.2's core schema takes a scalar for.
fn scalar(text: String, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text);
    }
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Other(text, "null"),
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Value::Other(text, "a boolean"),
        word if is_number(word) => Value::Other(text, "a number"),
        _ => Value::String(text),
    }
}

fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches(['-', '+']);
    digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.contains(|c: char| c.is_ascii_digit())
        && digits.parse::<f64>().is_ok()
        || digits
            .strip_prefix("0x")
            .is_some_and(|hex| !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()))
        || digits
            .strip_prefix("0o")
            .is_some_and(|oct| !oct.is_empty() && oct.bytes().all(|b| b.is_ascii_digit()))
}
