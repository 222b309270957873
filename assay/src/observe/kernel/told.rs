//! Numbers that the kernel keeps of each program: what its verifier went through, and how often it was passed over.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use assay_common::names::{self, PROGRAMS, Place};

use super::programs::{Programs, ProgramsError, bad_map};
use super::witness;

impl Programs {
    /// How often the kernel passed over a program because it was running already on that processor, for whichever task of
    /// the host.
    pub fn skipped(&self) -> Result<u64, ProgramsError> {
        // All that the kernel gives back to its caches comes by where names do, in interrupts as well; a name that was
        // passed over is missed at the return of its call, which says so.
        self.passed_over(|place| !witness::is_hook(place) && !matches!(place, Place::Names(_)))
    }

    /// The same of programs with such a place. A kernel that does not tell has not said that it passed over none.
    pub(super) fn passed_over(&self, is_asked: impl Fn(Place) -> bool) -> Result<u64, ProgramsError> {
        const WHAT: &str = "recursion_misses:";
        let untold = |program| bad_map(program, format!("the kernel does not tell `{WHAT}`"));
        let told = self.told_of_each(WHAT, is_asked)?;
        told.into_iter().map(|(program, times)| times.ok_or_else(|| untold(program))).sum()
    }

    /// How many instructions the verifier went through for each program. 0 on kernels that do not tell (before 5.16).
    pub fn verified(&self) -> Result<Vec<(&'static str, u64)>, ProgramsError> {
        self.verified_of(|place| !witness::is_hook(place))
    }

    /// The same, for the programs of the second witness.
    pub fn verified_hooks(&self) -> Result<Vec<(&'static str, u64)>, ProgramsError> {
        self.verified_of(witness::is_hook)
    }

    fn verified_of(
        &self,
        is_asked: impl Fn(Place) -> bool,
    ) -> Result<Vec<(&'static str, u64)>, ProgramsError> {
        let told = self.told_of_each("verified_insns:", is_asked)?;
        Ok(told.into_iter().map(|(program, count)| (program, count.unwrap_or(0))).collect())
    }

    /// How long each program ran and how often; nothing where the kernel does not measure it (`kernel.bpf_stats_enabled`).
    pub fn times(&self) -> Result<Vec<(&'static str, Duration, u64)>, ProgramsError> {
        let times = self.told_of_each("run_time_ns:", |_| true)?;
        let counts = self.told_of_each("run_cnt:", |_| true)?;
        let both = times.into_iter().zip(counts);
        Ok(both
            .filter_map(|((name, nanos), (_, count))| Some((name, Duration::from_nanos(nanos?), count?)))
            .filter(|(_, _, count)| *count > 0)
            .collect())
    }

    /// A number that the kernel keeps of each program, for those with such a place; `None` where it tells none.
    fn told_of_each(
        &self,
        what: &str,
        is_asked: impl Fn(Place) -> bool,
    ) -> Result<Vec<(&'static str, Option<u64>)>, ProgramsError> {
        let mut all = Vec::new();
        for program in PROGRAMS.into_iter().filter(|program| is_asked(program.place)) {
            let Some(fd) = self.loaded.programs.get(program.name) else { continue };
            // The kernel tells it nowhere else that needs no newer library.
            let path = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
            let info = fs::read_to_string(&path).map_err(|error| bad_map(names::TAILS, error))?;
            let told = info.lines().find_map(|line| line.strip_prefix(what));
            all.push((program.name, told.and_then(|number| number.trim().parse().ok())));
        }
        Ok(all)
    }
}
