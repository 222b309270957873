//! Ways to hook system calls, side by side: the measurement behind `docs/decisions/0003-hooks.md`.
//!
//! In: this kernel, and root. Out: tables on stdout, as they stand on that page. What a way sees is tried first; the
//! command fails if the way we chose does not see what the page says. Costs are processor time of the calling thread, in
//! short turns that alternate: bare, first way, second way, …, bare again, so that a busy machine troubles all alike.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::actor::{self, Actor, Job};
use super::group::Group;
use super::spread::Spread;
use crate::step;

mod costs;
mod observer;
mod reach;
mod start;
mod ways;

use costs::Extent;
use observer::Observer;
use ways::Workbench;

#[derive(Debug, clap::Args)]
pub struct Options {
    /// Turns of each way.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(3..))]
    rounds: u32,
    /// Seconds after which no turn of the costs begins, be the rounds done or not: a host that others observe makes it
    /// wait.
    #[arg(long, default_value_t = 75)]
    patience: u32,
    /// Leave the real observer out: only the programs made here.
    #[arg(long)]
    without_observer: bool,
}

/// Measures and prints.
pub fn execute(options: &Options) -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        bail!("the programs here read the registers of x86-64");
    }
    if !step::is_root() {
        bail!("attaching programs to the kernel needs root");
    }
    let processors = std::thread::available_parallelism()?.get();
    let observer = if options.without_observer { None } else { Some(Observer::build(processors - 1)?) };
    let group = Group::new()?;
    let bench = Workbench::new(&group)?;
    let mut outside = Actor::start(processors - 1)?;
    let mut inside = Actor::start(processors - 1)?;
    group.admit(inside.pid())?;
    actor::pin(0)?;

    machine("before", processors)?;
    reach::execute(&bench, &mut inside)?;
    start::execute(&bench)?;
    let extent = Extent { rounds: options.rounds, patience: Duration::from_secs(options.patience.into()) };
    costs::execute(&bench, extent, observer.as_ref(), &mut outside, &mut inside)?;
    machine("after", processors)
}

/// Says on what, and how busy it is.
fn machine(when: &str, processors: usize) -> Result<()> {
    let load = fs::read_to_string("/proc/loadavg")?;
    let load: Vec<&str> = load.split(' ').take(3).collect();
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    println!("Linux {release}, {processors} processors, load {when}: {}\n", load.join(" "));
    Ok(())
}

/// Bursts of a turn that count.
const BURSTS: u32 = 5;

/// Operations of one burst.
const fn burst(job: Job) -> u32 {
    if matches!(job, Job::Getppid) { 3000 } else { 600 }
}

/// Operations of one turn, those before the bursts included.
const fn operations(job: Job) -> u32 {
    burst(job) * BURSTS + burst(job) / 4
}

/// Nanoseconds an operation: the median of a few bursts, after a short one that does not count.
fn measure(actor: &mut Actor, job: Job) -> Result<f64> {
    let times = burst(job);
    actor.run(job, times / 4)?;
    let mut bursts = Vec::new();
    for _ in 0..BURSTS {
        bursts.push(actor.run(job, times)?.as_secs_f64() * 1e9 / f64::from(times));
    }
    Ok(Spread::of(&bursts).context("measure at least once")?.median)
}
