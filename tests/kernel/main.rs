//! What needs root and a real kernel: one binary, one module a subject. `cargo xtask kernel` runs it.

mod confined;
mod enforce;
mod harness;
mod needs;
mod oracle;
