//! Loads the kernel half, attaches it, and reads its ring: the only user of aya.

pub mod answers;
pub mod begun;
pub mod btf;
pub mod btf_file;
mod clearing;
pub mod counted;
pub mod late;
pub mod object;
pub mod observer;
pub mod plan;
pub mod programs;
pub mod ring;
pub mod shared;
mod slot;
#[cfg(test)]
mod stack;
mod told;
mod traffic;
mod witness;

pub use observer::{Observer, ObserverConfig};
pub use programs::{Counting, Failures};
pub use shared::{Shared, SharedConfig};
