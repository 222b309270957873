//! What can be tested without privileges, from outside: one binary, one module a subject.

mod attest;
mod ci;
mod damaged;
mod differences;
mod evidence;
mod export;
mod formats;
mod freshness;
mod guides;
mod independent;
mod memory;
mod messages;
mod mutations;
mod nothing_runs;
mod oracle;
mod outputs;
mod policy;
mod python;
mod reference;
mod replay;
mod report;
mod sample;
mod schema;
mod schemas;
mod secrets;
mod sensitivity;
