//! Changes between two bundles → text, JSON and Markdown. Names are grouped, so that a person sees one directory
//! rather than four hundred files; JSON lists every one.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::json::to_text;
use super::text::Paint;
use crate::canon::value::{Object, Value};
use crate::evidence::diff::{Aspect, Change, Kind, Told};
use crate::evidence::manifest::Manifest;
use crate::profile::name::harmless;

/// How many names of one directory are told one by one.
const MOST_ALONE: usize = 8;

/// One line of a grouped difference: a name, or a directory with the number of names beneath.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Group {
    /// One name.
    Name(String),
    /// A directory, without its slash, and how many names beneath it.
    Beneath(String, usize),
}

/// Groups names by directory. The first component is never the group: that would say nothing.
pub fn group(names: &[&str]) -> Vec<Group> {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut groups = Vec::new();
    fold(&sorted, 0, 0, &mut groups);
    groups
}

fn fold(names: &[&str], prefix: usize, depth: usize, groups: &mut Vec<Group>) {
    if names.len() <= MOST_ALONE {
        groups.extend(names.iter().map(|name| Group::Name((*name).to_owned())));
        return;
    }
    let mut children: Vec<(usize, &[&str])> = Vec::new();
    let mut rest = names;
    while let Some(first) = rest.first() {
        // Where the component that begins at `prefix` ends, its slash included.
        let end = first[prefix..].find('/').map_or(first.len(), |at| prefix + at + 1);
        let component = &first[..end];
        let is_name = end == first.len();
        let count =
            if is_name { 1 } else { rest.iter().take_while(|name| name.starts_with(component)).count() };
        children.push((end, &rest[..count]));
        rest = &rest[count..];
    }
    // `/` and a variable are no directory that tells anything.
    if depth >= 2 && children.len() > MOST_ALONE {
        groups.push(Group::Beneath(names[0][..prefix].trim_end_matches('/').to_owned(), names.len()));
        return;
    }
    for (end, names) in children {
        match names {
            [name] => groups.push(Group::Name((*name).to_owned())),
            _ => fold(names, end, depth + 1, groups),
        }
    }
}

fn heading(kind: Kind) -> &'static str {
    match kind {
        Kind::Command => "Command",
        Kind::Fs => "Files",
        Kind::Exec => "Programs",
        Kind::Net => "Network",
        Kind::Degradation => "Degradations",
        Kind::Coverage => "Coverage",
        Kind::Outcome => "Outcome",
        Kind::Other => "Other events",
    }
}

/// One line: a sign, the words before and after the name, the name.
struct Line {
    sign: char,
    before: String,
    name: String,
    after: String,
}

fn lines(changes: &[Change], kind: Kind) -> Vec<Line> {
    let mut lines = Vec::new();
    // Files that came or went are told by directory, operation by operation.
    let mut grouped: BTreeMap<(char, String), Vec<&str>> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.kind == kind) {
        let sign = match change.word() {
            "added" => '+',
            "removed" => '-',
            _ => '~',
        };
        if sign == '~' {
            let name = change.subject().to_owned();
            lines.push(Line { sign, before: String::new(), name, after: became(change) });
            continue;
        }
        let data = change.after().or(change.before()).map(Told::object).unwrap_or_default();
        let denied = if data.str("result") == Some("denied") { ", denied" } else { "" };
        let to = data.str("to");
        if kind == Kind::Fs && to.is_none() {
            grouped.entry((sign, format!("{}{denied}", change.op()))).or_default().push(change.subject());
        } else {
            let before = if kind == Kind::Exec { String::new() } else { change.op().to_owned() };
            let after = match (kind, to) {
                (_, Some(to)) => format!("to {}", harmless(to)),
                (Kind::Degradation, _) => {
                    data.str("reason").map(|reason| harmless(reason).into_owned()).unwrap_or_default()
                }
                _ => String::new(),
            };
            let after = format!("{after}{denied}").trim_start_matches(", ").to_owned();
            lines.push(Line { sign, before, name: change.subject().to_owned(), after });
        }
    }
    for ((sign, before), names) in grouped {
        lines.extend(group(&names).into_iter().map(|group| match group {
            Group::Name(name) => Line { sign, before: before.clone(), name, after: String::new() },
            Group::Beneath(directory, count) => Line {
                sign,
                before: format!("{before} {count} names beneath"),
                name: directory,
                after: String::new(),
            },
        }));
    }
    lines
}

/// What became what, in words.
fn became(change: &Change) -> String {
    let (before, after) = (change.before().map(Told::data), change.after().map(Told::data));
    let field = |value: &Option<Value>, key: &str| {
        let found = value.as_ref().and_then(Value::as_object).and_then(|data| data.str(key));
        found.map_or_else(|| "unknown".to_owned(), |text| harmless(text).into_owned())
    };
    let both = |key: &str| (field(&before, key), field(&after, key));
    match (change.kind, change.aspect) {
        (_, Some(Aspect::Operation)) => {
            let (old, new) = both("op");
            format!("{old} became {new}")
        }
        (_, Some(Aspect::Result)) => {
            let (old, new) = both("result");
            format!("{}: {old} became {new}", harmless(change.op()))
        }
        (_, Some(Aspect::Digest)) => {
            let (old, new) = both("sha256");
            format!("another program: {old} became {new}")
        }
        (Kind::Coverage, _) => {
            let (old, new) = both("coverage");
            let reasons = |value: &Option<Value>| -> Vec<String> {
                let data = value.as_ref().and_then(Value::as_object);
                let list =
                    data.and_then(|data| data.get("reasons")).and_then(Value::as_array).unwrap_or_default();
                list.iter().filter_map(Value::as_str).map(|text| harmless(text).into_owned()).collect()
            };
            let why = if new == "complete" { reasons(&before) } else { reasons(&after) };
            let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join(", ")) };
            format!("{old} became {new}{why}")
        }
        _ => format!("{} became {}", shown(before.as_ref()), shown(after.as_ref())),
    }
}

/// A command or an outcome for a person.
fn shown(value: Option<&Value>) -> String {
    match value {
        None => "unknown".to_owned(),
        Some(Value::Array(words)) => {
            let words = words.iter().filter_map(Value::as_str);
            let quoted = words.map(|word| {
                let is_plain =
                    !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"\\".contains(c));
                if is_plain { harmless(word).into_owned() } else { format!("'{}'", harmless(word)) }
            });
            quoted.collect::<Vec<_>>().join(" ")
        }
        Some(Value::Object(outcome)) => {
            let parts = outcome.iter().map(|(key, value)| match value {
                Value::String(text) => format!("{} {}", harmless(key), harmless(text)),
                other => format!("{} {}", harmless(key), harmless(&crate::canon::write::to_string(other))),
            });
            parts.collect::<Vec<_>>().join(", ")
        }
        Some(other) => harmless(&crate::canon::write::to_string(other)).into_owned(),
    }
}

/// For a terminal. Nothing when nothing differs.
pub fn text(
    out: &mut dyn Write,
    changes: &[Change],
    a: &Manifest,
    b: &Manifest,
    paint: Paint,
) -> io::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    writeln!(out, "--- {} ({} events)", harmless(&a.run_id), a.event_count)?;
    writeln!(out, "+++ {} ({} events)", harmless(&b.run_id), b.event_count)?;
    for kind in Kind::ALL {
        let lines = lines(changes, kind);
        if lines.is_empty() {
            continue;
        }
        writeln!(out, "{}", paint.style("1", heading(kind)))?;
        for line in lines {
            let style = match line.sign {
                '+' => "32",
                '-' => "31",
                _ => "33",
            };
            let name = harmless(&line.name);
            let before = harmless(&line.before);
            let words =
                [&*before, &*name].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
            let after = match (words.is_empty(), line.after.is_empty()) {
                (_, true) => String::new(),
                (true, false) => line.after,
                (false, false) if line.sign == '~' => format!(": {}", line.after),
                (false, false) => format!(", {}", line.after),
            };
            writeln!(out, "  {}", paint.style(style, &format!("{} {words}{after}", line.sign)))?;
        }
    }
    Ok(())
}

/// For a pull request.
pub fn markdown(out: &mut dyn Write, changes: &[Change], a: &Manifest, b: &Manifest) -> io::Result<()> {
    if changes.is_empty() {
        return writeln!(out, "No difference in behaviour: {}.", code(&b.run_id));
    }
    let count = |word: &str| changes.iter().filter(|change| change.word() == word).count();
    writeln!(out, "### Difference in behaviour\n")?;
    writeln!(
        out,
        "{} added, {} removed, {} changed, from {} to {}.",
        count("added"),
        count("removed"),
        count("changed"),
        code(&a.run_id),
        code(&b.run_id)
    )?;
    for kind in Kind::ALL {
        let lines = lines(changes, kind);
        if lines.is_empty() {
            continue;
        }
        writeln!(out, "\n**{}**\n", heading(kind))?;
        for line in lines {
            let sign = match line.sign {
                '+' => "added",
                '-' => "removed",
                _ => "changed",
            };
            write!(out, "- {sign}:")?;
            if !line.before.is_empty() {
                write!(out, " {}", code(&line.before))?;
            }
            if !line.name.is_empty() {
                write!(out, " {}", code(&line.name))?;
            }
            if !line.after.is_empty() {
                write!(out, " {}", code(&line.after))?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// A code span that text cannot leave: its fence is longer than any run of backticks inside.
pub(super) fn code(text: &str) -> String {
    let text = harmless(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // A space on each side is taken off again, and keeps a backtick at an end from joining the fence.
    let is_padded = text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) || text.is_empty();
    if is_padded { format!("{fence} {text} {fence}") } else { format!("{fence}{text}{fence}") }
}

/// `{a, b, changes, counts, same}`, one change after the other: there may be very many.
pub fn json(out: &mut dyn Write, changes: &[Change], a: &Manifest, b: &Manifest) -> io::Result<()> {
    let side = |manifest: &Manifest| {
        to_text(
            &Object::from([
                ("event_count", Value::count(manifest.event_count)),
                ("run_id", manifest.run_id.as_str().into()),
                ("run_root", manifest.run_root.to_string().into()),
            ])
            .into(),
        )
    };
    let counts = ["added", "removed", "changed"].map(|word| {
        let count = changes.iter().filter(|change| change.word() == word).count();
        (word, Value::count(count as u64))
    });
    write!(out, "{{\"a\":{},\"b\":{},\"changes\":[", side(a), side(b))?;
    for (at, change) in changes.iter().enumerate() {
        let mut object = Object::from([
            ("change", change.word().into()),
            ("kind", change.kind.as_str().into()),
            ("subject", change.subject().into()),
        ]);
        object.set_some("op", Some(change.op()).filter(|op| !op.is_empty()));
        object.set_some("before", change.before().map(Told::data));
        object.set_some("after", change.after().map(Told::data));
        let aspect = change.aspect.map(|aspect| match aspect {
            Aspect::Operation => "op",
            Aspect::Result => "result",
            Aspect::Digest => "sha256",
            Aspect::Value => "value",
        });
        object.set_some("aspect", aspect);
        let comma = if at == 0 { "" } else { "," };
        write!(out, "{comma}{}", to_text(&object.into()))?;
    }
    let counts = to_text(&Object::from(counts).into());
    writeln!(out, "],\"counts\":{counts},\"same\":{}}}", changes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_of_a_directory_are_one_line() {
        let names: Vec<String> =
            (0..400).map(|n| format!("${{WORKDIR}}/node_modules/p{}/f{n}", n % 40)).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.push("/etc/hosts");
        names.push("${WORKDIR}/README");
        assert_eq!(
            group(&names),
            [
                Group::Name("${WORKDIR}/README".into()),
                Group::Beneath("${WORKDIR}/node_modules".into(), 400),
                Group::Name("/etc/hosts".into()),
            ]
        );
    }

    #[test]
    fn nothing_is_lost_by_grouping() {
        for count in [0, 1, 8, 9, 50] {
            let names: Vec<String> = (0..count).map(|n| format!("/a{}/b{}/c{n}", n % 12, n % 3)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let total: usize = group(&names)
                .iter()
                .map(|group| match group {
                    Group::Name(_) => 1,
                    Group::Beneath(_, count) => *count,
                })
                .sum();
            assert_eq!(total, count);
        }
    }

    #[test]
    fn a_code_span_cannot_be_left() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a`b``c"), "```a`b``c```");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(code("a\n\n# b"), "`a\\x0a\\x0a# b`");
    }

    proptest::proptest! {
        #[test]
        fn grouping_never_splits_a_character(names: Vec<String>) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            group(&names);
        }
    }
}
