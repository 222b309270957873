//! Small files, and the complaints about them; then the tree itself.

use super::*;

fn check(name: &str, text: &str, expect: &[&str]) {
    let text = format!("//! A file.\n{text}");
    let complaints = of_source(&Source::new(name, &text));
    let expect: Vec<String> = expect.iter().map(|complaint| format!("{name}:{complaint}")).collect();
    assert_eq!(complaints, expect);
}

#[test]
fn the_tree_is_tidy() {
    let complaints = complaints(&root()).expect("a checkout");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_file_says_what_it_is() {
    let complaints = of_source(&Source::new("assay/src/canon/utils.rs", "fn a() {}\n"));
    assert_eq!(complaints.len(), 2, "{complaints:?}");
}

#[test]
fn a_file_is_short_but_for_its_tests() {
    let long = "// line\n".repeat(500);
    check("assay/src/canon/a.rs", &long, &["500: 501 lines without tests; 500 is the limit"]);
    check("assay/src/canon/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{long}}}\n"), &[]);
}

#[test]
fn arrows_never_point_back() {
    check(
        "assay/src/canon/a.rs",
        "use crate::profile::Effect;\n",
        &["2: `canon` may not import `profile::Effect`"],
    );
    check("assay/src/profile/a.rs", "use crate::observe::observation::Act;\n", &[]);
    check(
        "assay/src/profile/a.rs",
        "use crate::{canon::Digest, report};\n",
        &["2: `profile` may not import `report`"],
    );
    check(
        "assay/src/profile/a.rs",
        "use crate::{\n    canon::Digest,\n    report,\n};\n",
        &["2: `profile` may not import `report`"],
    );
    check("assay/src/observe/a.rs", "use super::kernel::ring;\nuse super::event::Event;\n", &[]);
    check("assay/src/observe/kernel/a.rs", "use super::super::event::Event;\nuse crate::host::Host;\n", &[]);
    check(
        "assay/src/policy/a.rs",
        "fn f() { super::super::report::text() }\n",
        &["2: `policy` may not import `report::text`"],
    );
    check("assay/src/canon/a.rs", "#[cfg(test)]\nmod tests {\n    use crate::profile::Effect;\n}\n", &[]);
}

#[test]
fn outside_crates_and_the_world_have_their_places() {
    check("assay/src/observe/kernel/ring.rs", "use aya::Ebpf;\n", &[]);
    check("assay/src/canon/a.rs", "use aya::Ebpf;\n", &["2: only assay/src/observe/kernel/ may name `aya`"]);
    check("assay/src/canon/a.rs", "use std::fs::File;\n", &["2: `std::fs` in a module that is pure"]);
    check("assay/src/sandbox/a.rs", "use std::fs::File;\n", &[]);
}

#[test]
fn only_one_file_prints_and_few_are_unsafe() {
    check(
        "assay/src/sandbox/a.rs",
        "fn f() { println!(\"x\") }\n",
        &["2: `println!`: only cli::output prints"],
    );
    check("assay/src/cli/output.rs", "fn f() { eprintln!(\"x\") }\n", &[]);
    check(
        "assay/src/sandbox/a.rs",
        "fn f() { unsafe { g() } }\n",
        &["2: `unsafe` in a file that is not listed for it"],
    );
    check("assay/src/sandbox/a.rs", "// unsafe in a comment\n#![deny(unsafe_code)]\n", &[]);
}

#[test]
fn a_merge_is_finished() {
    let page = format!("a\n{0} HEAD\nb\n=======\nc\n{1} them\n", "<".repeat(7), ">".repeat(7));
    assert_eq!(
        unfinished_merges("x.md", &page),
        ["x.md:2: the mark of a merge", "x.md:6: the mark of a merge"]
    );
    assert!(unfinished_merges("x.md", "a\n=======\n <<<<<<< quoted\n").is_empty());
}
