//! What needs root and a real kernel: one binary, one module a subject. `cargo xtask kernel` runs it.

#![expect(
    clippy::items_after_statements,
    clippy::format_collect,
    clippy::struct_excessive_bools,
    clippy::similar_names,
    clippy::unused_self,
    reason = "scripts stand beside the steps that run them, short texts are made once, facts are asked for by name"
)]

mod actor;
mod again;
mod agents;
mod by_name;
mod canonical;
mod capable;
mod checked;
mod ci;
mod client;
mod clients;
mod clock;
mod compat;
mod confined;
mod daemon;
mod degradations;
mod degraded;
mod denials;
mod determinism;
mod devices;
mod elsewhere;
mod enforce;
mod evasions;
mod exec;
mod exec_matrix;
mod exported;
mod faults;
mod file;
mod flood;
mod formats;
mod greeted;
mod guides;
mod harness;
mod heir;
mod held;
mod hostile_places;
mod hosts;
mod inside;
mod kept;
mod launch;
mod load;
mod loss;
mod matrix;
mod modes;
mod named;
mod names;
mod needs;
mod net_matrix;
mod network;
mod one_more;
mod oracle;
mod other_names;
mod pages;
mod peers;
mod places;
mod readme;
mod recipes;
mod refused;
mod replay;
mod reported;
mod rights;
mod scope;
mod served;
mod shutdown;
mod stability;
mod stage;
mod terminal;
mod traffic;
mod transparency;
mod unapplied;
mod uring;
mod wishes;
mod witness;
mod written;
