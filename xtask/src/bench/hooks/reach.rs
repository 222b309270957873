//! What each way sees of calls that are easy to miss.
//!
//! In: the measured process, which is of the run. Out: a table; an error if the chosen way misses one.

use anyhow::{Result, bail};

use super::super::actor::{Actor, Job};
use super::super::programs::{Body, Hook, counter};
use super::ways::{Call, OPENAT, Way, Workbench};

/// Calls of each kind.
const CALLS: u32 = 100;
/// `open` by the 32-bit entry.
const COMPAT_OPEN: i32 = 5;
const OPEN: Call = Call { name: "open", nr: libc::SYS_open as i32, arguments: 3 };

/// Tries and prints.
pub fn execute(bench: &Workbench, actor: &mut Actor) -> Result<()> {
    println!(
        "| where | 32-bit `open` seen | native seen | string not paged in: read | unreadable | arguments as given |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (way, hook, name) in [
        (Way::RawBoth, Hook::RawEnter, "raw `sys_enter`"),
        (Way::RawExit, Hook::RawExit, "raw `sys_exit`"),
        (Way::TypedExit, Hook::TypedExit, "`tp_btf` `sys_exit`"),
        (Way::Pair(OPENAT), Hook::CallEnter(OPENAT.arguments), "`syscalls/sys_enter_*`"),
        (Way::Pair(OPENAT), Hook::CallExit, "`syscalls/sys_exit_*`"),
    ] {
        let compat = compat(bench, actor, way, hook)?;
        let native = witness(bench, actor, way, hook)?;
        let shown = |index: u32| {
            let has_it = index == counter::SEEN || hook != Hook::CallExit;
            if has_it { native[index as usize].to_string() } else { "not in its record".to_owned() }
        };
        println!(
            "| {name} | {compat} | {} | {} | {} | {} |",
            shown(counter::SEEN),
            shown(counter::STRING),
            shown(counter::NO_STRING),
            // The record of an entry holds the arguments the call is declared with.
            if hook == Hook::CallEnter(OPENAT.arguments) {
                "the declared four".to_owned()
            } else {
                shown(counter::ARGUMENTS)
            }
        );
        let all = u64::from(CALLS);
        if hook == Hook::RawExit && (compat != all || native != [all, all, 0, all]) {
            bail!(
                "raw sys_exit saw {compat} and {native:?} of {all} calls each: docs/decisions/0003-hooks.md rests on all"
            );
        }
        if hook == Hook::CallExit && native[0] != all {
            bail!(
                "the tracepoint pair saw {} of {all} native calls: this comparison is not sound",
                native[0]
            );
        }
    }
    println!("\n{CALLS} calls each.");
    starts(bench, actor)
}

/// Of a program that was started, raw `sys_exit` is too late: the registers are the new program's.
fn starts(bench: &Workbench, actor: &mut Actor) -> Result<()> {
    const STARTS: u32 = 10;
    let body = Body::CountWithArgument(libc::SYS_execve as i32);
    let attached = bench.attach(Way::RawExit, &[(Hook::RawExit, body)])?;
    bench.take_counts()?;
    actor.run(Job::Start, STARTS)?;
    drop(attached);
    let counts = bench.take_counts()?;
    println!(
        "{STARTS} programs started: raw `sys_exit` saw {} returns of `execve`, {} of them with the first argument left.",
        counts[counter::SEEN as usize],
        counts[counter::ARGUMENTS as usize]
    );
    for (hook, name) in [(Hook::RawExit, "raw"), (Hook::TypedExit, "`tp_btf`")] {
        let answer = if bench.can_share(hook)? { "yes" } else { "no" };
        println!(
            "Can `sys_exit` and `sched_process_exec` programs that are {name} go on with the same ones? {answer}."
        );
    }
    println!();
    Ok(())
}

/// How many opens by the 32-bit entry are seen.
fn compat(bench: &Workbench, actor: &mut Actor, way: Way, hook: Hook) -> Result<u64> {
    let mut attached = Vec::new();
    if let Way::Pair(_) = way {
        // Under whichever of these numbers a per-call tracepoint might tell it, it is counted.
        for call in [OPEN, OPENAT] {
            let hook = if hook == Hook::CallExit { hook } else { Hook::CallEnter(call.arguments) };
            attached.push(bench.attach(Way::Pair(call), &[(hook, Body::Count(call.nr))])?);
        }
    } else {
        attached.push(bench.attach(way, &[(hook, Body::Count(COMPAT_OPEN))])?);
    }
    bench.take_counts()?;
    actor.run(Job::Compat, CALLS)?;
    Ok(bench.take_counts()?[counter::SEEN as usize])
}

/// What is seen of native opens whose string nobody touched before the kernel.
fn witness(bench: &Workbench, actor: &mut Actor, way: Way, hook: Hook) -> Result<[u64; 4]> {
    let body = if hook == Hook::CallExit { Body::Count(OPENAT.nr) } else { Body::Witness(OPENAT.nr) };
    // The measured process opens two files of its own for this job; they are not of interest.
    actor.run(Job::Untouched, 0)?;
    let attached = bench.attach(way, &[(hook, body)])?;
    bench.take_counts()?;
    actor.run(Job::Untouched, 0)?;
    let own = bench.take_counts()?;
    actor.run(Job::Untouched, CALLS)?;
    drop(attached);
    let counts = bench.take_counts()?;
    Ok(std::array::from_fn(|index| counts[index] - own[index]))
}
