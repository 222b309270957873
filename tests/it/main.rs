//! What can be tested without privileges, from outside: one binary, one module a subject.

mod attest;
mod evidence;
mod formats;
mod freshness;
mod independent;
mod mutations;
mod oracle;
mod policy;
mod reference;
mod replay;
mod sample;
mod schema;
