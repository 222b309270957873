//! Canonical JSON (RFC 8785) and content digests. Pure: imports nothing else of this crate.

pub mod digest;
pub mod read;
pub mod value;
pub mod write;
