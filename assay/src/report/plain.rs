//! Evidence → a report for a terminal: the first screen, and how much there is of everything else. Pure.
//!
//! Nothing that comes from the run can move the cursor or colour a line.

use std::io::{self, Write};

use super::basis::Basis;
use super::first_screen::{self, Line, Piece, Section, Topic, is_reading};
use super::text::Paint;
use crate::evidence::Evidence;
use crate::profile::effect::{Effect, EffectResult};
use crate::profile::name::harmless;

/// The most entries of a list.
const MOST: usize = 20;

/// Writes the report.
pub fn write(out: &mut dyn Write, evidence: &Evidence, basis: Basis<'_>, paint: Paint) -> io::Result<()> {
    let command = evidence.identity.command.join(" ");
    writeln!(out, "{}\n", paint.style("1", &harmless(&command)))?;
    let style = if evidence.observed.verdict == "ok" { "32;1" } else { "31;1" };
    writeln!(out, "{}", paint.style(style, first_screen::verdict(evidence)))?;
    writeln!(out, "{}", text(&first_screen::ended(evidence, basis)))?;
    writeln!(out, "{}", text(&first_screen::held(evidence, basis)))?;
    if let Some(outlived) = first_screen::outlived(evidence) {
        writeln!(out, "{}", text(&outlived))?;
    }
    writeln!(out, "{}", counts(evidence))?;
    for section in first_screen::sections(evidence, basis) {
        list(out, &section, paint)?;
    }
    if let Some(facts) = basis.bundle() {
        let (name, version) = &facts.producer;
        let producer = format!("{} {}", harmless(name), harmless(version));
        writeln!(out, "\n{} events by {producer}, run root {}", facts.event_count, facts.run_root)?;
    }
    Ok(())
}

fn text(line: &Line) -> String {
    let pieces = line.0.iter().map(|piece| match piece {
        Piece::Words(words) => words.to_string(),
        Piece::Name(name) => harmless(name).into_owned(),
    });
    pieces.collect()
}

fn list(out: &mut dyn Write, section: &Section, paint: Paint) -> io::Result<()> {
    let title = text(&section.title);
    if section.items.is_empty() {
        return match section.none {
            Some(none) => writeln!(out, "\n{}: {none}", paint.style("1", &title)),
            None => Ok(()),
        };
    }
    let style = match section.topic {
        Topic::Denied | Topic::Unauthorised | Topic::Protected => "1;31",
        Topic::Withheld | Topic::Degraded | Topic::Ended | Topic::Gaps | Topic::Missing => "1;33",
        Topic::Outside | Topic::Network | Topic::Gaining => "1",
    };
    writeln!(out, "\n{} ({})", paint.style(style, &title), section.items.len())?;
    for item in section.items.iter().take(MOST) {
        writeln!(out, "  {}", text(item))?;
    }
    if section.items.len() > MOST {
        writeln!(out, "  and {} more", section.items.len() - MOST)?;
    }
    Ok(())
}

fn counts(evidence: &Evidence) -> String {
    let happened = |is_one: fn(&Effect) -> bool| {
        let effects = evidence.identity.effects.iter();
        effects.filter(|effect| effect.result() == EffectResult::Ok && is_one(effect)).count()
    };
    format!(
        "{} names changed, {} read or listed, {} programs started, {} places on the network.",
        happened(|effect| matches!(effect, Effect::Fs(fs) if !is_reading(fs))),
        happened(|effect| matches!(effect, Effect::Fs(fs) if is_reading(fs))),
        happened(|effect| matches!(effect, Effect::Exec(_))),
        happened(|effect| matches!(effect, Effect::Net(_))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::samples;
    use crate::profile::effect::FsOp;

    #[test]
    fn a_terminal_is_told_what_matters_and_nothing_that_moves_its_cursor() {
        let effects = vec![
            samples::fs(FsOp::Write, "${HOME}/.bashrc", None, EffectResult::Ok),
            samples::fs(FsOp::Read, "/a\x1b[2J\u{202e}\n::error::b", None, EffectResult::Denied),
        ];
        let mut evidence = samples::evidence(effects, Vec::new());
        evidence.observed.verdict = "denied".into();
        let told = |paint| {
            let mut out = Vec::new();
            write(&mut out, &evidence, Basis::Run, paint).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = told(Paint::Plain);
        for line in [
            "make test",
            "The policy stopped something.",
            "1 names changed, 0 read or listed, 0 programs started, 0 places on the network.",
            "Denied (1)",
            "  read /a\\x1b[2J\\xe2\\x80\\xae\\x0a::error::b",
            "Protected configuration written (1)",
            "  write ${HOME}/.bashrc",
            "Network: no connection, no socket bound",
        ] {
            assert!(text.lines().any(|there| there == line), "{line}\n{text}");
        }
        assert!(!text.contains('\x1b') && !text.contains('\u{202e}'), "{text}");
        // Colours are ours alone.
        let mut pieces = told(Paint::Colored);
        for style in ["\x1b[0m", "\x1b[1m", "\x1b[31;1m", "\x1b[1;31m"] {
            pieces = pieces.replace(style, "");
        }
        assert_eq!(pieces, text);
    }
}
