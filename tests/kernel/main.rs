//! What needs root and a real kernel: one binary, one module a subject. `cargo xtask kernel` runs it.

mod actor;
mod confined;
mod degraded;
mod determinism;
mod enforce;
mod harness;
mod held;
mod launch;
mod load;
mod loss;
mod matrix;
mod needs;
mod oracle;
mod scope;
mod shutdown;
mod terminal;
mod transparency;
