//! Loads the kernel half, attaches it, and reads its ring: the only user of aya.

pub mod btf;
pub mod late;
pub mod observer;
pub mod plan;
pub mod programs;
pub mod ring;

pub use observer::{Observer, ObserverConfig};
