//! The profile file <-> [`Profile`]: a policy that only allows, sorted, with a comment above it. Pure.
//!
//! Equal profiles are equal bytes. Reading takes what [`Profile::write`] writes, in YAML or JSON, and refuses what a
//! profile never has (denies, `extends`), because merging or comparing without it would tell something untrue.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::grant_set::GrantSet;
use crate::canon::value::{Object, Value};
use crate::canon::{indented, read, yaml};

/// The version of the policy language a profile is written in.
pub const API_VERSION: &str = "assay/v1";

/// An access word of the policy language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grant {
    /// List directories.
    List,
    /// Read files and list directories.
    Read,
    /// Change content and names.
    Write,
    /// Start programs.
    Execute,
}

impl Grant {
    /// Every word, in order.
    pub const ALL: [Self; 4] = [Self::List, Self::Read, Self::Write, Self::Execute];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
        }
    }
}

/// What a run needs, as a policy says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// `fs.allow`: path as a policy spells it → what may be done there and beneath.
    pub fs: BTreeMap<String, GrantSet>,
    /// `fs.deny`: path → the accesses denied there and beneath; none named means every access.
    pub deny: BTreeMap<String, GrantSet>,
    /// `net.allow`.
    pub net: BTreeSet<String>,
    /// `exec.allow`; `None`: the execute access of `fs` decides.
    pub exec: Option<BTreeSet<String>>,
}

/// The two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// YAML, with comments.
    Yaml,
    /// JSON, without.
    Json,
}

/// What stands in comments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comments {
    /// Lines above everything. Controls in them are not written.
    pub header: Vec<String>,
    /// What whoever has the profile alone must know: beneath those lines, and in JSON as its `notes`.
    pub notes: Vec<String>,
    /// A few words beside a rule of `fs`, `net` or `exec`.
    pub beside: BTreeMap<(Section, String), String>,
}

/// The lists of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// `fs.allow`
    Fs,
    /// `net.allow`
    Net,
    /// `exec.allow`
    Exec,
}

impl Section {
    /// The key.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fs => "fs",
            Self::Net => "net",
            Self::Exec => "exec",
        }
    }
}

impl Profile {
    /// Writes it.
    pub fn write(&self, comments: &Comments, format: Format) -> String {
        match format {
            Format::Yaml => self.yaml(comments),
            Format::Json => {
                let mut object = self.object();
                if !comments.notes.is_empty() {
                    let notes =
                        comments.notes.iter().map(|note| note.as_str().into()).collect::<Vec<Value>>();
                    object.set("notes", notes);
                }
                indented::write(&object.iter().collect::<Vec<_>>())
            }
        }
    }

    fn yaml(&self, comments: &Comments) -> String {
        let mut out = String::new();
        for line in comments.header.iter().chain(&comments.notes) {
            let line: String =
                line.chars().filter(|c| !c.is_control() && *c != '\u{2028}' && *c != '\u{2029}').collect();
            writeln!(out, "# {line}").expect("writing to a String cannot fail");
        }
        writeln!(out, "api_version: {API_VERSION}").expect("writing to a String cannot fail");
        section_list(
            &mut out,
            comments,
            Section::Fs,
            self.fs.iter().map(|(path, grants)| (path, fs_rule(path, *grants))).collect(),
        );
        if !self.deny.is_empty() {
            // A program or a socket can reach over a denied path where no rule of `fs` does.
            out.push_str(if self.fs.is_empty() { "fs:\n  deny:\n" } else { "  deny:\n" });
            for (path, accesses) in &self.deny {
                let text = if accesses.is_empty() { scalar(path) } else { fs_rule(path, *accesses) };
                writeln!(out, "    - {text}").expect("writing to a String cannot fail");
            }
        }
        let mut list = |section: Section, rules: Vec<(&String, String)>| {
            section_list(&mut out, comments, section, rules);
        };
        list(Section::Net, self.net.iter().map(|rule| (rule, scalar(rule))).collect());
        if let Some(programs) = &self.exec {
            list(Section::Exec, programs.iter().map(|rule| (rule, scalar(rule))).collect());
        }
        out
    }

    /// The policy as an object.
    pub fn object(&self) -> Object {
        let mut root = Object::from([("api_version", API_VERSION.into())]);
        let allow = |rules: Vec<Value>| Object::from([("allow", rules.into())]);
        let mut lists = Object::default();
        let rule = |(path, accesses): (&String, &GrantSet)| -> Value {
            let words = accesses.iter().map(|access| access.as_str().into()).collect::<Vec<Value>>();
            Object::from([("path", path.as_str().into()), ("access", words.into())]).into()
        };
        let unless = |is_bare: bool, entry: (&String, &GrantSet)| -> Value {
            if is_bare { entry.0.as_str().into() } else { rule(entry) }
        };
        if !self.fs.is_empty() {
            let rules = self.fs.iter().map(|entry| unless(is_bare(*entry.1), entry));
            lists.set("allow", rules.collect::<Vec<Value>>());
        }
        if !self.deny.is_empty() {
            let denies = self.deny.iter().map(|entry| unless(entry.1.is_empty(), entry));
            lists.set("deny", denies.collect::<Vec<Value>>());
        }
        if !(self.fs.is_empty() && self.deny.is_empty()) {
            root.set("fs", lists);
        }
        if !self.net.is_empty() {
            root.set("net", allow(self.net.iter().map(|rule| rule.as_str().into()).collect()));
        }
        if let Some(programs) = &self.exec {
            root.set("exec", allow(programs.iter().map(|rule| rule.as_str().into()).collect()));
        }
        root
    }
}

/// One `allow` list.
fn section_list(out: &mut String, comments: &Comments, section: Section, rules: Vec<(&String, String)>) {
    if rules.is_empty() && section != Section::Exec {
        return;
    }
    let empty = if rules.is_empty() { " []" } else { "" };
    writeln!(out, "{}:\n  allow:{empty}", section.as_str()).expect("writing to a String cannot fail");
    for (rule, text) in rules {
        let beside = comments.beside.get(&(section, rule.clone()));
        let comment = beside.map(|words| format!("  # {words}")).unwrap_or_default();
        writeln!(out, "    - {text}{comment}").expect("writing to a String cannot fail");
    }
}

fn is_bare(grants: GrantSet) -> bool {
    grants == [Grant::Read, Grant::Execute].into()
}

fn scalar(text: &str) -> String {
    let mut out = String::new();
    yaml::scalar(text, &mut out);
    out
}

fn fs_rule(path: &str, grants: GrantSet) -> String {
    if is_bare(grants) {
        return scalar(path);
    }
    let words: Vec<&str> = grants.iter().map(Grant::as_str).collect();
    format!("{{path: {}, access: [{}]}}", scalar(path), words.join(", "))
}

/// Why a text is not a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read the profile: {0}")]
pub struct ProfileError(String);

/// Reads a profile from its value.
pub fn from_value(value: &Value) -> Result<Profile, ProfileError> {
    let fail = |text: String| Err(ProfileError(text));
    let Some(root) = value.as_object() else { return fail("not a mapping".into()) };
    if root.str("api_version") != Some(API_VERSION) {
        return fail(format!("`api_version` is not {API_VERSION}"));
    }
    let mut profile = Profile::default();
    super::shape::profile().check(value).map_err(|mismatch| {
        // What no profile has may well be a policy, which says more than can be merged or compared.
        ProfileError(format!("{mismatch}; only what `--profile` writes is read here"))
    })?;
    let list = |section: &str, list: &str| {
        let section = root.get(section).and_then(Value::as_object);
        section.and_then(|lists| lists.get(list)).and_then(Value::as_array).unwrap_or_default()
    };
    for rule in list("fs", "allow") {
        let (path, grants) = read_fs_rule(rule)?;
        profile.fs.entry(path).or_default().add(grants);
    }
    for rule in list("fs", "deny") {
        let (path, accesses) = match rule.as_str() {
            Some(path) => (path.to_owned(), GrantSet::new()),
            None => read_fs_rule(rule)?,
        };
        // None named is every access, whatever else a second rule for the same path says.
        match profile.deny.entry(path) {
            Entry::Vacant(vacant) => {
                vacant.insert(accesses);
            }
            Entry::Occupied(mut known) if accesses.is_empty() || known.get().is_empty() => {
                *known.get_mut() = GrantSet::new();
            }
            Entry::Occupied(mut known) => known.get_mut().add(accesses),
        }
    }
    profile.net = read_texts(list("net", "allow"))?;
    if root.contains("exec") {
        profile.exec = Some(read_texts(list("exec", "allow"))?);
    }
    Ok(profile)
}

/// Reads a profile of either form.
pub fn parse(text: &str) -> Result<Profile, ProfileError> {
    let value = if text.trim_start().starts_with('{') {
        read::parse(text.trim().as_bytes()).map_err(|error| ProfileError(error.to_string()))?
    } else {
        yaml::read(text).map_err(|error| ProfileError(error.to_string()))?
    };
    from_value(&value)
}

fn read_texts(rules: &[Value]) -> Result<BTreeSet<String>, ProfileError> {
    let text = |rule: &Value| {
        rule.as_str().map(str::to_owned).ok_or_else(|| ProfileError("a rule is not a string".into()))
    };
    rules.iter().map(text).collect()
}

fn read_fs_rule(rule: &Value) -> Result<(String, GrantSet), ProfileError> {
    if let Some(path) = rule.as_str() {
        return Ok((path.to_owned(), [Grant::Read, Grant::Execute].into()));
    }
    let object = rule
        .as_object()
        .ok_or_else(|| ProfileError("a rule of fs is neither a path nor a mapping".into()))?;
    let path = object.str("path").ok_or_else(|| ProfileError("a rule of fs has no path".into()))?;
    let words = object.get("access").and_then(Value::as_array).unwrap_or_default();
    let grants = words
        .iter()
        .map(|word| {
            Grant::ALL
                .into_iter()
                .find(|grant| word.as_str() == Some(grant.as_str()))
                .ok_or_else(|| ProfileError(format!("an access of {} is not known", path.escape_debug())))
        })
        .collect::<Result<GrantSet, _>>()?;
    Ok((path.to_owned(), grants))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        Profile {
            fs: BTreeMap::from([
                ("/usr".into(), [Grant::Read, Grant::Execute].into()),
                ("${WORKDIR}".into(), [Grant::Read, Grant::Write].into()),
                ("/a b: {#\\x0a".into(), [Grant::List].into()),
            ]),
            deny: BTreeMap::from([
                ("${HOME}/.ssh".into(), GrantSet::new()),
                ("${WORKDIR}/.git/hooks".into(), [Grant::Write].into()),
            ]),
            net: ["127.0.0.1:*".into(), "unix:/run/x y".into()].into(),
            exec: Some(["/usr/bin/git".into()].into()),
        }
    }

    #[test]
    fn both_texts_come_back() {
        let comments = Comments {
            header: vec!["line\nbreak: [\u{2028}".into()],
            notes: vec!["one thing".into()],
            beside: [((Section::Net, "127.0.0.1:*".into()), "seen_in: 1/2".into())].into(),
        };
        for format in [Format::Yaml, Format::Json] {
            let text = profile().write(&comments, format);
            assert_eq!(parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")), profile());
            assert!(text.contains("one thing"), "what must be known stands in both: {text}");
        }
        assert_eq!(
            profile().write(&comments, Format::Yaml),
            concat!(
                "# linebreak: [\n# one thing\n",
                "api_version: assay/v1\n",
                "fs:\n  allow:\n",
                "    - {path: \"${WORKDIR}\", access: [read, write]}\n",
                "    - {path: \"/a b: {#\\\\x0a\", access: [list]}\n",
                "    - /usr\n",
                "  deny:\n",
                "    - \"${HOME}/.ssh\"\n",
                "    - {path: \"${WORKDIR}/.git/hooks\", access: [write]}\n",
                "net:\n  allow:\n",
                "    - \"127.0.0.1:*\"  # seen_in: 1/2\n",
                "    - \"unix:/run/x y\"\n",
                "exec:\n  allow:\n    - /usr/bin/git\n",
            )
        );
    }

    #[test]
    fn two_rules_for_one_path_are_both_kept() {
        let read = |denies: &str| {
            let text = format!("api_version: assay/v1\nfs: {{allow: [/x], deny: [{denies}]}}");
            parse(&text).unwrap_or_else(|error| panic!("{error}")).deny.remove("/x/y")
        };
        let (one, other) = ("{path: /x/y, access: [read]}", "{path: /x/y, access: [write]}");
        assert_eq!(read(&format!("{one}, {other}")), Some([Grant::Read, Grant::Write].into()));
        assert_eq!(read(&format!("{one}, /x/y")), Some(GrantSet::new()));
        assert_eq!(read(&format!("/x/y, {one}")), Some(GrantSet::new()));
    }

    #[test]
    fn a_policy_with_more_than_allows_is_not_taken_for_a_profile() {
        for text in [
            "api_version: assay/v1\nnet: {deny: [/x]}",
            "api_version: assay/v1\nextends: [x]",
            "api_version: assay/v2",
            "[]",
            "api_version: assay/v1\nfs: {allow: [{path: /x, access: [raed]}]}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
