//! What a machine told on its console, taken apart: pure.

use std::collections::BTreeSet;

use super::guest::{NOT_RUN, SEEN};

/// Needs that no host of CI meets, so that a boot must.
const FOR_A_BOOT: &[&str] = &["limited-landlock", "cannot-observe", "bpf-lsm", "booted"];

/// What one machine told.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What was asked, and a line of the answer.
    pub answers: Vec<(String, String)>,
    /// The tests that ran to their end and did so for their subject.
    pub ran: BTreeSet<String>,
    /// Those that could not, each with its need.
    pub not_run: Vec<String>,
}

impl Seen {
    /// Reads a console.
    pub fn read(console: &[String]) -> Self {
        let mut seen = Self::default();
        for line in console {
            if let Some((_, answer)) = line.split_once(SEEN) {
                if let Some((what, answer)) = answer.trim_start().split_once(": ") {
                    seen.answers.push((what.to_owned(), answer.trim().to_owned()));
                }
            } else if let Some(told) = line.strip_prefix(NOT_RUN) {
                seen.not_run.push(told.to_owned());
            } else if let Some(test) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ok"))
            {
                seen.ran.insert(last(test.0).to_owned());
            }
        }
        for told in &seen.not_run {
            seen.ran.remove(name(told));
        }
        seen
    }

    /// The lines that answer this.
    pub fn all<'a>(&'a self, what: &'a str) -> impl Iterator<Item = &'a str> {
        self.answers.iter().filter(move |(asked, _)| asked == what).map(|(_, answer)| &**answer)
    }
}

/// Tests that the host could not run, for what only a boot has, and that no machine ran.
pub fn unproven(not_run_on_host: &[String], ran: &BTreeSet<String>) -> Vec<String> {
    let is_for_a_boot = |told: &&String| {
        let need =
            told.split_once(": needs ").map_or("", |(_, rest)| rest.split(':').next().unwrap_or_default());
        FOR_A_BOOT.contains(&need)
    };
    let lines = not_run_on_host.iter().filter(is_for_a_boot);
    lines.filter(|told| !ran.contains(name(told))).cloned().collect()
}

/// The test of a line about one that could not run.
fn name(told: &str) -> &str {
    last(told.split(": ").next().unwrap_or_default())
}

/// Some tests name themselves without their module.
fn last(test: &str) -> &str {
    test.rsplit("::").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_test_that_could_not_run_did_not_run() {
        let console = lines(
            "assay-vm-seen: doctor: missing  btf: not there\n\
             test a::one ... ok\ntest a::two ... ok\ntest a::three ... FAILED\n\
             not run: two: needs landlock-7: too old\n",
        );
        let seen = Seen::read(&console);
        assert_eq!(seen.all("doctor").collect::<Vec<_>>(), ["missing  btf: not there"]);
        assert_eq!(seen.ran.iter().collect::<Vec<_>>(), ["one"]);
        assert_eq!(seen.not_run, ["two: needs landlock-7: too old"]);
    }

    #[test]
    fn what_only_a_boot_has_must_have_been_booted() {
        let host = lines(
            "a::one: needs limited-landlock: it has it\na::two: needs cannot-observe: it can\n\
             a::three: needs program-npm: not on PATH\n",
        );
        let ran = BTreeSet::from(["one".to_owned()]);
        assert_eq!(unproven(&host, &ran), ["a::two: needs cannot-observe: it can"]);
    }
}
