//! The process tree with its time line, without a script: up to a limit, and closed to nobody. Pure.

use maud::{Markup, html};

use super::super::basis::Basis;
use super::super::forest::{Forest, ended};
use super::{ROWS, more, name};
use crate::evidence::retold::Part;
use crate::evidence::{Evidence, ProcessFacts};

/// The width of the time line, in units of its own.
const WIDTH: u64 = 1000;

/// The section.
pub(super) fn section(evidence: &Evidence, basis: Basis<'_>) -> Markup {
    let processes = &evidence.observed.processes;
    let is_timed = processes.iter().any(|process| process.began_us.is_some());
    html! {
        section #processes aria-labelledby="processes-title" {
            h2 #processes-title { "Processes over time" }
            @if !basis.has(Part::Processes) {
                p { "A bundle does not tell the process tree, nor when each process began and ended." }
                p.quiet { "The report that " code { "assay sandbox --profile-report run.html" } " writes of the run itself does." }
            } @else if processes.is_empty() {
                p { "None was seen." }
            } @else {
                @if !is_timed { p.quiet { "This record does not say when each began and ended." } }
                div.scroll tabindex="0" role="region" aria-label="Processes" {
                    table.processes {
                        caption { "Process tree, with the time each was there" }
                        thead { tr {
                            th scope="col" { "Program" }
                            th.number scope="col" { "Process" }
                            th.number scope="col" { "Lasted" }
                            th.lane scope="col" { "Time line" }
                            th scope="col" { "Ended" }
                        } }
                        tbody #process-rows { (rows(processes)) }
                    }
                }
                div #process-more { (more(processes.len(), ROWS)) }
            }
        }
    }
}

fn rows(processes: &[ProcessFacts]) -> Markup {
    let forest = Forest::of(processes);
    let end = end(processes);
    let mut stack: Vec<(usize, usize)> = forest.roots.iter().rev().map(|at| (*at, 0)).collect();
    let mut told = Vec::new();
    while let Some((at, depth)) = stack.pop().filter(|_| told.len() < ROWS) {
        told.push((&processes[at], depth));
        stack.extend(forest.children.get(&at).into_iter().flatten().rev().map(|child| (*child, depth + 1)));
    }
    html! {
        @for (process, depth) in told {
            tr {
                td.(format!("d{}", depth.min(12))) {
                    span.hidden { "level " (depth + 1) ": " }
                    @if process.programs.is_empty() { span.quiet { "(no program of its own)" } }
                    @for (at, argv) in process.programs.iter().enumerate() {
                        @if at > 0 { span.quiet { " then " } }
                        (name(&super::shortened(&argv.join(" "), 300)))
                    }
                }
                td.number { (process.pid) }
                td.number { (lasted(process)) }
                td.lane { (bar(process, end)) }
                td { (end_words(process)) }
            }
        }
    }
}

/// When the last of them ended, or began.
fn end(processes: &[ProcessFacts]) -> u64 {
    let moments = processes.iter().flat_map(|process| [process.began_us, process.ended_us]);
    moments.flatten().max().unwrap_or(0).max(1)
}

fn bar(process: &ProcessFacts, end: u64) -> Markup {
    let Some(began) = process.began_us else { return html! {} };
    let until = process.ended_us.unwrap_or(end).max(began);
    let at = |moment: u64| {
        u64::try_from(u128::from(moment) * u128::from(WIDTH) / u128::from(end)).unwrap_or(WIDTH)
    };
    let (x, width) = (at(began), (at(until) - at(began)).max(4));
    html! {
        svg.span viewBox=(format!("0 0 {WIDTH} 10")) preserveAspectRatio="none" aria-hidden="true" {
            rect x=(x.min(WIDTH - 4)) y="0" width=(width) height="10" {}
        }
    }
}

fn lasted(process: &ProcessFacts) -> String {
    match (process.began_us, process.ended_us) {
        (Some(began), Some(ended)) => duration(ended.saturating_sub(began)),
        (Some(_), None) | (None, _) => String::new(),
    }
}

/// Microseconds, for a person.
fn duration(us: u64) -> String {
    match us {
        0..1000 => format!("{us} µs"),
        1000..10_000 => format!("{}.{} ms", us / 1000, us % 1000 / 100),
        10_000..10_000_000 => format!("{} ms", us / 1000),
        _ => format!("{} s", us / 1_000_000),
    }
}

/// How it ended.
pub(super) fn end_words(process: &ProcessFacts) -> String {
    match process.status {
        None => "was not seen to end".into(),
        Some(0) => "exit 0".into(),
        status => ended(status).trim_start_matches(" — ").to_owned(),
    }
}
