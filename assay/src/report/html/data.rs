//! The data block of a report: effects and processes as JSON, for the script that searches and folds them. Pure.
//!
//! Names in it may be hostile: no text in it can end the block, and what no name would keep is escaped as in every report.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::super::basis::{Basis, short_digest};
use super::super::first_screen::{is_reading, outside_name, protected_name};
use super::super::forest::Forest;
use super::network;
use super::processes::end_words;
use crate::canon::write::append_string;
use crate::evidence::retold::Part;
use crate::evidence::{EffectFacts, Evidence, events};
use crate::profile::effect::{Effect, EffectResult};
use crate::profile::name::harmless;

/// The most effects that are told; a browser holds them all at once. Those that only read are left out first.
pub const EFFECTS: usize = 100_000;
/// The most processes that are told.
pub const PROCESSES: usize = 20_000;
/// A longer name or argument list is cut there; the evidence has it whole.
const MOST_CHARS: usize = 4096;

/// Writes the block: `{effects, left_out, processes, processes_left_out}`.
pub fn write(out: &mut dyn Write, evidence: &Evidence, basis: Basis<'_>) -> io::Result<()> {
    let facts = &evidence.observed.effects;
    let (reading, others): (Vec<_>, Vec<_>) = facts.iter().partition(
        |(effect, _)| matches!(effect, Effect::Fs(fs) if is_reading(fs) && fs.result == EffectResult::Ok),
    );
    let left_out = facts.len().saturating_sub(EFFECTS);
    out.write_all(b"{\"effects\":[")?;
    let mut text = String::new();
    for (at, (effect, facts)) in others.into_iter().chain(reading).take(EFFECTS).enumerate() {
        text.clear();
        text.push_str(if at == 0 { "\n" } else { ",\n" });
        append_effect(&mut text, evidence, effect, facts);
        out.write_all(text.as_bytes())?;
    }
    write!(out, "\n],\n\"left_out\":{left_out},\n\"processes\":[")?;
    let processes = if basis.has(Part::Processes) { &evidence.observed.processes[..] } else { &[] };
    let forest = Forest::of(processes);
    let mut parents = vec![None; processes.len()];
    for (parent, children) in &forest.children {
        for child in children {
            parents[*child] = Some(*parent as u64);
        }
    }
    for (at, process) in processes.iter().take(PROCESSES).enumerate() {
        text.clear();
        text.push_str(if at == 0 { "\n" } else { ",\n" });
        let mut object = Members::begin(&mut text);
        object.number("pid", process.pid.into());
        if let Some(parent) = parents[at] {
            object.number("up", parent);
        }
        let programs: Vec<String> = process.programs.iter().map(|argv| argv.join(" ")).collect();
        object.texts("ran", &programs);
        for (key, moment) in [("from", process.began_us), ("to", process.ended_us)] {
            if let Some(moment) = moment {
                object.number(key, moment);
            }
        }
        object.text("end", &end_words(process));
        object.end();
        out.write_all(text.as_bytes())?;
    }
    write!(out, "\n],\n\"processes_left_out\":{}}}", processes.len().saturating_sub(PROCESSES))
}

/// `{k, o, n, t?, h?, d?, u?, p?, w?, x?}`: kind, operation, name, second name, hits, who denied it, not authorised,
/// protected, outside of the work directory, and a note.
fn append_effect(text: &mut String, evidence: &Evidence, effect: &Effect, facts: &EffectFacts) {
    let mut object = Members::begin(text);
    let mut notes: Vec<String> = Vec::new();
    match effect {
        Effect::Fs(fs) => {
            object.text("k", "file");
            object.text("o", fs.op.as_str());
            object.text("n", fs.path.as_str());
            object.text_unless_empty("t", fs.to.as_ref().map_or("", |to| to.as_str()));
            object.flag("p", protected_name(fs).is_some());
            object.flag("w", outside_name(fs).is_some());
        }
        Effect::Exec(exec) => {
            object.text("k", "program");
            object.text("o", "execute");
            object.text("n", exec.path.as_str());
            notes.extend(evidence.observed.programs.get(exec.path.as_str()).map(|digest| match digest {
                Ok(digest) => short_digest(digest),
                Err(why) => format!("no digest: {why}"),
            }));
        }
        Effect::Net(net) => {
            object.text("k", "network");
            object.text("o", net.op.as_str());
            object.text("n", &events::endpoint(net));
            notes.push(net.proto.clone());
            notes.extend(Some(network::name_of(net, facts)).filter(|note| !note.is_empty()));
            let addresses: Vec<String> = facts.addresses.iter().map(ToString::to_string).collect();
            notes.extend((!addresses.is_empty()).then(|| addresses.join(", ")));
        }
    }
    if facts.hits > 0 {
        object.number("h", facts.hits);
    }
    if effect.result() == EffectResult::Denied {
        object.text("d", facts.denied_by.unwrap_or("somebody"));
    }
    object.flag("u", effect.result() == EffectResult::Ok && facts.is_authorised == Some(false));
    notes.extend(facts.by.as_ref().map(|by| format!("by {by}")));
    if let Some(refused) = &facts.refused {
        let rule = refused.rule.as_ref().zip(refused.at.as_ref());
        notes.push(
            rule.map_or_else(|| "no rule allows it".into(), |(rule, at)| format!("denied by {rule} at {at}")),
        );
        notes.push(format!("to allow: {}", refused.remedy));
    }
    object.text_unless_empty("x", &notes.join(" · "));
    object.end();
}

/// The members of one object as they are written.
struct Members<'a> {
    out: &'a mut String,
    is_first: bool,
}

impl<'a> Members<'a> {
    fn begin(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, is_first: true }
    }

    fn raw(&mut self, key: &str, json: &str) {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        write!(self.out, "{comma}\"{key}\":{json}").expect("writing to a String cannot fail");
    }

    fn text(&mut self, key: &str, text: &str) {
        self.raw(key, &string(text));
    }

    fn texts(&mut self, key: &str, texts: &[String]) {
        let strings: Vec<String> = texts.iter().map(|text| string(text)).collect();
        self.raw(key, &format!("[{}]", strings.join(",")));
    }

    fn text_unless_empty(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    fn number(&mut self, key: &str, number: u64) {
        self.raw(key, &number.to_string());
    }

    fn flag(&mut self, key: &str, is_set: bool) {
        if is_set {
            self.raw(key, "1");
        }
    }

    fn end(self) {
        self.out.push('}');
    }
}

/// A string of JSON that HTML finds nothing in.
fn string(text: &str) -> String {
    let cut: String;
    let text = match text.char_indices().nth(MOST_CHARS) {
        Some((at, _)) => {
            cut = format!("{}…", &text[..at]);
            &cut
        }
        None => text,
    };
    let mut json = String::with_capacity(text.len() + 2);
    append_string(&harmless(text), &mut json);
    if !json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a String cannot fail");
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_block_or_is_changed_by_what_it_is_written_in() {
        for text in ["</script>", "<!--<script>", "]]>", "&amp;", "a\u{2028}b", "\"\\\u{202e}\n\0", "é🦀"]
        {
            let json = string(text);
            assert!(!json.contains(['<', '>', '&', '\n', '\u{2028}', '\u{202e}']), "{json}");
            let value = crate::canon::read::parse(json.as_bytes()).unwrap();
            assert_eq!(value.as_str(), Some(&*harmless(text)));
        }
        let long = string(&"é".repeat(MOST_CHARS + 1));
        assert_eq!(long.chars().count(), MOST_CHARS + 3);
    }
}
