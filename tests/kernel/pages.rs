//! The report of a real run as a page for a browser, and the page of its bundle.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::formats::Format;
use crate::harness::sandbox::{ASSAY, json, sandbox, successful};
use crate::needs::{Need, are_met};

/// The block of data in a page.
fn data(page: &str) -> Value {
    let (_, rest) =
        page.split_once("<script type=\"application/json\" id=\"data\">").expect("a block of data");
    serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("JSON")
}

/// What is in both of a run's pages: kind, operation, names, how often, who denied it.
fn effects(data: &Value) -> BTreeSet<String> {
    let effects = data["effects"].as_array().expect("effects");
    let told = |one: &Value| ["k", "o", "n", "t", "h", "d", "u"].map(|key| one[key].to_string()).join(" ");
    effects.iter().map(told).collect()
}

#[test]
fn the_page_of_a_run_has_its_effects_and_when_each_process_was_there() {
    let needs = [Need::Root, Need::Btf, Need::CgroupV2];
    if !are_met("pages::the_page_of_a_run_has_its_effects_and_when_each_process_was_there", &needs) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let script =
        "sh -c 'sleep 0.2; echo x > a; exit 3'; cat a; mkdir '<'; mv a '</script><img src=x>'; sleep 0.1";
    let options = [
        "--dry-run",
        "--profile",
        "p.json",
        "--profile-format",
        "json",
        "--profile-report",
        "p.html",
        "--bundle",
        "b",
    ];
    successful(sandbox(&options, &["sh", "-c", script]).current_dir(folder.path()).output().expect("assay"));
    let page = std::fs::read_to_string(at("p.html")).expect("a page");
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    let evidence = json(&at("p.evidence.json"));
    Format::Evidence.check(&evidence);
    let data_of_run = data(&page);
    let lists = ["fs", "exec", "net"]
        .map(|list| evidence["identity"]["effects"][list].as_array().expect("a list").len());
    assert_eq!(effects(&data_of_run).len(), lists.iter().sum::<usize>());
    assert!(effects(&data_of_run).iter().any(|one| one.contains("</script><img src=x>")), "{data_of_run}");

    // Each process began after the one above it, and all but the first within it.
    let processes = data_of_run["processes"].as_array().expect("processes");
    assert_eq!(processes.len(), 7, "{processes:?}");
    let moment =
        |process: &Value, key: &str| process[key].as_u64().unwrap_or_else(|| panic!("{key}: {process}"));
    for process in processes {
        let (from, to) = (moment(process, "from"), moment(process, "to"));
        assert!(from <= to, "{process}");
        if let Some(up) = process["up"].as_u64() {
            let above = &processes[up as usize];
            assert!(moment(above, "from") <= from && to <= moment(above, "to"), "{process} {above}");
        }
    }
    let of = |words: &str| {
        processes
            .iter()
            .find(|one| one["ran"][0] == words)
            .unwrap_or_else(|| panic!("{words}: {processes:?}"))
    };
    let (first, long) = (of("sleep 0.2"), of("sleep 0.1"));
    assert!(moment(first, "to") - moment(first, "from") >= 200_000, "{first}");
    assert!(moment(long, "from") >= moment(first, "to"), "{first} {long}");
    assert!(processes.iter().any(|one| one["end"] == "exit 3"), "{processes:?}");

    // The bundle's page has the same effects, and no processes.
    successful(
        Command::new(ASSAY)
            .args(["report", "b", "-o", "b.html"])
            .current_dir(folder.path())
            .output()
            .expect("assay"),
    );
    let page = std::fs::read_to_string(at("b.html")).expect("a page");
    assert_eq!(effects(&data(&page)), effects(&data_of_run));
    assert!(
        data(&page)["processes"].as_array().is_some_and(Vec::is_empty)
            && page.contains("A bundle does not tell")
    );
}
