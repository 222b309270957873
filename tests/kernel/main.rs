//! What needs root and a real kernel: one binary, one module a subject. `cargo xtask kernel` runs it.

mod actor;
mod compat;
mod confined;
mod degraded;
mod determinism;
mod enforce;
mod exec;
mod file;
mod harness;
mod held;
mod launch;
mod load;
mod loss;
mod matrix;
mod names;
mod needs;
mod network;
mod oracle;
mod rights;
mod scope;
mod shutdown;
mod stage;
mod terminal;
mod transparency;
mod uring;
mod written;
