//! A tree of nodes → the rules of one policy file, with every complaint about them. Pure.
//!
//! Nothing is guessed: what is not understood is a [`Problem`] with its place and what to write instead, and
//! reading goes on so that all problems are told at once.

use super::net::{NetRule, parse as parse_net};
use super::path::{Context, EMPTY, parse_path};
use super::problem::{Place, Problem, nearest};
use super::rule::{Access, AccessSet, Base, PathRule};
use super::yaml::{Key, Node, Value};

/// The rules of one file, its `extends` not yet followed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// Whether `api_version` was there and known.
    pub has_api_version: bool,
    /// `base`, when it is given.
    pub base: Option<Base>,
    /// `extends`, each with its place.
    pub extends: Vec<(String, Place)>,
    /// `fs.allow`.
    pub fs_allow: Vec<PathRule>,
    /// `fs.deny`.
    pub fs_deny: Vec<PathRule>,
    /// `net.allow`.
    pub net_allow: Vec<NetRule>,
    /// `net.deny`.
    pub net_deny: Vec<NetRule>,
    /// `exec.allow`.
    pub exec_allow: Option<Vec<PathRule>>,
    /// `exec.deny`.
    pub exec_deny: Vec<PathRule>,
    /// `env.allow`.
    pub env_allow: Vec<String>,
}

/// The one version there is.
pub const API_VERSION: &str = "assay/v1";

/// Reads the rules out of the root node of `file`.
pub fn parse(file: &str, root: &Node, context: &Context, problems: &mut Vec<Problem>) -> Document {
    let mut reader = Reader { file, context, problems };
    let mut document = Document::default();
    let Some(entries) = reader.map(root, "a policy") else { return document };
    let known = ["api_version", "base", "extends", "fs", "net", "exec", "env", "lint", "notes"];
    if !entries.iter().any(|(key, _)| known.contains(&key.name.as_str())) {
        reader.no_policy(root, entries, &known);
        return document;
    }
    for (key, node) in entries {
        match key.name.as_str() {
            "api_version" => {
                document.has_api_version = true;
                reader.api_version(node);
            }
            "base" => document.base = reader.base(node),
            "extends" => document.extends = reader.strings(node, "a path"),
            "fs" => {
                for (key, node) in reader.section(node, "fs", &["allow", "deny"]) {
                    match key.name.as_str() {
                        "allow" => document.fs_allow = reader.paths(node, AccessSet::READ_EXECUTE),
                        _ => document.fs_deny = reader.paths(node, AccessSet::ALL),
                    }
                }
            }
            "net" => {
                for (key, node) in reader.section(node, "net", &["allow", "deny"]) {
                    match key.name.as_str() {
                        "allow" => document.net_allow = reader.nets(node),
                        _ => document.net_deny = reader.nets(node),
                    }
                }
            }
            "exec" => {
                for (key, node) in reader.section(node, "exec", &["allow", "deny"]) {
                    match key.name.as_str() {
                        "allow" => document.exec_allow = Some(reader.programs(node)),
                        _ => document.exec_deny = reader.programs(node),
                    }
                }
            }
            "env" => {
                for (_, node) in reader.section(node, "env", &["allow"]) {
                    document.env_allow = reader.names(node);
                }
            }
            "lint" => reader.lint(node),
            // For whoever reads it: JSON has no comments.
            "notes" => drop(reader.strings(node, "a note")),
            _ => reader.unknown_key(key, &known),
        }
    }
    if !document.has_api_version {
        reader.complain(
            root.at,
            "`api_version` is missing".into(),
            Some("add `api_version: assay/v1`".into()),
        );
    }
    document
}

/// What a finding of `lint` can be made.
const LEVELS: [&str; 4] = ["error", "warn", "info", "off"];

struct Reader<'a> {
    file: &'a str,
    context: &'a Context,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn place(&self, at: (usize, usize)) -> Place {
        Place { file: self.file.to_owned(), line: at.0, column: at.1 }
    }

    fn complain(&mut self, at: (usize, usize), message: String, hint: Option<String>) {
        let place = self.place(at);
        self.problems.push(Problem { place, message, hint });
    }

    fn bad_type(&mut self, node: &Node, wanted: &str) {
        let hint = match &node.value {
            Value::Other(text, kind) if wanted.contains("string") || wanted == "a path" => {
                if text.is_empty() {
                    Some("write the value".to_owned())
                } else {
                    Some(format!("put {kind} that is meant as text in quotes: \"{text}\""))
                }
            }
            Value::String(text) if wanted == "a list" => Some(format!("write `[\"{text}\"]`")),
            _ if wanted == "a list" => {
                Some("write `[…]`, or a line that begins with `- ` for each entry".to_owned())
            }
            _ => Some(format!("write {wanted} in its place")),
        };
        self.complain(node.at, format!("expected {wanted}, found {}", node.value.kind()), hint);
    }

    fn unknown_key(&mut self, key: &Key, known: &[&str]) {
        let hint = match nearest(&key.name, known) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("known here: {}", known.join(", ")),
        };
        self.complain(key.at, format!("unknown key `{}`", key.name), Some(hint));
    }

    /// A file that may be anything: what is in it is repeated only where it nearly is a key of a policy.
    fn no_policy(&mut self, root: &Node, entries: &[(Key, Node)], known: &[&str]) {
        let is_near = |entry: &&(Key, Node)| nearest(&entry.0.name, known).is_some();
        for (key, _) in entries.iter().filter(is_near) {
            self.unknown_key(key, known);
        }
        self.complain(
            root.at,
            "no policy: none of its keys is a policy's".into(),
            Some(format!("begin with `api_version: assay/v1`; known here: {}", known.join(", "))),
        );
    }

    fn map<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [(Key, Node)]> {
        match &node.value {
            Value::Map(entries) => Some(entries),
            other => {
                let message = format!("expected {what} to be a mapping, found {}", other.kind());
                self.complain(node.at, message, Some("write keys with their values: `KEY: VALUE`".into()));
                None
            }
        }
    }

    /// The entries of a section that are known; the others are complained about.
    fn section<'n>(&mut self, node: &'n Node, name: &str, known: &[&str]) -> Vec<(&'n Key, &'n Node)> {
        let mut kept = Vec::new();
        for (key, node) in self.map(node, &format!("`{name}`")).unwrap_or_default() {
            if known.contains(&key.name.as_str()) {
                kept.push((key, node));
            } else {
                self.unknown_key(key, known);
            }
        }
        kept
    }

    /// Nothing here is about what a run may do; `evidence::lint` reads it, and knows its rules.
    fn lint(&mut self, node: &Node) {
        let is_nothing = |node: &Node| matches!(node.value, Value::Other(_, "null"));
        let sections =
            if is_nothing(node) { Vec::new() } else { self.section(node, "lint", &["levels", "ignore"]) };
        for (key, node) in sections.into_iter().filter(|(_, node)| !is_nothing(node)) {
            if key.name == "levels" {
                for (_, level) in self.map(node, "`levels`").unwrap_or_default() {
                    // YAML of old takes `off` for a truth value.
                    match &level.value {
                        Value::String(word) | Value::Other(word, _) if LEVELS.contains(&word.as_str()) => {}
                        Value::String(word) | Value::Other(word, _) => {
                            let hint = format!("known: {}", LEVELS.join(", "));
                            self.complain(level.at, format!("unknown level `{word}`"), Some(hint));
                        }
                        _ => self.bad_type(level, "a string"),
                    }
                }
                continue;
            }
            for item in self.list(node) {
                let entries = self.section(item, "ignore", &["rule", "subject", "reason"]);
                for wanted in ["rule", "reason"] {
                    if matches!(item.value, Value::Map(_))
                        && !entries.iter().any(|(key, _)| key.name == wanted)
                    {
                        let hint = Some("write `{rule: …, subject: …, reason: …}`".into());
                        self.complain(item.at, format!("`{wanted}` is missing"), hint);
                    }
                }
                for (_, text) in entries {
                    if !matches!(text.value, Value::String(_)) {
                        self.bad_type(text, "a string");
                    }
                }
            }
        }
    }

    fn list<'n>(&mut self, node: &'n Node) -> &'n [Node] {
        if let Value::List(items) = &node.value {
            return items;
        }
        self.bad_type(node, "a list");
        &[]
    }

    fn api_version(&mut self, node: &Node) {
        match &node.value {
            Value::String(text) if text == API_VERSION => {}
            Value::String(text) | Value::Other(text, _) => {
                let message = format!("unknown api_version `{text}`");
                self.complain(node.at, message, Some(format!("this version of assay knows `{API_VERSION}`")));
            }
            _ => self.bad_type(node, "a string"),
        }
    }

    fn base(&mut self, node: &Node) -> Option<Base> {
        match &node.value {
            Value::String(text) if text == "system" => Some(Base::System),
            Value::String(text) if text == "none" => Some(Base::None),
            Value::String(text) | Value::Other(text, "null" | "a boolean") if !text.is_empty() => {
                let hint = match nearest(text, &["system", "none"]) {
                    Some(word) => format!("did you mean `{word}`?"),
                    None => "it is `system` or `none`".into(),
                };
                self.complain(node.at, format!("unknown base `{text}`"), Some(hint));
                None
            }
            _ => {
                self.bad_type(node, "a string");
                None
            }
        }
    }

    /// Strings with their places.
    fn strings(&mut self, node: &Node, wanted: &str) -> Vec<(String, Place)> {
        let mut strings = Vec::new();
        for item in self.list(node) {
            match &item.value {
                Value::String(text) if text.is_empty() => {
                    self.complain(
                        item.at,
                        format!("expected {wanted}, found an empty string"),
                        Some(EMPTY.into()),
                    );
                }
                Value::String(text) => strings.push((text.clone(), self.place(item.at))),
                _ => self.bad_type(item, wanted),
            }
        }
        strings
    }

    fn paths(&mut self, node: &Node, default: AccessSet) -> Vec<PathRule> {
        let mut rules = Vec::new();
        for item in self.list(node) {
            match &item.value {
                Value::Map(entries) => rules.extend(self.path_with_access(item, entries, default)),
                _ => rules.extend(self.path(item, default)),
            }
        }
        rules
    }

    fn path_with_access(
        &mut self,
        item: &Node,
        entries: &[(Key, Node)],
        default: AccessSet,
    ) -> Option<PathRule> {
        let mut path = None;
        let mut access = Some(default);
        let before = self.problems.len();
        for (key, node) in entries {
            match key.name.as_str() {
                "path" => path = Some(node),
                "access" => access = self.access(node, default),
                _ => self.unknown_key(key, &["path", "access"]),
            }
        }
        let Some(path) = path else {
            if self.problems.len() == before {
                self.complain(
                    item.at,
                    "`path` is missing".into(),
                    Some("write `{path: …, access: […]}`".into()),
                );
            }
            return None;
        };
        let rule = self.path(path, access.unwrap_or(default));
        access.and(rule)
    }

    fn access(&mut self, node: &Node, default: AccessSet) -> Option<AccessSet> {
        let before = self.problems.len();
        let items = self.list(node);
        if items.is_empty() && self.problems.len() == before {
            self.complain(
                node.at,
                "`access` is empty".into(),
                Some("leave it out, or name an access".into()),
            );
        }
        let mut set = AccessSet::EMPTY;
        for item in items {
            let Value::String(word) = &item.value else {
                self.bad_type(item, "a string");
                continue;
            };
            if let Some(access) = Access::ALL.into_iter().find(|access| access.as_str() == word) {
                if access == Access::List && default == AccessSet::ALL {
                    self.complain(
                        item.at,
                        "`list` cannot be denied alone".into(),
                        Some("deny `read`, which includes it".into()),
                    );
                }
                set = set.union(AccessSet::of(access));
            } else {
                self.complain(item.at, format!("unknown access `{word}`"), Some(access_hint(word)));
            }
        }
        (self.problems.len() == before).then_some(set)
    }

    fn path(&mut self, item: &Node, access: AccessSet) -> Option<PathRule> {
        let text = match &item.value {
            Value::String(text) => text.as_str(),
            // YAML takes a lone `~` for null; in a list of paths it can only be the home.
            Value::Other(text, _) if text == "~" => "~",
            _ => {
                self.bad_type(item, "a path");
                return None;
            }
        };
        match parse_path(text, self.context) {
            Ok(pattern) => Some(PathRule {
                text: text.to_owned(),
                place: self.place(item.at),
                access,
                patterns: vec![pattern],
                is_base: false,
            }),
            Err((message, hint)) => {
                self.complain(item.at, message, hint);
                None
            }
        }
    }

    fn programs(&mut self, node: &Node) -> Vec<PathRule> {
        self.list(node).iter().filter_map(|item| self.path(item, AccessSet::of(Access::Execute))).collect()
    }

    fn nets(&mut self, node: &Node) -> Vec<NetRule> {
        let mut rules = Vec::new();
        for (text, place) in self.strings(node, "a string like `HOST:PORT`") {
            match parse_net(&text, self.context) {
                Ok((target, ports)) => rules.push(NetRule { text, place, target, ports }),
                Err((message, hint)) => self.complain((place.line, place.column), message, hint),
            }
        }
        rules
    }

    fn names(&mut self, node: &Node) -> Vec<String> {
        let mut names = Vec::new();
        for (text, place) in self.strings(node, "a string: the name of a variable") {
            let at = (place.line, place.column);
            if let Some((name, _)) = text.split_once('=') {
                let hint = format!("a policy allows names, not values; write `{name}`");
                self.complain(at, format!("bad variable name `{text}`"), Some(hint));
            } else if let Some(name) = text.strip_prefix('$') {
                let name = name.trim_matches(['{', '}']);
                self.complain(
                    at,
                    format!("bad variable name `{text}`"),
                    Some(format!("did you mean `{name}`?")),
                );
            } else if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
                self.complain(at, format!("bad variable name `{text}`"), Some("one name an entry".into()));
            } else {
                names.push(text);
            }
        }
        names
    }
}

/// What was meant by a word that is no access.
fn access_hint(word: &str) -> String {
    let meant = match word {
        "r" | "ro" => "read",
        "ls" | "dir" => "list",
        "w" | "create" | "delete" => "write",
        "x" | "exec" | "run" => "execute",
        "rw" => "read, write",
        "rx" => "read, execute",
        "rwx" | "all" | "*" => "read, write, execute",
        word => match nearest(word, &["read", "write", "execute", "list"]) {
            Some(near) => near,
            None => return "known: read, write, execute, list".into(),
        },
    };
    format!("did you mean `{meant}`?")
}

#[cfg(test)]
mod tests;
