//! What crosses the ring between the kernel half and the userspace half of assay, defined once.
//!
//! Nothing here does anything: layouts, numbers, names, the table of system calls and what their results mean. Both halves are built from
//! it, so neither can drift.
#![no_std]

pub mod calls;
pub mod either;
pub mod hooks;
pub mod kind;
pub mod limits;
pub mod loss;
pub mod names;
pub mod offsets;
pub mod record;
pub mod result;
pub mod served;
pub mod traffic;

/// Version of everything in this crate; a saved stream carries it. Changed with any layout or number.
pub const WIRE_VERSION: u32 = 1;
