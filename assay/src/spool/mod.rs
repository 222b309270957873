//! The spool: where the records of a host's runs lie, out of reach of what was run.
//!
//! A run's files are written into a staging directory, and then committed: one line of the chain names the run, its files
//! and the line before it, so that removal and change show. Everything that is read here may have been tampered with.
//!
//! Pure are `entry`, `begun`, `chain`, `lines`, `fault`, `query`, `signed` and `told_names`; the rest is I/O.

pub mod append;
pub mod attest;
pub mod begun;
pub mod chain;
pub mod check;
pub mod collect;
pub mod directory;
pub mod entry;
pub mod error;
pub mod export;
pub mod fault;
pub mod index;
pub mod lines;
pub mod query;
pub mod recover;
pub mod signed;
pub mod staging;
pub mod store;
pub mod told_names;
pub mod usage;
pub mod writer;

pub use begun::{Begin, Writer};
pub use entry::{Summary, User};
pub use error::SpoolError;
pub use recover::Recovered;
pub use staging::{Committed, Staging};
pub use store::Spool;
