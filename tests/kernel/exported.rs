//! What a real run leaves is exported: every effect of its evidence a line, every act of its trace on the time line.

use std::process::Command;

use serde_json::Value;

use crate::harness::sandbox::{ASSAY, run, successful, text};
use crate::needs::{Need, are_met};

#[test]
fn every_effect_is_a_line_and_every_act_is_on_the_time_line() {
    let needs = [Need::Root, Need::Btf, Need::CgroupV2];
    if !are_met("exported::every_effect_is_a_line_and_every_act_is_on_the_time_line", &needs) {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("a plain name").to_owned();
    let (profile, bundle, trace) = (at("run.json"), at("run.tar.gz"), at("run.trace.ndjson"));
    let options = ["--dry-run", "--profile", &profile, "--profile-format", "json", "--bundle", &bundle];
    let script = "cd \"$1\"; for n in 1 2 3; do echo $n > $n; cat $n; done; mv 1 4; rm 2; cat missing; true";
    let command = ["sh", "-c", script, "sh", &at("")];
    run(&[&options[..], &["--trace", &trace]].concat(), &command);
    let export = |args: &[&str]| {
        let output = Command::new(ASSAY).args(["evidence", "export"]).args(args).output().expect("assay");
        text(&successful(output).stdout)
    };

    let evidence = std::fs::read_to_string(at("run.evidence.json")).expect("evidence");
    let evidence: Value = serde_json::from_str(&evidence).expect("JSON");
    let lines = export(&[&bundle, "--format", "jsonl"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for kind in ["fs", "exec", "net"] {
        let effects = evidence["identity"]["effects"][kind].as_array().map_or(0, Vec::len);
        let told = lines.iter().filter(|line| line["kind"] == kind).count();
        assert_eq!(told, effects, "{kind}");
    }
    assert_eq!(lines[0]["run_id"], evidence["run_id"]);
    assert_eq!(lines[0]["started_at"], evidence["observed"]["started_at"]);

    let acts = std::fs::read_to_string(&trace).expect("a trace");
    let end: Value = serde_json::from_str(acts.lines().last().expect("a line")).expect("JSON");
    let line: Value =
        serde_json::from_str(&export(&["--trace", &trace, "--format", "perfetto"])).expect("JSON");
    let events = line["traceEvents"].as_array().expect("events");
    let count = |letter: &str| events.iter().filter(|event| event["ph"] == letter).count() as u64;
    assert_eq!(Value::from(count("i") + count("B")), end["events"]);
    assert!(count("B") >= 4 && count("B") == count("E"), "{events:?}");
    let missed =
        |event: &&Value| event["name"].as_str().is_some_and(|name| name.ends_with("missing: ENOENT"));
    assert!(events.iter().find(missed).is_some(), "a call that failed");
}
