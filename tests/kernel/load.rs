//! The kernel half loads on this kernel, with every field it needs.

use std::time::Instant;

use assay::observe::kernel::answers::NamesWanted;
use assay::observe::kernel::programs::{Programs, ProgramsError};
use assay::observe::kernel::{Counting, ObserverConfig};

use crate::harness::sandbox::cgroup_roots;
use crate::needs::{Need, are_met};

fn config() -> ObserverConfig {
    ObserverConfig {
        group_id: 0,
        level: 1,
        group: cgroup_roots()[0].clone(),
        names: None,
        inherited: Vec::new(),
        sockets: Vec::new(),
        counting: Counting::default(),
        second_witness: true,
    }
}

#[test]
fn every_program_passes_the_verifier_and_no_field_is_missing() {
    if !are_met("load::every_program_passes_the_verifier", &[Need::Root, Need::Btf, Need::CgroupV2]) {
        return;
    }
    let config = config();
    let begin = Instant::now();
    let names = NamesWanted {
        ends: vec![b"tset.a\0".to_vec()],
        denies: vec![true],
        servers: vec![[127, 0, 0, 1].into()],
    };
    let config = ObserverConfig { names: Some(names), ..config };
    let programs = Programs::load(&config).unwrap_or_else(|error| panic!("{error}: {error:?}"));
    println!("loaded and attached in {} ms", begin.elapsed().as_millis());
    println!("second witness: {}", programs.no_witness().unwrap_or("present"));
    // An io_uring of 6.1 has no request to bind, so there is nothing to read of it.
    let missing: Vec<&String> =
        programs.missing_fields().iter().filter(|field| !field.starts_with("io_bind.")).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(programs.unseen_packets(), None);
    assert_eq!(programs.unseen_copies(), None);
    assert!(programs.addresses().is_some(), "{programs:?}");
}

/// Instructions that the verifier went through, on the kernel that is named first. Regenerate it by hand from the message
/// of the test below, and say in the commit why a program grew.
const VERIFIED: &str = include_str!("verified.txt");
/// The same for the programs of the second witness, on a kernel that loads them.
const VERIFIED_HOOKS: &str = include_str!("verified-hooks.txt");

/// The verifier's time is the user's time: no program grows by a quarter without somebody saying so.
#[test]
fn no_program_grows_by_a_quarter_unnoticed() {
    let needs = [Need::Root, Need::Btf, Need::CgroupV2, Need::Kernel(series_of(VERIFIED))];
    if !are_met("load::no_program_grows_by_a_quarter_unnoticed", &needs) {
        return;
    }
    hold_to("verified.txt", VERIFIED, Programs::verified);
}

#[test]
fn no_program_of_the_second_witness_grows_by_a_quarter_unnoticed() {
    let series = Need::Kernel(series_of(VERIFIED_HOOKS));
    let needs = [Need::Root, Need::Btf, Need::CgroupV2, Need::BpfLsm, series];
    if !are_met("load::no_program_of_the_second_witness_grows_by_a_quarter_unnoticed", &needs) {
        return;
    }
    hold_to("verified-hooks.txt", VERIFIED_HOOKS, Programs::verified_hooks);
}

/// The kernel that a list was taken on. Other verifiers count otherwise.
fn series_of(list: &'static str) -> &'static str {
    list.lines().next().and_then(|line| line.strip_prefix("kernel ")).expect("the kernel it was taken on")
}

type Verified = Result<Vec<(&'static str, u64)>, ProgramsError>;

fn hold_to(file: &str, list: &'static str, verified: impl FnOnce(&Programs) -> Verified) {
    let programs = Programs::load(&config()).unwrap_or_else(|error| panic!("{error}: {error:?}"));
    let now = verified(&programs).expect("the kernel tells");
    let table: String = now.iter().map(|(name, count)| format!("{name} {count}\n")).collect();
    let series = series_of(list);
    println!("kernel {series}\n{table}");
    let known: Vec<(&str, u64)> = list
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(' '))
        .map(|(name, count)| (name, count.parse().expect("a number")))
        .collect();
    assert_eq!(known.len(), now.len(), "{file} lists other programs; they are now\nkernel {series}\n{table}");
    for (name, count) in now {
        let before = known.iter().find(|(known, _)| *known == name).map(|(_, before)| *before);
        let before = before.unwrap_or_else(|| panic!("{file} does not have `{name}`; now\n{table}"));
        assert!(
            count <= before + before / 4,
            "`{name}` grew from {before} to {count}; all are\nkernel {series}\n{table}"
        );
    }
}
