//! What is worth a look: denials, what was not kept, what the record cannot vouch for, in the order in which it matters. Pure.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::basis::Basis;
use super::super::first_screen::{self, Section, Topic};
use super::page::{CHECK, icon, text};
use super::{more, name};
use crate::evidence::{Degradation, Evidence};

/// The most entries of a list that stand open.
const FIRST: usize = 8;
/// The most behind them; the table of effects has all.
const MOST: usize = 200;

/// The section. What the cards and tables show stands there alone.
pub(super) fn section(evidence: &Evidence, basis: Basis<'_>) -> Markup {
    let sections: Vec<Section> = first_screen::sections(evidence, basis)
        .into_iter()
        .filter(|section| !matches!(section.topic, Topic::Outside | Topic::Protected | Topic::Network))
        .collect();
    html! {
        section #look aria-labelledby="look-title" {
            h2 #look-title { "To look at" }
            @for section in &sections {
                @if !section.items.is_empty() {
                    div.finding.(weight(section.topic)) {
                        h3 { (text(&section.title)) span.count { (section.items.len()) } }
                        @if section.topic == Topic::Degraded { (degraded(&evidence.identity.degradations)) } @else {
                            (list(section.items.iter().map(text).collect()))
                        }
                    }
                }
            }
            ul.nothing {
                @for section in &sections {
                    @if let Some(none) = section.none.filter(|_| section.items.is_empty()) {
                        li { (icon(CHECK)) (text(&section.title)) ": " (none) "." }
                    }
                }
            }
        }
    }
}

fn weight(topic: Topic) -> &'static str {
    match topic {
        Topic::Denied | Topic::Unauthorised => "grave",
        Topic::Withheld | Topic::Degraded | Topic::Ended | Topic::Gaps => "warned",
        Topic::Missing | Topic::Gaining | Topic::Outside | Topic::Protected | Topic::Network => "told",
    }
}

/// Some stand open, the others behind a word.
fn list(items: Vec<Markup>) -> Markup {
    let all = items.len();
    let mut items = items.into_iter();
    html! {
        ul { @for item in items.by_ref().take(FIRST) { li { (item) } } }
        @if all > FIRST {
            details {
                summary { (all - FIRST) " more" }
                ul { @for item in items.take(MOST) { li { (item) } } }
                (more(all, FIRST + MOST))
            }
        }
    }
}

/// By what was not kept, in words, with what it is about.
fn degraded(degradations: &[Degradation]) -> Markup {
    let mut kinds: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for one in degradations {
        let kind = Degradation { detail: None, ..one.clone() }.explain();
        kinds.entry(kind).or_default().extend(one.detail.as_deref());
    }
    html! {
        @for (kind, about) in kinds {
            p { (super::shortened(&kind, 400)) @if !about.is_empty() { ":" } }
            (list(about.into_iter().map(name).collect()))
        }
    }
}
