//! Boots Debian's 6.1 kernel in QEMU, in every way that this machine's own kernel is not, and runs the kernel tests in it.
//!
//! In: the test binary. Out: what the machines told, and a table of it for `docs/kernel-support.md`.

mod guest;
mod machine;
mod page;
mod seen;
mod variants;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;

use anyhow::{Context as _, Result, bail};

use crate::again;
use crate::kernel::count;
use crate::step::{self, root};
pub use machine::missing;
use machine::{Told, boot};
use seen::Seen;
pub use seen::unproven;
use variants::{VARIANTS, Variant};

/// What to do.
#[derive(Debug, Default, clap::Args)]
pub struct Options {
    /// Only this way to boot.
    variant: Option<String>,
    /// Write the table of docs/kernel-support.md, which needs all ways to boot and none of the tests.
    #[arg(long, conflicts_with = "variant")]
    table: bool,
    /// Only tests whose names hold one of these.
    #[arg(last = true)]
    filters: Vec<String>,
}

/// So many machines at once: each waits for one processor for much of its time.
const AT_ONCE: usize = 2;

/// Boots each variant, or the one that is named, and runs its tests or those that are named. The tests that ran.
pub fn execute(options: &Options) -> Result<BTreeSet<String>> {
    let is_chosen = |one: &&Variant| options.variant.as_ref().is_none_or(|name| one.name == name);
    let chosen: Vec<&Variant> = VARIANTS.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = VARIANTS.iter().map(|one| one.name).collect();
        bail!("no variant of that name; there are {}", names.join(", "));
    }
    if let Some(missing) = missing() {
        bail!("{missing}");
    }
    let kernel = machine::kernel()?;
    let tests = crate::kernel::build()?;
    let initrd = root().join("target/vm/initramfs");
    let archive = guest::initramfs(&tests)?.archive();
    fs::write(&initrd, archive).with_context(|| format!("write {}", initrd.display()))?;

    let next = Mutex::new(chosen.iter().copied());
    let all: Vec<(&Variant, Result<Told>)> = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            loop {
                let Some(one) = next.lock().expect("nobody panics with it").next() else { return done };
                let mut told = boot(&kernel, &initrd, one, &options.filters);
                show(one, &told);
                if let (true, Ok(told)) = (step::is_ci(), &mut told) {
                    again(told, &options.filters, |filters| {
                        let again = boot(&kernel, &initrd, one, filters);
                        show(one, &again);
                        again
                    });
                }
                done.push((one, told));
            }
        };
        let workers: Vec<_> = (0..AT_ONCE.min(chosen.len())).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker that does not panic")).collect()
    });

    let (mut seen, mut failures) = (Vec::new(), Vec::new());
    for one in &chosen {
        let (_, told) = all.iter().find(|(other, _)| other.name == one.name).context("find what it told")?;
        let failure = match told {
            Ok(told) => {
                seen.push((*one, Seen::read(&told.console)));
                told.failure.clone()
            }
            Err(error) => Some(format!("{error:#}")),
        };
        failures.extend(failure.map(|why| {
            let filters = options.filters.join(" ");
            let filters = if filters.is_empty() { filters } else { format!(" -- {filters}") };
            format!("{}: {why}; to see it again: cargo xtask vm {}{filters}", one.name, one.name)
        }));
    }
    for (one, seen) in &seen {
        println!("{}: {} ran, {} could not", one.name, count(seen.ran.len(), "test"), seen.not_run.len());
    }
    let table = page::table(&seen);
    // What was seen was seen, whatever the tests say to it.
    if options.table && seen.len() == VARIANTS.len() {
        page::write(&table)?;
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    if options.variant.is_none() && options.filters.is_empty() {
        page::compare(&table)?;
    }
    Ok(seen.iter().flat_map(|(_, seen)| seen.ran.iter().cloned()).collect())
}

/// One more boot for the tests that failed, where they are few, or for all where the machine did not come to its end, as
/// an emulated one seldom does not. What it tells is added, and its outcome is the outcome.
fn again(told: &mut Told, all: &[String], boot: impl Fn(&[String]) -> Result<Told>) {
    let failures = again::failures(&told.console);
    let Some(why) = told.failure.as_ref().filter(|_| failures.len() <= again::MOST) else { return };
    println!("once more: {why}");
    let names: Vec<String> = if failures.is_empty() {
        all.to_vec()
    } else {
        failures.iter().map(|failure| failure.name.clone()).collect()
    };
    let Ok(more) = boot(&names) else { return };
    print!("{}", again::summary(&failures, |_| more.failure.is_none()));
    told.failure = more.failure;
    told.console.extend(more.console);
}

/// The console, in one piece though others are booted beside it.
fn show(variant: &Variant, told: &Result<Told>) {
    let lines = told.as_ref().map(|told| told.console.as_slice()).unwrap_or_default();
    let console = lines.join("\n  ");
    println!("{}: Linux 6.1, {}\n  {console}", variant.name, variant.what);
}
