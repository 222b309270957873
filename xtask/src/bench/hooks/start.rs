//! What it takes to attach each way, and to detach it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use assay_common::calls::ROWS;

use super::super::bpf;
use super::super::programs::{Body, Hook};
use super::super::spread::Spread;
use super::ways::{Way, Workbench};

const ROUNDS: usize = 5;
/// Turns of the pairs, of which one takes many seconds.
const PAIRS_ROUNDS: usize = 1;

/// Measures and prints.
pub fn execute(bench: &Workbench) -> Result<()> {
    println!("| programs in place | descriptors | attach, ms | detach, ms |");
    println!("| --- | ---: | ---: | ---: |");
    for way in [Way::RawExit, Way::RawBoth, Way::TypedExit] {
        let (mut attach, mut detach, mut descriptors) = (Vec::new(), Vec::new(), 0);
        for _ in 0..ROUNDS {
            // A tracepoint that was just left makes the next one wait until nobody is in it any more.
            std::thread::sleep(Duration::from_millis(300));
            let began = Instant::now();
            let attached = bench.attach(way, &way.same(Body::Empty))?;
            attach.push(milliseconds(began));
            descriptors = attached.len();
            let began = Instant::now();
            drop(attached);
            detach.push(milliseconds(began));
        }
        row(&way.name(), descriptors, &attach, &detach)?;
    }
    pairs(bench)
}

/// The pairs of every call that is observed and has one.
fn pairs(bench: &Workbench) -> Result<()> {
    let mut events = Vec::new();
    for call in ROWS.iter().filter(|row| row.native.is_some()) {
        let ends = ["enter", "exit"].map(|end| bench.tracefs.syscall(&format!("sys_{end}_{}", call.name)));
        if let [Ok(Some(enter)), Ok(Some(exit))] = ends {
            events.push((enter, exit));
        }
    }
    let (mut attach, mut detach) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS_ROUNDS {
        let began = Instant::now();
        let enter = bench.load(Hook::CallEnter(0), Body::Empty)?;
        let exit = bench.load(Hook::CallExit, Body::Empty)?;
        let mut links = Vec::new();
        for &(at_enter, at_exit) in &events {
            links.push(bpf::attach_event(&enter, at_enter)?);
            links.push(bpf::attach_event(&exit, at_exit)?);
        }
        attach.push(milliseconds(began));
        let began = Instant::now();
        drop(links);
        detach.push(milliseconds(began));
    }
    row(&format!("the pairs of {} observed calls", events.len()), 2 * events.len(), &attach, &detach)?;
    println!(
        "\nLoading of the empty programs included; {ROUNDS} times each, the pairs {PAIRS_ROUNDS} time.\n"
    );
    Ok(())
}

fn row(name: &str, descriptors: usize, attach: &[f64], detach: &[f64]) -> Result<()> {
    let shown = |values: &[f64]| match values {
        [once] => Ok(format!("{once:.1}")),
        _ => Spread::of(values).map(|spread| format!("{spread:.1}")).context("measure at least once"),
    };
    println!("| {name} | {descriptors} | {} | {} |", shown(attach)?, shown(detach)?);
    Ok(())
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}
