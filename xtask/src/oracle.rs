//! Runs the oracle and writes what it counted into `docs/oracle.md`.
//!
//! In: the rows that the kernel tests `oracle` leave. Out: the page. A comparison that fails is in the table too.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::kernel;
use crate::step::{output, root};

const PAGE: &str = "docs/oracle.md";
const HEAD: &str = "\
# The oracle

Is the record whole, and is all of it true? An independent witness says: `strace` runs inside `assay sandbox`, so that
both watch the *same* execution of a real command.
Every call that strace saw (files, programs, network; those that succeeded and those that failed) must be in the trace
once, with the thread, the path the kernel went to, the access, the endpoint and the result; and every line of the trace
must be a call that strace saw.

| command | calls strace saw | told as they were | missing | without a call | lost | strace's own | not asked |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";

/// Runs it and writes the page.
pub fn execute() -> Result<()> {
    let rows = root().join("target/oracle-rows");
    if rows.exists() {
        fs::remove_dir_all(&rows).with_context(|| format!("empty {}", rows.display()))?;
    }
    fs::create_dir_all(&rows).with_context(|| format!("make {}", rows.display()))?;
    let outcome =
        kernel::execute(&["oracle::".to_owned()], &[("ASSAY_ORACLE_ROWS", &rows.to_string_lossy())]);

    let mut lines = Vec::new();
    for entry in fs::read_dir(&rows)? {
        lines.push(fs::read_to_string(entry?.path())?);
    }
    lines.sort();
    if lines.is_empty() {
        bail!("the oracle counted nothing: {:?}", outcome.err());
    }
    let sum = |column: usize| -> u64 {
        lines.iter().filter_map(|line| line.split('|').nth(column)?.trim().parse::<u64>().ok()).sum()
    };
    let (expected, matched, extra) = (sum(2), sum(3), sum(5));
    let page = format!(
        "{HEAD}{}\n**{} commands, {expected} calls: recall {}, precision {}, {} lost.**\n\n\
         Made by `cargo xtask oracle` on Linux {} with {}.\n\
         *strace's own* are lines about strace itself, before and beside the command.\n\
         *Not asked* are lines about what strace was not asked for: processes that begin and end, and writes through\n\
         descriptors older than the run.\n\
         The tests are in `tests/kernel/oracle.rs`, what reads strace's listing in `tests/kernel/harness/`.\n",
        lines.concat(),
        lines.len(),
        percent(matched, expected),
        percent(matched, matched + extra),
        sum(6),
        output(crate::step::command("uname").arg("-r"))?,
        output(crate::step::command("strace").arg("--version"))?.lines().next().unwrap_or_default(),
    );
    fs::write(root().join(PAGE), page).with_context(|| format!("write {PAGE}"))?;
    println!("{PAGE}: {} commands", lines.len());
    outcome.map(drop)
}

/// Rounded down, so that 100 % means all.
fn percent(part: u64, whole: u64) -> String {
    let hundredths = (part * 10_000).checked_div(whole).unwrap_or(0);
    if hundredths.is_multiple_of(100) {
        format!("{} %", hundredths / 100)
    } else {
        format!("{}.{:02} %", hundredths / 100, hundredths % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_percent_means_all() {
        assert_eq!(percent(3, 3), "100 %");
        assert_eq!(percent(99_999, 100_000), "99.99 %");
        assert_eq!(percent(0, 0), "0 %");
    }
}
