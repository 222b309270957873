//! A command, run once → how it ended, how long it took by the clock and of the processors, and its peak memory.

use std::process::Command;

use anyhow::{Result, bail};

use crate::step::output;

/// Runs a command and prints how it ended, seconds by the clock, seconds of the processors, and peak memory in KiB. What a
/// process and its children have used is known to its parent alone, and Rust's library does not ask. What Python is started by
/// (a shell of pyenv's) may have had children before.
const WATCH: &str = "\
import os, resource, sys, time
before = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(os.devnull, 'w') as nothing:
    start = time.monotonic()
    child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nothing.fileno(), 1)])
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    took = time.monotonic() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
busy = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
print(status, took, busy, used.ru_maxrss)
";

/// What was seen of it.
#[derive(Debug, Clone, Copy)]
pub struct Watched {
    /// Its exit code, negative for a signal.
    pub status: i32,
    /// Seconds by the clock.
    pub clock: f64,
    /// Seconds that processors were busy with it and what it started, as far as that was waited for.
    pub busy: f64,
    /// The most memory that one of them had.
    pub kib: u64,
}

/// Runs `words`; `prepare` says where and with what.
pub fn watch<W: AsRef<str>>(words: &[W], prepare: impl FnOnce(&mut Command)) -> Result<Watched> {
    let mut command = Command::new("python3");
    command.args(["-c", WATCH]).args(words.iter().map(AsRef::as_ref));
    prepare(&mut command);
    let text = output(&mut command)?;
    let told: Vec<&str> = text.split_whitespace().collect();
    let number = |at: usize| told.get(at).and_then(|word| word.parse::<f64>().ok());
    let (Some(status), Some(clock), Some(busy), Some(kib)) = (number(0), number(1), number(2), number(3))
    else {
        bail!("{}: {text}", words.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" "));
    };
    Ok(Watched { status: status as i32, clock, busy, kib: kib as u64 })
}
