//! The oracle's own parts are tested where no privilege is needed; the oracle itself runs among the kernel tests.

#[path = "../kernel/harness/mod.rs"]
#[expect(dead_code, reason = "here only its tests run")]
mod harness;
