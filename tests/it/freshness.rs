//! The object that is checked in is the one its sources make, as far as that can be told without a compiler for it.

use std::path::{Path, PathBuf};

use assay_common::names::{MAPS, PROGRAMS};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

#[path = "../../xtask/src/sources.rs"]
mod sources;

fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the package lies one folder below the root").to_path_buf()
}

fn record() -> String {
    std::fs::read_to_string(root().join(sources::RECORD)).expect("the record beside the object")
}

fn object() -> Vec<u8> {
    std::fs::read(root().join(sources::OBJECT)).expect("the object")
}

#[test]
fn the_object_was_built_from_the_sources_beside_it() {
    let now = sources::digest(&root()).expect("the sources");
    let record = record();
    assert_eq!(
        sources::recorded(&record, "sources"),
        Some(now.as_str()),
        "the sources have moved on since the object was built; run `cargo xtask ebpf build`"
    );
}

/// A workload that is added or dropped, or a row that was made of too few runs, would make the table say too much.
#[test]
fn the_table_of_stability_has_every_workload_and_ten_runs_of_each() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("a file");
    let (page, workloads) = (read("docs/stability.md"), read("tests/kernel/stability/workloads.rs"));
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let mut known: Vec<&str> = workloads
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.split_once(": ["))
        .map(|(name, _)| name)
        .filter(|name| is_name(name))
        .collect();
    let agents = read("tests/kernel/stability/agents.rs");
    known.extend(
        agents.split('"').skip(1).step_by(2).filter(|text| text.starts_with("agent_") && is_name(text)),
    );
    known.sort_unstable();
    let (_, table) = page.split_once("| workload | runs |").expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| "));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(" | ").collect()).collect();
    let told: Vec<&str> = rows.iter().map(|row| row[0].trim_start_matches("| ")).collect();
    assert_eq!(told, known, "docs/stability.md says how its table is made");
    for row in rows {
        assert!(row[1].parse::<u32>().is_ok_and(|runs| runs >= 10), "{row:?}");
    }
}

/// A row of another version than the one that the tests install would say what nobody has run.
#[test]
fn the_table_of_agents_is_of_the_versions_that_are_installed() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("a file");
    let (page, list) = (read("docs/agents.md"), read("tests/agents/versions.txt"));
    let known: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    let (_, table) = page.split_once("| agent | version | runs |").expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| "));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.trim_start_matches("| ").split(" | ").collect()).collect();
    assert_eq!(rows.len(), known.len(), "docs/agents.md says how its table is made");
    for row in rows {
        assert!(known.iter().any(|agent| agent[0] == row[0] && agent[3] == row[1]), "{row:?}");
        assert!(row[2].parse::<u32>().is_ok_and(|runs| runs >= 10), "{row:?}");
    }
}

#[test]
fn the_object_is_the_one_that_is_recorded() {
    let record = record();
    assert_eq!(
        sources::recorded(&record, "object"),
        Some(sources::digest_of(&object()).as_str()),
        "the object and its record do not belong together; run `cargo xtask ebpf build`"
    );
}

#[test]
fn every_program_and_map_of_the_vocabulary_is_in_the_object_and_nothing_else() {
    let bytes = object();
    let elf = object::File::parse(&*bytes).expect("an ELF file");
    let section_of = |symbol: &object::Symbol<'_, '_>| {
        let section = elf.section_by_index(symbol.section_index()?).ok()?;
        section.name().ok().map(str::to_owned)
    };
    let mut programs = Vec::new();
    let mut maps = Vec::new();
    for symbol in elf.symbols().filter(object::Symbol::is_global) {
        let (Ok(name), Some(section)) = (symbol.name(), section_of(&symbol)) else { continue };
        match section.as_str() {
            "maps" | ".maps" => maps.push(name),
            // Globals, and the functions that programs call.
            "license" | ".text" => {}
            data if data.starts_with(".rodata") || data.starts_with(".data") || data.starts_with(".bss") => {}
            _ => programs.push(name),
        }
    }
    let mut wanted_programs = PROGRAMS.map(|program| program.name);
    let mut wanted_maps = MAPS;
    programs.sort_unstable();
    maps.sort_unstable();
    wanted_programs.sort_unstable();
    wanted_maps.sort_unstable();
    assert_eq!(programs, wanted_programs);
    assert_eq!(maps, wanted_maps);
}

#[test]
fn the_object_carries_btf_and_no_debug_sections() {
    let bytes = object();
    let elf = object::File::parse(&*bytes).expect("an ELF file");
    assert!(elf.section_by_name(".BTF").is_some_and(|section| section.size() > 0));
    assert!(elf.sections().filter_map(|section| section.name().ok()).all(|name| !name.starts_with(".debug")));
}
