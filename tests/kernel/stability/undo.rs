//! The way back from an identity to the names of the run, by its evidence alone, and what the trace has of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

fn strings<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    value[key].as_str().into_iter()
}

/// The names behind the effects, as a reader gets them back.
pub fn undone(evidence: &Value) -> BTreeSet<String> {
    let effects = &evidence["identity"]["effects"];
    let list = |kind: &str| effects[kind].as_array().expect("a list").iter();
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for effect in list("fs") {
        told.extend(strings(effect, "path"));
        if effect["op"] != "symlink" {
            told.extend(strings(effect, "to"));
        }
    }
    told.extend(list("exec").flat_map(|effect| strings(effect, "path")));
    told.extend(
        list("net").filter(|effect| effect["proto"] == "unix").flat_map(|effect| strings(effect, "address")),
    );
    let roots = evidence["observed"]["roots"].as_object().expect("roots");
    let folded = evidence["observed"]["folded"].as_array().expect("folds");
    let led_to: BTreeSet<&str> =
        folded.iter().flat_map(|fold| strings(fold, "to")).map(|to| to.trim_end_matches('/')).collect();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for name in told {
        // What a fold leads to is undone by the folds alone.
        if led_to.contains(name.trim_end_matches('/')) {
            continue;
        }
        let rooted = name
            .strip_prefix("${")
            .and_then(|rest| rest.split_once('}'))
            .and_then(|(variable, rest)| Some((roots.get(variable)?.as_str()?, rest)));
        let (root, rest) = rooted.unwrap_or(("", name));
        if !rest.contains("${") {
            names.insert(plain(&format!("{root}{rest}")));
        }
    }
    names.extend(
        folded
            .iter()
            .filter(|fold| fold["rule"] != "ephemeral-port")
            .flat_map(|fold| strings(fold, "from"))
            .map(plain),
    );
    names
}

fn plain(name: &str) -> String {
    let trimmed = name.trim_end_matches('/');
    if trimmed.is_empty() { "/".into() } else { trimmed.to_owned() }
}

/// What the trace has.
pub struct Seen {
    /// The names that have an effect.
    pub names: BTreeSet<String>,
    /// Texts of links, which have a fold and are no names.
    texts: BTreeSet<String>,
}

impl Seen {
    /// What is wrong with the way back from this evidence: names that it does not give back, and names that it makes up.
    pub fn complaints(&self, evidence: &Value) -> Vec<String> {
        let back = undone(evidence);
        let missing = self.names.difference(&back).map(|name| format!("missing {name}"));
        let invented = back.difference(&self.names).filter(|name| !self.texts.contains(*name));
        missing.chain(invented.map(|name| format!("invented {name}"))).collect()
    }
}

/// Reads a trace, which has to be whole.
pub fn seen(trace: &Path) -> Seen {
    let (mut names, mut texts) = (BTreeSet::new(), BTreeSet::new());
    let text = fs::read_to_string(trace).expect("a trace");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let end = lines.last().expect("a trace that is not empty");
    assert_eq!((&end["end"], &end["lost"]), (&true.into(), &0.into()), "the trace is whole");
    assert_eq!(end["events"].as_u64(), Some(lines.len() as u64 - 1), "the trace is whole");
    for line in lines {
        let (op, result) =
            (line["op"].as_str().unwrap_or("end"), line["result"].as_str().unwrap_or_default());
        let is_done = op == "connect" && matches!(result, "EINPROGRESS" | "ECONNREFUSED");
        let is_open_for_nothing = op == "open"
            && line["access"].as_array().is_none_or(|access| access.iter().all(|word| word == "execute"));
        let has_effect = matches!(result, "ok" | "EACCES" | "EPERM" | "EROFS") || is_done;
        if !has_effect || is_open_for_nothing || matches!(op, "chdir" | "chroot" | "socket" | "end") {
            continue;
        }
        names.extend(strings(&line, "path").chain(strings(&line, "interpreter")).map(plain));
        if op == "symlink" {
            texts.extend(strings(&line, "to").map(plain));
        } else {
            names.extend(strings(&line, "to").map(plain));
        }
        if line["proto"] == "unix" {
            names.extend(strings(&line, "address").map(plain));
        }
    }
    Seen { names, texts }
}
