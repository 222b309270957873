//! Observations → effects: the canonicaliser and what it makes. Pure.

pub mod acts;
pub mod canonical;
pub mod content_address;
pub mod diff;
pub mod effect;
pub mod identity;
pub mod merge;
pub mod name;
pub mod naming;
pub mod paths;
pub mod ports;
pub mod processes;
pub mod redact;
pub mod roots;
pub mod secrets;
pub mod settle;
pub mod suggest;
pub mod temp_forms;
pub mod timestamp;
pub mod volatile;
pub mod wire;
