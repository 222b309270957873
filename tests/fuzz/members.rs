//! See `check::members`. The first line is the manifest.
#![no_main]

mod check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    check::members(&bytes[..at], bytes.get(at + 1..).unwrap_or_default());
});
