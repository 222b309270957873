//! The body of the report: landmarks, the verdict, the three controls, what to look at, and tables. Pure.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html};

use super::super::basis::Basis;
use super::super::controls::{Control, State, controls};
use super::super::first_screen::{self, Line, Piece, is_reading};
use super::{ROWS, data, findings, more, name, network, processes};
use crate::evidence::retold::Part;
use crate::evidence::{EffectFacts, Evidence};
use crate::observe::loss::{Completeness, Kind};
use crate::profile::effect::{Effect, EffectResult, FsEffect};

/// The most entries of a list.
const MOST: usize = 200;
/// The most acts that a control names.
const ACTS: usize = 5;

/// Everything between the body's tags but the script and its data.
pub(super) fn body(evidence: &Evidence, basis: Basis<'_>, command: &str) -> Markup {
    html! {
        a.skip href="#main" { "Skip to the report" }
        header.bar {
            div.inner {
                p.brand { (mark()) "assay" span.quiet { "run report" } }
                nav aria-label="Sections" {
                    a href="#controls" { "Controls" }
                    a href="#look" { "To look at" }
                    a href="#network" { "Network" }
                    a href="#files" { "Files" }
                    a href="#processes" { "Processes" }
                    a href="#effects" { "Effects" }
                    a href="#about" { "About" }
                }
                button #theme type="button" hidden { "Theme: system" }
            }
        }
        main #main tabindex="-1" {
            (summary(evidence, basis, command))
            section #controls aria-labelledby="controls-title" {
                h2 #controls-title { "Controls" }
                div.cards { @for one in controls(evidence, basis) { (card(&one)) } }
            }
            (findings::section(evidence, basis))
            (network::section(evidence, basis))
            (files(evidence))
            (processes::section(evidence, basis))
            (effects(evidence))
            (about(evidence, basis))
        }
        footer { p { "Made by assay of what the kernel was asked. This file loads nothing and sends nothing." } }
    }
}

/// A sign that stands beside words and says nothing that they do not.
pub(super) fn icon(paths: &'static str) -> Markup {
    html! { svg.icon viewBox="0 0 20 20" aria-hidden="true" { (PreEscaped(paths)) } }
}

pub(super) const CHECK: &str = "<circle cx=\"10\" cy=\"10\" r=\"8\"/><path d=\"m6.5 10.3 2.4 2.4 4.6-5\"/>";
const SHIELD: &str = "<path d=\"M10 2.2 3.6 4.6v4.8c0 4 2.7 6.9 6.4 8.4 3.7-1.5 6.4-4.4 6.4-8.4V4.6z\"/><path d=\"m7.2 7.2 5.6 5.6m0-5.6-5.6 5.6\"/>";
const ALERT: &str = "<path d=\"M10 2.8 2 16.6h16z\"/><path d=\"M10 8v4m0 2.2v.2\"/>";
const EYE: &str = "<path d=\"M1.8 10S4.8 4.6 10 4.6 18.2 10 18.2 10 15.2 15.4 10 15.4 1.8 10 1.8 10z\"/><circle cx=\"10\" cy=\"10\" r=\"2.4\"/>";
const QUESTION: &str = "<circle cx=\"10\" cy=\"10\" r=\"8\"/><path d=\"M7.7 7.8c0-1.3 1-2.2 2.3-2.2s2.3.9 2.3 2.1c0 1.5-2.3 1.7-2.3 3.5m0 2.8v.2\"/>";

fn mark() -> Markup {
    icon(
        "<path d=\"M10 2.2 3.6 4.6v4.8c0 4 2.7 6.9 6.4 8.4 3.7-1.5 6.4-4.4 6.4-8.4V4.6z\"/><path d=\"m6.8 9.9 2.3 2.3 4.2-4.6\"/>",
    )
}

pub(super) fn text(line: &Line) -> Markup {
    html! {
        @for piece in &line.0 {
            @match piece {
                Piece::Words(words) => { (words) }
                Piece::Name(text) => { (name(text)) }
            }
        }
    }
}

fn summary(evidence: &Evidence, basis: Basis<'_>, command: &str) -> Markup {
    let (class, sign) = match evidence.observed.verdict.as_str() {
        "ok" => ("good", CHECK),
        "denied" => ("stopped", SHIELD),
        "unauthorised" | "incomplete" | "refused" | "failed" => ("bad", ALERT),
        _ => ("unknown", QUESTION),
    };
    html! {
        section #summary aria-labelledby="title" {
            p.eyebrow { @if basis.bundle().is_some() { "Report of a bundle" } @else { "Report of a run" } }
            h1 #title { code { (command) } }
            div.verdict.(class) {
                (icon(sign))
                div {
                    p.says { (first_screen::verdict(evidence)) }
                    p { (text(&first_screen::ended(evidence, basis))) " " (covered(evidence)) }
                    @if let Some(outlived) = first_screen::outlived(evidence) { p { (text(&outlived)) } }
                }
            }
            p.held { (text(&first_screen::held(evidence, basis))) }
            (tiles(evidence))
        }
    }
}

/// How far the record goes, in a sentence.
fn covered(evidence: &Evidence) -> &'static str {
    if evidence.coverage.ledger.is_unobserved {
        "Nothing of it was observed."
    } else if evidence.coverage.is_complete() {
        "The record of it is complete."
    } else {
        "The record of it is not complete."
    }
}

fn tiles(evidence: &Evidence) -> Markup {
    if evidence.coverage.ledger.is_unobserved {
        return html! {};
    }
    let effects = || evidence.identity.effects.iter();
    let happened = |is_one: fn(&Effect) -> bool| {
        effects().filter(|effect| effect.result() == EffectResult::Ok && is_one(effect)).count()
    };
    let changed = happened(|effect| matches!(effect, Effect::Fs(fs) if !is_reading(fs)));
    let read = happened(|effect| matches!(effect, Effect::Fs(fs) if is_reading(fs)));
    let programs = happened(|effect| matches!(effect, Effect::Exec(_)));
    let denied = effects().filter(|effect| effect.result() == EffectResult::Denied).count();
    html! {
        dl.tiles {
            (tile(changed, "names changed", "#kind=file&op=changed"))
            (tile(read, "names read", "#kind=file&op=looked"))
            (tile(programs, "programs started", "#kind=program"))
            (tile(network::reached(evidence), "network acts", "#kind=network"))
            (tile(denied, "denied", "#result=denied"))
        }
    }
}

fn tile(count: usize, of: &str, filter: &str) -> Markup {
    html! { div { dt { (of) } dd { a href=(filter) { (count) span.hidden { " " (of) ", show them" } } } } }
}

fn card(control: &Control) -> Markup {
    let (class, sign) = match control.state {
        State::Held => ("good", CHECK),
        State::NotWhollyHeld => ("warned", ALERT),
        State::OnlyObserved => ("watched", EYE),
        State::NotTold => ("unknown", QUESTION),
    };
    html! {
        article.card {
            h3 { (control.title) }
            p.state.(class) { (icon(sign)) (control.state.as_str()) }
            @if !control.counts.is_empty() {
                ul.counts { @for (count, of) in &control.counts { li { strong { (count) } " " (of) } } }
            }
            @if let Some(gap) = control.gap { p.gap { (icon(ALERT)) (gap) } }
            @if !control.acts.is_empty() {
                ul.acts {
                    @for act in control.acts.iter().take(ACTS) {
                        li { (act.op) " " (name(&act.name)) @if act.was_denied { " " (denied_badge(None)) } }
                    }
                }
                @if control.acts.len() > ACTS { p.quiet { "and " (control.acts.len() - ACTS) " more" } }
            }
            @if !control.unheld.is_empty() {
                details {
                    summary { "What is not held (" (control.unheld.len()) ")" }
                    ul { @for one in control.unheld.iter().take(MOST) { li { (super::shortened(one, 400)) } } }
                }
            }
        }
    }
}

fn denied_badge(by: Option<&str>) -> Markup {
    html! { span.badge.denied { (icon(SHIELD)) "denied" @if let Some(by) = by { " by " (by) } } }
}

/// Whether an act was done, in words.
pub(super) fn result(result: EffectResult, facts: &EffectFacts) -> Markup {
    match result {
        EffectResult::Denied => denied_badge(facts.denied_by),
        EffectResult::Ok if facts.is_authorised == Some(false) => {
            html! { span.badge.unauthorised { (icon(ALERT)) "not authorised" } }
        }
        EffectResult::Ok => html! { "done" },
    }
}

/// How often; a bundle may not say it.
pub(super) fn times(hits: u64) -> String {
    if hits == 0 { "not told".into() } else { hits.to_string() }
}

fn files(evidence: &Evidence) -> Markup {
    let effects = evidence.observed.effects.iter();
    let changed: Vec<(&FsEffect, &EffectFacts)> = effects
        .filter_map(|(effect, facts)| match effect {
            Effect::Fs(fs) if !is_reading(fs) => Some((fs, facts)),
            Effect::Fs(_) | Effect::Exec(_) | Effect::Net(_) => None,
        })
        .collect();
    html! {
        section #files aria-labelledby="files-title" {
            h2 #files-title { "Files" }
            div #tree hidden {
                p.legend {
                    span.heat.write { span.swatch aria-hidden="true" {} "changed" }
                    span.heat.read { span.swatch aria-hidden="true" {} "read" }
                    span.quiet { "A longer bar is more names beneath, by their logarithm. The number beside it is exact." }
                }
            }
            div.static {
                @if changed.is_empty() { p { "Nothing was changed." } } @else {
                    div.scroll tabindex="0" role="region" aria-label="Changed files" {
                        table {
                            caption { "Changed names" }
                            thead { tr {
                                th scope="col" { "What" }
                                th scope="col" { "Name" }
                                th scope="col" { "To" }
                                th scope="col" { "Result" }
                                th.number scope="col" { "Times" }
                            } }
                            tbody {
                                @for (fs, facts) in changed.iter().take(ROWS) {
                                    tr {
                                        td { (fs.op.as_str()) }
                                        td { (name(fs.path.as_str())) }
                                        td { @if let Some(to) = &fs.to { (name(to.as_str())) } }
                                        td { (result(fs.result, facts)) }
                                        td.number { (times(facts.hits)) }
                                    }
                                }
                            }
                        }
                    }
                    (more(changed.len(), ROWS))
                }
            }
        }
    }
}

fn effects(evidence: &Evidence) -> Markup {
    let all = evidence.observed.effects.len();
    let option = |value: &str, text: &str| html! { option value=(value) { (text) } };
    html! {
        section #effects aria-labelledby="effects-title" {
            h2 #effects-title { "All effects" }
            form #filter role="search" aria-label="Effects" hidden {
                label.wide { span { "Search" } input #q type="search" autocomplete="off" spellcheck="false" placeholder="a name, an endpoint, a program"; }
                label { span { "Kind" } select #kind {
                    (option("", "all")) (option("file", "files")) (option("program", "programs")) (option("network", "network"))
                } }
                label { span { "What" } select #op {
                    (option("", "anything")) (option("changed", "changed")) (option("looked", "read or listed"))
                    @for word in ["read", "list", "write", "create", "delete", "rename", "link", "symlink", "attr", "mount", "execute", "connect", "bind", "listen", "send"] { (option(word, word)) }
                } }
                label { span { "Result" } select #result {
                    (option("", "any")) (option("done", "done")) (option("denied", "denied"))
                    (option("unauthorised", "not authorised")) (option("protected", "protected names")) (option("outside", "outside the work directory"))
                } }
                button #clear type="button" { "Clear" }
            }
            p #found.quiet role="status" aria-live="polite" { (all) " effects." }
            div #listing hidden {
                div.scroll tabindex="0" role="region" aria-label="Effects" {
                    table.effects {
                        caption { "Effects that match" }
                        thead { tr {
                            th scope="col" { "What" }
                            th scope="col" { "Name" }
                            th scope="col" { "Result" }
                            th.number scope="col" { "Times" }
                        } }
                        tbody #rows {}
                    }
                }
                button #more type="button" hidden { "Show more" }
            }
            @if all > data::EFFECTS {
                p { "This page has " (data::EFFECTS) " of them; those that only read are left out first. The evidence has all." }
            }
            div.static { (programs(evidence)) }
            noscript { p { "Search and the list of all effects need the script of this page. What stands above is there without it." } }
        }
    }
}

fn programs(evidence: &Evidence) -> Markup {
    let effects = evidence.observed.effects.iter();
    let programs: Vec<_> = effects
        .filter_map(|(effect, facts)| match effect {
            Effect::Exec(exec) => Some((exec, facts)),
            Effect::Fs(_) | Effect::Net(_) => None,
        })
        .collect();
    html! {
        @if programs.is_empty() { p { "No program was seen to start." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Programs" {
                table {
                    caption { "Programs" }
                    thead { tr {
                        th scope="col" { "Program" }
                        th scope="col" { "Result" }
                        th.number scope="col" { "Starts" }
                    } }
                    tbody {
                        @for (exec, facts) in programs.iter().take(ROWS) {
                            tr {
                                td { (name(exec.path.as_str())) }
                                td { (result(exec.result, facts)) }
                                td.number { (times(facts.hits)) }
                            }
                        }
                    }
                }
            }
            (more(programs.len(), ROWS))
        }
    }
}

fn about(evidence: &Evidence, basis: Basis<'_>) -> Markup {
    let observed = &evidence.observed;
    let ledger = &evidence.coverage.ledger;
    let mut facts = first_screen::bundle_facts(basis);
    if basis.has(Part::Duration) {
        facts.push(("started".into(), observed.started_at.clone()));
    }
    facts.extend(observed.roots.iter().map(|(name, path)| (format!("${{{name}}}"), path.clone())));
    facts.extend(observed.host.iter().map(|(name, text)| (name.clone(), text.clone())));
    facts.extend(observed.versions.iter().map(|(name, text)| (name.clone(), text.clone())));
    let mut folds: BTreeMap<&str, usize> = BTreeMap::new();
    for fold in &observed.folded {
        *folds.entry(fold.rule.as_ref()).or_default() += 1;
    }
    html! {
        section #about aria-labelledby="about-title" {
            h2 #about-title { "About this record" }
            div.scroll tabindex="0" role="region" aria-label="Coverage" {
                table {
                    caption { "How far the record goes" }
                    thead { tr { th scope="col" { "Of" } th scope="col" { "The record is" } th scope="col" { "Why" } } }
                    tbody {
                        @for kind in Kind::ALL {
                            @let gaps: Vec<_> = ledger.gaps.iter().filter(|gap| gap.kind == kind).collect();
                            tr {
                                th scope="row" { (first_screen::kind_word(kind)) }
                                td { (completeness(ledger.completeness(kind))) }
                                td {
                                    @for (at, gap) in gaps.iter().take(MOST).enumerate() {
                                        @if at > 0 { br; }
                                        (name(&gap.reason)) @if !gap.detail.is_empty() { " " (super::shortened(&gap.detail, 300)) }
                                    }
                                    @if gaps.len() > MOST { br; "and " (gaps.len() - MOST) " more" }
                                    @if ledger.total_lost() > 0 { @if !gaps.is_empty() { br; } (ledger.total_lost()) " records were lost" }
                                }
                            }
                        }
                    }
                }
            }
            (table("Facts of the run", &facts))
            @let folds: Vec<_> = folds.into_iter().map(|(rule, count)| (rule.to_owned(), count.to_string())).collect();
            @if !folds.is_empty() { (table("Names that were made equal, by rule", &folds)) }
            @let counters: Vec<_> = observed.counters.iter().map(|(name, count)| (name.clone(), count.to_string())).collect();
            @if !counters.is_empty() { details { summary { "Counters" } (table("Counters", &counters)) } }
            @if !observed.env_removed.is_empty() {
                p { "Removed from the environment: " @for (at, one) in observed.env_removed.iter().take(ROWS).enumerate() { @if at > 0 { ", " } (name(one)) } "." }
            }
            @if !observed.not_governed.is_empty() {
                p { "Not governed here: " @for (at, one) in observed.not_governed.iter().take(ROWS).enumerate() { @if at > 0 { ", " } (name(one)) } "." }
            }
        }
    }
}

fn completeness(completeness: Completeness) -> Markup {
    match completeness {
        Completeness::Complete => html! { span.state.good { (icon(CHECK)) "complete" } },
        Completeness::Partial => html! { span.state.bad { (icon(ALERT)) "partial" } },
        Completeness::None => html! { span.state.bad { (icon(ALERT)) "not there: nothing was observed" } },
    }
}

fn table(caption: &str, rows: &[(String, String)]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table.facts {
                caption { (caption) }
                thead { tr { th scope="col" { "What" } th scope="col" { "Value" } } }
                tbody {
                    @for (what, value) in rows.iter().take(ROWS) {
                        tr { th scope="row" { (super::shortened(what, 200)) } td { (name(value)) } }
                    }
                }
            }
        }
        (more(rows.len(), ROWS))
    }
}
