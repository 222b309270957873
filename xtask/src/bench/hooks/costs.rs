//! What each way costs, per operation, against the same loop without it.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::super::actor::{Actor, Job};
use super::super::bpf;
use super::super::programs::{Body, Hook};
use super::super::spread::Spread;
use super::observer::{Observer, Told};
use super::ways::{GETPPID, OPENAT, Way, Workbench};
use super::{measure, operations};

const JOBS: [Job; 2] = [Job::Getppid, Job::OpenClose];

/// What is in place during a turn.
enum Setting {
    Bare,
    Programs(Way, Vec<(Hook, Body)>),
    Observer,
}

/// One row of the table.
struct Row {
    part: &'static str,
    name: String,
    setting: Setting,
    is_inside: bool,
    /// Of each job, nanoseconds turn by turn.
    turns: [Vec<f64>; 2],
    /// Of each job, nanoseconds more than the median of the bare turns of the same round.
    more: [Vec<f64>; 2],
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Rounds.
    pub rounds: u32,
    /// No turn begins after this.
    pub patience: Duration,
}

/// Measures and prints.
pub fn execute(
    bench: &Workbench,
    extent: Extent,
    observer: Option<&Observer>,
    outside: &mut Actor,
    inside: &mut Actor,
) -> Result<()> {
    let mut rows = rows(observer.is_some());
    let mut sum = Told::default();
    let (mut done, mut opens) = (0, 0);
    let mut quiet = Quiet { again: 0, until: Instant::now() + extent.patience };
    'rounds: while done < extent.rounds {
        let mut turns = Vec::new();
        for index in order(rows.len(), done as usize) {
            let row = &rows[index];
            let actor = if row.is_inside { &mut *inside } else { &mut *outside };
            let turn = quiet.turn(|| {
                if row.is_inside && matches!(row.setting, Setting::Observer) {
                    opens += operations(Job::OpenClose);
                }
                turn(bench, row, observer, actor, &mut sum)
            })?;
            let Some(turn) = turn else { break 'rounds };
            turns.push((index, turn));
        }
        done += 1;
        for job in 0..JOBS.len() {
            let bare: Vec<f64> =
                turns.iter().filter(|(index, _)| *index == 0).map(|(_, turn)| turn[job]).collect();
            let bare = Spread::of(&bare).context("some turns are bare")?.median;
            for (index, turn) in &turns {
                rows[*index].turns[job].push(turn[job]);
                rows[*index].more[job].push(turn[job] - bare);
            }
        }
    }
    if done == 0 {
        bail!(
            "no round came to an end: programs of others hang on this host's tracepoints; stop what observes it"
        );
    }
    print(&rows)?;
    println!();
    println!(
        "{done} rounds; {} turns were made again because another observer had come to work on the host.",
        quiet.again
    );
    if observer.is_some() {
        println!(
            "Of {opens} opens inside the run the observer's traces told {} and lost {}.",
            sum.opens, sum.lost
        );
    }
    println!();
    Ok(())
}

/// Keeps other observers out of the figures: one at work on this host would be in all of them, the bare ones first.
struct Quiet {
    again: u32,
    until: Instant,
}

impl Quiet {
    /// A turn with no other observer in place before it or after it; `None` when there is no time for one.
    fn turn(&mut self, mut turn: impl FnMut() -> Result<[f64; 2]>) -> Result<Option<[f64; 2]>> {
        while Instant::now() < self.until {
            if bpf::links().context("list the programs of others")? > 0 {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            let measured = turn()?;
            if bpf::links()? == 0 {
                return Ok(Some(measured));
            }
            self.again += 1;
        }
        Ok(None)
    }
}

/// The rows of one round in their order: bare before every third of the others, and each round begins elsewhere, as who
/// follows whom in the processor's caches should not always be the same.
fn order(rows: usize, round: usize) -> Vec<usize> {
    let others = rows - 1;
    let mut order = Vec::new();
    for place in 0..others {
        if place % 3 == 0 {
            order.push(0);
        }
        order.push(1 + (place + round * 5) % others);
    }
    order
}

fn rows(with_observer: bool) -> Vec<Row> {
    let row = |part, name: &str, setting, is_inside| Row {
        part,
        name: name.to_owned(),
        setting,
        is_inside,
        turns: [Vec::new(), Vec::new()],
        more: [Vec::new(), Vec::new()],
    };
    let mut rows = vec![row("", "nothing attached", Setting::Bare, false)];
    for way in Way::ALL.into_iter().chain([Way::Pair(GETPPID)]) {
        let programs = Setting::Programs(way, way.same(Body::Empty));
        rows.push(row("empty programs", &way.name(), programs, false));
    }
    for way in Way::ALL {
        let programs = Setting::Programs(way, way.same(Body::Guard));
        rows.push(row("whose task is it? · outside the run", &way.name(), programs, false));
    }
    if with_observer {
        rows.push(row(
            "whose task is it? · outside the run",
            "**`assay sandbox`** of another",
            Setting::Observer,
            false,
        ));
    }
    let part = "arguments and result of `openat` at hand · inside the run";
    let at_once = vec![(Hook::RawExit, Body::FetchAtOnce(OPENAT.nr))];
    let programs = Setting::Programs(Way::RawExit, at_once);
    rows.push(row(part, "raw `sys_exit`, registers in one read", programs, true));
    for way in Way::ALL {
        let programs = Setting::Programs(way, way.whole());
        rows.push(row(part, &way.name(), programs, true));
    }
    if with_observer {
        rows.push(row(part, "**`assay sandbox`**, paths and ring included", Setting::Observer, true));
    }
    rows
}

/// One turn: in place, measured, gone.
fn turn(
    bench: &Workbench,
    row: &Row,
    observer: Option<&Observer>,
    actor: &mut Actor,
    sum: &mut Told,
) -> Result<[f64; 2]> {
    match (&row.setting, observer) {
        (Setting::Programs(way, programs), _) => {
            let _attached = bench.attach(*way, programs)?;
            both(actor)
        }
        (Setting::Observer, Some(observer)) => {
            let mut run = observer.start()?;
            let turn = both(if row.is_inside { &mut run } else { actor })?;
            let told = observer.finish(run)?;
            sum.opens += told.opens;
            sum.lost += told.lost;
            Ok(turn)
        }
        (Setting::Bare | Setting::Observer, _) => both(actor),
    }
}

fn both(actor: &mut Actor) -> Result<[f64; 2]> {
    let mut turn = [0.0; 2];
    for (slot, job) in turn.iter_mut().zip(JOBS) {
        *slot = measure(actor, job)?;
    }
    Ok(turn)
}

fn print(rows: &[Row]) -> Result<()> {
    println!("| in place | `getppid`, ns | more than bare | `openat` + `close`, ns | more than bare |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    let mut part = "";
    for row in rows {
        if row.part != part {
            part = row.part;
            println!("| *{part}* | | | | |");
        }
        let mut line = format!("| {} |", row.name);
        for job in 0..JOBS.len() {
            let of = |values: &[f64]| Spread::of(values).context("no round was free of other observers");
            let (turns, more) = (of(&row.turns[job])?, of(&row.more[job])?);
            if part.is_empty() {
                write!(line, " {turns} | |")?;
            } else {
                write!(line, " {turns} | {} |", signed(more))?;
            }
        }
        println!("{line}");
    }
    Ok(())
}

/// A difference, with its sign.
fn signed(spread: Spread) -> String {
    let Spread { first_quartile, median, third_quartile } = spread;
    format!("{median:+.0} ({first_quartile:+.0}…{third_quartile:+.0})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_every_row_once_and_bare_turns_between() {
        for round in 0..40 {
            let mut order = order(17, round);
            assert_eq!(order[0], 0);
            order.retain(|index| *index != 0);
            order.sort_unstable();
            assert_eq!(order, (1..17).collect::<Vec<_>>());
        }
    }
}
