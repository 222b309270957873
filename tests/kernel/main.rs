//! What needs root and a real kernel: one binary, one module a subject. `cargo xtask kernel` runs it.

mod harness;
mod load;
mod needs;
mod oracle;
