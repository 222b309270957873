//! assay runs a command and keeps an independent, deterministic record of what it really did.
//!
//! ```text
//! kernel ─ring─> observe::kernel ─bytes─> decode ─> resolve ─> filter ─> profile ─> evidence ─> report
//!                     │                                                      │           └─> archive ─> file
//!                     └── host ──> plan                     policy ──> enforce ──> kernel
//! ```
//!
//! Data flows one way; the module list below is in that order. Who may import what is a table in `xtask tidy`.

pub mod canon;
pub mod cli;
pub mod daemon;
pub mod enforce;
pub mod evidence;
pub mod exit;
pub mod host;
pub mod observe;
pub mod policy;
pub mod profile;
pub mod report;
pub mod sandbox;
pub mod served;
pub mod spool;
