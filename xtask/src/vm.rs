//! Boots Debian's 6.1 kernel in QEMU, in every way that this machine's own kernel is not, and runs the kernel tests in it.
//!
//! In: the test binary. Out: what the machines told, and a table of it for `docs/kernel-support.md`.

mod commands;
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
    /// Write what was seen into docs/kernel-support.md: all ways to boot, where all were; the oracle's workloads that were asked,
    /// which are all of them unless FILTER says otherwise.
    #[arg(long)]
    table: bool,
    /// Only tests whose names hold one of these.
    #[arg(last = true)]
    filters: Vec<String>,
}

/// The module of the oracle's tests.
const ORACLE: &str = "oracle::";
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
    fs::write(&initrd, &archive).with_context(|| format!("write {}", initrd.display()))?;
    let with_commands = root().join("target/vm/initramfs-with-commands");
    if chosen.iter().any(|one| one.has_commands) {
        // The kernel unpacks one archive after the other.
        let both = [archive, commands::archive()?.archive()].concat();
        fs::write(&with_commands, both).with_context(|| format!("write {}", with_commands.display()))?;
    }
    let workloads = page::workloads()?;
    let initrd = |one: &Variant| if one.has_commands { &with_commands } else { &initrd };

    let next = Mutex::new(chosen.iter().copied());
    let all: Vec<(&Variant, Result<Told>)> = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            loop {
                let Some(one) = next.lock().expect("nobody panics with it").next() else { return done };
                let filters = filters(one, options, &workloads);
                let mut told = boot(&kernel, initrd(one), one, &filters);
                show(one, &told);
                if let (true, Ok(told)) = (step::is_ci(), &mut told) {
                    again(told, &filters, |filters| {
                        let again = boot(&kernel, initrd(one), one, filters);
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
    let asked = asked(options, &workloads);
    if chosen.iter().any(|one| one.has_commands) {
        let names: Vec<&str> = asked.iter().map(String::as_str).collect();
        println!("of the oracle's {}: {}", count(workloads.len(), "workload"), names.join(", "));
    }
    let tables = page::tables(&seen, &asked)?;
    // What was seen was seen, whatever the tests say to it.
    if options.table {
        page::write(&tables, seen.len() == VARIANTS.len())?;
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    if options.variant.is_none() && options.filters.is_empty() {
        page::compare(&tables)?;
    }
    Ok(seen.iter().flat_map(|(_, seen)| seen.ran.iter().cloned()).collect())
}

/// What a machine is asked; nothing stands for all that its row says.
fn filters(one: &Variant, options: &Options, workloads: &[String]) -> Vec<String> {
    if !options.filters.is_empty() || options.table || !one.has_commands {
        return options.filters.clone();
    }
    let others = one.filters.iter().filter(|filter| **filter != ORACLE).map(|filter| (*filter).to_owned());
    others.chain(asked(options, workloads).iter().map(|name| format!("{ORACLE}{name}"))).collect()
}

/// The workloads that are asked: every second one, from the second on, where neither a filter nor a table asks for more. All
/// of them, emulated, take minutes.
fn asked(options: &Options, workloads: &[String]) -> BTreeSet<String> {
    let is_named =
        |name: &str| options.filters.iter().any(|filter| format!("{ORACLE}{name}").contains(filter.as_str()));
    let is_asked = |(number, name): &(usize, &String)| match (&options.filters[..], options.table) {
        ([], true) => true,
        ([], false) => number % 2 == 1,
        _ => is_named(name),
    };
    workloads.iter().enumerate().filter(is_asked).map(|(_, name)| name.clone()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_asks_for_all_workloads_ci_for_half_and_a_filter_for_its_own() {
        let all = ["a_a", "b_b", "c_c", "d_d"].map(str::to_owned);
        let names = |options: &Options| asked(options, &all).into_iter().collect::<Vec<_>>().join(" ");
        let mut options = Options::default();
        assert_eq!(names(&options), "b_b d_d");
        let lsm = VARIANTS.iter().find(|one| one.has_commands).expect("one with commands");
        let filters = filters(lsm, &options, &all);
        assert_eq!(filters.len(), lsm.filters.len() + 1, "{filters:?}");
        assert!(filters.iter().any(|filter| filter == "oracle::d_d"), "{filters:?}");
        assert!(filters.iter().all(|filter| filter != ORACLE), "{filters:?}");
        let real = super::filters(lsm, &options, &page::workloads().expect("the oracle's page"));
        // COMMAND_LINE_SIZE on x86.
        assert!(real.len() > filters.len() && lsm.command_line(&real).len() < 2048, "{real:?}");
        options.table = true;
        assert_eq!(names(&options), "a_a b_b c_c d_d");
        options.filters = vec!["oracle::c".to_owned()];
        assert_eq!(names(&options), "c_c");
        options.filters = vec!["witness::".to_owned()];
        assert_eq!(names(&options), "");
    }
}
