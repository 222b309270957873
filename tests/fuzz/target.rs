//! One target of `check::TARGETS`, for libFuzzer: which one, `ASSAY_FUZZ_TARGET` says.
#![no_main]

use std::sync::OnceLock;

mod check;

static CHECK: OnceLock<fn(&[u8])> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let check = CHECK.get_or_init(|| {
        let wanted = std::env::var("ASSAY_FUZZ_TARGET").expect("ASSAY_FUZZ_TARGET names a target");
        let found = check::TARGETS.iter().find(|(name, _)| *name == wanted);
        found.unwrap_or_else(|| panic!("no target `{wanted}`")).1
    });
    check(bytes);
});
