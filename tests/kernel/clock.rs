//! The host's clock is set while a run lasts, which only a machine that was booted for it lets a test do.

use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libc::{AT_FDCWD, O_CREAT, O_WRONLY};

use crate::actor::{Act, act, call};
use crate::harness::sandbox::{ASSAY, wait_until};
use crate::needs::{Need, are_met};
use crate::stage::{Stage, command_of};

const DAY: u64 = 24 * 60 * 60;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn set(seconds: u64) {
    let at = format!("@{seconds}");
    let set = Command::new("busybox").args(["date", "-s", &at]).output().expect("busybox");
    assert!(set.status.success() && now().abs_diff(seconds) < 600, "the clock was not set");
}

/// The clock as it was, whatever becomes of the test.
struct Clock(u64);

impl Drop for Clock {
    fn drop(&mut self) {
        set(self.0);
    }
}

#[test]
fn a_clock_that_is_set_during_a_run_moves_neither_its_duration_nor_its_order() {
    let test = "clock::a_clock_that_is_set_during_a_run_moves_neither_its_duration_nor_its_order";
    if !are_met(test, &[Need::Booted]) {
        return;
    }
    let Some(stage) = Stage::new(test) else { return };
    let create = |path: &str| {
        call(libc::SYS_openat, [AT_FDCWD.into(), path.into(), (O_WRONLY | O_CREAT).into(), 0o644.into()])
    };
    let wait = |name: &str| act(Act::Await(stage.path(name).into_os_string().into_encoded_bytes()));
    let steps = [
        act(Act::Patience(300)),
        create("first"),
        wait("back"),
        create("second"),
        wait("forth"),
        create("third"),
    ];
    let command = command_of(&steps);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let start = now();
    let clock = Clock(start);
    let child = stage.command(&command).spawn().expect("assay");
    wait_until("the first act", || stage.path("first").exists());
    set(start - 2 * DAY);
    stage.file("back", "");
    wait_until("the second act", || stage.path("second").exists());
    set(start + 5 * DAY);
    stage.file("forth", "");
    let played = stage.read(&child.wait_with_output().expect("assay"));
    drop(clock);

    stage.check_coverage(&played);
    assert_eq!(played.outcome["child"]["exit_code"], 0, "{}", played.stderr);
    let lasted = played.evidence["observed"]["duration_ms"].as_u64().expect("a duration");
    assert!(Duration::from_millis(lasted) < Duration::from_secs(DAY), "{lasted} ms");
    let times: Vec<u64> = played.trace.iter().map(|line| line["t_ns"].as_u64().expect("a time")).collect();
    assert!(times.is_sorted() && times.last().is_some_and(|last| *last < DAY * 1_000_000_000), "{times:?}");
    let position = |name: &str| {
        let path = stage.at(name);
        let of = |line: &serde_json::Value| line["path"] == path.as_str() && line["result"] == "ok";
        played.trace.iter().position(of)
    };
    let order = ["first", "second", "third"].map(|name| position(name).expect(name));
    assert!(order.is_sorted(), "{order:?}");
    let bundle = stage.artifact("bundle.tar.gz");
    assert!(fs::metadata(&bundle).is_ok(), "no bundle");
    let verified = Command::new(ASSAY).args(["evidence", "verify"]).arg(&bundle).output().expect("assay");
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
}
