//! Who belongs to a run: its own processes, wherever they go, and nobody else.

use std::fs;
use std::process::{Child, Stdio};

use crate::harness::sandbox::{sandbox, text};
use crate::harness::trace;
use crate::needs::{Need, are_met};

const NEEDS: [Need; 3] = [Need::Root, Need::Btf, Need::CgroupV2];
/// Sandboxes at once.
const RUNS: usize = 20;

#[test]
fn twenty_sandboxes_at_once_each_record_their_own_command() {
    if !are_met("scope::twenty_sandboxes_at_once_each_record_their_own_command", &NEEDS) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().canonicalize().expect("its name");
    let file = |run: usize, name: &str| base.join(format!("{name}-{run}"));
    let mut children: Vec<Child> = Vec::new();
    for run in 0..RUNS {
        fs::write(file(run, "mark"), "x").expect("a file");
        let trace = file(run, "trace");
        // All of them are at it at the same time: each waits for the last to have begun.
        let script = format!(
            ": > {begun}; until [ $(ls {base} | grep -c begun-) = {RUNS} ]; do sleep 0.05; done; cat {mark}; (cat {mark} &) ; sleep 0.1",
            begun = file(run, "begun").display(),
            base = base.display(),
            mark = file(run, "mark").display(),
        );
        let child = sandbox(&["--dry-run", "--trace", &trace.to_string_lossy()], &["sh", "-c", &script])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("assay starts");
        children.push(child);
    }
    for (run, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().expect("it ends");
        assert!(
            matches!(output.status.code(), Some(0 | 4)),
            "{run}: {}: {}",
            output.status,
            text(&output.stderr)
        );
    }
    for run in 0..RUNS {
        let whole = fs::read_to_string(file(run, "trace")).expect("a trace");
        let trace = trace::read(&whole).expect("a trace that is whole");
        assert_eq!(trace.lost, 0);
        let opens_of = |other: usize| {
            let path = file(other, "mark").to_string_lossy().into_owned().into_bytes();
            trace.lines.iter().filter(|line| line.op == "open" && line.path.as_ref() == Some(&path)).count()
        };
        for other in 0..RUNS {
            assert_eq!(opens_of(other), if other == run { 2 } else { 0 }, "what {run} tells of {other}");
        }
    }
}
