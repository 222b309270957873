//! Values and their texts: canonical JSON (RFC 8785), YAML, content digests. Pure: imports nothing else of this crate.

pub mod digest;
pub mod indented;
pub mod node;
pub mod read;
pub mod shape;
pub mod value;
pub mod write;
pub mod yaml;
