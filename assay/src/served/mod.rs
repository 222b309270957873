//! A run that is served: its client is the command's parent and has no rights, its worker has them and keeps the record.
//!
//! What crosses between them is a few frames ([`wire`]) with messages ([`message`]) and descriptors. Neither side believes
//! the other: sizes, counts and words are checked, and what a client says of a process is asked of the kernel.
//!
//! ```text
//! client                          worker (one for a run, forked from the daemon)
//!   Ask: what is wanted     ─>      group, private directory
//!   launcher started        <─      Launch
//!   Launched: its line      ─>      ids mapped, put into the group, mounts made, told what to do
//!   the command runs                the observer reads
//!   Ended                   ─>      descendants settled, record made, kept, handed on
//!   artifacts in place      <─      Over
//! ```

/// Where the daemon listens, unless it is told otherwise.
pub const SOCKET: &str = "/run/assay/assay.sock";

pub mod ask;
pub mod client;
pub mod duty;
pub mod keeping;
pub mod loaded;
pub mod message;
pub mod policy_files;
pub mod reserve;
pub mod wire;
pub mod worker;
