//! What needs root and a real kernel: one binary, one module a subject. `cargo xtask kernel` runs it.

mod confined;
mod enforce;
mod harness;
mod launch;
mod load;
mod needs;
mod oracle;
mod shutdown;
mod terminal;
mod transparency;
