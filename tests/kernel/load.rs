//! The kernel half loads on this kernel, with every field it needs.

use std::time::Instant;

use assay::observe::kernel::programs::Programs;

use crate::needs::{Need, are_met};

#[test]
fn every_program_passes_the_verifier_and_no_field_is_missing() {
    if !are_met("load::every_program_passes_the_verifier", &[Need::Root, Need::Btf]) {
        return;
    }
    let begin = Instant::now();
    let programs = Programs::load(1, &[]).unwrap_or_else(|error| panic!("{error}: {error:?}"));
    println!("loaded and attached in {} ms", begin.elapsed().as_millis());
    // An io_uring of 6.1 has no request to bind, so there is nothing to read of it.
    let missing: Vec<&String> =
        programs.missing_fields().iter().filter(|field| !field.starts_with("io_bind.")).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
