//! The service that watches the runs of ordinary users: it loads the kernel half once, admits who may, and gives every
//! connection a process of its own, a copy of itself. It reads nothing that a client sends.
//!
//! One thread, for a process with two cannot be copied; one loop over descriptors ([`serve`]). What a worker does with its
//! connection is passed in ([`worker::Served`]), and what is to be said goes through [`log::Log`].

pub mod activation;
pub mod counts;
pub mod crew;
pub mod entrance;
pub mod groups;
pub mod hush;
pub mod journal;
pub mod limits;
pub mod log;
pub mod metrics;
pub mod notify;
pub mod peer;
pub mod peer_options;
pub mod plan;
pub mod report;
pub mod said;
pub mod scrape;
pub mod serve;
pub mod socket_file;
pub mod stopping;
pub mod store;
pub mod worker;
